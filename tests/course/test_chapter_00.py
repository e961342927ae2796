"""Chapter 00: what readers write instead of a recurrence, of its way back and of a scan, and what they are told."""

import numpy as np
import pytest

from tinyattn.course import check
from tinyattn.course.exercises import chapter_00

pytestmark = pytest.mark.slow  # every wrong answer is diagnosed; test_chapters.py holds stubs and solutions


def told(name, answer):
    return str(check(name, answer))


def written(code):
    """The function that `code` defines, as a reader's cell does."""
    defined = {"np": np}
    exec(code, defined)
    return defined["answer"]


# --- my_rnn ---------------------------------------------------------------------------------------------------------

STEP = "h = np.tanh(x[..., t, :] @ W + h @ U)"


def rnn(step=STEP, begin="np.zeros_like(x[..., 0, :] @ W)", order="range(n)", end="np.stack(states, axis=-2)"):
    return written(
        f"def answer(x, W, U):\n"
        f"    n, h, states = x.shape[-2], {begin}, []\n"
        f"    for t in {order}:\n"
        f"        {step}\n"
        f"        states.append(h)\n"
        f"    return {end}\n"
    )


def test_a_right_recurrence():
    assert check("my_rnn", rnn())
    assert check("my_rnn", rnn("h = np.tanh((U.T @ h[..., None])[..., 0] + x[..., t, :] @ W)"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (rnn("h = x[..., t, :] @ W + h @ U"), "Is every entry of your h between -1 and 1?"),
        (rnn("h = np.tanh(x[..., t, :] @ W)"), "Where does h_{t-1} come in?"),
        (rnn("h = np.tanh(x[..., t, :] @ W) + h @ U"), "The tanh is around the sum"),
        (rnn("h = np.tanh(x[..., t, :] @ W + np.tanh(h @ U))"), "One tanh a step"),
        (rnn("h = np.tanh(x[..., t, :] @ W + h @ U.T)"), "U is not turned"),
        (rnn("h = np.tanh(x[..., t, :] @ W + h)"), "h_{t-1} is multiplied by U"),
        (rnn("h = h + np.tanh(x[..., t, :] @ W + h @ U)"), "h_t replaces h_{t-1}"),
        (rnn("states.append(h); h = np.tanh(x[..., t, :] @ W + h @ U); continue"), "after x_t was read, not before"),
        (rnn(order="reversed(range(n))", end="np.stack(states[::-1], axis=-2)"), "Which token is read first?"),
        (rnn(begin="np.ones_like(x[..., 0, :] @ W)"), "What is h_1 if h_0 is 0?"),
        (rnn("h = np.tanh(x[..., t, :] @ W + (np.tanh(x[..., t - 1, :] @ W) @ U if t else 0))"), "remembers one token"),
        (rnn("h = 1 / (1 + np.exp(-(x[..., t, :] @ W + h @ U)))"), "tanh(0) is 0, the logistic function's value"),
    ],
)
def test_a_recurrence_with_a_wrong_step_gets_its_hint(wrong, says):
    text = told("my_rnn", wrong)
    assert text.startswith("✗ my_rnn: right shape, wrong values.")
    assert says in " ".join(text.split())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (rnn(end="h"), "wrong shape."),
        (rnn(end="np.stack(states)"), "wrong shape."),
        (rnn(end="np.stack([np.zeros_like(states[0]), *states], axis=-2)"), "wrong shape."),
        (rnn(end="None"), "it returned None. Is the `return` missing?"),
        (rnn(begin="np.zeros(len(U))"), "wrong dtype."),
        (rnn(step="x[..., t, :] = 0; " + STEP), "it changes or gives back what it was given."),
        (rnn(step="h = np.tanh(W @ x[..., t, :] + U @ h)"), "it raises an error."),
    ],
)
def test_a_recurrence_of_another_form_is_told_so(wrong, says):
    assert told("my_rnn", wrong).startswith(f"✗ my_rnn: {says}")


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("h", "Keep them all, one a row."),
        ("np.stack(states)", "The axis of tokens is the second last"),
        ("np.stack([np.zeros_like(h), *states], axis=-2)", "n tokens, n states"),
    ],
)
def test_states_of_the_wrong_shape_are_told_which(end, says):
    assert says in " ".join(told("my_rnn", rnn(end=end)).split())


# --- my_rnn_backward ------------------------------------------------------------------------------------------------

DU = "summed(h[..., :-1, :], ds[..., 1:, :])"


def way_back(
    total="dh[..., t, :] + later",
    slope="1 - h[..., t, :] ** 2",
    hand_back="ds[..., t, :] @ U.T",
    order="reversed(range(n))",
    dx="ds @ W.T",
    dW="summed(x, ds)",
    dU=DU,
):
    return written(
        f"def answer(dh, x, W, U, h):\n"
        f"    def summed(a, b):\n"
        f"        both = np.swapaxes(a, -1, -2) @ b\n"
        f"        return both.reshape(-1, *both.shape[-2:]).sum(axis=0)\n"
        f"    n, ds, later = h.shape[-2], np.zeros_like(h), np.zeros_like(h[..., 0, :])\n"
        f"    for t in {order}:\n"
        f"        total = {total}\n"
        f"        ds[..., t, :] = total * ({slope})\n"
        f"        later = {hand_back}\n"
        f"    return {dx}, {dW}, {dU}\n"
    )


