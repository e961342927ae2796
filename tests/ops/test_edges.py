"""Sizes of zero, extreme values, and what is refused."""

import inspect
import math

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.common import upstream
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject
from tinyattn.random import Stream, generator


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape)


def test_no_tokens_at_all():
    """An empty batch, no queries, no keys: shapes stay right, and nothing warns."""
    assert ops.linear(normal(0, 3), normal(3, 4), normal(4)).shape == (0, 4)
    assert ops.linear_backward(normal(0, 4), normal(0, 3), normal(3, 4))[1].tolist() == np.zeros((3, 4)).tolist()
    out, weights = ops.attention(normal(2, 3), normal(0, 3), normal(0, 4))
    assert weights.shape == (2, 0)
    assert out.tolist() == np.zeros((2, 4)).tolist()  # nothing to look at: zeros
    assert ops.attention(normal(0, 3), normal(5, 3), normal(5, 4))[0].shape == (0, 4)
    assert ops.softmax(normal(3, 0)).shape == (3, 0)
    assert ops.layer_norm(normal(0, 3), np.ones(3), np.zeros(3))[0].shape == (0, 3)
    *empty, inv_std = ops.batch_norm(normal(0, 3), np.ones(3), np.zeros(3))
    assert [y.shape for y in empty] == [(0, 3)] * 2
    assert inv_std.tolist() == [1 / math.sqrt(1e-5)] * 3  # of a variance of 0
    assert ops.embedding(np.zeros((0,), int), normal(4, 2)).shape == (0, 2)
    assert not ops.embedding_backward(normal(0, 2), np.zeros((0,), int), normal(4, 2)).any()
    assert ops.cross_entropy(normal(0, 3), np.zeros(0, int)) == 0
    assert ops.bce_with_logits(normal(0), normal(0)) == 0
    assert ops.cross_entropy_backward(1.0, normal(0, 3), np.zeros(0, int)).shape == (0, 3)
    assert ops.bce_with_logits_backward(1.0, normal(0), normal(0)).shape == (0,)
    assert ops.bpr_max(normal(0), normal(0, 3)) == 0
    with pytest.raises(ValueError, match=r"negatives is \(2, 0\), expected at least one"):
        ops.bpr_max(normal(2), normal(2, 0))


def test_tokens_without_width():
    """All scores are 0, and all weights alike; of linear attention there is nothing to weigh by."""
    q, k, v = normal(4, 0), normal(3, 0), normal(3, 2)
    performer = ops.performer_attention(q, k, v, normal(2, 0), causal=False)
    for out, _ in (ops.attention(q, k, v), ops.fused_attention(q, k, v), performer):
        np.testing.assert_allclose(out, np.tile(v.mean(axis=0), (4, 1)), rtol=0, atol=1e-15)
    assert not ops.linear_attention(q, k, v, causal=False)[0].any()
    assert not ops.refine_simp(normal(3, 3), normal(3, 0), normal(3, 0))[0].any()
    B, *saved = ops.refine_stoc(normal(3, 3), normal(3, 0), normal(3, 0))
    assert not B.any()
    assert not ops.refine_stoc_backward(normal(3, 3), normal(3, 3), normal(3, 0), normal(3, 0), B, *saved)[0].any()


def test_a_single_position_without_any_axis():
    """Losses of one position: no leading axis at all."""
    z, one = normal(3), np.array(1.0)
    np.testing.assert_allclose(ops.cross_entropy(z, np.array(1)), np.log(np.exp(z).sum()) - z[1])
    assert ops.cross_entropy_backward(1.0, z, np.array(1)).shape == (3,)
    np.testing.assert_allclose(ops.bce_with_logits(one, one), np.log1p(np.exp(-1)))
    assert ops.bce_with_logits_backward(1.0, one, one, one).shape == ()


@pytest.mark.host
def test_a_numpy_scalar_is_an_array_without_axes():
    z, five = normal(3), np.float64(5)
    np.testing.assert_allclose(ops.cross_entropy(z, np.array(1), five), ops.cross_entropy(z[None], np.array([1])))


