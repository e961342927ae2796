"""Classes as implementations: parameters are attributes, gradients are left on the object by its backward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def layer(
    make: Callable[..., Any],
    params: Mapping[str, str] | None = None,
    grads: Mapping[str, str] | None = None,
    *,
    inputs: tuple[str, ...] = ("x",),
    rows: bool = False,
    forward: str = "forward",
    backward: str = "backward",
) -> Layer:
    """A class with `forward(*inputs)` and `backward(dy)` as an implementation that `tinyattn check` can call.

    With `rows`, it takes matrices: all leading axes of the inputs are made one, and the result's are put back.

    `make` is the class, or a function that makes an object: it is called, by name, with those arguments of the spec
    that its signature names (`heads`, `eps`, but also `x`, for one that goes by sizes). `params` says under which
    attribute each of the spec's parameters is to be put, `grads` where the backward leaves its gradient; the backward
    returns the gradients of `inputs`, None where they have none. A path is a chain of names or dictionary keys; ".T" at
    its end transposes:

        linear = layer(Dense, params={"W": "weight.T", "b": "bias"}, grads={"W": "grads.weight.T", "b": "grads.bias"})

    Raises TypeError if `make` cannot be called, or a path is no string.
    """
    if not callable(make):
        raise TypeError(f"make is {make!r}, expected a class, or a function that makes an object")
    for path in (*(params or {}).values(), *(grads or {}).values()):
        if not isinstance(path, str):
            raise TypeError(f"{path!r} is no path: expected a string such as 'weight' or 'grads.weight.T'")
    return Layer(make, dict(params or {}), dict(grads or {}), inputs, rows, forward, backward)


class Layer:
    """What `layer` returns: a function of the spec's arguments, with a `backward`."""

    def __init__(
        self,
        make: Any,
        params: dict[str, str],
        grads: dict[str, str],
        inputs: tuple[str, ...],
        rows: bool,
        forward: str,
        backward: str,
    ):
        self._make, self._params, self._grads, self._inputs = make, params, grads, inputs
        self._rows, self._forward, self._backward = rows, forward, backward
        self.__name__ = getattr(make, "__name__", "layer")
        self.__wrapped__ = make
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self._options = {
            n: p for n, p in inspect.signature(make).parameters.items() if p.kind in (kind, p.KEYWORD_ONLY)
        }
        names = [*inputs, *params]
        options = [p.replace(kind=p.KEYWORD_ONLY) for n, p in self._options.items() if n not in names]
        self.__signature__ = inspect.Signature([*(inspect.Parameter(n, kind) for n in names), *options])
        if hasattr(make, backward) or not inspect.isclass(make):

            def gradients(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
                return self._gradients(*args, **kwargs)

            parameters = [inspect.Parameter(n, kind) for n in ("_upstream", *names)]
            gradients.__signature__ = inspect.Signature([*parameters, *options])  # type: ignore[attr-defined]
            gradients.__wrapped__ = getattr(make, backward, make)  # type: ignore[attr-defined]
            self.backward = gradients

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(args, kwargs)[1]

    def _run(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """-> the object after its forward, and the result."""
        given = self.__signature__.bind(*args, **kwargs).arguments
        made = self._make(**{n: x for n, x in given.items() if n in self._options})
        for name, path in self._params.items():
            _put(made, path, np.array(given[name]))
        xs = [given[n] for n in self._inputs]
        y = getattr(made, self._forward)(*map(self._flat, xs))
        return made, self._like(y, xs[0])

    def _flat(self, x: Any) -> Any:
        return x.reshape(-1, x.shape[-1]) if self._rows else x

    def _like(self, y: Any, x: Any) -> Any:
        """The rows of y with the leading axes of x."""
        return y.reshape(*x.shape[:-1], y.shape[-1]) if self._rows else y

    def _gradients(self, dy: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        made, y = self._run(args, kwargs)
        found = getattr(made, self._backward)(self._flat(dy))
        found = found if isinstance(found, tuple | list) else () if found is None else (found,)
        of_inputs = [self._like(dx, y) for dx in found]
        return *of_inputs, *(_at(made, self._grads[n]) for n in self._params if n in self._grads)


def _at(made: Any, path: str) -> Any:
    """What stands at a path."""
    for name in path.split("."):
        made = made.T if name == "T" else made[name] if isinstance(made, dict) else getattr(made, name)
    return made


def _put(made: Any, path: str, x: np.ndarray) -> None:
    """Set what stands at a path."""
    *way, name = path.split(".")
    if name == "T":
        *way, name = way
        x = np.ascontiguousarray(x.T)
    for step in way:
        made = made[step] if isinstance(made, dict) else getattr(made, step)
    if isinstance(made, dict):
        made[name] = x
    elif hasattr(made, name):
        setattr(made, name, x)
    else:
        raise LookupError(f"the path {path!r} leads nowhere: a {type(made).__name__} has no {name!r}")
