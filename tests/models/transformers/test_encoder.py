"""The encoder end to end: gradients, who sees what, parameter counts, the first loss, no leak; what it fills in."""

import math

import numpy as np
import pytest

from tests.covering import covering
from tests.devices import On
from tests.helpers import noisy
from tinyattn.check import gradcheck_model
from tinyattn.data import Grammar, GrammarChain, MaskedTextSampler, Masking, TextBatch
from tinyattn.layers import BLOCK_FORMS, FEED_FORWARDS, NORMS, POSITIONS
from tinyattn.models import Encoder, EncoderNetwork
from tinyattn.random import Stream, generator
from tinyattn.training import Moments, adam
from tinyattn.tree import add_to, flatten, leaves, views

SIZES = {"n_tokens": 7, "context": 6, "dim": 8, "heads": 4, "feed_forward_width": 2}
FORMS = ("post", "pre")
PARTS = [(form, position, norm, ffn) for form in BLOCK_FORMS for position in POSITIONS for norm in NORMS
         for ffn in (FEED_FORWARDS if BLOCK_FORMS[form].feeds_forward else ["gelu"])]  # fmt: skip


def make(dtype=np.float64, device="cpu", **options):
    options = SIZES | {"layers": 2} | options
    if options.get("block_form") == "hstu":  # it has no feed-forward network
        del options["feed_forward_width"]
    network = EncoderNetwork(**options)
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(5)
    p = noisy(p, rng, 0.2)
    return On(device).methods(network) if device != "cpu" else network, flatten(p, dtype)[1]


def batch_of(n=5):
    """Of 7 tokens, some of them [MASK], which is 7, and some asked for."""
    rng = np.random.default_rng(1)
    weight = (rng.random((3, n)) < 0.5).astype(np.float32)
    return TextBatch(rng.integers(0, 8, (3, n)), rng.integers(0, 7, (3, n)), weight, np.arange(3))


def check(device, **options):
    network, p = make(device=device, dropout=0.3, **options)
    report = gradcheck_model(network, p, batch_of(), key=3, entries=2)
    assert report, f"\n{report}"


@pytest.mark.parametrize("form", FORMS)
def test_gradients_with_dropout(form, device):
    check(device, block_form=form)


@pytest.mark.parametrize("parts", covering(PARTS, 1), ids="-".join)
def test_gradients_of_any_parts_with_dropout(parts):
    check("cpu", layers=1, **dict(zip(("block_form", "position", "norm", "feed_forward"), parts, strict=True)))


@pytest.mark.parametrize("form", FORMS)
def test_every_token_looks_at_all_others(form):
    network, p = make(block_form=form)
    ids = batch_of().ids
    scores, _ = network.forward(p, ids)
    for at in range(5):
        other = ids.copy()
        other[:, at] = (other[:, at] + 1) % 8
        assert np.abs(network.forward(p, other)[0] - scores).max(axis=-1).min() > 1e-6


def test_what_is_not_asked_for_changes_nothing():
    """Another target of weight 0: the same loss and the same gradients, bit by bit; of weight 1: others."""
    network, p = make()
    batch = batch_of()
    loss, cache = network.loss(p, batch)
    grads = flatten(network.loss_backward(p, 1.0, cache))[0]
    for weight in (0, 1):
        targets = np.where(batch.weight == weight, (batch.targets + 1) % 7, batch.targets)
        other, changed = network.loss(p, batch._replace(targets=targets))
        assert (other == loss) == (weight == 0)
        assert np.array_equal(flatten(network.loss_backward(p, 1.0, changed))[0], grads) == (weight == 0)


@pytest.mark.parametrize("form", FORMS)
def test_parameters_are_as_many_as_the_formula_says(form):
    """(V + 1) D + n D + 2 D + V, 12 D² + 13 D a block (with F = 4 D), and 2 D for a last norm."""
    D, V, n, N = 8, 7, 6, 3
    _, p = make(block_form=form, layers=N, feed_forward_width=4)
    wanted = (V + 1) * D + n * D + 2 * D + V + N * (12 * D * D + 13 * D) + (2 * D if form == "pre" else 0)
    assert sum(leaf.size for _, leaf in leaves(p)) == wanted