@pytest.mark.host  # a device wraps ids around in silence: batches are checked where they are made
def test_an_id_beyond_the_table_is_refused():
    with pytest.raises(IndexError, match="out of bounds"):
        ops.embedding(np.array([4]), normal(4, 2))


@pytest.mark.host  # likewise
@pytest.mark.parametrize("loss", [ops.cross_entropy, ops.smoothed_cross_entropy])
def test_a_target_beyond_the_logits_is_refused(loss):
    with pytest.raises(IndexError, match="out of bounds"):
        loss(normal(2, 4), np.array([0, 4]))


def test_a_bias_receives_the_sum_over_all_it_was_repeated_along():
    q, k, v = normal(2, 3, 4, 5), normal(2, 3, 6, 5), normal(2, 3, 6, 2)
    whole = normal(2, 3, 4, 6)
    out, weights = ops.attention(q, k, v, bias=whole)
    full = ops.attention_backward(out, q, k, v, weights, bias=whole)[3]
    for shape in ((2, 3, 4, 6), (3, 4, 6), (1, 3, 1, 6), (2, 1, 4, 1), (1, 1), (6,), ()):
        axes = tuple(i for i, size in enumerate((1,) * (4 - len(shape)) + shape) if size == 1)
        part = ops.attention_backward(out, q, k, v, weights, bias=np.zeros(shape))[3]
        np.testing.assert_allclose(part, full.sum(axis=axes, keepdims=True).reshape(shape), atol=1e-12)


def test_weights_that_are_all_zero_give_zero_loss_and_gradient():
    z, t, w = normal(3, 4), np.array([0, 1, 2]), np.zeros(3)
    assert ops.cross_entropy(z, t, w) == 0
    assert not ops.cross_entropy_backward(1.0, z, t, w).any()
    assert ops.bce_with_logits(z[0], np.ones(4), np.zeros(4)) == 0
    assert not ops.bce_with_logits_backward(1.0, z[0], np.ones(4), np.zeros(4)).any()
    assert ops.bpr_max(z[:, 0], z, w) == 0
    assert not any(d.any() for d in ops.bpr_max_backward(1.0, z[:, 0], z, w))


def test_weight_0_takes_out_a_position_whose_loss_is_infinite():
    z, t, w = normal(2, 4), np.array([1, 0]), np.array([1.0, 0.0])
    z[:, 0] = -np.inf  # as scores of padding are
    np.testing.assert_allclose(ops.cross_entropy(z, t, w), ops.cross_entropy(z[:1], t[:1]))
    assert np.isfinite(ops.cross_entropy_backward(1.0, z, t, w)).all()
    np.testing.assert_allclose(ops.smoothed_cross_entropy(z, t, w, 0.0), ops.cross_entropy(z, t, w))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_logits_stay_finite(dtype):
    q = np.array([[1e4, 0.0], [-1e4, 0.0]], dtype)
    k = v = np.array([[1.0, 0.0], [-1.0, 0.0]], dtype)
    out, weights = ops.attention(q, k, v, scale=1.0)
    np.testing.assert_array_equal(weights, np.eye(2, dtype=dtype))
    for g in ops.attention_backward(np.ones_like(out), q, k, v, weights, scale=1.0)[:3]:
        assert np.all(np.isfinite(g))
    far = np.array([-1e30, -50.0, 0.0, 50.0, 1e30], dtype)
    for approximate in (False, True):
        np.testing.assert_array_equal(ops.gelu(far, approximate), np.maximum(far, 0))
        np.testing.assert_array_equal(ops.gelu_backward(np.ones_like(far), far, approximate), [0, 0, 0.5, 1, 1])
    np.testing.assert_array_equal(ops.sigmoid(far), [0, ops.sigmoid(far)[1], 0.5, 1, 1])
    slope = ops.root_elu_backward(np.ones_like(far), ops.root_elu(far))
    np.testing.assert_allclose(slope, [0, np.exp(-25) / 2, 0.5, 0.5 / np.sqrt(51), 5e-16], rtol=1e-5)


