"""Classes as implementations: parameters are attributes, and the backward sets gradients on the object."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class layer:
    """A class with `forward(*inputs)` and `backward(dy)` as an implementation that `tinyattn check` can call.

    With `rows`, the class takes matrices: leading axes of the inputs are merged into one, and restored in the result.

    `make` is the class, or a function that makes an object. It is passed those of the spec's arguments that its
    signature names: `heads` or `eps`, and `x`, if it needs the sizes. `params` maps each of the spec's parameters to
    the path where it is set, `grads` to the path of its gradient after the backward. The backward returns the gradients
    of `inputs`, or None if they have none. A path is a chain of attributes and dictionary keys; ".T" at its end
    transposes:

        linear = layer(Dense, params={"W": "weight.T", "b": "bias"}, grads={"W": "grads.weight.T", "b": "grads.bias"})

    Raises TypeError if `make` cannot be called, or a path is no string.
    """

    def __init__(
        self, make: Callable[..., Any], params: Mapping[str, str] | None = None, grads: Mapping[str, str] | None = None,
        *, inputs: tuple[str, ...] = ("x",), rows: bool = False, forward: str = "forward", backward: str = "backward",
    ):  # fmt: skip
        if not callable(make):
            raise TypeError(f"make is {make!r}, expected a class, or a function that makes an object")
        for path in (*(params or {}).values(), *(grads or {}).values()):
            if not isinstance(path, str):
                raise TypeError(f"{path!r} is no path: expected a string such as 'weight' or 'grads.weight.T'")
        self._make, self._params, self._grads = make, dict(params or {}), dict(grads or {})
        self._inputs, self._rows, self._forward, self._backward = inputs, rows, forward, backward
        self.__name__, self.__wrapped__ = getattr(make, "__name__", "layer"), make
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = inspect.signature(make).parameters
        self._options = {n: p for n, p in parameters.items() if p.kind in (kind, p.KEYWORD_ONLY)}
        names = [*inputs, *self._params]
        options = [p.replace(kind=p.KEYWORD_ONLY) for n, p in self._options.items() if n not in names]
        self.__signature__ = inspect.Signature([*(inspect.Parameter(n, kind) for n in names), *options])
        if hasattr(make, backward) or not inspect.isclass(make):

            def gradients(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
                return self._gradients(*args, **kwargs)

            first = inspect.Parameter("_upstream", kind)
            both = self.__signature__.replace(parameters=[first, *self.__signature__.parameters.values()])
            gradients.__signature__ = both  # type: ignore[attr-defined]
            gradients.__wrapped__ = getattr(make, backward, make)  # type: ignore[attr-defined]
            self.backward = gradients

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(args, kwargs)[1]

    def _run(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """-> the object after its forward, and the result."""
        arguments = self.__signature__.bind(*args, **kwargs).arguments
        made = self._make(**{n: x for n, x in arguments.items() if n in self._options})
        for name, path in self._params.items():
            _put(made, path, np.array(arguments[name]))
        xs = [arguments[n] for n in self._inputs]
        y = getattr(made, self._forward)(*map(self._flat, xs))
        return made, self._like(y, xs[0])

    def _flat(self, x: Any) -> Any:
        return x.reshape(-1, x.shape[-1]) if self._rows else x

    def _like(self, y: Any, x: Any) -> Any:
        """The rows of y with the leading axes of x."""
        return y.reshape(*x.shape[:-1], y.shape[-1]) if self._rows else y

    def _gradients(self, dy: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        made, y = self._run(args, kwargs)
        dxs = getattr(made, self._backward)(self._flat(dy))
        dxs = dxs if isinstance(dxs, tuple | list) else () if dxs is None else (dxs,)
        grads = (_at(made, *self._grads[n].split(".")) for n in self._params if n in self._grads)
        return *(self._like(dx, y) for dx in dxs), *grads


def _at(made: Any, *path: str) -> Any:
    for name in path:
        made = made.T if name == "T" else made[name] if isinstance(made, dict) else getattr(made, name)
    return made


def _put(made: Any, path: str, x: np.ndarray) -> None:
    *way, name = path.split(".")
    if name == "T":
        *way, name = way
        x = np.ascontiguousarray(x.T)
    made = _at(made, *way)
    if isinstance(made, dict):
        made[name] = x
    elif hasattr(made, name):
        setattr(made, name, x)
    else:
        raise LookupError(f"the path {path!r} leads nowhere: a {type(made).__name__} has no {name!r}")
