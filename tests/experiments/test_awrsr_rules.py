"""The rules of AWRSR's verdicts and pictures by hand: contrasts, epochs, seeds, and what lines and maps hold."""

import math
import re
import statistics

import pytest

from tests.experiments.test_awrsr import AWRSR, made_up
from tinyattn.evaluation import ndcg
from tinyattn.evaluation.bootstrap import t_95
from tinyattn.experiments.awrsr import claims, depth, settings
from tinyattn.experiments.awrsr.checks import checks, cut_alike, never_there, of_many, spread, unlike
from tinyattn.experiments.awrsr.claims import Claims, Effect, Verdict, epochs_of, gain, judge, of_all, other_seeds
from tinyattn.experiments.awrsr.grid import published_gain
from tinyattn.experiments.awrsr.pictures import pictures
from tinyattn.experiments.paired import ranks_of


def runs(*found, seeds=None):
    return [{"row": {"seed": seed}, "metrics": {"full": {"ndcg@5": value}}}
            for seed, value in zip(seeds or range(len(found)), found, strict=True)]  # fmt: skip


# ---- intervals and verdicts


def test_an_effect_reaches_students_t_times_its_error_to_either_side():
    effect = Effect(0.05, 0.0004, 2)
    assert (effect.half, effect.low, effect.high) == pytest.approx((0.08606, 0.05 - 0.08606, 0.05 + 0.08606))
    assert str(effect) == "+5.0% (-3.6% to +13.6%)"
    assert gain(runs(0.11, 0.13), runs(0.1, 0.1)) == str(claims.contrast([[0.11, 0.13]], [0.1, 0.1]))
    assert gain(runs(0.1), runs(0.1, 0.2)) == gain(runs(0.1, 0.2), runs(0.1)) == ""


def test_a_contrast_of_logs_or_with_a_backbone_of_nothing_is_no_share():
    rows, backbone = [[3.0, 5.0], [6.0, 8.0]], [2.0, 2.0, 5.0]
    within = (2 + 2 + 6) / (1 + 1 + 2)
    plain = claims.contrast(rows, backbone, share=False)
    assert plain == Effect(pytest.approx(2.5), pytest.approx(within * (1 / 8 + 1 / 8 + 1 / 3)), 4)
    assert claims.contrast(rows, backbone) == Effect(pytest.approx(2.5 / 3), pytest.approx(plain.variance / 9), 4)
    assert claims.contrast([[1.0, 3.0]], [-1.0, 1.0]).size == 2.0
    mean = claims.pooled([Effect(0.1, 0.02, 3), Effect(0.3, 0.06, 4)])
    assert mean == Effect(pytest.approx(0.2), pytest.approx(0.02), 7)


def test_a_verdict_goes_by_the_ends_of_the_interval():
    half = t_95(100) * 0.01

    def between(low):
        return Effect(low + half, 0.0001, 100)

    assert [judge(between(low)) for low in (1e-6, -1e-6, 0.01 - 2 * half + 1e-6, 0.01 - 2 * half - 1e-6)] == [
        "replicated", "undecided", "undecided", "not replicated"
    ]  # fmt: skip
    assert judge(between(0.05 - 2 * half - 1e-6), 0.05) == "not replicated"
    assert of_all([between(1), between(1)]) == "replicated"
    assert of_all([between(1), between(-half)]) == "undecided"
    assert of_all([between(-half), between(-1), between(1)]) == "not replicated"
    assert claims._sides([between(1), between(-half), between(-1), between(-2)]) == (1, 2)


def test_how_many_seeds_would_decide():
    """An interval of ±0.7 % for a least gain of 1 %: 1.96² · 3 · .0001 / .007² = 23.5."""
    assert claims.seeds_for(Effect(0.5, 0.0001, 3), 0.01, 3) == "about 24 seeds a row, for ±0.7%"
    assert claims.seeds_for(Effect(0.5, 0.0001, 3), 0.05, 3) == "about 4 seeds a row, for ±3.5%"  # one more at least


def test_of_a_backbone_the_later_half_of_the_seeds_stands_beside_the_first():
    backbone = runs(*range(8), seeds=[7, 0, 3, 1, 6, 2, 5, 4])
    later, first = other_seeds(backbone)
    assert ([r["row"]["seed"] for r in later], [r["row"]["seed"] for r in first]) == ([4, 5, 6, 7], [0, 1, 2, 3])
    later, first = other_seeds(backbone[:4])
    assert [r["row"]["seed"] for r in first] == [0, 1, 3]  # three at least
    assert [r["row"]["seed"] for r in later] == [7]