def test_layer_norm_of_large_offsets_keeps_its_precision():
    x = normal(5, 8).astype(np.float32)
    moved = x + np.float32(1e4)
    y, _, _ = ops.layer_norm(moved, np.ones(8, np.float32), np.zeros(8, np.float32))
    exact, _, _ = ops.layer_norm(moved.astype(np.float64), np.ones(8), np.zeros(8))
    np.testing.assert_allclose(y, exact, rtol=0, atol=2e-2)  # E[x²] - mean² would be off by whole units


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.attention(normal(2, 3), normal(4, 5), normal(4, 2)), ValueError,
         r"attention: k has shape \(4, 5\), expected \(\.\.\., m, d\) with \.\.\. = \(\), d = 3"),
        (lambda: ops.attention(normal(2, 2, 3), normal(3, 4, 3), normal(3, 4, 3)), ValueError, r"\.\.\. = \(2,\)"),
        (lambda: ops.attention(normal(2, 3), normal(4, 3), normal(4, 3), mask=np.ones((2, 4))), TypeError,
         "mask has dtype float64, expected bool"),
        (lambda: ops.attention(normal(2, 3), normal(4, 3), normal(4, 3), mask=np.ones((5, 2, 4), bool)), ValueError,
         r"mask has shape \(5, 2, 4\), expected one that broadcasts to \(2, 4\)"),
        (lambda: ops.linear(normal(2, 3).astype(np.float32), normal(3, 4)), TypeError,
         "linear: W is float64 where the others are float32"),
        (lambda: ops.linear(np.ones((2, 3), int), np.ones((3, 4), int)), TypeError, "expected float32 or float64"),
        (lambda: ops.linear(normal(3).astype(np.float16), normal(3, 4)), TypeError, "float16"),
        (lambda: ops.linear([[1.0]], normal(1, 4)), TypeError, "linear: x is a list, expected an array"),
        (lambda: ops.embedding(normal(3), normal(4, 2)), TypeError, "embedding: ids has dtype float64"),
        (lambda: ops.attention(normal(2, 3).astype("f"), normal(4, 3).astype("f"), normal(4, 3).astype("f"),
                               bias=normal(2, 4)), TypeError, "attention: bias has dtype float64, expected float32"),
        (lambda: ops.dropout(normal(3), np.ones(3, bool), 1.0), ValueError, "rate is 1.0"),
        (lambda: ops.dropout(normal(3), None, 5.0), ValueError, "rate is 5.0"),
        (lambda: ops.keep_mask(np.random.default_rng(0), 3, -0.1), ValueError, "rate is -0.1"),
        (lambda: ops.cross_entropy(normal(3, 4), np.zeros(2, int)), ValueError, "cross_entropy: targets has shape"),
        (lambda: ops.smoothed_cross_entropy(normal(3, 4), np.zeros(3, int), None, 1.5), ValueError, "smoothing is 1.5"),
        (lambda: ops.smoothed_cross_entropy(normal(3, 4), np.zeros(3, int), None, -0.1), ValueError,
         "smoothing is -0.1, expected 0 to 1"),
        (lambda: ops.tiled_cross_entropy(normal(3, 4), normal(5, 4), np.zeros(3, int), tile=0), ValueError,
         "tile is 0, expected at least 1 class"),
        (lambda: ops.tiled_cross_entropy(normal(3, 4), normal(5, 4), np.zeros(3, int), smoothing=1.5), ValueError,
         "smoothing is 1.5, expected 0 to 1"),
        (lambda: ops.pointwise_weights(normal(3)), ValueError, r"pointwise_weights: s has shape \(3,\)"),
        (lambda: ops.tiled_cross_entropy(normal(3, 4), normal(5, 3), np.zeros(3, int)), ValueError,
         r"tiled_cross_entropy: E has shape \(5, 3\)"),
        (lambda: ops.layer_norm(normal(3, 4), np.ones(3), np.ones(3)), ValueError, "layer_norm: gamma has shape"),
        (lambda: ops.batch_norm(normal(3, 4), np.ones(4), np.ones(4), var=np.ones(4)), ValueError,
         "batch_norm: mean is None, expected mean and var or neither"),
        (lambda: ops.batch_norm(normal(3, 4), np.ones(4), np.ones(4), mean=np.ones(4)), ValueError, "var is None"),
        (lambda: ops.max_pool1d(normal(3, 4), 0), ValueError, "width is 0, expected 1 to 3, the number of tokens"),
        (lambda: ops.max_pool1d(normal(3, 4), 4), ValueError, "max_pool1d: width is 4, expected 1 to 3"),
        (lambda: ops.max_pool1d_backward(normal(1, 4), normal(3, 4), np.zeros((1, 4), int), 2), ValueError,
         r"max_pool1d_backward: dy has shape \(1, 4\), expected \(..., 2, 4\), that of y"),
        (lambda: ops.patchify(normal(4, 6, 1), 4), ValueError,
         "patchify: patch is 4, expected a divisor of the width, which is 6"),
        (lambda: ops.patchify(normal(4, 6, 1), 0), ValueError, "patch is 0, expected a divisor of the height"),
        (lambda: ops.patchify_backward(normal(6, 4), normal(3, 8, 1), 2), ValueError,
         "patchify_backward: patch is 2, expected a divisor of the height, which is 3"),
        (lambda: ops.additive_attention(normal(3, 4), normal(3, 4), normal(3, 2), normal(2)), ValueError,
         r"additive_attention: w has shape \(2,\), expected \(d\) with d = 4"),
        (lambda: ops.additive_attention(normal(3, 4), normal(2, 4), normal(2, 2), normal(4)), ValueError,
         "additive_attention: k has shape"),
        (lambda: ops.wasserstein_scores(normal(3, 4), np.ones((3, 4)), normal(2, 4), np.ones((2, 3))), ValueError,
         r"wasserstein_scores: k_dev has shape \(2, 3\)"),
        (lambda: ops.wasserstein_scores(normal(3, 4), np.ones((3, 4)), normal(0, 4), np.ones((0, 4))), ValueError,
         r"wasserstein_scores: k_mean has shape \(0, 4\), expected at least one key"),
        (lambda: ops.delta_matrix(normal(3, 4), normal(3, 2), normal(3)), ValueError,
         r"delta_matrix: k has shape \(3, 2\)"),
        (lambda: ops.refine_simp(normal(3, 4), normal(4, 2), normal(4, 2), lags=True), ValueError,
         r"refine_simp: A has shape \(3, 4\), expected \(\.\.\., n, n\)"),
        (lambda: ops.refine_stoc(normal(3, 4), normal(4, 2), normal(4, 2), lags=True), ValueError,
         r"refine_stoc: A has shape \(3, 4\), expected \(\.\.\., n, n\)"),
        (lambda: ops.gaussian_attention(normal(2, 3), normal(3, 4), np.ones((3, 4)), np.ones((2, 4), bool)), ValueError,
         r"gaussian_attention: mask has shape \(2, 4\), expected one that broadcasts to \(2, 3\)"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


MAPS = {name: [n for n in spec.wrt if n.startswith("W_")] for name, spec in SPECS.items() if "A" in spec.wrt}
OF_SCORES = {name: maps for name, maps in MAPS.items() if maps}
OF_ROWS = [name for name in OF_SCORES if "lags" in inspect.signature(getattr(ops, name)).parameters]


@pytest.mark.parametrize("name", OF_ROWS)
def test_maps_of_scores_have_one_width_and_no_axes_of_their_own(name):
    """A width of 1 would broadcast, and so would scores to further axes of the maps. A third map is of n columns."""
    backward = f"{name}_backward"
    A, one, other = normal(3, 3), normal(3, 2), normal(3, 1)
    more = [A] * len(OF_SCORES[name][2:])
    found = getattr(ops, name)(A, one, one, *more)
    saved = found if "B" in required(getattr(ops, backward)) else found[1:]
    for f, given in ((name, []), (backward, [A])):
        with pytest.raises(ValueError, match=rf"^{f}: W_\w+ has shape \(3, 1\), expected .* = 2$"):
            getattr(ops, f)(*given, A, one, other, *more, *(saved if given else []))
        several = normal(2, 3, 2)
        with pytest.raises(ValueError, match=rf"^{f}: W_\w+ has shape \(2, 3, 2\), expected one that broadcasts to"):
            getattr(ops, f)(*given, A, several, several, *more, *(saved if given else []))


@pytest.mark.parametrize("name", OF_SCORES)
def test_a_map_that_is_missing_is_named(name):
    A, maps = normal(3, 3), OF_SCORES[name]
    given = {"A": A} | dict.fromkeys(maps, A)
    for f in (getattr(ops, name), getattr(ops, f"{name}_backward")):
        rest = {n: A for n in required(f) if n not in given}
        for missing in given:
            with pytest.raises(TypeError, match=rf"^{f.__name__}: {missing} is None, expected an array$"):
                f(**given | rest | {missing: None})


@pytest.mark.host  # a device would have to be waited for
def test_a_spread_below_0_is_refused():
    ones = np.ones((2, 4))
    for name in ("q_dev", "k_dev"):
        given = {"q_mean": ones, "q_dev": ones, "k_mean": ones, "k_dev": ones} | {name: -0.5 * ones}
        with pytest.raises(ValueError, match=rf"wasserstein_scores: {name} has an entry of -0\.5, expected a spread"):
            ops.wasserstein_scores(**given)
    v_cov = np.array([[1.0], [0], [-2], [-1]])
    with pytest.raises(ValueError, match="attention: v_cov has an entry of -2, expected a spread, at least 0"):
        ops.gaussian_attention(normal(3, 4), normal(4, 2), v_cov)


def test_where_nobody_asks_no_key_is_needed():
    assert ops.wasserstein_scores(*(np.ones((0, 4)) for _ in range(4))).shape == (0, 0)


def test_patches_of_one_number_or_of_the_whole_image_are_copies():
    x = normal(4, 4, 1)
    for patch in (1, 4):
        y = ops.patchify(x, patch)
        assert not np.shares_memory(x, y)
        assert not np.shares_memory(y, ops.patchify_backward(y, x, patch))


def test_a_spread_of_0_is_that_of_a_point():
    """Distances are then those of the means, and an average of points is a point."""
    q, k, zeros = normal(3, 4), normal(5, 4), np.zeros((5, 4))
    apart = np.sum((q[:, None] - k) ** 2, axis=-1)
    found = ops.wasserstein_scores(q, zeros[:3], k, zeros)
    np.testing.assert_allclose(found, -apart / 2, rtol=0, atol=1e-12)  # the root of 4
    out, weights = ops.gaussian_attention(found, k, zeros)
    np.testing.assert_allclose(out, np.hstack([weights @ k, zeros[:3]]), rtol=0, atol=1e-12)


OF_OPS = [name for name, spec in SPECS.items() if spec.ours() is ops]


@pytest.mark.host
@pytest.mark.parametrize("name", OF_OPS)
def test_what_a_backward_is_not_told_is_what_the_forward_was_not_told(name):
    spec = SPECS[name]
    backward = getattr(ops, f"{spec.function}_backward")
    cases = (spec.case(CaseDrawer.seeded(seed)) for seed in range(20))
    case = next(case for case in cases if case.get("causal", True))
    case = {n: case[n] for n in required(getattr(ops, spec.function))}
    given = Subject(ops, spec).prepared(case, upstream(spec, case))  # with the forward's defaults
    told, not_told = (backward(**{n: given[n] for n in names}) for names in (given, required(backward)))
    for g, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (told, not_told)), strict=True):
        np.testing.assert_array_equal(g, other)


