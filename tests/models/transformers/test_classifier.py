"""The classifier of texts: gradients, the first loss, padding, F1 and accuracy, what it starts from, refusals."""

import math

import numpy as np
import pytest

from tests.helpers import noisy
from tests.models.small import make as small
from tinyattn.check import gradcheck_model
from tinyattn.data import LabelledSampler, LabelledTexts, NumberedTexts, Parts
from tinyattn.layers import BLOCK_FORMS
from tinyattn.models import Classifier, ClassifierNetwork, Encoder
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, leaves

SIZES = {"n_tokens": 7, "n_labels": 3, "context": 6, "dim": 8, "heads": 4, "layers": 2}
TEXTS = [(word * n, "a" if word[0] == "a" else "b") for word in ("ab", "ba", "abb", "baa") for n in (1, 2, 3)]


def make(**options):
    network = ClassifierNetwork(**SIZES | options)
    rng = np.random.default_rng(5)
    p = noisy(network.init(generator(0, Stream.INIT)), rng, 0.2)
    return network, flatten(p, np.float64)[1]


def batch_of(lengths=(3, 6, 1)):
    rng = np.random.default_rng(1)
    texts = [rng.integers(7, size=n) for n in lengths]
    return LabelledSampler(NumberedTexts(texts, np.array([2, 0, 1])), 3, 0).whole()


@pytest.mark.parametrize("form", BLOCK_FORMS)
def test_gradients_with_dropout_and_padding(form):
    network, p = make(block_form=form, dropout=0.3)
    report = gradcheck_model(network, p, batch_of(), key=3, entries=2)
    assert report, f"\n{report}"


def test_the_map_reads_the_mean_of_the_states_and_begins_at_ln_v():
    network, p = make()
    batch = batch_of()
    scores, cache = network.forward(p, batch.ids, batch.lengths)
    for row, n in enumerate(batch.lengths):
        mean = cache.encoder.h[row, :n].mean(axis=0)
        np.testing.assert_allclose(scores[row], mean @ p["head"]["W"] + p["head"]["b"], rtol=1e-12)
    assert network.loss(network.init(generator(0, Stream.INIT)), batch)[0] == pytest.approx(math.log(3))


def test_padding_changes_nothing():
    """Neither its length nor the tokens in it: scores, and gradients of all parameters."""
    network, p = make()
    batch = batch_of()
    alone = [network.forward(p, batch.ids[[row], :n], batch.lengths[[row]])[0] for row, n in enumerate(batch.lengths)]
    np.testing.assert_allclose(network.forward(p, batch.ids, batch.lengths)[0], np.concatenate(alone), rtol=1e-10)
    other = batch._replace(ids=np.where(np.arange(6) < batch.lengths[:, None], batch.ids, 5))
    grads = [flatten(network.loss_backward(p, 1.0, network.loss(p, each)[1]))[0] for each in (batch, other)]
    np.testing.assert_allclose(*grads, rtol=1e-9, atol=1e-14)


def test_it_starts_with_all_of_the_encoder_but_for_scores_of_tokens():
    encoder = small("encoder").fit("abba" * 20, progress=False)
    model = small("classifier")
    model._start = encoder
    network = model.make_network({"tokens": encoder.tokens, "labels": ["a", "b"]})
    begun, kept = dict(leaves(network.init(generator(1, Stream.INIT)))), dict(leaves(encoder.parameters))
    assert begun.keys() - kept.keys() == {"head.W", "head.b"}
    assert kept.keys() - begun.keys() == {"bias"}
    for name in begun.keys() & kept.keys():
        np.testing.assert_array_equal(begun[name], kept[name])
    model._start = None
    model.fit(TEXTS, start=encoder, progress=False)
    assert (model._start, model.network.start, model.tokens) == (None, None, encoder.tokens)
    for start, options, says in (
        (encoder, {"dim": 4}, "dim is 4, expected 8, as in the model that this one starts from"),
        (small("encoder"), {}, "not learned anything yet"),
        (model, {}, "expected an Encoder that has learned"),
    ):
        with pytest.raises(ValueError, match=says):
            small("classifier", **options).fit(TEXTS, start=start, progress=False)
    with pytest.raises(ValueError, match="character 'x' of the text is unknown: the known ones are 'ab', in 'xa'"):
        small("classifier").fit([*TEXTS, ("xa", "a")], start=encoder, progress=False)


def test_it_learns_saves_and_measures(tmp_path):
    model = small("classifier", epochs=40, dim=16).fit(TEXTS, progress=False)
    texts, labels = zip(*TEXTS, strict=True)
    assert model.classify(texts).tolist() == list(labels)
    assert model.evaluate(TEXTS).items() >= {"accuracy": 1.0, "macro-f1": 1.0}.items()
    found = model.evaluate([("ab", "b"), ("abab", "a"), ("ba", "b"), ("baa", "a")])
    assert found["accuracy"] == found["macro-f1"] == 0.5
    model.save(tmp_path / "m.npz")
    again = Classifier.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.probabilities(texts), model.probabilities(texts))


def test_what_cannot_be_learned_or_read_is_refused():
    plain, model = LabelledTexts.of(TEXTS), small("classifier", context=9).fit(TEXTS, progress=False)
    same = LabelledTexts.of([("ab", "a"), ("abb", "a")])
    for data, says in (
        (same, "all texts to learn from have the label 'a', expected at least two labels"),
        (Parts(plain, LabelledTexts.of([("ab", "c")])), "no text to learn from has the label 'c', which held-out"),
        ([("ab", "a"), ("", "b")], "pair 2 is '', 'b'"),
        ([("ab" * 5, "a"), ("abba" * 3, "a"), ("b", "b")],
         "the longest text, 'abbaabbaabba', has 12 tokens, expected 9 at most, the context: cut it, or train with"),
    ):
        with pytest.raises(ValueError, match=says):
            small("classifier", context=9).fit(data, progress=False)
    for call, says in (
        (lambda: model.evaluate([("ab", "c")]), "line 1.*'ab', has the label 'c', expected one of a, b"),
        (lambda: model.classify([]), "there are no texts"),
        (lambda: model.classify("abba"), "texts is 'abba', expected a list of texts"),
        (lambda: model.classify(["a", None]), "a text is None, expected a string"),
        (lambda: model.classify([""]), "the text is empty"),
        (lambda: Classifier().classify(["a"]), "not learned anything yet"),
        (lambda: Encoder().evaluate("a"), "not learned anything yet"),
    ):
        with pytest.raises(ValueError, match=says):
            call()
