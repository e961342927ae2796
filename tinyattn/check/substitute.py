"""A reader's functions in the place of the library's: the same model, computed by other code (`--ops FILE.py`).

    softmax = read_substitutes("my_softmax.py")
    with readable(), substituted(softmax):
        model.fit(data)

A substitute is called with the library's arguments, under the names and in the conventions of its own signature, as
`tinyattn check` calls it. Every module that computes gets it; `tinyattn.ops` itself keeps the library's functions, so
that a substitute may call them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..backend import Array, get_xp
from ..layers.heads import split
from ..layers.mechanisms import Full
from ..options import one_of
from .frameworks import subject_of
from .isolation import load
from .property import Violation
from .runner import check_implementation, look_at
from .spec import Spec
from .specs import SPECS
from .subject import CannotRunError, MissingError, Subject

FASTER = ("block_sparse_attention", "flash_attention", "fused_attention", "norm_linear")  # no readable form calls them
HEADS = "multi_head_attention"  # of a layer: it takes a tree of parameters
COMPUTING = ("tinyattn.ops.", "tinyattn.layers.", "tinyattn.models.", "tinyattn.training.", "tinyattn.export.")


class SubstituteError(ValueError):
    """A substitute cannot do what a model asks of it; the message names the function, its file and the line.

    `report` is that of a check that has found something wrong, or "".
    """

    def __init__(self, says: str, report: str = "") -> None:
        super().__init__(says)
        self.report = report


@dataclass(frozen=True)
class Substitute:
    """`function` takes the place of `original`; `origin` says where it is written, FILE:LINE."""

    name: str
    origin: str
    original: Callable[..., Any]
    function: Callable[..., Any]


def replaceable() -> dict[str, Spec]:
    """The specs of the functions that a model computes with and that have a backward, by the function's name."""
    specs = {spec.function: spec for spec in SPECS.values()}
    found = {n: s for n, s in specs.items() if n not in FASTER and hasattr(ops, n) and hasattr(ops, f"{n}_backward")}
    return found | {HEADS: specs[HEADS]}


def read_substitutes(file: str, checked: bool = True) -> list[Substitute]:
    """The functions of a file that have names of the library's; each with its backward.

    With `checked`, each pair is held to its specification first, in another process, as `tinyattn check FILE --as KIND`
    does. Raises SubstituteError for a file that cannot be imported, one without such functions, a function without its
    backward, or whose backward asks for what training does not save, and for one that the check finds wrong.
    """
    try:
        module = load(file)
    except CannotRunError as error:
        raise SubstituteError(str(error)) from None
    known = replaceable()
    chosen = {name: spec for name, spec in known.items() if callable(getattr(module, name, None))}
    if not chosen:
        there = [n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__]
        expected = one_of(known, there[0] if there else "")
        raise SubstituteError(f"{file} defines {', '.join(there[:8]) or 'no function'}, expected {expected}")
    if checked:
        for name, spec in chosen.items():
            refuse_wrong(f"{file}:{name}", spec)
    return [part for name, spec in chosen.items() for part in of_subject(_subject(module, spec, file))]


def refuse_wrong(target: str, spec: Spec) -> None:
    """Raise SubstituteError, with the report, where the check finds something wrong."""
    report = check_implementation(target, spec.name)
    if not report:
        file, _, name = target.rpartition(":")
        says = f"{name} of {file} is not right: --unchecked computes with it all the same"
        raise SubstituteError(says, str(report))


def _subject(implementation: Any, spec: Spec, file: str) -> Subject:
    try:
        op = subject_of(implementation, spec)
        if op.plain_backward is None:
            raise CannotRunError(f"there is no {spec.function}_backward, and training needs it")
        look_at(op)
        return op
    except CannotRunError as error:
        raise SubstituteError(f"{file}: {error}") from None


