"""What a model of ratings reads, against plain loops over users and their ratings."""

import numpy as np
import pytest

from tinyattn.data import Interactions, Rated, RatingSampler
from tinyattn.data.rated import lists

DAY = 10.0
ROWS = [
    (1, 3, 25.0, 2.0),
    (1, 1, 5.0, 4.0),
    (1, 3, 65.0, 1.0),
    (3, 2, 45.0, 5.0),
    (4, 1, 105.0, 3.0),
    (4, 2, 15.0, 3.5),
]


def made():
    """Users 1, 2, 3, 4, of whom 2 has no ratings; user 1 rates item 3 twice."""
    data = Interactions.from_columns(*(np.array(column) for column in zip(*[r[:3] for r in ROWS], strict=True)),
                                     ratings=np.array([r[3] for r in ROWS]))  # fmt: skip
    offsets = np.insert(data.offsets, 1, data.offsets[1])  # an empty user after the first
    return Interactions(data.flat, offsets, data.items, data.users, {}, data.times, data.ratings)


def test_what_is_kept_of_the_ratings():
    rated = Rated.of(made())
    assert rated.scale.tolist() == [np.mean([2, 4, 1, 5, 3, 3.5]), 1.0, 5.0]
    assert rated.span.tolist() == [5.0, 105.0]
    np.testing.assert_allclose(rated.means, [0, (25 + 5 + 65) / 3, 0, 45, 60], rtol=1e-12)
    lists_of = [rated.seen[a:b].tolist() for a, b in zip(rated.offsets, rated.offsets[1:], strict=False)]
    assert lists_of == [[0], [1, 3, 3], [0], [2], [2, 1]]  # unknown; user 2 has padding
    assert len(rated.means) == 5
    late = Rated.of(Interactions.from_columns(np.array([1, 1]), np.array([1, 2]), np.array([1.7e9, 1.7e9 + 1]),
                                              ratings=np.ones(2)))  # fmt: skip
    assert late.means[1] == 1.7e9 + 0.5


@pytest.mark.parametrize("beta", [1.0, 0.5, 2.0])
def test_a_batch_is_what_plain_loops_make(beta):
    rated = Rated.of(made())
    asked = [(4, 2, 15.0), (1, 3, 65.0), (0, 1, 55.0), (1, 1, 5.0), (2, 2, 1000.0), (1, 3, -7.0), (3, 2, 104.999)]
    users, items, times = (np.array(column) for column in zip(*asked, strict=True))
    ratings = np.arange(7) / 2
    batch = rated.batch(users, items, times, ratings, bins=4, beta=beta, day=DAY)
    means = {0: 0.0, 1: 95 / 3, 2: 0.0, 3: 45.0, 4: 60.0}
    for row, (u, i, t) in enumerate(asked):
        away = (t - means[u]) / DAY
        assert batch.dev[row] == pytest.approx(np.sign(away) * abs(away) ** beta, rel=1e-6)
        period = min(max(int((t - 5) / 100 * 4) if t > 5 else 0, 0), 3)
        assert batch.bins[row] == i * 4 + period
        assert (batch.users[row], batch.items[row], batch.ratings[row]) == (u, i, row / 2)
        ends = [*batch.begins[1:].tolist(), len(batch.seen)]
        place = batch.place[row]
        mine = batch.seen[batch.begins[place] : ends[place]].tolist()
        assert mine == {0: [0], 1: [1, 3, 3], 2: [0], 3: [2], 4: [2, 1]}[u]
    assert len(batch.begins) == 5
    assert batch.dev.dtype == batch.ratings.dtype == np.float32
    assert batch.total == 7.0
    assert batch.rows is batch.users
    assert not rated.batch(users, items, times, bins=4, beta=beta, day=DAY).ratings.any()
    parts = batch.slices(3)
    assert [len(part.users) for part in parts] == [3, 2, 2]
    assert [u for part in parts for u in part.users.tolist()] == sorted(users.tolist())
    rows = [(u, i, b, d, r) for u, i, b, d, r, *_ in zip(*batch[:5], strict=True)]
    assert sorted(row for part in parts for row in zip(*part[:5], strict=True)) == sorted(rows)
    for part in parts:
        ends = [*part.begins[1:].tolist(), len(part.seen)]
        for u, place in zip(part.users.tolist(), part.place.tolist(), strict=True):
            assert (
                part.seen[part.begins[place] : ends[place]].tolist()
                == {0: [0], 1: [1, 3, 3], 2: [0], 3: [2], 4: [2, 1]}[u]
            )
        assert len(part.begins) == len(set(part.users.tolist()))


def test_one_moment_for_all_is_one_period():
    data = Interactions.from_columns(
        np.array([1, 2]), np.array([1, 2]), np.array([7.0, 7.0]), ratings=np.array([1.0, 2])
    )
    batch = Rated.of(data).batch(np.array([1, 2]), np.array([1, 2]), np.array([7.0, 7.0]), bins=3, beta=1.0, day=1.0)
    assert batch.bins.tolist() == [3, 6]
    assert batch.dev.tolist() == [0, 0]


@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_in_an_epoch_every_rating_comes_once(size):
    data = made()
    sampler = RatingSampler(data, Rated.of(data), size, 1, {"bins": 2, "beta": 1.0, "day": DAY})
    assert sampler.steps == max(1, 6 // size)
    rows = sorted((u, i, r) for u, i, _, r in ROWS)
    numbered = [({1: 1, 3: 3, 4: 4}[u], i, r) for u, i, r in rows]
    orders = []
    for epoch in range(2):
        batches = [sampler.batch(epoch * sampler.steps + step) for step in range(sampler.steps)]
        found = [
            row for b in batches for row in zip(b.users.tolist(), b.items.tolist(), b.ratings.tolist(), strict=True)
        ]
        assert sorted(found) == numbered
        orders.append(found)
    assert orders[0] != orders[1]
    batch = sampler.of(np.arange(6))
    assert batch.users.tolist() == [1, 1, 1, 3, 4, 4]
    periods = [0, 0, 1, 0, 0, 1]
    assert (batch.bins - 2 * batch.items).tolist() == periods


def test_joined_lists():
    begins, joined = lists(np.arange(10), np.array([4, 0, 9, 2]), np.array([6, 3, 10, 2]))
    assert (begins.tolist(), joined.tolist()) == ([0, 2, 5, 6], [4, 5, 0, 1, 2, 9])
