"""Every mechanism, position scheme, mixer, block form, norm and feed-forward network there is, together, and every
model's network: what holds for all combinations.

A new entry of one of the tables is tested here by being there.
"""

import itertools
import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest

from tests.covering import covering
from tests.devices import On
from tests.helpers import noisy
from tests.models.schemes import SCHEMES
from tests.models.worlds import few_negatives, uneven
from tinyattn import data
from tinyattn.check import gradcheck_layer, gradcheck_model
from tinyattn.data import Interactions, Sampler, TimedHistory
from tinyattn.fast import tiles
from tinyattn.layers import (
    BLOCK_FORMS,
    FEED_FORWARDS,
    MECHANISMS,
    MIXERS,
    NORMS,
    POSITIONS,
    REFINEMENTS,
    Block,
    MultiHead,
)
from tinyattn.layers.mechanisms import Full, refined
from tinyattn.layers.positions import ITEM_POSITIONS
from tinyattn.models import MODELS, NeuralRecommender, SASRecNetwork
from tinyattn.ops import Mask
from tinyattn.random import MaskKeys, Stream, generator
from tinyattn.training import Settings, learner, train
from tinyattn.tree import add_to, flatten, leaves, tree_map

DATA = uneven(users=9, items=12, longest=9)
DATA = replace(DATA, times=(1 + 3600 * np.arange(len(DATA)) ** 1.5).astype(np.int64))
SMALL = {"n_items": DATA.n_items, "n_users": DATA.n_users, "maxlen": 6, "dim": 8, "heads": 2, "eps": 1e-3, "blocks": 2}
FEW = SMALL | {"layers": 2, "nh": 2, "nv": 2}    # a recommender is given those that it has, and is faster; others work
OPTIONS = ("mechanism", "position", "block_form", "norm", "feed_forward", "kv_heads", "refine", "mixer")  # of a case
PLACES = list(ITEM_POSITIONS) + list(SCHEMES)
OWN = {
    "window": {"window": 3},
    "longformer": {"window": 2, "global_tokens": 2},
    "bigbird": {"block_size": 2, "window_blocks": 1},
    "strided": {"stride": 2},
}  # where it needs other options than by default to differ from full attention on histories of six


def given_by(case):
    """Option -> value, of a case of SASRec; other cases name a model, and perhaps its loss."""
    return {} if case[0] in MODELS else dict(zip(OPTIONS, case, strict=False))


def suits(mechanism, position, form):
    """Does the library take it? The refusals are tested below."""
    scheme = (dict(ITEM_POSITIONS) | SCHEMES)[position]
    drops = form != "sasrec" or "dropout" in MECHANISMS[mechanism].takes
    return scheme.gives <= MECHANISMS[mechanism].takes and drops


EVERY = [three for three in itertools.product(MECHANISMS, PLACES, BLOCK_FORMS) if suits(*three)]
PARTS = list(itertools.product(NORMS, FEED_FORWARDS, (2, 1)))    # the last: heads of keys and values


def marks(case):
    """On the host every pair runs by default, on other devices every entry, and the rest is slow."""
    return [pytest.mark.slow] * (case not in PAIRS) + [pytest.mark.slow_elsewhere] * (case not in ENTRIES)


def whole(three, parts, refine="none"):
    """A case; a form of the block without feed-forward network has the default one, which it does not read."""
    norm, ffn, kv_heads = parts
    return (*three, norm, ffn if BLOCK_FORMS[three[2]].feeds_forward else "relu", kv_heads, refine)


ALL = list(dict.fromkeys(whole(three, parts) for three in EVERY for parts in PARTS))
REFINED = [(three, refine) for refine in REFINEMENTS for three in EVERY
           if refine != "none" and MECHANISMS[three[0]].has_scores]  # fmt: skip
ALL += [whole(three, parts, refine) for (three, refine), parts in zip(REFINED, itertools.cycle(PARTS), strict=False)]
PAIRS = covering(ALL, 2)
ENTRIES = covering(PAIRS, 1)
MIXED = covering([("full", position, form, norm, ffn, None, "none", mixer)
                  for position, form, norm, ffn, mixer in itertools.product(
                      POSITIONS, BLOCK_FORMS, NORMS, FEED_FORWARDS, MIXERS)
                  if mixer != "attention" and not POSITIONS[position].at_heads
                  and (BLOCK_FORMS[form].feeds_forward or ffn == "relu")
                  and (MIXERS[mixer].takes_memory or not BLOCK_FORMS[form].gives_memory)], 2)  # fmt: skip
