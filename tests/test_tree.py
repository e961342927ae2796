import numpy as np
import pytest

from tinyattn.tree import Rows, add_to, flatten, leaves, tree_map, views

pytestmark = pytest.mark.host  # trees are walked on the host; test_strict.py has whole networks of leaves elsewhere

TREE = {"a": np.ones((2, 3)), "b": [{"W": np.full(4, 2.0)}, {"W": np.full(1, 3.0)}]}


def test_views_and_vector_are_the_same_memory():
    vector, p = flatten(TREE, np.float64)
    assert vector.dtype == np.float64
    vector[6:10] = 7
    assert p["b"][0]["W"].tolist() == [7] * 4
    p["a"][0, 0] = -1
    assert vector[0] == -1
    assert TREE["a"][0, 0] == 1  # the tree it was made from is left alone


MIXED = {"z": np.arange(6.0).reshape(2, 3), "list": [np.arange(2.0), {"a": np.full(1, 9.0)}], "empty": {},
         "m": np.ones((1, 1, 2))}  # fmt: skip


def test_a_tree_and_its_vector():
    assert [name for name, _ in leaves(MIXED)] == ["z", "list.0", "list.1.a", "m"]
    assert [name for name, _ in leaves(MIXED, "of")] == ["of.z", "of.list.0", "of.list.1.a", "of.m"]
    assert [name for name, _ in leaves([1, [2]])] == ["0", "1.0"]
    vector, tree = flatten(MIXED)
    assert vector.dtype == np.float32
    assert vector.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 9, 1, 1]
    assert tree["empty"] == {}
    other = np.arange(11.0)
    seen = views(other, MIXED)
    assert [leaf.tolist() for _, leaf in leaves(seen)] == [[[0, 1, 2], [3, 4, 5]], [6, 7], [8], [[[9, 10]]]]
    doubled = tree_map(lambda x: x * 2, seen)
    add_to(seen, doubled)
    assert other.tolist() == (np.arange(11.0) * 3).tolist()
    add_to(seen["z"], Rows(np.array([1]), np.ones((1, 3))))
    assert other[:6].tolist() == [0, 3, 6, 10, 13, 16]
    with pytest.raises(ValueError, match=r"zip\(\)"):
        add_to([np.zeros(1)], [np.ones(1), np.ones(1)])
    assert [leaf.tolist() for _, leaf in leaves(doubled)][1] == [12, 14]