def test_bert_base_has_85_054_464_parameters_in_its_blocks():
    """Devlin et al. say 110 million: 109,482,240, with embeddings 23,837,184, and the pooler 590,592."""
    network = EncoderNetwork(n_tokens=7, dim=768, heads=12, layers=12)
    block = sum(leaf.size for _, leaf in leaves(network.block.init(generator(0, Stream.INIT), 768)))
    embeddings = (30522 + 512 + 2 + 2) * 768                     # of words, places and sentences, and their norm
    assert 12 * block == 85_054_464
    assert embeddings + 12 * block + 768 * 769 == 109_482_240


@pytest.mark.parametrize("form", FORMS)
def test_the_first_loss_is_the_logarithm_of_the_number_of_tokens(form):
    """Where all that is asked for is hidden: a token that is seen has a high score at once, as tables are tied."""
    network = EncoderNetwork(n_tokens=50, context=12, block_form=form)
    ids = np.random.default_rng(0).integers(0, 50, 1000)
    batch = MaskedTextSampler(ids, 12, 32, 0, n_tokens=50, masking=Masking(hidden=1.0, swapped=0.0)).batch(0)
    assert network.loss(network.init(generator(0, Stream.INIT)), batch)[0] == pytest.approx(math.log(50), abs=0.05)


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_of_one_is_learned_by_heart(form):
    network = EncoderNetwork(n_tokens=7, context=12, dim=16, heads=2, layers=1, block_form=form)
    vector, p = flatten(network.init(generator(0, Stream.INIT)), np.float32)
    moments, gradient = Moments(np.zeros_like(vector), np.zeros_like(vector)), np.zeros_like(vector)
    ids = np.random.default_rng(0).integers(0, 7, 12)
    batch = MaskedTextSampler(ids, 12, 1, 0, n_tokens=7, masking=Masking(chosen=0.5)).batch(0)
    assert batch.total >= 4
    for step in range(1, 81):
        loss, cache = network.loss(p, batch)
        gradient[:] = 0
        add_to(views(gradient, p), network.loss_backward(p, 1.0, cache))
        adam(vector, gradient, moments, step, lr=0.01)
    assert loss < 0.01


CHANCES = np.array([0.4, 0.3, 0.2, 0.1])
LEARNING = {"context": 8, "dim": 8, "heads": 2, "layers": 1, "workers": 1, "epochs": 6, "patience": 0,
            "schedule": "constant", "warmup": 0}  # fmt: skip


def drawn(n, seed):
    """Tokens drawn independently: what stands beside one says nothing of it."""
    return "".join(np.random.default_rng(seed).choice(list("abcd"), n, p=CHANCES))


def least_loss(masking):
    """What is left where a token is known by nothing but by what is read in its place, in nats."""
    joint = CHANCES * masking.seen_where_chosen(np.arange(5), 4)         # (5, 4): P(what is read, and the token)
    given = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return -np.sum(joint * np.log(np.maximum(given, 1e-300)))


@pytest.mark.parametrize("shares", [{"hidden": 1.0, "swapped": 0.0}, {}], ids=["all hidden", "80/10/10"])
def test_nothing_leaks_independent_tokens_are_not_guessed_better_than_their_entropy(shares):
    model = Encoder(**LEARNING, chosen=0.3, **shares).fit(drawn(6000, 0), progress=False)
    unseen = drawn(20000, 1)
    batch = model.evaluation_batch(unseen)
    least = least_loss(model.masking)
    if shares:
        assert least == pytest.approx(-np.sum(CHANCES * np.log(CHANCES)))
    noise = 3 * 0.6 / math.sqrt(batch.total)                     # the deviation of a token's loss is about 0.6
    assert least - noise < model.evaluate(unseen)["loss"] < least + noise + 0.01


def test_a_leak_is_seen_as_a_loss_below_the_entropy():
    """Tokens that are asked for, and not hidden: what a model that looks both ways learns of its own target."""
    model = Encoder(**LEARNING, chosen=0.3, hidden=0.0, swapped=0.0).fit(drawn(6000, 0), progress=False)
    assert model.evaluate(drawn(2000, 1))["loss"] < 0.1 < least_loss(Masking(hidden=1.0, swapped=0.0))


