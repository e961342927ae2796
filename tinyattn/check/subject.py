"""Somebody's implementation, called as the library's own would be.

Names decide what is passed where: arguments by name, required ones by position where the names are others, optional
ones left out (and said to be left out) where they are not taken.
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

from .kind import Kind
from .property import Violation

_EMPTY = inspect.Parameter.empty
_NOT_THEIRS = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(np.__file__).parent))
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TooLongError(BaseException):
    """A call has not returned in time. (Not an Exception, which the code on trial might catch.)"""


class CannotRunError(Exception):
    """The implementation cannot be called as its kind; the message says what is missing, and what would help."""


class MissingError(Exception):
    """A property needs what this implementation does not offer: it is skipped, and said to be skipped."""


class Subject:
    """`subject(**case)` is the forward's answer, `outputs(**case)` all it returns, `gradients(case, dy)` by name.

    Raises CannotRunError where the implementation lacks the kind's function. `lacks` names what it does not offer.
    """

    def __init__(self, implementation: Any, kind: Kind):
        self.kind = kind
        self.implementation = implementation
        ours = kind.ours()
        self.signature = inspect.signature(getattr(ours, kind.function))
        name = kind.function if hasattr(implementation, kind.function) else kind.name
        forward = getattr(implementation, name, None)
        if forward is None and callable(implementation) and not inspect.ismodule(implementation):
            forward = implementation
        if forward is None:
            public = [n for n in dir(implementation) if not n.startswith("_") and callable(getattr(implementation, n))]
            raise CannotRunError(
                f"there is no `{kind.function}` in it, only {', '.join(public[:12]) or 'nothing that can be called'}; "
                f"give MODULE:OBJECT for a function of another name, or an adapter with the name `{kind.function}`"
            )
        self.forward = forward
        self.remembered: dict[str, Any] = {}  # what a kind finds out about it
        self._passing = _plan(forward, self.signature, kind.function)
        self._called = _own_names(forward, self._passing)
        self._backward = getattr(implementation, f"{name}_backward", None) if kind.wrt else None
        if kind.wrt:
            self._ours_backward = inspect.signature(getattr(ours, f"{kind.function}_backward"))
        self.lacks = [
            name for name, how in self._passing.items() if how == "left out" and name in self.signature.parameters
        ]
        if kind.wrt and self._backward is None:
            self.lacks.append(f"{kind.function}_backward")
        self.lacks += [name for name in kind.others if not hasattr(implementation, name)]

    def fit(self, case: dict[str, Any]) -> dict[str, Any]:
        """The case with the arguments that are not taken at their defaults."""
        parameters = self.signature.parameters
        return {n: parameters[n].default if n in self.lacks else x for n, x in case.items()}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.outputs(*args, **kwargs)[0]

    def outputs(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """All that the forward returns, the answer first; what it does not return is None."""
        return self._run(dict(self.signature.bind(*args, **kwargs).arguments))[0]

    def _run(self, given: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """-> the outputs that the kind names, and what the implementation returns beyond them."""
        positional, named = [], {}
        for name, x in given.items():
            how = self._passing[name]
            if how == "by position":
                positional.append(x)
            elif how == "by name":
                named[name] = x
            elif not _same(x, self.signature.parameters[name].default):
                raise MissingError(f"{self.kind.function} takes no `{name}`")
        result = called(self.forward, self.kind.function, *positional, **named)
        found = tuple(result) if isinstance(result, tuple | list) else (result,)
        wanted = len(self.kind.outputs)
        if self.kind.common:
            for name, x in zip(self.kind.outputs, found, strict=False):
                if x is not None or name == self.kind.outputs[0]:
                    _numeric(x, name)
        if not found:
            raise Violation(f"{self.kind.function} returned nothing")
        if len(found) < wanted:
            found += (None,) * (wanted - len(found))
        return found[:wanted], found[wanted:]

    def other(self, name: str) -> Callable[..., Any]:
        """A further function of the kind. Raises MissingError where there is none."""
        f = getattr(self.implementation, name, None)
        if f is None:
            raise MissingError(f"there is no `{name}`")
        return lambda *args, **kwargs: called(f, name, *args, **kwargs)

    def gradients(self, case: dict[str, Any], *upstream: Any) -> dict[str, Any]:
        """What the backward returns for these upstream gradients, by the names of the arguments it belongs to."""
        return self.name_gradients(case, self.backward(self.prepared(case, upstream)))

    def prepared(self, case: dict[str, Any], upstream: tuple[Any, ...]) -> dict[str, Any]:
        """Runs the forward: -> the backward's arguments by its own names, upstream gradients first."""
        name = f"{self.kind.function}_backward"
        if self._backward is None:
            raise MissingError(f"there is no `{name}`")
        known, spare = self._remembered_by_forward(case)
        asked = self._asked()
        takes = dict(zip(asked, upstream, strict=False))
        rest = list(asked)[len(upstream) :]
        canonical = list(self._ours_backward.parameters)[len(upstream) :]
        alien = [n for n in rest if n not in known and asked[n]]
        if alien and not spare and len(rest) == len(canonical):  # other names, the same order
            known |= {n: known.get(c) for n, c in zip(rest, canonical, strict=True)}
        for n in rest:
            if n in known:
                takes[n] = known[n]
            elif asked[n] and spare:
                takes[n] = spare.pop(0)  # what the forward returned beyond its outputs
            elif asked[n]:
                raise CannotRunError(
                    f"{name} asks for `{n}`, which is neither an argument of {self.kind.function} nor returned by it"
                )
        return takes

    def _remembered_by_forward(self, case: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        """Run the forward: -> arguments and outputs by the library's names and by its own; what else it returned."""
        outputs, extra = self._run(dict(self.signature.bind(**case).arguments))
        whole = self.signature.bind(**case)
        whole.apply_defaults()
        known = dict(whole.arguments)
        known |= {n: x for n, x in zip(self.kind.outputs, outputs, strict=True) if x is not None and n not in known}
        known |= {own: known[n] for own, n in self._called.items() if n in known}  # its own names win
        return known, list(extra)

    def _asked(self) -> dict[str, bool]:
        """What the backward's arguments are called, and whether it can do without them."""
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
        """Call the backward with what `prepared` gave, changed or not."""
        assert self._backward is not None
        positional, named = [], dict(takes)
        with contextlib.suppress(TypeError, ValueError):
            for n, p in inspect.signature(self._backward).parameters.items():
                if p.kind is inspect.Parameter.VAR_POSITIONAL:  # behind a decorator: in the library's order
                    positional, named = list(takes.values()), {}
                if p.kind not in _BY_POSITION or n not in named:
                    break
                positional.append(named.pop(n))
        return called(self._backward, f"{self.kind.function}_backward", *positional, **named)

    def name_gradients(self, case: dict[str, Any], returned: Any) -> dict[str, Any]:
        """Gradients under the names they belong to. Raises Violation where one is missing or there are too many."""
        found = tuple(returned) if isinstance(returned, tuple | list) else (returned,)
        offered = [n for n in self.kind.wrt if n not in self.lacks]
        present = [n for n in offered if case.get(n) is not None]
        names = next((names for names in (self.kind.wrt, offered, present) if len(names) == len(found)), None)
        if names is None or returned is None:
            expected = ", ".join("d" + n for n in offered)
            gave = "None" if returned is None else f"{len(found)} gradient{'s' * (len(found) != 1)}"
            raise Violation(f"{self.kind.function}_backward returned {gave}, expected {expected}")
        named = dict(zip(names, found, strict=True))
        for n in present:
            if named[n] is None:
                raise Violation(f"{self.kind.function}_backward returned None for d{n}")
            _numeric(named[n], f"d{n}")
        return {n: named[n] for n in present}


def called(f: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    """f(...), with whatever it raises told as a Violation that names file and line."""
    try:
        with np.errstate(all="ignore"):
            return f(*args, **kwargs)
    except (TooLongError, KeyboardInterrupt):
        raise
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[1:]
        theirs = [f for f in frames if not f.filename.startswith(_NOT_THEIRS)] or frames
        at = f" (line {theirs[-1].lineno} of {theirs[-1].filename})" if theirs else ""
        raise Violation(f"{name} raised {type(error).__name__}: {told(error)}{at}") from error


def told(error: BaseException) -> str:
    """What an exception says, where it can say it."""
    try:
        return str(error)[:300]
    except Exception:
        return "(its message cannot be printed)"


def _numeric(x: Any, name: str) -> None:
    """Raise Violation unless x is an array of numbers, or a number."""
    dtype = getattr(x, "dtype", None)
    if isinstance(x, bool | int | float) or (dtype is not None and getattr(dtype, "kind", "O") in "fiub"):
        return
    kind = f"an array of {dtype}" if dtype is not None else f"a {type(x).__name__}"
    raise Violation(f"{name} is {'None' if x is None else kind}, expected an array of numbers")


def _plan(forward: Callable[..., Any], library: inspect.Signature, name: str) -> dict[str, str]:
    """How each of the library's arguments is passed: by name, by position, or left out."""
    try:
        own = inspect.signature(forward).parameters
    except (TypeError, ValueError):  # built in C: nothing is known of it
        return {n: "by position" if p.default is _EMPTY else "left out" for n, p in library.parameters.items()}
    required = [n for n, p in library.parameters.items() if p.default is _EMPTY]
    named = {n for n, p in own.items() if p.kind not in (inspect.Parameter.POSITIONAL_ONLY,)}
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in own.values())
    by_name = all(n in named for n in required)
    places = sum(p.kind in _BY_POSITION for p in own.values())
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in own.values()):
        places = len(required)
    if not by_name and places < len(required):
        raise CannotRunError(f"`{name}` takes {places} arguments by position, expected {', '.join(required)}")
    plan = {}
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
    """What the implementation itself calls the arguments that it is passed by position."""
    try:
        own = [n for n, p in inspect.signature(forward).parameters.items() if p.kind in _BY_POSITION]
    except (TypeError, ValueError):
        return {}
    return dict(zip(own, [n for n, how in plan.items() if how == "by position"], strict=False))


def _same(x: Any, default: Any) -> bool:
    return x is default or (not isinstance(x, np.ndarray) and bool(x == default))
