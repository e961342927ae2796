"""Which earlier items made a recommendation: each method against its definition."""

import numpy as np
import pytest

from tests.models.worlds import TINY
from tinyattn.data import pad
from tinyattn.models import MODELS, NARM, BERT4Rec, Explanation, Markov, NeuralRecommender, Popularity, SASRec, explain
from tinyattn.models.explanation import attention_of_the_last, gradient_times_input, left_out, rank_correlation
from tinyattn.ops import gru, sigmoid
from tinyattn.tree import flatten

SMALL = {"dim": 8, "epochs": 1, "workers": 1}
NEURAL = [name for name, cls in MODELS.items() if issubclass(cls, NeuralRecommender)]
HISTORY = ["s1e1", "s2e1", "s1e2", "s3e1"]
NOBODY = np.array([0])


def fitted(cls=SASRec, **options):
    """A trained model whose parameters are float64, so that differences are exact enough."""
    model = cls(**SMALL | options).fit(TINY.generate(), progress=False)
    _, model.parameters = flatten(model.parameters, np.float64, np)
    return model


@pytest.mark.parametrize("name", NEURAL)
def test_the_gradient_is_that_of_the_score(name):
    """Scaling an item's embedding by 1 + t: the score's derivative at t = 0. The item comes once, and is not scored."""
    model = fitted(MODELS[name])
    history, item, step = model.items.numbers(HISTORY), int(model.items.numbers(["s4e1"])[0]), 1e-5
    found = gradient_times_input(model, history, item, NOBODY)
    for j, number in enumerate(history.tolist()):
        if found is None:
            np.testing.assert_array_equal(left_out(model, history, item, NOBODY), np.zeros(4))
            continue
        row = model.parameters["items"][number].copy()
        scores = []
        for sign in (1, -1):
            model.parameters["items"][number] = row * (1 + sign * step)
            scores.append(model.score([history])[0, item])
        model.parameters["items"][number] = row
        np.testing.assert_allclose(found[j], (scores[0] - scores[1]) / (2 * step), rtol=1e-4, atol=1e-8)


def test_the_catalogues_first_and_last_items_have_effects_like_others():
    model = fitted()
    history = np.array([1, model.network.n_items, 2])
    for effects in (gradient_times_input(model, history, 3, NOBODY), attention_of_the_last(model, history, NOBODY)):
        assert effects.shape == (3,)
        assert np.all(effects != 0)


def test_the_released_forms_scaled_embeddings_and_users_of_their_own():
    model = fitted(block_form="sasrec", user_embedding=True, loss="ce")
    model.parameters["users"][:] = np.random.default_rng(0).normal(size=model.parameters["users"].shape)
    found = explain(model, HISTORY, "s4e1", user=3)
    assert list(found.effects) == ["left out", "gradient", "attention"]
    step, row = 1e-5, model.parameters["items"][model.items.numbers(["s2e1"])[0]]
    before, own = row.copy(), model.users.numbers([3])
    scores = []
    for sign in (1, -1):
        row[:] = before * (1 + sign * step)
        scores.append(model.score([model.items.numbers(HISTORY)], own)[0, model.items.numbers(["s4e1"])[0]])
    row[:] = before
    assert found.effects["gradient"][1] == pytest.approx((scores[0] - scores[1]) / (2 * step), rel=1e-4)
    whole, without = (model.recommend([h], 1, only=["s4e1"], users=[3])[1][0, 0] for h in (HISTORY, HISTORY[1:]))
    assert found.effects["left out"][0] == pytest.approx(whole - without)


def test_leaving_out_is_scoring_again_and_the_best_item_is_explained():
    model = fitted()
    found = explain(model, HISTORY)
    best, score = model.recommend(HISTORY, 1)
    assert found.item == best[0]
    assert found.history.tolist() == HISTORY
    for j, effect in enumerate(found.effects["left out"]):
        rest = HISTORY[:j] + HISTORY[j + 1 :]
        assert effect == pytest.approx(score[0] - model.recommend(rest, 1, only=best)[1][0])
    weights = model.attention(HISTORY)[1]
    np.testing.assert_allclose(found.effects["attention"], np.mean([w[-1] for block in weights for w in block], axis=0))
    assert np.sum(found.effects["attention"]) == pytest.approx(1)


def test_models_that_count_are_asked_by_leaving_out_alone():
    found = explain(Markov().fit(TINY.generate()), HISTORY, "s3e2")
    assert list(found.effects) == ["left out"]
    assert np.all(found.effects["left out"][:3] == 0)  # only the last item is looked at
    assert found.effects["left out"][3] > 1
    assert np.all(explain(Popularity().fit(TINY.generate()), HISTORY).effects["left out"] == 0)
    assert found.agreement() == {}


