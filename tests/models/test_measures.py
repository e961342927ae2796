"""What models are measured by, and the answers they give: loops over the scores of one row at a time, in float64."""

import itertools
import math

import numpy as np
import pytest

from tests.models.small import DATA, make
from tinyattn.data import Images, Pairs, pair_batch
from tinyattn.models import Transformer, sequence_model
from tinyattn.models.parameters import named
from tinyattn.models.transformers import image_model
from tinyattn.tree import flatten, tree_map

NEAR = {"rel": 3e-5}


def moved(model, known, size=0.4):
    """As if it had learned: fresh parameters, moved so far that answers differ."""
    rng = np.random.default_rng(11)
    model.network = model.make_network(known)
    p = tree_map(lambda a: a + size * rng.standard_normal(a.shape), model.network.init(rng))
    model.parameters = flatten(p, np.float32)[1]
    for what in model.vocabularies:
        setattr(model, what, known[what])
    return model


def of_small(name, **more):
    model, data = make(name, dropout=0.0, **more), DATA[make(name).table]
    known = model.vocabularies_of([part for part in (data.train, data.valid, data.test) if part is not None])
    for what in ("shape", "codebook"):
        if what in known:
            setattr(model, what, known[what])
    return moved(model, known), data.test


def log_softmax(scores):
    scores = np.asarray(scores, dtype=np.float64)
    return scores - scores.max() - math.log(np.sum(np.exp(scores - scores.max())))


def tally(rows):
    """The shares of right answers and the mean of -log p, of (log probabilities, target) pairs."""
    right = [int(np.argmax(each)) == target for each, target in rows]
    return sum(right) / len(right), -sum(each[target] for each, target in rows) / len(rows)


@pytest.mark.parametrize("name", ["transformer", "rnnsearch"])
def test_of_pairs_whole_strings_characters_and_the_loss_are_counted(name, monkeypatch):
    monkeypatch.setattr(sequence_model, "SLICE_TOKENS", 5)              # several slices, of other sizes
    model, test = of_small(name)
    rows, exact = [], []
    for source, target in zip(test.sources, test.targets, strict=True):
        read, written = model.sources.numbers(list(source)), model.targets.numbers(list(target))
        scores, _ = model.network.forward(model.parameters, pair_batch([read], [written], np.zeros(1, dtype=int)))
        mine = [(log_softmax(each), int(wanted)) for each, wanted in zip(scores[0], [*written, 0], strict=True)]
        rows += mine
        exact.append(all(np.argmax(each) == wanted for each, wanted in mine))
    characters, loss = tally(rows)
    found = model.evaluate(test)
    assert found == {"exact": pytest.approx(np.mean(exact), **NEAR), "characters": pytest.approx(characters, **NEAR),
                     "loss": pytest.approx(loss, **NEAR)}  # fmt: skip


def test_the_strings_that_a_wide_beam_finds_are_the_likeliest_of_all():
    """Of three symbols and at most four characters with the end: every string is read, and their probabilities add up
    to 1. Those that the beam gives have the log-probabilities that the model itself gives."""
    model = Transformer(dim=8, heads=2, layers=1, maxlen=4)
    data = Pairs.of([("xy", "ab"), ("y", "ba")])
    model = moved(model, model.vocabularies_of([data]), 0.6)
    read = model.sources.numbers(list("xy"))
    every = {}
    for n in range(4):
        for symbols in itertools.product([1, 2], repeat=n):
            batch = pair_batch([read], [np.array(symbols, dtype=np.int64)], np.zeros(1, dtype=int))
            scores = model.network.forward(model.parameters, batch)[0][0]
            logs = [log_softmax(each)[s] for each, s in zip(scores, [*symbols, 0], strict=True)]
            every["".join(" ab"[s] for s in symbols)] = sum(logs[:n] if n == 3 else logs)      # there the end is forced
    assert math.isclose(sum(map(math.exp, every.values())), 1, rel_tol=1e-5)
    found = model.translations("xy", beam=40)
    best = sorted(every, key=every.get, reverse=True)
    assert found[0][0] == model.translate("xy", beam=40) == best[0]
    greedy = model.translations("xy")
    assert greedy[0][0] == model.translate("xy")
    for text, score in found + greedy:
        ends = model.network.forward(model.parameters, pair_batch(
            [read], [model.targets.numbers(list(text)) if text else np.zeros(0, dtype=int)],
            np.zeros(1, dtype=int)))[0][0, len(text)]  # fmt: skip
        forced = log_softmax(ends)[0] if len(text) == 3 else 0.0     # the end counts there, too
        assert score == pytest.approx(every[text] + forced, abs=1e-5)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


@pytest.mark.parametrize(("name", "options"), [("vit", {}), ("vit", {"distil": True}), ("vit", {"readout": "mean"}),
                                               ("swin", {})], ids=str)  # fmt: skip
def test_of_images_classes_are_counted_and_two_heads_have_the_mean_of_their_probabilities(name, options, monkeypatch):
    monkeypatch.setattr(image_model, "AT_ONCE", 2)
    parts = DATA["images"]
    model = make(name, dropout=0.0, **options)
    taught = Images(parts.train.images, parts.train.labels, teacher=parts.train.labels)
    known = model.vocabularies_of([taught])
    model.shape = known["shape"]
    moved(model, known)
    test, each, heads = parts.test, [], 1 + bool(options.get("distil"))
    for image in model.standardised(test.images):
        scores = model.network.forward(model.parameters, image[None])[0]
        assert scores.shape == (1, heads, 3)
        each.append(np.mean([np.exp(log_softmax(head)) for head in scores[0]], axis=0))
    np.testing.assert_allclose(model.probabilities(test.images), each, rtol=1e-4)
    likeliest = [model.classes.ids[int(np.argmax(p))] for p in each]
    assert model.classify(test.images).tolist() == likeliest
    targets = (model.classes.numbers(test.labels.tolist()) - 1).tolist()
    accuracy, loss = tally([(np.log(p), t) for p, t in zip(each, targets, strict=True)])
    assert model.evaluate(test) == {"accuracy": pytest.approx(accuracy), "loss": pytest.approx(loss, **NEAR)}
    assert accuracy == np.mean(np.array(likeliest) == test.labels)


