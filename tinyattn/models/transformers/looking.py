"""Attention and receptive fields of models of images."""

import math
from typing import Any

import numpy as np

from ... import backend
from ...ops import conv2d_backward
from .image_model import ImageModel


def rollout(weights: list[np.ndarray]) -> np.ndarray:
    """R = Ã_L ... Ã_2 Ã_1, with Ã = ½ mean of the heads' A + ½ I: attention rolled out (Abnar & Zuidema 2020, sec. 3).

    The ½ I stands for the residual. Row i has the share of each of the first block's tokens in token i. It is no
    derivative: values and feed-forward networks are left out.
    Shapes: weights, of each block (..., heads, n, n) -> (..., n, n). Raises ValueError where blocks differ in n.
    """
    sizes = [w.shape[-1] for w in weights]
    if len(set(sizes)) != 1:
        raise ValueError(f"rollout is for blocks of the same tokens, and these have {', '.join(map(str, sizes))}")
    R = np.eye(sizes[0])
    for w in weights:
        R = (0.5 * w.mean(axis=-3) + 0.5 * np.eye(sizes[0])) @ R
    return R


def attention_distance(weights: list[np.ndarray], height: int, width: int, read: int = 0) -> np.ndarray:
    """Σ_ij A_ij |place of i - place of j| / Σ_ij A_ij, in pixels (Dosovitskiy et al. 2021, figure 7).

    Uniform attention has `uniform_distance`. The first `read` tokens are no patches and are left out. Shapes: weights,
    of each block (N, heads, n, n) -> (blocks, most heads), with NaN where a block has fewer heads.
    """
    distances = np.full((len(weights), max(w.shape[1] for w in weights)), np.nan)
    for block, w in enumerate(weights):
        among = w[:, :, read:, read:]
        far = _distances(among.shape[-1], height, width)
        distances[block, : w.shape[1]] = np.sum(among * far, axis=(0, 2, 3)) / np.sum(among, axis=(0, 2, 3))
    return distances


def uniform_distance(patches: int, height: int, width: int) -> float:
    """The mean distance of two patches, in pixels: the `attention_distance` of uniform weights."""
    return float(np.mean(_distances(patches, height, width)))


def distances_by_head(model: ImageModel, images: Any) -> dict[str, dict[str, float]]:
    """{"block 1": {"head 1": .., "mean": .., "alike": ..}}: `attention_distance` of a model, in pixels, block by block.

    "alike" is `uniform_distance`; a block whose mean is well below it looks at near patches. `images` and errors are
    those of `ImageModel.attention`.
    """
    weights, read, (height, width, _) = model.attention(images), model.network.read, model.shape
    table = {}
    for i, heads in enumerate(attention_distance(weights, height, width, read), start=1):
        known = [float(far) for far in heads if far == far]                   # NaN where the block has no such head
        alike = uniform_distance(weights[i - 1].shape[-1] - read, height, width)
        named = {f"head {head}": far for head, far in enumerate(known, start=1)}
        table[f"block {i}"] = named | {"mean": float(np.mean(known)), "alike": alike}
    return table


def _distances(patches: int, height: int, width: int) -> np.ndarray:
    """(patches, patches), in pixels: patches are squares, row by row."""
    side = math.isqrt(height * width // patches)
    row, column = np.divmod(np.arange(patches), width // side)
    return side * np.hypot(row[:, None] - row, column[:, None] - column)


def receptive_field(model: ImageModel, image: Any, token: int | None = None) -> np.ndarray:
    """‖∂ token / ∂ standardised pixel‖ of a token of the last block. Shapes: image (H, W) or (H, W, C) -> (H, W).

    The token is a patch, by default the middle one. The Jacobian is exact: one backward for each of its D features.
    Raises ValueError for an image of another size than the training images, and for an unknown patch.
    """
    network, p = model.network, model.parameters
    (pixels,) = model.standardised(np.asarray(image)[None])
    images = backend.asarray(pixels[None], like=p["norm"]["gamma"])
    x, _ = network.encode(p, images)
    n, dim = x.shape[1] - network.read, x.shape[2]
    rows = math.isqrt(n * network.height // network.width)
    token = (rows // 2) * (n // rows) + n // rows // 2 if token is None else token
    if not 0 <= token < n:
        raise ValueError(f"token is {token}, expected 0 to {n - 1}: there are {n} patches in the last block")
    xp = backend.get_xp(x)
    _, cache = network.encode(p, xp.concatenate([images] * dim))
    dx = xp.zeros((dim, *x.shape[1:]), dtype=x.dtype)
    dx[xp.arange(dim), network.read + token, xp.arange(dim)] = 1
    dimages, _ = network.encode_backward(p, dx, cache)
    return np.sqrt(np.sum(backend.to_numpy(dimages).astype(np.float64) ** 2, axis=(0, 3)))


def convolution_field(height: int, width: int, layers: int, kernel: int = 3) -> np.ndarray:
    """∂ y / ∂ pixel (height, width), of sum <= 1, for the middle output y of `layers` convolutions with mean kernels.

    Each layer adds (kernel - 1) / 2 pixels on all sides; most of the gradient is near the middle (Luo et al. 2016).
    """
    W = np.full((kernel, kernel, 1, 1), 1 / kernel**2)
    dx = np.zeros((height, width, 1))
    dx[height // 2, width // 2] = 1
    for _ in range(layers):
        dx, _ = conv2d_backward(dx, np.zeros_like(dx), W)
    return dx[..., 0]