def of_subject(op: Subject) -> Iterator[Substitute]:
    """The forward and the backward of a checked pair. Raises SubstituteError for what a model cannot call."""
    name = op.spec.function
    if name == HEADS:
        mixers = sys.modules["tinyattn.layers.mixers.multi_head"]
        heads = _MultiHead(op)
        yield Substitute(HEADS, op.place(False), mixers.multi_head_attention, heads.forward)
        yield Substitute(f"{HEADS}_backward", op.place(True), mixers.multi_head_attention_backward, heads.backward)
        return
    yield Substitute(name, op.place(False), getattr(ops, name), forward_of(op))
    yield Substitute(f"{name}_backward", op.place(True), getattr(ops, f"{name}_backward"), backward_of(op))


def forward_of(op: Subject) -> Callable[..., Any]:
    """The forward, with the library's signature and results."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        with _named(op, False):
            given = dict(op.signature.bind(*args, **kwargs).arguments)
            if "rate" in op.lacks and given.get("keep") is None:
                given.pop("rate", None)                      # without a mask nothing is dropped, at whatever rate
            outputs, _ = op._run(given, lent=True)
            if any(x is None for x in outputs):
                missing = ", ".join(n for n, x in zip(op.spec.outputs, outputs, strict=True) if x is None)
                raise Violation(f"{op.spec.function} returns no {missing}, which training saves for the backward")
            _expect_dtype(dict(zip(op.spec.outputs, outputs, strict=True)), given)
        return outputs[0] if len(outputs) == 1 else outputs

    return forward


def backward_of(op: Subject) -> Callable[..., Any]:
    """The backward, with the library's signature and results. Raises SubstituteError where it asks for other arrays."""
    ours, names = op._ours_backward, list(op._ours_backward.parameters)
    first = {*op.signature.parameters, *op.spec.outputs}
    upstream = next(i for i, name in enumerate(names) if name in first)          # gradients come first
    asked = op._asked()
    rest = list(asked)[upstream:]
    own = {op._called.get(name, name): name for name in rest}                    # the library's name -> its own
    alien = [name for name, own_name in own.items() if name not in names and asked[own_name]]
    if alien:
        by_place = [name for name in names[upstream:] if ours.parameters[name].default is inspect.Parameter.empty]
        if len(by_place) != sum(asked[name] for name in rest):
            saved = ", ".join(names)
            says = f"{op.spec.function}_backward asks for {', '.join(alien)}, and training calls it with {saved}"
            raise SubstituteError(f"{op.place(True)}: {says}")
        own = dict(zip(by_place, (name for name in rest if asked[name]), strict=True))

    def backward(*args: Any, **kwargs: Any) -> Any:
        given = dict(ours.bind(*args, **kwargs).arguments)
        with _named(op, True):
            translated = op._translated(given)
            takes = dict(zip(asked, (translated[name] for name in names[:upstream]), strict=False))
            takes |= {own[name]: x for name, x in translated.items() if name in own}
            return _all_gradients(op, given, op.backward(takes))

    return backward


def _all_gradients(op: Subject, given: dict[str, Any], returned: Any) -> Any:
    """The gradients in the library's order; None for an argument that the substitute does not know, and that is absent.
    """
    wrt, parameters = op.spec.wrt, op._ours_backward.parameters
    case = {name: given.get(name) if name in parameters else 0.0 for name in wrt if name not in op.lacks}
    found = op.name_gradients(case, returned)
    for name, gradient in found.items():
        if name in given and np.shape(gradient) != np.shape(given[name]):
            shapes = f"d{name} has shape {np.shape(gradient)}, expected {np.shape(given[name])}"
            raise Violation(f"{shapes}, as {name}")
    _expect_dtype({f"d{name}": gradient for name, gradient in found.items()}, given)
    every = tuple(found.get(name) for name in wrt)
    return every[0] if len(every) == 1 else every


