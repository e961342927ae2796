"""The kernels of `kernels.py`, as a device runs them.

A block has `lanes` threads for a row, and several rows. A row's sum is added by lanes, then in a tree: in the same
order at every run, without atomic additions. Numba computes float32 with float64 or int64 in float64, so every
constant is `real(...)`, and so is every count that divides.
"""

import math
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from ..random import _AXIS_MULTIPLIERS

MOST = 512                         # threads of a block: the room in shared memory, 4 KB in float64
SPAN = 64                          # sorted rows that a block adds
LEAVES = 32                        # arrays of a launch of `add`: their descriptions fit into 4 KB of arguments
RELU, GELU, TANH = 0, 1, 2         # kinds of `activate`
ALL, CAUSAL, ARRAY = 0, 1, 2       # kinds of masks
cuda: Any                          # numba.cuda, once a kernel is needed
FIRST, SECOND, THIRD, FOURTH = map(np.uint64, _AXIS_MULTIPLIERS)
MIX_1, MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
ONE, WORD, LOW, S27, S30, S31 = map(np.uint64, (1, 16, 0xFFFF, 27, 30, 31))


def load() -> Any:
    """numba.cuda, which computes on CuPy's arrays and stream."""
    global cuda                                  # where the simulator looks for it
    from numba import config, cuda

    config.CUDA_ARRAY_INTERFACE_SYNC = False     # numba would wait for CuPy's stream, on which it computes anyway
    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0       # small arrays have few blocks
    return cuda


