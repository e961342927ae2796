"""A trace shows what was computed, under the names it has in the source, and changes nothing of it."""

import functools
import itertools
import linecache
import sys
import threading
from html.parser import HTMLParser
from typing import NamedTuple

import numpy as np
import pytest

from tests.covering import covering
from tests.models.worlds import few_negatives, uneven
from tests.strict import StrictArray, strict
from tinyattn import backend, layers, ops
from tinyattn.check.binding import asked_of, bind
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.specs import SPECS
from tinyattn.data import Sampler
from tinyattn.forms import is_readable, readable
from tinyattn.layers import BLOCK_FORMS, MECHANISMS, MIXERS, Block
from tinyattn.models import GRU4RecNetwork, SASRecNetwork
from tinyattn.ops import attention, attention_backward, softmax
from tinyattn.show import recorder, trace
from tinyattn.tree import Rows, flatten, leaves, tree_map

R = np.random.default_rng(0)


def noisy(p):
    return tree_map(lambda x: x + 0.3 * R.standard_normal(x.shape), p)


X, IDS = R.standard_normal((2, 3, 4)), np.array([[1, 0, 2], [2, 2, 4]])
Q, K, V = R.standard_normal((3, 4)), R.standard_normal((5, 4)), R.standard_normal((5, 2))
MASK = np.tri(3, 5, 2, dtype=bool)
PLACES = np.arange(3)[None]
LONG = np.random.default_rng(5).standard_normal((70, 3))  # of several chunks
HEADS = {"heads": 2, "mask": np.tri(3, dtype=bool), "rate": 0.3}


def richest(spec):
    """Of the cases in float64 that a spec draws, the one with the most arguments."""
    draws = [CaseDrawer.seeded(seed, ((2,),)) for seed in range(20)]
    cases = [spec.case(draw) for draw in draws if draw.dtype == np.float64]
    return max(cases, key=lambda case: sum(x is not None for x in case.values()))


# What every op and layer is called with: what its spec draws, and where there is none, or cases must be long, what
# stands here; one that is missing fails the test below.
CALLS = {spec.function: ((), richest(spec)) for spec in SPECS.values() if spec.ours() is ops} | {
    "alibi": ((3, 4, 2, X), {}),
    "causal_mask": ((3, X), {}),
    "causal_sum": ((LONG, LONG, LONG[:, :2]), {}),
    "dense_weights": (
        ((R.random((2, 1, 2, 1)),), ops.BlockLayout(2, 2, (ops.Blocks(PLACES[:, :2], PLACES[:, :1]),))),
        {},
    ),
    "convolving_attention": ((R.standard_normal((2, 3, 2)), R.standard_normal((3, 3, 2, 1)), 2.0), {}),
    "delta_matrix": ((X, X, X[..., 0] ** 2, -(X[..., 1] ** 2)), {}),
    "distance_buckets": ((3, 4, X, 4, 9), {}),
    "keep_mask": ((np.random.default_rng(0), (2, 5), 0.5), {}),
    "linear_attention": ((LONG, LONG**2, LONG[:, :2]), {"keys": R.random(70) < 0.7}),
    "linear_weights": ((Q, K), {"causal": False}),
    "relative_index": ((2, X), {}),
    "orthogonal_features": ((np.random.default_rng(0), 5, 3), {}),
    "performer_attention": ((LONG, LONG**2, LONG[:, :2], LONG[:4]), {"keys": R.random(70) < 0.7}),
    "performer_weights": ((Q, K, V.T @ K), {"causal": False}),
    "pointwise_weights": ((Q @ K.T, MASK), {}),
    "positive_features": ((Q, K), {}),
    "quadratic_bias": ((2, 3, [(0, 0), (-1, 1)], 2.0, X), {}),
    "rotary_speeds": ((4, X, 9.0, "yarn", 2.0, 50), {}),
    "rotary_tables": ((np.arange(3), 4, np.float64), {}),
    "scan_matrix": ((X**2, -(K[:2] ** 2), X[..., :2], X[..., 2:], X[0, 0], True), {}),
    "sigmoid": ((X,), {}),
    "sinusoids": ((np.arange(3), 5, np.float64), {}),
    "time_buckets": ((np.array([[1.0, 9.0, 70.0]]), 8), {}),
    "sum_rows": ((IDS, R.standard_normal((2, 3, 2)), np.zeros((5, 2))), {}),
    "window_attention": ((LONG, LONG**2, LONG[:, :2], 3), {"keys": R.random(70) < 0.7}),
    "wkv_weights": ((X, X[0, 0] ** 2, X[0, 1]), {}),
    "window_weights": ((R.random((2, 5, 5)), 8), {}),
    "dense": ((noisy(layers.dense_init(R, 4, 3)), X), {}),
    "dropout_mask": ((X, X.shape, 0.5, np.random.default_rng(0)), {}),
    "dropped": ((X, 0.5, np.random.default_rng(0)), {}),
    "feed_forward": ((noisy(layers.feed_forward_init(R, 4, 5)), X), {"rate": 0.3, "rng": np.random.default_rng(1)}),
    "multi_head_attention": (
        (noisy(layers.multi_head_init(R, 4)), X, X),
        {**HEADS, "rng": np.random.default_rng(1)},
    ),
    "norm": ((noisy(layers.norm_init(4)), X), {}),
    "gather_rows": ((X, np.array([2, 0])), {}),
}
BY_NAME = {name: getattr(ops if hasattr(ops, name) else layers, name) for name in CALLS}
for form in BLOCK_FORMS:
    block = layers.Block(layers.MultiHead(2), form, feed_forward=layers.FeedForward(5), rate=0.3)
    BY_NAME[form] = block.forward
    CALLS[form] = ((noisy(block.init(R, 4)), X), {"mask": HEADS["mask"], "rng": np.random.default_rng(1)})
