"""Recurrences: the simple one, LSTM, GRU in PyTorch's form, RWKV's mean with decaying weights, scans, the delta rule."""

import math
from typing import Any

import numpy as np

from .. import oracles
from ..common import ours_of, tolerance
from ..contrast import right_up_to
from ..families import causal, linear_in
from ..property import close, demand, largest, rounding, same_bits
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject
from .efficient_attention import equal_forms

rnn = SpecBuilder("rnn")
causal(rnn, "x", hint="Which state goes into which step?")


def rnn_case(draw: CaseDrawer) -> dict[str, Any]:
    n, i, H = draw.tokens(), draw.size(), draw.size(high=4)
    x, W = draw.array(*draw.lead, n, i), draw.array(i, H, size=0.5)
    U = draw.array(H, H, size=0.5 / math.sqrt(H))               # small, so that rounding errors do not grow with n
    return {"x": x, "W": W, "U": U, "b": draw.array(H), "h0": draw.array(*draw.lead, H) if draw.flag() else None}


rnn.law("no_memory", "rounding", "without U a state depends on its token alone: tanh(x W + b)",
        lambda op, c: (op(**c(U=0 * c.U)), np.tanh(c.x @ c.W + c.b)), what="the state", hint="What else is read?")


def passes_state_on(states: SpecBuilder) -> None:
    @states("rounding", "a sequence can be cut in two, if the state is passed on", hint="Is h0 the state before the first token?")
    def handed_on(op: Subject, **case: Any) -> None:
        h, n = op(**case), case["x"].shape[-2]
        atol = 3 * tolerance(op.spec, case)
        for t in range(1, n):
            rest = op(**case | {"x": case["x"][..., t:, :].copy(), "h0": h[..., t - 1, :].copy()})
            close(rest, h[..., t:, :], atol, f"from token {t} on, the state")


passes_state_on(rnn)
rnn.law("bounded", "rounding", "a state lies within -1 and 1",
        lambda op, c: (np.all(np.abs(op(**c)) <= 1), "a state has left -1..1"), hint="Which function squashes it?")

RNN = rnn.spec(
    "h_t = tanh(x_t W + b + h_{t-1} U)",
    "rnn(x, W, U, b, h0=None) -> h: x (..., n, i), W (i, H), U (H, H), b (H,), h0 (..., H) or None for zeros, "
    "h (..., n, H)",
    case=rnn_case, outputs=("h",), wrt=("x", "W", "U", "b", "h0"),
)


lstm = SpecBuilder("lstm")
causal(lstm, "x", hint="Which state goes into which step?")


def lstm_case(draw: CaseDrawer) -> dict[str, Any]:
    n, i, H = draw.tokens(), draw.size(), draw.size(high=4)
    columns = draw.choose((4, 3)) * H
    x, W, U = draw.array(*draw.lead, n, i), draw.array(i, columns, size=0.5), draw.array(H, columns, size=0.5)
    h0, c0 = (draw.array(*draw.lead, H) if draw.flag() else None for _ in range(2))
    return {"x": x, "W": W, "U": U, "b": draw.array(columns), "h0": h0, "c0": c0}


def forgets(case: dict[str, Any]) -> bool:
    return case["U"].shape[1] == 4 * len(case["U"])


@lstm("exact", "with its input gate closed and nothing forgotten, a cell keeps its number to the last bit", "extremes",
        hint="Which term is added to the cell where i is 0, and which factor multiplies it?")
def kept(op: Subject, **case: Any) -> None:
    H, b = len(case["U"]), case["b"].copy()
    b[:H] = -1e4
    if forgets(case):
        b[H : 2 * H] = 1e4
    b[-2 * H : -H] = 1e4                                        # the output gate is open: h = tanh(c)
    c0 = np.zeros((*case["x"].shape[:-2], H), b.dtype) if case["c0"] is None else case["c0"]
    h = op(**case | {"b": b, "c0": c0})
    # every token must have the same bits, but tanh(c0) may differ by rounding: a GPU computes another tanh
    close(h[..., :1, :], np.tanh(c0)[..., None, :], rounding(b.dtype, 1, 1.0), "the state")
    same_bits(h, np.broadcast_to(h[..., :1, :], h.shape).copy(), "the state")


