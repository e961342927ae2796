"""Kernels, interpreted on a CPU by numba's simulator, on the double as a card for which they were proven."""

import importlib.util
import sys
import tracemalloc
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.devices import On, tree
from tests.models.worlds import TINY
from tests.strict import COUNTS, Step, _launched, strict
from tinyattn import backend
from tinyattn.check.specs import SPECS
from tinyattn.data import Sampler, leave_one_out
from tinyattn.fast import block, kernels, kernels_device, tables, tiles
from tinyattn.forms import is_readable, readable
from tinyattn.layers import dropout_mask
from tinyattn.layers.dense import DenseCache, dense_backward
from tinyattn.layers.dropout_mask import add_dropped, dropped_backward
from tinyattn.layers.feed_forward import feed_forward, feed_forward_backward
from tinyattn.layers.mechanisms import Full
from tinyattn.layers.norm import norm, norm_backward
from tinyattn.layers.rows import table_gradient
from tinyattn.models import SASRecNetwork
from tinyattn.models.cross_entropy import smoothed_loss, smoothed_loss_backward
from tinyattn.models.objectives import OBJECTIVES, bce, bce_backward, gbce, gbce_backward
from tinyattn.ops import Mask
from tinyattn.random import MaskKeys
from tinyattn.training import Learner, Moments, Settings, adam
from tinyattn.training.adam import corrections
from tinyattn.tree import add_to

HERE = all(importlib.util.find_spec(name) for name in ("numba", "numba_cuda"))
pytestmark = [
    pytest.mark.host,
    pytest.mark.filterwarnings("ignore:.*overflow encountered in scalar"),  # of a hash, in the simulator's threads
]


@pytest.fixture
def proven(monkeypatch):
    """The double launches kernels: each is one call, on the arrays' numbers. Blocks are small, as rows are."""
    if not HERE:
        pytest.skip("kernels run where numba-cuda is: pip install -e '.[kernels]'")
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    kernels._is_proven.cache_clear()

    def launch(name, like, blocks, threads, *arguments):
        number = like.dtype.type if like.dtype.char in "fd" else np.float32

        def compute():
            given = tree(lambda a: _host(a) if isinstance(a, strict.ndarray) else a, arguments)
            getattr(kernels_device.kernels(number), name)[blocks, threads](*given)

        if blocks:
            _launched(name, compute, *arguments)

    monkeypatch.setattr(kernels, "PROVEN", ("strict",))
    monkeypatch.setattr(kernels, "THREADS", 4)
    monkeypatch.setattr(kernels, "launch", launch)
    shared = importlib.import_module("numba.cuda.simulator.kernelapi").FakeCUDAShared
    monkeypatch.setattr(shared, "array", _room_of_a_block)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # the simulator's threads wait for one another
    yield
    sys.setswitchinterval(before)
    kernels._is_proven.cache_clear()


def _room_of_a_block(shared, shape, dtype):
    """A launch's only shared array. The simulator's function looks for it, then makes it, and threads race to do so:

    now and then two of the first block get different arrays, and add what lay in memory. A dict's `setdefault` is one
    step.
    """
    return shared._allocations.setdefault("room", np.empty(shape, dtype))


def _host(x):
    """The simulator writes every array back, also one that is broadcast, which NumPy refuses."""
    return x.host if x.host.flags.writeable else x.host.copy()


def keys(count=1):
    """A source of masks for three sequences, whose keys lie on the double."""
    each = [strict.asarray(np.array([0xFEDCBA9876543210 + 977 * i], np.uint64)) for i in range(count)]
    return MaskKeys(iter(each), strict.asarray(np.array([7, 2**31, 5])))