NO_ARITHMETIC = {"as_mask", "paired", "window_shape", "shifted_windows", "glorot", "kernel_shifts", "nbytes"}


def opposite(name):
    forward = BY_NAME[name]
    if hasattr(forward, "__self__"):
        return forward.__self__.backward
    return vars(sys.modules[forward.__module__]).get(f"{forward.__name__}_backward")


BOTH_WAYS = [name for name in CALLS if opposite(name)]


def fresh(name):
    """The call's arguments, with generators that have drawn nothing yet."""
    again = {np.random.Generator: lambda _: np.random.default_rng(1)}
    args, kwargs = CALLS[name]
    return tuple(again.get(type(a), lambda a: a)(a) for a in args), {
        k: again.get(type(a), lambda a: a)(a) for k, a in kwargs.items()
    }


def arrays(x):
    if isinstance(x, dict):
        return [a for part in x.values() for a in arrays(part)]
    if isinstance(x, list | tuple):
        return [a for part in x for a in arrays(part)]
    return [np.asarray(x)] if isinstance(x, np.ndarray | np.generic) else []


def same_bits(a, b):
    found, expected = arrays(a), arrays(b)
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert (x.shape, x.dtype, x.tobytes()) == (y.shape, y.dtype, y.tobytes())


def steps(t):
    return [(e.name, e.how, e.text) for e in t.entries]


def test_no_op_or_layer_is_left_out():
    for folder in (ops, layers):
        for name in folder.__all__:
            if callable(getattr(folder, name)) and name.islower() and not name.endswith("_init"):
                assert name.removesuffix("_backward") in set(CALLS) | NO_ARITHMETIC, f"CALLS has no {name}"
    assert {"attention", "embedding", "cross_entropy", "dense", "pre", "post", "sasrec"} <= set(BOTH_WAYS)


