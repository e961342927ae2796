"""Linear probes: the accuracy of a linear map from a model's states to labels (Alain & Bengio 2016)."""

from typing import NamedTuple

import numpy as np

from ..random import Stream, generator

RIDGE = 1e-3             # λ, against directions without variance


class Probed(NamedTuple):
    """Accuracies on the test part."""

    accuracy: float
    shuffled: float      # of the control, with shuffled labels


def linear_probe(
    train: np.ndarray, labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray, seed: int = 0
) -> Probed:
    """W = (XᵀX / N + λ I)⁻¹ XᵀY / N, with Y one-hot: least squares in closed form, with nothing to tune.

    λ = 0.001; X is centred and has a column of ones. The control is trained and tested on labels shuffled by `seed`:
    except by chance, it is no better than a guess of the commonest label.
    Shapes: train (N, D), labels (N,), test (M, D), test_labels (M,). Raises ValueError for shapes that do not fit, and
    for fewer than two different labels.
    """
    if train.ndim != 2 or test.ndim != 2 or train.shape[1] != test.shape[1]:
        raise ValueError(f"states are {train.shape} and {test.shape}, expected (N, D) and (M, D)")
    for states, of in ((train, labels), (test, test_labels)):
        if of.shape != (len(states),) or not len(states):
            raise ValueError(f"{len(states)} states have {of.size} labels, expected one each, and at least one")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"all labels are {classes[0]}, expected at least two different ones")
    rng = generator(seed, Stream.PROBE)
    mean = train.mean(axis=0, dtype=np.float64)
    X, Z = _features(train, mean), _features(test, mean)
    accuracies = []
    for fitted, tested in ((labels, test_labels), (rng.permutation(labels), rng.permutation(test_labels))):
        Y = (fitted[:, None] == classes).astype(np.float64)
        W = np.linalg.solve(X.T @ X / len(X) + RIDGE * np.eye(X.shape[1]), X.T @ Y / len(X))
        accuracies.append(float(np.mean(classes[np.argmax(Z @ W, axis=1)] == tested)))
    return Probed(*accuracies)


def _features(states: np.ndarray, mean: np.ndarray) -> np.ndarray:
    centred = states.astype(np.float64) - mean
    return np.concatenate([centred, np.ones((len(centred), 1))], axis=1)
