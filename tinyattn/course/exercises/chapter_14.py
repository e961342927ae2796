"""Exercises of chapter 14, BERT4Rec and Cloze."""

from typing import Any

import numpy as np

from ... import ops
from ...check.cases import CaseDrawer
from ..graders import Function, Number
from ..plain import Changes, op_spec, plain_spec
from ..prose import Prose

SYMBOLS, MASKED, REPLACED, KEPT = 8, 0.8, 0.1, 0.1     # of loss_with_kept_items


# loss_with_kept_items
def _loss_with_kept_items() -> float:
    """The entropy of the target given the input symbol, from their joint distribution."""
    joint = np.zeros((SYMBOLS, SYMBOLS + 1))            # target, input symbol; the last column is [MASK]
    joint[:, :-1] = (REPLACED / SYMBOLS + KEPT * np.eye(SYMBOLS)) / SYMBOLS
    joint[:, -1] = MASKED / SYMBOLS
    return float(-np.sum(joint * np.log(joint / np.sum(joint, axis=0))))


# my_cloze
def _ranks(turn: Any, axis: int = 1) -> Any:
    return np.argsort(np.argsort(turn, axis=axis), axis=axis)


def _real_turns(ids: Any, turn: Any) -> Any:
    return np.where(ids != 0, turn, np.inf)


def _cloze(ids: Any, turn: Any, rho: float, mask: int) -> tuple[Any, Any]:
    """-> inputs, targets. Of the n real items of each row, those with the lowest ranks of `turn` are hidden."""
    n = np.sum(ids != 0, axis=1)
    hidden = _ranks(_real_turns(ids, turn)) < np.reshape(np.maximum(1, np.rint(rho * n)), (-1, 1))
    hidden = hidden & (ids != 0)
    return np.where(hidden, mask, ids), np.where(hidden, ids, 0)


def _cloze_case(draw: CaseDrawer) -> dict[str, Any]:
    """Padded histories, and rho such that rho n is never halfway between two whole numbers."""
    rows, width = draw.size(1, 4), draw.size(1, 7)
    lengths = draw.rng.integers(1, width + 1, rows)
    lengths[0] = width
    ids = np.where(np.arange(width) < lengths[:, None], draw.rng.integers(1, 10, (rows, width)), 0)
    turn = draw.rng.permutation(rows * width).reshape(rows, width)
    return {"ids": ids, "turn": turn, "rho": draw.choose((0.2, 0.4, 0.6, 0.8)), "mask": 10}


CLOZE = plain_spec(
    "cloze", "of each row max(1, round(rho n)) real items are hidden: its targets", _cloze_case, _cloze,
    "inputs", "targets")  # fmt: skip


WRONG_CLOZE = Changes(_cloze,
    first_of_row=lambda ids, turn, rho, mask: _cloze(ids, np.arange(ids.shape[1]) + 0 * turn, rho, mask),
    largest_hidden=lambda ids, turn, rho, mask: _cloze(ids, -turn, rho, mask),
    share_visible=lambda ids, turn, rho, mask: _cloze(ids, turn, 1 - rho, mask),
    exchanged=lambda ids, turn, rho, mask: _cloze(ids, turn, rho, mask)[::-1],
    padding_for_mask=lambda ids, turn, rho, mask: _cloze(ids, turn, rho, 0),
)


# my_cloze_backward
def _loss_parts(h: Any, E: Any, targets: Any) -> tuple[Any, Any, Any]:
    hidden = np.asarray(targets != 0, h.dtype)
    return h @ E[1:].T, np.maximum(targets - 1, 0), hidden


