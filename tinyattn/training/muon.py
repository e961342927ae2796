"""Muon (Jordan et al. 2024): the step of a weight matrix is its momentum, with all singular values brought near 1."""

import math
from collections.abc import Iterator
from typing import Any

from ..backend import Array, get_xp
from ..tree import leaves

BETA = 0.95
A, B, C = 3.4445, -4.7750, 2.0315          # p(σ) = Aσ + Bσ³ + Cσ⁵ lifts small values fast, and then stays near 1
TIMES = 5
SHARE = 0.2                                # of the learning rate: the usual size of an entry of Adam's step


def orthogonal(G: Array) -> Array:
    """X = U p(p(p(p(p(Σ / ‖G‖))))) Vᵀ, where G = U Σ Vᵀ and p(σ) = 3.4445 σ - 4.775 σ³ + 2.0315 σ⁵.

    Shapes: G and X (n, m). X Xᵀ X = U Σ³ Vᵀ: an odd polynomial of products acts on singular values alone. Those
    above 0.01 ‖G‖ come between 0.68 and 1.14, smaller ones below 1.21; zeros stay zeros. (Jordan et al. 2024.)
    """
    xp = get_xp(G)
    X = G.T if G.shape[0] > G.shape[1] else G                   # X Xᵀ is the smaller of the two products
    X = X / (xp.sqrt(xp.sum(X * X)) + 1e-20)
    for _ in range(TIMES):
        square = X @ X.T
        X = A * X + (B * square + C * (square @ square)) @ X
    return X.T if G.shape[0] > G.shape[1] else X


def muon(
    matrix: Array, gradient: Array, momentum: Array, *, lr: float = 1e-3, weight_decay: float | Array = 0.0
) -> None:
    """One step: matrix -= lr · (λ · matrix + 0.2 √max(n, m) · orthogonal(β u + g)), after u = β u + g, with β = 0.95.

    Shapes: all (n, m); matrix and momentum u are written in place. λ = `weight_decay` is a number, or one for each
    entry. Entries of an orthogonal matrix have the size 1 / √max(n, m): the factor makes a step as large as Adam's
    usual one, so that one learning rate suits both (Liu et al. 2025, equation 4). β u + g is Nesterov's momentum.
    """
    momentum *= BETA
    momentum += gradient
    matrix -= lr * (weight_decay * matrix)
    matrix -= lr * SHARE * math.sqrt(max(matrix.shape)) * orthogonal(BETA * momentum + gradient)


def matrices_of(p: Any) -> Iterator[str]:
    """The dotted names of the weight matrices of a tree: layers call them W or U, with or without more (W_in, Wq).

    Tables, kernels of convolutions and a scan's rates have other names.
    """
    for name, leaf in leaves(p):
        if name.rpartition(".")[2].startswith(("W", "U")) and leaf.ndim == 2:
            yield name
