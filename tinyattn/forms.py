"""Which of two equal forms computes: the readable one, which is the definition, or a faster one of `fast/`.

    with readable():
        y, cache = block.forward(p, x)           calls layer_norm, linear and softmax, not norm_linear

A readable form with a faster one is marked `@replaceable`, and FASTER names the faster form. It takes the same
arguments and computes the same numbers to rounding. For arguments that do not suit it, it returns NotImplemented, and
the readable form computes. Only `replaceable` makes this choice.

The choice holds for forwards that the calling thread runs inside the `with`. The cache of a faster forward has a
`backward`, which the layer's backward calls, so a backward may run inside or outside.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

# readable form -> faster form. The module of a faster form is imported when it is first called.
FASTER = {
    "layers.block.Block.forward": "fast.block.fused_pre_block",
    "layers.dense.dense_backward": "fast.kernels.plain_dense_backward",
    "layers.dropout_mask.add_dropped": "fast.kernels.add_dropped",
    "layers.dropout_mask.dropout_mask": "fast.kernels.dropout_mask",
    "layers.feed_forward.feed_forward": "fast.kernels.feed_forward",
    "layers.mechanisms.full.Full.forward": "fast.tiles.full_attention",
    "layers.mechanisms.window.Window.forward": "fast.windows.window",
    "layers.mechanisms.patterned.Patterned.forward": "fast.blocks.patterned",
    "layers.mechanisms.longformer.Longformer.forward": "fast.blocks.longformer",
    "layers.mechanisms.grid_windows.GridWindows.forward": "fast.blocks.grid_windows",
    "layers.mixers.mixer.Mixer.at": "fast.one_query.multi_head_at",
    "layers.norm.norm": "fast.kernels.norm",
    "layers.norm.norm_backward": "fast.kernels.norm_backward",
    "layers.rows.table_gradient": "fast.tables.sum_rows",
    "layers.positions.learned.Learned.add_backward": "fast.tables.learned_backward",
    "models.cross_entropy.smoothed_loss": "fast.kernels.smoothed_loss",
    "models.cross_entropy.table_loss": "fast.classes.table_loss",
    "models.neural.NeuralRecommender._states": "fast.one_history.states",
    "models.next_item.NextItemNetwork.extending": "fast.one_token.items",
    "models.objectives.bce": "fast.kernels.bce",
    "models.objectives.first_is_target": "fast.kernels.first_is_target",
    "models.transformers.decoder.DecoderNetwork.extending": "fast.one_token.text",
    "training.adam.adam": "fast.kernels.adam",
    "training.learner.Learner.lazy_tables": "training.lazy.lazy_tables",
    "tree.add_to": "fast.kernels.add_to",
}

_READABLE: ContextVar[bool] = ContextVar("readable", default=False)


@contextmanager
def readable(wanted: bool = True) -> Iterator[None]:
    """A context in which the readable forms compute; with False, the faster ones."""
    before = _READABLE.set(wanted)
    try:
        yield
    finally:
        _READABLE.reset(before)


def is_readable() -> bool:
    """Do the readable forms compute?"""
    return _READABLE.get()


def replaceable(form: F) -> F:
    """Mark a readable form with an entry in FASTER: the faster form is called first, except inside `readable`."""
    name = f"{form.__module__.partition('.')[2]}.{form.__qualname__}"

    @wraps(form)
    def chosen(*args: Any, **options: Any) -> Any:
        if not _READABLE.get():
            module, function = _place(FASTER[name])
            result = getattr(module, function)(*args, **options)
            if result is not NotImplemented:
                return result
        return form(*args, **options)

    return cast("F", chosen)


@cache
def _place(name: str) -> tuple[Any, str]:
    """The module of a faster form, and the function's name there."""
    module, _, function = name.rpartition(".")
    return import_module(f"{__package__}.{module}"), function