def test_a_teachers_answers_are_the_second_heads_targets():
    """Each head has its own; the loss is the mean of both."""
    parts = DATA["images"]
    model = make("vit", dropout=0.0, distil=True)
    other = np.roll(parts.train.labels, 1)
    taught = Images(parts.train.images, parts.train.labels, teacher=other)
    known = model.vocabularies_of([taught])
    model.shape = known["shape"]
    moved(model, known)
    batch = model.sampler(model.numbered(taught, known)).whole()
    scores, _ = model.network.forward(model.parameters, batch.images)
    labels, said = (known["classes"].numbers(x.tolist()) - 1 for x in (parts.train.labels, other))
    assert batch.labels.tolist() == labels.tolist()
    assert batch.taught.tolist() == said.tolist()
    _, first = tally([(log_softmax(s[0]), t) for s, t in zip(scores, labels, strict=True)])
    _, second = tally([(log_softmax(s[1]), t) for s, t in zip(scores, said, strict=True)])
    loss, _ = model.network.loss(model.parameters, batch)
    assert float(loss) == pytest.approx((first + second) / 2, **NEAR)


def test_of_hidden_patches_their_words_alone_are_counted():
    model, test = of_small("beit", words=4, block=1)
    batch, rows = model.evaluation_batch(test), []
    assert 0 < batch.hidden.sum() < batch.hidden.size
    for image, hidden, words in zip(batch.images, batch.hidden, batch.words, strict=True):
        scores = model.network.forward(model.parameters, image[None], hidden[None])[0][0]
        rows += [(log_softmax(s), int(w)) for s, w, asked in zip(scores, words, hidden, strict=True) if asked]
    accuracy, loss = tally(rows)
    assert model.evaluate(test) == {"accuracy": pytest.approx(accuracy), "loss": pytest.approx(loss, **NEAR)}
    likeliest = model.guessed(test.images, batch.hidden)
    assert np.mean((likeliest == batch.words)[batch.hidden]) == pytest.approx(accuracy)


@pytest.mark.parametrize("name", ["tagger", "encoder"])
def test_what_is_asked_for_is_counted_and_nothing_else(name):
    model, test = of_small(name)
    batch = model.sampler(model.numbered(test, model.known())).whole()
    rows = []
    assert 0 < batch.weight.sum() < batch.weight.size
    for ids, targets, weight in zip(batch.ids, batch.targets, batch.weight, strict=True):
        scores = model.network.forward(model.parameters, ids[None])[0][0]
        rows += [(log_softmax(s), int(t)) for s, t, w in zip(scores, targets, weight, strict=True) if w]
    accuracy, loss = tally(rows)
    found = model.evaluate(test)
    assert found["loss"] == pytest.approx(loss, **NEAR)
    assert found.get("accuracy", accuracy) == pytest.approx(accuracy)
    assert set(found) == ({"accuracy", "loss"} if name == "tagger" else {"loss"})


def test_all_ways_to_fill_two_blanks_are_ranked_by_the_product_of_their_probabilities():
    model, _ = of_small("encoder")
    characters = model.tokens.ids.tolist()
    text = "a_" + characters[0] + "_"
    ids = model.tokens.encode(text.replace("_", characters[0]))
    every, mask = {}, len(characters)
    for a, first in enumerate(characters):
        one, two = ids.copy(), ids.copy()
        one[[1, 3]], two[1], two[3] = mask, a, mask
        start = log_softmax(model.network.forward(model.parameters, one[None])[0][0, 1])[a]
        after = log_softmax(model.network.forward(model.parameters, two[None])[0][0, 3])
        for b, second in enumerate(characters):
            every["a" + first + characters[0] + second] = math.exp(start + after[b])
    best = sorted(every, key=every.get, reverse=True)[:4]
    found = model.fill(text, k=4)
    assert [filled for filled, _ in found] == best
    np.testing.assert_allclose([p for _, p in found], [every[filled] for filled in best], rtol=1e-4)


def test_the_likeliest_filling_need_not_begin_with_the_likeliest_character():
    """So some beginnings are gone on from, though only one filling is asked for."""
    differ = 0
    for seed in range(8):
        model, _ = of_small("encoder")
        rng = np.random.default_rng(seed)
        p = model.network.init(rng)
        model.parameters = tree_map(lambda a, rng=rng: (a + 0.2 * rng.standard_normal(a.shape)).astype(np.float32), p)
        (best, likelihood), *others = model.fill("a__", k=len(model.tokens) ** 2)
        assert model.fill("a__", k=1) == [(best, pytest.approx(likelihood, rel=1e-4))]
        beginnings = {}
        for text, q in [(best, likelihood), *others]:
            beginnings[text[1]] = beginnings.get(text[1], 0) + q
        assert sum(beginnings.values()) == pytest.approx(1, rel=1e-3)
        differ += max(beginnings, key=beginnings.get) != best[1]
    assert differ


def test_parameters_by_name_are_those_of_the_tree():
    p = {"a": [np.ones(2), {"b": np.zeros(3)}], "c": np.full(1, 2.0)}
    found = named(p)
    assert {name: a.tolist() for name, a in found.items()} == {
        "parameters.a.0": [1, 1], "parameters.a.1.b": [0, 0, 0], "parameters.c": [2]}
