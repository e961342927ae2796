"""Scans of long sequences: chunks in parallel, compared with a loop over time in NumPy and in PyTorch eager.

    python benchmarks/scans.py [--rounds 9]

Times the forward and backward of RWKV's `wkv`, of Mamba's `selective_scan`, and of each form of `associative_scan`, on
one sequence of 4,096 tokens in float32 with one thread. `associative_scan` is compared with its sequential form. The
others are compared with plain loops, which take one token at a time and keep the states that the backward needs;
PyTorch runs the same forward loop, and autograd differentiates it. All must first give the library's results in
float64. Contenders take turns in one process. Writes benchmarks/results/scans.json, which has one entry for each make
of CPU that was measured, and scans.md.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.machine import RESULTS, clean_environment, describe, made_on, write_pages, write_result
from tinyattn import ops
from tinyattn.training.workers import keep_freed_memory

RESULT, PAGE = RESULTS / "scans.json", RESULTS / "scans.md"
N, D, STATE = 4096, 64, 16
FORMS = ("chunked", "doubling", "tree")                  # of `associative_scan`
GOAL = 5                                                 # times as fast as NumPy's loop
TRIED = """
What was also tried to make `selective_scan` faster, and failed: chunks and pieces of other sizes; axes in another
order (N before chunks), by which exp(Δ A) and the sums of the backward cost less and the outer products more; products
that broadcast, or that BLAS makes one by one, in place of `einsum`; exp(Δ A) computed once more in the backward, in
place of keeping it.
"""
Arrays = dict[str, np.ndarray]


def drawn(dtype: type) -> dict[str, Arrays]:
    rng = np.random.default_rng(0)
    x, dy, k, v, u = (rng.standard_normal((N, D)) for _ in range(5))
    B, C = (rng.standard_normal((N, STATE)) for _ in range(2))
    delta = np.log1p(np.exp(rng.standard_normal((N, D)) - 3))
    A = -np.arange(1.0, STATE + 1)[:, None] * np.ones(D)
    scan = {"dy": dy, "x": x, "delta": delta, "A": A, "B": B, "C": C, "D": np.ones(D)}
    mean = {"dy": dy, "k": k, "v": v, "w": np.exp(rng.standard_normal(D) - 1), "u": u[0]}
    first_order = {"dy": dy, "a": np.exp(-delta), "b": x}
    each = {"selective_scan": scan, "wkv": mean} | {f"associative_scan, {form}": first_order for form in FORMS}
    return {name: {key: np.asarray(a, dtype) for key, a in given.items()} for name, given in each.items()}


def library(op: str) -> Callable[..., Any]:
    forward, backward = getattr(ops, op), getattr(ops, f"{op}_backward")

    def run(dy: np.ndarray, **given: np.ndarray) -> list[np.ndarray]:
        y, *saved = forward(**given)
        return [y, *(g for g in backward(dy, *given.values(), *saved) if g is not None)]

    return run


def associative(form: str) -> Callable[..., Any]:
    def run(dy: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
        h = ops.associative_scan(a, b, form=form)
        return [h, *ops.associative_scan_backward(dy, a, h, form=form)[:2]]

    return run


def scan_loop(
    dy: np.ndarray, x: np.ndarray, delta: np.ndarray, A: np.ndarray, B: np.ndarray, C: np.ndarray, D: np.ndarray
) -> list[np.ndarray]:
    states, y = np.empty((N, *A.shape), x.dtype), np.empty_like(x)
    h = np.zeros_like(A)
    for t in range(N):
        h = np.exp(delta[t] * A) * h + B[t][:, None] * (delta[t] * x[t])
        states[t] = h
        y[t] = C[t] @ h + D * x[t]
    dx, ddelta, dB, dC = (np.empty_like(a) for a in (x, delta, B, C))
    dA, G = np.zeros_like(A), np.zeros_like(A)
    for t in range(N - 1, -1, -1):
        G = G + C[t][:, None] * dy[t]
        dC[t] = states[t] @ dy[t]
        BG = B[t] @ G
        dx[t] = D * dy[t] + delta[t] * BG
        dB[t] = G @ (delta[t] * x[t])
        G = G * np.exp(delta[t] * A)
        dz = G * states[t - 1] if t else np.zeros_like(G)
        ddelta[t] = np.sum(dz * A, axis=0) + x[t] * BG
        dA += dz * delta[t]
    return [y, dx, ddelta, dA, dB, dC, np.sum(dy * x, axis=0)]


def wkv_loop(dy: np.ndarray, k: np.ndarray, v: np.ndarray, w: np.ndarray, u: np.ndarray) -> list[np.ndarray]:
    """The state is numerator a, denominator b and their common exponent p, as in the appendix of RWKV's paper."""
    a, b, p = np.zeros(D, k.dtype), np.zeros(D, k.dtype), np.full(D, -1e30, k.dtype)
    y, logs, states = np.empty_like(k), np.empty_like(k), np.empty((N, 3, D), k.dtype)
    for t in range(N):
        states[t] = a, b, p
        q = np.maximum(p, u + k[t])
        old, new = np.exp(p - q), np.exp(u + k[t] - q)
        below = old * b + new
        y[t], logs[t] = (old * a + new * v[t]) / below, q + np.log(below)
        q = np.maximum(p - w, k[t])
        old, new = np.exp(p - w - q), np.exp(k[t] - q)
        a, b, p = old * a + new * v[t], old * b + new, q
    dk, dv, du, dw = np.empty_like(k), np.empty_like(k), np.zeros_like(u), np.zeros_like(w)
    da, db, o = np.zeros_like(u), np.zeros_like(u), np.full(D, -1e30, k.dtype)
    for t in range(N - 1, -1, -1):
        a, b, p = states[t]
        here, later = np.exp(u + k[t] - logs[t]) * dy[t], np.exp(k[t] + o)
        direct = here * (v[t] - y[t])
        dv[t] = here + later * da
        dk[t] = direct + later * (v[t] * da + db)
        du += direct
        dw -= np.exp(p - w + o) * (da * a + db * b)
        q = np.maximum(o - w, -logs[t])
        old, new = np.exp(o - w - q), np.exp(-logs[t] - q)
        da, db, o = old * da + new * dy[t], old * db - new * dy[t] * y[t], q
    return [y, dk, dv, dw, du]


