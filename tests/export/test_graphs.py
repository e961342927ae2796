"""Exported graphs, computed by ONNX Runtime, give the library's scores."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.export.networks import histories, untrained
from tinyattn.fast.tiles import LONG
from tinyattn.layers import BLOCK_FORMS, FEED_FORWARDS, MECHANISMS, MIXERS, NORMS, POSITIONS, REFINEMENTS
from tinyattn.models import STOSA, BERT4Rec, Caser, GRU4Rec, SASRec, preset_options
from tinyattn.models.recommenders.sasrec import PADDINGS
from tinyattn.options import options_of
from tinyattn.tree import leaves

onnx = pytest.importorskip("onnx", reason="graphs are written with the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="graphs are computed with the package onnxruntime")

from tinyattn.export import NoGraphError, export, functions, graphs, onnx_graph  # noqa: E402

TABLES = {
    "block_form": BLOCK_FORMS, "norm": NORMS, "feed_forward": FEED_FORWARDS, "position": POSITIONS,
    "mechanism": MECHANISMS, "mixer": MIXERS, "refine": REFINEMENTS, "padding": PADDINGS,
}  # fmt: skip
CASES = {f"{option} {name}": {option: name} for option, table in TABLES.items() for name in table}
CASES |= {f"refine {name} by lags": {"refine": name, "refine_lags": True}
          for name, kind in REFINEMENTS.items() if any(o.name == "refine_lags" for o in options_of(kind))}  # fmt: skip
CASES |= {
    "two heads": {"heads": 2, "kv_heads": 1, "output_projection": True, "qkv_bias": True},
    "rope with two heads": {"heads": 2, "position": "rope"},
    "another table, users, no norm": {"tied": False, "user_embedding": True, "last_norm": False},
    "no blocks": {"blocks": 0},
    "esasrec": preset_options("esasrec", "sasrec") | {"maxlen": 9, "dim": 4},
}


def agrees(model):
    """The graph's scores of seven histories, which is none of the numbers that it was made with."""
    graph = onnx_graph(model)
    session = runtime.InferenceSession(graph)
    rows, ids, users = histories(model)
    given = {"ids": ids, "users": users}
    declared = onnx.load_from_string(graph).graph.output[0].type.tensor_type.shape.dim[1].dim_value
    assert session.get_outputs()[0].shape[1] == declared == len(model.items) + 1
    (found,) = session.run(["scores"], {source.name: given[source.name] for source in session.get_inputs()})
    expected = model.score(rows, users)
    assert found.shape == expected.shape
    assert np.all(found[:, 0] == -np.inf)
    if "state" in {output.name for output in session.get_outputs()}:
        table = session.get_modelmeta().custom_metadata_map["table"]
        tables = {x.name: x for x in onnx.load_from_string(graph).graph.initializer}
        (state,) = session.run(["state"], {source.name: given[source.name] for source in session.get_inputs()})
        products = state @ onnx.numpy_helper.to_array(tables[table]).T
        scale = max(1, np.abs(found[:, 1:]).max())
        np.testing.assert_allclose(products[:, 1:], found[:, 1:], rtol=0, atol=1e-5 * scale)
    else:
        assert type(model) is STOSA                          # its scores are distances
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], rtol=0, atol=1e-5 * max(1, np.abs(expected[:, 1:]).max()))
    return session


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_sasrec_in_all_its_forms(options):
    agrees(untrained(SASRec, **options))


def test_a_model_whose_scores_are_all_zero_has_a_graph():
    """What the graph's scores are off by is held against the largest score, and here that is 0."""
    model = untrained(SASRec)
    for _, leaf in leaves(model.parameters):
        leaf[...] = 0
    agrees(model)


def test_attention_in_tiles():
    agrees(untrained(SASRec, maxlen=LONG, dim=2, blocks=2))


@pytest.mark.parametrize("kind", [GRU4Rec, Caser, BERT4Rec, STOSA])
def test_other_networks_over_histories(kind):
    agrees(untrained(kind))