@pytest.mark.parametrize("name", CALLS)
def test_every_op_and_layer_forward(name):
    """The engine's bits are those of a run that nobody watches; the readable forms give the same to rounding."""
    args, kwargs = fresh(name)
    plain = BY_NAME[name](*args, **kwargs)
    for engine in (True, False):
        args, kwargs = fresh(name)
        with readable(not engine):
            expected = BY_NAME[name](*args, **kwargs)
        args, kwargs = fresh(name)
        t = trace(BY_NAME[name], *args, engine=engine, **kwargs)
        same_bits(t.result, expected)
        for x, y in zip(outputs(t.result), outputs(plain), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
        made = [e for e in t.entries if e.how != "input"]
        assert made
        assert all(e.text for e in made)  # each has the line that made it
        assert t.roots[0].name in str(t)


def outputs(x):
    """The arrays that a function returns, without those of its cache."""
    return [a for part in (x if type(x) is tuple else (x,)) if not hasattr(part, "_fields") for a in arrays(part)]


@pytest.mark.parametrize(("name", "engine"), [*((n, False) for n in BOTH_WAYS), *((n, True) for n in BLOCK_FORMS)])
def test_every_op_and_layer_backward(name, engine):
    """The traced backward is the backward, bit for bit; and numbers of its gradients, followed, are differences.

    Of a block some gradients are followed; of networks every parameter's is, below.
    """
    args, kwargs = fresh(name)
    t = trace(BY_NAME[name], *args, backward=True, engine=engine, **kwargs)
    args, kwargs = fresh(name)
    inputs = bind(BY_NAME[name], *args, **kwargs)
    with readable(not engine):
        plain = BY_NAME[name](**inputs)
    upstream, others, _ = asked_of(opposite(name), inputs, plain)
    same_bits(t.result, plain)
    same_bits(t.grads, opposite(name)(**dict(zip(upstream, t.replay.cotangents, strict=True)), **others))
    assert t.gradients
    every = [(leaf, gradient) for leaf, gradient in t.gradients.items() if np.shape(gradient) and np.size(gradient)]
    for leaf, gradient in every[:: max(1, len(every) // 4)]:
        at = np.unravel_index(int(np.argmax(np.abs(gradient))), np.shape(gradient))
        followed = t.follow(leaf, tuple(int(i) for i in at))
        assert followed.agrees, str(followed)
        assert followed.stages[0].passes == pytest.approx(followed.traced, rel=1e-4, abs=1e-8)  # all passes the output


def test_attention_by_its_names_in_order():
    t = trace(attention, Q, K, V, MASK, R.standard_normal((3, 5)))
    assert [f"{e.call.label}.{e.name}" for e in t.entries] == [
        *[f"attention.{name}" for name in ("q", "k", "v", "mask", "bias", "c", "s", "s")],
        *[f"softmax.{name}" for name in ("s", "row_max", "row_max", "p", "p", "denominator", "p")],
        *[f"attention.{name}" for name in ("weights", "out")],
    ]
    out, weights = attention(Q, K, V, MASK, t["bias"])
    same_bits([t["out"], t["weights"], t["softmax.p"]], [out, weights, weights])
    assert t["c"] == 0.5
    assert t.entry("weights").text == "weights = softmax(s, mask)"
    assert t.entry("out").text == "return dropout(weights, keep, rate) @ v, weights"
    assert t.roots[0].result_names == ("out", "weights")
    assert t.roots[0].signature == "attention(q, k, v, mask, bias, rate)"  # and no argument that is None
    assert t.recorder.limit == 64 * 1024 * 1024


def test_what_is_written_in_place_keeps_both_values():
    bias = R.standard_normal((3, 5))
    t = trace(attention, Q, K, V, bias=bias)
    first, second = [e for e in t.all("s") if e.call.name == "attention"]
    np.testing.assert_array_equal(second.value, first.value + bias)
    assert (first.how, second.how) == ("", "in place")
    assert second.text == "s += bias"
    assert [e.text for e in t.all("softmax.p")] == [
        "p = s - row_max",
        "xp.exp(p, out=p)",
        "p /= xp.where(denominator == 0, 1.0, denominator)",
    ]
    with pytest.raises(ValueError, match="read-only"):
        t["s"][0] = 1


# ---- functions of one's own


def helper(x):
    doubled = 2 * x
    return doubled


def own(x, *more, scale=1.0):
    a, (b, c) = (
        x + 1,
        (
            helper(x),
            x.sum(
                axis=0,
            ),
        ),
    )
    rows = [row * 2 for row in x]
    total = np.zeros(3)
    for row in rows:
        total += row
    total[0] = 7; after = total * scale  # noqa: E702  # fmt: skip
    if (walrus := after.max()) > 0:
        a = a.T
    into(b)
    same = a
    return {"kept": [c, same]}, walrus


def into(x):
    x[...] = 0


def test_a_function_of_ones_own_line_by_line():
    x = np.arange(6.0).reshape(2, 3)
    t = trace(own, x, scale=0.5)
    assert [(e.name, e.how) for e in t.entries if e.call.name == "own"] == [
        ("x", "input"),
        ("a", ""),
        ("b", ""),
        ("c", ""),
        ("rows.0", ""),
        ("rows.1", ""),
        ("total", ""),
        ("total", "in place"),
        ("total", "in place"),
        ("total", "in place"),
        ("after", ""),
        ("walrus", ""),
        ("a", ""),
        ("b", "in place"),  # a function that was called has written into it
    ]
    assert t.entry("c").text == "a, (b, c) = (x + 1, (helper(x), x.sum(axis=0,),),)"
    assert t["doubled"].tolist() == (2 * x).tolist()
    assert t["b"].tolist() == np.zeros((2, 3)).tolist()
    assert [e.value.tolist() for e in t.all("total")] == [[0, 0, 0], [0, 2, 4], [6, 10, 14], [7, 10, 14]]
    assert t["returned.0.kept.0"].tolist() == [3, 5, 7]
    same_bits(t.result, own(x, scale=0.5))


def test_a_cache_that_would_have_weights_is_listed_without_them():
    """As that of a new mechanism, whose cache has none: `weights` of the cache around it then raises."""

    class Cache(NamedTuple):
        x: np.ndarray

        @property
        def weights(self):
            return self.x.weights

    def layer(x):
        y = 2 * x
        return y, Cache(x)

    assert [e.name for e in trace(layer, X).entries] == ["x", "y"]


def test_lambdas_methods_closures_and_what_is_caught():
    class Layer:
        def __init__(self, W):
            self.W = W

        def __call__(self, x):
            y = x @ self.W
            return y

    assert trace(Layer(np.eye(4)), X)["y"].shape == X.shape
    assert trace(Layer(np.eye(4)).__call__, X)["y"].shape == X.shape
    assert trace(lambda x: softmax(x * 2), X)["softmax.p"].shape == X.shape

    def falls(x):
        raise KeyError(x.sum())

    def catches(x):
        y = x
        try:
            y = falls(x)
        except KeyError:
            z = x + 1
        return z, y

    t = trace(catches, X)
    assert [(e.call.name, e.name) for e in t.entries] == [("catches", "x"), ("catches", "z")]


def test_a_partial_a_captured_argument_and_another_thread():
    t = trace(functools.partial(attention, mask=MASK, scale=2.0), Q, K, V, backward=True)
    assert t["c"] == 2
    assert t.follow("q", (1, 2)).agrees

    def captures(x):
        def inner(y):
            return x + y

        z = inner(x)
        return z

    found = []
    thread = threading.Thread(target=lambda: found.append(trace(captures, X)))
    thread.start()
    thread.join()
    same_bits([found[0]["z"], found[0]["inner.y"]], [2 * X, X])


def test_what_a_decorator_wraps_is_what_is_traced():
    """A decorator of another file: neither its lines are meant nor the names that are beside it."""
    t = trace(np.errstate(over="ignore")(softmax), X, backward=True)
    assert [root.label for root in t.roots] == ["softmax", "softmax_backward"]
    assert t.follow("s", (0, 0, 0)).agrees
    t = trace(functools.lru_cache(helper), 2.0)
    assert [(e.name, float(e.value)) for e in t.entries] == [("doubled", 4.0), ("doubled", 4.0)]


def test_functions_of_a_notebooks_cell_and_of_nowhere():
    code = "def mine(x):\n    y = x + 1\n    return y\n"
    scope = {}
    name = "/tmp/ipykernel_12/345.py"
    linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name  # as IPython does
    exec(compile(code, name, "exec"), scope)
    assert "mine(x) -> y   a cell's line 1" in str(trace(scope["mine"], X))
    exec(compile(code, "<nowhere>", "exec"), scope)  # as at a bare prompt: no lines, the names all the same
    t = trace(scope["mine"], X)
    assert [(e.name, e.text) for e in t.entries] == [("x", ""), ("y", "")]
    assert "y (2, 3, 4)" in str(t.at("y"))


def test_one_line_of_several_statements_and_a_generator():
    def twice(x):
        a = x * 2; b = a + 1  # fmt: skip # noqa: E702
        return b

    assert [e.text for e in trace(twice, X).entries][1:] == ["a = x * 2; b = a + 1"] * 2

    def rows(x):
        yield from (row + 1 for row in x)

    def run(x):
        pieces = tuple(softmax(row) for row in rows(x))
        first, *rest = pieces
        again = np.stack([row + 2 for row in rows(x)])
        first = first + again[0]
        return [sum(rest) + row for row in rows(first)]

    t = trace(run, X[0])
    assert t["again"].tolist() == (X[0] + 3).tolist()
    assert t["returned.1"].tolist() == t.result[1].tolist()
    assert [c.label for c in t.roots[0].calls()] == ["run", "softmax#1", "softmax#2", "softmax#3"]
    assert t["softmax#2.p"].tolist() == softmax(X[0, 1] + 1).tolist()
    assert t["pieces.1"].tolist() == t["softmax#2.p"].tolist()


# ---- what may go wrong


def test_an_exception_leaves_the_thread_as_it_was():
    def wrong(x):
        y = softmax(x)
        return y @ np.ones(99)

    before = sys.gettrace()
    with pytest.raises(ValueError, match=r"mismatch|matmul"):
        trace(wrong, X)
    assert sys.gettrace() is before
    with pytest.raises(ValueError, match="attention: k has shape"):
        trace(attention, Q, V, V)
    assert sys.gettrace() is before


def test_another_tracer_is_refused_and_stays():
    def tracer(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with pytest.raises(RuntimeError, match=rf"{__name__} is tracing this thread"):
            trace(softmax, X)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_another_thread_is_not_watched():
    found = {}

    def work(x):
        found["tracer"] = sys.gettrace()
        found["p"] = softmax(x)

    def run(x):
        thread = threading.Thread(target=work, args=(x,))
        thread.start()
        thread.join()
        return x + 1

    t = trace(run, X)
    assert found["tracer"] is None
    assert [e.name for e in t.entries] == ["x", "returned"]


def test_more_than_the_limit_is_refused_with_the_place():
    before = sys.gettrace()
    with pytest.raises(ValueError, match=r"more than 400 bytes of intermediates after step \d.*limit="):
        trace(attention, Q, K, V, limit=400)
    with pytest.raises(ValueError, match="more than 10 bytes of intermediates in its inputs: trace a smaller"):
        trace(attention, Q, K, V, limit=10)
    assert sys.gettrace() is before
    many = np.zeros((100, 100))
    assert trace(lambda x: [x + 0 for _ in range(9)], many, limit=80_000).recorder.used == 80_000  # one content


def endless(x):
    while True: x = x + 0  # fmt: skip  # noqa: E701


def test_an_endless_loop_on_one_line_ends(monkeypatch):
    monkeypatch.setattr(recorder, "LINES", 50)
    with pytest.raises(ValueError, match=r"more than 50 lines after step 0 \(endless\.x\): trace a smaller input"):
        trace(endless, np.ones(2), backward=lambda dout: dout)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: trace(np.exp, X), TypeError, "not written in Python"),
        (lambda: trace(lambda x: (yield x), X), TypeError, "is a generator"),
        (lambda: trace(3), TypeError, "a int is no function"),
        (lambda: trace(SASRecNetwork), TypeError, "SASRecNetwork is a class, expected a function or an object"),
        (lambda: trace(own, X, backward=True), ValueError, "there is no own_backward in tests"),
        (lambda: trace(softmax, X, backward=3), TypeError, "backward is 3"),
        (lambda: trace(softmax, X, backward=True, dp=X[0]), ValueError, r"dp has shape \(3, 4\), expected \(2, 3, 4\)"),
        (lambda: trace(softmax, X, backward=True, p=X), TypeError, r"p is no argument of the forward .* \(dp\)"),
        (lambda: trace(softmax, X, backward=helper), TypeError, "helper takes no gradient"),
        (lambda: trace(softmax, X)["wieghts"], KeyError, "nothing was called 'wieghts'"),
        (lambda: trace(attention, Q, K, V)["wieghts"], KeyError, "near it: weights"),
        (lambda: trace(attention, Q, K, V)["zzz"], KeyError, r"; there are q, k, v, c, s, .*, denominator, \.\.\.$"),
        (lambda: trace(softmax, X)[7], IndexError, "there is no step 7: there are 0 to 6"),
        (lambda: trace(softmax, X)[-8], IndexError, "there is no step -8: there are 0 to 6"),
        (lambda: trace(softmax, X)[1.5], TypeError, "a step is 1.5, expected its number or a name"),
        (lambda: trace(softmax, X).picture(None), TypeError, "a step is None, expected its number or a name"),
        (lambda: trace(attention, Q, K, V).table(call="softmx"), KeyError, "near it: softmax"),
        (lambda: trace(softmax, X).follow("s", 0), ValueError, "backward=True"),
        (lambda: trace(softmax, X, backward=True).follow("z", 0), KeyError, "these have: s"),
        (lambda: trace(softmax, X, backward=True).follow("s", 0), IndexError, r"shape \(2, 3, 4\)"),
        (lambda: trace(softmax, X, backward=True).follow("s", (9, 9, 9)), IndexError, r"shape \(2, 3, 4\)"),
        (lambda: trace(softmax, X, backward=True).follow("s", None), IndexError, r"of its numbers, not \(None,\)"),
        (lambda: trace(softmax, X, backward=True).follow("s", (0, 0, 0), 0), ValueError, "h is 0, expected a small"),
        (lambda: trace(softmax, X, backward=True).follow("s", (0, 0, 0), np.nan), ValueError, "h is nan, expected"),
        (lambda: trace(softmax, X, backward=True).follow("s", (0, 0, 0), np.inf), ValueError, "h is inf, expected"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_a_name_that_stands_for_several_values_is_refused_with_their_places():
    t = trace(lambda a, b: (softmax(a), softmax(b)), X, 2 * X)
    with pytest.raises(KeyError) as refused:
        t["softmax.p"]
    assert str(refused.value).splitlines() == [
        "'softmax.p' stands for 2 values; say which",
        "    t['softmax#1.p']  (2, 3, 4)  step 7   p /= xp.where(denominator == 0, 1.0, denominator)",
        "    t['softmax#2.p']  (2, 3, 4)  step 13  p /= xp.where(denominator == 0, 1.0, denominator)",
    ]
    same_bits([t["softmax#2.p"]], [softmax(2 * X)])
    t = trace(lambda a, b: (softmax(a), softmax(b)), X, X)
    same_bits([t["softmax.p"]], [softmax(X)])  # the same numbers need no choice
    t = trace(lambda x: [softmax(x * i) for i in range(12)], X)
    with pytest.raises(KeyError, match=r"12 values; say which(?s:.*)t\['softmax#12.p'\]"):  # as many as are listed
        t["p"]
    t = trace(lambda x: [softmax(x * i) for i in range(15)], X)
    with pytest.raises(KeyError, match=r"15 values; say which(?s:.*)t\['softmax#11.p'\].*\n    ... and 4 more$"):
        t["p"]


def test_a_name_of_a_call_counts_for_all_that_it_calls():
    def outer(s):
        p = softmax(s) + 1
        return p

    t = trace(outer, X)
    same_bits([t["p"], t["softmax.p"], t["outer.softmax.p"]], [softmax(X) + 1, softmax(X), softmax(X)])
    t = trace(lambda a, b: (outer(a), outer(b)), X, 2 * X)
    same_bits([t["outer#2.p"], t["outer#2.softmax.p"]], [softmax(2 * X) + 1, softmax(2 * X)])
    with pytest.raises(KeyError, match=r"t\['outer#1.softmax.p'\](?s:.*)t\['outer#2.softmax.p'\]"):
        t["softmax.p"]


def test_what_is_said_of_several_values_leads_to_each():
    net, p, batch = small(SASRecNetwork)
    t = trace(net, p, batch, backward=True)
    for name, number in (("y", 6), ("x_hat", 5), ("p", 2), ("layer_norm.gamma", 5)):
        with pytest.raises(KeyError) as refused:
            t[name]
        said, *lines = str(refused.value).splitlines()
        assert said == f"{name!r} stands for {number} values; say which"
        asked = [line.split("]")[0] + "]" for line in lines]
        values = [eval(a.strip(), {"t": t}) for a in asked]
        assert len({v.tobytes() for v in values}) == number
        assert [str(v.shape) in line for v, line in zip(values, lines, strict=True)] == [True] * number
    for e in t.entries:
        assert t[e.path].shape is not None  # a whole path is one value


def test_another_name_leads_to_the_step_where_the_value_is_listed():
    t = trace(layers.norm, noisy(layers.norm_init(4)), X)
    assert t.at("layer_norm.gamma").entry.name == "p.gamma"
    assert t.at("cache.x_hat").entry.text.startswith("y, x_hat, rstd = layer_norm(")


# ---- backward


def test_upstream_gradients_are_given_or_said():
    dout = np.ones((3, 2))
    t = trace(attention, Q, K, V, backward=True, dout=dout)
    out, weights = attention(Q, K, V)
    same_bits(t.grads, attention_backward(dout, Q, K, V, weights))
    assert "dout as passed" in str(t)
    assert list(t.gradients) == ["q", "k", "v"]
    drawn = trace(attention, Q, K, V, backward=attention_backward, seed=3)
    assert "dout random, seed 3" in str(drawn)
    assert trace(softmax, X, backward=True).upstream == "dp random, seed 0"
    assert trace(softmax, X.astype(np.float32), backward=True)["dp"].dtype == np.float32
    assert drawn["dout"].shape == out.shape
    assert not np.array_equal(drawn["dout"], trace(attention, Q, K, V, backward=True, seed=4)["dout"])
    loss = trace(ops.cross_entropy, X, IDS % 4, backward=True)
    assert "dloss = 1" in str(loss)
    assert loss.roots[0].result_names == ("loss",)


@pytest.fixture(
    scope="module",
    params=[
        ("pre", "bce", np.float64),
        ("sasrec", "ce", np.float64),
        ("post", "bce", np.float32),
        ("ligr", "gbce", np.float64),
    ],
)
def network(request):  # fmt: skip
    form, loss, dtype = request.param
    net = SASRecNetwork(
        n_items=11, maxlen=6, dim=4, heads=2, block_form=form, objective=loss, dropout=0.2, **few_negatives(loss)
    )
    p = flatten(noisy(net.init(np.random.default_rng(0))), dtype)[1]
    batch = Sampler(uneven(), 6, 5, 0, True, net.n_negatives or 0).batch(0)
    return trace(net, p, batch, np.random.default_rng(3), backward=True)


def test_a_networks_every_parameter_followed_from_the_loss(network):
    assert set(network.gradients) == {name for name, _ in leaves(network.replay.args[0])}
    names = [
        "items",
        "positions",
        "blocks.0.norm_1.gamma",
        "blocks.0.attention.query.W",
        "blocks.1.feed_forward.inner.b",
    ] + [name for name in network.gradients if "gate_1.W" in name]
    for name in names:
        gradient = network.gradients[name]
        if isinstance(gradient, Rows):
            i, j = np.unravel_index(int(np.argmax(np.abs(gradient.values))), gradient.values.shape)
            index = (int(gradient.ids[i]), int(j))
        else:
            index = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.abs(gradient))), gradient.shape))
        followed = network.follow(name, index)
        assert followed.agrees, str(followed)
        assert followed.stages[0].gradient == "dloss"
        if ".query." in name:
            whole = [s.gradient for s in followed.stages if s.passes == pytest.approx(followed.traced, rel=1e-3)]
            assert whole[0] == "dloss"
            assert whole[-1] in ("dW", "dy")
            assert len(whole) > 4


