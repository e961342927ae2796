"""The decoder end to end: gradients, who sees what, parameter counts, the first loss; what it writes."""

import math

import numpy as np
import pytest

from tests.covering import covering
from tests.devices import On
from tests.helpers import noisy
from tinyattn.check import gradcheck_model
from tinyattn.data import Grammar, TextBatch, TextSampler
from tinyattn.layers import BLOCK_FORMS, FEED_FORWARDS, MIXERS, NORMS, POSITIONS
from tinyattn.models import PRESETS, Decoder, DecoderNetwork
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, leaves

SIZES = {"n_tokens": 7, "context": 6, "dim": 8, "heads": 4, "feed_forward_width": 2}
FORMS = {"gpt": {"dropout": 0.3}, "llama": PRESETS["llama"].options | {"dropout": 0.3, "feed_forward_width": 2}}
PARTS = [(mixer, form, position, norm, ffn, tied)
         for mixer in MIXERS for form in BLOCK_FORMS for position in POSITIONS for norm in NORMS
         for ffn in (FEED_FORWARDS if BLOCK_FORMS[form].feeds_forward else ["gelu-tanh"]) for tied in (True, False)
         if mixer == "attention" or not POSITIONS[position].at_heads
         if MIXERS[mixer].takes_memory or not BLOCK_FORMS[form].gives_memory]  # fmt: skip


def make(dtype=np.float64, device="cpu", **options):
    options = SIZES | {"layers": 2} | options
    if options.get("block_form") == "hstu":  # it has no feed-forward network
        del options["feed_forward_width"]
    network = DecoderNetwork(**options)
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(5)
    p = noisy(p, rng, 0.2)
    return On(device).methods(network) if device != "cpu" else network, flatten(p, dtype)[1]


def batch_of(n=5):
    rng = np.random.default_rng(1)
    weight = (rng.random((3, n)) < 0.8).astype(np.float32)
    return TextBatch(*(rng.integers(0, 7, (3, n)) for _ in range(2)), weight, np.arange(3))


def check(device, **options):
    network, p = make(device=device, **options)
    report = gradcheck_model(network, p, batch_of(), key=3, entries=2)
    assert report, f"\n{report}"


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_the_two_forms_with_dropout(form, device):
    check(device, **FORMS[form])


@pytest.mark.parametrize("parts", covering(PARTS, 1), ids=lambda parts: "-".join(map(str, parts)))
def test_gradients_of_any_parts_with_dropout(parts):
    names = ("mixer", "block_form", "position", "norm", "feed_forward", "tied")
    check("cpu", dropout=0.3, layers=1, **dict(zip(names, parts, strict=True)))


@pytest.mark.parametrize("form", FORMS)
def test_what_comes_later_changes_no_bit_and_no_gradient_goes_there(form):
    network, p = make(**FORMS[form] | {"dropout": 0.0})
    ids = batch_of().ids
    scores, _ = network.forward(p, ids)
    for at in range(1, 5):
        other = ids.copy()
        other[:, at:] = (other[:, at:] + 1) % 7
        changed, _ = network.forward(p, other)
        np.testing.assert_array_equal(changed[:, :at], scores[:, :at])
        assert np.all(np.abs(changed[:, at] - scores[:, at]).max(axis=-1) > 1e-6)
    alone = np.arange(5)[None]  # no token twice, so that its row of the table says where gradients went
    _, cache = network.forward(p, alone)
    for i in range(5):
        dscores = np.zeros((1, 5, 7))
        dscores[0, i] = np.linspace(1, 2, 7) ** 2
        read = network.backward(p, dscores, cache)["tokens"].copy()
        if network.tied:
            read -= dscores[0, i][:, None] * cache.h[0, i]
        assert np.abs(read[: i + 1]).max(axis=1).min() > 1e-9
        np.testing.assert_allclose(read[i + 1 :], 0, atol=1e-15)


@pytest.mark.parametrize("form", FORMS)
def test_parameters_are_as_many_as_the_formula_says(form):
    """GPT: V D + n D, 12 D² + 13 D a block (with F = 4 D), 2 D; LLaMA: 2 V D, 2 D² + 2 D G + 3 D F + 2 D, D."""
    D, F, V, n, N, G = 8, 16, 7, 6, 3, 4
    wanted = {"gpt": V * D + n * D + N * (4 * D * D + 4 * D + 2 * D * F + F + D + 4 * D) + 2 * D,
              "llama": 2 * V * D + N * (2 * D * D + 2 * D * G + 3 * D * F + 2 * D) + D}  # fmt: skip
    _, p = make(**FORMS[form] | {"layers": N})
    assert sum(leaf.size for _, leaf in leaves(p)) == wanted[form]


