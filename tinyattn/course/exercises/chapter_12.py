"""Exercises of chapter 12, BERT4Rec and Cloze."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ...check.spec import Spec
from ..exercise import Grade
from ..graders import Function, Number
from ..plain import plain_spec
from ..prose import Prose

CHAPTER = 12
PROSE = Prose(CHAPTER)
SYMBOLS, MASKED, REPLACED, KEPT = 8, 0.8, 0.1, 0.1     # of loss_with_kept_items


# --- loss_with_kept_items -------------------------------------------------------------------------------------------


def _loss_with_kept_items() -> float:
    """Of a model that knows all there is to know: the joint distribution of target and input, written out."""
    joint = np.zeros((SYMBOLS, SYMBOLS + 1))            # target, what stands there; the last column is [MASK]
    joint[:, :-1] = (REPLACED / SYMBOLS + KEPT * np.eye(SYMBOLS)) / SYMBOLS
    joint[:, -1] = MASKED / SYMBOLS
    return float(-np.sum(joint * np.log(joint / np.sum(joint, axis=0))))


# --- my_cloze: hidden are the positions with the smallest numbers of their row --------------------------------------


def _hide(ids: Any, hidden: Any, mask: int) -> tuple[Any, Any]:
    return np.where(hidden, mask, ids), np.where(hidden, ids, 0)


def _smallest(ids: Any, turn: Any, count: Any) -> Any:
    """(B, L): True at the `count` real positions with the smallest turn of each row."""
    order = np.argsort(np.where(ids != 0, turn, np.inf), axis=1)
    return np.argsort(order, axis=1) < np.reshape(count, (-1, 1))


def _count(ids: Any, rho: float) -> Any:
    return np.maximum(1, np.rint(rho * np.sum(ids != 0, axis=1)))


def _cloze(ids: Any, turn: Any, rho: float, mask: int) -> tuple[Any, Any]:
    return _hide(ids, _smallest(ids, turn, _count(ids, rho)), mask)


def _cloze_case(draw: CaseDrawer) -> dict[str, Any]:
    """Shares with which rho n is never halfway between two whole numbers."""
    rows, width = draw.size(1, 4), draw.size(1, 7)
    lengths = draw.rng.integers(1, width + 1, rows)
    lengths[0] = width
    ids = np.where(np.arange(width) < lengths[:, None], draw.rng.integers(1, 10, (rows, width)), 0)
    turn = draw.rng.permutation(rows * width).reshape(rows, width)
    return {"ids": ids, "turn": turn, "rho": draw.choose((0.2, 0.4, 0.6, 0.8)), "mask": 10}


CLOZE = plain_spec(
    "cloze", "of each row max(1, round(rho n)) real items are hidden and asked for", _cloze_case, _cloze,
    "inputs", "targets",
)  # fmt: skip


def _everywhere(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    """Padding is counted, and hidden, too."""
    return _hide(ids, np.argsort(np.argsort(turn, axis=1), axis=1) < max(1, np.rint(rho * ids.shape[1])), mask)


def _hidden_with_padding(ids: Any, turn: Any, rho: float, mask: int, may: Any = True) -> Any:
    """Padding takes places among the smallest; hidden is what `may` be."""
    rank = np.argsort(np.argsort(turn, axis=1), axis=1)
    return _hide(ids, (rank < _count(ids, rho)[:, None]) & may, mask)


def _down_the_columns(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    order = np.argsort(np.where(ids != 0, turn, np.inf), axis=0)
    return _hide(ids, (np.argsort(order, axis=0) < _count(ids, rho)[:, None]) & (ids != 0), mask)


def _counting(count: Any) -> Any:
    """An answer that hides `count(n, rho)` of the n items of each row."""

    def answer(ids: Any, turn: Any, rho: float, mask: int) -> Any:
        return _hide(ids, _smallest(ids, turn, count(np.sum(ids != 0, axis=1), rho)) & (ids != 0), mask)

    return answer


def _with_targets(of: Any) -> Any:
    """Inputs that are right, and targets `of(ids, hidden, mask)`."""

    def answer(ids: Any, turn: Any, rho: float, mask: int) -> Any:
        inputs, targets = _cloze(ids, turn, rho, mask)
        return inputs, of(ids, targets != 0, mask)

    return answer


def _width_for_length(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    count = np.full(len(ids), max(1, np.rint(rho * ids.shape[1])))
    return _hide(ids, _smallest(ids, turn, count) & (ids != 0), mask)


def _argsort_once(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    order = np.argsort(np.where(ids != 0, turn, np.inf), axis=1)
    return _hide(ids, order < _count(ids, rho)[:, None], mask)


WRONG_CLOZE = PROSE.said(
    "my_cloze.mistakes",
    not_hidden=lambda ids, turn, rho, mask: (ids, _cloze(ids, turn, rho, mask)[1]),
    all_asked=lambda ids, turn, rho, mask: (_cloze(ids, turn, rho, mask)[0], ids),
    targets_of_inputs=lambda ids, turn, rho, mask: (_cloze(ids, turn, rho, mask)[0],) * 2,
    targets_of_mask=_with_targets(lambda ids, hidden, mask: np.where(hidden, mask, 0)),
    places_for_items=_with_targets(lambda ids, hidden, mask: hidden),
    minus_100=_with_targets(lambda ids, hidden, mask: np.where(hidden, ids, -100)),
    minus_one=_with_targets(lambda ids, hidden, mask: np.where(hidden, ids, -1)),
    ranked_with_padding=lambda ids, turn, rho, mask: _hidden_with_padding(ids, turn, rho, mask, ids != 0),
    turn_itself=lambda ids, turn, rho, mask: _hide(ids, (turn < _count(ids, rho)[:, None]) & (ids != 0), mask),
    one_more=_counting(lambda n, rho: np.maximum(1, np.rint(rho * n)) + 1),
    first_of_row=lambda ids, turn, rho, mask: _cloze(ids, np.arange(ids.shape[1]) + 0 * turn, rho, mask),
    down_the_columns=_down_the_columns,
    hidden_with_padding=_hidden_with_padding,
    rounded_up=_counting(lambda n, rho: np.ceil(rho * n - 1e-9)),
    everywhere=_everywhere,
    over_all_rows=lambda ids, turn, rho, mask: _hide(ids, (turn < np.rint(rho * np.sum(ids != 0))) & (ids != 0), mask),
    width_for_length=_width_for_length,
    never_none=_counting(lambda n, rho: np.rint(rho * n)),
    rounded_down=_counting(lambda n, rho: np.maximum(1, np.floor(rho * n + 1e-9))),
    argsort_once=_argsort_once,
    largest_hidden=lambda ids, turn, rho, mask: _cloze(ids, -turn, rho, mask),
    share_visible=lambda ids, turn, rho, mask: _cloze(ids, turn, 1 - rho, mask),
    exchanged=lambda ids, turn, rho, mask: _cloze(ids, turn, rho, mask)[::-1],
    padding_for_mask=lambda ids, turn, rho, mask: _cloze(ids, turn, rho, 0),
)


# --- my_cloze_backward ----------------------------------------------------------------------------------------------


def _loss_parts(h: Any, E: Any, targets: Any) -> tuple[Any, Any, Any]:
    asked = np.asarray(targets != 0, h.dtype)
    return h @ E[1:].T, np.maximum(targets - 1, 0), asked


def _cloze_loss(h: Any, E: Any, targets: Any) -> Any:
    return ops.cross_entropy(*_loss_parts(h, E, targets))


def _cloze_loss_backward(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    return _through(h, E, ops.cross_entropy_backward(dloss, *_loss_parts(h, E, targets)))


def _through(h: Any, E: Any, ds: Any) -> tuple[Any, Any]:
    """From the gradient of the logits, (B, n, V), to those of h and E."""
    dE = np.zeros_like(E)
    dE[1:] = np.einsum("bnv,bnd->vd", ds, h)
    return ds @ E[1:], dE


def _with_ds(of: Any) -> Any:
    """A backward whose gradient of the logits is `of(dloss, p - onehot, asked)`, with asked (B, n, 1)."""

    def backward(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
        s, _, asked = _loss_parts(h, E, targets)
        wrong = ops.softmax(s) - np.asarray(targets[..., None] == np.arange(1, len(E)), s.dtype)
        return _through(h, E, of(dloss, wrong, asked[..., None]))

    return backward


def _padding_scored(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    asked = np.asarray(targets != 0, h.dtype)
    ds = ops.cross_entropy_backward(dloss, h @ E.T, targets, asked)
    return ds @ E, np.einsum("bnv,bnd->vd", ds, h)


def _loss_case(draw: CaseDrawer) -> dict[str, Any]:
    rows, n, items, d = draw.size(1, 3), draw.size(1, 4), draw.size(2, 5), draw.size(1, 4)
    targets = draw.rng.integers(1, items + 1, (rows, n)) * (draw.rng.random((rows, n)) < 0.5)
    targets[0, 0] = items
    return {"h": draw.array(rows, n, d), "E": draw.array(items + 1, d), "targets": targets}


CLOZE_LOSS = Spec(
    name="cloze_loss",
    says="-log softmax(h Eᵀ)[target], the mean over positions that are asked",
    function="cloze_loss",
    case=_loss_case,
    ours=lambda: SimpleNamespace(cloze_loss=_cloze_loss, cloze_loss_backward=_cloze_loss_backward),
    properties=[],
    outputs=("loss",),
    oracle=_cloze_loss,
    wrt=("h", "E"),
)


def _mean_of_rows(dloss: float, wrong: Any, asked: Any) -> Any:
    return dloss * asked * wrong / np.maximum(asked.sum(axis=1, keepdims=True), 1) / len(asked)


def _dE_as(of: Any) -> Any:
    """A backward whose dE is `of(dE, ds, h)`."""

    def backward(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
        parts = _loss_parts(h, E, targets)
        ds = ops.cross_entropy_backward(dloss, *parts)
        dh, dE = _through(h, E, ds)
        return dh, of(dE, ds, h, targets)

    return backward


def _moved_down(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    """With targets - 1 as if they were item numbers."""
    return _cloze_loss_backward(dloss, h, E, np.where(targets != 0, np.maximum(targets - 1, 1), 0))


def _with_onehot(of: Any) -> Any:
    """A backward whose gradient of the logits is `of(p, onehot)`, at asked positions, over their number."""

    def backward(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
        s, _, asked = _loss_parts(h, E, targets)
        onehot = np.asarray(targets[..., None] == np.arange(1, len(E)), s.dtype)
        return _through(h, E, dloss * asked[..., None] * of(ops.softmax(s), onehot) / asked.sum())

    return backward


def _onehot_one_off(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    """With targets as numbers of columns, though column 0 is item 1."""
    s, _, asked = _loss_parts(h, E, targets)
    onehot = np.asarray(targets[..., None] == np.arange(s.shape[-1]), s.dtype)
    return _through(h, E, dloss * asked[..., None] * (ops.softmax(s) - onehot) / asked.sum())


def _overflowing(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    """Softmax without the largest logit taken off."""
    s, _, asked = _loss_parts(h, E, targets)
    e = np.exp(s)
    wrong = e / e.sum(axis=-1, keepdims=True) - np.asarray(targets[..., None] == np.arange(1, len(E)), s.dtype)
    return _through(h, E, dloss * asked[..., None] * wrong / asked.sum())


WRONG_LOSS = PROSE.said(
    "my_cloze_backward.mistakes",
    overflowing=_overflowing,
    onehot_one_off=_onehot_one_off,
    unasked_have_gradient=_with_ds(lambda dloss, wrong, asked: dloss * wrong / asked.sum()),
    mean_of_rows=_with_ds(_mean_of_rows),
    divided_by_rows=_with_ds(lambda dloss, wrong, asked: dloss * asked * wrong / len(asked)),
    padding_row_missing=_dE_as(lambda dE, ds, h, targets: dE[1:]),
    rows_moved=_dE_as(lambda dE, ds, h, targets: np.roll(dE, -1, axis=0)),
    targets_alone_have_gradient=_dE_as(lambda dE, ds, h, targets: dE * np.isin(np.arange(len(dE)), targets)[:, None]),
    not_summed=_dE_as(lambda dE, ds, h, targets: np.einsum("bnv,bnd->bvd", ds, h)),
    every_position_counts=_with_ds(lambda dloss, wrong, asked: dloss * wrong / asked[..., 0].size),
    divided_by_all=_with_ds(lambda dloss, wrong, asked: dloss * asked * wrong / asked.size),
    not_divided=_with_ds(lambda dloss, wrong, asked: dloss * asked * wrong),
    dloss_ignored=_with_ds(lambda dloss, wrong, asked: asked * wrong / asked.sum()),
    sign_turned=_with_ds(lambda dloss, wrong, asked: -dloss * asked * wrong / asked.sum()),
    moved_down=_moved_down,
    no_onehot=_with_onehot(lambda p, onehot: p),
    target_logit_alone=_with_onehot(lambda p, onehot: onehot * (p - onehot)),
    exchanged=lambda dloss, h, E, targets: _cloze_loss_backward(dloss, h, E, targets)[::-1],
    padding_scored=_padding_scored,
)


# --- no_target_is_read ----------------------------------------------------------------------------------------------


def _no_target_is_read(inputs: Any, targets: Any) -> bool:
    """True where no item that is asked for stands in its own row of inputs."""
    return not np.any((inputs[:, :, None] == targets[:, None, :]) & (targets[:, None, :] != 0))


def _batch_case(draw: CaseDrawer) -> dict[str, Any]:
    """Histories without repetitions; in most a target of the last row is read, in its row or in another one."""
    rows, width = draw.size(1, 3), draw.size(2, 5)
    ids = np.array([draw.rng.permutation(9)[:width] + 1 for _ in range(rows)])
    ids[:, 1:][:, draw.size(1, width - 1) :] = 0         # padding, in all rows alike
    inputs, targets = _cloze(ids, draw.rng.random(ids.shape), 0.6, 10)
    at = int(draw.rng.choice(np.flatnonzero(targets[-1])))
    other = (at + int(draw.rng.integers(1, width))) % width
    leak = draw.choose(("none", "kept", "elsewhere", "another row's"))
    if leak == "kept":
        inputs[-1, at] = targets[-1, at]
    elif leak == "elsewhere":
        inputs[-1, other] = targets[-1, at]
        targets[-1, other] = 0
    elif leak == "another row's" and rows > 1 and targets[-1, at] not in targets[0]:
        inputs[0, other] = targets[-1, at]
        targets[0, other] = 0
    return {"inputs": inputs, "targets": targets}


NO_TARGET_IS_READ = plain_spec(
    "no_target_is_read", "True where no item that is asked for stands in its own row of inputs, else False",
    _batch_case, _no_target_is_read, "answer",
)  # fmt: skip


class _Asserted(Function):
    """Grades a property as a function: it returns whether it holds; or it asserts, and returns nothing."""

    def kindly(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        return super().kindly(_told(answer))

    def __call__(self, answer: Any) -> Grade:
        return super().__call__(_told(answer) if callable(answer) else answer)


def _told(answer: Callable[..., Any]) -> Callable[..., Any]:
    """What it returns; False for an AssertionError, and True for nothing."""

    @functools.wraps(answer)
    def holds(*args: Any, **kwargs: Any) -> Any:
        try:
            told = answer(*args, **kwargs)
        except AssertionError:
            return False
        return True if told is None else told

    return holds


def _not_the_same_place(inputs: Any, targets: Any) -> bool:
    same = (inputs[:, :, None] == targets[:, None, :]) & (targets[:, None, :] != 0)
    return not np.any(same & ~np.eye(inputs.shape[1], dtype=bool))


def _one_side(inputs: Any, targets: Any) -> bool:
    """Only where the copy stands before the asked position, or at it, is looked at."""
    same = (inputs[:, :, None] == targets[:, None, :]) & (targets[:, None, :] != 0)
    return not np.triu(same).any()


def _next_to_it(inputs: Any, targets: Any) -> bool:
    before, after = inputs[:, :-1] == targets[:, 1:], inputs[:, 1:] == targets[:, :-1]
    return not ((before & (targets[:, 1:] != 0)).any() or (after & (targets[:, :-1] != 0)).any())


def _every_target(inputs: Any, targets: Any) -> bool:
    same = (inputs[:, :, None] == targets[:, None, :]).any(axis=1)
    return not same[targets != 0].all()


def _first_target_of_each(inputs: Any, targets: Any) -> bool:
    first = np.cumsum(targets != 0, axis=1) == 1
    return _no_target_is_read(inputs, np.where(first, targets, 0))


def _by_row(inputs: Any, targets: Any) -> Any:
    return np.array([_no_target_is_read(*row) for row in zip(inputs[:, None], targets[:, None], strict=True)])


WRONG_PROPERTY = PROSE.said(
    "no_target_is_read.mistakes",
    not_the_same_place=_not_the_same_place,
    by_row=_by_row,
    any_row_right=lambda inputs, targets: bool(_by_row(inputs, targets).any()),
    first_target_of_each=_first_target_of_each,
    first_row_alone=lambda inputs, targets: bool(_by_row(inputs, targets)[0]),
    same_place=lambda inputs, targets: not np.any((inputs == targets) & (targets != 0)),
    same_place_with_padding=lambda inputs, targets: not np.any(inputs == targets),
    any_row=lambda inputs, targets: not np.isin(targets[targets != 0], inputs).any(),
    padding_counts=lambda inputs, targets: not np.any(inputs[:, :, None] == targets[:, None, :]),
    true_and_false_exchanged=lambda inputs, targets: not _no_target_is_read(inputs, targets),
    mask_at_asked_places=lambda inputs, targets: bool(np.all(inputs[targets != 0] == 10)),
    one_side=_one_side,
    next_to_it=_next_to_it,
    every_target=_every_target,
    always_true=lambda inputs, targets: True,
    always_false=lambda inputs, targets: False,
)


EXERCISES = PROSE.exercises(
    my_cloze=Function(CLOZE, tempting=WRONG_CLOZE),
    loss_with_kept_items=Number(_loss_with_kept_items, tolerance=0.01, tempting=PROSE.said(
        "loss_with_kept_items.mistakes",
        symbol_says_nothing=lambda: math.log(SYMBOLS),
        kept_is_known=lambda: 0.9 * math.log(SYMBOLS),
        symbol_is_target=lambda: 0.8 * math.log(SYMBOLS),
        kept_or_not_alone=lambda: 0.8 * math.log(SYMBOLS) + 0.2 * math.log(2),
    )),
    no_target_is_read=_Asserted(NO_TARGET_IS_READ, tempting=WRONG_PROPERTY),
    my_cloze_backward=Function(CLOZE_LOSS, part="backward", tempting=WRONG_LOSS),
)
