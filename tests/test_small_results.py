"""What docs and chapters say of small benchmarks holds of the results beside them."""

import json
import re
import statistics
from functools import cache
from typing import Any

import pytest

from benchmarks.machine import RESULTS, ROOT
from benchmarks.transformers import GOALS
from tinyattn.check.zoo import ZOO
from tinyattn.evaluation.means import CHANCE, compare_means

NEW, TEN, ONE, LARGE = (
    "a new mask at every reading (RoBERTa)", "ten masks a window, in turn (BERT)", "one mask a window",
    "the same, batches of 64",
)  # fmt: skip


@cache
def result(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def says(page: str, *words: str) -> bool:
    text = " ".join((ROOT / page).read_text().split())
    return all(word in text for word in words)


def test_masks_that_are_new_and_masks_in_turn_cannot_be_told_apart():
    losses = {name: [run["loss"][name] for run in result("roberta")["runs"]] for name in (ONE, TEN, NEW, LARGE)}
    assert len(losses[NEW]) == 3
    assert statistics.mean(losses[ONE]) / statistics.mean(losses[NEW]) == pytest.approx(2, abs=0.05)
    assert all(compare_means(losses[TEN], losses[NEW], paired).p > CHANCE for paired in (True, False))
    assert min(losses[LARGE]) > max(losses[NEW])
    assert says("docs/transformers.md", "has twice the loss of a new one", "cannot be told from that")


def test_what_beit_brings_with_few_labels():
    found = {row: [run["accuracy"][row] for run in result("few_labels")["runs"]] for row in
             ("scratch, 100", "longer, 100", "beit, 100", "longer, 500", "beit, 500")}  # fmt: skip
    means = {row: round(statistics.mean(values), 2) for row, values in found.items()}
    assert (means["beit, 100"], means["scratch, 100"], means["longer, 100"]) == (0.59, 0.44, 0.44)
    assert compare_means(found["longer, 500"], found["beit, 500"]).p > CHANCE
    assert says("notebooks/20_images.py", "right in 0.59, one from", "scratch in 0.44")
    assert says("CHANGELOG.md", "calls .59 of drawn shapes right, and .44 from scratch, also in ten times as many")


def test_the_memory_of_cross_entropy_in_copies_of_the_table():
    found = result("classes")["runs"]
    (large,), (small,) = found["tiles 200000"], found["tiles 20000"]
    copies = (large["peak"] - small["peak"]) / (180_000 * 64 * 4 / 1e6)        # width 64, float32, MB
    assert round(copies) == 17
    assert says("docs/models.md", "its memory by some seventeen copies of the item table")


def test_models_that_reached_their_goal_are_those_that_docs_name():
    rows = result("transformers")["rows"]
    assert all((GOALS.get(row["model"]) or GOALS[row["metric"]]).met(row["value"]) for row in rows)
    assert list(dict.fromkeys(row["model"] for row in rows)) == [
        "transformer", "rnnsearch", "decoder", "encoder", "vit", "swin",
    ]  # fmt: skip
    assert says("docs/transformers.md", "seed the Transformer, RNNsearch, the decoder, the encoder, ViT and Swin each")


def test_a_class_is_graded_as_docs_say():
    found = result("grading")
    assert (found["people"], found["workers"], found["chapter"]) == (200, 2, 4)
    assert 60 * 4.25 < found["seconds"] < 60 * 4.75
    assert found["seconds of computing, of all processes"] / found["people"] == pytest.approx(2.6, abs=0.05)
    assert 15 < max(found["longest, in seconds"].values()) <= 16
    assert says("docs/teaching.md", "took four and a half minutes on two cores, 2.6 seconds of computing")


def test_two_bugs_at_once_are_named_as_docs_say():
    pairs = result("zoo")["naming"]["pairs"].values()
    drawn, first, both = (sum(row[key] for row in pairs) for key in ("pairs", "first named", "both named"))
    assert first / drawn > 0.95
    assert round(10 * both / drawn) == 3
    assert says("docs/check.md", "it nearly always names one of them, and both in three of ten cases")


def test_bugs_that_only_strict_refuses_are_counted_on_the_page():
    known = {(kind, bug.name) for kind, zoo in ZOO.items() for bug in zoo.BUGS if not bug.convention}
    reports = ((kind, *each) for kind, row in result("zoo")["fair"]["kinds"].items() for each in row["bugs"].items())
    found = [report for kind, name, report in reports if (kind, name) in known and report["verdict"] == "right"]
    assert all(report["conventions"] or report["not offered"] for report in found)
    assert says("docs/check.md", f"({len(found)} of them fail only with `--strict`")


def test_long_histories_or_several_heads_make_refining_slower_than_a_second_block():
    for case in result("refinements")["cases"]:
        if (case["host"], case["lengths"]) != ("sasrec", "full"):
            continue
        times = {form: statistics.median(row["seconds"]) for form, row in case["forms"].items()}
        refined = [time for form, time in times.items() if form not in ("none", "layer")]
        slower = case["shape"][0] == 200 or case["shape"] == [100, 64, 4]
        assert (min(refined) > times["layer"]) == slower, case["shape"]


def test_the_changelog_has_the_costs_of_a_check_and_of_refining():
    rows = [row for row in result("checking")["kinds"].values() if "theirs" in row]
    shares = [statistics.median(row["ours"]["seconds"]) / statistics.median(row["theirs"]["seconds"]) for row in rows]
    assert (round(min(shares), 2), round(max(shares), 2)) == (0.26, 0.51)
    assert says("CHANGELOG.md", "takes .26 to .51 of the CPU time")
    beauty = {case["host"]: case["forms"] for case in result("refinements")["cases"] if case["lengths"] == "Beauty"}
    for host, share in (("sasrec", 0.20), ("stosa", 0.13)):
        ratios = [a / b for a, b in zip(beauty[host]["simp"]["seconds"], beauty[host]["none"]["seconds"], strict=True)]
        assert statistics.median(ratios) - 1 == pytest.approx(share, abs=0.005)
    assert says("CHANGELOG.md", "M_simp adds 20 % to a step of SASRec, and 13 % to one of STOSA")


def test_chapter_11_quotes_the_larger_worlds():
    """By the page of planted truth, which tests/test_pages.py compares with its runs."""
    lines = (RESULTS / "reproduce" / "planted" / "README.md").read_text().split("\n")
    rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    worlds = next(row for row in rows if "tastes" in row)

    def share(world: str, model: str) -> int:
        cell = next(row for row in rows if row[0] == model)[worlds.index(world)]
        return round(float(re.findall(r"\(([\d.]+)%", cell)[0]))

    bce = "SASRec, BCE"
    assert (share("tastes", bce), share("tastes", "EASE"), share("the last two items", bce)) == (98, 93, 98)
    assert share("the last two items", "Markov, order 2") < 98
    assert share("the last item", "Markov, order 1") == 99 > share("the last item", "SASRec, cross-entropy")
    assert says("notebooks/11_before_sasrec.py", "SASRec is at 98 % with tastes, where EASE is at 93 %, and at 98 %",
                "does the chain stay ahead, at 99 %")  # fmt: skip


def test_chapter_15_says_how_many_seeds_the_grid_has():
    """Three of each form that the paper prints, and six of each backbone; rows that came later are no verdict's."""
    folder = RESULTS / "reproduce" / "awrsr"
    for data in ("ml-1m", "beauty"):
        for backbone, forms in {"sasrec": ("simp", "value", "add"), "stosa": ("simp", "value", "add", "stoc")}.items():
            assert len(list(folder.glob(f"{data}-{backbone}-none-seed?.json"))) == 6
            assert all(len(list(folder.glob(f"{data}-{backbone}-{form}-seed?.json"))) == 3 for form in forms)
    assert says("notebooks/15_attention_to_attention.py", "with three seeds each and three *other* seeds of",
                "before the first run; rows added later have no verdict")  # fmt: skip
    assert says("tinyattn/experiments/awrsr/grid.py", "**Added after the first runs**, without a verdict")


def test_chapter_13_quotes_movielens():
    found = result("ml-1m")
    seeds, chain = found["runs"]["code"].values(), found["baselines"]["Markov"]
    for protocol, sasrec, markov in (("uni100", 0.79, 0.64), ("full", 0.21, 0.21)):
        assert round(statistics.mean(seed[protocol]["hr@10"] for seed in seeds), 2) == sasrec
        assert round(chain[protocol]["hr@10"], 2) == markov
    assert says("notebooks/13_not_to_fool_yourself.py", "has .64 among 100, .21 among all", "equal to two digits by")
