"""The short way to the state after one history: `last_state`'s numbers, never of parameters that have changed since."""

import pickle

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.data import Vocabulary, pad
from tinyattn.fast import one_history
from tinyattn.fast.one_history import OneHistory
from tinyattn.forms import readable
from tinyattn.layers import BLOCK_FORMS, FEED_FORWARDS, MECHANISMS, NORMS, POSITIONS
from tinyattn.models import MODELS, NeuralRecommender, SASRec, SASRecNetwork
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, leaves, tree_map

MAXLEN, ITEMS = 7, 12
HISTORY = np.array([3, 1, 4, 5, 9, 2, 6, 8])  # longer than what is read
PARTS = {"block_form": BLOCK_FORMS, "mechanism": MECHANISMS, "position": POSITIONS, "norm": NORMS,
         "feed_forward": FEED_FORWARDS, "kv_heads": (2, 1)}  # fmt: skip
SHORT = {"block_form": {"pre"}, "mechanism": {"full"}, "position": {"learned", "none", "sinusoidal"},
         "norm": {"layer"}, "feed_forward": {"relu", "gelu", "gelu-tanh", "elu", "silu"},
         "kv_heads": {2}}  # fmt: skip
OPTIONS = [
    {},
    {"emb_scale": True, "qkv_bias": True, "heads": 3, "position": "sinusoidal"},
    {"output_projection": True, "qkv_bias": True, "feed_forward": "gelu", "tied": False, "blocks": 3},
    {"output_projection": True, "heads": 1, "position": "none", "feed_forward_width": 2, "blocks": 1},
    {"tied": False, "emb_scale": True, "blocks": 0},
]


def model_of(dtype=np.float64, **options):
    """As if fitted, to noise. Raises ValueError for options that do not go together."""
    model = SASRec(**{"maxlen": MAXLEN, "dim": 12, "heads": 2, "eps": 1e-3} | options)
    model.network = model.make_network(ITEMS, 2)
    rng, p = np.random.default_rng(5), model.network.init(generator(0, Stream.INIT))
    model.parameters = flatten(noisy(p, rng), dtype)[1]
    model.items, model.users = Vocabulary(np.arange(1, ITEMS + 1)), Vocabulary(np.arange(1, 3), "user")
    return model


def assert_as_defined(model, atol=1e-11, lengths=(8,)):
    for n in lengths:
        found = model.score([HISTORY[:n]])[0]
        expected = model.network.score(model.parameters, pad([HISTORY[:n]], MAXLEN))[0]
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found[1:], expected[1:], rtol=0, atol=atol)


@pytest.mark.parametrize("name", PARTS)
def test_every_part_the_short_way_where_it_suits_and_else_the_long_one(name):
    for choice in PARTS[name]:
        model = model_of(**{name: choice})
        assert_as_defined(model)
        assert OneHistory.suits(model.network) == (choice in SHORT[name]), choice


def refuse(*_):
    """In the place of the long way."""
    raise NotImplementedError


@pytest.mark.parametrize("case", OPTIONS, ids=str)
def test_every_option_of_what_it_suits(case, monkeypatch):
    for dtype, atol in ((np.float64, 1e-11), (np.float32, 2e-4)):
        model = model_of(dtype, **case)
        assert_as_defined(model, atol, lengths=(1, 2, MAXLEN, len(HISTORY)))
        before = [leaf.copy() for _, leaf in leaves(model.parameters)]
        with monkeypatch.context() as patched:
            patched.setattr(SASRecNetwork, "last_state", refuse)
            model.recommend(HISTORY.tolist(), 2)
        for (name, leaf), kept in zip(leaves(model.parameters), before, strict=True):
            np.testing.assert_array_equal(leaf, kept, err_msg=name)  # nothing writes into its inputs
    for other in (case | {"last_norm": False}, {"mixer": "gru", "heads": 1}, case | {"user_embedding": True}):
        assert not OneHistory.suits(model_of(**other).network)


def nodes(tree):
    for key, branch in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield tree, key
        if isinstance(branch, dict | list):
            yield from nodes(branch)


