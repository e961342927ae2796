"""Recurrences beyond their specs: PyTorch's LSTM, chunks of every size, long sequences, going on, what is refused."""

import math
from importlib import import_module

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import gradcheck, oracles
from tinyattn.ops.recurrence import time


def scanned(rng, lead, n, d=3, N=2):
    """x, delta, A, B, C, D, h0."""
    x, delta = rng.standard_normal((*lead, n, d)), rng.exponential(size=(*lead, n, d))
    B, C = (rng.standard_normal((*lead, n, N)) for _ in range(2))
    return [x, delta, -rng.exponential(size=(N, d)), B, C, rng.standard_normal(d), rng.standard_normal((*lead, N, d))]


def keyed(rng, lead, n, d=3):
    """k, v, w, u, mean0, size0."""
    k, v = (rng.standard_normal((*lead, n, d)) for _ in range(2))
    mean0, size0 = (rng.standard_normal((*lead, d)) for _ in range(2))
    return [k, v, rng.exponential(size=d), rng.standard_normal(d), mean0, size0]


def written(rng, lead, n, N=4, d=3):
    """q, k of length 1, v, beta, a, S0."""
    q, k = rng.standard_normal((2, *lead, n, N))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v, beta, a = rng.standard_normal((*lead, n, d)), rng.uniform(0, 2, (*lead, n)), -rng.exponential(size=(*lead, n))
    return [q, k, v, beta, a, rng.standard_normal((*lead, N, d))]


@pytest.fixture(params=[1, 40, 10**6], ids=["one chunk", "a few", "many"])
def chunks(request, monkeypatch):
    """Numbers a step: how many chunks go side by side. And a piece, which has several steps of them."""
    wkv, scan = (import_module(f"tinyattn.ops.recurrence.{name}") for name in ("wkv", "selective_scan"))
    monkeypatch.setattr(wkv, "MOST", request.param)
    monkeypatch.setattr(scan, "ON_HOST", (request.param, 1))
    monkeypatch.setattr(scan, "ON_DEVICE", (request.param, 10**9))


@pytest.mark.parametrize("lead", [(), (2,), (0,)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 8, 19, 40])
def test_chunks_side_by_side_are_one_sequence(n, lead, chunks, rng):
    for op, oracle, given in ((ops.wkv, oracles.wkv, keyed(rng, lead, n)),
                              (ops.selective_scan, oracles.selective_scan, scanned(rng, lead, n))):  # fmt: skip
        np.testing.assert_allclose(op(*given)[0], oracle(*given), rtol=0, atol=1e-12)
        if n and not lead:
            assert gradcheck(op, getattr(ops, f"{op.__name__}_backward"), *given)


@pytest.mark.parametrize("n", [0, 7, 8, 100, 1003])
@pytest.mark.parametrize("sizes", [(1,), (50,), (10**9,), (1, 1), (50, 1), (50, 2000), (10**9, 10**9)], ids=str)
def test_spans_are_all_of_the_tokens(n, sizes):
    found = list(time.spans(n, 5, *sizes))
    assert [t for span, *_ in found for t in range(span.start, span.stop)] == list(range(n))
    assert all(span.stop - span.start == count * chunks * length for span, count, chunks, length in found)
    assert all(length >= time.SHORTEST for _, _, chunks, length in found if chunks > 1)
    assert all(5 * chunks <= max(5, sizes[0]) for _, _, chunks, _ in found)
    assert len(sizes) > 1 or all(count == 1 for _, count, _, _ in found)
    x = np.arange(2 * n * 3).reshape(2, n, 3)
    for span, count, chunks, length in found:
        first = time.steps_first(x, span, count, chunks)
        assert first.shape == (count, length, chunks, 2, 3)
        np.testing.assert_array_equal(time.steps_last(first), x[:, span])


class Counted:
    """A number that knows after how many multiplications in a row it is there."""

    added = 0

    def __init__(self, depth=0):
        self.depth = depth

    def __mul__(self, other):
        return Counted(1 + max(self.depth, other.depth))

    def __add__(self, other):
        Counted.added += 1
        return Counted(max(self.depth, other.depth))


@pytest.mark.host
@pytest.mark.parametrize("n", [4, 16, 64])
def test_steps_and_combinations_of_a_scan_are_those_of_its_table(n):
    log, root = n.bit_length() - 1, math.isqrt(n)
    table = {"sequential": (n - 1, n - 1), "chunked": (2 * root - 2, 2 * n - 2 * root),
             "doubling": (log, n * log - n + 1), "tree": (2 * log - 2, 2 * n - 2 - log)}  # fmt: skip
    module = import_module("tinyattn.ops.recurrence.associative_scan")
    assert set(table) == set(module.FORMS)
    for form, expected in table.items():
        a, b = (np.array([[Counted()] for _ in range(n)]) for _ in range(2))
        Counted.added = 0
        h = module.FORMS[form](a, b)
        assert (max(x.depth for x in h[:, 0]), Counted.added) == expected


