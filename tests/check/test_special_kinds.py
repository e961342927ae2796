"""Kinds with properties of their own, each broken by one thing: ranking metrics, models of sequences."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from tests.check.breaking import broken, failing
from tinyattn import ops
from tinyattn.check import adapters, oracles
from tinyattn.check.observing import observe_call
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject

# ranking


def metrics(rank=oracles.rank, cuts=(0, 0), gain=lambda rank: 1 / math.log2(rank + 1)):
    """Hit rate and NDCG of this rank, with `cuts` added to k."""

    def hit_rate(scores, target, k):
        return float(rank(scores, target) < k + cuts[0] + 1)

    def ndcg(scores, target, k):
        found = rank(scores, target)
        return gain(found) if found < k + cuts[1] + 1 else 0.0

    return SimpleNamespace(hit_rate=hit_rate, ndcg=ndcg)


def tied_within(units):
    """Scores that differ by so many units in the last place are taken for equal."""

    def rank(scores, target):
        apart = scores - scores[target]
        near = np.abs(apart) <= units * np.finfo(scores.dtype).eps
        return 1 + np.sum((apart > 0) & ~near) + (np.sum(near) - 1) / 2

    return rank


def ties(share):
    def rank(scores, target):
        return 1 + np.sum(scores > scores[target]) + share * (np.sum(scores == scores[target]) - 1)

    return rank


def sinking(scores, target):
    """-inf is taken for 0."""
    return oracles.rank(np.where(np.isinf(scores), 0, scores), target)


def no_farther_than(most):
    return lambda scores, target: min(oracles.rank(scores, target), most)


def by_place(scores, target):
    """Of equal scores, the first item has the best rank."""
    return 1 + int(np.argmax(np.argsort(-scores, kind="stable") == target))


def rounded(scores, target):
    return oracles.rank(np.round(scores), target)


TIED = {"oracle", "constant_scores", "large_k"}
CUT = {"oracle", "constant_scores", "cut", "at_one", "nearly_tied"}
METRICS = {
    "right": (metrics(), set()),
    "ties within 2 units": (metrics(tied_within(2)), set()),
    "ties within 8 units": (metrics(tied_within(8)), {"nearly_tied"}),
    "the best of ties": (metrics(ties(0)), TIED),
    "the worst of ties": (metrics(ties(1)), TIED),
    "nearly the mean of ties": (metrics(ties(0.499)), TIED),
    "the first of ties": (metrics(by_place), TIED | {"item_order"}),
    "hit rate at k + 1": (metrics(cuts=(1, 0)), CUT),
    "hit rate at k - 1": (metrics(cuts=(-1, 0)), CUT | {"many_items"}),
    "NDCG at k + 1": (metrics(cuts=(0, 1)), CUT),
    "NDCG at k - 1": (metrics(cuts=(0, -1)), CUT | {"many_items"}),
    "a larger gain": (metrics(gain=lambda rank: 1.0000001 / math.log2(rank + 1)),
                      CUT | {"large_k", "many_items"}),
    "-inf is 0": (metrics(sinking), {"left_out"}),
    "no rank beyond 250": (metrics(no_farther_than(250)), {"many_items"}),
    "no rank beyond 120": (metrics(no_farther_than(120)), {"many_items"}),
    "whole scores": (metrics(rounded), {"nearly_tied", "oracle", "at_one", "large_k"}),
}  # fmt: skip


@pytest.mark.parametrize(("implementation", "seen"), METRICS.values(), ids=METRICS)
def test_a_metric_that_is_wrong_in_one_way_is_seen(implementation, seen):
    assert failing(implementation, "ranking", 15) == seen


def test_metrics_that_write_return_two_numbers_or_go_by_the_size_of_scores_are_seen():
    right = metrics()

    def lowers(scores, target, k):
        scores -= 1
        return right.hit_rate(scores, target, k)

    def lowers_a_batch(scores, targets, k):
        values = [right.hit_rate(*one, k) for one in zip(scores, targets, strict=True)]
        scores -= 1
        return np.array(values)

    def by_size(scores, target, k):
        return right.hit_rate(np.where(scores > 9, 9, scores), target, k)

    def falls(scores, target, k):
        return right.hit_rate(scores, target, k if k != 6 else 1)

    def not_beyond(scores, target, k):
        return right.hit_rate(scores, target, k) * (k < 500)

    for hit_rate, seen in ((lowers, "one_number"), (lowers_a_batch, "one_number"), (by_size, "order_only"),
                           (falls, "at_one"), (not_beyond, "large_k")):  # fmt: skip
        assert seen in failing(SimpleNamespace(hit_rate=hit_rate, ndcg=right.ndcg), "ranking", 15), seen
    twice = SimpleNamespace(hit_rate=lambda s, t, k: np.full(2, right.hit_rate(s, t, k)), ndcg=right.ndcg)
    assert "one_number" in failing(twice, "ranking", 15)


# models of padded sequences


class Padded(adapters.PaddedBlock):
    """Its outputs are `change(y, x, real)`."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def forward(self, x, lengths):
        return self.change(super().forward(x, lengths), x, np.arange(x.shape[1]) < lengths[:, None])


