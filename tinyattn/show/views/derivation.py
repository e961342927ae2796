"""Animated derivations, from ⟨dY, δY⟩ to a gradient: terms move from step to step, beside an example with numbers."""

import ast
from collections import Counter
from html import escape
from typing import Any, NamedTuple

import numpy as np

from ...ops import softmax
from .mirror import MOST, real
from .view import View, numbers

LARGEST = 1000.0
SIZES = {"n": 3, "m": 4, "e": 2}                         # default sizes of axes
TIMES = "\u2062"                                         # invisible sign between the factors of a matrix product
SPACED = {TIMES: " ", ",": ", "} | {sign: f" {sign} " for sign in "=+−⊙"}
SCRIPTS = str.maketrans("⊤ijk", "ᵀᵢⱼₖ")
# kind -> title, arrays and their axes, steps. A step is a formula and a sentence. The formula is written in Python: it
# is parsed for its terms, and evaluated for its numbers. inner(a, b) is ⟨a, b⟩, and sum.k(p.k * q.k) is ∑ₖ pₖ qₖ. After
# a semicolon an array is defined. A digit after a name distinguishes copies: p2 is the p that moves to the place of p2
# in the next step.
DERIVATIONS: dict[str, tuple[str, dict[str, str], tuple[tuple[str, str], ...]]] = {
    "rule": ("A matrix moves to the other side", {"A": "ne", "B": "nm", "C": "me"}, (
        ("inner(A, B @ C)", "C is to stand alone, right of the comma."),
        ("sum.ijk(A.ik * B.ij * C.jk)", "Written out, it is one sum of products of three numbers, in any order."),
        ("sum.jk(sum2.i(B.ij * A.ik) * C.jk)", "Collect what multiplies each entry of C: a sum over i."),
        ("inner(B.T @ A, C)",
         "A matrix product sums over the last index of its left factor. B has i first, so B is transposed."),
        ("sum.jk(sum2.i(B.ij * A.ik) * C.jk)", "Now B is to stand alone. Back to the sum."),
        ("sum.ij(sum2.k(A.ik * C.jk) * B.ij)", "Collect what multiplies each entry of B: a sum over k."),
        ("inner(A @ C.T, B)",
         "A matrix product sums over the first index of its right factor. C has k last, so C is transposed."),
    )),
    "product": ("The backward of out = p v", {"p": "nm", "v": "me", "dout": "ne", "δp": "nm", "δv": "me"}, (
        ("δL = inner(dout, δout); δout = δp @ v + p @ δv",
         "Both factors of out = p v change. The product of two small changes is smaller still, and is left out."),
        ("δL = inner(dout, δp @ v + p @ δv)", "Put the change of out beside dout, which is known."),
        ("δL = inner(dout, δp @ v) + inner(dout2, p @ δv)", "Multiply out: each change gets a bracket."),
        ("δL = inner(dout @ v.T, δp) + inner(dout2, p @ δv)",
         "v moves left of the comma, and stays a right factor: dout and v share their last index, so v is transposed."),
        ("δL = inner(dout @ v.T, δp) + inner(p.T @ dout2, δv)",
         "p moves, too, and stays a left factor: p and dout share their first index, so p is transposed."),
        ("δL = inner(dp, δp) + inner(dv, δv); dp = dout @ v.T; dv = p.T @ dout2",
         "Each change stands alone. What it is multiplied by is its gradient: two lines of the backward."),
    )),
    "softmax": ("The backward of p = softmax(s)", {"p": "nm", "dp": "nm", "δs": "nm"}, (
        ("δL = inner(dp, δp); δp = p * (δs - sum.k(p2.k * δs2.k))",
         "A weight grows if its logit grows more than the row's average, which is one number for each row."),
        ("δL = inner(dp, p * (δs - sum.k(p2.k * δs2.k)))", "Put the change of p beside dp, which is known."),
        ("δL = inner(p * dp, δs - sum.k(p2.k * δs2.k))",
         "⊙ multiplies entry by entry, so p may stand on either side of the comma."),
        ("δL = inner(p * dp, δs) - inner(p3 * dp2, sum.k(p2.k * δs2.k))", "Multiply out: each change gets a bracket."),
        ("δL = inner(p * dp, δs) - inner(sum2.k(p3.k * dp2.k), sum.k(p2.k * δs2.k))",
         "The right side has one number for a whole row, so the left side may be summed over the row first."),
        ("δL = inner(p * dp, δs) - inner(p2 * sum2.k(p3.k * dp2.k), δs2)",
         "Now the left side has one number for a row. The right sum is undone, and its p moves left of the comma."),
        ("δL = inner(p * (dp - sum2.k(p3.k * dp2.k)), δs)",
         "Both brackets have p on the left and the change of s on the right: they are one."),
        ("δL = inner(ds, δs); ds = p * (dp - sum2.k(p3.k * dp2.k))",
         "The change of s stands alone. What it is multiplied by is its gradient: p times dp above the row's average."),
    )),
}  # fmt: skip


