"""Kinds of what models are built and judged with: mistakes that people make, each with a property that must see it."""

import contextlib
import math
from types import SimpleNamespace

import numpy as np
import pytest

from tests.check.breaking import broken, failing
from tinyattn import ops
from tinyattn.check import adapters, check_implementation, check_in_process, oracles
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import CannotRunError
from tinyattn.training.schedules import SCHEDULES


def sigma(x):
    return 1 / (1 + np.exp(-x))


# gated hidden units


def gated(gate):
    return {"forward": lambda right, x, W_1, V, W_2: gate(x @ W_1, x @ V) @ W_2}


def moved(change):
    return {"backward": lambda right, **arguments: change(*right(**arguments))}


SWIGLU = {
    "the SiLU of the values": (gated(lambda a, b: a * ops.silu(b)), "linear_in_V"),
    "the SiLU of the product": (gated(lambda a, b: ops.silu(a * b)), "linear_in_V"),
    "a sigmoid, as in GLU": (gated(lambda a, b: sigma(a) * b), "odd_part"),
    "no activation": (gated(lambda a, b: a * b), "odd_part"),
    "GELU, as in GEGLU": (gated(lambda a, b: ops.gelu(a) * b), "oracle"),
    "ReLU, as in ReGLU": (gated(lambda a, b: np.maximum(a, 0) * b), "oracle"),
    "a SiLU that overflows": (gated(lambda a, b: a * np.exp(a) / (1 + np.exp(a)) * b), "far_out"),
    "a residual": ({"forward": lambda right, x, **rest: x + right(x, **rest)}, "linear_in_V"),
    "the next token's gate": (gated(lambda a, b: ops.silu(np.roll(a, 1, axis=0)) * b), "tokens_apart"),
    "dW_1 and dV exchanged": (moved(lambda dx, dW_1, dV, dW_2: (dx, dV, dW_1, dW_2)), "derivative"),
    "dx of one branch": (moved(lambda dx, *rest: (dx / 2, *rest)), "derivative"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("how", "seen"), SWIGLU.values(), ids=SWIGLU)
def test_a_mistake_in_swiglu_is_seen(how, seen):
    assert failing(broken("swiglu", **how), "swiglu", 12, [seen]) == {seen}


def test_the_order_of_llamas_code_is_a_convention():
    def swiglu(x, w1, w2, w3):
        return adapters.swiglu(x, w1, w3, w2)

    def swiglu_backward(dy, x, w1, w2, w3):
        dx, dw1, dw3, dw2 = adapters.swiglu_backward(dy, x, w1, w3, w2)
        return dx, dw1, dw2, dw3

    offered = SimpleNamespace(swiglu=swiglu, swiglu_backward=swiglu_backward)
    report = check_in_process(offered, "swiglu", examples=6)
    assert report, report
    assert report.conventions == ("the arguments are x, W_1, W_2, V, as w1, w2, w3 of Llama",)
    offered.swiglu_backward = lambda *args: swiglu_backward(*args)[::-1]
    assert not check_in_process(offered, "swiglu", examples=6)


# BPR


def of_scores(loss):
    """A loss without weights."""
    return {"forward": lambda right, positive, negative, weights=None: loss(positive, negative)}


def with_weights(total):
    def loss(right, positive, negative, weights=None):
        w = np.ones_like(positive) if weights is None else weights
        return np.sum(w * np.logaddexp(0, negative - positive)) / total(w)

    return {"forward": loss}


def same_sign(right, **arguments):
    dpositive, _ = right(**arguments)
    return dpositive, dpositive


BPR = {
    "a sum": (of_scores(lambda p, n: np.sum(np.logaddexp(0, n - p))), "equal_scores"),
    "the target and the negative exchanged": (of_scores(lambda p, n: np.mean(np.logaddexp(0, p - n))), "exchanged"),
    "a small number in the logarithm": (of_scores(lambda p, n: -np.mean(np.log(sigma(p - n) + 1e-10))), "far_behind"),
    "a logarithm of 0": (of_scores(lambda p, n: -np.mean(np.log(sigma(p - n)))), "far_behind"),
    "a hinge": (of_scores(lambda p, n: np.mean(np.maximum(n - p, 0))), "equal_scores"),
    "base 2": (of_scores(lambda p, n: np.mean(np.logaddexp2(0, n - p))), "equal_scores"),
    "no logarithm": (of_scores(lambda p, n: -np.mean(sigma(p - n))), "equal_scores"),
    "divided by the number of positions": (with_weights(lambda w: w.size), "weights_are_shares"),
    "divided by those that count": (with_weights(lambda w: np.count_nonzero(w)), "weights_are_shares"),
    "both gradients of one sign": ({"backward": same_sign}, "opposite_gradients"),
    "gradients of a sum": (moved(lambda *found: tuple(2 * d for d in found)), "derivative"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("how", "seen"), BPR.values(), ids=BPR)
def test_a_mistake_in_bpr_is_seen(how, seen):
    assert failing(broken("bpr", **how), "bpr", 12, [seen]) == {seen}


def test_the_sum_of_the_paper_is_a_convention():
    def bpr(positive, negative):
        return np.sum(np.logaddexp(0, negative - positive))

    def bpr_backward(dloss, positive, negative):
        d = dloss * -sigma(negative - positive)
        return d, -d

    report = check_in_process(SimpleNamespace(bpr=bpr, bpr_backward=bpr_backward), "bpr", examples=6)
    assert report, report
    assert report.conventions[0] == "it is the sum over positions, not their mean"
    mixed = SimpleNamespace(bpr=bpr, bpr_backward=lambda *args: tuple(d / args[1].size for d in bpr_backward(*args)))
    assert not check_in_process(mixed, "bpr", examples=6)


# several relevant items


def discount(place):
    return 1 / math.log2(place + 1)


def of_several(recall=None, gain=discount, best=min, cut=0, order=lambda s: np.argsort(-s)):
    """Metrics of a list of items; `best` is how many places the ideal ranking has, of k and the number of relevant."""

    def first(scores, relevant, k):
        return relevant[order(scores)[: k + cut]]

    def ndcg(scores, relevant, k):
        dcg = sum(gain(place) for place, hit in enumerate(first(scores, relevant, k), 1) if hit)
        return dcg / sum(gain(place) for place in range(1, best(k, np.sum(relevant)) + 1))

    def share(scores, relevant, k):
        return np.sum(first(scores, relevant, k)) / np.sum(relevant)

    return SimpleNamespace(recall=recall or share, ndcg=ndcg)


def in_place(scores, relevant, k):
    order = np.argsort(-scores)
    relevant[:] = relevant[order]
    return np.sum(relevant[:k]) / np.sum(relevant)


def precision(scores, relevant, k):
    return np.sum(relevant[np.argsort(-scores)[:k]]) / k


def any_hit(scores, relevant, k):
    return float(np.any(relevant[np.argsort(-scores)[:k]]))


SEVERAL = {
    "precision": (of_several(precision), "ideal"),
    "a hit, in the place of a share": (of_several(any_hit), "ideal"),
    "k + 1 items": (of_several(cut=1), "cut"),
    "k - 1 items": (of_several(cut=-1), "cut"),
    "an ideal ranking of k items": (of_several(best=lambda k, R: k), "ideal"),
    "an ideal ranking of all relevant items": (of_several(best=lambda k, R: R), "ideal"),
    "an ideal ranking of one item": (of_several(best=lambda k, R: 1), "one_number"),
    "places from 2 on": (of_several(gain=lambda place: 1 / math.log2(place + 2)), "cut"),
    "the first two places alike": (of_several(gain=lambda place: 1 / max(math.log2(place), 1)), "cut"),
    "the lowest scores first": (of_several(order=np.argsort), "ideal"),
    "-inf is 0": (of_several(order=lambda s: np.argsort(-np.where(np.isinf(s), 0, s))), "left_out"),
    "100 items": (of_several(order=lambda s: np.argsort(-s)[:100]), "many_items"),
    "whole scores": (of_several(order=lambda s: np.argsort(-np.round(s), kind="stable")), "oracle"),
    "it sorts its argument": (of_several(in_place), "one_number"),
}  # fmt: skip


@pytest.mark.parametrize(("implementation", "seen"), SEVERAL.values(), ids=SEVERAL)
def test_a_mistake_in_metrics_of_several_items_is_seen(implementation, seen):
    assert failing(implementation, "ranking_of_several", 25, [seen]) == {seen}


def of_ranks(rank, share=False):
    """As `>` or `>=` has it: of tied items every one has the best, or the worst, rank."""

    def recall(scores, relevant, k):
        hits = sum(rank(scores, item) <= k for item in np.flatnonzero(relevant))
        return hits / (min(k, np.sum(relevant)) if share else np.sum(relevant))

    return SimpleNamespace(recall=recall)


@pytest.mark.parametrize(("implementation", "says"), [
    (of_several(), ["a relevant item ranks by position among items of its score"]),
    (of_ranks(lambda s, item: 1 + np.sum(s > s[item])), ["a relevant item ranks before items of its score"]),
    (of_ranks(lambda s, item: np.sum(s >= s[item])), ["a relevant item ranks after items of its score"]),
    (of_ranks(lambda s, item: 1 + np.sum(s > s[item]), share=True),
     ["a relevant item ranks before items of its score", "recall@k is divided by k where more items are relevant"]),
])  # fmt: skip
def test_ties_and_the_share_of_k_are_conventions(implementation, says):
    report = check_in_process(implementation, "ranking_of_several", examples=12)
    assert report, report
    assert list(report.conventions) == says
    assert not check_in_process(implementation, "ranking_of_several", examples=12, strict=True)


def ndcg_at_k(scores, relevant, k, ideal=min):
    gains = np.log(2) / np.log(np.arange(len(scores)) + 2)
    return np.sum(relevant[np.argsort(-scores)][:k] * gains[:k]) / np.sum(gains[: ideal(k, np.sum(relevant))])


@pytest.mark.parametrize("alone", [lambda f: f, lambda f: SimpleNamespace(ndcg=f)])
def test_an_ndcg_alone_is_not_taken_for_a_recall(alone):
    report = check_in_process(alone(ndcg_at_k), "ranking_of_several", examples=12)
    assert report, report
    assert report.conventions == ("a relevant item ranks by position among items of its score",)
    assert report.lacks == ("recall",)

    def ndcg(scores, relevant, k):
        return ndcg_at_k(scores, relevant, k, max)

    report = check_in_process(alone(ndcg), "ranking_of_several", examples=12)
    assert report.failures[0].message.startswith("ndcg@")


def test_a_metric_of_lists_is_recognised():
    def recall(ranked, relevant, k):
        return len(set(ranked[:k]) & set(relevant)) / len(relevant)

    diagnosis = check_implementation(recall, "ranking_of_several", examples=6).diagnosis
    assert diagnosis.where.startswith("It is right if it gets the ranked items and the relevant ones.")


@pytest.mark.parametrize("name", ["ndcg", "hit_rate"])
def test_one_metric_of_one_target_is_enough(name):
    report = check_in_process(getattr(adapters, name), "ranking", examples=12)
    assert report, report
    assert report.lacks == ({"ndcg": "hit_rate", "hit_rate": "ndcg"}[name],)


def hits_of(rank):
    return SimpleNamespace(hit_rate=lambda scores, target, k: float(rank(scores, scores[target]) <= k))


@pytest.mark.parametrize(("implementation", "says"), [
    (hits_of(lambda s, score: 1 + np.sum(s > score)), ["a target ranks before items of its score"]),
    (hits_of(lambda s, score: np.sum(s >= score)), ["a target ranks after items of its score"]),
    (hits_of(lambda s, score: (1 + np.sum(s > score) + np.sum(s >= score)) / 2), []),
    (SimpleNamespace(hit_rate=lambda scores, target, k: float(target in np.argsort(-scores, kind="stable")[:k])),
     ["a target ranks by position among items of its score"]),
])  # fmt: skip
def test_without_an_ndcg_the_order_of_ties_is_told_from_hits(implementation, says):
    report = check_in_process(implementation, "ranking", examples=12)
    assert report, report
    assert list(report.conventions) == says


def with_topk(kth):
    """The k best by argpartition, which raises where there is no item at the place `kth(k)`."""

    def first(scores, relevant, k):
        top = np.argpartition(-scores, kth(k))[:k]
        return relevant[top[np.argsort(-scores[top], kind="stable")]]

    return first


@pytest.mark.parametrize(("kth", "says"), [(lambda k: k - 1, "k is at most the number of items"),
                                           (lambda k: k, "k must be below the number of items")])  # fmt: skip
def test_a_metric_may_take_no_more_places_than_items(kth, says):
    first = with_topk(kth)
    for share, seen in ((1, set()), (2, {"oracle", "ideal", "cut", "many_items"})):
        several = SimpleNamespace(recall=lambda s, r, k, share=share: np.sum(first(s, r, k)) / np.sum(r) / share)
        report = check_in_process(several, "ranking_of_several", examples=12)
        assert says in report.conventions
        assert {f.property for f in report.failures} >= seen
        assert bool(report) == (not seen)


# ALiBi


def biased(slope=lambda h, H: 2 ** (-8 * h / H), distance=lambda i, j: i - j):
    def alibi(heads, n):
        i, j = np.arange(n)[:, None], np.arange(n)
        return np.array([-slope(h, heads) * distance(i, j) for h in range(1, heads + 1)])

    return alibi


ALIBI = {
    "right": (biased(), None),
    "of every distance": (biased(distance=lambda i, j: np.abs(i - j)), None),
    "a row alone": (lambda heads, n: biased()(heads, n)[:, -1:], None),
    "behind a batch axis, and -inf at later keys": (
        lambda heads, n: np.where(np.tri(n, dtype=bool), biased()(heads, n), -np.inf)[None], None),
    "distant keys count more": (biased(distance=lambda i, j: j - i), "oracle"),
    "heads from 0": (biased(lambda h, H: 2 ** (-8 * (h - 1) / H)), "geometric"),
    "halves, whatever H is": (biased(lambda h, H: 2.0**-h), "geometric"),
    "the last head first": (biased(lambda h, H: 2 ** (-8 * (H + 1 - h) / H)), "geometric"),
    "slopes of H + 1 heads": (biased(lambda h, H: 2 ** (-8 * h / (H + 1))), "geometric"),
    "slopes in a line": (biased(lambda h, H: 1 / (256 * (H + 1 - h))), "oracle"),
    "squares": (biased(distance=lambda i, j: (i - j) ** 2), "straight"),
    "a logarithm": (biased(distance=lambda i, j: np.log1p(np.abs(i - j))), "straight"),
    "no distance beyond 128": (biased(distance=lambda i, j: np.clip(i - j, 0, 128)), "longer"),
    "shares of n": (lambda heads, n: biased()(heads, n) / n, "longer"),
    "heads last": (lambda heads, n: np.moveaxis(biased()(heads, n), 0, -1), "shape"),
}  # fmt: skip


@pytest.mark.parametrize(("alibi", "seen"), ALIBI.values(), ids=ALIBI)
def test_a_mistake_in_alibi_is_seen(alibi, seen):
    assert failing(alibi, "alibi", 12, None if seen is None else [seen]) == ({seen} - {None})


def test_the_slopes_of_the_authors_code_are_a_convention():
    report = check_in_process(lambda heads, n: oracles.alibi(heads, n, authors=True), "alibi", examples=2)
    assert report, report
    assert report.conventions == ("heads that are no power of 2 have the slopes of the authors' code",)


# a ring of cached keys


class Rolling:
    """Attention with ALiBi through a window; the key of token t is in slot t % window, beside its position."""

    dim, window = 3, 4
    of_forward = of_slots = 4
    by_slot = first_token = shared = empty_too = False

    def __init__(self, **changed):
        self.__dict__ |= changed
        self.kept = None

    def forward(self, x):
        back = np.arange(x.shape[1])[:, None] - np.arange(x.shape[1])
        seen = (back >= 0) & (back < self.of_forward)
        return ops.attention(x, x, x, seen, bias=-0.3 * back)[0]

    def step(self, x, cache):
        if self.shared and cache is not None:
            cache = self.kept
        if cache is None:
            cache = {"t": 0, "keys": np.zeros((len(x), self.of_slots, 3)), "at": np.full(self.of_slots, -1)}
        t, slot = cache["t"], cache["t"] % self.of_slots
        if t == 0 or slot > 0 or not self.first_token:
            cache["keys"][:, slot], cache["at"][slot] = x, t
        at, seen = cache["at"], (cache["at"] >= 0) | self.empty_too
        bias = -0.3 * (t - (np.arange(self.of_slots) if self.by_slot else at))
        y = ops.attention(x[:, None], cache["keys"], cache["keys"], seen[None], bias=bias[None])[0][:, 0]
        self.kept = cache | {"t": t + 1}
        return y, self.kept


class Growing(Rolling):
    """Its cache is the sequence so far."""

    def step(self, x, cache):
        cache = x[:, None] if cache is None else np.concatenate([cache, x[:, None]], axis=1)
        return self.forward(cache)[:, -1], cache


RING = {
    "right": (Rolling(), None),
    "one slot too many": (Rolling(of_slots=5), "steps_are_the_whole"),
    "one slot too few": (Rolling(of_slots=3), "steps_are_the_whole"),
    "both windows one too wide": (Rolling(of_slots=5, of_forward=5), "reach"),
    "both windows one too narrow": (Rolling(of_slots=3, of_forward=3), "reach"),
    "no window at all": (Rolling(of_slots=99, of_forward=99), "reach"),
    "positions of the slots": (Rolling(by_slot=True), "steps_are_the_whole"),
    "slot 0 is never written again": (Rolling(first_token=True), "turns_of_the_ring"),
    "slots that are still empty count": (Rolling(empty_too=True), "steps_are_the_whole"),
    "it keeps every token": (Growing(), "bounded"),
    "one ring for all": (Rolling(shared=True), "taking_turns"),
}


@pytest.mark.parametrize(("model", "seen"), RING.values(), ids=RING)
def test_a_mistake_in_a_ring_of_keys_is_seen(model, seen):
    assert failing(model, "ring_cache", 8, None if seen is None else [seen]) == ({seen} - {None})


def test_a_ring_tells_its_window():
    for window, says in ((None, "it has no `window`"), (4096, "its window is 4096, expected 2 to 64")):
        assert says in check_implementation(Rolling(window=window), "ring_cache", examples=1).problem


# schedules


def warmed(fall, rise=lambda t, w: t / w):
    return lambda step, warmup, steps: rise(step, warmup) if step < warmup else fall(step, warmup, steps)


def cosine(along):
    return (1 + math.cos(math.pi * along)) / 2


def way(t, w, T):
    return min((t - w) / (T - w), 1)


def falling(t, w, T):
    return cosine(way(t, w, T))


class Counting:
    """It counts its calls, as a scheduler with a method `step` does."""

    def __init__(self):
        self.step = 0

    def schedule(self, step, warmup, steps):
        self.step += 1
        return min(1, self.step / warmup)


SCHEDULE = {
    "a line to 0": (warmed(lambda t, w, T: 1 - way(t, w, T)), None),
    "a cosine to a tenth": (
        warmed(lambda t, w, T: 3e-4 * (0.1 + 0.9 * cosine(way(t, w, T))), lambda t, w: 3e-4 * t / w), None),
    "an inverse root, as in the Annotated Transformer": (
        lambda step, warmup, steps: 512**-0.5 * min(step**-0.5, step * warmup**-1.5), None),
    "from a third on": (warmed(lambda t, w, T: 1.0, lambda t, w: 1 / 3 + 2 / 3 * t / w), None),
    "counted from 0": (lambda step, warmup, steps: warmed(falling)(step - 1, warmup, steps), None),
    "a constant and a fall at the end": (warmed(lambda t, w, T: min(1, max(0, T - t) / (0.2 * T))), None),
    "squares in the warm-up": (warmed(lambda t, w, T: 1 - way(t, w, T), lambda t, w: (t / w) ** 2), "warm_up"),
    "no warm-up": (lambda step, warmup, steps: 1 - step / (steps + 1), "warm_up"),
    "a warm-up to a half": (warmed(lambda t, w, T: 1 - way(t, w, T), lambda t, w: t / w / 2), "falls"),
    "a warm-up of w² steps": (warmed(lambda t, w, T: 1.0, lambda t, w: t / w**2), "falls"),
    "the fall begins at step 0": (warmed(lambda t, w, T: cosine(t / T)), "curve"),
    "a cosine of twice the way": (warmed(lambda t, w, T: cosine(2 * way(t, w, T))), "falls"),
    "a quarter of a cosine": (warmed(lambda t, w, T: math.cos(math.pi / 2 * way(t, w, T))), "curve"),
    "degrees": (warmed(lambda t, w, T: (1 + math.cos(180 * way(t, w, T))) / 2), "falls"),
    "an exponential": (warmed(lambda t, w, T: 0.01 ** way(t, w, T)), "curve"),
    "1 + cos": (warmed(lambda t, w, T: 2 * cosine(way(t, w, T))), "falls"),
    "up again after the end": (warmed(lambda t, w, T: cosine((t - w) / (T - w))), "beyond"),
    "below 0 after the end": (warmed(lambda t, w, T: 1 - (t - w) / (T - w)), "beyond"),
    "an end that is written down": (warmed(lambda t, w, T: max(0, 1 - (t - w) / 100)), "twice_as_long"),
    "a warm-up that is written down": (lambda step, warmup, steps: min(1, step / 20), "twice_as_long"),
    "a division by a warm-up of 0": (lambda step, warmup, steps: min(step / warmup, 1.0), "no_warm_up"),
    "it counts its calls": (Counting(), "one_number"),
    "NaN at the end": (warmed(lambda t, w, T: 1.0 if t < T else math.nan), "one_number"),
    "an array": (lambda step, warmup, steps: np.ones(2), "one_number"),
}  # fmt: skip


@pytest.mark.parametrize(("schedule", "seen"), SCHEDULE.values(), ids=SCHEDULE)
def test_a_mistake_in_a_schedule_is_seen(schedule, seen):
    assert failing(schedule, "schedule", 6, None if seen is None else [seen]) == ({seen} - {None})


def test_a_cosine_that_rises_after_its_end_is_a_convention_and_a_line_below_0_is_not():
    beyond = warmed(lambda t, w, T: cosine((t - w) / (T - w)))
    report = check_in_process(beyond, "schedule", examples=3)
    assert report, report
    assert report.conventions == ("beyond the last step the rate rises again",)
    below = check_in_process(warmed(lambda t, w, T: 1 - (t - w) / (T - w)), "schedule", examples=3)
    assert {f.property for f in below.failures} == {"beyond"}


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_schedule_of_the_library_is_right(name):
    report = check_in_process(adapters.Schedule(name), "schedule", examples=6)
    assert report, report
    known = {"constant": "a constant", "linear": "a line", "cosine": "a cosine", "noam": "an inverse root"}
    assert f"after the warm-up it is {known[name]}" in str(report)


# batch normalisation as a layer


class Normed(adapters.BatchNorm):
    """With a mistake: `train(right, x, state)` and `evaluate(right, x, state)` change what the right one gives."""

    def __init__(self, train=None, evaluate=None):
        self.changed = train, evaluate

    def train(self, x, state):
        right = super().train
        return right(x, state) if self.changed[0] is None else self.changed[0](right, x, state)

    def evaluate(self, x, state):
        right = super().evaluate
        return right(x, state) if self.changed[1] is None else self.changed[1](right, x, state)


def running(share_of_mean, share_of_var, of=np.var):
    """Running statistics that move by these shares."""

    def train(right, x, state):
        y, _ = right(x, state)
        one = np.ones(x.shape[1])
        mean, var = (0 * one, one) if state is None else state
        mean = mean + share_of_mean * (x.mean(axis=0) - mean)
        return y, adapters.RunningStatistics(mean, var + share_of_var * (of(x, axis=0) - var))

    return Normed(train)


def by_running(right, x, state):
    _, state = right(x, state)
    return (x - state.mean) / np.sqrt(state.var + 1e-5), state


class Remembering(Normed):
    """One layer for all, whatever the state."""

    statistics = None

    def train(self, x, state):
        y, self.statistics = super().train(x, self.statistics)
        return y, 0

    def evaluate(self, x, state):
        return super().evaluate(x, self.statistics)


class Updating(adapters.BatchNorm):
    """Evaluation moves the statistics, too."""

    def train(self, x, state):
        y, new = super().train(x, None if state is None else state[0])
        return y, [new]

    def evaluate(self, x, state):
        y = super().evaluate(x, state[0])
        state[0] = super().train(np.concatenate([x, x + 1]), state[0])[1]
        return y


def unbiased(right, x, state):
    y, state = right(x, state)
    return y * math.sqrt(1 - 1 / len(x)), state


def over_features(right, x, state):
    _, state = right(x, state)
    return (x - x.mean(axis=1, keepdims=True)) / x.std(), state


def without_eps(right, x, state):
    return (x - x.mean(axis=0)) / x.std(axis=0), right(x, state)[1]


BATCH_NORM = {
    "right": (Normed(), None),
    "biased": (running(0.01, 0.01), None),
    "running statistics in training": (Normed(by_running), "training"),
    "the unbiased variance in training": (Normed(unbiased), "training"),
    "means over features": (Normed(over_features), "training"),
    "statistics of the batch in evaluation": (
        Normed(None, lambda right, x, state: (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-5)), "rows_alone"),
    "the share of the past": (running(0.9, 0.9), "small_share"),
    "the last batch alone": (running(1.0, 1.0), "small_share"),
    "a mean that stays": (running(0.0, 0.1), "small_share"),
    "two shares": (running(0.1, 0.01), "one_share"),
    "standard deviations": (running(0.1, 0.1, of=np.std), "one_share"),
    "the variance moves away": (running(0.1, -0.1), "one_share"),
    "it learns in evaluation": (Updating(), "evaluation_keeps"),
    "one layer for all": (Remembering(), "layers_apart"),
    "no eps": (Normed(without_eps), "constant_feature"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("layer", "seen"), BATCH_NORM.values(), ids=BATCH_NORM)
def test_a_mistake_in_a_layer_of_batch_norm_is_seen(layer, seen):
    assert failing(layer, "batch_norm_layer", 8, None if seen is None else [seen]) == ({seen} - {None})


def test_what_a_model_lacks_is_named():
    for kind, lacks in (("batch_norm_layer", "it has no `evaluate`"), ("ring_cache", "it has no `step`")):
        ours = {"batch_norm_layer": {"train": adapters.BatchNorm().train},
                "ring_cache": {"forward": Rolling().forward, "window": 4, "dim": 3}}[kind]  # fmt: skip
        assert lacks in check_implementation(SimpleNamespace(**ours), kind, examples=1).problem
    returns_y = SimpleNamespace(train=lambda x, state: x, evaluate=lambda x, state: x)
    assert "train did not return two things" in check_implementation(returns_y, "batch_norm_layer", examples=1).problem


NO_NUMBERS = [None, "x", [1, 2], (None, None), object(), 1j, math.nan, np.zeros(0)]
OTHERS = ["ranking_of_several", "alibi", "ring_cache", "schedule", "batch_norm_layer"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", OTHERS)
def test_whatever_is_returned_the_checker_goes_on(kind):
    spec = SPECS[kind]
    names = [spec.function, *spec.others]
    ours = spec.ours()
    kept = {name: getattr(ours, name) for name in (*names, "dim", "window") if hasattr(ours, name)}
    for returned in NO_NUMBERS:
        for name in names:
            wrong = SimpleNamespace(**kept | {name: lambda *args, returned=returned, **named: returned})
            with contextlib.suppress(CannotRunError):
                assert not check_in_process(wrong, kind, examples=1), f"{name} returns {returned!r}"