# ---- readable forms, the engine, and attention weights


def small(network, **options):
    """A network of that class in float64, its parameters, and a batch."""
    net = network(n_items=11, maxlen=6, dim=4, **options)
    return net, noisy(net.init(np.random.default_rng(0))), Sampler(uneven(), 6, 5, 0, True).batch(0)


@pytest.mark.parametrize(
    ("mechanism", "form", "engine", "blocks"),
    covering(list(itertools.product(MECHANISMS, BLOCK_FORMS, [False, True], [1, 2])), 2),
)
def test_attention_weights_go_by_their_name_in_every_model(mechanism, form, engine, blocks):
    options = {"mechanism": mechanism, "block_form": form, "heads": 2, "dropout": 0.0, "objective": "ce"}
    options |= {"window": 3} if mechanism == "window" else {}
    net, p, batch = small(SASRecNetwork, blocks=blocks, **options)
    expected = net.attention(net.forward(p, batch)[1])
    t = trace(net, p, batch, backward=form == "pre", engine=engine)  # where it is followed
    names = [f"Block.forward#{i + 1}.weights" for i in range(blocks)] if blocks > 1 else ["weights"]
    for name, weights in zip(names, expected, strict=True):
        np.testing.assert_allclose(t[name], weights, rtol=0, atol=1e-13)
        np.testing.assert_array_equal(t.at(name).value, t[name])
    if blocks > 1:
        says = r"2 values; say which\n +t\['Block.forward#1.weights'\] .*step .*\n +t\['Block.forward#2.weights'\] "
        with pytest.raises(KeyError, match=says):
            t["weights"]
    assert form != "pre" or t.follow("blocks.0.attention.query.W", (1, 2)).agrees