@pytest.mark.parametrize("tied", [True, False])
def test_a_changed_parameter_changes_the_answer(tied):
    """Written into, or another array or another branch in its place."""
    model = model_of(tied=tied, output_projection=True, qkv_bias=True)
    assert_as_defined(model)
    for _, leaf in leaves(model.parameters):
        leaf += 0.1
        assert_as_defined(model)
        leaf[...] = leaf[..., ::-1].copy()
        assert_as_defined(model)
    for node, key in list(nodes(model.parameters)):
        node[key] = tree_map(lambda a: a * 1.1 + 0.1, node[key])
        assert_as_defined(model)
    model.parameters = tree_map(lambda a: a * 0.9, model.parameters)
    assert_as_defined(model)


def test_another_network_and_copies_of_the_model_are_answered_for_as_they_are():
    model = model_of(heads=2)
    assert_as_defined(model)
    copied = pickle.loads(pickle.dumps(model))
    model.network = model_of(heads=3).network  # the same parameters have another meaning
    assert_as_defined(model)
    for _, leaf in leaves(copied.parameters):
        leaf += 0.1
    assert_as_defined(copied)


def test_a_model_that_learns_again_is_set_or_loaded_answers_anew(tmp_path):
    sequences = [[1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 1], [4, 5, 1, 2]]
    model = SASRec(maxlen=MAXLEN, dim=8, epochs=1, batch_size=2, workers=1).fit(sequences, progress=False)
    model.recommend([1, 2], 2)
    model.save(tmp_path / "model.npz")
    for again in (
        SASRec.load(tmp_path / "model.npz"),
        model.set_params(workers=2),
        model.set_params(seed=1, epochs=2).fit(sequences, progress=False),
    ):
        history = np.array([1, 2, 3])
        expected = again.network.score(again.parameters, pad([history], MAXLEN))
        np.testing.assert_allclose(again.score([history])[0, 1:], expected[0, 1:], rtol=0, atol=1e-5)


def test_many_rows_of_scores_and_whoever_wants_the_readable_form_go_the_long_way(monkeypatch):
    model = model_of()
    with monkeypatch.context() as patched:
        patched.setattr(SASRecNetwork, "last_state", refuse)
        model.score([HISTORY])
        with readable(), pytest.raises(NotImplementedError):
            model.score([HISTORY])
    monkeypatch.setattr(one_history, "MOST_ROWS", 2 * 3 + 1)  # with two heads, three tokens
    model = model_of()
    assert OneHistory(model.network, model.parameters).longest == 3
    assert_as_defined(model, lengths=(1, 3, 4))


def test_few_histories_are_answered_one_by_one_and_more_in_one_batch(monkeypatch):
    model, several = model_of(), [HISTORY[:n] for n in (3, 8, 1, 5)]
    expected = model.network.score(model.parameters, pad(several, MAXLEN))[:, 1:]
    np.testing.assert_allclose(model.score(several)[:, 1:], expected, rtol=0, atol=1e-11)
    monkeypatch.setattr(one_history, "FEW", 4)
    with monkeypatch.context() as patched:
        patched.setattr(SASRecNetwork, "last_state", refuse)
        model.score(several)
        with pytest.raises(NotImplementedError):
            model.score([*several, HISTORY])
        with pytest.raises(NotImplementedError):  # one of them is unknown to this form
            model.score([HISTORY[:0], HISTORY])


def test_large_scores_stay_finite_and_ruined_parameters_are_refused():
    model = model_of(np.float32)
    for name in ("query", "key"):
        model.parameters["blocks"][0]["attention"][name]["W"] *= 100  # exp of these scores is not finite
    assert np.all(np.isfinite(model.score([HISTORY])[0, 1:]))
    assert_as_defined(model, 2e-3)
    model.parameters["blocks"][1]["attention"]["value"]["W"][0, 0] = np.nan
    with pytest.raises(ValueError, match="the model's scores are NaN"):
        model.recommend(HISTORY.tolist(), 2)


@pytest.mark.parametrize("wrong", [[0], [3, -1], [ITEMS + 1, 2], []], ids=str)
def test_what_is_no_history_is_refused_as_among_many(wrong):
    model = model_of()
    found = []
    for histories in ([np.array(wrong, dtype=np.int64)], [np.array(wrong, dtype=np.int64), HISTORY]):
        with pytest.raises(ValueError, match=r"item number|history is empty") as error:
            model.score(histories)
        found.append(str(error.value))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if issubclass(model, NeuralRecommender)])
def test_networks_without_a_short_way_say_so(name):
    model = MODELS[name]()
    network = model.make_network(ITEMS, 2)
    assert OneHistory.suits(network) == (name == "sasrec")
