"""A reader's functions in place of the library's: the same model, computed by other code (`--ops FILE.py`).

    softmax = read_substitutes("my_softmax.py")
    with readable(), substituted(softmax):
        model.fit(data)

A substitute is called with the library's arguments, under its own names and conventions, as by `tinyattn check`. Every
module that computes calls it. `tinyattn.ops` itself keeps the library's functions, so that a substitute may call them.
"""

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

FASTER = ("block_sparse_attention", "flash_attention", "fused_attention", "norm_linear",
          "tiled_cross_entropy")  # fmt: skip                    # no readable form calls them
HEADS = "multi_head_attention"  # a layer's function, which takes a tree of parameters
COMPUTING = ("tinyattn.ops.", "tinyattn.layers.", "tinyattn.models.", "tinyattn.training.", "tinyattn.export.")


class SubstituteError(ValueError):
    """A model cannot call a substitute; the message names the function, its file and the line.

    `report` is the report of a failed check, or "".
    """

    def __init__(self, says: str, report: str = "") -> None:
        super().__init__(says)
        self.report = report


@dataclass(frozen=True)
class Substitute:
    """`function`, written at `origin` (FILE:LINE), replaces `original`."""

    name: str
    origin: str
    original: Callable[..., Any]
    function: Callable[..., Any]


def replaceable() -> dict[str, Spec]:
    """The specs of the functions that models call and that have a backward, by the function's name."""
    specs = {spec.function: spec for spec in SPECS.values()}
    both_ways = {n: s for n, s in specs.items() if hasattr(ops, n) and hasattr(ops, f"{n}_backward")}
    return {n: s for n, s in both_ways.items() if n not in FASTER} | {HEADS: specs[HEADS]}


def read_substitutes(file: str, checked: bool = True) -> list[Substitute]:
    """The functions of a file that are named like the library's, each with its backward.

    With `checked`, each pair is checked first, as by `tinyattn check FILE --as KIND`. Raises SubstituteError for a file
    that cannot be imported or has no such function. Raises it also for a function that has no backward or fails the
    check, and for a backward with an argument that training does not save.
    """
    try:
        module = load(file)
    except CannotRunError as error:
        raise SubstituteError(str(error)) from None
    known = replaceable()
    chosen = {name: spec for name, spec in known.items() if callable(getattr(module, name, None))}
    if not chosen:
        defined = [n for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__]
        expected = one_of(known, defined[0] if defined else "")
        raise SubstituteError(f"{file} defines {', '.join(defined[:8]) or 'no function'}, expected {expected}")
    for name, spec in chosen.items() if checked else ():
        report = check_implementation(f"{file}:{name}", spec.name)
        if not report:
            says = f"{name} of {file} is not right: --unchecked computes with it all the same"
            raise SubstituteError(says, str(report))
    return [part for name, spec in chosen.items() for part in of_subject(_subject(module, spec, file))]


def _subject(implementation: Any, spec: Spec, file: str) -> Subject:
    try:
        op = subject_of(implementation, spec)
        if op.plain_backward is None:
            raise CannotRunError(f"it has no {spec.function}_backward, and training needs one")
        look_at(op)
        return op
    except CannotRunError as error:
        raise SubstituteError(f"{file}: {error}") from None


def of_subject(op: Subject) -> Iterator[Substitute]:
    """The forward and the backward of a checked pair. Raises SubstituteError for a pair that a model cannot call."""
    name = op.spec.function
    if name == HEADS:
        heads = _MultiHead(op)
        home = sys.modules["tinyattn.layers.mixers.multi_head"]
        forward, backward = heads.forward, heads.backward
    else:
        home, forward, backward = ops, forward_of(op), backward_of(op)
    yield Substitute(name, op.place(False), getattr(home, name), forward)
    yield Substitute(f"{name}_backward", op.place(True), getattr(home, f"{name}_backward"), backward)


def forward_of(op: Subject) -> Callable[..., Any]:
    """The forward, with the library's signature and results."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        with _named(op, False):
            arguments = dict(op.signature.bind(*args, **kwargs).arguments)
            if "rate" in op.lacks and arguments.get("keep") is None:
                arguments.pop("rate", None)  # without a mask nothing is dropped, whatever the rate
            outputs, _ = op._run(arguments, lent=True)
            if any(x is None for x in outputs):
                missing = ", ".join(n for n, x in zip(op.spec.outputs, outputs, strict=True) if x is None)
                raise Violation(f"{op.spec.function} returns no {missing}, which training saves for the backward")
            _expect_dtype(dict(zip(op.spec.outputs, outputs, strict=True)), arguments)
        return outputs[0] if len(outputs) == 1 else outputs

    return forward


def backward_of(op: Subject) -> Callable[..., Any]:
    """The backward, with the library's signature and results. Raises SubstituteError if it requires other arrays."""
    ours, names = op.ours_backward, list(op.ours_backward.parameters)
    forward_names = {*op.signature.parameters, *op.spec.outputs}
    upstream = next(i for i, name in enumerate(names) if name in forward_names)  # gradients come first
    required = op.backward_arguments()
    rest = list(required)[upstream:]
    theirs = {op.library_names.get(name, name): name for name in rest}  # by the library's name
    unknown = [name for name, their_name in theirs.items() if name not in names and required[their_name]]
    if unknown:
        by_place = [name for name in names[upstream:] if ours.parameters[name].default is inspect.Parameter.empty]
        if len(by_place) != sum(required[name] for name in rest):
            saved = ", ".join(names)
            says = f"{op.spec.function}_backward requires {', '.join(unknown)}, but training calls it with {saved}"
            raise SubstituteError(f"{op.place(True)}: {says}")
        theirs = dict(zip(by_place, (name for name in rest if required[name]), strict=True))

    def backward(*args: Any, **kwargs: Any) -> Any:
        arguments = dict(ours.bind(*args, **kwargs).arguments)
        with _named(op, True):
            translated = op.translated(arguments)
            passed = dict(zip(required, (translated[name] for name in names[:upstream]), strict=False))
            passed |= {theirs[name]: x for name, x in translated.items() if name in theirs}
            return _all_gradients(op, arguments, op.backward(passed))

    return backward


