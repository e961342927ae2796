"""A GRU that looks at a memory before each step: the decoder of Bahdanau, Cho & Bengio (2015, section 3.1)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..backend import Array, get_xp
from ..ops import (
    additive_scores,
    additive_scores_backward,
    gru,
    gru_backward,
    linear,
    linear_backward,
    softmax,
    softmax_backward,
)
from .mixers.recurrent import uniform


class StepCache(NamedTuple):
    """One step, with an axis n = 1 for its token."""

    before: Array                    # (B, 1, H): the state before the step
    q: Array
    weights: Array                   # (B, 1, m)
    x: Array                         # (B, 1, D + M): the token, and the context c_t
    h: Array
    gates: Array
    recalled: Array


class AttendingGRUCache(NamedTuple):
    """What `AttendingGRU.backward` needs."""

    memory: Array
    keys: Array
    start: Array                     # (B, 1, H): the first state
    steps: list[StepCache]

    @property
    def weights(self) -> Array:
        """The alignment, (B, n, m)."""
        return get_xp(self.memory).concatenate([step.weights for step in self.steps], axis=1)


@dataclass(frozen=True)
class AttendingGRU:
    """h_t = GRU([x_t, c_t], h_{t-1}), c_t = Σ_j a_tj m_j, a_t the softmax of w · tanh(h_{t-1} W_q + m_j W_k) over j.

    The first state is tanh(m_1 W_0). Steps run one after the other: the attention of each depends on the last state.
    """

    def init(self, rng: np.random.Generator, dim: int, memory_dim: int) -> dict[str, Any]:
        """W (D + M, 3 D) and U (D, 3 D) of the GRU with b and c, W_q (D, D), W_k (M, D) and w (D,), W_0 (M, D)."""
        return {
            "W": uniform(rng, dim + memory_dim, 3 * dim), "U": uniform(rng, dim, 3 * dim),
            "b": np.zeros(3 * dim), "c": np.zeros(3 * dim),
            "Wq": uniform(rng, dim, dim), "Wk": uniform(rng, memory_dim, dim), "w": uniform(rng, dim, 1)[:, 0],
            "W0": uniform(rng, memory_dim, dim),
        }  # fmt: skip

    def start(self, p: Any, memory: Array) -> Array:
        """The first state. Shapes: memory (B, m, M) -> (B, 1, D)."""
        return get_xp(memory).tanh(linear(memory[:, :1], p["W0"]))

    def forward(
        self, p: Any, x: Array, memory: Array, lengths: Array, state: Array | None = None
    ) -> tuple[Array, Array, AttendingGRUCache]:
        """-> states h_t, contexts c_t, cache. Attention sees the first `lengths` tokens of `memory`.

        `state` is the last state of earlier tokens, or None to begin. Shapes: x (B, n, D), memory (B, m, M), lengths
        (B,), state (B, 1, D) -> h (B, n, D), seen (B, n, M).
        """
        xp, m = get_xp(x), memory.shape[1]
        real = xp.arange(m) < lengths[:, None, None]
        keys = linear(memory, p["Wk"])
        h = start = self.start(p, memory) if state is None else state
        steps = []
        for t in range(x.shape[1]):
            q = linear(h, p["Wq"])
            weights = softmax(additive_scores(q, keys, p["w"]), real)
            both = xp.concatenate([x[:, t : t + 1], weights @ memory], axis=-1)
            after, gates, recalled = gru(both, p["W"], p["U"], p["b"], p["c"], h[:, 0])
            steps.append(StepCache(h, q, weights, both, after, gates, recalled))
            h = after
        states = xp.concatenate([step.h for step in steps], axis=1)
        seen = xp.concatenate([step.x[..., x.shape[-1] :] for step in steps], axis=1)
        return states, seen, AttendingGRUCache(memory, keys, start, steps)

    def backward(
        self, p: Any, dh: Array, dseen: Array, cache: AttendingGRUCache
    ) -> tuple[Array, Array, dict[str, Any]]:
        """-> dx, dmemory, grads. The mirror of a `forward` that began without `state`, through time.

        The memory receives three gradients: as values at every step, as keys, and from the first state.
        """
        xp, (memory, keys, start, steps) = get_xp(dh), cache
        D = dh.shape[-1]
        grads = {name: xp.zeros_like(p[name]) for name in ("W", "U", "b", "c", "Wq", "w")}
        dx, dmemory, dkeys = xp.empty_like(dh), xp.zeros_like(memory), xp.zeros_like(keys)
        back = xp.zeros_like(start)
        for t in range(len(steps) - 1, -1, -1):
            before, q, weights, both, after, gates, recalled = steps[t]
            dboth, *of_gru, dbefore = gru_backward(
                dh[:, t : t + 1] + back, both, p["W"], p["U"], after, gates, recalled, before[:, 0]
            )
            dx[:, t : t + 1] = dboth[..., :D]
            dlook = dboth[..., D:] + dseen[:, t : t + 1]
            dmemory += weights.swapaxes(-1, -2) @ dlook                     # weights @ memory
            ds = softmax_backward(dlook @ memory.swapaxes(-1, -2), weights)
            dq, dk, dw = additive_scores_backward(ds, q, keys, p["w"])
            dkeys += dk
            dstate, dWq, _ = linear_backward(dq, before, p["Wq"])
            assert dbefore is not None
            back = dbefore[:, None] + dstate                                # the GRU and the query both read the state
            for name, g in zip(("W", "U", "b", "c", "Wq", "w"), (*of_gru, dWq, dw), strict=True):
                grads[name] += g
        more, grads["Wk"], _ = linear_backward(dkeys, memory, p["Wk"])
        dmemory += more
        back *= 1 - start * start                                           # tanh
        dfirst, grads["W0"], _ = linear_backward(back, memory[:, :1], p["W0"])
        dmemory[:, :1] += dfirst
        return dx, dmemory, grads
