"""Protocols against loops over users and items: who is a candidate, what is drawn, how parts are averaged."""

import importlib
import math
from collections import Counter

import numpy as np
import pytest

from tinyattn.data import Interactions, leave_one_out
from tinyattn.evaluation import (
    best_items,
    candidates_for,
    draw_candidates,
    evaluate,
    full_ranking,
    read_candidates,
    save_candidates,
    target_ranks,
)

# the second user has the test item for the second time, the third has two interactions, the fourth has items twice
DATA = Interactions.from_sequences(
    [[1, 2, 3, 4, 5], [6, 2, 1, 4, 2], [1, 7], [3, 3, 1, 3, 8, 6], [5, 4, 3], [8, 7, 6, 5, 4, 3, 2, 1]]
)
SPLIT = leave_one_out(DATA)


def tables(seed):
    """Scores of every user: small whole numbers, so that many tie, and now and then -inf."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (DATA.n_users + 1, DATA.n_items + 1)).astype(float)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    return scores


def rank_among(own, others):
    return 1 + sum(x > own for x in others) + sum(x == own for x in others) / 2


def candidates_of(user, stage):
    """The target, and the items that are not in the history before it."""
    sequence = DATA.sequence(user).tolist()
    history, target = (sequence[:-1], sequence[-1]) if stage == "test" else (sequence[:-2], sequence[-2])
    return target, [i for i in range(1, DATA.n_items + 1) if i == target or i not in history]


@pytest.mark.parametrize("stage", ["valid", "test"])
@pytest.mark.parametrize("seed", range(6))
def test_full_and_sampled_ranks_are_those_of_loops(seed, stage):
    table, rng = tables(seed), np.random.default_rng(seed)
    drawn = rng.integers(1, DATA.n_items + 1, (len(SPLIT.evaluated), 3))
    found = target_ranks(lambda histories, users: table[users], SPLIT, stage, {"mine": drawn})
    assert SPLIT.evaluated.tolist() == [0, 1, 3, 4, 5]
    for place, user in enumerate(SPLIT.evaluated.tolist()):
        target, left = candidates_of(user, stage)
        scores = table[user + 1]
        outside = DATA.n_items + 1 - len(left)  # padding, too, is no candidate: all of these score -inf
        others = [scores[i] for i in left if i != target] + [-np.inf] * outside
        assert found["full"][place] == rank_among(scores[target], others)
        assert found["mine"][place] == rank_among(scores[target], scores[drawn[place]])


@pytest.mark.parametrize("at_once", [1, 2, 4, 100])
def test_expectations_under_the_truth_are_means_over_users_however_they_are_cut(at_once, monkeypatch):
    """Five users in parts of two, two and one: each user counts alike."""
    monkeypatch.setattr(importlib.import_module("tinyattn.evaluation.protocol"), "SCORES_AT_ONCE", at_once * 9)
    table, rng = tables(7), np.random.default_rng(7)
    truth = {}

    def next_item(histories):
        rows = [truth.setdefault(tuple(h.tolist()), rng.dirichlet(np.ones(9))) for h in histories]
        return np.array(rows)

    found = evaluate(lambda histories, users: table[users], SPLIT, ks=(1, 3), truth=next_item)
    assert list(found) == ["full"]
    expected = dict.fromkeys(("hr@1", "ndcg@1", "hr@3", "ndcg@3", "mrr"), 0.0)
    for user in SPLIT.evaluated.tolist():
        _, left = candidates_of(user, "test")
        scores = [table[user + 1, i] if i in left else -np.inf for i in range(9)]
        for item, p in enumerate(truth[tuple(DATA.sequence(user)[:-1].tolist())]):
            rank = rank_among(scores[item], [x for i, x in enumerate(scores) if i != item])
            for k in (1, 3):
                expected[f"hr@{k}"] += p * (rank < k + 1) / 5
                expected[f"ndcg@{k}"] += p * (rank < k + 1) / math.log2(rank + 1) / 5
            expected["mrr"] += p / rank / 5
    assert found["full"] == pytest.approx(expected)


def test_with_the_truth_sampled_metrics_stay_those_of_the_drawn_item_and_users_keep_their_numbers():
    table, sampled = tables(8), {"mine": np.array([[1, 2]] * 5)}
    numbers = np.array([6, 5, 4, 3, 2, 1])
    truth = lambda histories: np.full((len(histories), 9), 1 / 9)  # noqa: E731
    score = lambda histories, users: table[users]  # noqa: E731
    plain = evaluate(score, SPLIT, sampled=sampled, users=numbers, ks=(2,))
    found = evaluate(score, SPLIT, truth=truth, sampled=sampled, users=numbers, ks=(2,))
    assert found["mine"] == plain["mine"]
    assert found["full"] == full_ranking(score, SPLIT, truth=truth, users=numbers, ks=(2,))
    assert found["full"] == full_ranking(lambda histories, users: table[7 - users], SPLIT, truth=truth, ks=(2,))
    assert found["full"] != plain["full"]
    assert plain["full"] == full_ranking(lambda histories, users: table[7 - users], SPLIT, ks=(2,))
    other = evaluate(score, SPLIT, "valid", truth=truth, users=numbers, ks=(2,))["full"]
    assert other == full_ranking(score, SPLIT, "valid", truth=truth, users=numbers, ks=(2,)) != found["full"]


def test_another_stage_is_refused():
    with pytest.raises(ValueError, match="stage is 'train', expected valid or test"):
        evaluate(lambda histories, users: np.zeros((len(users), 9)), SPLIT, "train")


def shares(drawn, n_items):
    return np.bincount(drawn.ravel(), minlength=n_items + 1) / drawn.size


def test_pop100_draws_by_how_often_training_has_an_item():
    """Of 6 items with 1 to 6 parts of training; 7 to 9 stand in validation and test alone, and 7 in most of them."""
    rng = np.random.default_rng(0)
    users = 2000
    first = rng.choice(np.repeat(np.arange(1, 7), np.arange(1, 7)), users)
    held = np.array([[7, 8], [7, 9], [8, 7], [9, 7]])[np.arange(users) % 4]
    split = leave_one_out(Interactions.from_sequences(np.column_stack([first, held])))
    counts = np.bincount(first, minlength=7)
    expected = np.zeros(10)
    for mine in first:
        for i in range(1, 7):
            expected[i] += (i != mine) * counts[i] / (users - counts[mine]) / users
    drawn = draw_candidates(split, "pop100", count=1)
    np.testing.assert_allclose(shares(drawn, 9), expected, atol=4 * math.sqrt(0.25 / users))
    assert np.array_equal(draw_candidates(split, "pop100", seed=0, count=1), drawn)
    every = draw_candidates(split, "pop100", count=6)  # five of training, and one where nothing else is left
    assert all(Counter(i <= 6 for i in row) == {True: 5, False: 1} for row in every.tolist())
    with pytest.raises(ValueError, match="has 6 items left to draw from, 7 are needed"):
        draw_candidates(split, "pop100", count=7)


def test_pop100_draws_what_training_lacks_only_where_nothing_else_is_left():
    """Even beside items that training has once."""
    split = leave_one_out(Interactions.from_sequences([[i, 41 + i % 3, 44 + i % 3] for i in range(1, 41)]))
    assert draw_candidates(split, "pop100", count=30).max() <= 40
    assert np.all(np.sum(draw_candidates(split, "pop100", count=42) > 40, axis=1) == 3)  # 39 of training, and 3


def test_a_seed_draws_the_same_candidates_for_ever():
    """Published rows were measured with them."""
    split = leave_one_out(Interactions.from_sequences([[i, 1 + i % 7, 1 + i % 5, 1 + i % 9] for i in range(1, 41)]))
    assert draw_candidates(split, "uni100", count=6)[0].tolist() == [34, 19, 13, 19, 38, 11]
    assert sorted(draw_candidates(split, "pop100", count=6)[0].tolist()) == [4, 5, 6, 9, 13, 37]


def test_uni100_draws_all_items_that_the_training_part_lacks_alike():
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3, 4, 5]] * 20 + [[6, 7, 8]]))
    drawn = draw_candidates(split, "uni100")[:20]
    np.testing.assert_allclose(shares(drawn, 8)[4:], 1 / 5, atol=0.04)  # the targets of both stages among them
    assert drawn.min() == 4
    assert draw_candidates(split, "uni100", count=3).shape == (21, 3)


def test_candidates_are_kept_in_a_folder_and_read_from_there(tmp_path):
    split = leave_one_out(Interactions.from_sequences([["a", "b", "c", "d"], ["d", "c", "b"], ["a", "b"]]))
    drawn = candidates_for(split, ("full", "uni100"))
    assert list(drawn) == ["uni100"]
    np.testing.assert_array_equal(drawn["uni100"], draw_candidates(split, "uni100"))
    kept = candidates_for(split, ("uni100",), str(tmp_path))
    np.testing.assert_array_equal(kept["uni100"], drawn["uni100"])
    mine = np.array([[1, 2, 2], [4, 4, 1]])
    save_candidates(tmp_path / "uni100.txt", split, mine)
    np.testing.assert_array_equal(candidates_for(split, ("uni100",), str(tmp_path))["uni100"], mine)


def test_lines_of_a_file_of_candidates_may_stand_in_any_order(tmp_path):
    split = leave_one_out(Interactions.from_sequences([["a", "b", "c", "d"], ["d", "c"], ["d", "c", "b"]]))
    save_candidates(tmp_path / "a.txt", split, np.array([[1, 2, 3], [4, 3, 4]]))
    assert (tmp_path / "a.txt").read_text() == "1 a b c\n3 d c d\n"
    (tmp_path / "b.txt").write_text("3 d c d\n2 a a a\n1 a b c\n")
    np.testing.assert_array_equal(read_candidates(tmp_path / "b.txt", split), [[1, 2, 3], [4, 3, 4]])
    (tmp_path / "c.txt").write_text("3 d c d\n1 a b\n")
    with pytest.raises(ValueError, match="users have different numbers of candidates"):
        read_candidates(tmp_path / "c.txt", split)


def test_best_items_ask_the_model_by_its_own_numbers_and_leave_out_what_it_rules_out():
    table = np.tile([9.0, 1, 2, 3, 4, 5, 6, -np.inf, 7], (7, 1))
    table[0] = -table[0]
    numbers = np.array([1, 0, 0, 1, 1, 1])
    found = best_items(lambda histories, users: table[users], SPLIT, 3, users=numbers)
    assert found[0].tolist() == [8, 6, 5]  # had: 1 to 4; 7 is ruled out
    assert found[1].tolist() == [7, 3, 5]  # had: 1 2 4 6; the order turned over, and -(-inf) leads
    assert found[4].tolist() == [1, 0, 0]  # had: all others


def test_a_user_who_has_had_everything_has_no_rival_to_draw():
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3, 4, 1, 2], [1, 2, 3]]))
    with pytest.raises(ValueError, match="uni100: user 1 has 0 items left to draw from, 1 are needed"):
        draw_candidates(split, "uni100")