def _all_gradients(op: Subject, call: dict[str, Any], returned: Any) -> Any:
    """The gradients in the library's order; None for an argument that was not passed."""
    wrt, parameters = op.spec.wrt, op.ours_backward.parameters
    passed = {name: call.get(name) if name in parameters else 0.0 for name in wrt if name not in op.lacks}
    gradients = op.name_gradients(passed, returned)
    for name, g in gradients.items():
        if name in call and np.shape(g) != np.shape(call[name]):
            raise Violation(f"d{name} has shape {np.shape(g)}, expected {np.shape(call[name])}, as {name}")
    _expect_dtype({f"d{name}": g for name, g in gradients.items()}, call)
    every = tuple(gradients.get(name) for name in wrt)
    return every[0] if len(every) == 1 else every


def _expect_dtype(results: dict[str, Any], call: dict[str, Any]) -> None:
    """Raise Violation for a result in another precision, which would make a later op of the library raise."""
    name, like = next((n, x) for n, x in call.items() if getattr(x, "dtype", np.dtype(int)).kind == "f")
    for result, x in results.items():
        if np.ndim(x) and x.dtype.kind == "f" and x.dtype != like.dtype:
            raise Violation(f"{result} is {x.dtype}, expected {like.dtype}, as {name}")


@contextmanager
def _named(op: Subject, backward: bool) -> Iterator[None]:
    """Prefix errors with the file of `op`, unless the message already names the line that raised."""
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
    own_memory: bool = False  # set by the mixer

    @property
    def weights(self) -> Array:
        """(..., h, n, n), by the library's attention, for pictures."""
        q, k = (split(self.x @ self.p[name]["W"], self.heads) for name in ("query", "key"))
        return ops.attention(q, k, k, self.mask)[1]


@dataclass(frozen=True)
class _MultiHead:
    """Multi-head self-attention of four matrices in place of the layer's, which has more arguments."""

    op: Subject

    def forward(self, p: Any, x: Array, memory: Array, *, heads: int, mask: Any = None, **more: Any) -> Any:
        self._refuse(p, x is memory, heads, **more)
        mask = ops.as_mask(mask).array(x.shape[-2], x.shape[-2], like=x)
        cache = _HeadsCache(p, x, mask, heads)
        return forward_of(self.op)(**self._arguments(cache)), cache

    def backward(self, p: Any, dy: Array, cache: _HeadsCache) -> tuple[Array, Any, dict[str, Any]]:
        op, case = self.op, self._arguments(cache)
        with _named(op, True):
            gradients = op.name_gradients(case, op.backward(op.prepared(case, (dy,))))
        grads = {name: {"W": gradients[argument]} for name, argument in _WEIGHTS.items() if name in p}
        return gradients["x"], get_xp(dy).zeros_like(dy), grads

    def _arguments(self, cache: _HeadsCache) -> dict[str, Any]:
        x, p = cache.x, cache.p
        identity = {} if "output" in p else {"output": {"W": get_xp(x).eye(x.shape[-1], dtype=x.dtype)}}
        weights = {argument: (p | identity)[name]["W"] for name, argument in _WEIGHTS.items()}
        return weights | {"x": x, "heads": cache.heads, "mask": cache.mask}

    def _refuse(
        self, p: Any, is_self: bool, heads: int, kv_heads: int | None = None, rate: float = 0.0, rng: Any = None,
        mechanism: Any = None, position: Any = None, slots: Any = None, activated: bool = False,
    ) -> None:  # fmt: skip
        """Raise SubstituteError for a model that needs more than x, four matrices, heads and a mask."""
        reasons = {
            "keys and values of other tokens": not is_self,
            "biases": "b" in p["query"],
            "dropout of the weights": rng is not None and rate > 0,
            "fewer heads of keys than of queries": kv_heads not in (None, heads),
            "another mechanism than full attention": mechanism is not None and type(mechanism) is not Full,
            "positions at the heads": position is not None and position.at_heads,
            "SiLU of queries, keys and values": activated,
        }
        reason = next((reason for reason, holds in reasons.items() if holds), "")
        if reason:
            says = f"{HEADS} takes {', '.join(self.op.signature.parameters)}, and this model needs {reason}"
            raise SubstituteError(f"{self.op.place(False)}: {says}")


_WEIGHTS = {"query": "W_q", "key": "W_k", "value": "W_v", "output": "W_o"}


@contextmanager
def substituted(substitutes: Iterable[Substitute]) -> Iterator[None]:
    """Within the block, every module that computes calls the substitutes; so do child processes forked there."""
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
