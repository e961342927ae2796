"""BigBird: near, global and random blocks of tokens (Zaheer et al. 2020)."""

from dataclasses import dataclass

from ...ops.attention import patterns
from ...options import option
from ..growing import GrowingRows
from .patterned import Patterned


@dataclass(frozen=True)
class BigBird(Patterned):
    """Full attention under the mask of `ops.attention.patterns.BigBird`, in time and memory that grow with n.

    Random blocks are drawn once: they are the same in every run, layer and head. Blocks draw from earlier ones, so
    that later tokens change no draw; without a causal mask both blocks of a drawn pair look at each other.
    """

    block_size: int = option(16, "tokens per block; the last block of a sequence may have fewer", at_least=1)
    window_blocks: int = option(
        2, "blocks that a query looks at: its own and the N - 1 before it; not causal: N - 1 on either side", at_least=1
    )
    global_blocks: int = option(
        1, "number of global blocks, the first ones: they and all others look at each other (causal: only back)",
        at_least=0,
    )
    random_blocks: int = option(1, "earlier blocks that each block draws, always the same", at_least=0, at_most=100_000)

    name = "bigbird"

    def patterns(self, causal: bool, heads: int) -> list[patterns.Pattern]:
        sizes = (self.block_size, self.window_blocks, self.global_blocks, self.random_blocks)
        return [patterns.BigBird(causal, *sizes)]

    def kept(self, rows: GrowingRows) -> GrowingRows:
        """Without random blocks the global blocks, and those that are near the next token; else all.

        Then the pattern is counted in rows of the cache. As whole blocks are dropped, and only between these two, each
        later query is near the same tokens as before.
        """
        size, tokens = self.block_size, rows.stop - rows.first
        first_near = tokens // size - self.window_blocks + 1
        return rows if self.random_blocks else rows.without(self.global_blocks * size, first_near * size)
