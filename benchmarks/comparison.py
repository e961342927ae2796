"""Count what attention, its cheaper variants, recurrence and convolution cost, and how far each layer reaches.

    python benchmarks/comparison.py

Textbooks and surveys compare these layers by formulas; here the library's own layers are counted, beside the formulas.
Multiply-adds, numbers kept for the backward, and the longest chain of dependent calls are counted while a layer
computes (benchmarks/counting.py). The receptive field of an output is the set of inputs to which it gives a nonzero
gradient. The path length is the number of stacked layers that connect every pair of tokens. Parameters are those of
`init`.
Writes benchmarks/results/comparison.json and .md and figures/scaling.svg. Nothing is timed.
"""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.counting import chain, counted, counting, kept
from benchmarks.machine import RESULTS, ROOT, describe, read_no_arguments, write_pages, write_pictures, write_result
from tinyattn.fast.tiles import FlashCache, FusedCache
from tinyattn.layers import MECHANISMS, MIXERS, Mixer, MultiHead
from tinyattn.layers.mechanisms.full import Full
from tinyattn.layers.mechanisms.linear import Linear, LinearCache
from tinyattn.ops import (
    Mask,
    conv1d,
    conv1d_backward,
    flash_attention,
    fused_attention,
    gru_backward,
    linear_attention,
)
from tinyattn.ops import gru as gru_op
from tinyattn.ops.attention.window_attention import window_shape
from tinyattn.show.style import BLUE, GREEN, GREY, ORANGE, PURPLE, figure, in_style, label_ends
from tinyattn.tree import leaves, tree_map

RESULT, PAGE, PICTURE = RESULTS / "comparison.json", RESULTS / "comparison.md", ROOT / "figures" / "scaling.svg"
SIZES, WIDTH = (512, 1024, 2048, 4096), 64  # n and d for the counts
REACHED, NARROW = 128, 8  # n and d for receptive fields
STEPS = (128, 256, 512)  # n for the longest chain of calls
RATIOS, WIDTHS = (0.25, 0.5, 1, 2, 4), (32, 64, 128)  # n / d, and d, where whole layers are compared with a GRU
KERNEL = 3


@dataclass(frozen=True)
class Convolution(Mixer):
    """y_t = Σ_j x_{t - j s} W_j + b for j < k, s = `dilation`: causal, zeros before the first token."""

    kernel: int = KERNEL
    dilation: int = 1

    name = "convolution"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        limit = np.sqrt(3 / (self.kernel * dim))
        return {"W": rng.uniform(-limit, limit, (self.kernel, dim, dim)), "b": np.zeros(dim)}

    def forward(self, p: Any, x: Any, memory: Any = None, **context: Any) -> tuple[Any, Any]:
        return conv1d(x, p["W"], self.dilation, "causal") + p["b"], x

    def backward(self, p: Any, dy: Any, cache: Any) -> tuple[Any, None, dict[str, Any]]:
        dx, dW = conv1d_backward(dy, cache, p["W"], self.dilation, "causal")
        return dx, None, {"W": dW, "b": dy.sum(axis=(0, 1))}


@dataclass(frozen=True)
class Kept(Full):
    """Full attention that keeps its weights for the backward, at every sequence length."""

    def forward(self, p: Any, q: Any, k: Any, v: Any, mask: Mask, *_: Any) -> Any:
        out, cache = fused_attention(q, k, v, mask)
        return out, FusedCache(*cache)


@dataclass(frozen=True)
class MadeAgain(Full):
    """Full attention whose backward recomputes the weights, at every sequence length."""

    def forward(self, p: Any, q: Any, k: Any, v: Any, mask: Mask, *_: Any) -> Any:
        out, L = flash_attention(q, k, v, mask)
        return out, FlashCache(q, k, v, out, L, mask)


@dataclass(frozen=True)
class RecurrentLinear(Linear):
    """Linear attention as a recurrence: the state is carried from token to token."""

    def forward(self, p: Any, q: Any, k: Any, v: Any, mask: Mask, *_: Any) -> Any:
        out, denominator = linear_attention(q, k, v, mask.causal, form="recurrent")
        return out, LinearCache(q, k, v, out, denominator, mask.causal, None)