def test_a_right_way_back():
    assert check("my_rnn_backward", way_back())
    assert check("my_rnn_backward", way_back(slope="(1 - h[..., t, :]) * (1 + h[..., t, :])"))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (way_back(total="dh[..., t, :]"), "what must step 2 hand back?"),
        (way_back(slope="np.ones_like(h[..., t, :])"), "what is dh/ds?"),
        (way_back(slope="1 - h[..., t, :]"), "A square is missing."),
        (way_back(slope="1 - np.tanh(h[..., t, :]) ** 2"), "h is the tanh already"),
        (way_back(slope="h[..., t, :] * (1 - h[..., t, :])"), "the slope of the logistic function"),
        (way_back(hand_back="ds[..., t, :] @ U"), "which way round does U stand"),
        (way_back(hand_back="total @ U.T"), "comes from s_t: is it ds?"),
        (way_back(hand_back="dh[..., t, :] @ U.T"), "must travel on, too"),
        (way_back(dx="-ds @ W.T", dW="-summed(x, ds)", dU=f"-{DU}"), "right but for its sign"),
        (way_back(dU="summed(h[..., 1:, :], ds[..., :-1, :])"), "h_{t+1} meets ds_t in your dU"),
        (way_back(dU="summed(h, ds)"), "multiplies U by h_{t-1}, not by h_t"),
        (way_back(dU=f"{DU}.T.copy()"), "leads from entry i of h_{t-1} to entry j of s_t"),
        (way_back(order="range(n)"), "Which step's ds can be computed first"),
        (way_back(total="(dh[..., t, :] if t == n - 1 else 0) + later"), "each dh_t joins in at its own step"),
        (way_back(dW="summed(x, ds) / x.dtype.type(n)", dU=f"{DU} / x.dtype.type(n)"), "Why a mean?"),
    ],
)
def test_a_way_back_with_a_wrong_line_gets_its_hint(wrong, says):
    text = told("my_rnn_backward", wrong)
    assert text.startswith("✗ my_rnn_backward: right shape, wrong values.")
    assert says in " ".join(text.split())


@pytest.mark.parametrize(
    ("wrong", "says", "accused"),
    [
        (way_back(dx="ds @ W"), "", "d"),
        (way_back(dx="ds @ W.T * 2"), "right shape, wrong values.", "dx"),
        (way_back(dW="summed(x, dh)"), "right shape, wrong values.", "dW"),
        (way_back(dU="summed(h[..., 1:, :], ds[..., 1:, :])"), "right shape, wrong values.", "dU"),
        (way_back(dU="summed(h[..., :-1, :], ds[..., :-1, :])"), "right shape, wrong values.", "dU"),
        (way_back(dW="np.swapaxes(x, -1, -2) @ ds"), "wrong shape.", "dW"),
        (way_back(dx="dh"), "", "d"),
    ],
)
def test_any_other_wrong_way_back_is_told_which_gradient(wrong, says, accused):
    text = told("my_rnn_backward", wrong)
    assert text.startswith(f"✗ my_rnn_backward: {says}")
    assert accused in text.split("smallest counterexample:")[1]


# --- repaired_scan --------------------------------------------------------------------------------------------------


def scan(
    joined="late_a * early_h + late_h",
    kept="h[..., :step, :]",
    factors="early_a * late_a",
    grow="step *= 2",
    begin="b.copy(), 1",
    first="",
):
    return written(
        f"def answer(a, b):\n"
        f"    h, step = {begin}\n"
        f"    while step < b.shape[-2]:\n"
        f"        early_a, late_a = a[..., :-step, :], a[..., step:, :]\n"
        f"        early_h, late_h = h[..., :-step, :], h[..., step:, :]\n"
        f"        {first or 'pass'}\n"
        f"        h = np.concatenate([{kept}, {joined}], axis=-2)\n"
        f"        a = np.concatenate([a[..., :step, :], {factors}], axis=-2)\n"
        f"        {grow}\n"
        f"    return h\n"
    )


def test_a_right_scan():
    assert check("repaired_scan", scan())

    def loop(a, b):
        h, states = np.zeros_like(b[..., 0, :]), []
        for t in range(b.shape[-2]):
            h = a[..., t, :] * h + b[..., t, :]
            states.append(h)
        return np.stack(states, axis=-2)

    assert check("repaired_scan", loop)


@pytest.mark.parametrize(
    "wrong",
    [
        scan(joined="early_a * early_h + late_h"),  # hasty_scan itself
        scan(joined="late_a * late_h + early_h"),
        scan(joined="late_a * early_h"),
        scan(joined="early_h + late_h"),
        scan(joined="early_a * late_a * early_h + late_h"),
        scan(factors="late_a"),
        scan(factors="early_a"),
        scan(factors="early_a + late_a"),
        scan(grow="step += 1"),
        scan(grow="break"),
        scan(begin="b.copy(), 2"),
        scan(begin="a * b, 1"),
        scan(kept="late_a[..., :step, :] * h[..., :step, :]", first="late_a = a[..., step:, :]", grow="break"),
    ],
)
def test_a_scan_with_a_wrong_line_is_shown_where(wrong):
    text = told("repaired_scan", wrong)
    assert text.startswith("✗")
    assert "smallest counterexample:" in text
    assert "a = [" in text


def test_a_scan_that_gives_back_its_input_is_told():
    assert "what it was given" in told("repaired_scan", scan(begin="b, 1"))


# --- the specs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrongs", [chapter_00.WRONG_RNN, chapter_00.WRONG_BACKWARD])
def test_every_temptation_has_words_of_its_own(wrongs):
    assert len({says for _, says in wrongs}) == len(wrongs) >= 10


def test_the_numbers_are_those_of_closed_forms():
    """What the graders count is also what the formulas of the chapter give."""
    count = {e.name: e.grader.compute() for e in chapter_00.EXERCISES if hasattr(e.grader, "compute")}
    assert count["recurrent_over_attention"] == 512 / 32
    assert count["layers_of_three"] == (81 - 1) // (3 - 1)
    assert count["letters_that_fit"] == int(64 * 32 / np.log2(27))
