"""Exercises of chapter 10, SASRec from data to a ranked list."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.property import Property, close, stating
from ...check.spec import Spec
from ...check.subject import Subject
from ..exercise import Exercise
from ..graders import Function, Number

CHAPTER = 10
TRUE, NEGATIVES = 0.25, 20           # of bce_belief: the item's probability, and among how many one negative is drawn


def _belief() -> float:
    """Where a small change of z no longer lowers p · -log σ(z) + 1/n · -log(1 - σ(z)): by bisection."""
    low, high = -20.0, 20.0
    for _ in range(60):
        z = np.array((low + high) / 2)
        targets, weights = np.array([1.0, 0.0]), np.array([TRUE, 1 / NEGATIVES])
        slope = ops.bce_with_logits_backward(1.0, np.array([z, z]), targets, weights).sum()
        low, high = (low, float(z)) if slope > 0 else (float(z), high)
    return float(ops.sigmoid(np.array(low)))


# --- my_shifted_batch -----------------------------------------------------------------------------------------------


def _histories(draw: CaseDrawer) -> dict[str, Any]:
    """One to three sequences, of two items or more, and a maxlen that cuts some of them."""
    lengths = [draw.size(2, 7) for _ in range(draw.size(1, 3))]
    return {"sequences": [draw.rng.integers(1, 10, n) for n in lengths], "maxlen": draw.size(1, 6)}


def _padded(rows: list[Any]) -> np.ndarray:
    made = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for row, items in zip(made, rows, strict=True):
        row[: len(items)] = items
    return made


def _shifted_batch(sequences: list[Any], maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    """ids, targets (B, L): the newest maxlen inputs of each sequence, and the item after each; 0 on the right."""
    newest = [sequence[-maxlen - 1 :] for sequence in sequences]
    return _padded([items[:-1] for items in newest]), _padded([items[1:] for items in newest])


_OF_BATCH: list[Property] = []
states = stating("shifted_batch", _OF_BATCH)


@states("exact", "targets[b, t] is the item that follows ids[b, t]; the newest maxlen inputs, and 0 on the right",
        "oracle", hint="Do the example above on paper.")  # fmt: skip
def _as_on_paper(op: Subject, **case: Any) -> None:
    for name, got, expected in zip(BATCH.outputs, op.outputs(**case), _shifted_batch(**case), strict=True):
        close(got, expected, 0, name)


BATCH = Spec(
    name="shifted_batch",
    says="targets[b, t] is the item that follows ids[b, t] in sequence b",
    function="shifted_batch",
    case=_histories,
    ours=lambda: SimpleNamespace(shifted_batch=_shifted_batch),
    properties=_OF_BATCH,
    outputs=("ids", "targets"),
    common=False,
)


def _cut(first: Any, second: Any) -> Any:
    """A batch whose inputs and targets are cut from a sequence otherwise."""

    def batch(sequences: list[Any], maxlen: int) -> tuple[np.ndarray, np.ndarray]:
        return _padded([first(s, maxlen) for s in sequences]), _padded([second(s, maxlen) for s in sequences])

    return batch


def _on_the_left(sequences: list[Any], maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    ids, targets = _shifted_batch(sequences, maxlen)
    for part in (ids, targets):
        for row in part:
            row[:] = np.roll(row, np.sum(row == 0))
    return ids, targets


def _rolled(sequences: list[Any], maxlen: int, last: Any = None, width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The last item is an input as well: its target is the first item, or `last`."""
    ids = _padded([s[-maxlen:] for s in sequences])
    ids = np.pad(ids, ((0, 0), (0, max(0, width - ids.shape[1]))))
    targets = np.roll(ids, -1, axis=1)
    if last is not None:
        targets[:, -1] = last
    return ids, targets


