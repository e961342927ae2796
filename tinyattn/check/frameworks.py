"""Functions of torch and JAX as implementations: arrays go in and come out, and where a function has no backward, the
framework differentiates it. Neither framework is imported unless the implementation has imported it."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from .cases import CaseDrawer
from .common import upstream
from .isolation import alarm
from .property import Violation
from .spec import Spec
from .subject import OTHER_NAMES, MissingError, Subject, TooLongError, backward_beside


class Torch:
    """Conversion to and from tensors of torch, and differentiation by torch."""

    name = "torch"

    @staticmethod
    def lift(x: Any) -> Any:
        import torch

        if isinstance(x, np.ndarray):
            return torch.tensor(x.astype(np.int64) if x.dtype.kind in "iu" else np.array(x))
        return x

    @staticmethod
    def lower(x: Any) -> Any:
        return x.detach().numpy() if hasattr(x, "detach") else x

    @classmethod
    def differentiate(
        cls, f: Callable[..., Any], wrt: tuple[str, ...], given: dict[str, Any], dy: Any
    ) -> dict[str, Any]:
        import torch

        lifted = {name: cls.lift(x) for name, x in given.items()}
        leaves = {name: lifted[name].requires_grad_() for name in wrt if hasattr(lifted.get(name), "requires_grad_")}
        y = _first(f(**lifted))
        upstream = torch.tensor(np.array(dy), dtype=y.dtype).reshape(y.shape)
        grads = torch.autograd.grad(y, list(leaves.values()), upstream, allow_unused=True, materialize_grads=True)
        return {name: cls.lower(g) for name, g in zip(leaves, grads, strict=True)}


class Jax:
    """Conversion to and from arrays of JAX, and differentiation by JAX."""

    name = "jax"

    @staticmethod
    def lift(x: Any) -> Any:
        import jax

        jax.config.update("jax_enable_x64", True)  # float64 would become float32
        return jax.numpy.asarray(x) if isinstance(x, np.ndarray) else x

    @staticmethod
    def lower(x: Any) -> Any:
        return np.array(x) if hasattr(x, "device") or hasattr(x, "devices") else x

    @classmethod
    def differentiate(
        cls, f: Callable[..., Any], wrt: tuple[str, ...], given: dict[str, Any], dy: Any
    ) -> dict[str, Any]:
        import jax

        leaves = {name: cls.lift(given[name]) for name in wrt if isinstance(given.get(name), np.ndarray)}
        rest = {name: cls.lift(x) for name, x in given.items() if name not in leaves}
        y, pull = jax.vjp(lambda leaves: _first(f(**leaves, **rest)), leaves)
        return {name: cls.lower(g) for name, g in pull(jax.numpy.asarray(dy, y.dtype).reshape(y.shape))[0].items()}


PATIENCE = 10.0  # seconds for a call
FRAMEWORKS: tuple[Any, ...] = (Torch, Jax)


def subject_of(implementation: Any, spec: Spec, patience: float = PATIENCE) -> Subject:
    """The implementation as a subject, called with a framework's tensors if it takes and returns these.

    A call of more than `patience` seconds raises nothing here: the properties, tried later, report it. Raises
    CannotRunError if the implementation lacks the spec's function.
    """
    if inspect.isclass(implementation):
        implementation = implementation()
    loaded = [framework for framework in FRAMEWORKS if framework.name in sys.modules]
    if Torch in loaded:
        implementation = _with_our_arguments(implementation, spec)
    op = Subject(implementation, spec)
    if not loaded or _returns_arrays(op, patience):
        return op
    for framework in loaded:
        lifted = Subject(_lifted(op, framework), spec)
        if _returns_arrays(lifted, patience):
            return lifted if _is_differentiable(lifted) else Subject(_lifted(op, framework, False), spec)
    return op


def _returns_arrays(op: Subject, patience: float) -> bool:
    """Whether it returns arrays for arrays, in the first of a few cases that does not raise."""
    if not op.spec.common:
        return not _is_module(op.implementation)
    for lead, seed in itertools.product(((2,), ()), range(4)):
        try:
            with alarm(patience):
                y = op.outputs(**op.fit(op.spec.case(CaseDrawer.seeded(seed, (lead,)))))[0]
            return isinstance(y, np.ndarray | np.generic | float | int)  # JAX returns arrays of its own
        except (Violation, MissingError):
            continue
        except TooLongError:
            return True  # a property will report it
    return False


def _is_module(implementation: Any) -> bool:
    return any(base.__module__.startswith("torch.nn") for base in type(implementation).__mro__)


def _is_differentiable(op: Subject) -> bool:
    """Whether the framework can differentiate it: not under no_grad, nor where it leaves the framework."""
    by_hand = hasattr(op.implementation, f"{op.spec.function}_backward")
    if by_hand or not op.spec.wrt or not isinstance(op.forward, Lifted):
        return True
    for seed in range(4):
        case = op.fit(op.spec.case(CaseDrawer.seeded(seed, ((2,),))))
        try:
            op.gradients(case, *upstream(op.spec, case))
            return True
        except Violation as violation:
            if not any(word in str(violation) for word in ("require grad", "has no attribute", "requires grad")):
                return True
        except MissingError:
            continue
    return False


def _lifted(op: Subject, framework: Any, differentiable: bool = True) -> Any:
    """The implementation with its functions lifted to arrays."""
    f = op.forward.forward if _is_module(op.forward) else op.forward
    lifted = Lifted(f, op, framework)
    fields = (*op.spec.others, "vocabulary", "dim", "maxlen", "window", "layers")
    names = [name for name in fields if hasattr(op.implementation, name)]
    parts = {op.spec.function: lifted if differentiable else lifted._call}
    backward = getattr(op.implementation, f"{op.spec.function}_backward", None)
    if backward is None and op.spec.wrt and op.forward is op.implementation:
        backward = backward_beside(op.forward)
    if backward is not None:
        parts[f"{op.spec.function}_backward"] = _plain(backward, framework)
    return SimpleNamespace(**parts | {name: getattr(op.implementation, name) for name in names})


class Lifted:
    """A function of tensors, called with arrays; `backward` is its derivative by the framework."""

    def __init__(self, f: Callable[..., Any], op: Subject, framework: Any):
        self._f, self._framework, self._spec = f, framework, op.spec
        self.__wrapped__ = f
        self._call = _plain(f, framework)
        try:
            self.__signature__ = inspect.signature(f)
        except (TypeError, ValueError):  # built in C: required arguments, by position
            required = [p for p in op.signature.parameters.values() if p.default is p.empty]
            self.__signature__ = inspect.Signature([p.replace(kind=p.POSITIONAL_ONLY) for p in required])
        self._names = list(op.signature.parameters)
        self._required = sum(p.default is p.empty for p in op.signature.parameters.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    @property
    def backward(self) -> Callable[..., Any]:
        """(dy, the forward's arguments) -> a gradient for each of the spec's `wrt` that is an array."""
        parameters = list(self.__signature__.parameters.values())
        by_name = {p.name for p in parameters if p.default is p.empty} <= set(self._names)
        first = 0 if by_name else self._required  # the number of arguments passed by position
        theirs = dict(zip(self._names[:first], parameters, strict=False))  # by tinyattn's name
        theirs |= {OTHER_NAMES.get(p.name, p.name): p for p in parameters[first:]}
        theirs = {n: p for n, p in theirs.items() if n in self._names}
        by_position = [n for i, (n, p) in enumerate(theirs.items()) if i < first or p.kind is p.POSITIONAL_ONLY]

        def forward(**lifted: Any) -> Any:
            named = {p.name: lifted[n] for n, p in theirs.items() if n not in by_position}
            return self._f(*(lifted[n] for n in by_position), **named)

        def backward(dy: Any, *args: Any) -> tuple[Any, ...]:
            arguments = dict(zip(theirs, args, strict=True))
            gradients = self._framework.differentiate(forward, self._spec.wrt, arguments, dy)
            return tuple(gradients[name] for name in self._spec.wrt if name in gradients)

        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("_upstream", *theirs)]
        backward.__wrapped__ = self._f  # type: ignore[attr-defined]
        backward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return backward


def _plain(f: Callable[..., Any], framework: Any) -> Callable[..., Any]:
    def plain(*args: Any, **kwargs: Any) -> Any:
        y = f(*(framework.lift(x) for x in args), **{name: framework.lift(x) for name, x in kwargs.items()})
        return tuple(framework.lower(part) for part in y) if isinstance(y, tuple | list) else framework.lower(y)

    with contextlib.suppress(TypeError, ValueError):
        plain.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]
    return plain


def _first(y: Any) -> Any:
    return y[0] if isinstance(y, tuple | list) else y


def _with_our_arguments(implementation: Any, spec: Spec) -> Any:
    """A function of torch.nn.functional, made to take this library's arguments; anything else unchanged."""
    import torch.nn.functional as F

    f = implementation
    if implementation is F:
        f = getattr(F, spec.function, getattr(F, _TORCH_NAMES.get(spec.name, ""), None))
    name = getattr(f, "__name__", "")
    return _torch_functions(F).get(name, f) if f is getattr(F, name, None) else f


_TORCH_NAMES = {"attention": "scaled_dot_product_attention", "bce": "binary_cross_entropy_with_logits"}


def _torch_functions(F: Any) -> dict[str, Callable[..., Any]]:
    """Functions with the library's arguments, by the names of torch.nn.functional."""

    def attention(q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None) -> Any:
        if mask is not None and mask.ndim == 1:
            mask = mask[None]  # torch 2.13 raises IndexError for a mask of one axis and queries of four
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)

    return {
        "softmax": lambda s: F.softmax(s, -1),
        "layer_norm": lambda x, gamma, beta, eps=1e-5: F.layer_norm(x, x.shape[-1:], gamma, beta, eps),
        "rms_norm": lambda x, gamma, eps=1e-5: F.rms_norm(x, x.shape[-1:], gamma, eps),
        "linear": lambda x, W, b=None: F.linear(x, W.T, b),
        "gelu": lambda x, approximate=False: F.gelu(x, approximate="tanh" if approximate else "none"),
        "scaled_dot_product_attention": attention,
        "cross_entropy": lambda logits, targets: F.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), targets.reshape(-1)
        ),
        "binary_cross_entropy_with_logits": lambda z, targets: F.binary_cross_entropy_with_logits(z, targets),
        "embedding": lambda ids, E: F.embedding(ids, E),
    }
