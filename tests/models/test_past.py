"""Tokens after others: with the cache of the earlier tokens, scores are those of reading all tokens at once.

A new mixer, mechanism, position scheme or form of the block is tested here by being there.
"""

import itertools

import numpy as np
import pytest

from tests.covering import covering
from tests.devices import On
from tests.helpers import noisy
from tests.models.schemes import SCHEMES
from tests.models.test_seams import OWN
from tinyattn.fast.one_token import OneToken
from tinyattn.forms import readable
from tinyattn.layers import BLOCK_FORMS, MECHANISMS, MIXERS, POSITIONS, nbytes
from tinyattn.models import DecoderNetwork
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten

SMALL = {"n_tokens": 7, "context": 24, "dim": 12, "dropout": 0.0, "layers": 2}
CANNOT = [name for name, mechanism in MECHANISMS.items() if not mechanism(**OWN.get(name, {})).extends]
EVERY = [(mixer, mechanism, position, form, kv_heads)
         for mixer, mechanism, position, form, kv_heads in itertools.product(
             MIXERS, MECHANISMS, POSITIONS, BLOCK_FORMS, (None, 2))
         if mechanism not in CANNOT and MIXERS[mixer]().extends and POSITIONS[position].extends
         and POSITIONS[position].gives <= MECHANISMS[mechanism].takes
         and (mixer == "attention" or (mechanism == "full" and kv_heads is None and not POSITIONS[position].at_heads))
         and (MIXERS[mixer].takes_memory or not BLOCK_FORMS[form].gives_memory)]  # fmt: skip


def network_of(mixer="attention", mechanism="full", position="learned", form="pre", kv_heads=None, **more):
    options = SMALL | ({"heads": 6} if mixer == "attention" else {}) | OWN.get(mechanism, {}) | more
    return DecoderNetwork(mixer=mixer, mechanism=mechanism, position=position, block_form=form, kv_heads=kv_heads,
                          **options)  # fmt: skip


def make(*parts, dtype=np.float64, **more):
    network = network_of(*parts, **more)
    p, rng = network.init(generator(0, Stream.INIT)), np.random.default_rng(5)
    return network, flatten(noisy(p, rng, 0.2), dtype)[1]


def in_pieces(network, p, ids, ends):
    past, found = None, []
    for begin, end in itertools.pairwise([0, *ends, ids.shape[1]]):
        scores, past = network.extend(p, ids[:, begin:end], past)
        found.append(scores)
    return np.concatenate(found, axis=1), past


@pytest.mark.parametrize("parts", covering(EVERY, 2), ids=lambda parts: "-".join(map(str, parts)))
def test_in_any_pieces_it_is_what_it_is_in_one(parts):
    network, p = make(*parts)
    ids = np.random.default_rng(0).integers(0, 7, (2, 9))
    whole, _ = network.forward(p, ids)
    for ends in ([], range(1, 9), (4,), (1, 7, 8), (0, 4, 4)):           # the last has pieces of no token
        found, past = in_pieces(network, p, ids, ends)
        assert past.length == 9
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-11)


@pytest.mark.parametrize("parts", covering(EVERY, 1), ids=lambda parts: "-".join(map(str, parts)))
def test_on_every_device_in_float32_and_nothing_is_written_into_the_past(parts, device):
    network, p = make(*parts, dtype=np.float32)
    ids = np.random.default_rng(0).integers(0, 7, (2, 9))
    whole, _ = network.forward(p, ids)
    if device != "cpu":
        network = On(device).methods(network)
    _, past = network.extend(p, ids[:, :5], None)
    once, _ = network.extend(p, ids[:, 5:], past)
    again, _ = network.extend(p, ids[:, 5:], past)
    assert once.dtype == np.float32
    np.testing.assert_array_equal(once, again)
    np.testing.assert_allclose(once, whole[:, 5:], rtol=0, atol=2e-5)


SOONER = [parts for parts in EVERY if parts[0] == "attention" and OneToken.suits(network_of(*parts).block)]


@pytest.mark.parametrize("parts", SOONER, ids=lambda parts: "-".join(map(str, parts)))
def test_one_token_at_a_time_with_what_depends_on_parameters_worked_out(parts):
    network, p = make(*parts)
    ids = np.random.default_rng(0).integers(0, 7, (1, 12))
    whole, _ = network.forward(p, ids)
    extend = network.extending(p)
    _, past = extend(ids[:, :2], None)
    for i in range(2, 12):
        scores, past = extend(ids[:, i : i + 1], past)
        np.testing.assert_allclose(scores[0, 0], whole[0, i], rtol=0, atol=1e-11)
    found, past = extend(ids[:, :4], past)                       # and some at once
    again, _ = in_pieces(network, p, np.concatenate([ids, ids[:, :4]], axis=1), (12,))
    np.testing.assert_allclose(found, again[:, 12:], rtol=0, atol=1e-11)


def test_it_is_worked_out_where_it_can_be(monkeypatch):
    of = [set(options) for options in zip(*SOONER, strict=True)]
    assert of == [{"attention"}, {"full", "window"}, {"learned", "sinusoidal", "none", "rope"}, {"pre"}, {None, 2}]
    assert not any(OneToken.suits(make(**other)[0].block)
                   for other in ({"mixer": "gru"}, {"norm": "rms"}, {"feed_forward": "swiglu"}))  # fmt: skip
    monkeypatch.setattr(OneToken, "__init__", lambda *_: pytest.fail("made where the readable form was asked for"))
    with readable():
        network, p = make()
        network.extending(p)


