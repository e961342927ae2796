"""What remarks.md of experiments say holds of the runs beside them. Those of `kinds` stand in test_kinds.py."""

import json
import math
import re
import statistics
from functools import cache

import numpy as np
import pytest

from benchmarks.machine import RESULTS
from benchmarks.models import BY_TIME, MODELS
from benchmarks.models import PAGE as DOCS
from tinyattn.evaluation import holm
from tinyattn.evaluation.means import CHANCE
from tinyattn.experiments import EXPERIMENTS, results_of
from tinyattn.experiments.awrsr.claims import contrast
from tinyattn.experiments.hstu import PARTS
from tinyattn.experiments.planted import COMPARED, FITS, WORLDS, optimum
from tinyattn.experiments.sampled import DIAGNOSES
from tinyattn.experiments.splits import ALSO_BY_TIME
from tinyattn.experiments.tables import compare, values

FULL, SAMPLED = ("full", "ndcg@10"), ("uni100", "ndcg@10")
BAND = 0.02  # of a published row among 100 items


@cache
def results(name):
    experiment = EXPERIMENTS[name]
    return results_of(experiment, RESULTS / "reproduce" / name)


def seeds(name, key, column=FULL):
    found = values(results(name)[key], column)
    assert found, (name, key)
    return found


def mean(name, key, column=FULL):
    return statistics.mean(seeds(name, key, column))


def ahead(name, *pairs, column=FULL):
    """For each pair of rows: 1 where the first is ahead beyond what seeds make, -1 behind, 0 where neither is shown.

    By Student's t, as on the pages; p is corrected for the number of pairs.
    """
    found = [compare(EXPERIMENTS[name], results(name), one, other, column) for one, other in pairs]
    chances = holm([each.p for each in found])
    return [int(math.copysign(p < CHANCE, each.size)) for each, p in zip(found, chances, strict=True)]


def every_run_ahead(name, one, other, column=FULL):
    return min(seeds(name, one, column)) > max(seeds(name, other, column))


def off(name, key, of=None):
    """How far from what is published, of this row or, where it is another's diagnosis, of that."""
    return mean(name, key, SAMPLED) - EXPERIMENTS[name].rows[of or key].published[SAMPLED]


def test_planted():
    worlds = [key.removesuffix("-sasrec") for key in results("planted") if key.endswith("-sasrec")]
    found = ahead("planted", *((f"{world}-sasrec-bce", f"{world}-sasrec") for world in worlds))
    assert dict(zip(worlds, found, strict=True)) == dict.fromkeys(worlds, 1) | {"order-1": 0}
    assert len(worlds) == 6
    assert every_run_ahead("planted", "drift-gru4rec-bce", "drift-gru4rec")
    best = max(mean("planted", key) for key in results("planted") if key.startswith("series-"))
    assert min(mean("planted", f"series-{model}") for model in ("ease", "fism")) > 0.995 * best
    gains = {}
    for world, (_, made) in WORLDS.items():
        key = world.replace(" ", "-")
        if f"{key}-bert4rec-longer" in results("planted"):
            (longer,) = results("planted")[f"{key}-bert4rec-longer"]
            assert longer["epochs"] < 300
            gains[world] = (values([longer], FULL)[0] - seeds("planted", f"{key}-bert4rec")[0]) / optimum(made)
    assert gains.keys() == {"drift", "series"}
    assert max(gains.values()) < 0.0065
    for world in ("low-rank", "drift", "series"):
        assert every_run_ahead("planted", f"{world}-sasrec-sampled", f"{world}-sasrec")
        assert mean("planted", f"{world}-sasrec-sampled") > mean("planted", f"{world}-sasrec-bce")


def test_what_the_page_of_models_says_of_planted_truth():
    shares, nearer = [], 0
    for world, fits in FITS.items():
        found = {key: mean("planted", f"{world.replace(' ', '-')}-{key}") for key in COMPARED}
        shares += [found[key] / optimum(WORLDS[world][1]) for key in fits]
        nearer += max(found, key=found.__getitem__) not in fits
    ease, fism, sasrec = ([run["seconds"] for run in results("planted")[f"low-rank-{model}"]]
                          for model in ("ease", "fism", "sasrec-sampled"))  # fmt: skip
    assert min(sasrec) > 2 * max(*ease, *fism)                                 # "trained for longer"
    assert (math.floor(100 * min(shares)), round(100 * max(shares)), nearer) == (84, 100, 3)


