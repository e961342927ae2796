"""Refined scores: every option's gradients, what leaks and what does not, and where a sequence may begin.

That each refinement goes with every mechanism, position scheme and form is tests/models/test_seams.py's.
"""

import itertools
import math

import numpy as np
import pytest

from tests.helpers import noisy
from tests.models.schemes import Distances
from tinyattn import ops
from tinyattn.check import gradcheck_layer
from tinyattn.data import Interactions, Sampler
from tinyattn.layers import MECHANISMS, POSITIONS, REFINEMENTS, MultiHead
from tinyattn.layers.mechanisms import refined
from tinyattn.models import STOSA, SASRec, SASRecNetwork
from tinyattn.ops import Mask
from tinyattn.options import options_of
from tinyattn.training import Settings, train

NAMES = [name for name, cls in REFINEMENTS.items() if not cls.identity]
CHOICES = {"refine_space": ["scores", "weights"], "refine_shared": [False, True], "refine_scale": ["d", "n"],
           "refine_lags": [False, True]}  # fmt: skip


def variants():
    """Every option of every refinement, each with the others at their defaults, and all of them turned."""
    for name in NAMES:
        own = [o.name for o in options_of(REFINEMENTS[name])]
        yield name, {}
        yield from ((name, {option: CHOICES[option][1]}) for option in own)
        yield name, {option: CHOICES[option][1] for option in own}


def mixer_of(name, rng, options=None, longest=6, dim=6, **more):
    mixer = MultiHead(2, refined(MECHANISMS["full"](), REFINEMENTS[name](**options or {}), longest), **more)
    p = mixer.init(rng, dim)
    return mixer, noisy(p, rng, 0.2)


@pytest.mark.parametrize(("name", "options"), list(variants()), ids=str)
def test_every_option_has_its_gradients_and_sees_nothing_ahead(name, options, rng, device):
    """With a bias, padding and sequences shorter than the maps; and no row is moved by a later one by a single bit."""
    mixer, p = mixer_of(name, rng, options, longest=5, dim=4, position=Distances(), output=False)
    x, mask = rng.standard_normal((2, 4, 4)), Mask(causal=True, lengths=np.array([4, 2]))
    assert len(p["mechanism"][REFINEMENTS[name].maps[0]]) == (1 if options.get("refine_shared") else 2)
    if device == "cpu":  # elsewhere the numbers are the same ones
        slots = np.arange(4)[None]
        assert gradcheck_layer(mixer.forward, mixer.backward, p, x, mask=mask, slots=slots)
    y, cache = mixer.forward(p, x, mask=mask)
    np.testing.assert_allclose(cache.weights.sum(axis=-1)[1, :, :2], 1, rtol=0, atol=1e-12)
    moved = False
    for t in range(1, 4):
        later = x.copy()
        later[:, t:] += 1
        moved |= np.any(mixer.forward(p, later, mask=mask)[0][:, :t] != y[:, :t])
    assert moved == REFINEMENTS[name].reads_all


def scores(x, W, kind):
    """A from tokens: dot products, or minus the Wasserstein distances of STOSA."""
    q, k = x @ W[0], x @ W[1]
    if kind == "dot":
        return q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    dev = [np.exp(0.3 * (x @ M)) for M in W[2:4]]
    return ops.wasserstein_scores(q, dev[0], k, dev[1])


CAUSAL = np.tri(10, dtype=bool)
SOURCES = {
    "raw": lambda s: s,
    "softmax, no mask": ops.softmax,
    "zero-fill": lambda s: np.where(CAUSAL, s, 0),
    "post": lambda s: ops.softmax(s, CAUSAL),
}


def value_on_the_last_axis(A, W_Q, W_K, W_V):
    """Equation 3 letter by letter, with a softmax along rows, as everywhere else: the library has its other reading."""
    return W_V @ A @ ops.softmax((W_K @ A).swapaxes(-1, -2) @ (W_Q @ A))