@pytest.mark.parametrize(("mechanism", "kv_heads"), [("full", None), ("full", 2), ("window", None), ("linear", None)])
def test_two_continuations_of_one_text_do_not_meet(mechanism, kv_heads):
    network, p = make(mechanism=mechanism, kv_heads=kv_heads, dtype=np.float32)
    begin, left, right = np.array([[1, 2, 3]]), np.array([[4]]), np.array([[5]])
    extend = network.extending(p)
    _, past = extend(begin, None)
    alone, _ = extend(right, past)
    taken, there = extend(left, past), {}
    for name, ids in (("left", left), ("right", right)):
        scores, there[name] = extend(ids, past)
        np.testing.assert_array_equal(scores, taken[0] if name == "left" else alone)
    for name, ids in (("right", right), ("left", left)):
        found, _ = extend(begin, there[name])
        once, _ = network.forward(p, np.concatenate([begin, ids, begin], axis=1))
        np.testing.assert_allclose(found, once[:, 4:], rtol=0, atol=2e-5)


def test_a_token_copies_nothing_of_what_is_kept():
    """Eight tokens go into the buffer that the first eight have left room in."""
    network, p = make()
    extend = network.extending(p)
    _, past = extend(np.zeros((1, 8), dtype=int), None)
    buffers = [layer.kept.k.buffer for layer in past.layers]
    for _ in range(8):
        _, past = extend(np.zeros((1, 1), dtype=int), past)
    assert all(layer.kept.k.buffer is buffer for layer, buffer in zip(past.layers, buffers, strict=True))


@pytest.mark.parametrize("mixer", [name for name, kind in MIXERS.items() if not kind.keeps_tokens])
def test_a_state_that_is_kept_is_no_view_of_all_tokens(mixer):
    """A view would hold the memory of the whole text for as long as a session lasts."""
    network, p = make(mixer=mixer)
    arrays = list(arrays_of(network.extend(p, np.zeros((1, 20), dtype=int))[1].layers))
    assert arrays
    assert all(array.base is None for array in arrays)


def arrays_of(kept):
    if isinstance(kept, np.ndarray):
        yield kept
    else:
        for part in kept:
            yield from arrays_of(part)


def kept(n, *parts, **more):
    network, p = make(*parts, **more)
    return nbytes(network.extend(p, np.zeros((1, n), dtype=int))[1])


def test_what_is_kept_is_as_large_as_the_formula_says():
    """Of full attention 2 n g d numbers a layer, with g heads of keys and values; a window, a state: no more with n.

    A recurrent mixer that looks at all of its states keeps them all.
    """
    layers, d = 2, 2
    assert kept(20) == layers * 2 * 20 * 6 * d * 8
    assert kept(20, kv_heads=2) == kept(20) // 3
    assert kept(20, mechanism="window") == kept(10, mechanism="window") == layers * 2 * (3 - 1) * 6 * d * 8
    assert kept(20, mechanism="linear") == kept(1, mechanism="linear") == layers * 6 * d * (d + 1) * 8
    assert kept(20, mixer="gru") == kept(1, mixer="gru") == layers * 12 * 8
    assert kept(20, mixer="lstmn") == layers * (3 * 20 + 1) * 12 * 8       # states, cells, keys; what was read last


@pytest.mark.parametrize(("size", "near", "sinks"), [(1, 3, 2), (1, 1, 1), (2, 2, 1), (3, 2, 0), (4, 1, 0)])
@pytest.mark.parametrize("position", ["learned", "rope"])
def test_a_window_with_sinks_keeps_no_other_tokens(size, near, sinks, position):
    """No more than these blocks, in any pieces, and scores are those of the whole text."""
    network, p = make(mechanism="bigbird", position=position, block_size=size, window_blocks=near, global_blocks=sinks,
                      random_blocks=0)  # fmt: skip
    ids = np.random.default_rng(0).integers(0, 7, (2, 23))
    whole, _ = network.forward(p, ids)
    for ends in ((22,), range(1, 23), (5, 6, 14), (0, 13, 13)):
        found, past = in_pieces(network, p, ids, ends)
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-11)
        tokens = {layer.kept.k.rows.shape[-2] for layer in past.layers}
        assert tokens == {size * (sinks + near - 1) + 23 % size}              # the next token's block has begun


@pytest.mark.parametrize("kernel", [1, 2])
def test_mamba_keeps_as_many_tokens_as_its_convolution_sees_before_one(kernel):
    network, p = make(mixer="mamba", kernel=kernel)
    ids = np.random.default_rng(0).integers(0, 7, (2, 9))
    found, past = in_pieces(network, p, ids, range(1, 9))
    np.testing.assert_allclose(found, network.forward(p, ids)[0], rtol=0, atol=1e-11)
    assert all(layer[0].shape[1] == kernel - 1 for layer in past.layers)


@pytest.mark.parametrize("mechanism", CANNOT)
def test_what_cannot_go_on_says_so(mechanism):
    network, p = make(mechanism=mechanism)
    with pytest.raises(ValueError, match=f"mechanism {mechanism} cannot continue from past tokens: it has no cache"):
        network.extend(p, np.zeros((1, 2), dtype=int))


def test_neither_does_a_position_scheme_or_a_mixer_that_does_not_say_how(monkeypatch):
    monkeypatch.setitem(POSITIONS, "turning", SCHEMES["turning"])
    network, p = make(position="turning")
    with pytest.raises(ValueError, match="position turning cannot continue from past tokens: it has no cache"):
        network.extend(p, np.zeros((1, 2), dtype=int))
    monkeypatch.delattr(MIXERS["gru"], "extend")
    network, p = make(mixer="gru")
    with pytest.raises(ValueError, match="mixer gru cannot continue from past tokens: it has no cache"):
        network.extend(p, np.zeros((1, 2), dtype=int))
