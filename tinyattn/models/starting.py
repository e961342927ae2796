"""Training that starts from a trained model: known items and users keep their rows, new ones begin fresh."""

from types import EllipsisType
from typing import Any

import numpy as np

from .. import backend
from ..data import Vocabulary
from ..options import options_of
from ..terminal import quoted
from ..tree import leaves, views
from .parameters import room


def refuse_start(start: Any, model: Any) -> None:
    """Raise ValueError for a `start` from which this model cannot start: another kind, or with another network."""
    if type(start) is not type(model):
        raise ValueError(f"start is {start!r}, expected a {type(model).__name__} that has learned")
    start.fitted()
    shared = start.options_for(model.Network)
    for o in sorted(options_of(model), key=lambda o: len(o.option.parts)):         # a choice before what it needs
        mine, theirs = getattr(model, o.name), getattr(start, o.name)
        if o.name in shared and o.option.group != "training" and "dropout" not in o.name and mine != theirs:
            raise ValueError(f"{o.name} is {mine}, expected {theirs}, as in the model that this one starts from")


def carry_over(start: Any, items: Vocabulary, users: Vocabulary, learner: Any, optimizer: str) -> None:
    """Overwrite fresh parameters and moments of Adam with those of `start`, whose rows are found by id.

    Rows of new ids stay fresh, and so do all moments if `lost_moments` gives a reason. Steps are counted from 1 again,
    so that Adam corrects for moments that begin at 0, which those of new rows do. Raises ValueError where no item is
    known.
    """
    rows = {"items": _rows(start.items, items), "users": _rows(start.users, users)}
    if not known_ids(start, items, users)[0]:
        mine, theirs = quoted(items.ids[0]), quoted(start.items.ids[0])
        raise ValueError(f"the model that this one starts from knows none of the {len(items):,} items, such as {mine}: "
                         f"its ids are like {theirs}")  # fmt: skip
    kind = _tables(start)
    pairs = [(learner.p, start.parameters)]
    if not lost_moments(start, optimizer):
        pairs += [(views(x, learner.p), kept) for x, kept in zip(learner.moments, start.moments, strict=True)]
    for tree, kept in pairs:
        old = dict(leaves(kept))
        for name, leaf in leaves(tree):
            target, source = rows[kind[name]] if name in kind else (..., ...)
            leaf[target] = backend.asarray(backend.to_numpy(old[name])[source], like=leaf)


def lost_moments(start: Any, optimizer: str) -> str:
    """Why the moments of `start` are not kept; "" where they are."""
    if start.moments is None:
        return "there is no moments.npz"
    # Muon leaves v of a matrix at 0, and Adam would divide by its root
    return "" if start.optimizer == optimizer else f"the moments are of {start.optimizer}"


def known_ids(start: Any, items: Vocabulary, users: Vocabulary) -> tuple[int, int]:
    """The numbers of items and of users whose rows are kept; 0 users where the model has no rows of users."""
    has_users = "users" in _tables(start).values()
    pairs = (start.items, items), (start.users, users)
    known = [int((was.numbers_or_zero(now.ids) > 0).sum()) for was, now in pairs]
    return known[0], known[1] * has_users


def _rows(was: Vocabulary, now: Vocabulary) -> tuple[np.ndarray | EllipsisType, np.ndarray | EllipsisType]:
    """The rows of known ids in the new table, and in the old one. Row 0, padding, is row 0 in both."""
    old = was.numbers_or_zero(now.ids)
    (new,) = old.nonzero()
    return np.r_[0, 1 + new], np.r_[0, old[new]]


def _tables(model: Any) -> dict[str, str]:
    """Tables that have a row for each item, or each user: name -> "items" or "users"."""
    networks = (model.make_network(*sizes) for sizes in ((1, 1), (2, 1), (1, 2)))
    plain, items, users = ({name: x.shape for name, x in leaves(room(network, "cpu"))} for network in networks)
    by_item = {name: "items" for name, shape in plain.items() if items[name] != shape}
    return by_item | {name: "users" for name, shape in plain.items() if users[name] != shape}
