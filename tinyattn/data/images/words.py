"""Visual words: clusters of image patches by k-means (Lloyd 1982; Sivic & Zisserman 2003)."""

import numpy as np

MOST = 20_000            # patches for learning
ROUNDS = 50
AT_ONCE = 1 << 22        # distances in one computation


def learn_words(patches: np.ndarray, n_words: int, rng: np.random.Generator) -> np.ndarray:
    """(n_words, F): centres, each the mean of the patches nearest to it. Shapes: patches (M, F).

    Initial centres are patches, drawn in proportion to the squared distance to the nearest earlier one (k-means++;
    Arthur & Vassilvitskii 2007). A centre without patches stays.
    Raises ValueError where the patches drawn, at most MOST, have fewer than `n_words` different ones.
    """
    some = patches[rng.permutation(len(patches))[:MOST]].astype(np.float64)
    centres = [some[rng.integers(len(some))]]
    far = np.sum((some - centres[0]) ** 2, axis=1)
    while len(centres) < n_words:
        if not far.any():
            drawn = "" if len(some) == len(patches) else f", of {MOST:,} that were drawn"
            raise ValueError(f"words is {n_words}, expected at most {len(centres)}, as many as there are different "
                             f"patches{drawn}")  # fmt: skip
        centres.append(some[rng.choice(len(some), p=far / np.sum(far))])
        far = np.minimum(far, np.sum((some - centres[-1]) ** 2, axis=1))
    words, owners = np.array(centres), None
    for _ in range(ROUNDS):
        before, owners = owners, nearest_words(some, words)
        if before is not None and np.array_equal(owners, before):
            break
        counts = np.bincount(owners, minlength=n_words)[:, None]
        sums = np.zeros_like(words)
        np.add.at(sums, owners, some)
        words = np.where(counts > 0, sums / np.maximum(counts, 1), words)
    return words.astype(np.float32)


def nearest_words(patches: np.ndarray, words: np.ndarray) -> np.ndarray:
    """The number of the word nearest to each patch. Shapes: patches (..., F), words (V, F) -> (...)."""
    flat, half = patches.reshape(-1, patches.shape[-1]), np.sum(words**2, axis=1) / 2
    some = max(1, AT_ONCE // len(words))
    parts = [np.argmin(half - flat[i : i + some] @ words.T, axis=1) for i in range(0, len(flat), some)]
    return np.concatenate(parts).reshape(patches.shape[:-1])
