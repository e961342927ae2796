"""Changes of a formula: what a rule makes of it, and that each changes the numbers and nothing else."""

import math

import numpy as np
import pytest

from tinyattn.check.formula import Formula
from tinyattn.check.mutants import mutants_of


def half(x):
    """Half of it."""
    return x / 2


def formula(x, y, root=False):
    total = x * x + half(y)
    return math.sqrt(total) if root else total


def made(*entries):
    return Formula(*entries, within=__name__)


def told(run=lambda f: f.function()(3.0, 5.0)):
    f = made(formula)
    return f, {mutant.says: mutant for mutant in mutants_of(f, lambda: run(f))}


@pytest.mark.parametrize(
    ("says", "result"),
    [
        ("the term `half(y)` is missing, as with `total = x * x` in place of `total = x * x + half(y)`", 9.0),
        ("the sign of a term is wrong, as with `total = x * x - half(y)` in place of `total = x * x + half(y)`", 6.5),
        ("a square is missing, as with `total = x + half(y)` in place of `total = x * x + half(y)`", 5.5),
        ("a division is missing, as with `return x` in place of `return x / 2`", 14.0),
        ("a number is wrong, as with `return x / 1` in place of `return x / 2`", 14.0),
        ("`x` stands where `y` belongs, as with `total = x * x + half(x)` in place of `total = x * x + half(y)`", 10.5),
        ("`x` and `1 - x` are exchanged in `total = x * x + half(y)`", 6.5),
        ("the arguments x and y are exchanged", 26.5),
    ],
)
def test_a_mutant_changes_what_it_says_while_it_is_in_force(says, result):
    f, mutants = told()
    with f.mutated([mutants[says]]):
        assert f.function()(3.0, 5.0) == result
    assert f.function()(3.0, 5.0) == 11.5 == formula(3.0, 5.0)


def test_plain_changes_come_first_and_two_at_a_time_can_be_in_force():
    f, mutants = told()
    ranks = [mutant.rank for mutant in mutants.values()]
    assert ranks == sorted(ranks)
    assert set(ranks) == {1, 2, 3}
    with f.mutated(f.patched("", (("x * x", "x"), ("x / 2", "x / 4")))):
        assert f.function()(3.0, 5.0) == 4.25
    assert f.patched("", (("x * x", "x"), ("no such text", ""))) == []


def test_an_argument_that_is_not_used_and_one_that_is_transposed():
    f, mutants = told(lambda f: f.function()(np.ones((1, 2, 2)), np.ones((2, 2))))
    with f.mutated([mutants["the argument root is not used: it is always False"]]):
        assert f.function()(3.0, 5.0, root=True) == 11.5
    with f.mutated([mutants["x is transposed, where it is square"]]):
        x = np.array([[1.0, 2.0], [0.0, 1.0]])
        assert np.array_equal(f.function()(x, 0 * x), x.T * x.T)
    assert "y is transposed, where it is square" not in mutants


def normalised(x):
    return x / np.sum(x, axis=-1, keepdims=True)


def test_an_axis_is_wrong_and_not_a_minus_missing():
    f = made(normalised)
    says = [mutant.says for mutant in mutants_of(f, lambda: f.function()(np.ones((2, 3, 4))))]
    line = "return x / np.sum(x, axis={}, keepdims=True)"
    assert f"the axis is wrong, as with `{line.format(1)}` in place of `{line.format(-1)}`" in says
    assert not any("minus" in sentence for sentence in says)


def test_a_mutant_that_cannot_run_raises_and_leaves_the_formula_as_it_was():
    f, _ = told()
    with pytest.raises(NameError), f.mutated(f.patched("", (("half(y)", "quarter(y)"),))):
        f.function()(3.0, 5.0)
    assert f.function()(3.0, 5.0) == 11.5


def long_line(x):
    return (np.zeros_like(x) + np.ones_like(x) + np.zeros_like(x) + np.ones_like(x) + np.zeros_like(x)) * np.exp(-x)


def test_the_quoted_part_of_a_long_line_is_the_part_that_differs():
    f = made(long_line)
    says = [mutant.says for mutant in mutants_of(f, lambda: f.function()(np.ones(2)))]
    assert any("as with `..." in s and "* np.exp(x)` in place of `..." in s and "* np.exp(-x)`" in s for s in says)
