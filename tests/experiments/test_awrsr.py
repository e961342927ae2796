"""The replication of AWRSR: its verdicts on made-up runs, and what its page and pictures show of them."""

import re

import numpy as np
import pytest

from benchmarks.machine import RESULTS
from tests.helpers import MACHINE
from tests.models.worlds import TINY
from tinyattn.cli import main
from tinyattn.commands import reproduce
from tinyattn.data import SPLITS, SeriesWorld
from tinyattn.experiments import EXPERIMENTS, results_of
from tinyattn.experiments.awrsr import claims, settings
from tinyattn.experiments.awrsr.checks import checks, unlike
from tinyattn.experiments.awrsr.claims import Claims, Effect, contrast, first_at, judge, pooled, steady_from, verdicts
from tinyattn.experiments.awrsr.grid import SEEDS, SETTINGS
from tinyattn.experiments.awrsr.pictures import POSITIONS, attention_maps, maps_are_whole
from tinyattn.models import MODELS
from tinyattn.show import draw_picture

AWRSR = EXPERIMENTS["awrsr"]


def made_up(gain, spread=0.001, sooner=1.0, seeds=SEEDS, rows=AWRSR.rows):
    """Runs of all rows: those of refinements are better by `gain(key)`, and need `sooner` times the epochs."""
    rng, found = np.random.default_rng(0), {key: [] for key in AWRSR.rows}
    for key in rows:
        refined = not any(part in key for part in ("none", "popularity", "markov", "released", "sasrec-ce"))
        for seed in range(2 * seeds if key.endswith(("none", "none-patience-20")) else seeds):
            value = 0.05 * (1 + (gain(key) if refined else 0) + spread * rng.standard_normal())
            epochs = np.arange(1, 61) / (sooner if refined else 1.0)
            found[key].append({
                "row": {"seed": seed}, "metrics": {"full": {name: value for _, name in claims_columns()}},
                "ranks": "ACT." * 5,
                "valid": (0.06 * (1 - np.exp(-epochs / 8))).tolist(),
                "gradient_norm": (1 + np.exp(-epochs / 8 + 0.05 * rng.standard_normal())).tolist(),
                "attention": {name: [[1 / (i + 1)] * (i + 1) for i in range(POSITIONS)]
                              for name in ("weights", "unrefined")},
                "epochs": 60, "epoch_seconds": 1.0, "seconds": 60.0, "machine": MACHINE,
            })  # fmt: skip
    return found


def claims_columns():
    return [("full", f"{name}@{k}") for name in ("hr", "ndcg") for k in (1, 5, 10, 20)]


def words(results):
    return {claim: judged(Claims(results)).verdict for claim, judged in claims.CLAIMS.items()}


def test_claims_that_hold_are_replicated():
    def gain(key):
        return 0.12 if "add" in key else 0.06

    assert set(words(made_up(gain, sooner=0.5)).values()) == {"replicated"}


def test_claims_that_do_not_hold_are_not():
    assert set(words(made_up(lambda key: -0.05, sooner=1.5)).values()) == {"not replicated"}


def test_where_nothing_moves_a_gain_is_not_replicated_and_no_loss_is():
    found = words(made_up(lambda key: 0.0))
    assert found.pop("M_simp is always at least as good") == "replicated"
    assert set(found.values()) == {"not replicated"}


def test_where_seeds_differ_by_more_than_the_gain_it_is_undecided_and_said_what_would_decide():
    results = made_up(lambda key: 0.03, spread=0.1)
    found = Claims(results).every_refinement_helps()
    assert found.verdict == "undecided at this power"
    assert "±0.7%" in found.decides
    assert int(found.decides.split()[1]) > SEEDS


def test_as_many_seeds_as_are_said_to_decide_do_in_8_of_10_cases_where_nothing_is_gained(rng):
    nothing = Effect(0.0, 0.03**2 * (1 / SEEDS + 1 / (2 * SEEDS)), 7)
    seeds = int(claims.seeds_for(nothing, claims.LEAST, SEEDS).split()[1])
    drawn = (0.05 * (1 + 0.03 * rng.standard_normal((500, 3 * seeds)))).tolist()
    judged = [judge(contrast([runs[:seeds]], runs[seeds:])) for runs in drawn]
    assert 0.74 < judged.count("not replicated") / 500 < 0.86