def test_ablations():
    found = {key: mean("ablations", key, SAMPLED) for key in results("ablations")}
    lost = {key: found["default"] - value for key, value in found.items()}
    said = {"no-positions": 0.018, "no-residual": 0.041, "no-dropout": 0.040, "0-blocks": 0.067}
    assert {key: round(lost[key], 3) for key in said} == said
    same, lower = ("1-block", "3-blocks", "2-heads", "untied"), tuple(said)
    assert ahead("ablations", *((key, "default") for key in same + lower), column=SAMPLED) == [0] * 4 + [-1] * 4
    gains = {("long-10", "n-10"): 0.027, ("long", "default"): 0.020, ("long-200", "n-200"): 0.009,
             ("long-10-longer", "n-10"): 0.054, ("long-200", "long-200-untied"): 0.008,
             ("long-200", "long-200-no-dropout"): 0.033}  # fmt: skip
    for (one, other), gain in gains.items():
        assert found[one] - found[other] == pytest.approx(gain, abs=6e-4)
    assert all(abs(off("ablations", key)) < BAND for key in ("long", "long-200", "long-10-longer"))
    assert off("ablations", "long-10") < -BAND
    under_full = [compare(EXPERIMENTS["ablations"], results("ablations"), key, "default", FULL) for key in same + lower]
    chances = dict(zip(same + lower, holm([each.p for each in under_full]), strict=True))
    assert {key for key, p in chances.items() if p < CHANCE} == {"1-block", *lower}
    assert under_full[0].size / mean("ablations", "default") == pytest.approx(0.11, abs=0.005)
    assert round(chances["1-block"], 3) == 0.003


def test_full():
    plain = mean("full", "beauty-sampled-softmax")
    page = " ".join(DOCS.read_text().split())
    (line,) = re.findall(r"On Beauty it is behind plain SASRec with the same loss \((.*?)\)", page)
    behind = compare(EXPERIMENTS["full"], results("full"), "beauty-sampled-softmax", "beauty-esasrec", FULL)
    assert line == f"four seeds, p = {behind.p:.3f} without a correction".replace("0.", ".", 1)
    assert mean("full", "beauty-esasrec") < plain
    assert min(mean("full", f"beauty-esasrec-{mended}") for mended in ("norm", "scale")) > plain
    assert max(mean("full", f"beauty-esasrec-{other}") for other in ("dropout", "narrow")) < plain
    two, six = (mean("full", f"beauty-bert4rec{rho}") for rho in ("", "-rho"))
    assert two < six < mean("full", "beauty-markov")
    assert every_run_ahead("full", "beauty-bert4rec-rho", "beauty-bert4rec")


def test_what_the_page_of_models_says_of_full_ranking():
    for data in ("ml-1m", "beauty"):
        assert every_run_ahead("full", f"{data}-markov", f"{data}-bce")
        for loss in ("ce", "gbce", "sampled-softmax"):
            assert every_run_ahead("full", f"{data}-{loss}", f"{data}-markov")
    for model in ("gru4rec", "bert4rec"):
        assert every_run_ahead("full", f"ml-1m-{model}", "ml-1m-markov")
        assert every_run_ahead("full", "beauty-markov", f"beauty-{model}")
    means = {key: mean("full", key) for key in results("full")}
    many = {f"ml-1m-{key}" for key in ("gbce", "ce", "sampled-softmax", "esasrec", "hstu", "gbce-as-published")}
    assert {round(means[key], 2) for key in many} == {0.16, 0.17}
    others = [key for key in means if key.startswith("ml-1m") and key not in many]
    assert max(means[key] for key in others) < min(means[key] for key in many)
    assert round(means["ml-1m-bce"], 2) == 0.11
    chain, *counted = (means[f"beauty-{model}"] for model in ("markov", "markov2", "cosine", "ease", "popularity"))
    assert chain > max(counted)
    (published,) = results("full")["ml-1m-gbce-as-published"]
    popular = means["ml-1m-popularity"]
    assert max(published["valid"][:15]) < 1.3 * popular < 1.4 * popular < min(published["valid"][16:])
    assert all(run["valid"][5] > 4 * popular for run in results("full")["ml-1m-gbce"])
    assert min(seeds("full", "ml-1m-gbce")) < values([published], FULL)[0] < max(seeds("full", "ml-1m-gbce"))
    assert max((means[key], key) for key in means if key.startswith("ml-1m"))[1] == "ml-1m-esasrec"
    lead = compare(EXPERIMENTS["full"], results("full"), "ml-1m-esasrec", "ml-1m-gbce", FULL)
    assert 0.045 < lead.p < 0.055
    loss = compare(EXPERIMENTS["full"], results("full"), "beauty-esasrec", "beauty-sampled-softmax", FULL)
    assert loss.size < 0
    assert loss.p < 0.01
    others = [key for key in means if key.startswith("beauty") and key != "beauty-ce"]
    assert all(every_run_ahead("full", "beauty-ce", key) for key in others)


