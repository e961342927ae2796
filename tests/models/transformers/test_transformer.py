"""The Transformer end to end: gradients, who sees what, parameter counts, the first loss, and torch's as an oracle."""

import math

import numpy as np
import pytest

from tests.covering import covering
from tests.devices import On
from tests.helpers import noisy
from tinyattn.check import gradcheck_model
from tinyattn.data import Pairs, characters, numbers_of, pair_batch
from tinyattn.layers import DECODER_FORMS, FEED_FORWARDS, NORMS, POSITIONS
from tinyattn.models import Transformer, TransformerNetwork
from tinyattn.models.transformers.transformer import EMBEDDINGS
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, leaves

SIZES = {"n_sources": 5, "n_targets": 5, "maxlen": 8, "dim": 8, "heads": 2, "feed_forward_width": 2}
PARTS = [(form, position, norm, ffn, embeddings)
         for form in DECODER_FORMS for position in POSITIONS for norm in NORMS for ffn in FEED_FORWARDS
         for embeddings in EMBEDDINGS]  # fmt: skip
EVERY = covering(PARTS, 1)
CASES = [pytest.param(case, id="-".join(case), marks=[pytest.mark.slow] * (case not in EVERY)
                      + [pytest.mark.slow_elsewhere] * (case != EVERY[1]))
         for case in dict.fromkeys([*EVERY, *covering(PARTS, 2)])]  # fmt: skip


def make(dropout=0.3, dtype=np.float64, device="cpu", **options):
    options = SIZES | {"dropout": dropout, "layers": 2} | options
    network = TransformerNetwork(**options)
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(5)
    p = noisy(p, rng, 0.2)
    if device != "cpu":
        network = On(device).methods(network)
    return network, flatten(p, dtype)[1]


def batch_of(lengths=((4, 3), (2, 5), (6, 1)), seed=1):
    rng = np.random.default_rng(seed)
    return pair_batch(*([rng.integers(1, 6, n) for n in side] for side in zip(*lengths, strict=True)),
                      np.arange(len(lengths)))  # fmt: skip


@pytest.mark.parametrize("parts", CASES)
def test_gradients_of_the_whole_model_with_dropout(parts, device):
    """An entry of each parameter on its own, and one direction in which all of them move."""
    names = ("block_form", "position", "norm", "feed_forward", "embeddings")
    network, p = make(device=device, layers=2 if parts == EVERY[0] else 1, **dict(zip(names, parts, strict=True)))
    report = gradcheck_model(network, p, batch_of(), key=3, entries=1)
    assert report, f"\n{report}"


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("form", DECODER_FORMS)
def test_what_is_written_later_changes_no_bit_of_what_is_written_now(form, position):
    network, p = make(0.0, block_form=form, position=position)
    batch = batch_of([(4, 5)] * 2)
    scores, _ = network.forward(p, batch)
    for at in range(1, 6):
        other = batch.written.copy()
        other[:, at:] = 1 + other[:, at:] % 5
        changed, _ = network.forward(p, batch._replace(written=other))
        np.testing.assert_array_equal(changed[:, :at], scores[:, :at])
        assert np.all(np.abs(changed[:, at] - scores[:, at]).max(axis=-1) > 1e-6)


def test_the_jacobian_is_causal_on_this_side_and_full_on_the_other():
    """d scores_i / d (what is written at j) is exactly 0 for j > i; every score depends on every source character.

    No symbol is written twice, so that row v of a table's gradient is that of the one place where v was read.
    """
    network, p = make(0.0)
    batch = pair_batch([np.array([3, 1, 4, 2])], [np.array([2, 5, 1, 3, 4])], np.zeros(1, dtype=int))
    scores, cache = network.forward(p, batch)
    for i in range(scores.shape[1]):
        dscores = np.zeros_like(scores)
        dscores[0, i] = np.random.default_rng(i).standard_normal(scores.shape[-1])
        grads = network.backward(p, dscores, cache)
        written, source = (np.abs(grads[name]).max(axis=-1) for name in ("target", "source"))
        assert np.all(written[batch.written[0, : i + 1]] > 0)
        assert not written[batch.written[0, i + 1 :]].any()
        assert np.all(source[batch.source[0]] > 0)
        assert not source[[0, 5]].any()