def derivation(kind: str = "product", *, seed: int = 0, **arrays: Any) -> View:
    """A page on which a derivation's terms move from step to step, beside an example whose numbers follow.

    Kinds, and their arrays:

        "rule"       ⟨A, B C⟩ = ⟨Bᵀ A, C⟩ = ⟨A Cᵀ, B⟩: A (n, e), B (n, m), C (m, e)
        "product"    the backward of out = p v: p, δp (n, m), v, δv (m, e), dout (n, e)
        "softmax"    the backward of p = softmax(s): p, dp, δs (n, m)

    Missing arrays are drawn from `seed`, rounded to tenths; the rows of p are weights, which sum to 1. Raises
    ValueError for unknown names, sizes that do not fit or exceed 6, numbers that are not real or exceed 1000, and rows
    of p in "softmax" that do not sum to 1.
    """
    if kind not in DERIVATIONS:
        raise ValueError(f"there is no derivation {kind!r}, expected one of {', '.join(DERIVATIONS)}")
    title, axes, steps = DERIVATIONS[kind]
    if unknown := sorted(set(arrays) - set(axes)):
        raise ValueError(f"{kind} has no array {unknown[0]!r}, expected some of {', '.join(axes)}")
    values, sizes = {name: real(name, x) for name, x in arrays.items()}, dict[str, int]()
    for name, x in values.items():
        if x.ndim != 2 or not all(1 <= size <= MOST for size in x.shape):
            raise ValueError(f"{name} has shape {x.shape}, expected 1 to {MOST} rows and columns")
        if not (abs(x) <= LARGEST).all():
            raise ValueError(f"{name} has numbers that are not finite, or beyond {LARGEST:g}")
        for axis, size in zip(axes[name], x.shape, strict=True):
            sizes.setdefault(axis, size)
        if x.shape != (fitting := tuple(sizes[axis] for axis in axes[name])):
            raise ValueError(f"{name} has shape {x.shape}, expected {fitting}, which fits the arrays before it")
    rng = np.random.default_rng(seed)
    for name, word in axes.items():
        drawn = np.round(rng.standard_normal([(SIZES | sizes)[axis] for axis in word]), 1)
        values.setdefault(name, softmax(drawn) if name == "p" else drawn)
    if kind == "softmax" and not np.allclose(sums := values["p"].sum(axis=1), 1):
        raise ValueError(f"rows of p sum to {sums}, expected 1: p is a softmax")
    parsed: list[list[Any]] = [ast.parse(formula).body for formula, _ in steps]
    for line in (line for step in parsed for line in step[1:]):
        values[line.targets[0].id] = _read(line.value, values, Counter()).value
    data = [_step(lines, says, values) for lines, (_, says) in zip(parsed, steps, strict=True)]
    height = 640 if any(len(step["products"]) > 1 for step in data) else 430
    return View("derivation", title, {"title": title, "steps": data}, f"<pre>{escape(in_words(data))}</pre>", height)


def in_words(steps: list[dict[str, Any]]) -> str:
    """The steps as lines of text."""
    rows = []
    for i, step in enumerate(steps):
        for line in step["lines"]:
            scripts = (text.translate(SCRIPTS) + " " * key.startswith("∑") for key, text, _ in line)
            spelled = (s if atom[2] else SPACED.get(atom[1], atom[1]) for s, atom in zip(scripts, line, strict=True))
            rows.append(f"{'   ' if line is not step['lines'][0] else f'{i + 1}. '}{''.join(spelled)}")
        rows += [f"   {step['says']}", f"   {step['sum']}"]
    return "\n".join(rows)


def brief(x: float) -> str:
    return f"{round(x, 2) + 0.0:.2f}".replace("-", "−")


class _Part(NamedTuple):
    """A part of a formula. An atom is (key, text, place): place is 1 for a superscript, -1 for a subscript, else 0."""

    atoms: list[tuple[str, str, int]]
    value: np.ndarray
    axes: str = ""                     # the indices of an array that is written with indices


