"""The library without one or more optimizations: `python -m benchmarks.peers.rungs NAME[+NAME..] FOLDER`.

A rung is an optimization of the library. A small function for each rung takes it away: it replaces the fast code by
plain code. To add a rung, write that function above RUNGS and a line in RUNGS; if a textbook implementation lacks the
optimization, add the rung to FROM_THE_TEXTBOOK too.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers import THREADS
from benchmarks.peers.child import main
from benchmarks.peers.ours import TinyAttn
from benchmarks.peers.patch import Patch
from tinyattn.data import Batch
from tinyattn.models import SASRecNetwork
from tinyattn.ops import AttentionCache, as_mask, attention
from tinyattn.ops.shapes import _check, rows
from tinyattn.random import MaskKeys
from tinyattn.training import SLICE_TOKENS
from tinyattn.tree import Rows

AS_IT_IS = "tinyattn"  # the name of the unchanged library
TEXTBOOK = "textbook"  # the name of the first step of the ladder


def one_piece(patch: Patch) -> None:
    patch.put("data.batches.Batch.slices", lambda _: lambda batch, tokens: [batch])


def piece_a_worker(patch: Patch) -> None:
    patch.put("data.batches.Batch.slices", lambda _: lambda batch, tokens: unsorted(batch, patch.workers))


def padding_kept(patch: Patch) -> None:
    patch.put(
        "data.batches.Batch.slices", lambda _: lambda batch, tokens: unsorted(batch, -(-batch.ids.size // tokens))
    )


def unsorted(batch: Batch, pieces: int) -> list[Batch]:
    """Cut the batch into `pieces` slices without sorting its rows; all are as wide as the batch."""
    parts = np.array_split(np.arange(len(batch.ids)), min(pieces, len(batch.ids)))
    return [batch.map(lambda x, part=part: x[part]) for part in parts]


def slices_of(tokens: int, patch: Patch) -> None:
    patch.put("data.batches.Batch.slices", lambda slices: lambda batch, _: slices(batch, tokens))


def no_further_cuts(patch: Patch) -> None:
    patch.constant("data.slices.SLICE_COST", math.inf, read_by="cut")


def readable_block(patch: Patch) -> None:
    patch.put("fast.block.fused_pre_block", lambda _: lambda *given, **options: NotImplemented)


def readable_attention(patch: Patch) -> None:
    def plain(q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None) -> Any:
        out, weights = attention(q, k, v, as_mask(mask).array(q.shape[-2], k.shape[-2], like=q), scale=scale)
        return out, AttentionCache(q, k, v, scale, plain=weights)  # its backward is attention_backward

    patch.put("ops.attention.fused_attention.fused_attention", lambda _: plain)


def tiles_of(size: int, patch: Patch) -> None:
    patch.constant("ops.attention.fused_attention.TILE", size, read_by="_tiles")


def add_at_whole_table(patch: Patch) -> None:
    def sum_rows(ids: Any, values: Any, E: Any) -> Any:
        dE = np.zeros_like(E)
        np.add.at(dE, ids.reshape(-1), rows(values))
        return dE

    patch.put("ops.embedding.sum_rows", lambda _: sum_rows)


def add_at(patch: Patch) -> None:
    def sums(ids: Any, values: Any, *_: Any) -> Rows:
        found, which = np.unique(ids, return_inverse=True)
        total = np.zeros((len(found), values.shape[1]), values.dtype)
        np.add.at(total, which, values)
        return Rows(found, total)

    patch.put("ops.embedding._by_rounds", lambda _: sums)


def reduceat(patch: Patch) -> None:
    def sums(ids: Any, values: Any, *_: Any) -> Rows:
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        first = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        return Rows(ids[first], np.add.reduceat(np.take(values, order, axis=0), first, axis=0))

    patch.put("ops.embedding._by_rounds", lambda _: sums)


def positions_like_items(patch: Patch) -> None:
    tables = sys.modules["tinyattn.fast.tables"]  # another rung may replace its sum_rows
    patch.put("fast.tables.learned_backward", lambda _: lambda position, p, dy, slots: tables.sum_rows(slots, dy, p))


def indexing(patch: Patch) -> None:
    patch.put("ops.embedding.embedding", lambda _: lambda ids, E: E[ids])


def numpy_sums(patch: Patch) -> None:
    def row_sum(x: Any, weights: Any = None) -> Any:
        return np.sum(x if weights is None else x * weights, axis=-1, keepdims=True)

    patch.put("ops.shapes.row_sum", lambda _: row_sum)
    patch.put("ops.shapes.column_sum", lambda _: lambda x: np.sum(rows(x), axis=0))


def float_masks(patch: Patch) -> None:
    def keep_mask(rng: Any, shape: Any, rate: float, like: Any = None) -> Any:
        rng = rng.rng if isinstance(rng, MaskKeys) else rng
        return rng.random(shape, dtype=np.float32) >= rate

    patch.put("random.keep_mask", lambda _: keep_mask)


def dense_adam(patch: Patch) -> None:
    patch.put("training.lazy.lazy_tables", lambda _: lambda learner, rows_read: {})


def check_always(patch: Patch) -> None:
    patch.put("ops.shapes.expect", lambda _: lambda spec, **arrays: _check(spec, arrays))


def free_memory(patch: Patch) -> None:
    patch.put("training.workers.keep_freed_memory", lambda _: lambda: None)


def threads(patch: Patch) -> None:
    patch.put("training.processes.can_fork", lambda _: lambda: False)


def one_worker(patch: Patch) -> None:
    patch.workers = 1


class Rung(NamedTuple):
    """An optimization, the plain way instead of it (both as the page shows them), and the function that swaps them."""

    choice: str
    instead: str
    take_away: Callable[[Patch], None]
    only: tuple[str, ...] = ()  # the configurations that use the optimization; () is all


SLICES = f"slices of about {SLICE_TOKENS:,} tokens"
SUMS = "embedding gradients summed by rounds"
RUNGS = {
    "one-piece": Rung(SLICES, "the whole batch in one piece, so that one worker has all of it", one_piece),
    "piece-a-worker": Rung(SLICES, "half of the batch, unsorted, for each of two workers", piece_a_worker),
    **{f"slices-{n}": Rung(SLICES, f"of {n:,}", partial(slices_of, n))
       for n in (800, 1600, 3200, 4800) if n != SLICE_TOKENS},
    "padding-kept": Rung("rows sorted by length, each slice as wide as its longest",
                         "rows as they come, all slices as wide as the batch", padding_kept),
    "no-further-cuts": Rung("slices cut once more where that saves padding", "not", no_further_cuts),
    "block": Rung("norms inside products, q, k and v in one", "one after the other, as it reads",
                  readable_block),
    "attention": Rung("`fused_attention`", "`attention`, the readable one", readable_attention),
    **{f"tiles-{n}": Rung("tiles of 64 queries", f"of {n}", partial(tiles_of, n)) for n in (32, 128)},
    "add-at-whole": Rung(SUMS, "`np.add.at` into a gradient of the whole table", add_at_whole_table),
    "add-at": Rung(SUMS, "`np.add.at` into the rows that were read", add_at),
    "reduceat": Rung(SUMS, "sorted, then `np.add.reduceat`", reduceat),
    "positions": Rung("positions of equally long histories added as one", "summed like items", positions_like_items),
    "indexing": Rung("`np.take(E, ids, axis=0)`", "`E[ids]`", indexing),
    "numpy-sums": Rung("sums as products with ones", "`np.sum`", numpy_sums),
    "float-masks": Rung("dropout masks from hashes, 16 bits an entry", "`rng.random` in float32", float_masks),
    "dense-adam": Rung("lazy Adam on large tables", "Adam on all rows at every step", dense_adam, only=("B",)),
    "check-always": Rung("shapes that fitted once are known to fit", "checked at every call", check_always),
    "free-memory": Rung("freed memory is kept", "handed back to the system", free_memory),
    "threads": Rung(f"{THREADS} worker processes", f"{THREADS} threads", threads),
    "one-worker": Rung(f"{THREADS} worker processes", "one process", one_worker),
}  # fmt: skip

# The optimizations that a textbook implementation lacks, in the order in which the ladder adds them.
FROM_THE_TEXTBOOK = ("one-piece", "padding-kept", "add-at-whole", "positions", "indexing", "numpy-sums", "attention",
                     "block", "float-masks", "check-always", "dense-adam", "free-memory", "one-worker")  # fmt: skip


def ladder(configuration: str) -> dict[str, str]:
    """{rung added: contender}, from the textbook to the unchanged library; each has one optimization more."""
    left = [name for name in FROM_THE_TEXTBOOK if applies(name, configuration)]
    found = {TEXTBOOK: "+".join(name for name in left if name != "padding-kept")}  # one-piece implies it
    return found | {name: "+".join(left[i:]) or AS_IT_IS for i, name in enumerate(left, start=1)}


def applies(name: str, configuration: str) -> bool:
    """Does the configuration use this optimization?"""
    return not RUNGS[name].only or configuration in RUNGS[name].only


class Without(TinyAttn):
    """The library's training step without the optimizations `names`."""

    def __init__(self, names: list[str], network: SASRecNetwork, weights: Any, batches: list[Batch]) -> None:
        self.patch = Patch(THREADS)
        for name in names:
            RUNGS[name].take_away(self.patch)
        some = replace(network, dropout=network.dropout or 0.5)  # otherwise no masks would be drawn
        for workers in {1, self.patch.workers}:  # 1: calls in other processes are not counted
            trial = TinyAttn(some, weights, batches[:1], workers)
            trial.step(0)
            trial.close()
        self.patch.refuse_unused()
        self.patch.stop_counting()
        super().__init__(network, weights, batches, self.patch.workers)

    def close(self) -> None:
        super().close()
        self.patch.__exit__()


def load(name: str) -> Any:
    """The constructor of a contender: without a rung, without several joined by +, or the unchanged library."""
    if name == AS_IT_IS:
        return TinyAttn
    return partial(Without, name.split("+"))


if __name__ == "__main__":
    main(load)
