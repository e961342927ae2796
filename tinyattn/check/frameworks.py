"""Functions of torch and JAX as implementations: they take and return arrays, and the framework differentiates those
without a backward. Neither framework is imported unless the implementation has imported it."""

import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

from .binding import as_tuple
from .cases import CaseDrawer
from .common import upstream
from .isolation import alarm
from .property import Case, Violation
from .spec import Spec
from .subject import CannotRunError, MissingError, NotOfferedError, Subject, TooLongError, backward_beside, message_of


class Torch:
    """Conversion to and from tensors of torch, and differentiation by torch."""

    name = "torch"

    @staticmethod
    def lift(x: Any) -> Any:
        import torch

        if isinstance(x, np.ndarray):
            return torch.tensor(x.astype(np.int64) if x.dtype.kind in "iu" else np.array(x))
        return x

    @classmethod
    def share(cls, x: Any) -> Any:
        """A tensor that shares the array's memory, so that writing into the tensor changes the array."""
        import torch

        if isinstance(x, tuple) and any(isinstance(part, np.ndarray) for part in x):
            parts = map(cls.share, x)
            return x._make(parts) if hasattr(x, "_make") else tuple(parts)
        return torch.from_numpy(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else cls.lift(x)

    @staticmethod
    def lower(x: Any) -> Any:
        return x.detach().numpy() if hasattr(x, "detach") else x

    @classmethod
    def differentiate(cls, f: Callable[..., Any], wrt: tuple[str, ...], arguments: Case, dy: Any) -> Case:
        import torch

        lifted = {name: cls.lift(x) for name, x in arguments.items()}
        leaves = {name: lifted[name].requires_grad_() for name in wrt if hasattr(lifted.get(name), "requires_grad_")}
        y = as_tuple(f(**lifted))[0]
        dy = torch.tensor(np.array(dy), dtype=y.dtype).reshape(y.shape)
        try:  # a reentrant checkpoint forbids autograd.grad, and y.backward(dy) imports sympy, which takes 2 seconds
            (y * dy).sum().backward()
        except RuntimeError as error:
            if "must be contiguous" not in str(error):
                raise
            raise NotOfferedError(f"a gradient that torch refuses: {error}") from None
        return {n: cls.lower(torch.zeros_like(x) if x.grad is None else x.grad) for n, x in leaves.items()}


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
    def differentiate(cls, f: Callable[..., Any], wrt: tuple[str, ...], arguments: Case, dy: Any) -> Case:
        import jax

        leaves = {name: cls.lift(arguments[name]) for name in wrt if isinstance(arguments.get(name), np.ndarray)}
        rest = {name: cls.lift(x) for name, x in arguments.items() if name not in leaves}
        y, pull = jax.vjp(lambda leaves: as_tuple(f(**leaves, **rest))[0], leaves)
        return {name: cls.lower(g) for name, g in pull(jax.numpy.asarray(dy, y.dtype).reshape(y.shape))[0].items()}


PATIENCE = 10.0  # seconds for a call
FRAMEWORKS: tuple[Any, ...] = (Torch, Jax)


def subject_of(implementation: Any, spec: Spec, patience: float = PATIENCE) -> Subject:
    """The implementation as a subject, called with a framework's tensors if it takes and returns these.

    A function that takes arrays and tensors gets tensors if it has no backward and its file imports the framework,
    which can then differentiate it. A call that takes more than `patience` seconds is not reported here, but by the
    properties. Raises CannotRunError if the implementation lacks the spec's function.
    """
    loaded = [framework for framework in FRAMEWORKS if framework.name in sys.modules]
    if Torch in loaded:
        implementation = _with_our_arguments(implementation, spec)
    if inspect.isclass(implementation):
        implementation = _made(implementation)
    if spec.name == "rotary":
        implementation = _of_one(implementation)
    op = Subject(implementation, spec)
    takes_arrays = not loaded or _returns_arrays(op, patience)
    for framework in loaded:
        imports = _imports(op.forward, framework)
        if takes_arrays and not (imports and f"{spec.function}_backward" in op.lacks):
            continue
        lifted = Subject(_lifted(op, framework), spec)
        if _returns_arrays(lifted, patience):
            if _is_differentiable(lifted):
                return lifted
            return op if takes_arrays else Subject(_lifted(op, framework, False), spec)
        if imports and not takes_arrays:
            return lifted  # so that its error for tensors is reported
    return op


def _of_one(implementation: Any) -> Any:
    """A function (q, k, cos, sin) -> (q, k), as in transformers, adapted to rotate one array; others unchanged."""
    f = getattr(implementation, "rotary", implementation)
    try:
        names = [n for n, p in inspect.signature(f).parameters.items() if p.default is p.empty]
    except (TypeError, ValueError):
        return implementation
    if names != ["q", "k", "cos", "sin"]:
        return implementation

    def rotary(x: Any, cos: Any, sin: Any) -> Any:
        return f(x, x, cos[None], sin[None])[0].reshape(x.shape)  # cos may gain an axis of heads after the first

    rotary.__wrapped__, rotary.__signature__ = f, inspect.signature(rotary)  # type: ignore[attr-defined]
    return rotary


def _made(implementation: type) -> Any:
    try:
        return implementation()
    except Exception as error:
        name = implementation.__name__
        says = f"{name}() raised {type(error).__name__}: {message_of(error)}"
        remedy = "; write a function that makes the object and calls it, or use tinyattn.check.layer"
        raise CannotRunError(says + remedy * isinstance(error, TypeError)) from error


def _imports(forward: Any, framework: Any) -> bool:
    """Whether the file that defines a function, or an object's class, imports the framework."""
    place = sys.modules.get(getattr(inspect.unwrap(forward), "__module__", None) or "")
    names = (getattr(x, "__name__", "") for x in vars(place).values() if inspect.ismodule(x)) if place else ()
    return any(name.split(".")[0] == framework.name for name in names)


def _returns_arrays(op: Subject, patience: float) -> bool:
    """Whether it returns an array for arrays, in the first case that does not raise."""
    if not op.spec.common:
        return not _is_module(op.implementation) and _runs(op, patience)
    defaults = {n: p.default for n, p in op.signature.parameters.items() if p.default is not p.empty}
    for case in _first_cases(op):
        for tried in (case, case | defaults):
            try:
                with alarm(patience):
                    y = op.outputs(**tried)[0]
                return isinstance(y, np.ndarray | np.generic | float | int)  # JAX returns arrays of its own
            except (Violation, MissingError):
                continue
            except TooLongError:
                return True  # a property will report it
    return False


def _first_cases(op: Subject) -> Iterator[dict[str, Any]]:
    """Cases of one, no and two batch axes, none of a form that this library alone uses."""
    for lead, seed in itertools.product(((2,), (), (2, 3)), range(8)):
        case = op.fit(op.spec.case(CaseDrawer.seeded(seed, (lead,))))
        if not any(form.ours and form.has(case) for form in op.spec.forms):
            yield case


def _runs(op: Subject, patience: float) -> bool:
    """Whether its first property can be tried: calls do not raise, and return arrays."""
    for seed in range(4):
        try:
            with alarm(patience):
                op.spec.properties[0].holds(op, **op.fit(op.spec.case(CaseDrawer.seeded(seed))))
        except (MissingError, TooLongError):
            return True
        except AssertionError as violation:
            if getattr(violation, "sort", "raised") not in ("raised", "type"):
                return True
        except Exception:  # CannotRunError, or what it returns cannot be examined
            return False
        else:
            return True
    return False


def _is_module(implementation: Any) -> bool:
    return any(base.__module__.startswith("torch.nn") for base in type(implementation).__mro__)


def _is_differentiable(op: Subject) -> bool:
    """Whether the framework can differentiate it: not under no_grad, nor if the code converts tensors to arrays."""
    by_hand = hasattr(op.implementation, f"{op.spec.function}_backward")
    if by_hand or not op.spec.wrt or not isinstance(op.forward, Lifted):
        return True
    for case in _first_cases(op):
        try:
            op.gradients(case, *upstream(op.spec, case))
            return True
        except Violation as violation:
            says = str(violation).replace("'NoneType' object has no attribute", "")  # an argument that must be passed
            if any(word in says for word in ("require grad", "has no attribute", "requires grad")):
                return False
        except MissingError:
            continue
    return True  # unless other calls show that it is not


def _lifted(op: Subject, framework: Any, differentiable: bool = True) -> Any:
    """The implementation, with functions that take arrays and convert them to the framework's."""
    module = op.forward if _is_module(op.forward) else op.implementation if _is_module(op.implementation) else None
    in_dtype = partial(_in_dtype_of, module) if module is not None else lambda f: f
    lifted = Lifted(in_dtype(op.forward.forward if _is_module(op.forward) else op.forward), op, framework)
    parts = {op.computes: lifted if differentiable else lifted.plain}
    backward = getattr(op.implementation, f"{op.spec.function}_backward", None)
    if backward is None and op.spec.wrt and op.forward is op.implementation:
        backward = backward_beside(op.forward)
    if backward is not None:
        parts[f"{op.spec.function}_backward"] = _plain(backward, framework.lift, framework.lower)
    for name in (*op.spec.others, *ATTRIBUTES):
        part = getattr(op.implementation, name, None)
        if part is not None:
            parts[name] = _plain(in_dtype(part), lifted.lift, framework.lower) if callable(part) else part
    return SimpleNamespace(**parts)


ATTRIBUTES = ("vocabulary", "dim", "maxlen", "from_the_end", "window", "layers")  # of models


def _in_dtype_of(module: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    """f, called with floats in the dtype of the module's parameters, if all of them have the same."""
    dtypes = {p.dtype for p in module.parameters() if p.is_floating_point()}
    if len(dtypes) != 1:
        return f
    (dtype,) = dtypes

    def cast(x: Any) -> Any:
        return x.to(dtype) if hasattr(x, "is_floating_point") and x.is_floating_point() else x

    @wraps(f)
    def in_dtype(*args: Any, **kwargs: Any) -> Any:
        return f(*map(cast, args), **{name: cast(x) for name, x in kwargs.items()})

    return in_dtype


class Lifted:
    """A function of tensors, called with arrays; `backward` is its derivative by the framework.

    In specs without common properties, code writes into its arguments, and so tensors share the arrays' memory.
    """

    def __init__(self, f: Callable[..., Any], op: Subject, framework: Any):
        self._f, self._framework, self._op = f, framework, op
        self.__wrapped__ = f
        self.lift = framework.lift if op.spec.common else getattr(framework, "share", framework.lift)
        self.plain = _plain(f, self.lift, framework.lower)
        try:
            self.__signature__ = inspect.signature(f)
        except (TypeError, ValueError):  # built in C: required arguments, by position
            required = [p for p in op.signature.parameters.values() if p.default is p.empty]
            self.__signature__ = inspect.Signature([p.replace(kind=p.POSITIONAL_ONLY) for p in required])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.plain(*args, **kwargs)

    @property
    def backward(self) -> Callable[..., Any]:
        """(dy, the forward's arguments) -> a gradient for each of the spec's `wrt` that is an array."""
        how, ours = self._op.passing, self._op.library_names
        theirs = {ours.get(n, n): p for n, p in self.__signature__.parameters.items()}  # by tinyattn's name
        theirs = {n: p for n, p in theirs.items() if how.get(n, "left out") != "left out"}
        by_position = [n for n, p in theirs.items() if how[n] == "by position" or p.kind is p.POSITIONAL_ONLY]

        def forward(**lifted: Any) -> Any:
            named = {p.name: lifted[n] for n, p in theirs.items() if n not in by_position}
            return self._f(*(lifted[n] for n in by_position), **named)

        def backward(dy: Any, *args: Any) -> tuple[Any, ...]:
            wrt, arguments = self._op.spec.wrt, dict(zip(theirs, args, strict=True))
            gradients = self._framework.differentiate(forward, wrt, arguments, dy)
            return tuple(gradients[name] for name in wrt if name in gradients)

        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("_upstream", *theirs)]
        backward.__wrapped__ = self._f  # type: ignore[attr-defined]
        backward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return backward


def _plain(f: Callable[..., Any], lift: Callable[[Any], Any], lower: Callable[[Any], Any]) -> Callable[..., Any]:
    def plain(*args: Any, **kwargs: Any) -> Any:
        y = f(*map(lift, args), **{name: lift(x) for name, x in kwargs.items()})
        return tuple(map(lower, y)) if isinstance(y, tuple | list) else lower(y)

    with contextlib.suppress(TypeError, ValueError):
        plain.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]
    return plain


