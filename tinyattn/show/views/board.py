"""Boards: a backward with one wrong line, and its gradients beside difference quotients. Which line is wrong?"""

import ast
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...check.cases import CaseDrawer, plainness
from ...check.common import ours_of, upstream
from ...check.formula import of_backward
from ...check.mutants import mutants_of
from ...check.specs import SPECS, get_spec
from ...check.subject import Subject
from ...ops import softmax
from .view import View, numbers

SEEN = 0.02              # a gradient that differs by less looks right with two decimals
COMMAND = "tinyattn check my_attention.py --as attention"
CODE = (  # each line, and the forward line that it undoes
    ("def attention_backward(dout, q, k, v, p, c):", ""),
    ("    dv = p.T @ dout", "out = p v"),
    ("    dp = dout @ v.T", "out = p v"),
    ("    ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))", "p = softmax(s)"),
    ("    dq = c * (ds @ k)", "s = c q kᵀ"),
    ("    dk = c * (ds.T @ q)", "s = c q kᵀ"),
    ("    return dq, dk, dv", ""),
)
SLIPS = (  # index of a line in CODE, the wrong line, and why it is wrong
    (5, "dk = c * (ds @ q)", "dk sums over queries: key j gets ds[i, j] q[i] from every query i, so ds is transposed."),
    (3, "ds = p * (dp - (p * dp).sum(axis=0, keepdims=True))",
     "Softmax normalises each row, so the mean that is subtracted is a row's, along the last axis."),
    (4, "dq = ds @ k", "s was multiplied by c, so its gradient is multiplied by c on the way to q."),
    (1, "dv = p @ dout", "Value j is in output i with the weight p[i, j]: dv sums over queries i, so p is transposed."),
    (3, "ds = p * (1 - p) * dp", "That is a sigmoid's derivative: a softmax weight depends on all logits of its row."),
    (2, "dp = v @ dout.T", "dp[i, j] is the product of the gradient of output i with value j: dout comes first."),
)  # fmt: skip


def find_the_bug(seed: int = 0) -> View:
    """Six boards, each with one wrong line in the backward of attention, and its gradients beside quotients."""
    rng = np.random.default_rng(seed)
    q, k, v, dout = (np.round(rng.standard_normal((3, width)), 1) for width in (2, 2, 3, 3))
    c = 1 / math.sqrt(2)

    def loss(q: np.ndarray, k: np.ndarray, v: np.ndarray, ds: np.ndarray, dp: np.ndarray) -> float:
        """⟨dout, out⟩, with ds added to the scores and dp to the weights."""
        return float(np.sum(dout * ((softmax(c * (q @ k.T) + ds) + dp) @ v)))

    at = {"q": q, "k": k, "v": v, "ds": np.zeros((3, 3)), "dp": np.zeros((3, 3))}
    measured = {name if name in ("ds", "dp") else f"d{name}": _quotients(loss, at, name) for name in at}
    boards = []
    for line, wrong, says in SLIPS:
        code = [f"    {wrong}" if i == line else text for i, (text, _) in enumerate(CODE)]
        space: dict[str, Any] = {}
        exec("\n".join([*code[:-1], "    return locals()"]), space)
        made = space["attention_backward"](dout, q, k, v, softmax(c * (q @ k.T)), c)
        shown = [f"{text:58}# {undone}" if undone else text for text, (_, undone) in zip(code, CODE, strict=True)]
        arrays = {name: (made[name], measured[name]) for name in ("dv", "dp", "ds", "dq", "dk")}
        boards.append(board(shown, line, CODE[line][0], says, arrays))
    return View("board", "Find the bug", {"title": "Find the bug", "boards": boards, "command": COMMAND})