@pytest.mark.parametrize("form", ["sequential", "chunked", "doubling", "tree"])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 16, 37])
def test_brackets_of_a_scan_may_be_set_in_any_way(n, form, rng):
    a, b, dh = (rng.standard_normal((2, n, 3)) for _ in range(3))
    h0 = rng.standard_normal((2, 3))
    h = ops.associative_scan(a, b, h0, form)
    np.testing.assert_allclose(h, oracles.associative_scan(a, b, h0), rtol=1e-12, atol=1e-12)
    found = ops.associative_scan_backward(dh, a, h, h0, form)
    for mine, other in zip(found, ops.associative_scan_backward(dh, a, h, h0, "sequential"), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)
    assert ops.associative_scan_backward(dh, a, h, None, form)[2] is None       # there was no h0
    if n:
        assert gradcheck(ops.associative_scan, ops.associative_scan_backward, a, b, h0, form)


@pytest.mark.parametrize("form", ["sequential", "chunked", "doubling", "tree"])
@pytest.mark.parametrize("exact", [False, True])
def test_a_selective_scan_is_an_associative_one_of_all_its_states(exact, form, rng, chunks):
    """As one writes it down: decays and inputs of each state, their scan, and what is read of it; and the way back."""
    x, delta, A, B, C, D, h0 = scanned(rng, (2,), 19)
    phi = lambda z: np.expm1(z) / z if exact else np.ones_like(z)  # noqa: E731
    slope = lambda z: (np.exp(z) - phi(z)) / z if exact else np.zeros_like(z)  # noqa: E731
    z, written = delta[:, :, None] * A, B[..., None] * (delta * x)[:, :, None]
    a, b = np.exp(z), phi(z) * written
    flat = lambda s: s.reshape(*s.shape[: s.ndim - 2], -1)  # noqa: E731
    h = ops.associative_scan(flat(a), flat(b), flat(h0), form).reshape(a.shape)
    y, states = ops.selective_scan(x, delta, A, B, C, D, h0, exact)
    np.testing.assert_allclose(np.einsum("bti,btij->btj", C, h) + D * x, y, rtol=0, atol=1e-12)
    np.testing.assert_allclose(states.by_token(), h, rtol=0, atol=1e-12)
    dy = np.cos(y)
    dh = C[..., None] * dy[:, :, None]
    da, db, dh0 = ops.associative_scan_backward(flat(dh), flat(a), flat(h), flat(h0), form)
    da, db = da.reshape(a.shape), db.reshape(a.shape)
    dz, dwritten = da * a + db * written * slope(z), db * phi(z)
    dproduct = np.einsum("bti,btij->btj", B, dwritten)                         # of Δ x
    expected = (
        D * dy + delta * dproduct,
        np.einsum("btij,ij->btj", dz, A) + x * dproduct,
        np.einsum("btij,btj->ij", dz, delta),
        np.einsum("btij,btj->bti", dwritten, delta * x),
        np.einsum("btij,btj->bti", h, dy),
        np.einsum("btj,btj->j", dy, x),
        dh0.reshape(h0.shape),
    )
    found = ops.selective_scan_backward(dy, x, delta, A, B, C, D, states, h0, exact)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-11)


def test_what_follows_goes_on_from_the_state(rng):
    x, delta, A, B, C, D, h0 = scanned(rng, (2,), 20)
    y, states = ops.selective_scan(x, delta, A, B, C, D, h0)
    _, early = ops.selective_scan(x[:, :9], delta[:, :9], A, B[:, :9], C[:, :9], D, h0)
    late, _ = ops.selective_scan(x[:, 9:], delta[:, 9:], A, B[:, 9:], C[:, 9:], D, early.last)
    np.testing.assert_allclose(late, y[:, 9:], rtol=0, atol=1e-13)
    by_token = states.by_token()
    np.testing.assert_allclose(by_token[:, 8], early.last, rtol=0, atol=1e-13)
    np.testing.assert_allclose((C[..., None, :] @ by_token)[..., 0, :] + D * x, y, rtol=0, atol=1e-13)
    k, v, w, u, mean0, size0 = keyed(rng, (2,), 20)
    y, mean, size = ops.wkv(k, v, w, u, mean0, size0)
    late, *_ = ops.wkv(k[:, 9:], v[:, 9:], w, u, mean[:, 8], size[:, 8])
    np.testing.assert_allclose(late, y[:, 9:], rtol=0, atol=1e-13)


