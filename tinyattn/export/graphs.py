"""A network as an ONNX graph: recorded, written, and compared with the library.

The network is run twice, on three histories and on five. A size that is a multiple of 3 in one record and the same
multiple of 5 in the other becomes that multiple of the number of histories, which the graph reads from its input; a
constant repeated for each history is expanded. Any other difference is refused.
"""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..backend import to_numpy
from ..data import Batch
from ..extras import optional
from ..models import Popularity
from ..models.neural import NeuralRecommender
from ..models.next_item import NextItemNetwork
from ..models.parameters import PREFIX, named
from ..random import Stream, generator
from ..tree import leaves, tree_map
from .recording import Recorded, module
from .values import Graph, Node, NoGraphError, Sizes, Value
from .weights import about

OPSET, IR = 18, 9                    # of 2022 and 2023: runtimes since then read them
ALIKE = 1e-5                         # tolerance of scores, relative to max(1, the row's largest absolute score)
MOST_BYTES = 2**31 - 2**20           # protobuf holds less than 2 GiB
TRIALS = (3, 5)                      # how many histories each of the two runs has


def onnx_graph(model: Any) -> bytes:
    """`ids` (histories, maxlen), and `users` (histories,) if used -> `scores` (histories, n_items + 1).

    Where scores are products with a table of parameters, there is a second output, `state` (histories, D), for an index
    of vectors: the score of item i is its product with row i of the table, whose name is the file's metadata `table`.
    `ids` are item numbers, 1, 2, 3, ..., oldest first, padded with 0 on the right; column i has the score of item i.
    Seen items are scored, too. The file's metadata are those of `weights.about`: the model, its options and ids.
    Raises ValueError for a model that is not a neural network over histories, ImportError without the package onnx,
    NoGraphError where the network cannot be recorded, or where the graph's scores differ from the library's.
    """
    if not isinstance(model, NeuralRecommender):
        table = "; its scores do not depend on the history: export it as .csv" if isinstance(model, Popularity) else ""
        refused = f"model {model.name} is not a neural network over histories, so it cannot be exported as .onnx"
        raise ValueError(refused + table)
    model.fitted()
    if model.reads_times:
        raise ValueError("the model reads times, and the inputs of an ONNX graph are ids alone: train one with "
                         "position t5, which reads places alone, or export .safetensors")  # fmt: skip
    onnx = optional("onnx", "writing .onnx needs the package onnx", "export")
    size = sum(leaf.nbytes for _, leaf in leaves(model.parameters))
    if size > MOST_BYTES:
        raise NoGraphError(f"its parameters are {size:,} bytes, and an ONNX file holds at most {MOST_BYTES:,}")
    file = Writer(onnx, model, *(_record(model, count) for count in TRIALS)).write()
    _compare(file, model)
    content: bytes = file.SerializeToString()
    return content


def _histories(model: NeuralRecommender, count: int) -> tuple[np.ndarray, np.ndarray]:
    """ids (count, maxlen) of histories of various lengths, including 1 and `maxlen`, and users (count,)."""
    rng, network = generator(model.seed, Stream.TRIAL, count), model.network
    lengths = np.concatenate([[model.maxlen, 1], rng.integers(1, model.maxlen + 1, size=count - 2)])
    ids = rng.integers(1, network.n_items + 1, size=(count, model.maxlen))
    ids[np.arange(model.maxlen) >= lengths[:, None]] = 0
    return ids, rng.integers(0, network.n_users + 1, size=count)


class Record(NamedTuple):
    """The operators of one run of the network, its scores, and the state, if scores are its products with a table."""

    nodes: list[Node]
    scores: Value
    state: Value | None


