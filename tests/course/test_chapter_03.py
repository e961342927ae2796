"""Chapter 03: wrong answers to its exercises get the right hint."""

import numpy as np
import pytest
from tinyattn.course.exercises.chapter_03 import TIED

from tests.check.variants import linear as variants
from tinyattn import ops
from tinyattn.check import gradcheck
from tinyattn.check.zoo import ZOO
from tinyattn.course import check

pytestmark = pytest.mark.slow  # every wrong answer is diagnosed; test_chapters.py holds stubs and solutions


def told(name, answer):
    return " ".join(str(check(name, answer)).split())


def bug(spec, name):
    return next(b for b in ZOO[spec].BUGS if b.name == name)


def gives_the_hint(text, spec, name):
    assert text.startswith("✗")
    assert f"{bug(spec, name).says} ({name})" in text
    assert f"hint: {bug(spec, name).hint}" in text


# --- numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("blamed_weight", 2, "✓"),
        ("blamed_weight", -1, "token 0's part"),
        ("blamed_weight", 3, "token 1's part"),
        ("blamed_weight", 1, "the mean over tokens"),
        ("blamed_weight", 3.5, "That is dW[1, 0]"),
        ("blamed_weight", -2, "too small"),
        ("blamed_weight", 20, "too large"),
        ("best_step", -5, "✓"),
        ("best_step", -6, "✓"),
        ("best_step", -4, "✓"),
        ("best_step", -3, "too large"),
        ("best_step", -11, "too small"),
        ("best_step", 5, "which sign has k?"),
        ("best_step", -15, "What is left of the difference?"),
        ("best_step", -8, "one way only"),
        ("best_step", -2, "float32 has its best step"),
    ],
)
def test_a_number_and_what_is_said_of_it(name, answer, says):
    assert says in told(name, answer)


# --- the backward of a linear map -----------------------------------------------------------------------------------


LINEAR = [b.name for b in ZOO["linear"].BUGS if b.name.startswith(("dW_", "db_", "dx_", "backward_"))]


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_backward_with_a_known_bug_gets_its_hint(name):
    wrong = ZOO["linear"].make(frozenset([name])).linear_backward
    gives_the_hint(told("my_linear_backward", wrong), "linear", name)


@pytest.mark.parametrize(("name", "style"), [("dW_mean", "loops"), ("db_mean", "einsum"), ("dx_noT", "inplace")])
def test_so_does_one_that_somebody_else_wrote(name, style):
    wrong = variants.make(style, name).linear_backward
    gives_the_hint(told("my_linear_backward", wrong), "linear", name)


@pytest.mark.parametrize(("spec", "name"), [("linear", "dx_noT"), ("attention", "dk_noT"), ("attention", "swap_qk")])
def test_a_forgotten_transpose_that_only_values_betray_is_asked_about_the_sum(spec, name):
    """All shapes fit, so "look at the shapes" would mislead: the hint must help with square matrices, too."""
    wrong = getattr(ZOO[spec].make(frozenset([name])), f"{spec}_backward")
    text = told(f"my_{spec}_backward", (lambda dy, x, W: wrong(dy, x, W)) if spec == "linear" else
                (lambda dout, q, k, v, weights: wrong(dout, q, k, v, weights)[:3]))  # fmt: skip
    gives_the_hint(text, spec, name)
    assert "no shape tells" in text
    assert "Check shapes" not in text


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda dy, x, W: None, "it returned None. Is the `return` missing?"),
        (lambda dy, x, W: dy @ W.T, "linear_backward returned 1 gradient, expected dx, dW, db"),
        (lambda dy, x, W: dy @ W.T, "a gradient is missing, or there is one too many."),
        (lambda dy, x, W: (dy @ W, *ops.linear_backward(dy, x, W)[1:]), "it raises an error."),
    ],
)
def test_a_linear_backward_that_gives_too_little(answer, says):
    text = told("my_linear_backward", answer)
    assert text.startswith("✗")
    assert says in text


def test_an_error_is_told_with_the_readers_line_and_not_the_librarys():
    def batched_softmax(dout, q, k, v, weights):
        return ops.attention_backward(dout, q, k, v, weights[..., 0])

    assert "test_chapter_03.py)" in told("my_attention_backward", batched_softmax)


# --- the backward of attention --------------------------------------------------------------------------------------


ATTENTION = ["softmax_diag", "rowsum_missing", "rowsum_axis", "rowsum_of_dp", "dv_noT", "backward_no_scale",
             "no_scale_dk", "dk_noT", "swap_qk", "dk_is_dq", "dv_missing_batch"]  # fmt: skip


@pytest.mark.parametrize("name", ATTENTION)
def test_an_attention_backward_with_a_known_bug_gets_its_hint(name):
    wrong = ZOO["attention"].make(frozenset([name])).attention_backward
    text = told("my_attention_backward", lambda dout, q, k, v, weights: wrong(dout, q, k, v, weights)[:3])
    gives_the_hint(text, "attention", name)


def untransposed(dout, q, k, v, weights):
    return ops.attention_backward(dout, q, k, v, np.swapaxes(weights, -1, -2))[:3]


def by_einsum_of_a_matrix(dout, q, k, v, weights):
    """Right for a matrix, and it cannot take a batch."""
    dv = np.einsum("nm,ne->me", weights, dout)
    return (*ops.attention_backward(dout, q, k, v, weights)[:2], dv)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (untransposed, "it raises an error."),
        (by_einsum_of_a_matrix, "it raises an error."),
        (lambda dout, q, k, v, weights: ops.attention_backward(dout, q, k, v, weights)[1::-1], "a gradient is missing"),
        (lambda dout, q, k, v, weights: (dout * 0, dout * 0, dout * 0), "wrong shape."),
        (lambda dout, q, k, v, weights: (q * 0, k * 0, v * 0), "is not the derivative"),
        (lambda dout, q, k, v, p: 0, "it cannot be called."),
    ],
)
def test_an_attention_backward_that_is_wrong_in_its_own_way(answer, says):
    text = told("my_attention_backward", answer)
    assert text.startswith("✗")
    assert says in text