def test_places_and_their_rows():
    assert claims.refined("sasrec") == ["simp", "value", "add"]
    assert claims.refined("stosa") == ["simp", "value", "add", "stoc"]
    assert list(claims.PLACES) == ["ml-1m-sasrec", "ml-1m-stosa", "beauty-sasrec", "beauty-stosa"]
    assert claims.places_of("stoc") == ["ml-1m-stosa", "beauty-stosa"]
    assert claims.rows_at(["beauty-sasrec"]) == [f"beauty-sasrec-{form}" for form in ("none", "simp", "value", "add")]
    assert [claims.name_of(form) for form in ("none", "simp", "value")] == ["", "M_simp", "M_value, causal"]


def test_a_row_has_as_many_seeds_as_count_and_a_backbone_twice_as_many():
    found = Claims({"beauty-sasrec-none": [{}] * 5, "beauty-sasrec-simp": [{}] * 4})
    assert found.seeds(["beauty-sasrec-none"]) == 2
    assert found.seeds(["beauty-sasrec-simp"]) == 4
    assert found.seeds(["beauty-sasrec-none", "beauty-sasrec-simp"]) == 2
    assert found.missing(["beauty-sasrec-none", "beauty-sasrec-simp", "ml-1m-sasrec-simp"]) == Verdict(
        "to come", "1 of 3 rows (backbones included) are complete, of 3 seeds"
    )
    assert found.missing(["beauty-sasrec-simp"]) is None


def scattered(results, part, by):
    """The runs of rows with that part in their keys, further from their mean."""
    for key in results:
        if part in key:
            for i, run in enumerate(results[key]):
                value = 0.05 * (1 + by * (i % 3 - 1))
                run["metrics"]["full"] = dict.fromkeys(run["metrics"]["full"], value)


def test_the_least_sure_refinement_says_how_many_seeds_would_decide():
    results = made_up(lambda key: 0.05)
    scattered(results, "-value", 0.1)
    found = Claims(results).every_refinement_helps()
    widest = claims.pooled(Claims(results).gains("value"))
    assert found.decides == claims.seeds_for(widest, 0.01, 3)
    assert found.verdict == "undecided at this power"
    assert found.evidence.endswith("of 14 rows' intervals, above 0: 10, below: 0")


def test_with_depth_add_has_to_be_above_its_backbone_and_above_simp():
    results = made_up(lambda key: 0.1 if "add" in key or "simp" in key else 0.0)
    found = Claims(results).add_is_best_with_depth()
    assert found.verdict == "not replicated"
    assert found.evidence.startswith("SASRec, 2 to 4 layers: +10.")
    scattered(results, "sasrec-simp-", 0.3)
    over = {form: claims.pooled([claims.contrast([[claims.ndcg5(r) for r in results[f"beauty-sasrec-add-{n}"]]],
                                                 [claims.ndcg5(r) for r in results[f"beauty-sasrec-{form}-{n}"]])
                                 for n in (2, 3, 4)]) for form in ("none", "simp")}  # fmt: skip
    found = Claims(results).add_is_best_with_depth()
    assert found == Verdict(
        "undecided at this power",
        f"SASRec, 2 to 4 layers: {over['none']} over the backbone, {over['simp']} over M_simp",
        claims.seeds_for(over["simp"], 0.01, 3),
    )  # fmt: skip


def test_the_papers_gain_is_above_within_or_below_the_interval():
    told = {}
    for gain_ in (-0.5, 0.03, 0.5):
        (line,) = [line for line in checks(made_up(lambda key, g=gain_: g, spread=0.05)) if "The paper's gains" in line]
        told[gain_] = re.findall(r"(?:M_simp|M_add) \S+, (\w+) ", line)
    assert told == {-0.5: ["above", "above"], 0.03: ["within", "within"], 0.5: ["below", "below"]}


def test_epochs_are_compared_by_their_logs():
    """The backbone comes near its best after 8 and 2 epochs, the refinement after 2 and 1: a mean log of ½ log 8."""
    def learns(epochs):
        return {"valid": [None, *[0.0] * (epochs - 1), 1.0], "row": {"seed": 0}}

    results = {"beauty-sasrec-none": [learns(8), learns(2)], "beauty-sasrec-simp": [learns(2), learns(1)]}
    found = Claims(results).faster("beauty-sasrec", ["simp"])
    assert found.size == pytest.approx(math.log(8) / 2)
    assert found.freedom == 2
    assert Claims(results).target("beauty-sasrec") == 0.8
    results["beauty-sasrec-none"][0]["valid"][-2:] = [0.5, 0.4]
    assert Claims(results).target("beauty-sasrec") == pytest.approx(0.8 * 0.75)
    said = epochs_of(Effect(math.log(2), (math.log(2) / t_95(2)) ** 2, 2))
    assert said == "-50% (-75% to +0%)"
    assert epochs_of(Effect(-math.log(1.5), 0.0, 2)) == "+50% (+50% to +50%)"


