"""`trace(attention, q, k, v, mask)`: run any op, layer or model and keep every intermediate, forward and backward.

Every value that gets a name in the source is kept, under that name and with the line that made it. `recorder.py`
watches the functions from outside, so your own can be traced as well.
"""

from __future__ import annotations

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
    """Run `forward(*args, **kwargs)` and keep what every line makes. -> Trace: print it, or show it in a notebook.

        t = trace(attention, q, k, v, mask)
        t["weights"], t["softmax.p"], t[7]       the array that was there, by name, by call and name, or by step
        t.picture("weights"), t.at(7), t.step(), t.back()

    With `backward=True`, or a function, the backward runs after it: `attention_backward`, found beside `attention`, or
    `loss_backward` beside the method `loss`, `backward` beside `forward`; an object that has `loss` and `loss_backward`
    may be given instead. The backward is given what its parameters name, as `gradcheck` does: first upstream gradients,
    then the forward's arguments and results.
    An upstream gradient may be given by name, e.g. `dout=...`; else it is 1 for a single number (a loss), and for an
    array a random cotangent from `seed`. Then `t.follow("query.W", (3, 7))` goes from the loss back to one number.

    Layers and models run in their readable forms: `layer_norm`, `linear`, `softmax` and `attention`, with attention's
    `weights`. The numbers are those of training to rounding. `engine=True` runs what training runs, to the bit: tiles,
    norms inside of the products that read them; and it shows the library's private functions, too.

    Only the calling thread is watched. Functions shown are the library's and those defined where `forward` is; NumPy's
    own and the helpers of `ops/shapes.py` are not. An entry is a copy as of its moment, `limit` bytes of them at most,
    and 100,000 entries.

    Raises ValueError beyond these, for a backward that is not found and an upstream gradient of the wrong shape,
    TypeError for what is not written in Python or cannot be bound, RuntimeError where a debugger or coverage
    is tracing this thread, and whatever `forward` raises.
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
    given = {n: kwargs.pop(n) for n in inspect.signature(opposite).parameters if n in kwargs and n not in parameters}
    inputs = bind(forward, *args, **kwargs)
    again = copy.deepcopy((args, kwargs))
    returned, call = recorder.run(forward, args, kwargs, result_names(forward, opposite))
    upstream, others, outputs = asked_of(opposite, inputs, returned, named_results(forward))
    cotangents, note = _cotangents(upstream, outputs, given, seed)
    grads, call_back = recorder.run(opposite, (), dict(zip(upstream, cotangents, strict=True)) | others)
    found = Trace(recorder, call, returned, Replay(forward, *again, opposite, cotangents))
    found.roots.append(call_back)
    found.grads, found.gradients, found.upstream = grads, _named(inputs, grads), note
    return found


def _opposite(forward: Any, backward: Any) -> Callable[..., Any] | None:
    """The backward: as given, or found by its name beside the forward."""
    if backward is None or backward is False:
        return None
    if backward is not True:
        if not callable(backward):
            raise TypeError(f"trace: backward is {backward!r}, expected a function, or True to find it by its name")
        return backward
    plain = forward.func if isinstance(forward, partial) else forward
    own, owner = getattr(plain, "__name__", type(plain).__name__), getattr(plain, "__self__", None)
    name = "backward" if owner is not None and own == "forward" else f"{own}_backward"
    beside = getattr(inspect.unwrap(plain), "__globals__", {})              # where it is defined, not its decorator
    found = getattr(owner, name, None) if owner is not None else beside.get(name)
    if found is None:
        where = type(owner).__name__ if owner is not None else getattr(plain, "__module__", "its module")
        raise ValueError(f"trace: there is no {name} in {where}: give it as backward=...")
    return found


def _cotangents(
    upstream: list[str], outputs: tuple[Any, ...], given: dict[str, Any], seed: int
) -> tuple[list[Any], str]:
    """-> the upstream gradients, and a note on where each came from."""
    unknown = [name for name in given if name not in upstream]
    if unknown:
        known = ", ".join(upstream)
        raise TypeError(f"trace: {unknown[0]} is no argument of the forward and no upstream gradient ({known})")
    rng, found, said = np.random.default_rng(seed), [], []
    for name, out in zip(upstream, outputs, strict=False):
        if name in given:
            shape, expected = (getattr(x, "shape", ()) for x in (given[name], out))
            if shape != expected:
                raise ValueError(f"trace: {name} has shape {shape}, expected {expected}, as the output has")
            found.append(given[name])
            said.append(f"{name} as given")
        elif getattr(out, "shape", ()):
            found.append(asarray(rng.standard_normal(out.shape).astype(out.dtype), like=out))
            said.append(f"{name} random, seed {seed}")
        else:
            found.append(1.0)
            said.append(f"{name} = 1")
    return found, ", ".join(said)


def _named(inputs: dict[str, Any], grads: Any) -> dict[str, Any]:
    """The returned gradients by the names of inputs and parameters."""
    first, *rest = inputs.items()
    if isinstance(first[1], dict | list):                     # a layer, or a network: last come the gradients of p
        *dxs, tree = grads if type(grads) is tuple else (grads,)
        names = [name for name, x in rest if is_array(x) and x.dtype.kind == "f"]
        return (dict(zip(names, dxs, strict=True)) if len(names) == len(dxs) else {}) | dict(leaves(tree))
    is_numpy = {name: to_numpy(x) if is_array(x) else x for name, x in inputs.items()}
    return {name: g for name, g in name_gradients(is_numpy, grads).items() if name in inputs}