def test_with_gpt_2s_tables_twelve_blocks_have_124_439_808_parameters():
    """Radford et al. say 117 million; this is what the released model has. Tables are counted by their sizes."""
    D, V, n, N = 768, 50257, 1024, 12
    network = DecoderNetwork(n_tokens=7, context=n, dim=D, heads=12, layers=N)
    block = sum(leaf.size for _, leaf in leaves(network.block.init(generator(0, Stream.INIT), D)))
    assert block == 12 * D * D + 13 * D
    assert V * D + n * D + N * block + 2 * D == 124_439_808


@pytest.mark.parametrize("form", FORMS)
def test_the_first_loss_is_the_logarithm_of_the_number_of_tokens(form):
    network = DecoderNetwork(n_tokens=50, context=12, **FORMS[form])
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(0)
    batch = TextSampler(rng.integers(0, 50, 500), 12, 32, 0).batch(0)
    assert network.loss(p, batch)[0] == pytest.approx(math.log(50), abs=0.03)


@pytest.fixture(scope="module")
def learned():
    """A text without a choice in it, by heart."""
    text = "abcdefghij" * 8
    options = {"context": 16, "dim": 16, "heads": 2, "layers": 1, "workers": 1, "epochs": 80, "patience": 0, "lr": 0.01}
    return Decoder(**options).fit(text, progress=False)


def test_a_text_is_learned_by_heart(learned):
    assert learned.evaluate("defghijabcdefghij")["per_character"] < 0.1
    assert learned.generate("fg", 40, top_k=1) == "hijabcdefg" * 4     # more than the context: it is read anew
    assert learned.generate("j", 3, temperature=0.05) == "abc"


def test_what_is_written_is_a_function_of_the_seed(learned):
    one, two = (learned.generate("a", 40, seed, temperature=8.0) for seed in (1, 2))
    assert one == learned.generate("a", 40, 1, temperature=8.0) != two
    assert len(one) == 40


def test_saved_and_loaded_it_writes_the_same_with_merges_too(tmp_path):
    text = "the cat sat. the cat ran. " * 6
    model = Decoder(context=8, dim=8, heads=2, layers=1, workers=1, epochs=2, merges=5).fit(text, progress=False)
    assert model.network.n_tokens == len(set(text)) + 5
    model.save(tmp_path / "m.npz")
    loaded = Decoder.load(tmp_path / "m.npz")
    assert loaded.generate("the c", 20) == model.generate("the c", 20)
    assert loaded.evaluate(text) == model.evaluate(text)


def test_what_it_cannot_read_or_draw_is_refused_and_named(learned):
    for how, says in (
        ({"prompt": "abc" * 6}, "the prompt has 18 tokens, expected 16 at most: that is the context"),
        ({"prompt": "abx"}, "character 'x' of the text is unknown: the known ones are 'abcdefghij'"),
        ({"prompt": ""}, "the text is empty: expected at least one character"),
        ({"prompt": ["a"]}, r"the text is \['a'\], expected a string"),
        ({"prompt": "a", "length": 0}, "length is 0, expected 1 to 1000000"),
        ({"prompt": "a", "length": 10**30}, f"length is {10**30}, expected 1 to 1000000"),
        ({"prompt": "a", "temperature": 0}, "temperature is 0, expected a positive, finite number"),
        ({"prompt": "a", "temperature": -1.0}, "temperature is -1.0, expected a positive"),
        ({"prompt": "a", "top_p": 0.0}, "top_p is 0.0, expected above 0 and at most 1"),
        ({"prompt": "a", "top_p": 1.1}, "top_p is 1.1, expected above 0 and at most 1"),
        ({"prompt": "a", "top_k": 0}, "top_k is 0, expected at least 1"),
        ({"prompt": "a", "top_k": 10**30}, f"top_k is {10**30}, expected a number of 64 bits"),
    ):
        with pytest.raises(ValueError, match=says):
            learned.generate(**how)
    with pytest.raises(ValueError, match="the text is empty"):
        Decoder().fit("", progress=False)
    with pytest.raises(ValueError, match="the text has 1 token, expected at least 2"):
        Decoder().fit("a", progress=False)
    with pytest.raises(ValueError, match="dim 10 is not divisible by heads 4"):
        Decoder(dim=10)
    with pytest.raises(ValueError, match="dim is 10000000, expected 1 to 100000"):
        Decoder(dim=10**7)
    with pytest.raises(ValueError, match="not learned anything yet"):
        Decoder().generate("a")


@pytest.mark.slow(seconds=30)
def test_its_loss_comes_within_two_hundredths_of_the_entropy():
    """With the default options, half a minute on one core of today: as `tinyattn train --model decoder` does it."""
    grammar = Grammar()
    model = Decoder(epochs=5).fit(grammar.generate().split(), progress=False)
    assert -max(row["valid"] for row in model.history) < grammar.entropy + 0.02