PAIRS += covering(MIXED, 1)
ENTRIES += covering(MIXED, 1)
THREES = [whole(three, parts) for three, parts in zip(EVERY, itertools.cycle(PARTS), strict=False)]
CASES = [pytest.param(case, id="-".join(map(str, case)), marks=marks(case))
         for case in dict.fromkeys(PAIRS + THREES + MIXED)]  # fmt: skip
NETWORKS = {name: cls.Network for name, cls in MODELS.items() if issubclass(cls, NeuralRecommender)}
TABLES = {"items", "users"} | {cls.scored for cls in NETWORKS.values()}
CASES += [pytest.param((name,), id=name) for name in NETWORKS if name != "sasrec"]
LOSSES = [(name, objective) for name, cls in NETWORKS.items() for objective in cls.objectives]
TRAINED = CASES + [pytest.param(case, id="-".join(case), marks=[pytest.mark.slow_elsewhere] * (case[0] != "sasrec"))
                   for case in LOSSES]  # fmt: skip
ORDERED = [case for case in CASES if (NETWORKS[case.id].causal if len(case.values[0]) == 1
           else not REFINEMENTS[given_by(case.values[0])["refine"]].reads_all)]  # fmt: skip


@pytest.fixture(autouse=True)
def everywhere(device, monkeypatch):
    """Every test here runs on every device there is, and the schemes for tests are in the table."""
    for name, cls in list(NETWORKS.items()):
        monkeypatch.setitem(NETWORKS, name, On(device).of(cls))
    for name, scheme in SCHEMES.items():
        monkeypatch.setitem(POSITIONS, name, scheme)


def estimator(case, **more):
    """A small model, with the options that it has."""
    cls = MODELS[case[0]]
    more = {"loss": case[1], **few_negatives(case[1])} | more if len(case) > 1 else more
    has = {f.name for f in fields(cls)}
    return cls(**{name: value for name, value in (FEW | more).items() if name in has})


def depth(case):
    """Blocks: two for every option and model; pairs and threes of options meet in one, in half of the time."""
    return 2 if case in ENTRIES or case[0] in MODELS else 1


def make(case, dropout=0.3, dtype=np.float64, **more):
    if case[0] in MODELS:
        network = estimator(case, dropout=dropout, **more).make_network(DATA.n_items, DATA.n_users)
    else:
        parts = given_by(case) | OWN.get(case[0], {}) | ({"heads": 1} if case in MIXED else {})
        network = SASRecNetwork(**SMALL | parts | more, dropout=dropout)
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(5)
    p = noisy(p, rng, 0.2)
    for name in p.keys() & TABLES:
        p[name][0] = 0  # padding, and a user of whom nothing is known
    return network, flatten(p, dtype)[1]


def sampler(case, size):
    """Batches of `size` users, of the model's own sampler."""
    if case[0] in MODELS:
        return estimator(case, batch_size=size).sampler(DATA)
    return Sampler(DATA, 6, size, 0, True, timed=True)


def batch(case):
    return sampler(case, DATA.n_users).batch(0)


def pad(histories, maxlen):
    """With times, which most networks do not read."""
    return data.pad([TimedHistory(h, 500.0 * np.arange(len(h)) ** 2) for h in histories], maxlen)


@pytest.mark.parametrize("case", CASES)
def test_gradients(case):
    """Of every option and model entries, too; of all pairs a direction through each parameter."""
    network, p = make(case, blocks=depth(case))
    report = gradcheck_model(network, p, batch(case), key=3, entries=depth(case) - 1)
    assert report, f"\n{report}"


@pytest.mark.parametrize(("name", "objective"), LOSSES)
def test_every_network_with_every_objective(name, objective, device):
    """Gradients; and rows of a table have one if `rows_read` names them, as lazy Adam updates these alone."""
    network, p = make((name, objective), blocks=1)
    given = sampler((name, objective), 3).batch(0)
    report = gradcheck_model(network, p, given, key=3, entries=1)
    assert report, f"\n{report}"
    _, cache = network.loss(p, given)
    total = tree_map(np.zeros_like, p)
    add_to(total, network.loss_backward(p, 1.0, cache))
    for table, ids in network.rows_read(given).items():
        if table in p:
            assert set(np.flatnonzero(np.any(total[table] != 0, axis=1))) == set(ids.tolist()) - {0}, table


