"""The library on every device there is, for tests written with NumPy arrays.

`On(device)` wraps functions of the library: host arrays among the arguments go to the device, arrays in the results
come back, and what the function wrote into its arguments is written back too. In between, nothing may wait for the
device, and no result may be an array of the host. The fixture `device` (conftest.py) puts these in the place of the
library's own in the module of a test. `gradcheck` there compares with the host, where the same test takes differences.
"""

import functools
import inspect
import types
from dataclasses import replace
from typing import Any

import numpy as np

from tests.strict import COUNTS, StrictArray, strict
from tinyattn import backend
from tinyattn.check import gradcheck, gradcheck_layer, gradcheck_model
from tinyattn.check.binding import backward_arguments, bind
from tinyattn.layers import Block
from tinyattn.models import NextItemNetwork
from tinyattn.training import train
from tinyattn.tree import add_to, tree_map

backend.register(StrictArray, strict, "strict")
DEVICES = ("cpu", "strict", "gpu")
_HOME = ("tinyattn.ops", "tinyattn.random", "tinyattn.layers", "tinyattn.training.adam", "tinyattn.check.adapters")


def _missing() -> dict[str, str]:
    found = {}
    for name in DEVICES:
        try:
            backend.module_for(name)
        except ValueError as why:
            found[name] = str(why)
    return found


MISSING = _missing()  # the devices that are not here, and why


def tree(f: Any, x: Any) -> Any:
    """f of every array in nested dicts, lists, tuples and records; everything else as it is."""
    if isinstance(x, dict):
        return {key: tree(f, part) for key, part in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(tree(f, part) for part in x))
    if isinstance(x, list | tuple):
        return type(x)(tree(f, part) for part in x)
    return f(x)


class On:
    """Runs the library on a device: "cpu", "strict" (the double) or "gpu"."""

    def __init__(self, device: str):
        self.device = device
        self.xp = backend.module_for(device)

    def there(self, x: Any) -> Any:
        return tree(lambda a: self.xp.asarray(a) if isinstance(a, np.ndarray) else a, x)

    def here(self, x: Any) -> Any:
        return tree(lambda a: backend.to_numpy(a) if isinstance(a, self.xp.ndarray) else a, x)

    def function(self, f: Any) -> Any:
        @functools.wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            carried: dict[int, tuple[np.ndarray, Any]] = {}

            def carry(a: Any) -> Any:
                if not isinstance(a, np.ndarray):
                    return a
                return carried.setdefault(id(a), (a, self.xp.asarray(a)))[1]

            given, named = tree(carry, args), tree(carry, kwargs)
            before = COUNTS["synchronisations"]
            result = f(*given, **named)
            assert COUNTS["synchronisations"] == before, f"{f.__qualname__} waits for the device"
            if carried and self.device != "cpu":
                tree(lambda a: self._is_there(a, f.__qualname__), result)
            for mine, theirs in carried.values():
                found = backend.to_numpy(theirs)
                if not np.array_equal(mine, found, equal_nan=mine.dtype.kind == "f"):
                    mine[...] = found
            return self.here(result)

        return run

    def _is_there(self, a: Any, name: str) -> None:
        assert not isinstance(a, np.ndarray), f"{name} was given a device's arrays, and returns one of the host"

    def of(self, thing: Any) -> Any:
        """What stands for `thing` on this device: a function or module of the library, a block, a network, `train`."""
        if self.device == "cpu":
            return thing
        if thing is train:
            return self._train
        for check, in_its_place in CHECKS.items():
            if thing is check:
                return functools.partial(in_its_place, self)
        if isinstance(thing, type) and issubclass(thing, NextItemNetwork | Block):
            return lambda *args, **kwargs: self.methods(thing(*args, **kwargs))
        if isinstance(thing, types.FunctionType) and thing.__module__.startswith(_HOME):
            return self.function(thing)
        if isinstance(thing, types.ModuleType) and thing.__name__.startswith(_HOME):
            return _module_on(self.device, thing)
        return thing

    def methods(self, network: Any) -> Any:
        found = {name: self.function(f) for name, f in inspect.getmembers(network, inspect.ismethod)}
        fields = {name: getattr(network, name) for name in network.__dataclass_fields__}
        return types.SimpleNamespace(**found | fields, itself=network)

    def _train(self, model: Any, batches: Any, settings: Any, **how: Any) -> Any:
        network = getattr(model, "itself", model)
        return self.here(train(network, batches, replace(settings, device=self.device), **how))

    def _both(self, f: Any) -> tuple[Any, Any] | None:
        """`f` on this device and on the host; None for a test's own function, of which nobody knows where it runs."""
        if hasattr(f, "__wrapped__"):
            return f, f.__wrapped__
        return (self.function(f), f) if f.__module__.startswith(_HOME) else None

    def _gradcheck(self, forward: Any, backward: Any, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        forwards, backwards = self._both(forward), self._both(backward)
        if forwards is None or backwards is None:
            return gradcheck(forward, backward, *args, wrt=wrt, **kwargs)
        found = []
        for f, b in zip(forwards, backwards, strict=True):
            inputs = bind(f, *args, **kwargs)
            out = f(**inputs)
            given, _ = backward_arguments(f, b, inputs, out, np.random.default_rng(0))
            found.append((out[0] if isinstance(out, tuple) else out, b(**given)))
        return same(*found)

    def _layer(
        self, forward: Any, backward: Any, p: Any, *inputs: Any,
        key: int | None = None, entries: int | None = None, **options: Any,
    ) -> Any:  # fmt: skip
        forwards, backwards = self._both(forward), self._both(backward)
        if forwards is None or backwards is None:
            return gradcheck_layer(forward, backward, p, *inputs, key=key, entries=entries, **options)
        found = []
        for f, b in zip(forwards, backwards, strict=True):
            y, cache = f(p, *inputs, **options, **({} if key is None else {"rng": np.random.default_rng(key)}))
            found.append((y, b(p, np.random.default_rng(0).standard_normal(y.shape), cache)))
        return same(*found)

    def _model(self, model: Any, p: Any, batch: Any, *, key: int | None = None, **how: Any) -> Any:
        found = []
        on_device = hasattr(model, "itself")
        for each in (model if on_device else self.methods(model), model.itself if on_device else model):
            value, cache = each.loss(p, batch, None if key is None else np.random.default_rng(key))
            total = tree_map(np.zeros_like, p)
            add_to(total, each.loss_backward(p, 1.0, cache))
            found.append((value, total))
        return same(*found)


@functools.cache
def _module_on(device: str, module: types.ModuleType) -> types.SimpleNamespace:
    """Made once: it takes longer than most tests that ask for it."""
    return types.SimpleNamespace(**{name: On(device).of(x) for name, x in vars(module).items()})


CHECKS = {gradcheck: On._gradcheck, gradcheck_layer: On._layer, gradcheck_model: On._model}


def same(there: Any, here: Any) -> bool:
    """Are these the same arrays? They may differ by rounding: a device adds in another order."""
    found: tuple[list[Any], list[Any]] = ([], [])
    for x, arrays in zip((there, here), found, strict=True):
        tree(lambda a, arrays=arrays: arrays.append(np.nan if a is None else a), x)
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)
    return True
