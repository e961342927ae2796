"""One kernel where the readable form makes many calls of a device: the same numbers, read and written once.

The kernels are Python, which numba-cuda compiles for a GPU (extra `kernels`), or interprets on a CPU where the
environment says NUMBA_ENABLE_CUDASIM=1: so they can be tested without a GPU, as CUDA C cannot.
"""

import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..backend import Array, device_name, get_xp, is_numpy
from ..random import _AXIS_MULTIPLIERS, MaskKeys, _threshold
from ..training.adam import Moments

PROVEN: tuple[str, ...] = ()       # the GPUs for which benchmarks/gpu_steps.py found equal numbers
THREADS = 128                      # of a block
cuda: Any = None                   # numba.cuda, once a kernel is needed
FIRST, SECOND, THIRD, FOURTH = map(np.uint64, _AXIS_MULTIPLIERS)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
ONE, WORD, LOW, S27, S30, S31 = map(np.uint64, (1, 16, 0xFFFF, 27, 30, 31))


def adam(
    vector: Array, gradient: Array, moments: Moments, step: int | tuple[Array, Array], *, lr: Any = 1e-3,
    beta1: float = 0.9, beta2: float = 0.98, eps: float = 1e-8,
) -> Any:  # fmt: skip
    """`adam` of float32 vectors on a device, with the step's corrections there: 1 call and not 13."""
    if not (isinstance(step, tuple) and vector.dtype == np.float32 and _is_proven(get_xp(vector))):
        return NotImplemented
    numbers = map(np.float32, (beta1, 1 - beta1, beta2, 1 - beta2, eps))
    _launch(_kernels().adam, vector.size, vector, gradient, *moments, *step, *numbers)
    return None


def dropout_mask(x: Array, shape: tuple[int, ...], rate: float, rng: Any) -> Any:
    """`dropout_mask` on a device where its key lies there: its memory and 1 call, and not 15 or 21."""
    xp = get_xp(x)
    there = isinstance(rng, MaskKeys) and not isinstance(rng.rng, np.random.Generator) and rng.rows is not None
    if not (there and rate and 1 < len(shape) <= 4 and _is_proven(xp)):
        return NotImplemented
    *lead, last = (shape[0], shape[1] * shape[2]) if len(shape) == 3 else shape
    keep, (second, third) = xp.empty((math.prod(lead), last), dtype=bool), (*lead[1:], 1, 1)[:2]
    groups = len(keep) * -(-last // 4)
    _launch(_kernels().keep, groups, keep, next(rng.rng), rng.rows, second, third, np.uint64(_threshold(rate)))
    return keep.reshape(shape)


@cache
def _is_proven(xp: Any) -> bool:
    if is_numpy(xp) or not PROVEN:
        return False
    return device_name("gpu" if xp.__name__ == "cupy" else xp.__name__) in PROVEN


def _launch(kernel: Any, entries: int, *arguments: Any) -> None:
    """A thread for each entry, on the stream that CuPy uses now. Without an entry there is nothing to launch."""
    if not entries:                              # CUDA refuses a grid of no blocks
        return
    stream = cuda.external_stream(get_xp(arguments[0]).cuda.get_current_stream().ptr)
    kernel[-(-entries // THREADS), THREADS, stream](*arguments)


@cache
def _kernels() -> Any:
    """The kernels by name. Scalars are typed: numba computes uint64 with int64, and float32 with float, in float64."""
    global cuda                                  # where the simulator looks for it
    from numba import config, cuda

    config.CUDA_ARRAY_INTERFACE_SYNC = False     # numba would wait for CuPy's stream, on which it computes anyway
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0       # small arrays have few blocks

    @cuda.jit
    def adam(vector, gradient, m, v, root, rate, beta1, rest1, beta2, rest2, eps):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < vector.size:
            g = gradient[i]
            m[i] = m[i] * beta1 + rest1 * g
            v[i] = v[i] * beta2 + rest2 * (g * g)
            vector[i] -= m[i] / (math.sqrt(v[i]) * root[0] + eps) * rate[0]

    @cuda.jit
    def keep(out, key, rows, second, third, least):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        groups = (out.shape[1] + 3) // 4         # four entries share a hash
        if i < out.shape[0] * groups:
            lead, group = i // groups, i % groups
            z = (np.uint64(group) + ONE) * FIRST + key[0] + np.uint64(rows[lead // (second * third)]) * SECOND
            z += np.uint64(lead // third % second) * THIRD + np.uint64(lead % third) * FOURTH
            z = (z ^ (z >> S30)) * MIX_1
            z = (z ^ (z >> S27)) * MIX_2
            z = z ^ (z >> S31)
            for place in range(4 * group, min(4 * group + 4, out.shape[1])):
                out[lead, place] = (z & LOW) >= least
                z = z >> WORD

    return SimpleNamespace(adam=adam, keep=keep)