def test_where_refinements_vary_more_than_backbones_only_intervals_of_welch_hold(rng):
    """At a true gain of nothing, of four places: backbones differ by 2 %, refined models by 6 %."""
    holds = {"pooled": 0, "Welch": 0}
    for _ in range(500):
        pairs = [((1 + 0.06 * rng.standard_normal(3)).tolist(), (1 + 0.02 * rng.standard_normal(6)).tolist())
                 for _ in range(4)]  # fmt: skip
        found = {"pooled": pooled([contrast([row], backbone) for row, backbone in pairs]), "Welch": unlike(pairs)}
        for name, effect in found.items():
            holds[name] += effect.low < 0 < effect.high
    assert holds["pooled"] / 500 < 0.9
    assert 0.92 < holds["Welch"] / 500 < 0.99


def test_what_is_asked_after_the_first_runs(rng):
    assert checks({key: [] for key in AWRSR.rows}) == []
    results = made_up(lambda key: 0.05 if "value" not in key else -0.05, sooner=1.5, spread=0.002)
    for run in results["ml-1m-sasrec-simp"]:
        run["valid"] = [0.01] * 60
    results["ml-1m-stosa-simp"][0]["valid"][30:] = []  # as a dip would end it
    told = "\n".join(checks(results))
    assert re.search(r"\n\| STOSA on MovieLens 1M \| -\d\.\d% \| -\d\.\d%, 30 epochs \| 60 \| 5\d \|", told)
    assert "is 0.2% for backbones (4 rows), 0.2% for refinements (14 rows)" in told
    assert re.search(r"M_value, causal -[45]\.\d% .*: not replicated", told)
    assert "as M_value's causal form is ours: replicated." in told
    assert "M_simp +4.7%, below +4.9%" in told
    assert "M_value, causal +5.1%, above -5.1%" in told
    assert "\n- 63 of 66 runs reach 80%" in told
    assert "\n- Corrected for 14 rows (Holm 1979), beyond chance: SASRec on MovieLens 1M with M_simp (" in told
    assert re.search(r"place by place: SASRec on MovieLens 1M \+\d\d\d%.*, STOSA on MovieLens 1M \+[45]\d%", told)
    assert re.search(r"without M_stoc \+\d+% .*; M_simp alone \+\d+% .*; M_add alone \+\d+% .*, not replicated\.", told)


def test_checks_are_made_of_runs_that_found_nothing():
    results = made_up(lambda key: 0.0)
    for run in (run for runs in results.values() for run in runs):
        run["metrics"]["full"] = dict.fromkeys(run["metrics"]["full"], 0.0)
        run["valid"] = [0.0] * 60
    assert "0.0% for backbones (4 rows)" in "\n".join(checks(results))


def test_more_seeds_of_the_same_spread_do_not_change_how_many_would_decide():
    few = made_up(lambda key: 0.0, spread=0.05)
    for runs in few.values():
        for i, run in enumerate(runs):
            value = 0.05 * (1 + 0.05 * (i % 3 - 1))
            run["metrics"]["full"] = dict.fromkeys(run["metrics"]["full"], value)
    many = {key: [run | {"row": {"seed": 100 * i + run["row"]["seed"]}} for run in runs for i in range(4)]
            for key, runs in few.items()}  # fmt: skip
    said = [int(Claims(results).every_refinement_helps().decides.split()[1]) for results in (few, many)]
    assert abs(said[1] / said[0] - 1) < 0.3  # degrees of freedom differ
    later, first = claims.other_seeds(many["ml-1m-sasrec-none"])
    assert len(later) == len(first) == 12


