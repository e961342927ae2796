"""One attention over a long sequence, in one process: `python -m benchmarks.peers.long NAME FOLDER`.

A contender's constructor takes q, k, v and dout, each (1, heads, n, d) in float32. `step()` computes out and the
gradients of q, k and v under a causal mask; `gradients()` returns the four by name. The reference is in float64: full
attention under an equivalent mask, or the library's op for a mechanism without such a mask.
"""

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.peers import THREADS, child
from tinyattn import ops
from tinyattn.layers import MECHANISMS
from tinyattn.training.workers import keep_freed_memory

CAUSAL = ops.Mask(causal=True)
WINDOW = 256             # keys that a query attends to
AT_LEAST = 0.1           # seconds of a round; short steps are repeated
OPTIONS: dict[str, dict[str, Any]] = {"window": {"window": WINDOW}}      # the other mechanisms have their defaults


class Ours:
    """A mechanism of the library, called as the attention layer calls it."""

    def __init__(self, name: str, inputs: list[np.ndarray]) -> None:
        keep_freed_memory()                                         # as in training
        threadpool_limits(THREADS, "blas")
        self.q, self.k, self.v, self.dout = inputs
        self.mechanism = MECHANISMS[name](**OPTIONS.get(name, {}))
        heads, width = self.q.shape[1], self.q.shape[-1]
        self.p = self.mechanism.init(np.random.default_rng(0), heads, width)
        n, rng = self.q.shape[-2], np.random.default_rng(1)
        names = self.mechanism.init_projections(rng, 1, 1, False)
        rows = (1, heads, min(getattr(self.mechanism, "global_tokens", 0), n), width)
        self.terms = {name: rng.standard_normal(rows).astype(self.q.dtype) for name in names}

    def step(self) -> tuple[Any, ...]:
        out, cache = self.mechanism.forward(self.p, self.q, self.k, self.v, CAUSAL, self.terms, 0.0, None)
        return out, *self.mechanism.backward(self.p, self.dout, cache)[:3]

    def gradients(self) -> dict[str, np.ndarray]:
        return dict(zip(("out", "dq", "dk", "dv"), self.step(), strict=True))


class Textbook(Ours):
    """The whole matrix of weights at once, kept for the backward."""

    def __init__(self, inputs: list[np.ndarray]) -> None:
        super().__init__("full", inputs)

    def step(self) -> tuple[Any, ...]:
        mask = CAUSAL.array(self.q.shape[-2], self.k.shape[-2], like=self.q)
        out, weights = ops.attention(self.q, self.k, self.v, mask)
        return out, *ops.attention_backward(self.dout, self.q, self.k, self.v, weights)[:3]


class Tiles(Textbook):
    """Weights computed in tiles and kept for the backward, as `full` does for shorter sequences."""

    def step(self) -> tuple[Any, ...]:
        out, cache = ops.fused_attention(self.q, self.k, self.v, CAUSAL)
        return out, *ops.fused_attention_backward(self.dout, cache)


class Flash(Textbook):
    """Weights computed in tiles and again in the backward, as `full` does for longer sequences."""

    def step(self) -> tuple[Any, ...]:
        given = (self.q, self.k, self.v)
        out, L = ops.flash_attention(*given, CAUSAL)
        return out, *ops.flash_attention_backward(self.dout, *given, out, L, CAUSAL)


class Torch:
    """torch's scaled_dot_product_attention with one of its backends; `window` passes the window's mask as an array."""

    def __init__(self, backend: str, window: bool, inputs: list[np.ndarray]) -> None:
        import torch
        from torch.nn.attention import SDPBackend

        torch.set_num_threads(THREADS)
        self.torch, self.backend = torch, getattr(SDPBackend, backend)
        *given, self.dout = (torch.from_numpy(x) for x in inputs)
        self.given = [x.requires_grad_() for x in given]
        self.mask = None
        if window:
            i = torch.arange(given[0].shape[-2])
            self.mask = (i[:, None] >= i) & (i[:, None] - i < WINDOW)

    def step(self) -> tuple[Any, ...]:
        from torch.nn.attention import sdpa_kernel

        with sdpa_kernel(self.backend):
            q, k, v = self.given
            attend = self.torch.nn.functional.scaled_dot_product_attention
            out = attend(q, k, v, attn_mask=self.mask, is_causal=self.mask is None)
        return out, *self.torch.autograd.grad(out, self.given, self.dout)

    def gradients(self) -> dict[str, np.ndarray]:
        return {name: x.detach().numpy() for name, x in zip(("out", "dq", "dk", "dv"), self.step(), strict=True)}


# name: (its title on the page, its constructor, the mechanism whose results it must reproduce)
CONTENDERS: dict[str, tuple[str, Callable[[list[np.ndarray]], Any], str]] = {
    "full": ("full attention, all weights kept", Textbook, "full"),
    "tiles": ("full attention in tiles, kept (`fused_attention`)", Tiles, "full"),
    "flash": ("full attention in tiles, made again (`flash_attention`)", Flash, "full"),
} | {
    name: (f"`--mechanism {name}`", lambda inputs, name=name: Ours(name, inputs), name)
    for name in MECHANISMS
    if name != "full"
} | {
    "torch-math": ("torch, math", lambda inputs: Torch("MATH", False, inputs), "full"),
    "torch-flash": ("torch, flash", lambda inputs: Torch("FLASH_ATTENTION", False, inputs), "full"),
    "torch-window": ("torch, flash, masked", lambda inputs: Torch("FLASH_ATTENTION", True, inputs), "window"),
}  # fmt: skip


def write(folder: Path, heads: int, n: int, d: int) -> None:
    """Write the children's inputs: q, k, v, dout."""
    inputs = list(np.random.default_rng(0).standard_normal((4, 1, heads, n, d), dtype=np.float32))
    (folder / "given.pickle").write_bytes(pickle.dumps(inputs))


def reference(mechanism: str, inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The mechanism's results in float64, by full attention if a mask makes the two equivalent."""
    wide = [x.astype(np.float64) for x in inputs]
    contender = Ours(mechanism, wide)
    q, k, v, dout = wide
    heads, n = q.shape[1:3]
    mask = contender.mechanism.as_full(CAUSAL, heads, np.arange(n)[None, :, None], n)
    if mask is None:
        return contender.gradients()
    out, weights = ops.attention(q, k, v, mask.array(n, n, like=q))
    gradients = ops.attention_backward(dout, q, k, v, weights)[:3]
    return dict(zip(("out", "dq", "dk", "dv"), (out, *gradients), strict=True))


class Child(child.Child):
    """A child process (child.py) in which a step is one forward and one backward."""

    mechanism = "full"            # of the reference

    def check(self) -> dict[str, Any]:
        inputs = self._given()
        found = self.make(inputs).gradients()
        return child.compare(found, reference(self.mechanism, inputs))

    def prepare(self) -> dict[str, Any]:
        inputs = self._given()
        began = time.perf_counter()
        self.contender, self.times = self.make(inputs), 1
        self.contender.about = {}
        self.imported = child.memory("VmRSS")                       # includes the inputs, equal for all
        self.contender.step()
        self.times = max(1, round(AT_LEAST / self.run()["seconds"]))
        return {"seconds": time.perf_counter() - began}

    def run(self) -> dict[str, Any]:
        began = time.perf_counter()
        for _ in range(self.times):
            self.contender.step()
        return {"seconds": (time.perf_counter() - began) / self.times}


def load(name: str) -> Any:
    _, make, Child.mechanism = CONTENDERS[name]
    return make


if __name__ == "__main__":
    child.main(load, Child)