@pytest.mark.parametrize("case", ORDERED)
def test_the_past_does_not_move_by_a_bit_and_no_gradient_comes_from_the_future(case):
    network, p = make(case, dropout=0.0, blocks=depth(case))
    history = np.array([3, 1, 4, 5, 9, 2])
    h, cache = network.forward(p, pad([history], 6))
    for t in range(6):
        other = history.copy()
        other[t] = 8
        moved = np.abs(network.forward(p, pad([other], 6))[0] - h)[0].max(axis=1)
        dh = np.zeros_like(h)
        dh[:, t] = np.linspace(1, 2, h.shape[-1])
        dx, _ = network.backward(p, dh, cache)
        if dx is None:  # the history is not read
            assert not moved.any()
            continue
        dx = np.abs(dx)[0].max(axis=1)
        assert np.all(moved[:t] == 0)
        assert moved[t] > 1e-9
        assert np.all(dx[t + 1 :] == 0)
        assert dx[t] > 1e-9


@pytest.mark.parametrize("case", TRAINED)
def test_what_padding_holds_moves_nothing(case):
    network, p = make(case, dropout=0.0, blocks=depth(case))
    rng, found = np.random.default_rng(1), []
    given = batch(case)
    by_lengths = not network.causal or given_by(case).get("refine", "none") != "none"  # ids say where padding begins
    noise = {name: np.where(x == 0, rng.integers(1, DATA.n_items, x.shape), x)
             for name in ("ids", "targets", "negatives", "times")[by_lengths:]
             if (x := getattr(given, name)) is not None}  # fmt: skip
    assert (given.ids == 0).any()
    slots = np.where(given.ids == 0, 0, given.slots)
    for each in (given, given._replace(slots=slots, **noise)):
        value, cache = network.loss(p, each)
        total = tree_map(np.zeros_like, p)
        add_to(total, network.loss_backward(p, 1.0, cache))
        found.append({"loss": value} | dict(leaves(total)))
        assert not any(total[name][0].any() for name in total.keys() & TABLES)
    assert found[0]["loss"] == found[1]["loss"]
    for name, mine in found[0].items():
        np.testing.assert_allclose(found[1][name], mine, rtol=0, atol=1e-13, err_msg=name)  # the same terms, in turn