def test_dropout_is_that_of_training():
    for options in ({}, {"mechanism": "window", "window": 2}):
        net, p, batch = small(SASRecNetwork, block_form="sasrec", dropout=0.5, **options)
        loss, _ = net.loss(p, batch, np.random.default_rng(3))
        t = trace(net, p, batch, np.random.default_rng(3), backward=True)
        assert t["value"] == pytest.approx(loss, rel=1e-12)
        assert t.follow("blocks.1.attention.value.W", (1, 2)).agrees


PARTS = [
    *(({"block_form": form, "norm": norm, "feed_forward": network}, ("norm_1.gamma", "feed_forward.inner.W"))
      for form, (norm, network) in zip(
          [name for name, form in BLOCK_FORMS.items() if form.feeds_forward],
          itertools.cycle([("rms", "swiglu"), ("layer", "gelu"), ("rms", "elu")]), strict=False)),
    *(({"block_form": name}, ("norm_1.gamma", "gate.W", "out.W"))
      for name, form in BLOCK_FORMS.items() if not form.feeds_forward),
    *(({"heads": 4, "kv_heads": n}, ("attention.query.W", "attention.key.W", "attention.value.W")) for n in (1, 2)),
    *(({"mixer": mixer}, (f"attention.{name}",))
      for mixer, name in (("rnn", "U"), ("lstm", "U"), ("gru", "U"), ("rwkv", "Wk"), ("mamba", "W_x"))),
]  # fmt: skip


