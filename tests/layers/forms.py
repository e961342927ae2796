"""Every block: the readable forms, and the faster form of the default."""

from tinyattn.forms import readable
from tinyattn.layers import BLOCK_FORMS, Block, FeedForward, LayerNorm, MultiHead

FORMS = [*BLOCK_FORMS, "fast pre"]


class AsRead(Block):
    def forward(self, *args, **options):
        with readable():
            return super().forward(*args, **options)


def block_of(form, heads=2, *, hidden=None, bias=True, output=True, eps=1e-5, rate=0.0):
    """A block of multi-head attention."""
    kind, mixer = Block if form == "fast pre" else AsRead, MultiHead(heads, bias=bias, output=output)
    return kind(mixer, form.removeprefix("fast "), LayerNorm(eps), FeedForward(hidden), rate)
