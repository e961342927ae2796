"""Cached states of recommenders: read in any pieces, they are those of `forward`, with every option."""

import itertools

import numpy as np
import pytest

from tests.models.test_session import ITEMS, made, same
from tinyattn.data import pad
from tinyattn.models import GRU4Rec, SASRec

LARGE = 0.3                                     # of eps: so large that a norm with another one gives other numbers
OPTIONS = [
    {"emb_scale": True}, {"eps": LARGE}, {"last_eps": LARGE}, {"eps": LARGE, "last_eps": 1e-8}, {"last_norm": False},
    {"qkv_bias": True}, {"output_projection": True}, {"tied": False}, {"heads": 3, "kv_heads": 1}, {"norm": "rms"},
    {"norm": "rms", "last_eps": LARGE}, {"feed_forward": "gelu"}, {"feed_forward": "swiglu"}, {"feed_forward_width": 2},
    {"block_form": "sasrec"}, {"block_form": "ligr", "emb_scale": True}, {"blocks": 0}, {"blocks": 1},
    {"position": "rope", "rope_base": 3.0, "emb_scale": True}, {"position": "t5", "buckets": 4, "furthest": 6},
    {"position": "rope", "rope_scaling": "yarn", "rope_factor": 4.0, "rope_trained": 5, "rope_fast": 2.0},
    {"position": "shaw", "clip": 2}, {"position": "xl"}, {"position": "alibi"},
    {"mechanism": "window", "window": 3, "emb_scale": True}, {"mechanism": "linear"},
    {"mixer": "lstm", "forget": False, "emb_scale": True}, {"mixer": "mamba", "state": 3, "kernel": 2},
    {"mixer": "mamba", "exact_hold": True}, {"mixer": "delta", "kernel": 2, "delta_heads": 3, "emb_scale": True},
    {"mixer": "latent", "heads": 3, "latent": 5}, {"mixer": "latent", "position": "rope", "turned": 2},
    {"mixer": "delta", "gated": False, "beta_limit": 2.0},
]  # fmt: skip
KINDS = [(SASRec, {"position": "none"} | options) for options in OPTIONS] + [(GRU4Rec, {}), (GRU4Rec, {"layers": 3})]


def named(part):
    return part.name if isinstance(part, type) else "-".join(f"{name}={value}" for name, value in part.items())


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=named)
def test_states_in_pieces_are_those_of_forward_and_the_length_says_how_many_items_were_read(kind, options):
    network = (model := made(kind, **options)).network
    p, ids = model.parameters, np.array([[3, 1, 4, 1, 5, 9, 2], [2, 7, 1, 8, 2, 8, 1]])
    assert network.extends
    whole = network.forward(p, pad(list(ids), 10))[0]
    for ends in ([], [1], [3, 5], range(1, 7)):
        past, states = None, []
        for begin, end in itertools.pairwise([0, *ends, 7]):
            h, past = network.extend(p, ids[:, begin:end], past)
            assert past.length == end
            states.append(h)
        np.testing.assert_allclose(np.concatenate(states, axis=1), whole, rtol=0, atol=1e-11)
    extend, past = network.extending(p), None                        # one item of one history, the shorter way
    for place in range(7):
        h, past = extend(ids[:1, place : place + 1], past)
        assert past.length == place + 1
        np.testing.assert_allclose(h[0, 0], whole[0, place], rtol=0, atol=1e-11)


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=named)
def test_a_session_and_the_short_way_to_one_state_know_every_option(kind, options):
    model = made(kind, **options)
    session = model.session(ITEMS[:1])
    for i in range(1, 6):
        same(session, model, ITEMS[:i])
        histories = [model.items.numbers(ITEMS[:i]), model.items.numbers(ITEMS[:3])]
        alone = model.score(histories[:1])[0]                        # the short way, where there is one
        np.testing.assert_allclose(alone[1:], model.score(histories)[0, 1:], rtol=0, atol=1e-10)
        session.add(ITEMS[i])


@pytest.mark.parametrize(("options", "positions"), [
    ({"last_eps": LARGE}, "learned"), ({"emb_scale": True}, "learned"), ({"emb_scale": True}, "sinusoidal"),
    ({"eps": LARGE}, "learned"), ({"eps": LARGE, "last_eps": LARGE}, "learned"), ({"padding": "blank"}, "learned"),
], ids=str)  # fmt: skip
def test_with_positions_of_items_too(options, positions):
    test_a_session_and_the_short_way_to_one_state_know_every_option(SASRec, options | {"position": positions})


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize(("eps", "last_eps"), [(0.1, None), (0.1, 0.7), (0.7, 0.1)])
def test_the_norm_after_the_last_block_has_its_eps(norm, eps, last_eps):
    """Without blocks nothing but that norm is left: (x - mean) / √(variance + eps)."""
    model = made(blocks=0, position="none", norm=norm, eps=eps, last_eps=last_eps)
    x = model.parameters["items"][[3, 1, 4]]
    centred = x - x.mean(axis=1, keepdims=True) if norm == "layer" else x
    hat = centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + (last_eps or eps))
    weights = model.parameters["norm"]
    expected = hat * weights["gamma"] + weights.get("beta", 0)
    found, _ = model.network.forward(model.parameters, pad([np.array([3, 1, 4])], 10))
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-12)
    h = model.network.last_state(model.parameters, pad([np.array([3, 1, 4])], 10))
    np.testing.assert_allclose(h[0], expected[-1], rtol=0, atol=1e-12)
    block = made(blocks=1, norm=norm, eps=eps, last_eps=last_eps).network
    assert block.block.norm.eps == eps
    assert block.norm_after.eps == (last_eps or eps)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_scaled_embeddings_are_the_embeddings_times_the_root_of_dim(positions):
    """Positions are added to them as they are; and the table that makes the scores is not scaled."""
    scaled, plain = (made(position=positions, emb_scale=s, tied=False) for s in (True, False))
    larger = scaled.parameters | {"items": scaled.parameters["items"] * 12**0.5}
    history = [np.array([5, 2, 7, 1])]
    for batch in (pad(history, 10), pad([history[0][:1]], 10)):
        found, _ = scaled.network.forward(scaled.parameters, batch)
        expected, _ = plain.network.forward(larger, batch)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(scaled.network.score(scaled.parameters, batch),
                                   plain.network.score(larger, batch), rtol=0, atol=1e-11)  # fmt: skip
