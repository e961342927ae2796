"""What attention changed, measured: gradients, depth, paths, receptive fields and speed of every mixer.

    python benchmarks/what_changed.py [--parts gradients,depth,paths,fields,steps] [--quick]
    python benchmarks/what_changed.py --parts steps [--rounds 7] [--threads 1,2]

All parts but `steps` measure the library's mixers with fresh parameters. Nothing is trained, so their results are the
same on every machine. `steps` times training steps of decoders that differ only in their mixer, and compares them with
PyTorch. Every contender runs in a process of its own.

The results go into benchmarks/results/what_changed.json. Parts that are not run keep their earlier results there, and
each CPU model keeps its own times. From that file come what_changed.md beside it, figures/what_changed_*.svg and a
table in docs/kinds.md. With --quick the sizes are small and nothing is written.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks import comparison, decoder_step
from benchmarks.children import Child, check, refuse, side_by_side, tell
from benchmarks.comparison import KERNEL, Convolution, parameters
from benchmarks.distances import beginning, constant, distances
from benchmarks.machine import (
    RESULTS,
    ROOT,
    describe,
    made_on,
    with_kernels,
    write_pages,
    write_pictures,
    write_result,
)
from benchmarks.peers import installed
from benchmarks.peers.child import write
from benchmarks.peers.ours import reference
from tinyattn.experiments.tables import heading
from tinyattn.forms import readable
from tinyattn.layers import BLOCK_FORMS, Block, LayerNorm, Mixer, MultiHead
from tinyattn.layers.mechanisms import Window
from tinyattn.layers.mixers import GRU, LSTM, RNN, RWKV, Mamba
from tinyattn.models import DecoderNetwork
from tinyattn.ops import Mask
from tinyattn.options import options_of
from tinyattn.show.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, figure, in_style, label_ends
from tinyattn.tree import leaves, tree_map

NAME, DOCS = "what_changed", ROOT / "docs" / "kinds.md"
RESULT, PAGE = RESULTS / f"{NAME}.json", RESULTS / f"{NAME}.md"
D, HEADS = 64, 4
CAUSAL = Mask(causal=True)


class Kind(NamedTuple):
    """A mixer, and the function `begun` that changes its fresh parameters before they are measured."""

    title: str
    mixer: Mixer
    begun: Callable[[dict[str, Any]], dict[str, Any]] = dict

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        return self.begun(self.mixer.init(rng, dim))


def turning(p: dict[str, Any]) -> dict[str, Any]:
    """Replace U by the nearest orthogonal matrix, whose singular values are all 1."""
    left, _, right = np.linalg.svd(p["U"])
    return p | {"U": left @ right}


def forgetting(bias: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def begun(p: dict[str, Any]) -> dict[str, Any]:
        b, H = p["b"].copy(), len(p["U"])
        b[H : 2 * H] = bias
        return p | {"b": b}

    return begun


def lasting(delta: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Set b_delta so that every Δ begins near `delta`: softplus(b_delta) = delta."""
    return lambda p: p | {"b_delta": np.full_like(p["b_delta"], math.log(math.expm1(delta)))}


KINDS = {
    "rnn": Kind("RNN", RNN()),
    "lstm-1997": Kind("LSTM of 1997, no forget gate", LSTM(forget=False)),
    "lstm": Kind("LSTM", LSTM()),
    "gru": Kind("GRU", GRU()),
    "attention": Kind("attention", MultiHead(HEADS)),
    "rwkv": Kind("RWKV", RWKV()),
    "mamba": Kind("Mamba", Mamba()),
}
BEGUN = {  # the same mixers with other initial values, for the part `gradients`
    "rnn-rotation": Kind("RNN, U a rotation", RNN(), turning),
    "lstm-0": Kind("LSTM, forget bias 0 instead of 1", LSTM(), forgetting(0)),
    "lstm-3": Kind("LSTM, forget bias 3", LSTM(), forgetting(3)),
    "rwkv-slow": Kind("RWKV, all channels as slow as its slowest", RWKV(), lambda p: p | {"log_w": 0 * p["u"] - 5}),
    "mamba-short": Kind("Mamba, Δ begins at 1", Mamba(), lasting(1)),
    "mamba-long": Kind("Mamba, Δ begins at .001", Mamba(), lasting(0.001)),
}
WINDOW = Window(16)
NEAR = {
    "window": Kind(f"attention, a window of {WINDOW.window}", MultiHead(HEADS, WINDOW)),
    "convolution": Kind(f"convolution, kernel {KERNEL}", Convolution()),
}


