"""The best items against a loop over a row's scores, and the rows of tables that a loss reads."""

from functools import cache

import numpy as np
import pytest

from tests.models.small import DATA
from tests.models.test_masks import DROPPING, network_and_batch
from tests.models.worlds import few_negatives
from tinyattn.models import FPMC, MODELS, ItemCosine, Markov, NeuralRecommender
from tinyattn.random import Stream, generator
from tinyattn.tree import Rows, flatten

TRAIN = DATA["ranking"].train
ITEMS, USERS = TRAIN.items.ids.tolist(), TRAIN.users.ids.tolist()
RECOMMENDERS = [name for name in DROPPING if issubclass(MODELS[name], NeuralRecommender)]


@cache
def models():
    model = FPMC(dim=4, maxlen=6, epochs=1, workers=1).fit(TRAIN, progress=False)
    rng = np.random.default_rng(0)
    for leaf in model.parameters.values():
        leaf[1:] += rng.standard_normal(leaf[1:].shape)
    return {"fpmc": model, "markov": Markov(order=2).fit(TRAIN), "cosine": ItemCosine().fit(TRAIN)}


SEQUENCES = [ITEMS[:3], [ITEMS[5]], [ITEMS[2], ITEMS[7], ITEMS[2]], ITEMS[3:9]]
ASKED = [USERS[4], None, USERS[1], None]


def by_loop(model, sequence, user, k, exclude=(), only=None, repeats=False):
    """Ids and scores of the k best: of equal ones the one whose number is smaller."""
    number = np.zeros(1, dtype=int) if user is None else model.users.numbers([user])
    scores = model.score([model.items.numbers(sequence)], number)[0]
    found = []
    for place, item in enumerate(ITEMS, start=1):
        if item in exclude or (only is not None and item not in only) or (not repeats and item in sequence):
            continue
        found.append((-float(scores[place]), place, item))
    found.sort()
    return [item for _, _, item in found[:k]], [-score for score, _, _ in found[:k]]


@pytest.mark.parametrize("how", [
    {}, {"repeats": True}, {"exclude": ITEMS[9:12]}, {"only": ITEMS[:13]},
    {"only": ITEMS[:13], "exclude": [ITEMS[0], ITEMS[12]], "repeats": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", ["fpmc", "markov", "cosine"])
def test_the_best_of_many_histories_are_those_of_each_alone(name, how):
    model = models()[name]
    ids, scores = model.recommend(SEQUENCES, k=4, users=ASKED, **how)
    assert ids.shape == scores.shape == (4, 4)
    for row, (sequence, user) in enumerate(zip(SEQUENCES, ASKED, strict=True)):
        best, values = by_loop(model, sequence, user, 4, **how)
        assert ids[row].tolist() == best
        np.testing.assert_allclose(scores[row], values, rtol=1e-5, atol=1e-6)
        alone, its = model.recommend(sequence, k=4, users=[user], **how)
        assert alone.tolist() == best
        np.testing.assert_allclose(its, values, rtol=1e-5, atol=1e-6)
    assert model.user_numbers(ASKED).tolist() == [5, 0, 2, 0]


@pytest.mark.parametrize("name", ["fpmc", "markov", "cosine"])
def test_the_nearest_items_are_the_best_by_their_scores_without_the_item_itself(name):
    model = models()[name]
    for item in (ITEMS[0], ITEMS[7]):
        scores = model.item_scores(int(model.items.numbers([item])[0]))
        order = sorted((-float(scores[place]), place) for place in range(1, len(ITEMS) + 1) if ITEMS[place - 1] != item)
        assert model.similar(item, 5)[0].tolist() == [ITEMS[place - 1] for _, place in order[:5]]
        few = ITEMS[:6]
        among = [ITEMS[place - 1] for _, place in order if ITEMS[place - 1] in few]
        assert model.similar(item, 3, only=few)[0].tolist() == among[:3]


@pytest.mark.parametrize(("name", "loss"), [(name, loss) for name in RECOMMENDERS
                                            for loss in MODELS[name].Network.objectives])  # fmt: skip
def test_a_table_of_which_few_rows_are_read_says_which_and_has_a_gradient_of_these_alone(name, loss):
    """So the optimiser leaves the others as they are. All items are read where the loss scores all."""
    network, batch = network_and_batch(name, loss=loss, **few_negatives(loss))
    p = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]
    _, cache = network.loss(p, batch)
    grads = network.loss_backward(p, 1.0, cache)
    read = {table: set(ids.ravel().tolist()) for table, ids in network.rows_read(batch).items()}
    few = {table for table in grads if isinstance(grads[table], Rows)}
    assert few == read.keys() & grads.keys()
    for table in few:
        assert set(grads[table].ids.tolist()) <= read[table]
    assert (network.scored in few) == network.objectives[loss].negatives
