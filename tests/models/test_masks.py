"""Dropout masks of every network: their number, their rate, and that no two are equal.

They are found in the cache of one forward, wherever it keeps them: a new model is tested here by being there.
"""

import math

import numpy as np
import pytest

from tests.models.small import DATA, TRAINED, make
from tinyattn.data import pad
from tinyattn.layers import (
    BLOCK_FORMS,
    DECODER_FORMS,
    MECHANISMS,
    MIXERS,
    Block,
    DecoderBlock,
    FeedForward,
    MultiHead,
    SwiGLU,
)
from tinyattn.models import MODELS, NeuralRecommender, SASRecNetwork, SequenceModel
from tinyattn.ops import Mask
from tinyattn.random import MaskKeys, PairMask, Stream, generator
from tinyattn.tree import flatten

RATE = 0.3
DROPPING = [name for name in TRAINED if hasattr(MODELS[name], "dropout")]
LAYERS = 2
OF_BLOCK = {"pre": 2, "post": 2, "plain": 2, "sasrec": 3, "ligr": 3, "hstu": 1}  # of sublayers; and what the form adds
EXPECTED = {
    "sasrec": 1 + 2 * LAYERS, "bert4rec": 1 + 2 * LAYERS, "stosa": 2 + 4 * LAYERS, "gru4rec": 2, "narm": 2, "caser": 1,
    "mf": 1, "fpmc": 1, "fism": 1, "fossil": 1, "decoder": 1 + 2 * LAYERS, "tagger": 1 + 2 * LAYERS,
    "encoder": 1 + 2 * LAYERS, "classifier": 1 + 2 * LAYERS, "transformer": 2 + 5 * LAYERS,
    "rnnsearch": 3, "vit": 1 + 2 * LAYERS,
    "beit": 1 + 2 * LAYERS, "swin": 1 + 2 * 2 * LAYERS,
}  # fmt: skip


def masks_of(cache, name=""):
    """Every dropout mask in nested caches: arrays under names that begin with `keep`, and keys of pairs."""
    if isinstance(cache, PairMask):
        yield cache
    elif isinstance(cache, np.ndarray):
        if cache.dtype == bool and name.startswith("keep"):
            yield cache
    elif hasattr(cache, "_fields"):
        for field, part in zip(cache._fields, cache, strict=True):
            yield from masks_of(part, field)
    elif isinstance(cache, dict):
        for field, part in cache.items():
            yield from masks_of(part, field)
    elif isinstance(cache, list | tuple):
        for part in cache:
            yield from masks_of(part, name)


def differ(masks, rate=RATE):
    """Each keeps a share of 1 - rate, two that have a corner in common differ in it, and so do two rows of one."""
    for mask in masks:
        if isinstance(mask, np.ndarray):
            bound = 4.5 * math.sqrt(rate * (1 - rate) / mask.size)
            assert abs(mask.mean() - (1 - rate)) < bound, mask.shape
            assert mask.ndim >= 3                                          # sequences, tokens, features: none shares
            assert len(mask) == 1 or np.any(mask[0] != mask[1])
        else:
            assert mask.rate == rate
    keys = [mask.key for mask in masks if isinstance(mask, PairMask)]
    assert len(set(keys)) == len(keys)
    arrays = [mask for mask in masks if isinstance(mask, np.ndarray)]
    for i, one in enumerate(arrays):
        for other in arrays[:i]:
            if one.ndim == other.ndim:
                corner = tuple(slice(min(a, b)) for a, b in zip(one.shape, other.shape, strict=True))
                share = np.mean(one[corner] == other[corner])
                alike = (1 - rate) ** 2 + rate**2                          # of independent ones
                bound = 4.5 * math.sqrt(alike * (1 - alike) / one[corner].size)
                assert abs(share - alike) < bound, (one.shape, other.shape)


def network_and_batch(name, **more):
    model = make(name, **{"dropout": RATE, "layers": LAYERS, "blocks": LAYERS, "context": 9} | more)
    data = DATA[model.table]
    if isinstance(model, NeuralRecommender):
        network = model.make_network(data.train.n_items, data.train.n_users)
        return network, model.sampler(data.train).batch(0)
    assert isinstance(model, SequenceModel)
    known = model.vocabularies_of([part for part in (data.train, data.valid, data.test) if part is not None])
    return model.make_network(known), model.sampler(model.numbered(data.train, known)).batch(0)


