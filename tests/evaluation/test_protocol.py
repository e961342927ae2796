"""Sampled protocols: who may be drawn, ties with the target, and candidates that travel."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tinyattn.data import Interactions, SeriesWorld, Vocabulary, leave_one_out
from tinyattn.evaluation import best_items, draw_candidates, evaluate, full_ranking, read_candidates, save_candidates

WORLD = SeriesWorld(series=20, episodes=12, users=80, most_open=3, shortest=5, longest=20)
SPLIT = leave_one_out(WORLD.generate())


def test_uni100_leaves_out_training_items_only_and_repeats():
    drawn = draw_candidates(SPLIT, "uni100")
    assert drawn.shape == (80, 100)
    assert drawn.min() >= 1
    assert drawn.max() <= 240
    for row, user in zip(drawn, SPLIT.evaluated, strict=True):
        assert not set(row) & set(SPLIT.train.sequence(user))
    assert any(len(set(row)) < 100 for row in drawn)  # with replacement
    validation = SPLIT.valid[SPLIT.evaluated]
    assert np.any(drawn == validation[:, None])  # nothing else is left out


def test_pop100_leaves_out_everything_had_never_repeats_and_prefers_the_popular():
    drawn = draw_candidates(SPLIT, "pop100")
    popularity = np.bincount(SPLIT.train.flat, minlength=241)
    for row, user in zip(drawn, SPLIT.evaluated, strict=True):
        assert len(set(row)) == 100
        assert not set(row) & set(SPLIT.data.sequence(user))
    assert popularity[drawn].mean() > 1.3 * popularity[draw_candidates(SPLIT, "uni100")].mean()


def test_seeds_decide():
    for protocol in ("uni100", "pop100"):
        np.testing.assert_array_equal(draw_candidates(SPLIT, protocol), draw_candidates(SPLIT, protocol))
        assert np.any(draw_candidates(SPLIT, protocol) != draw_candidates(SPLIT, protocol, seed=1))


def test_candidates_travel_in_the_datas_own_ids(tmp_path):
    drawn = draw_candidates(SPLIT, "uni100")
    save_candidates(tmp_path / "a" / "uni100.txt", SPLIT, drawn)
    assert "s07e03" in (tmp_path / "a" / "uni100.txt").read_text()
    np.testing.assert_array_equal(read_candidates(tmp_path / "a" / "uni100.txt", SPLIT), drawn)
    (tmp_path / "b.txt").write_text("1 s01e01\n2 s01e01 s01e02\n")
    with pytest.raises(ValueError, match="no candidates for user 3"):
        read_candidates(tmp_path / "b.txt", SPLIT)
    (tmp_path / "c.txt").write_text("".join(f"{u} s01e01 s01e02 s01e03 s99e99\n" for u in SPLIT.data.users.ids))
    with pytest.raises(ValueError, match=r"c\.txt: unknown item id s99e99"):
        read_candidates(tmp_path / "c.txt", SPLIT)


@pytest.mark.parametrize("odd", ["a b", "a\tb", "a,b", "#a", "\ufeffa", "a\nb", "a\rb"])
@pytest.mark.parametrize("which", ["users", "items"])
def test_ids_that_would_not_be_read_again_are_not_written(tmp_path, which, odd):
    ids = getattr(SPLIT.data, which).ids.astype("U9")
    ids[-1] = odd
    split = replace(SPLIT, data=replace(SPLIT.data, **{which: Vocabulary(ids)}))
    with pytest.raises(ValueError, match=re.escape(f"cannot hold the id {odd!r}")):
        save_candidates(tmp_path / "a.txt", split, draw_candidates(SPLIT, "uni100"))
    assert not list(tmp_path.iterdir())
    ids[-1] = "zz#"
    save_candidates(tmp_path / "a.txt", split, draw_candidates(SPLIT, "uni100"))


def test_the_target_is_ranked_among_its_candidates_and_a_draw_of_itself_ties():
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3], [2, 3, 4]]))
    candidates = np.array([[4, 4, 2, 3], [1, 1, 1, 4]])  # targets 3 and 4 are among them

    def score(histories, users):
        return np.tile([0.0, 1, 2, 3, 4], (len(histories), 1))

    found = evaluate(score, split, sampled={"mine": candidates}, ks=(1, 3))
    # user 1: two 4s before target 3, one tie: rank 3.5. user 2: target 4 first, one tie: rank 1.5
    np.testing.assert_allclose(found["mine"]["mrr"], (1 / 3.5 + 1 / 1.5) / 2)
    assert found["mine"]["hr@1"] == 0.5
    assert found["mine"]["hr@3"] == 1.0
    assert found["full"] == full_ranking(score, split, ks=(1, 3))


def test_a_scorer_that_knows_nothing_gets_chance_under_every_protocol():
    sampled = {p: draw_candidates(SPLIT, p) for p in ("uni100", "pop100")}
    found = evaluate(lambda histories, users: np.zeros((len(histories), 241)), SPLIT, sampled=sampled)
    assert all(row["hr@10"] == 0 for row in found.values())  # everybody ranks in the middle


def test_users_are_ranked_a_few_at_a_time_and_averaged_together(monkeypatch):
    import importlib

    table = np.random.default_rng(5).random((81, 241))
    whole = evaluate(lambda histories, users: table[users], SPLIT)
    monkeypatch.setattr(importlib.import_module("tinyattn.evaluation.lazy"), "SCORES_AT_ONCE", 7 * 241)
    monkeypatch.setattr(importlib.import_module("tinyattn.evaluation.protocol"), "USERS_AT_ONCE", 33)
    chunked = evaluate(lambda histories, users: table[users], SPLIT)
    assert chunked == whole


def test_users_are_known_to_the_model_by_its_own_numbers():
    asked = []
    numbers = np.arange(80)[::-1]

    def score(histories, users):
        asked.extend(users.tolist())
        return np.zeros((len(histories), 241))

    evaluate(score, SPLIT, users=numbers)
    assert asked == numbers[SPLIT.evaluated].tolist()


@pytest.mark.parametrize("ks", [(), (0,), (-3,), (2.5,), 10, "5"])
def test_cut_offs_that_cannot_be_are_refused(ks):
    split = leave_one_out(Interactions.from_sequences([[1, 2, 3, 4], [4, 3, 2, 1]]))
    with pytest.raises(ValueError, match="expected whole numbers of 1 or more"):
        evaluate(lambda histories, users: np.ones((len(histories), 5)), split, ks=ks)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s[:, 1:], r"scores are \(80, 240\) float64, expected an array of numbers \(80, 241\): .* for padd"),
        (lambda s: s[:-1], "a row for each history"), (lambda s: s[0], r"scores are \(241,\) float64"),
        (lambda s: s.tolist(), "scores are list, expected"), (lambda s: None, "scores are NoneType, expected"),
        (lambda s: s + 0j, "complex128, expected an array"), (lambda s: s.astype(object), "object, expected an array"),
        (lambda s: np.ma.masked_greater(s, 0.5), "values are masked, expected none"),
    ],
    ids=["no padding", "rows", "one row", "list", "None", "complex", "objects", "masked"],
)  # fmt: skip
def test_scores_of_another_shape_or_type_are_refused(change, says):
    """Without a column of padding every item would have its neighbour's score; a masked or complex rank is none."""

    def score(histories, users):
        return change(np.random.default_rng(0).random((len(histories), SPLIT.data.n_items + 1)))

    with pytest.raises(ValueError, match=says):
        evaluate(score, SPLIT)
    with pytest.raises(ValueError, match=says):
        evaluate(score, SPLIT, truth=WORLD.next_item)
    with pytest.raises(ValueError, match=says):
        best_items(score, SPLIT)


def test_what_cannot_be_drawn_is_said():
    small = leave_one_out(Interactions.from_sequences([[1, 2, 3, 4], [4, 3, 2, 1]]))
    with pytest.raises(ValueError, match="pop100: user 1 has 0 items left to draw from, 100 are needed"):
        draw_candidates(small, "pop100")
    with pytest.raises(ValueError, match="protocol is 'uni'"):
        draw_candidates(small, "uni")


def test_counts_are_scores_under_a_truth_too():
    counts = np.random.default_rng(0).integers(0, 9, (80, 241))
    with_counts, with_floats = (
        evaluate(lambda histories, users, x=x: x[: len(histories)], SPLIT, truth=WORLD.next_item)
        for x in (counts, counts.astype(float))
    )
    assert with_counts == with_floats
    assert np.array_equal(*(best_items(lambda histories, users, x=x: x[: len(histories)], SPLIT) for x in (
        counts, counts.astype(float))))  # fmt: skip