def _with_our_arguments(implementation: Any, spec: Spec) -> Any:
    """A function of torch.nn.functional, adapted to take this library's arguments; others unchanged."""
    import torch.nn.functional as F
    from torch.optim import Optimizer

    f = implementation
    if inspect.isclass(f) and issubclass(f, Optimizer):
        return _step_of(f)
    if implementation is F:
        f = getattr(F, spec.function, getattr(F, _TORCH_NAMES.get(spec.name, ""), None))
    name = getattr(f, "__name__", "")
    return _torch_functions(F).get(name, f) if f is getattr(F, name, None) else f


def _step_of(optimizer: Any) -> Callable[..., None]:
    """A step of an optimiser of torch.optim that keeps two moments, as Adam does."""
    from torch.nn import Parameter

    def step(vector: Any, gradient: Any, moments: Any, step: int, **options: Any) -> None:
        p = Parameter(vector)
        p.grad = gradient
        made = optimizer([p], **options)
        made.state[p] = {"step": vector.new_tensor(step - 1.0), "exp_avg": moments[0], "exp_avg_sq": moments[1]}
        made.step()

    required = list(inspect.signature(step).parameters.values())[:4]
    options = [p for n, p in inspect.signature(optimizer).parameters.items() if n in OPTIONS]
    step.__signature__ = inspect.Signature(required + options)  # type: ignore[attr-defined]
    step.__name__ = optimizer.__name__
    step.__wrapped__ = optimizer.step  # type: ignore[attr-defined]  # its place, for the report
    return step


OPTIONS = ("lr", "betas", "eps", "weight_decay")
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