def test_every_refinement_is_judged_by_its_mean_and_stoc_decides_nothing():
    few = made_up(lambda key: -0.05 if "stoc" in key or key == "beauty-stosa-add" else 0.05)
    found = Claims(few).every_refinement_helps()
    assert found.verdict == "replicated"
    assert "(M_stoc, which decides nothing, -5.0%" in found.evidence
    assert found.evidence.endswith("of 14 rows' intervals, above 0: 11, below: 3")
    one = made_up(lambda key: 0.0 if "add" in key else 0.05)
    assert words(one)["every refinement helps"] == "not replicated"


def test_simp_is_worse_where_two_of_its_rows_are():
    few = made_up(lambda key: -0.05 if key == "beauty-stosa-simp" else 0.02)
    assert words(few)["M_simp is always at least as good"] == "replicated"
    more = made_up(lambda key: -0.05 if "stosa-simp" in key else 0.02)
    assert words(more)["M_simp is always at least as good"] == "not replicated"


def test_maps_that_are_not_all_there_are_no_maps():
    whole = {"row": {"options": {"refine": "simp"}}, "attention": {
        name: [[1 / (i + 1)] * (i + 1) for i in range(POSITIONS)] for name in ("weights", "unrefined")}}  # fmt: skip
    assert maps_are_whole(whole)
    assert maps_are_whole({})
    maps = whole["attention"]
    assert not maps_are_whole(whole | {"attention": {"weights": maps["weights"]}})
    assert not maps_are_whole(whole | {"attention": maps | {"unrefined": maps["unrefined"][:-1]}})
    assert not maps_are_whole(whole | {"attention": maps | {"weights": [["x"], *maps["weights"][1:]]}})


def test_simp_may_lose_less_than_what_counts_as_a_loss():
    results = made_up(lambda key: -0.004 if "simp" in key else 0.02, spread=0.003)
    found = Claims(results).simp_is_never_worse()
    assert found.evidence == "0 of 7 intervals lie below 0; on average -0.3% (-0.5% to -0.2%)"
    assert found.verdict == "replicated"


def test_the_grid_has_the_settings_that_validated_best():
    """As soon as they have been found: the runs of settings.py are committed before the first one of the grid."""
    found = results_of(settings.EXPERIMENT, RESULTS / "reproduce" / settings.EXPERIMENT.name)
    for place, chosen in SETTINGS.items():
        assert settings.best(found, *place) in (None, chosen)


def test_deep_rows_and_then_those_added_later_are_run_last_and_deep_rows_of_stosa_have_a_page_of_their_own():
    order = [key for key, _ in AWRSR.runs()]
    deep, added = ("-2", "-3", "-4"), ("-rows", "-n20", "-distances")
    places = [6 if key.startswith("large-patient-") else 5 if "-patience-50" in key else 4 if key.startswith("large-")
              else 3 if "-patience-20" in key else 2 if key.endswith(added) else 1 if key.endswith(deep)
              else 0 for key in order]  # fmt: skip
    assert places == sorted(places)
    assert set(places) == {0, 1, 2, 3, 4, 5, 6}
    deep = EXPERIMENTS["awrsr-depth"]
    runs = {key: made_up(lambda key: 0.05)["beauty-sasrec-none"] for key in deep.rows}
    page = deep.page(deep, runs)
    assert "| STOSA + M_add, 4 layers | +0.0% (" in page
    assert page.count("to come") == 0
    assert deep.page(deep, {key: [] for key in deep.rows}).count("to come") == len(deep.rows) + 1


def test_the_page_counts_runs_of_stosa_that_validate_best_early_at_each_patience():
    results = made_up(lambda key: 0.05)
    for run, best in zip(results["beauty-stosa-none"], (1, 24, 39, 40, 41, 60), strict=True):
        run["valid"] = [None] + [0.01] * 59
        run["valid"][best - 1] = 0.02
    results["beauty-stosa-none"][0]["metrics"]["full"]["ndcg@5"] = 0.02
    page = AWRSR.page(AWRSR, results)
    assert "| patience 15, backbone | 3 | 0.0400 ± 0.0173 | 3 | 0.0500 ± 0.0000 |" in page
    assert "| patience 50, refined |" in page