def _wider(sequences: list[Any], width: int, maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    """The batch with columns of padding up to a width."""
    ids, targets = _shifted_batch(sequences, maxlen)
    more = ((0, 0), (0, width - ids.shape[1]))
    return np.pad(ids, more), np.pad(targets, more)


def _always_maxlen(sequences: list[Any], maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    return _wider(sequences, maxlen, maxlen)


def _cut_as_columns(sequences: list[Any], maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    """The last maxlen columns of the whole batch: of a short row, padding."""
    ids, targets = _shifted_batch(sequences, max(map(len, sequences)))
    return ids[:, -maxlen:], targets[:, -maxlen:]


WRONG_BATCH = (
    (_cut(lambda s, n: s[-n - 1 :][:-1], lambda s, n: s[-n - 1 :][:-1]),
     "At position t, is the right answer already among the inputs?",
     "Targets are the inputs themselves: nothing is to be predicted. They begin one item later."),
    (_cut(lambda s, n: s[-n - 1 :][1:], lambda s, n: s[-n - 1 :][:-1]), "Which of the two is the future?",
     "Inputs and targets are exchanged: targets are the later ones."),
    (_cut(lambda s, n: s[: n + 1][:-1], lambda s, n: s[: n + 1][1:]),
     "Of a long sequence, which items say most about tomorrow?",
     "The oldest items are kept. The newest are wanted: count from the end."),
    (_cut(lambda s, n: s[-n:][:-1], lambda s, n: s[-n:][1:]), "How many items give maxlen pairs of input and target?",
     "maxlen inputs and their targets are maxlen + 1 items."),
    (_cut(lambda s, n: s[:-1], lambda s, n: s[1:]), "What does maxlen do in yours?", "Long sequences are not cut."),
    (_cut(lambda s, n: s[-n:], lambda s, n: s[-n:][1:]), "What follows the last item of a sequence?",
     "The last item has no target in the data, so it is no input."),
    (lambda sequences, maxlen: _rolled(sequences, maxlen, last=0), "What follows the last item of a sequence?",
     "The last item has no target in the data, so it is no input."),
    (lambda sequences, maxlen: _rolled(sequences, maxlen, last=0, width=maxlen),
     "What follows the last item of a sequence? And how wide must the batch be, if all are short?",
     "The last item has no target in the data, so it is no input; and maxlen is only the limit of the width."),
    (lambda sequences, maxlen: tuple(np.where(x, x, -1) for x in _shifted_batch(sequences, maxlen)),
     "Which number stands for padding?", "Padding is 0, which is no item."),
    (lambda sequences, maxlen: tuple(x.T for x in _shifted_batch(sequences, maxlen)),
     "Is a sequence a row of the batch, or a column?", "Rows and columns are exchanged: a sequence is a row."),
    (lambda sequences, maxlen: (_shifted_batch(sequences, maxlen)[0], np.array([s[-1] for s in sequences])),
     "How many questions does a history of n items hold?",
     "There is a target for every input, not for the last one alone."),
    (_cut(lambda s, n: s[-n - 1 :][:-1], lambda s, n: s[-n - 1 :][2:]),
     "How far from an input does its target stand in the sequence?", "The targets are two items ahead, not one."),
    (_cut(lambda s, n: s[:-1][:n], lambda s, n: s[1:][-n:]), "Are both cut at the same end?",
     "The two are cut at different ends, so that targets do not follow their inputs."),
    (_on_the_left, "On which side of a row does a causal mask hide padding by itself?",
     "Padding belongs on the right here: a row begins with an item."),
    (_rolled, "What is the target of the last item of a row in yours?",
     "np.roll brings the first item round to the end. Nothing is known to follow the last item."),
    (lambda sequences, maxlen: _wider(sequences, min(maxlen, max(map(len, sequences))), maxlen),
     "How many inputs has a sequence of n items?",
     "The batch is one too wide where all are short: n items are n - 1 inputs."),
    (_cut_as_columns, "Where do the newest items of a short row stand, once it is padded?",
     "The batch is cut after it was padded: short rows lose their items. Cut each sequence first."),
    (_always_maxlen, "How wide must the batch be, if all sequences are short?",
     "The batch is as wide as its longest row of inputs; maxlen is only the limit."),
    (lambda sequences, maxlen: _shifted_batch(sequences, maxlen)[0], "How many arrays are asked for?",
     "It returns the inputs only."),
    (lambda sequences, maxlen: _shifted_batch(sequences, maxlen)[::-1], "Which of the two is the future?",
     "Inputs and targets are exchanged."),
)  # fmt: skip


# --- my_pair_loss_backward ------------------------------------------------------------------------------------------


def _dot(a: Any, b: Any) -> Any:
    return (a * b).sum(axis=-1)


def _pair_loss(h: Any, good: Any, bad: Any) -> Any:
    """loss = log(1 + e^(-h·good)) + log(1 + e^(h·bad)). Shapes: h, good, bad (..., d) -> loss (...)."""
    zero = h.dtype.type(0)
    return np.logaddexp(zero, -_dot(h, good)) + np.logaddexp(zero, _dot(h, bad))


def _pair_loss_backward(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    """dz of the good item is σ - 1, of the bad one σ. Shapes: dloss (...), h, good, bad (..., d) -> three (..., d)."""
    dgood = (np.asarray(dloss) * (ops.sigmoid(_dot(h, good)) - 1))[..., None]
    dbad = (np.asarray(dloss) * ops.sigmoid(_dot(h, bad)))[..., None]
    return dgood * good + dbad * bad, dgood * h, dbad * h


def _pair(draw: CaseDrawer) -> dict[str, Any]:
    shape = (*draw.lead, draw.size())
    return {name: draw.array(*shape, size=0.7) for name in ("h", "good", "bad")}


def _pair_by_loops(h: Any, good: Any, bad: Any) -> np.ndarray:
    loss = np.zeros(h.shape[:-1])
    for at in np.ndindex(loss.shape):
        up = sum(float(a) * float(b) for a, b in zip(h[at], good[at], strict=True))
        down = sum(float(a) * float(b) for a, b in zip(h[at], bad[at], strict=True))
        loss[at] = np.log1p(np.exp(-up)) + np.log1p(np.exp(down))
    return loss


_OF_PAIR: list[Property] = []
of_pair = stating("pair_loss", _OF_PAIR)


@of_pair("rounding", "the gradients are right, too, where h = 1 and the items are 1,000 and -1,000", "extremes",
         hint="Which of your terms is infinite at a logit of 1,000?", once=True)  # fmt: skip
def _large_logits(op: Subject, **case: Any) -> None:
    z = np.array([[1000.0], [-1000.0]])
    large, dloss = {"h": np.ones_like(z), "good": z, "bad": -z}, np.ones(2)
    for (name, got), x in zip(op.gradients(large, dloss).items(), _pair_loss_backward(dloss, **large), strict=True):
        close(got, x, 1e-6, f"d{name}")


PAIR = Spec(
    name="pair_loss",
    says="loss = -log σ(h·good) - log(1 - σ(h·bad))",
    function="pair_loss",
    case=_pair,
    ours=lambda: SimpleNamespace(pair_loss=_pair_loss, pair_loss_backward=_pair_loss_backward),
    properties=_OF_PAIR,
    outputs=("loss",),
    oracle=_pair_by_loops,
    wrt=("h", "good", "bad"),
)


def _by(of_good: Any, of_bad: Any, assemble: Any = None) -> Any:
    """A backward with other slopes of the two logits, or with gradients put together otherwise."""

    def backward(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
        up = (np.asarray(dloss) * of_good(ops.sigmoid(_dot(h, good))))[..., None]
        down = (np.asarray(dloss) * of_bad(ops.sigmoid(_dot(h, bad))))[..., None]
        if assemble:
            return assemble(up, down, h, good, bad)
        return up * good + down * bad, up * h, down * h

    return backward


def _less(s: Any) -> Any:
    return s - 1


def _same(s: Any) -> Any:
    return s


def _elementwise(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    """Without the sum over d that makes the logits."""
    up, down = (np.asarray(dloss)[..., None] * f(ops.sigmoid(h * e)) for f, e in ((_less, good), (_same, bad)))
    return up * good + down * bad, up * h, down * h


def _overflowing(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    """Right where logits are small."""
    up, down = np.exp(_dot(h, good)), np.exp(_dot(h, bad))
    dgood, dbad = ((dloss * slope)[..., None] for slope in (up / (1 + up) - 1, down / (1 + down)))
    return dgood * good + dbad * bad, dgood * h, dbad * h


def _of_mean_loss(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    return tuple(g / max(np.size(dloss), 1) for g in _pair_loss_backward(dloss, h, good, bad))


def _of_difference(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    """The gradient of -log σ(h · good - h · bad)."""
    slope = (np.asarray(dloss) * (ops.sigmoid(_dot(h, good - bad)) - 1))[..., None]
    return slope * (good - bad), slope * h, -slope * h


def _divided_by_rounded(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    """The chain rule as it stands: -1/σ · σ (1 - σ), and 1/(1 - σ) · σ (1 - σ)."""
    up, down = ops.sigmoid(_dot(h, good)), ops.sigmoid(_dot(h, bad))
    slopes = -dloss * up * (1 - up) / up, dloss * down * (1 - down) / (1 - down)
    dgood, dbad = (slope[..., None] for slope in slopes)
    return dgood * good + dbad * bad, dgood * h, dbad * h


def _of_mean_logit(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    return tuple(g / h.shape[-1] for g in _pair_loss_backward(dloss, h, good, bad))


_FORGOTTEN = "How many terms of the loss does h take part in?"
WRONG_PAIR = (
    (_by(_same, _same), "The loss of a good item that scores very high is 0. Is your slope there?",
     "The good item's slope is σ - 1: what was predicted, minus 1, which is true."),
    (_by(_less, _less), "The loss of a bad item that scores very low is 0. Is your slope there?",
     "The bad item's slope is σ: what was predicted, minus 0, which is true."),
    (_by(lambda s: 1 - s, lambda s: -s), "If the good item's score rises, does the loss rise or fall?",
     "Every gradient is right but for its sign."),
    (_by(lambda s: 1 - s, _same), "If the good item's score rises, does the loss rise or fall?",
     "The good item's slope has the wrong sign: σ - 1 is negative."),
    (_by(_less, lambda s: 1 - s), "The loss of a bad item that scores very low is 0. Is your slope there?",
     "The slope of -log(1 - σ) is σ itself, not 1 - σ."),
    (_by(lambda s: -s, _same), "The loss of a good item that scores very high is 0. Is your slope there?",
     "The slope of log(1 + e^(-z)) is -σ(-z), which is σ(z) - 1."),
    (_by(_less, lambda s: -s), "If the bad item's score rises, does the loss rise or fall?",
     "The bad item's slope has the wrong sign: σ is positive."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * good - down * bad, up * h, down * h)),
     "What becomes of two gradients of one array?", "In dh the two terms are added: the sign is in the slopes."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * good + down * bad, up * h, -down * h)),
     "If the bad item's score rises, does the loss rise or fall?", "The sign of dbad is wrong."),
    (_elementwise, "How many numbers is h · good, for one position?",
     "σ is taken of each product alone. Sum over d first: a position has one logit for each item."),
    (_overflowing, "What is e^1000 in floating point, and what is inf / inf?",
     "e^z / (1 + e^z) is inf / inf where z is large. 1 / (1 + e^(-z)) is 1 there, and 0 where z is very negative."),
    (_divided_by_rounded, "What is σ(-1,000) in floating point, and what is 0 / 0?",
     "σ (1 - σ) / σ is 0 / 0 where σ has been rounded to 0. Cancel on paper: σ - 1."),
    (_of_mean_logit, "Is h · good a sum over d, or a mean?", "Everything is divided by d. A dot product is a sum."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * good + down * bad, up * h, up * h + down * h)),
     "In which of the two terms does the bad item stand?", "dbad has the slope of its own term alone."),
    (_of_mean_loss, "Does pair_loss return one number, or one for each position?",
     "You divide by the number of positions. The loss is one number a position; a mean would be in dloss."),
    (_by(_same, _less), "Which of the two should go up?", "The slopes of the good and the bad item are exchanged."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * good, up * h, down * h)), _FORGOTTEN,
     "dh has a term of the bad item, too: the two are added."),
    (_by(_less, _same, lambda up, down, h, good, bad: (down * bad, up * h, down * h)), _FORGOTTEN,
     "dh has a term of the good item, too: the two are added."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * good + down * bad, up * good, down * bad)),
     "z = h · good: what is its derivative by good?", "The gradient of an item is a multiple of h, not of the item."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * h + down * h, up * h, down * h)),
     "z = h · good: what is its derivative by h?", "dh is made of the two items, not of h."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * good + down * bad, down * h, up * h)),
     "Which gradient belongs to which item?", "The gradients of good and bad are exchanged."),
    (_by(lambda s: -s * (1 - s), lambda s: s * (1 - s)), "Is there a logarithm around the σ?",
     "s (1 - s) is the slope of σ itself; that of -log σ is σ - 1."),
    (_by(lambda s: -1 / s, lambda s: 1 / (1 - s)), "-1/σ is the derivative of -log σ by σ. And by z?",
     "The slope of σ, σ (1 - σ), is missing."),
    (_by(_less, _same, lambda up, down, h, good, bad: ((up * good + down * bad) / 2, up * h / 2, down * h / 2)),
     "Is the loss a sum of two terms, or their mean?", "Everything is halved: the loss is a sum."),
    (_of_difference, "How many σ are there in the loss, and of what is each?",
     "That is the gradient of -log σ(h · good - h · bad), another loss (BPR). Here each item has a σ of its own."),
    (_by(_less, _same, lambda up, down, h, good, bad: (up * h, down * h, up * good + down * bad)),
     "In which order are the gradients asked for?", "dh comes first, then dgood and dbad."),
    (lambda dloss, h, good, bad: _pair_loss_backward(np.ones_like(np.asarray(dloss)), h, good, bad),
     "What becomes of your gradients if the loss is counted twice?", "dloss is not used."),
)  # fmt: skip


