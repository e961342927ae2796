"""Every line of FUNCTIONS, computed by ONNX Runtime, gives what NumPy gives: of other numbers than those recorded."""

import numpy as np
import pytest

from tests.export.test_recording import array
from tinyattn.export.functions import FUNCTIONS
from tinyattn.export.recording import module
from tinyattn.export.values import Graph

onnx = pytest.importorskip("onnx", reason="graphs are written with the package onnx")
runtime = pytest.importorskip("onnxruntime", reason="graphs are computed with the package onnxruntime")

IDS = np.array([[2, 0], [1, 1]])
WIDE = {"x": (3, 4), "y": (3, 4)}
CALLS = {
    **{name: lambda m, x, y, name=name: getattr(m, name)(x, y) for name in (
        "add", "subtract", "multiply", "maximum", "minimum", "less", "less_equal", "greater", "greater_equal", "equal",
        "not_equal", "logaddexp")},
    **{name: lambda m, x, y, name=name: getattr(m, name)(x) for name in (
        "tanh", "sin", "cos", "abs", "sign", "floor", "negative", "expm1", "exp", "tril")},
    "divide": lambda m, x, y: m.divide(x, y * y + 1.0),
    "power": lambda m, x, y: m.power(m.abs(x), y),
    "log": lambda m, x, y: m.log(x * x + 0.1),
    "sqrt": lambda m, x, y: m.sqrt(x * x),
    "log1p": lambda m, x, y: m.log1p(x * x),
    "matmul": lambda m, x, y: m.matmul(x, y.T),
    "logical_and": lambda m, x, y: m.logical_and(x > 0, y > 0),
    "logical_or": lambda m, x, y: m.logical_or(x > 0, y > 0),
    "logical_not": lambda m, x, y: m.logical_not(x > 0),
    "where": lambda m, x, y: m.where(x > y, x, 0.5),
    "sum": lambda m, x, y: m.sum(x, axis=0) + m.sum(x),
    "sum that keeps axes": lambda m, x, y: m.sum(x, axis=(0, -1), keepdims=True),
    "sum of truths": lambda m, x, y: m.sum(x > 0, axis=1),
    "max": lambda m, x, y: m.max(x, axis=-1, keepdims=True),
    "min": lambda m, x, y: m.min(x, axis=1),
    "mean": lambda m, x, y: m.mean(x, axis=-1),
    "clip": lambda m, x, y: m.clip(x, -0.5, 0.25),
    "cumsum": lambda m, x, y: m.cumsum(x, axis=1),
    "cumsum of rows": lambda m, x, y: m.cumsum(x, axis=0),
    "einsum": lambda m, x, y: m.einsum("ij,kj->ik", x, y),
    "take": lambda m, x, y: m.take(x, IDS, axis=0),
    "take of the last axis": lambda m, x, y: m.take(x, IDS, axis=-1),
    "take of one axis and of the other": lambda m, x, y: m.sum(m.take(x, IDS, axis=0)) - m.sum(m.take(x, IDS, axis=1)),
    "take_along_axis": lambda m, x, y: m.take_along_axis(x, IDS[:, :1], axis=1) if x.shape[0] == 2 else
        m.take_along_axis(x, np.array([[2, 0], [1, 1], [3, 0]]), axis=1),
    "take_along_axis of rows": lambda m, x, y: m.take_along_axis(x, np.array([[2, 0, 1, 1]]), axis=0),
    "repeat": lambda m, x, y: m.repeat(x[:, None], 3, axis=1),
    "concatenate": lambda m, x, y: m.concatenate([x, y, x], axis=-1),
    "broadcast_to": lambda m, x, y: m.broadcast_to(x[:1], (5, 4)),
    "ascontiguousarray": lambda m, x, y: m.ascontiguousarray(x.T) * 1.0,
    "expand_dims": lambda m, x, y: m.expand_dims(x, 1) + y,
    "flip": lambda m, x, y: m.flip(x, axis=-1),
    "flip of rows": lambda m, x, y: m.flip(x, axis=-2),
    "mod": lambda m, x, y: m.mod(m.asarray(m.floor(m.abs(x) * 9)).astype(np.int64), 4),
    "floor_divide": lambda m, x, y: m.floor_divide(m.asarray(m.floor(m.abs(x) * 9)).astype(np.int64), 4),
}  # fmt: skip


def computed(f, recorded, given):
    """What ONNX Runtime makes of `given` with the graph that f left behind for `recorded`."""
    graph = Graph()
    found = f(module, *(array(graph, name, x) for name, x in recorded.items())).content
    helper, constants, nodes = onnx.helper, [], []
    for node in graph.nodes:
        names, how = [], dict(node.attributes)
        for x in node.inputs:
            if not isinstance(x, str):
                constants.append(onnx.numpy_helper.from_array(np.array(getattr(x, "numbers", x)), f"c{len(constants)}"))
                x = constants[-1].name
            names.append(x)
        if "to" in how:
            how["to"] = helper.np_dtype_to_tensor_dtype(how["to"])
        nodes.append(helper.make_node(node.operator, names, [node.output], **how))
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, x.shape) for name, x in given.items()]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(found.dtype))
    made = helper.make_graph(nodes, "f", inputs, [helper.make_tensor_value_info(found.name, kind, None)], constants)
    file = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = runtime.InferenceSession(file.SerializeToString())
    used = {x.name for x in session.get_inputs()}
    return session.run(None, {name: x for name, x in given.items() if name in used})[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_the_operator_that_gives_the_same(name):
    rng = np.random.default_rng(0)
    recorded, given = ({n: rng.standard_normal(s).astype(np.float32) for n, s in WIDE.items()} for _ in range(2))
    for x in (recorded, given):
        x["y"][0, :2] = x["x"][0, :2]                               # equal numbers
        x["x"][1, 1] = 0
    expected = CALLS[name](np, *given.values())
    found = computed(CALLS[name], recorded, given)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_every_function_is_called_above():
    assert {name.partition(" ")[0] for name in CALLS} == set(FUNCTIONS)
