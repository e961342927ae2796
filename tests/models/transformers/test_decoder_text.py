"""What a decoder writes, and what it is measured by: against loops that read all tokens anew, one prefix at a time."""

import math

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.data import learned_tokens
from tinyattn.models import Decoder
from tinyattn.models.parameters import named
from tinyattn.models.transformers.sampling import Sampling
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten

TEXT = "the cat sat. the rat ran. the hat sat. "


def decoder(merges=0, **options):
    """As if it had learned: weights so large that each token depends on all that are read."""
    model, rng = Decoder(**{"dim": 8, "heads": 2, "layers": 2} | options), np.random.default_rng(7)
    tokens = learned_tokens(TEXT, merges)
    p = model.make_network({"tokens": tokens}).init(rng)
    p = flatten(noisy(p, rng, 0.7))[1]
    return model.learned_elsewhere(tokens, named(p).items())


def log_p(model, ids):
    """log p of every token after these, which are read at once."""
    scores = model.network.forward(model.parameters, np.array([ids]))[0][0, -1].astype(np.float64)
    return scores - scores.max() - math.log(np.sum(np.exp(scores - scores.max())))


@pytest.mark.parametrize("context", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("options", [{}, {"position": "rope"}, {"mixer": "lstm", "position": "none"}], ids=str)
def test_beyond_the_context_the_later_half_of_it_is_read_anew(context, options):
    """Each token is drawn by the scores after all tokens since the last beginning, as one forward has them."""
    if options.get("mixer"):
        options = options | {"heads": 4}
    model = decoder(context=context, **options)
    prompt = "the cat"[:context]
    ids, begin, rng = model.tokens.encode(prompt).tolist(), 0, generator(5, Stream.GENERATION)
    first, how = len(ids), Sampling(temperature=1.3, top_k=6, top_p=0.95)
    widths = set()
    for _ in range(25):
        widths.add(len(ids) - begin)
        was_full = len(ids) - begin == context
        ids.append(how.draw(log_p(model, ids[begin:]), rng))
        if was_full:
            begin = len(ids) - math.ceil((context + 1) / 2)
    assert widths == set(range(min(first, math.ceil((context + 1) / 2)), context + 1))
    found = model.generate(prompt, 25, seed=5, temperature=1.3, top_k=6, top_p=0.95)
    assert found == model.tokens.text(ids[first:])


def test_it_stops_after_a_token_that_ends_a_text():
    model = decoder(context=6)
    written = model.generate("the", 30, seed=1)
    model.tokens.ends = frozenset([int(model.tokens.encode(written[4])[0])])
    assert model.generate("the", 30, seed=1) == written[: written.index(written[4]) + 1]


@pytest.mark.parametrize(("merges", "context"), [(0, 6), (0, 5), (5, 6), (5, 2), (0, 100)])
def test_the_loss_is_the_mean_of_minus_log_p_of_the_tokens_that_are_predicted(merges, context):
    """All but the first. Each is predicted once, from at least half a window where the text has that before it.

    Per character it is the sum, divided by the characters of the predicted tokens, without those of the first.
    """
    model, text = decoder(merges, context=context), "the rat sat. the cat ran."
    ids = model.tokens.encode(text).tolist()
    width = min(context, len(ids) - 1)
    last, half = len(ids) - 1 - width, max(1, width // 2)
    begins = [*range(0, last, half), last]
    total, characters = 0.0, 0
    for place in range(1, len(ids)):
        begin = next(b for b in begins if b + width >= place)              # the first window that reaches it
        assert place - begin >= min(place, half)
        total -= log_p(model, ids[begin:place])[ids[place]]
        characters += len(model.tokens.strings[ids[place]])
    found = model.evaluate(text)
    assert found["loss"] == pytest.approx(total / (len(ids) - 1), rel=2e-5)
    assert found["per_character"] == pytest.approx(total / characters, rel=2e-5)
    assert characters == len(text) - len(model.tokens.strings[ids[0]])


def test_of_a_text_of_one_merge_and_a_character_the_characters_of_the_merge_are_not_predicted():
    model = decoder(5, context=6)
    text = next(s for s in model.tokens.strings if len(s) == 2) + "."
    assert len(model.tokens.encode(text)) == 2
    found = model.evaluate(text)
    assert found["per_character"] == pytest.approx(found["loss"], rel=1e-6)


def test_an_untied_table_makes_the_scores_and_the_other_one_is_read():
    network = decoder(context=6, tied=False).network
    p = network.init(generator(0, Stream.INIT))
    assert not np.allclose(p["tokens"], p["output"])
    ids = np.array([[0, 1, 2]])
    scores, cache = network.forward(p, ids)
    np.testing.assert_allclose(scores[0], cache.h[0] @ p["output"].T, rtol=0, atol=1e-12)
    moved = network.forward(p | {"tokens": p["tokens"] + np.arange(8)}, ids)[1].h
    assert not np.allclose(moved, cache.h)
    np.testing.assert_array_equal(network.forward(p | {"output": 2 * p["output"]}, ids)[1].h, cache.h)


@pytest.mark.parametrize("mechanism", [{"mechanism": "window", "window": 3}, {"mechanism": "full"}], ids=str)
def test_one_token_at_a_time_is_scored_as_in_the_whole_text_also_beyond_the_window(mechanism):
    """By the short way of one token, which has no mask: what is kept must be what the window allows."""
    model = decoder(context=12, position="rope", **mechanism)
    ids = np.array([model.tokens.encode(TEXT)[:12]])
    whole, _ = model.network.forward(model.parameters, ids)
    extend, past = model.network.extending(model.parameters), None
    for t in range(12):
        scores, past = extend(ids[:, t : t + 1], past)
        np.testing.assert_allclose(scores[0, -1], whole[0, t], rtol=0, atol=2e-5 * np.abs(whole).max())