@pytest.mark.parametrize("position", POSITIONS)
def test_padding_changes_nothing(position):
    """A pair alone, and in a batch with longer ones: the same scores, and nothing from what fills up its row."""
    network, p = make(0.0, position=position)
    batch = batch_of()
    together, _ = network.forward(p, batch)
    for row, (m, n) in enumerate(((4, 3), (2, 5), (6, 1))):
        alone, _ = network.forward(p, batch._take(np.array([row]), np.sum(batch.weight, axis=1).astype(int)))
        assert alone.shape[1] == n + 1
        np.testing.assert_allclose(together[row, : n + 1], alone[0], rtol=0, atol=1e-12)
        filled = batch.source.copy()
        filled[row, m:] = 3
        np.testing.assert_array_equal(network.forward(p, batch._replace(source=filled))[0], together)


def test_the_gradient_of_the_memory_is_the_sum_over_the_decoders_blocks():
    """Each block alone is made to read a memory of its own; the gradients of these add up to the shared one's."""
    network, p = make(0.0, layers=3)
    batch = batch_of()
    memory, _ = network.encode(p, batch.source, batch.lengths)
    h, cache = network.decode(p, batch.written, memory, batch.lengths)
    _, dmemory, _ = network.decode_backward(p, np.ones_like(h) * np.arange(8), cache)
    block, dx, parts = network.decoder_block, np.ones_like(h) * np.arange(8), []
    dx, _ = block.norm.backward(p["decoder"]["norm"], dx, cache.norm)
    for weights, remembered in zip(reversed(p["decoder"]["blocks"]), reversed(cache.blocks), strict=True):
        dx, part, _ = block.backward(weights, dx, remembered)
        parts.append(part)
    assert all(np.abs(part).max() > 0 for part in parts)
    np.testing.assert_allclose(dmemory, sum(parts), rtol=1e-12)


def test_the_encoders_t5_tells_what_comes_after_from_what_is_here():
    network, _ = make(position="t5")
    assert network.decoder_block.mixer.position.causal
    assert not network.encoder_block.mixer.position.causal


def count(tree):
    return sum(leaf.size for _, leaf in leaves(tree))


@pytest.mark.parametrize("embeddings", EMBEDDINGS)
@pytest.mark.parametrize("form", DECODER_FORMS)
def test_parameters_are_as_many_as_the_formula_says(form, embeddings):
    """4 D² + 4 D of an attention, 2 D F + F + D of a feed-forward network, 2 D of a norm, V D of a table."""
    D, F, N, V = 8, 16, 3, 6
    attention, feed_forward, norm = 4 * D * D + 4 * D, 2 * D * F + F + D, 2 * D
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    last = 2 * norm if form == "pre" else 0
    wanted = N * (encoder + decoder) + last + len(set(EMBEDDINGS[embeddings])) * V * D
    assert count(make(block_form=form, embeddings=embeddings, layers=N)[1]) == wanted


def test_the_papers_attention_has_4_times_512_squared_weights():
    network = TransformerNetwork(**SIZES | {"dim": 512, "heads": 8}, layers=1)
    block = network.encoder_block.init(generator(0, Stream.INIT), 512)
    assert sum(block["attention"][name]["W"].size for name in block["attention"]) == 4 * 512**2


@pytest.mark.parametrize("embeddings", EMBEDDINGS)
def test_the_first_loss_is_the_logarithm_of_the_number_of_symbols(embeddings):
    """A table that only makes scores starts small. One that is also read does not: it is made small here."""
    batch = pair_batch(*([np.random.default_rng(0).integers(1, 51, (64, 12))] * 2), np.arange(64))
    network = TransformerNetwork(n_sources=50, n_targets=50, embeddings=embeddings)
    p = network.init(generator(0, Stream.INIT))
    if embeddings != "separate":
        p[network.tables.output] *= 0.02
    assert network.loss(p, batch)[0] == pytest.approx(math.log(51), abs=0.02)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("form", DECODER_FORMS)