def required(f):
    return [n for n, p in inspect.signature(f).parameters.items() if p.default is p.empty]


@pytest.mark.host
@pytest.mark.parametrize("name", OF_OPS)
def test_every_op_refuses_every_argument_of_another_dtype(name):
    """Forward and backward, by name: what is computed from a wrong dtype may fail much later, or never."""
    spec = SPECS[name]
    forward, backward = getattr(ops, spec.function), getattr(ops, f"{spec.function}_backward")
    for seed in range(10):
        case = spec.case(CaseDrawer.seeded(seed))
        given = Subject(ops, spec).prepared(case, upstream(spec, case))
        for f, arguments in ((forward, case), (backward, given)):
            arrays = {n: x for n, x in arguments.items() if isinstance(x, np.ndarray)}
            floats = [x for x in arrays.values() if x.dtype.kind == "f"]
            for n, x in arrays.items():
                if f is backward and (n == "bias" or x.dtype.kind == "b"):
                    continue  # its shape is all that is needed, or the forward has looked at it
                wrong = [x.astype(np.float16), x.tolist()]
                if x.dtype.kind == "f" and len(floats) > 1:
                    wrong.append(x.astype(np.float32 if x.dtype == np.float64 else np.float64))
                says = rf"^({f.__name__}|dropout): \w+ (has dtype|is a|is float.. where)"  # dropout_backward is dropout
                if x.dtype.kind == "b":
                    says = r"^(\w+: )?\w+ (has dtype|is )"  # a mask may be refused where it is made a record
                for other in wrong:
                    with pytest.raises(TypeError, match=says):
                        f(**arguments | {n: other})


