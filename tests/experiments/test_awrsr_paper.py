"""What AWRSR's paper prints, computed again: its percentages, its claims about its own tables, its equations."""

import math
from collections import Counter

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.experiments.awrsr.claims import PLACES, contrast, judge, of_all, pooled, refined
from tinyattn.experiments.awrsr.grid import BY_DEPTH, PUBLISHED, SEEDS

# Table 2: Recall@1, Recall@5 and NDCG@5 on Beauty, MovieLens 1M and Anime, and the gains in percent beside them
TABLE_2 = {
    "sasrec": {
        "none": (0.0097, 0.0371, 0.0234, 0.0265, 0.0959, 0.0616, 0.1209, 0.2978, 0.2112),
        "simp": (0.0104, 0.0376, 0.0243, 0.0291, 0.1004, 0.0649, 0.1237, 0.3247, 0.2274),
        "value": (0.0116, 0.0376, 0.0251, 0.0267, 0.0976, 0.0642, 0.1269, 0.3083, 0.2165),
        "add": (0.0108, 0.0380, 0.0239, 0.0289, 0.1013, 0.0654, 0.1211, 0.3225, 0.2290),
    },
    "stosa": {
        "none": (0.0150, 0.0422, 0.0285, 0.0218, 0.0720, 0.0475, 0.1101, 0.2716, 0.1934),
        "simp": (0.0153, 0.0453, 0.0304, 0.0221, 0.0756, 0.0489, 0.1220, 0.3018, 0.2143),
        "value": (0.0154, 0.0428, 0.0286, 0.0246, 0.0789, 0.0516, 0.1260, 0.3029, 0.2171),
        "add": (0.0162, 0.0442, 0.0305, 0.0223, 0.0750, 0.0481, 0.1222, 0.2987, 0.2147),
        "stoc": (0.0154, 0.0425, 0.0276, 0.0225, 0.0733, 0.0478, 0.1194, 0.2878, 0.2073),
    },
}
GAINS_2 = {
    ("sasrec", "simp"): (7.22, 1.35, 3.85, 9.81, 4.69, 5.35, 2.31, 9.04, 7.67),
    ("sasrec", "value"): (19.59, 1.35, 7.26, 0.75, 1.78, 4.22, 4.96, 3.53, 2.50),
    ("sasrec", "add"): (11.34, 2.43, 2.14, 9.06, 5.63, 6.17, 0.25, 8.31, 8.42),
    ("stosa", "simp"): (2.00, 7.35, 6.67, 1.38, 5.00, 2.95, 10.81, 11.11, 10.84),
    ("stosa", "value"): (2.67, 1.42, 0.35, 12.84, 9.58, 8.63, 14.44, 11.50, 12.27),
    ("stosa", "add"): (8.00, 4.74, 7.02, 2.29, 4.17, 1.26, 11.00, 9.96, 11.01),
    ("stosa", "stoc"): (2.67, 0.71, -3.16, 3.21, 1.81, 0.63, 8.45, 5.96, 7.19),
}
# Table 3: gains in NDCG@5 on Beauty with 1 to 4 layers
GAINS_3 = {
    ("sasrec", "simp"): (3.85, 5.37, 3.40, 6.07), ("sasrec", "value"): (7.26, 3.31, 1.88, 3.24),
    ("sasrec", "add"): (2.14, 4.96, 4.91, 8.10), ("stosa", "simp"): (6.67, 5.54, 3.11, 2.69),
    ("stosa", "value"): (0.35, 2.58, 1.17, 1.92), ("stosa", "add"): (7.02, 6.64, 7.78, 9.23),
    ("stosa", "stoc"): (3.16, 0.74, 1.56, 3.85),
}  # fmt: skip
UNIT = 0.0001  # of the last digit


def gains(found, backbone):
    return 100 * (np.array(found) / np.array(backbone) - 1)


def test_the_tables_are_those_of_the_grid():
    for (data, backbone), rows in PUBLISHED.items():
        first = {"beauty": 0, "ml-1m": 3}[data]
        assert rows == {form: found[first : first + 3] for form, found in TABLE_2[backbone].items()}
    for backbone, rows in TABLE_2.items():
        assert all(BY_DEPTH[backbone, form][0] == found[2] for form, found in rows.items())


def test_percentages_are_those_of_the_cells_but_for_one_sign():
    for (backbone, form), printed in GAINS_2.items():
        rows = TABLE_2[backbone]
        np.testing.assert_allclose(gains(rows[form], rows["none"]), printed, rtol=0, atol=0.09)
    for (backbone, form), printed in GAINS_3.items():
        off = np.abs(gains(BY_DEPTH[backbone, form], BY_DEPTH[backbone, "none"]) - printed) > 0.09
        assert off.tolist() == [form == "stoc", False, False, False]
    assert GAINS_3["stosa", "stoc"][0] == -GAINS_2["stosa", "stoc"][2]