def of_padding(size, least=0.0):
    """Entries of the padding that are larger than `least` are added to every output, times `size`."""

    def change(y, x, real):
        padding = np.where(real[..., None] | (np.abs(x) <= least), 0, x)
        return y + size * np.sum(padding, axis=(1, 2), keepdims=True)

    return change


def blind(b, back):
    """The last real token of a sequence, or the one before it, does not influence its output."""

    def change(y, x, real):
        y = y.copy()
        for i, length in enumerate(np.sum(real, axis=1)):
            if i % 2 == b:
                y[i, length - back] = 0
        return y

    return change


def others_but_the_last(x, real):
    inner = real & np.roll(real, -1, axis=1) & (np.arange(x.shape[1]) < x.shape[1] - 1)
    return np.sum(np.where(inner[..., None], x, 0), axis=1, keepdims=True)


def nan_where(mask):
    return lambda y, x, real: np.where(mask(real)[..., None], np.nan, y)


PADDED = {
    "right": (lambda y, x, real: y, set()),
    "sees padding a little": (of_padding(1e-14), {"padding_is_silent"}),
    "sees large padding": (of_padding(1e-9, least=10), {"padding_is_silent"}),
    "sees padding": (of_padding(1e-3), {"padding_is_silent", "as_if_alone"}),
    "the last token is read by no other": (lambda y, x, real: x + others_but_the_last(x, real), {"real_tokens_count"}),
    "goes by the longest": (lambda y, x, real: y * (1 + 1e-4 * x.shape[1]), {"as_if_alone"}),
    "counts from the end": (lambda y, x, real: y + 1e-3 * np.arange(x.shape[1])[::-1, None], {"as_if_alone"}),
    "does not read the last token of the first sequence": (blind(0, 1), {"real_tokens_count", "as_if_alone"}),
    "does not read the last token of the second sequence": (blind(1, 1), {"real_tokens_count", "as_if_alone"}),
    "NaN in the padding": (nan_where(lambda real: ~real), set()),
    "NaN at real tokens": (nan_where(lambda real: np.cumsum(real, axis=1) > 7),
                           {"positions_kept", "as_if_alone", "real_tokens_count"}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("change", "seen"), PADDED.values(), ids=PADDED)
def test_a_model_of_padded_sequences_that_is_wrong_in_one_way_is_seen(change, seen):
    assert failing(Padded(change), "padding_invariance", 12) == seen


def test_a_model_that_loses_a_place_does_not_keep_positions():
    shorter = Padded(lambda y, x, real: y[:, 1:])
    assert failing(shorter, "padding_invariance", 3, ["positions_kept"]) == {"positions_kept"}


# causal models


class Causal:
    """Running means of tokens, changed by `change(y, x)`."""

    dim, maxlen = 3, 64

    def __init__(self, change):
        self.change, self.calls = change, 0

    def forward(self, x):
        self.calls += 1
        y = np.cumsum(x, axis=1) / np.arange(1, x.shape[1] + 1)[:, None] + 0.1 * x + x[:, :1]
        return self.change(y, x)


def leak(by, of, least=0.0, size=1e-9):
    """Output `by` sees token `of`, where it is larger than `least`."""

    def change(y, x):
        if x.shape[1] > max(by, of):
            seen = np.sum(np.where(np.abs(x[:, of]) > least, x[:, of], 0), axis=-1, keepdims=True)
            y[:, by] += size * seen
        return y

    return change


def of_others(y, x):
    return y + 1e-9 * np.sum(x, axis=(0, 1, 2))


def large_others(y, x):
    return y + 1e-9 * (np.max(np.abs(x)) > 20)


def without(t, first=False):
    """Output t ignores its own token, or the first one."""

    def change(y, x):
        if x.shape[1] > t:
            y[:, t] = x[:, t if first else 0]
        return y

    return change


def last_but_one(y, x):
    y[:, -2] += 1e-3 * (x.shape[1] > 2)
    return y


CAUSAL = {
    "right": (lambda y, x: y, set()),
    "the first sees the second": (leak(0, 1), {"causal", "prefix", "long_sequences"}),
    "a token sees the next": (leak(2, 3), {"causal", "prefix"}),
    "the first sees the last of eight": (leak(0, 7), {"causal", "prefix"}),
    "the first sees a large token": (leak(0, 1, least=20), {"causal"}),
    "sees the other entries": (of_others, {"entries_apart", "causal", "prefix", "long_sequences"}),
    "sees how large the others are": (large_others, {"entries_apart", "causal"}),
    "goes by the length": (lambda y, x: y * (1 + 1e-4 * x.shape[1]), {"prefix"}),
    "the last but one is another": (last_but_one, {"prefix"}),
    "NaN in a corner": (lambda y, x: np.where(np.arange(x.shape[1])[:, None] == 4, np.nan, y),
                        {"positions_kept", "prefix", "sees_itself_and_the_past"}),
    "the second does not see itself": (without(1), {"sees_itself_and_the_past", "long_sequences"}),
    "the sixth does not see the first": (without(5, first=True), {"sees_itself_and_the_past"}),
    "position 31 sees 32": (leak(31, 32), {"long_sequences"}),
    "position 0 sees 63": (leak(0, 63), {"long_sequences"}),
    "position 48 does not see itself": (without(48), {"long_sequences"}),
    "one place less": (lambda y, x: y[:, 1:], {"positions_kept", "sees_itself_and_the_past"}),
}  # fmt: skip


@pytest.mark.parametrize(("change", "seen"), CAUSAL.values(), ids=CAUSAL)
def test_a_causal_model_that_is_wrong_in_one_way_is_seen(change, seen):
    names = ["positions_kept", "causal", "entries_apart", "prefix", "sees_itself_and_the_past", "long_sequences"]
    if seen == {"positions_kept", "sees_itself_and_the_past"}:
        names = ["positions_kept"]
    assert failing(Causal(change), "causal_model", 12, names) == seen & {*names}


def test_a_causal_model_that_keeps_a_buffer_writes_or_counts_its_calls_is_seen():
    class Counting(Causal):
        def forward(self, x):
            return super().forward(x) + 1e-12 * self.calls

    class Buffered(Causal):
        def forward(self, x):
            y = super().forward(x)
            self.kept = getattr(self, "kept", {})
            buffer = self.kept.setdefault(y.shape, y)
            buffer[...] = y
            return buffer

    class Writing(Causal):
        def forward(self, x):
            y = super().forward(x)
            x[:, -1] = 0
            return y

    names = ["repeatable", "positions_kept"]
    for kind, seen in ((Counting, names[:1]), (Buffered, names[:1]), (Writing, names)):
        assert failing(kind(lambda y, x: y), "causal_model", 4, names) == set(seen)


def test_a_model_of_noise_that_is_better_than_chance_is_seen():
    """By more than four standard errors of the mean, over 256 sequences of 16 tokens."""

    class Noise(Causal):
        dim, vocabulary, maxlen = None, 8, 16

        def __init__(self, chance, share=1):
            super().__init__(lambda y, x: y)
            self.chance, self.share, self.fitted = chance, share, False

        def fit(self, tokens):
            self.fitted = tokens.shape == (256, 16)

        def log_probs(self, x):
            p = np.full((*x.shape, 8), (1 - self.chance) / 8)
            np.put_along_axis(p[:, :-1], x[:, 1:, None], self.chance + (1 - self.chance) / 8, axis=-1)
            assert self.fitted
            return np.log(self.share * p)

    for noise, seen in ((Noise(0.0), False), (Noise(0.01), True), (Noise(0.3), True), (Noise(0.0, share=0.9), True)):
        assert bool(failing(noise, "causal_model", 1, ["noise_stays_noise"])) == seen


# optimisers


def test_an_adam_whose_bias_correction_ends_early_is_seen():
    """1 - βᵗ is taken for 1 from some step on; the properties of early steps cannot see it."""

    def cut_off(right, step, beta1=0.9, beta2=0.98, **rest):
        return right(step=step if step < 2_000 else 10**9, beta1=beta1, beta2=beta2, **rest)

    assert failing(broken("adam", cut_off), "adam", 20) == {"late"}


# models with a cache


class Stepping(adapters.CachedAttention):
    """The outputs of step t are `change(y, t, model)`."""

    maxlen = 40

    def __init__(self, change):
        super().__init__()
        self.change, self.past = change, 0

    def step(self, x, cache=None):
        t = 0 if cache is None else cache[0].shape[1]
        y, cache = super().step(x, cache)
        self.past += 1
        return self.change(y, t, self), cache


def last_sees_first(y, t, model):
    y[-1] += 1e-3 * y[0] * (len(y) > 1)
    return y


EARLY = {"steps_are_the_whole", "taking_turns"}
STEPS = {
    "right": (lambda y, t, model: y, set()),
    "wrong at the first": (lambda y, t, model: y + (t == 0), EARLY | {"long_sequences"}),
    "wrong from the third on": (lambda y, t, model: y + (t > 1), EARLY | {"long_sequences"}),
    "wrong at the 39th": (lambda y, t, model: y + (t == 38), {"long_sequences"}),
    "sees the batch": (lambda y, t, model: y + 1e-3 * (np.mean(y, axis=0) - y),
                       EARLY | {"entries_apart", "long_sequences"}),
    "the last sees the first": (last_sees_first, EARLY | {"entries_apart", "long_sequences"}),
    "counts its steps": (lambda y, t, model: y + 1e-14 * model.past, {"begins_anew"}),
}  # fmt: skip


@pytest.mark.parametrize(("change", "seen"), STEPS.values(), ids=STEPS)
def test_a_cached_model_that_is_wrong_in_one_way_is_seen(change, seen):
    assert failing(Stepping(change), "cached_model", 6) == seen


def test_steps_that_go_by_the_sequence_before_do_not_begin_anew():
    def change(y, t, model):
        model.begun = [*getattr(model, "begun", []), float(y[0, 0])] if t == 0 else model.begun
        return y + len({*model.begun} - {model.begun[-1]})

    assert failing(Stepping(change), "cached_model", 1, ["begins_anew"])


def test_rounding_of_large_outputs_is_no_leak_of_the_length():
    """The difference allowed to a prefix grows with the outputs."""

    def forward(x):
        seen = np.cumsum(x, axis=1) / np.arange(1, x.shape[1] + 1)[:, None]
        return 1e9 * seen * (1 + 1e-15 * x.shape[1])

    assert not failing(SimpleNamespace(forward=forward), "causal_model", among=("prefix",))
    assert failing(SimpleNamespace(forward=lambda x: forward(x) * x.shape[1]), "causal_model", among=("prefix",))


def test_a_gradient_of_negatives_at_a_position_of_weight_0_is_seen_though_it_sums_to_0():
    def change(right, **arguments):
        positive, negatives = right(**arguments)
        if arguments.get("weights") is not None and negatives.shape[-1] > 1:
            negatives[..., 0] += 1e-12 * (arguments["weights"] == 0)
            negatives[..., 1] -= 1e-12 * (arguments["weights"] == 0)
        return positive, negatives

    assert failing(broken("bpr_max", backward=change), "bpr_max", 40, ["gradients_sum_to_zero"])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1), (0, 0)])