def test_what_the_page_of_models_says_of_games():
    pairs = [(f"games-{model}", "games-markov") for model in ("sasrec", "fism", "fossil")]
    pairs += [("games-sasrec", "games-fism"), ("games-sasrec", "games-fossil")]
    assert ahead("sampled", *pairs, column=SAMPLED) == [1] * 5
    assert ahead("sampled", *pairs[:3], column=FULL) == [-1] * 3
    shares = [mean("sampled", "games-popularity", column) / mean("sampled", "games-sasrec", column)
              for column in (SAMPLED, FULL)]  # fmt: skip
    assert [round(share, 2) for share in shares] == [0.55, 0.3]
    rises = [[round(mean("sampled", f"{data}-gru4rec-{key}", SAMPLED), 2) for key in ("plus", "uniform")]
             for data in ("ml-1m", "games")]  # fmt: skip
    assert rises == [[0.47, 0.57], [0.42, 0.53]]
    assert round(mean("sampled", "games-sasrec-longer", SAMPLED), 2) == 0.53


def test_what_the_page_of_models_says_of_a_split_by_time():
    places = {}
    both = [key for title, (_, _, key) in MODELS.items()
            if key and results("splits").get(f"beauty-time-{BY_TIME.get(title, key)}")]  # fmt: skip
    for split, of in {"last": lambda key: mean("full", f"beauty-{key}"),
                      "time": lambda key: mean("splits", f"beauty-time-{key}")}.items():  # fmt: skip
        order = sorted(both, key=of, reverse=True)
        places[split] = order.index("markov") + 1
        before = set(order[: order.index("markov")])
        assert before == {"gbce", "sampled-softmax", "ce"} | (
            {"esasrec", "ease", "bert4rec", "cosine"} if split == "time" else set()
        )
    assert (len(both), places) == (10, {"last": 4, "time": 8})
    ease = mean("splits", "beauty-time-ease")
    assert [round(mean(name, "beauty-time-ce") / ease, 2) for name in ("splits", "hstu")] == [1.06, 1.25]
    fingerprints = {run["data"]["fingerprint"] for name in ("splits", "hstu")
                    for run in results(name)["beauty-time-ce"]}  # fmt: skip
    assert len(fingerprints) == 1
    assert ahead("hstu", ("beauty-time-ce", "beauty-time-esasrec")) == [1]


def stops(name, *keys):
    """The patience and the most epochs of these rows' runs."""
    runs = [run for key in keys for run in results(name)[key]]
    return {(run["row"]["options"]["patience"], run["row"]["options"]["epochs"]) for run in runs}


def says(name, words):
    return words in " ".join(EXPERIMENTS[name].question.split())