@lstm("rounding", "an open forget gate equals no forget gate", "extremes", hint="How is the cell updated?")
def open_gate(op: Subject, **case: Any) -> None:
    if not forgets(case):
        return
    H, b = len(case["U"]), case["b"].copy()
    b[H : 2 * H] = 1e4
    without = {name: np.concatenate([x[..., :H], x[..., 2 * H :]], axis=-1)
               for name, x in (("W", case["W"]), ("U", case["U"]), ("b", b))}  # fmt: skip
    close(op(**case | {"b": b}), op(**case | without), 3 * tolerance(op.spec, case), "the state")


LSTM = lstm.spec(
    "h = o ⊙ tanh(c), c = f ⊙ c' + i ⊙ g, with i, f, o = σ(x W + h' U + b), g = tanh(x W + h' U + b), columns of each",
    "lstm(x, W, U, b, h0=None, c0=None) -> h first: x (..., n, i), W (i, 4 H), U (H, 4 H), b (4 H,), h0 and c0 "
    "(..., H) or None for zeros, h (..., n, H)",
    "W, U and b hold the columns of i, f, o and g side by side; with 3 H columns, of i, o and g: nothing is forgotten",
    case=lstm_case, outputs=("h",), wrt=("x", "W", "U", "b", "h0", "c0"),
    forms=(
        Form("3 H columns, without a forget gate", lambda case: not forgets(case), ours=True, fatal=True),
        Form("h0 without c0", lambda case: case.get("h0") is not None and case.get("c0") is None, ours=True),
        Form("c0 without h0", lambda case: case.get("c0") is not None and case.get("h0") is None, ours=True),
    ),
    choices=("lstm gates",),
)


gru = SpecBuilder("gru")
causal(gru, "x", hint="Which state goes into which step?")


def gru_case(draw: CaseDrawer) -> dict[str, Any]:
    n, i, H = draw.tokens(), draw.size(), draw.size(high=4)
    x, W, U = draw.array(*draw.lead, n, i), draw.array(i, 3 * H, size=0.5), draw.array(H, 3 * H, size=0.5)
    h0 = draw.array(*draw.lead, H) if draw.flag() else None
    return {"x": x, "W": W, "U": U, "b": draw.array(3 * H), "c": draw.array(3 * H), "h0": h0}


@gru("exact", "with an update gate of 1 a state is copied, to the last bit", "extremes",
        hint="(1 - z) n + z h, or n + z (h - n)? Rounded, they differ.")
def copied(op: Subject, **case: Any) -> None:
    H, b, h0 = len(case["U"]), case["b"].copy(), case["h0"]
    b[H : 2 * H] = 1e4
    h0 = np.zeros((*case["x"].shape[:-2], H), b.dtype) if h0 is None else h0
    h = op(**case | {"b": b, "h0": h0})
    same_bits(h, np.broadcast_to(h0[..., None, :], h.shape).copy(), "the state")


passes_state_on(gru)
gru.law("bounded", "rounding", "a state that begins within -1 and 1 stays there",
        lambda op, c: (np.all(np.abs(op(**c(h0=None))) <= 1), "a state has left -1..1"),
        hint="It is a mean of a state and a tanh.")

GRU = gru.spec(
    "h = (1 - z) ⊙ n + z ⊙ h', r = σ(x W_r + b_r + h' U_r + c_r), z alike, n = tanh(x W_n + b_n + r ⊙ (h' U_n + c_n))",
    "gru(x, W, U, b, c, h0=None) -> h first: x (..., n, i), W (i, 3 H), U (H, 3 H), b and c (3 H,), h0 (..., H) or "
    "None for zeros, h (..., n, H)",
    "W, U, b and c hold the columns of r, z and n side by side; r acts after the product with U_n",
    case=gru_case, outputs=("h",), wrt=("x", "W", "U", "b", "c", "h0"), choices=("gru",),
)


wkv = SpecBuilder("wkv")
causal(wkv, "k", "v", hint="Which values does y_t average?")
linear_in(wkv, "v", of=lambda case: case | {"mean0": None, "size0": None})


def wkv_case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(), draw.size()
    k, v = (draw.array(*draw.lead, n, d) for _ in range(2))
    before = draw.flag()
    mean0, size0 = (draw.array(*draw.lead, d) if before else None for _ in range(2))
    return {"k": k, "v": v, "w": np.abs(draw.array(d)), "u": draw.array(d), "mean0": mean0, "size0": size0}