@pytest.mark.parametrize(("options", "names"), PARTS, ids=str)
def test_every_part_of_a_block_is_followed(options, names):
    net, p, batch = small(SASRecNetwork, blocks=1, **options)
    t = trace(net, p, batch, backward=True)
    for name in names:
        assert t.follow(f"blocks.0.{name}", (1,) if "gamma" in name else (2, 0)).agrees


def test_scores_of_the_last_position_have_weights_too():
    net, p, batch = small(SASRecNetwork, blocks=1)
    t = trace(net.score, p, batch)
    np.testing.assert_allclose(t.result, net.score(p, batch), rtol=1e-12)
    assert t["weights"].shape == (len(batch.ids), 1, 6, 6)


@pytest.mark.parametrize("objective", ["bce", "ce"])
def test_without_attention_the_weights_of_the_loss_are_not_taken_for_them(objective):
    net, p, batch = small(GRU4RecNetwork, objective=objective)
    t = trace(net, p, batch)
    op = {"bce": "bce_with_logits", "ce": "smoothed_loss"}[objective]
    with pytest.raises(KeyError, match=rf"no attention here.*(?s:.*)t\['{op}.weights'\] .*weight, as {op} calls it$"):
        t["weights"]
    with pytest.raises(KeyError, match=r"there are no attention weights$"):
        trace(softmax, X)["weights"]
    assert t.at(f"{op}.weights").entry.name == "weight"
    block = Block(MIXERS["gru"]())
    with pytest.raises(KeyError, match="no attention here"):
        trace(block.forward, block.init(R, 4), X, mask=ops.Mask(causal=True)).at("weights")
    weights = np.ones((2, 3))
    t = trace(ops.cross_entropy, X, IDS % 4, weights)  # of what is traced, every argument goes by its name
    same_bits([t["weights"]], [weights])


def test_the_engine_is_shown_on_request():
    net, p, batch = small(SASRecNetwork, heads=2)
    read, engine = (trace(net, p, batch, np.random.default_rng(0), backward=True, engine=e) for e in (False, True))
    names = [{c.name for root in t.roots for c in root.calls()} for t in (read, engine)]
    assert {"layer_norm", "linear", "softmax", "attention", "attention_backward", "multi_head_attention"} <= names[0]
    assert not {"norm_linear", "fused_attention", "keep_mask"} & names[0]
    assert not any(name.startswith("_") for name in names[0])
    assert {"norm_linear", "fused_attention", "_tiles", "keep_mask", "Block.forward"} <= names[1]
    assert not {"softmax", "attention"} & names[1]
    assert len(read) < len(engine)
    shown = trace(ops.fused_attention, Q, K, V)  # what is traced itself is traced as it is
    assert "denominator" in str(shown)
    assert {c.name for c in shown.roots[0].calls()} == {"fused_attention"}


