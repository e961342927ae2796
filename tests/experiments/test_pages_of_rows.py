"""Pictures of experiments hold the numbers of their runs, each at its row; and what committed pages do not show."""

import re
import statistics

import pytest

from tests.helpers import MACHINE
from tinyattn.data import leave_one_out
from tinyattn.data.worlds import TasteWorld
from tinyattn.evaluation import evaluate
from tinyattn.experiments import EXPERIMENTS, planted
from tinyattn.experiments.pictures import Dot

PROTOCOLS = ("full", "uni100", "trained", "twice", "longest")
METRICS = ("hr@10", "ndcg@10", "accuracy")


def numbered(experiment):
    """Two runs of every row: no number is that of another row, protocol, metric or seed."""
    found = {}
    for i, key in enumerate(experiment.rows):
        found[key] = [
            {"metrics": {p: {m: i / 1000 + j / 10_000 + k / 100_000 + seed / 1_000_000 for k, m in enumerate(METRICS)}
                         for j, p in enumerate(PROTOCOLS)},
             "epoch_seconds": 10.0 * i + (1, 5)[seed], "epochs": 2, "seconds": 9.0, "ranks": "AB", "machine": MACHINE,
             "row": {"seed": seed}}
            for seed in range(2)
        ]  # fmt: skip
    return found


def seeds(results, key, protocol, metric):
    return [run["metrics"][protocol][metric] for run in results[key]]


def mean(results, key, protocol, metric):
    return pytest.approx(statistics.mean(seeds(results, key, protocol, metric)))


@pytest.mark.parametrize(
    ("name", "protocol", "of"),
    [
        ("full", "full", {"MovieLens 1M": "ml-1m-", "Amazon Beauty, 5-core": "beauty-"}),
        ("sampled", "uni100", {"MovieLens 1M": "ml-1m-", "Amazon Games": "games-"}),
        ("splits", "full", {"MovieLens 100K, leave-one-out": "ml-100k-last-", "MovieLens 100K, time": "ml-100k-time-",
                            "Amazon Beauty, leave-one-out": "beauty-last-", "Amazon Beauty, time": "beauty-time-"}),
        ("mixers", "full", {"n 50": "n-50-", "n 200": "n-200-"}),
    ],
)  # fmt: skip
def test_dots_of_every_panel_are_the_ndcg_of_its_rows(name, protocol, of):
    experiment = EXPERIMENTS[name]
    results = numbered(experiment)
    (picture,) = experiment.shown(results).values()
    assert picture.x.endswith("NDCG@10")
    assert list(picture.panels) == list(of)
    for panel, begins in of.items():
        keys = {row.title: key for key, row in experiment.rows.items() if key.startswith(begins)}
        assert picture.panels[panel]
        for title, dot in picture.panels[panel].items():
            assert dot == Dot(seeds(results, keys[title], protocol, "ndcg@10"),
                              experiment.rows[keys[title]].published.get((protocol, "ndcg@10")))  # fmt: skip


def test_of_ablations_parts_are_dots_and_lengths_curves():
    experiment = EXPERIMENTS["ablations"]
    results = numbered(experiment)
    shown = experiment.shown(results)
    parts = shown["parts"].panels["MovieLens 1M"]
    assert parts["no positions"] == Dot(seeds(results, "no-positions", "uni100", "ndcg@10"), 0.5772)
    assert len(parts) == 9
    lines = shown["lengths"].panels["MovieLens 1M"]
    keys = ("n-10", "n-20", "default", "n-100", "n-200")
    assert lines["ours"] == ([10, 20, 50, 100, 200], [mean(results, key, "uni100", "ndcg@10") for key in keys])
    assert lines["published"] == ([10, 50, 100, 200], [0.480, 0.557, 0.571, 0.587])


def test_of_density_the_curves_go_by_how_much_is_kept():
    experiment = EXPERIMENTS["density"]
    results = numbered(experiment)
    (lines,) = experiment.shown(results)["density"].panels.values()
    for title, key in (("popularity", "popularity"), ("SASRec, cross-entropy", "sasrec")):
        keys = [f"newest-5-{key}", f"newest-20-{key}", f"newest-50-{key}", f"all-{key}"]
        assert lines[title] == ([5, 20, 50, 163], [mean(results, each, "full", "ndcg@10") for each in keys])
    assert len(lines) == 4


def test_of_kinds_the_curves_go_by_length_a_panel_a_task():
    experiment = EXPERIMENTS["kinds"]
    results = numbered(experiment)
    panels = experiment.shown(results)["lengths"].panels
    for data, task in (("recall-2", "recall, 2 pairs"), ("balance", "balance")):
        expected = [mean(results, f"{data}-lstm", p, "accuracy") for p in ("trained", "twice", "longest")]
        assert panels[task]["LSTM"] == ([32, 64, 256], expected)
    assert {len(lines) for lines in panels.values()} == {14}


