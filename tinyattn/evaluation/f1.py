"""F1 of classes."""

import numpy as np


def macro_f1(found: np.ndarray, labels: np.ndarray) -> float:
    """The mean over labels of F1 = 2 TP / (2 TP + FP + FN), which treats rare labels as frequent ones.

    The mean is over labels that occur in either array. Shapes: found (N,), labels (N,). Raises ValueError for other
    shapes, and for none.
    """
    if found.shape != labels.shape or not labels.size:
        raise ValueError(f"found is {found.shape} and labels {labels.shape}, expected (N,) twice, and one at least")
    named = np.union1d(found, labels)[:, None]
    right = np.sum((found == named) & (labels == named), axis=1)
    return float(np.mean(2 * right / (np.sum(found == named, axis=1) + np.sum(labels == named, axis=1))))
