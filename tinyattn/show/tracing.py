"""`trace(attention, q, k, v, mask)`: run any op, layer or model and keep every intermediate, forward and backward.

Every value that has a name in the source is kept, under that name and with the line that made it. `recorder.py` watches
functions from outside, so it can trace functions other than the library's too.
"""

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..backend import asarray, to_numpy
from ..check.binding import asked_of, bind, name_gradients, named_results
from ..tree import leaves
from .recorder import Recorder
from .records import is_array
from .sources import result_names
from .trace_result import Replay, Trace


def trace(
    forward: Any, *args: Any, backward: Any = None, engine: bool = False, seed: int = 0, limit: int = 64 << 20,
    **kwargs: Any,
) -> Trace:  # fmt: skip
    """Run `forward(*args, **kwargs)` and keep every line's values. -> Trace: print it, or show it in a notebook.

        t = trace(attention, q, k, v, mask)
        t["weights"], t["softmax.p"], t[7]       an array by name, by call and name, or by step
        t.picture("weights"), t.at(7), t.step(), t.back()

    `backward=True` also runs the backward, which is found by its name: `attention_backward` beside `attention`,
    `loss_backward` beside the method `loss`, `backward` beside `forward`. A function as `backward` is run instead.
    `forward` may be an object with `loss` and `loss_backward`. The backward takes its arguments by name, as in
    `gradcheck`: upstream gradients, then the forward's arguments and results. An upstream gradient may be passed by
    name, e.g. `dout=...`. Otherwise it is 1 for a single number (a loss), and for an array a random cotangent from
    `seed`. With a backward, `t.follow("query.W", (3, 7))` follows the gradient from the loss back to one number.

    Layers and models run in their readable forms: `layer_norm`, `linear`, `softmax` and `attention`, with attention's
    `weights`. The numbers equal those of training up to rounding. `engine=True` runs the code that trains, equal to the
    bit, with tiles and fused norms, and also shows the library's private functions.

    Only the calling thread is traced. The functions shown are the library's and those in the module of `forward`, but
    not NumPy's and not the helpers of `ops/shapes.py`. Entries are copies: at most 100,000, with at most `limit` bytes.
    A trace also ends after a million lines, as an endless loop may make no entry.

    Raises ValueError beyond these limits, for a missing backward and for an upstream gradient of the wrong shape;
    TypeError for a function that is not written in Python and for wrong arguments; RuntimeError if a debugger or
    coverage is tracing this thread; and any error of `forward`.
    """
    if not callable(forward) and hasattr(forward, "loss"):
        forward = forward.loss
    if not callable(forward):
        raise TypeError(f"trace: a {type(forward).__name__} is no function, and has no method loss")
    opposite = _opposite(forward, backward)
    recorder = Recorder(limit, engine)
    if opposite is None:
        again = copy.deepcopy((args, kwargs))                 # before the run: a generator draws each number once
        returned, call = recorder.run(forward, args, kwargs)
        return Trace(recorder, call, returned, Replay(forward, *again, None, []))

    parameters = list(inspect.signature(forward).parameters)
    passed = {n: kwargs.pop(n) for n in inspect.signature(opposite).parameters if n in kwargs and n not in parameters}
    inputs = bind(forward, *args, **kwargs)
    again = copy.deepcopy((args, kwargs))
    returned, call = recorder.run(forward, args, kwargs, result_names(forward, opposite))
    upstream, others, outputs = asked_of(opposite, inputs, returned, named_results(forward))
    cotangents, note = _cotangents(upstream, outputs, passed, seed)
    grads, call_back = recorder.run(opposite, (), dict(zip(upstream, cotangents, strict=True)) | others)
    traced = Trace(recorder, call, returned, Replay(forward, *again, opposite, cotangents))
    traced.roots.append(call_back)
    traced.grads, traced.gradients, traced.upstream = grads, _named(inputs, grads), note
    return traced


def _opposite(forward: Any, backward: Any) -> Callable[..., Any] | None:
    """The backward: the function passed, or the one found by its name beside the forward, or None."""
    if backward is None or backward is False:
        return None
    if backward is not True:
        if not callable(backward):
            raise TypeError(f"trace: backward is {backward!r}, expected a function, or True to find it by its name")
        return backward
    plain = forward.func if isinstance(forward, partial) else forward
    name, owner = getattr(plain, "__name__", type(plain).__name__), getattr(plain, "__self__", None)
    name = "backward" if owner is not None and name == "forward" else f"{name}_backward"
    beside = getattr(inspect.unwrap(plain), "__globals__", {})              # globals of its module, not the decorator's
    opposite = getattr(owner, name, None) if owner is not None else beside.get(name)
    if opposite is None:
        where = type(owner).__name__ if owner is not None else getattr(plain, "__module__", "its module")
        raise ValueError(f"trace: there is no {name} in {where}: pass it as backward=...")
    return opposite


def _cotangents(
    upstream: list[str], outputs: tuple[Any, ...], passed: dict[str, Any], seed: int
) -> tuple[list[Any], str]:
    """-> the upstream gradients, and a note on the origin of each."""
    unknown = [name for name in passed if name not in upstream]
    if unknown:
        known = ", ".join(upstream)
        raise TypeError(f"trace: {unknown[0]} is no argument of the forward and no upstream gradient ({known})")
    rng, cotangents, notes = np.random.default_rng(seed), [], []
    for name, out in zip(upstream, outputs, strict=False):
        if name in passed:
            shape, expected = (getattr(x, "shape", ()) for x in (passed[name], out))
            if shape != expected:
                raise ValueError(f"trace: {name} has shape {shape}, expected {expected}, as the output has")
            cotangents.append(passed[name])
            notes.append(f"{name} as passed")
        elif getattr(out, "shape", ()):
            cotangents.append(asarray(rng.standard_normal(out.shape).astype(out.dtype), like=out))
            notes.append(f"{name} random, seed {seed}")
        else:
            cotangents.append(1.0)
            notes.append(f"{name} = 1")
    return cotangents, ", ".join(notes)


def _named(inputs: dict[str, Any], grads: Any) -> dict[str, Any]:
    """The returned gradients by the names of inputs and parameters."""
    first, *rest = inputs.items()
    if isinstance(first[1], dict | list):                     # a layer or a network, which returns grads of p last
        *dxs, tree = grads if type(grads) is tuple else (grads,)
        names = [name for name, x in rest if is_array(x) and x.dtype.kind == "f"]
        return (dict(zip(names, dxs, strict=True)) if len(names) == len(dxs) else {}) | dict(leaves(tree))
    is_numpy = {name: to_numpy(x) if is_array(x) else x for name, x in inputs.items()}
    return {name: g for name, g in name_gradients(is_numpy, grads).items() if name in inputs}
