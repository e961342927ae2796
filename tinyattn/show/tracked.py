"""Tracked arrays: each entry carries its sources, the listed numbers that it was made from, with its slope by each.

Every kind of operation has a rule for the sources of its result:

    entry by entry, with broadcasting    the entries at the same place; slopes by nudging all places at once
    products, sums, moves                the same function, applied to sources instead of numbers
    max, var, any, argmax, ...           all entries that were compared or added; each is nudged in turn
    where                                the chosen entry, and the condition
    x[ids], take                         the entry that was taken, and the id that selected it
    sort, argsort, searchsorted, ...     all entries

If a function has no rule, its name is put among the sources of its result, which are then unknown.
"""

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from ..backend import register

H = 1e-6                               # the nudge, relative to the number


class Sources(dict[Any, float]):
    """{(step, entry): slope}: the listed numbers that a number was made from. A str key: a function without a rule."""

    def __add__(self, other: Any) -> "Sources":
        if not other or not self:
            return self or other or EMPTY
        total = Sources(self)
        for place, slope in other.items():
            total[place] = total.get(place, 0.0) + slope
        return total

    __radd__ = __add__                 # sums begin with 0

    def __mul__(self, factor: float) -> "Sources":
        return Sources((place, slope * factor) for place, slope in self.items()) if self else self

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> "Sources":
        return self + other * -1.0

    def __rsub__(self, other: Any) -> "Sources":
        return self * -1.0 + other

    def __truediv__(self, number: float) -> "Sources":
        return self * (1 / number)

    @property
    def unknown(self) -> list[str]:
        """The functions without a rule."""
        return [place for place in self if isinstance(place, str)]


EMPTY: Any = Sources()
_clean = np.frompyfunc(lambda x: x if isinstance(x, Sources) else EMPTY, 1, 1)     # a 0 from padding has no sources


