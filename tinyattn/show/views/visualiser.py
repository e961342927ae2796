"""The visualiser: attention in a model, from queries and keys to weights, and the gradients.

All numbers are of the named model and history. The page computes weights, scores, their gradients and the roll-out from
the library's queries, keys, values and gradients.
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

BEST = 5                 # outputs with gradients
SHUFFLES = 20
STEPS = 150              # of training the model of a text
LONGEST = 400            # tokens
LONGEST_NAME = 60        # characters of a token's name


@dataclass
class Query:
    """A network and one sequence."""

    title: str
    tokens: list[str]                    # (n,): the sequence, then padding
    real: int                            # tokens before padding
    watched: Watched
    p: Any
    batch: Any                           # or ids: the argument of `forward`
    table: Any                           # (V, D): scores are h tableᵀ; None where `forward` returns scores
    follows: np.ndarray                  # (real - 1,) the symbol after each token but the last; empty: no loss
    names: list[str]                     # (V,): of the symbols
    ids: list[Any]                       # (V,): of the symbols, alike in every model
    first: int                           # symbols below this are special, such as padding
    left_out: np.ndarray                 # symbols that are not recommended
    cut: str = ""                        # a note for a sequence that was cut

    def scores(self) -> tuple[np.ndarray, Any]:
        """(real, V) of the symbol after each token, and the cache. Raises ValueError for a NaN."""
        with np.errstate(over="ignore", invalid="ignore"):           # a NaN is refused, below
            h, cache = self.watched.forward(self.p, self.batch)
            h = h[:, : self.real]
            scores = np.asarray(h[0] if self.table is None else h[0] @ self.table.T, dtype=np.float64)
        refuse_damaged(scores)
        return scores, cache

    def last(self) -> np.ndarray:
        """(V,): the scores of the next symbol; -inf for symbols that are not recommended, unless those are all."""
        last = self.scores()[0][-1]
        last[: self.first] = -np.inf
        if len(self.left_out) < len(last) - self.first:
            last[self.left_out] = -np.inf
        return last

    def best(self) -> list[int]:
        """The symbols with the highest scores, the best first."""
        last = self.last()
        return np.argsort(-last, kind="stable")[: min(BEST, int(np.isfinite(last).sum()))].tolist()

    def gradient(self, dscores: np.ndarray, cache: Any) -> None:
        """Backpropagate the gradient of the scores, (real, V); scores at padding have none."""
        ds = np.pad(dscores.astype(np.float32), ((0, len(self.tokens) - self.real), (0, 0)))[None]
        self.watched.backward(self.p, ds if self.table is None else ds @ self.table, cache)


def visualise(
    model: Any, sequence: Any, *, against: Any = None, names: Any = None, titles: Sequence[str] = (), padding: int = 0
) -> View:
    """A page about the attention of `model`, and of the model `against`, if any, for one history or prompt.

    `model` is a recommender of equal blocks with attention, such as SASRec, or a `Decoder`. `names` maps ids to names.
    `padding` positions follow the history, as in a batch with longer ones, to show their mask.
    Raises ValueError for a model without attention, an unknown item (named), an empty history, too much padding, and
    two models that look at different tokens.
    """
    models = [model] if against is None else [model, against]
    titles = [*titles, *(m.name for m in models[len(titles) :])]
    queries = [_asked(m, sequence, names, title, padding) for m, title in zip(models, titles, strict=True)]
    if any(query.tokens != queries[0].tokens for query in queries):
        raise ValueError("the two models look at different tokens of this history: give a history that fits both")
    best = [queries[0].ids[symbol] for symbol in queries[0].best()]          # the same symbols for both
    runs = [_run(query, [query.ids.index(symbol) for symbol in best if symbol in query.ids]) for query in queries]
    return _page(queries, runs, "Who looks at whom", " ".join(dict.fromkeys(query.cut for query in queries)).strip())


def visualise_text(text: str, *, seed: int = 0) -> View:
    """A page about 2 to 64 words (else ValueError): a tiny decoder learns to predict each word from those before."""
    words = text.split()
    if not 2 <= len(words) <= 64:
        raise ValueError(f"the text has {len(words)} words, expected 2 to 64")
    known = list(dict.fromkeys(words))
    ids = np.array([[known.index(word) for word in words]])
    network = DecoderNetwork(n_tokens=len(known), context=len(words), dim=32, layers=2, heads=2)
    p, loss = _learned(network, ids, seed)
    query = Query(
        "a decoder of two layers", words, len(words), Watched(network), p, ids, None, ids[0, 1:], known, known, 0,
        np.zeros(0, int),
    )  # fmt: skip
    note = (
        f"A decoder of two layers and two heads has just learned this one sentence, in {STEPS} steps from seed {seed} "
        f"(loss {loss:.2g} nats a word). It knows nothing else: its heads look at what tells the next word here."
    )
    return _page([query], [_run(query, query.best())], text, note)


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


def _page(queries: list[Query], runs: list[dict[str, Any]], title: str, note: str) -> View:
    """The page, with the weights of the last token, in every layer and head, as a table."""
    tables = [
        as_table(f"{query.title}: weights of the last token", run["tokens"], (
            (f"layer {at + 1}, head {head + 1}", weights[query.real - 1])
            for at, layer in enumerate(query.watched.layers) for head, weights in enumerate(layer.weights)
        ))
        for query, run in zip(queries, runs, strict=True)
    ]  # fmt: skip
    return View("visualiser", title, {"title": title, "note": note, "runs": runs}, "".join(tables))


def _asked(model: Any, sequence: Any, names: Any = None, title: str = "", padding: int = 0) -> Query:
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
    cloze = network.asking(pad([whole[:1]], model.maxlen)).ids.shape[1] - 1        # 1 if the model appends [MASK]
    if not network.causal and not cloze:
        raise ValueError(f"model {model.name} does not read from left to right: only its last token is asked; {drawn}")
    history = whole[-min(model.maxlen - cloze, LONGEST) :]
    room = min(model.maxlen - cloze, LONGEST) - len(history)
    if not 0 <= padding <= room:
        raise ValueError(f"padding is {padding}, expected 0 to {room}: what this model has room for after the history")
    longer = np.ones(len(history) + padding, dtype=np.int64)
    batch = network.asking(pad([history, longer], model.maxlen).map(lambda x: x[:1]))
    ids = vocabulary.decode(np.arange(1, len(vocabulary) + 1)).tolist()
    symbols = ["padding", *(str(item) if names is None else names(item) for item in ids), "[MASK]"]
    return Query(
        title, [symbols[i] for i in batch.ids[0].tolist()], len(history) + cloze, watched, model.parameters, batch,
        model.parameters[network.scored], history[:0] if cloze else history[1:], symbols, [None, *ids], 1,
        np.unique(whole), _cut(len(whole), len(history), "items of the history"),
    )  # fmt: skip


def _of_text(model: Decoder, watched: Watched, prompt: str, title: str) -> Query:
    whole = np.asarray(model.tokens.encode(prompt))
    ids = whole[-min(model.context, LONGEST) :]
    if not len(ids):
        raise ValueError("the prompt is empty: expected at least one character")
    every = [model.tokens.text(np.array([i])) for i in range(len(model.tokens))]
    return Query(
        title, [every[i] for i in ids.tolist()], len(ids), watched, model.parameters, ids[None], None, ids[1:],
        every, every, 0, np.zeros(0, int), _cut(len(whole), len(ids), "tokens of the prompt"),
    )  # fmt: skip


def _cut(length: int, kept: int, what: str) -> str:
    return "" if length == kept else f"It looks at the newest {kept} of the {length} {what}."


def _run(query: Query, symbols: list[int]) -> dict[str, Any]:
    """The page's data of one model: with gradients of the scores of these symbols, and of the loss."""
    scores, cache = query.scores()
    layers = query.watched.layers
    outputs = []
    for symbol in symbols:
        dscores = np.zeros(scores.shape)
        dscores[-1, symbol] = 1.0
        outputs.append({"says": f"the score of {_short(query.names[symbol])}", "value": _rounded(scores[-1, symbol])})
        query.gradient(dscores, cache)
    if len(query.follows):
        s, targets = scores[:-1, query.first :], query.follows - query.first
        loss, dscores = float(cross_entropy(s, targets)), np.zeros(scores.shape)
        dscores[:-1, query.first :] = cross_entropy_backward(1.0, s, targets)
        outputs.append({"says": "the loss, the mean cross-entropy of each next token", "value": _rounded(loss)})
        query.gradient(dscores, cache)
    assert query.watched.read is not None
    inputs = [_packed(np.sum(query.watched.read * dx, axis=-1)) for dx in query.watched.inputs]
    shuffled = _shuffled(query, len(layers))
    return {
        "title": query.title, "tokens": [_short(token) for token in query.tokens], "outputs": outputs,
        "layers": [_layer(layer) for layer in layers], "inputs": inputs, "shuffled": shuffled,
        "last": query.real - 1, "mask": _masked(query),
    }  # fmt: skip


