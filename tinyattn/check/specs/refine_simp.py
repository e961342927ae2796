"""M_simp: rows of scores compared with each other."""

from typing import Any

import numpy as np

from ..common import tolerance
from ..families import causal, linear_in
from ..property import close, largest
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("refine_simp")
linear_in(states, "W_Q")
linear_in(states, "W_K")


def drawn(draw: CaseDrawer, *maps: str, square: bool = True) -> dict[str, Any]:
    """Scores A, and maps of their columns or lags, shared by all leading axes or one for each."""
    lags, n = draw.flag(), draw.size()
    m = n if lags or square else draw.size_like(n)
    r, lead = draw.size_like(n), draw.choose((draw.lead, draw.lead[-1:], ()))
    arrays = {"A": draw.array(*draw.lead, n, m)} | {name: draw.array(*lead, m, r, size=m**-0.5) for name in maps}
    return arrays | {"scale": draw.choose((None, 0.4)), "lags": lags}


def case(draw: CaseDrawer) -> dict[str, Any]:
    return drawn(draw, "W_Q", "W_K", square=False)


def compares_rows(states: Any, *maps: str) -> None:
    """State the properties of a refinement that compares rows of A, and may read them by the lag."""
    causal(states, "A", of=lambda case: case | {"A": np.tril(case["A"])}, read=np.tril,
           hint="Entry (k, t) depends on the rows k and t of A.")  # fmt: skip

    @states("rounding", "read by the lag, a sequence that begins two positions later has the same numbers, shifted by two",
            hint="Ã[k, r] = A[k, k - r]. Which row of the maps belongs to the token two steps back?")  # fmt: skip
    def two_places_later(op: Subject, **case: Any) -> None:
        n = min(case["A"].shape[-2:])
        A = np.tril(case["A"][..., :n, :n])
        longer = {name: _padded(case[name][..., :n, :], (0, 2), (0, 0)) for name in maps} | {"lags": True}
        first, later = (op(**case | longer | {"A": _padded(A, zeros, zeros)}) for zeros in ((0, 2), (2, 0)))
        close(np.tril(later[..., 2:, 2:]), np.tril(first[..., :n, :n]), tolerance(op.spec, case), "two steps later, B")


def _padded(x: np.ndarray, rows: tuple[int, int], columns: tuple[int, int]) -> np.ndarray:
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [rows, columns])


compares_rows(states, "W_Q", "W_K")


def scale(case: dict[str, Any]) -> float:
    """Products of rows of A and of maps, and products of these."""
    maps = [W for name, W in case.items() if name.startswith("W")]
    X = largest(*(np.abs(case["A"]).sum(axis=-1, initial=0) * largest(W) for W in maps))
    return 2 * (X + 1) ** 2


SPEC = states.spec(
    "B = c X Yᵀ, X = A W_Q, Y = A W_K, c = scale or 1 / √r",
    "refine_simp(A, W_Q, W_K, scale=None, lags=False) -> B first: A (..., n, m), W_Q and W_K onto (..., m, r), "
    "B (..., n, n)",
    "lags: n = m, and Ã in place of A, with Ã_kr = A_{k,k-r}, 0 for r > k",
    case=case,
    outputs=("B",),
    wrt=("A", "W_Q", "W_K"),
    scale=scale,
)