def test_every_norms_eps_is_that_of_layer_norm():
    x, gamma = np.array([[1e-3] * 4, [-1e-3] * 4]), np.ones(4)
    np.testing.assert_array_equal(ops.rms_norm(x, gamma)[0], ops.rms_norm(x, gamma, eps=1e-5)[0])
    np.testing.assert_array_equal(ops.batch_norm(x, gamma, gamma)[0], ops.batch_norm(x, gamma, gamma, eps=1e-5)[0])


def test_numpy_scalars_do_not_widen_float32():
    """Under NumPy 2 a float64 scalar would turn float32 arrays into float64."""
    half = np.float64(0.5)
    x, w = normal(3, 4).astype("f"), np.ones(4, "f")
    out, weights = ops.attention(x, x, x, scale=half)
    gradients = ops.attention_backward(out, x, x, x, weights, scale=half)[:3]
    fused, looked = ops.fused_attention(x, x, x, scale=half)
    y, x_hat, rstd = ops.layer_norm(x, w, w, eps=np.float64(1e-5))
    targets = np.array([0, 1, 2])
    tiled, L = ops.tiled_cross_entropy(x, x, targets, None, half)
    others = (
        *(tiled, L, *ops.tiled_cross_entropy_backward(half, x, x, L, targets, None, half)),
        fused,
        *ops.rms_norm(x, w, eps=np.float64(1e-5)),
        *ops.batch_norm(x, w, w, eps=np.float64(1e-5)),
        ops.elu(x, np.float64(1)),
        ops.elu_backward(x, x, np.float64(2)),
        *(array for array in looked if isinstance(array, np.ndarray)),
        ops.dropout(x, x > 0, half),
        *ops.refine_simp(x, x.T, x.T, scale=half),
        ops.cross_entropy_backward(half, x, targets),
        ops.smoothed_cross_entropy(x, targets, None, half),
        ops.smoothed_cross_entropy_backward(half, x, targets, None, half),
        ops.bce_with_logits_backward(half, x, np.ones_like(x)),
        ops.bce_with_logits_backward(half, x, np.ones_like(x), np.ones_like(x)),
        *ops.bpr_max_backward(half, x[:, 0], x, np.ones_like(x[:, 0]), half),
    )
    for array in (out, weights, *gradients, y, x_hat, rstd, *others):
        assert array.dtype == np.float32


def test_keys_make_streams():
    draw = [generator(1, Stream.DROPOUT, 2, i).random() for i in (0, 0, 1)]
    assert draw[0] == draw[1] != draw[2]
    assert generator(1, Stream.DROPOUT, 2).random() != generator(1, Stream.NEGATIVES, 2).random()


def test_causal_mask():
    assert ops.causal_mask(3, like=normal(1)).tolist() == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
