"""Chapter 01: wrong answers get the right hint, and right ones of any shape pass."""

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check.zoo import ZOO
from tinyattn.course import check
from tinyattn.course.checking import find
from tinyattn.course.exercises import chapter_01 as exercises

pytestmark = pytest.mark.slow  # every wrong answer is diagnosed; test_chapters.py holds stubs and solutions


def told(name, answer):
    return " ".join(str(check(name, answer)).split())


def turned(k):
    return np.swapaxes(k, -1, -2)


def right(x, W_q, W_k, W_v):
    q, k, v = x @ W_q, x @ W_k, x @ W_v
    weights = ops.softmax(q @ turned(k) / q.dtype.type(q.shape[-1] ** 0.5))
    return weights @ v, weights


def test_another_way_of_writing_it_is_right():
    def by_einsum(x, W_q, W_k, W_v):
        e = np.exp(np.einsum("...id,...jd->...ij", x @ W_q, x @ W_k) * W_q.shape[-1] ** -0.5)
        weights = e / e.sum(axis=-1, keepdims=True)
        return (weights @ x) @ W_v, weights  # what is mixed may be projected afterwards

    assert check("self_lookup", right)
    assert check("self_lookup", by_einsum)


# --- the same mistakes, written by hand: the numbers are known, not the lines ---------------------------------------


def no_scale(x, W_q, W_k, W_v):
    weights = ops.softmax(x @ W_q @ turned(x @ W_k))
    return weights @ (x @ W_v), weights


def wrong_axis(x, W_q, W_k, W_v):
    s = x @ W_q @ turned(x @ W_k) / W_q.shape[-1] ** 0.5
    weights = turned(ops.softmax(turned(s)))
    return weights @ (x @ W_v), weights


def exponentials(x, W_q, W_k, W_v):
    weights = np.exp(x @ W_q @ turned(x @ W_k) / W_q.shape[-1] ** 0.5)
    return weights @ (x @ W_v), weights


def halved(x, W_q, W_k, W_v):
    weights = ops.softmax(x @ W_q @ turned(x @ W_k) / W_q.shape[-1])
    return weights @ (x @ W_v), weights


def keys_ask(x, W_q, W_k, W_v):
    return right(x, W_k, W_q, W_v)


HINTS = {bug.name: bug.hint for spec in ("multi_head_attention", "attention") for bug in ZOO[spec].BUGS}
BY_HAND = [("no_scale", no_scale), ("softmax_axis", wrong_axis), ("no_normalise", exponentials), ("scale_d", halved),
           ("qk_swapped", keys_ask)]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), BY_HAND, ids=[name for name, _ in BY_HAND])
def test_a_known_bug_gets_its_hint(name, answer):
    text = told("self_lookup", answer)
    assert text.startswith("✗")
    assert "smallest counterexample:" in text
    assert f". {HINTS[name]} for a hint" in text


TEMPTING = find("self_lookup").grader.tempting


@pytest.mark.parametrize(("wrong", "says"), TEMPTING, ids=[says[:60] for _, says in TEMPTING])
def test_what_readers_write_instead_is_told_apart(wrong, says):
    """Every one is wrong, and is told its own sentence, beside whatever its shape gives away."""
    text = told("self_lookup", wrong)
    assert text.startswith("✗")
    assert says in text


@pytest.mark.parametrize("name", exercises.IN_ATTENTION)
def test_what_is_said_of_a_bug_of_the_zoo_is_its_hint(name):
    assert any(says.endswith(f". {HINTS[name]}") for _, says in TEMPTING)


def stub(*args):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (stub, "not answered yet"),
        (lambda x, W_q, W_k, W_v: None, "it returned None. Is the `return` missing?"),
        (lambda x, W_q, W_k, W_v: right(x, W_q, W_k, W_v)[0], "right as far as it goes, but it returns no `weights`."),
        (lambda x, W_q, W_k, W_v: right(x, W_q, W_k, W_v)[::-1], "wrong shape."),
        (lambda x, W_q, W_k, W_v: ops.attention((x @ W_q).T, x @ W_k, x @ W_v), "✗"),
        (lambda x: x, "it cannot be called."),
    ],
)
def test_an_answer_that_is_no_look_up(answer, says):
    text = told("self_lookup", answer)
    assert not text.startswith("✓")
    assert says in text


# --- properties -----------------------------------------------------------------------------------------------------


def drawn(n, m, d, e):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal((m, d)), rng.standard_normal((m, e))


def alone(attention):
    q, k, v = drawn(3, 4, 2, 2)
    return np.allclose(attention(q[:1], k, v)[0], attention(q, k, v)[0][:1])


def columns(attention):
    weights = attention(*drawn(3, 4, 2, 2))[1]
    return np.allclose(weights.sum(axis=0), 1)


def total(attention):
    weights = attention(*drawn(4, 4, 2, 2))[1]
    return np.allclose(weights.sum(), 4)


def one_key(attention):
    q, k, v = drawn(1, 4, 2, 2)
    return np.allclose(attention(q, k[:1], v[:1])[1].sum(axis=-1), 1)


def doubled(attention, e=3):
    q, k, v = drawn(3, 4, 3, e)
    return np.allclose(attention(q, k, 2 * v)[0], 2 * attention(q, k, v)[0])


def doubled_of_another_width(attention):
    return doubled(attention, e=2)


def weights_stay(attention):
    q, k, v = drawn(3, 4, 3, 3)
    return np.allclose(attention(q, k, v)[1], attention(q, k, v + 1)[1])


@pytest.mark.parametrize(("name", "answer"), [("normalises_over_keys", alone), ("reads_the_values", doubled)])
def test_a_property_that_kills(name, answer):
    assert check(name, answer), told(name, answer)


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("normalises_over_keys", stub, "not answered yet"),
        ("normalises_over_keys", columns, "it accuses attention where nothing is wrong"),
        ("normalises_over_keys", total, "true of the bug as well"),       # n columns of sum 1 sum to n, too
        ("normalises_over_keys", one_key, "true of the bug as well"),     # one query, one key: nothing to tell apart
        ("normalises_over_keys", doubled, "true of the bug as well"),
        ("reads_the_values", stub, "not answered yet"),
        ("reads_the_values", doubled_of_another_width, "true of the bug as well"),
        ("reads_the_values", weights_stay, "true of the bug as well"),
        ("reads_the_values", lambda attention: None, "Is the `return` missing?"),
    ],
)  # fmt: skip
def test_a_property_that_proves_nothing(name, answer, says):
    text = told(name, answer)
    assert not text.startswith("✓")
    assert says in text