@dataclass(frozen=True)
class Theory:
    """The theory in a layer's row. `own(mixer, n, d)` is the exact number of multiply-adds."""

    sources: str
    formula: str = ""
    own: Callable[[Any, int, int], int] | None = None
    grows: float | None = None  # multiply-adds grow with this power of n
    path: str = "O(1)"


def _blocks(mixer: Any, n: int, d: int) -> int:
    return sum(2 * pattern.layout(n).pairs * d for pattern in mixer.mechanism.patterns(False, 1))


def _longformer(mixer: Any, n: int, d: int) -> int:
    (pattern,) = mixer.mechanism.patterns(False, 1)
    projections = n * len(mixer.mechanism.init_projections(np.random.default_rng(0), d, d, False)) * d * d
    return _blocks(mixer, n, d) + 2 * pattern.of_globals(n).pairs * d + projections


def _window(mixer: Any, n: int, d: int) -> int:
    chunks, c, width = window_shape(n, mixer.mechanism.window, causal=False)
    return 2 * chunks * c * width * d


THEORY = {
    "full": Theory("O(n² d)", "2 n² d", lambda _, n, d: 2 * n * n * d, 2),
    "window": Theory("O(n d)", "2 n · 3 c · d, c = max(w - 1, 16)", _window, 1, "O(n / w)"),
    "longformer": Theory("O(n d)", "2 pairs d + 3 n d²", _longformer, 1),
    "bigbird": Theory("O(n d)", "2 pairs d", _blocks, 1),
    "strided": Theory("O(n √n d)", "2 pairs d", _blocks, 2),
    "linear": Theory("O(n d²)", "2 n d (d + 1)", lambda _, n, d: 2 * n * d * (d + 1), 1),
    "performer": Theory("O(n d²)", "2 n m (2 d + 1)", lambda l, n, d: 2 * n * l.mechanism.features * (2 * d + 1), 1),
    "gru": Theory("O(n d²)", "6 n d²", lambda _, n, d: 6 * n * d * d, 1, "O(n)"),
    "convolution": Theory("O(k n d²)", "k n d²", lambda m, n, d: m.kernel * n * d * d, 1, "O(log_k n)"),
}
RECURRENT, DILATED = "linear, as a recurrence", "convolution, dilated by k^l"
MADE_AGAIN = "full, weights made again"
THEORY[MADE_AGAIN] = THEORY["full"]
THEORY[RECURRENT] = Theory("O(n d²)", "n d (d + 1), and as much in sums", lambda _, n, d: n * d * (d + 1), 1)
THEORY[DILATED] = THEORY["convolution"]


@dataclass(frozen=True)
class Layer:
    """A row: `at(depth)` is the mixer at that depth. `causal`: the layer exists in a causal form only."""

    name: str
    at: Callable[[int], Mixer]
    causal: bool = False

    @property
    def mixer(self) -> Mixer:
        return self.at(0)

    @property
    def theory(self) -> Theory:
        return THEORY.get(self.name, Theory(""))

    @property
    def options(self) -> str:
        """The options of the mechanism or mixer that are the same at every depth."""
        parts: list[Any] = [getattr(self.at(depth), "mechanism", self.at(depth)) for depth in (0, 1)]
        first, second = parts
        given = [(field.name, getattr(first, field.name)) for field in fields(first)]
        return ", ".join(f"{name} {value}" for name, value in given if value == getattr(second, name))

    def around(self, n: int, d: int) -> int:
        """Multiply-adds of the four projections, the same for every mechanism; 0 without attention."""
        return 4 * n * d * d if isinstance(self.mixer, MultiHead) else 0


def layers() -> list[Layer]:
    """Every mechanism of the library, every other mixer, and the layers that exist only for this comparison."""

    def alike(name: str, mixer: Mixer, causal: bool = False) -> Layer:
        return Layer(name, lambda _: mixer, causal)

    return [
        alike("full", MultiHead(1, Kept())),
        alike(MADE_AGAIN, MultiHead(1, MadeAgain())),
        *(alike(name, MultiHead(1, kind())) for name, kind in MECHANISMS.items() if name != "full"),
        alike(RECURRENT, MultiHead(1, RecurrentLinear()), causal=True),
        *(alike(name, kind(), causal=True) for name, kind in MIXERS.items() if kind is not MultiHead),
        alike("convolution", Convolution(), causal=True),
        Layer(DILATED, lambda depth: Convolution(dilation=KERNEL**depth), causal=True),
    ]


