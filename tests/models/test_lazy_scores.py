"""Ranks without whole rows of scores: the same as with them, half ranks of ties included."""

import itertools

import numpy as np
import pytest

from tests.models.worlds import TINY
from tinyattn.data import Interactions, leave_one_out
from tinyattn.evaluation import NaNScoreError, WholeRows, draw_candidates, evaluate, full_ranking, ranks
from tinyattn.models import MODELS, Markov, Popularity, products
from tinyattn.models.products import Products, count_true, pieces

SPLIT = leave_one_out(TINY.generate())
QUICK = {"maxlen": 6, "dim": 8, "epochs": 1, "workers": 1}


def of_rows(scores, targets, rows, items):
    """What `counts` must return, from whole rows."""
    own = scores[np.arange(len(targets)), targets]
    above, equal = (f(scores[:, 1:], own[:, None]).sum(axis=1) for f in (np.greater, np.equal))
    return own, above, equal, scores[rows, items]


def same(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def drawn(rng, B, n_items, pairs=300):
    targets = 1 + np.minimum(rng.geometric(0.01, B), n_items) - 1
    return np.maximum(targets, 1), rng.integers(0, B, pairs), rng.integers(1, n_items + 1, pairs)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("users", "tile", "kept"), [(256, 1 << 18, 4), (7, 7 * 64, 4), (7, 7 * 64, 0), (3, 1, 1)])
def test_counts_are_those_of_whole_rows_with_any_tiles(rng, monkeypatch, workers, users, tile, kept):
    """Small whole numbers: products are exact in any order, and most scores tie with others."""
    for name, value in (("USERS", users), ("TILE", tile), ("KEPT", kept)):
        monkeypatch.setattr(products, name, value)
    for B, n_items in itertools.product((1, 5, 29, 300), (1, 63, 64, 65, 130, 517)):
        h, E = (rng.integers(-2, 3, (n, 3)).astype(np.float32) for n in (B, n_items + 1))
        asked = drawn(rng, B, n_items)
        lazily = Products(h, E, workers)
        same(lazily.counts(*asked), of_rows(lazily.whole(), *asked))


@pytest.mark.host
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("B", "n_items", "D"), [(600, 3_416, 50), (40, 9_001, 64), (1_000, 2_049, 16), (257, 5_000, 33)]
)
def test_ranks_of_real_embeddings_are_those_of_the_whole_product(rng, B, n_items, D, dtype):
    """Exact where no other score is within rounding of the target's, else between the two ranks that rounding allows.

    A fifth of the items have a twin: kernels of BLAS may round its last digit by the place of its column.
    """
    h, E = (rng.standard_normal((n, D)).astype(dtype) for n in (B, n_items + 1))
    E[1 : n_items // 5] = E[n_items // 2 : n_items // 2 + n_items // 5 - 1]
    targets, (_, rows, items) = rng.integers(1, n_items + 1, B), drawn(rng, B, n_items)
    found, scores = Products(h, E).counts(targets, rows, items), h @ E.T
    own, above, equal, values = of_rows(scores, targets, rows, items)
    rounding = (1e-5 if dtype == np.float32 else 1e-13) * np.abs(scores).max()
    clearly_above = np.sum(scores[:, 1:] > own[:, None] + rounding, axis=1)
    not_below = np.sum(scores[:, 1:] >= own[:, None] - rounding, axis=1)
    alone = not_below - clearly_above == 1
    assert 0.2 < np.mean(alone) < 0.9
    np.testing.assert_array_equal(found.above[alone], above[alone])
    np.testing.assert_array_equal(found.equal[alone], equal[alone])
    assert np.all(found.equal >= 1)
    assert np.all(clearly_above <= found.above)
    assert np.all(found.above + found.equal <= not_below)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=rounding)


def test_a_nan_is_refused_with_its_item_and_row(rng, monkeypatch):
    monkeypatch.setattr(products, "TILE", 64)
    h, E = (rng.standard_normal((n, 4)).astype(np.float32) for n in (3, 200))
    E[171, 2] = np.nan
    with pytest.raises(NaNScoreError, match="score of item 171 in row 0 is NaN"):
        Products(h[:1], E).counts(np.array([5]), np.array([0]), np.array([7]))
    E[171, 2], E[70], h[:], h[1] = 0, np.inf, 1, 0  # infinity times 0
    with pytest.raises(NaNScoreError, match="score of item 70 in row 1 is NaN"):
        Products(h, E).counts(np.array([5, 5, 5]), np.array([0]), np.array([7]))
    E[70], h[1] = 3e38, 1e38  # overflows, to infinity
    counts = Products(h, E).counts(np.array([5, 70, 5]), np.array([1]), np.array([70]))
    assert (counts.target[1], counts.above[1], counts.values[0]) == (np.inf, 0, np.inf)


