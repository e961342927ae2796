"""F1 of classes."""

import numpy as np


def macro_f1(predicted: np.ndarray, labels: np.ndarray) -> float:
    """The mean over labels of F1 = 2 TP / (2 TP + FP + FN): rare labels count as much as frequent ones.

    The mean is over labels that occur in either array (Opitz & Burst 2019, "averaged F1"). Shapes: predicted (N,),
    labels (N,). Raises ValueError for other shapes, for none, and for numbers beside texts.
    """
    if predicted.shape != labels.shape or labels.ndim != 1 or not labels.size:
        raise ValueError(f"predicted is {predicted.shape}, labels {labels.shape}, expected (N,) twice, N at least 1")
    if (predicted.dtype.kind == "U") != (labels.dtype.kind == "U"):
        raise ValueError(f"predicted is {predicted.dtype}, labels {labels.dtype}: 1 and '1' are not the same label")
    each = np.union1d(predicted, labels)[:, None]
    right = np.sum((predicted == each) & (labels == each), axis=1)
    return float(np.mean(2 * right / (np.sum(predicted == each, axis=1) + np.sum(labels == each, axis=1))))
