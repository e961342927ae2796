"""Functions of torch and JAX as implementations: arrays go in and come out, and where there is no backward their own
differentiation is it. Neither is imported unless the implementation has imported it."""

from __future__ import annotations

import contextlib
import inspect
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
    """How torch takes arrays, gives them back, and differentiates."""

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
        found = torch.autograd.grad(y, list(leaves.values()), upstream, allow_unused=True, materialize_grads=True)
        return {name: cls.lower(g) for name, g in zip(leaves, found, strict=True)}


class Jax:
    """How JAX takes arrays, gives them back, and differentiates."""

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
    """The implementation as a subject; with tensors of a framework, if it is one that takes and returns these.

    A call may take `patience` seconds: what takes longer is called in its turn, and reported then.

    Raises CannotRunError if it lacks the spec's function.
    """
    if inspect.isclass(implementation):
        implementation = implementation()
    loaded = [framework for framework in FRAMEWORKS if framework.name in sys.modules]
    for framework in loaded:
        implementation = _in_our_words(implementation, spec, framework)
    op = Subject(implementation, spec)
    if not loaded or _returns_arrays(op, patience):
        return op
    for framework in loaded:
        lifted = Subject(_lifted(op, framework), spec)
        if _returns_arrays(lifted, patience):
            return lifted if _is_differentiable(lifted) else Subject(_lifted(op, framework, False), spec)
    return op


def _returns_arrays(op: Subject, patience: float) -> bool:
    """Whether it takes arrays, and returns arrays: of some size, with a batch axis or without."""
    for lead in ((2,), ()):
        for seed in range(4):
            try:
                if not op.spec.common:
                    return not _is_module(op.implementation)
                with alarm(patience):
                    y = op.outputs(**op.fit(op.spec.case(CaseDrawer.seeded(seed, (lead,)))))[0]
                return isinstance(y, np.ndarray | np.generic | float | int)  # JAX takes arrays and returns its own
            except (Violation, MissingError):
                continue
            except TooLongError:
                return True  # it will be told when it is tried
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
        except Violation as violation:
            if not any(word in str(violation) for word in ("require grad", "has no attribute", "requires grad")):
                return True
        except MissingError:
            continue
        else:
            return True
    return False


def _lifted(op: Subject, framework: Any, differentiable: bool = True) -> Any:
    """The implementation with its functions lifted to arrays."""
    f = op.forward.forward if _is_module(op.forward) else op.forward
    lifted = Lifted(f, op, framework)
    found = SimpleNamespace(**{op.spec.function: lifted if differentiable else lifted._call})
    backward = getattr(op.implementation, f"{op.spec.function}_backward", None)
    if backward is None and op.spec.wrt and op.forward is op.implementation:
        backward = backward_beside(op.forward)
    if backward is not None:
        setattr(found, f"{op.spec.function}_backward", _plain(backward, framework))
    for name in (*op.spec.others, "vocabulary", "dim", "maxlen"):
        if hasattr(op.implementation, name):
            setattr(found, name, getattr(op.implementation, name))
    return found


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
        asked = list(self.__signature__.parameters.values())
        by_name = {p.name for p in asked if p.default is p.empty} <= set(self._names)
        first = 0 if by_name else self._required  # so many are passed by position
        own = {n: p for n, p in zip(self._names[:first], asked, strict=False)}
        own |= {OTHER_NAMES.get(p.name, p.name): p for p in asked[first:]}
        own = {n: p for n, p in own.items() if n in self._names}
        names = list(own)

        def backward(dy: Any, *args: Any) -> tuple[Any, ...]:
            given = dict(zip(names, args, strict=True))

            def called(**lifted: Any) -> Any:
                placed = [n for i, (n, p) in enumerate(own.items()) if i < first or p.kind is p.POSITIONAL_ONLY]
                by_position = [lifted[n] for n in placed]
                return self._f(*by_position, **{p.name: lifted[n] for n, p in own.items() if n not in placed})

            found = self._framework.differentiate(called, self._spec.wrt, given, dy)
            return tuple(found[name] for name in self._spec.wrt if name in found)

        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("_upstream", *names)]
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


def _in_our_words(implementation: Any, spec: Spec, framework: Any) -> Any:
    """A function of torch.nn.functional with the arguments of the library's; anything else as it is."""
    if framework is not Torch:
        return implementation
    import torch.nn.functional as F

    f = implementation
    if implementation is F:
        f = getattr(F, spec.function, getattr(F, _TORCH_NAMES.get(spec.name, ""), None))
    name = getattr(f, "__name__", "")
    return _torch_words(F)[name] if name in _torch_words(F) and f is getattr(F, name, None) else f


_TORCH_NAMES = {"attention": "scaled_dot_product_attention", "bce": "binary_cross_entropy_with_logits"}


def _torch_words(F: Any) -> dict[str, Callable[..., Any]]:
    def layer_norm(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Any:
        return F.layer_norm(x, x.shape[-1:], gamma, beta, eps)

    def rms_norm(x: Any, gamma: Any, eps: float = 1e-5) -> Any:
        return F.rms_norm(x, x.shape[-1:], gamma, eps)

    def linear(x: Any, W: Any, b: Any = None) -> Any:
        return F.linear(x, W.T, b)

    def gelu(x: Any, approximate: bool = False) -> Any:
        return F.gelu(x, approximate="tanh" if approximate else "none")

    def attention(q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None) -> Any:
        if mask is not None and mask.ndim == 1:
            mask = mask[None]  # torch 2.13 raises IndexError for a mask of one axis and queries of four
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)

    def cross_entropy(logits: Any, targets: Any) -> Any:
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    def bce_with_logits(z: Any, targets: Any) -> Any:
        return F.binary_cross_entropy_with_logits(z, targets)

    return {
        "softmax": lambda s: F.softmax(s, -1),
        "layer_norm": layer_norm,
        "rms_norm": rms_norm,
        "linear": linear,
        "gelu": gelu,
        "scaled_dot_product_attention": attention,
        "cross_entropy": cross_entropy,
        "binary_cross_entropy_with_logits": bce_with_logits,
        "embedding": lambda ids, E: F.embedding(ids, E),
    }
