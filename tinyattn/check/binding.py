"""Bind the arguments of a backward, and the gradients that it returns, to the arrays of a forward call.

A backward takes upstream gradients first (`d` + an output's name), then inputs and outputs of the forward, by name.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from inspect import Parameter
from numbers import Number, Real
from typing import Any

import numpy as np

Function = Callable[..., Any]
CONSTANTS = ("targets", "weights")  # float arrays that losses take, and that have no gradient
SURPLUS = "(surplus)"


def bind(forward: Function, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """All arguments of a call by name, including defaults and those that a `**name` takes."""
    signature = signature_of(forward)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    for name in _of_kind(signature, Parameter.VAR_KEYWORD):
        arguments |= arguments.pop(name)
    return arguments


def call(f: Function, arguments: dict[str, Any]) -> Any:
    """Call f with arguments by name; positional-only ones by position.

    Defaults are not passed, since ufuncs refuse some of theirs.
    """
    signature = signature_of(f)
    first = [name for name in _of_kind(signature, Parameter.POSITIONAL_ONLY) if name in arguments]
    default = {name: parameter.default for name, parameter in signature.parameters.items()}
    by_name = {n: x for n, x in arguments.items() if n not in first and x is not default.get(n, Parameter.empty)}
    return f(*(arguments[name] for name in first), **by_name)


def signature_of(f: Function) -> inspect.Signature:
    try:
        return inspect.signature(f)
    except ValueError:
        expected = f"a function written in Python, such as lambda x: {name_of(f)}(x)"
        raise TypeError(f"{name_of(f)} does not say what its arguments are called, expected {expected}") from None


def name_of(f: Function) -> str:
    return str(getattr(f, "__name__", "") or type(f).__name__)


def unnamed(f: Function) -> list[str]:
    """The names of `*xs` parameters, whose arguments have no names."""
    return _of_kind(signature_of(f), Parameter.VAR_POSITIONAL)


def _of_kind(signature: inspect.Signature, *kinds: Any) -> list[str]:
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]


def backward_arguments(
    forward: Function, backward: Function, inputs: dict[str, Any], returned: Any, rng: np.random.Generator
) -> tuple[dict[str, Any], list[Any]]:
    """The arguments of `backward` after a forward that has `returned`. -> arguments by name, and the cotangents.

    Raises TypeError for an argument that is neither an input nor an output, or an output that is not of real numbers.
    """
    if is_list_of_numbers(returned):
        raise TypeError(f"gradcheck: {name_of(forward)} returned a list of numbers, expected an array")
    upstream, others, outputs = asked_of(backward, inputs, returned, named_results(forward))
    cotangents = [cotangent(rng, real_output(forward, out)) for out in outputs[: len(upstream)]]
    return dict(zip(upstream, cotangents, strict=True)) | others, cotangents


def real_output(forward: Function, out: Any) -> Any:
    """`out`. Raises TypeError unless it is a real number or an array of real numbers."""
    dtype = getattr(out, "dtype", None)
    if not isinstance(out, Real) if dtype is None else dtype.kind not in "biuf":
        kind = type(out).__name__ if dtype is None else dtype
        raise TypeError(f"gradcheck: {name_of(forward)} returned {kind}, expected an array of real numbers")
    return out


def asked_of(
    backward: Function, inputs: dict[str, Any], returned: Any, results: Sequence[str] = ("",)
) -> tuple[list[str], dict[str, Any], tuple[Any, ...]]:
    """Bind a backward's parameters. -> names of upstream gradients, all other arguments, the forward's outputs.

    `results` are the forward's names of its outputs (`named_results`). Raises TypeError for a parameter that is neither
    an input nor an output.
    """
    outputs = as_tuple(returned)
    signature = signature_of(backward).parameters
    takes_others = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in signature.values())
    starred = _of_kind(signature_of(backward), Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    parameters = [name for name in signature if name not in starred]
    floats = sum(isinstance(y, float) or getattr(getattr(y, "dtype", None), "kind", "") == "f" for y in outputs)
    upstream = upstream_names(parameters, inputs, results)[: max(floats, 1)]
    if not upstream:
        expected = "its first argument, or the one after p, should be d + an output's name"
        raise TypeError(f"gradcheck: {name_of(backward)} takes no gradient: {expected}")
    wanted = [name for name in parameters if name not in inputs and name not in upstream]
    names = [name.removeprefix("d") for name in upstream]
    names += [name for name in wanted if name not in names]
    saved = dict(zip(names, outputs, strict=False))
    unknown = [name for name in wanted if name not in saved]
    missing = [name for name in unknown if signature[name].default is Parameter.empty]
    if missing:
        expected = "inputs and outputs of the forward"
        raise TypeError(f"gradcheck: {name_of(backward)} requires {', '.join(missing)}, expected {expected}")
    others = [name for name in parameters if name not in upstream and name not in unknown]
    others += [name for name in inputs if name not in parameters] if takes_others else []
    return upstream, {n: inputs.get(n, saved.get(n)) for n in others}, outputs


def upstream_names(parameters: list[str], inputs: Collection[str], results: Sequence[str] = ("",)) -> list[str]:
    """The upstream gradients of a backward: its first parameters, or those after `p`, whose names begin with d.

    They belong to the forward's first results, in order. From the second on, the name must be d + the result's name:
    after `return y, denom`, the parameter `denom` is a saved array. `results` are the results' names; "" fits any name.
    """
    upstream: list[str] = []
    for name in parameters[1:] if parameters[:1] == ["p"] and "p" in inputs else parameters:
        if not name.startswith("d") or name in inputs:
            break
        result = results[min(len(upstream), len(results) - 1)]
        saved = name[1:] in parameters and name[1:] not in inputs  # as in lstm_backward(dh, dc, ..., h, c)
        if upstream and (name in results or (result not in ("", name[1:]) and not saved)):
            break
        upstream.append(name)
    return upstream


def named_results(forward: Function) -> tuple[str, ...]:
    """The names of the results in a function's last return statement; "" for one without a name."""
    return _results_of(getattr(inspect.unwrap(forward), "__code__", None))


