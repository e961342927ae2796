"""Differences between two rows of an experiment, over users and over seeds; ranks and lists as text."""

import re
import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from ..evaluation import ndcg, over_samples, paired_difference
from .experiment import Runs

K = 5
RANKS = "ABCDEFGHIJKLMNOPQRST"   # a user's rank as a letter: A is 1, T is 20; a point stands for any larger rank
KINDS = ("<u1", "<u2", "<u4")    # types of item numbers


def difference(runs: Runs, others: Runs, k: int = K) -> str:
    """Cells of a table: mean difference of NDCG@k, its intervals over users and seeds, its share of the others' mean.

    Runs are paired by their seeds. The interval over seeds is Student's, of the mean difference of pairs: it covers
    other seeds, and not other users.
    """
    runs, others = in_pairs(runs, others)
    if not runs:
        return " | | | "
    mine, theirs = (_by_user(each, k) for each in (runs, others))
    by_seed = mine.mean(axis=1) - theirs.mean(axis=1)
    share = f"{np.mean(by_seed) / theirs.mean():+.1%}" if np.any(theirs) else ""
    return " | ".join([over_users(runs, others, k), _over_seeds(by_seed), share])


def in_pairs(runs: Runs, others: Runs) -> tuple[Runs, Runs]:
    """The runs of the seeds that both have, in the same order."""
    mine, theirs = ({run["row"]["seed"]: run for run in each} for each in (runs, others))
    both = [seed for seed in mine if seed in theirs]
    return [mine[seed] for seed in both], [theirs[seed] for seed in both]


def over_users(runs: Runs, others: Runs, k: int = K) -> str:
    """Two cells: the mean difference of NDCG@k, and its bootstrap interval over users.

    Each user's NDCG is averaged over the runs first: the interval covers other users, and not other seeds.
    """
    if not runs or not others:
        return " | "
    mean, low, high = paired_difference(*(_by_user(each, k).mean(axis=0) for each in (runs, others)))
    return f"{mean:+.4f} | {low:+.4f} to {high:+.4f}"


def _by_user(runs: Runs, k: int) -> np.ndarray:
    """NDCG@k, shape (runs, users). Raises ValueError for a k beyond the ranks that letters write."""
    if k > len(RANKS):
        raise ValueError(f"k is {k}, expected at most {len(RANKS)}: ranks are written down as far as that")
    return np.array([ndcg(ranks_of(run["ranks"]), k) for run in runs])


def _over_seeds(differences: np.ndarray) -> str:
    if len(differences) < 2:
        return ""
    mean = over_samples(differences)
    return f"{mean.low:+.4f} to {mean.high:+.4f}"


def letters(ranks: np.ndarray) -> str:
    """A letter of RANKS for each user. A user with a larger rank is a point; several in succession are their number.

    A fractional rank, of ties, is rounded up.
    """
    text = "".join((RANKS + ".")[rank - 1] for rank in np.minimum(np.ceil(ranks).astype(int), 21))
    return re.sub(r"\.{2,}", lambda points: str(len(points[0])), text)


def ranks_of(letters: str) -> np.ndarray:
    """The ranks (users,) that `letters` wrote; infinite beyond 20. Raises ValueError for anything else."""
    runs = re.findall(rf"[{RANKS}.]|[0-9]{{1,8}}(?![0-9])", letters)
    if "".join(runs) != letters:
        raise ValueError(f"expected letters of {RANKS}, points and their numbers")
    users = [int(run) if run.isdigit() else 1 for run in runs]
    return np.repeat([RANKS.find(run) + 1 or np.inf for run in runs], users)


def packed(lists: np.ndarray) -> str:
    """Lists of item numbers as text: their shape, the type of a number, and base64 of zlib. Shapes: (users, k)."""
    largest = np.max(lists, initial=0)
    kind = next(kind for kind in KINDS if largest < 256 ** int(kind[-1]))
    return f"{len(lists)} {lists.shape[1]} {kind}z {b64encode(zlib.compress(lists.astype(kind).tobytes(), 9)).decode()}"


def unpacked(text: Any) -> np.ndarray:
    """The lists (users, k) that `packed` wrote, or older versions, as JSON or without zlib. ValueError otherwise."""
    if isinstance(text, list):
        lists = np.array(text)
    else:
        users, k, kind, numbers = str(text).split(" ")
        if kind.removesuffix("z") not in KINDS:
            raise ValueError(f"{kind} is no type of item numbers")
        content = b64decode(numbers, validate=True)
        if kind.endswith("z"):
            try:
                content = zlib.decompressobj().decompress(content, 8 * int(users) * int(k) + 1)
            except zlib.error:
                raise ValueError("the lists are no zlib") from None
        lists = np.frombuffer(content, kind.removesuffix("z")).reshape(int(users), int(k))
    if lists.ndim != 2 or not lists.size or lists.dtype.kind not in "iu" or lists.min() < 0:
        raise ValueError("expected lists of item numbers, of one length")
    return lists
