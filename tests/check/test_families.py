"""Properties that many kinds share notice the smallest violation, such as one token that sees another."""

import numpy as np
import pytest

from tests.check.breaking import broken, failing, plus
from tinyattn.check.specs import SPECS

CAUSAL = {                                                     # the arguments whose later tokens must not be seen
    "additive_attention": "qkv", "associative_scan": "ab", "attention": "kv", "biased_multi_head_attention": "x",
    "block": "x", "conv1d": "x", "flash_attention": "kv", "fused_attention": "kv", "grouped_query_attention": "x",
    "gru": "x", "linear_attention": "qkv", "lstm": "x", "multi_head_attention": "x", "performer_attention": "qkv",
    "delta_rule": "qkv", "pointwise_attention": "kv", "post_ln_block": "x", "refine_add": "A", "refine_simp": "A",
    "refine_stoc": "A", "refine_value": "A", "refine_value_rows": "A", "rnn": "x",
    "selective_scan": ["x", "delta", "B", "C"], "wkv": "kv",
}  # fmt: skip
APART = {kind for kind, spec in SPECS.items() if any(p.name == "batch_apart" for p in spec.properties)}
TOKENS = {"feed_forward": "positions_apart"} | {
    kind: "tokens_apart" for kind in ("gelu_feed_forward", "layer_norm", "norm_linear", "rms_norm")
}


def first(result, change):
    """A result whose first array is changed."""
    if isinstance(result, tuple):
        return type(result)(*(change(result[0]), *result[1:])) if hasattr(result, "_fields") else (
            change(result[0]), *result[1:])  # fmt: skip
    return change(result)


def seeing(argument, by, of, least=0.0):
    """A thousandth of the sum of token `of` is added to output `by`: of its entries of size `least` or more."""

    def change(right, **case):
        def leak(y):
            y, tokens = y.copy(), case[argument]
            if tokens.ndim > 1 and min(tokens.shape[-2], y.shape[-2]) > max(1, by, of) and y.size:
                token = tokens[..., of, :]
                y[..., by, :1] += y.dtype.type(1e-3) * np.sum(token, where=np.abs(token) >= least)
            return y

        return first(right(**case), leak)

    return change


@pytest.mark.parametrize(("kind", "argument"), [(kind, name) for kind, names in CAUSAL.items() for name in names])
def test_one_later_token_that_is_seen_breaks_causality(kind, argument):
    for by, of in ((0, 1), (0, -1), (-2, -1)):
        assert failing(broken(kind, seeing(argument, by, of)), kind, 8, ["causal"]) == {"causal"}, (by, of)
    assert failing(broken(kind, seeing(argument, -1, 0)), kind, 8, ["causal"]) == set()  # the past may be seen


def test_the_kinds_that_are_causal_are_those_above():
    causal = {kind for kind, spec in SPECS.items() if any(p.name == "causal" for p in spec.properties)}
    assert causal == {*CAUSAL, "causal_model"}


@pytest.mark.parametrize("kind", sorted(APART))
def test_an_entry_of_the_batch_that_sees_another_is_not_apart(kind):
    def with_the_next(by, of):
        def change(right, **case):
            def leak(y):
                return y if len(y) < 2 or case["x"].ndim < 3 else np.concatenate(
                    [plus(part, 1e-3 * np.sum(case["x"][of])) if i == by else part
                     for i, part in enumerate(np.split(y, len(y)))])  # fmt: skip

            return first(right(**case), leak)

        return change

    assert failing(broken(kind, with_the_next(0, 1)), kind, 3, ["batch_apart"]) == {"batch_apart"}
    assert failing(broken(kind, with_the_next(1, 0)), kind, 3, ["batch_apart"]) == set()


@pytest.mark.parametrize(("kind", "name"), TOKENS.items())
def test_a_token_that_sees_another_or_its_place_is_not_apart(kind, name):
    def by_place(right, **case):
        return first(right(**case), lambda y: (y.T * np.arange(1, len(y) + 1, dtype=y.dtype)).T)

    for other in (1, 2, -1):
        assert failing(broken(kind, seeing("x", 0, other, least=3.5)), kind, 15, [name]) == {name}, other
    assert failing(broken(kind, by_place), kind, 3, [name]) == {name}


@pytest.mark.parametrize("kind", ["relu", "gelu", "silu", "elu", "root_elu"])
def test_an_entry_that_sees_another_or_its_place_is_not_alone(kind):
    def seen(right, x, **more):
        return plus(right(x, **more), 1e-3 * np.sum(x.reshape(-1)[:1]), at=-1)

    def by_place(right, x, **more):
        return plus(right(x, **more), 1e-3, at=-1)

    for change in (seen, by_place):
        assert "entry_by_entry" in failing(broken(kind, change), kind, 6, ["entry_by_entry"])


