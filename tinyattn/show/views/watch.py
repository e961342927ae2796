"""Watch the attention of a network: what each block's heads were given and gave, and the gradients that came back.

The network is not changed. A twin of it has a mechanism that does what the network's own does, and writes down what
goes through it; the readable forms run, so that every array is there.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...forms import readable
from ...layers import Block, MultiHead
from ...ops import Mask, as_mask, relative_values, softmax

CLOSE = 1e-4             # weights made again of queries and keys differ by at most this


@dataclass
class Layer:
    """One block's attention of one sequence. Shapes: q (h, n, d), k, v (h, m, d), weights (h, n, m)."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    allowed: np.ndarray                                  # (n, m), or (h, n, m): True = may look
    bias: np.ndarray | None                              # (h, n, m): what a position scheme adds to the scores
    weights: np.ndarray
    relative: np.ndarray | None = None                   # (2 K + 1, d): what a scheme adds to values, by distance
    gradients: list[np.ndarray] = field(default_factory=list)    # of what the heads gave, (h, n, d), an output each

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.q.shape[-1])

    def out(self, weights: np.ndarray) -> np.ndarray:
        """What the heads give for these weights, (h, n, d)."""
        out: np.ndarray = weights @ self.v
        return out if self.relative is None else out + relative_values(weights, self.relative)

    @property
    def from_scores(self) -> bool:
        """Are the weights softmax(q kᵀ / √d + bias, allowed)? Then each step from scores to weights can be shown."""
        s = self.scale * self.q @ self.k.swapaxes(-1, -2)
        made = softmax(s if self.bias is None else s + self.bias, self.allowed)
        return float(np.max(np.abs(made - self.weights), initial=0.0)) <= CLOSE


class Watched:
    """`forward(...)` and `backward(...)` of a network of equal blocks with attention, and what they let be seen."""

    def __init__(self, network: Any) -> None:
        """Raises ValueError for a network without such blocks."""
        block = getattr(network, "block", None)
        if not isinstance(block, Block) or not isinstance(block.mixer, MultiHead) or not network.stack.blocks:
            raise ValueError("it has no blocks of queries, keys and values")
        self.layers: list[Layer] = []
        self.change: Callable[[int, np.ndarray], np.ndarray] | None = None    # of the weights of a layer, (h, n, m)
        self._of: dict[int, tuple[Any, Layer]] = {}                           # id of a cache -> the cache, its layer
        self.read: np.ndarray | None = None                                   # what the first block read, (n, D)
        self.inputs: list[np.ndarray] = []                                    # its gradients, an output each
        self._mechanism = block.mixer.mechanism
        mechanism = _twin(self._mechanism, self)
        self.network = copy.copy(network)
        block = replace(block, mixer=replace(block.mixer, mechanism=mechanism))
        self.network.__dict__["block"] = _watched_block(block, self)

    def forward(self, *args: Any) -> Any:
        """Raises ValueError for a mechanism that gives something else than weights times values."""
        self.layers, self._of, self.read, self.inputs = [], {}, None, []
        with readable(True):
            return self.network.forward(*args)

    def backward(self, *args: Any) -> Any:
        self.inputs.append(np.zeros(0))
        with readable(True):
            return self.network.backward(*args)

    def given(self, q: Any, k: Any, v: Any, mask: Mask, terms: dict[str, Any], out: Any, cache: Any) -> Any:
        """-> what the heads give, changed where that is asked for. Of a batch of one sequence."""
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
                f"mechanism {self._mechanism.name} gives something else than weights times values, so gradients by its "
                "weights cannot be shown; tinyattn show without --html draws the weights"
            )
        self._of[id(cache)] = cache, layer
        self.layers.append(layer)
        return out if self.change is None else layer.out(self.change(len(self.layers) - 1, layer.weights))[None]

    def returned(self, dout: Any, cache: Any) -> None:
        self._of[id(cache)][1].gradients.append(np.array(dout[0]))


def _of_one(x: Any, axes: int, shape: tuple[int, ...]) -> np.ndarray:
    """The last `axes` axes, spread over those of `shape`, of an array whose leading axes are of the one sequence."""
    x = np.asarray(x)
    return np.array(np.broadcast_to(x[(0,) * max(0, x.ndim - axes)], shape[-axes:]))


def _watched_block(block: Block, watched: Watched) -> Block:
    """A block that says what the first of them read, and the gradient that comes out of that one last."""

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


def _twin(mechanism: Any, watched: Watched) -> Any:
    """A mechanism of the same kind and options, which says to `watched` what it is given."""
    kind = type(mechanism)

    def forward(
        self: Any, p: Any, q: Any, k: Any, v: Any, mask: Any, terms: Any, rate: float, rng: Any
    ) -> tuple[Any, Any]:
        out, cache = kind.forward(self, p, q, k, v, mask, terms, rate, rng)
        return watched.given(q, k, v, mask, terms, out, cache), cache

    def backward(self: Any, p: Any, dout: Any, cache: Any) -> Any:
        watched.returned(dout, cache)
        return kind.backward(self, p, dout, cache)

    twin: Any = object.__new__(type(kind.__name__, (kind,), {"forward": forward, "backward": backward}))
    twin.__dict__.update(mechanism.__dict__)
    return twin