def torchs_gpt(torch, p, ids, heads, eps):
    """GPT-2 in a few lines of torch, each weight by the name of the released files. -> scores, parameters."""
    t = {name: torch.tensor(array, requires_grad=True) for name, array in gpt_2_names(p).items()}
    F, D, n = torch.nn.functional, t["wte.weight"].shape[1], ids.shape[1]

    def norm(x, name):
        return F.layer_norm(x, (D,), t[f"{name}.weight"], t[f"{name}.bias"], eps)

    def conv1d(x, name):
        return x @ t[f"{name}.weight"] + t[f"{name}.bias"]

    x = t["wte.weight"][ids] + t["wpe.weight"][:n]
    for i in range(len(p["blocks"])):
        qkv = conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").split(D, dim=-1)
        q, k, v = (part.unflatten(-1, (heads, D // heads)).transpose(1, 2) for part in qkv)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + conv1d(out, f"h.{i}.attn.c_proj")
        hidden = F.gelu(conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc"), approximate="tanh")
        x = x + conv1d(hidden, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ t["wte.weight"].T, t


def gpt_2_names(p):
    """Our tree, with queries, keys and values side by side, under GPT-2's names."""
    found = {"wte.weight": p["tokens"], "wpe.weight": p["positions"]}
    norms = {"ln_f": p["norm"]}
    maps = {}
    for i, block in enumerate(p["blocks"]):
        attention, ffn = block["attention"], block["feed_forward"]
        norms |= {f"h.{i}.ln_1": block["norm_1"], f"h.{i}.ln_2": block["norm_2"]}
        qkv = [attention[name] for name in ("query", "key", "value")]
        maps[f"h.{i}.attn.c_attn"] = {x: np.concatenate([part[x] for part in qkv], axis=-1) for x in ("W", "b")}
        maps[f"h.{i}.attn.c_proj"] = attention["output"]
        maps |= {f"h.{i}.mlp.c_fc": ffn["inner"], f"h.{i}.mlp.c_proj": ffn["outer"]}
    for name, norm in norms.items():
        found |= {f"{name}.weight": norm["gamma"], f"{name}.bias": norm["beta"]}
    for name, part in maps.items():
        found |= {f"{name}.weight": part["W"], f"{name}.bias": part["b"]}
    return found


def test_with_the_same_weights_scores_and_all_gradients_are_those_of_a_gpt_2_in_torch():
    torch = pytest.importorskip("torch")
    network, p = make(dropout=0.0)
    batch = batch_of(6)
    scores, t = torchs_gpt(torch, p, batch.ids, 4, network.eps)
    each = torch.nn.functional.cross_entropy(scores.transpose(1, 2), torch.tensor(batch.targets), reduction="none")
    weight = torch.tensor(batch.weight, dtype=torch.float64)
    loss = (each * weight).sum() / weight.sum()
    loss.backward()
    mine, cache = network.loss(p, batch)
    close = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(network.scores_and_targets(p, batch)[0], scores.detach().numpy(), **close)
    assert float(mine) == pytest.approx(loss.item(), abs=1e-12)
    for name, found in gpt_2_names(network.loss_backward(p, 1.0, cache)).items():
        np.testing.assert_allclose(found, t[name].grad.numpy(), **close, err_msg=name)


@pytest.mark.parametrize(("mixer", "options"), [("lstm", {"forget": False}), ("mamba", {"state": 3, "kernel": 2})])
def test_a_mixers_own_options_are_the_decoders(mixer, options):
    model = Decoder(mixer=mixer, **options, layers=1, dim=8, context=6, epochs=1, workers=1)
    model.fit("abcabd " * 60, progress=False)
    (name, value), *_ = options.items()
    assert getattr(model.network.block.mixer, name) == value
    assert len(model.generate("abc", 9)) == 9                  # beyond the context, from a state
    with pytest.raises(ValueError, match=f"{name} is {value}, an option of mixer {mixer}; mixer is attention"):
        Decoder(**{name: value})


def test_what_only_attention_has_is_refused_of_another_mixer():
    for options, says in (
        ({"heads": 2}, "heads is 2, an option of mixer attention; mixer is gru"),
        ({"kv_heads": 2}, "kv_heads is 2, an option of mixer attention; mixer is gru"),
        ({"mechanism": "window"}, "mechanism is window, an option of mixer attention; mixer is gru"),
        ({"bias": False}, "bias is False, an option of mixer attention; mixer is gru"),
        ({"position": "rope"}, "position rope acts at the heads of attention, and mixer gru has none"),
    ):
        with pytest.raises(ValueError, match=says):
            Decoder(mixer="gru", **options)
    assert Decoder(mixer="gru", dim=10)                          # which no 4 heads divide