def test_questions_say_when_runs_ended():
    def trained(name, begins, *without):
        return [key for key, runs in results(name).items() if key.startswith(begins) and key not in without
                and runs and "epochs" in runs[0]["row"]["options"]]  # fmt: skip

    published = "ml-1m-gbce-as-published"
    assert stops("full", *trained("full", "ml-1m", published)) == {(15, 200)}
    assert (stops("full", published), stops("full", *trained("full", "beauty"))) == ({(40, 200)}, {(8, 200)})
    assert says("full", "the epoch, of 200 at most, with a patience of 15, on Beauty 8; gBCE as published has 40")
    for data, limits in {"ml-1m": (15, 200), "games": (8, 100)}.items():
        variants = [f"{data}-{key}" for key in DIAGNOSES[data]]
        assert stops("sampled", *trained("sampled", data, *variants)) == {limits}
    assert says("sampled", "the epoch, of 200 at most with a patience of 15, on Games of 100 with 8")
    assert stops("splits", *trained("splits", "")) == {(10, 100)}
    assert says("splits", "the epoch, of 100 at most, with a patience of 10")
    for model, limits in {"sasrec": (10, 100), "gru4rec": (10, 300)}.items():
        assert stops("density", *(key for key in trained("density", "") if key.endswith(model))) == {limits}
    assert says("density", "with a patience of 10, SASRec's of 100 at most, GRU4Rec's of 300")
    assert [run["epochs"] for run in results("density")["newest-50-sasrec"]].count(100) == 2
    longer, patient = results("sampled")["games-sasrec-longer"] + results("sampled")["games-fpmc-patience"]
    before = json.loads((RESULTS / "games-kang205.json").read_text())["runs"]["code"]["0"]
    assert (longer["epochs"], patient["epochs"], before["epochs"]) == (100, 100, 200)


def test_sasrec_with_times_has_distances_in_the_place_of_learned_positions():
    for data in ("beauty", "ml-100k"):
        timed, plain = (results("hstu")[f"{data}-time-{key}"][0]["row"]["options"]
                        for key in ("sasrec-times", "sampled-softmax"))  # fmt: skip
        assert set(timed.items()) - set(plain.items()) == {("position", "timed"), ("buckets", 100), ("furthest", 100)}
        assert plain.items() < timed.items()
    assert says("hstu", "HSTU's biases of distances, too, in the place of learned positions")
    assert [pair for what, pair in PARTS.items() if "distances" in what] == [("sasrec-times", "sampled-softmax")]


def test_density():
    pairs = [(f"{n}-{model}", f"{n}-markov") for n in ("newest-50", "newest-5", "newest-20", "all")
             for model in ("sasrec", "gru4rec")]  # fmt: skip
    pairs += [(f"{n}-sasrec", f"{n}-gru4rec") for n in ("newest-50", "newest-20", "all")]
    assert len(pairs) == 11
    assert ahead("density", *pairs) == [1, 1] + [0] * 9
    found = [compare(EXPERIMENTS["density"], results("density"), *pair, FULL).p for pair in pairs]
    assert max(holm(found)[:2]) < 0.01
    for n in ("newest-20", "all"):
        assert every_run_ahead("density", f"{n}-sasrec", f"{n}-gru4rec")
        assert every_run_ahead("density", f"{n}-gru4rec", f"{n}-markov")
    assert every_run_ahead("density", "newest-5-markov", "newest-5-gru4rec")
    (counted,) = seeds("density", "newest-5-markov")
    assert min(seeds("density", "newest-5-sasrec")) < counted < max(seeds("density", "newest-5-sasrec"))
    assert not every_run_ahead("density", "newest-50-sasrec", "newest-50-gru4rec")
    popularity, chain = ([mean("density", f"{n}-{model}") for n in ("newest-5", "newest-20", "newest-50", "all")]
                         for model in ("popularity", "markov"))  # fmt: skip
    assert popularity[0] > popularity[1] > popularity[2]
    assert chain == sorted(chain)


def test_splits():
    last, by_time = ({key: mean("splits", f"beauty-{split}-{key}") for key in ("popularity", "markov", "cosine", "ease",
                                                                                "fpmc", "bce", "ce")}
                     for split in ("last", "time"))  # fmt: skip
    assert all(by_time[key] < last[key] for key in last)
    share = {key: 1 - by_time[key] / last[key] for key in last}
    assert max(share, key=share.__getitem__) == "markov"
    assert 0.6 < share["markov"] < 2 / 3
    assert sorted(last, key=last.__getitem__)[-2:] == ["markov", "ce"]
    assert max(by_time, key=by_time.__getitem__) == "ce"
    runs = {key: results("splits").get(f"beauty-time-{key}") for key in ALSO_BY_TIME}
    also = {key: mean("splits", f"beauty-time-{key}") for key, done in runs.items() if done}
    as_good = {"sampled-softmax", "gbce", "esasrec"}
    assert all(0.024 < score < 0.026 for score in [by_time["ce"], *(also[key] for key in as_good)])
    assert 0.0225 < by_time["ease"] < 0.0235
    assert 0.0215 < also["bert4rec"] < 0.0225
    others = [score for key, score in also.items() if key not in {"bert4rec", *as_good}]
    assert max(*others, by_time["cosine"]) < 0.0215
    assert mean("full", "beauty-esasrec") < 0.75 * mean("full", "beauty-ce")
    assert {run["epochs"] for key in ("sampled-softmax", "gbce") for run in runs[key]} == {100}
    assert by_time["markov"] < min(by_time["ease"], by_time["cosine"])
    assert by_time["ce"] / by_time["ease"] < 1.1 < last["ce"] / last["ease"]