# --- the tied map ---------------------------------------------------------------------------------------------------


def tied_ways(dy, x, W):
    """-> dx, dW by the first reading, dW by the second."""
    X, dY = x.reshape(-1, W.shape[0]), dy.reshape(-1, W.shape[0])
    return (dY @ W @ W.T).reshape(x.shape), X.T @ (dY @ W), dY.T @ (X @ W)


def of_the_last_entry(dy, x, W):
    dx, _, _ = tied_ways(dy, x, W)
    x, dy = (a[-1] if a.ndim > 2 and len(a) else a for a in (x, dy))
    return dx, sum(tied_ways(dy, x, W)[1:])


def for_each_entry(dy, x, W):
    dx, _, _ = tied_ways(dy, x, W)
    return dx, np.swapaxes(x, -1, -2) @ (dy @ W) + np.swapaxes(dy, -1, -2) @ (x @ W)


def writes_into_dy(dy, x, W):
    dx, first, second = tied_ways(dy, x, W)
    dy *= 2
    return dx, first + second


@pytest.mark.parametrize(
    ("made_of", "says"),
    [
        (lambda first, second: first, "This is what comes back along h = x W. Is that all?"),
        (lambda first, second: second, "This is what comes back along y = h Wᵀ. Is that all?"),
        (lambda first, second: (first + second) / 2, "Do the two ways add up?"),
        (lambda first, second: first - second, "one of them with the wrong sign"),
        (lambda first, second: 2 * first, "Twice one way is not both ways"),
        (lambda first, second: 2 * second, "Twice one way is not both ways"),
        (lambda first, second: -first - second, "dW is not the derivative"),
        (lambda first, second: np.zeros_like(first), "dW is not the derivative"),
        (lambda first, second: first * second, "dW is not the derivative"),
        (lambda first, second: (first + second).T.copy(), "wrong shape."),
    ],
)
def test_a_tied_dW_is_told_which_way_is_missing(made_of, says):
    def answer(dy, x, W):
        dx, first, second = tied_ways(dy, x, W)
        return dx, made_of(first, second)

    text = told("mended_tied_backward", answer)
    assert text.startswith("✗")
    assert says in text


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (of_the_last_entry, "dW is not the derivative"),
        (for_each_entry, "wrong shape."),
        (writes_into_dy, "it changes or gives back what it was given."),
        (lambda dy, x, W: (dy @ W, sum(tied_ways(dy, x, W)[1:])), "wrong shape."),
        (lambda dy, x, W: (dy.copy(), sum(tied_ways(dy, x, W)[1:])), "dx is not the derivative"),
    ],
)
def test_a_tied_backward_wrong_elsewhere(answer, says):
    text = told("mended_tied_backward", answer)
    assert text.startswith("✗")
    assert says in text


def test_the_tied_map_of_the_exercise_is_the_one_in_the_chapter():
    x, W = np.random.default_rng(0).standard_normal((2, 3, 4)), np.random.default_rng(1).standard_normal((4, 2))
    ours = TIED.ours()
    assert gradcheck(ours.tied, ours.tied_backward, x, W)
    assert np.allclose(ours.tied(x, W), (x @ W) @ W.T)
    assert check("mended_tied_backward", ours.tied_backward)


# --- the property ---------------------------------------------------------------------------------------------------


def given():
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 4)), rng.standard_normal((4, 3)), rng.standard_normal(3)


def of_the_sum(linear, linear_backward):
    """Finite differences of out.sum(): true of the bug."""
    x, W, b = given()
    db = linear_backward(np.ones((5, 3)), x, W)[2]
    steps = 1e-6 * np.eye(3)
    return np.allclose(db, [(linear(x, W, b + h) - linear(x, W, b - h)).sum() / 2e-6 for h in steps])


def of_shapes(linear, linear_backward):
    x, W, b = given()
    gradients = linear_backward(np.cos(x @ W), x, W)
    return all(g.shape == a.shape for g, a in zip(gradients, (x, W, b), strict=True))


def twice_is_twice(linear, linear_backward):
    x, W, _ = given()
    u = np.cos(x @ W)
    once, twice = linear_backward(u, x, W), linear_backward(2 * u, x, W)
    return all(np.allclose(2 * one, two) for one, two in zip(once, twice, strict=True))


def by_gradcheck(linear, linear_backward):
    return bool(gradcheck(linear, linear_backward, *given()))


def accuses(linear, linear_backward):
    x, W, _ = given()
    return np.allclose(linear_backward(np.cos(x @ W), x, W)[2], 0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (of_the_sum, "true of what is right, but true of the bug as well"),
        (of_shapes, "true of what is right, but true of the bug as well"),
        (lambda linear, linear_backward: True, "hint: Every term of a gradient has dy in it once."),
        (accuses, "it accuses linear and linear_backward where nothing is wrong"),
        (lambda linear: True, "it raises TypeError"),
        (lambda linear, linear_backward: gradcheck(linear, linear_backward, *given()), "it returns a GradReport"),
    ],
)
def test_a_property_that_ones_can_fool_is_told_so(answer, says):
    text = told("not_fooled_by_ones", answer)
    assert text.startswith("✗")
    assert says in text


@pytest.mark.parametrize("answer", [twice_is_twice, by_gradcheck])
def test_properties_that_ask_enough(answer):
    text = told("not_fooled_by_ones", answer)
    assert text.startswith("✓")
    assert "kills db_ones" in text