def _expect_dtype(results: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise Violation for a result in another precision: the next op of the library would refuse it, far from here."""
    name, like = next((n, x) for n, x in given.items() if getattr(x, "dtype", np.dtype(int)).kind == "f")
    for result, x in results.items():
        if np.ndim(x) and x.dtype.kind == "f" and x.dtype != like.dtype:
            raise Violation(f"{result} is {x.dtype}, expected {like.dtype}, as {name}")


@contextmanager
def _named(op: Subject, backward: bool) -> Iterator[None]:
    """Name the file of what goes wrong; where a line of it raised, the message has the line already."""
    try:
        yield
    except (Violation, MissingError, CannotRunError) as error:
        place = "" if getattr(error, "place", "") else op.place(backward)
        raise SubstituteError(": ".join(filter(None, (place, str(error))))) from error


class _HeadsCache(NamedTuple):
    p: Any
    x: Array
    mask: Array | None
    heads: int
    own_memory: bool = False

    @property
    def weights(self) -> Array:
        """(..., h, n, n): by the library's attention, for pictures."""
        q, k = (split(self.x @ self.p[name]["W"], self.heads) for name in ("query", "key"))
        return ops.attention(q, k, k, self.mask)[1]


@dataclass(frozen=True)
class _MultiHead:
    """Multi-head self-attention of four matrices in the place of the layer's, which takes more."""

    op: Subject

    def forward(self, p: Any, x: Array, memory: Array, *, heads: int, mask: Any = None, **more: Any) -> Any:
        self._refuse(p, x is memory, heads, **more)
        mask = ops.as_mask(mask).array(x.shape[-2], x.shape[-2], like=x)
        cache = _HeadsCache(p, x, mask, heads)
        return forward_of(self.op)(**self._given(cache)), cache

    def backward(self, p: Any, dy: Array, cache: _HeadsCache) -> tuple[Array, Any, dict[str, Any]]:
        op, case = self.op, self._given(cache)
        with _named(op, True):
            found = op.name_gradients(case, op.backward(op.prepared(case, (dy,))))
        grads = {name: {"W": found[argument]} for name, argument in _WEIGHTS.items() if name in p}
        return found["x"], get_xp(dy).zeros_like(dy), grads

    def _given(self, cache: _HeadsCache) -> dict[str, Any]:
        x, p = cache.x, cache.p
        output = p["output"]["W"] if "output" in p else get_xp(x).eye(x.shape[-1], dtype=x.dtype)
        weights = [p[name]["W"] for name in ("query", "key", "value")]
        return dict(zip(_WEIGHTS.values(), [*weights, output], strict=True)) | {
            "x": x, "heads": cache.heads, "mask": cache.mask,
        }  # fmt: skip

    def _refuse(
        self, p: Any, is_self: bool, heads: int, kv_heads: int | None = None, rate: float = 0.0, rng: Any = None,
        mechanism: Any = None, position: Any = None, slots: Any = None,
    ) -> None:  # fmt: skip
        """Raise SubstituteError for a model that asks for more than x, four matrices, heads and a mask."""
        reasons = {
            "keys and values of other tokens": not is_self,
            "biases": "b" in p["query"],
            "dropout of the weights": rng is not None and rate > 0,
            "fewer heads of keys than of queries": kv_heads not in (None, heads),
            "another mechanism than full attention": mechanism is not None and type(mechanism) is not Full,
            "positions at the heads": position is not None and position.at_heads,
        }
        asked = [reason for reason, is_so in reasons.items() if is_so]
        if asked:
            says = f"{HEADS} takes {', '.join(self.op.signature.parameters)}, and this model asks for {asked[0]}"
            raise SubstituteError(f"{self.op.place(False)}: {says}")


_WEIGHTS = {"query": "W_q", "key": "W_k", "value": "W_v", "output": "W_o"}


@contextmanager
def substituted(substitutes: Iterable[Substitute]) -> Iterator[None]:
    """Inside of it every module that computes calls the substitutes; also child processes that are forked meanwhile."""
    by_original = {id(s.original): s.function for s in substitutes}
    changed = []
    for name, module in list(sys.modules.items()):
        if name.startswith(COMPUTING):
            for attribute, value in list(vars(module).items()):
                if id(value) in by_original:
                    changed.append((module, attribute, value))
                    setattr(module, attribute, by_original[id(value)])
    try:
        yield
    finally:
        for module, attribute, value in changed:
            setattr(module, attribute, value)
