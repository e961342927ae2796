"""Record the attention of a network: inputs and outputs of each block's heads, and their gradients.

The network is not changed. A copy of it has a mechanism that computes the same numbers and records its arrays. The
readable forms run, as faster forms do not compute every array.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...forms import readable
from ...layers import Block, MultiHead
from ...ops import Mask, as_mask, relative_values, softmax

CLOSE = 1e-4             # tolerance of weights that are recomputed from queries and keys


@dataclass
class Layer:
    """One block's attention in one sequence. Shapes: q (h, n, d), k, v (h, m, d), weights (h, n, m)."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    allowed: np.ndarray                                  # (n, m), or (h, n, m): True = may look
    bias: np.ndarray | None                              # (h, n, m): a position scheme adds it to the scores
    weights: np.ndarray
    relative: np.ndarray | None = None                   # (2 K + 1, d): a scheme adds it to values, by distance
    gradients: list[np.ndarray] = field(default_factory=list)    # dout (h, n, d) of each backward

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.q.shape[-1])

    def out(self, weights: np.ndarray) -> np.ndarray:
        """The output of the heads for these weights, (h, n, d)."""
        out: np.ndarray = weights @ self.v
        return out if self.relative is None else out + relative_values(weights, self.relative)

    @property
    def from_scores(self) -> bool:
        """Whether the weights are softmax(q kᵀ / √d + bias, allowed), so that the page can show the scores."""
        s = self.scale * self.q @ self.k.swapaxes(-1, -2)
        made = softmax(s if self.bias is None else s + self.bias, self.allowed)
        return float(np.max(np.abs(made - self.weights), initial=0.0)) <= CLOSE


class Watched:
    """A network of equal blocks whose `forward(...)` and `backward(...)` record their attention."""

    def __init__(self, network: Any) -> None:
        """Raises ValueError for a network without such blocks."""
        block = getattr(network, "block", None)
        if not isinstance(block, Block) or not isinstance(block.mixer, MultiHead) or not network.stack.blocks:
            raise ValueError("it has no blocks of queries, keys and values")
        self.layers: list[Layer] = []
        self.change: Callable[[int, np.ndarray], np.ndarray] | None = None    # (layer, weights) -> other weights
        self.layer_of: dict[int, tuple[Any, Layer]] = {}                      # id of a cache -> the cache, its layer
        self.read: np.ndarray | None = None                                   # the input of the first block, (n, D)
        self.inputs: list[np.ndarray] = []                                    # the input's gradient of each backward
        self._mechanism = block.mixer.mechanism
        self.network = copy.copy(network)
        block = replace(block, mixer=replace(block.mixer, mechanism=_watched_mechanism(self._mechanism, self)))
        self.network.__dict__["block"] = _watched_block(block, self)

    def forward(self, *args: Any) -> Any:
        """Raises ValueError for a mechanism whose output is not weights times values."""
        self.layers, self.layer_of, self.read, self.inputs = [], {}, None, []
        with readable(True):
            return self.network.forward(*args)

    def backward(self, *args: Any) -> Any:
        self.inputs.append(np.zeros(0))
        with readable(True):
            return self.network.backward(*args)

    def record(self, q: Any, k: Any, v: Any, mask: Mask, terms: dict[str, Any], out: Any, cache: Any) -> Any:
        """Record one attention, in a batch of one sequence. -> the heads' output, for the weights after `change`."""
        h, n, m = q.shape[-3], q.shape[-2], k.shape[-2]
        full = self._mechanism.as_full(as_mask(mask), h, np.arange(n)[None, :, None], m)
        allowed = (as_mask(mask) if full is None else full).array(n, m, like=q)
        by_head = allowed is not None and allowed.ndim > 2 and allowed.shape[-3] > 1
        bias = terms.get("bias")
        layer = Layer(
            np.array(q[0]), np.array(k[0]), np.array(v[0]),
            np.ones((n, m), dtype=bool) if allowed is None else _of_one(allowed, 2 + by_head, (h, n, m)),
            None if bias is None else _of_one(bias, 3, (h, n, m)),
            np.array(cache.weights[0]),
            terms.get("relative_values"),
        )  # fmt: skip
        if float(np.max(np.abs(layer.out(layer.weights) - out[0]), initial=0.0)) > CLOSE:
            raise ValueError(
                f"mechanism {self._mechanism.name} does not give weights times values, so gradients by its "
                "weights cannot be shown; tinyattn show without --html draws the weights"
            )
        self.layer_of[id(cache)] = cache, layer
        self.layers.append(layer)
        return out if self.change is None else layer.out(self.change(len(self.layers) - 1, layer.weights))[None]


def _of_one(x: Any, axes: int, shape: tuple[int, ...]) -> np.ndarray:
    """The array of the batch's only sequence: its last `axes` axes, broadcast to the last axes of `shape`."""
    x = np.asarray(x)
    return np.array(np.broadcast_to(x[(0,) * max(0, x.ndim - axes)], shape[-axes:]))


def _watched_block(block: Block, watched: Watched) -> Block:
    """A block that records the input of the first block, and its gradient."""

    class Seen(Block):
        def forward(self, p: Any, x: Any, **context: Any) -> tuple[Any, Any]:
            if watched.read is None:
                watched.read = np.array(x[0])
            return super().forward(p, x, **context)

        def backward(self, p: Any, dy: Any, cache: Any) -> tuple[Any, dict[str, Any]]:
            dx, grads = super().backward(p, dy, cache)
            watched.inputs[-1] = np.array(dx[0])
            return dx, grads

    seen = object.__new__(Seen)
    seen.__dict__.update({name: value for name, value in block.__dict__.items() if name != "_pairs"})
    return seen


def _watched_mechanism(mechanism: Any, watched: Watched) -> Any:
    """A mechanism of the same kind and options, which records its arrays in `watched`."""
    kind = type(mechanism)

    def forward(
        self: Any, p: Any, q: Any, k: Any, v: Any, mask: Any, terms: Any, rate: float, rng: Any
    ) -> tuple[Any, Any]:
        out, cache = kind.forward(self, p, q, k, v, mask, terms, rate, rng)
        return watched.record(q, k, v, mask, terms, out, cache), cache

    def backward(self: Any, p: Any, dout: Any, cache: Any) -> Any:
        watched.layer_of[id(cache)][1].gradients.append(np.array(dout[0]))
        return kind.backward(self, p, dout, cache)

    copied: Any = object.__new__(type(kind.__name__, (kind,), {"forward": forward, "backward": backward}))
    copied.__dict__.update(mechanism.__dict__)
    return copied