ALWAYS = tuple(SOURCES)                                  # whatever is masked
OF_ROWS = ("raw", "softmax, no mask")                    # a row that sees what is later tells it to the others
OF_SUMS = ("softmax, no mask",)                          # of a row's past alone, which a sum over all keys divides
# form -> what it computes, and the sources of A with which it leaks
FORMS = {
    "none": (lambda A, W: A, OF_SUMS),
    "simp": (lambda A, W: ops.refine_simp(A, *W[:2])[0], OF_ROWS),
    "add": (lambda A, W: ops.refine_add(A, *W[:2])[0], OF_ROWS),
    "stoc": (lambda A, W: ops.refine_stoc(A, *W[:2])[0], OF_ROWS),
    "value": (lambda A, W: ops.refine_value(A, *W)[0], OF_SUMS),
    "value-rows": (lambda A, W: ops.refine_value_rows(A, *W, CAUSAL)[0], OF_ROWS),
    "value-literal": (lambda A, W: ops.refine_value_literal(A, *W)[0], ALWAYS),
    "value-literal, softmax on the last axis": (lambda A, W: value_on_the_last_axis(A, *W), ALWAYS),
    "value-literal, W triangular": (lambda A, W: ops.refine_value_literal(A, *map(np.tril, W))[0], ALWAYS),
    "simp by lags": (lambda A, W: ops.refine_simp(A, *W[:2], lags=True)[0], OF_SUMS),
    "add by lags": (lambda A, W: ops.refine_add(A, *W[:2], lags=True)[0], OF_SUMS),
    "stoc by lags": (lambda A, W: ops.refine_stoc(A, *W[:2], lags=True)[0], OF_SUMS),
    "value-rows by lags": (lambda A, W: ops.refine_value_rows(A, *W, CAUSAL, lags=True)[0], OF_SUMS),
}


@pytest.mark.host
@pytest.mark.parametrize("name", REFINEMENTS)
def test_every_refinement_is_in_the_leak_matrix(name):
    assert name in FORMS, f"refinement {name} has no row in FORMS"
    assert (FORMS[name][1] == ALWAYS) == REFINEMENTS[name].reads_all


@pytest.mark.host
@pytest.mark.parametrize("form", FORMS)
def test_the_leak_matrix(form, rng):
    """Which outputs read a later token, of 10 tokens in float64 under a causal mask of B: see `leaking`.

    The first row has one key, and so cannot: that leaves 36 of 45 pairs.
    """
    of, leaks = FORMS[form]
    for source, kind in itertools.product(SOURCES, ("dot", "distance")):
        expected = 36 if source in leaks else 0
        assert leaking(of, SOURCES[source], CAUSAL, kind, rng) == (expected, expected), (source, kind)


@pytest.mark.host
@pytest.mark.parametrize("source", ["zero-fill", "post"])
@pytest.mark.parametrize("form", FORMS)
def test_b_has_to_be_masked_again(form, source, rng):
    assert leaking(FORMS[form][0], SOURCES[source], None, "dot", rng) == (45, 45)


def leaking(form, source, mask, kind, rng):
    """Pairs of an output and a later token that it reads: as it moves when the token does, and by its Jacobian.

    That is of central differences. Where nothing is read both sides are the same bits, so what is causal is exactly 0.
    """
    n, d, h = 10, 8, 1e-4
    x, values = rng.standard_normal((n, d)), rng.standard_normal((d, d))
    W, maps = 0.2 * rng.standard_normal((4, d, d)), rng.standard_normal((3, n, n)) / math.sqrt(n)
    later = np.triu(np.ones((n, n), dtype=bool), 1)  # output, token

    def out(x):
        return ops.softmax(form(source(scores(x, W, kind)), maps), mask) @ (x @ values)

    ones = np.eye(n)[:, :, None]
    moved = np.any(out(x + ones) != out(x + 0 * ones), axis=-1).T
    steps = h * np.eye(n * d).reshape(n, d, n, d)
    jacobian = (out(x + steps) - out(x - steps)) / (2 * h)  # (token, its entry, output, its entry)
    sizes = np.sqrt(np.sum(jacobian**2, axis=(1, 3))).T
    assert np.max(sizes) > 0.01
    assert not np.any(moved & later) or np.max(sizes[later]) > 1e-6  # a leak is no rounding
    return np.sum(moved & later), np.sum((sizes > 0) & later)