@pytest.mark.parametrize("name", DROPPING)
def test_every_place_of_a_network_has_a_mask_of_its_own(name):
    network, batch = network_and_batch(name)
    p = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]
    keys = MaskKeys(generator(0, Stream.DROPOUT, 1), batch.rows)
    found = list(masks_of(network.loss(p, batch, keys)[1]))
    assert len(found) == EXPECTED[name]
    differ(found)
    assert not list(masks_of(network.loss(p, batch)[1]))                   # without a key nothing is dropped


@pytest.mark.parametrize("name", DROPPING)
def test_a_row_has_the_same_masks_in_any_slice_of_its_batch(name):
    """The loss of slices, by their shares, is that of the batch."""
    network, batch = network_and_batch(name)
    p = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]
    losses = []
    for parts in ([batch], batch.slices(20)):
        keys = [MaskKeys(generator(0, Stream.DROPOUT, 1), part.rows) for part in parts]
        losses.append(sum(part.total / batch.total * float(network.loss(p, part, key)[0])
                          for part, key in zip(parts, keys, strict=True)))  # fmt: skip
    assert len(parts) > 1
    assert losses[1] == pytest.approx(losses[0], rel=1e-12)


@pytest.mark.parametrize("feed_forward", [FeedForward(), FeedForward(activation="gelu"), SwiGLU(8)], ids=str)
@pytest.mark.parametrize("form", BLOCK_FORMS)
def test_both_sublayers_of_a_block_and_all_blocks_drop_other_numbers(form, feed_forward, rng):
    """The feed-forward network is as wide as the tokens, so that its hidden units could share a mask with them."""
    block = Block(MultiHead(2), form, feed_forward=feed_forward, rate=RATE)
    x, source, found = rng.standard_normal((6, 8, 8)), generator(0, Stream.DROPOUT), []
    for _ in range(2):
        _, cache = block.forward(block.init(rng, 8), x, mask=Mask(causal=True), rng=source)
        found += masks_of(cache)
    assert len(found) == 2 * OF_BLOCK[form]
    differ(found)


@pytest.mark.parametrize("form", DECODER_FORMS)
def test_the_three_sublayers_of_a_decoders_block_drop_other_numbers(form, rng):
    block = DecoderBlock(form=form, rate=RATE)
    x, source = rng.standard_normal((6, 8, 8)), generator(0, Stream.DROPOUT)
    _, cache = block.forward(block.init(rng, 8), x, x, mask=Mask(causal=True), rng=source)
    found = list(masks_of(cache))
    assert len(found) == 3
    differ(found)


@pytest.mark.parametrize("part", [
    *({"mechanism": name} for name, cls in MECHANISMS.items() if "dropout" in cls.takes),
    *({"mixer": name} for name, cls in MIXERS.items() if cls.takes_dropout is True),
], ids=str)  # fmt: skip
def test_attention_weights_of_all_blocks_are_dropped_apart(part):
    network = SASRecNetwork(n_items=9, maxlen=8, dim=8, heads=2, blocks=3, dropout=RATE, block_form="sasrec", **part)
    batch = pad([np.arange(1, 9), np.arange(8, 0, -1)] * 3, 8)
    p = network.init(generator(0, Stream.INIT))
    _, cache = network.forward(p, batch, MaskKeys(generator(0, Stream.DROPOUT, 1), np.arange(6)))
    found = [list(masks_of(block.attention)) for block in cache.blocks]
    if part == {"mechanism": "longformer"}:                                # near and global tokens share one
        found = [each[:1] for each in found]
    assert [len(each) for each in found] == [1, 1, 1]
    differ([each[0] for each in found])


def test_what_is_kept_is_multiplied_by_one_over_the_rate_of_keeping():
    """The first thing that is dropped of each kind of network is its input: kept numbers are larger, all others 0."""
    network = SASRecNetwork(n_items=9, maxlen=8, dim=8, blocks=0, dropout=RATE, last_norm=False, position="none")
    p, batch = network.init(generator(0, Stream.INIT)), pad([np.arange(1, 9)], 8)
    h, cache = network.forward(p, batch, MaskKeys(generator(0, Stream.DROPOUT, 1), np.arange(1)))
    np.testing.assert_allclose(h, np.where(cache.keep, p["items"][batch.ids] / (1 - RATE), 0), rtol=0, atol=1e-12)