# Gradients and receptive fields: the Jacobian of the last output with respect to every token.


class Sizes(NamedTuple):
    """The sizes of every part; `--quick` uses smaller ones."""

    dim: int = D
    seeds: int = 5
    steps: int = 100  # tokens, for gradients
    fields: tuple[int, ...] = (64, 256)  # tokens, for receptive fields
    depths: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    tokens: int = 32  # per sequence, in stacks of blocks
    paths: tuple[int, ...] = (32, 128, 512)
    timed: tuple[int, ...] = (64, 256, 1024)
    a_step: int = 4096  # tokens in a training step


QUICK = Sizes(8, 2, 10, (8, 16), (1, 2), 8, (16, 32), (16,), 64)
BACKWARDS = 8  # sequences in a batch; each computes one row of the Jacobian


def jacobian(kind: Kind, n: int, dim: int, seed: int) -> np.ndarray:
    """‖∂ y_n / ∂ x_t‖ / √D for every t, the Frobenius norm, at standard normal tokens. -> (n,).

    A gradient of length 1 at the last output has this length at x_t, as a root mean square over all directions. It is
    1 for a mixer that copies x_t.
    """
    rng = np.random.default_rng([seed, n])
    p, x = kind.init(rng, dim), rng.standard_normal((1, n, dim))
    _, cache = kind.mixer.forward(p, np.repeat(x, BACKWARDS, axis=0), mask=CAUSAL)
    squares = np.zeros(n)
    for first in range(0, dim, BACKWARDS):
        dy = np.zeros((BACKWARDS, n, dim))
        rows = range(min(BACKWARDS, dim - first))
        dy[rows, -1, [first + i for i in rows]] = 1
        squares += np.sum(kind.mixer.backward(p, dy, cache)[0] ** 2, axis=(0, 2))
    return np.sqrt(squares / dim)


def gradients(sizes: Sizes) -> dict[str, Any]:
    """{mixer: for each seed, the norm of the Jacobian at every token}, for `KINDS` and `BEGUN`."""
    kinds = KINDS | BEGUN
    return {name: [digits(jacobian(kind, sizes.steps, sizes.dim, seed)) for seed in range(sizes.seeds)]
            for name, kind in kinds.items()}  # fmt: skip


def digits(values: np.ndarray) -> list[float]:
    """The values with four significant digits, enough for tables and pictures."""
    return [float(f"{value:.4g}") for value in values]


def fields(sizes: Sizes) -> dict[str, Any]:
    """How far back the last output depends on tokens, for every mixer and n.

    "share" is the part of the squared Jacobian within the last w tokens, "holds" the w with 90 % of it, and "reaches"
    the number of tokens where it is not 0.
    """
    found: dict[str, Any] = {}
    for name, kind in (KINDS | NEAR).items():
        for n in sizes.fields:
            norms = np.array([jacobian(kind, n, sizes.dim, seed) for seed in range(sizes.seeds)])
            share = np.cumsum(norms[:, ::-1] ** 2, axis=1)
            share /= share[:, -1:]
            at = [2**i for i in range(n.bit_length())]
            found.setdefault(name, {})[str(n)] = {
                "share": dict(zip(at, digits(np.median(share[:, [w - 1 for w in at]], axis=0)), strict=True)),
                "holds": width(share).tolist(),
                "reaches": int((norms != 0).sum(axis=1).max()),
            }
        tell(f"{name}: fields")
    return found


HELD = 0.9


def width(share: np.ndarray) -> np.ndarray:
    """The least number of last tokens whose share is at least `HELD`. Shapes: cumulative shares (..., n) -> (...)."""
    return np.argmax(share >= HELD, axis=-1) + 1


# Depth.


class NoNorm:
    """The identity, in the place of a norm."""

    def init(self, dim: int) -> dict[str, Any]:
        return {}

    def forward(self, p: Any, x: np.ndarray) -> tuple[np.ndarray, None]:
        return x, None

    def backward(self, p: Any, dy: np.ndarray, cache: None) -> tuple[np.ndarray, dict[str, Any]]:
        return dy.copy(), {}


FORMS = {
    "residuals, norms before (pre)": ("pre", LayerNorm()),
    "residuals, norms after (post)": ("post", LayerNorm()),
    "residuals, no norms": ("pre", NoNorm()),
    "norms, no residuals (plain)": ("plain", LayerNorm()),
    "neither": ("plain", NoNorm()),
}


