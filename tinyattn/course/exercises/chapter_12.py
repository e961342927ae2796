"""Exercises of chapter 12, SASRec from data to a ranked list."""

import math
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ..graders import Function, Number
from ..plain import Changes, changed, op_spec, plain_spec
from ..prose import Prose
from .chapter_11 import _dot, state_at_large_scores, triple


def _belief(p: float, n: int) -> float:
    """σ(z) where p · -log σ(z) + 1/n · -log(1 - σ(z)) is smallest, by bisection of its slope."""
    low, high = -20.0, 20.0
    for _ in range(60):
        z = np.array((low + high) / 2)
        targets, weights = np.array([1.0, 0.0]), np.array([p, 1 / n])
        slope = ops.bce_with_logits_backward(1.0, np.array([z, z]), targets, weights).sum()
        low, high = (low, float(z)) if slope > 0 else (float(z), high)
    return float(ops.sigmoid(np.array(low)))


# my_shifted_batch
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


BATCH = plain_spec(
    "shifted_batch", "targets[b, t] is the item that follows ids[b, t]; the newest maxlen inputs, and 0 on the right",
    _histories, _shifted_batch, "ids", "targets", atol=0)  # fmt: skip


def _cut(first: Any, second: Any) -> Any:
    """A batch of inputs `first(sequence, maxlen)` and targets `second(sequence, maxlen)`."""
    return lambda sequences, maxlen: tuple(_padded([part(s, maxlen) for s in sequences]) for part in (first, second))


