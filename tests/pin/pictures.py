"""What pictures and pages show: matplotlib's artists with their numbers, and the data of each view."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.ticker import FixedLocator

from tests.pin.training import trained
from tinyattn import ops, show
from tinyattn.experiments.pictures import Curves, Dot, Dots, Maps
from tinyattn.show.views import Goal, mirror, player, visualise, visualise_text


def described(figure: Any) -> dict[str, Any]:
    """Axes by axes; ticks where somebody has set them."""
    found = {
        "size": figure.get_size_inches(),
        "texts": [text.get_text() for text in figure.texts],
        "legends": [[text.get_text() for text in legend.get_texts()] for legend in figure.legends],
        "axes": [of_axes(ax) for ax in figure.axes],
    }
    plt.close(figure)
    return found


def of_axes(ax: Any) -> dict[str, Any]:
    ticks = {name: [axis.get_ticklocs(), [label.get_text() for label in axis.get_ticklabels()]]
             for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)) if isinstance(axis.get_major_locator(), FixedLocator)}
    return {
        "titles": [ax.get_title(loc) for loc in ("left", "center")],
        "labels": [ax.get_xlabel(), ax.get_ylabel()],
        "limits": [ax.get_xlim(), ax.get_ylim()],
        "ticks": ticks,
        "lines": [[line.get_label(), line.get_linestyle(), str(line.get_marker()), to_hex(line.get_color()),
                   *_summed(np.asarray(line.get_xydata(), dtype=float))] for line in ax.lines],
        "bars": [[bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height(), to_hex(bar.get_facecolor())]
                 for bar in ax.patches if hasattr(bar, "get_height")],
        "images": [[*_summed(np.ma.filled(image.get_array(), -7.0)), *image.get_clim(), image.get_cmap().name]
                   for image in ax.images],
        "marks": [_summed(np.ma.filled(c.get_offsets(), -7.0)) for c in ax.collections],
        "texts": [[*text.get_position(), text.get_text(), to_hex(text.get_color())] for text in ax.texts],
        "legend": [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else [],
    }  # fmt: skip


def _summed(x: np.ndarray) -> list[Any]:
    """Shape, sum, and the sum with weights that tell every place from every other."""
    weights = np.cos(np.arange(x.size)).reshape(x.shape)
    return [x.shape, float(np.nansum(x)), float(np.nansum(x * weights))]


def of_view(view: Any) -> dict[str, Any]:
    """Its kind, title and table, and the data: numbers as they are, a checksum of long texts."""
    words = re.sub(r"[-\d.e]+", "#", view.table)
    return {"kind": view.kind, "title": view.title, "table": zlib.crc32(words.encode()), "data": _short(json.loads(
        json.dumps(view.data, default=lambda x: x.tolist())))}  # fmt: skip


def _short(x: Any) -> Any:
    if isinstance(x, dict) and x.keys() == {"f4"}:          # float32, packed
        return _summed(np.frombuffer(base64.b64decode(x["f4"]), dtype="<f4").astype(float))
    if isinstance(x, dict):
        return {key: _short(value) for key, value in x.items()}
    if isinstance(x, list):
        if len(x) > 6 and all(isinstance(entry, int | float) for entry in x):
            return _summed(np.array(x, dtype=float))
        return [_short(entry) for entry in x[:8]] + [len(x)]
    return x if not isinstance(x, str) or len(x) < 120 else zlib.crc32(x.encode())


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape)


WEIGHTS = drawn(2, 3, 24, 24)
WEIGHTS /= WEIGHTS.sum(axis=-1, keepdims=True)
HISTORY = [{"epoch": e, "loss": 1 / e, "valid": 0.05 if e == 3 else e / 10, "gradient_norm": 2 / e} for e in (1, 2, 3)]
ROWS = {"popularity": {"hr@10": 0.2, "ndcg@10": 0.1}, "markov": {"hr@10": 0.3, "ndcg@10": 0.15},
        "sasrec": {"hr@10": 0.5, "ndcg@10": 0.3}, "optimum": {"hr@10": 0.6, "ndcg@10": 0.4}}  # fmt: skip

PANELS = {f"panel {i}": {f"row {j}": ([1, 2, 3], [i, j, i * j + 1.0]) for j in range(1, 3)} for i in range(1, 4)}
CURVES = Curves("curves", "epoch", "loss", PANELS, "half", {"panel 2": 0.5})
DOTS = Dots("dots", "NDCG", {f"data {i}": {f"row {j}": Dot([0.1 * i, 0.1 * j, 0.3], 0.2 if j == 1 else None)
                                          for j in range(1, 4)} for i in range(1, 4)})  # fmt: skip
MAPS = Maps("maps", {"one": {"a": [[1.0], [0.4, 0.6]], "b": [[1.0], [0.1, 0.9]]}, "two": {"a": [[1.0], [0.7, 0.3]]}})


def of_trace() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((3, 2)) for _ in range(3))
    found = show.trace(ops.attention, q, k, v, backward=ops.attention_backward)
    return {"table": str(found).splitlines()[1:], "page": of_view(player(found))}


def of_mirror(*algorithm: str, **how: Any) -> dict[str, Any]:
    return of_view(mirror(["a", "b", "c"], *algorithm, seed=3, **how))


def of_history() -> dict[str, Any]:
    model = trained("sasrec")
    return of_view(visualise(model, model.items.ids[[3, 0, 7]].tolist()))


def of_text() -> dict[str, Any]:
    """Without its keys: their bias has no gradient, and goes wherever rounding takes it in sixty steps."""
    found = of_view(visualise_text("the cat sat on the mat"))
    for run in found["data"]["runs"][:-1]:
        for layer in run["layers"][:-1]:
            del layer["k"]
    return found


CASES: dict[str, Callable[[], Any]] = {
    "array": lambda: described(show.array_map(drawn(3, 4) - 0.4, "x")),
    "attention": lambda: described(show.attention_map(WEIGHTS, [f"i{i}" for i in range(24)], "who looks")),
    "attention, alignment": lambda: described(show.alignment_map(WEIGHTS[..., :4, :4], "abcd", "xyz", "align")),
    "attention, looking": lambda: described(show.looking_picture(WEIGHTS, [f"t{i}" for i in range(24)], 5)),
    "curves": lambda: described(show.training_curves(HISTORY, "learning")),
    "curves, bars": lambda: described(show.metric_bars(ROWS, ("hr@10", "ndcg@10"), "sasrec", "metrics")),
    "images": lambda: described(show.rollout_map(drawn(3, 8, 8, 1), drawn(3, 4, 4), ["a", "b", "c"], "roll")),
    "images, distances": lambda: described(show.distance_plot(drawn(2, 3), 0.5, "far")),
    "images, field": lambda: described(show.field_map({"vit": np.eye(4), "conv": np.ones((4, 4))}, "field")),
    "experiment, curves": lambda: described(show.draw_picture(CURVES)),
    "experiment, dots": lambda: described(show.draw_picture(DOTS)),
    "experiment, maps": lambda: described(show.draw_picture(MAPS)),
    "trace": of_trace,
    "mirror": of_mirror,
    "mirror of layer norm": lambda: of_mirror("layer_norm"),
    "mirror, heads": lambda: of_mirror(heads=2, mask=np.tri(3, dtype=bool), goal=Goal("turn it", 1, 0, 0.5), scale=0.3),
    "view of a history": of_history,
    "view of a text": of_text,
}
