"""Forty mutants by rule of the backwards of a SASRec's ops: a sample, drawn once from the 53 that change its gradient.

The rules are those of `benchmarks/mutation.py`; 53 of their mutants change the first gradient of `bugs`' SASRec on the
default world by more than a thousandth, and do not raise.
"""

from types import SimpleNamespace
from typing import Any

from .. import ops
from ..check.mutants import Formula
from ..check.specs import SPECS

# kind: a line of its backward -> what the line becomes, one at a time
DRAWN: dict[str, dict[str, tuple[str, ...]]] = {
    "attention": {
        "dq = ds @ k": ("dq = ds.swapaxes(-1, -2) @ k",),
        "dq *= c": ("dq /= c",),
        "dk = transpose_last(ds) @ (q * c)": ("dk = ds @ (q * c)", "dk = transpose_last(ds) @ q"),
    },
    "softmax": {
        "ds = dp * p": ("ds = dp / p", "ds = dp", "ds = p"),
        "ds -= p * row_sum(ds)": (
            "ds = p * row_sum(ds)", "pass", "ds -= p / row_sum(ds)", "ds -= p", "ds -= row_sum(ds)",
        ),
    },
    "layer_norm": {
        "d = dy.shape[-1]": ("d = dy.shape[1]", "d = dy.shape[0]", "d = dy.shape[-2]"),
        "along_x_hat = dy * x_hat": ("along_x_hat = dy / x_hat", "along_x_hat = dy", "along_x_hat = x_hat"),
        "dx -= row_sum(dx) / d": (
            "dx += row_sum(dx) / d", "pass", "dx -= row_sum(dx) * d", "dx -= row_sum(dx)", "dx -= 1 / d",
        ),
        "dx -= x_hat * (row_sum(along_x_hat, gamma) / d)": (
            "dx = x_hat * (row_sum(along_x_hat, gamma) / d)", "pass",
            "dx -= x_hat / (row_sum(along_x_hat, gamma) / d)", "dx -= x_hat * (row_sum(along_x_hat, gamma) * d)",
            "dx -= x_hat * row_sum(along_x_hat, gamma)", "dx -= x_hat * (1 / d)",
        ),
        "dx *= rstd": ("dx /= rstd",),
    },
    "linear": {"dx = d @ W.T": ("dx = d @ W.T.swapaxes(-1, -2)",)},
    "relu": {
        "return dy * (x > 0)": ("return dy / (x > 0)", "return dy", "return dy * (x <= 0)", "return dy * (x > 1)"),
    },
    "bce": {
        "return (sigmoid(z) - targets) * _shares(dloss, targets, z, weights)": (
            "return (sigmoid(z) - targets) / _shares(dloss, targets, z, weights)",
            "return sigmoid(z) - targets", "return _shares(dloss, targets, z, weights)",
            "return sigmoid(z) * _shares(dloss, targets, z, weights)",
            "return -targets * _shares(dloss, targets, z, weights)",
        ),
    },
}  # fmt: skip
MUTANTS = [(kind, old, new) for kind, lines in DRAWN.items() for old, changes in lines.items() for new in changes]


def mutated(kind: str, old: str, new: str) -> Any:
    """The library's functions of a kind, with `new` in place of the line `old` of the backward.

    Raises ValueError for a line that is not there.
    """
    function = SPECS[kind].function
    backward = f"{function}_backward"
    formula = Formula(getattr(ops, backward), within="tinyattn.ops")
    changes = formula.patched("", ((old, new),))
    if not changes:
        raise ValueError(f"{backward} has no line {old!r}")
    with formula.mutated(changes):
        changed = formula.space[backward]
    return SimpleNamespace(**{function: getattr(ops, function), backward: changed})
