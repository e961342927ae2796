"""Random cases for properties: sizes, masks, dtypes and entries.

All randomness comes from one function that chooses from a sequence. A seeded NumPy generator gives the same cases on
every machine. If a case fails, hypothesis draws others, and shrinks them towards the front of every sequence.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from .property import LEADS, Case, Leads

DTYPES = (np.float64, np.float32)
MASKS = ("random", "left", "window")  # forms of large masks
Choose = Callable[[Sequence[Any]], Any]


class CaseDrawer:
    """Draws the parts of one case. Entries are small whole numbers, easy to read, or normally distributed.

    With `wide`, sizes are 20 to 70. With `long`, there are about 300 tokens, and other sizes are small. `long` is the
    form of the masks, one of MASKS; "none" leaves out all optional arguments.
    """

    def __init__(self, choose: Choose, leads: Leads = LEADS, wide: bool = False, long: str = ""):
        self.choose, self.wide, self.long = choose, wide, long
        self.lengths: list[int] = []  # of token axes
        self.lead: tuple[int, ...] = choose(leads)
        self.dtype = choose(DTYPES)
        self.whole = choose((True, False, False))
        self.rng = np.random.default_rng(choose(range(2**16)))

    @classmethod
    def seeded(cls, seed: int | tuple[int, ...], leads: Leads = LEADS, wide: bool = False) -> "CaseDrawer":
        """The same case for the same seed, or seeds, on every machine."""
        rng = np.random.default_rng([*seed, 7] if isinstance(seed, tuple) else [seed, 7])
        return cls(lambda options: options[int(rng.integers(len(options)))], leads, wide)

    def size(self, low: int = 1, high: int = 7) -> int:
        return self.choose(range(20, 71) if self.wide else range(low, min(high, 4) + 1 if self.long else high + 1))

    def tokens(self, low: int = 1, high: int = 7) -> int:
        """The length of an axis of tokens: with `long`, more than two blocks of 128."""
        self.lengths.append(self.choose(range(270, 331)) if self.long else self.size(low, high))
        return self.lengths[-1]

    def size_like(self, other: int) -> int:
        """A size that is often equal to another axis's, so that code cannot identify axes by their sizes."""
        if self.choose((False, False, True)):
            return other
        return self.tokens() if self.long and other in self.lengths else self.size()

    def flag(self) -> bool:
        return self.choose((False, True)) if not self.long else self.long != "none"

    def array(self, *shape: int, size: float = 1.0) -> np.ndarray:
        """Entries of about `size`; one in twenty is 0."""
        x = self.rng.integers(-2, 4, shape).astype(float) if self.whole else self.rng.standard_normal(shape)
        x = np.where(self.rng.random(shape) < 0.05, 0.0, x)
        return np.asarray(size * x, self.dtype)

    def mask(self, *shape: int) -> np.ndarray:
        """True = may look; some rows are all True, and some all False.

        Large masks may hide whole blocks: the first half of the keys ("left"), or all but the last 10 ("window").
        """
        form = self.long or (self.choose(MASKS) if self.wide else "random")
        if form in ("left", "window") and shape[-1] > 1:
            keys = np.arange(shape[-1])
            if form == "left" or shape[-2:-1] in ((), (1,)):
                return np.broadcast_to(keys >= shape[-1] // 2, shape).copy()
            queries = np.arange(shape[-2])[:, None]
            return np.broadcast_to((keys <= queries) & (keys > queries - 10), shape).copy()
        mask = self.rng.random(shape) < 0.7
        for value in (False, True):
            mask[self.rng.random(shape[:-1]) < 0.15] = value
        return mask

    def weights(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """Weights of positions in a loss: None, or positive with some zeros, never all zero."""
        if not self.flag():
            return None
        weights = np.asarray(self.rng.uniform(0.2, 2, shape) * (self.rng.random(shape) < 0.8), self.dtype)
        if weights.size and not np.any(weights):
            weights.reshape(-1)[0] = 1
        return weights


Draw = Callable[[CaseDrawer], Case]


def long_cases(case: Draw, count: int = 4) -> Iterator[Case]:
    """At most `count` cases of about 300 tokens, the same at every call; none where a case has no tokens."""
    for seed, form in enumerate(("none", "left", "window", "random")[:count]):
        rng = np.random.default_rng([seed, 11])

        def choose(options: Sequence[Any], rng: np.random.Generator = rng) -> Any:
            shapes = isinstance(options[0], tuple)  # the first shape is the one without broadcasting
            return options[0 if shapes else int(rng.integers(len(options)))]

        draw = CaseDrawer(choose, ((),), long=form)
        drawn = case(draw)
        if not draw.lengths:
            return
        yield drawn


@lru_cache(maxsize=32)
def seeded_cases(case: Draw, count: int, seed: int, leads: Leads, wide: bool, batch: int = 0) -> tuple[Case, ...]:
    """`count` cases, which all properties share: copy them before a call. Batch 0 begins with the simplest case."""
    drawers = [CaseDrawer.seeded((seed, i), leads, wide) for i in range(batch * count, (batch + 1) * count)]
    if batch == 0:
        drawers[0] = CaseDrawer(lambda options: options[0], leads, wide)
    return tuple(map(case, drawers))


def plainness(case: Case) -> Any:
    """A key that sorts cases: float64, few axes of length 1, few axes, sizes up to 4, and many arguments come first."""
    arrays = [x for x in case.values() if isinstance(x, np.ndarray)]
    sizes, axes = [size for x in arrays for size in x.shape], max((x.ndim for x in arrays), default=0)
    single, narrow = any(x.dtype == np.float32 for x in arrays), sum(size < 2 for size in sizes)
    return single, narrow, axes, max(sizes, default=0) > 4, -len(arrays)


def copied(case: Case) -> Case:
    """The case with copies of its arrays, also of those in a named tuple, such as Adam's moments."""
    return {name: of_arrays(np.ndarray.copy, x) for name, x in case.items()}


def in_dtype(x: Any, dtype: Any) -> Any:
    """x (an array, tuple or dictionary) with its arrays of floats in this dtype; x itself if the dtype is None."""
    return x if dtype is None else of_arrays(lambda y: y.astype(dtype, copy=False) if y.dtype.kind == "f" else y, x)


def of_arrays(f: Callable[[np.ndarray], np.ndarray], x: Any) -> Any:
    """x with f(array) in place of every array, also in tuples and dictionaries."""
    if isinstance(x, np.ndarray):
        return f(x)
    if isinstance(x, dict):
        return {name: of_arrays(f, value) for name, value in x.items()}
    if isinstance(x, tuple):
        parts = [of_arrays(f, value) for value in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    return x


def strategy(case: Draw, leads: Leads, wide: bool) -> Any:
    """A hypothesis strategy that draws cases."""
    from hypothesis import strategies as st

    @st.composite
    def cases(draw: Any) -> Case:
        return case(CaseDrawer(lambda options: options[draw(_place_in(len(options)))], leads, wide))

    return cases()


@cache
def _place_in(length: int) -> Any:
    """A strategy that draws an index; cached, since making one takes longer than drawing."""
    from hypothesis import strategies as st

    return st.sampled_from(range(length))


def layouts_of(case: Case) -> Iterator[tuple[str, Case]]:
    """The same entries in other memory layouts, each with its name."""
    arrays = {name: x for name, x in case.items() if isinstance(x, np.ndarray)}
    layouts: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "Fortran order": lambda x: np.array(x, order="F"),
        "strided": lambda x: np.stack([x, np.zeros_like(x)], axis=-1)[..., 0],
        "read-only": _read_only,
    }
    for name, rearranged in layouts.items():
        yield name, case | {n: rearranged(x) for n, x in arrays.items()}


def _read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x
