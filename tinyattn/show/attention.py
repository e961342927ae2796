"""Attention weights as heat maps: which query attends to which key."""

from typing import Any

import numpy as np

from .array_map import NUMBERS, write_numbers
from .style import HEAT, figure, in_style


@in_style
def attention_map(
    weights: np.ndarray, labels: Any = None, title: str = "", queries: Any = None, names: Any = None
) -> Any:
    """A heat map for each layer and head: rows are queries, columns keys. -> matplotlib figure.

    Shapes: weights (layers, heads, n, m), (heads, n, m) or (n, m). The m `labels` name the keys. The n `queries` name
    the queries; without them, `labels` do if n = m. With at most eight keys and queries, cells show numbers. The colour
    scale is the root of the weight, up to the largest weight below 1, so that small weights stay visible beside a
    weight of 1. Weights of 0, as under a mask, stay blank. `names` are the maps' titles in place of layers and heads.
    Raises ValueError for a wrong number of axes, labels, queries or names.
    """
    from matplotlib.colors import PowerNorm

    weights = np.asarray(weights)
    if not 2 <= weights.ndim <= 4:
        raise ValueError(f"weights have shape {weights.shape}, expected (layers, heads, n, m), (heads, n, m) or (n, m)")
    weights = weights.reshape((1,) * (4 - weights.ndim) + weights.shape)
    layers, heads, n, m = weights.shape
    keys = [str(i) for i in (range(1, m + 1) if labels is None else labels)]
    if len(keys) != m:
        raise ValueError(f"{len(keys)} labels, expected {m}, one per key")
    rows_named = queries if queries is not None else keys if n == m else range(1, n + 1)
    query_names = [str(i) for i in rows_named]
    if len(query_names) != n:
        raise ValueError(f"{len(query_names)} names of queries, expected {n}, one per query")
    titles = [f"layer {i + 1}, head {j + 1}" for i, j in np.ndindex(layers, heads)] if names is None else list(names)
    if len(titles) != layers * heads:
        raise ValueError(f"{len(titles)} names, expected {layers * heads}, one per map")
    numbered = max(n, m) <= NUMBERS
    side = min(max((0.42 if numbered else 0.26) * m, 2.4), 7.0)
    below_one = weights[weights < 0.999]                       # a query with one key has a weight of 1
    brightest = float(np.max(below_one, initial=1e-3))
    rows, columns = (layers, heads) if heads > 1 else (1, layers)            # one head a layer: layers side by side
    fig, axes = figure(rows, columns, (columns * (side + 1.3), rows * (side + 0.7)), title, squeeze=False)
    for ax, name, each in zip(axes.flat, titles, weights.reshape(-1, n, m), strict=True):
        shown = np.ma.masked_equal(each, 0)
        image = ax.imshow(shown, cmap=HEAT, norm=PowerNorm(0.5, 0, brightest), aspect="auto")
        ax.set_title(name)
        ax.set_xlabel("key: looked at")
        ax.set_ylabel("query: looking")
        _name_ticks(ax.set_xticks, m, keys, rotation=90)
        _name_ticks(ax.set_yticks, n, query_names)
        if numbered:
            write_numbers(ax, image, each)
    fig.colorbar(image, ax=axes.ravel().tolist(), fraction=0.046, pad=0.03, extend="max")
    return fig


def alignment_map(weights: np.ndarray, source: str, target: str, title: str = "") -> Any:
    """Attention from each target character, and from the end, to the source's characters. -> figure.

    Shapes: weights (layers, heads, n + 1, m), with m characters in the source and n in the target.
    """
    return attention_map(weights, list(source), title, queries=[*target, "end"])


def _name_ticks(set_ticks: Any, n: int, names: list[str], **how: Any) -> None:
    every = -(-n // 40)                      # more than 40 labels would overlap
    set_ticks(range(0, n, every), names[::every], fontsize=7, **how)