wkv.law("far_keys", "rounding", "adding 800 to all keys, and to the size of the past, changes nothing", lambda op, c: (
            (op(**c(k=c.k + far, size0=None if c.size0 is None else c.size0 + far)), op(**c), None,
             f"with keys moved by {far:g}, y") for far in (800.0, -800.0)
        ), "extremes", times=2400, hint="exp(800) overflows float64: which maximum is subtracted from the exponent?")


@wkv("rounding", "y is a mean: it lies between the least and the greatest value", hint="Do the weights sum to 1?")
def between(op: Subject, **case: Any) -> None:
    y, v = op(**case | {"mean0": None, "size0": None}), case["v"]
    atol = 3 * tolerance(op.spec, case)
    low, high = (f(v, axis=-2, keepdims=True) for f in (np.min, np.max))
    demand(np.all((y >= low - atol) & (y <= high + atol)), "y lies outside of the values")


@wkv("rounding", "with an infinite decay and u = 0, y mixes a token with the one before it only", "extremes",
        hint="How often has the last token's weight decayed by w when the next one reads it?")
def one_back(op: Subject, **case: Any) -> None:
    k, v = case["k"], case["v"]
    y = op(**case | {"w": np.full_like(case["w"], 1e4), "u": np.zeros_like(case["u"]), "mean0": None, "size0": None})
    share = 1 / (1 + np.exp(np.minimum(k[..., :-1, :] - k[..., 1:, :], 700)))
    expected = np.concatenate([v[..., :1, :], share * v[..., 1:, :] + (1 - share) * v[..., :-1, :]], axis=-2)
    close(y, expected, 3 * tolerance(op.spec, case), "y")


WKV = wkv.spec(
    "y_t = Σ_s p_ts v_s, p_t = softmax over s <= t of k_s - (t - 1 - s) w, and of k_t + u for s = t, channel by channel",
    "wkv(k, v, w, u, mean0=None, size0=None) -> y first: k and v (..., n, d), w (d,) >= 0, u (d,), y (..., n, d)",
    "mean0 and size0 (..., d) or None: the mean of the past, and the logarithm of its weight, at the first token",
    case=wkv_case, together=("mean0", "size0"), wrt=("k", "v", "w", "u", "mean0", "size0"),
    scale=lambda case: 10 * largest(*(x for x in case.values() if x is not None)) ** 2,
)


selective_scan = SpecBuilder("selective_scan")
causal(selective_scan, "x", "delta", "B", "C", hint="Which state does y_t read?")
for name in ("x", "B", "C"):
    linear_in(selective_scan, name, of=lambda case: case | {"h0": None, "D": np.zeros_like(case["D"])})


def selective_scan_case(draw: CaseDrawer) -> dict[str, Any]:
    n, d, N = draw.tokens(), draw.size(), draw.size(high=4)
    x, delta = draw.array(*draw.lead, n, d), np.abs(draw.array(*draw.lead, n, d))
    A, B, C = -np.abs(draw.array(N, d)), draw.array(*draw.lead, n, N), draw.array(*draw.lead, n, N)
    h0 = draw.array(*draw.lead, N, d) if draw.flag() else None
    return {"x": x, "delta": delta, "A": A, "B": B, "C": C, "D": draw.array(d), "h0": h0, "exact": draw.flag()}


selective_scan.law("no_time", "rounding", "a token with Δ = 0 reads the state and does not change it",
        lambda op, c: [] if c.h0 is None else (op(**c), c.C @ c.h0), "extremes",
        of=lambda c: c(delta=np.zeros_like(c.delta), D=np.zeros_like(c.D)), times=3,
        hint="How large are decay and input at Δ = 0?")


@selective_scan("rounding", "with equal Δ, B and C for all tokens it is a convolution", "extremes",
        hint="How much of a token remains s tokens later?")