def stack(form: str, norm: Any, depth: int, sizes: Sizes, seed: int) -> dict[str, list[float]]:
    """For every block, first to last: the norms of the gradients of its input and of its parameters.

    The gradient that enters at the top is standard normal. A form that does not end in a norm gets one more at the top.
    """
    rng = np.random.default_rng([seed, depth])
    block = Block(MultiHead(HEADS), form, norm)
    ps = [block.init(rng, sizes.dim) for _ in range(depth)]
    x, dx = rng.standard_normal((2, 2, sizes.tokens, sizes.dim))
    caches = []
    for p in ps:
        with readable():
            x, cache = block.forward(p, x, mask=CAUSAL)
        caches.append(cache)
    if not BLOCK_FORMS[form].gives_normed:
        top = norm.init(sizes.dim)
        dx, _ = norm.backward(top, dx, norm.forward(top, x)[1])
    found: dict[str, list[float]] = {"tokens": [], "parameters": []}
    for p, cache in zip(reversed(ps), reversed(caches), strict=True):
        dx, grads = block.backward(p, dx, cache)
        found["tokens"].insert(0, float(np.linalg.norm(dx)))
        found["parameters"].insert(0, math.sqrt(sum(float(np.sum(g * g)) for _, g in leaves(grads))))
    return found


def depth(sizes: Sizes) -> dict[str, Any]:
    """{form: {depth: {"tokens" or "parameters": for each seed, the first block's norm / the last block's}}}."""
    found: dict[str, Any] = {}
    for title, (form, norm) in FORMS.items():
        for blocks in sizes.depths:
            runs = [stack(form, norm, blocks, sizes, seed) for seed in range(sizes.seeds)]
            ratios = {what: [run[what][0] / run[what][-1] for run in runs] for what in ("tokens", "parameters")}
            found.setdefault(title, {})[str(blocks)] = ratios
    return found


# Paths: operations between the first token and the last output.


@dataclass(frozen=True)
class Doubling(Mixer):
    """y_t = a ⊙ y_{t-1} + x_t as a parallel scan: pairs of steps, then pairs of pairs (Hillis & Steele 1986)."""

    name = "doubling"

    def init(self, rng: np.random.Generator, dim: int) -> dict[str, Any]:
        return {"a": rng.uniform(0, 1, dim)}

    def forward(self, p: Any, x: Any, memory: Any = None, **context: Any) -> tuple[Any, None]:
        a, y, reach = np.zeros_like(x) + p["a"], x, 1
        while reach < x.shape[1]:
            joined = a[:, reach:] * y[:, :-reach] + y[:, reach:]
            y = np.concatenate([y[:, :reach], joined], axis=1)
            a = np.concatenate([a[:, :reach], a[:, reach:] * a[:, :-reach]], axis=1)
            reach *= 2
        return y, None


class Way(NamedTuple):
    """How outputs are computed: `at(level)` is the mixer of a level; all tokens at once, or `by_token` one by one."""

    title: str
    at: Callable[[int], Mixer]
    by_token: bool = False
    stacked: bool = False  # one layer does not reach the first token, so a stack is measured


def ways() -> list[Way]:
    def alike(kind: Kind, words: str = "", mixer: Mixer | None = None, **how: bool) -> Way:
        return Way(kind.title + words, lambda _: mixer or kind.mixer, **how)

    return [
        *(alike(KINDS[name]) for name in ("rnn", "lstm-1997", "lstm", "gru")),
        *(alike(KINDS[name], words, by_token=by_token) for name in ("attention", "rwkv", "mamba")
          for words, by_token in (("", False), (", token by token", True))),
        Way("y = a ⊙ y + x, by doubling", lambda _: Doubling()),
        alike(NEAR["window"], mixer=MultiHead(1, WINDOW), stacked=True),
        alike(NEAR["convolution"], stacked=True),
        Way(f"convolution, dilated by {KERNEL}^l", lambda level: Convolution(dilation=KERNEL**level), stacked=True),
    ]  # fmt: skip


def operations(way: Way, n: int, dim: int, nearest: bool, at: Any) -> int:
    """Operations of one layer from inputs `at` to the last output: the shortest path if `nearest`, else the longest."""
    mixer = way.at(0)
    p = mixer.init(np.random.default_rng(0), dim)
    with distances(nearest), readable():
        x, p, past = beginning((1, n, dim), at), constant(p), None
        if way.by_token:
            for t in range(n):
                y, past = mixer.extend(p, x[:, t : t + 1], None, past)
        else:
            y, _ = mixer.forward(p, x, mask=CAUSAL)
    return int((np.min if nearest else np.max)(y[0, -1].view(np.ndarray)))


