"""The visualiser: what a model answers, which tokens each answer depends on, and which token attends to which.

The page gets the library's queries, keys, values and gradients for the named model and history. From these it computes
scores, weights, their gradients and the roll-out.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data import TextBatch, TimedHistory, pad
from ...models import Decoder, DecoderNetwork, Encoder
from ...models.choosing import refuse_damaged
from ...ops import cross_entropy, cross_entropy_backward, softmax
from ...options import as_text
from ...random import Stream, generator
from ...training import Moments, adam
from ...tree import add_to, flatten, views
from .view import View, as_table, numbers
from .watch import Layer, Watched

BEST = 10                # answers of a page; each of two models gives half of them
SHUFFLES = 20            # random permutations of the weights
STEPS = 150              # training steps of the model of a text
LONGEST = 400            # the most tokens
LONGEST_NAME = 60        # the most characters of a token's name
MOST_OPTIONS = 4         # the most options in the title of one of two models
SEEN = str.maketrans(" \n\t", "␣⏎⇥")      # replaces invisible characters


@dataclass
class Query:
    """A network and one sequence."""

    title: str
    tokens: list[str]                    # (n,): the sequence, then padding
    real: int                            # tokens before padding
    watched: Watched
    p: Any
    batch: Any                           # the argument of `forward`: a batch, or ids
    table: Any                           # (V, D): scores are h tableᵀ; None if `forward` returns scores
    follows: np.ndarray                  # (up to real,): the symbol that followed each token; if empty, no loss
    names: list[str]                     # (V,): the names of the symbols
    ids: list[Any]                       # (V,): the ids of the symbols, by which two models are compared
    first: int                           # symbols below this are special, such as padding
    left_out: np.ndarray                 # symbols that are not recommended, as they are in the history
    cut: str = ""                        # a note for a sequence that was cut
    at: int = -1                         # the token whose answer is shown

    def __post_init__(self) -> None:
        self.at %= self.real
        self.came = int(self.follows[self.at]) if len(self.follows) > self.at else None    # the symbol that came next

    def scores(self) -> tuple[np.ndarray, Any]:
        """-> scores (real, V) of the symbol after each token, or in a token's place; the cache. Refuses NaN."""
        with np.errstate(over="ignore", invalid="ignore"):           # a NaN is refused, below
            h, cache = self.watched.forward(self.p, self.batch)
            h = h[:, : self.real]
            scores = np.asarray(h[0] if self.table is None else h[0] @ self.table.T, dtype=np.float64)
        refuse_damaged(scores)
        return scores, cache

    def answer(self) -> np.ndarray:
        """(V,): the scores of the next symbol; -inf for symbols that are not recommended, unless no others are left."""
        answer = self.scores()[0][self.at]
        answer[: self.first] = -np.inf
        if len(self.left_out) < len(answer) - self.first:
            answer[self.left_out] = -np.inf
        return answer

    def best(self, most: int = BEST) -> list[int]:
        """The symbols with the highest scores, the best first; the symbol that really came next is added."""
        answer = self.answer()
        best = np.argsort(-answer, kind="stable")[: min(most, int(np.isfinite(answer).sum()))].tolist()
        return best if self.came is None or self.came in best else [*best, self.came]

    def gradient(self, dscores: np.ndarray, cache: Any) -> None:
        """Backpropagate the gradient of the scores, (real, V). Scores at padding have gradient 0."""
        ds = np.pad(dscores.astype(np.float32), ((0, len(self.tokens) - self.real), (0, 0)))[None]
        self.watched.backward(self.p, ds if self.table is None else ds @ self.table, cache)


