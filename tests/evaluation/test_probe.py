"""Linear probes: what is there is found, what is not there is not."""

import numpy as np
import pytest

from tinyattn.evaluation import linear_probe
from tinyattn.random import Stream, generator


def states(n=600, seed=0):
    """Three features, of which two say the label: its corner of a triangle, far from the origin."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    corners = {"a": (0, 0), "b": (1, 0), "c": (0, 1)}
    x = np.array([corners[label] for label in labels]) + 0.1 * rng.standard_normal((n, 2)) + 50
    return np.column_stack([x, rng.standard_normal(n)]).astype(np.float32), labels


def test_what_states_say_is_found_and_shuffled_labels_are_not():
    found = linear_probe(*states(), *states(seed=1))
    assert found.accuracy > 0.97
    assert found.shuffled == pytest.approx(0.5, abs=0.05)            # the commonest label's share
    assert linear_probe(*states(), *states(seed=1)) == found


def test_what_they_do_not_say_is_not_found():
    (x, labels), (z, wanted) = states(), states(seed=1)
    found = linear_probe(x[:, 2:], labels, z[:, 2:], wanted)
    assert found.accuracy == pytest.approx(0.5, abs=0.05)


def test_it_is_the_least_squares_map():
    """NumPy's least squares, without a ridge, name the same labels."""
    (x, labels), (z, wanted) = states(), states(seed=1)
    one = np.ones((len(x), 1))
    classes = np.array(["a", "b", "c"])
    wanted_scores = (labels[:, None] == classes).astype(float)
    W, *_ = np.linalg.lstsq(np.hstack([x - x.mean(axis=0), one]), wanted_scores, rcond=None)
    mine = classes[np.argmax(np.hstack([z - x.mean(axis=0), one]) @ W, axis=1)]
    assert linear_probe(x, labels, z, wanted).accuracy == pytest.approx(np.mean(mine == wanted), abs=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_least_squares_with_a_ridge_on_states_that_are_centred_as_those_learned_from(seed):
    """The ridge as further rows of the least squares: √(λ N) times the unit matrix, whose labels are 0.

    Labels are hard to tell, so that the least change names others.
    """
    rng = np.random.default_rng(seed)
    scales, shift = np.array([1.0, 0.05, 0.02, 3.0]), np.array([5.0, -1.0, 2.0, 0.0])
    labels, wanted = rng.integers(0, 3, 60), rng.integers(0, 3, 400)
    x, z = (shift + scales * (rng.standard_normal((len(y), 4)) + 0.5 * y[:, None]) for y in (labels, wanted))
    z = z + 0.1 * scales  # another mean, which the probe must not take off
    rng = generator(seed, Stream.PROBE)
    again = rng.permutation(labels), rng.permutation(wanted)
    expected = []
    for learned, asked in ((labels, wanted), again):
        X, Z = (np.column_stack([s - x.mean(axis=0), np.ones(len(s))]) for s in (x, z))
        rows = np.vstack([X, np.sqrt(0.001 * len(X)) * np.eye(5)])
        one_hot = np.vstack([np.eye(3)[learned], np.zeros((5, 3))])
        W = np.linalg.lstsq(rows, one_hot, rcond=None)[0]
        expected.append(np.mean(np.argmax(Z @ W, axis=1) == asked))
    found = linear_probe(x, labels, z, wanted, seed)
    assert found == tuple(expected)
    assert linear_probe(x, labels, z, wanted, seed + 1).shuffled != found.shuffled
    alone = [linear_probe(x, labels, row[None], wanted[i : i + 1]).accuracy for i, row in enumerate(z[:50])]
    assert np.mean(alone) == linear_probe(x, labels, z[:50], wanted[:50]).accuracy  # each by itself, and all together


def test_features_that_say_nothing_or_the_same_twice_do_no_harm():
    (x, labels), (z, wanted) = states(), states(seed=1)
    wide = [np.column_stack([s, s[:, 0], np.full(len(s), 3.0)]) for s in (x, z)]
    assert linear_probe(wide[0], labels, wide[1], wanted).accuracy > 0.97


def test_what_does_not_fit_is_refused():
    (x, labels), (z, wanted) = states(20), states(10, seed=1)
    for how, says in (
        ((x, labels, z[:, :2], wanted), r"states are \(20, 3\) and \(10, 2\), expected \(N, D\) and \(M, D\)"),
        ((x[0], labels, z, wanted), r"states are \(3,\) and \(10, 3\)"),
        ((x, labels[:5], z, wanted), "20 states have 5 labels, expected one each"),
        ((x, labels, z, wanted[:5]), "10 states have 5 labels, expected one each"),
        ((x, labels, z[:0], wanted[:0]), "0 states have 0 labels, expected one each, and at least one"),
        ((x, np.full(20, "a"), z, wanted), "all labels are a, expected at least two different ones"),
    ):
        with pytest.raises(ValueError, match=says):
            linear_probe(*how)
