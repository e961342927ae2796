"""Strided attention: near tokens, and every ℓ-th of all (Child et al. 2019, section 4)."""

from dataclasses import dataclass

from ...ops.attention.patterns import Near, NearOrResidues, Pattern, Residues
from ...options import option
from .patterned import Patterned


@dataclass(frozen=True)
class Strided(Patterned):
    """Even heads look at the last ℓ tokens, odd heads at tokens a multiple of ℓ back.

    Through two blocks, every token reaches all that the mask allows. With ℓ near √n, the work grows with n √n. A single
    head looks at both. It computes no extra scores, but its queries share no blocks, so it is slow.
    """

    stride: int = option(
        8, "N: even heads look at the last N tokens, odd heads at tokens a multiple of N back; a single head does both",
        at_least=1,
    )

    name = "strided"
    linear_memory = False            # n √n at its best

    def patterns(self, causal: bool, heads: int) -> list[Pattern]:
        if heads == 1:
            return [NearOrResidues(causal, self.stride)]
        return [Near(causal, self.stride), Residues(causal, self.stride)]
