"""Values of an ONNX graph, and operations on values and constants: cast, reshape, read or write a part."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent


class NoGraphError(ValueError):
    """A model that cannot be written as a graph; the message says why."""

    def __init__(self, why: str):
        super().__init__(f"no graph can be made of this model: {_caller()}{why}")


def _caller() -> str:
    """The innermost line of the library outside this folder on the stack."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if HERE.parent in path.parents and HERE not in path.parents:
            return f"{path.relative_to(HERE.parent.parent)}:{frame.f_lineno} ({frame.f_code.co_name}) "
        frame = frame.f_back
    return ""


class Value(NamedTuple):
    """The result of an operator of the graph, or a parameter or an input."""

    graph: "Graph"
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Sizes(NamedTuple):
    """Integer inputs of an operator, sizes or positions, which may depend on the number of histories."""

    numbers: tuple[int, ...]


class Node(NamedTuple):
    """An operator. Its inputs are names, constants or `Sizes`."""

    operator: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    output: str


class Graph:
    """Operators in the order in which they were computed."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[Any, str] = {}

    def emit(self, operator: str, inputs: tuple[Any, ...], shape: tuple[int, ...], dtype: Any, **how: Any) -> Value:
        """Add an operator, once. `inputs` are values, constants (arrays, which are copied) and `Sizes`."""
        named = tuple(x.name if isinstance(x, Value) else x if isinstance(x, Sizes) else np.array(x) for x in inputs)
        same = tuple((x.dtype.str, x.shape, x.tobytes()) if isinstance(x, np.ndarray) else x for x in named)
        key = operator, same, repr(how)
        if key not in self._known:
            self._known[key] = f"v{len(self.nodes)}"
            self.nodes.append(Node(operator, named, how, self._known[key]))
        return Value(self, self._known[key], shape, np.dtype(dtype))


Content = Value | np.ndarray        # an array's content: a value of the graph, or a constant


def apply(operator: str, *inputs: Any, shape: tuple[int, ...], dtype: Any, **how: Any) -> Value:
    """An operator in the graph of its inputs; at least one is a value."""
    graph = next(x.graph for x in inputs if isinstance(x, Value))
    return graph.emit(operator, inputs, tuple(shape), dtype, **how)


def cast(x: Content, dtype: Any) -> Content:
    if x.dtype == dtype:
        return x
    return apply("Cast", x, shape=x.shape, dtype=dtype, to=np.dtype(dtype)) if isinstance(x, Value) else x.astype(dtype)


def reshape(x: Content, shape: tuple[int, ...]) -> Content:
    if isinstance(x, np.ndarray):
        return x.reshape(shape)
    return x if x.shape == shape else apply("Reshape", x, Sizes(shape), shape=shape, dtype=x.dtype)


def transpose(x: Content, axes: tuple[int, ...]) -> Content:
    if isinstance(x, np.ndarray):
        return x.transpose(axes)
    return apply("Transpose", x, shape=tuple(x.shape[a] for a in axes), dtype=x.dtype, perm=list(axes))


def expand(x: Content, shape: tuple[int, ...]) -> Content:
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, shape)
    return x if x.shape == shape else apply("Expand", x, Sizes(shape), shape=shape, dtype=x.dtype)


# --- reading and writing parts ---------------------------------------------------------------------------------------


def _axes(key: Any, ndim: int) -> list[Any]:
    """The key with an entry for every axis, and None for every new axis."""
    parts = list(key) if isinstance(key, tuple) else [key]
    missing = ndim - sum(part is not None and part is not Ellipsis for part in parts)
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
    return parts[:at] + [slice(None)] * missing + parts[at + 1 :]


def has_places(key: Any) -> bool:
    """Does the key contain an array of positions?"""
    return any(isinstance(part, Value | np.ndarray) for part in (key if isinstance(key, tuple) else (key,)))


def _is_whole(part: Any, size: int) -> bool:
    return isinstance(part, slice) and part.indices(size) == (0, size, 1)


def get(x: Content, key: Any) -> Content:
    """x[key] for numbers, slices, None and, on one axis, an array of positions (a content of integers)."""
    if isinstance(x, np.ndarray) and not has_places(key):
        return np.asarray(x[key])
    axes, at = _axes(key, len(x.shape)), 0
    wanted: list[int] = []                        # the shape of the result
    cuts: list[tuple[int, int, int, int]] = []
    taken: tuple[int, Any] | None = None
    for part in axes:
        if part is None:
            wanted.append(1)
            continue
        size = x.shape[at]
        if isinstance(part, Value | np.ndarray):
            if taken is not None:
                raise NoGraphError("indexes two axes with arrays at once")
            taken = (at, part)
            wanted += list(part.shape)
        elif isinstance(part, slice):
            begin, stop, step = part.indices(size)
            wanted.append(len(range(begin, stop, step)))
            if not _is_whole(part, size):
                cuts.append((begin, -(2**31) if stop < 0 else stop, at, step))
        else:
            number = int(part) % size if size else 0
            cuts.append((number, number + 1, at, 1))
        at += 1
    if cuts:
        begins, stops, places, steps = (tuple(column) for column in zip(*cuts, strict=True))
        sizes = list(x.shape)
        for begin, stop, place, step in cuts:
            sizes[place] = len(range(begin, max(stop, -1), step))
        cut = Sizes(begins), Sizes(stops), np.array(places), np.array(steps)
        x = apply("Slice", x, *cut, shape=tuple(sizes), dtype=x.dtype)
    if taken is not None:
        place, index = taken
        shape = (*x.shape[:place], *index.shape, *x.shape[place + 1 :])
        x = apply("Gather", x, index, shape=shape, dtype=x.dtype, axis=place)
    return reshape(x, tuple(wanted))


def put(x: Content, key: Any, new: Content) -> Content:
    """x after x[key] = new, for a key of numbers and slices."""
    if has_places(key):
        raise NoGraphError("writes to positions that depend on the histories")
    axes, at, kept = _axes(key, len(x.shape)), 0, list[int]()
    if any(part is None for part in axes):                              # new axes, which x does not have
        of_new = list[int]()
        for part in axes:
            if isinstance(part, slice):
                kept.append(len(range(x.shape[at])[part]))
            of_new += [1] if part is None else kept[-1:] if isinstance(part, slice) else []
            at += part is not None
        new, axes = reshape(expand(new, tuple(of_new)), tuple(kept)), [part for part in axes if part is not None]
    partial = [axis for axis, part in enumerate(axes) if not _is_whole(part, x.shape[axis])]
    if not partial:
        return expand(cast(new, x.dtype), x.shape)
    axis, part = partial[0], axes[partial[0]]
    within = part if isinstance(part, slice) else slice(int(part) % x.shape[axis], int(part) % x.shape[axis] + 1)
    places = range(x.shape[axis])[within]
    of_axis = (slice(None),) * axis + (within,)
    region = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    if not isinstance(part, slice) and len(new.shape) >= len(x.shape) - axis:     # a number removes its axis
        beside = len(new.shape) - (len(x.shape) - 1 - axis)
        new = reshape(new, (*new.shape[:beside], 1, *new.shape[beside:]))
    if len(partial) == 1:
        inner = expand(cast(new, x.dtype), region)
    else:
        rest = tuple(slice(None) if a == axis else p for a, p in enumerate(axes))
        inner = put(get(x, of_axis), rest, new)
    order = np.arange(x.shape[axis])
    order[within] = x.shape[axis] + np.arange(len(places))
    if isinstance(x, np.ndarray) and isinstance(inner, np.ndarray):
        return np.concatenate([x, inner], axis).take(order, axis)
    both = (*x.shape[:axis], x.shape[axis] + len(places), *x.shape[axis + 1 :])
    joined = apply("Concat", x, inner, shape=both, dtype=x.dtype, axis=axis)
    return apply("Gather", joined, order, shape=x.shape, dtype=x.dtype, axis=axis)
