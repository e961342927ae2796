"""AdamW: Adam with weight decay that does not pass through the moments (Loshchilov & Hutter 2019, algorithm 2)."""

from typing import Any

import numpy as np

from ..backend import Array
from ..tree import leaves, views
from .adam import Moments, adam


def adamw(
    vector: Array,
    gradient: Array,
    moments: Moments,
    step: int | tuple[Array, Array],
    *,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.98,
    eps: float = 1e-8,
    weight_decay: float | Array = 0.01,
) -> None:
    """One step: vector -= lr · (λ · vector + m̂ / (√v̂ + eps)), written into `vector` and `moments`; `step` is from 1 on.

    m̂ and v̂ are those of `adam`. Shapes: vector, gradient, m, v (P,).
    λ = `weight_decay` is a number, or one for each parameter. Added to the gradient instead, as L2 regularisation, it
    would be divided by √v̂: parameters with large gradients would then hardly decay. The paper multiplies λ by the
    schedule alone; here, as in PyTorch, by lr as well.
    """
    vector -= lr * (weight_decay * vector)
    adam(vector, gradient, moments, step, lr=lr, beta1=beta1, beta2=beta2, eps=eps)


def decay_of(model: Any, p: Any, weight_decay: float) -> np.ndarray:
    """(P,) float32: the weight decay of each parameter of the tree `p`, in its order.

    The shape decides: arrays with two axes or more and rows of more than one number decay, which are weight matrices
    and tables of embeddings. Biases, even in tables with one number a row, and gains of norms do not. A row of padding
    is 0, and stays 0. A model whose tables hold biases among other numbers has `undecayed(tree)`: the views of a tree
    shaped like p that do not decay.
    """
    vector = np.full(sum(leaf.size for _, leaf in leaves(p)), weight_decay, np.float32)
    tree = views(vector, p)
    spared = [leaf for _, leaf in leaves(tree) if leaf.ndim < 2 or leaf.shape[-1] == 1]
    for part in [*spared, *(model.undecayed(tree) if hasattr(model, "undecayed") else [])]:
        part[...] = 0
    return vector
