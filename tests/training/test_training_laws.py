"""Training against plain loops over numbers: the optimisers, a whole run with every option, and when it stops."""

import math
import signal
import threading
from typing import NamedTuple

import numpy as np
import pytest

from tinyattn.training import Learner, Moments, Settings, adam, adamw, learner, orthogonal, train
from tinyattn.training.adamw import decay_of
from tinyattn.training.around import _interrupts
from tinyattn.training.batch import Grouped
from tinyattn.training.clipping import clip_by_global_norm
from tinyattn.training.schedules import rate_at, rate_factors

pytestmark = pytest.mark.host  # plain numbers; tests of optimisers, steps and loops beside this file run on devices


def plain_adam(x, gradients, rates, b1=0.9, b2=0.98, eps=1e-8, decay=0.0):
    """One parameter in Python's floats: its value after each step."""
    m = v = 0.0
    path = []
    for t, (g, lr) in enumerate(zip(gradients, rates, strict=True), start=1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        right, spread = m / (1 - b1**t), math.sqrt(v / (1 - b2**t))
        x = x - lr * decay * x - lr * right / (spread + eps)
        path.append(x)
    return path


@pytest.mark.parametrize("options", [{}, {"beta1": 0.5}, {"beta2": 0.7}, {"eps": 0.3}, {"lr": 0.2},
                                     {"beta1": 0.0, "beta2": 0.0, "eps": 1.0}, {"beta1": 0.8, "beta2": 0.999, "lr": 2}],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("decay", [None, 0.0, 0.4, "each"])
def test_three_steps_of_adam_number_by_number(options, decay, rng):
    start, gradients = rng.standard_normal(4), rng.standard_normal((3, 4))
    gradients[1, 2] = 0
    each = np.array([0.0, 0.1, 0.5, 2.0]) if decay == "each" else np.full(4, decay or 0.0)
    mine, moments = start.copy(), Moments(np.zeros(4), np.zeros(4))
    how = {"lr": "lr", "beta1": "b1", "beta2": "b2", "eps": "eps"}
    lr = options.get("lr", 1e-3)
    plain = {how[name]: value for name, value in options.items() if name != "lr"}
    expected = [plain_adam(x, g, [lr] * 3, decay=d, **plain)
                for x, g, d in zip(start.tolist(), gradients.T.tolist(), each.tolist(), strict=True)]  # fmt: skip
    for step, g in enumerate(gradients, start=1):
        if decay is None:
            adam(mine, g, moments, step, **options)
        else:
            adamw(mine, g, moments, step, weight_decay=each if decay == "each" else decay, **options)
        np.testing.assert_allclose(mine, [path[step - 1] for path in expected], rtol=1e-12)


def test_without_a_word_adamw_decays_by_a_hundredth():
    x, moments = np.array([100.0]), Moments(np.zeros(1), np.zeros(1))
    adamw(x, np.zeros(1), moments, 1, lr=0.5)
    assert x[0] == 100 - 0.5 * 0.01 * 100


@pytest.mark.parametrize(("most", "factor"), [(2.5, 0.5), (5.0, 1.0), (5.1, 1.0), (0.05, 0.01)])
def test_a_gradient_of_length_five_is_clipped(most, factor):
    pieces = [np.array([3.0], np.float32), np.array([[0.0, -4.0]])]
    clip_by_global_norm(pieces, np.float64(25.0), most, np)
    np.testing.assert_allclose(pieces[0], [3 * factor], rtol=1e-6)
    np.testing.assert_allclose(pieces[1], [[0, -4 * factor]], rtol=1e-12)
    assert pieces[0].dtype == np.float32


class Line(NamedTuple):
    """Rows of the toy below: y = x W + b."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    rows: np.ndarray

    @property
    def total(self):
        return float(np.sum(self.weight))

    def slices(self, tokens):
        return [Line(*(a[i : i + tokens] for a in self)) for i in range(0, len(self.x), tokens)]

    def to(self, xp):
        return self


class Toy:
    """The weighted mean of squares of y - x W - b, for W (3, 2) and b (2,)."""

    def init(self, rng):
        return {"W": np.array([[0.5, -1], [0.25, 2], [-0.75, 1]]), "b": np.array([3.0, -2])}

    def loss(self, p, batch, rng=None):
        off = batch.x @ p["W"] + p["b"] - batch.y
        return float(np.sum(batch.weight[:, None] * off**2) / batch.total), (batch, off)

    def loss_backward(self, p, dloss, cache):
        batch, off = cache
        d = dloss * 2 * batch.weight[:, None] * off / batch.total
        return {"W": batch.x.T @ d, "b": np.sum(d, axis=0)}


class Lines:
    """Seven batches an epoch, of uneven sizes and weights, which differ from epoch to epoch."""

    steps = 7

    def batch(self, step):
        rng = np.random.default_rng(step)
        n = 2 + step % 3
        return Line(rng.standard_normal((n, 3)), rng.standard_normal((n, 2)), rng.integers(1, 4, n) * 1.0, np.arange(n))


def plain_run(settings):
    """-> the parameters (8,) after each epoch, the mean loss and the mean norm of each epoch; W first, then b."""
    p, model, batches = Toy().init(None), Toy(), Lines()
    flat = np.concatenate([p["W"].ravel(), p["b"]])
    groups = math.ceil(7 / settings.accumulate)
    factors = rate_factors(settings.schedule, settings.warmup, groups * settings.epochs)
    m, v, u, t = np.zeros(8), np.zeros(8), np.zeros(6), 0
    after, losses, norms = [], [], []
    for epoch in range(settings.epochs):
        losses.append([])
        norms.append([])
        for first in range(0, 7, settings.accumulate):
            t += 1
            some = [batches.batch(7 * epoch + i) for i in range(first, min(first + settings.accumulate, 7))]
            batch = Line(*(np.concatenate(parts) for parts in zip(*some, strict=True)))
            p = {"W": flat[:6].reshape(3, 2), "b": flat[6:]}
            loss, cache = model.loss(p, batch)
            grads = model.loss_backward(p, 1.0, cache)
            g = np.concatenate([grads["W"].ravel(), grads["b"]])
            losses[-1].append(loss)
            norms[-1].append(math.sqrt(np.sum(g * g)))
            if settings.clip_norm is not None and norms[-1][-1] > settings.clip_norm:
                g *= settings.clip_norm / norms[-1][-1]
            m, v = 0.9 * m + 0.1 * g, settings.beta2 * v + (1 - settings.beta2) * g * g
            lr = settings.lr * factors[t]
            step = m / (1 - 0.9**t) / (np.sqrt(v / (1 - settings.beta2**t)) + 1e-8)
            if settings.optimizer == "muon":  # of W
                u = 0.95 * u + g[:6]
                step[:6] = 0.2 * math.sqrt(3) * orthogonal((0.95 * u + g[:6]).reshape(3, 2)).ravel()
            decay = np.array([settings.weight_decay] * 6 + [0.0] * 2)  # b does not decay
            flat = flat - lr * decay * flat - lr * step
        after.append(flat)
    return np.array(after), np.mean(losses, axis=1), np.mean(norms, axis=1)


def run(settings, validate=None, **how):
    p, history = train(Toy(), Lines(), settings, workers=1, progress=False, validate=validate, **how)
    return vector(p), history


def vector(p):
    return np.concatenate([p["W"].ravel(), p["b"]])


@pytest.mark.parametrize("tokens", [1, 1600])
@pytest.mark.parametrize("options", [
    {}, {"lr": 0.03, "beta2": 0.9}, {"schedule": "linear"}, {"schedule": "cosine", "warmup": 5},
    {"weight_decay": 3.0}, {"clip_norm": 1.5}, {"accumulate": 3}, {"accumulate": 7}, {"accumulate": 20},
    {"schedule": "noam", "warmup": 2, "weight_decay": 1.0, "clip_norm": 2.0, "accumulate": 2, "lr": 0.05},
    {"optimizer": "muon"}, {"optimizer": "muon", "schedule": "linear", "weight_decay": 1.0, "clip_norm": 2.0},
], ids=str)  # fmt: skip
def test_a_run_is_the_plain_loop(options, tokens, monkeypatch):
    """Loss and norm of an epoch are means over its steps; the norm is the mean of roots, from before clipping."""
    monkeypatch.setattr(learner, "SLICE_TOKENS", tokens)
    settings = Settings(**{"epochs": 3, "patience": 0, "lr": 0.01} | options)
    after, losses, norms = plain_run(settings)
    seen = []

    def validate(p):
        seen.append(vector(p).copy())
        return float(len(seen))

    mine, history = run(settings, validate)
    np.testing.assert_allclose(seen, after, rtol=0, atol=2e-5)
    np.testing.assert_array_equal(mine, seen[-1])
    np.testing.assert_allclose([row["loss"] for row in history], losses, rtol=1e-4)
    np.testing.assert_allclose([row["gradient_norm"] for row in history], norms, rtol=1e-4)
    groups = math.ceil(7 / settings.accumulate)
    assert [(row["epoch"], row["steps"], row["valid"]) for row in history] == [(i, i * groups, i) for i in (1, 2, 3)]
    weights = [sum(Lines().batch(7 * epoch + i).total for i in range(7)) for epoch in range(3)]
    for row, weight in zip(history, weights, strict=True):
        assert row["tokens_per_second"] * max(row["seconds"], 1e-9) == pytest.approx(weight)
    last, _ = run(settings)  # without validation: the last epoch's
    np.testing.assert_array_equal(last, seen[-1])


def stops(scores, patience, enough):
    """-> the epochs that are trained, and the one that is kept: the first of the best ones."""
    best, kept = -math.inf, 0
    for epoch, score in enumerate(scores, start=1):
        if score > best:
            best, kept = score, epoch
        if (patience and epoch - kept >= patience) or (enough is not None and best >= enough):
            return epoch, kept
    return len(scores), kept


SMALL = 1e-9
CASES = [
    ([0.1, 0.2, 0.3, 0.4, 0.5], 1, None), ([0.5, 0.5 + SMALL, 0.5 + 2 * SMALL, 0.5], 1, None),
    ([0.5, 0.5, 0.6], 1, None), ([0.5, 0.5, 0.6], 2, None), ([0.5, 0.4, 0.5, 0.6], 3, None),
    ([-2.0, -1.0, -3.0, -3.0, 0.0], 2, None), ([0.0, 0.0, 0.0, 0.0], 0, None), ([0.3, 0.2, 0.1, 0.4], 3, None),
    ([0.3, 0.2, 0.1, 0.4], 0, 0.3), ([0.2, 0.3, 0.4], 0, 0.3), ([0.2, 0.29, 0.28], 0, 0.3), ([0.0, 0.1], 1, 0.0),
    ([0.9, 0.1, 0.1, 0.1, 1.0], 4, None), ([0.9, 0.1, 0.1, 0.1, 1.0], 3, None), ([-1.0, -2.0, 5.0], 2, -1.0),
]  # fmt: skip


@pytest.mark.parametrize(("scores", "patience", "enough"), CASES, ids=str)
def test_when_it_stops_and_which_epoch_it_keeps(scores, patience, enough):
    """Any gain counts, however small; an equal score is none."""
    seen, rows = [], []

    def validate(p):
        seen.append(vector(p).copy())
        return scores[len(seen) - 1]

    settings = Settings(epochs=len(scores), patience=patience)
    best, history = run(settings, validate, enough=enough, on_epoch=lambda all_: rows.append(len(all_)))
    epochs, kept = stops(scores, patience, enough)
    assert [row["valid"] for row in history] == scores[:epochs]
    assert rows == list(range(1, epochs + 1))
    np.testing.assert_array_equal(best, seen[kept - 1])


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_a_finished_run_that_is_asked_again_is_what_it_was(patience, tmp_path):
    """Its checkpoint is of a step before its end, and has the best epoch up to there and the epochs' scores."""
    scores = [0.5, 0.7, 0.6, 0.6, 0.9, 0.1]

    def score(p):
        return scores[round(float(p["b"][0]) * 1e6) % 6]  # of the parameters alone

    settings = Settings(epochs=6, patience=patience, lr=0.02)
    whole, history = run(settings, score)
    path = tmp_path / "c.npz"
    for _ in range(2):
        again, rows = run(settings, score, checkpoint=path)
        np.testing.assert_array_equal(again, whole)
        assert [(row["epoch"], row["loss"], row["valid"]) for row in rows] == [
            (row["epoch"], row["loss"], row["valid"]) for row in history
        ]
    with pytest.raises(ValueError, match="another configuration or other data"):
        run(settings, score, checkpoint=path, identity={"x": 1})


@pytest.mark.parametrize("accumulate", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("steps", [1, 6, 7])
def test_in_groups_every_batch_of_every_epoch_comes_once(steps, accumulate):
    class Numbers:
        def batch(self, step):
            return step

    Numbers.steps = steps
    grouped = Grouped(Numbers(), accumulate)
    found = [grouped.batch(step) for step in range(3 * grouped.steps)]
    plain = []
    for epoch in range(3):
        numbers = list(range(epoch * steps, (epoch + 1) * steps))
        plain += [numbers[i : i + accumulate] for i in range(0, steps, accumulate)]
    assert found == plain


def test_what_decays_is_decided_by_shape_and_by_the_model():
    class Model:
        def undecayed(self, tree):
            return [tree["table"][:, 1], tree["deep"][0]["whole"]]

    ones = np.ones
    p = {"b": ones(2), "W": ones((2, 3)), "column": ones((4, 1)), "row": ones((1, 2)), "table": ones((2, 2)),
         "deep": [{"whole": ones((2, 2)), "cube": ones((1, 2, 2))}]}  # fmt: skip
    expected = [0] * 2 + [1] * 6 + [0] * 4 + [1] * 2
    assert decay_of(object(), p, 0.25).tolist() == [0.25 * d for d in [*expected, *[1] * 4, *[1] * 4, *[1] * 4]]
    assert decay_of(Model(), p, 0.25).tolist() == [0.25 * d for d in [*expected, 1, 0, 1, 0, *[0] * 4, *[1] * 4]]
    assert decay_of(object(), p, 1.0).dtype == np.float32


@pytest.mark.parametrize(("height", "lazy"), [(30, False), (31, True)])
def test_a_table_is_lazy_above_ten_times_the_rows_that_the_first_step_reads(height, lazy):
    class Model(Toy):
        def init(self, rng):
            return {"before": np.ones(3), "table": np.ones((height, 2)), "W": np.ones((2, 2))}

        def rows_read(self, batch):
            return {"table": np.array(batch)}

    first = [[3, 1, 3], [1, 7]]  # three different rows
    found = Learner(Model(), Settings(), first, 5)
    assert list(found.lazy) == ["table"] * lazy
    assert [(piece.start, piece.stop) for piece in found._dense] == (
        [(0, 3), (3 + 2 * height, 7 + 2 * height)] if lazy else [(0, 7 + 2 * height)]
    )
    assert not Learner(Model(), Settings(beta2=0.85), first, 5).lazy
    if lazy:
        kept = found.lazy["table"]
        assert (kept.lr, kept.beta1, kept.beta2, kept.eps, kept.weight_decay) == (1e-3, 0.9, 0.98, 1e-8, 0.0)
        assert found.arrays()["last.table"] is kept.last


@pytest.mark.parametrize(("name", "corners"), [
    ("constant", {0: 0, 1: 0.25, 2: 0.5, 4: 1, 5: 1, 10: 1, 11: 1, 99: 1}),
    ("linear", {0: 0, 1: 0.25, 4: 1, 5: 6 / 7, 10: 1 / 7, 11: 1 / 7}),
    ("cosine", {0: 0, 3: 0.75, 4: 1, 10: (1 + math.cos(math.pi * 6 / 7)) / 2, 12: (1 + math.cos(math.pi * 6 / 7)) / 2}),
    ("noam", {0: 0, 2: 0.5, 4: 1, 9: 2 / 3, 10: math.sqrt(0.4), 1000: math.sqrt(0.4)}),
])  # fmt: skip
def test_schedules_at_their_corners(name, corners):
    factors = rate_factors(name, 4, 10)
    assert len(factors) == 11
    for step, factor in corners.items():
        assert rate_at(2.0, factors, step) == pytest.approx(2 * factor, rel=1e-12)


@pytest.fixture
def pythons_own():
    """Python's answer to Ctrl-C, which a process that is started in the background does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("pythons_own")
def test_one_ctrl_c_is_remembered_and_the_next_one_is_pythons():
    def twice(interrupted):
        assert interrupted() is False
        signal.raise_signal(signal.SIGINT)
        assert interrupted() is True
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), _interrupts() as interrupted:
        twice(interrupted)
    assert signal.getsignal(signal.SIGINT) is before
    with _interrupts():
        pass
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(ArithmeticError), _interrupts():
        raise ArithmeticError
    assert signal.getsignal(signal.SIGINT) is before
    answers = []

    def elsewhere():
        with _interrupts() as interrupted:
            answers.append((interrupted(), signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert answers == [(False, True)]
