"""An implementation, called with the signature of the library's function.

Arguments are passed by name; required ones by position if the implementation has other names for them. Optional ones
that it does not take are left out and reported.
"""

import contextlib
import functools
import inspect
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .cases import copied, in_dtype
from .passing import BY_POSITION, EMPTY, PAIRS, CannotRunError, backward_beside, name_of, names_of, passing_of, taken_by
from .property import Violation
from .spec import Form, Spec
from .switch import Switch

_LIBRARY_FOLDERS = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(np.__file__).parent))


class TooLongError(BaseException):
    """A call did not return in time. A BaseException, so that `except Exception` in checked code does not catch it."""


class MissingError(Exception):
    """A property needs a function or argument that this implementation lacks, and is skipped."""


class NotOfferedError(MissingError):
    """A call that the implementation does not take, or whose result a convention decides: the case is left out."""


class Gradients(dict[str, Any]):
    """Gradients by argument. Reading one that the backward does not compute raises MissingError."""

    def __missing__(self, name: str) -> Any:
        raise MissingError(f"there is no gradient of {name}")


class Subject:
    """`subject(**case)` is the first output, `outputs(**case)` all of them, `gradients(case, dy)` a dict by argument.

    Raises CannotRunError if the implementation lacks the spec's function. `lacks` names the arguments and functions of
    the spec that it does not have, `unused` its optional arguments that are never passed.
    """

    def __init__(self, implementation: Any, spec: Spec):
        self.spec = spec
        self.implementation = implementation
        ours = spec.ours()
        self.signature = inspect.signature(getattr(ours, spec.function))
        name = spec.function if hasattr(implementation, spec.function) else spec.name
        forward = getattr(implementation, name, None)
        if forward is None and callable(implementation) and not inspect.ismodule(implementation):
            forward = implementation
        self.computes = spec.function  # or another of the spec's metrics, if it is the only one
        for other in spec.others if spec.any_metric else ():
            if forward is None or (forward is implementation and name_of(forward).startswith(other)):
                forward, self.computes = forward or getattr(implementation, other, None), other
        if forward is None:
            public = [n for n in dir(implementation) if not n.startswith("_") and callable(getattr(implementation, n))]
            raise CannotRunError(
                f"it has no `{spec.function}`, only {', '.join(public[:12]) or 'nothing that can be called'}; "
                f"give MODULE:OBJECT for a function of another name, or an adapter with the name `{spec.function}`"
            )
        if inspect.isclass(forward):
            says = f"`{name}` is a class, expected a function: make an object, or adapt it with tinyattn.check.layer"
            raise CannotRunError(says)
        self.forward = forward
        self.spare = 0  # how many results of the last forward were no outputs
        self.last: dict[str, Any] = {}  # the arguments of the last call, of the forward or the backward
        self.remembered: dict[str, Any] = {}  # for specs: properties of the implementation, such as its width
        self.forms: list[Form] = []  # of calls that it does not take (forms.py)
        self.backward_forms: list[Form] = []  # of calls whose gradient it does not offer
        self.not_derived: list[str] = []  # arguments for which the backward returns None
        self.conventions: list[Switch] = []  # that it follows, and the library does not (conventions/)
        self.near: list[Switch] = []  # conventions that it might follow beside a bug: they do not make it right
        self.passing = passing_of(forward, self.signature, spec.function)  # how each argument is passed
        self.library_names = names_of(forward, self.passing)
        self._their_names = {n: theirs for theirs, n in self.library_names.items()}
        passed = {*self.library_names, *PAIRS, *(n for n, how in self.passing.items() if how == "by name")}
        parameters = taken_by(forward) or {}
        self._pairs = {n: pair for n, pair in PAIRS.items() if n in parameters}
        approximate = getattr(parameters.get("approximate"), "default", None)
        self._in_words = isinstance(approximate, str)  # torch has approximate="none" or "tanh"
        self.unused = [n for n, p in parameters.items() if p.default is not EMPTY and n not in passed]
        if any(self.passing.get(n) == "left out" for n in spec.together):
            self.passing |= dict.fromkeys(spec.together, "left out")
        self.lacks = [n for n, how in self.passing.items() if how == "left out"]
        self._backward = None
        if spec.wrt:
            self.ours_backward = inspect.signature(getattr(ours, f"{spec.function}_backward"))
            candidates = [getattr(implementation, f"{name}_backward", None), getattr(forward, "backward", None)]
            candidates += [backward_beside(forward)] if forward is implementation else []  # FILE:function
            self._backward = next((f for f in candidates if f is not None), None)
            self.lacks += [f"{spec.function}_backward"] if self._backward is None else []
        self._of_backward = taken_by(self._backward) if self._backward is not None else None  # once: slow
        functions = (spec.function, *spec.others) if spec.any_metric else spec.others
        self.lacks += [n for n in functions if n != self.computes and not hasattr(implementation, n)]

    @property
    def has_backward(self) -> bool:
        return self._backward is not None

    @property
    def causal(self) -> bool | None:
        """Whether an implementation without an argument `causal` is causal; None if it has the argument."""
        if "causal" not in self.lacks:
            return None
        return bool(self.signature.parameters["causal"].default) != (self.convention("causal") is not None)

    @property
    def takes_tensors(self) -> bool:
        """Whether its arguments are converted to tensors (frameworks.py)."""
        return hasattr(self.forward, "lift")

    @property
    def plain_backward(self) -> Any:
        """The backward, or else NAME_backward beside the forward, if it is a Python function; else None."""
        backward = self._backward or backward_beside(self.forward)
        return backward if hasattr(backward, "__code__") else None

    def place(self, backward: bool) -> str:
        """FILE:LINE of the forward, or of the backward, where it is known."""
        with contextlib.suppress(TypeError, OSError):
            code = inspect.unwrap(self._backward if backward and self._backward else self.forward)
            return f"{inspect.getsourcefile(code)}:{inspect.getsourcelines(code)[1]}"
        return ""

    def fit(self, case: dict[str, Any]) -> dict[str, Any]:
        """The case in the spec's dtype, with defaults for the arguments in `lacks`, and without anything that a
        convention decides."""
        parameters, case = self.signature.parameters, in_dtype(case, self.spec.dtype)
        case = {n: parameters[n].default if n in self.lacks and n != "causal" else x for n, x in case.items()}
        for switch in self.conventions:
            case = switch.avoid(case)
        return case

    def convention(self, topic: str) -> Switch | None:
        """The convention of this topic, where the implementation follows one."""
        return next((switch for switch in self.conventions if switch.topic == topic), None)

    def offers(self, case: dict[str, Any]) -> bool:
        """Whether it takes a call of this form."""
        return not self.left_out(case)

    def left_out(self, call: dict[str, Any]) -> str:
        """The call's form that the implementation does not take, or the convention that decides its result; or ""."""
        causal = self.causal
        if causal is not None and call.get("causal", self.signature.parameters["causal"].default) != causal:
            return f"causal={not causal}"
        for form in self.forms:
            call = form.rewrite(call) if form.rewrite is not None and form.has(call) else call
        every: list[Form | Switch] = [*(form for form in self.forms if form.rewrite is None), *self.conventions]
        return next((form.says for form in every if form.has(call)), "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.outputs(*args, **kwargs)[0]

    def outputs(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """All outputs, in the spec's order; those not returned are None.

        The implementation gets copies, so that writing into them changes no comparison. Specs without common properties
        pass the arrays themselves: Adam's outputs are written into its arguments.
        """
        names = self.signature.parameters
        if not args and kwargs.keys() == names.keys():  # faster than binding them
            return self._run({n: kwargs[n] for n in names})[0]
        return self._run(dict(self.signature.bind(*args, **kwargs).arguments))[0]

    def outputs_of_lent(self, **case: Any) -> tuple[Any, ...]:
        """`outputs` of a call with these arrays themselves instead of copies, for properties of memory."""
        return self._run(dict(self.signature.bind(**case).arguments), lent=True)[0]

    def _run(self, call: dict[str, Any], lent: bool = False) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """-> the spec's outputs, and any other results."""
        call = in_dtype(call, self.spec.dtype)
        written = lent or not self.spec.common  # the arrays may change; a report shows them as passed
        self.last = copied(call) if written else call
        positional, named = self.arguments(call if written else copied(call))
        result = called(self.forward, self.spec.function, *positional, **named)
        outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
        wanted = cache = len(self.spec.outputs)
        if self.spec.common:
            cache = next((i for i, x in enumerate(outputs[:wanted]) if i and _is_cache(x)), wanted)
        outputs, spare = outputs[:cache], outputs[cache:]
        self.spare = len(spare)
        if self.spec.common:
            for name, x in zip(self.spec.outputs, outputs, strict=False):
                if x is not None or name == self.spec.outputs[0]:
                    _numeric(x, name)
        if not outputs:
            raise Violation(f"{self.spec.function} returned nothing", sort="type")
        outputs += (None,) * (wanted - len(outputs))
        for switch in self.conventions:
            outputs = switch.outputs(call, outputs)
        return outputs, spare

    def arguments(self, call: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The implementation's arguments: by position, and by its names.

        Raises NotOfferedError and MissingError where it does not take such a call.
        """
        left_out = self.left_out(call)
        if left_out:
            raise NotOfferedError(left_out)
        positional, named = [], {}
        for name, x in self.translated(call).items():
            how = self.passing[name]
            if how == "by position":
                positional.append(x)
            elif how == "by name":
                named[self._their_names.get(name, name)] = x
            elif name != "causal" and not _same(x, self.signature.parameters[name].default):
                raise MissingError(f"{self.spec.function} takes no `{name}`")
        for theirs, pair in self._pairs.items():
            if any(n in named for n in pair):
                named[theirs] = tuple(named.pop(n, self.signature.parameters[n].default) for n in pair)
        return positional, named

    def translated(self, call: dict[str, Any]) -> dict[str, Any]:
        """The arguments in the forms that the implementation takes, and in its conventions."""
        for form in self.forms:
            call = form.rewrite(call) if form.rewrite is not None and form.has(call) else call
        if self._in_words and "approximate" in call:
            call = call | {"approximate": "tanh" if call["approximate"] else "none"}
        return functools.reduce(lambda arguments, switch: switch.arguments(arguments), self.conventions, call)

    def other(self, name: str) -> Callable[..., Any]:
        """One of the spec's `others`. Raises MissingError if the implementation lacks it."""
        f = self.forward if name == self.computes else getattr(self.implementation, name, None)
        if f is None:
            raise MissingError(f"it has no `{name}`")
        return lambda *args, **kwargs: called(f, name, *in_dtype(args, self.spec.dtype), **kwargs)

    def gradients(self, case: dict[str, Any], *upstream: Any) -> dict[str, Any]:
        """The gradients by argument for these upstream gradients. The backward gets copies."""
        arguments = self.prepared(case, upstream)
        return self.name_gradients(case, self.backward(copied(arguments)))

    def prepared(self, case: dict[str, Any], upstream: tuple[Any, ...]) -> dict[str, Any]:
        """Run the forward. -> the backward's arguments under its names, upstream gradients first."""
        name = f"{self.spec.function}_backward"
        case, upstream = in_dtype((case, upstream), self.spec.dtype)
        if self._backward is None:
            raise MissingError(f"it has no `{name}`")
        deciding = [form.says for form in self.backward_forms if form.has(case)]
        deciding += [switch.says for switch in self.conventions if switch.has_gradient(case)]
        if deciding:
            raise NotOfferedError(deciding[0])
        known, spare = self._remembered_by_forward(case)
        for switch in self.conventions:
            upstream = switch.upstream(case, upstream)
        required = self.backward_arguments()
        arguments = dict(zip(required, upstream, strict=False))
        rest = list(required)[len(upstream) :]
        if sum(required[n] and n not in known for n in rest) > len(spare):  # names differ: match by position
            parameters = self.ours_backward.parameters
            library = list(parameters)[len(upstream) :]
            needed = [n for n in rest if required[n]], [n for n in library if parameters[n].default is EMPTY]
            for theirs, ours in ((rest, library), needed):
                if len(theirs) == len(ours):
                    known |= {n: known.get(c) for n, c in zip(theirs, ours, strict=True)}
                    break
        for n in rest:
            if n in known:
                arguments[n] = known[n]
            elif required[n] and spare:
                arguments[n] = spare.pop(0)
            elif required[n]:
                raise CannotRunError(
                    f"{name} requires `{n}`, which is neither an argument of {self.spec.function} nor returned by it"
                )
        return arguments

    def _remembered_by_forward(self, case: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Run the forward. -> arguments and outputs by the library's and the implementation's names; other results."""
        call = {n: case.get(n, p.default) for n, p in self.signature.parameters.items()}
        outputs, extra = self._run({n: x for n, x in call.items() if n in case})
        known = self.translated(call)
        known |= {n: x for n, x in zip(self.spec.outputs, outputs, strict=True) if x is not None and n not in known}
        known |= {theirs: known[n] for theirs, n in self.library_names.items() if n in known}
        return known, list(extra)

    def backward_arguments(self) -> dict[str, bool]:
        """The backward's argument names, and whether each is required."""
        parameters = self._of_backward
        decorated = parameters is not None and len(parameters) <= 2  # as (*args, **kwargs)
        if parameters is None or (decorated and any(p.kind is p.VAR_POSITIONAL for p in parameters.values())):
            parameters = self.ours_backward.parameters
        named = (*BY_POSITION, inspect.Parameter.KEYWORD_ONLY)
        return {n: p.default is EMPTY for n, p in parameters.items() if p.kind in named}

    def backward(self, arguments: dict[str, Any]) -> Any:
        """Call the backward with arguments from `prepared`."""
        assert self._backward is not None
        self.last = arguments
        positional, named = [], dict(arguments)
        for n, p in (self._of_backward or {}).items():
            if p.kind is inspect.Parameter.VAR_POSITIONAL:  # of a decorator: pass all, in the library's order
                positional, named = [x for name, x in arguments.items() if name not in self.lacks], {}
            if p.kind not in BY_POSITION or n not in named:
                break
            positional.append(named.pop(n))
        return called(self._backward, f"{self.spec.function}_backward", *positional, **named)

    def name_gradients(self, case: dict[str, Any], returned: Any) -> dict[str, Any]:
        """The returned gradients by argument. Raises Violation if one is missing or there are too many."""
        named: dict[str, Any] = Gradients(self.by_argument(case, returned))
        for n in self.not_derived:
            named.pop(n, None)
        for n, g in named.items():
            if g is None:
                raise Violation(f"{self.spec.function}_backward returned None for d{n}", sort="type")
            _numeric(g, f"d{n}")
        for switch in self.conventions:
            named = switch.gradients(case, named)
        return Gradients(named)

    def by_argument(self, case: dict[str, Any], returned: Any) -> dict[str, Any]:
        """The gradient that was returned for each argument of the case."""
        returned = by_name(returned, self.spec.wrt)
        gradients = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
        offered = [n for n in self.spec.wrt if n not in self.lacks]
        present = [n for n in offered if case.get(n) is not None]
        names = next((names for names in (self.spec.wrt, offered, present) if len(names) == len(gradients)), None)
        if names is None or returned is None:
            expected = ", ".join("d" + n for n in offered)
            gave = "None" if returned is None else f"{len(gradients)} gradient{'s' * (len(gradients) != 1)}"
            raise Violation(f"{self.spec.function}_backward returned {gave}, expected {expected}", sort="count")
        named = dict(zip(names, gradients, strict=True))
        return {n: named[n] for n in present}


def by_name(returned: Any, names: Sequence[str]) -> Any:
    """A dict of results, or of gradients by "x" or "dx", as a tuple in the names' order; anything else as it is."""
    known = {key: n for n in names for key in (n, f"d{n}")}
    if not isinstance(returned, dict) or not returned or not returned.keys() <= known.keys():
        return returned
    named = {known[key]: g for key, g in returned.items()}
    return tuple(named[n] for n in names if n in named)


def called(f: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    """Call f; any exception becomes a Violation that names file and line."""
    process = os.getpid()
    try:
        with np.errstate(all="ignore"):
            y = f(*args, **kwargs)
        if os.getpid() != process:
            os._exit(0)  # f forked: only the parent continues
        return y
    except (TooLongError, KeyboardInterrupt, NotOfferedError):
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        theirs = [f for f in frames if not f.filename.startswith(_LIBRARY_FOLDERS)] or frames
        at = f" (line {theirs[-1].lineno} of {theirs[-1].filename})" if theirs else ""
        violation = Violation(f"{name} raised {type(error).__name__}: {message_of(error)}{at}", sort="raised")
        violation.place = f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
        raise violation from error


def message_of(error: BaseException) -> str:
    """The exception's message, if it can be printed."""
    try:
        return str(error)[:300]
    except Exception:
        return "(its message cannot be printed)"


def _numeric(x: Any, name: str) -> None:
    """Raise Violation unless x is an array of numbers, or a number."""
    dtype = getattr(x, "dtype", None)
    if isinstance(x, bool | int | float):
        return
    if getattr(dtype, "kind", "O") in "fiub":
        try:
            np.asarray(x)
        except Exception as error:
            says = f"{name} is a {type(x).__name__}, which NumPy cannot make an array: {message_of(error)}"
            raise Violation(says, sort="type") from None
        return
    kind = "None" if x is None else f"an array of {dtype}" if dtype is not None else f"a {type(x).__name__}"
    real = "real " if isinstance(x, complex) or getattr(dtype, "kind", "O") == "c" else ""
    raise Violation(f"{name} is {kind}, expected an array of {real}numbers", sort="type")


def _is_cache(x: Any) -> bool:
    """Whether a result after the outputs is for the backward: a tuple, a dict, an object."""
    return x is not None and not isinstance(x, bool | int | float) and not hasattr(x, "dtype")


def _same(x: Any, default: Any) -> bool:
    return x is default or (not isinstance(x, np.ndarray) and bool(x == default))
