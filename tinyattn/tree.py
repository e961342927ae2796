"""Parameters and gradients are trees: nested dicts and lists with arrays as leaves.

In files and reports a leaf has a dotted name, e.g. `blocks.0.attention.query.W`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .backend import Array
from .forms import replaceable


class Rows(NamedTuple):
    """The gradient of a table with few nonzero rows: `values[i]` is row `ids[i]`; ids are unique."""

    ids: Array       # (u,)
    values: Array    # (u, d)


def leaves(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, leaf) of every leaf, in the order of the dicts and lists."""
    if isinstance(tree, dict | list):
        pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, branch in pairs:
            yield from leaves(branch, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, tree


def tree_map(f: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same structure with `f(leaf)` at each leaf."""
    if isinstance(tree, dict):
        return {key: tree_map(f, branch) for key, branch in tree.items()}
    if isinstance(tree, list):
        return [tree_map(f, branch) for branch in tree]
    return f(tree)


def flatten(tree: Any, dtype: Any = np.float32, xp: Any = np) -> tuple[Array, Any]:
    """Copy all leaves (host arrays) into one vector of the module `xp`. -> vector, tree of views of its memory."""
    arrays = [leaf for _, leaf in leaves(tree)]
    vector = xp.asarray(np.concatenate([np.ravel(a) for a in arrays]).astype(dtype))
    return vector, views(vector, tree)


def views(vector: Array, tree: Any) -> Any:
    """A tree of the same structure as `tree` whose leaves are the pieces of `vector`, in order."""
    arrays = [leaf for _, leaf in leaves(tree)]
    ends = np.cumsum([a.size for a in arrays]).tolist()
    pieces = iter([vector[end - a.size : end].reshape(a.shape) for a, end in zip(arrays, ends, strict=True)])
    return tree_map(lambda _: next(pieces), tree)


@replaceable
def add_to(total: Any, grads: Any) -> None:
    """total += grads, in place, leaf by leaf, where a leaf of `grads` is an array or the `Rows` of a table."""
    _add_to(total, grads)


def _add_to(total: Any, grads: Any) -> None:
    if isinstance(grads, Rows):
        total[grads.ids] += grads.values                # repeated ids would lose additions
    elif isinstance(grads, dict):
        for key, branch in grads.items():
            _add_to(total[key], branch)
    elif isinstance(grads, list):
        for mine, theirs in zip(total, grads, strict=True):
            _add_to(mine, theirs)
    else:
        total += grads
