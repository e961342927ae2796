"""Differences between rows of an experiment, from ranks that are written down as letters."""

import numpy as np
import pytest

from tinyattn.experiments.paired import difference, letters, ranks_of


def test_ranks_as_letters_and_back():
    ranks = np.array([1.0, 1.5, 2.0, 19.5, 20.0, 20.5, 3000.0])
    assert letters(ranks) == "ABBTT.."
    np.testing.assert_array_equal(ranks_of("ABBTT.."), [1, 2, 2, 20, 20, np.inf, np.inf])


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