def _step(lines: list[Any], says: str, values: dict[str, np.ndarray]) -> dict[str, Any]:
    seen, atoms, products, sums, total = Counter[str](), [], list[Any](), "", 0.0
    for line in lines:
        left = [(f"{name.id}=", name.id, 0) for name in getattr(line, "targets", ())]
        atoms.append([*left, *(_sign("=", seen) if left else []), *_read(line.value, values, seen).atoms])
    for sign, node in _summands(lines[0].value):
        inner, factors = isinstance(node.func, ast.Name), [node.args[0]]
        while not inner and isinstance(factors[0], ast.BinOp):                # the factors under a ∑, in their order
            factors[:1] = [factors[0].left, factors[0].right]
        parts = [_read(factor, values, Counter()) for factor in (node.args if inner else factors)]
        shape = np.broadcast_shapes(*(part.value.shape for part in parts)) if inner else None
        shown = [np.broadcast_to(part.value, shape) if shape else part.value for part in parts]
        value, few = float(_read(node, values, Counter()).value), len(parts) == 2
        before = "−" if sign < 0 else "+" if products else ""
        sums, total = f"{sums} {before} {brief(value)}".strip(), total + sign * value
        products.append({
            "opening": f"{before} {'⟨' if few else '∑'}".strip(), "between": "," if few else "·",
            "closing": f"{'⟩ ' * few}= {brief(value)}",
            "factors": [{"atoms": part.atoms, "shape": x.shape, "values": numbers(x, 17)}
                        for part, x in zip(parts, shown, strict=True)],
        })  # fmt: skip
    sums = f"{sums}{f' = {brief(total)}' * (len(products) > 1)}: the same in every step"
    return {"says": says, "lines": atoms, "products": products, "sum": sums, "total": total}


def _summands(node: Any, sign: int = 1) -> list[tuple[int, Any]]:
    if not isinstance(node, ast.BinOp):
        return [(sign, node)]
    return _summands(node.left, sign) + _summands(node.right, -sign if isinstance(node.op, ast.Sub) else sign)


def _sign(text: str, seen: Counter[str]) -> list[tuple[str, str, int]]:
    seen[text] += 1
    return [(f"{text}{seen[text]}", text, 0)]


def _read(node: Any, values: dict[str, np.ndarray], seen: Counter[str]) -> _Part:
    """The atoms and the value of a formula. `seen` counts signs, so that each gets a unique key."""
    match node:
        case ast.Name(id=key):
            name = key.rstrip("0123456789")
            return _Part([(key, name, 0)], values[name])
        case ast.Attribute(value=ast.Name(id=key), attr=axes):
            whole = _read(node.value, values, seen)
            if axes == "T":
                return _Part([*whole.atoms, (f"{key}⊤", "⊤", 1)], whole.value.T)
            return _Part([*whole.atoms, (f"{key}_", axes, -1)], whole.value, axes)
        case ast.Call(func=ast.Name(id="inner"), args=[left, right]):
            opening, one, comma = _sign("⟨", seen), _read(left, values, seen), _sign(",", seen)
            other = _read(right, values, seen)
            atoms = [*opening, *one.atoms, *comma, *other.atoms, *_sign("⟩", seen)]
            return _Part(atoms, np.sum(one.value * other.value))
        case ast.Call(func=ast.Attribute(value=ast.Name(id=key), attr=over), args=[inside]):
            part, key = _read(inside, values, seen), key.replace("sum", "∑")
            rest = "".join(axis for axis in part.axes if axis not in over)
            value = np.einsum(f"...{part.axes}->...{rest}", part.value)
            value = value[..., None] if part.value.ndim > len(part.axes) else value           # one number a row
            return _Part([(key, "∑", 0), (f"{key}_", over, -1), *part.atoms], value, rest)
    left, op, right = node.left, node.op, node.right
    if isinstance(op, ast.Add | ast.Sub):
        one, sign = _read(left, values, seen), _sign("+" if isinstance(op, ast.Add) else "−", seen)
        other, add = _read(right, values, seen), np.add if isinstance(op, ast.Add) else np.subtract
        return _Part([*one.atoms, *sign, *other.atoms], add(one.value, other.value))
    one = _factor(left, values, seen, last=False)
    text = "⊙" if isinstance(op, ast.Mult) and not one.axes else TIMES
    other, axes = _factor(right, values, seen, last=True), one.axes
    if axes:
        axes = "".join(dict.fromkeys(axes + other.axes))
        value = np.einsum(f"...{one.axes},...{other.axes}->...{axes}", one.value, other.value)
    else:
        value = one.value * other.value if text == "⊙" else one.value @ other.value
    key = f"{one.atoms[-1][0]}{text}"                    # the sign goes with the left factor
    return _Part([*one.atoms, (key, text, 0), *other.atoms], value, axes)


def _factor(node: Any, values: dict[str, np.ndarray], seen: Counter[str], last: bool) -> _Part:
    """A factor, in parentheses if it is a sum. The last factor needs no parentheses around a ∑."""
    added = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)
    if not added and (last or not isinstance(node, ast.Call)):
        return _read(node, values, seen)
    opening, part = _sign("(", seen), _read(node, values, seen)
    return part._replace(atoms=[*opening, *part.atoms, *_sign(")", seen)])