def _cloze_loss_backward(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    return _through(h, E, ops.cross_entropy_backward(dloss, *_loss_parts(h, E, targets)))


def _through(h: Any, E: Any, ds: Any) -> tuple[Any, Any]:
    """The gradients of h and E, from that of the logits, (B, n, V)."""
    dE = np.zeros_like(E)
    dE[1:] = np.einsum("bnv,bnd->vd", ds, h)
    return ds @ E[1:], dE


def _padding_scored(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    hidden = np.asarray(targets != 0, h.dtype)
    ds = ops.cross_entropy_backward(dloss, h @ E.T, targets, hidden)
    return ds @ E, np.einsum("bnv,bnd->vd", ds, h)


def _loss_case(draw: CaseDrawer) -> dict[str, Any]:
    rows, n, items, d = draw.size(1, 3), draw.size(1, 4), draw.size(2, 5), draw.size(1, 4)
    targets = draw.rng.integers(1, items + 1, (rows, n)) * (draw.rng.random((rows, n)) < 0.5)
    targets[0, 0] = items
    size = 100.0 if draw.wide else 1.0                          # logits whose exponentials overflow
    return {"h": draw.array(rows, n, d), "E": draw.array(items + 1, d, size=size), "targets": targets}


CLOZE_LOSS = op_spec(
    "cloze_loss", "-log softmax(h Eᵀ)[target], the mean over positions with a target", _loss_case,
    lambda h, E, targets: ops.cross_entropy(*_loss_parts(h, E, targets)), "loss",
    backward=_cloze_loss_backward, wrt=("h", "E"),
    scale=lambda case: 1 + np.abs(case["h"] @ case["E"].T).max(initial=0))  # fmt: skip


def _backward_by_hand(dloss: float, h: Any, E: Any, targets: Any) -> tuple[Any, Any]:
    """The backward by hand: `wrong` is p - onehot; `hidden` is 1 at positions with a target, (B, n, 1)."""
    s, _, hidden = _loss_parts(h, E, targets)
    onehot = np.asarray(targets[..., None] == np.arange(1, 1 + s.shape[-1]), s.dtype)
    ds = dloss * hidden[..., None] * (ops.softmax(s) - onehot) / hidden[..., None].sum()
    dh, dE = _through(h, E, ds)
    return dh, dE


def _plain_softmax(s: Any) -> Any:
    """Softmax without subtracting the largest logit."""
    return np.exp(s) / np.exp(s).sum(axis=-1, keepdims=True)


WRONG_LOSS = Changes(_backward_by_hand,
    moved_down=lambda dloss, h, E, targets: (
        _cloze_loss_backward(dloss, h, E, np.where(targets != 0, np.maximum(targets - 1, 1), 0))
    ),
    exchanged=lambda dloss, h, E, targets: _cloze_loss_backward(dloss, h, E, targets)[::-1],
    padding_scored=_padding_scored,
)


# no_target_is_read
def _read(inputs: Any, targets: Any) -> Any:
    """(B, L, L): True where input i is the target of position j."""
    return (inputs[:, :, None] == targets[:, None, :]) & (targets[:, None, :] != 0)


def _no_target_is_read(inputs: Any, targets: Any) -> bool:
    """Whether no target stands in the same row of inputs."""
    return not _read(inputs, targets).any()


def _batch_case(draw: CaseDrawer) -> dict[str, Any]:
    """Histories without repetitions; in most, a target of the last row is read, in that row or another."""
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
    "no_target_is_read", "True where no target stands in its row of inputs, else False",
    _batch_case, _no_target_is_read, "answer")  # fmt: skip


def _neighbours(n: int) -> Any:
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) == 1


def _by_row(inputs: Any, targets: Any) -> Any:
    return np.array([_no_target_is_read(*row) for row in zip(inputs[:, None], targets[:, None], strict=True)])


WRONG_PROPERTY = dict(
    not_the_same_place=lambda inputs, targets: not (_read(inputs, targets) * (1 - np.eye(inputs.shape[1]))).any(),
    by_row=_by_row,
    any_row_right=lambda inputs, targets: bool(_by_row(inputs, targets).any()),
    first_target_of_each=lambda inputs, targets: _no_target_is_read(
        inputs, np.where(np.cumsum(targets != 0, axis=1) == 1, targets, 0)
    ),
    first_row_alone=lambda inputs, targets: bool(_by_row(inputs, targets)[0]),
    same_place=lambda inputs, targets: not np.any((inputs == targets) & (targets != 0)),
    same_place_with_padding=lambda inputs, targets: not np.any(inputs == targets),
    any_row=lambda inputs, targets: not np.isin(targets[targets != 0], inputs).any(),
    padding_counts=lambda inputs, targets: not np.any(inputs[:, :, None] == targets[:, None, :]),
    true_and_false_exchanged=lambda inputs, targets: not _no_target_is_read(inputs, targets),
    mask_at_asked_places=lambda inputs, targets: bool(np.all(inputs[targets != 0] == 10)),
    one_side=lambda inputs, targets: not np.triu(_read(inputs, targets)).any(),     # the copy at or before its target
    next_to_it=lambda inputs, targets: not (_read(inputs, targets) & _neighbours(inputs.shape[1])).any(),
    every_target=lambda inputs, targets: not _read(inputs, targets).any(axis=1)[targets != 0].all(),
    always_true=lambda inputs, targets: True,
    always_false=lambda inputs, targets: False,
)


EXERCISES = Prose(14).exercises(
    my_cloze=Function(CLOZE, tempting=WRONG_CLOZE),
    loss_with_kept_items=Number(_loss_with_kept_items, tolerance=0.01),
    no_target_is_read=Function(NO_TARGET_IS_READ, may_assert=True, tempting=WRONG_PROPERTY),
    my_cloze_backward=Function(CLOZE_LOSS, part="backward", tempting=WRONG_LOSS),
)
