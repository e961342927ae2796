"""Which of a call's arrays a backward's names ask for, and which argument each gradient that it returns belongs to.

A backward takes upstream gradients first (`d` + an output's name), then inputs and outputs of the forward, by name.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from inspect import Parameter
from numbers import Number, Real
from typing import Any

import numpy as np

CONSTANTS = ("targets", "weights")  # float arrays that losses take and have no gradient
SURPLUS = "(surplus)"


def bind(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
    """All arguments of a call by their names, defaults too, and those that a `**name` takes."""
    signature = signature_of(forward)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    found = dict(bound.arguments)
    for name in _of_kind(signature, Parameter.VAR_KEYWORD):
        found |= found.pop(name)
    return found


def call(f: Callable[..., Any], given: dict[str, Any]) -> Any:
    """f with arguments by their names; those in front of a `/` by position.

    Defaults are left out: ufuncs refuse some of their own.
    """
    signature = signature_of(f)
    first = [name for name in _of_kind(signature, Parameter.POSITIONAL_ONLY) if name in given]
    default = {name: parameter.default for name, parameter in signature.parameters.items()}
    by_name = {n: x for n, x in given.items() if n not in first and x is not default.get(n, Parameter.empty)}
    return f(*(given[name] for name in first), **by_name)


def signature_of(f: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(f)
    except ValueError:
        expected = f"a function written in Python, such as lambda x: {name_of(f)}(x)"
        raise TypeError(f"{name_of(f)} does not say what its arguments are called, expected {expected}") from None


def name_of(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", type(f).__name__)


def unnamed(f: Callable[..., Any]) -> list[str]:
    """`xs` of a function with `*xs`: what it takes without names."""
    return _of_kind(signature_of(f), Parameter.VAR_POSITIONAL)


def _of_kind(signature: inspect.Signature, *kinds: Any) -> list[str]:
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]


def backward_arguments(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: dict[str, Any],
    returned: Any,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], list[Any]]:
    """`forward` returned this. -> the arguments that `backward`'s names ask for, and the cotangents among them.

    Raises TypeError where it asks for what is neither an input nor an output, and for an output of no real numbers.
    """
    if is_list_of_numbers(returned):
        raise TypeError(f"gradcheck: {name_of(forward)} returned a list of numbers, expected an array")
    upstream, given, outputs = asked_of(backward, inputs, returned, named_results(forward))
    cotangents = [cotangent(rng, real_output(forward, out)) for out in outputs[: len(upstream)]]
    return dict(zip(upstream, cotangents, strict=True)) | given, cotangents


def real_output(forward: Callable[..., Any], out: Any) -> Any:
    """`out`. Raises TypeError where it is no array of real numbers and no such number."""
    dtype = getattr(out, "dtype", None)
    if not isinstance(out, Real) if dtype is None else dtype.kind not in "biuf":
        found = type(out).__name__ if dtype is None else dtype
        raise TypeError(f"gradcheck: {name_of(forward)} returned {found}, expected an array of real numbers")
    return out


def asked_of(
    backward: Callable[..., Any], inputs: dict[str, Any], returned: Any, results: Sequence[str] = ("",)
) -> tuple[list[str], dict[str, Any], tuple[Any, ...]]:
    """Bind a backward's parameters. -> names of upstream gradients, all other arguments, the forward's outputs.

    `results` are what the forward calls its outputs (`named_results`). Raises TypeError where it asks for what is
    neither an input nor an output.
    """
    outputs = as_tuple(returned)
    signature = signature_of(backward).parameters
    rest = _of_kind(signature_of(backward), Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    parameters = [name for name in signature if name not in rest]
    floats = sum(isinstance(y, float) or getattr(getattr(y, "dtype", None), "kind", "") == "f" for y in outputs)
    upstream = upstream_names(parameters, inputs, results)[: max(floats, 1)]
    if not upstream:
        expected = "its first argument, or the one after p, is d + an output's name"
        raise TypeError(f"gradcheck: {name_of(backward)} takes no gradient: {expected}")
    wanted = [name for name in parameters if name not in inputs and name not in upstream]
    names = [name.removeprefix("d") for name in upstream]
    names += [name for name in wanted if name not in names]
    saved = dict(zip(names, outputs, strict=False))
    unknown = [name for name in wanted if name not in saved]
    missing = [name for name in unknown if signature[name].default is Parameter.empty]
    if missing:
        raise TypeError(f"gradcheck: {name_of(backward)} asks for {', '.join(missing)}, which no forward output is")
    others = [name for name in parameters if name not in upstream and name not in unknown]
    if any(signature[name].kind is Parameter.VAR_KEYWORD for name in rest):  # **name takes all other inputs
        others += [name for name in inputs if name not in parameters]
    return upstream, {n: inputs.get(n, saved.get(n)) for n in others}, outputs


def upstream_names(parameters: list[str], inputs: Collection[str], results: Sequence[str] = ("",)) -> list[str]:
    """Of a backward's parameters, the upstream gradients: the first ones, or those after `p`, with a d in front.

    They belong to the first results, in order. After the first one it takes d + the result's name, so that `denom` in
    `return y, denom` is what was saved. `results` are these names; any name will do for a result that has none ("").
    """
    found: list[str] = []
    for name in parameters[1:] if parameters[:1] == ["p"] and "p" in inputs else parameters:
        if not name.startswith("d") or name in inputs:
            break
        result = results[len(found)] if len(found) < len(results) else results[-1]
        taken = name[1:] in parameters and name[1:] not in inputs  # as in lstm_backward(dh, dc, ..., h, c)
        if found and (name in results or (result not in ("", name[1:]) and not taken)):
            break
        found.append(name)
    return found


def named_results(forward: Callable[..., Any]) -> tuple[str, ...]:
    """What a function calls the results that it returns, by its source; "" for one without a name."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(forward)))).body[0]
    except (OSError, TypeError, SyntaxError):
        return ("",)
    returns = [node for node in _own_nodes(tree) if isinstance(node, ast.Return)]
    if not isinstance(tree, ast.FunctionDef) or not returns:
        return ("",)
    value = max(returns, key=lambda node: node.lineno).value
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return tuple(part.id if isinstance(part, ast.Name) else "" for part in parts)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below a node of source that is not in another function."""
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield part
            yield from _own_nodes(part)


def name_gradients(inputs: dict[str, Any], returned: Any, wrt: tuple[str, ...] | None = None) -> dict[str, Any]:
    """What a backward returned, under the names of the arguments it belongs to, in order; see `gradcheck`.

    The number of gradients beyond the number of arguments stands under SURPLUS.
    """
    names = differentiable(inputs, wrt)
    found = [g for g in as_tuple(returned) if g is not None]
    absent = sum(x is None for x in inputs.values())  # such as b=None, whose gradient may be returned all the same
    beyond = max(len(found) - len(names) - absent, 0)
    return dict(zip(names, found, strict=False)) | ({SURPLUS: beyond} if beyond else {})


def differentiable(inputs: dict[str, Any], wrt: tuple[str, ...] | None) -> list[str]:
    if wrt is not None:
        return list(wrt)
    return [name for name, x in inputs.items() if is_float_array(x) and name not in CONSTANTS]


def cotangent(rng: np.random.Generator, out: Any) -> Any:
    """Random, of the output's shape and dtype; a Python float for a scalar loss."""
    return rng.standard_normal(np.shape(out)).astype(out.dtype) if np.shape(out) else float(rng.standard_normal())


def is_float_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def is_list_of_numbers(x: Any) -> bool:
    """Is it a list in an array's place: of numbers, or of lists of them?"""
    return isinstance(x, list) and bool(x) and all(isinstance(part, Number | list) for part in x)


def as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)