def test_no_states_of_no_tokens(rng):
    x, delta, A, B, C, D, h0 = scanned(rng, (2,), 0)
    assert ops.selective_scan(x, delta, A, B, C, D, h0)[1].by_token().shape == (2, 0, 2, 3)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 19])
def test_a_recurrence_is_its_matrix_times_the_values(n, lead, rng):
    """Lower triangular, channel by channel; weights of a mean, where it is one."""
    k, v, w, u, *_ = keyed(rng, lead, n)
    x, delta, A, B, C, D, _ = scanned(rng, lead, n)
    delta[..., :1, :] = 0  # no time at all
    A[0, 0] = 0  # a state that never decays
    for atol, dtype in ((1e-12, np.float64), (1e-4, np.float32)):
        k_, v_, w_, u_, x_, *of_scan = (a.astype(dtype) for a in (k, v, w, u, x, delta, A, B, C, D))
        weights = ops.wkv_weights(k_, w_, u_)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=atol)
        made = [(weights, v_, ops.wkv(k_, v_, w_, u_)[0])]
        for exact in (False, True):
            y = ops.selective_scan(x_, *of_scan, exact=exact)[0]
            made.append((ops.scan_matrix(*of_scan, exact=exact), x_, y))
        for M, values, y in made:
            assert (M.shape, M.dtype) == ((*lead, 3, n, n), dtype)
            np.testing.assert_array_equal(M, np.tril(M))
            product = (M @ values.swapaxes(-1, -2)[..., None])[..., 0].swapaxes(-1, -2)
            np.testing.assert_allclose(product, y, rtol=0, atol=atol)


@pytest.mark.parametrize("lead", [(), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 19])
@pytest.mark.parametrize("gated", [True, False])
def test_the_delta_rule_in_three_forms(n, lead, gated, rng):
    """Token after token, in chunks that do and do not divide the sequence, and as a matrix of all tokens."""
    q, k, v, beta, a, S0 = written(rng, lead, n)
    a = a if gated else None
    y, states = ops.delta_rule(q, k, v, beta, a, S0, 1)
    np.testing.assert_allclose(y, oracles.delta_rule(q, k, v, beta, a, S0), rtol=0, atol=1e-12)
    gradients = ops.delta_rule_backward(np.cos(y), q, k, v, beta, states, a, S0, 1)
    for chunk in (2, 5, 16, 100):
        found, states = ops.delta_rule(q, k, v, beta, a, S0, chunk)
        np.testing.assert_allclose(found, y, rtol=0, atol=1e-12)
        back = ops.delta_rule_backward(np.cos(y), q, k, v, beta, states, a, S0, chunk)
        for mine, other in zip(back, gradients, strict=True):
            assert mine is None or mine.shape == other.shape
            assert mine is other is None or np.allclose(mine, other, rtol=0, atol=1e-11)
        if n and not lead:
            assert gradcheck(ops.delta_rule, ops.delta_rule_backward, q, k, v, beta, a, S0, chunk)
    M = ops.delta_matrix(q, k, beta, a)
    np.testing.assert_array_equal(M, np.tril(M))
    np.testing.assert_allclose(M @ v, ops.delta_rule(q, k, v, beta, a)[0], rtol=0, atol=1e-12)


def test_a_delta_rule_goes_on_from_its_state_and_replaces_where_linear_attention_adds(rng):
    q, k, v, beta, a, S0 = written(rng, (2,), 20)
    y, states = ops.delta_rule(q, k, v, beta, a, S0)
    early = ops.delta_rule(q[:, :9], k[:, :9], v[:, :9], beta[:, :9], a[:, :9], S0)[1].last
    late, end = ops.delta_rule(q[:, 9:], k[:, 9:], v[:, 9:], beta[:, 9:], a[:, 9:], early)
    np.testing.assert_allclose(late, y[:, 9:], rtol=0, atol=1e-13)
    np.testing.assert_allclose(end.last, states.last, rtol=0, atol=1e-13)
    once = np.repeat(k[:, :1], 20, axis=1)                                # one key: the state has the last value alone
    y, _ = ops.delta_rule(once, once, v, np.ones_like(beta))
    np.testing.assert_allclose(y, v, rtol=0, atol=1e-12)