def _record(model: NeuralRecommender, count: int) -> Record:
    graph, (ids, users) = Graph(), _histories(model, count)

    def source(name: str, host: np.ndarray) -> Recorded:
        return Recorded(host, Value(graph, name, host.shape, host.dtype))

    names = iter([name for name, _ in leaves(model.parameters)])
    p = tree_map(lambda leaf: source(PREFIX + next(names), to_numpy(leaf)), model.parameters)
    items = source("ids", ids)
    lengths = module.sum(items != 0, axis=1)
    slots = module.minimum(model.maxlen - lengths[:, None] + np.arange(model.maxlen), model.maxlen - 1)
    batch = Batch(items, slots, source("users", users))
    with np.errstate(all="ignore"):
        state = model.network.last_state(p, batch)
        scores = model.network.score_items(p, state).content
    assert isinstance(scores, Value)
    needed, nodes = {scores.name}, []                    # values and operators on which the scores depend
    for node in reversed(graph.nodes):
        if node.output in needed:
            needed |= {x for x in node.inputs if isinstance(x, str)}
            nodes.append(node)
    has_table = type(model.network).as_products is NextItemNetwork.as_products       # scores are products with a table
    return Record(nodes[::-1], scores, state.content if has_table else None)


class Writer:
    """Two records as one graph."""

    def __init__(self, onnx: Any, model: NeuralRecommender, first: Record, second: Record) -> None:
        self.onnx, self.model, self.first, self.second = onnx, model, first, second
        self.nodes: list[Any] = []
        self.constants: dict[Any, str] = {}
        self.initialisers: list[Any] = []
        self.used_names: set[str] = set()         # of inputs and parameters
        self.size_names: dict[Any, str] = {}      # of sizes that depend on the number of histories

    def write(self) -> Any:
        pairs = list(zip(self.first.nodes, self.second.nodes, strict=False))
        if len(self.first.nodes) != len(self.second.nodes) or any(_kind(a) != _kind(b) for a, b in pairs):
            raise NoGraphError("the computation depends on the number of histories")
        computed = {a.output for a, _ in pairs}
        for a, b in pairs:
            inputs = [self.input(x, y, computed) for x, y in zip(a.inputs, b.inputs, strict=True)]
            how = dict(a.attributes)
            if "to" in how:
                how["to"] = self.onnx.helper.np_dtype_to_tensor_dtype(how["to"])
            if a.operator == "Reshape":
                how["allowzero"] = 1
            self.add(a.operator, inputs, a.output, **how)
        self.add("Identity", [self.first.scores.name], "scores")
        if self.first.state is not None:
            self.add("Identity", [self.first.state.name], "state")
        return self.file()

    def add(self, operator: str, inputs: list[str], output: str, **how: Any) -> None:
        """Add an operator. It has a name, as ONNX Runtime 1.21 gives all operators without one the same name."""
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], name=output, **how))

    def input(self, a: Any, b: Any, computed: set[str]) -> str:
        """The name of an input whose value is `a` in the first record and `b` in the second."""
        if isinstance(a, str):
            self.used_names |= {a} - computed
            return a
        if isinstance(a, Sizes):
            return self.sizes(a.numbers, b.numbers)
        return self.constant(a) if a.shape == b.shape and np.array_equal(a, b) else self.repeated(a, b)

    def constant(self, x: np.ndarray) -> str:
        x = np.array(x, order="C")
        key = x.dtype.str, x.shape, x.tobytes()
        if key not in self.constants:
            self.constants[key] = f"c{len(self.constants)}"
            self.initialisers.append(self.onnx.numpy_helper.from_array(x, self.constants[key]))
        return self.constants[key]

    def sizes(self, a: tuple[int, ...], b: tuple[int, ...]) -> str:
        """Sizes as a vector. Those that differ are multiples of the number of histories."""
        if a == b:
            return self.constant(np.array(a, dtype=np.int64))
        if (a, b) not in self.size_names:
            parts = [self.size(x, y) for x, y in zip(a, b, strict=True)]
            self.size_names[a, b] = f"sizes{len(self.size_names)}"
            self.add("Concat", parts, self.size_names[a, b], axis=0)
        return self.size_names[a, b]

    def size(self, a: int, b: int) -> str:
        if a == b:
            return self.constant(np.array([a]))
        times, left = divmod(a, TRIALS[0])
        if left or b != times * TRIALS[1]:
            raise NoGraphError("a size depends on the number of histories, but is not a multiple of it")
        if "histories" not in self.size_names:
            self.used_names.add("ids")
            self.add("Shape", ["ids"], "histories", start=0, end=1)
            self.size_names["histories"] = "histories"
        if times == 1:
            return "histories"
        if times not in self.size_names:
            self.size_names[times] = f"histories_by_{times}"
            self.add("Mul", ["histories", self.constant(np.array([times]))], self.size_names[times])
        return self.size_names[times]

    def repeated(self, a: np.ndarray, b: np.ndarray) -> str:
        """Store an array once that is constant along the axes whose size depends on the number of histories."""
        once = tuple(slice(0, 1) if n != m else slice(None) for n, m in zip(a.shape, b.shape, strict=True))
        if not np.array_equal(a[once], b[once]) or any(np.any(x != x[once]) for x in (a, b)):
            raise NoGraphError("a constant depends on the number of histories")
        name = f"repeated{len(self.nodes)}"
        self.add("Expand", [self.constant(a[once]), self.sizes(a.shape, b.shape)], name)
        return name

    def file(self) -> Any:
        helper, model = self.onnx.helper, self.model
        whole, single = self.onnx.TensorProto.INT64, self.onnx.TensorProto.FLOAT
        inputs = {"ids": ["histories", model.maxlen], "users": ["histories"]}
        used = [helper.make_tensor_value_info(n, whole, shape) for n, shape in inputs.items() if n in self.used_names]
        parameters = [(name, x) for name, x in named(model.parameters).items() if name in self.used_names]
        self.initialisers += [self.onnx.numpy_helper.from_array(x, name) for name, x in parameters]
        outputs = {"scores": model.network.n_items + 1}
        if self.first.state is not None:
            outputs["state"] = self.first.state.shape[1]
        made = [helper.make_tensor_value_info(name, single, ["histories", width]) for name, width in outputs.items()]
        graph = helper.make_graph(self.nodes, model.name, used, made, self.initialisers)
        file = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="tinyattn",
            producer_version=__version__,
        )  # fmt: skip
        table = {"table": f"{PREFIX}{model.network.scored}"} if self.first.state is not None else {}
        helper.set_model_props(file, about(model) | table)
        self.onnx.checker.check_model(file)
        return file


def _kind(node: Node) -> Any:
    return node.operator, len(node.inputs), node.attributes, [x if isinstance(x, str) else type(x) for x in node.inputs]


def _compare(file: Any, model: NeuralRecommender) -> None:
    """Raise NoGraphError where the graph's scores, computed by the package onnx, differ from the library's."""
    graph = import_module("onnx.reference").ReferenceEvaluator(file, new_ops=[_gather_elements()])
    ids, users = _histories(model, 4)
    with np.errstate(all="ignore"):
        scores, *_ = graph.run(None, {n: x for n, x in (("ids", ids), ("users", users)) if n in graph.input_names})
    expected = model.score([row[row != 0] for row in ids], users)[:, 1:]
    scale = np.maximum(np.max(np.abs(expected), axis=1, keepdims=True), 1)
    error = np.max(np.abs(scores[:, 1:] - expected) / scale)
    if not error <= ALIKE:
        raise NoGraphError(f"its scores differ from the library's by a relative {error:.2g} (allowed: {ALIKE:g})")


def _gather_elements() -> type:
    """GatherElements by NumPy: the package's own accepts at most 64 rows."""

    class GatherElements(import_module("onnx.reference.op_run").OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
            return (np.take_along_axis(data, indices, axis),)

    return GatherElements
