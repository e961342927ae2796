"""Answers to the exercises of chapter 22."""

import statistics

import numpy as np

from tinyattn import ops
from tinyattn.course.exercises.chapter_22 import (
    _heads,
    _in_place,
    _whole_loss,
)

from . import listed

# --- my_heads -------------------------------------------------------------------------------------------------------


def swapped(q, k, v, heads):
    B, n, D = q.shape
    q, k, v = (x.reshape(B, n, heads, D // heads).swapaxes(1, 2) for x in (q, k, v))
    p = ops.softmax(q @ k.swapaxes(-1, -2) / (D // heads) ** 0.5)
    return (p @ v).swapaxes(1, 2).reshape(B, n, D)


def einsums(q, k, v, heads):
    B, n, D = q.shape
    q, k, v = (x.reshape(B, n, heads, -1) for x in (q, k, v))
    s = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(D / heads)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", e / e.sum(axis=-1, keepdims=True), v).reshape(B, n, D)


def transposed(q, k, v, heads):
    B, n, D = q.shape
    d = D // heads
    qh = np.transpose(q.reshape(B, n, heads, d), (0, 2, 1, 3))
    kh = np.transpose(k.reshape(B, n, heads, d), (0, 2, 3, 1))
    vh = np.transpose(v.reshape(B, n, heads, d), (0, 2, 1, 3))
    p = ops.softmax(np.matmul(qh, kh) * d**-0.5)
    return np.transpose(np.matmul(p, vh), (0, 2, 1, 3)).reshape(B, n, D)


def heads_in_the_batch(q, k, v, heads):
    B, n, D = q.shape
    d = D // heads

    def apart(x):
        return x.reshape(B, n, heads, d).transpose(0, 2, 1, 3).reshape(B * heads, n, d)

    out = ops.attention(apart(q), apart(k), apart(v))[0]
    return out.reshape(B, heads, n, d).transpose(0, 2, 1, 3).reshape(B, n, D)


def the_librarys_attention(q, k, v, heads):
    q, k, v = (np.moveaxis(x.reshape(*x.shape[:2], heads, -1), 2, 1) for x in (q, k, v))
    out, _ = ops.attention(q, k, v)
    return np.moveaxis(out, 1, 2).reshape(out.shape[0], out.shape[2], -1)


def scaled_queries(q, k, v, heads):
    B, n, D = q.shape
    q = q / np.sqrt(D // heads)
    q, k, v = (x.reshape(B, n, heads, D // heads) for x in (q, k, v))
    s = np.einsum("bihd,bjhd->bhij", q, k)
    e = np.exp(s - s.max(-1)[..., None])
    out = np.einsum("bhij,bjhd->bihd", e, v) / np.moveaxis(e.sum(-1), 1, 2)[..., None]
    return out.reshape(B, n, D)


def heads_first(q, k, v, heads):
    """The heads' axis before the batch."""
    B, n, D = q.shape
    q, k, v = (np.moveaxis(x.reshape(B, n, heads, D // heads), 2, 0) for x in (q, k, v))
    p = ops.softmax(q @ np.moveaxis(k, -1, -2) / np.sqrt(q.shape[-1]))
    return np.moveaxis(p @ v, 0, 2).reshape(B, n, D)


def block_by_mask(q, k, v, heads):
    """Each head's queries beside zeros: features of other heads add nothing."""
    D = q.shape[2]
    part = np.arange(heads)[:, None] == np.arange(D) // (D // heads)
    s = (q[:, None] * part[:, None]) @ k.swapaxes(1, 2)[:, None] / np.sqrt(D // heads)
    return np.sum(ops.softmax(s) @ v[:, None] * part[:, None], axis=1)


def nested_functions(q, k, v, heads):
    def split(x):
        return x.reshape(x.shape[0], x.shape[1], heads, -1).swapaxes(1, 2)

    def join(x):
        return x.swapaxes(1, 2).reshape(q.shape)

    s = split(q) @ split(k).swapaxes(2, 3)
    s /= np.sqrt(q.shape[2] // heads)
    s = np.exp(s - np.max(s, axis=3, keepdims=True))
    return join(s / np.sum(s, axis=3, keepdims=True) @ split(v))


def a_loop(q, k, v, heads):
    d = q.shape[-1] // heads
    parts = [_heads(*(x[..., i * d : (i + 1) * d] for x in (q, k, v)), 1) for i in range(heads)]
    return np.concatenate(parts, axis=-1)


def a_loop_of_splits(q, k, v, heads):
    parts = zip(*(np.split(x, heads, axis=-1) for x in (q, k, v)), strict=True)
    return np.concatenate([ops.attention(*part)[0] for part in parts], axis=-1)


# --- my_softmax_in_place --------------------------------------------------------------------------------------------


def five_lines(s, mask):
    np.copyto(s, -np.inf, where=~mask)
    largest = s.max(axis=-1, keepdims=True)
    s -= np.where(np.isneginf(largest), 0, largest)
    np.exp(s, out=s)
    total = s.sum(axis=-1, keepdims=True)
    s /= np.where(total == 0, 1, total)
    return s


def by_index(s, mask):
    s[np.broadcast_to(~mask, s.shape)] = -np.inf
    m = np.max(s, axis=-1, keepdims=True)
    m[m == -np.inf] = 0
    np.subtract(s, m, out=s)
    np.exp(s, out=s)
    l = np.sum(s, axis=-1, keepdims=True)
    l[l == 0] = 1
    np.divide(s, l, out=s)
    return s


def zeros_after_exp(s, mask):
    """The largest among what is allowed; hidden entries are set to 0 after the exponential."""
    m = np.max(s, axis=-1, keepdims=True, where=mask, initial=-np.inf)
    s -= np.where(m == -np.inf, 0, m)
    np.minimum(s, 0, out=s)
    np.exp(s, out=s)
    s *= mask
    s /= np.maximum(s.sum(axis=-1, keepdims=True), 1e-30)
    return s


def row_by_row(s, mask):
    rows, allowed = s.reshape(-1, s.shape[-1]), np.broadcast_to(mask, s.shape)
    allowed = np.ascontiguousarray(allowed).reshape(rows.shape)
    for row, seen in zip(rows, allowed, strict=True):
        row[...] = ops.softmax(row, seen)
    return rows.reshape(s.shape)


def one_square_at_a_time(s, mask):
    for square in s if s.ndim == 3 else [s]:
        square[...] = ops.softmax(square, mask)
    return s


def putmask(s, mask):
    np.putmask(s, np.broadcast_to(np.logical_not(mask), s.shape), -np.inf)
    top = np.nan_to_num(s.max(axis=-1, keepdims=True), neginf=0)
    s -= top
    s = np.exp(s, out=s)
    total = np.einsum("...m->...", s)[..., None]
    s *= np.where(total > 0, 1 / np.where(total > 0, total, 1), 0)
    return s


def masked_where(s, mask):
    m = s.max(axis=-1, keepdims=True, where=mask, initial=-1e300 if s.dtype == float else -1e30)
    np.subtract(s, m, out=s, where=mask)
    np.exp(s, out=s, where=mask)
    np.copyto(s, 0, where=~mask)
    total = s.sum(axis=-1, keepdims=True)
    total += total == 0
    s /= total
    return s


def errors_off(s, mask):
    """0 / 0 becomes 0 at the end."""
    with np.errstate(all="ignore"):
        np.copyto(s, -np.inf, where=~mask)
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
    np.copyto(s, 0, where=~mask)
    return s


def as_it_reads(s, mask):
    return _in_place(s, mask)


def the_librarys(s, mask):
    return ops.softmax(s, mask)


def copied_first(s, mask):
    return five_lines(s.copy(), mask)


# --- my_chunked_loss ------------------------------------------------------------------------------------------------


def online(h, E, targets, chunk):
    n, V = len(h), len(E)
    m, l = np.full((n, 1), -np.inf), np.zeros((n, 1))
    for b in range(0, V, chunk):
        s = h @ E[b : b + chunk].T
        top = np.maximum(m, s.max(axis=1, keepdims=True))
        l, m = np.exp(m - top) * l + np.exp(s - top).sum(axis=1, keepdims=True), top
    L = m + np.log(l)
    loss = np.mean(L[:, 0] - (h * E[targets]).sum(axis=1))
    dh, dE = np.zeros_like(h), np.zeros_like(E)
    for b in range(0, V, chunk):
        some = E[b : b + chunk]
        ds = np.exp(h @ some.T - L)
        (rows,) = np.nonzero((targets >= b) & (targets < b + chunk))
        ds[rows, targets[rows] - b] -= 1
        ds /= n
        dh += ds @ some
        dE[b : b + chunk] = ds.T @ h
    return loss, dh, dE


def two_maxima(h, E, targets, chunk):
    """First all maxima, then all sums, then all gradients."""
    n, V = len(h), len(E)
    chunks = [slice(b, min(b + chunk, V)) for b in range(0, V, chunk)]
    m = np.max([np.max(h @ E[c].T, axis=1) for c in chunks], axis=0)
    l = sum(np.exp(h @ E[c].T - m[:, None]).sum(axis=1) for c in chunks)
    dh, dE = -E[targets] / n, np.zeros_like(E)
    for c in chunks:
        p = np.exp(h @ E[c].T - m[:, None]) / l[:, None] / n
        dh = dh + p @ E[c]
        dE[c] += p.T @ h
    np.add.at(dE, targets, -h / n)
    return float((m + np.log(l) - np.einsum("nd,nd->n", h, E[targets])).mean()), dh, dE


def logaddexp(h, E, targets, chunk):
    L = np.full(len(h), -np.inf)
    for b in range(0, len(E), chunk):
        s = h @ E[b : b + chunk].T
        top = s.max(axis=1)
        L = np.logaddexp(L, top + np.log(np.exp(s - top[:, None]).sum(axis=1)))
    dh, dE = np.zeros(h.shape), np.zeros(E.shape)
    for b in range(0, len(E), chunk):
        numbers = np.arange(b, min(b + chunk, len(E)))
        ds = (np.exp(h @ E[numbers].T - L[:, None]) - (targets[:, None] == numbers)) / len(h)
        dh += ds @ E[numbers]
        dE[numbers] = ds.T @ h
    return (L - (h * E[targets]).sum(1)).mean(), dh, dE


def state_by_state(h, E, targets, chunk):
    """A row at a time needs no array of all logits either."""
    n, loss = len(h), 0.0
    dh, dE = np.empty_like(h), np.zeros_like(E)
    for i in range(n):
        s = E @ h[i]
        p = np.exp(s - s.max())
        loss += (s.max() + np.log(p.sum()) - s[targets[i]]) / n
        p /= p.sum()
        p[targets[i]] -= 1
        dh[i] = p @ E / n
        for b in range(0, len(p), chunk):
            dE[b : b + chunk] += np.outer(p[b : b + chunk], h[i] / n)
    return loss, dh, dE


def target_logits_apart(h, E, targets, chunk):
    n = len(h)
    right = np.array([h[i] @ E[t] for i, t in enumerate(targets)])
    m, l = np.full(n, -np.inf), np.zeros(n)
    for some in np.split(E, range(chunk, len(E), chunk)):
        s = h @ some.T
        new = np.maximum(m, s.max(1))
        l = l * np.exp(m - new) + np.exp(s - new[:, None]).sum(1)
        m = new
    dh, blocks = np.zeros_like(h), []
    for some in np.split(E, range(chunk, len(E), chunk)):
        p = np.exp(h @ some.T - m[:, None]) / l[:, None]
        dh += p @ some
        blocks.append(p.T @ h)
    dE = np.concatenate(blocks)
    np.subtract.at(dE, targets, h)
    return np.mean(m + np.log(l) - right), (dh - E[targets]) / n, dE / n


def a_list_of_results(h, E, targets, chunk):
    loss, dh, dE = online(h, E, targets, chunk)
    return [float(loss), dh, dE]


def a_while_loop(h, E, targets, chunk):
    begin, L = 0, None
    while begin < len(E):
        s = h @ E[begin : begin + chunk].T
        here = s.max(1) + np.log(np.exp(s - s.max(1, keepdims=True)).sum(1))
        L = here if L is None else np.logaddexp(L, here)
        begin += chunk
    dh, dE, begin = 0, np.zeros_like(E), 0
    while begin < len(E):
        end = min(begin + chunk, len(E))
        ds = np.exp(h @ E[begin:end].T - L[:, None])
        for i, t in enumerate(targets):
            if begin <= t < end:
                ds[i, t - begin] -= 1
        dh = dh + ds @ E[begin:end] / len(h)
        dE[begin:end] = ds.T @ h / len(h)
        begin = end
    return np.mean(L - np.sum(h * E[targets], 1)), dh, dE


def a_generator(h, E, targets, chunk):
    n = len(h)

    def pieces():
        for b in range(0, len(E), chunk):
            yield b, E[b : b + chunk], h @ E[b : b + chunk].T

    L = np.logaddexp.reduce([np.logaddexp.reduce(s, axis=1) for _, _, s in pieces()], axis=0)
    dh, dE = np.zeros_like(h), np.zeros_like(E)
    for b, some, s in pieces():
        ds = np.exp(s - L[:, None]) / n
        mine = np.flatnonzero((targets >= b) & (targets < b + len(some)))
        ds[mine, targets[mine] - b] -= 1 / n
        dh += ds @ some
        dE[b : b + len(some)] = ds.T @ h
    return np.mean(L - (h * E[targets]).sum(axis=1)), dh, dE


def all_logits(h, E, targets, chunk):
    return _whole_loss(h, E, targets)


def logits_kept_by_chunk(h, E, targets, chunk):
    """In chunks, but all of them are kept for the second pass."""
    n, kept = len(h), [h @ E[b : b + chunk].T for b in range(0, len(E), chunk)]
    L = np.logaddexp.reduce([np.logaddexp.reduce(s, axis=1) for s in kept], axis=0)
    ds = [np.exp(s - L[:, None]) / n for s in kept]
    for i, t in enumerate(targets):
        ds[t // chunk][i, t % chunk] -= 1 / n
    dh = sum(x @ E[i * chunk : (i + 1) * chunk] for i, x in enumerate(ds))
    return np.mean(L - (h * E[targets]).sum(axis=1)), dh, np.concatenate([x.T @ h for x in ds])


# --- repaired_benchmark ---------------------------------------------------------------------------------------------


def medians(start):
    run = start()
    run("old"), run("new")
    old, new = np.array([[run("old"), run("new")] for _ in range(15)]).T
    return np.median(old) / np.median(new)


def median_of_ratios(start):
    run = start()
    for version in ("old", "new"):
        run(version)
    return np.median([run("old") / run("new") for _ in range(15)])


def fastest_of_each(start):
    run, times = start(), {"old": [], "new": []}
    for _ in range(15):
        for version, seconds in times.items():
            seconds.append(run(version))
    return min(times["old"]) / min(times["new"])


def standard_library(start):
    run, old, new = start(), [], []
    for _ in range(21):
        old.append(run("old"))
        new.append(run("new"))
    return statistics.median(old[1:]) / statistics.median(new[1:])


def new_goes_first(start):
    run = start()
    rounds = [(run("new"), run("old")) for _ in range(16)][1:]
    return float(np.median([old / new for new, old in rounds]))


def many_rounds(start):
    run = start()
    times = np.array([[run("old"), run("new")] for _ in range(200)])[10:]
    return np.divide(*np.median(times, axis=0))


def trimmed_mean(start):
    run = start()
    run("old"), run("new")
    ratios = np.sort([run("old") / run("new") for _ in range(19)])
    return ratios[4:-4].mean()


def middle_by_sorting(start):
    run = start()
    warm = [run(version) for version in ("new", "old")]
    ratios = sorted(run("old") / run("new") for _ in range(15))
    return ratios[len(ratios) // 2] if warm else None


def a_random_order(start):
    run, rng, ratios = start(), np.random.default_rng(0), []
    for _ in range(25):
        took = {version: run(version) for version in rng.permutation(["old", "new"])}
        ratios.append(took["old"] / took["new"])
    return np.median(ratios[2:])


# --- may_replace ----------------------------------------------------------------------------------------------------


def _sound(fast, s):
    before, expected = s.copy(), ops.softmax(s)
    p = fast(s)
    kept = p.copy()
    fast(s + 1 + s[::-1])
    return (
        p.shape == s.shape and p.dtype == s.dtype and np.allclose(p, expected, atol=1e-6)
        and np.array_equal(s, before) and np.array_equal(p, kept)
    )  # fmt: skip


def in_a_loop(fast):
    base = np.random.default_rng(0).standard_normal((2, 4, 5))
    views = [base, base.swapaxes(1, 2), base[..., :1], 1000 * base, base.astype(np.float32)]
    return all([_sound(fast, s) for s in views])


def it_asserts(fast):
    rng = np.random.default_rng(1)
    for s in (rng.standard_normal((3, 4)).T, rng.standard_normal((3, 1)), 900 * rng.standard_normal((2, 6)),
              rng.standard_normal((2, 3, 4)).astype(np.float32)):  # fmt: skip
        before, expected = s.copy(), ops.softmax(s)
        p = fast(s)
        np.testing.assert_array_equal(s, before)
        np.testing.assert_allclose(p, expected, atol=1e-6)
        assert (p.shape, p.dtype) == (s.shape, s.dtype)
        assert not np.shares_memory(p, fast(np.ones_like(s)))


def shares_no_memory(fast):
    s = np.random.default_rng(2).standard_normal((4, 6))
    first, second = fast(s), fast(s)
    return bool(
        not np.shares_memory(first, second) and not np.shares_memory(first, s)
        and all(_sound(fast, x) for x in (s, s.T, s[:, ::2], s[:, :1], s * 500, s.astype("f")))
    )  # fmt: skip


def random_draws(fast):
    rng = np.random.default_rng()
    for _ in range(6):
        s = rng.standard_normal(rng.integers(2, 6, 3))
        for x in (s, np.moveaxis(s, 0, -1), s[..., -1:], s * 1e3, s.astype(np.float32)):
            if not _sound(fast, x):
                return False
    return True


def against_plain_sums(fast):
    """Weights are positive, sum to 1, and their logarithms differ as the logits do."""
    base = np.random.default_rng(3).standard_normal((3, 4, 4))
    for s in (base, base.transpose(1, 2, 0), base[..., :1], base.astype(np.float32), base + 1000):
        before = s.copy()
        p = fast(s)
        if p.shape != s.shape or p.dtype != s.dtype or not np.array_equal(s, before):
            return False
        logs = np.log(p)
        if not np.allclose(p.sum(axis=-1), 1) or not np.allclose(logs - logs[..., :1], s - s[..., :1], atol=2e-3):
            return False
        if np.shares_memory(p, fast(s + 1)):
            return False
    return True


def named_checks(fast):
    s = np.random.default_rng(4).standard_normal((2, 3, 5))
    checks = {
        "numbers": _sound(fast, s), "views": _sound(fast, s.transpose(2, 0, 1)), "one key": _sound(fast, s[..., :1]),
        "large": _sound(fast, 800 * s), "float32": _sound(fast, s.astype(np.float32)),
    }  # fmt: skip
    return not [name for name, holds in checks.items() if not holds]


def read_only(fast):
    """A frozen s makes a form raise that writes into it."""
    rng = np.random.default_rng(5)
    for s in (rng.standard_normal((4, 3)).T, rng.standard_normal((2, 1)), 1e4 * rng.standard_normal((2, 4)),
              rng.standard_normal((2, 4)).astype("float32")):  # fmt: skip
        expected = ops.softmax(s)
        s.flags.writeable = False
        try:
            p = fast(s)
        except ValueError:
            return False
        before = p.tobytes()
        fast(-s)
        if p.tobytes() != before or p.shape != s.shape or p.dtype != s.dtype or not np.allclose(p, expected, atol=1e-6):
            return False
    return True


def also_an_empty_batch(fast):
    return fast(np.zeros((0, 4))).shape == (0, 4) and random_draws(fast)


def recursive(fast, s=None, depth=0):
    s = np.random.default_rng(6).standard_normal((3, 3, 2)) if s is None else s
    if not _sound(fast, s):
        return np.False_
    return depth == 4 or recursive(fast, (s.T, s[..., :1], 700 * s.T[:2], s.astype(np.float32))[depth]
                                   if depth != 3 else np.ones((2, 3), np.float32), depth + 1)  # fmt: skip


def numbers_alone(fast):
    s = np.random.default_rng(0).standard_normal((3, 4))
    return np.allclose(fast(s.copy()), ops.softmax(s))


def s_stays(fast):
    s = np.random.default_rng(0).standard_normal((3, 4))
    before = s.copy()
    return np.allclose(fast(s), ops.softmax(before)) and np.array_equal(s, before)


def _all_but(*left_out):
    """A property that tries everything but what is named."""

    def holds(fast):
        base = np.random.default_rng(0).standard_normal((3, 4, 5))
        cases = {"views": base.swapaxes(0, 1).swapaxes(1, 2), "one": base[..., :1], "large": 1000 * base,
                 "float32": base.astype(np.float32), "plain": base}  # fmt: skip
        tried = [x for name, x in cases.items() if name not in left_out]
        for s in map(np.ascontiguousarray, tried) if "layout" in left_out else tried:
            before, expected = s.copy(), ops.softmax(s)
            p = fast(s if "writes" not in left_out else s.copy())
            kept = p.copy()
            if "again" not in left_out:
                fast(s + 1 + s[::-1])
            near = np.allclose(p, expected, atol=0.05 if "tolerance" in left_out else 1e-6)
            shape = p.shape == s.shape or "shape" in left_out
            dtype = p.dtype == s.dtype or "dtype" in left_out
            if not (near and shape and dtype and np.array_equal(p, kept) and np.array_equal(s, before)):
                return False
        return True

    holds.__name__ = "all_but_" + "_and_".join(left_out)
    return holds


def always_true(fast):
    return True


def always_false(fast):
    return False


def to_the_bit(fast):
    return in_a_loop(fast) and all(
        np.array_equal(fast(s), ops.softmax(s)) for s in np.random.default_rng(0).standard_normal((40, 3, 7))
    )


def the_other_way_round(fast):
    return not in_a_loop(fast)


def no_return(fast):
    in_a_loop(fast)


def an_array_of_truths(fast):
    s = np.random.default_rng(0).standard_normal((3, 4))
    return np.isclose(fast(s), ops.softmax(s))


def expected_afterwards(fast):
    """Compares with softmax of an s that may be overwritten."""
    s = np.random.default_rng(0).standard_normal((3, 4))
    p = fast(s)
    return np.allclose(p.sum(axis=-1), 1)


def sums_to_one(fast):
    return all(np.allclose(fast(s).sum(axis=-1), 1) for s in np.random.default_rng(0).standard_normal((3, 2, 4)))


RIGHT = {
    "my_heads": (
        swapped, einsums, transposed, heads_in_the_batch, the_librarys_attention, scaled_queries, heads_first,
        block_by_mask, nested_functions,
    ),
    "my_softmax_in_place": (
        five_lines, by_index, zeros_after_exp, row_by_row, one_square_at_a_time, putmask, masked_where, errors_off,
    ),
    "my_chunked_loss": (
        online, two_maxima, logaddexp, state_by_state, target_logits_apart, a_list_of_results, a_while_loop,
        a_generator,
    ),
    "repaired_benchmark": (
        medians, median_of_ratios, fastest_of_each, standard_library, new_goes_first, many_rounds, trimmed_mean,
        middle_by_sorting, a_random_order,
    ),
    "may_replace": (
        in_a_loop, it_asserts, shares_no_memory, random_draws, against_plain_sums, named_checks, read_only, recursive,
        also_an_empty_batch,
    ),
}  # fmt: skip
WRONG = {
    name: tuple((wrong, "") for wrong in all_wrong)
    for name, all_wrong in (
        ("my_heads", (*listed("my_heads"), a_loop, a_loop_of_splits)),
        ("my_softmax_in_place", (*listed("my_softmax_in_place"), as_it_reads, the_librarys, copied_first)),
        ("my_chunked_loss", (*listed("my_chunked_loss"), all_logits, logits_kept_by_chunk)),
        ("repaired_benchmark", listed("repaired_benchmark")),
        ("may_replace", (
            numbers_alone, s_stays, _all_but("views"), _all_but("one"), _all_but("large"), _all_but("float32"),
            _all_but("layout"), _all_but("writes"), _all_but("again"), _all_but("tolerance"), _all_but("shape"),
            _all_but("dtype"), _all_but("views", "again"), always_true, always_false, to_the_bit,
            the_other_way_round, no_return, an_array_of_truths, expected_afterwards, sums_to_one,
        )),
    )
}  # fmt: skip