def test_a_recurrent_mixer_has_no_attention_to_explain_by():
    model = fitted(mixer="gru")
    assert list(explain(model, HISTORY, "s4e1").effects) == ["left out", "gradient"]
    assert not model.attends
    with pytest.raises(ValueError, match="this sasrec model has no attention"):
        model.attention(HISTORY)


def test_only_the_newest_items_are_looked_at_and_no_older_one_moves_in():
    model = fitted(maxlen=3)
    found = explain(model, HISTORY, "s4e1")
    assert found.history.tolist() == HISTORY[1:]
    np.testing.assert_array_equal(found.effects["left out"], explain(model, HISTORY[1:], "s4e1").effects["left out"])
    # items that drop out of maxlen are not recommended either
    assert explain(model, TINY.generate().items.ids[:-1].tolist()).item == TINY.generate().items.ids[-1]


def test_an_item_that_makes_room_for_the_mask_has_no_gradient():
    found = explain(fitted(BERT4Rec, maxlen=4), HISTORY, "s4e1").effects
    assert found["gradient"][0] == found["left out"][0] == 0
    assert np.all(found["gradient"][1:] != 0)


def test_bert4rec_asks_at_its_mask_and_what_that_gives_to_itself_is_no_items():
    model = fitted(BERT4Rec, blocks=2, heads=2)
    network, p = model.network, model.parameters
    asked = network.asking(pad([model.fitted().numbers(HISTORY)], model.maxlen))
    _, cache = network.forward(p, asked)
    mean = np.mean([head[4] for block in cache.blocks for head in block.attention.weights[0]], axis=0)
    found = explain(model, HISTORY, "s4e1").effects["attention"]
    np.testing.assert_allclose(found, mean[:4])
    assert 0 < np.sum(found) == pytest.approx(1 - mean[4])


def test_narms_attention_is_that_of_the_last_state_over_all_states():
    model = fitted(NARM, epochs=20, lr=0.05)
    p, found = model.parameters, explain(model, HISTORY, "s4e1").effects
    h = gru(p["items"][model.items.numbers(HISTORY)], *(p["encoder"][name] for name in "WUbc"))[0]
    expected = [p["v"] @ sigmoid(h[3] @ p["A1"]["W"] + h[j] @ p["A2"]["W"]) for j in range(4)]
    np.testing.assert_allclose(found["attention"], expected, rtol=1e-10)
    assert not model.attends  # no shares: there is no map of them to draw


def test_agreement_is_spearmans():
    assert rank_correlation(np.array([1.0, 2, 9]), np.array([-3.0, 0, 0.1])) == pytest.approx(1)
    assert rank_correlation(np.array([1.0, 2, 9]), np.array([3.0, 2, 1])) == pytest.approx(-1)
    # ranks 1, 2.5, 2.5, 4 and 2, 1, 3, 4: deviations -1.5, 0, 0, 1.5 and -.5, -1.5, .5, 1.5
    assert rank_correlation(np.array([0.0, 5, 5, 7]), np.array([2.0, 1, 3, 4])) == pytest.approx(3 / np.sqrt(4.5 * 5))
    assert np.isnan(rank_correlation(np.ones(3), np.arange(3.0)))
    a, b, c = np.array([1.0, 2, 3]), np.array([3.0, 2, 1]), np.array([1.0, 3, 2])
    agreement = Explanation("x", np.arange(3), {"a": a, "b": b, "c": c}).agreement()
    assert agreement == pytest.approx({("a", "b"): -1, ("a", "c"): 0.5, ("b", "c"): -0.5})


def test_what_explain_refuses():
    model = Markov().fit(TINY.generate())
    assert explain(model, HISTORY[:2]).history.tolist() == HISTORY[:2]
    for call, message in (
        (lambda: explain(model, ["s1e1"]), "the model looks at 1 of the history.s items, expected at least 2"),
        (lambda: explain(model, ["s1e1", "s9e9"]), "unknown item id s9e9"),
        (lambda: explain(model, HISTORY, "s9e9"), "unknown item id s9e9"),
        (lambda: explain(model, HISTORY, user=99), "unknown user id 99"),
        (lambda: explain(fitted(maxlen=1), HISTORY), "looks at 1 of the history.s items"),
        (lambda: explain(Markov(), HISTORY), "call fit first"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
