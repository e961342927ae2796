"""A difference between two rows of an experiment, over users and over seeds; users' ranks, written as letters."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..evaluation import ndcg, paired_difference

K = 5
RANKS = "ABCDEFGHIJKLMNOPQRST"   # a user's rank as a letter: A is 1, T is 20, and a point what is further down
T_95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571}     # Student's t, two-sided 95 %, by degrees of freedom


def difference(runs: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], k: int = K) -> str:
    """Cells of a table: mean difference of NDCG@k, its interval over users and over seeds, and its share of the other.

    Runs are paired by their seeds. **Over seeds**: the interval of Student's t for the mean of the differences of
    pairs; it says what other seeds might show, of these users.
    """
    runs, others = in_pairs(runs, others)
    if not runs:
        return " | | | "
    mine, theirs = (_by_user(found, k) for found in (runs, others))
    by_seed = mine.mean(axis=1) - theirs.mean(axis=1)
    share = f"{np.mean(by_seed) / theirs.mean():+.1%}" if np.any(theirs) else ""
    return " | ".join([over_users(runs, others, k), _over_seeds(by_seed), share])


def in_pairs(
    runs: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The runs of seeds that both have, in the same order."""
    mine, theirs = ({run["row"]["seed"]: run for run in found} for found in (runs, others))
    both = [seed for seed in mine if seed in theirs]
    return [mine[seed] for seed in both], [theirs[seed] for seed in both]


def over_users(runs: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], k: int = K) -> str:
    """Two cells: the mean difference of NDCG@k, and its interval over users.

    Each user's NDCG is averaged over the runs first, and users are drawn with replacement; it says what other users
    might show, of these seeds.
    """
    if not runs or not others:
        return " | "
    mine, theirs = (_by_user(found, k).mean(axis=0) for found in (runs, others))
    found = paired_difference(mine, theirs)
    return f"{found.mean:+.4f} | {found.low:+.4f} to {found.high:+.4f}"


def _by_user(runs: Sequence[dict[str, Any]], k: int) -> np.ndarray:
    """NDCG@k, shape (runs, users). Raises ValueError for a k of which the letters say nothing."""
    if k > len(RANKS):
        raise ValueError(f"k is {k}, expected at most {len(RANKS)}: ranks are written down as far as that")
    return np.array([ndcg(ranks_of(run["ranks"]), k) for run in runs])


def t_95(freedom: int) -> float:
    """The two-sided 95 % point of Student's t: from the table, or by Abramowitz & Stegun 1972, 26.7.5, to 0.001."""
    if freedom in T_95:
        return T_95[freedom]
    z = 1.959964
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return sum(term / freedom**i for i, term in enumerate(terms))


def _over_seeds(differences: np.ndarray) -> str:
    n = len(differences)
    if n < 2:
        return ""
    half = t_95(n - 1) * float(np.std(differences, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(differences))
    return f"{mean - half:+.4f} to {mean + half:+.4f}"


def letters(ranks: np.ndarray) -> str:
    """A letter a user, of RANKS; a rank between two, which comes of ties, counts as the worse one."""
    found = np.frombuffer((RANKS + ".").encode(), dtype=np.uint8)[np.minimum(np.ceil(ranks).astype(int), 21) - 1]
    return found.tobytes().decode()


def packed(lists: np.ndarray) -> str:
    """Lists of item numbers as one text: their shape, the type of a number, and base64. Shapes: (users, k)."""
    kind = "<u2" if np.max(lists, initial=0) < 1 << 16 else "<u4"
    return f"{len(lists)} {lists.shape[1]} {kind} {b64encode(lists.astype(kind).tobytes()).decode()}"


def unpacked(text: Any) -> np.ndarray:
    """The lists (users, k) that `packed` has written down, or that an older version wrote as such.

    Raises ValueError for anything else.
    """
    if isinstance(text, list):
        found = np.array(text)
    else:
        users, k, kind, numbers = str(text).split(" ")
        if kind not in ("<u2", "<u4"):
            raise ValueError(f"{kind} is no type of item numbers")
        found = np.frombuffer(b64decode(numbers, validate=True), kind).reshape(int(users), int(k))
    if found.ndim != 2 or not found.size or found.dtype.kind not in "iu" or found.min() < 0:
        raise ValueError("expected lists of item numbers, of one length")
    return found


def ranks_of(letters: str) -> np.ndarray:
    """The ranks that `letters` has written down, (users,); infinite where they are beyond 20."""
    found = np.array([RANKS.find(letter) + 1 for letter in letters], dtype=float)
    found[found == 0] = np.inf
    return found
