"""Any array as a figure: bars for a vector, a heat map for a matrix, small maps side by side for more axes."""

from typing import Any

import numpy as np

from .style import BLUE, HEAT, INK, figure, in_style

SIGNED = "PuOr_r"        # orange above zero, violet below, white at zero
MOST = 12                # the most small maps along an axis
NUMBERS = 8              # cells show numbers if there are at most this many rows and columns


@in_style
def array_map(x: np.ndarray, title: str = "") -> Any:
    """-> matplotlib figure. Shapes: x (d,) bars; (n, m) a heat map; (h, n, m) h heat maps; (..., h, n, m) rows of h.

    All maps share a colour scale: from 0 if no entry is negative, else symmetric around 0, which is white. Entries that
    are not finite stay blank. Along an axis at most twelve small maps are drawn; if there are more, the title says so.
    Raises ValueError for a single number, and for an empty array.
    """
    x = np.asarray(x)
    if not x.ndim or not x.size:
        raise ValueError(f"the array has shape {x.shape}: expected numbers along at least one axis")
    x = np.real(x) if x.dtype.kind == "c" else x
    boolean = x.dtype.kind == "b"
    if x.ndim == 1:
        return _bars(x, f"{title}  {x.shape}")
    maps = x.reshape(-1, *x.shape[-3:]) if x.ndim > 3 else x.reshape(1, *(1,) * (3 - x.ndim), *x.shape)
    shown = maps[:MOST, :MOST]
    cut = "" if shown.shape == maps.shape else f", the first {' x '.join(map(str, shown.shape[:2]))} maps"
    rows, columns, n, m = shown.shape
    width, height = (min(max(0.42 * size, 1.5), 5.0 if rows * columns == 1 else 2.6) for size in (m, n))
    size = (max(columns * width + 1.4, 3.2), rows * (height + 0.35) + 0.6)
    fig, axes = figure(rows, columns, size=size, squeeze=False)
    colours = _colours(shown)
    for (i, j), ax in np.ndenumerate(axes):
        image = draw_map(ax, shown[i, j], colours)
        if maps.shape[:2] != (1, 1):
            ax.set_title(f"[{f'{i}, {j}' if len(maps) > 1 else j}]", fontsize=8)
        if max(n, m) <= NUMBERS and rows * columns <= 4:
            write_numbers(ax, image, shown[i, j])
    if not boolean:
        fig.colorbar(image, ax=axes.ravel().tolist(), fraction=0.05, pad=0.03)
    legend = "  (dark: False, light: True)" if boolean else ""
    fig.suptitle(f"{title}  {x.shape}{cut}{legend}", x=0.01, ha="left", fontsize=10)
    return fig


def draw_map(ax: Any, x: np.ndarray, colours: dict[str, Any] | None = None) -> Any:
    """Draw a heat map into `ax`. -> the image. Shapes: x (n, m)."""
    n, m = x.shape
    finite = np.ma.masked_invalid(x.astype(float))
    image = ax.imshow(finite, aspect="auto", **(colours or _colours(x)))
    ax.set_xticks(_ticks(m))
    ax.set_yticks(_ticks(n))
    ax.tick_params(labelsize=7, length=2)
    for side in ax.spines.values():
        side.set_visible(True)
    return image


def _colours(x: np.ndarray) -> dict[str, Any]:
    finite = x[np.isfinite(x)].astype(float)
    low, high = float(np.min(finite, initial=0.0)), float(np.max(finite, initial=0.0))
    if low < 0:
        largest = max(-low, high)
        return {"cmap": SIGNED, "vmin": -largest, "vmax": largest}
    return {"cmap": HEAT, "vmin": 0, "vmax": high or 1.0}


def write_numbers(ax: Any, image: Any, x: np.ndarray) -> None:
    """Write each number of a heat map into its cell, except masked numbers."""
    for (i, j), value in np.ndenumerate(x):
        if np.isfinite(value) and np.ma.getmaskarray(image.get_array())[i, j]:
            continue
        red, green, blue, _ = image.cmap(image.norm(float(value))) if np.isfinite(value) else (1, 1, 1, 1)
        dark = 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
        text = {True: "T", False: "F"}[bool(value)] if x.dtype.kind == "b" else f"{value + 0:.2g}"
        ax.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")


def _bars(x: np.ndarray, title: str) -> Any:
    fig, ax = figure(size=(min(max(0.3 * len(x), 3.2), 8.0), 2.4))
    ax.bar(np.arange(len(x)), np.ma.masked_invalid(x.astype(float)), color=BLUE)
    ax.axhline(0, color=INK, linewidth=0.6)
    ax.set_xticks(_ticks(len(x)))
    ax.set_title(title)
    return fig


def _ticks(n: int) -> range:
    return range(0, n, -(-n // 8))