def path(way: Way, n: int, dim: int) -> dict[str, int]:
    """How many layers connect the first token with the last output, and operations on the paths through all of them.

    In a stack the shortest path goes as far back as it can in each layer.
    """
    field, layers = n, 1
    if way.stacked:
        field, found = comparison.path(comparison.Layer(way.title, way.at, causal=True), n, comparison.NARROW)
        if not found:
            raise ValueError(f"{way.title}: no number of layers connects the first of {n} tokens with the last output")
        layers = found
    shortest, longest = operations(way, n, dim, True, (0, n - field)), operations(way, n, dim, False, ...)
    return {"layers": layers, "shortest": layers * shortest, "longest": layers * longest}


def paths(sizes: Sizes) -> dict[str, Any]:
    return {way.title: {str(n): path(way, n, sizes.dim) for n in sizes.paths} for way in ways()}


# Training steps.

BATCHES, ROUNDS, LAYERS, TOKENS = 2, 7, 2, 96
THREADS = (1, 2)
BESIDE = ("attention", "rnn", "lstm", "gru")  # mixers that PyTorch has too


def network_of(name: str, n: int, dim: int = D) -> DecoderNetwork:
    """A decoder with that mixer, whose feed-forward width gives a block as many parameters as one with attention.

    With attention the feed-forward network is 4 dim wide. Each unit of its width has 2 dim + 1 parameters.
    """
    room = 8 * dim * dim + 4 * dim + parameters(KINDS["attention"].mixer, dim)
    mixer = KINDS[name].mixer
    inner = max(dim, round((room - parameters(mixer, dim)) / (2 * dim + 1)))
    options = {} if name == "attention" else {o.name: getattr(mixer, o.name) for o in options_of(mixer)}
    return DecoderNetwork(n_tokens=TOKENS, context=n, dim=dim, layers=LAYERS, heads=HEADS, mixer=mixer.name,
                          feed_forward_width=inner / dim, **options)  # fmt: skip


def size(network: DecoderNetwork) -> int:
    return sum(leaf.size for _, leaf in leaves(network.init(np.random.default_rng(0))))


def contenders(name: str, threads: Sequence[int]) -> list[str]:
    who = ["tinyattn"] + ["torch"] * (name in BESIDE and installed("torch-sdpa"))
    return [f"{one}-{number}" for one in who for number in threads]