def test_the_thread_asks_for_readable_forms_only_while_it_traces():
    assert trace(lambda x: softmax(x) * is_readable(), X).result.any()
    assert not trace(lambda x: softmax(x) * is_readable(), X, engine=True).result.any()
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 / 0, X)
    assert not is_readable()


def test_shares_of_the_branches_add_up_to_the_whole():
    """A norm is read by queries, keys and values: what passes through each adds up to all there is."""
    net = SASRecNetwork(n_items=11, maxlen=6, dim=4, heads=2)
    batch = Sampler(uneven(), 6, 5, 0, True).batch(0)
    t = trace(net, noisy(net.init(np.random.default_rng(0))), batch, backward=True)
    followed = t.follow("blocks.0.norm_1.gamma", (1,))
    branches = [s for s in followed.stages if s.backward.name == "attention_backward" and s.name in "qkv"]
    assert sorted(s.gradient for s in branches) == ["dk", "dk", "dq", "dq", "dv", "dv"]  # last block, first
    assert sum(s.passes for s in branches[3:]) == pytest.approx(followed.traced, rel=1e-6)
    moved = [m.entry.path for m in followed.moved]
    assert not any("forward.Block.forward#1.pre_block.LayerNorm.forward#1" in p and "x_hat" in p for p in moved)
    assert any(path.endswith("LayerNorm.forward#2.norm.layer_norm.normalise.x_hat") for path in moved)
    assert "numbers that move" in followed.forward()


def test_an_index_may_be_numpys_own():
    t = trace(softmax, X[0, 0], backward=True)
    at = np.argmax(X[0, 0])
    followed = [str(t.follow("s", index)) for index in (at, int(at), [at], np.array([at]), at - 4)]
    assert len(set(followed)) == 1
    assert f"w = s[{at}]" in followed[0]
    assert [bar.get_height() for bar in t.picture(at - at).axes[0].patches] == t[at - at].tolist()


def test_a_wrong_backward_is_seen():
    def wrong(dp, p):
        ds = dp * p
        return ds

    followed = trace(softmax, X, backward=wrong).follow("s", (0, 0, 0))
    assert not followed.agrees
    assert f"they DIFFER by {abs(followed.traced - followed.measured):.3g}" in str(followed)


@pytest.mark.parametrize("backward", [False, True])
def test_what_runs_again_has_the_arguments_and_draws_of_the_trace(backward):
    def noisy_forward(x, rng):
        y = x + rng.standard_normal(3)
        x *= 0
        return y

    rng = np.random.default_rng(0)
    t = trace(noisy_forward, np.ones(3), rng, backward=(lambda dy: dy) if backward else None)
    np.testing.assert_array_equal(t.replay.args[0], np.ones(3))
    assert t.replay.args[1].bit_generator.state == np.random.default_rng(0).bit_generator.state


def test_a_nudge_that_changes_which_lines_run_is_refused():
    def branches(x):
        if x[1] > 0:
            y = 2 * x
            return y
        return 3 * x

    t = trace(branches, np.array([1.0, 1e-9]), backward=lambda dy, x: 2 * dy)
    assert t.follow("x", 0).agrees
    with pytest.raises(ValueError, match=r"nudging x\[1\] changes which lines run: branches.y was not made"):
        t.follow("x", 1)


def test_at_a_kink_any_slope_between_is_right():
    x = np.array([0.0, 1.0])
    followed = trace(ops.relu, x, backward=True, dy=np.ones(2)).follow("x", 0)
    assert followed.agrees
    assert followed.kink == pytest.approx((0, 1))
    assert "a kink, with slopes 0 and 1" in str(followed)
    assert not trace(ops.relu, x, backward=lambda dy, x: dy * (x > 0) - 1, dy=np.ones(2)).follow("x", 0).agrees


def test_the_same_array_in_two_places_is_followed_in_one():
    p, x = noisy(layers.multi_head_init(R, 4)), X.copy()
    t = trace(layers.multi_head_attention, p, x, x, backward=True, heads=2)
    same_bits([t["query.x"], t["attended.q"]], [x, t["q"]])  # what a cache holds goes by its fields
    for name in ("x", "memory"):
        assert t.follow(name, (0, 1, 2)).agrees


def test_a_dead_parameter_has_no_shares():
    """A bias of the keys changes no weight: what is left is rounding, and no share of it means anything."""
    p = noisy(layers.multi_head_init(R, 4))
    t = trace(layers.multi_head_attention, p, X, X, backward=True, heads=2)
    followed = t.follow("key.b", 1)
    assert followed.agrees
    assert "%" not in str(followed).split("traced")[0].split("\n\n")[1]
    assert "as small as rounding" in str(followed)


def test_a_gradient_of_zero_has_no_shares_but_numbers():
    t = trace(ops.relu, -np.abs(X), backward=True)
    followed = t.follow("x", (0, 0, 0))
    assert followed.traced == followed.measured == 0
    assert followed.agrees
    assert "∂L/∂w = 0" in str(followed)


def test_arrays_of_another_module():
    backend.register(StrictArray, strict, "strict")
    there = [strict.asarray(x) for x in (Q, K, V)]
    t = trace(attention, *there, backward=True)
    assert isinstance(t.result[0], StrictArray)
    np.testing.assert_allclose(t["weights"], attention(Q, K, V)[1])
    assert t.follow("k", (1, 2)).agrees