def masked_weights(change):
    """softmax whose weights are replaced by `change(weights, allowed)`."""

    def forward(right, s, mask=None):
        p = right(s, mask)
        allowed = np.broadcast_to(True if mask is None else mask, s.shape)
        return change(p, allowed).astype(p.dtype)

    return broken("softmax", forward)


def test_what_softmax_forbids_is_seen_however_small():
    sums = ["rows_sum_to_one", "zero_where_masked", "empty_row"]
    dead = masked_weights(lambda p, allowed: np.where(np.any(allowed, -1, keepdims=True), p, 1 / p.shape[-1]))
    assert failing(dead, "softmax", 8, sums) >= {"rows_sum_to_one", "zero_where_masked"}
    for size, seen in ((1e-30, {"zero_where_masked"}), (0.0, set())):
        assert failing(masked_weights(lambda p, a, size=size: np.where(a, p, size)), "softmax", 8, sums[:2]) == seen

    def negative(p, allowed):
        """A weight is negative, and the sum of the row is the same."""
        moved = p.copy()
        moved[..., 0], moved[..., -1] = -1e-30, p[..., 0] + p[..., -1]
        return np.where(np.all(allowed, -1, keepdims=True) & (p.shape[-1] > 1), moved, p)

    assert failing(masked_weights(negative), "softmax", 15, sums[:2]) == {"zero_where_masked"}


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm", "batch_norm", "norm_linear"])
def test_a_normaliser_of_large_of_small_tokens_or_with_another_eps_is_seen(kind):
    def where(of):
        def change(right, **case):
            return first(right(**case), lambda y: plus(y, 0.1 * of(np.max(np.abs(case["x"]), initial=0))))

        return change

    names = ["scaling", "large_and_small"]
    assert failing(broken(kind, where(lambda size: size > 1e5)), kind, 3, names) == {"large_and_small"}
    assert failing(broken(kind, where(lambda size: 1e-8 < size < 1e-4)), kind, 3, names) == {"large_and_small"}
    fixed = broken(kind, lambda right, **case: right(**case | {"eps": 0.02}))
    assert failing(fixed, kind, 6, names) == set(names)


# dropout's masks


def drawing(draw):
    return broken("dropout", keep_mask=draw)


def rows_again(axis, chance):
    """With this chance, an entry equals the one before it along an axis."""

    def draw(rng, shape, rate):
        keep, again = rng.random(shape) >= rate, rng.random(shape) < chance
        if len(shape) == 1:
            return keep
        ahead, behind = [slice(None)] * len(shape), [slice(None)] * len(shape)
        ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
        kept = keep.copy()
        kept[tuple(ahead)] = np.where(again[tuple(ahead)], keep[tuple(behind)], keep[tuple(ahead)])
        return kept

    return draw


def exactly(rng, shape, rate):
    """Of a large mask, every row drops equally many."""
    if np.prod(shape) < 100:
        return rng.random(shape) >= rate
    return np.argsort(rng.random(shape), axis=-1) >= round(rate * shape[-1])


def as_many_in_all(rng, shape, rate):
    """A small mask drops a fixed number, at random places."""
    if np.prod(shape) > 100:
        return rng.random(shape) >= rate
    return (np.argsort(rng.random(int(np.prod(shape)))) >= rate * np.prod(shape)).reshape(shape)


def more_often(deviations):
    return lambda rng, shape, rate: rng.random(shape) >= rate + deviations * np.sqrt(rate * (1 - rate) / 20_000)


def last_two_alike(rng, shape, rate):
    keep = rng.random(shape) >= rate
    if len(shape) == 3:
        keep[-1, -1] = keep[-1, -2]
    return keep


MASKS = {
    "of another generator": (lambda rng, shape, rate: np.random.default_rng().random(shape) >= rate, {"masks_differ"}),
    "of none": (lambda rng, shape, rate: np.random.default_rng(1).random(shape) >= rate,
                {"masks_differ", "independent"}),
    "one for the batch": (lambda rng, shape, rate: np.broadcast_to(rng.random(shape[-1:]) >= rate, shape),
                          {"masks_differ", "independent"}),
    "two rows alike": (last_two_alike, {"masks_differ"}),
    "one axis less": (lambda rng, shape, rate: (rng.random(shape) >= rate).reshape(-1, shape[-1]),
                      {"masks_differ", "rate_of_mask"}),
    "numbers": (lambda rng, shape, rate: (rng.random(shape) >= rate).astype(float), {"rate_of_mask"}),
    "drops 9 deviations more": (more_often(9), {"rate_of_mask"}),
    "drops 2 deviations more": (more_often(2), set()),
    "neighbours below are alike": (rows_again(0, 0.08), {"independent"}),
    "neighbours beside are alike": (rows_again(1, 0.08), {"independent"}),
    "hardly any neighbours are alike": (rows_again(0, 0.005), set()),
    "as many in each row": (exactly, {"independent"}),
    "as many in all": (as_many_in_all, {"independent"}),
}  # fmt: skip


