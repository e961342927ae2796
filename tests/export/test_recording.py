"""Recorded arrays write into one another as NumPy's do."""

import numpy as np
import pytest

from tinyattn.export.recording import Recorded, module
from tinyattn.export.values import Graph, Value


def array(graph, name, host):
    return Recorded(host, Value(graph, name, host.shape, host.dtype))


def parts(x):
    y = x[1]
    y += 10
    return x


def nested(x):
    part = x[1:, :2]
    part *= 2
    module.exp(part[0], out=part[0])
    return x * 1


def other_form(x):
    flat = x.reshape(-1)
    flat[2:5] = flat[2:5] + 1
    x.T[0] = 7
    return x + flat.reshape(x.shape)


def row_by_row(x):
    y = module.empty(x.shape, dtype=x.dtype)
    for t in range(len(x)):
        y[t] = x[t] if t == 0 else y[t - 1] + x[t]
    y[..., ::2] *= 3
    return y


def added_axes(x):
    y = x.copy()
    y[None, :, 1] = x[:, 0]
    y[:, None, 2:] = 1
    return y


def backwards(x):
    return x[::-1, ::-1] + x[-1, None]


def from_the_end(x):
    y = x.copy()
    y[-1] = x[0] * 2
    y[:, -1] = y[:, 0]
    y[::-2, 1:] = y[-1, 0] - x[::-2, 1:]
    return y


FORMS = [parts, nested, other_form, row_by_row, added_axes, backwards, from_the_end]


@pytest.mark.parametrize("f", FORMS, ids=lambda f: f.__name__)
def test_a_graph_computes_what_numpy_did(f):
    """With other numbers than those that it was recorded with."""
    onnx = pytest.importorskip("onnx", reason="a graph is computed with the package onnx")
    from onnx.reference import ReferenceEvaluator

    graph, rng = Graph(), np.random.default_rng(0)
    found = f(array(graph, "x", rng.normal(size=(3, 4)))).content
    constants, nodes, helper = [], [], onnx.helper
    for node in graph.nodes:
        names = []
        for x in node.inputs:
            if not isinstance(x, str):
                x = np.array(getattr(x, "numbers", x))
                constants.append(onnx.numpy_helper.from_array(x, f"c{len(constants)}"))
                x = constants[-1].name
            names.append(x)
        nodes.append(helper.make_node(node.operator, names, [node.output], **node.attributes))
    given = helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [3, 4])
    result = helper.make_tensor_value_info(found.name, onnx.TensorProto.DOUBLE, None)
    made = helper.make_graph(nodes, "f", [given], [result], constants)
    file = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)])
    other = rng.normal(size=(3, 4))
    expected = f(Recorded(other.copy())).host
    np.testing.assert_allclose(ReferenceEvaluator(file).run(None, {"x": other})[0], expected, rtol=1e-12)


def test_constants_are_worked_out():
    found = module.exp(module.arange(3)[:, None] * 2.0)
    assert found.constant
    np.testing.assert_array_equal(found.host, np.exp(np.arange(3)[:, None] * 2.0))
    assert float(found[0, 0]) == 1


def test_shapes_are_numbers_or_one_tuple_and_copies_are_values_of_their_own():
    x = array(Graph(), "x", np.arange(6.0))
    assert x.reshape(2, 3).shape == x.reshape((2, 3)).shape == (2, 3)
    assert x.reshape(-1).shape == (6,)
    constant = Recorded(np.arange(3.0), np.arange(3.0))
    copy = constant.copy()
    copy[0] = 5.0
    np.testing.assert_array_equal(constant.content, [0, 1, 2])
    np.testing.assert_array_equal(copy.content, [5, 1, 2])


@pytest.mark.parametrize(("source", "destination"), [(0, -1), (0, -2), (-1, 0), (2, 1), (1, 1)])
def test_axes_are_moved_as_numpy_moves_them(source, destination):
    host = np.arange(24.0).reshape(2, 3, 4)
    found = module.moveaxis(array(Graph(), "x", host), source, destination)
    np.testing.assert_array_equal(found.host, np.moveaxis(host, source, destination))
    assert found.content.shape == found.shape
