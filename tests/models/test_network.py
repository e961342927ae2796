"""SASRec end to end: gradients of every form and loss, and the textbook's left-padded form."""

import itertools
import math

import numpy as np
import pytest

from tests.covering import covering
from tests.models.worlds import few_negatives, uneven
from tinyattn.check import gradcheck_model
from tinyattn.data import Sampler, pad
from tinyattn.forms import readable
from tinyattn.layers import BLOCK_FORMS, Block, LayerNorm, MultiHead, norm
from tinyattn.models import SASRecNetwork
from tinyattn.models.objectives import OBJECTIVES
from tinyattn.ops import causal_mask
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, tree_map

PLAIN = {"emb_scale": False, "qkv_bias": False, "output_projection": False, "last_norm": True, "user_embedding": False}
FULL = {"emb_scale": True, "qkv_bias": True, "output_projection": True, "last_norm": True, "user_embedding": True}
BARE = {"emb_scale": True, "qkv_bias": False, "output_projection": False, "last_norm": False, "user_embedding": False}
OPTIONS = {"plain": PLAIN, "full": FULL, "bare": BARE, "untied": PLAIN | {"tied": False}}


@pytest.fixture(autouse=True)
def everywhere(device):
    """Every test here runs on every device there is."""


def make(data, options=PLAIN, dtype=np.float64, **more):
    users = data.n_users if options["user_embedding"] else 0
    sizes = {"maxlen": 6, "dim": 6, "heads": 2, "eps": 1e-3, "dropout": 0.3}
    sizes |= few_negatives(more.get("objective", "bce"))
    network = SASRecNetwork(n_items=data.n_items, n_users=users, **options | sizes | more)
    p = network.init(generator(0, Stream.INIT))
    rng = np.random.default_rng(5)
    p = tree_map(lambda a: a + 0.2 * rng.standard_normal(a.shape) * (a != 0 if a.ndim == 2 else 1), p)
    if users:
        p["users"][1:] = 0.2 * rng.standard_normal((users, network.dim))
    return network, flatten(p, dtype)[1]


def batch_of(data, network):
    negatives = OBJECTIVES[network.objective].negatives
    return Sampler(data, network.maxlen, data.n_users, 0, negatives, network.n_negatives or 0).batch(0)


# What bce and ce do with the tables, the losses on shared negatives do as well: one form of the block will do for them.
GRADIENTS = [(form, loss, options) for form, loss, options in itertools.product(BLOCK_FORMS, OBJECTIVES, OPTIONS)
             if not few_negatives(loss) or (form, options) == ("pre", "plain")]  # fmt: skip
PAIRS = covering(GRADIENTS, 2)
ENTRIES = covering(PAIRS, 1)                     # every form, loss and option once; the other pairs are slow ones
GRADIENTS = [pytest.param(*case, marks=[pytest.mark.slow] * (case not in ENTRIES)) for case in PAIRS]


@pytest.mark.parametrize(("form", "loss", "options"), GRADIENTS)
def test_gradients_of_the_whole_model(form, loss, options, device):
    """Two entries of each parameter on their own, and one direction in which all of them move."""
    data = uneven()
    network, p = make(data, OPTIONS[options], block_form=form, objective=loss)
    for key in (3, None) if device == "cpu" else (3,):  # evaluation has no calls of its own
        report = gradcheck_model(network, p, batch_of(data, network), key=key, entries=2)
        assert report, f"\n{report}"


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_gradients_at_other_depths(blocks):
    data = uneven()
    network, p = make(data, blocks=blocks)
    assert gradcheck_model(network, p, batch_of(data, network), key=1, entries=2)