def test_with_torchs_weights_scores_and_all_gradients_are_torchs(form):
    """The strongest oracle: nn.Transformer with norms after both halves, our embeddings around it, in float64."""
    torch = pytest.importorskip("torch")
    network, p = make(0.0, block_form=form, last_norm=True, position="none")
    theirs = torch.nn.Transformer(8, 2, 2, 2, 16, dropout=0.0, batch_first=True, norm_first=form == "pre").double()
    names = torch_names(p)
    theirs.load_state_dict({
        name: torch.tensor(np.concatenate([leaf_at(p, place).T for place in places])) for name, places in names.items()
    })  # fmt: skip
    E = {name: torch.tensor(p[name], requires_grad=True) for name in network.tables}

    batch = batch_of()
    padding = torch.tensor(np.arange(batch.source.shape[1]) >= batch.lengths[:, None])
    n, root = batch.written.shape[1], math.sqrt(8)
    h = theirs(
        E["source"][batch.source] * root, E["target"][batch.written] * root,
        tgt_mask=torch.triu(torch.full((n, n), -math.inf, dtype=torch.float64), 1),
        src_key_padding_mask=padding, memory_key_padding_mask=padding,
    )  # fmt: skip
    scores = h @ E["output"].T
    each = torch.nn.functional.cross_entropy(scores.transpose(1, 2), torch.tensor(batch.targets), reduction="none")
    weight = torch.tensor(batch.weight, dtype=torch.float64)
    loss = (each * weight).sum() / weight.sum()
    loss.backward()

    mine, cache = network.loss(p, batch)
    assert float(mine) == pytest.approx(loss.item(), abs=1e-12)
    close = {"rtol": 0, "atol": 1e-10}
    real = batch.weight > 0
    np.testing.assert_allclose(network.scores_and_targets(p, batch)[0][real], scores.detach().numpy()[real], **close)
    grads = network.loss_backward(p, 1.0, cache)
    for name, table in E.items():
        np.testing.assert_allclose(grads[name], table.grad.numpy(), **close)
    gradients = {name: parameter.grad.numpy() for name, parameter in theirs.named_parameters()}
    assert gradients.keys() == names.keys()
    for name, places in names.items():
        found = np.concatenate([leaf_at(grads, place).T for place in places])
        np.testing.assert_allclose(found, gradients[name], **close, err_msg=name)


def leaf_at(tree, place):
    for key in place:
        tree = tree[key]
    return tree


def torch_names(p):
    """{torch's name of a parameter: the places in our tree that it stacks}."""
    found = {}
    parts = {"encoder": {"self_attn": "attention", "norm1": "norm_1", "norm2": "norm_2"},
             "decoder": {"self_attn": "attention", "multihead_attn": "cross", "norm1": "norm_1", "norm2": "norm_2",
                         "norm3": "norm_3"}}  # fmt: skip
    for half, named in parts.items():
        found |= {f"{half}.norm.weight": [(half, "norm", "gamma")], f"{half}.norm.bias": [(half, "norm", "beta")]}
        for i in range(len(p[half]["blocks"])):
            at, to = (half, "blocks", i), f"{half}.layers.{i}"
            for theirs, ours in named.items():
                if theirs.startswith("norm"):
                    found[f"{to}.{theirs}.weight"] = [(*at, ours, "gamma")]
                    found[f"{to}.{theirs}.bias"] = [(*at, ours, "beta")]
                    continue
                three = [(*at, ours, name) for name in ("query", "key", "value")]
                found[f"{to}.{theirs}.in_proj_weight"] = [(*one, "W") for one in three]
                found[f"{to}.{theirs}.in_proj_bias"] = [(*one, "b") for one in three]
                found[f"{to}.{theirs}.out_proj.weight"] = [(*at, ours, "output", "W")]
                found[f"{to}.{theirs}.out_proj.bias"] = [(*at, ours, "output", "b")]
            for theirs, ours in (("linear1", "inner"), ("linear2", "outer")):
                found[f"{to}.{theirs}.weight"] = [(*at, "feed_forward", ours, "W")]
                found[f"{to}.{theirs}.bias"] = [(*at, "feed_forward", ours, "b")]
    return found


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="dim 10 is not divisible by heads 4"):
        Transformer(dim=10)


def test_tables_that_are_shared_are_for_one_vocabulary():
    parts = [Pairs.of([("ab", "cb")]), Pairs.of([("a", "d")])]
    for embeddings, sides in (("shared", ["abcd"] * 2), ("target", ["ab", "bcd"]), ("separate", ["ab", "bcd"])):
        known = Transformer(embeddings=embeddings).vocabularies_of(parts)
        assert ["".join(known[side].ids) for side in ("sources", "targets")] == sides
    with pytest.raises(ValueError, match="shared is for one vocabulary, and 3 characters are read, 5 written"):
        TransformerNetwork(**SIZES | {"n_sources": 3}, embeddings="shared")


def test_characters_have_numbers():
    vocabulary = characters(["ba ", "é"])
    assert "".join(vocabulary.ids) == " abé"
    assert numbers_of("éa", vocabulary).tolist() == [4, 2]
