"""An implementation, called with the signature of the library's own.

Arguments are passed by name; required ones by position if the implementation names them otherwise; optional ones that
it does not take are left out, and reported as left out.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .cases import copied
from .property import Violation
from .spec import Form, Spec
from .switch import Switch

_EMPTY = inspect.Parameter.empty
_LIBRARY_FOLDERS = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(np.__file__).parent))
OTHER_NAMES = {"attn_mask": "mask", "attention_mask": "mask"}  # of optional arguments: usual elsewhere -> the library's
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TooLongError(BaseException):
    """A call did not return in time. A BaseException: `except Exception` in the checked code must not catch it."""


class CannotRunError(Exception):
    """The implementation cannot be called as its spec says; the message says what is missing and what would help."""


class MissingError(Exception):
    """A property needs a function or argument that this implementation lacks: the property is skipped."""


class NotOfferedError(MissingError):
    """A call has a form that this implementation does not take, or that a convention decides: the case is left out."""


class Subject:
    """`subject(**case)` is the first output, `outputs(**case)` all of them, `gradients(case, dy)` a dict by argument.

    Raises CannotRunError if the implementation lacks the spec's function. `lacks` names what else it does not have,
    `unused` its own optional arguments that are never passed.
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
        if forward is None:
            public = [n for n in dir(implementation) if not n.startswith("_") and callable(getattr(implementation, n))]
            raise CannotRunError(
                f"there is no `{spec.function}` in it, only {', '.join(public[:12]) or 'nothing that can be called'}; "
                f"give MODULE:OBJECT for a function of another name, or an adapter with the name `{spec.function}`"
            )
        if inspect.isclass(forward):
            says = f"`{name}` is a class, expected a function: make an object, or adapt it with tinyattn.check.layer"
            raise CannotRunError(says)
        self.forward = forward
        self.last: dict[str, Any] = {}  # the arguments of the last call, of the forward or the backward
        self.remembered: dict[str, Any] = {}  # what a spec has found out about it, such as its width
        self.forms: list[Form] = []  # of calls that it does not take (forms.py)
        self.backward_forms: list[Form] = []  # of calls whose gradient it does not offer
        self.conventions: list[Switch] = []  # that it follows, and the library does not (conventions.py)
        self._passing = _plan(forward, self.signature, spec.function)
        self._called = _own_names(forward, self._passing)
        self._own = {n: own for own, n in self._called.items()}  # the library's name -> its own
        self.unused = _unused(forward, self._passing, self._called)
        self._backward = getattr(implementation, f"{name}_backward", None) if spec.wrt else None
        if spec.wrt and self._backward is None:
            self._backward = getattr(forward, "backward", None)  # a layer's, or autograd's
        if spec.wrt and self._backward is None and forward is implementation:  # FILE:function
            self._backward = backward_beside(forward)
        if spec.wrt:
            self._ours_backward = inspect.signature(getattr(ours, f"{spec.function}_backward"))
        self.lacks = [
            name for name, how in self._passing.items() if how == "left out" and name in self.signature.parameters
        ]
        if spec.wrt and self._backward is None:
            self.lacks.append(f"{spec.function}_backward")
        self.lacks += [name for name in spec.others if not hasattr(implementation, name)]

    @property
    def plain_backward(self) -> Any:
        """The backward where it is a Python function, of this name or beside the forward; else None."""
        found = self._backward or backward_beside(self.forward)
        return found if hasattr(found, "__code__") else None

    def place(self, backward: bool) -> str:
        """FILE:LINE of the forward, or of the backward, where it is known."""
        with contextlib.suppress(TypeError, OSError):
            code = inspect.unwrap(self._backward if backward and self._backward else self.forward)
            return f"{inspect.getsourcefile(code)}:{inspect.getsourcelines(code)[1]}"
        return ""

    def fit(self, case: dict[str, Any]) -> dict[str, Any]:
        """The case as far as it goes: arguments that it does not take at their defaults, conventions kept out of it."""
        parameters = self.signature.parameters
        case = {n: parameters[n].default if n in self.lacks else x for n, x in case.items()}
        for switch in self.conventions:
            case = switch.avoid(case)
        return case

    def offers(self, case: dict[str, Any]) -> bool:
        """Whether it takes a call of this form."""
        return not self.left_out(case)

    def left_out(self, given: dict[str, Any]) -> str:
        """The form that a call has and the implementation does not take, or the convention that decides it; or ""."""
        every: list[Form | Switch] = [*(form for form in self.forms if form.rewrite is None), *self.conventions]
        return next((form.says for form in every if form.has(given)), "")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.outputs(*args, **kwargs)[0]

    def outputs(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """All outputs, in the spec's order; those not returned are None.

        It gets copies: what it writes into them must not change what its results are compared with. Without common
        properties writing may be what is asked for, as of Adam.
        """
        return self._run(dict(self.signature.bind(*args, **kwargs).arguments))[0]

    def outputs_of_lent(self, **case: Any) -> tuple[Any, ...]:
        """All outputs, as `outputs`, of a call that is given these very arrays: for questions of memory."""
        return self._run(dict(self.signature.bind(**case).arguments), lent=True)[0]

    def _run(self, given: dict[str, Any], lent: bool = False) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """-> the spec's outputs, and what the implementation returns beyond them."""
        self.last = given
        positional, named = self.arguments(given if lent or not self.spec.common else copied(given))
        result = called(self.forward, self.spec.function, *positional, **named)
        found = tuple(result) if isinstance(result, tuple | list) else (result,)
        wanted = len(self.spec.outputs)
        cache = wanted
        if self.spec.common:
            cache = next((i for i, x in enumerate(found[:wanted]) if i and _is_cache(x)), wanted)
        found, spare = found[:cache], found[cache:]
        if self.spec.common:
            for name, x in zip(self.spec.outputs, found, strict=False):
                if x is not None or name == self.spec.outputs[0]:
                    _numeric(x, name)
        if not found:
            raise Violation(f"{self.spec.function} returned nothing", sort="type")
        if len(found) < wanted:
            found += (None,) * (wanted - len(found))
        for switch in self.conventions:
            found = (switch.result(given, found[0]), *found[1:])
        return found[:wanted], spare

    def arguments(self, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """What the implementation is called with: by position, and by its own names.

        Raises NotOfferedError and MissingError where it does not take such a call.
        """
        left_out = self.left_out(given)
        if left_out:
            raise NotOfferedError(left_out)
        positional, named = [], {}
        for name, x in self._translated(given).items():
            how = self._passing[name]
            if how == "by position":
                positional.append(x)
            elif how == "by name":
                named[self._own.get(name, name)] = x
            elif not _same(x, self.signature.parameters[name].default):
                raise MissingError(f"{self.spec.function} takes no `{name}`")
        return positional, named

    def _translated(self, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments in the forms that the implementation takes, and in its conventions."""
        for form in self.forms:
            if form.rewrite is not None and form.has(given):
                given = form.rewrite(given)
        for switch in self.conventions:
            given = switch.given(given)
        return given

    def other(self, name: str) -> Callable[..., Any]:
        """One of the spec's `others`. Raises MissingError if the implementation lacks it."""
        f = getattr(self.implementation, name, None)
        if f is None:
            raise MissingError(f"there is no `{name}`")
        return lambda *args, **kwargs: called(f, name, *args, **kwargs)

    def gradients(self, case: dict[str, Any], *upstream: Any) -> dict[str, Any]:
        """The gradients that the backward returns for these upstream gradients, by argument.

        It gets copies: whether it writes into what it is given is a question of its own, not one of numbers.
        """
        takes = self.prepared(case, upstream)
        return self.name_gradients(case, self.backward(copied(takes)))

    def prepared(self, case: dict[str, Any], upstream: tuple[Any, ...]) -> dict[str, Any]:
        """Run the forward. -> the backward's arguments under its own names, upstream gradients first."""
        name = f"{self.spec.function}_backward"
        if self._backward is None:
            raise MissingError(f"there is no `{name}`")
        for form in self.backward_forms:
            if form.has(case):
                raise NotOfferedError(form.says)
        for switch in self.conventions:
            if switch.has_gradient(case):
                raise NotOfferedError(switch.says)
        known, spare = self._remembered_by_forward(case)
        asked = self._asked()
        takes = dict(zip(asked, upstream, strict=False))
        rest = list(asked)[len(upstream) :]
        canonical = list(self._ours_backward.parameters)[len(upstream) :]
        alien = [n for n in rest if n not in known and asked[n]]
        if alien and not spare:  # other names: by position, those with defaults where that makes them as many
            ours = self._ours_backward.parameters
            needed = [n for n in rest if asked[n]], [n for n in canonical if ours[n].default is _EMPTY]
            for own, theirs in ((rest, canonical), needed):
                if len(own) == len(theirs):
                    known |= {n: known.get(c) for n, c in zip(own, theirs, strict=True)}
                    break
        for n in rest:
            if n in known:
                takes[n] = known[n]
            elif asked[n] and spare:
                takes[n] = spare.pop(0)  # what the forward returned beyond its outputs
            elif asked[n]:
                raise CannotRunError(
                    f"{name} asks for `{n}`, which is neither an argument of {self.spec.function} nor returned by it"
                )
        return takes

    def _remembered_by_forward(self, case: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Run the forward. -> arguments and outputs by the library's names and its own; further results."""
        outputs, extra = self._run(dict(self.signature.bind(**case).arguments))
        whole = self.signature.bind(**case)
        whole.apply_defaults()
        known = self._translated(dict(whole.arguments))
        known |= {n: x for n, x in zip(self.spec.outputs, outputs, strict=True) if x is not None and n not in known}
        known |= {own: known[n] for own, n in self._called.items() if n in known}  # its own names take precedence
        return known, list(extra)

    def _asked(self) -> dict[str, bool]:
        """The backward's argument names, and whether each is required."""
        ours = list(self._ours_backward.parameters.values())
        try:
            wanted = list(inspect.signature(self._backward).parameters.values()) if self._backward else ours
        except (TypeError, ValueError):
            wanted = ours
        if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in wanted) and len(wanted) <= 2:
            wanted = ours  # behind a decorator: (*args, **kwargs)
        named = (*_BY_POSITION, inspect.Parameter.KEYWORD_ONLY)
        return {p.name: p.default is _EMPTY for p in wanted if p.kind in named}

    def backward(self, takes: dict[str, Any]) -> Any:
        """Call the backward with arguments from `prepared`."""
        assert self._backward is not None
        self.last = takes
        positional, named = [], dict(takes)
        with contextlib.suppress(TypeError, ValueError):
            for n, p in inspect.signature(self._backward).parameters.items():
                if p.kind is inspect.Parameter.VAR_POSITIONAL:  # behind a decorator: in the library's order
                    positional, named = list(takes.values()), {}
                if p.kind not in _BY_POSITION or n not in named:
                    break
                positional.append(named.pop(n))
        return called(self._backward, f"{self.spec.function}_backward", *positional, **named)

    def name_gradients(self, case: dict[str, Any], returned: Any) -> dict[str, Any]:
        """The returned gradients by argument. Raises Violation if one is missing or there are too many."""
        found = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
        offered = [n for n in self.spec.wrt if n not in self.lacks]
        present = [n for n in offered if case.get(n) is not None]
        names = next((names for names in (self.spec.wrt, offered, present) if len(names) == len(found)), None)
        if names is None or returned is None:
            expected = ", ".join("d" + n for n in offered)
            gave = "None" if returned is None else f"{len(found)} gradient{'s' * (len(found) != 1)}"
            raise Violation(f"{self.spec.function}_backward returned {gave}, expected {expected}", sort="count")
        named = dict(zip(names, found, strict=True))
        for n in present:
            if named[n] is None:
                raise Violation(f"{self.spec.function}_backward returned None for d{n}", sort="type")
            _numeric(named[n], f"d{n}")
        for switch in self.conventions:
            named = switch.gradients(case, named)
        return {n: named[n] for n in present}


def backward_beside(forward: Any) -> Any:
    """The function of this name with `_backward` at its end in the module where it is defined, or None."""
    found = getattr(inspect.unwrap(forward), "__globals__", {}).get(f"{getattr(forward, '__name__', '')}_backward")
    return found if callable(found) else None


def called(f: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    """Call f; any exception becomes a Violation that names file and line."""
    process = os.getpid()
    try:
        with np.errstate(all="ignore"):
            y = f(*args, **kwargs)
        if os.getpid() != process:
            os._exit(0)  # it forked: one checker is enough
        return y
    except (TooLongError, KeyboardInterrupt):
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        own = [f for f in frames if not f.filename.startswith(_LIBRARY_FOLDERS)] or frames
        at = f" (line {own[-1].lineno} of {own[-1].filename})" if own else ""
        violation = Violation(f"{name} raised {type(error).__name__}: {message_of(error)}{at}", sort="raised")
        violation.place = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
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
            said = f"{name} is a {type(x).__name__}, of which NumPy makes no array: {message_of(error)}"
            raise Violation(said, sort="type") from None
        return
    found = f"an array of {dtype}" if dtype is not None else f"a {type(x).__name__}"
    raise Violation(f"{name} is {'None' if x is None else found}, expected an array of numbers", sort="type")


def _is_cache(x: Any) -> bool:
    """Whether a further result is no output but something for the backward: a tuple, a dict, an object."""
    return x is not None and not isinstance(x, bool | int | float) and not hasattr(x, "dtype")


def _plan(forward: Callable[..., Any], library: inspect.Signature, name: str) -> dict[str, str]:
    """How each of the library's arguments is passed: by name, by position, or left out."""
    try:
        own = inspect.signature(forward).parameters
    except (TypeError, ValueError):  # built in C: it has no signature
        return {n: "by position" if p.default is _EMPTY else "left out" for n, p in library.parameters.items()}
    required = [n for n, p in library.parameters.items() if p.default is _EMPTY]
    named = {n for n, p in own.items() if p.kind not in (inspect.Parameter.POSITIONAL_ONLY,)}
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in own.values())
    by_name = all(n in named for n in required)
    places = sum(p.kind in _BY_POSITION for p in own.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in own.values()):
        places = len(required)
    if not by_name and places < len(required):
        count = f"{places} argument{'s' * (places != 1)}"
        raise CannotRunError(f"`{name}` takes {count}, expected {len(required)}: {', '.join(required)}")
    plan = {}
    named |= {OTHER_NAMES[n] for n in named if n in OTHER_NAMES and own[n].default is not _EMPTY}
    for n, p in library.parameters.items():
        if p.default is _EMPTY:
            plan[n] = "by name" if by_name else "by position"
        else:
            plan[n] = "by name" if n in named or anything else "left out"
    known = {n for n, how in plan.items() if how == "by name"}
    taken = 0 if by_name else len(required)
    for i, (n, p) in enumerate(own.items()):
        if i >= taken and n not in known and p.default is _EMPTY and p.kind in (*_BY_POSITION, p.KEYWORD_ONLY):
            raise CannotRunError(f"`{name}` asks for `{n}`, which the library's {name}{library} does not have")
    return plan


def _own_names(forward: Callable[..., Any], plan: dict[str, str]) -> dict[str, str]:
    """Its name -> the library's, of the arguments that are passed by position, or by a name of OTHER_NAMES."""
    try:
        parameters = inspect.signature(forward).parameters
    except (TypeError, ValueError):
        return {}
    own = [n for n, p in parameters.items() if p.kind in _BY_POSITION]
    found = dict(zip(own, [n for n, how in plan.items() if how == "by position"], strict=False))
    for n, ours in OTHER_NAMES.items():
        if n in parameters and n not in found and ours not in parameters and plan.get(ours) == "by name":
            found[n] = ours
    return found


def _unused(forward: Callable[..., Any], plan: dict[str, str], called: dict[str, str]) -> list[str]:
    """Its optional arguments that are never passed: the library's signature has none of their names."""
    try:
        own = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):
        return []
    passed = {*called, *(n for n, how in plan.items() if how == "by name")}
    return [p.name for p in own if p.default is not _EMPTY and p.name not in passed]


def _same(x: Any, default: Any) -> bool:
    return x is default or (not isinstance(x, np.ndarray) and bool(x == default))
