"""Chapter 04: wrong masks get the right hint, and tests that are too weak are told which bug they let live."""

import numpy as np
import pytest

from tests.course.test_check import bug, gives_the_hint, told
from tinyattn import ops
from tinyattn.check.zoo import ZOO
from tinyattn.course import check
from tinyattn.course.exercises.chapter_04 import TEMPTING

pytestmark = pytest.mark.slow  # every wrong answer is diagnosed; test_chapters.py holds stubs and solutions

# --- my_masked_softmax ----------------------------------------------------------------------------------------------

SOFTMAX = ["axis", "flat", "no_max", "global_max", "mask_inverted", "mask_after", "fill_-1e9", "fill_-30", "fill_min",
           "add_-1e9", "fill_zeroed", "mult_mask", "fill_0", "nan_row", "mask_ignored", "no_normalise"]  # fmt: skip
ALIKE = {"fill_-1e4": "fill_-1e9", "fill_-100": "fill_-1e9", "empty_uniform": "fill_min"}  # who gives the hint for both


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_masked_softmax_with_a_known_bug_gets_its_hint(name):
    wrong = ZOO["softmax"].make(frozenset([name])).softmax
    gives_the_hint(told("my_masked_softmax", lambda s, mask=None: wrong(s, mask)), "softmax", name)


@pytest.mark.parametrize("name", ALIKE)
def test_bugs_that_nothing_tells_apart_are_all_named(name):
    wrong = ZOO["softmax"].make(frozenset([name])).softmax
    text = told("my_masked_softmax", lambda s, mask=None: wrong(s, mask))
    assert f"{bug('softmax', name).says} ({name})" in " ".join(text.split())
    gives_the_hint(text, "softmax", ALIKE[name])


