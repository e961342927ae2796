"""A network as an ONNX graph: recorded, written, and held against the library before anybody gets it.

The network is run twice, on three histories and on five. Where a size is 3 in one record and 5 in the other, it is the
number of histories, and the graph asks its input for it; where anything else differs, the number of histories decides
the computation, and that is refused.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .. import __version__
from ..backend import to_numpy
from ..data import Batch
from ..models import Popularity
from ..models.neural import NeuralRecommender
from ..models.parameters import PREFIX, named
from ..random import Stream, generator
from ..tree import leaves, tree_map
from .recording import Recorded, module
from .values import Graph, Node, NoGraphError, Sizes, Value
from .weights import about

OPSET, IR = 18, 9                    # of 2022 and 2023: runtimes since then read it
ALIKE = 1e-5                         # how far scores may be from the library's, by the largest of their row
MOST_BYTES = 2**31 - 2**20           # protobuf holds less than 2 GiB
TRIALS = (3, 5)                      # histories of the two records


def onnx_graph(model: Any) -> bytes:
    """`ids` (histories, maxlen), and `users` (histories,) where they matter -> `scores` (histories, n_items + 1).

    `ids` are item numbers, 1, 2, 3, ..., oldest first, with 0 for padding on the right; the score of item i stands in
    column i. Seen items are not left out. `about` is the file's metadata.
    Raises ValueError for a model that is no network over histories, ImportError without the package onnx, NoGraphError
    for a network that cannot be had as a graph, and where the graph's scores are not the library's.
    """
    if not isinstance(model, NeuralRecommender):
        table = "; the same table serves all histories: .csv" if isinstance(model, Popularity) else ""
        raise ValueError(f"model {model.name} is no network that reads histories, and has no graph (.onnx){table}")
    model.fitted()
    onnx = _package()
    size = sum(leaf.nbytes for _, leaf in leaves(model.parameters))
    if size > MOST_BYTES:
        raise NoGraphError(f"its parameters are {size:,} bytes, and an ONNX file holds at most {MOST_BYTES:,}")
    file = Writer(onnx, model, *(_record(model, count) for count in TRIALS)).write()
    _hold(file, model)
    content: bytes = file.SerializeToString()
    return content


def _package() -> Any:
    try:
        return import_module("onnx")
    except ImportError:
        raise ImportError("writing .onnx needs the package onnx: pip install 'tinyattn[export]'") from None


def _histories(model: NeuralRecommender, count: int) -> tuple[np.ndarray, np.ndarray]:
    """ids (count, maxlen) of histories of many lengths, 1 and `maxlen` among them, and users (count,)."""
    rng, network = generator(model.seed, Stream.TRIAL, count), model.network
    lengths = np.concatenate([[model.maxlen, 1], rng.integers(1, model.maxlen + 1, size=count - 2)])
    ids = rng.integers(1, network.n_items + 1, size=(count, model.maxlen))
    ids[np.arange(model.maxlen) >= lengths[:, None]] = 0
    return ids, rng.integers(0, network.n_users + 1, size=count)


class Record:
    """What one run of the network left behind."""

    def __init__(self, graph: Graph, scores: Value) -> None:
        self.nodes, self.scores = _needed(graph.nodes, scores.name), scores


def _record(model: NeuralRecommender, count: int) -> Record:
    graph, (ids, users) = Graph(), _histories(model, count)

    def source(name: str, host: np.ndarray) -> Recorded:
        return Recorded(host, Value(graph, name, host.shape, host.dtype))

    names = iter([name for name, _ in leaves(model.parameters)])
    p = tree_map(lambda leaf: source(PREFIX + next(names), to_numpy(leaf)), model.parameters)
    given = source("ids", ids)
    lengths = module.sum(given != 0, axis=1)
    slots = module.minimum(model.maxlen - lengths[:, None] + np.arange(model.maxlen), model.maxlen - 1)
    batch = Batch(given, slots, source("users", users))
    with np.errstate(all="ignore"):
        content = model.network.score(p, batch).content
    assert isinstance(content, Value)
    return Record(graph, content)


def _needed(nodes: list[Node], wanted: str) -> list[Node]:
    """Those that the value depends on."""
    names, found = {wanted}, []
    for node in reversed(nodes):
        if node.output in names:
            names |= {x for x in node.inputs if isinstance(x, str)}
            found.append(node)
    return found[::-1]


class Writer:
    """Two records as one graph."""

    def __init__(self, onnx: Any, model: NeuralRecommender, first: Record, second: Record) -> None:
        self.onnx, self.model, self.first, self.second = onnx, model, first, second
        self.nodes: list[Any] = []
        self.constants: dict[Any, str] = {}
        self.initialisers: list[Any] = []
        self.named: set[str] = set()         # values by name that are used
        self.made: dict[Any, str] = {}       # sizes in which the number of histories stands

    def write(self) -> Any:
        """The whole file."""
        pairs = list(zip(self.first.nodes, self.second.nodes, strict=False))
        if len(self.first.nodes) != len(self.second.nodes) or any(_kind(a) != _kind(b) for a, b in pairs):
            raise NoGraphError("the computation depends on the number of histories")
        own = {a.output for a, _ in pairs}
        for a, b in pairs:
            inputs = [self.input(x, y, own) for x, y in zip(a.inputs, b.inputs, strict=True)]
            how = dict(a.attributes)
            if "to" in how:
                how["to"] = self.onnx.helper.np_dtype_to_tensor_dtype(how["to"])
            if a.operator == "Reshape":
                how["allowzero"] = 1
            self.add(a.operator, inputs, a.output, **how)
        self.add("Identity", [self.first.scores.name], "scores")
        return self.file()

    def add(self, operator: str, inputs: list[str], output: str, **how: Any) -> None:
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [output], **how))

    def input(self, a: Any, b: Any, own: set[str]) -> str:
        """The name of an input, which is a in one record and b in the other."""
        if isinstance(a, str):
            if a not in own:
                self.named.add(a)
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
        """Sizes as a vector. What differs is a multiple of the number of histories."""
        if a == b:
            return self.constant(np.array(a, dtype=np.int64))
        if (a, b) not in self.made:
            parts = [self.size(x, y) for x, y in zip(a, b, strict=True)]
            self.made[a, b] = f"sizes{len(self.made)}"
            self.add("Concat", parts, self.made[a, b], axis=0)
        return self.made[a, b]

    def size(self, a: int, b: int) -> str:
        if a == b:
            return self.constant(np.array([a]))
        times, left = divmod(a, TRIALS[0])
        if left or b != times * TRIALS[1]:
            raise NoGraphError("a size depends on the number of histories, and is no multiple of it")
        if "histories" not in self.made:
            self.named.add("ids")
            self.add("Shape", ["ids"], "histories", start=0, end=1)
            self.made["histories"] = "histories"
        if times == 1:
            return "histories"
        if times not in self.made:
            self.made[times] = f"histories_by_{times}"
            self.add("Mul", ["histories", self.constant(np.array([times]))], self.made[times])
        return self.made[times]

    def repeated(self, a: np.ndarray, b: np.ndarray) -> str:
        """A constant that is the same for every history."""
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
        given = [helper.make_tensor_value_info(n, whole, shape) for n, shape in inputs.items() if n in self.named]
        read = [(name, x) for name, x in named(model.parameters).items() if name in self.named]
        self.initialisers += [self.onnx.numpy_helper.from_array(x, name) for name, x in read]
        scores = helper.make_tensor_value_info("scores", single, ["histories", model.network.n_items + 1])
        graph = helper.make_graph(self.nodes, model.name, given, [scores], self.initialisers)
        file = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="tinyattn",
            producer_version=__version__,
        )  # fmt: skip
        helper.set_model_props(file, about(model))
        self.onnx.checker.check_model(file)
        return file


def _kind(node: Node) -> Any:
    return node.operator, len(node.inputs), node.attributes, [x if isinstance(x, str) else type(x) for x in node.inputs]


def _hold(file: Any, model: NeuralRecommender) -> None:
    """Raise NoGraphError where the graph, computed by the package onnx, gives other scores than the library."""
    graph = import_module("onnx.reference").ReferenceEvaluator(file, new_ops=[_gather_elements()])
    ids, users = _histories(model, 4)
    with np.errstate(all="ignore"):
        (found,) = graph.run(None, {n: x for n, x in (("ids", ids), ("users", users)) if n in graph.input_names})
    expected = model.score([row[row != 0] for row in ids], users)
    found, expected = found[:, 1:], expected[:, 1:]
    size = np.maximum(np.max(np.abs(expected), axis=1, keepdims=True), 1)
    off = np.max(np.abs(found - expected) / size)
    if not off <= ALIKE:
        raise NoGraphError(f"its scores would be {off:.2g} from the library's, by the largest of a row")


def _gather_elements() -> type:
    """The operator as NumPy has it; that of the package takes no more than 64 rows."""

    class GatherElements(import_module("onnx.reference.op_run").OpRun):  # type: ignore[misc]
        op_domain = ""

        def _run(self, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
            return (np.take_along_axis(data, indices, axis),)

    return GatherElements