@pytest.mark.parametrize("case", CASES)
def test_scoring_is_the_forward_at_the_last_position(case):
    """Histories of all lengths in one batch, and each alone: what is ranked is what was trained."""
    network, p = make(case, dropout=0.0)
    histories = [np.arange(1, n + 1) for n in (6, 1, 3, 5)]
    together = network.asking(pad(histories, 6))
    h, _ = network.forward(p, together)
    state = network.last_state(p, pad(histories, 6))
    for row, (history, last) in enumerate(zip(histories, np.sum(together.ids != 0, axis=1) - 1, strict=True)):
        np.testing.assert_allclose(state[row], h[row, last], rtol=0, atol=1e-12)
        np.testing.assert_allclose(network.last_state(p, pad([history], 6))[0], state[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", TRAINED)
def test_slices_add_up_to_the_batch(case):
    """With dropout: a row's masks depend on whose it is, not on the slice that it stands in."""
    network, p = make(case, blocks=depth(case))
    found = []
    for parts in ([batch(case)], batch(case).slices(9)):
        total, loss = tree_map(np.zeros_like, p), 0.0
        for part in parts:
            share = part.total / batch(case).total
            value, cache = network.loss(p, part, MaskKeys(generator(0, Stream.DROPOUT, 3), part.rows))
            loss += share * value
            add_to(total, network.loss_backward(p, share, cache))
        found.append({"loss": loss} | dict(leaves(total)))
    assert len(parts) > 3
    for name, mine in found[0].items():
        np.testing.assert_allclose(found[1][name], mine, rtol=0, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_long_histories_in_slices_add_up_with_dropout_of_weights(mechanism):
    """Slices of other lengths are other chunks and tiles, and the same masks: of the weights, where there are any."""
    data = uneven(users=6, items=90, longest=80)
    form = "sasrec" if "dropout" in MECHANISMS[mechanism].takes else "pre"
    options = {"mechanism": mechanism, "block_form": form, **OWN.get(mechanism, {})}
    network = SASRecNetwork(n_items=data.n_items, maxlen=80, dim=8, heads=2, dropout=0.4, **options)
    p = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]
    whole = Sampler(data, 80, data.n_users, 0, True).batch(0)
    found = []
    for parts in ([whole], whole.slices(30)):
        losses = [(part.total / whole.total) * float(network.loss(
            p, part, MaskKeys(generator(0, Stream.DROPOUT, 3), part.rows))[0]) for part in parts]  # fmt: skip
        found.append(sum(losses))
    assert len(parts) > 3
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


@pytest.mark.host
@pytest.mark.parametrize("mechanism", [name for name, cls in MECHANISMS.items() if cls.linear_memory])
def test_memory_of_a_step_grows_with_n_and_not_with_its_square(mechanism, monkeypatch):
    """Four times the tokens, at most 4.6 times the memory; of full attention 2.5 times, as most of it are tiles."""
    monkeypatch.setattr(tiles, "LONG", 512)
    peaks = []
    for n in (512, 2048):
        data = Interactions.from_sequences(np.random.default_rng(0).integers(1, 40 * n, (2, n + 1)))
        options = {"mechanism": mechanism, "dropout": 0.0, **OWN.get(mechanism, {})}
        network = SASRecNetwork(n_items=data.n_items, maxlen=n, dim=8, blocks=1, **options)
        p = flatten(network.init(generator(0, Stream.INIT)), np.float32)[1]
        whole = Sampler(data, n, 1, 0, True).batch(0)
        tracemalloc.start()
        _, cache = network.loss(p, whole)
        network.loss_backward(p, 1.0, cache)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < (2.5 if mechanism == "full" else 4.6) * peaks[0]


@pytest.mark.host  # a device has one worker
@pytest.mark.parametrize("case", [case for case in CASES if case.values[0] in ENTRIES or len(case.values[0]) == 1])
def test_any_number_of_workers_gives_the_same_bits(case, monkeypatch):
    network, _ = make(case)
    monkeypatch.setattr(learner, "SLICE_TOKENS", 9)  # several slices a step
    given, settings = sampler(case, 4), Settings(epochs=1)
    runs = [train(network, given, settings, workers=n, progress=False) for n in (1, 3)]
    for (_, mine), (_, theirs) in zip(*(leaves(p) for p, _ in runs), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def mixers():
    found = [MultiHead(2, MECHANISMS[name](**OWN.get(name, {}))) for name in MECHANISMS]
    found += [MultiHead(6, MECHANISMS[name](**OWN.get(name, {})), kv_heads=2) for name in MECHANISMS]
    found += [MultiHead(6, refined(Full(), kind(), 5), kv_heads=2) for kind in REFINEMENTS.values()]
    found += [MultiHead(3, kv_heads=1, bias=False, output=False), MultiHead(2, activated=True)]
    found += [MIXERS["mamba"](state=3, expand=1, kernel=2, exact_hold=True), MIXERS["lstm"](forget=False),
              MIXERS["latent"](heads=3, latent=4, position=POSITIONS["rope"](), bias=False),
              MIXERS["delta"](delta_heads=2, kernel=2, gated=False, beta_limit=2)]
    return found + [mixer() for name, mixer in MIXERS.items() if name != "attention"]


@pytest.mark.parametrize("mixer", mixers(), ids=str)
@pytest.mark.parametrize("form", BLOCK_FORMS)
def test_every_mixer_in_every_form(mixer, form, rng, device):
    """Gradients, and one row a sequence as `forward` has it; or a refusal that names both.

    Networks check the gradients of every mechanism in every form.
    """
    if BLOCK_FORMS[form].gives_memory and not mixer.takes_memory:
        with pytest.raises(ValueError, match=f"block form {form} .* mixer {mixer.name}"):
            Block(mixer=mixer, form=form)
        return
    block = Block(mixer=mixer, form=form)
    p = noisy(block.init(rng, 6), rng, 0.2)
    x, at = rng.standard_normal((3, 5, 6)), np.array([4, 0, 2])
    if device == "cpu" and mixer.name != "attention":  # elsewhere the numbers are the same ones
        entries = None if form == "pre" else 1  # of each array; a direction through all of them in every form
        assert gradcheck_layer(block.forward, block.backward, p, x, entries=entries, mask=Mask(causal=True))
    y, _ = block.forward(p, x, mask=Mask(causal=True))
    row, _ = block.forward(p, x, mask=Mask(causal=True), at=at)
    np.testing.assert_allclose(row[:, 0], y[np.arange(3), at], rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", [name for name, cls in MECHANISMS.items() if "lengths" in cls.takes])
def test_lengths_hide_padding_where_the_order_does_not(name, causal, rng):
    """Both ways of looking: rows of real tokens are those of the sequence alone, and padding gets no gradient."""
    mixer = MultiHead(2, MECHANISMS[name](**OWN.get(name, {})))
    block = Block(mixer=mixer)
    p, x, lengths = block.init(rng, 6), rng.standard_normal((3, 7, 6)), np.array([7, 1, 4])
    y, cache = block.forward(p, x, mask=Mask(causal, lengths=lengths))
    dy = rng.standard_normal(y.shape)
    for row, n in enumerate(lengths):
        dy[row, n:] = 0
        alone, _ = block.forward(p, x[row : row + 1, :n], mask=Mask(causal))
        np.testing.assert_allclose(y[row, :n], alone[0], rtol=0, atol=1e-12)
    dx, _ = block.backward(p, dy, cache)
    for row, n in enumerate(lengths):
        assert not dx[row, n:].any()
        weights = cache.attention.weights[row, :, :n]
        if MECHANISMS[name].sums_to_one:
            np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=0, atol=1e-12)
        assert not weights[..., n:].any()


def as_full(mechanism, mask, n):
    return mechanism.as_full(mask, 2, np.arange(n)[None, :, None], n)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", [n for n, c in MECHANISMS.items() if c is not Full and as_full(c(), Mask(), 1)])
def test_what_says_it_is_full_attention_under_a_mask_is_that(name, causal, rng):
    mechanism = MECHANISMS[name](**OWN.get(name, {}))
    p, x = MultiHead(2).init(rng, 6), rng.standard_normal((2, 70, 6))
    mask = Mask(causal, lengths=np.array([70, 33]))
    mine, cache = MultiHead(2, mechanism).forward(p, x, mask=mask)
    full, exact = MultiHead(2).forward(p, x, mask=as_full(mechanism, mask, 70))
    np.testing.assert_allclose(mine, full, rtol=0, atol=1e-12)
    np.testing.assert_allclose(cache.weights, exact.weights, rtol=0, atol=1e-13)


@pytest.mark.host
def test_pairs_that_make_no_sense_are_refused_by_both_names():
    for options, says in (
        ({"mechanism": "linear", "position": "distances"}, "position distances gives a bias, and mechanism linear"),
        ({"mechanism": "performer", "position": "t5"}, "position t5 gives a bias, and mechanism performer"),
        ({"mechanism": "performer", "features": 0}, "features is 0, expected 1 to 1"),
        ({"refine": "simp", "blocks": 0}, "refine is simp, which refines attention scores, and blocks 0 has none"),
        ({"mechanism": "linear", "block_form": "sasrec"}, "form sasrec drops attention weights, and mechanism linear"),
        ({"mechanism": "full", "window": 3}, "an option of mechanism window or longformer; mechanism is full"),
        ({"mechanism": "windo"}, "mechanism is 'windo', expected one of full, window, .*; did you mean window?"),
        ({"position": "lerned"}, "position is 'lerned', expected one of .*; did you mean learned?"),
        ({"heads": 2, "kv_heads": 3}, "kv_heads is 3, expected a divisor of heads, which is 2"),
        ({"heads": 2, "kv_heads": 4}, "kv_heads is 4, expected a divisor of heads, which is 2"),
        ({"kv_heads": 0}, "kv_heads is 0, expected at least 1"),
        ({"norm": "rsm"}, "norm is 'rsm', expected one of layer, rms; did you mean rms?"),
        ({"block_form": "hstu", "feed_forward": "gelu"}, "feed_forward is gelu: block form hstu has no feed-forward"),
        ({"block_form": "hstu", "feed_forward_width": 2}, "feed_forward_width is 2: block form hstu has no"),
        ({"mechanism": "pointwise", "block_form": "sasrec"}, "sasrec drops attention weights, and mechanism pointwise"),
        ({"mechanism": "pointwise", "refine": "simp"}, "refinement simp .* mechanism pointwise has none"),
        ({"mechanism": "performer", "position": "timed"}, "position timed gives a bias, and mechanism performer"),
        ({"position": "timed", "time_buckets": 0}, "time_buckets is 0, expected 1 to 1"),
        ({"mechanism": "pointwise", "position": "shaw"}, "shaw gives a relative_values, and mechanism pointwise"),
        ({"feed_forward": "swigly"}, "expected one of relu, gelu, gelu-tanh, elu, silu, swiglu; did you mean swiglu?"),
        ({"mechanism": "window", "window": 0}, "window is 0, expected 1 to 1"),
        ({"mechanism": "window", "window": 2.5}, "window is 2.5, expected a whole number"),
        ({"mechanism": "longformer", "global_tokens": 7, "maxlen": 6}, "global_tokens is 7, .* at most maxlen, .* 6"),
        ({"mechanism": "longformer", "global_tokens": -1}, "global_tokens is -1, expected at least 0"),
        ({"mechanism": "longformer", "position": "t5"}, "t5 gives a bias, and mechanism longformer takes none"),
        ({"mechanism": "bigbird", "block_size": 0}, "block_size is 0, expected at least 1"),
        ({"mechanism": "bigbird", "window": 3}, "window is 3, .* mechanism window or longformer; mechanism is bigbird"),
        ({"mechanism": "strided", "stride": 0}, "stride is 0, expected at least 1"),
        ({"mixer": "gruu"}, "mixer is 'gruu', expected one of attention, rnn, .*; did you mean gru?"),
        ({"mixer": "gru", "state": 8}, "state is 8, an option of mixer mamba; mixer is gru"),
        ({"state": 8}, "state is 8, an option of mixer mamba; mixer is attention"),
        ({"mixer": "mamba", "state": 0}, "state is 0, expected 1 to 1"),
        ({"mixer": "latent", "dim": 8, "latent": 9}, "latent is 9, expected at most dim, which is 8: all heads"),
        ({"mixer": "latent", "position": "rope", "turned": 3}, "turns features in pairs: heads of width 3"),
        ({"mixer": "latent", "position": "t5"}, "mixer latent takes positions at tokens and rope, and position is t5"),
        ({"mixer": "latent", "mechanism": "window"}, "mechanism is window, an option of mixer attention"),
        ({"mixer": "latent", "heads": 2, "kv_heads": 1}, "kv_heads is 1, an option of mixer attention"),
        ({"mixer": "latent", "heads": 3, "dim": 8}, "dim 8 is not divisible by heads 3"),
        ({"mixer": "delta", "delta_heads": 3}, "is not divisible by delta_heads 3"),
        ({"mixer": "delta", "beta_limit": 2.5}, "beta_limit is 2.5, expected above 0 and at most 2"),
        ({"mixer": "gru", "window": 8}, "window is 8, an option of mechanism window or longformer; mechanism is full"),
        ({"mixer": "gru", "block_form": "sasrec"}, "block form sasrec needs keys, and mixer gru has none"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            SASRecNetwork(n_items=5, **options)
    own = {"heads": 2, "kv_heads": 1, "mechanism": "window", "refine": "simp", "qkv_bias": False,
           "output_projection": True}  # fmt: skip
    for (name, value), mixer in zip(own.items(), itertools.cycle(["rnn", "lstm", "mamba"]), strict=False):
        with pytest.raises(ValueError, match=f"{name} is {value}, an option of mixer attention; mixer is {mixer}"):
            SASRecNetwork(n_items=5, mixer=mixer, **{name: value})
    for position in (name for name, scheme in POSITIONS.items() if scheme.at_heads):
        with pytest.raises(ValueError, match=f"position {position} acts at the heads of attention, and mixer gru has"):
            SASRecNetwork(n_items=5, mixer="gru", position=position)
    assert SASRecNetwork(n_items=5, mechanism="linear", block_form="sasrec", dropout=0.0)
    x = np.ones((1, 3, 4))
    for name, mask, says in (
        ("linear", np.ones((3, 3), dtype=bool), "mechanism linear does not take an array as its mask"),
        ("window", Mask(window=2), "mechanism window does not take a mask with a window"),
    ):
        mixer = MultiHead(1, MECHANISMS[name]())
        with pytest.raises(ValueError, match=says):
            mixer.forward(mixer.init(np.random.default_rng(0), 4), x, mask=mask)
    with pytest.raises(ValueError, match="mixer gru has no queries"):
        MIXERS["gru"]().forward({}, x, x, mask=Mask(causal=True))
    with pytest.raises(ValueError, match=r"rate is 0\.1, expected 0: mixer gru has no weights to drop"):
        MIXERS["gru"]().forward({}, x, mask=Mask(causal=True), rate=0.1)
    with pytest.raises(ValueError, match="the only mask that it takes is causal"):
        MIXERS["gru"]().forward({}, x)
    for name in MIXERS.keys() - {"attention"}:
        with pytest.raises(ValueError, match="tokens of width 0, expected a width of at least 1"):
            MIXERS[name]().init(np.random.default_rng(0), 0)


@pytest.mark.host
def test_only_the_chosen_parts_options_are_set():
    assert SASRecNetwork(n_items=5).window is None
    assert SASRecNetwork(n_items=5, mechanism="window").window == 16  # the part's own default: it goes to config.json