def _masked(query: Query) -> str:
    """The mask in words."""
    causal = np.tri(len(query.tokens), dtype=bool)
    hidden = [~layer.allowed for layer in query.watched.layers]
    if not any(np.any(x) for x in hidden):
        return "Nothing is masked: every token may look at every other."
    legend = "Hatched, or grey, is masked: "
    if not all(np.all(x[..., ~causal]) for x in hidden):
        return f"{legend}padding, at which nobody looks. Else every token may look at every other."
    padding = ", and with it padding" if query.real < len(query.tokens) else ""
    more = "; the mechanism masks some of what came before, too" if any(np.any(x[..., causal]) for x in hidden) else ""
    return f"{legend}what comes later{padding}{more}."


def _shuffled(query: Query, layers: int) -> list[dict[str, float]]:
    """For each layer, the median change of the best score when the last token's weights are permuted (Jain & Wallace
    2019, section 4.1), and the standard deviation of the last token's scores."""
    tests, last = [], query.last()
    symbol, spread = int(np.argmax(last)), float(np.std(last[np.isfinite(last)]))
    for layer in range(layers):
        moved = []
        for shuffle in range(SHUFFLES):
            rng = np.random.default_rng([layer, shuffle])

            def permute(at: int, weights: np.ndarray, layer: int = layer, rng: Any = rng) -> np.ndarray:
                if at != layer:
                    return weights
                permuted = weights.copy()
                allowed = np.broadcast_to(query.watched.layers[at].allowed, weights.shape)[:, query.real - 1]
                for row, may in zip(permuted[:, query.real - 1], allowed, strict=True):
                    row[may] = rng.permutation(row[may])
                return permuted

            query.watched.change = permute
            moved.append(abs(float(query.scores()[0][-1, symbol]) - float(last[symbol])))
        tests.append({"moved": _rounded(np.median(moved)), "spread": _rounded(spread)})
    query.watched.change = None
    return tests


def _layer(layer: Layer) -> dict[str, Any]:
    h, n, m = layer.weights.shape
    made, bits = layer.from_scores, np.packbits(layer.allowed.ravel(), bitorder="little")
    return {
        "heads": h, "n": n, "m": m, "d": layer.q.shape[-1], "scale": layer.scale,
        "q": _packed(layer.q), "k": _packed(layer.k), "v": _packed(layer.v),
        "bias": _packed(layer.bias) if made and layer.bias is not None else None,
        "relative": None if layer.relative is None else _packed(layer.relative),
        "allowed": base64.b64encode(bits.tobytes()).decode(), "by_head": layer.allowed.ndim > 2,
        "weights": None if made else _packed(layer.weights),
        "gradients": [_packed(gradient) for gradient in layer.gradients],
    }  # fmt: skip


def _rounded(x: Any) -> float:
    return float(f"{float(x):.4g}")


def _packed(x: np.ndarray) -> dict[str, str]:
    """float32, little-endian, in base64."""
    return {"f4": base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode()}


def _short(name: str) -> str:
    name = str(name)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