def test_stosa_whose_refined_scores_are_read_by_lags():
    agrees(untrained(STOSA, refine="stoc", refine_lags=True))


def test_a_file_says_what_it_is():
    session = agrees(untrained(SASRec, blocks=1))
    said = session.get_modelmeta().custom_metadata_map
    assert said["model"] == "sasrec"
    assert json.loads(said["options"])["blocks"] == 1
    assert json.loads(said["items"])[:2] == [10, 20]


def test_places_of_two_axes_at_once_have_no_operator(monkeypatch):
    model = untrained(SASRec, blocks=1)

    def state(before, p, batch):
        at = np.arange(3)
        return before(p, batch) + before(p, batch)[at, at][:, None]

    replaced_state(monkeypatch, model, state)
    with pytest.raises(NoGraphError, match="indexes two axes with arrays at once"):
        onnx_graph(model)


def test_parameters_stand_under_their_names():
    import onnx

    file = onnx.load_from_string(onnx_graph(untrained(SASRec, blocks=1)))
    names = {x.name for x in file.graph.initializer}
    assert {"parameters.items", "parameters.blocks.0.attention.query.W"} <= names


@pytest.mark.parametrize("options", [{"position": "sinusoidal"}, {"mixer": "gru"}])
def test_older_runtimes_read_the_graph(options):
    """ONNX Runtime below 1.24 has no cosine in float64, and below 1.22 it gives nodes without a name the same one."""
    nodes = onnx.load_from_string(onnx_graph(untrained(SASRec, **options))).graph.node
    assert "Cos" not in {node.op_type for node in nodes}
    assert len({node.name for node in nodes if node.name}) == len(nodes)


def test_the_products_with_a_million_items_beside_the_rest_of_the_graph():
    graph = onnx.load_from_string(onnx_graph(untrained(SASRec, maxlen=200, dim=50, blocks=2)))
    products = [node for node in graph.graph.node if node.op_type == "MatMul"]
    shapes = {x.name: tuple(x.dims) for x in graph.graph.initializer}
    inside = dict.fromkeys(name for node in products for name in (*node.input, *node.output) if name not in shapes)
    graph.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
    session = runtime.InferenceSession(graph.SerializeToString())
    shapes |= {name: x.shape for name, x in zip(inside, session.run([*inside], {"ids": np.ones((1, 200), int)}),
                                                strict=True)}  # fmt: skip
    *rest, _ = [shapes[node.input[0]][-1] * np.prod(shapes[node.output[0]]) for node in products]   # the last: scores
    page = (Path(__file__).parents[2] / "docs" / "production.md").read_text()
    assert round(50e6 / sum(rest)) == 8
    assert "some eight times the multiply-adds of the rest of the graph" in page


def test_a_function_without_an_operator_is_named_with_its_line(monkeypatch):
    monkeypatch.delitem(functions.FUNCTIONS, "exp")
    with pytest.raises(NoGraphError, match=r"tinyattn/ops/\w+\.py:\d+ \(softmax\) calls exp, which FUNCTIONS"):
        onnx_graph(untrained(SASRec))


def replaced_state(monkeypatch, model, state):
    before = model.network.last_state
    monkeypatch.setattr(model.network, "last_state", lambda p, batch: state(before, p, batch), raising=False)


def test_what_looks_at_the_histories_is_refused(monkeypatch):
    model = untrained(SASRec)
    replaced_state(monkeypatch, model, lambda state, p, b: state(p, b) if b.ids[0, 0] > 3 else 2 * state(p, b))
    with pytest.raises(NoGraphError, match="branches on a number that is computed from the histories"):
        onnx_graph(model)


def test_what_depends_on_the_number_of_histories_is_refused(monkeypatch):
    model = untrained(SASRec)
    replaced_state(monkeypatch, model, lambda state, p, b: state(p, b) * float(len(b.ids)))
    with pytest.raises(NoGraphError, match="a constant depends on the number of histories"):
        onnx_graph(model)