# --- repaired_scores ------------------------------------------------------------------------------------------------


def _states(draw: CaseDrawer) -> dict[str, Any]:
    """States and right-padded histories; at least one item of each, some shorter than the batch is wide."""
    people, length, d, items = draw.size(1, 3), draw.size(1, 4), draw.size(1, 3), draw.size(2, 6)
    ids = draw.rng.integers(1, items + 1, (people, length))
    for row in ids:
        row[draw.size(1, length) :] = 0
    return {"h": draw.array(people, length, d), "ids": ids, "table": draw.array(items + 1, d)}


def _scores(h: Any, ids: Any, table: Any) -> Any:
    """Scores of all items by the last real state, -inf for padding and what was seen. -> (B, items + 1)."""
    last = (ids != 0).sum(axis=1) - 1
    scores = h[np.arange(len(h)), last] @ table.T
    np.put_along_axis(scores, ids, -np.inf, axis=1)
    scores[:, 0] = -np.inf
    return scores


_OF_SCORES: list[Property] = []
of_scores = stating("scores", _OF_SCORES)


@of_scores("rounding", "the score of an unseen item is its row times the state of the last real item; others: -inf",
           "oracle", hint="Do the example above on paper.")  # fmt: skip
def _by_the_last(op: Subject, **case: Any) -> None:
    (got,), expected = op.outputs(**case), _scores(**case)
    if np.shape(got) == expected.shape:
        both = np.isneginf(got) & np.isneginf(expected)                  # -∞ less -∞ is no number
        got, expected = np.where(both, 0, got), np.where(both, 0, expected)
    close(got, expected, 1e-5, "scores")