def parameters(mixer: Mixer, d: int) -> int:
    return sum(leaf.size for _, leaf in leaves(mixer.init(np.random.default_rng(0), d)))


def cost(mixer: Mixer, n: int, d: int, causal: bool) -> dict[str, int]:
    """Counts for the forward of one float32 sequence: products, other entries, longest chain of calls, numbers kept."""
    rng = np.random.default_rng(0)
    p = counted(tree_map(lambda w: w.astype(np.float32), mixer.init(rng, d)))
    x = counted(rng.standard_normal((1, n, d), dtype=np.float32))
    with counting() as counts:
        y, cache = mixer.forward(p, x, mask=Mask(causal=causal))
    return {"products": counts.products, "entries": counts.entries, "chain": chain(y), "kept": kept(cache, p)}


def support(mixer: Mixer, n: int, d: int, causal: bool) -> np.ndarray:
    """Which inputs an output depends on: (n outputs, n inputs) boolean, from the layer's backward.

    The batch repeats one sequence n times; copy i gets an output gradient at position i alone.
    """
    rng = np.random.default_rng(0)
    p = mixer.init(rng, d)
    x = np.repeat(rng.standard_normal((1, n, d)), n, axis=0)
    dy = np.zeros_like(x)
    dy[np.arange(n), np.arange(n)] = rng.standard_normal((n, d))
    _, cache = mixer.forward(p, x, mask=Mask(causal=causal))
    return np.any(mixer.backward(p, dy, cache)[0] != 0, axis=-1)


def state_step(n: int, d: int) -> np.ndarray:
    """As `support`, for one step of a GRU: does state t depend on token t, and on state t - 1?"""
    rng = np.random.default_rng(0)
    x, h0, dh = rng.standard_normal((1, d)), rng.standard_normal(d), rng.standard_normal((1, d))
    W, U, b, c = (rng.standard_normal(shape) for shape in ((d, 3 * d), (d, 3 * d), 3 * d, 3 * d))
    dx, *_, dh0 = gru_backward(dh, x, W, U, *gru_op(x, W, U, b, c, h0), h0)
    return (np.any(dx != 0) * np.eye(n) + np.any(dh0 != 0) * np.eye(n, k=-1)).astype(bool)


def hops(supports: Iterable[np.ndarray], goal: np.ndarray) -> int | None:
    """The number of layers with these supports that connects all pairs of the goal; None if no number does.

    Layers stand in residual blocks, so a token always reaches itself.
    """
    reached = np.eye(len(goal), dtype=bool)
    for depth, found in enumerate(supports, 1):
        before, reached = reached, ((found | np.eye(len(goal), dtype=bool)).astype(np.float32) @ reached) > 0
        if np.all(reached[goal]):
            return depth
        if np.array_equal(before, reached):
            return None
    return None


def path(layer: Layer, n: int, d: int) -> tuple[int, int | None]:
    """The receptive field of one layer, and how many layers (for a GRU: steps of its state) connect every pair."""
    goal = np.tri(n, dtype=bool) if layer.causal else np.ones((n, n), dtype=bool)
    first = support(layer.mixer, n, d, layer.causal)
    field = int(first.sum(axis=1).max())
    if layer.name == "gru":
        return field, hops((state_step(n, d) for _ in count()), goal)
    if layer.at(0) is layer.at(1):
        return field, hops((first for _ in count()), goal)
    return field, hops((support(layer.at(depth), n, d, layer.causal) for depth in count()), goal)


def exponent(sizes: Iterable[int], values: Iterable[float]) -> float:
    """b of the line through log values = a + b log sizes."""
    return round(float(np.polyfit(np.log(list(sizes)), np.log(list(values)), 1)[0]), 2) + 0.0  # never -0