@pytest.mark.parametrize("form", BLOCK_FORMS)
def test_the_textbooks_left_padded_form_computes_the_same(form):
    """Kang & McAuley pad on the left and mask padded keys; slots and right padding give the same numbers."""
    network, p = make(uneven(), block_form=form)
    histories = [np.array([3, 1, 4]), np.array([5, 9, 2, 6, 7]), np.array([8])]
    batch = pad(histories, network.maxlen)
    h, _ = network.forward(p, batch)

    ids = np.array([[0] * (network.maxlen - len(s)) + s.tolist() for s in histories])
    x = p["items"][ids] + p["positions"]
    mask = causal_mask(network.maxlen, like=x) & (ids != 0)[:, None, None, :]
    block = Block(MultiHead(network.heads), form, LayerNorm(network.eps))
    for weights in p["blocks"]:
        with readable():
            x, _ = block.forward(weights, x, mask=mask)
    x, _ = norm(p["norm"], x, eps=network.eps)
    for row, history in enumerate(histories):
        n = len(history)
        np.testing.assert_allclose(h[row, :n], x[row, -n:], rtol=0, atol=1e-12)


def test_only_the_newest_maxlen_items_count():
    network, p = make(uneven())
    long = np.array([7, 7, 7, 1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(network.score(p, pad([long], 6)), network.score(p, pad([long[-6:]], 6)))


def test_the_losses_start_where_chance_is():
    """With all item embeddings 0 every score is 0: two coins for bce, one for bpr, ln(candidates) for cross-entropy.

    gBCE subtracts the log odds of 3 negatives to 1 target: every candidate is the target with probability 1/4.
    """
    data, beta = uneven(), lambda alpha: 1 - 0.75 * (1 - alpha)
    for loss, expected in (
        ("bce", 2 * math.log(2)),
        ("bpr", math.log(2)),
        ("ce", math.log(data.n_items)),
        ("gbce", beta(3 / (data.n_items - 1)) * math.log(4) + 3 * math.log(4 / 3)),
        ("sampled-softmax", math.log(4)),
        ("bpr-max", math.log(2)),
    ):
        network, p = make(data, objective=loss)
        p["items"][...] = 0
        np.testing.assert_allclose(network.loss(p, batch_of(data, network))[0], expected, atol=1e-12)


def test_explicit_users_are_added_to_the_last_representation():
    data = uneven()
    network, p = make(data, FULL)
    history = [np.array([3, 1, 4])]
    known, unknown = (network.score(p, pad(history, 6, np.array([u])))[0, 1:] for u in (2, 0))
    np.testing.assert_allclose(known - unknown, p["items"][1:] @ p["users"][2], atol=1e-12)
    assert not p["users"][0].any()


@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("options", [PLAIN, FULL, BARE], ids=["plain", "full", "bare"])
@pytest.mark.parametrize("form", BLOCK_FORMS)
def test_scores_are_dot_products_of_the_last_position_with_the_item_table(form, options, blocks):
    """`score` computes the last block at the last position alone; `forward` computes everything."""
    network, p = make(uneven(), options, block_form=form, blocks=blocks)
    batch = pad([np.array([3, 1, 4]), np.array([5, 9, 2, 6, 7]), np.array([8])], 6, np.array([2, 0, 1]))
    h, _ = network.forward(p, batch)
    scores = network.score(p, batch)
    for row, last in enumerate((2, 4, 0)):
        np.testing.assert_allclose(scores[row, 1:], p["items"][1:] @ h[row, last], rtol=0, atol=1e-12)
    assert np.all(scores[:, 0] == -np.inf)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 5, "heads": 2}, "dim 5 is not divisible by heads 2"),
        ({"maxlen": 0}, "maxlen is 0, expected 1 to 1"),
        ({"dropout": 1.0}, "dropout is 1.0, expected 0 <= dropout < 1"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"dropout": math.nan}, "dropout is nan"),
        ({"blocks": -1}, "blocks is -1"),
        ({"block_form": "sandwich"}, "block_form is 'sandwich', expected one of pre, post, sasrec, ligr, hstu, plain"),
        ({"objective": "mse"}, "objective is 'mse'"),
        ({"n_items": 0}, "n_items is 0, expected at least 1"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SASRecNetwork(**{"n_items": 5} | options)
