"""The visualiser: who looks at whom in a model, from queries and keys to weights, and how gradients flow back.

All numbers are of the model and the history that are named. Weights, scores, their gradients and the roll-out are made
on the page, of the queries, keys, values and gradients that the library gave it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data import TextBatch, pad
from ...models import Decoder, DecoderNetwork
from ...models.choosing import refuse_damaged
from ...ops import cross_entropy, cross_entropy_backward
from ...random import Stream, generator
from ...training import Moments, adam
from ...tree import add_to, flatten, views
from .view import View, as_table
from .watch import Layer, Watched

BEST = 5                 # outputs whose gradients are there
SHUFFLES = 20
STEPS = 150              # of the tiny model of a text
LONGEST = 400            # tokens
SAID = 60                # characters of a token's name


@dataclass
class Asked:
    """A network at work on one sequence."""

    title: str
    tokens: list[str]                    # (n,): what is looked at, then padding
    real: int                            # how many are not padding
    watched: Watched
    p: Any
    given: Any                           # a batch, or ids: what `forward` takes
    table: Any                           # (V, D): scores are h tableᵀ; None where `forward` gives scores itself
    follows: np.ndarray                  # (real - 1,) which symbol followed each token but the last; none: not asked
    names: list[str]                     # (V,): of the symbols
    ids: list[Any]                       # (V,): what they are in any model
    first: int                           # symbols below this are none, such as padding
    left_out: np.ndarray                 # symbols that are not recommended
    cut: str = ""                        # said where the sequence was longer than what is looked at

    def scores(self) -> tuple[np.ndarray, Any]:
        """(real, V) of what follows each token, and the cache. Raises ValueError where a score is NaN."""
        with np.errstate(over="ignore", invalid="ignore"):           # a NaN is refused, below
            h, cache = self.watched.forward(self.p, self.given)
            h = h[:, : self.real]
            scores = np.asarray(h[0] if self.table is None else h[0] @ self.table.T, dtype=np.float64)
        refuse_damaged(scores)
        return scores, cache

    def last(self) -> np.ndarray:
        """(V,): the scores of what follows the last token; -inf for what is not recommended, unless that were all."""
        last = self.scores()[0][-1]
        last[: self.first] = -np.inf
        if len(self.left_out) < len(last) - self.first:
            last[self.left_out] = -np.inf
        return last

    def best(self) -> list[int]:
        """The symbols of the highest scores, the best first."""
        last = self.last()
        return np.argsort(-last, kind="stable")[: min(BEST, int(np.isfinite(last).sum()))].tolist()

    def gradient(self, dscores: np.ndarray, cache: Any) -> None:
        """Let the gradient of the scores, (real, V), flow back; what follows padding is asked for by nobody."""
        ds = np.pad(dscores.astype(np.float32), ((0, len(self.tokens) - self.real), (0, 0)))[None]
        self.watched.backward(self.p, ds if self.table is None else ds @ self.table, cache)


def visualise(
    model: Any, sequence: Any, *, against: Any = None, names: Any = None, titles: Sequence[str] = (), padding: int = 0
) -> View:
    """A page about the attention of `model` for one history, or for a prompt; `against`: of another model beside it.

    `model` is a recommender of equal blocks with attention, as SASRec, or a `Decoder`. `names` turns an id into a name.
    `padding` positions follow the history, as in a batch with longer ones, so that their mask can be seen.
    Raises ValueError for a model without attention, an unknown item (named), an empty history, padding that the model
    has no room for, and two models of different tokens.
    """
    models = [model] if against is None else [model, against]
    said = list(titles) + [m.name for m in models[len(titles) :]]
    asked = [_asked(m, sequence, names, title, padding) for m, title in zip(models, said, strict=True)]
    if any(one.tokens != asked[0].tokens for one in asked):
        raise ValueError("the two models look at different tokens of this history: give one that both can take whole")
    best = [asked[0].ids[symbol] for symbol in asked[0].best()]              # both are asked about the same
    runs = [_run(one, [one.ids.index(symbol) for symbol in best if symbol in one.ids]) for one in asked]
    return _page(asked, runs, "Who looks at whom", " ".join(dict.fromkeys(one.cut for one in asked)).strip())


def visualise_text(text: str, *, seed: int = 0) -> View:
    """A page about a sentence: a tiny decoder learns on the spot to say each word of it from those before.

    Raises ValueError for fewer than two words, or more than 64.
    """
    words = text.split()
    if not 2 <= len(words) <= 64:
        raise ValueError(f"the text has {len(words)} words, expected 2 to 64")
    known = list(dict.fromkeys(words))
    ids = np.array([[known.index(word) for word in words]])
    network = DecoderNetwork(n_tokens=len(known), context=len(words), dim=32, layers=2, heads=2)
    p, loss = _learned(network, ids, seed)
    asked = Asked(
        "a decoder of two layers", words, len(words), Watched(network), p, ids, None, ids[0, 1:], known, known, 0,
        np.zeros(0, int),
    )  # fmt: skip
    note = (
        f"A decoder of two layers and two heads has just learned this one sentence, in {STEPS} steps from seed {seed} "
        f"(loss {loss:.2g} nats a word). It knows nothing else: its heads look at what tells the next word here."
    )
    return _page([asked], [_run(asked, asked.best())], text, note)


def _learned(network: DecoderNetwork, ids: np.ndarray, seed: int) -> tuple[Any, float]:
    """Parameters after `STEPS` steps of Adam on the one sequence, and the loss."""
    ones = np.ones((1, ids.shape[1] - 1), dtype=np.float32)
    batch = TextBatch(ids[:, :-1], ids[:, 1:], ones, np.zeros(1, dtype=np.int64))
    vector, p = flatten(network.init(generator(seed, Stream.INIT)), np.float32, np)
    moments, gradient = Moments(np.zeros_like(vector), np.zeros_like(vector)), np.zeros_like(vector)
    loss = 0.0
    for step in range(1, STEPS + 1):
        loss, cache = network.loss(p, batch)
        gradient[...] = 0
        add_to(views(gradient, p), network.loss_backward(p, 1.0, cache))
        adam(vector, gradient, moments, step, lr=3e-3)
    return p, float(loss)


def _page(asked: list[Asked], runs: list[dict[str, Any]], title: str, note: str) -> View:
    """As a table: what the last token looks at, in every layer and head."""
    tables = [
        as_table(f"{one.title}: weights of the last token", run["tokens"], (
            (f"layer {at + 1}, head {head + 1}", weights[one.real - 1])
            for at, layer in enumerate(one.watched.layers) for head, weights in enumerate(layer.weights)
        ))
        for one, run in zip(asked, runs, strict=True)
    ]  # fmt: skip
    return View("visualiser", title, {"title": title, "note": note, "runs": runs}, "".join(tables))


def _asked(model: Any, sequence: Any, names: Any = None, title: str = "", padding: int = 0) -> Asked:
    vocabulary = model.fitted()
    network: Any = getattr(model, "network", None)
    drawn = "tinyattn show without --html draws its weights"
    try:
        watched = Watched(network)
    except ValueError as error:
        without = f"{title} is of model {model.name}, without attention that can be shown"
        raise ValueError(f"model {model.name}: {error}; {drawn}" if model.attends else without) from None
    if isinstance(model, Decoder):
        if padding:
            raise ValueError(f"padding is {padding}: it is for histories, and a prompt has none")
        return _of_text(model, watched, sequence, title)
    if getattr(model, "padding", "hidden") != "hidden":
        raise ValueError(f"padding is {model.padding!r}: its attention looks at slots before the history; {drawn}")
    whole = vocabulary.numbers(sequence)
    if not len(whole):
        raise ValueError("the history is empty: expected at least one item id")
    cloze = network.asking(pad([whole[:1]], model.maxlen)).ids.shape[1] - 1        # 1: [MASK] is what asks
    if not network.causal and not cloze:
        raise ValueError(f"model {model.name} does not read from left to right: only its last token is asked; {drawn}")
    history = whole[-min(model.maxlen - cloze, LONGEST) :]
    room = min(model.maxlen - cloze, LONGEST) - len(history)
    if not 0 <= padding <= room:
        raise ValueError(f"padding is {padding}, expected 0 to {room}: what this model has room for after the history")
    longer = np.ones(len(history) + padding, dtype=np.int64)
    batch = network.asking(pad([history, longer], model.maxlen).map(lambda x: x[:1]))
    ids = vocabulary.decode(np.arange(1, len(vocabulary) + 1)).tolist()
    said = ["padding", *(str(item) if names is None else names(item) for item in ids), "[MASK]"]
    return Asked(
        title, [said[i] for i in batch.ids[0].tolist()], len(history) + cloze, watched, model.parameters, batch,
        model.parameters[network.scored], history[:0] if cloze else history[1:], said, [None, *ids], 1,
        np.unique(whole), _cut(len(whole), len(history), "items of the history"),
    )  # fmt: skip


def _of_text(model: Decoder, watched: Watched, prompt: str, title: str) -> Asked:
    whole = np.asarray(model.tokens.encode(prompt))
    ids = whole[-min(model.context, LONGEST) :]
    if not len(ids):
        raise ValueError("the prompt is empty: expected at least one character")
    every = [model.tokens.text(np.array([i])) for i in range(len(model.tokens))]
    return Asked(
        title, [every[i] for i in ids.tolist()], len(ids), watched, model.parameters, ids[None], None, ids[1:],
        every, every, 0, np.zeros(0, int), _cut(len(whole), len(ids), "tokens of the prompt"),
    )  # fmt: skip


def _cut(given: int, taken: int, what: str) -> str:
    return "" if given == taken else f"It looks at the newest {taken} of the {given} {what}."


def _run(asked: Asked, symbols: list[int]) -> dict[str, Any]:
    """What stands on the page of one model: gradients of the scores of these symbols, and of the loss."""
    scores, cache = asked.scores()
    layers = asked.watched.layers
    outputs = []
    for symbol in symbols:
        dscores = np.zeros(scores.shape)
        dscores[-1, symbol] = 1.0
        outputs.append({"says": f"the score of {_short(asked.names[symbol])}", "value": _rounded(scores[-1, symbol])})
        asked.gradient(dscores, cache)
    if len(asked.follows):
        loss, dscores = _loss(scores, asked.follows, asked.first)
        outputs.append({"says": "the loss, the mean cross-entropy of each next token", "value": _rounded(loss)})
        asked.gradient(dscores, cache)
    assert asked.watched.read is not None
    inputs = [_packed(np.sum(asked.watched.read * dx, axis=-1)) for dx in asked.watched.inputs]
    tested = _shuffled(asked, len(layers))
    return {
        "title": asked.title, "tokens": [_short(token) for token in asked.tokens], "outputs": outputs,
        "layers": [_layer(layer) for layer in layers], "inputs": inputs, "shuffled": tested,
        "last": asked.real - 1, "mask": _masked(asked),
    }  # fmt: skip


def _masked(asked: Asked) -> str:
    """What is masked, in words."""
    causal = np.tri(len(asked.tokens), dtype=bool)
    hidden = [~layer.allowed for layer in asked.watched.layers]
    if not any(np.any(x) for x in hidden):
        return "Nothing is masked: every token may look at every other."
    found = "Hatched, or grey, is masked: "
    if not all(np.all(x[..., ~causal]) for x in hidden):
        return f"{found}padding, at which nobody looks. Else every token may look at every other."
    found += "what comes later" + (", and with it padding" if asked.real < len(asked.tokens) else "")
    more = any(np.any(x[..., causal]) for x in hidden)
    return f"{found}{'; the mechanism masks some of what came before, too' if more else ''}."


def _loss(scores: np.ndarray, follows: np.ndarray, first: int) -> tuple[float, np.ndarray]:
    """-> the mean cross-entropy of all tokens but the last, and its gradient by the scores."""
    s, targets = scores[:-1, first:], follows - first
    dscores = np.zeros(scores.shape)
    dscores[:-1, first:] = cross_entropy_backward(1.0, s, targets)
    return float(cross_entropy(s, targets)), dscores


def _shuffled(asked: Asked, layers: int) -> list[dict[str, float]]:
    """Of each layer: how far the best score moves when the last token's weights are dealt out anew (Jain & Wallace
    2019, section 4.1), the median over shuffles, beside the standard deviation of all scores of the last token."""
    found, last = [], asked.last()
    symbol, spread = int(np.argmax(last)), float(np.std(last[np.isfinite(last)]))
    for layer in range(layers):
        moved = []
        for shuffle in range(SHUFFLES):
            rng = np.random.default_rng([layer, shuffle])

            def deal(at: int, weights: np.ndarray, layer: int = layer, rng: Any = rng) -> np.ndarray:
                if at != layer:
                    return weights
                dealt = weights.copy()
                allowed = np.broadcast_to(asked.watched.layers[at].allowed, weights.shape)[:, asked.real - 1]
                for row, may in zip(dealt[:, asked.real - 1], allowed, strict=True):
                    row[may] = rng.permutation(row[may])
                return dealt

            asked.watched.change = deal
            moved.append(abs(float(asked.scores()[0][-1, symbol]) - float(last[symbol])))
        found.append({"moved": _rounded(np.median(moved)), "spread": _rounded(spread)})
    asked.watched.change = None
    return found


def _layer(layer: Layer) -> dict[str, Any]:
    h, n, m = layer.weights.shape
    made = layer.from_scores
    return {
        "heads": h, "n": n, "m": m, "d": layer.q.shape[-1], "scale": layer.scale,
        "q": _packed(layer.q), "k": _packed(layer.k), "v": _packed(layer.v),
        "bias": _packed(layer.bias) if made and layer.bias is not None else None,
        "relative": None if layer.relative is None else _packed(layer.relative),
        "allowed": _bits(layer.allowed), "by_head": layer.allowed.ndim > 2,
        "weights": None if made else _packed(layer.weights),
        "gradients": [_packed(gradient) for gradient in layer.gradients],
    }  # fmt: skip


def _rounded(x: Any) -> float:
    return float(f"{float(x):.4g}")


def _packed(x: np.ndarray) -> dict[str, str]:
    """float32, little end first, in base64."""
    return {"f4": base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode()}


def _bits(x: np.ndarray) -> str:
    return base64.b64encode(np.packbits(x.ravel(), bitorder="little").tobytes()).decode()


def _short(name: str) -> str:
    name = str(name)
    return name if len(name) <= SAID else name[: SAID - 1] + "…"