def both(f):
    """What f gives by kernels, how many calls that takes, and what the readable forms give; all on the host."""
    COUNTS.clear()
    mine, calls = f(), COUNTS["calls"]
    with readable():
        expected = f()
    arrays = ([], [])
    for found, x in zip(arrays, (mine, expected), strict=True):
        tree(lambda a, found=found: found.append(a.get()) if isinstance(a, strict.ndarray) else None, x)
    assert len(arrays[0]) == len(arrays[1])
    for a, b in zip(*arrays, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    return arrays[0], calls, arrays[1]


def close(mine, expected):
    for a, b in zip(mine, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=(2e-6 if a.dtype == "f" else 1e-14) * max(1, np.abs(b).max()))


def there(rng, dtype, *shapes):
    return [strict.asarray(rng.standard_normal(shape).astype(dtype)) for shape in shapes]


@pytest.mark.parametrize("rows", [[0, 1, 2], [7, 2**31, 5]])
@pytest.mark.parametrize(("shape", "rate"), [((3, 5), 0.2), ((3, 3, 2), 0.5), ((3, 2, 3, 5), 0.99999), ((3, 0), 0.5)])
def test_a_mask_has_the_bits_of_the_readable_form(shape, rate, rows, proven):
    carry = On("strict").there
    x, rows = strict.zeros(1), carry(np.array(rows))
    key = carry(np.array([0xFEDCBA9876543210], np.uint64))
    COUNTS.clear()
    mine = dropout_mask(x, shape, rate, MaskKeys(iter([key]), rows))
    assert COUNTS["calls"] == 1 + bool(mine.size)  # memory, and the kernel, where there is an entry
    with readable():
        expected = dropout_mask(x, shape, rate, MaskKeys(iter([key]), rows))
    np.testing.assert_array_equal(mine.get(), expected.get())


def test_adam_in_one_kernel_is_adam_to_the_bit(proven, rng):
    """The readable form on the device is held to the definition by `tinyattn check adam`."""
    assert "adam" in SPECS
    start, found = rng.standard_normal(21).astype("f"), []
    gradients = rng.standard_normal((3, 21)).astype("f") * 10.0 ** rng.integers(-6, 6, 21).astype("f")
    for as_read in (False, True):
        vector, m, v = (strict.asarray(x) for x in (start, 0 * start, 0 * start))
        for step, gradient in enumerate(gradients, start=1):
            factors = tuple(strict.asarray(np.array([x], "f")) for x in corrections(step, 0.01))
            COUNTS.clear()
            with readable(as_read):
                assert adam(vector, strict.asarray(gradient), Moments(m, v), factors, lr=0.01) is None
            assert COUNTS["calls"] == (13 if as_read else 1)
        found.append([x.get() for x in (vector, m, v)])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("dtype", "fd")
def test_a_norm_and_its_gradients(dtype, proven, monkeypatch, rng):
    """Rows are longer than a block is wide, and a group of lanes has several."""
    monkeypatch.setattr(kernels, "PARTS", 2)
    x, dy, gamma, beta = there(rng, dtype, (3, 2, 5), (3, 2, 5), 5, 5)
    p = {"gamma": gamma, "beta": beta}
    mine, calls, expected = both(lambda: norm(p, x, eps=1e-5))
    assert calls == 2
    close(mine, expected)
    with readable():
        _, cache = norm(p, x)
    mine, calls, expected = both(lambda: norm_backward(p, dy, cache))
    assert calls == 3
    close(mine, expected)
    np.testing.assert_array_equal(mine[1], both(lambda: norm_backward(p, dy, cache))[0][1])


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize("shape", [(3, 5), (3, 2, 3), (3, 2, 1, 5)])
def test_a_dropped_branch_and_its_residual_are_the_readable_ones_to_the_bit(shape, dtype, proven, rng):
    x, branch, dy = there(rng, dtype, shape, shape, shape)
    for before in (x, None):
        mine, calls, expected = both(lambda: add_dropped(before, branch, 0.3, keys())[0])  # noqa: B023
        assert calls == 2
        np.testing.assert_array_equal(mine, expected)
    mine, _, expected = both(lambda: dropped_backward(dy, add_dropped(x, branch, 0.3, keys())[1], 0.3))
    np.testing.assert_array_equal(mine, expected)


@pytest.mark.parametrize(
    ("mask", "dropped", "dtype"),
    [("causal", 0.0, "f"), ("causal", 0.4, "d"), ("lengths", 0.0, "d"), ("allowed", 0.4, "f"), ("", 0.0, "f")],
)
def test_attention_and_its_gradients(mask, dropped, dtype, proven, rng):
    q, k, v, dout = there(rng, dtype, (3, 2, 3, 2), (3, 2, 5, 2), (3, 2, 5, 2), (3, 2, 3, 2))
    masks = {
        "": Mask(),
        "causal": Mask(causal=True),
        "lengths": Mask(causal=True, lengths=strict.asarray(np.array([5, 0, 2]))),  # the second sees nothing
        "allowed": Mask(allowed=strict.asarray(rng.random((2, 3, 5)) < 0.5)),
    }

    def run():
        out, cache = Full().forward(None, q, k, v, masks[mask], {}, dropped, keys() if dropped else None)
        return out, cache.weights, Full().backward(None, dout, cache)

    mine, calls, expected = both(run)
    assert calls < 20
    close(mine, expected)


@pytest.mark.parametrize(
    ("mask", "rate", "sequences"), [("causal", 0.0, 1), ("causal", 0.4, 2), ("lengths", 0.4, 1), ("each", 0.0, 2)]
)
def test_attention_of_a_few_sequences_at_a_time(mask, rate, sequences, proven, monkeypatch, rng):
    """Two and one, or one each; masks and dropout are those of the sequences. Memory is that of one group's scores."""
    monkeypatch.setattr(tiles, "WHOLE", sequences * 2 * 3 * 5 * 4)
    q, k, v, dout = there(rng, "f", (3, 2, 3, 2), (3, 2, 5, 2), (3, 2, 5, 2), (3, 2, 3, 2))
    masks = {
        "causal": Mask(causal=True),
        "lengths": Mask(causal=True, lengths=strict.asarray(np.array([5, 0, 2]))),
        "each": Mask(allowed=strict.asarray(rng.random((3, 1, 3, 5)) < 0.5)),
    }

    def run():
        out, cache = Full().forward(None, q, k, v, masks[mask], {}, rate, keys() if rate else None)
        assert is_readable() or type(cache) is tiles.Weighing
        return out, cache.weights, Full().backward(None, dout, cache)

    mine, _, expected = both(run)
    close(mine, expected)
    monkeypatch.setattr(tiles, "WHOLE", 2 * 3 * 5 * 4 - 1)  # of one sequence: there are tiles for that
    assert tiles.by_kernels(q, k, v, masks[mask], rate, keys()) is NotImplemented


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_long_attention_has_the_memory_of_one_group_of_sequences(rate, monkeypatch):
    """Kernels compute nothing here; the arrays are there."""
    monkeypatch.setattr(kernels, "PROVEN", ("strict",))
    monkeypatch.setattr(kernels, "launch", lambda name, *arguments: _launched(name, lambda: None, *arguments))
    kernels._is_proven.cache_clear()
    monkeypatch.setattr(tiles, "WHOLE", 1 << 21)
    q, rows, key = strict.zeros((12, 2, 512, 4), dtype="f"), strict.asarray(np.arange(12)), strict.zeros(1, np.uint64)
    tracemalloc.start()
    try:
        _, cache = Full().forward(None, q, q, q, Mask(causal=True), {}, rate, MaskKeys(iter([key]), rows))
        kept = tracemalloc.get_traced_memory()[0]
        Full().backward(None, q, cache)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        kernels._is_proven.cache_clear()
    scores = 1 << 21  # of a sequence, of which there are twelve
    assert kept < scores / 4
    assert scores < peak < 5 * scores


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(("activation", "rate"), [("relu", 0.0), ("gelu", 0.4), ("gelu-tanh", 0.0)])
def test_a_feed_forward_network_and_its_gradients(activation, rate, dtype, proven, rng):
    x, dy, W1, b1, W2, b2 = there(rng, dtype, (3, 1, 3), (3, 1, 3), (3, 5), 5, (5, 3), 3)
    p = {"inner": {"W": W1, "b": b1}, "outer": {"W": W2, "b": b2}}

    def run():
        y, cache = feed_forward(p, x, activation=activation, rate=rate, rng=keys() if rate else None)
        return y, feed_forward_backward(p, dy, cache)

    mine, _, expected = both(run)
    close(mine, expected)


@pytest.mark.parametrize(
    ("weights", "dtype"), [([[1, 0], [1, 1]], "f"), ([[1, 0], [1, 1]], "d"), ([[0, 0], [0, 0]], "f")]
)
def test_losses_and_their_gradients(weights, dtype, proven, rng):
    """Positions of weight 0 count for nothing, and where all are of weight 0, so are loss and gradients."""
    h, E, logits = there(rng, dtype, (2, 2, 3), (7, 3), (4, 7))
    ids = {name: strict.asarray(rng.integers(1, 7, size)) for name, size in
           (("targets", (2, 2)), ("negatives", (2, 2)), ("shared", (2, 1, 6)))}  # fmt: skip
    weight = strict.asarray(np.array(weights, dtype))
    batch = SimpleNamespace(weight=weight, **ids)
    for f, back, options in ((bce, bce_backward, {}), (gbce, gbce_backward, {"n_negatives": 6, "calibration": 0.75})):

        def run(f=f, back=back, options=options):
            loss, saved = f(h, E, batch, **options)
            dh, scored = back(0.7, h, E, batch, saved)
            return loss, dh, scored.ids, scored.values

        mine, _, expected = both(run)
        close(mine, expected)
    for smoothing in (0.0, 0.1):

        def classes(smoothing=smoothing):
            loss, saved = smoothed_loss(logits, ids["targets"].reshape(-1), weight.reshape(-1), smoothing)
            return loss, smoothed_loss_backward(0.7, saved)

        mine, calls, expected = both(classes)
        assert calls == 5
        close(mine, expected)


@pytest.mark.parametrize("dtype", "fd")
def test_rows_of_a_table_are_summed_in_a_fixed_order(dtype, proven, monkeypatch, rng):
    """Runs within a block of sorted rows, over its end, and over several; the readable form adds in float64, too."""
    for module in (tables, kernels_device):
        monkeypatch.setattr(module, "SPAN", 2)
    E, values = there(rng, dtype, (6, 3), (13, 3))
    ids = strict.asarray(np.array([4, 0, 0, 5, 0, 0, 1, 0, 0, 1, 1, 5, 0]))
    mine, calls, expected = both(lambda: table_gradient(ids, values, E))
    assert calls == 5
    close(mine, expected)
    np.testing.assert_array_equal(mine, both(lambda: table_gradient(ids, values, E))[0])


def test_gradients_are_added_in_one_launch_of_several_arrays(proven, monkeypatch, rng):
    monkeypatch.setattr(kernels, "LEAVES", 2)
    shapes = {"a": (2, 3), "b": {"c": (11,), "d": [(1,), (3, 1)]}}
    totals, grads = ({"a": x, "b": {"c": y, "d": [z, w]}} for x, y, z, w in (
        there(rng, "f", shapes["a"], shapes["b"]["c"], *shapes["b"]["d"]) for _ in range(2)))  # fmt: skip
    expected = [a.get() + b.get() for a, b in zip(flat(totals), flat(grads), strict=True)]
    COUNTS.clear()
    add_to(totals, grads)
    assert COUNTS["calls"] == 2
    for mine, sums in zip(flat(totals), expected, strict=True):
        np.testing.assert_array_equal(mine.get(), sums)


def flat(x):
    return [x["a"], x["b"]["c"], *x["b"]["d"]]


def test_a_map_without_bias_sums_nothing_for_one(proven, rng):
    x, dy, W = there(rng, "f", (2, 3), (2, 5), (3, 5))
    mine, calls, expected = both(lambda: dense_backward({"W": W}, dy, DenseCache(x)))
    assert calls == 2
    np.testing.assert_array_equal(mine[0], expected[0])


def test_a_step_of_sasrec_with_them_has_fewer_calls_and_the_same_numbers(proven, monkeypatch):
    """docs/gpu.md has these counts. Memory alone launches nothing."""
    monkeypatch.setattr(kernels, "THREADS", 1)
    split = leave_one_out(TINY.generate())
    network = SASRecNetwork(n_items=split.train.n_items, maxlen=3, dim=2)
    batch, found, calls = Sampler(split.train, 3, 2, 0, True).batch(0), [], []
    for cards in (("strict",), ()):
        monkeypatch.setattr(kernels, "PROVEN", cards)
        kernels._is_proven.cache_clear()
        learner = Learner(network, Settings(device="strict"), [batch], steps=1)
        seen, sent = learner.xp.zeros(2), learner.send(batch, 0)
        with learner.pool(1) as pool, Step() as step:
            learner.compute([(0, 1.0, sent)], seen, pool)
            learner.update(1)
        names = [name for name, *_ in step.calls]
        calls.append((len(names), len(names) - names.count("empty")))
        found.append([backend.to_numpy(x) for x in (seen, learner.gradient)])
    assert calls[0] == (142, 119)
    assert calls[1][0] == 465
    for mine, expected in zip(*found, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-6)


SAVED = {  # what docs/gpu.md says -> the functions that make it; each row has those above, too
    "the readable forms": (),
    "Adam, dropout masks": ("adam", "dropout_mask"),
    "LayerNorm": ("norm", "norm_backward"),
    "dropout with its residual": ("add_dropped",),
    "softmax with mask and scale": ("attention",),
    "activation with bias": ("feed_forward",),
    "losses": ("bce", "first_is_target", "smoothed_loss"),
    "rows of tables": ("sum_rows",),
    "all gradients added": ("add_to",),
    "no sum for a bias that is not there": ("plain_dense_backward",),
}


def test_the_page_says_what_each_kernel_saves(monkeypatch):
    """Only counted: kernels are launched, and compute nothing."""
    places = {"attention": (tiles, "by_kernels"), "sum_rows": (tables, "_by_kernels")}
    functions = {name: places.get(name, (kernels, name)) for names in SAVED.values() for name in names}
    monkeypatch.setattr(kernels, "PROVEN", ("strict",))
    monkeypatch.setattr(kernels, "launch", lambda name, *arguments: _launched(name, lambda: None, *arguments))
    kernels._is_proven.cache_clear()
    data, wanted, rows = leave_one_out(TINY.generate()).train, set(), []

    def counted(form, loss):
        network = SASRecNetwork(n_items=data.n_items, maxlen=6, dim=8, block_form=form, objective=loss)
        batch = Sampler(data, 6, 20, 0, OBJECTIVES[loss].negatives, network.n_negatives or 0).batch(0)
        learner = Learner(network, Settings(device="strict"), [batch], steps=1)
        seen, sent = learner.xp.zeros(2), learner.send(batch, 0)
        with learner.pool(1) as pool, Step() as step, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that nothing computed
            learner.compute([(0, 1.0, sent)], seen, pool)
            learner.update(1)
        names = [name for name, *_ in step.calls]
        return f"{len(names)} | {len(names) - names.count('empty')} |"

    for row, more in SAVED.items():
        wanted |= set(more)
        with monkeypatch.context() as patch:
            for name, (module, function) in functions.items():
                if name not in wanted:
                    patch.setattr(module, function, lambda *_, **__: NotImplemented)
            if "norm" not in wanted:  # the block that folds its norms into products makes fewer calls
                patch.setattr(block, "kernels", SimpleNamespace(suits=lambda *_: False))
            rows.append(f"| {row} | {counted('pre', 'bce')}")
    for form, loss in (("pre", "ce"), ("pre", "gbce"), ("post", "bce"), ("sasrec", "bce")):
        rows.append(f"| with all of them, form `{form}`, loss `{loss}` | {counted(form, loss)}")
    kernels._is_proven.cache_clear()
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text()
    assert "\n".join(["|---|---|---|", *rows, ""]) in page, "\n".join(rows)


@pytest.mark.parametrize(
    "cut", [lambda x: x[..., 1:], lambda x: x[:, 1:], lambda x: x.swapaxes(0, 1), lambda x: x[::2]]
)
def test_rows_with_gaps_are_left_to_the_readable_forms_or_copied(cut, proven, rng):
    """Columns or rows of something larger, as in STOSA, FPMC and ViT. The simulator takes no such arrays."""
    x, dy = (cut(a) for a in there(rng, "f", (3, 4, 3), (3, 4, 3)))
    assert not x.flags.c_contiguous
    (gamma, table), (users, length, d) = there(rng, "f", x.shape[-1], (7, x.shape[-1])), x.shape
    p, weight = {"gamma": gamma, "beta": gamma}, strict.asarray(rng.random((users, length)).astype("f"))
    ids = strict.asarray(rng.integers(1, 7, (users, length)))
    rows = strict.asarray(np.arange(users))

    def run():
        y, cache = norm(p, x)
        (_, keep), h = add_dropped(y, y, 0.3, MaskKeys(keys().rng, rows)), x.reshape(-1, d)
        batch = SimpleNamespace(weight=weight, targets=ids, negatives=ids)
        loss, saved = bce(x, table, batch)
        back = bce_backward(0.7, x, table, batch, saved)[0]
        many, more = smoothed_loss(h, ids.reshape(-1) % d, weight.reshape(-1), 0.1)
        return (y, norm_backward(p, dy, cache), dropped_backward(dy, keep, 0.3), table_gradient(ids, dy, table), loss,
                back, many, smoothed_loss_backward(0.7, more))  # fmt: skip

    mine, _, expected = both(run)
    close(mine, expected)


def test_nothing_is_launched_for_a_mask_without_entries():
    kernels.launch("keep", strict.zeros(1), 0, 4)


def test_where_nothing_was_proven_the_readable_forms_compute():
    x = strict.zeros(3, dtype="f")
    assert kernels.adam(x, x, Moments(x, x), (x, x)) is NotImplemented
    assert kernels.dropout_mask(x, (3, 2), 0.5, MaskKeys(iter([x]), x)) is NotImplemented
    assert kernels.adam(np.zeros(3, "f"), x, Moments(x, x), 1) is NotImplemented
    assert kernels.norm({"gamma": x, "beta": x}, x) is NotImplemented
    assert tables._by_kernels(x, x, x) is NotImplemented


def test_what_does_not_suit_is_left_to_the_readable_forms(proven, rng):
    x, wide, other = there(rng, "f", (2, 3), (2, 4), 3)
    assert kernels.norm({"gamma": other, "beta": other}, wide) is NotImplemented
    assert not kernels.suits(x, strict.zeros(3))  # float64 beside float32
    assert not kernels.suits(strict.zeros((0, 3), dtype="f"))
    assert kernels.add_dropped(x, wide, 0.5, keys()) is NotImplemented
    assert kernels.add_dropped(x, x, 0.5, np.random.default_rng(0)) is NotImplemented  # its key is on the host
    assert kernels.feed_forward({"inner": {"W": x}}, x) is NotImplemented  # without bias
    many = strict.zeros(tables.MOST_IDS + 1, dtype=int)
    assert (
        tables._by_kernels(many, strict.zeros((len(many), 1), dtype="f"), strict.zeros((2, 1), dtype="f"))
        is NotImplemented
    )