def convolution(op: Subject, **case: Any) -> None:
    same = {name: np.broadcast_to(case[name][..., :1, :], case[name].shape).copy() for name in ("delta", "B", "C")}
    y, n = op(**case | same | {"h0": None}), case["x"].shape[-2]
    x, delta, A, B, C, D = (np.asarray((case | same)[a], float) for a in ("x", "delta", "A", "B", "C", "D"))
    z = delta[..., :1, :] * A                                   # (..., N, d)
    held = np.where(z == 0, 1, np.expm1(z) / np.where(z == 0, 1, z))       # φ(z) = (exp(z) - 1) / z, and 1 at 0
    width = delta[..., :1, :] * (held if case["exact"] else 1)
    kernel = [np.sum(C[..., 0, :, None] * np.exp(s * z) * width * B[..., 0, :, None], axis=-2) for s in range(n)]
    expected = D * x
    for t in range(n):
        for s in range(t + 1):
            expected[..., t, :] += kernel[t - s] * x[..., s, :]
    close(y, expected, rounding(y.dtype, 10 * y.size * n, SELECTIVE_SCAN.scale(case)), "y")


SELECTIVE_SCAN = selective_scan.spec(
    "y_t = C_t h_t + D ⊙ x_t, h_t = exp(Δ_t A) ⊙ h_{t-1} + B_tᵀ (Δ_t ⊙ x_t); exact: the last term ⊙ φ(Δ_t A), φ(z) = (eᶻ - 1)/z",
    "selective_scan(x, delta, A, B, C, D, h0=None, exact=False) -> y first: x and delta (..., n, d), A (N, d), "
    "B and C (..., n, N), D (d,), h0 (..., N, d) or None for zeros, y (..., n, d)",
    "delta >= 0 and A <= 0; φ(0) = 1",
    case=selective_scan_case, wrt=("x", "delta", "A", "B", "C", "D", "h0"),
    scale=lambda case: 10 * largest(*(x for x in case.values() if isinstance(x, np.ndarray))) ** 4, choices=("A",),
)


delta_rule = SpecBuilder("delta_rule")
# later keys may be long: a small rate keeps the state from growing
causal(delta_rule, "q", "k", "v", of=lambda case: case | {"beta": case["beta"] / case["beta"].dtype.type(200)},
       hint="Which state does y_t read?")  # fmt: skip
for name in ("q", "v"):
    linear_in(delta_rule, name, of=lambda case: case | {"S0": None})


def delta_rule_case(draw: CaseDrawer) -> dict[str, Any]:
    n, N, d = draw.tokens(), draw.size(high=4), draw.size(high=4)
    q, v = draw.array(*draw.lead, n, N), draw.array(*draw.lead, n, d)
    a = -np.abs(draw.array(*draw.lead, n)) if draw.flag() else None
    S0 = draw.array(*draw.lead, N, d) if draw.flag() else None
    beta = np.minimum(np.abs(draw.array(*draw.lead, n, size=0.7)), 2)
    return {"q": q, "k": _unit(draw.array(*draw.lead, n, N)), "v": v, "beta": beta.astype(q.dtype), "a": a, "S0": S0,
            "chunk": draw.choose((16, 1, 3))}  # fmt: skip


def _unit(k: np.ndarray) -> np.ndarray:
    """Keys of length 1; a key of zeros becomes the first unit vector."""
    k = np.where(np.any(k, axis=-1, keepdims=True), k, np.eye(1, k.shape[-1], dtype=k.dtype)[0])
    return (k / np.sqrt(np.sum(k * k, axis=-1, keepdims=True))).astype(k.dtype)


delta_rule.law("replaces", "rounding",
        "with β = 1 a query that is the token's key reads the token's value, whatever the state was before",
        lambda op, c: (op(**c), c.v), of=lambda c: c(q=_unit(c.k), k=_unit(c.k), beta=np.ones_like(c.beta)), times=3,
        hint="What is written: the value, or its difference from what the key reads now? After the decay, or before?")
delta_rule.law("writes_nothing", "rounding", "with β = 0 nothing is written: y_t reads what is left of S0",
        lambda op, c: (
            y := op(**c(beta=np.zeros_like(c.beta))),
            np.zeros(y.shape) if c.S0 is None else (c.q @ c.S0).astype(float) * (
                1.0 if c.a is None else np.exp(np.cumsum(c.a.astype(float), axis=-1))[..., None]
            ),
        ), "extremes", times=3, hint="Which terms does β multiply?")


@delta_rule("rounding", "with orthogonal keys it is linear attention: values weighted by β q · k, and decayed",
        hint="How often has a value decayed when it is read?")