SCORES = Spec(
    name="scores",
    says="scores of all items by the state of the last real item; -inf for padding and for what was seen",
    function="scores",
    case=_states,
    ours=lambda: SimpleNamespace(scores=_scores),
    properties=_OF_SCORES,
    outputs=("scores",),
    common=False,
)


def _scored(at: Any, hide_seen: bool = True, hide_padding: bool = True, table_of: Any = lambda t: t) -> Any:
    """Scores that ask another position, or leave another set of items out."""

    def scores(h: Any, ids: Any, table: Any) -> Any:
        made = h[np.arange(len(h)), at(ids)] @ table_of(table).T
        before = made[:, 0].copy()
        if hide_seen:
            np.put_along_axis(made, ids, -np.inf, axis=1)
        made[:, 0] = -np.inf if hide_padding else before
        return made

    return scores


def _last_real(ids: Any) -> Any:
    return (ids != 0).sum(axis=1) - 1


def _hidden_as(number: float) -> Any:
    """Scores that are right, but for what stands where nothing may be offered."""

    def scores(h: Any, ids: Any, table: Any) -> Any:
        made = _scores(h, ids, table)
        return np.where(np.isneginf(made), made.dtype.type(number), made)

    return scores


def _hides_newest_alone(h: Any, ids: Any, table: Any) -> Any:
    made = _scored(_last_real, hide_seen=False)(h, ids, table)
    np.put_along_axis(made, ids[np.arange(len(ids)), _last_real(ids)][:, None], -np.inf, axis=1)
    return made