def _rolled(sequences: list[Any], maxlen: int, last: Any = None, width: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The last item is an input as well: its target is the first item, or `last`."""
    ids = _padded([s[-maxlen:] for s in sequences])
    ids = np.pad(ids, ((0, 0), (0, max(0, width - ids.shape[1]))))
    targets = np.roll(ids, -1, axis=1)
    if last is not None:
        targets[:, -1] = last
    return ids, targets


def _wider(sequences: list[Any], width: int, maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    """The right batch, padded with columns up to `width`."""
    ids, targets = _shifted_batch(sequences, maxlen)
    more = ((0, 0), (0, width - ids.shape[1]))
    return np.pad(ids, more), np.pad(targets, more)


WRONG_BATCH = dict(
    inputs_for_targets=_cut(lambda s, n: s[-n - 1 :][:-1], lambda s, n: s[-n - 1 :][:-1]),
    inputs_and_targets_exchanged=_cut(lambda s, n: s[-n - 1 :][1:], lambda s, n: s[-n - 1 :][:-1]),
    oldest_kept=_cut(lambda s, n: s[: n + 1][:-1], lambda s, n: s[: n + 1][1:]),
    one_pair_too_few=_cut(lambda s, n: s[-n:][:-1], lambda s, n: s[-n:][1:]),
    not_cut=_cut(lambda s, n: s[:-1], lambda s, n: s[1:]),
    last_item_is_input=_cut(lambda s, n: s[-n:], lambda s, n: s[-n:][1:]),
    last_item_asked=lambda sequences, maxlen: _rolled(sequences, maxlen, last=0),
    last_item_asked_at_full_width=lambda sequences, maxlen: _rolled(sequences, maxlen, last=0, width=maxlen),
    padding_of_minus_one=lambda sequences, maxlen: tuple(np.where(x, x, -1) for x in _shifted_batch(sequences, maxlen)),
    columns=lambda sequences, maxlen: tuple(x.T for x in _shifted_batch(sequences, maxlen)),
    last_target_alone=lambda sequences, maxlen: (
        _shifted_batch(sequences, maxlen)[0], np.array([s[-1] for s in sequences])
    ),
    two_ahead=_cut(lambda s, n: s[-n - 1 :][:-1], lambda s, n: s[-n - 1 :][2:]),
    cut_at_both_ends=_cut(lambda s, n: s[:-1][:n], lambda s, n: s[1:][-n:]),
    on_the_left=lambda sequences, maxlen: tuple(
        np.array([np.roll(row, np.sum(row == 0)) for row in part]) for part in _shifted_batch(sequences, maxlen)
    ),
    rolled=_rolled,
    one_column_too_wide=lambda sequences, maxlen: _wider(sequences, min(maxlen, max(map(len, sequences))), maxlen),
    cut_as_columns=lambda sequences, maxlen: tuple(
        part[:, -maxlen:] for part in _shifted_batch(sequences, max(map(len, sequences)))
    ),
    always_maxlen=lambda sequences, maxlen: _wider(sequences, maxlen, maxlen),
    inputs_only=lambda sequences, maxlen: _shifted_batch(sequences, maxlen)[0],
    returned_exchanged=lambda sequences, maxlen: _shifted_batch(sequences, maxlen)[::-1],
)


# my_pair_loss_backward
def _pair_loss(h: Any, good: Any, bad: Any) -> Any:
    """loss = log(1 + e^(-h·good)) + log(1 + e^(h·bad)). Shapes: h, good, bad (..., d) -> loss (...)."""
    zero = h.dtype.type(0)
    return np.logaddexp(zero, -_dot(h, good)) + np.logaddexp(zero, _dot(h, bad))


def _pair_loss_backward(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    """The gradients, by the slopes of the two logits, σ - 1 and σ.

    Shapes: dloss (...), h, good, bad (..., d) -> three (..., d).
    """
    dloss = np.asarray(dloss)[..., None]
    s_good, s_bad = (ops.sigmoid(_dot(h, item)[..., None]) for item in (good, bad))
    up, down = dloss * (s_good - 1), dloss * s_bad
    return up * good + down * bad, up * h, down * h


PAIR = op_spec(
    "pair_loss", "loss = -log σ(h·good) - log(1 - σ(h·bad))", lambda draw: triple(draw, "h"), _pair_loss, "loss",
    backward=_pair_loss_backward, wrt=("h", "good", "bad"))  # fmt: skip


state_at_large_scores(PAIR, "h", _pair_loss_backward)


def _of_difference(dloss: Any, h: Any, good: Any, bad: Any) -> Any:
    """The gradient of -log σ(h · good - h · bad)."""
    slope = (np.asarray(dloss) * (ops.sigmoid(_dot(h, good - bad)) - 1))[..., None]
    return slope * (good - bad), slope * h, -slope * h


WRONG_PAIR = Changes(_pair_loss_backward,
    of_mean_logit=lambda dloss, h, good, bad: tuple(g / h.shape[-1] for g in _pair_loss_backward(dloss, h, good, bad)),
    of_mean_loss=changed(_pair_loss_backward, "(dloss)[..., None] -> (dloss)[..., None] / max(np.size(dloss), 1)"),
    of_difference=_of_difference,
    dloss_ignored=lambda dloss, h, good, bad: _pair_loss_backward(np.ones_like(np.asarray(dloss)), h, good, bad),
)


# repaired_scores
def _states(draw: CaseDrawer) -> dict[str, Any]:
    """States, and right-padded histories of one item or more; some are shorter than the batch is wide."""
    people, length, d, items = draw.size(1, 3), draw.size(1, 4), draw.size(1, 3), draw.size(2, 6)
    ids = draw.rng.integers(1, items + 1, (people, length))
    for row in ids:
        row[draw.size(1, length) :] = 0
    return {"h": draw.array(people, length, d), "ids": ids, "table": draw.array(items + 1, d)}


def _last_real(ids: Any) -> Any:
    return (ids != 0).sum(axis=1) - 1


def _scores(h: Any, ids: Any, table: Any) -> Any:
    """Scores of all items by the last real state, with -∞ for padding and the items of the history: (B, items + 1)."""
    hidden, state = -np.inf, h[np.arange(len(h)), _last_real(ids)]
    scores = state @ table.T
    np.put_along_axis(scores, ids, hidden, axis=1)
    scores[:, 0] = hidden
    return scores
_all_shown = changed(
    _scores, "scores, ids, hidden -> scores, 0 * ids, hidden && [:, 0] = hidden -> [:, 0] = (state @ table.T)[:, 0]"
)
_at_the_end = changed(_scores, "_last_real(ids) -> -1")
SCORES = plain_spec(
    "scores", "the score of an unseen item is its row times the state of the last real item; others: -inf", _states,
    _scores, "scores", atol=1e-5)  # fmt: skip


def _pooled(h: Any, ids: Any, table: Any) -> Any:
    """Scores by the sum of all real states."""
    real = (ids != 0)[..., None]
    pooled = (h * real).sum(axis=1, keepdims=True)
    return _scores(pooled.astype(h.dtype).repeat(h.shape[1], axis=1), ids, table)


def _offers_what_was_seen(h: Any, ids: Any, table: Any) -> Any:
    made = _all_shown(h, ids, table)
    shown = np.full_like(made, -np.inf)
    np.put_along_axis(shown, ids, np.take_along_axis(made, ids, axis=1), axis=1)
    return shown


def _normalised(h: Any, ids: Any, table: Any) -> Any:
    """A softmax by hand: NaN where all items are hidden."""
    made = _scores(h, ids, table)
    e = np.exp(made - np.max(made, axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


WRONG_SCORES = Changes(_scores,
    divided_by_root_d=lambda h, ids, table: _scores(h / math.sqrt(h.shape[-1]), ids, table),
    nothing_hidden=_all_shown,
    padding_states_zero=lambda h, ids, table: _at_the_end(h * (ids != 0)[..., None], ids, table),
    of_mean=changed(_pooled, "pooled.astype -> (pooled / real.sum(axis=1, keepdims=True)).astype"),
    of_sum=_pooled,
    offers_what_was_seen=_offers_what_was_seen,
    column_zero_gone=lambda h, ids, table: _scores(h, ids, table)[:, 1:],
    softmax_of_scores=lambda h, ids, table: ops.softmax(_scores(h, ids, table)),
    normalised=_normalised,
    of_softmax=lambda h, ids, table: np.where(                      # hidden after the softmax
        np.isneginf(_scores(h, ids, table)), h.dtype.type(-np.inf), ops.softmax(_all_shown(h, ids, table))
    ),
)


EXERCISES = Prose(12).exercises(
    my_shifted_batch=Function(BATCH, tempting=WRONG_BATCH),
    my_pair_loss_backward=Function(PAIR, part="backward", tempting=WRONG_PAIR),
    bce_belief=Number(_belief, tolerance=0.005),
    repaired_scores=Function(SCORES, tempting=WRONG_SCORES),
)