def test_a_graph_that_gives_other_scores_is_refused(monkeypatch):
    model = untrained(SASRec)
    before = model.score
    monkeypatch.setattr(model, "score", lambda *given: before(*given) + 0.1)
    with pytest.raises(NoGraphError, match=r"its scores differ from the library's by"):
        onnx_graph(model)


def test_a_model_whose_scores_are_nan_has_no_graph():
    model = untrained(SASRec)
    model.parameters["norm"]["gamma"][...] = np.nan
    with pytest.raises(NoGraphError, match="nan"):
        onnx_graph(model)


@pytest.mark.parametrize(("off", "refused"), [(3e-5, True), (1.5e-5, True), (-1.5e-5, True), (5e-6, False)])
def test_scores_may_be_off_by_a_hundred_thousandth_of_the_largest_of_their_row(off, refused, monkeypatch):
    """In one row, by the size of that row; where no score is above 1, by a hundred thousandth itself."""
    model = untrained(SASRec, blocks=0)
    before = model.score

    def one_row(*given):
        scores = before(*given)
        scores[2, 5] += off * max(1, np.abs(scores[2, 1:]).max())
        return scores

    monkeypatch.setattr(model, "score", one_row)
    if refused:
        with pytest.raises(NoGraphError, match=r"its scores differ from the library's by"):
            onnx_graph(model)
    else:
        onnx_graph(model)


def test_short_histories_are_compared_with_the_library_too(monkeypatch):
    """A graph that is right for full histories alone."""
    model = untrained(SASRec)
    before = model.score

    def of_full_ones(histories, users):
        scores = before(histories, users)
        return scores + 0.1 * np.array([len(h) == 1 for h in histories])[:, None]

    monkeypatch.setattr(model, "score", of_full_ones)
    with pytest.raises(NoGraphError, match=r"its scores differ from the library's by"):
        onnx_graph(model)


def test_a_model_beyond_the_size_of_a_file_is_refused(monkeypatch):
    monkeypatch.setattr(graphs, "MOST_BYTES", 100)
    with pytest.raises(NoGraphError, match=r"its parameters are .* bytes, and an ONNX file holds at most 100"):
        onnx_graph(untrained(SASRec))


def test_trials_are_histories_of_all_lengths_with_the_first_and_the_last_item_and_users_with_nobody():
    """300 of them: what is drawn for a check may be anything that a caller may ask."""
    model = untrained(SASRec, maxlen=4, user_embedding=True)
    ids, users = graphs._histories(model, 300)
    assert ids.shape == (300, 4)
    lengths = (ids != 0).sum(axis=1)
    assert lengths[:2].tolist() == [4, 1]
    assert set(lengths[2:].tolist()) == {1, 2, 3, 4}
    assert np.all((ids != 0) == (np.arange(4) < lengths[:, None]))
    assert (ids[ids != 0].min(), ids.max()) == (1, model.network.n_items)
    assert (users.min(), users.max()) == (0, model.network.n_users)
    assert np.array_equal(ids, graphs._histories(model, 300)[0])
    assert not np.array_equal(ids, graphs._histories(untrained(SASRec, maxlen=4, seed=1), 300)[0])


def test_parameters_as_large_as_a_file_holds_are_let_through_and_larger_ones_are_not(monkeypatch):
    model = untrained(SASRec, maxlen=4)
    size = sum(x.nbytes for x in model.arrays().values())
    monkeypatch.setattr(graphs, "MOST_BYTES", size)
    onnx_graph(model)
    monkeypatch.setattr(graphs, "MOST_BYTES", size - 1)
    with pytest.raises(NoGraphError, match="an ONNX file holds at most"):
        onnx_graph(model)


def test_the_last_ending_of_a_name_says_the_form(tmp_path):
    model = untrained(SASRec, maxlen=4)
    export(model, tmp_path / "run-0.5.v2.onnx")
    assert (tmp_path / "run-0.5.v2.onnx").read_bytes() == onnx_graph(model)
