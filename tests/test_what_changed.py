"""Exact paths, Jacobians and sizes; the command that measures the rest, on small sizes; and what its page says."""

import json
import math

import numpy as np
import pytest

from benchmarks import what_changed
from benchmarks.children import check
from benchmarks.distances import beginning, distances, source
from benchmarks.peers.child import write
from benchmarks.peers.ours import reference
from benchmarks.what_changed import BEGUN, KINDS, NEAR, QUICK, Doubling, path, ways
from tests.test_decoder_step import spoiled
from tinyattn.ops import selective_scan
from tinyattn.show import save

WAYS = {way.title: way for way in ways()}
TINY = QUICK._replace(dim=4, seeds=1, steps=10, fields=(6, 20), paths=(17, 34))


@pytest.mark.parametrize(("nearest", "of_both"), [(True, 1), (False, 3)])
def test_an_operation_is_one_farther_than_what_it_reads(nearest, of_both):
    known, first = np.ones(3), np.array([True, False, False])
    with distances(nearest):
        x, far = beginning((2, 3), at=0), source((2, 3))
        assert (x + 1)[0].tolist() == [1, 1, 1]
        assert not np.isfinite((far * 2).tolist()).any()
        assert np.tanh(x.T @ far).tolist() == [[2, 2, 2]] * 3
        assert (x + np.exp(x * 2))[0, 0].tolist() == of_both
        assert np.concatenate([x, far]).sum().tolist() == 1
        y = np.zeros((2, 3))
        y[1] = x[0] * 2
        assert y.tolist() == [far[0].tolist(), [1, 1, 1]]
        assert np.where(first, x, far)[0].tolist() == [0, far[0, 0].tolist(), far[0, 0].tolist()]
        assert np.where(x > 1, far, far)[0].tolist() == [2, 2, 2]
        with pytest.raises(NotImplementedError, match="asks for a number"):
            bool(x[0, 0] > 1)
        with pytest.raises(TypeError, match="before the block began"):
            x + known


def test_a_token_more_is_so_many_operations_more():
    found = []
    for title in ("RNN", "LSTM of 1997, no forget gate", "LSTM", "GRU", "attention", "attention, token by token"):
        short, long = (path(WAYS[title], n, 4) for n in (20, 27))
        found.append(tuple((long[what] - short[what]) / 7 for what in ("shortest", "longest")))
    assert found == [(3, 3), (1, 10), (2, 10), (2, 11), (0, 0), (0, 0)]
    assert long["shortest"] == 2 + 1 + 2  # one average between two maps, each a product and a bias


@pytest.mark.parametrize("n", [1, 2, 5, 16, 33])
def test_doubling_takes_log_n_rounds_and_gives_what_the_loop_gives(n):
    rng = np.random.default_rng(n)
    x, mixer = rng.standard_normal((2, n, 3)), Doubling()
    p, one = mixer.init(rng, 3), np.ones((2, n, 1))
    expected, _ = selective_scan(x, np.ones_like(x), np.log(p["a"])[None], one, one, np.zeros(3))
    np.testing.assert_allclose(mixer.forward(p, x)[0], expected, rtol=1e-12)
    rounds = path(WAYS["y = a ⊙ y + x, by doubling"], n, 3)  # of a product and a sum
    assert 2 * math.ceil(math.log2(n)) - 2 < rounds["longest"] <= 2 * math.ceil(math.log2(n))


def test_stacks_are_as_deep_as_a_layer_is_narrow():
    assert [path(WAYS[title], 82, 4)["layers"] for title in list(WAYS)[-3:]] == [6, 41, 5]  # 81 = 15 · 5.4 = 2 · 40.5


@pytest.mark.parametrize("name", list(KINDS | NEAR))
def test_the_jacobian_is_zero_outside_of_the_field_and_nowhere_else(name):
    norms, field = what_changed.jacobian((KINDS | NEAR)[name], 40, 4, 0), {"window": 16, "convolution": 3}.get(name, 40)
    np.testing.assert_array_equal(norms != 0, np.arange(40) >= 40 - field)


def test_the_jacobian_of_a_linear_map_is_the_map():
    W = NEAR["convolution"].init(np.random.default_rng([3, 9]), 5)["W"]
    found = what_changed.jacobian(NEAR["convolution"], 9, 5, 3)[-3:]
    np.testing.assert_allclose(found, np.linalg.norm(W, axis=(1, 2)) / 5**0.5, rtol=1e-12)