class Tracked(np.lib.mixins.NDArrayOperatorsMixin):
    """`values`, and `sources` of the same shape. `run` records values that become Python numbers or lose sources."""

    _all: ClassVar["WeakSet[Tracked]"] = WeakSet()
    __hash__ = object.__hash__

    def __init__(self, values: Any, sources: Any, run: Any) -> None:
        self.values, self.run = np.asarray(values), run
        self.sources = np.empty(self.values.shape, dtype=object)
        self.sources[...] = _clean(sources)
        self._all.add(self)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return np.ndarray                                  # so that isinstance(x, np.ndarray) is true in traced code

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "ndim", "size", "dtype", "nbytes", "itemsize", "strides", "flags"):
            return getattr(self.values, name)
        if hasattr(np.ndarray, name) and callable(getattr(np, name, None)):
            return partial(getattr(np, name), self)
        raise AttributeError(f"{name} has no rule")

    # ---- methods without a function of NumPy, or with other arguments than the function

    @property
    def T(self) -> Any:
        return np.transpose(self)

    def reshape(self, *shape: Any, **how: Any) -> Any:
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **how)

    def transpose(self, *axes: Any) -> Any:
        return np.transpose(self, (axes[0] if len(axes) == 1 else axes) or None)

    def flatten(self, *order: Any) -> Any:
        return np.ravel(self, *order).copy()

    def copy(self, *order: Any) -> "Tracked":
        return Tracked(self.values.copy(*order), self.sources, self.run)

    def astype(self, dtype: Any, copy: bool = True, **how: Any) -> "Tracked":
        values = self.values.astype(dtype, copy=copy, **how)
        return self if values is self.values else Tracked(values, self.sources, self.run)

    def view(self, dtype: Any) -> "Tracked":
        """Complex numbers as pairs of real ones, or the reverse; both numbers of a pair are sources of both."""
        values, old = self.values.view(dtype), self.sources * math.nan
        if values.dtype.itemsize < self.values.dtype.itemsize:
            return Tracked(values, np.repeat(old, values.shape[-1] // self.shape[-1], axis=-1), self.run)
        return Tracked(values, np.sum(old.reshape(*values.shape, -1), axis=-1), self.run)

    def sort(self, **how: Any) -> None:
        self[...] = np.sort(self, **how)

    def fill(self, value: Any) -> None:
        self[...] = value

    # ---- conversions to Python numbers and plain arrays

    def _number(self) -> Any:
        self.run.leaves(self)
        return self.values

    def __float__(self) -> float:
        return float(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __index__(self) -> int:
        return operator.index(self._number())

    def item(self, *index: Any) -> Any:
        return self._number().item(*index)

    def tolist(self) -> Any:
        return self._number().tolist()

    def __bool__(self) -> bool:
        return bool(self.values)                           # the condition of a branch is not a parent

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.dtype.kind in "biu":                       # used as an index into an array that is not tracked
            return np.array(self._number(), dtype)
        self.run.loses("a copy as another kind of array")
        return np.array(self.values, dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return repr(self.values)

    def __format__(self, how: str) -> str:
        return format(self.values[()], how)

    # ---- indexing

    def __getitem__(self, index: Any) -> "Tracked":
        sources, chosen = self.sources[plain(index)], _of_index(self.shape, index)
        return Tracked(self.values[plain(index)], sources if chosen is None else np.add(sources, chosen), self.run)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._write(index, value, _sources_of(value))

    def _write(self, index: Any, value: Any, sources: Any) -> None:
        """Write values and sources, also into the sources of all arrays that share the memory."""
        chosen, index = _of_index(self.shape, index), plain(index)
        self.values[index] = plain(value)
        self.sources[index] = sources if chosen is None else np.add(sources, chosen)
        others = [x for x in list(self._all) if x is not self and np.may_share_memory(x.values, self.values)]
        if others:
            written = np.ravel(_addresses(self.values)[index]).tolist()
            new = dict(zip(written, np.ravel(np.asarray(self.sources[index], dtype=object)), strict=True))
        for other in others:
            flat = other.sources.reshape(-1)
            for i, place in enumerate(np.ravel(_addresses(other.values)).tolist()):
                flat[i] = new.get(place, flat[i])

    # ---- NumPy's functions

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **how: Any) -> Any:
        where = how.pop("where", True)
        if method == "at":
            return _add_at(ufunc, *inputs)
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        rule = _rule_of(ufunc, method) if where is True or method == "__call__" else None
        return self._result(function, rule, inputs, how, out, where)

    def __array_function__(self, function: Any, types: Any, args: Any, how: Any) -> Any:
        if function.__name__ == "copyto":
            args[0][...] = np.where(how["where"], args[1], args[0]) if "where" in how else args[1]
            return None
        out = how.pop("out", None)
        made = self._result(function, RULES.get(function.__name__), args, how, () if out is None else (out,))
        if made is None:                                   # the function wrote into its first argument
            args[0]._write(..., args[0].values, Sources({function.__name__: math.nan}))
        return made

    def _result(self, function: Any, rule: Any, args: Any, how: Any, out: Any, where: Any = True) -> Any:
        values = function(*plain(args), **plain(how))      # without `out`, which may be one of the arguments
        if rule is _no_numbers or values is None:
            return values
        name = getattr(function, "__name__", "a function")
        try:
            sources = rule(function, args, how, values)
        except Exception:                                  # there is no rule, or it does not take these arguments
            sources = Sources({name: math.nan})
        if isinstance(values, tuple | list):
            parts = sources if isinstance(sources, tuple | list) else [sources] * len(values)
            tracked = [Tracked(x, s, self.run) for x, s in zip(values, parts, strict=True)]
            return type(values)(*tracked) if hasattr(values, "_fields") else type(values)(tracked)
        made = Tracked(values, sources, self.run)
        if not out:
            return made
        if not isinstance(into := out[0], Tracked):        # an array that is not tracked
            self.run.loses(f"{name} into other memory")
            np.copyto(into, values, where=plain(where))
        elif where is True:
            into._write(..., values, made.sources)
        else:
            into[...] = np.where(where, made, into)
        return into


register(Tracked, np)


def plain(tree: Any) -> Any:
    """The tree with every tracked array replaced by its values."""
    return _replaced(tree, lambda x: x.values if isinstance(x, Tracked) else x)


def _replaced(tree: Any, change: Callable[[Any], Any]) -> Any:
    if type(tree) in (list, tuple):
        return type(tree)(_replaced(part, change) for part in tree)
    if type(tree) is dict:
        return {key: _replaced(part, change) for key, part in tree.items()}
    return change(tree)


def _sources_of(x: Any) -> Any:
    """The sources of an array or a number; a constant has none."""
    return x.sources if isinstance(x, Tracked) else np.full(np.shape(x), EMPTY)


def _addresses(x: np.ndarray) -> np.ndarray:
    """The memory address of each entry."""
    places = np.full(x.shape, x.__array_interface__["data"][0])
    for axis, stride in enumerate(x.strides):
        places += (stride * np.arange(x.shape[axis])).reshape(-1, *[1] * (x.ndim - axis - 1))
    return places


def _of_index(shape: tuple[int, ...], index: Any) -> Any:
    """For each entry of x[index], the sources of the ids that selected it; None without tracked ids. x has `shape`."""
    parts: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, Tracked) and part.dtype == bool:
            places = part.values.nonzero()
            parts += [Tracked(place, part.sources[places], part.run) for place in places]
        else:
            parts.append(np.asarray(part) if isinstance(part, list) else part)
    if not any(isinstance(part, Tracked) for part in parts):
        return None
    skipped = len(shape) - sum(part is not None and part is not Ellipsis for part in parts)
    parts = [p for part in parts for p in ([slice(None)] * skipped if part is Ellipsis else [part])]
    arrays = [k for k, part in enumerate(parts) if hasattr(part, "shape")]
    joint = np.broadcast_shapes(*(parts[k].shape for k in arrays))
    sources = reduce(np.add, (np.broadcast_to(_sources_of(parts[k]) * 0.0, joint) for k in arrays))
    count, axis = math.prod(joint), sum(part is not None for part in parts[: arrays[0]])
    # `numbers` is indexed like x, with ids replaced by 0, 1, 2, ...: each entry gets the number of the id it came by.
    numbers = np.arange(count).reshape(-1, *[1] * (len(shape) - axis - 1))
    numbers = np.broadcast_to(numbers, (*shape[:axis], count, *shape[axis + 1 :]))
    for k in arrays:
        parts[k] = np.arange(count).reshape(joint) if k == arrays[0] else np.zeros(joint, dtype=int)
    return np.ravel(sources)[numbers[tuple(0 if isinstance(part, int) else part for part in parts)]]


# ---- rules: (function, args, keywords, its result) -> the sources of the result


def _no_numbers(function: Any, args: Any, how: Any, made: Any) -> None:
    """For functions that do not return numbers of an array, but a shape or a dtype."""


def _constant(function: Any, args: Any, how: Any, made: Any) -> Any:
    if function.__name__ == "empty_like" and made.dtype.kind in "fc":
        made.fill(math.nan)                                # as `blank_memory` does
    return EMPTY


def _difference(f: Callable[[Any], Any], x: np.ndarray, h: Any) -> Any:
    """f(x + h) - f(x - h) in float64; 0 if x or f are whole numbers, NaN if x is complex."""
    if x.dtype.kind != "f":
        return 0.0 if x.dtype.kind in "biu" else math.nan
    above, below = f(x.astype(np.float64) + h), f(x.astype(np.float64) - h)
    if np.asarray(above).dtype.kind != "f":
        return 0.0
    return np.where(above == below, 0.0, above - below)    # -inf - -inf counts as no change


def _nudge(x: np.ndarray) -> Any:
    return H * np.where(np.isfinite(x) & (x != 0), np.maximum(1e-3, np.abs(x)), 1.0)


EXACT: dict[Any, Callable[..., Any]] = {               # exact slopes by each argument, where nudging would round
    np.add: lambda a, b: (1.0, 1.0), np.subtract: lambda a, b: (1.0, -1.0), np.multiply: lambda a, b: (b, a),
    np.divide: lambda a, b: (1 / b, -a / b / b), np.negative: lambda a: (-1.0,),
}  # fmt: skip


def _entry_by_entry(function: Any, args: Any, how: Any, made: Any) -> Any:
    if isinstance(made, tuple | list):
        raise TypeError("several results")
    values, terms = plain(list(args)), []
    how = {name: plain(x) for name, x in how.items() if name != "dtype"}
    exact = None
    if function in EXACT and made.dtype.kind == "f":
        exact = EXACT[function](*(np.asarray(x, dtype=np.float64) for x in values))
    for k, x in enumerate(args):
        if isinstance(x, Tracked):
            h, f = _nudge(x.values), partial(_nudged, function, values[:k], values[k + 1 :], how)
            slope = exact[k] if exact else _difference(f, x.values, h) / (2 * h)
            terms.append(np.multiply(x.sources, np.asarray(slope, dtype=object)))
    return reduce(np.add, terms, EMPTY)


def _nudged(function: Any, before: list[Any], after: list[Any], how: Any, x: Any) -> Any:
    return function(*before, x, *after, **how)


def _product(function: Any, args: Any, how: Any, made: Any) -> Any:
    """Functions linear in each argument: the function is applied to one argument's sources and the others' values."""
    numbers = _replaced(list(args), lambda x: np.asarray(plain(x), dtype=object) if np.ndim(plain(x)) else plain(x))
    terms = []
    for k, x in enumerate(args):
        if isinstance(x, Tracked):
            terms.append(_clean(function(*numbers[:k], x.sources, *numbers[k + 1 :], **plain(how))))
    return reduce(np.add, terms)


def _linear(function: Any, args: Any, how: Any, made: Any, data: int = 1) -> Any:
    """Functions that move or add entries of the first `data` arguments: the same is done to their sources."""
    moved = _replaced(list(args[:data]), lambda x: _sources_of(x) if hasattr(x, "shape") else x)
    how = {name: x for name, x in how.items() if name != "dtype"}
    return function(*moved, *plain(args[data:]), **plain(how))


def _compared(function: Any, args: Any, how: Any, made: Any) -> Any:
    """Reductions: every entry along the axes is nudged in turn."""
    x, *rest = args
    first = 0 if isinstance(getattr(function, "__self__", None), np.ufunc) else None      # maximum.reduce: axis=0
    axis = how.get("axis", rest[0] if rest else first)
    axes = [a % x.ndim for a in (range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,))]
    h, total = _nudge(x.values), EMPTY
    for places in np.ndindex(*(x.shape[a] for a in axes)):
        here = tuple(places[axes.index(a)] if a in axes else slice(None) for a in range(x.ndim))
        by = np.zeros(x.shape)
        by[here] = h[here]
        change = _difference(partial(_nudged, function, [], plain(rest), plain(how)), x.values, by)
        slope = np.reshape(change, np.shape(h[here])) if np.ndim(change) else change
        total = np.add(total, np.multiply(x.sources[here], np.asarray(slope / (2 * h[here]), dtype=object)))
    return np.reshape(_clean(total), np.shape(made))


def _looked_at(function: Any, args: Any, how: Any, made: Any) -> Any:
    """Every entry of the result depends on all entries. Slopes are 0 if results are whole numbers, else unknown."""
    parts = [np.sum(x.sources) for x in args if isinstance(x, Tracked) and x.size]
    whole = np.asarray(made[0] if isinstance(made, tuple) else made).dtype.kind in "biu"
    total = reduce(operator.add, parts, EMPTY) * (0.0 if whole else math.nan)
    return [np.full(part.shape, total) for part in made] if isinstance(made, tuple) else total


def _chosen(function: Any, args: Any, how: Any, made: Any) -> Any:
    """`where`: the sources of the chosen entry, and of the condition."""
    condition, a, b = args
    kept = np.where(plain(condition), _sources_of(a), _sources_of(b))
    return np.add(kept, _sources_of(condition) * 0.0)


def _taken(function: Any, args: Any, how: Any, made: Any) -> Any:
    """`take` and `take_along_axis`: the sources of the entry, and of the id that selected it."""
    x, ids, axis = args[0], args[1], how.get("axis", args[2] if len(args) > 2 else None)
    if function.__name__ == "take":
        return (np.ravel(x) if axis is None else x)[(slice(None),) * ((axis or 0) % max(x.ndim, 1)) + (ids,)].sources
    return np.add(function(_sources_of(x), plain(ids), axis), _sources_of(ids) * 0.0)


def _along(function: Any, args: Any, how: Any, made: Any) -> Any:
    """`sort`, `argsort`: all entries along the axis were compared."""
    axis = how.get("axis", args[1] if len(args) > 1 else -1)
    total = np.sum(args[0].sources, axis=axis, keepdims=True) * (0.0 if made.dtype.kind in "biu" else math.nan)
    return np.broadcast_to(total, made.shape)


def _rule_of(ufunc: Any, method: str) -> Any:
    if method == "__call__":
        return _product if ufunc.signature else _entry_by_entry
    if ufunc is np.add:
        return _linear
    return _compared if method == "reduce" else None


def _add_at(ufunc: Any, total: Any, index: Any, x: Any) -> None:
    """`add.at(total, index, x)`: an index may occur several times."""
    values, sources, chosen = total.values.copy(), total.sources.copy(), _of_index(total.shape, index)
    ufunc.at(values, plain(index), plain(x))
    if ufunc in (np.add, np.subtract):
        ufunc.at(sources, plain(index), _sources_of(x) if chosen is None else np.add(_sources_of(x), chosen))
    else:
        sources = Sources({f"{ufunc.__name__}.at": math.nan})
    total._write(..., values, sources)


RULES: dict[str, Any] = {name: rule for rule, names in {
    _no_numbers: "shape ndim size result_type can_cast may_share_memory shares_memory array_equal allclose",
    _constant: "zeros_like ones_like empty_like full_like",
    _linear: "sum cumsum mean trace diff transpose permute_dims matrix_transpose reshape ravel swapaxes moveaxis "
             "rollaxis squeeze expand_dims concatenate concat stack vstack hstack dstack column_stack split "
             "array_split vsplit hsplit repeat tile roll flip fliplr flipud rot90 broadcast_to diagonal diag tril triu "
             "pad delete copy atleast_1d atleast_2d",
    _product: "dot einsum tensordot inner outer vdot kron convolve",
    _compared: "max min amax amin prod var std any all argmax argmin median ptp count_nonzero nanmax nanmin "
               "nansum nanmean",
    _entry_by_entry: "clip nan_to_num round around real imag conj isclose",
    _looked_at: "searchsorted bincount flatnonzero nonzero argwhere unique qr inv pinv svd eigh eigvalsh solve "
                "cholesky det",
    _chosen: "where", _taken: "take take_along_axis", _along: "sort argsort partition argpartition",
    partial(_linear, data=2): "append",
}.items() for name in names.split()}  # fmt: skip