def test_norms_are_cut_where_the_first_run_beside_a_backbone_ends():
    norms = {"none": [[5, 4, 3, 2] + [1.0] * 8] * 2, "simp": [[5.0] + [1.0] * 9] * 2, "value": [[5.0] + [1.0] * 11] * 2,
             "add": [[5.0, 5.0] + [1.0] * 11] * 2}  # fmt: skip
    results = {f"beauty-sasrec-{form}": [{"gradient_norm": each} for each in of] for form, of in norms.items()}
    found = Claims(results)
    assert found.epochs_of_all("beauty-sasrec") == 10
    steady = found._steady("beauty-sasrec", 10)
    assert steady.size == pytest.approx(math.log(5) - (math.log(2) + math.log(2) + math.log(3)) / 3)
    assert claims.steady_from([9.0, 4.3, 4.0, 4.0, 4.0, 4.0, 4.0]) == 2  # within a tenth of 4


def test_claims_name_what_they_found_and_undecided_ones_what_would_decide():
    (claim, *_), decided = claims.CLAIMS, Verdict("replicated", "much")
    lines = claims.verdicts({key: [] for key in AWRSR.rows}, {claim: decided, "cost": Verdict("undecided", "a", "b")})
    assert lines[0] == "| | verdict | what was found | what would decide it |"
    assert f"| {claim} | **replicated** | much |  |" in lines
    assert lines[-1] == "| cost | **undecided** | a | b |"
    assert len(lines) == 2 + len(claims.CLAIMS) + 1
    assert claims._verdict("replicated", "much", "9 seeds").decides == ""
    assert claims._verdict("undecided", "much", "9 seeds") == Verdict("undecided at this power", "much", "9 seeds")


# ---- checks


def test_welchs_interval_by_hand():
    """Two places; Satterthwaite's degrees of freedom of their four groups."""
    pairs = [([2.0, 4.0], [1.0, 2.0, 3.0]), ([4.0, 4.0, 12.0], [16.0, 18.0])]
    parts = [(2 / 2 / 4**2, 1), (1 / 3 / 4**2, 2), (64 / 3 / 3 / 34**2, 2), (2 / 2 / 34**2, 1)]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / n for part, n in parts)
    found = unlike(pairs)
    assert found == Effect(pytest.approx((0.5 + (20 / 3 / 17 - 1)) / 2), pytest.approx(variance), int(freedom))
    assert freedom % 1 > 0.5  # rounded down all the same
    assert unlike([([1.0, 1.0], [1.0, 1.0])]) == Effect(0.0, 0.0, 1)


def test_the_spread_over_seeds_is_pooled_over_rows_by_their_degrees_of_freedom():
    results = {"ml-1m-sasrec-none": runs(0.9, 1.1), "beauty-stosa-none": runs(1.0, 2.0, 3.0),
               "beauty-stosa-add": runs(1)}  # fmt: skip
    of_rows = math.sqrt((0.02 / 1**2 + 2 * 1 / 2**2) / 3)
    said = "The standard deviation of NDCG@5 over seeds, in % of the mean, is"
    assert spread(results) == f"{said} {of_rows:.1%} for backbones (2 rows)."
    one = spread({"ml-1m-sasrec-add": runs(0.9, 1.1)})
    assert one.endswith("is 14.1% for refinements (1 row).")
    assert spread({}) == ""


def test_checks_count_runs_that_never_came_near_and_norms_that_rise():
    results = made_up(lambda key: 0.0)
    n = sum(len(results[key]) for key in claims.rows_at(claims.PLACES))
    assert never_there(results) == f"{n} of {n} runs reach 80% of the backbone's best."
    results["beauty-stosa-stoc"][1]["valid"] = [0.0479] * 60  # below .8 · .06 · (1 - e^-7.5)
    assert never_there(results).startswith(f"{n - 1} of {n} runs")
    results["beauty-sasrec-none"].pop()
    assert not any("reach 80%" in line for line in checks(results))