def test_beginnings_change_what_they_say():
    rng = np.random.default_rng(0)
    for name, kind in BEGUN.items():
        p, begun = kind.mixer.init(np.random.default_rng(1), 8), kind.init(np.random.default_rng(1), 8)
        assert sum(not np.array_equal(p[key], begun[key]) for key in p) == 1, name
    assert BEGUN["lstm-3"].init(rng, 2)["b"].tolist() == [0, 0, 3, 3, 0, 0, 0, 0]
    np.testing.assert_allclose(np.log1p(np.exp(BEGUN["mamba-short"].init(rng, 8)["b_delta"])), 1)


def test_decoders_of_all_mixers_are_nearly_as_large():
    sizes = [what_changed.size(what_changed.network_of(name, 64)) for name in KINDS]
    assert max(sizes) - min(sizes) <= what_changed.LAYERS * (2 * what_changed.D + 1)


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize(("mixer", "who"), [("lstm", "tinyattn-1"), ("lstm", "torch-1"), ("gru", "torch-1")])
def test_contenders_train_on_the_librarys_gradients(mixer, who, tmp_path):
    if "torch" in who:
        pytest.importorskip("torch")
    network, weights, batches = what_changed.given(mixer, 8, 4, 16, tmp_path)
    write(tmp_path, network, weights, batches, reference(network, weights, batches[0]))
    assert check([who], tmp_path, "mixers")[who]["agrees"]
    spoiled(tmp_path / "reference.pickle")
    assert not check([who], tmp_path, "mixers")[who]["agrees"]


def test_the_page_says_what_was_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(what_changed, "QUICK", TINY)
    what_changed.main(["--quick", "--parts", "gradients,depth,paths,fields"])
    page = capsys.readouterr().out
    assert "| RNN | 1 | 1 | 52 | 103 | 52 | 103 |" in page
    assert "| convolution, kernel 3 | 3 | 3 (3 to 3) | 3 | 3 (3 to 3) |" in page
    assert "| neither | 1 (1 to 1) |" in page
    for name, draw in what_changed.DRAW.items():
        assert save(draw(what_changed.PARTS[name](TINY)), tmp_path / "a.png").stat().st_size


def test_what_the_page_of_kinds_says_of_the_table():
    result = json.loads(what_changed.RESULT.read_text())
    text = " ".join(what_changed.DOCS.read_text().split())
    jacobians = {name: np.median(norms, axis=0) for name, norms in result["counted"]["gradients"]["found"].items()}
    first = {name: norms[0] / norms[-1] for name, norms in jacobians.items()}
    assert first["rnn"] < first["rnn-rotation"] < 1e-12                          # more slowly
    assert first["lstm-1997"] > 1                                              # it grows
    assert max(first["lstm"], first["lstm-0"]) < 1e-8
    assert first["lstm-3"] > 0.5
    assert min(first, key=first.__getitem__) == "mamba-short"
    within_four = result["counted"]["fields"]["found"]["mamba"]["256"]["share"]["4"]
    assert within_four > 0.99
    depth = {title: {int(n): np.median(runs["tokens"]) for n, runs in found.items()}
             for title, found in result["counted"]["depth"]["found"].items()}  # fmt: skip
    assert depth["neither"][32] < 1e-4 < 1e6 < depth["residuals, no norms"][32]
    assert all(1 / 6 < depth[title][32] < 6 for title in what_changed.FORMS if "norms " in title)

    timed = next(found for cpu, found in result["timed"].items() if cpu in text)
    steps = {name: [np.median(np.divide(found["attention"]["tinyattn-1"], found[name]["tinyattn-1"]))
                    for found in timed["seconds"].values()] for name in KINDS}  # fmt: skip
    assert min(steps["rnn"]) >= 1
    gated = [1 - ratio for name in ("lstm-1997", "lstm", "gru") for ratio in steps[name]]
    assert f"LSTMs and a GRU {100 * min(gated):.0f} to {100 * max(gated):.0f} % fewer" in text
    assert steps["rwkv"][0] < 1 < steps["rwkv"][-1]
    low, high = (f"{of(steps['mamba']):.1f}".lstrip("0") for of in (min, max))
    assert f"Mamba {low} to {high} times as many" in text