def test_sampled():
    def of(data, model, form=""):
        return off("sampled", f"{data}-{model}{form}", f"{data}-{model}")

    for data in ("ml-1m", "games"):
        assert abs(of(data, "mf", "-short")) < abs(of(data, "mf"))
        assert of(data, "gru4rec") > BAND
        assert of(data, "gru4rec-plus") < 0
        assert off("sampled", f"{data}-gru4rec-uniform", f"{data}-gru4rec-plus") > 0
    assert abs(of("ml-1m", "fpmc", "-dropout")) < BAND < abs(of("games", "fpmc", "-patience"))
    gains = [mean("sampled", f"ml-1m-caser-{tried}", column) - mean("sampled", "ml-1m-caser", column)
             for tried in ("wide", "targets") for column in (SAMPLED, ("uni100", "hr@10"))]  # fmt: skip
    assert (round(min(gains), 3), round(max(gains), 3)) == (0.005, 0.011)
    assert all(abs(of("ml-1m", "caser", tried)) > BAND for tried in ("-wide", "-targets"))
    hit = ("uni100", "hr@10")
    above = mean("sampled", "ml-1m-gru4rec-short", hit) - EXPERIMENTS["sampled"].rows["ml-1m-gru4rec"].published[hit]
    assert abs(of("ml-1m", "gru4rec", "-short")) < BAND < above
    assert of("games", "gru4rec", "-short") > BAND
    assert abs(of("games", "caser")) < BAND < of("games", "caser", "-targets")
    assert abs(of("games", "sasrec", "-longer")) < BAND < abs(of("games", "sasrec"))


def test_what_the_page_of_models_says_of_hstu():
    for data in ("beauty", "ml-100k"):
        pairs = {what: tuple(f"{data}-time-{key}" for key in keys) for what, keys in PARTS.items()}
        found = dict(zip(pairs, ahead("hstu", *pairs.values()), strict=True))
        behind = {"HSTU beside SASRec with cross-entropy": -1} if data == "beauty" else {}
        assert found == dict.fromkeys(PARTS, 0) | behind
        if data == "beauty":
            changes = [compare(EXPERIMENTS["hstu"], results("hstu"), *pair, FULL) for pair in [*pairs.values()][:6]]
            reach = max(max(abs(change.low), abs(change.high)) for change in changes)
            assert round(reach, 3) == 0.004
            assert {round(mean("hstu", f"{data}-time-{key}"), 3) for key in ("hstu", "softmax-places")} == {0.026}
        assert all(len(seeds("hstu", key)) == 4 for keys in pairs.values() for key in keys)
    assert len(PARTS) == 10
    mine = mean("hstu", "beauty-time-hstu")
    assert mine / mean("hstu", "beauty-time-sampled-softmax") - 1 == pytest.approx(-0.04, abs=0.005)
    assert mine / mean("hstu", "beauty-time-ce") - 1 == pytest.approx(-0.1, abs=0.01)
    for data, less in (("ml-1m", -0.02), ("beauty", -0.04)):
        same_loss = f"{data}-sampled-softmax"
        assert mean("full", f"{data}-hstu") / mean("full", same_loss) - 1 == pytest.approx(less, abs=0.005)
    page = (RESULTS / "reproduce" / "full" / "README.md").read_text()
    above_hstu = re.findall(r"^\| SASRec, sampled softmax \|.* to .*\| (\S+) \|\n\| HSTU", page, flags=re.MULTILINE)
    assert [round(float(p), 2) for p in above_hstu] == [0.14, 0.25]
    hits = np.array(seeds("hstu", "ml-100k-time-ce", ("full", "hr@10"))) * 89
    np.testing.assert_allclose(hits, np.round(hits), atol=1e-3)