@cache
def kernels(real: Any) -> Any:
    """All by name, for arrays of this dtype, np.float32 or np.float64. Each is compiled when it is first launched."""
    load()
    zero, one, half, low, far = real(0), real(1), real(0.5), real(-math.inf), real(40)
    root_half, density, root = map(real, (0.5**0.5, (2 * math.pi) ** -0.5, (2 / math.pi) ** 0.5))
    cubic, thrice = real(0.044715), real(3 * 0.044715)
    @cuda.jit(device=True)
    def joined(room, mine, is_sum):
        """The sum, or the largest, over the lanes of a row. Every thread of the block comes here: it waits for all."""
        lane, half_of = cuda.threadIdx.x, cuda.blockDim.x // 2
        i = cuda.threadIdx.y * cuda.blockDim.x + lane
        room[i] = mine
        cuda.syncthreads()
        while half_of > 0:
            if lane < half_of:
                room[i] = room[i] + room[i + half_of] if is_sum else max(room[i], room[i + half_of])
            cuda.syncthreads()
            half_of //= 2
        found = room[i - lane]
        cuda.syncthreads()                       # the room is written again
        return found
    @cuda.jit(device=True)
    def place():
        """The number of this thread in the grid, in 64 bits: 32 would end at 2³¹ entries."""
        return np.int64(cuda.blockIdx.x) * np.int64(cuda.blockDim.x) + np.int64(cuda.threadIdx.x)
    @cuda.jit(device=True)
    def where():
        return cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y, cuda.threadIdx.x, cuda.blockDim.x
    @cuda.jit(device=True)
    def bits(group, key, row, second, third):
        """`_mixed` of tinyattn/random.py, of four entries."""
        z = (np.uint64(group) + ONE) * FIRST + key + np.uint64(row) * SECOND
        z += np.uint64(second) * THIRD + np.uint64(third) * FOURTH
        z = (z ^ (z >> S30)) * MIX_1
        z = (z ^ (z >> S27)) * MIX_2
        return z ^ (z >> S31)
    @cuda.jit(device=True)
    def soft(z):
        """log(1 + exp z)."""
        return (z if z > zero else zero) + math.log1p(math.exp(-abs(z)))
    @cuda.jit(device=True)
    def sigmoid(z):
        small = math.exp(-abs(z))
        return (one if z >= zero else small) / (one + small)
    @cuda.jit(device=True)
    def weighted(each, row, weight, loss):
        """A loss of weight 0 may be infinite, and 0 ∞ is NaN."""
        each[row, 0], each[row, 1] = loss * real(weight[row]) if weight[row] else zero, real(weight[row])
    @cuda.jit(device=True)
    def share_of(dloss, weight, whole):
        return dloss * real(weight) / whole if weight else zero
    def adam(gradient, root_of, rate, beta1, rest1, beta2, rest2, eps, m, v, vector):
        i = place()
        if i < vector.size:
            g = gradient[i]
            m[i] = m[i] * beta1 + rest1 * g
            v[i] = v[i] * beta2 + rest2 * (g * g)
            vector[i] -= m[i] / (math.sqrt(v[i]) * root_of[0] + eps) * rate[0]
    def keep(key, rows, second, third, least, out):
        i = place()
        groups = (out.shape[1] + 3) // 4         # four entries share a hash
        lead, group = i // groups, i % groups
        if lead < out.shape[0]:
            z = bits(group, key[0], rows[lead // (second * third)], lead // third % second, lead % third)
            for j in range(4 * group, min(4 * group + 4, out.shape[1])):
                out[lead, j], z = (z & LOW) >= least, z >> WORD
    def drop(x, adds, branch, key, rows, second, third, least, scale, out):
        """out = dropout(branch), or x + dropout(branch)."""
        i = place()
        groups = (out.shape[1] + 3) // 4
        lead, group = i // groups, i % groups
        if lead < out.shape[0]:
            z = bits(group, key[0], rows[lead // (second * third)], lead // third % second, lead % third)
            for j in range(4 * group, min(4 * group + 4, out.shape[1])):
                y = branch[lead, j] * scale if (z & LOW) >= least else zero
                out[lead, j], z = x[lead, j] + y if adds else y, z >> WORD
    def activate(b, kind, u, h):
        """u += b, then h = f(u); h may be u."""
        row, j = place() // u.shape[1], place() % u.shape[1]
        if row < u.shape[0]:
            u[row, j] += b[j]
            x = u[row, j]
            if kind == RELU:
                h[row, j] = x if x > zero else zero
            elif kind == GELU:
                h[row, j] = x * (half * math.erfc(-x * root_half))
            else:
                near = min(max(x, -far), far)
                h[row, j] = half * x * (one + math.tanh(root * (near + cubic * near * near * near)))
    def activate_back(kind, u, dh):
        """du, in dh; for ReLU u may be h."""
        row, j = place() // u.shape[1], place() % u.shape[1]
        if row < u.shape[0]:
            x = u[row, j]
            near = min(max(x, -far), far)
            if kind == RELU:
                slope = one if x > zero else zero
            elif kind == GELU:
                slope = half * math.erfc(-x * root_half) + near * density * math.exp(-half * near * near)
            else:
                t = math.tanh(root * (near + cubic * near * near * near))
                slope = half * (one + t + near * (one - t * t) * root * (one + thrice * near * near))
            dh[row, j] *= slope
    def add(those, into):
        """into[k] += those[k], for tuples of vectors; a row of blocks for each."""
        k, i = cuda.blockIdx.y, place()
        while i < into[k].size:
            into[k][i] += those[k][i]
            i += np.int64(cuda.gridDim.x) * np.int64(cuda.blockDim.x)
    def norm(x, gamma, beta, eps, y, x_hat, rstd):
        room = cuda.shared.array(MOST, real)
        row, lane, lanes = where()
        d, n = real(x.shape[1]), x.shape[1] if row < x.shape[0] else 0
        mine = zero
        for j in range(lane, n, lanes):
            mine += x[row, j]
        mean = joined(room, mine, True) / d
        mine = zero
        for j in range(lane, n, lanes):
            mine += (x[row, j] - mean) * (x[row, j] - mean)
        r = one / math.sqrt(joined(room, mine, True) / d + eps)
        for j in range(lane, n, lanes):
            x_hat[row, j] = (x[row, j] - mean) * r
            y[row, j] = x_hat[row, j] * gamma[j] + beta[j]
        if n and lane == 0:
            rstd[row] = r
    def norm_back(dy, x_hat, rstd, gamma, dx, parts):
        """A group of lanes takes every `groups`-th row, and sums dy x_hat and dy over these, column by column."""
        room = cuda.shared.array(MOST, real)
        group, lane, lanes = where()
        groups, rows, d = parts.shape[0], dy.shape[0], dy.shape[1]
        for j in range(lane, d, lanes):          # a lane has its own columns j and d + j, here and below
            parts[group, j] = zero
            parts[group, d + j] = zero
        for turn in range((rows + groups - 1) // groups):        # as often for all: `joined` waits for every thread
            row = turn * groups + group
            n = d if row < rows else 0
            along, across = zero, zero
            for j in range(lane, n, lanes):
                g = dy[row, j] * gamma[j]
                across += g
                along += g * x_hat[row, j]
            across = joined(room, across, True) / real(d)
            along = joined(room, along, True) / real(d)
            for j in range(lane, n, lanes):
                dx[row, j] = (dy[row, j] * gamma[j] - across - x_hat[row, j] * along) * rstd[row]
                parts[group, j] += dy[row, j] * x_hat[row, j]
                parts[group, d + j] += dy[row, j]
    def fold(parts, is_mean, out):
        """Column sums, a block each. With `is_mean` column 1 has the weights of column 0, whose sum they divide."""
        room = cuda.shared.array(MOST, real)
        column, mine, weight = cuda.blockIdx.x, zero, zero
        for p in range(cuda.threadIdx.x, parts.shape[0], cuda.blockDim.x):
            mine += parts[p, column]
            weight += parts[p, 1] if is_mean else zero
        mine = joined(room, mine, True)
        weight = joined(room, weight, True)
        if cuda.threadIdx.x == 0:
            out[column] = mine / weight if column == 0 and weight != zero else mine
    def weigh(mask, kind, scale, s):
        """s, (B, h, n, m), becomes softmax(scale s); mask has these axes, or 1 in their places."""
        room = cuda.shared.array(MOST, real)
        row, lane, lanes = where()
        heads, queries = s.shape[1], s.shape[2]
        b, h, i = row // (heads * queries), row // queries % heads, row % queries
        m = s.shape[3] if b < s.shape[0] else 0
        seen = min(m, i + 1) if kind == CAUSAL else m
        mb, mh, mi = b if mask.shape[0] > 1 else 0, h if mask.shape[1] > 1 else 0, i if mask.shape[2] > 1 else 0
        best = low
        for j in range(lane, seen, lanes):
            if kind != ARRAY or mask[mb, mh, mi, j if mask.shape[3] > 1 else 0]:
                best = max(best, s[b, h, i, j] * scale)
        best = joined(room, best, False)
        shift = best if best > low else zero     # nothing allowed: -inf minus -inf would be NaN
        mine = zero
        for j in range(lane, m, lanes):
            p = zero
            if j < seen and (kind != ARRAY or mask[mb, mh, mi, j if mask.shape[3] > 1 else 0]):
                p = math.exp(s[b, h, i, j] * scale - shift)
            s[b, h, i, j] = p
            mine += p
        whole = joined(room, mine, True)
        for j in range(lane, m, lanes):
            s[b, h, i, j] /= one if whole == zero else whole
    def weigh_back(p, scale, dp):
        """ds, in dp."""
        room = cuda.shared.array(MOST, real)
        row, lane, lanes = where()
        m = p.shape[1] if row < p.shape[0] else 0
        mine = zero
        for j in range(lane, m, lanes):
            mine += dp[row, j] * p[row, j]
        whole = joined(room, mine, True)
        for j in range(lane, m, lanes):
            dp[row, j] = (dp[row, j] * p[row, j] - p[row, j] * whole) * scale

    # --- losses: each[i] = w loss, w; `fold` makes (loss, Σ w) of them. Where Σ w is 0, all shares are 0 --------------
    def pairs(h, E, targets, others, weight, z, each):
        """bce: z = h · e of the target and of the other."""
        room = cuda.shared.array(MOST, real)
        row, lane, lanes = where()
        right, wrong, n = zero, zero, h.shape[1] if row < h.shape[0] else 0
        for j in range(lane, n, lanes):
            right += h[row, j] * E[targets[row], j]
            wrong += h[row, j] * E[others[row], j]
        right = joined(room, right, True)
        wrong = joined(room, wrong, True)
        if n and lane == 0:
            z[row, 0], z[row, 1] = right, wrong
            weighted(each, row, weight, soft(right) - right + soft(wrong))
    def pairs_back(h, E, targets, others, weight, z, sums, dloss, dh, de):
        """de: rows of the targets, then of the others."""
        row, j = place() // h.shape[1], place() % h.shape[1]
        if row < h.shape[0]:
            share = share_of(dloss, weight[row], sums[1])
            right, wrong = -share * sigmoid(-z[row, 0]), share * sigmoid(z[row, 1])
            dh[row, j] = right * E[targets[row], j] + wrong * E[others[row], j]
            de[row, j] = right * h[row, j]
            de[h.shape[0] + row, j] = wrong * h[row, j]
    def firsts(z, weight, beta, each):
        """gbce: the first of a row is the target, of weight beta."""
        room = cuda.shared.array(MOST, real)
        row, lane, lanes = where()
        mine, n = zero, z.shape[1] if row < z.shape[0] else 0
        for j in range(lane, n, lanes):
            mine += soft(z[row, j]) if j else beta * (soft(z[row, 0]) - z[row, 0])
        mine = joined(room, mine, True)
        if n and lane == 0:
            weighted(each, row, weight, mine)
    def firsts_back(z, weight, beta, sums, dloss, dz):
        row, j = place() // z.shape[1], place() % z.shape[1]
        if row < z.shape[0]:
            share = share_of(dloss, weight[row], sums[1])
            dz[row, j] = share * sigmoid(z[row, j]) if j else -share * beta * sigmoid(-z[row, 0])
    def classes(logits, targets, weight, smoothing, L, each):
        """Cross-entropy; L = log Σ exp."""
        room = cuda.shared.array(MOST, real)
        row, lane, lanes = where()
        best, mine, all_of, n = low, zero, zero, logits.shape[1] if row < logits.shape[0] else 0
        for j in range(lane, n, lanes):
            best = max(best, logits[row, j])
        best = joined(room, best, False)
        for j in range(lane, n, lanes):
            mine += math.exp(logits[row, j] - best)
            all_of += logits[row, j]
        mine = joined(room, mine, True)
        all_of = joined(room, all_of, True)
        if n and lane == 0:
            L[row] = best + math.log(mine)
            loss = L[row] - (one - smoothing) * logits[row, targets[row]]
            if smoothing > zero:                 # a logit may be -inf
                loss -= smoothing * (all_of / real(n))
            weighted(each, row, weight, loss)
    def classes_back(logits, targets, weight, smoothing, L, sums, dloss, dlogits):
        row, j = place() // logits.shape[1], place() % logits.shape[1]
        if row < logits.shape[0]:
            q = smoothing / real(logits.shape[1]) + (one - smoothing if j == targets[row] else zero)
            dlogits[row, j] = share_of(dloss, weight[row], sums[1]) * (math.exp(logits[row, j] - L[row]) - q)

    # --- rows of a table, summed: sorted by their ids, then runs of equal ids are added, in float64 ------------------
    def sort(ids, order):
        """A row's place is how many come before it: N² comparisons, a block's worth of ids at once from shared memory.

        CuPy's `argsort` waits for the device, which a recording refuses.
        """
        near = cuda.shared.array(MOST, np.int64)
        i, lane, lanes = place(), cuda.threadIdx.x, cuda.blockDim.x
        mine, before = ids[i] if i < ids.size else 0, 0
        for base in range(0, ids.size, lanes):
            cuda.syncthreads()                   # the others have read the ids before
            if base + lane < ids.size:
                near[lane] = ids[base + lane]
            cuda.syncthreads()
            for j in range(min(lanes, ids.size - base)):
                before += near[j] < mine or (near[j] == mine and base + j < i)
        if i < ids.size:
            order[before] = i
    def runs(ids, order, values, parts, dE):
        """A block sums SPAN sorted rows. A run that it has whole goes to dE, one that goes on elsewhere to parts."""
        first = cuda.blockIdx.x * SPAN
        stop = min(first + SPAN, ids.size)
        for j in range(cuda.threadIdx.x, dE.shape[1], cuda.blockDim.x):
            mine, begin = np.float64(0), first
            for i in range(first, stop):
                now = ids[order[i]]
                mine += np.float64(values[order[i], j])
                if i + 1 == stop or ids[order[i + 1]] != now:
                    ends = i + 1 == ids.size or ids[order[i + 1]] != now
                    if ends and (begin == 0 or ids[order[begin - 1]] != now):
                        dE[now, j] = real(mine)
                    else:
                        parts[cuda.blockIdx.x, 0 if begin == first else 1, j] = mine
                    mine, begin = np.float64(0), i + 1
    def join(ids, order, parts, dE):
        """A block whose last run is the begin of a longer one adds up its parts."""
        first = cuda.blockIdx.x * SPAN
        stop = first + SPAN
        now = ids[order[stop - 1]] if stop < ids.size else -1
        if now >= 0 and ids[order[stop]] == now:
            begin = stop - 1
            while begin > first and ids[order[begin - 1]] == now:
                begin -= 1
            if begin == 0 or ids[order[begin - 1]] != now:
                for j in range(cuda.threadIdx.x, dE.shape[1], cuda.blockDim.x):
                    mine, block = parts[cuda.blockIdx.x, 0 if begin == first else 1, j], cuda.blockIdx.x + 1
                    while block * SPAN < ids.size and ids[order[block * SPAN]] == now:
                        mine += parts[block, 0, j]
                        block += 1
                    dE[now, j] = real(mine)

    return SimpleNamespace(**{name: cuda.jit(f) for name, f in locals().items() if isinstance(f, FunctionType)})
