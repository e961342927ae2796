"""What decays, and that it does so as in PyTorch."""

import numpy as np
import pytest

from tests.models.worlds import uneven
from tinyattn.models import MODELS, SASRec
from tinyattn.models.recommenders.timesvdpp import TimeSVDppNetwork
from tinyattn.training import Moments, adamw
from tinyattn.training.adamw import decay_of
from tinyattn.tree import leaves, views


@pytest.mark.slow  # the first optimiser of PyTorch takes ten seconds; plain loops are the oracle of every run
@pytest.mark.parametrize("decay", [0.0, 0.01, 0.3])
def test_it_is_pytorchs(decay, torch, rng):
    start, gradients = rng.standard_normal(6), rng.standard_normal((20, 6)) * 10.0 ** rng.integers(-6, 3, (20, 1))
    theirs = torch.tensor(start, requires_grad=True)
    optimiser = torch.optim.AdamW([theirs], lr=0.02, betas=(0.9, 0.98), eps=1e-8, weight_decay=decay)
    mine, moments = start.copy(), Moments(np.zeros(6), np.zeros(6))
    for step, g in enumerate(gradients, start=1):
        theirs.grad = torch.tensor(g)
        optimiser.step()
        adamw(mine, g, moments, step, lr=0.02, weight_decay=decay)
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=0, atol=1e-12)


def decaying(model):
    network = model.make_network(7, 5)
    p = network.init(np.random.default_rng(0))
    return {name: leaf for name, leaf in leaves(views(decay_of(network, p, 0.5), p))}


@pytest.mark.host
def test_matrices_and_embeddings_decay_and_biases_and_gains_do_not():
    found = decaying(SASRec(qkv_bias=True, output_projection=True, user_embedding=True, block_form="ligr"))
    for name, leaf in found.items():
        assert np.all(leaf == (0 if name.split(".")[-1] in ("b", "gamma", "beta") else 0.5)), name
    assert {"items", "users", "positions", "blocks.0.attention.query.W", "blocks.1.gate_2.W"} < set(found)


@pytest.mark.host
@pytest.mark.parametrize(("name", "table"), [("bert4rec", "items"), ("mf", "output"), ("caser", "outputs")])
def test_a_bias_in_a_row_of_a_table_does_not_decay(name, table):
    leaf = decaying(MODELS[name](maxlen=5) if name != "mf" else MODELS[name]())[table]
    assert np.all(leaf[:, :-1] == 0.5)
    assert not leaf[:, -1].any()


@pytest.mark.host
def test_tables_with_one_number_a_row_are_biases():
    network = TimeSVDppNetwork(n_items=7, n_users=5)
    p = network.init(np.random.default_rng(0))
    for name, leaf in leaves(views(decay_of(network, p, 0.5), p)):
        assert np.all(leaf == (0 if "bias" in name else 0.5)), name


@pytest.mark.host
def test_padding_stays_zero_and_what_no_gradient_reaches_fades():
    """Histories have at most nine items, so the vectors of positions further back have no gradient."""
    options = {"maxlen": 15, "dim": 4, "epochs": 10, "lr": 0.01, "workers": 1}
    plain, decayed = (SASRec(**options, weight_decay=d).fit(uneven(), progress=False).parameters for d in (0.0, 5.0))
    assert not decayed["items"][0].any()
    np.testing.assert_allclose(decayed["positions"][:5], (1 - 0.01 * 5.0) ** 10 * plain["positions"][:5], rtol=1e-5)


@pytest.mark.parametrize(("options", "says"), [
    ({"weight_decay": -0.1}, "weight_decay is -0.1, expected at least 0"),
    ({"weight_decay": 1000.0}, "weight_decay is 1000.0, expected below 1 / lr = 1000"),
    ({"clip_norm": 0.0}, "clip_norm is 0.0, expected a positive, finite number"),
    ({"accumulate": 0}, "accumulate is 0, expected at least 1"),
    ({"warmup": -1}, "warmup is -1, expected at least 0"),
    ({"warmup": 0.1}, "warmup is 0.1, expected a whole number"),
    ({"schedule": "cosin"}, "schedule is 'cosin', expected one of constant, linear, cosine, noam; did you mean cos"),
    ({"loss": "ce", "label_smoothing": 1.0}, "label_smoothing is 1.0, expected 0 <= label_smoothing < 1"),
    ({"label_smoothing": 0.1}, "label_smoothing is 0.1, an option of loss ce; loss is bce"),
])  # fmt: skip
@pytest.mark.host
def test_options_that_cannot_be_are_refused_when_the_model_is_made(options, says):
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        SASRec(**options)