def test_add_is_ahead_of_the_others_in_about_half_of_the_cells():
    ahead = dict.fromkeys(("simp", "value"), 0)
    best = {backbone: dict.fromkeys(rows, 0) for backbone, rows in TABLE_2.items()}
    for backbone, rows in TABLE_2.items():
        for other in ahead:
            ahead[other] += np.sum(np.array(rows["add"]) > rows[other])
        for cell in range(9):
            best[backbone][max(rows, key=lambda form: rows[form][cell])] += 1
    assert ahead == {"simp": 10, "value": 9}
    assert best["sasrec"] == {"none": 0, "simp": 2, "value": 3, "add": 4}
    assert best["stosa"] == {"none": 0, "simp": 1, "value": 6, "add": 2, "stoc": 0}


def test_the_smallest_gain_is_one_unit_of_the_last_digit_and_rounding_alone_can_make_it():
    rows = PUBLISHED["beauty", "stosa"]
    backbone, value = rows["none"][2], rows["value"][2]
    assert value - backbone == pytest.approx(UNIT)
    assert min(gains(found[2], rows["none"][2]) for rows in PUBLISHED.values() for found in rows.values()
               if found[2] > rows["none"][2]) == pytest.approx(0.35, abs=0.005)  # fmt: skip
    assert UNIT / PUBLISHED["beauty", "sasrec"]["none"][2] == pytest.approx(0.0043, abs=5e-5)
    low, high = (gains(value + sign * UNIT / 2, backbone - sign * UNIT / 2) for sign in (-1, 1))
    assert low == pytest.approx(0, abs=1e-9)  # what both may have been before they were rounded
    assert high == pytest.approx(0.70, abs=0.01)


def test_as_printed_a_score_is_a_matrix_and_its_scale_is_not_that_of_its_sum(rng):
    """(A_k W_Q)ᵀ (A_t W_K) of rows; and a sum of n terms that is divided by √d grows as √(n / d)."""
    n = 6
    A, W_Q, W_K = rng.standard_normal((3, n, n))
    row, other = A[2:3] @ W_Q, A[4:5] @ W_K
    assert (row.T @ other).shape == (n, n)
    B, _, _ = ops.refine_simp(A, W_Q, W_K, scale=1.0)
    assert (row @ other.T).item() == pytest.approx(B[2, 4])
    for n, d in ((20, 128), (200, 50)):
        A, W_Q, W_K = rng.standard_normal((3, 20, n, n))
        spread = np.std(ops.refine_simp(A, W_Q / math.sqrt(n), W_K / math.sqrt(n), scale=1 / math.sqrt(d))[0])
        assert spread == pytest.approx(math.sqrt(n / d), rel=0.05)


@pytest.mark.parametrize(
    ("places", "low", "high"),
    [
        ([("sasrec", n) for n in (2, 3, 4)], 0.05, 0.14),
        ([("sasrec", n) for n in (2, 3, 4)] + [("stosa", 4)], 0.38, 0.5),
        ([(backbone, n) for backbone in ("sasrec", "stosa") for n in (2, 3, 4)], 0.6, 0.72),
    ],
    ids=["SASRec", "and STOSA with 4 layers", "and STOSA with 2 to 4"],
)
def test_how_often_add_would_be_found_above_simp_if_table_3_were_true(places, low, high, rng):
    """With three seeds a row that differ by 3 %."""
    found = 0
    for _ in range(1000):
        rows = [[BY_DEPTH[backbone, form][n - 1] * (1 + 0.03 * rng.standard_normal(SEEDS)) for form in ("add", "simp")]
                for backbone, n in places]  # fmt: skip
        found += judge(pooled([contrast([add.tolist()], simp.tolist()) for add, simp in rows])) == "replicated"
    assert low < found / 1000 < high


@pytest.mark.parametrize(
    ("true", "spread", "least"),
    [(False, 0.03, {"not replicated": 0.2, "undecided": 0.5}), (True, 0.03, {"replicated": 0.88}),
     (False, 0.05, {"not replicated": 0.14, "undecided": 0.75}), (True, 0.05, {"replicated": 0.35, "undecided": 0.45})],
    ids=["nothing is gained, 3 %", "table 2 is true, 3 %", "nothing is gained, 5 %", "table 2 is true, 5 %"],
)  # fmt: skip
def test_how_often_every_refinement_would_be_found_to_help(true, spread, least, rng):
    """With three seeds a row and six of the backbone, which differ by `spread`: shares of verdicts in 300 experiments.
    """
    found = Counter()
    for _ in range(300):
        effects = {form: [] for form in refined("sasrec")}
        for place in PLACES:
            printed = PUBLISHED[tuple(place.rsplit("-", 1))]
            backbone = (1 + spread * rng.standard_normal(2 * SEEDS)).tolist()
            for form in effects:
                mean = printed[form][2] / printed["none"][2] if true else 1
                effects[form].append(contrast([(mean * (1 + spread * rng.standard_normal(SEEDS))).tolist()], backbone))
        found[of_all(map(pooled, effects.values()))] += 1
    assert all(found[verdict] / 300 > share for verdict, share in least.items())
    assert found["not replicated" if true else "replicated"] < 6