def boards_of(kind: str, count: int = 6, seed: int = 0) -> View:
    """Boards of the library's backward of an op, each with one line changed by rule; the lines differ where possible.

    `kind` is a kind of `tinyattn check` whose backward is one function; `seed` draws the case and the changes.
    Raises ValueError for other kinds, for a backward of one line, and for a count below 1.
    """
    spec = get_spec(kind)
    backward = of_backward(spec)
    if backward is None:
        kinds = (name for name, other in SPECS.items() if of_backward(other))
        raise ValueError(f"{kind} has no backward in one function, expected one of {', '.join(kinds)}")
    if count < 1:
        raise ValueError(f"count is {count}, expected at least 1")
    formula, implementation = backward
    subject = Subject(implementation, spec)
    case = min((spec.case(CaseDrawer.seeded((seed, i), ((),))) for i in range(300)), key=plainness)
    upstreams = upstream(spec, case)

    def loss(**changed: np.ndarray) -> float:
        return float(np.sum(upstreams[0] * ours_of(spec, case | changed)[0]))

    measured = {name: _quotients(loss, {name: case[name]}, name) for name in spec.wrt if case[name] is not None}
    name = f"{spec.function}_backward"
    right = _lines(formula.source(name))
    mutants = [m for m in mutants_of(formula, lambda: subject.gradients(case, *upstreams)) if m.function == name]
    made: dict[int, list[dict[str, Any]]] = {}
    for i in np.random.default_rng(seed).permutation(len(mutants)):
        code = _lines(formula.source(name, (mutants[i],)))
        try:
            with formula.mutated([mutants[i]]), np.errstate(all="ignore"):
                grads = subject.gradients(case, *upstreams)
        except Exception:  # an error would tell which line is wrong
            continue
        changed = [k for k, (ours, theirs) in enumerate(zip(right, code, strict=False)) if ours != theirs]
        arrays = {f"d{n}": (np.asarray(grads[n]), x) for n, x in measured.items() if np.shape(grads[n]) == x.shape}
        seen = any(np.isfinite(mine).all() and np.abs(mine - x).max() > SEEN for mine, x in arrays.values())
        if len(code) == len(right) and len(changed) == 1 and seen:
            says = mutants[i].says.partition(", as with")[0]
            says = f"{says[0].upper()}{says[1:]}."
            made.setdefault(changed[0], []).append(board(code, changed[0], right[changed[0]], says, arrays))
    if len(made) < 2:
        raise ValueError(f"the backward of {kind} has a single line that can be wrong: take another kind")
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*made.values()))
    boards = list(itertools.islice(filter(None, in_turn), count))
    command = f"tinyattn check my_{kind}.py --as {kind}"
    return View("board", "Find the bug", {"title": f"Find the bug: {kind}", "boards": boards, "command": command})


def _lines(source: str) -> list[str]:
    """The lines of a function, without annotations and checks of shapes."""
    tree: Any = ast.parse(source).body[0]
    tree.returns = None
    for argument in (*tree.args.args, *tree.args.kwonlyargs):
        argument.annotation = None
    return [line for line in ast.unparse(tree).splitlines() if not line.lstrip().startswith("expect(")]


def board(
    code: list[str], guilty: int, right: str, says: str, arrays: dict[str, tuple[np.ndarray, np.ndarray]]
) -> dict[str, Any]:
    """The data of one board for `board.js`. `arrays`: name -> (gradient by the backward, by difference quotients)."""
    return {
        "code": code, "guilty": guilty, "right": right, "says": says,
        "arrays": [
            {"name": name, "shape": [math.prod(made.shape[:-1]), made.shape[-1] if made.ndim else 1],
             "backward": numbers(made), "quotient": numbers(measured),
             "agrees": bool(np.allclose(made, measured, rtol=1e-4, atol=1e-6))}
            for name, (made, measured) in arrays.items()
        ],
    }  # fmt: skip


def _quotients(loss: Callable[..., float], at: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The difference quotients of the loss by every entry of one array."""
    quotients, h = np.zeros_like(at[name]), 1e-5
    for i in np.ndindex(quotients.shape):
        step = np.zeros_like(quotients)
        step[i] = h
        up, down = (loss(**at | {name: at[name] + sign * step}) for sign in (1, -1))
        quotients[i] = (up - down) / (2 * h)
    return quotients
