"""ALiBi: distant keys count less, by a slope per head (Press et al. 2022)."""

from dataclasses import dataclass
from typing import Any

from ...backend import Array
from ...ops import alibi
from .position import Position


@dataclass(frozen=True)
class ALiBi(Position):
    """score_ij = q_i · k_j / √d - 2^(-8 head / h) |i - j|. Nothing is learned."""

    name = "alibi"
    gives = frozenset({"bias"})

    def enter(self, p: Any, q: Array, k: Array, slots: Array) -> tuple[Array, Array, dict[str, Array], None]:
        return q, k, {"bias": alibi(q.shape[-2], k.shape[-2], q.shape[-3], like=q)}, None

    def terms(self, p: Any, q: Array, k: Array) -> dict[str, Array]:
        """Tokens are in reverse order here: the n queries are the first of the m tokens, at the same distances."""
        return {"bias": alibi(q.shape[-2], k.shape[-2], q.shape[-3], like=q)[..., ::-1, ::-1]}