@pytest.mark.parametrize(("draw", "seen"), MASKS.values(), ids=MASKS)
def test_a_mask_that_is_drawn_otherwise_is_seen(draw, seen):
    names = ["masks_differ", "independent", "rate_of_mask"]
    assert failing(drawing(draw), "dropout", 3, names) == seen


# clauses of properties: what breaks one keeps the others


def of_first(how):
    """The first result is changed: `how(y, case)`."""
    return lambda right, **case: first(right(**case), lambda y: how(y, case))


def of_part(part, how):
    """A gradient is changed: `how(gradient)`."""
    return lambda right, **case: tuple(how(g) if i == part else g for i, g in enumerate(right(**case)))


def at_weight_0(d, case):
    if case.get("weights") is None:
        return d
    return d + np.asarray(1e-30 * (case["weights"] == 0)[(..., *[None] * (d.ndim - case["weights"].ndim))], d.dtype)


def at_two_masked(ds, case):
    """Where two weights of a row are 0, their logits have gradients that sum to 0."""
    none = case["p"] == 0
    signs = np.where(np.sum(none, axis=-1, keepdims=True) == 2, none * (-1.0) ** np.cumsum(none, axis=-1), 0)
    return ds + np.asarray(1e-30 * signs, ds.dtype)


def above(x, case=None):
    return x + np.triu(np.ones_like(x), 1)


CLAUSES = {
    "relu below 0": ("relu", "two_halves", of_first(lambda y, case: np.minimum(case["x"], 0)), None),
    "half of all weights": ("softmax", "far_below", of_first(lambda p, case: p / 2), None),
    "a masked logit's gradient": ("softmax", "gradient_rows_sum_to_zero", None, of_first(at_two_masked)),
    "a gradient at weight 0 of bce": ("bce", "gradient_form", None, of_first(at_weight_0)),
    "a gradient at weight 0 of ce": ("cross_entropy", "gradient_rows", None, of_first(at_weight_0)),
    "three gradients": ("attention", "four_gradients", None, lambda right, **case: right(**case)[:3]),
    "a gradient of no bias": ("attention", "four_gradients", None, lambda right, **case: (*right(**case)[:3], 0.0)),
    "NaN for dv": ("attention", "nothing_to_pass_on", None, of_part(2, lambda dv: dv * np.nan)),
    "NaN for dx": ("block", "constant_tokens", None, of_part(0, lambda dx: dx * np.nan)),
    "half a state": ("lstm", "kept", of_first(lambda h, case: h / 2), None),
    "a hidden variance": ("gaussian_attention", "hidden", of_first(lambda y, case: y + case["v_cov"][..., -1:, :1]),
                          None),
    "v is not written": ("adam", "in_place", lambda right, moments, **case: right(
        **case, moments=type(moments)(moments.m, moments.v.copy())), None),
    "twice a norm": ("post_ln_block", "normed", of_first(lambda y, case: 2 * y), None),
    "twice a convolution": ("conv2d", "rows_and_columns", of_first(lambda y, case: 2 * y), None),
    "above B's diagonal": ("refine_value", "triangles", of_first(above), None),
    "above dW_V's diagonal": ("refine_value", "triangles", None, of_part(3, above)),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "forward", "backward"), CLAUSES.values(), ids=CLAUSES)
def test_each_clause_of_a_property_is_asked(kind, name, forward, backward):
    assert failing(broken(kind, forward, backward), kind, 20, [name])


LINEAR = [(kind, p.name) for kind, spec in SPECS.items() for p in spec.properties if p.name.startswith("linear_in_")]


@pytest.mark.parametrize(("kind", "name"), [*LINEAR, ("layer_norm", "gain_and_shift"), ("embedding", "picks_rows")])
def test_what_is_clipped_far_out_is_seen(kind, name):
    clipped = broken(kind, of_first(lambda y, case: np.clip(y, -99, 99)))
    assert failing(clipped, kind, 20, [name]) == {name}
