"""How a token is drawn: against a plain loop over the sorted probabilities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn.models.transformers.sampling import Sampling
from tinyattn.random import Stream, generator


def by_loop(scores, temperature, top_k, top_p):
    """First the likeliest k, then, among these alone, the likeliest until they have p together. Earlier tokens first.
    """
    odds = [math.exp((score - max(scores)) / temperature) for score in scores]
    likeliest = sorted(range(len(odds)), key=lambda token: (-odds[token], token))
    kept = likeliest[: len(odds) if top_k is None else top_k]
    total = math.fsum(odds[token] for token in kept)
    chosen, together = [], 0.0
    for token in kept:
        if together >= top_p - 1e-12:
            break
        chosen.append(token)
        together += odds[token] / total
    total = math.fsum(odds[token] for token in chosen)
    return [odds[token] / total if token in chosen else 0.0 for token in range(len(odds))]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    scores=st.lists(st.integers(-6, 6), min_size=1, max_size=7),          # integers: there are ties
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.sampled_from([None, 1, 2, 3, 7, 50]),
    top_p=st.sampled_from([1e-9, 0.15, 0.37, 0.61, 0.83, 0.9999, 1.0]),
)
def test_probabilities_are_those_of_a_loop(scores, temperature, top_k, top_p):
    how = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    for dtype in (np.float32, np.float64):
        given_scores = np.array(scores, dtype)
        found = how.probabilities(given_scores)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, by_loop(scores, temperature, top_k, top_p), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(given_scores, scores)                # nothing is written into them


@pytest.mark.parametrize(("top_k", "top_p", "expected"), [
    (None, 0.499, [1, 0, 0, 0]),           # the first alone has one half
    (None, 0.501, [2, 1, 0, 0]),
    (None, 0.749, [2, 1, 0, 0]),
    (None, 0.751, [4, 2, 1, 0]),
    (None, 0.874, [4, 2, 1, 0]),
    (None, 0.876, [4, 2, 1, 1]),
    (None, 1.0, [4, 2, 1, 1]),
    (2, 0.6, [1, 0, 0, 0]),                # two thirds of the two that top_k leaves, though one half of all
    (2, 0.7, [2, 1, 0, 0]),
    (3, 0.875, [4, 2, 1, 0]),              # six sevenths of three are less than this
    (3, 0.85, [2, 1, 0, 0]),
    (4, 1.0, [4, 2, 1, 1]),
    (5, 1.0, [4, 2, 1, 1]),
    (1, 1e-300, [1, 0, 0, 0]),
])  # fmt: skip
def test_tokens_of_one_half_one_quarter_and_two_eighths(top_k, top_p, expected):
    scores = np.log(np.array([4.0, 2.0, 1.0, 1.0]))
    p = [x / sum(expected) for x in expected]
    for shift in (0, 1000.0, -1000.0):                    # a constant changes nothing, and overflows nowhere
        found = Sampling(top_k=top_k, top_p=top_p).probabilities(scores + shift)
        np.testing.assert_allclose(found, p, rtol=0, atol=1e-12)


def test_of_equally_likely_tokens_the_first_are_kept():
    assert Sampling(top_k=1).probabilities(np.zeros(3)).tolist() == [1, 0, 0]
    assert Sampling(top_k=2).probabilities(np.array([0.0, 1.0, 1.0, 1.0])).tolist() == [0, 0.5, 0.5, 0]
    assert Sampling(top_p=0.5).probabilities(np.zeros(4)).tolist() == [0.5, 0.5, 0, 0]     # just met: no third
    assert Sampling(top_p=0.25).probabilities(np.zeros(4)).tolist() == [1, 0, 0, 0]
    assert Sampling(top_p=0.51).probabilities(np.zeros(4)).tolist() == [1 / 3, 1 / 3, 1 / 3, 0]


def test_a_temperature_near_0_leaves_the_likeliest_and_a_high_one_none_likelier():
    scores = np.log(np.array([0.1, 0.4, 0.2, 0.3]))
    assert Sampling(temperature=5e-324).probabilities(scores).tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(Sampling(temperature=1e9).probabilities(scores), 0.25, atol=1e-8)
    np.testing.assert_allclose(Sampling(temperature=0.5).probabilities(scores), np.array([1, 16, 4, 9]) / 30)


def test_tokens_are_drawn_as_often_as_their_probability_says():
    scores, rng = np.log(np.array([0.1, 0.4, 0.2, 0.3])), generator(0, Stream.GENERATION)
    for how, wanted in ((Sampling(), [0.1, 0.4, 0.2, 0.3]), (Sampling(top_k=3, top_p=0.7), [0, 4 / 7, 0, 3 / 7])):
        drawn = np.bincount([how.draw(scores, rng) for _ in range(1000)], minlength=4) / 1000
        np.testing.assert_allclose(drawn, wanted, atol=0.05)
        assert not np.any((drawn > 0) & (np.array(wanted) == 0))


def test_by_default_all_tokens_are_drawn_from_as_the_model_has_them():
    assert (Sampling().temperature, Sampling().top_k, Sampling().top_p) == (1.0, None, 1.0)


def test_of_hundreds_of_equally_likely_tokens_the_first_are_kept_too():
    """An unstable sort shows only with many tokens."""
    scores = np.tile([0.0, 1.0], 300)
    assert np.flatnonzero(Sampling(top_k=3).probabilities(scores)).tolist() == [1, 3, 5]


@pytest.mark.parametrize("logit", [math.inf, -math.inf, math.nan])
def test_logits_that_are_not_finite_have_no_probabilities(logit):
    with pytest.raises(ValueError, match="the model's logits are not finite: its weights are too large"):
        Sampling().draw(np.array([0.0, logit], np.float32), generator(0, Stream.GENERATION))