def _hides_of_all(h: Any, ids: Any, table: Any) -> Any:
    made = _scores(h, ids, table)
    made[:, ids.reshape(-1)] = -np.inf
    return made


def _of_mean(h: Any, ids: Any, table: Any) -> Any:
    real = (ids != 0)[..., None]
    mean = (h * real).sum(axis=1, keepdims=True) / real.sum(axis=1, keepdims=True)
    return _scores(mean.astype(h.dtype).repeat(h.shape[1], axis=1), ids, table)


def _of_sum(h: Any, ids: Any, table: Any) -> Any:
    total = (h * (ids != 0)[..., None]).sum(axis=1, keepdims=True)
    return _scores(total.astype(h.dtype).repeat(h.shape[1], axis=1), ids, table)


def _offers_what_was_seen(h: Any, ids: Any, table: Any) -> Any:
    made = _scored(_last_real, hide_seen=False, hide_padding=False)(h, ids, table)
    shown = np.full_like(made, -np.inf)
    np.put_along_axis(shown, ids, np.take_along_axis(made, ids, axis=1), axis=1)
    return shown


def _of_softmax(h: Any, ids: Any, table: Any) -> Any:
    """Probabilities of all items, of which some are hidden then."""
    p = ops.softmax(_scored(_last_real, hide_seen=False, hide_padding=False)(h, ids, table))
    return np.where(np.isneginf(_scores(h, ids, table)), p.dtype.type(-np.inf), p)