def test_mixers():
    recurrent = ("gru", "lstm", "rwkv", "mamba", "delta")
    mine = {(n, key): mean("mixers", f"n-{n}-{key}") for n in (50, 200) for key in ("attention", *recurrent)}
    gains = {place: value / mine[place[0], "attention"] - 1 for place, value in mine.items()}
    assert all(0.025 < gains[50, key] < 0.045 for key in ("gru", "lstm", "rwkv"))
    assert -0.015 < gains[50, "mamba"] < -0.005
    assert 0.005 < gains[50, "delta"] < 0.015
    assert sorted(round(100 * gains[200, key]) for key in recurrent) == [8, 11, 11, 14, 14]
    for key in recurrent:
        assert min(seeds("mixers", f"n-200-{key}")) > max(seeds("mixers", "n-200-attention"))
    older = {key: round(100 * (mine[200, key] / mine[50, key] - 1)) for key in ("attention", *recurrent)}
    assert older.pop("attention") == 2
    assert (min(older.values()), max(older.values())) == (9, 12)
    together = contrast([seeds("mixers", f"n-200-{key}") for key in recurrent], seeds("mixers", "n-200-attention"))
    assert str(together) == "+11.7% (+8.9% to +14.6%)"
    page = " ".join(DOCS.read_text().split())
    assert "a GRU, an LSTM, RWKV, Mamba or Gated DeltaNet where SASRec has attention" in page
    assert f"on histories of 200 items all five together rank {100 * together.size:.0f} % better than attention" in page
    pairs = [(f"n-{n}-{key}", f"n-{n}-attention") for n in (50, 200) for key in recurrent]
    assert not any(ahead("mixers", *pairs))
    gain = mean("mixers", "n-200-t5") - mine[200, "attention"]
    assert round(100 * gain / mine[200, "attention"]) == 9
    assert gain / (mine[200, "lstm"] - mine[200, "attention"]) > 0.5
    assert abs(mean("mixers", "n-200-t5") / mine[200, "mamba"] - 1) < 0.01
    assert min(mine[200, key] for key in ("lstm", "rwkv")) > mean("mixers", "n-200-t5")
    assert abs(np.ptp(seeds("mixers", "n-200-t5"))) > 0.03 * mean("mixers", "n-200-t5")
    assert mine[200, "rwkv"] > max(mine[200, "delta"], mine[200, "gru"])
    assert sum(run["epochs"] < 40 for runs in results("mixers").values() for run in runs) == 1
    assert "after at most 40 epochs, which ended all runs but one" in page
    sources, kinds = (" ".join((DOCS.parent / f"{name}.md").read_text().split()) for name in ("sources", "kinds"))
    assert "All runs but one were ended by the limit of 40 epochs." in kinds
    assert "with two seeds and at most 40 epochs, which ended all runs but one" in sources
    assert "with a bias for distances, attention has a run ahead of one of the GRU's" in sources
    far, gru = seeds("mixers", "n-200-t5"), seeds("mixers", "n-200-gru")
    assert [sum(one > other for other in gru) for one in sorted(far)] == [0, 1]
    assert mean("full", "ml-1m-ce") == pytest.approx(0.162, abs=5e-4)
    assert mine[50, "attention"] == pytest.approx(0.151, abs=5e-4)


def test_what_the_page_of_refinements_says_of_rows_added_later():
    def mine(key):
        return values(results("awrsr")[key], ("full", "ndcg@5"))

    plain = mine("beauty-sasrec-none")
    (distances,) = mine("beauty-sasrec-distances")
    assert (round(distances, 4), round(np.mean(plain), 4)) == (0.0259, 0.0257)
    backbone = mine("beauty-sasrec-none-n20")
    assert np.mean(backbone) / np.mean(plain) == pytest.approx(1.17, abs=0.005)
    for form in ("simp", "value", "add"):
        gain = contrast([mine(f"beauty-sasrec-{form}-n20")], backbone)
        assert gain.low < 0 < gain.high
