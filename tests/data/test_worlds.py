"""Generated worlds: what they draw follows the distribution that they say is true."""

import numpy as np
import pytest

from tinyattn.data import WORLDS, Source
from tinyattn.data.worlds import ChainWorld, SeriesWorld, TasteWorld

SMALL = {"users": 400, "shortest": 5, "longest": 9}
EACH = {
    "series": SeriesWorld(**SMALL, series=5, episodes=4),
    "chain": ChainWorld(**SMALL, items=15, groups=15, followers=3),
    "chain of order 2": ChainWorld(**SMALL, items=15, order=2, groups=3),
    "tastes": TasteWorld(**SMALL, items=15, tastes=3),
    "drifting tastes": TasteWorld(**SMALL, items=15, tastes=3, drift=0.3),
    "one taste": TasteWorld(**SMALL, items=15, tastes=1),
}


def test_every_world_is_tried():
    assert {type(world) for world in EACH.values()} == set(WORLDS.values())


@pytest.mark.parametrize("world", EACH.values(), ids=EACH)
def test_what_is_drawn_follows_the_truth(world):
    """-log P(what came) has the entropy of P as its mean, within four standard errors, and nobody has an item twice."""
    data = world.generate()
    histories = [data.sequence(u)[:t] for u in range(world.users) for t in range(1, data.lengths[u])]
    came = np.array([data.sequence(u)[t] for u in range(world.users) for t in range(1, data.lengths[u])])
    truth = world.next_item(histories)
    assert truth.shape == (len(histories), world.n_items + 1)
    np.testing.assert_allclose(truth.sum(axis=1), 1)
    assert not any(row[history].any() for row, history in zip(truth, histories, strict=True))
    assert not truth[:, 0].any()
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(truth * np.log(truth), axis=1)
    surprise = -np.log(truth[np.arange(len(came)), came])
    beyond = surprise - entropy
    assert abs(beyond.mean()) < 4 * beyond.std() / np.sqrt(len(beyond))


@pytest.mark.parametrize("world", EACH.values(), ids=EACH)
def test_the_same_settings_give_the_same_data_and_no_ranking_is_better(world):
    assert world.generate().fingerprint() == world.generate().fingerprint()
    histories = [np.array([1, 2]), np.array([3])]
    best, truth = world.best_ranking(histories), world.next_item(histories)
    order = np.argsort(-best, axis=1)
    assert np.all(np.diff(np.take_along_axis(truth, order, axis=1), axis=1) <= 0)


@pytest.mark.parametrize(("name", "drift"), [("tastes", 0.0), ("drifting tastes", 0.3)])
def test_belief_is_bayes_theorem_by_enumeration(name, drift):
    """P(next | history) from the sum over all paths of tastes."""
    world = EACH[name]
    history, total, p = [7, 2, 11], np.zeros(15), world._likes
    move = (1 - drift) * np.eye(3) + drift * np.roll(np.eye(3), 1, axis=1)
    for path in np.ndindex(3, 3, 3, 3):
        weight, left = 1 / 3, np.ones(15)
        for t, item in enumerate(history):
            z = path[t]
            weight *= p[z, item - 1] / np.sum(p[z] * left) * move[z, path[t + 1]]
            left[item - 1] = 0
        last = p[path[-1]] * left
        total += weight * last / last.sum()
    np.testing.assert_allclose(world.after(np.array([history]))[0], total / total.sum(), atol=1e-12)


def test_a_source_comes_back_from_what_it_says_of_itself():
    for name, cls in WORLDS.items():
        assert Source.from_config(Source.of(None, name).describe()).world == cls()
    assert Source.from_config({"world": {"series": 6}}).world == SeriesWorld(series=6)      # before worlds had names


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ChainWorld(items=40, groups=50), "groups is 50, expected at most 40, the number of items"),
        (lambda: ChainWorld(items=40, groups=9, followers=41), "followers is 41, expected at most 40, the number of"),
        (lambda: ChainWorld(order=0), "order is 0, expected 1 to 4"),
        (lambda: TasteWorld(drift=1.5), "drift is 1.5, expected 0"),
        (lambda: TasteWorld(items=30), "expected shortest <= longest < 30 .* longest 30"),
        (lambda: Source.of("x.txt", "chain"), "DATA is x.txt and --world chain, expected one of them"),
        (lambda: Source.of(None, "chains"), "--world is 'chains', expected one of .*; did you mean chain"),
    ],
)
def test_what_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


@pytest.mark.parametrize(
    "reading",
    [{"format": []}, {"format": None}, {"columns": 5}, {"k_core": True}, {"k_core": "5"}, {"ratings": "y"}, {"x": 1}],
)
def test_a_reading_that_somebody_edited_is_refused(reading):
    with pytest.raises((TypeError, ValueError)):
        Source.from_config({"path": "data.txt", "reading": reading})