@lru_cache(maxsize=1000)
def _results_of(code: Any) -> tuple[str, ...]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code))).body[0]
    except (OSError, TypeError, SyntaxError):
        return ("",)
    returns = [node for node in _nodes(tree) if isinstance(node, ast.Return)]
    if not isinstance(tree, ast.FunctionDef) or not returns:
        return ("",)
    value = max(returns, key=lambda node: node.lineno).value
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return tuple(part.id if isinstance(part, ast.Name) else "" for part in parts)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node, without those of nested functions and classes."""
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield part
            yield from _nodes(part)


def name_gradients(inputs: dict[str, Any], returned: Any, wrt: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The gradients that a backward returned, by argument, in order; see `gradcheck`.

    If there are more gradients than arguments, the entry SURPLUS says how many more.
    """
    names = differentiable(inputs, wrt)
    gradients = [g for g in as_tuple(returned) if g is not None]
    absent = sum(x is None for x in inputs.values())  # such as b=None; its gradient may still be returned
    beyond = max(len(gradients) - len(names) - absent, 0)
    return dict(zip(names, gradients, strict=False)) | ({SURPLUS: beyond} if beyond else {})


def differentiable(inputs: dict[str, Any], wrt: tuple[str, ...] | None) -> list[str]:
    arrays = (name for name, x in inputs.items() if is_float_array(x) and name not in CONSTANTS)
    return list(arrays if wrt is None else wrt)


def cotangent(rng: np.random.Generator, out: Any) -> Any:
    """Random numbers of the output's shape and dtype; a Python float for a scalar loss."""
    return rng.standard_normal(np.shape(out)).astype(out.dtype) if np.shape(out) else float(rng.standard_normal())


def is_float_array(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def is_list_of_numbers(x: Any) -> bool:
    """Whether x is a list of numbers, or of lists, where an array is expected."""
    return isinstance(x, list) and bool(x) and all(isinstance(part, Number | list) for part in x)


def as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, tuple | list) else (x,)