def visualise(
    model: Any, sequence: Any, *, against: Any = None, names: Any = None, titles: Sequence[str] = (), padding: int = 0,
    times: Any = None,
) -> View:  # fmt: skip
    """A page about the answers of `model`, and of a second model `against`, to one history or prompt.

    `model` is a recommender of equal blocks with attention, such as SASRec; a `Decoder`; or an `Encoder`, which
    fills the first `_` of its prompt. `names(id)` is the name of an item. The history is followed by `padding` padded
    positions, as in a batch with longer histories, so that the page shows their mask. `times` are the history's, for
    a model that reads them. With two models, each title begins with the options that differ. Raises ValueError for a
    model without attention, an unknown item (named), an empty history, times that do not fit or are missing, too much
    padding, and two models that look at different tokens or have no answer in common.
    """
    models = [model] if against is None else [model, against]
    titles = [*titles, *(m.name for m in models[len(titles) :])]
    queries = [_asked(m, sequence, names, title, padding, times) for m, title in zip(models, titles, strict=True)]
    if any(query.tokens != queries[0].tokens for query in queries):
        raise ValueError("the two models look at different tokens of this history: give a history that fits both")
    if against is not None:
        for query, differs in zip(queries, _differences(models), strict=True):
            query.title = f"{differs} ({query.title})"
    best = [query.ids[symbol] for query in queries for symbol in query.best(BEST // len(queries))]
    known = [symbol for symbol in dict.fromkeys(best) if all(symbol in query.ids for query in queries)]
    if not known:
        raise ValueError("the two models have no answer in common: they know different items")
    runs = [_run(query, [query.ids.index(symbol) for symbol in known]) for query in queries]
    title = "What the model answers, and why" if against is None else "What two models answer, and why"
    return _page(queries, runs, title, " ".join(dict.fromkeys(query.cut for query in queries)).strip())


def _differences(models: list[Any]) -> list[str]:
    """For each of two models, the options in which they differ, with its values."""
    options = [{"model": model.name} | model.identity() for model in models]
    differ = [name for name in options[0] | options[1] if options[0].get(name) != options[1].get(name)]
    more = f" and {len(differ) - MOST_OPTIONS} more" if len(differ) > MOST_OPTIONS else ""
    return [
        ", ".join(f"{name.replace('_', ' ')} {as_text(one.get(name, 'none'))}" for name in differ[:MOST_OPTIONS]) + more
        or "the same options" for one in options
    ]  # fmt: skip


def visualise_text(text: str, *, seed: int = 0) -> View:
    """A page about a text: a tiny decoder learns to predict each word from the words before it.

    The page shows the prediction of the last word. Raises ValueError unless the text has 2 to 64 words.
    """
    words = text.split()
    if not 2 <= len(words) <= 64:
        raise ValueError(f"the text has {len(words)} words, expected 2 to 64")
    known = list(dict.fromkeys(words))
    ids = np.array([[known.index(word) for word in words]])
    network = DecoderNetwork(n_tokens=len(known), context=len(words), dim=32, layers=2, heads=2)
    p, loss = _learned(network, ids, seed)
    query = Query(
        "a decoder of two layers", words[:-1], len(words) - 1, Watched(network), p, ids[:, :-1], None, ids[0, 1:],
        known, known, 0, np.zeros(0, int),
    )  # fmt: skip
    note = (
        f"A decoder of two layers and two heads has just learned this one sentence, in {STEPS} steps from seed {seed} "
        f"(loss {loss:.2g} nats a word). It knows nothing else. It reads all words but the last, and predicts the last."
    )
    return _page([query], [_run(query, query.best())], text, note)


def _learned(network: DecoderNetwork, ids: np.ndarray, seed: int) -> tuple[Any, float]:
    """-> the parameters after `STEPS` steps of Adam on the one sequence, and the last loss."""
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
    """The page; its tables have the answers, and the answering token's weights in every layer and head."""
    tables = []
    for query, run in zip(queries, runs, strict=True):
        answers = [(one["name"], [one["value"]]) for one in run["outputs"] if one["rank"]]
        tables.append(as_table(f"{query.title}: answers", ["score"], answers))
        tables.append(as_table(f"{query.title}: weights of the token that answers", run["tokens"], (
            (f"layer {at + 1}, head {head + 1}", weights[query.at])
            for at, layer in enumerate(query.watched.layers) for head, weights in enumerate(layer.weights)
        )))  # fmt: skip
    return View("visualiser", title, {"title": title, "note": note, "runs": runs}, "".join(tables))


def _asked(model: Any, sequence: Any, names: Any = None, title: str = "", padding: int = 0, times: Any = None) -> Query:
    vocabulary = model.fitted()
    network: Any = getattr(model, "network", None)
    drawn = "tinyattn show without --html draws its weights"
    try:
        watched = Watched(network)
    except ValueError as error:
        without = f"{title} is of model {model.name}, without attention that can be shown"
        raise ValueError(f"model {model.name}: {error}; {drawn}" if model.attends else without) from None
    if isinstance(model, Decoder | Encoder):
        if padding:
            raise ValueError(f"padding is {padding}: it is for histories, and a prompt has none")
        return _of_text(model, watched, sequence, title)
    if getattr(model, "padding", "hidden") != "hidden":
        raise ValueError(f"padding is {model.padding!r}: its attention looks at slots before the history; {drawn}")
    timed = isinstance(read := model.read_history(sequence, times), TimedHistory)
    whole = read.items if timed else read
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
    asked = [read[-len(history) :], TimedHistory(longer, 0.0 * longer) if timed else longer]
    batch = network.asking(pad(asked, model.maxlen).map(lambda x: x[:1]))
    ids = vocabulary.decode(np.arange(1, len(vocabulary) + 1)).tolist()
    symbols = ["padding", *(str(item) if names is None else names(item) for item in ids), "[MASK]"]
    return Query(
        title, [symbols[i] for i in batch.ids[0].tolist()], len(history) + cloze, watched, model.parameters, batch,
        model.parameters[network.scored], history[:0] if cloze else history[1:], symbols, [None, *ids], 1,
        np.unique(whole), _cut(len(whole), len(history), "items of the history"),
    )  # fmt: skip


def _of_text(model: Decoder | Encoder, watched: Watched, prompt: str, title: str) -> Query:
    every = [model.tokens.text(np.array([i])).translate(SEEN) for i in range(len(model.tokens))]
    if isinstance(model, Encoder):
        whole, blanks = model.blanks(prompt)
        if len(whole) > LONGEST:
            raise ValueError(f"the prompt has {len(whole)} tokens, expected {LONGEST} at most")
        ids, follows, at = whole, whole[:0], int(blanks[0])
    else:
        whole = np.asarray(model.tokens.encode(prompt))
        ids = whole[-min(model.context, LONGEST) :]
        follows, at = ids[1:], -1
    return Query(
        title, [[*every, "_"][i] for i in ids.tolist()], len(ids), watched, model.parameters, ids[None], None, follows,
        every, every, 0, np.zeros(0, int), _cut(len(whole), len(ids), "tokens of the prompt"), at,
    )  # fmt: skip


def _cut(length: int, kept: int, what: str) -> str:
    return "" if length == kept else f"It looks at the newest {kept} of the {length} {what}."


def _run(query: Query, symbols: list[int]) -> dict[str, Any]:
    """The page's data for one model, with the gradients of these symbols' scores and of the loss."""
    answer, (scores, cache) = query.answer(), query.scores()
    layers, shown = query.watched.layers, scores[query.at]
    shares = numbers(softmax(shown), 8) if query.table is None else None              # probabilities of a text's tokens
    outputs: list[dict[str, Any]] = []
    for symbol in symbols:
        dscores = np.zeros(scores.shape)
        dscores[query.at, symbol] = 1.0
        outputs.append({
            "name": _short(query.names[symbol]), "value": _number(shown[symbol]), "share": shares and shares[symbol],
            "rank": 1 + int(np.sum(answer > shown[symbol])), "came": symbol == query.came,
        })  # fmt: skip
        query.gradient(dscores, cache)
    if rows := len(query.follows):
        s, targets = scores[:rows, query.first :], query.follows - query.first
        loss, dscores = _number(cross_entropy(s, targets)), np.zeros(scores.shape)
        dscores[:rows, query.first :] = cross_entropy_backward(1.0, s, targets)
        outputs.append({"name": "the loss", "value": loss, "rank": 0})
        query.gradient(dscores, cache)
    assert query.watched.read is not None
    inputs = [_packed(np.sum(query.watched.read * dx, axis=-1)) for dx in query.watched.inputs]
    shuffled = _shuffled(query, len(layers))
    return {
        "title": query.title, "tokens": [_short(token) for token in query.tokens], "outputs": outputs,
        "layers": [_layer(layer) for layer in layers], "inputs": inputs, "shuffled": shuffled,
        "last": query.at, "mask": _masked(query),
    }  # fmt: skip


def _masked(query: Query) -> str:
    """The mask in words."""
    causal = np.tri(len(query.tokens), dtype=bool)
    hidden = [~layer.allowed for layer in query.watched.layers]
    if not any(np.any(x) for x in hidden):
        return "Nothing is masked: every token may look at every other."
    legend = "Hatched, or grey, is masked: "
    if not all(np.all(x[..., ~causal]) for x in hidden):
        return f"{legend}padding, at which no token looks. Otherwise every token may look at every other."
    padding = ", padding included" if query.real < len(query.tokens) else ""
    more = "; the mechanism masks some earlier tokens, too" if any(np.any(x[..., causal]) for x in hidden) else ""
    return f"{legend}what comes later{padding}{more}."


def _shuffled(query: Query, layers: int) -> dict[str, Any]:
    """The median change of the best score, by layer, when the answering token's weights are permuted; the scores' std.

    See Jain & Wallace (2019), section 4.1.
    """
    medians, answer = [], query.answer()
    symbol = int(np.argmax(answer))
    for layer in range(layers):
        moved = []
        for shuffle in range(SHUFFLES):
            rng = np.random.default_rng([layer, shuffle])

            def permute(at: int, weights: np.ndarray, layer: int = layer, rng: Any = rng) -> np.ndarray:
                if at != layer:
                    return weights
                permuted = weights.copy()
                allowed = np.broadcast_to(query.watched.layers[at].allowed, weights.shape)[:, query.at]
                for row, may in zip(permuted[:, query.at], allowed, strict=True):
                    row[may] = rng.permutation(row[may])
                return permuted

            query.watched.change = permute
            moved.append(abs(float(query.scores()[0][query.at, symbol]) - float(answer[symbol])))
        medians.append(_number(np.median(moved)))
    query.watched.change = None
    return {"moved": medians, "spread": _number(np.std(answer[np.isfinite(answer)]))}


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


def _number(x: Any) -> Any:
    """A number for `as_json`, rounded to eight digits."""
    return numbers(np.array([x], dtype=np.float64), 8)[0]


def _packed(x: np.ndarray) -> dict[str, str]:
    """An array for the page: float32 numbers, little-endian, in base64."""
    return {"f4": base64.b64encode(np.ascontiguousarray(x, dtype="<f4").tobytes()).decode()}


def _short(name: str) -> str:
    name = str(name)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
