"""Every block there is: the forms as they read, and those whose pairs of norm and part have a faster form."""

from tinyattn.layers import BLOCK_FORMS, FeedForward, LayerNorm, MultiHead

FORMS = {form: {"form": form, "fast": False} for form in BLOCK_FORMS} | {"fast pre": {"form": "pre"}}


def made_of(form, heads=2, *, hidden=None, bias=True, output=True, eps=1e-5, rate=0.0):
    """The arguments of a `Block` of multi-head attention."""
    parts = {"mixer": MultiHead(heads, bias=bias, output=output), "norm": LayerNorm(eps)}
    return FORMS[form] | parts | {"feed_forward": FeedForward(hidden), "rate": rate}
