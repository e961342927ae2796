"""Rotary positions: queries and keys are rotated by their places (Su et al. 2021). Long texts can use scaled angles."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...backend import Array, get_xp
from ...ops import rotary, rotary_backward, rotary_speeds, rotary_tables
from ...ops.positions.rotary_speeds import SCALINGS
from ...options import option
from .position import Position


@dataclass(frozen=True)
class RoPE(Position):
    """score_ij = a² (R_i q_i) · (R_j k_j) / √d.

    a is 1; with scaling yarn it is 0.1 ln(factor) + 1, for a sharper softmax (Peng et al. 2023, section 3.4).
    Only the distance of two tokens matters, so positions are counted from the first token of each sequence, and one
    table serves all. Heads must have an even width.
    """

    rope_base: float = option(10000.0, "base of the angles, from 1 radian a token down to about 1 / base", above=0)
    rope_scaling: str = option(
        "none", "how angles change for texts longer than in training: all pairs turn slower, by `rope_factor` "
        "(linear), or only the slow ones (ntk, yarn, llama3)", choices=SCALINGS,
    )  # fmt: skip
    rope_factor: float = option(1.0, "how many times longer texts may be, with a rope_scaling", at_least=1)
    rope_trained: int = option(2048, "tokens of a text in training (rope_scaling yarn, llama3)", at_least=1)
    rope_slow: float = option(1.0, "pairs that turn less often in a trained text are scaled (yarn, llama3)", above=0)
    rope_fast: float = option(32.0, "pairs that turn more often are not scaled (yarn; Llama 3.1 has 4)", above=0)
    rope_amplitude: float | None = option(
        None, "a: queries and keys are multiplied by it (default: 1, with yarn 0.1 ln(rope_factor) + 1)", above=0
    )

    name = "rope"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rope_scaling == "none" and self.rope_factor != 1:
            raise ValueError(f"rope_factor is {self.rope_factor}, expected 1 without a rope_scaling")
        if self.rope_fast <= self.rope_slow:
            raise ValueError(f"rope_fast is {self.rope_fast}, expected above rope_slow, which is {self.rope_slow}")
        if self.rope_scaling == "yarn" and self.rope_base <= 1:
            raise ValueError(f"rope_base is {self.rope_base}, expected above 1 with rope_scaling yarn")

    @property
    def amplitude(self) -> float:
        """a, which multiplies queries and keys."""
        if self.rope_amplitude is None:
            return 0.1 * math.log(self.rope_factor) + 1 if self.rope_scaling == "yarn" else 1.0
        return self.rope_amplitude

    def refuse_width(self, width: int) -> None:
        if width % 2:
            raise ValueError(f"position rope turns features in pairs: heads of width {width}, expected an even width")

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], tuple[Any, Any]]:
        of_q, of_k = (_tables(get_xp(x), x.shape[-2], x.shape[-1], x.dtype, self) for x in (q, k))
        return rotary(q, *of_q), rotary(k, *of_k), {}, (of_q, of_k)

    def turn(self, p: Any, x: Array, first: int) -> Array:
        """As `rotary`, in few calls: a pair of features is a complex number, and a rotation is a product."""
        xp, stop = get_xp(x), first + x.shape[-2]
        rows = 1 << stop.bit_length()                           # a power of 2, so that few tables are made
        turns = _turns(xp, rows, x.shape[-1], x.dtype, self)[first:stop]
        return (xp.ascontiguousarray(x).view(turns.dtype) * turns).view(x.dtype)

    def enter_backward(
        self, p: Any, dq: Array, dk: Array, dterms: dict[str, Array], cache: tuple[Any, Any]
    ) -> tuple[Array, Array, dict[str, Any]]:
        return rotary_backward(dq, *cache[0]), rotary_backward(dk, *cache[1]), {}


@lru_cache(256)
def _tables(xp: Any, n: int, d: int, dtype: Any, rope: RoPE) -> tuple[Array, Array]:
    slots = xp.arange(n)
    options = rope.rope_scaling, rope.rope_factor, rope.rope_trained, rope.rope_slow, rope.rope_fast
    speeds = rotary_speeds(d, slots, rope.rope_base, *options)
    cos, sin = rotary_tables(slots, d, dtype, speeds=speeds)    # only ever read
    return (cos, sin) if rope.amplitude == 1 else (rope.amplitude * cos, rope.amplitude * sin)


@lru_cache(256)
def _turns(xp: Any, n: int, d: int, dtype: Any, rope: RoPE) -> Array:
    cos, sin = _tables(xp, n, d, dtype, rope)
    return cos + 1j * sin                                       # only ever read