def test_pieces_are_none_small_beside_the_others():
    for end in range(1, 60):
        cut = pieces(1, end + 1, 8)
        assert [i for piece in cut for i in range(piece.start, piece.stop)] == list(range(1, end + 1))
        assert all(p.stop - p.start == 8 for p in cut[:-1])
        assert end < 8 or 4 <= cut[-1].stop - cut[-1].start <= 12


def test_true_entries_are_counted(rng):
    for width in (1, 7, 8, 9, 64, 300, 5000):
        found = rng.random((4, width)) < 0.7
        np.testing.assert_array_equal(count_true(found), found.sum(axis=1))


def markov_by_loops(data, order, history):
    """Scores of one history: counts after the last item, then after the last two, each above all that came before."""
    sequences = [data.sequence(u).tolist() for u in range(data.n_users)]
    popularity = np.bincount(data.flat, minlength=data.n_items + 1)
    scores = popularity / (popularity.max() + 1)
    for level in range(1, order + 1):
        counts = np.zeros(len(scores))
        for s in sequences:
            for i in range(level, len(s)):
                if len(history) >= level and s[i - level : i] == history[-level:]:
                    counts[s[i]] += 1
        if not counts.any():
            break  # these items never came one after the other
        scores = (scores if level == 1 else scores / (scores.max() + 1)) + counts
    return scores


@pytest.mark.parametrize("order", [1, 2, 4])
def test_markov_ranks_by_its_few_changes(rng, order):
    data = Interactions.from_sequences([rng.integers(1, 13, n).tolist() for n in rng.integers(1, 12, 30)])
    model = Markov(order=order).fit(data)
    size = data.n_items + 1
    histories = [rng.integers(1, size, n) for n in (1, 2, 3, 1, 5, 8, 2, 2, 40)]
    expected = np.array([markov_by_loops(data, order, h.tolist()) for h in histories])
    np.testing.assert_array_equal(model.score(histories), expected)
    rows, items = (x.reshape(-1) for x in np.meshgrid(np.arange(len(histories)), np.arange(1, size), indexing="ij"))
    for target in range(1, size):
        asked = np.full(len(histories), target), rows, items
        same(model.lazy_scores(histories).counts(*asked), of_rows(expected, *asked))


def test_popularity_counts_as_its_scores_do():
    model = Popularity().fit(SPLIT)
    histories = [np.array([1, 2])] * (len(model.items))
    asked = np.arange(1, len(model.items) + 1), np.array([0, 2, 2]), np.array([3, 1, 16])
    same(model.lazy_scores(histories).counts(*asked), of_rows(model.score(histories), *asked))


@pytest.mark.parametrize("name", [name for name, cls in MODELS.items() if cls.table == "ranking"])
def test_every_model_evaluates_as_its_scores_do(name):
    """Under every protocol, on both stages, with a known truth and without: of the model, and of a plain function."""
    cls = MODELS[name]
    model = cls(**{k: v for k, v in QUICK.items() if hasattr(cls, k)}).fit(SPLIT)
    sampled = {"uni100": draw_candidates(SPLIT, "uni100")}
    numbers = np.arange(SPLIT.data.n_users)[::-1].copy()
    for more in ({}, {"stage": "valid"}, {"truth": TINY.next_item}, {"sampled": sampled}, {"users": numbers},
                 {"truth": TINY.next_item, "sampled": sampled}):  # fmt: skip
        assert evaluate(model, SPLIT, **more) == evaluate(lambda h, u: model.score(h, u), SPLIT, **more)


def masked(scores, histories, targets):
    """Scores by which plain ranks are right: items that are no candidates have -inf."""
    scores = scores.copy()
    for row, history, target in zip(scores, histories, targets, strict=True):
        own = row[target]
        row[history], row[0], row[target] = -np.inf, -np.inf, own
    return scores


def test_the_items_of_the_history_are_no_candidates_whatever_they_score(rng):
    """Also where the target itself scores -inf, and then ties with all that are none."""
    table = rng.integers(-2, 3, (SPLIT.data.n_users + 1, SPLIT.data.n_items + 1)).astype(float)
    table[table == -2] = -np.inf
    users = SPLIT.evaluated
    for stage in ("valid", "test"):
        histories, targets = SPLIT.histories(users, stage), getattr(SPLIT, stage)[users]
        assert np.any(table[users + 1, targets] == -np.inf)
        rank = ranks(masked(table[users + 1], histories, targets), targets)
        found = full_ranking(lambda histories, users: table[users], SPLIT, stage)
        assert found["mrr"] == np.mean(1 / rank)


def test_whole_rows_are_asked_for_a_few_at_a_time(rng, monkeypatch):
    from tinyattn.evaluation import lazy

    asked = []
    table = rng.integers(0, 4, (20, 10)).astype(float)

    def score(histories, users):
        asked.append(len(histories))
        return table[users]

    monkeypatch.setattr(lazy, "SCORES_AT_ONCE", 65)
    given = drawn(rng, 20, 9)
    same(WholeRows(score, [np.array([1])] * 20, np.arange(20), 9).counts(*given), of_rows(table, *given))
    assert asked == [5, 5, 5, 5]
