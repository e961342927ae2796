"""Speeds of rotary positions for texts that are longer than those a model was trained on.

In L tokens, the trained length, pair i turns r_i = L ω_i / 2π times. Pairs with r_i > 1 have turned through every
angle in training. Pairs with r_i < 1 have not, and beyond token L their angles are new to the model. To read s L
tokens, either all pairs are slowed down, or only the slow ones:

    linear    ω'_i = ω_i / s                              as if tokens were at p / s (Chen et al. 2023)
    ntk       ω'_i = ω_i s^(-i / (d/2 - 1))               the fastest pair keeps its speed, the slowest is slowed by s
    llama3    ω'_i = γ_i ω_i + (1 - γ_i) ω_i / s          γ_i = clip((r_i - slow) / (fast - slow), 0, 1)
    yarn      the same with another γ_i, linear in i and not in r_i

"linear" also slows the fast pairs, which alone tell neighbours apart. "ntk" is plain rotary positions with the base
b s^(d / (d - 2)) (Peng et al. 2023, section 3.1). The last two do not change pairs of more than `fast` turns. The γ of
"llama3" is that of Peng et al., section 3.2 (NTK-by-parts); Llama 3.1's code has fast = 4. The γ of "yarn" is that of
YaRN's released code, with which YaRN's weights were trained: 1 up to the pair of `fast` turns, rounded down, and 0 from
the pair of `slow` turns, rounded up. The pair of r turns is i = -(d/2) ln(2π r / L) / ln b.
"""

import math
from collections.abc import Callable

from ...backend import Array, get_xp

Scaling = Callable[[Array, float, float, float, float, float], Array]


def rotary_speeds(
    d: int, like: Array, base: float = 10000.0, scaling: str = "none", factor: float = 1.0, trained: float = 2048,
    slow: float = 1.0, fast: float = 32.0,
) -> Array:  # fmt: skip
    """ω'_i = f(ω_i), with ω_i = base^(-2i / d), i = 0 ... d/2 - 1, and f the scaling.

    Shapes: d the width of a head, `like` an array of the device -> (d/2,) in float64.
    Raises ValueError for an odd d, a base that is not positive, a scaling that is not in SCALINGS, a factor below 1, a
    trained length that is not positive, and fast that is not above slow.
    """
    xp = get_xp(like)
    for what, value, fits, expected in (
        ("d", d, d >= 0 and d % 2 == 0, "an even number"), ("base", base, base > 0, "a positive number"),
        ("base", base, base > 1 or scaling != "yarn", "above 1 with scaling yarn"),
        ("scaling", scaling, scaling in SCALINGS, "one of " + ", ".join(SCALINGS)),
        ("factor", factor, factor >= 1, "at least 1"),
        ("trained", trained, 0 < trained < math.inf, "a positive, finite number"),
        ("slow", slow, slow > 0, "a positive number"), ("fast", fast, fast > slow, f"above slow, which is {slow}"),
    ):  # fmt: skip
        if not fits:
            raise ValueError(f"rotary_speeds: {what} is {value}, expected {expected}")
    speeds = base ** (xp.arange(0, d, 2, dtype=xp.float64) / -max(d, 1))
    return SCALINGS[scaling](speeds, base, factor, trained, slow, fast)


def _ntk(speeds: Array, base: float, s: float, trained: float, slow: float, fast: float) -> Array:
    pairs = get_xp(speeds).arange(len(speeds), dtype=speeds.dtype)
    return speeds * s ** (-pairs / max(len(speeds) - 1, 1))


def _llama3(speeds: Array, base: float, s: float, trained: float, slow: float, fast: float) -> Array:
    turns = trained * speeds / (2 * math.pi)
    return _between((turns - slow) / (fast - slow), speeds, s)


def _yarn(speeds: Array, base: float, s: float, trained: float, slow: float, fast: float) -> Array:
    pairs = get_xp(speeds).arange(len(speeds), dtype=speeds.dtype)
    at = [-len(speeds) * math.log(2 * math.pi * r / trained) / math.log(base) for r in (fast, slow)]
    first, last = max(math.floor(at[0]), 0), min(math.ceil(at[1]), 2 * len(speeds) - 1)
    return _between(1 - (pairs - first) / (last - first if last != first else 0.001), speeds, s)


def _between(keep: Array, speeds: Array, s: float) -> Array:
    keep = get_xp(keep).clip(keep, 0, 1)
    return keep * speeds + (1 - keep) * speeds / s


SCALINGS: dict[str, Scaling] = {
    "none": lambda speeds, *_: speeds, "linear": lambda speeds, base, s, *_: speeds / s,
    "ntk": _ntk, "yarn": _yarn, "llama3": _llama3,
}  # fmt: skip