IID = {"none": 8, "simp": 8, "value": 8, "value-literal": 20}  # epochs: who learns nothing needs no more


@pytest.mark.host
@pytest.mark.parametrize(("name", "epochs"), [pytest.param(*case, marks=[pytest.mark.slow] * (case[0] == "none"))
                                              for case in IID.items()])  # fmt: skip
def test_of_iid_items_only_a_leak_learns_and_the_last_position_does_not_show_it(name, epochs):
    """The iid oracle: no model has a loss below the entropy, log 8, unless it reads its targets. Leave-one-out asks at
    the last position, which has nothing later to read: its hits are those of chance, leak or no leak."""
    data, fresh = (Interactions.from_sequences(np.random.default_rng(i).integers(1, 9, (400, 11))) for i in (0, 1))
    network = SASRecNetwork(n_items=8, maxlen=10, dim=16, blocks=1, dropout=0.0, objective="ce", refine=name)
    settings = Settings(epochs=epochs, lr=0.01)
    p, _ = train(network, Sampler(data, 10, 64, 0, False), settings, workers=1, progress=False)
    batch = Sampler(fresh, 10, 400, 0, False).batch(0)
    loss = float(network.loss(p, batch)[0])
    assert (loss < 1.5) if REFINEMENTS[name].reads_all else (loss > math.log(8) - 0.01), loss
    hits = np.argmax(network.score(p, batch), axis=1) == batch.targets[:, -1]
    assert abs(np.mean(hits) - 1 / 8) < 0.07


@pytest.mark.host
@pytest.mark.parametrize("model", [SASRec, STOSA])
@pytest.mark.parametrize("name", ["simp", "value", "value-rows", "value-literal"])
def test_a_fit_says_that_it_sees_its_targets(name, model, capsys):
    data, options = Interactions.from_sequences([[1, 2, 3], [4]] * 4), {"dim": 4, "heads": 1, "maxlen": 3, "workers": 1}
    for progress in (True, False):
        model(**options, blocks=1, epochs=1, refine=name).fit(data, progress=progress)
        said = "note: with refine value-literal a position sees the items" in capsys.readouterr().err
        assert said == (progress and REFINEMENTS[name].reads_all)


@pytest.mark.parametrize("name", NAMES)
def test_by_lags_a_sequence_may_begin_anywhere(name, rng):
    """The same tokens after padding on the left, which the mask hides: maps of places give others, maps of lags do not.

    What stands on padding moves nothing either way.
    """
    x, columns = rng.standard_normal((1, 7, 6)), np.arange(12)
    own = {o.name for o in options_of(REFINEMENTS[name])}
    for lags in (False, True) if "refine_lags" in own else (False,):
        mixer, p = mixer_of(name, rng, {"refine_lags": lags} if lags else {}, longest=12)
        p["mechanism"] = {key: 2 * W for key, W in p["mechanism"].items()}  # so that B is no even mean
        found = []
        for left, pad in itertools.product((0, 5), (1.0, -3.0)):
            inside = (columns >= left) & (columns < left + 7)
            longer = np.full((1, 12, 6), pad)
            longer[:, inside] = x
            y, _ = mixer.forward(p, longer, mask=Mask(causal=True, allowed=inside[:, None] & inside))
            found.append(y[:, inside])
        for one, other in (found[:2], found[2:]):
            np.testing.assert_array_equal(one, other)
        moved = np.max(np.abs(found[2] - found[0]))
        assert (moved < 1e-12) if lags else (moved > 1e-3)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "value"])  # it counts columns from the first