def test_a_window_that_is_one_token_too_wide_reaches_too_far(causal, before, after):
    def wide(right, **case):
        if case["causal"] != causal:
            return right(**case)
        q, k, v, window, keys = (case[name] for name in ("q", "k", "v", "window", "keys"))
        back = np.arange(q.shape[-2])[:, None] - np.arange(q.shape[-2])
        mask = (back < window + before) & (back > -after - (1 if causal else window))
        return ops.attention(q, k, v, mask if keys is None else mask & keys[..., None, :], scale=case["scale"])

    found = failing(broken("window_attention", wide), "window_attention", 20, ["reach", "wide_open"])
    assert found == {name for name, seen in (("reach", before or after), ("wide_open", after and causal)) if seen}


def test_a_call_and_its_backward_are_observed():
    def observed(relu, **backward):
        op = Subject(SimpleNamespace(relu=relu, **backward), SPECS["relu"])
        seen = observe_call(op, SPECS["relu"], {"x": np.float32([-1, 2])})
        numbers = {name: seen.pop(name) for name in ("y", "gradient x") if name in seen}
        assert all(x.dtype == np.float32 for x in numbers.values())
        return seen

    def writes(x, value=5):
        x[0] = value
        return x

    plain = {"dtype of y": "float32", "own memory of y": True, "changed": False, "repeats": True}
    calls = itertools.count()
    assert observed(ops.relu) == plain
    assert observed(writes) == plain | {"own memory of y": False, "changed": True}
    assert observed(lambda x: x.astype(float) + next(calls)) == plain | {"dtype of y": "float64", "repeats": False}
    assert observed(lambda x: 1 / 0) == {"forward": "overflow"}
    assert observed(lambda x: x.nothing) == {"forward": "raises"}
    assert observed(lambda x: None) == {"forward": "y is None, expected an array of numbers"}
    both = plain | {"gradient's dtype x": "float32", "gradient's changes": False}
    assert observed(ops.relu, relu_backward=ops.relu_backward) == both
    assert observed(ops.relu, relu_backward=lambda dy, x: writes(dy)) == both | {"gradient's changes": True}
    assert observed(ops.relu, relu_backward=lambda dy, x: 1 / 0) == plain | {"gradient's error": "overflow"}


@pytest.mark.parametrize("side", [-1, 1])
def test_a_mean_lies_below_the_greatest_value_and_above_the_least(side):
    def wkv(k, v, w, u, mean0=None, size0=None):
        y, *state = ops.wkv(k, v, w, u, mean0, size0)
        y[..., 0, 0] = side * 1e3
        return y, *state

    assert "between" in failing(SimpleNamespace(wkv=wkv), "wkv", among=("between",))