@pytest.fixture(scope="module")
def learned():
    """A text without a choice in it, by heart."""
    options = {"context": 12, "dim": 16, "heads": 4, "layers": 1, "workers": 1, "epochs": 90, "patience": 0,
               "batch_size": 4, "lr": 0.005, "schedule": "constant", "warmup": 0}  # fmt: skip
    return Encoder(**options).fit("abcdef" * 70, progress=False)


@pytest.mark.slow(seconds=1)
def test_blanks_are_filled_from_both_sides(learned):
    ((text, p), *_) = learned.fill("cde_abc", 1)
    assert (text, p > 0.9) == ("cdefabc", True)
    assert learned.fill("ab__ef", 1)[0][0] == "abcdef"
    assert learned.fill("ab?def", 1, blank="?")[0][0] == "abcdef"
    assert learned.fill("abcdefabcde_", 1)[0][0] == "abcdef" * 2       # as many as the context


def test_all_ways_to_fill_blanks_have_probability_1_together(learned):
    found = learned.fill("ab_de_a", 1000)
    assert len({text for text, _ in found}) == 36
    assert sum(p for _, p in found) == pytest.approx(1, abs=1e-5)
    assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
    assert learned.fill("ab_de_a", 3) == found[:3]


def test_states_are_those_of_windows_side_by_side(learned):
    text = "abcdef" * 4
    states = learned.states(text)
    assert [layer.shape for layer in states] == [(24, 16)] * 2
    for i in (0, 12):
        _, cache = learned.network.forward(learned.parameters, learned.tokens.encode(text)[None, i : i + 12])
        for layer, found in zip(states, cache.states, strict=True):
            np.testing.assert_allclose(layer[i : i + 12], found[0], atol=1e-5)
    assert len(learned.states("abc")[0]) == 3


def test_what_cannot_be_filled_or_made_is_refused_and_named(learned):
    for how, says in (
        ({"text": "abc"}, "the text has no blank: expected '_' for each character that is missing"),
        ({"text": "ab_?", "blank": "?"}, "character '_' of the text is unknown: the known ones are 'abcdef'"),
        ({"text": "abx_"}, "character 'x' of the text is unknown"),
        ({"text": ""}, "the text is empty: expected at least one character"),
        ({"text": ["a_"]}, r"the text is \['a_'\], expected a string"),
        ({"text": "abcdefa_bcdef"}, "the text has 13 tokens, expected 12 at most: that is the context"),
        ({"text": "a_", "k": 0}, "k is 0, expected 1 to 1000"),
        ({"text": "a_", "k": 1001}, "k is 1001, expected 1 to 1000"),
        ({"text": "a_", "blank": ""}, "blank is '', expected one character"),
        ({"text": "a__", "blank": "__"}, "blank is '__', expected one character"),
    ):
        with pytest.raises(ValueError, match=says):
            learned.fill(**how)
    with pytest.raises(ValueError, match="the text is empty"):
        Encoder().fit("", progress=False)
    with pytest.raises(ValueError, match="dim 10 is not divisible by heads 4"):
        Encoder(dim=10)
    with pytest.raises(ValueError, match="dim is 10000000, expected 1 to 100000"):
        Encoder(dim=10**7)
    with pytest.raises(ValueError, match=r"hidden 0.8 and swapped 0.3 are more than 1 together"):
        Encoder(swapped=0.3)
    with pytest.raises(ValueError, match="chosen is 0, expected above 0 and at most 1"):
        Encoder(chosen=0)
    for call in (lambda: Encoder().fill("a_"), lambda: Encoder().states("a"), lambda: Encoder().evaluation_batch("a")):
        with pytest.raises(ValueError, match="not learned anything yet"):
            call()


