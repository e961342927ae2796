"""The benchmarks of docs/speed.md, without their timing: rungs, profile, and full ranking compute what they say."""

import pickle
import sys
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import ladder, ranking, roofline
from benchmarks.children import check
from benchmarks.peers import child, installed, profiling, rungs, scoring
from benchmarks.peers.ours import TinyAttn, reference
from benchmarks.peers.patch import Patch
from benchmarks.training_step import BEAUTY, Configuration, Lengths, draw
from tests.helpers import MACHINE
from tinyattn import layers, ops
from tinyattn.models import SASRecNetwork
from tinyattn.training import SLICE_TOKENS
from tinyattn.tree import tree_map

TINY = Configuration("tiny", BEAUTY, 8, SASRecNetwork(n_items=5_000, maxlen=70, dim=8, blocks=2, heads=2, dropout=0.0))
LADDER = {key: rungs.ladder(key) for key in ladder.SHOWN}


@pytest.fixture(scope="module")
def given():
    """weights, batches, and what the library gives in float64; weights are nowhere 0 or 1 by design."""
    rng = np.random.default_rng(1)
    weights = tree_map(lambda w: (w + 0.1 * rng.standard_normal(w.shape)).astype(np.float32), TINY.network.init(rng))
    batches = draw(TINY, None)
    loss, gradients = reference(TINY.network, weights, batches[0])
    return weights, batches, gradients | {"loss": np.array(loss)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*rungs.RUNGS, *LADDER["B"].values()])
def test_no_choice_changes_loss_or_gradients(name, given):
    """Nor does making it fail: what it puts in place is reached and called, or `Patch` raises."""
    weights, batches, expected = given
    contender = rungs.load(name)(TINY.network, weights, batches)
    loss, gradients = contender.gradients()
    contender.close()
    found = child.compare(gradients | {"loss": np.array(loss)}, expected)
    assert found["agrees"], found


def names():
    """Everything that a patch could reach: functions of modules and classes, and entries of tables."""
    modules = {key: m for key, m in sys.modules.items() if key.split(".")[0] == "tinyattn"}
    found = {(key, name): thing for key, m in modules.items() for name, thing in vars(m).items()}
    classes = {place: thing for place, thing in found.items() if isinstance(thing, type)}
    tables = {place: thing for place, thing in found.items() if type(thing) is dict}
    found |= {(*place, name): f for place, thing in classes.items() for name, f in vars(thing).items() if callable(f)}
    return found | {(*place, key): entry for place, table in tables.items() for key, entry in list(table.items())}


def test_afterwards_every_name_means_what_it_meant(given):
    weights, batches, _ = given
    before = names()
    contender = rungs.load(LADDER["B"][rungs.TEXTBOOK])(TINY.network, weights, batches)
    during = names()
    changed = {place for place in before if before[place] is not during.get(place)}
    assert {("tinyattn.random", "keep_mask"), ("tinyattn.layers.dropout_mask", "keep_mask")} <= changed
    contender.close()
    after = names()
    assert [place for place in before if before[place] is not after[place]] == []


def test_a_patch_that_changes_nothing_is_refused():
    with Patch(1) as patch:
        with pytest.raises(LookupError, match=r"tinyattn\.ops\.embedding\.sum_row is not there: was it renamed\?"):
            patch.put("ops.embedding.sum_row", lambda original: original)
        with pytest.raises(LookupError, match=r"there is no ops\.embeddings"):
            patch.put("ops.embeddings.sum_rows", lambda original: original)
        with pytest.raises(LookupError, match="TILE is 64 already"):
            patch.constant("ops.attention.fused_attention.TILE", 64, read_by="_tiles")
        with pytest.raises(LookupError, match="_scores does not read"):
            patch.constant("ops.attention.fused_attention.TILE", 32, read_by="_scores")
        patch.put("ops.activations.relu", lambda original: original)
        with pytest.raises(LookupError, match=r"never called: ops\.activations\.relu;"):
            patch.refuse_unused()
        layers.feed_forward.__wrapped__.__globals__["relu"](np.ones(1))  # by the name that the layer knows it by
        patch.refuse_unused()


def test_a_patch_reaches_tables_of_variants():
    before = layers.BLOCK_FORMS["pre"]
    with Patch(1) as patch:
        patch.put("layers.block.pre_block", lambda _: lambda: "another")
        assert layers.BLOCK_FORMS["pre"].forward() == "another"
        assert layers.BLOCK_FORMS["pre"].backward is before.backward
    assert layers.BLOCK_FORMS["pre"] is before


def test_the_ladder_takes_one_rung_at_a_time():
    for key, steps in LADDER.items():
        assert list(steps.values())[-1] == rungs.AS_IT_IS
        assert ("dense-adam" in steps) == (key == "B")
        without = [set(step.split("+")) for step in steps.values()]
        for more, less in pairwise(without[1:-1]):
            assert less < more
            assert len(more - less) == 1


def row(seconds, beside):
    return {"seconds": seconds, "beside": beside, "idle": 0.001, "check": {"worst": "items", "off": 1e-6}}