# ---- looking


def test_step_by_step():
    t = trace(attention, Q, K, V, MASK)
    assert t.step().entry.number == 0
    assert t.step(2).entry.number == 2
    assert t.back().entry.number == 1
    assert t.back(9).entry.number == 0
    assert t.step(99).entry.number == len(t) - 1
    assert t.entry(-len(t)).number == 0
    at = t.at("weights")
    lines = str(at).splitlines()
    source = "tinyattn/ops/attention/attention.py"
    assert lines[0].startswith(f"step {at.entry.number} of {len(t) - 1}: attention   {source}:")
    marked = [line.split("#")[0].split(maxsplit=2)[2].strip() for line in lines if line.startswith(">")]
    assert marked == ["weights = softmax(s, mask)"]
    assert "softmax > " not in lines[0]
    assert "attention > softmax" in str(t.at("softmax.p"))
    same_bits(at.value, t["weights"])


def test_the_table_fits_and_folds():
    block = Block(layers.MultiHead(2))
    p = noisy(block.init(R, 4))
    t = trace(block.forward, p, X, backward=True)
    text = str(t)
    assert max(map(len, text.splitlines())) <= 120
    assert len(text.splitlines()) <= 65
    assert "p: 16 arrays" in text
    assert len(t.table(depth=9).splitlines()) > len(t)
    assert "LayerNorm.forward#1 > norm > layer_norm(x, gamma, beta, eps) -> y, x_hat, rstd   tiny" in t.table(depth=9)
    assert "weights = softmax(s, mask)" in t.table(call="multi_head_attention", depth=9)
    assert "layer_norm" not in t.table(depth=0)
    assert len(str(trace(softmax, X)).splitlines()) < 15


def test_numbers_of_every_sort_are_described():
    def sorts(x):
        ids = np.arange(3)
        few = x > 0
        bad = np.where(few, x, np.nan)
        low = np.where(few, x, -np.inf)
        wide = 1e200 * x
        none = x[:0]
        wave = x * 1j
        unfilled = np.empty(3)
        unfilled[:] = 1
        return ids, few, bad, low, wide, none, wave, unfilled

    text = str(trace(sorts, np.array([[-1.0, 2.0], [2.0, 0.0], [0.0, 0.0]])))
    for piece in (
        "0 … 2",
        "2 of 6 True",
        "2 … 2, 4 NaN",
        "-inf … 2",
        "3e+200",
        "(0, 2)",
        "complex128",
        "(not yet filled)",
    ):
        assert piece in text, piece


def test_memory_not_yet_filled_holds_nan_and_all_else_is_what_it_is():
    def half(x, into):
        total, room = np.zeros(2), np.empty((2, *x.shape))
        room[0] = x
        one, two = (np.empty_like(x) for _ in range(2))
        three = np.empty_like(x); three[:] = x  # fmt: skip  # noqa: E702
        into = into or np.empty(4)
        count = np.empty(3, dtype=int)
        into[0].setflags(write=False)
        return total, room, one, two, three, into, count

    plain = np.empty, np.empty_like
    t = trace(half, X[0], [np.ones(3)])
    assert (np.empty, np.empty_like) == plain
    assert np.isnan(t.all("room")[0].value).all()
    np.testing.assert_array_equal(np.isnan(t["room"]).all(axis=(1, 2)), [False, True])
    total, room, one, two, three, (given,), count = t.result
    assert np.isnan(one).all() and np.isnan(two).all()  # noqa: PT018
    same_bits([total, room[0], three, given, count], [np.zeros(2), X[0], X[0], np.ones(3), np.zeros(3, dtype=int)])


class Balanced(HTMLParser):
    """Every tag that opens closes, in its order; attributes and text are gathered."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("col", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html_is_well_formed_escapes_and_fetches_nothing(network):
    def angry(x):
        y = x * (x < 3) * len("<script>alert('&')</script>")
        return y

    t = trace(angry, X)
    for shown in (t, t.at("y"), network, network.follow("norm.gamma", 1), network.at(70)):
        html = shown._repr_html_()
        found = Balanced(html)
        assert "script" not in found.tags
        assert "http" not in html
    assert "<script>alert('&')</script>" in Balanced(t._repr_html_()).text
    assert Balanced(network._repr_html_()).tags.count("tr") > len(network)  # every entry, folded or not


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 3, 4, 4), (2, 2, 3, 4, 4), (14, 2, 3)])
def test_a_picture_shows_the_numbers(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    made = trace(lambda x: x * 2, x).picture("returned")
    if x.ndim == 1:
        np.testing.assert_allclose([bar.get_height() for bar in made.axes[0].patches], 2 * x)
        return
    images = [ax.images[0].get_array() for ax in made.axes if ax.images]
    maps = (2 * x).reshape(-1, *x.shape[-2:])
    assert len(images) == min(len(maps), 12)
    np.testing.assert_array_equal(np.stack(images), maps[:12])
    assert ("first 1 x 12 maps" in made._suptitle.get_text()) == (len(maps) > 12)
    low, high = made.axes[0].images[0].get_clim()
    assert low == -high  # the same colour means the same size, either side of 0


def test_pictures_of_masks_and_of_what_is_not_finite(tmp_path):
    t = trace(attention, Q, K, V, MASK)
    assert "light: True" in t.picture("mask")._suptitle.get_text()
    shown = t.picture("softmax.s").axes[0].images[0].get_array()
    assert shown.mask.tolist() == (~MASK).tolist()
    assert t.at("weights").picture().axes[0].images[0].get_clim()[0] == 0
    with pytest.raises(ValueError, match=r"shape \(\)"):
        t.picture("c")