def test_no_verdict_before_all_seeds_are_there():
    results = made_up(lambda key: 0.1)
    assert "| M_add is best with depth | **to come** |" not in "\n".join(verdicts(results))
    results["beauty-stosa-add"].pop()
    results["beauty-sasrec-add-4"].pop()
    found = Claims(results).every_refinement_helps()
    assert (found.verdict, found.evidence) == ("to come", "17 of 18 rows (backbones included) are complete, of 3 seeds")
    assert "| M_add is best with depth | **to come** |" in "\n".join(verdicts(results))


def test_when_a_curve_is_there_and_a_norm_steady():
    assert first_at([0.1, 0.5, 0.4, 0.6], 0.5) == 2
    assert first_at([0.1, 0.2], 0.5) == 201                      # not sooner for having been stopped
    assert steady_from([9, 5, 1, 2, 1, 1, 1, 1, 1.05]) == 5
    assert steady_from([1.0, 1.0]) == 1


@pytest.mark.parametrize("rows", [[], ["beauty-sasrec-none"], ["ml-1m-sasrec-none", "ml-1m-sasrec-simp"], None])
def test_page_and_pictures_of_none_few_and_all_runs(rows):
    results = made_up(lambda key: 0.05, rows=AWRSR.rows if rows is None else rows)
    page, shown = AWRSR.page(AWRSR, results), AWRSR.shown(results)
    expected = {"ndcg", "validation", "gradients"} if rows != [] else set()
    assert set(shown) == expected | ({"attention"} if rows is None or len(rows) == 2 else set())
    for name, picture in shown.items():
        assert f"]({name}.svg)" in page
        assert draw_picture(picture).axes
    if rows == []:
        assert ".svg" not in page
        assert "| SASRec + M_value, causal |  |  |  |  |" in page


def test_the_command_writes_pictures_beside_the_page(tmp_path, monkeypatch, capsys):
    results = made_up(lambda key: 0.05, rows=["beauty-stosa-none"])
    monkeypatch.setattr(reproduce, "results_of", lambda *given: results)
    assert main(["reproduce", "awrsr", "--page", "--out", str(tmp_path)]) == 0
    written = ["README.md", "gradients.svg", "ndcg.svg", "validation.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == written
    assert "![NDCG at N from 1 to 20" in capsys.readouterr().out


@pytest.mark.parametrize("model", ["sasrec", "stosa"])
def test_the_maps_of_a_run_are_the_weights_of_the_model_and_say_nothing_of_the_user(model):
    world = SeriesWorld(series=8, episodes=4, users=20, most_open=2, shortest=POSITIONS - 2, longest=20)
    split = SPLITS["leave-one-out"](world.generate())
    options = {"epochs": 1, "dim": 4, "maxlen": 18, "blocks": 2, "heads": 2, "workers": 1}
    plain, simp = (MODELS[model](**options, refine=refine).fit(split) for refine in ("none", "simp"))
    histories = [h for h in split.histories(split.evaluated, "test") if len(h) >= POSITIONS]
    for each, names in ((plain, {"weights"}), (simp, {"weights", "unrefined"})):
        maps = attention_maps(each, split)["attention"]
        assert set(maps) == names
        for rows in maps.values():
            assert [len(row) for row in rows] == list(range(1, POSITIONS + 1))
            assert all(0 <= weight <= 1 for row in rows for weight in row)
            assert sum(rows[-1]) <= 1.001
        seen = [each.attention(split.data.items.decode(h))[1][0].mean(axis=0)[-1, -POSITIONS:] for h in histories]
        assert any(np.allclose(maps["weights"][-1], row, atol=1e-4) for row in seen)
    assert maps["unrefined"] != maps["weights"]
    plain.parameters = simp.parameters  # without the refinement the first block's weights are softmax(A)
    of_A = attention_maps(plain, split)["attention"]["weights"]
    np.testing.assert_allclose(maps["unrefined"][-1], of_A[-1], atol=2e-4)
    assert attention_maps(MODELS["popularity"]().fit(split), split) == {}
    assert attention_maps(plain, SPLITS["leave-one-out"](TINY.generate())) == {}
