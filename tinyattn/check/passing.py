"""How the library's arguments are passed to an implementation: by name, by position, or left out."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

EMPTY = inspect.Parameter.empty
OTHER_NAMES = {  # optional arguments: usual name -> the library's
    **dict.fromkeys(("attn_mask", "attention_mask", "src_mask"), "mask"),
    "bias": "b", "bpreg": "regularisation", "istarget": "weights", "label_smoothing": "smoothing",
    "layer_norm_eps": "eps", "scaling": "scale",
}  # fmt: skip
PAIRS = {"betas": ("beta1", "beta2")}  # one argument in place of two of the library's
BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class CannotRunError(Exception):
    """The implementation cannot be called as its spec says; the message names the missing part and a remedy."""


def name_of(f: Any) -> str:
    """The name of a function, "" for an object without one."""
    return str(getattr(f, "__name__", ""))


def taken_by(f: Any) -> Mapping[str, inspect.Parameter] | None:
    """The parameters by name; None for a function built in C, which has no signature."""
    try:
        return inspect.signature(f).parameters
    except (TypeError, ValueError):
        return None


def backward_beside(forward: Any) -> Any:
    """The function NAME_backward in the module that defines the forward NAME, or None."""
    module = getattr(inspect.unwrap(forward), "__globals__", {})
    backward = module.get(f"{name_of(forward)}_backward")
    return backward if callable(backward) else None


def passing_of(forward: Callable[..., Any], library: inspect.Signature, name: str) -> dict[str, str]:
    """How each of the library's arguments is passed: by name, by position, or left out."""
    theirs = taken_by(forward)
    if theirs is None:
        return {n: "by position" if p.default is EMPTY else "left out" for n, p in library.parameters.items()}
    kinds = {p.kind for p in theirs.values()}
    required = [n for n, p in library.parameters.items() if p.default is EMPTY]
    function = f"{name}({', '.join(library.parameters)})"
    name = name_of(forward) or name
    remedy = "write a function that takes these and calls it"
    named = {n for n, p in theirs.items() if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    by_name = all(n in named for n in required)
    places = [n for n, p in theirs.items() if p.kind in BY_POSITION]
    if not by_name and len(places) < len(required) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        count = f"{len(places)} argument{'s' * (len(places) != 1)}"
        raise CannotRunError(f"`{name}` takes {count}, expected {len(required)}: {', '.join(required)}")
    taken = set() if by_name else set(places[: len(required)])  # filled by required arguments
    named -= taken
    named |= {OTHER_NAMES[n] for n in named if n in OTHER_NAMES and not isinstance(theirs[n].default, bool)}
    named |= {n for pair in PAIRS.keys() & named for n in PAIRS[pair]}
    plan = dict.fromkeys(library.parameters, "left out")
    plan |= dict.fromkeys(required, "by name" if by_name else "by position")
    anything = named if inspect.Parameter.VAR_KEYWORD not in kinds else plan.keys() - taken
    plan |= {n: "by name" for n in plan if n not in required and (n in named or n in anything)}
    for n, p in theirs.items():
        passed = n in taken or plan.get(n, plan.get(OTHER_NAMES.get(n, n))) == "by name"
        if not passed and p.default is EMPTY and p.kind in (*BY_POSITION, p.KEYWORD_ONLY):
            if by_name:
                lacks = f"`{name}` requires `{n}`, which the library's {function} does not have"
                raise CannotRunError(f"{lacks}: {remedy}")
            needed = ", ".join(m for m in theirs if theirs[m].default is EMPTY)
            raise CannotRunError(f"`{name}` requires {needed}, expected {', '.join(required)}: {remedy}")
    return plan


def names_of(forward: Callable[..., Any], plan: dict[str, str]) -> dict[str, str]:
    """The library's name for each of the implementation's arguments that is passed by position or is in OTHER_NAMES."""
    theirs = taken_by(forward) or {}
    places = [n for n, p in theirs.items() if p.kind in BY_POSITION]
    names = dict(zip(places, [n for n, how in plan.items() if how == "by position"], strict=False))
    for n, ours in OTHER_NAMES.items():
        here = n in theirs and n not in names and ours not in theirs and not isinstance(theirs[n].default, bool)
        if here and plan.get(ours) == "by name":
            names[n] = ours
    return names