def test_where_half_of_the_norms_rise_there_is_no_stable_phase():
    results = made_up(lambda key: 0.0)
    rows = [run for place in ("ml-1m-sasrec", "beauty-sasrec") for key in claims.rows_at([place])
            for run in results[key]]  # fmt: skip
    for run in rows[:14]:
        run["gradient_norm"] = [9.0] * 10 + [1.0] * 44 + [1.11] * 6  # 1.11 beside the first five of the last 50
    assert Claims(results).rises("ml-1m-sasrec")[:2] == pytest.approx([0.11, 0.11])
    assert Claims(results).gradients_are_steady_sooner().verdict != "the rule does not apply"
    rows[14]["gradient_norm"] = rows[0]["gradient_norm"]
    found = Claims(results).gradients_are_steady_sooner()
    assert found.verdict == "the rule does not apply"
    rising = "15 of 30 gradient norms of SASRec rise by more than 10% over the last 50 epochs that all runs have"
    assert found.evidence.startswith(f"{rising}, and 15 over a run's own last 50:")
    rows[0]["gradient_norm"] = [*rows[0]["gradient_norm"], *[1.11] * 50]  # flat in its own last 50
    assert Claims(results).gradients_are_steady_sooner().evidence.startswith(f"{rising}, and 14 over")


def test_a_verdict_that_another_threshold_changes_is_fragile():
    """Refinements are quicker to 80 % of the best, and no quicker to 70 % of it."""
    results = made_up(lambda key: 0.0)
    curves = {"none": [0.6, 0.62, 0.7, 0.9, 1.0], "": [0.6, 0.62, 0.9, 0.95, 1.0]}
    for key in claims.rows_at(claims.PLACES):
        for run in results[key]:
            run["valid"] = curves["none" if key.endswith("none") else ""]
    found = Claims(results).convergence_is_faster()
    assert found.verdict == "fragile: replicated"
    assert found.evidence == (
        "epochs to 80% of the backbone's best on validation: -25% (-25% to -25%); by the same rule not replicated at "
        "50%, 55%, 60%, 65%, 70%; replicated at 75%, 80%, 85%, 90%, 95%"
    )


def test_of_many_rows_those_that_a_correction_leaves_are_named():
    assert of_many(made_up(lambda key: 0.0)) == "Corrected for 14 rows (Holm 1979), beyond chance: none."
    results = made_up(lambda key: 0.1 if key == "beauty-stosa-add" else 0.0)
    expected = r"Corrected .*, beyond chance: STOSA on Amazon Beauty, 5-core with M_add \(\+\d+\.\d%, p 0\.000\)\."
    assert re.fullmatch(expected, of_many(results))


def test_gains_cut_alike_are_those_within_the_shortest_run():
    """Whole: 0.3 above 0.2; within two epochs: 0.11 above 0.1."""
    results = {key: [] for key in AWRSR.rows}
    for form, curve in (("none", [0.05, 0.1, 0.2]), ("simp", [0.11, None, 0.1, 0.3]), ("value", [0.11, 0.1, 0.3]),
                        ("add", [0.11, 0.0])):  # fmt: skip
        results[f"beauty-sasrec-{form}"] = [run | {"valid": curve} for run in runs(0.1, 0.1, 0.1)]
    *_, line = checks(results)
    whole = statistics.mean([0.3, 0.3, 0.11]) / 0.2 - 1
    assert line == f"| SASRec on Amazon Beauty, 5-core | {whole:+.1%} | +10.0%, 2 epochs | 3 | 3 |"
    place = {"large-stosa": ("simp", "value", "add")}
    assert cut_alike(results, place) == []
    for form in ("none", *place["large-stosa"]):
        results[f"large-stosa-{form}"] = results[f"beauty-sasrec-{form}"][:]
    *_, found = cut_alike(results, place)
    assert found == line.replace("SASRec on Amazon Beauty, 5-core", "STOSA on the larger Beauty")
    results["beauty-sasrec-none"].pop()
    assert not any("2 epochs" in line for line in checks(results))


# ---- pictures


def drawn(data="beauty", **forms):
    """Pictures of runs of SASRec on Beauty."""
    results = {key: [] for key in AWRSR.rows}
    for form, of in forms.items():
        results[f"{data}-sasrec-{form}"] = of
    return {name: picture for name, picture in pictures(AWRSR, results).items()}