def test_long_chunks_of_equal_keys_and_fast_decays_stay_exact(rng):
    """A product of powers of A would cancel here: its entries are as large as binomials."""
    v, ones = rng.standard_normal((1, 300, 2)), np.ones((1, 300))
    k = np.ones((1, 300, 1))
    np.testing.assert_allclose(ops.delta_rule(k, k, v, ones, chunk=300)[0], v, rtol=0, atol=1e-11)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for far in (-1e3, -1e30):
            y, states = ops.delta_rule(k, k, v, ones / 2, far * ones, np.ones((1, 1, 2)))
            np.testing.assert_allclose(y, v / 2, rtol=0, atol=1e-12)
            back = ops.delta_rule_backward(v, k, k, v, ones / 2, states, far * ones, np.ones((1, 1, 2)))
            assert all(np.all(np.isfinite(g)) for g in back)


def test_what_is_not_said_of_the_input_is_said_alike(rng):
    """The matrix and the scan have the same default."""
    x, delta, A, B, C, D, _ = scanned(rng, (), 7)
    product = ops.scan_matrix(delta, A, B, C, D) @ x.swapaxes(-1, -2)[..., None]
    y, _ = ops.selective_scan(x, delta, A, B, C, D)
    np.testing.assert_allclose(product[..., 0].swapaxes(-1, -2), y, rtol=0, atol=1e-12)


def test_weights_know_differences_of_keys_alone(rng):
    """Steep keys as well: of what came by with a far larger one, all weight is there."""
    k, v, w, u, *_ = keyed(rng, (2,), 12)
    weights = ops.wkv_weights(k, w, u)
    for far in (800.0, -800.0):
        np.testing.assert_allclose(ops.wkv_weights(k + far, w, u), weights, rtol=0, atol=1e-11)
    steep = k - 800 * np.arange(12.0)[:, None]
    np.testing.assert_allclose(ops.wkv_weights(steep, w, u)[..., 0], 1, rtol=0, atol=1e-11)
    product = ops.wkv_weights(-steep, w, u) @ v.swapaxes(-1, -2)[..., None]
    np.testing.assert_allclose(product[..., 0].swapaxes(-1, -2), ops.wkv(-steep, v, w, u)[0], rtol=0, atol=1e-11)


def test_a_matrix_shows_what_a_token_chose(rng):
    """A token without time writes nothing and takes nothing away; after one that lasts, nothing of before is left."""
    _, delta, A, B, C, D, _ = scanned(rng, (), 9)
    delta[4], delta[6] = 0, 1e9
    M = ops.scan_matrix(delta, A, B, C, 0 * D)
    assert not M[:, :, 4].any()
    assert not M[:, 6:, :6].any()
    assert np.all(M[:, 5, :4] != 0)
    C[5] = C[3]
    delta[5] = 0
    np.testing.assert_array_equal(ops.scan_matrix(delta, A, B, C, 0 * D)[:, 5], M[:, 3])


def test_slopes_of_a_held_input_join(rng):
    """φ' by its series and by its formula, where one hands over to the other, against differences of φ."""
    module = import_module("tinyattn.ops.recurrence.selective_scan")
    z = np.concatenate([-np.geomspace(1e-9, 30, 60), [0.0], np.geomspace(1e-9, 3, 20)])
    h = 1e-4
    difference = (module._phi(z + h) - module._phi(z - h)) / (2 * h)
    np.testing.assert_allclose(module._phi_slope(z), difference, rtol=0, atol=1e-7)