@pytest.mark.parametrize("space", ["scores", "weights"])
def test_places_are_counted_from_the_newest_token_wherever_padding_stands(name, space, rng):
    """Padding on the right, told by lengths, a batch of several lengths, and on the left: the same; and gradients."""
    mixer, p = mixer_of(name, rng, {"refine_space": space}, longest=8, dim=4)
    x, lengths, inside = rng.standard_normal((3, 6, 4)), np.array([6, 2, 4]), np.arange(8)
    y, cache = mixer.forward(p, x, mask=Mask(causal=True, lengths=lengths))
    dy, total = rng.standard_normal(y.shape), None
    for row, n in enumerate(lengths):
        dy[row, n:] = 0
        left = np.ones((1, 8, 4))
        left[0, 8 - n :] = x[row, :n]
        real = inside >= 8 - n
        other, kept = mixer.forward(p, left, mask=Mask(causal=True, allowed=real[:, None] & real))
        np.testing.assert_allclose(y[row, :n], other[0, 8 - n :], rtol=0, atol=1e-12)
        back = np.zeros((1, 8, 4))
        back[0, 8 - n :] = dy[row, :n]
        _, _, grads = mixer.backward(p, back, kept)
        maps = grads["mechanism"]
        total = maps if total is None else {key: total[key] + d for key, d in maps.items()}
    _, _, grads = mixer.backward(p, dy, cache)
    for key, d in grads["mechanism"].items():
        np.testing.assert_allclose(d, total[key], rtol=0, atol=1e-12)


@pytest.mark.host
def test_what_is_refused():
    x = np.ones((1, 5, 6))
    simp, add = REFINEMENTS["simp"](), REFINEMENTS["add"]()
    for make, says in (
        (lambda: refined(MECHANISMS["linear"](), simp, 5), "simp refines scores, and mechanism linear has none"),
        (lambda: refined(MECHANISMS["longformer"](), add, 5), "add .* mechanism longformer has none"),
        (lambda: REFINEMENTS["simp"](refine_scale="m"), "refine_scale is 'm', expected one of d, n"),
        (lambda: REFINEMENTS["value"](refine_space="logits"), "refine_space is 'logits', expected one of scores"),
    ):
        with pytest.raises(ValueError, match=says):
            make()
    for name, options, memory, causal, says in (
        ("simp", {}, None, True, "sequences of 5 tokens, expected at most 4: refinement simp was made with maps of 4"),
        ("simp", {}, x[:, :3], True, "full refined by simp has 5 queries and 3 keys, expected as many of each"),
        ("value", {}, None, False, "refinement value needs a causal mask: .* value-rows takes any"),
        ("add", {"refine_lags": True}, None, False, "refinement add by lags needs a causal mask"),
    ):
        mixer = MultiHead(2, refined(MECHANISMS["full"](), REFINEMENTS[name](**options), 4))
        with pytest.raises(ValueError, match=says):
            mixer.forward(mixer.init(np.random.default_rng(0), 6), x, memory, mask=Mask(causal=causal))
    for options, says in (
        ({"refine": "simpl"}, "refine is 'simpl', expected one of none, simp, .*; did you mean simp?"),
        ({"refine": "simp", "mechanism": "performer"}, "refinement simp .* mechanism performer has none"),
        ({"refine_lags": True}, "refine_lags is True, an option of refine simp or add or .*; refine is none"),
        ({"refine": "value", "refine_scale": "n"}, "an option of refine simp or add or .*; refine is value"),
        ({"refine": "add", "mechanism": "window", "position": "t5"}, "a bias, and mechanism window refined by add"),
    ):
        with pytest.raises(ValueError, match=says):
            SASRecNetwork(n_items=5, **options)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "value"])
def test_without_an_order_padding_is_hidden_by_its_lengths(name, rng):
    mixer, p = mixer_of(name, rng, longest=7, position=POSITIONS["shaw"](clip=2))
    x, lengths = rng.standard_normal((3, 7, 6)), np.array([7, 1, 4])
    y, cache = mixer.forward(p, x, mask=Mask(lengths=lengths))
    dy = rng.standard_normal(y.shape)
    for row, n in enumerate(lengths):
        dy[row, n:] = 0
        alone, _ = mixer.forward(p, x[row : row + 1, :n], mask=Mask())
        np.testing.assert_allclose(y[row, :n], alone[0], rtol=0, atol=1e-12)
    dx, *_ = mixer.backward(p, dy, cache)
    assert not any(dx[row, n:].any() for row, n in enumerate(lengths))