def test_of_speed_seconds_are_medians_over_rounds():
    """A round is a seed; a ratio is one of the same round; a run that went on elsewhere has no seconds."""
    experiment = EXPERIMENTS["speed"]
    results = {key: [] for key in experiment.rows}

    def timed(*each):
        said = {"epochs": 3, "machine": MACHINE}
        return [said | {"row": {"seed": seed}, "epoch_seconds": x} for seed, x in enumerate(each)]

    results["sasrec"] = timed(2.0, 4.0, 8.0, None)
    results["caser"] = timed(20.0, 8.0, 8.0, 5.0)[::-1]
    results["n-200"] = timed(6.0, 8.0)
    page = experiment.page(experiment, results)
    assert "| SASRec | 4.00 | 1.00 | 3 |" in page
    assert "| Caser | 8.00 | 2.00 | 3 |" in page
    assert "| GRU4Rec, basic form |  |  | to come |" in page
    assert re.search(r"\| n 50 \| 4.00 \| 1.00 \| 3 \|\n\| n 200 \| 7.00 \| 2.50 \| 2 \|\n", page)
    assert experiment.shown(results)["lengths"].panels == {"SASRec": {"SASRec": ([50, 200], [4.0, 7.0])}}


# ---- planted truth, whose page takes long to make of the committed runs


PLANTED = EXPERIMENTS["planted"]


def planted_runs(value):
    """Runs of all rows whose NDCG@10 is `value(key)`, a little more or less by seed."""
    return {key: [{"metrics": {"full": {"ndcg@10": value(key) + by}}, "machine": MACHINE, "epochs": 1,
                   "epoch_seconds": 1.0} for by in ((-0.01, 0.01) if row.seeds is None else (0.0,))]
            for key, row in PLANTED.rows.items()}  # fmt: skip


def test_the_page_of_planted_truth_has_shares_of_the_best_and_names_who_is_behind(monkeypatch):
    best = {name: 0.5 + 0.01 * i for i, name in enumerate((*planted.WORLDS, *planted.MORE_WORLDS))}
    worlds = {id(data.world): best[name] for name, data in PLANTED.datasets.items()}
    monkeypatch.setattr(planted, "optimum", lambda world: worlds[id(world)])
    results = planted_runs(lambda key: {"order-1-markov": 0.48, "order-1-fpmc": 0.46}.get(key, 0.4704))
    page = PLANTED.page(PLANTED, results)
    titles = "no structure | tastes | tastes that drift | the last item | the last two items | series under way"
    assert f"| | {titles} |" in page
    assert "| *the best there is* | *0.5000* | *0.5100* | *0.5200* | *0.5300* | *0.5400* | *0.5500* |" in page
    (markov,) = re.findall(r"\| Markov, order 1 \| .*\|\n(?=\| Markov, order 2)", page)
    cells = markov.split(" | ")
    assert cells[1] == "0.4704 (94.1% ± 2.8%)"
    assert cells[4] == "**0.4800 (90.6% ± 2.7%)**"  # where its assumption holds
    assert "| FPMC | 0.4704 (94.1% ± 2.8%) | " in page
    behind = "In bold, and more than 3% behind the model that is best in their world: in the last item FPMC (4%)."
    assert behind in page
    assert "| Markov, order 1 | the last item, 12,000 people | 0.4704 (81.1%) | *0.5800* |" in page
    ahead = PLANTED.page(PLANTED, planted_runs(lambda key: {"iid-narm": 0.5}.get(key, 0.47)))
    assert "best in their world: in no structure popularity (6%)." in ahead  # behind a model that is not in bold
    fine = PLANTED.page(PLANTED, planted_runs(lambda key: 0.47))
    assert "best in their world: none." in fine
    results["series-narm"] = []
    assert "behind the model that is best" not in PLANTED.page(PLANTED, results)
    panels = PLANTED.shown(results)["planted"].panels
    assert PLANTED.shown(results)["planted"].other == "the best there is"
    assert panels["the last item"]["Markov, order 1"] == Dot([0.47, 0.49], 0.53)
    assert "NARM, cross-entropy" not in panels["series under way"]
    assert list(panels) == [title for title, _ in planted.WORLDS.values()]


def test_the_best_there_is_ranks_by_the_truth():
    world = TasteWorld(users=30, items=20, tastes=2, shortest=4, longest=6)
    split = leave_one_out(world.generate())
    by_truth = evaluate(lambda histories, users: world.next_item(histories), split, truth=world.next_item)
    assert planted.optimum(world) == pytest.approx(by_truth["full"]["ndcg@10"])
    worse = evaluate(lambda histories, users: -world.next_item(histories), split, truth=world.next_item)
    assert planted.optimum(world) > worse["full"]["ndcg@10"]
