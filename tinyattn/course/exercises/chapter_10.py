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
from ..graders import Function, Number
from ..prose import Prose

CHAPTER = 10
PROSE = Prose(CHAPTER)
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


def _cut_as_columns(sequences: list[Any], maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    """The last maxlen columns of the whole batch: of a short row, padding."""
    ids, targets = _shifted_batch(sequences, max(map(len, sequences)))
    return ids[:, -maxlen:], targets[:, -maxlen:]


WRONG_BATCH = PROSE.said(
    "my_shifted_batch.mistakes",
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
    on_the_left=_on_the_left,
    rolled=_rolled,
    one_column_too_wide=lambda sequences, maxlen: _wider(sequences, min(maxlen, max(map(len, sequences))), maxlen),
    cut_as_columns=_cut_as_columns,
    always_maxlen=lambda sequences, maxlen: _wider(sequences, maxlen, maxlen),
    inputs_only=lambda sequences, maxlen: _shifted_batch(sequences, maxlen)[0],
    returned_exchanged=lambda sequences, maxlen: _shifted_batch(sequences, maxlen)[::-1],
)


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


def _assembled(assemble: Any) -> Any:
    """A backward with the right slopes, and gradients put together otherwise."""
    return _by(_less, _same, assemble)


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


WRONG_PAIR = PROSE.said(
    "my_pair_loss_backward.mistakes",
    good_slope_without_minus_one=_by(_same, _same),
    bad_slope_minus_one=_by(_less, _less),
    all_signs_turned=_by(lambda s: 1 - s, lambda s: -s),
    good_sign_turned=_by(lambda s: 1 - s, _same),
    bad_slope_of_one_minus=_by(_less, lambda s: 1 - s),
    good_slope_of_minus_z=_by(lambda s: -s, _same),
    bad_sign_turned=_by(_less, lambda s: -s),
    dh_subtracted=_assembled(lambda up, down, h, good, bad: (up * good - down * bad, up * h, down * h)),
    dbad_sign_turned=_assembled(lambda up, down, h, good, bad: (up * good + down * bad, up * h, -down * h)),
    elementwise=_elementwise,
    overflowing=_overflowing,
    divided_by_rounded=_divided_by_rounded,
    of_mean_logit=lambda dloss, h, good, bad: tuple(g / h.shape[-1] for g in _pair_loss_backward(dloss, h, good, bad)),
    dbad_of_both_terms=_assembled(lambda up, down, h, good, bad: (up * good + down * bad, up * h, up * h + down * h)),
    of_mean_loss=_of_mean_loss,
    slopes_exchanged=_by(_same, _less),
    dh_of_good_alone=_assembled(lambda up, down, h, good, bad: (up * good, up * h, down * h)),
    dh_of_bad_alone=_assembled(lambda up, down, h, good, bad: (down * bad, up * h, down * h)),
    items_for_h=_assembled(lambda up, down, h, good, bad: (up * good + down * bad, up * good, down * bad)),
    h_for_items=_assembled(lambda up, down, h, good, bad: (up * h + down * h, up * h, down * h)),
    good_and_bad_exchanged=_assembled(lambda up, down, h, good, bad: (up * good + down * bad, down * h, up * h)),
    slope_of_sigma=_by(lambda s: -s * (1 - s), lambda s: s * (1 - s)),
    slope_by_sigma=_by(lambda s: -1 / s, lambda s: 1 / (1 - s)),
    halved=_assembled(lambda up, down, h, good, bad: ((up * good + down * bad) / 2, up * h / 2, down * h / 2)),
    of_difference=_of_difference,
    dh_last=_assembled(lambda up, down, h, good, bad: (up * h, down * h, up * good + down * bad)),
    dloss_ignored=lambda dloss, h, good, bad: _pair_loss_backward(np.ones_like(np.asarray(dloss)), h, good, bad),
)


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


WRONG_SCORES = PROSE.said(
    "repaired_scores.mistakes",
    padding_forgotten=_padding_forgotten,
    divided_by_root_d=lambda h, ids, table: _scores(h / math.sqrt(h.shape[-1]), ids, table),
    last_position=_scored(lambda ids: -1),
    first_position=_scored(lambda ids: 0),
    one_too_late=_scored(lambda ids: np.minimum(_last_real(ids) + 1, ids.shape[1] - 1)),
    one_too_early=_scored(lambda ids: np.maximum(_last_real(ids) - 1, 0)),
    longest_for_all=_scored(lambda ids: np.full(len(ids), _last_real(ids).max())),
    shortest_for_all=_scored(lambda ids: np.full(len(ids), _last_real(ids).min())),
    seen_not_hidden=_scored(_last_real, hide_seen=False),
    padding_not_hidden=_scored(_last_real, hide_padding=False),
    nothing_hidden=_scored(_last_real, hide_seen=False, hide_padding=False),
    hidden_as_minus_billion=_hidden_as(-1e9),
    hidden_as_zero=_hidden_as(0),
    hidden_as_nan=_hidden_as(np.nan),
    hides_newest_alone=_hides_newest_alone,
    hides_of_all=_hides_of_all,
    first_zero=_scored(lambda ids: np.argmin(ids, axis=1) - 1),
    largest_number=_scored(lambda ids: np.argmax(ids, axis=1)),
    padding_states_zero=lambda h, ids, table: _scored(lambda ids: -1)(h * (ids != 0)[..., None], ids, table),
    of_mean=_of_mean,
    of_sum=_of_sum,
    offers_what_was_seen=_offers_what_was_seen,
    column_zero_gone=lambda h, ids, table: _scores(h, ids, table)[:, 1:],
    softmax_of_scores=lambda h, ids, table: ops.softmax(_scores(h, ids, table)),
    normalised=_normalised,
    of_softmax=_of_softmax,
)


EXERCISES = PROSE.exercises(
    my_shifted_batch=Function(BATCH, tempting=WRONG_BATCH),
    my_pair_loss_backward=Function(PAIR, part="backward", tempting=WRONG_PAIR),
    bce_belief=Number(_belief, tolerance=0.005, tempting=PROSE.said(
        "bce_belief.mistakes",
        probability_among_all=lambda: TRUE,
        share_of_negatives=lambda: 1 / (1 + TRUE * NEGATIVES),
        appearances=lambda: TRUE + 1 / NEGATIVES,
        odds=lambda: TRUE * NEGATIVES,
        number_for_chance=lambda: TRUE / (TRUE + NEGATIVES),
        half=lambda: 0.5,
        score_itself=lambda: math.log(TRUE * NEGATIVES),
        in_percent=lambda: 100 * _belief(),
        not_the_negative=lambda: 1 - 1 / NEGATIVES,
    )),
    repaired_scores=Function(SCORES, tempting=WRONG_SCORES),
)