def given(name: str, n: int, dim: int, tokens: int, folder: Path) -> Any:
    """Write the inputs of a child process into a folder. -> network, weights, batches."""
    network = network_of(name, n, dim)
    batches = decoder_step.draw(network, tokens // n, BATCHES)
    weights = tree_map(lambda w: w.astype(np.float32), network.init(np.random.default_rng(0)))
    write(folder, network, weights, batches, None)
    return network, weights, batches


def refuse_others(threads: int) -> None:
    """Exit if, at a small size, a contender's loss or gradients differ from the library's."""
    for name in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            network, weights, batches = given(name, QUICK.timed[0], QUICK.dim, QUICK.a_step, Path(folder))
            write(Path(folder), network, weights, batches, reference(network, weights, batches[0]))
            refuse(check(contenders(name, [threads]), Path(folder), "mixers"))


def steps(sizes: Sizes, rounds: int, threads: Sequence[int] = THREADS) -> dict[str, Any]:
    """{n: {mixer: {contender: seconds per step in every round}}}. All contenders of one n take turns."""
    contending = {name: contenders(name, threads) for name in KINDS}
    found: dict[str, Any] = {}
    for n in sizes.timed:
        tell(f"n {n}")
        with ExitStack() as stack:
            start = {}
            for name in KINDS:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                given(name, n, sizes.dim, sizes.a_step, folder)
                start |= {f"{name} {who}": partial(Child, who, folder, "mixers") for who in contending[name]}
            rows = side_by_side(start, rounds, seed=0)
        found[str(n)] = {name: {who: rows[f"{name} {who}"]["seconds"] for who in contending[name]} for name in KINDS}
    made = {name: network_of(name, sizes.timed[0], sizes.dim) for name in KINDS}
    pools = [pool for row in rows.values() for pool in row["pools"] if pool["internal_api"] == "openblas"]
    return {
        "seconds": found,
        "mixer": {name: parameters(KINDS[name].mixer, sizes.dim) for name in KINDS},
        "network": {name: size(network) for name, network in made.items()},
        "inner": {name: network.inner for name, network in made.items()},
        "torch": next((row["about"]["torch"] for row in rows.values() if "torch" in row["about"]), None),
        "kernels": sorted({pool["architecture"] for pool in pools}),
        "threads": list(threads),
        "rounds": rounds,
        "machine": describe(),
    }


# The page, the pictures and the table in docs/kinds.md, all made from the results file alone.


def relative(runs: list[list[float]]) -> np.ndarray:
    """Norms divided by the norm at the last token. Shapes: (seeds, n)."""
    norms = np.array(runs)
    return norms / norms[:, -1:]


def page(result: dict[str, Any]) -> str:
    """The Markdown page."""
    counted, lines = result["counted"], ["# What attention changed, measured", ""]
    parts: dict[str, Callable[[Any], list[str]]] = {
        "gradients": _gradients, "depth": _depth, "paths": _paths, "fields": _fields
    }  # fmt: skip
    for name, part in parts.items():
        if name in counted:
            lines += [*part(counted[name]["found"]), "", _made(counted[name]["machine"]), ""]
    if result["timed"]:
        lines += ["## Training steps a second", "", STEPS_HOW.strip(), ""]
    for cpu, found in result["timed"].items():
        lines += [f"### {cpu}", "", *_steps(found), "", _made(found["machine"]), ""]
    return "\n".join([*lines, "Made by `python benchmarks/what_changed.py`.", ""])


def _made(machine: dict[str, Any]) -> str:
    return (
        f"{made_on(machine)}."
    )


def _number(x: float) -> str:
    return f"{x:.2g}" if 0.01 <= abs(x) < 100 else f"{x:.0f}" if 100 <= abs(x) < 10_000 else f"{x:.0e}"


def _spread(values: Any) -> str:
    """The median, and the range in brackets."""
    return f"{_number(float(np.median(values)))} ({_number(np.min(values))} to {_number(np.max(values))})"


def _gradients(found: dict[str, Any]) -> list[str]:
    n = len(next(iter(found.values()))[0])
    seeds, at = len(next(iter(found.values()))), [round(0.9 * n), n // 2, 1]
    lines = ["## The gradient on its way back", "",
             "![Its norm by steps back](../../figures/what_changed_gradients.svg)", "",
             *heading(["at the last token", *(f"at token {t} / at the last" for t in at)])]  # fmt: skip
    for name, kind in (KINDS | BEGUN).items():
        norms, rows = np.array(found[name]), relative(found[name])
        cells = [_number(float(np.median(norms[:, -1]))), *(_spread(rows[:, t - 1]) for t in at)]
        title = f"**{kind.title}**" if name in KINDS else kind.title
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return [*lines, "", GRADIENTS_HOW.format(n=n, D=D, seeds=seeds).strip()]


GRADIENTS_HOW = """
‖∂ y_n / ∂ x_t‖ / √D, the root of the sum of all squares of a Jacobian, for n = {n} tokens, D = {D}, in float64: how
long a gradient at the last output is when it comes to token t, where 1 is a mixer that copies. One mixer alone with
fresh parameters, no norm and no residual around it; tokens are standard normal. Medians of {seeds} seeds, with the
range.

What is measured is initialisation. The recurrent matrices of RNN, LSTM and GRU are uniform in ±1/√D, whose products
shrink; the forget gate of the LSTM begins with a bias of 1, so that it keeps about .73 of a cell a step, and the one
without a forget gate keeps all; RWKV's channels decay by exp(-w) a token with w from .0067 to 20; Mamba's Δ begins
between .001 and .1, and its states decay by exp(-Δ), ..., exp(-16 Δ). The rows below the kinds change this
initial value and nothing else. Training moves all of it: none of these rows says what a trained network remembers.
"""


BY = {"tokens": "by the tokens that go in", "parameters": "by its parameters"}


def _depth(found: dict[str, Any]) -> list[str]:
    lines = ["## Depth, with and without residuals and norms", "",
             "![The first block's gradient beside the last's](../../figures/what_changed_depth.svg)"]  # fmt: skip
    for what, title in BY.items():
        lines += ["", f"The gradient {title}, the first block's over the last block's:", ""]
        lines += heading([f"{blocks} block{'s' * (blocks != '1')}" for blocks in next(iter(found.values()))])
        for form, rows in found.items():
            lines.append(f"| {form} | {' | '.join(_spread(row[what]) for row in rows.values())} |")
    seeds = len(next(iter(next(iter(found.values())).values()))["tokens"])
    return [*lines, "", DEPTH_HOW.format(D=D, n=Sizes().tokens, heads=HEADS, seeds=seeds).strip()]


DEPTH_HOW = """
Stacks of blocks with fresh parameters, D = {D}, {heads} heads, causal, two sequences of {n} standard normal tokens; a
standard normal gradient comes in from above, behind one more norm where a form does not end in one. Float64, medians
of {seeds} seeds, with the range. A ratio of 1 is a gradient of one size in the first block and in the last. Far above
1 it grows on its way down, far below it vanishes. The size of a gradient is not how well a network trains: Adam
divides by it.
"""


def _paths(found: dict[str, Any]) -> list[str]:
    sizes = list(next(iter(found.values())))
    columns = [f"{what}, n {n}" for what in ("layers", "shortest", "longest") for n in sizes]
    lines = ["## How many operations lie between the first token and the last output", "", *heading(columns)]
    for title, rows in found.items():
        cells = [f"{rows[n][what]:,}" for what in ("layers", "shortest", "longest") for n in sizes]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return [*lines, "", PATHS_HOW.strip()]


PATHS_HOW = """
Counted by running the library's own code on arrays of distances ([distances.py](../distances.py)). An operation is a
call of NumPy that computes; a product of matrices or a sum is one, however large, and moving numbers is none. An
entry of its result is one operation farther than what it is made of. *Shortest* is the least number of operations on
a way from the first token to the last output: what a signal, or a gradient, has to pass. *Longest* is the most on any
way to the last output, from any token: so many calls wait for one another, however many processors there are. How
often a step calls NumPy depends on how it is written (here a sigmoid takes four calls): compare how columns grow with
n rather than their sizes.

A layer that does not reach the first token is shown as a stack of as many as reach it, counted from the gradients of
its backward ([comparison](comparison.md)), and the shortest way goes as far as it can in each. RWKV and Mamba compute
chunks of a sequence side by side, then a chain of chunks: they wait for the length of a chunk and for the number of
chunks. Joined by doubling, a linear recurrence needs log₂ n rounds.
"""


def _fields(found: dict[str, Any]) -> list[str]:
    sizes = list(next(iter(found.values())))
    lines = ["## How far back an output looks at initialisation", "",
             "![Share of the squared Jacobian by distance](../../figures/what_changed_fields.svg)", "",
             *heading([f"{what}, n {n}" for n in sizes for what in ("not 0", "hold 90 %")])]  # fmt: skip
    for name, kind in (KINDS | NEAR).items():
        cells = [cell for n in sizes for cell in (str(found[name][n]["reaches"]), _spread(found[name][n]["holds"]))]
        lines.append(f"| {kind.title} | {' | '.join(cells)} |")
    return [*lines, "", FIELDS_HOW.strip()]


FIELDS_HOW = """
How many tokens the last output depends on (its Jacobian is not 0 in float64), and how many of the last tokens hold 90 %
of the sum of all its squares: median over seeds, and the range. The mixers are those of the gradients above, alone, and
fresh; what is not 0 need not matter.
"""


def speed(found: dict[str, Any], n: str, name: str, who: str) -> tuple[float, float]:
    """Steps per second, and their ratio to attention's in the same round and library; both are medians."""
    row = found["seconds"][n]
    mine, attention = np.array(row[name][who]), np.array(row["attention"][who])
    return 1 / float(np.median(mine)), float(np.median(attention / mine))


def _steps(found: dict[str, Any]) -> list[str]:
    sizes, threads = list(found["seconds"]), found["threads"]
    lines = heading(["mixer's parameters", f"decoder's, n {int(sizes[0]):,}", "feed-forward width",
                     *(f"n {int(n):,}, {t} thread{'s' * (t > 1)}" for n in sizes for t in threads)])  # fmt: skip
    for library in ("tinyattn", "torch"):
        for name in KINDS:
            if f"{library}-{threads[0]}" in found["seconds"][sizes[0]][name]:
                times = [speed(found, n, name, f"{library}-{t}") for n in sizes for t in threads]
                cells = [f"{a:.1f} ({b:.2f})" for a, b in times]
                about = [f"{found[what][name]:,}" for what in ("mixer", "network", "inner")]
                title = f"**{KINDS[name].title}**" if library == "tinyattn" else f"PyTorch {KINDS[name].title}"
                lines.append(f"| {title} | {' | '.join(about + cells)} |")
    torch = f"PyTorch {found['torch']}, eager" if found["torch"] else "PyTorch is not installed here"
    return [*lines, "", f"Medians of {found['rounds']} rounds. {torch}. OpenBLAS kernel {', '.join(found['kernels'])}."]


STEPS_HOW = f"""
Decoders of D = {D}, {LAYERS} blocks and a vocabulary of {TOKENS} that differ in their mixer alone; the width of the
feed-forward network makes a block as large as attention's, so that D is equal and the number of parameters nearly. A
step is forward, backward and Adam on {Sizes().a_step:,} tokens, in texts of n: the longer they are, the fewer go side
by side. In brackets: steps over those of attention, in the same library and round. All
contenders of an n take turns in a random order, each in a process of its own, after each gave the library's loss and
gradients in float64 at a small size. With one thread a contender is timed by the CPU clock of its process, which does
not count what others on the machine take; with more, by the wall clock, and tinyattn has a worker a thread. PyTorch's
recurrent layers are one call for all tokens, and its attention is scaled_dot_product_attention; it has no RWKV and no
Mamba.
"""

LOOKS = {
    "rnn": (ORANGE, "-", "v"), "lstm-1997": (GREEN, "--", "s"), "lstm": (GREEN, "-", "s"), "gru": (PURPLE, "-", "D"),
    "attention": (BLUE, "-", "o"), "rwkv": (GREY, "-.", "^"), "mamba": (INK, ":", "P"),
    "rnn-rotation": (ORANGE, "--", "v"), "lstm-0": (GREEN, ":", "s"), "lstm-3": (GREEN, "-.", "s"),
    "rwkv-slow": (GREY, "--", "^"), "mamba-short": (INK, "--", "P"), "mamba-long": (INK, "-.", "P"),
    "window": (BLUE, "--", "o"), "convolution": (ORANGE, ":", "X"),
}  # fmt: skip


def _plainly(value: float, _: Any) -> str:
    return f"{value:g}"


@in_style
def draw_gradients(found: dict[str, Any]) -> Any:
    """The library's initial values on the left, others on the right. -> matplotlib figure."""
    made, axes = figure(1, 2, size=(9.6, 4.4), sharey=True)
    for ax, kinds, title in zip(axes, (KINDS, BEGUN), ("as the library begins", "begun otherwise"), strict=True):
        for name, kind in kinds.items():
            rows = relative(found[name])[:, ::-1]
            colour, line, marker = LOOKS[name]
            back = np.arange(rows.shape[1])
            ax.semilogy(back, np.median(rows, axis=0), line, color=colour, label=kind.title, marker=marker,
                        markersize=4, markevery=max(1, len(back) // 5))  # fmt: skip
            ax.fill_between(back, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.12, linewidth=0)
        ax.set(title=title, xlabel="steps back", ylim=(1e-34, 1e2))
        ax.yaxis.set_major_formatter(_plainly)
        label_ends(ax)
    axes[0].set_ylabel("gradient's norm / at the last token")
    return made


@in_style
def draw_depth(found: dict[str, Any]) -> Any:
    """The norm of the first block's gradient / the last block's, by depth. -> matplotlib figure."""
    made, axes = figure(1, 2, size=(9.0, 4.6))
    looks = ((BLUE, "-o"), (ORANGE, "--s"), (GREY, "-.^"), (GREEN, ":D"), (PURPLE, "-v"))
    for ax, (what, title) in zip(axes, BY.items(), strict=True):
        for (form, rows), (colour, style) in zip(found.items(), looks, strict=True):
            values = np.array([row[what] for row in rows.values()])
            depths = [int(blocks) for blocks in rows]
            ax.loglog(depths, np.median(values, axis=1), style, color=colour, label=form, markersize=5)
            ax.fill_between(depths, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.12, linewidth=0)
        ax.set(title=title, xlabel="blocks")
        ax.yaxis.set_major_formatter(_plainly)
        ax.set_xticks(depths, [str(blocks) for blocks in depths])
        ax.minorticks_off()
    axes[0].set_ylabel("the first block's gradient / the last's")
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    return made


@in_style
def draw_fields(found: dict[str, Any]) -> Any:
    """The share of the squared Jacobian within the last w tokens. -> matplotlib figure."""
    made, ax = figure(size=(7.6, 4.2))
    n = list(next(iter(found.values())))[-1]
    for name, kind in (KINDS | NEAR).items():
        share = found[name][n]["share"]
        colour, line, marker = LOOKS[name]
        ax.plot([int(w) for w in share], list(share.values()), line, color=colour, marker=marker, markersize=4,
                label=kind.title)  # fmt: skip
    ax.axhline(HELD, color=GREY, linewidth=0.8)
    ax.set(xscale="log", xlabel="last tokens", title=f"share of the squared Jacobian, n = {n}")
    ax.set(ylim=(-0.03, 1.05), xlim=(0.08, 290))
    ax.set_xticks([int(w) for w in share], list(map(str, share)))
    ax.minorticks_off()
    label_ends(ax, start=True)
    return made


DRAW = {"gradients": draw_gradients, "depth": draw_depth, "fields": draw_fields}


def summary(result: dict[str, Any]) -> str:
    """The table in docs/kinds.md: a row for each mixer."""
    parts, timed = {name: part["found"] for name, part in result["counted"].items()}, result["timed"]
    n, longest = list(parts["fields"]["rnn"])[-1], list(parts["paths"]["RNN"])[-1]
    tokens = len(parts["gradients"]["rnn"][0])
    lines = heading([
        f"shortest way from the first of {longest} tokens", "operations that wait",
        f"gradient at the first of {tokens} tokens / at the last", f"last tokens that hold 90 %, of {n}",
        *(f"steps beside attention's, {cpu}" for cpu in timed),
    ])  # fmt: skip
    for name, kind in KINDS.items():
        way = parts["paths"][kind.title][longest]
        cells = [f"{way['shortest']:,}", f"{way['longest']:,}"]
        cells += [_number(float(np.median(relative(parts["gradients"][name])[:, 0])))]
        cells += [f"{np.median(parts['fields'][name][n]['holds']):.0f}"]
        for found in timed.values():
            who = f"tinyattn-{found['threads'][0]}"
            cells.append(", ".join(f"{speed(found, n, name, who)[1]:.2f} (n {int(n):,})" for n in found["seconds"]))
        lines.append(f"| {kind.title} | {' | '.join(cells)} |")
    return "\n".join(lines)


PARTS: dict[str, Callable[[Sizes], dict[str, Any]]] = {
    "gradients": gradients, "depth": depth, "paths": paths, "fields": fields
}  # fmt: skip


def pages() -> dict[Path, str]:
    result = json.loads(RESULT.read_text())
    return {PAGE: page(result), DOCS: summary(result)}


def pictures() -> dict[Path, Any]:
    return {
        ROOT / "figures" / f"{NAME}_{name}.svg": draw(part["found"])
        for name, part in json.loads(RESULT.read_text())["counted"].items()
        if (draw := DRAW.get(name))
    }


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join([*PARTS, "steps"]), metavar="NAME,NAME")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of `steps`")
    parser.add_argument("--threads", default=",".join(map(str, THREADS)), metavar="N,N", help="threads of `steps`")
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing is written")
    args = parser.parse_args(words)
    names = args.parts.split(",")
    if unknown := set(names) - PARTS.keys() - {"steps"}:
        parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join([*PARTS, 'steps'])}")
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    threads = [int(word) for word in args.threads.split(",") if word.isdigit() and int(word)]
    if len(threads) != len(args.threads.split(",")):
        parser.error(f"threads {args.threads}: expected numbers of at least 1, with commas between them")
    sizes = QUICK if args.quick else Sizes()
    known = RESULT.exists() and not args.quick
    result = json.loads(RESULT.read_text()) if known else {"counted": {}, "timed": {}}
    for name in names:
        tell(name)
        if name == "steps":
            refuse_others(threads[0])
            found = steps(sizes, args.rounds, threads)
            result["timed"][with_kernels(found["machine"]["cpu"], found["kernels"])] = found
        else:
            result["counted"][name] = json.loads(json.dumps({"found": PARTS[name](sizes), "machine": describe()}))
        if not args.quick:  # after each part, so that an interruption loses none of them
            write_result(RESULT, result)
    if not args.quick:
        write_pictures(pictures())
        if result["counted"].keys() == PARTS.keys():
            write_pages(__file__, pages())
    print(page(result))


if __name__ == "__main__":
    main()