def unguarded(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def tutorial(s, mask=None):
    return unguarded(s if mask is None else np.where(mask == 0, s.dtype.type(-1e9), s))


def infinity(s, mask=None):
    return unguarded(s if mask is None else np.where(mask, s, -np.inf))


def afterwards(s, mask=None):
    return unguarded(s) if mask is None else unguarded(s) * mask


def scores_times_mask(s, mask=None):
    return unguarded(s if mask is None else s * mask)


@pytest.mark.parametrize(
    ("answer", "name"),
    [(tutorial, "fill_-1e9"), (infinity, "nan_row"), (afterwards, "mask_after"), (scores_times_mask, "mult_mask")],
)
def test_so_does_one_that_is_written_as_in_the_chapter(answer, name):
    gives_the_hint(told("my_masked_softmax", answer), "softmax", name)


def test_a_softmax_without_a_mask_is_told_what_it_lacks():
    assert "it takes no `mask`" in told("my_masked_softmax", lambda s: ops.softmax(s))


# --- my_decoder_weights ---------------------------------------------------------------------------------------------


def test_there_are_ten_wrong_masks_and_each_says_something_else():
    assert len({says for _, says in TEMPTING}) == len(TEMPTING) >= 10


@pytest.mark.parametrize(("wrong", "says"), TEMPTING, ids=[wrong.__name__ for wrong, _ in TEMPTING])
def test_a_wrong_mask_gets_its_hint(wrong, says):
    text = told("my_decoder_weights", lambda s, lengths: wrong(s, lengths))
    assert text.startswith("✗")
    assert says in " ".join(text.split())


def by_hand(s, lengths, allowed):
    """Weights of the pairs for which `allowed(i, j, n, m, length)`, one by one."""
    n, m = s.shape[-2:]
    mask = np.zeros(s.shape, bool)
    for lead in np.ndindex(s.shape[:-2]):
        for i, j in np.ndindex(n, m):
            mask[lead][i, j] = allowed(i, j, n, m, lengths[lead])
    return ops.softmax(s, mask)


@pytest.mark.parametrize(
    ("allowed", "which"),
    [
        (lambda i, j, n, m, length: j <= i and j < length, "_first_queries"),
        (lambda i, j, n, m, length: j < m - n + i and j < length, "_strict"),
        (lambda i, j, n, m, length: j <= m - n + i, "_only_causal"),
        (lambda i, j, n, m, length: j <= m - n + i and j <= length, "_one_too_many"),
        (lambda i, j, n, m, length: j <= m - n + i and m - n + i < length, "_queries_masked"),
    ],
)
def test_so_does_one_that_is_written_otherwise(allowed, which):
    says = next(says for wrong, says in TEMPTING if wrong.__name__ == which)
    text = told("my_decoder_weights", lambda s, lengths: by_hand(s, lengths, allowed))
    assert says in " ".join(text.split())


def test_a_right_mask_may_be_written_otherwise():
    def allowed(i, j, n, m, length):
        return j <= m - n + i and j < length

    assert check("my_decoder_weights", lambda s, lengths: by_hand(s, lengths, allowed))


def test_lengths_that_meet_the_wrong_axis_are_told():
    def forgets_the_axes(s, lengths):
        n, m = s.shape[-2:]
        return ops.softmax(s, (np.arange(m) <= np.arange(m - n, m)[:, None]) & (np.arange(m) < lengths))

    assert told("my_decoder_weights", forgets_the_axes).startswith("✗")


# --- repaired_model -------------------------------------------------------------------------------------------------

W_q, W_k, W_v = np.random.default_rng(12).standard_normal((3, 8, 8)) / 8**0.5


def model(x, axis=-1, mask=None):
    """The chapter's: right with the features' mean, hasty with that over positions."""
    centred = x - x.mean(axis=axis, keepdims=True)
    h = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    mask = ops.causal_mask(x.shape[1], like=x) if mask is None else mask
    return x + ops.attention(h @ W_q, h @ W_k, h @ W_v, mask)[0]


def test_the_hasty_model_is_shown_who_moved_and_not_what_to_change():
    text = told("repaired_model", lambda x: model(x, axis=1))
    assert text.startswith("✗")
    assert "changing what stands at position t moves no output before t" in " ".join(text.split())
    assert "smallest counterexample" in text
    assert "mean" not in text
    assert check("repaired_model", model)
    assert check("repaired_model", lambda x: model(x - x.mean(axis=-1, keepdims=True)) + x.mean(axis=-1, keepdims=True))


def attends(x, h):
    return x + ops.attention(h @ W_q, h @ W_k, h @ W_v, ops.causal_mask(x.shape[1], like=x))[0]


def mean_of_the_past(x):
    """Causal, and another model: the mean over positions so far."""
    c = x - np.cumsum(x, axis=1) / np.arange(1, x.shape[1] + 1)[:, None]
    return attends(x, c / np.sqrt((c**2).mean(axis=-1, keepdims=True) + 1e-5))


@pytest.mark.parametrize(
    "answer",
    [
        mean_of_the_past,
        lambda x: attends(x, x),
        lambda x: model(x) - x,
        lambda x: attends(x, x / x.std(axis=-1, keepdims=True)),
    ],
)
def test_a_model_that_leaks_nothing_and_is_another_is_told_so(answer):
    assert "nothing leaks any more, but the rest is not as it was" in told("repaired_model", answer)


def test_an_answer_that_forgets_to_return_is_told_so():
    assert "it returned None. Is the `return` missing?" in told("repaired_model", lambda x: None)


LEAKS = ["leak_one", "no_mask", "mask_transposed", "batch_norm", "batch_norm_each", "sees_last", "length_leak",
         "over_masked", "window_of_one", "short_window", "blind", "first_unseen", "batch_reversed"]  # fmt: skip


@pytest.mark.parametrize("name", LEAKS)
def test_a_model_of_the_zoo_is_caught_and_its_bug_is_not_named(name):
    text = told("repaired_model", ZOO["causal_model"].make(frozenset([name])).forward)
    assert text.startswith("✗ repaired_model: right shape, wrong values.")
    assert f"({name})" not in text
    assert "hint: " in text


# --- properties -----------------------------------------------------------------------------------------------------

MASK = np.tri(5, dtype=bool)


def drawn():
    return np.random.default_rng(0).standard_normal((3, 5, 4))


def moves_values_only(attention):
    q, k, v = drawn()
    other = v.copy()
    other[3:] += 1
    return np.array_equal(attention(q, k, other, MASK)[0][:3], attention(q, k, v, MASK)[0][:3])


def hidden_weights_are_0(attention):
    return bool(np.all(attention(*drawn(), MASK)[1][~MASK] == 0))


def moves_keys_and_values(attention):
    q, k, v = drawn()
    k_2, v_2 = k.copy(), v.copy()
    k_2[3:] += 1
    v_2[3:] += 1
    return np.array_equal(attention(q, k_2, v_2, MASK)[0][:3], attention(q, k, v, MASK)[0][:3])


def rows_sum_to_1(attention):
    """It kills the bug, and is true of most leaks."""
    return np.allclose(attention(*drawn(), MASK)[1].sum(axis=-1), 1)


def demands_that_everything_moves(attention):
    q, k, v = drawn()
    return bool(np.all(attention(q, k + 1, v, MASK)[0] != attention(q, k, v, MASK)[0]))


def compares_with_the_library(attention):
    assert np.allclose(attention(*drawn(), MASK)[0], ops.attention(*drawn(), MASK)[0])


def first_token_arrives(attention):
    q, k, v = drawn()
    other = v.copy()
    other[0] += 1
    return bool((attention(q, k, other, MASK)[0] != attention(q, k, v, MASK)[0]).any(axis=-1)[1:].all())


LIVES = "true of what is right, but true of the bug as well"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("nothing_leaks", moves_values_only, [LIVES, "mask_after_softmax", "hint: "]),
        ("nothing_leaks", hidden_weights_are_0, [LIVES, "mask_after_softmax"]),
        ("nothing_leaks", rows_sum_to_1, ["it kills mask_after_softmax, but", "mask_ignored", "hint: "]),
        ("nothing_leaks", lambda attention: True, [LIVES]),
        ("nothing_leaks", lambda attention: None, ["Is the `return` missing?"]),
        ("nothing_leaks", demands_that_everything_moves, ["it accuses attention where nothing is wrong"]),
        ("everything_arrives", moves_keys_and_values, [LIVES, "off_by_one_mask", "Move v_i and watch out_i."]),
        ("everything_arrives", first_token_arrives, [LIVES]),
        ("everything_arrives", lambda attention: False, ["it accuses attention where nothing is wrong"]),
    ],
)
def test_a_test_that_is_too_weak_or_too_strong_is_told(name, answer, says):
    text = told(name, answer)
    assert text.startswith("✗")
    for part in says:
        assert part in " ".join(text.split())


def test_a_test_may_be_written_otherwise():
    assert "kills mask_after_softmax" in told("nothing_leaks", moves_keys_and_values)
    assert "kills off_by_one_mask" in told("everything_arrives", compares_with_the_library)