def test_lines_of_pictures_are_means_over_seeds():
    place = "SASRec on Amazon Beauty, 5-core"
    backbone = [{"ranks": "AB.", "valid": [0.1, None, 0.3, 0.6], "gradient_norm": [9.0, 4.0, 2.0]},
            {"ranks": "A..", "valid": [0.3, 0.4, 0.5], "gradient_norm": [6.0, 4.0]}]  # fmt: skip
    found = drawn(none=backbone, simp=backbone[1:])
    assert list(found) == ["ndcg", "validation", "gradients", "attention"]
    assert list(found["ndcg"].panels) == [place]
    assert list(found["ndcg"].panels[place]) == ["backbone", "M_simp"]
    n, values = found["ndcg"].panels[place]["backbone"]
    assert list(n) == list(range(1, 21))
    for k, value in zip(n, values, strict=True):
        assert value == pytest.approx((ndcg(ranks_of("AB."), k).mean() + ndcg(ranks_of("A.."), k).mean()) / 2)
    assert found["validation"].panels[place]["backbone"] == ([1, 3], pytest.approx([0.2, 0.4]))
    assert found["validation"].panels[place]["M_simp"] == ([1, 2, 3], [0.3, 0.4, 0.5])
    assert found["validation"].levels == {place: pytest.approx(0.8 * 0.55)}
    assert found["validation"].level == "80% of the backbone's best"
    assert found["gradients"].panels[place]["backbone"] == ([-1, 0], [5.0, 3.0])  # 6 with 4, and 4 with 2
    long = [{"ranks": "A", "valid": [0.1], "gradient_norm": [float(i) for i in range(60)]}]
    places, norms = drawn(none=long)["gradients"].panels[place]["backbone"]
    assert (places[0], places[-1], norms[0], norms[-1], len(norms)) == (-49, 0, 10.0, 59.0, 50)
    larger = drawn("large-patient", none=long)
    assert list(larger["validation"].panels) == ["SASRec on the larger Beauty, patience 50"]
    assert larger["ndcg"].panels == larger["gradients"].panels == {}


def test_maps_are_those_of_the_first_run_that_has_them():
    def run(x):
        return {"ranks": "A", "valid": [0.1], "gradient_norm": [1.0],
                **({"attention": {"weights": [[x]], "unrefined": [[-x]]}} if x else {})}  # fmt: skip

    found = drawn(none=[run(0), run(1), run(2)], simp=[run(3), run(4)])["attention"].rows
    assert found == {"SASRec on Amazon Beauty, 5-core": {
        "backbone: softmax(A)": [[1]], "M_simp: softmax(A)": [[-3]], "M_simp: softmax(B)": [[3]]
    }}  # fmt: skip
    assert drawn(none=[run(1)], simp=[run(0)])["attention"].rows == {}


# ---- settings and depth


def test_the_best_settings_are_those_whose_best_epoch_validates_best():
    rows = settings.EXPERIMENT.rows
    results = {key: [{"valid": [0.1, 0.2, 0.1], "epochs": 3, "epoch_seconds": 20.0, "machine": {}}] for key in rows}
    results["beauty-stosa-0.0005-0.2"][0]["valid"] = [None, 0.3, 0.0]
    assert settings.best(results, "beauty", "stosa") == (5e-4, 0.2)
    lines = settings._table(results, [("beauty", "stosa", 1)])
    assert [line.endswith("| **best** |") for line in lines[2:]] == [False, False, True, False]
    assert "| STOSA, Amazon Beauty, 5-core | 0.0005 | 0.2 | 0.3000 | 3 | 1.0 | **best** |" in lines
    results["beauty-stosa-0.001-0.5"] = []
    assert settings.best(results, "beauty", "stosa") is None
    assert settings.best(results, "beauty", "sasrec", 3) == (1e-3, 0.2)  # the first of equal ones


def test_with_depth_a_gain_is_over_the_backbone_with_as_many_layers():
    experiment = depth.EXPERIMENT
    results = made_up(lambda key: 0.0)
    backbone, times = results["beauty-stosa-none"][:3], {"stosa-none-2": 2.0, "stosa-simp-2": 3.0}

    def scaled(run, scale):
        return run | {"metrics": {"full": {name: value * scale for name, value in run["metrics"]["full"].items()}}}

    results = {key: [scaled(run, times.get(key, 1.0)) for run in backbone] for key in experiment.rows}
    page = experiment.page(experiment, results)
    assert "| STOSA + M_simp, 2 layers | +50.0% (" in page
    assert "| STOSA + M_add, 2 layers | -50.0% (" in page
    assert "| STOSA + M_simp, 3 layers | +0.0% (" in page
    assert f"*{published_gain('beauty', 'stosa', 'simp', 2):+.1%}* |" in page
    assert published_gain("beauty", "stosa", "simp", 2) == pytest.approx(0.0286 / 0.0271 - 1)
    assert published_gain("ml-1m", "sasrec", "add") == pytest.approx(0.0654 / 0.0616 - 1)
    assert published_gain("ml-1m", "sasrec", "lags") is None
