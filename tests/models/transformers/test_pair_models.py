"""What every model of pairs of strings gets from its base: what it is measured by, refusals, the alignment."""

import numpy as np
import pytest

from tinyattn.data import Pairs
from tinyattn.models import MODELS
from tinyattn.models.transformers.pair_model import PairModel
from tinyattn.options import options_of

LOOKS = {"transformer": (2, 2), "rnnsearch": (1, 1)}  # layers of the decoder that look at the source, and heads
HERE = [name for name, cls in MODELS.items() if issubclass(cls, PairModel)]


@pytest.fixture(params=HERE)
def name(request):
    return request.param


def make(name, **more):
    known = {o.name for o in options_of(MODELS[name])}
    options = {"dim": 8, "heads": 2, "layers": 1, "workers": 1} | more
    return MODELS[name](**{key: value for key, value in options.items() if key in known})


def test_one_batch_is_learned_by_heart(name):
    pairs = Pairs.of([("abc", "bca"), ("ca", "a"), ("bbac", "cc"), ("a", "abab")])
    model = make(name, dim=16, epochs=100, lr=0.01, dropout=0, patience=0)
    model.fit(pairs, progress=False)
    found = model.evaluate(pairs)
    assert found["exact"] == found["characters"] == 1
    assert found["loss"] < 0.05
    assert [model.translate(source) for source in pairs.sources] == list(pairs.targets)


def test_exact_match_by_teacher_forcing_is_exact_match_of_greedy_decoding(name):
    """Half learned, so that some strings are right and others are not."""
    rng = np.random.default_rng(0)
    words = sorted({"".join(rng.choice(list("ab"), rng.integers(1, 5))) for _ in range(60)})
    pairs = Pairs.of((word, word[::-1]) for word in words)
    more = {"epochs": 25, "lr": 0.01, "warmup": 0, "schedule": "constant", "batch_size": 128, "patience": 0}
    model = make(name, dim=16, dropout=0, **more)
    model.fit(pairs, progress=False)
    greedy = np.mean([model.translate(source) == target for source, target in zip(words, pairs.targets, strict=True)])
    assert model.evaluate(pairs)["exact"] == pytest.approx(greedy)
    assert greedy > 0


def test_strings_that_it_cannot_read_are_refused_and_named(name):
    model = make(name, epochs=1, maxlen=6)
    model.fit([("ababab", "bbbbb"), ("ba", "a")], progress=False)     # as long as they may be
    with pytest.raises(ValueError, match=r"character 'x' of 'axb' is unknown: the known ones are 'ab'"):
        model.translate("axb")
    with pytest.raises(ValueError, match="the text is empty: expected at least one character"):
        model.translate("")
    with pytest.raises(ValueError, match=r"'abababa' has 7 characters, expected 6 at most: maxlen is 6"):
        model.translate("abababa")
    with pytest.raises(ValueError, match="beam is 0, expected 1 to 1000"):
        model.translate("ab", beam=0)
    with pytest.raises(ValueError, match=r"'aaaaaa' has 6 characters, expected 5 at most"):
        make(name, maxlen=6).fit([("ab", "aaaaaa")], progress=False)  # with its end it is one longer
    with pytest.raises(ValueError, match="not learned anything yet"):
        make(name).translate("ab")


def test_the_alignment_has_a_row_for_every_character_that_is_written(name):
    model = make(name, epochs=1, layers=2).fit([("abc", "ca"), ("ba", "a")], progress=False)
    weights = model.alignment("abc", "ca")
    assert weights.shape == (*LOOKS[name], 3, 3)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.alignment("abc", ""), weights[:, :, :1], rtol=1e-5)
    changed = model.alignment("abc", "aa")
    np.testing.assert_allclose(changed[:, :, 0], weights[:, :, 0], rtol=1e-5)  # what is written so far decides
    assert np.abs(changed[:, :, 2] - weights[:, :, 2]).max() > 1e-6