SAID = {"machine": MACHINE, "OPENBLAS_CORETYPE": None, "options": {"rounds": 2, "lengths": "drawn", "missing": []}}


def test_the_ladders_page_says_what_the_results_say():
    steps = LADDER["A"]
    measured = {
        steps[rungs.TEXTBOOK]: row([0.8, 1.6], [0.1, 0.2]),
        steps["one-piece"]: row([0.4, 0.4], [0.1, 0.1]),
        rungs.AS_IT_IS: row([0.1, 0.1], [0.1, 0.1]),
        "threads": row([0.3, 0.2], [0.2, 0.1]),
    }
    page = ladder.page({"A": SAID | {"title": "made up", "tokens": 12.0, "padded": 20.0, "rungs": measured}})
    assert "| a textbook's way | 800.0 |  |" in page
    assert f"| + {rungs.SLICES} | 400.0 | 2.00 |" in page
    assert "| **all of them** |  | **8.0** |" in page
    assert "| 2 worker processes | 2 threads | 1.75 (1.55 to 1.95) |" in page  # ratios are of the same round
    assert "| lazy Adam on large tables | Adam on all rows at every step | - |" in page
    assert "commit abc" in page


def test_flops_are_those_of_the_products_one_by_one():
    network = SASRecNetwork(n_items=9, maxlen=200, dim=6, blocks=2, heads=2, dropout=0.0)
    shapes = [(3, 130), (2, 5)]
    linear = attention = 0
    for rows, n in shapes:
        linear += 5 * 3 * 2 * rows * n * 6 * 6
        for tile in range(0, n, 64):
            end = min(tile + 64, n)
            attention += 6 * sum(2 * rows * end * 6 for _ in range(tile, end))
    found = roofline.flops(network, shapes)
    assert (found[roofline.LINEAR], found[roofline.SCORES]) == (2 * linear, 2 * attention)


def test_the_profile_counts_calls_and_leaves_no_function_without_a_group(given):
    weights, batches, _ = given
    profiler = profiling.Profiler(TinyAttn, None)
    profiler._given = lambda: (TINY.network, weights, batches)
    profiler.prepare()
    own, calls, _ = profiler.profile()
    profiler.contender.close()
    slices = len(batches[0].slices(SLICE_TOKENS))
    assert calls["data.batches.Batch.slices"] == calls["step"] == 1
    for name, times in (("linear", 1), ("norm_linear", 2)):
        forward, backward = f"ops.{name}.{name}", f"ops.{name}.{name}_backward"
        assert calls[forward] == calls[backward] == times * TINY.network.blocks * slices
    assert own.keys() == calls.keys()
    assert {roofline.group(name) for name in own} <= set(roofline.GROUPS.values())
    assert ops.linear.__module__ == "tinyattn.ops.linear"
    assert not hasattr(ops.linear, "__wrapped__")


def test_an_op_of_a_file_unknown_to_the_profile_is_a_group_of_its_own():
    assert roofline.group("ops.novelty.novel") == "novelty"
    assert roofline.group("ops.attention.fused_attention._exponentials") == roofline.EXP
    assert roofline.group("ops.attention.fused_attention.fused_attention_backward") == roofline.SCORES


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize("name", ranking.CONTENDERS)
def test_contenders_rank_by_the_librarys_scores(name, tmp_path):
    if ranking.CONTENDERS[name] == "torch" and not installed("torch-sdpa"):
        pytest.skip("torch is not installed")
    network = SASRecNetwork(n_items=50, maxlen=12, dim=8, blocks=2, heads=2, dropout=0.2)
    few = Lengths("none", users=40, least=2, median=9, mean=12, most=30)
    scoring.write(tmp_path, network, ranking.parameters(network), ranking.draw(network, few, None))
    found = check([name], tmp_path, "scoring")[name]
    assert found["agrees"], found
    table = pickle.loads((tmp_path / "reference.pickle").read_bytes())
    table[3, 7] += 1e-3 * np.max(np.abs(table))
    (tmp_path / "reference.pickle").write_bytes(pickle.dumps(table))
    assert not check([name], tmp_path, "scoring")[name]["agrees"]


def test_the_ranking_page_says_what_the_results_say():
    found = {"peak": 100.0, "idle": 0.0, "check": {"off": 1e-6}, "about": {"users at once": 5}}
    contenders = {
        "tinyattn": found | {"seconds": [0.1, 0.2]},
        "torch-padded": found | {"seconds": [0.7, 1.2]},
    }
    sizes = {"users": 40, "items": 50, "maxlen": 12, "dim": 8, "blocks": 2, "tokens": 400}
    page = ranking.page(SAID | sizes | {"contenders": contenders})
    assert "| torch-padded | 0.950 | 42 | 6.50 | 6.10 to 6.90 | 100 |" in page
    assert "must 3, good 6, moonshot 10. Reached: 6.50, good." in page
    large = {"users": 4, "items": 5, "rounds": 2, "machine": MACHINE}
    large["contenders"] = dict.fromkeys(ranking.LARGE, found | {"seconds": [1.0, 1.0]})
    alone = ranking.page({"large": large})
    assert "All metrics of 4 users over 5 items" in alone
    assert "torch-padded:" not in alone