def orthogonal_keys(op: Subject, **case: Any) -> None:
    v, n = case["v"], case["v"].shape[-2]
    k = np.broadcast_to(np.eye(n, dtype=v.dtype), (*v.shape[:-2], n, n))
    q = np.resize(case["q"], k.shape).astype(v.dtype)
    g = np.zeros(v.shape[:-1]) if case["a"] is None else np.cumsum(np.asarray(case["a"], float), axis=-1)
    w = np.tril(np.exp(np.minimum(g[..., :, None] - g[..., None, :], 0))) * q * case["beta"][..., None, :]
    close(op(**case | {"q": q, "k": k.copy(), "S0": None}), w @ v, 3 * tolerance(op.spec, case), "y")


equal_forms(delta_rule, (1, 2, 5, 64), hint="What does a chunk's first token find in the state?", argument="chunk",
            says="chunks of any length give equal results", atol=lambda spec, case: 3 * tolerance(spec, case))
DELTA_RULE = delta_rule.spec(
    "y_t = q_t S_t, S_t = S' + β_t k_tᵀ (v_t - k_t S'), S' = exp(a_t) S_{t-1}",
    "delta_rule(q, k, v, beta, a=None, S0=None, chunk=16) -> y first: q and k (..., n, N), v (..., n, d), "
    "beta (..., n), S0 (..., N, d) or None for zeros, y (..., n, d)",
    "a (..., n), at most 0, is the decay's logarithm, or None for no decay; keys have length 1, and β is at most 2",
    case=delta_rule_case, wrt=("q", "k", "v", "beta", "a", "S0"),
    scale=lambda case: 10 * case["k"].shape[-2] * largest(*(x for x in case.values() if isinstance(x, np.ndarray))) ** 2,
)


associative_scan = SpecBuilder("associative_scan")
FORMS = ("sequential", "chunked", "doubling", "tree")
causal(associative_scan, "a", "b", hint="Which tokens does h_t depend on?")
linear_in(associative_scan, "b", of=lambda case: case | {"h0": None})
equal_forms(associative_scan, FORMS, hint="How do two tokens in a row change a state?", atol=lambda spec, case: 3 * tolerance(spec, case))


def associative_scan_case(draw: CaseDrawer) -> dict[str, Any]:
    n, d = draw.tokens(high=11), draw.size(high=4)
    a, b = draw.array(*draw.lead, n, d), draw.array(*draw.lead, n, d)
    h0 = draw.array(*draw.lead, d) if draw.flag() else None
    return {"a": np.asarray(a / 2, a.dtype), "b": b, "h0": h0, "form": draw.choose(FORMS)}


@associative_scan("rounding", "a scan can continue from its last state", "extremes", hint="Which decays multiply h0?")
def goes_on(op: Subject, **case: Any) -> None:
    half = case["a"].shape[-2] // 2
    if not half:
        return
    early, late = ({x: case[x][..., part, :] for x in "ab"} for part in (slice(half), slice(half, None)))
    h0 = op(**case | early)[..., -1, :].copy()
    close(op(**case | late | {"h0": h0}), op(**case)[..., half:, :], 3 * tolerance(op.spec, case), "h")


def _scale(case: dict[str, Any]) -> float:
    """A bound on the states."""
    h0 = None if case["h0"] is None else np.abs(case["h0"])
    return 1 + float(np.max(oracles.associative_scan(np.abs(case["a"]), np.abs(case["b"]), h0), initial=0))


def associative_scan_remark(op: Subject, **_: Any) -> str:
    """The largest number of tokens for which it is right, where longer sequences are wrong."""
    a, b = np.random.default_rng(0).standard_normal((2, 513, 3))

    def right(n: int) -> bool:
        case = op.fit({"a": a[:n] / 2, "b": b[:n], "h0": None, "form": "tree"})
        return bool(np.allclose(op(**case), ours_of(ASSOCIATIVE_SCAN, case)[0], rtol=0, atol=1e-6))

    tokens = right_up_to(right)
    if tokens is None:
        return ""
    return f"Yours is right for {tokens[0]} tokens, and wrong for {tokens[1]}: (a, b), then (a', b'), is (a a', a' b + b')."


ASSOCIATIVE_SCAN = associative_scan.spec(
    "h_t = a_t ⊙ h_{t-1} + b_t",
    "associative_scan(a, b, h0=None, form='tree') -> h: a and b (..., n, d), h0 (..., d) or None for zeros, "
    "h (..., n, d)",
    case=associative_scan_case, outputs=("h",), wrt=("a", "b", "h0"), scale=_scale, remark=associative_scan_remark,
)
