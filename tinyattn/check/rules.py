"""Rules by which a line is written wrongly: patterns of syntax, what they become, and a sentence on the change."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

# A pattern, what it becomes, and a sentence on the change. Single letters stand for any expression.
RULES = (
    ("a + b", "a - b", "the sign of a term is wrong"),
    ("a - b", "a + b", "the sign of a term is wrong"),
    ("a - b", "b - a", "a difference is taken the other way round"),
    ("-a", "a", "a minus is missing"),
    ("a + b", "a", "a term is missing"),
    ("a + b", "b", "a term is missing"),
    ("a + b", "a + b + b", "a term is added twice"),
    ("a - b", "a", "a term is missing"),
    ("a * a", "a", "a square is missing"),
    ("a * a", "abs(a)", "an absolute value stands in place of a square"),
    ("a * b", "a", "a factor is missing"),
    ("a * b", "b", "a factor is missing"),
    ("a * b", "a * a * b", "a factor stands there twice"),
    ("a * b", "a * b * b", "a factor stands there twice"),
    ("a / b", "a", "a division is missing"),
    ("a / b", "1 / b", "a factor is missing"),
    ("a / b", "b", "a division is missing"),
    ("a / b", "a * b", "it multiplies where it should divide"),
    ("a * b", "a / b", "it divides where it should multiply"),
    ("a / b", "b / a", "a fraction is upside down"),
    ("a * b", "a + b", "it adds where it should multiply"),
    ("a / b", "a / (b - 1)", "it divides by one too few"),
    ("a / b", "a / (b + 1)", "it divides by one too many"),
    ("a // b", "a % b", "a remainder stands in place of a quotient"),
    ("a % b", "a // b", "a quotient stands in place of a remainder"),
    ("a ** b", "a", "a power is missing"),
    ("a ** b", "abs(a)", "an absolute value stands in place of a power"),
    ("a ** b", "a * b", "a product stands in place of a power"),
    ("a ** b", "a ** (b + 1)", "a power is one too high"),
    ("a ** b", "a ** (b - 1)", "a power is one too low"),
    ("a @ b", "a @ b.T", "a matrix is transposed"),
    ("a @ b.T", "a @ b", "a matrix is not transposed"),
    ("a @ b", "a", "a matrix is not used"),
    ("a @ b", "b @ a", "the order of a product is wrong"),
    ("1 - a", "a", "1 minus is missing"),
    ("1 - a * a", "(1 - a) * (1 - a)", "the square stands in the wrong place"),
    ("1 - a * a", "a * (1 - a)", "tanh is differentiated as a sigmoid"),
    ("a * (1 - a)", "1 - a * a", "a sigmoid is differentiated as tanh"),
    ("f.sqrt(a + b)", "f.sqrt(a) + b", "a term under the root is added outside of it"),
    ("f.sqrt(a) + b", "f.sqrt(a + b)", "a term beside the root is added under it"),
    ("f.tanh(a + b)", "f.tanh(a) + b", "a term in tanh is added outside of it"),
    ("f.tanh(a + b)", "f.tanh(a) + f.tanh(b)", "tanh acts on each term, not on their sum"),
    ("_sigmoid(a + b)", "_sigmoid(a) + b", "a term in the sigmoid is added outside of it"),
    ("_sigmoid(a + b)", "_sigmoid(a) + _sigmoid(b)", "the sigmoid acts on each term, not on their sum"),
    ("f.tanh(a)", "a", "tanh is missing"),
    ("f.tanh(a)", "1 / (1 + f.exp(-a))", "a sigmoid stands in place of tanh"),
    ("f.tanh(a)", "a * (a > 0)", "relu stands in place of tanh"),
    ("_sigmoid(a)", "np.tanh(a)", "tanh stands in place of the sigmoid"),
    ("_sigmoid(a)", "a", "a sigmoid is missing"),
    ("_sigmoid(a)", "1.0", "a gate is missing"),
    ("_sigmoid(a)", "_sigmoid(-a)", "a gate is 1 minus what it should be"),
    ("f.sqrt(a)", "a", "the root is missing"),
    ("f.exp(a)", "a", "exp is missing"),
    ("f.exp(a)", "f.exp(-a)", "the sign of an exponent is wrong"),
    ("f.exp(a)", "1 + a", "1 + a stands in place of exp(a)"),
    ("f.exp(a)", "1.0", "an exponential is missing"),
    ("f.expm1(a)", "f.exp(a)", "exp stands in place of exp - 1"),
    ("f.log(a)", "a", "a logarithm is missing"),
    ("f.log2(a)", "f.log(a)", "the logarithm is natural, not to base 2"),
    ("f.log2(a)", "f.log10(a)", "the logarithm is decimal, not to base 2"),
    ("f.log2(a + b)", "f.log2(a) + b", "a term in the logarithm is added outside of it"),
    ("f.log1p(a)", "f.log(a)", "1 plus is missing in a logarithm"),
    ("max(a, b)", "a", "a maximum is missing"),
    ("max(a, b)", "b", "a maximum is missing"),
    ("min(a, b)", "a", "a minimum is missing"),
    ("min(a, b)", "b", "a minimum is missing"),
    ("max(a, b)", "min(a, b)", "a minimum stands in place of a maximum"),
    ("f.mean(a, axis=b, keepdims=c)", "f.sum(a, axis=b, keepdims=c)", "a sum stands in place of a mean"),
    ("f.mean(a, axis=b, keepdims=c)", "f.sum(a, axis=b, keepdims=c) / (a.shape[-1] - 1)", "it divides by one too few"),
    ("row_sum(a, b) / c", "row_sum(a, b)", "a sum stands in place of a mean"),
    ("a < b", "a <= b", "a comparison is off by one"),
    ("a <= b", "a < b", "a comparison is off by one"),
    ("a > b", "a >= b", "a comparison is off by one"),
    ("a >= b", "a > b", "a comparison is off by one"),
    ("a < b", "a > b", "a comparison is the wrong way round"),
    ("a > b", "a < b", "a comparison is the wrong way round"),
    ("a == b", "a != b", "a comparison is the wrong way round"),
    ("a if c else b", "a", "a condition is missing"),
    ("a if c else b", "b", "a condition is missing"),
    ("range(a)", "range(1, a)", "the first is left out"),
    ("range(a)", "range(a - 1)", "the last is left out"),
    ("range(a + 1)", "range(a)", "the last is left out"),
    ("range(a, b)", "range(a, b - 1)", "the last is left out"),
    ("range(a)", "range(a)[::-1]", "the loop runs the other way"),
    ("reversed(range(a))", "range(a)", "the loop runs the other way"),
    ("column_sum(a)", "column_sum(a) / len(a)", "a mean stands in place of a sum"),
    ("a + b", "a * b", "it multiplies where it should add"),
    ("a * b + c", "a * (b + c)", "the brackets are wrong"),
    ("a * b - c", "a * (b - c)", "the brackets are wrong"),
    ("a + b * c", "(a + b) * c", "the brackets are wrong"),
    ("a - b * c", "(a - b) * c", "the brackets are wrong"),
    ("a * (b + c)", "a * b + c", "the brackets are wrong"),
    ("a * (b - c)", "a * b - c", "the brackets are wrong"),
    ("(a + b) * c", "a + b * c", "the brackets are wrong"),
    ("(a - b) * c", "a - b * c", "the brackets are wrong"),
    ("(a + b) * c", "a * c + b", "the brackets are wrong"),
    ("a / b + c", "a / (b + c)", "the brackets are wrong"),
    ("a / (b + c)", "a / b + c", "the brackets are wrong"),
    ("a + b * c", "b * a + c", "a factor stands with the wrong term"),
    ("f.tanh(a + b * c)", "b * f.tanh(a + c)", "a factor in tanh stands outside of it"),
    ("a * b + c", "a * c + b", "a factor and a term are exchanged"),
    ("a * b + c", "c * b + a", "a factor and a term are exchanged"),
    ("a.sum(axis=b)", "a.mean(axis=b)", "a mean stands in place of a sum"),
    ("a.mean()", "a.sum()", "a sum stands in place of a mean"),
    ("a.mean(axis=b, keepdims=c)", "a.sum(axis=b, keepdims=c)", "a sum stands in place of a mean"),
    ("a.mean(axis=b)", "a.sum(axis=b)", "a sum stands in place of a mean"),
    ("a.var(axis=b, keepdims=c)", "a.std(axis=b, keepdims=c)", "a standard deviation stands in place of a variance"),
    ("a.var(axis=b)", "a.std(axis=b)", "a standard deviation stands in place of a variance"),
    ("a.var(axis=b, keepdims=c)", "a.var(axis=b, keepdims=c, ddof=1)", "the variance divides by n - 1"),
    ("a.var(axis=b)", "a.var(axis=b, ddof=1)", "the variance divides by n - 1"),
    ("np.sqrt(np.mean(a ** 2, axis=b, keepdims=c) + e)", "np.sqrt(np.var(a, axis=b, keepdims=c) + e)", "a variance stands in place of a mean square"),
    ("a.shape[-1]", "a.shape[-2]", "a size is that of another axis"),
    ("a.shape[-1]", "a.shape[0]", "a size is that of another axis"),
    ("a.shape[-1]", "a.size", "a size is that of all axes"),
    ("a.swapaxes(b, c)", "a", "axes are not exchanged"),
    ("a.swapaxes(-2, -3)", "a.swapaxes(-1, -3)", "the wrong axes are exchanged"),
    ("a.reshape(*b, c, d, e).swapaxes(-2, -3)", "a.reshape(*b, d, c, e)", "a reshape stands in place of a transpose"),
    ("a.reshape(*b, c, d, e).swapaxes(-2, -3)", "a.reshape(*b, c, e, d).swapaxes(-1, -2).swapaxes(-2, -3)", "features of the heads are interleaved"),
    ("a.swapaxes(-2, -3)", "a.swapaxes(-2, -3).swapaxes(-1, -2)", "the last two axes are exchanged as well"),
    ("np.repeat(a, b, axis=c)", "np.concatenate([a] * (b), axis=c)", "it is tiled, not repeated"),
    ("np.where(m, s, -np.inf)", "np.where(m, s, 0.0)", "masked scores are 0, not -inf"),
    ("np.where(m, s, -np.inf)", "np.where(m, s, 1e-9)", "masked scores are tiny, not -inf"),
    ("np.where(m, s, -np.inf)", "np.where(m, s, -1.0)", "masked scores are -1, not -inf"),
    ("np.where(m, s, -np.inf)", "np.where(m, -np.inf, s)", "the mask is the wrong way round"),
    ("np.where(m, s, -np.inf)", "np.where(m.swapaxes(-1, -2), s, -np.inf)", "the mask is transposed"),
    ("np.where(m, s, -np.inf)", "s + m", "the mask is added as numbers, 0 and 1"),
    ("np.where(m, s, -np.inf)", "s", "the mask is not used"),
    ("np.where(m, s, -np.inf)", "np.where(m & np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)", "later tokens are masked as well"),
    ("np.where(m, s, -np.inf)", "np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)", "the mask is the causal one, whatever is passed"),
    ("np.where(m, s, -np.inf)", "np.where(m & np.tri(*s.shape[-2:], k=-1, dtype=bool), s, -np.inf)", "a token does not see itself"),
    ("softmax(np.where(m, s, -np.inf), axis=b)", "softmax(s, axis=b) * m", "the mask multiplies the weights after the softmax"),
    ("softmax(np.where(m, s, -np.inf), axis=b)", "np.exp(np.where(m, s, -np.inf))", "the weights are not divided by their sum"),
    ("softmax(np.where(m, s, -np.inf), axis=b)", "np.where(m, s, 0.0)", "the softmax is missing"),
    ("softmax(np.where(m, s, -np.inf), axis=b)", "np.where(m, s, -1e9)", "the softmax is missing"),
    ("softmax(np.where(m, s, -np.inf), axis=b)", "softmax(np.where(m, abs(s), -np.inf), axis=b)", "scores have no sign"),
    ("softmax(np.where(m, s, -np.inf), axis=-1)", "softmax(np.where(m, s, -1e9), axis=-2)", "the softmax is over the queries"),
    ("np.eye(a)[b]", "np.ones(a)", "every class is a target"),
    ("a - _log_sum_exp(a, axis=b)", "a", "the logarithm of the softmax is missing"),
    ("a - _log_sum_exp(a, axis=b)", "np.exp(a - _log_sum_exp(a, axis=b))", "the logarithm is missing"),
    ("np.sum(a > a[b])", "np.sum(a > b)", "scores are compared with the number of an item"),
    ("np.argsort(-a)", "np.argsort(a)", "the smallest comes first"),
    ("np.sum(a > a[b])", "np.argsort(-a)[b]", "the item at a place stands for the place of an item"),
    ("np.sum(a > a[b])", "np.argsort(a)[b]", "the item at a place stands for the place of an item"),
)
STATEMENTS = (
    ("a += b", "a -= b", "the sign of a term is wrong"),
    ("a -= b", "a += b", "the sign of a term is wrong"),
    ("a *= b", "a /= b", "it divides where it should multiply"),
    ("a /= b", "a *= b", "it multiplies where it should divide"),
    ("a += b", "a = b", "it is overwritten, not added to"),
    ("a += b", "pass", "a term is missing"),
    ("a -= b", "pass", "a term is missing"),
    ("a *= b", "pass", "a factor is missing"),
    ("a /= b", "pass", "a division is missing"),
)


def parsed(text: str) -> Any:
    """The tree of an expression, or of a statement."""
    (statement,) = ast.parse(text).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def fits(pattern: Any, node: Any, found: dict[str, Any]) -> bool:
    """Whether `node` has the form of `pattern`. `found` gets what each letter stands for, everywhere the same."""
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1:
        known = found.setdefault(pattern.id, node)
        return known is node or ast.dump(known) == ast.dump(node)
    if isinstance(pattern, list):
        same_length = isinstance(node, list) and len(pattern) == len(node)
        return same_length and all(fits(p, n, found) for p, n in zip(pattern, node, strict=True))
    if not isinstance(pattern, ast.AST):
        return bool(pattern == node)
    if type(pattern) is not type(node):
        return False
    return all(fits(getattr(pattern, f), getattr(node, f), found) for f in pattern._fields if f != "ctx")


def filled(change: Any, found: dict[str, Any]) -> Any:
    """`change`, with its letters replaced by what they stand for; `change` itself is altered."""
    if isinstance(change, ast.Name) and change.id in found:
        return found[change.id]
    for name, value in ast.iter_fields(change):
        if isinstance(value, list):
            setattr(change, name, [filled(v, found) if isinstance(v, ast.AST) else v for v in value])
        elif isinstance(value, ast.AST):
            setattr(change, name, filled(value, found))
    return change


def _by_form(table: tuple[tuple[str, str, str], ...]) -> dict[type, list[tuple[Any, Any, str]]]:
    """The rules by the type of node that they change."""
    forms: dict[type, list[tuple[Any, Any, str]]] = {}
    for a, b, says in table:
        forms.setdefault(type(parsed(a)), []).append((parsed(a), parsed(b), says))
    return forms


_KNOWN = _by_form(RULES + STATEMENTS)


def changes(node: Any) -> Iterator[tuple[Any, str]]:
    """What the rules make of a node, each with its sentence."""
    for pattern, change, says in _KNOWN.get(type(node), ()):
        letters: dict[str, Any] = {}
        if fits(pattern, node, letters):
            yield filled(copy.deepcopy(change), letters), says


