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
from ...check.property import Property, close, stating
from ...check.spec import Spec
from ...check.subject import Subject
from ..exercise import Exercise, Grade
from ..graders import Function, Number

CHAPTER = 12
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


def _compared(name: str, says: str, case: Any, ours: Any, outputs: tuple[str, ...]) -> Spec:
    """One whose only property is that the answer gives what `ours` gives."""
    properties: list[Property] = []
    states = stating(name, properties)

    @states("rounding", says, "oracle", hint="Do the example above on paper.")
    def by_hand(op: Subject, **case: Any) -> None:
        expected = ours(**case)
        both = op.outputs(**case), expected if len(outputs) > 1 else (expected,)
        for what, got, x in zip(outputs, *both, strict=True):
            close(got, x, 1e-6, what)

    return Spec(
        name=name,
        says=says,
        function=name,
        case=case,
        ours=lambda: SimpleNamespace(**{name: ours}),
        properties=properties,
        outputs=outputs,
        common=False,
    )


CLOZE = _compared(
    "cloze", "of each row max(1, round(rho n)) real items are hidden and asked for", _cloze_case, _cloze,
    ("inputs", "targets"),
)  # fmt: skip


def _everywhere(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    """Padding is counted, and hidden, too."""
    return _hide(ids, np.argsort(np.argsort(turn, axis=1), axis=1) < max(1, np.rint(rho * ids.shape[1])), mask)


def _over_all_rows(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    return _hide(ids, (turn < np.rint(rho * np.sum(ids != 0))) & (ids != 0), mask)


def _hidden_with_padding(ids: Any, turn: Any, rho: float, mask: int, may: Any = True) -> Any:
    """Padding takes places among the smallest; hidden is what `may` be."""
    rank = np.argsort(np.argsort(turn, axis=1), axis=1)
    return _hide(ids, (rank < _count(ids, rho)[:, None]) & may, mask)


def _ranked_with_padding(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    return _hidden_with_padding(ids, turn, rho, mask, ids != 0)


def _one_more(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    return _hide(ids, _smallest(ids, turn, _count(ids, rho) + 1) & (ids != 0), mask)


def _first_of_row(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    return _cloze(ids, np.arange(ids.shape[1]) + 0 * turn, rho, mask)


def _turn_itself(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    return _hide(ids, (turn < _count(ids, rho)[:, None]) & (ids != 0), mask)


def _down_the_columns(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    order = np.argsort(np.where(ids != 0, turn, np.inf), axis=0)
    return _hide(ids, (np.argsort(order, axis=0) < _count(ids, rho)[:, None]) & (ids != 0), mask)


def _rounded_up(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    return _hide(ids, _smallest(ids, turn, np.ceil(rho * np.sum(ids != 0, axis=1) - 1e-9)), mask)


def _with_targets(of: Any) -> Any:
    """Inputs that are right, and targets `of(ids, hidden, mask)`."""

    def answer(ids: Any, turn: Any, rho: float, mask: int) -> Any:
        inputs, targets = _cloze(ids, turn, rho, mask)
        return inputs, of(ids, targets != 0, mask)

    return answer


def _never_none(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    """Without the one that is hidden at least."""
    return _hide(ids, _smallest(ids, turn, np.rint(rho * np.sum(ids != 0, axis=1))), mask)


def _rounded_down(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    return _hide(ids, _smallest(ids, turn, np.maximum(1, np.floor(rho * np.sum(ids != 0, axis=1) + 1e-9))), mask)


def _width_for_length(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    count = np.full(len(ids), max(1, np.rint(rho * ids.shape[1])))
    return _hide(ids, _smallest(ids, turn, count) & (ids != 0), mask)


def _argsort_once(ids: Any, turn: Any, rho: float, mask: int) -> Any:
    order = np.argsort(np.where(ids != 0, turn, np.inf), axis=1)
    return _hide(ids, order < _count(ids, rho)[:, None], mask)


WRONG_CLOZE = (
    (
        lambda ids, turn, rho, mask: (ids, _cloze(ids, turn, rho, mask)[1]),
        "Can the model read at a position what it is asked for there?",
        "The items that are asked for still stand among the inputs.",
    ),
    (
        lambda ids, turn, rho, mask: (_cloze(ids, turn, rho, mask)[0], ids),
        "For which positions does the loss ask, if every target is there?",
        "Visible items are targets as well: the model is paid for copying its input. There the target is 0.",
    ),
    (
        lambda ids, turn, rho, mask: (_cloze(ids, turn, rho, mask)[0],) * 2,
        "Is the answer to a question [MASK]?",
        "The targets are made of the inputs after hiding. Make them of ids.",
    ),
    (
        _with_targets(lambda ids, hidden, mask: np.where(hidden, mask, 0)),
        "Is the answer to a question [MASK]?",
        "The targets are read from ids after [MASK] was written there. Make them first, or write into a copy.",
    ),
    (
        _with_targets(lambda ids, hidden, mask: hidden),
        "Which item was hidden?",
        "The targets say where is asked, not for what: at a hidden position stands the item itself.",
    ),
    (
        _with_targets(lambda ids, hidden, mask: np.where(hidden, ids, -100)),
        "What stands in targets where nothing is asked?",
        "It is 0 here, and not PyTorch's -100.",
    ),
    (
        _with_targets(lambda ids, hidden, mask: np.where(hidden, ids, -1)),
        "What stands in targets where nothing is asked?",
        "It is 0 here, and not -1.",
    ),
    (
        _ranked_with_padding,
        "Which positions of a short row take part when its smallest numbers are looked for?",
        "Padding is not hidden, but it takes places among the smallest: fewer real positions are left to be hidden.",
    ),
    (
        _turn_itself,
        "`turn` runs over the whole batch. Does row 2 hold the numbers 0, 1, 2?",
        "`turn` itself is compared with the count. Compare the rank of each number in its row.",
    ),
    (_one_more, "With count = 1, which ranks are hidden?", "One too many is hidden: ranks begin with 0, so use <."),
    (_first_of_row, "Where does `turn` come in?", "The first positions of the row are hidden, whatever `turn` says."),
    (
        _down_the_columns,
        "Along which axis does a history run?",
        "The order is that of a column. A history is a row: axis=1.",
    ),
    (
        _hidden_with_padding,
        "Which positions of a short row take part when its smallest numbers are looked for?",
        "Padding takes places among the smallest, and is hidden as well.",
    ),
    (_rounded_up, "How many of three items are hidden at rho = 0.4?", "rho n is rounded to the nearest number."),
    (_everywhere, "Which positions may be hidden, and what is n of a short row?", "Padding is hidden, or counted."),
    (
        _over_all_rows,
        "How many are hidden of each row? Is that number the same whatever `turn` is?",
        "The smallest of the whole batch are hidden. Each row has a count, and an order, of its own.",
    ),
    (
        _width_for_length,
        "What is n of a row that is padded?",
        "rho n is counted with n as the width of the batch. Each row has its own n, its real items.",
    ),
    (_never_none, "What is asked of a history of one item?", "At least one item of each row is hidden."),
    (_rounded_down, "How many of four items are hidden at rho = 0.4?", "rho n is rounded to the nearest number."),
    (
        _argsort_once,
        "argsort(turn)[i] is the position of the i-th smallest. Is that the rank of position i?",
        "argsort gives positions in order. The rank of each position is the argsort of that.",
    ),
    (lambda ids, turn, rho, mask: _cloze(ids, -turn, rho, mask), "Are the smallest hidden, or the largest?"),
    (lambda ids, turn, rho, mask: _cloze(ids, turn, 1 - rho, mask), "Is rho the hidden share, or the visible one?"),
    (lambda ids, turn, rho, mask: _cloze(ids, turn, rho, mask)[::-1], "Which comes first: inputs or targets?"),
    (
        lambda ids, turn, rho, mask: _cloze(ids, turn, rho, 0),
        "What does 0 mean in a batch?",
        "[MASK] is `mask`; 0 is padding.",
    ),
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


WRONG_LOSS = (
    (_overflowing, "What is e^100 in float32?", "exp overflows. Subtract each row's largest logit first."),
    (
        _onehot_one_off,
        "Which column of h E[1:]ᵀ belongs to item 1?",
        "Without row 0 item i has column i - 1: compare targets with np.arange(1, len(E)).",
    ),
    (
        _with_ds(lambda dloss, wrong, asked: dloss * wrong / asked.sum()),
        "Does a position that nobody asks about have a gradient?",
        "Positions with target 0 have a gradient in yours. Their ds is 0.",
    ),
    (
        _with_ds(_mean_of_rows),
        "Over what is the mean taken: over rows, or over all asked positions?",
        "You take the mean of each row, and then of the rows. A row with more questions weighs more: divide by |A|.",
    ),
    (
        _with_ds(lambda dloss, wrong, asked: dloss * asked * wrong / len(asked)),
        "Over how many positions is the mean taken?",
        "You divide by the number of rows. The mean is over the positions that are asked.",
    ),
    (
        _dE_as(lambda dE, ds, h, targets: dE[1:]),
        "Which rows does E have?",
        "dE lacks row 0, which is padding's and 0: dE has the shape of E.",
    ),
    (
        _dE_as(lambda dE, ds, h, targets: np.roll(dE, -1, axis=0)),
        "Column 0 of the logits belongs to which row of E?",
        "Row i of your dE is that of item i + 1: row 0 is padding's, and stays 0.",
    ),
    (
        _dE_as(lambda dE, ds, h, targets: dE * np.isin(np.arange(len(dE)), targets)[:, None]),
        "Which rows of E does the softmax of one position read?",
        "Only rows of targets have a gradient in yours. Every candidate has one.",
    ),
    (
        _dE_as(lambda dE, ds, h, targets: np.einsum("bnv,bnd->bvd", ds, h)),
        "How many embeddings has an item that two rows ask for?",
        "dE has an axis too many: it is summed over rows and positions.",
    ),
    (
        _with_ds(lambda dloss, wrong, asked: dloss * wrong / asked[..., 0].size),
        "Does a position that nobody asks about have a gradient?",
        "Every position counts in yours, also where the target is 0. There ds is 0, and they are not counted.",
    ),
    (
        _with_ds(lambda dloss, wrong, asked: dloss * asked * wrong / asked.size),
        "Over how many positions is the mean taken?",
        "You divide by all positions. The mean is over those that are asked.",
    ),
    (
        _with_ds(lambda dloss, wrong, asked: dloss * asked * wrong),
        "Is the loss a sum or a mean?",
        "The division by the number of asked positions is missing.",
    ),
    (
        _with_ds(lambda dloss, wrong, asked: asked * wrong / asked.sum()),
        "Where does dloss come in?",
        "Your gradients are not multiplied by dloss.",
    ),
    (
        _with_ds(lambda dloss, wrong, asked: -dloss * asked * wrong / asked.sum()),
        "If the target's logit rises, does the loss rise or fall?",
        "The sign is wrong: it is p - onehot.",
    ),
    (
        _moved_down,
        "Item 3: which row of E is its own, and which column of h E[1:]ᵀ?",
        "Your targets are one too low: 1 is taken off twice, or where rows of E are counted.",
    ),
    (
        _with_onehot(lambda p, onehot: p),
        "Is the gradient of the target's logit positive or negative?",
        "The onehot is missing: it is p - onehot.",
    ),
    (
        _with_onehot(lambda p, onehot: onehot * (p - onehot)),
        "Which logits does the softmax of one position read?",
        "Only the target's logit has a gradient in yours. The others have p, because softmax divides by all.",
    ),
    (
        lambda dloss, h, E, targets: _cloze_loss_backward(dloss, h, E, targets)[::-1],
        "In which order are the gradients asked for?",
        "dh comes first, then dE.",
    ),
    (
        _padding_scored,
        "Is padding, row 0 of E, a candidate?",
        "Row 0 takes part in the softmax. Candidates are the rows 1, 2, ...",
    ),
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


NO_TARGET_IS_READ = _compared(
    "no_target_is_read", "True where no item that is asked for stands in its own row of inputs, else False",
    _batch_case, _no_target_is_read, ("answer",),
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


def _same_place(inputs: Any, targets: Any) -> bool:
    return not np.any((inputs == targets) & (targets != 0))


def _any_row(inputs: Any, targets: Any) -> bool:
    return not np.isin(targets[targets != 0], inputs).any()


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


WRONG_PROPERTY = (
    (
        _not_the_same_place,
        "Could the item stand at the asked position itself?",
        "You look at all positions but the asked one, where a batch may have kept the item.",
    ),
    (
        _by_row,
        "How many answers are asked for: one for the batch, or one for each row?",
        "It returns one answer a row. Wanted is one: True if all rows are right.",
    ),
    (
        lambda inputs, targets: bool(_by_row(inputs, targets).any()),
        "One row of two leaks: is the batch right?",
        "One row without a leak is not enough: all rows must be right.",
    ),
    (
        _first_target_of_each,
        "A row may ask for two items: which of them does yours look for?",
        "You look for one target a row. Each of them could be read.",
    ),
    (
        lambda inputs, targets: bool(_by_row(inputs, targets)[0]),
        "Which rows does yours look at?",
        "It answers after the first row: the return stands within the loop.",
    ),
    (
        _same_place,
        "Attention looks everywhere. At how many positions of the row could the item be read?",
        "You look at the asked position alone. A copy elsewhere in the row gives the answer away as well.",
    ),
    (
        lambda inputs, targets: not np.any(inputs == targets),
        "At how many positions of its row could the item be read? And what does 0 mean in targets?",
        "You look at the asked position alone, and take two zeros, which are padding, for a leak.",
    ),
    (
        _any_row,
        "May another person have had the same item?",
        "You compare with all rows. The model reads a row at a time, so other rows give nothing away.",
    ),
    (
        lambda inputs, targets: not np.any(inputs[:, :, None] == targets[:, None, :]),
        "What does 0 mean in targets, and what in inputs?",
        "Padding and positions that are not asked are both 0, and are taken for a leak.",
    ),
    (
        lambda inputs, targets: not _no_target_is_read(inputs, targets),
        "What should it return of a batch that is right?",
        "True and False have changed places.",
    ),
    (
        lambda inputs, targets: bool(np.all(inputs[targets != 0] == 10)),
        "Is the asked position the only one where the item could stand?",
        "[MASK] at the asked positions is not enough: look at the whole row.",
    ),
    (
        _one_side,
        "Does BERT4Rec look at later positions, too?",
        "You look at the asked position and those before it. A copy that follows is read as well.",
    ),
    (
        _next_to_it,
        "How far does attention look?",
        "You look at the neighbours of the asked position. The whole row is read.",
    ),
    (
        _every_target,
        "Of three asked items one is read: is the batch right?",
        "One that is read is enough to be wrong; yours asks whether all are.",
    ),
    (
        lambda inputs, targets: True,
        "Does yours ever say False? Try it on a batch in which an asked item was kept.",
        "It is True of every batch. (Or it returns nothing: is the `return` missing?)",
    ),
    (
        lambda inputs, targets: False,
        "Does yours ever say True? Try it on a batch from your my_cloze.",
        "It is False of every batch.",
    ),
)


EXERCISES = (
    Exercise(
        "my_cloze",
        "write the op",
        difficulty=2,
        minutes=12,
        task="my_cloze(ids, turn, rho, mask) -> inputs, targets: hide max(1, round(rho n)) items of each row",
        grader=Function(CLOZE, tempting=WRONG_CLOZE),
        hints=(
            "How many real items has each row? And of a real position, how many in its row have a smaller turn?",
            "Put np.inf in place of turn at padding. order = argsort(turn, axis=1), and rank = argsort(order, axis=1). "
            "Hidden is rank < count[:, None]. Then np.where twice.",
        ),
        why="The rank of turn in its row says whether a position is among the first `count`. Padding gets a number "
        "larger than any other, so that it comes last. Inputs and targets are made from one `hidden`: they agree.",
    ),
    Exercise(
        "loss_with_kept_items",
        "predict the number",
        difficulty=3,
        minutes=6,
        task="the lowest loss on noise of 8 symbols, if of the asked items 80 % are [MASK], 10 % random, 10 % kept",
        grader=Number(
            _loss_with_kept_items,
            tolerance=0.01,
            tempting=(
                (
                    lambda: math.log(SYMBOLS),
                    "That is what is paid at [MASK]. What does a symbol say that stands there?",
                ),
                (
                    lambda: 0.9 * math.log(SYMBOLS),
                    "How would the model know that this symbol was kept, and not drawn at random?",
                ),
                (
                    lambda: 0.8 * math.log(SYMBOLS),
                    "Is a symbol that stands there always the target?",
                    "Half of the time it was drawn at random.",
                ),
                (
                    lambda: 0.8 * math.log(SYMBOLS) + 0.2 * math.log(2),
                    "It is kept or random, half and half. And if it is random, is the target known?",
                    "That is the price of 'kept or not'. If it was not kept, which of the others it was costs as well.",
                ),
            ),
        ),
        hints=(
            "Where a symbol stands, how likely is it the target? Count the random ones that hit it by chance, too.",
            "P(target is what stands there) = 1/2 + 1/2 · 1/8 = 9/16; each of the seven others has 1/16. The loss is "
            "0.8 ln 8 plus 0.2 times the entropy of that distribution.",
        ),
        why="A symbol that stands at an asked position is the target with probability 9/16, and each of the others "
        "with 1/16: 1.54 nats, not 2.08. So 0.8 · 2.08 + 0.2 · 1.54 = 1.97: a leak, though a small one.",
    ),
    Exercise(
        "no_target_is_read",
        "write the property that kills this bug",
        difficulty=2,
        minutes=8,
        task="no_target_is_read(inputs, targets) -> True where no asked item stands in its own row of inputs",
        grader=_Asserted(NO_TARGET_IS_READ, tempting=WRONG_PROPERTY),
        hints=(
            "At which positions of its row could an asked item be read, and which targets are no question?",
            "Compare every input of a row with every target of it: inputs[:, :, None] == targets[:, None, :], and "
            "only where the target is not 0. None may be equal.",
        ),
        why="Attention reaches every position of a row and none of another row. So the comparison is all with all, a "
        "row at a time, and 0, which asks nothing, is left out.",
    ),
    Exercise(
        "my_cloze_backward",
        "derive the backward",
        difficulty=2,
        minutes=12,
        task="dh and dE from dloss, h, E and targets",
        grader=Function(CLOZE_LOSS, part="backward", tempting=WRONG_LOSS),
        hints=(
            "What is the gradient of the logits at a position that is asked, and at one that is not?",
            "ds = dloss (softmax(s) - onehot) / number asked, and 0 where the target is 0. Then dh = ds E[1:], and "
            "dE[1:] sums ds ⊗ h over all positions; dE[0] is 0.",
        ),
        why="The loss reads h at asked positions only, so dh is 0 elsewhere and the number of asked positions is what "
        "the mean divides by. Every item was a candidate there, so every row of E but padding's has a gradient.",
    ),
)
