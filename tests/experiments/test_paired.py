"""Differences between rows of an experiment, from ranks that are written down as letters."""

import math

import numpy as np
import pytest

from tinyattn.evaluation import ndcg, paired_difference
from tinyattn.evaluation.bootstrap import t_95
from tinyattn.experiments import paired
from tinyattn.experiments.paired import difference, in_pairs, letters, over_users, packed, ranks_of, unpacked


def test_ranks_as_letters_and_back():
    ranks = np.array([1.0, 1.5, 2.0, 19.5, 20.0, 20.5, 3000.0])
    assert letters(ranks) == "ABBTT2"
    assert letters(ranks[::-1][1:]) == ".TTBBA"
    for text in ("ABBTT2", "ABBTT.."):                # as older versions wrote them
        np.testing.assert_array_equal(ranks_of(text), [1, 2, 2, 20, 20, np.inf, np.inf])
    assert len(ranks_of("")) == 0
    assert len(ranks_of("12A3")) == 16
    for text in ("AU", "a", "A 2", "-1", "123456789"):
        with pytest.raises(ValueError, match="expected letters of"):
            ranks_of(text)


def runs_of(ranks, first=0):
    return [{"ranks": found, "row": {"seed": seed}} for seed, found in enumerate(ranks, first)]


def test_runs_are_paired_by_seed():
    mine, theirs = runs_of(["A...", "AA.."]), runs_of(["A..."], first=1)
    assert difference(mine, theirs) == difference(mine[1:], theirs)
    assert difference(mine[:1], theirs).replace("|", "").strip() == ""


def test_a_difference_over_users_and_over_seeds():
    """NDCG@5 of rank 1 is 1, of anything beyond 5 is 0."""
    mine, theirs = (runs_of(found) for found in (["AA..", "AAA."], ["A...", "A..."]))
    mean, over_users, over_seeds, share = difference(mine, theirs).split(" | ")
    assert (mean, share) == ("+0.3750", "+150.0%")
    low, high = (float(end) for end in over_users.split(" to "))
    assert 0 <= low < 0.375 < high <= 1
    half = 12.71 * 0.125  # differences .25 and .5: their standard deviation over √2 is .125
    assert over_seeds == f"{0.375 - half:+.4f} to {0.375 + half:+.4f}"


def test_of_another_cut_off():
    """Of rank 7 NDCG@10 is 1 / log2(8), and NDCG@5 nothing."""
    mine, theirs = runs_of(["GG.."]), runs_of(["G..."])
    assert difference(mine, theirs, k=10).split(" | ")[0] == f"{0.25 / 3:+.4f}"
    assert difference(mine, theirs).split(" | ")[0] == "+0.0000"
    with pytest.raises(ValueError, match="k is 21, expected at most 20"):
        difference(mine, theirs, k=21)


def test_nothing_is_said_before_both_were_run():
    assert difference([], runs_of(["A"])).replace("|", "").strip() == ""


def test_runs_of_the_same_seed_are_pairs_wherever_they_stand():
    mine = [{"ranks": found, "row": {"seed": seed}} for seed, found in ((3, "A."), (1, "C."), (2, "B."))]
    theirs = [{"ranks": found, "row": {"seed": seed}} for seed, found in ((2, "B."), (0, "AA"), (1, "C."), (3, "A."))]
    left, right = in_pairs(mine, theirs)
    assert [run["row"]["seed"] for run in left] == [run["row"]["seed"] for run in right] == [3, 1, 2]
    assert left == mine
    assert right == [theirs[3], theirs[2], theirs[0]]
    assert difference(mine, theirs).split(" | ")[2] == "+0.0000 to +0.0000"  # each pair has the same ranks


def test_three_seeds_have_two_degrees_of_freedom():
    """Differences of 0, 1/4 and 1/2: their mean is 1/4, and its standard error 1/4 over √3."""
    mine, theirs = runs_of(["....", "A...", "AA.."]), runs_of(["....", "....", "...."])
    half = 4.3027 * 0.25 / math.sqrt(3)
    low, high = (float(end) for end in difference(mine, theirs).split(" | ")[2].split(" to "))
    assert (low, high) == (pytest.approx(0.25 - half, abs=1e-4), pytest.approx(0.25 + half, abs=1e-4))
    assert difference(mine, theirs).endswith(" | ")  # no share of nothing
    assert difference(mine[1:2], theirs[1:2]).split(" | ")[2] == ""  # one pair does not say how far seeds differ


@pytest.mark.parametrize("freedom", [*range(1, 12), 30, 100, 1000])
def test_students_t_leaves_2_and_a_half_percent_on_either_side(freedom):
    """By Simpson's rule on its density."""
    t = np.linspace(0, t_95(freedom), 2001)
    constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    density = math.exp(constant) / math.sqrt(freedom * math.pi) * (1 + t**2 / freedom) ** (-(freedom + 1) / 2)
    weights = np.where(np.arange(2001) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1
    assert np.sum(weights * density) * t[1] / 3 == pytest.approx(0.475, abs=5e-5)


def test_over_users_each_users_mean_over_the_runs_is_drawn():
    mine, theirs = runs_of(["AB..E", "C..A."]), runs_of(["..A.B"])
    both = [np.mean([ndcg(ranks_of(run["ranks"]), 5) for run in runs], axis=0) for runs in (mine, theirs)]
    found = paired_difference(*both)
    assert over_users(mine, theirs) == f"{found.mean:+.4f} | {found.low:+.4f} to {found.high:+.4f}"
    assert over_users(mine, theirs, 2) != over_users(mine, theirs, 3) != over_users(mine, theirs)
    assert over_users([], theirs) == over_users(mine, []) == " | "


@pytest.mark.parametrize("seeds", [2, 3, 6])
def test_intervals_over_seeds_hold_the_truth_in_93_to_97_percent_of_2000_worlds(seeds):
    """Of few seeds: with the normal distribution's 1.96, those of three would hold it in 81 %."""
    rng = np.random.default_rng(seeds)
    held = []
    for _ in range(2000):
        low, high = map(float, paired._over_seeds(0.3 + rng.standard_normal(seeds)).split(" to "))
        held.append(low <= 0.3 <= high)
    assert 0.93 <= np.mean(held) <= 0.97


@pytest.mark.parametrize("largest", [3, 255, 256, 65_535, 65_536, 2**31])
def test_lists_are_packed_whole(largest):
    lists = np.array([[1, 2, largest], [0, 7, 3]])
    np.testing.assert_array_equal(unpacked(packed(lists)), lists)
    np.testing.assert_array_equal(unpacked(lists.tolist()), lists)      # as older versions wrote them
    np.testing.assert_array_equal(unpacked("1 2 <u2 AQACAA=="), [[1, 2]])


@pytest.mark.parametrize(
    "text",
    ["", "1 2 <u2", "1 2 <u2z AQACAA==", "1 2 <u2z ", "1 3 <u1z eJxjZAQAAAQAAw==",
     "1 2 <u2 AQACAA== x", "1 2 <f4 AQACAA==", "1 3 <u2 AQACAA==", "0 2 <u2 ", "1 2 <u2 *", [], [[]],
     [[-1]], [[1], [1, 2]], [[[1]]], [[0.5]], 3, None],
)  # fmt: skip
def test_what_is_no_packed_list_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        unpacked(text)