LOOPS: dict[str, Callable[..., Any]] = {"selective_scan": scan_loop, "wkv": wkv_loop}


def in_torch(op: str) -> Callable[..., Any]:
    import torch

    torch.set_num_threads(1)

    def scan(x: Any, delta: Any, A: Any, B: Any, C: Any, D: Any) -> Any:
        h, found = torch.zeros_like(A), []
        for t in range(N):
            h = torch.exp(delta[t] * A) * h + B[t][:, None] * (delta[t] * x[t])
            found.append(C[t] @ h + D * x[t])
        return torch.stack(found)

    def mean(k: Any, v: Any, w: Any, u: Any) -> Any:
        a, b, p, found = torch.zeros_like(u), torch.zeros_like(u), torch.full_like(u, -1e30), []
        for t in range(N):
            q = torch.maximum(p, u + k[t])
            old, new = torch.exp(p - q), torch.exp(u + k[t] - q)
            found.append((old * a + new * v[t]) / (old * b + new))
            q = torch.maximum(p - w, k[t])
            old, new = torch.exp(p - w - q), torch.exp(k[t] - q)
            a, b, p = old * a + new * v[t], old * b + new, q
        return torch.stack(found)

    forward = {"selective_scan": scan, "wkv": mean}[op]

    def run(dy: np.ndarray, **given: np.ndarray) -> list[np.ndarray]:
        inputs = [torch.tensor(a, requires_grad=True) for a in given.values()]
        y = forward(*inputs)
        y.backward(torch.from_numpy(dy))
        return [x.detach().numpy() for x in (y, *(a.grad for a in inputs))]

    return run


