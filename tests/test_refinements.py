"""The benchmark of refinements' cost, and the page that is made of it and of the runs of the experiment."""

import pytest

from benchmarks import awrsr, refinements
from tests.experiments.test_awrsr import made_up
from tests.helpers import MACHINE


@pytest.mark.parametrize(
    ("shape", "share"),
    [((20, 128, 1), 0.017), ((50, 64, 1), 0.33), ((100, 64, 1), 1.03), ((200, 64, 1), 2.86), ((100, 64, 4), 4.1)],
)
def test_the_share_of_multiply_adds_is_what_the_page_says(shape, share):
    assert refinements.formula("sasrec", "simp", shape) == pytest.approx(share, rel=0.02)
    assert refinements.formula("stosa", "simp", shape) == pytest.approx(share / 2, rel=0.02)


def test_what_is_counted_is_the_formula_forward_and_twice_backward():
    shape = (12, 8, 2)
    found = []
    for form in ("none", "simp"):
        asked = refinements.Configuration("", None, 4, refinements.network_of("sasrec", form, shape))
        network, weights, batches = refinements.given(asked, None)
        found.append(refinements.products(network, weights, batches[0]))
    plain, simp = found
    n, _, heads = shape
    counted = (simp - plain) / (4 * heads * 3 * n**3)
    assert counted == pytest.approx(3, rel=0.05)  # less is what a host does not compute above the diagonal


def timed(times, shape=(50, 64, 1)):
    """A made-up result: each form takes so many times as long as its host."""
    forms = {
        form: {"seconds": [k, 2 * k], "peak": 1e6 * k, "products": 10, "parameters": 5} for form, k in times.items()
    }
    return {"host": "sasrec", "lengths": "full", "shape": list(shape), "forms": forms}


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [(1.05, 1.05, "replicated"), (1.05, 1.3, "replicated where n is far below d"), (1.3, 1.3, "not replicated")],
)
def test_the_verdict_on_the_cost(first, second, word):
    times = {"none": 1, "add": 1.01, "literal": 1.02, "layer": 1.7, "value": 2.6}  # value: in its causal form, ours
    short, ours, long = (timed(times | {"simp": k}, shape) for k, shape in (
        (first, (20, 128, 1)), (second, (50, 64, 1)), (second, (200, 64, 1))))  # fmt: skip
    slower = timed(times | {"literal": 1.4, "value": 2.8}) if second > 1.1 else ours
    judged = refinements.verdict({"cases": [short, ours, slower | {"lengths": "Beauty"}, long]})
    assert judged.verdict == word
    most, value = ("+40%", "+160% to +180%") if second > 1.1 else ("+5%", "+160% to +160%")
    printed, causal = "as the paper prints them +1% to", "M_value's causal form"
    assert f"n 50, d 64: {printed} {most}, {causal} {value}, a second block +70% to +70%" in judged.evidence
    longer = f"longer histories: {printed} {second - 1:+.0%}, {causal} +160%, a second block +70%"
    assert judged.evidence.endswith(longer)


def test_the_pages_say_what_the_results_say():
    case = timed({"none": 1, "simp": 1.5, "value": 2.5, "layer": 2})
    result = {"rounds": 2, "cases": [case], "machine": MACHINE}
    page = refinements.page(result)
    assert "| SASRec + M_simp, n 50, d 64, 1 head | 2250.0 | 1.50 | 1.5 | 1.50 | 0 | 1.00 | + 0.33 |" in page
    nothing = awrsr.block(made_up(lambda key: 0.0, rows=[]), result)
    assert "| the cost is negligible | **not replicated** |" in nothing
    assert "| every refinement helps | **to come** |" in nothing
    runs = len(awrsr.AWRSR.runs())
    assert f" {runs} runs of the grid are to come, about " in nothing
    everything = awrsr.block(made_up(lambda key: 0.05), result)
    assert "| every refinement helps | **replicated** |" in everything
    assert "| SASRec, other seeds beside the first | 0.0500 ±" in everything
    assert "`tinyattn reproduce awrsr " not in everything
    assert "Added after the first runs, without a verdict:" in everything