@pytest.mark.host
def test_it_is_pytorchs_lstm(rng):
    torch = pytest.importorskip("torch")
    i, H = 3, 4
    x, W, U = (rng.standard_normal(shape) for shape in ((5, 7, i), (i, 4 * H), (H, 4 * H)))
    b, h0, c0 = (rng.standard_normal(shape) for shape in ((4 * H,), (5, H), (5, H)))
    order = [*range(2 * H), *range(3 * H, 4 * H), *range(2 * H, 3 * H)]        # theirs: i, f, g, o
    module = torch.nn.LSTM(i, H, batch_first=True, dtype=torch.float64)
    theirs = dict(module.named_parameters())
    for name, a in (("weight_ih_l0", W.T), ("weight_hh_l0", U.T), ("bias_ih_l0", b), ("bias_hh_l0", 0 * b)):
        theirs[name].data = torch.tensor(np.ascontiguousarray(a[order]))
    inputs = [torch.tensor(a, requires_grad=True) for a in (x, h0[None], c0[None])]
    y, (_, last) = module(inputs[0], (inputs[1], inputs[2]))
    h, *saved = ops.lstm(x, W, U, b, h0, c0)
    np.testing.assert_allclose(h, y.detach().numpy(), rtol=0, atol=1e-13)
    torch.autograd.backward([y, last], [torch.tensor(np.cos(h)), torch.tensor(np.sin(h[None, :, -1]))])
    dc = np.zeros_like(h)
    dc[:, -1] = np.sin(h[:, -1])
    dx, dW, dU, db, dh0, dc0 = ops.lstm_backward(np.cos(h), x, W, U, h, *saved, h0, c0, dc=dc)
    for mine, tensor in zip((dx, dh0[None], dc0[None]), inputs, strict=True):
        np.testing.assert_allclose(mine, tensor.grad.numpy(), rtol=0, atol=1e-12)
    for mine, name in ((dW.T, "weight_ih_l0"), (dU.T, "weight_hh_l0"), (db, "bias_ih_l0")):
        np.testing.assert_allclose(mine[order], theirs[name].grad.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("columns", [12, 9], ids=["forget gate", "without"])
def test_who_reads_the_cells_of_an_lstm_gives_them_a_gradient(columns, rng):
    shapes = ((2, 4, 2), (2, columns), (3, columns), (columns,), (2, 3), (2, 3))
    given = [rng.standard_normal(shape) for shape in shapes]

    def backward(dh, dc, x, W, U, h, c, gates, h0, c0):
        return ops.lstm_backward(dh, x, W, U, h, c, gates, h0, c0, dc=dc)

    assert gradcheck(ops.lstm, backward, *given)


def test_refused(rng):
    x, W, U, b = (rng.standard_normal(shape) for shape in ((2, 5, 3), (3, 16), (4, 16), (16,)))
    with pytest.raises(ValueError, match=r"lstm: U has shape \(3, 16\), expected \(H, 4 H\), or \(H, 3 H\)"):
        ops.lstm(x, W, U[:3], b)
    h, *saved = ops.lstm(x, W, U, b)
    with pytest.raises(ValueError, match="lstm_backward: dc has shape"):
        ops.lstm_backward(h, x, W, U, h, *saved, dc=h[:, 1:])
    with pytest.raises(ValueError, match=r"rnn: U has shape \(4, 16\), expected \(H, H\), H >= 1"):
        ops.rnn(x, W, U, b)
    for op, biases in ((ops.lstm, 1), (ops.gru, 2), (ops.rnn, 1)):
        with pytest.raises(ValueError, match=rf"{op.__name__}: U has shape \(0, 0\), expected \(H, .*H >= 1"):
            op(x, W[:, :0], U[:0, :0], *[b[:0]] * biases)
    for N, d in ((0, 3), (2, 0)):
        given = (x[..., :d], x[..., :d], U[:N, :d], x[..., :N], x[..., :N], b[:d])
        with pytest.raises(ValueError, match=rf"selective_scan: A has shape \({N}, {d}\), .*, N and d >= 1"):
            ops.selective_scan(*given)
    with pytest.raises(ValueError, match="form is 'sideways', expected one of sequential, chunked, doubling, tree"):
        ops.associative_scan(x, x, None, "sideways")
    with pytest.raises(ValueError, match="associative_scan: h0 has shape"):
        ops.associative_scan(x, x, x)
    with pytest.raises(ValueError, match="wkv: v has shape"):
        ops.wkv(x, x[:, :4], b[:3], b[:3])
    with pytest.raises(ValueError, match="wkv: mean0 is given and size0 is not, expected both or neither"):
        ops.wkv(x, x, b[:3], b[:3], mean0=x[:, 0])
    with pytest.raises(ValueError, match="wkv: size0 is given and mean0 is not, expected both or neither"):
        ops.wkv(x, x, b[:3], b[:3], size0=x[:, 0])
    with pytest.raises(ValueError, match="selective_scan: C has shape"):
        ops.selective_scan(x, x, U[:3, :3], x, x[..., :2], b[:3])
    with pytest.raises(ValueError, match=r"wkv_weights: w has shape \(4,\), expected"):
        ops.wkv_weights(x, b[:4], b[:3])
    with pytest.raises(ValueError, match="delta_rule: chunk is 0, expected at least 1"):
        ops.delta_rule(x, x, x, x[..., 0], chunk=0)
    with pytest.raises(ValueError, match=r"delta_rule: beta has shape \(2, 5, 3\), expected"):
        ops.delta_rule(x, x, x, x)
    with pytest.raises(TypeError, match="scan_matrix: C is float32 where the others are float64"):
        ops.scan_matrix(x, U[:3, :3], x, x.astype("f"), b[:3])