def _padding_forgotten(h: Any, ids: Any, table: Any) -> Any:
    """Column 0 is hidden only in rows that have padding among their ids."""
    made = h[np.arange(len(h)), _last_real(ids)] @ table.T
    np.put_along_axis(made, ids, -np.inf, axis=1)
    return made


def _normalised(h: Any, ids: Any, table: Any) -> Any:
    """A softmax by hand, NaN where all items have been seen."""
    made = _scores(h, ids, table)
    e = np.exp(made - np.max(made, axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


_SOFTMAX = "Are scores asked for, or probabilities?"
_LEAVE_OUT = "A softmax of the scores has the same order, but hidden is 0 then, not -inf. Leave the softmax out."
WRONG_SCORES = (
    (_padding_forgotten, "What is in column 0, for a history without padding?",
     "Column 0 is padding, which is no item: it is -inf in every row."),
    (lambda h, ids, table: _scores(h / math.sqrt(h.shape[-1]), ids, table), "Is there a √d in a score h · e?",
     "Scores of items are dot products as they are: attention alone divides by √d."),
    (_scored(lambda ids: -1), "What stands at position -1 of a history that is shorter than the longest?",
     "Count the real items of each row."),
    (_scored(lambda ids: 0), "What has the state at position 0 seen?", "That is the state after the first item only."),
    (_scored(lambda ids: np.minimum(_last_real(ids) + 1, ids.shape[1] - 1)),
     "With n real items, which number has the last one?", "It is one position too late: the last of n items is n - 1."),
    (_scored(lambda ids: np.maximum(_last_real(ids) - 1, 0)), "Does your state know of the newest item?",
     "It is one position too early."),
    (_scored(lambda ids: np.full(len(ids), _last_real(ids).max())), "Is the last position the same for every row?",
     "Each row has a last position of its own."),
    (_scored(lambda ids: np.full(len(ids), _last_real(ids).min())), "Is the last position the same for every row?",
     "Each row has a last position of its own."),
    (_scored(_last_real, hide_seen=False), "May something be offered that was seen?",
     "Items of the history are still there: they need -inf, as in buggy_scores."),
    (_scored(_last_real, hide_padding=False), "May item 0 be offered?", "Column 0 is padding, and needs -inf."),
    (_scored(_last_real, hide_seen=False, hide_padding=False), "May something be offered that was seen, or item 0?",
     "The two lines of buggy_scores that write -inf are right, and missing in yours."),
    (_hidden_as(-1e9), "What does buggy_scores write where an item must not be offered?",
     "Hidden is -inf: no score is lower, however low scores get."),
    (_hidden_as(0), "Scores may be negative: is 0 lower than all?", "Hidden is -inf: no score is lower."),
    (_hidden_as(np.nan), "Where does a sort put nan?", "Hidden is -inf: no score is lower."),
    (_hides_newest_alone, "May an older item of the history be offered?",
     "All items of a row are hidden, not only the newest. Keep the line of buggy_scores that does it."),
    (_hides_of_all, "Whose history hides which scores?",
     "What one person has seen is hidden from all. Each row hides its own items, as in buggy_scores."),
    (_scored(lambda ids: np.argmin(ids, axis=1) - 1), "Where is the first 0 of a row that has none?",
     "A full row has no 0: argmin then finds its smallest number. Count the real items."),
    (_scored(lambda ids: np.argmax(ids, axis=1)), "Is the newest item the one with the largest number?",
     "argmax finds the largest number of a row, not the last item."),
    (lambda h, ids, table: _scored(lambda ids: -1)(h * (ids != 0)[..., None], ids, table),
     "What does a row of zeros say of the items?", "The state at padding is now 0. Take that of the last real item."),
    (_of_mean, "Which state was trained to predict the item after the last one?",
     "The mean of all states predicts nothing that was trained: take the last real one."),
    (_of_sum, "Which state was trained to predict the item after the last one?",
     "The sum of all states predicts nothing that was trained: take the last real one."),
    (_offers_what_was_seen, "What may be offered: items that were seen, or the others?",
     "-inf stands where an item may be offered, and scores where it may not."),
    (lambda h, ids, table: _scores(h, ids, table)[:, 1:], "Which column is item 1?",
     "Column 0 is gone, so that columns are no longer item numbers."),
    (lambda h, ids, table: ops.softmax(_scores(h, ids, table)), _SOFTMAX, _LEAVE_OUT),
    (_normalised, _SOFTMAX, _LEAVE_OUT),
    (_of_softmax, _SOFTMAX, "A score is h · e itself. Leave the softmax out."),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "my_shifted_batch",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_shifted_batch(sequences, maxlen) -> ids, targets: the newest maxlen inputs, and what follows each",
        grader=Function(BATCH, tempting=WRONG_BATCH),
        hints=(
            "A sequence of n items has how many pairs (input, target)? And which items give the newest maxlen pairs?",
            "Keep the newest maxlen + 1 items. All but the last are inputs, all but the first are targets; write both "
            "into the left part of a row of zeros.",
        ),
        why="maxlen pairs are made of maxlen + 1 items. Inputs and targets are the same items, one place apart, so "
        "that every position is asked for what it cannot see yet.",
    ),
    Exercise(
        "my_pair_loss_backward",
        "derive the backward",
        difficulty=2,
        minutes=12,
        task="my_pair_loss_backward(dloss, h, good, bad) -> dh, dgood, dbad",
        grader=Function(PAIR, part="backward", tempting=WRONG_PAIR),
        hints=(
            "What is the derivative of log(1 + e^(-z)) by z, written with σ(z)? And which three gradients does "
            "z = h · good hand on?",
            "The slopes are σ(h·good) - 1 and σ(h·bad), each times dloss. dh is slope · good + slope · bad; dgood and "
            "dbad are their slopes times h. The slopes need [..., None] to meet vectors.",
        ),
        why="Predicted minus true probability, once with truth 1 and once with truth 0. A dot product hands each of "
        "its two factors the other one, and h is a factor of both, so its two gradients are added.",
    ),
    Exercise(
        "bce_belief",
        "predict the number",
        difficulty=2,
        minutes=5,
        task=f"σ(z) at the optimum, for an item that is next with probability {TRUE} and one of {NEGATIVES} equally "
        "likely negatives",
        grader=Number(
            _belief,
            tolerance=0.005,
            tempting=(
                (lambda: TRUE, "How often is the item a target, and how often a negative? σ sees these two only.",
                 "σ is not the probability among all items. It is the share of targets among the item's appearances."),
                (lambda: 1 / (1 + TRUE * NEGATIVES), "Is that the share of targets, or of negatives?"),
                (lambda: TRUE + 1 / NEGATIVES, "That is how often it appears at all. As a target, what share of it?"),
                (lambda: TRUE * NEGATIVES, "That is targets for each negative. What share of all is that?",
                 "5 to 1 is a share of 5 / 6."),
                (lambda: TRUE / (TRUE + NEGATIVES), "How often is one of 20 items drawn?",
                 "The negative is this item in one of 20 draws: 1 / 20, not 20."),
                (lambda: 0.5, "That is so where an item is a target as often as a negative. Is it?"),
                (lambda: math.log(TRUE * NEGATIVES), "That is the score z. Which σ(z) does it give?"),
                (lambda: 100 * _belief(), "σ lies between 0 and 1: does yours?", "That is in percent."),
                (lambda: 1 - 1 / NEGATIVES, "Where does the probability .25 come in?",
                 "That is how often the item is not the negative."),
            ),
        ),
        hints=(
            "In 100 positions like this one, how often does the item appear as a target, and how often as a negative?",
            "25 times as a target and 5 times as a negative. The best σ is the share of targets among these 30.",
        ),
        why="p · (σ - 1) + q · σ = 0 gives σ = p / (p + q). With p = 1/4 and q = 1/20 that is 5/6.",
    ),
    Exercise(
        "repaired_scores",
        "find the bug",
        difficulty=1,
        minutes=6,
        task="buggy_scores with its one wrong line put right",
        grader=Function(SCORES, tempting=WRONG_SCORES),
        hints=(
            "The histories of the test are equally long. What if one is shorter?",
            "h[:, -1] is a state at padding where a history is short. The last real item of row b stands at "
            "(ids[b] != 0).sum() - 1. The other lines of buggy_scores are right.",
        ),
        why="With padding on the right the newest item stands where the padding begins, minus one: another place in "
        "each row.",
    ),
)
