"""The page on which model to take: its commands are those of its runs. And what two smaller pages say."""

import json
import statistics

import pytest

from benchmarks import ml_1m, models
from benchmarks.machine import RESULTS, ROOT
from tinyattn.cli import parser
from tinyattn.commands.train import model_of
from tinyattn.experiments import EXPERIMENTS
from tinyattn.experiments.running import make_model


@pytest.mark.parametrize(("one", "other"), [keys for _, *keys in models.MODELS.values()], ids=list(models.MODELS))
def test_each_command_makes_the_model_that_was_run(one, other):
    given = models.command(one, other).split()[1:]
    model, _ = model_of(parser(given).parse_args(given))
    row = EXPERIMENTS["full" if other else "sampled"].rows[f"ml-1m-{other or one}"]
    mine, theirs = model.get_params(), make_model(row, 0).get_params()
    assert mine | {"workers": 1} == theirs | {"workers": 1}


def test_what_the_page_of_movielens_says():
    result = json.loads(ml_1m.TABLE.result.read_text())
    chain, runs = result["baselines"]["Markov"], result["runs"]
    metrics = [(protocol, name) for protocol in ("full", "uni100", "pop100") for name in ("hr@10", "ndcg@10")]

    def of(key, metric):
        protocol, name = metric
        return [run[protocol][name] for run in runs[key].values()]

    for key in ("code", "paper"):
        assert max(of(key, ("full", "ndcg@10"))) < chain["full"]["ndcg@10"]
        assert min(of(key, ("uni100", "ndcg@10"))) > 1.15 * chain["uni100"]["ndcg@10"]
    hits = of("code", ("full", "hr@10"))
    assert min(hits) < chain["full"]["hr@10"] < max(hits)
    for metric in metrics:
        (alone,) = of("ce", metric)
        assert alone > max(*of("code", metric), *of("paper", metric), chain[metric[0]][metric[1]])
        assert max(of("gru4rec", metric)) < min(*of("code", metric), *of("paper", metric))
    published = [float(cell) for row in ml_1m.TABLE.published if row[0].startswith("GRU4Rec (") for cell in row[3:5]]
    for metric, theirs in zip(metrics[2:4], published, strict=True):
        assert min(of("gru4rec", metric)) > theirs + 0.15


def test_what_the_page_of_ratings_says_of_lambda():
    tried = json.loads((RESULTS / "ratings.json").read_text())["l2_time"]
    default = tried.pop("20")
    worse = {key: [found[seed] - default[seed] for seed in default] for key, found in tried.items()}
    assert all(min(differences) > 0 for differences in worse.values())
    means = [f"{statistics.mean(differences):.3f}".lstrip("0") for differences in worse.values()]
    text = " ".join((ROOT / "docs" / "ratings.md").read_text().split())
    assert list(tried) == ["0.3", "1", "4", "100"]
    assert ".3, 1, 4 and 100 are worse with each of four seeds" in text
    assert f"by a mean RMSE of {means[0]}, {means[1]}, {means[2]} and {means[3]}" in text