def contenders_of(op: str) -> dict[str, Callable[..., Any]]:
    if op not in LOOPS:
        return {"tinyattn": associative(op.split(", ")[1]), "loop": associative("sequential")}
    torch = {"torch": in_torch(op)} if importlib.util.find_spec("torch") else {}
    return {"tinyattn": library(op), "loop": LOOPS[op]} | torch


def measure(rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    exact, given = drawn(np.float64), drawn(np.float32)
    for op in exact:
        contenders = contenders_of(op)
        expected = contenders["tinyattn"](**exact[op])
        for name, run in contenders.items():
            for mine, theirs in zip(expected, run(**exact[op]), strict=True):
                if not np.allclose(mine, theirs, rtol=0, atol=1e-9 * max(1, float(np.abs(mine).max()))):
                    raise SystemExit(f"{op}: {name} does not give the library's results")
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(rounds + 1):                   # the first round warms up
            for name, run in contenders.items():
                begun = time.perf_counter()
                run(**given[op])
                if turn:
                    seconds[name].append(time.perf_counter() - begun)
        found[op] = seconds
        print(op, {name: f"{1000 * np.median(times):.1f} ms" for name, times in seconds.items()}, flush=True)
    return found


def page(result: dict[str, Any]) -> str:
    """The Markdown page, made from the results file alone."""
    lines = ["# Scans of long sequences", ""]
    for cpu, found in result.items():
        machine = found["machine"]
        rounds = len(next(iter(found["seconds"].values()))["tinyattn"])
        lines += [f"## {cpu}", "", *_table(found["seconds"]), "", verdict(found["seconds"]), "",
                  f"{rounds} rounds. {made_on(machine)}.", ""]  # fmt: skip
    return "\n".join([*lines,
        "## How", "",
        f"Forward and backward of one sequence of {N:,} tokens, d {D}, {STATE} states a channel in `selective_scan`, "
        "float32, one thread. Medians; ratios are taken within a round. The loops take one token at a time; PyTorch's "
        "backward is its autograd.",
        "", TRIED.strip(), "", "Made by `python benchmarks/scans.py`.", "",
    ])  # fmt: skip


def verdict(found: dict[str, Any]) -> str:
    """The goal, and the ratio of each op in LOOPS. The others have no goal."""
    ratios = []
    for op in [op for op in found if op in LOOPS]:
        ratio = float(np.median(times(found[op], "loop")))
        ratios.append(f"`{op}` {ratio:.1f}, {'reached' if ratio >= GOAL else '**missed**'}")
    return f"Goal, times as fast as the loop in NumPy: {GOAL}. {'; '.join(ratios) or 'Not measured'}."


def times(row: dict[str, Any], name: str) -> np.ndarray:
    """The contender's time divided by tinyattn's, for each round."""
    return np.divide(row[name], row["tinyattn"])


def _table(found: dict[str, Any]) -> list[str]:
    rows = ["| | tinyattn, ms | loop in NumPy, ms | times as long | loop in PyTorch eager, ms | times as long |",
            "|---|---|---|---|---|---|"]  # fmt: skip
    for op, seconds in found.items():
        cells = [f"{1000 * np.median(seconds['tinyattn']):.1f}"]
        for name in ("loop", "torch"):
            measured = name in seconds
            cells += [f"{1000 * np.median(seconds[name]):.0f}" if measured else ""]
            cells += [f"{np.median(times(seconds, name)):.1f}" if measured else ""]
        rows.append(f"| `{op}` | {' | '.join(cells)} |")
    return rows


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    if clean_environment() != dict(os.environ):          # NumPy reads the choice of kernels on import
        os.execve(sys.executable, [sys.executable, *sys.argv], clean_environment())
    keep_freed_memory()                                  # as in training
    with threadpool_limits(1):
        found = {"machine": describe(), "seconds": measure(rounds)}
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    result[found["machine"]["cpu"]] = found
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))