def measure() -> dict[str, Any]:
    rows = {}
    for layer in layers():
        mixer, takes = layer.mixer, getattr(getattr(layer.mixer, "mechanism", None), "takes", {"causal"})
        found = [cost(mixer, n, WIDTH, layer.causal) for n in SIZES]
        causal = found if layer.causal else [cost(mixer, n, WIDTH, True) for n in SIZES if "causal" in takes]
        field, reached = path(layer, REACHED, NARROW)
        rows[layer.name] = {
            "options": layer.options,
            "causal only": layer.causal,
            "parameters": parameters(mixer, WIDTH),
            "own": [row["products"] - layer.around(n, WIDTH) for row, n in zip(found, SIZES, strict=True)],
            "formula": [layer.theory.own(mixer, n, WIDTH) for n in SIZES] if layer.theory.own else None,
            "whole": [row["products"] for row in found],
            "causal": [row["products"] - layer.around(n, WIDTH) for row, n in zip(causal, SIZES, strict=False)],
            "entries": [row["entries"] for row in found],
            "kept": [row["kept"] for row in found],
            "chain": [cost(mixer, n, WIDTH, layer.causal)["chain"] for n in STEPS],
            "field": field,
            "path": reached,
        }
        print(f"{layer.name}: counted", file=sys.stderr, flush=True)
    beside = {str(d): [against_gru(round(r * d), d) for r in RATIOS] for d in WIDTHS}
    return {"rows": rows, "beside a GRU": beside, "machine": describe()}