def test_positions_may_be_most_of_a_saved_model(tmp_path):
    """`init` draws their table twice, which a file's size must have room for."""
    few = {"context": 200, "dim": 8, "heads": 1, "layers": 1, "epochs": 1, "patience": 0, "workers": 1}
    model = Encoder(**few).fit("ab" * 500, progress=False)
    model.save(tmp_path / "m.npz")
    assert Encoder.load(tmp_path / "m.npz").fill("a_", 1) == model.fill("a_", 1)


@pytest.mark.slow(seconds=70)
def test_its_loss_comes_near_what_the_grammar_itself_says():
    """In 8 of the 40 epochs of `tinyattn train --model encoder`, with its other options: all 40 end at .03 from it."""
    parts = Grammar().generate().split()
    model = Encoder(epochs=8).fit(parts, progress=False)
    least = GrammarChain.of_rules().loss(model.evaluation_batch(parts.test), model.tokens.strings, model.masking)
    assert least - 0.002 < model.evaluate(parts.test)["loss"] < least + 0.35


@pytest.mark.parametrize("form", FORMS)
def test_with_the_same_weights_scores_and_all_gradients_are_those_of_torch(form):
    """nn.TransformerEncoder with the exact GELU, our embeddings before it and behind it, in float64."""
    torch = pytest.importorskip("torch")
    network, p = make(block_form=form)
    layer = torch.nn.TransformerEncoderLayer(8, 4, 16, 0.0, "gelu", batch_first=True, norm_first=form == "pre")
    last = torch.nn.LayerNorm(8) if form == "pre" else None
    theirs = torch.nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=False).double()
    theirs.load_state_dict({name: torch.tensor(array) for name, array in torch_names(p).items()})
    outside = {"tokens": p["tokens"], "positions": p["positions"], "bias": p["bias"],
               "gamma": p["norm"]["gamma"], "beta": p["norm"]["beta"]}  # fmt: skip
    t = {name: torch.tensor(array, requires_grad=True) for name, array in outside.items()}

    batch = batch_of(6)
    x = torch.nn.functional.layer_norm(t["tokens"][batch.ids] + t["positions"], (8,), t["gamma"], t["beta"], 1e-5)
    scores = theirs(x) @ t["tokens"][:-1].T + t["bias"]
    asked = torch.tensor(batch.weight > 0)
    loss = torch.nn.functional.cross_entropy(scores[asked], torch.tensor(batch.targets)[asked])
    loss.backward()

    mine, cache = network.loss(p, batch)
    close = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(network.scores_and_targets(p, batch)[0], scores.detach().numpy(), **close)
    assert float(mine) == pytest.approx(loss.item(), abs=1e-12)
    grads = network.loss_backward(p, 1.0, cache)
    for name, found in torch_names(grads).items():
        np.testing.assert_allclose(found, theirs.get_parameter(name).grad.numpy(), **close, err_msg=name)
    for name, tensor in t.items():
        found = grads["norm"][name] if name in grads["norm"] else grads[name]
        np.testing.assert_allclose(found, tensor.grad.numpy(), **close, err_msg=name)


def torch_names(p):
    """Our tree of blocks under the names of nn.TransformerEncoder, which holds the transpose of every W."""
    norms = {"norm": p["last_norm"]} if "last_norm" in p else {}
    maps, found = {}, {}
    for i, block in enumerate(p["blocks"]):
        at, attention = f"layers.{i}", block["attention"]
        norms |= {f"{at}.norm1": block["norm_1"], f"{at}.norm2": block["norm_2"]}
        maps |= {f"{at}.self_attn.out_proj": attention["output"]}
        maps |= {f"{at}.linear1": block["feed_forward"]["inner"], f"{at}.linear2": block["feed_forward"]["outer"]}
        qkv = [attention[name] for name in ("query", "key", "value")]
        found[f"{at}.self_attn.in_proj_weight"] = np.concatenate([part["W"].T for part in qkv])
        found[f"{at}.self_attn.in_proj_bias"] = np.concatenate([part["b"] for part in qkv])
    for name, norm in norms.items():
        found |= {f"{name}.weight": norm["gamma"], f"{name}.bias": norm["beta"]}
    for name, part in maps.items():
        found |= {f"{name}.weight": part["W"].T, f"{name}.bias": part["b"]}
    return found