def against_gru(n: int, d: int) -> float:
    """Multiply-adds of a whole layer of full attention, divided by those of a GRU."""
    return cost(MultiHead(1), n, d, False)["products"] / cost(MIXERS["gru"](), n, d, True)["products"]


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    rows, at = result["rows"], SIZES.index(1024)
    lines = ["# Attention, recurrence, convolution: what each costs, and what it reaches", ""]
    lines += [
        f"Counted while the library's own layers compute one sequence of n = {SIZES[at]:,} tokens, d = {WIDTH}, one "
        "head. Multiply-adds are those of products of matrices; for a form of attention they are what it computes "
        "between its projections, which are 4 n d² more for all alike. Nothing was timed.",
        "",
        "![Multiply-adds against n, and where attention and a GRU cost the same](../../figures/scaling.svg)",
        "",
        "| | sources | formula | multiply-adds | formula / counted | multiply-adds, causal | with projections | grows "
        "with n (theory) | other entries | numbers kept for the backward | parameters |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        stated = THEORY.get(name, Theory(""))
        theory = "" if stated.grows is None else f" ({stated.grows:g})"
        ratio = "" if row["formula"] is None else f"{row['formula'][at] / row['own'][at]:.3f}"
        cells = [
            f"**{name}**" + (f" ({row['options']})" if row["options"] else ""),
            stated.sources,
            stated.formula,
            _short(row["own"][at]),
            ratio,
            _short(row["causal"][at]) if row["causal"] else "",
            _short(row["whole"][at]),
            f"n^{exponent(SIZES, row['own']):.2f}{theory}",
            _short(row["entries"][at]),
            f"{_short(row['kept'][at])}, n^{exponent(SIZES, row['kept']):.2f}",
            f"{row['parameters']:,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"Calls that wait for one another, at n = {STEPS[-1]}; and from the backward's gradients, at n = {REACHED}, "
        "how many tokens an output of one layer depends on, and how many layers connect every pair (causal: every "
        "token with all before it).",
        "",
        "| | calls one after the other | grow with n | receptive field | layers until all are connected | sources |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        reached = "never" if row["path"] is None else str(row["path"]) + (" steps of its state" * (name == "gru"))
        calls = f"{row['chain'][-1]:,} | n^{exponent(STEPS, row['chain']):.2f}"
        lines.append(f"| **{name}** | {calls} | {row['field']} | {reached} | {THEORY.get(name, Theory('')).path} |")
    lines += ["", "## Which is cheaper, attention or recurrence?", ""]
    lines += ["Multiply-adds of a whole layer of full attention, over those of a GRU of the same width:", ""]
    lines += ["| n / d | " + " | ".join(map(str, RATIOS)) + " |", "|---|" + "---|" * len(RATIOS)]
    lines += [
        f"| d {d} | " + " | ".join(f"{x:.3f}" for x in found) + " |" for d, found in result["beside a GRU"].items()
    ]
    return "\n".join([*lines, "", HOW.strip(), "", _made(result["machine"]), ""])


def _short(x: float) -> str:
    return f"{x / 1e6:,.2f} M"


def _made(machine: dict[str, Any]) -> str:
    return (
        f"Made by `python benchmarks/comparison.py` (Python {machine['python']}, NumPy {machine['numpy']}, commit "
        f"{machine['commit']}, {machine['date']}); counts are the same on every machine."
    )


HOW = """
A layer of attention with its four projections takes 4 n d² + 2 n² d, a GRU 6 n d²: attention is the cheaper one as long
as n < d, and recurrence where n > d. (It is often stated the other way round: [errata](../../docs/errata.md).)

## How

Arrays that count (`benchmarks/counting.py`) go through the library's layers, which run as they do on plain arrays.
What they compute can be more than what a formula asks for: a window of w keys on either side is computed in
chunks of c queries and 3 c keys; causal full attention in tiles of 64 queries, each with the keys that its last query
may see. `sources` is what the tables of encyclopedias and surveys say. They leave out constants and what they take
to be constant: the window, the global and the random keys (w, g, r) of sparse attention, the number m of Performer's
features, which is d only by choice. The formulas are exact, and a test compares the counts with them: `pairs` are
those in the blocks that a sparse layout lists. A stride that stays as it is leaves strided attention n²; with a
stride of √n it is n √n.

Other entries are those that exponentials, sums, comparisons and the like read or give, one call after the other. Kept
numbers are what the layer's cache holds for its backward, each buffer once, without parameters. The longest chain
of calls is an upper bound of the sequential steps (a buffer that is written in parts is read as a whole); it is a
constant for what is computed at once, grows as log n where sums are taken by doubling, and as n in a recurrence. A
convolution is causal here. "Dilated" is the stack in which layer l skips
k^l - 1 tokens between those that it reads: this one is O(log_k n) deep, and the plain one O(n / k).
"""


LOOKS = {
    "full": (BLUE, "-o"), "strided": (ORANGE, ":P"), "gru": (ORANGE, "-s"), "window": (GREEN, "-D"),
    "linear": (PURPLE, "-^"), "linear, as a recurrence": (PURPLE, ":v"), "convolution": (GREY, "-.X"),
}  # fmt: skip


@in_style
def draw(result: dict[str, Any]) -> Any:
    """Multiply-adds against n, and whole layers beside a GRU. -> matplotlib figure."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    made, (left, right) = figure(1, 2, size=(8.8, 4.6), width_ratios=(5, 3))
    for name, (colour, look) in LOOKS.items():
        row, theory = result["rows"][name], THEORY.get(name, Theory("")).grows
        label = f"{name}: n^{exponent(SIZES, row['own']):.2f}" + ("" if theory is None else f" ({theory:g})")
        left.loglog(SIZES, row["own"], look, color=colour, label=label, markersize=5)
    left.set(xlabel="n", title=f"Multiply-adds of a layer without its\nprojections, d = {WIDTH} (theory in brackets)")
    widths, curves = zip(*result["beside a GRU"].items(), strict=True)
    for curve in curves:
        right.loglog(RATIOS, curve, "-o", color=BLUE)
    if np.ptp(curves, axis=0).max() < 0.01:
        right.text(0.25, 1.6, f"d = {', '.join(widths)}:\none curve", color=BLUE)
    right.axhline(1, color=GREY, linewidth=0.8)
    right.axvline(1, color=GREY, linewidth=0.8)
    right.set(xlabel="n / d", title="Whole layers: attention\n/ GRU, equal where n = d")
    for axis, ticks in ((left.xaxis, SIZES), (right.xaxis, RATIOS), (right.yaxis, (0.7, 0.8, 1, 1.5, 2))):
        axis.set_ticks(ticks)
        axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
        axis.set_minor_locator(NullLocator())
    left.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1e6:,.0f} million"))
    label_ends(left)
    return made


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def pictures() -> dict[Path, Any]:
    return {PICTURE: draw(json.loads(RESULT.read_text()))}


def main() -> None:
    read_no_arguments(__doc__)
    result = measure()
    RESULTS.mkdir(exist_ok=True)
    write_result(RESULT, result)
    write_pages(__file__, pages())
    write_pictures(pictures())
    print(page(result))


if __name__ == "__main__":
    main()
