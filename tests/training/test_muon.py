"""Muon: its step acts on singular values alone; weight matrices take it, and all else takes Adam's."""

import numpy as np
import pytest

from tests.models.small import DATA, make
from tinyattn.layers.mixers import MIXERS
from tinyattn.training import muon, orthogonal
from tinyattn.training.muon import matrices_of
from tinyattn.tree import leaves

SHAPES = [(1, 1), (4, 4), (3, 7), (7, 3), (1, 5), (40, 24)]


def with_values(shape, values, rng):
    """A matrix with these singular values."""
    U, V = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in shape)
    k = min(shape)
    return (U[:, :k] * values) @ V[:, :k].T, U[:, :k], V[:, :k]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_singular_vectors_stay_and_values_come_near_1(shape, scale):
    rng = np.random.default_rng(sum(shape))
    values = rng.uniform(0.1, 1, min(shape))
    G, U, V = with_values(shape, scale * values, rng)
    core = U.T @ orthogonal(G) @ V
    reached = values / np.linalg.norm(values)
    for _ in range(5):
        reached = 3.4445 * reached - 4.775 * reached**3 + 2.0315 * reached**5
    np.testing.assert_allclose(core, np.diag(reached), atol=1e-9)
    assert np.all((reached > 0.68) & (reached < 1.14))


def test_tiny_singular_values_stay_below_the_band_and_zeros_stay():
    G, U, V = with_values((4, 4), np.array([1, 0.002, 1e-7, 0]), np.random.default_rng(0))
    got = np.diag(U.T @ orthogonal(G) @ V)
    assert 0.68 < got[0] < 1.21
    assert 0.68 < got[1] < 1.21
    np.testing.assert_allclose(got[2:], [1e-7 * 3.4445**5, 0], rtol=1e-5, atol=1e-12)
    np.testing.assert_array_equal(orthogonal(np.zeros((2, 3), np.float32)), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize(("decay", "shape"), [(0.0, (5, 3)), (0.5, (5, 3)), (0.5, (3, 5))])
def test_two_steps_by_hand(decay, shape):
    rng = np.random.default_rng(1)
    W, g = rng.standard_normal(shape), rng.standard_normal((2, *shape))
    matrix, momentum = W.copy(), np.zeros_like(W)
    for gradient in g:
        muon(matrix, gradient, momentum, lr=0.1, weight_decay=decay)
    first = W * (1 - 0.1 * decay) - 0.1 * 0.2 * np.sqrt(5) * orthogonal(1.95 * g[0])
    u = 0.95 * g[0] + g[1]
    second = first * (1 - 0.1 * decay) - 0.1 * 0.2 * np.sqrt(5) * orthogonal(0.95 * u + g[1])
    np.testing.assert_allclose(matrix, second, rtol=1e-12)
    np.testing.assert_allclose(momentum, u)
    assert orthogonal(W.astype(np.float32)).dtype == np.float32


def test_which_arrays_of_a_network_are_its_matrices():
    """Tables of items and positions are none, nor are biases and gains."""
    p = make("sasrec", blocks=1).make_network(16, 60).init(np.random.default_rng(0))
    rest = {name.rpartition(".")[2] for name, _ in leaves(p)} - {"W"}
    assert rest == {"items", "positions", "gamma", "beta", "b"}
    assert list(matrices_of(p)) == [name for name, _ in leaves(p) if name.endswith(".W")]


@pytest.mark.parametrize("mixer", MIXERS)
def test_the_matrices_of_every_mixer_take_the_orthogonal_step(mixer):
    p = make("sasrec", blocks=1, mixer=mixer).make_network(16, 60).init(np.random.default_rng(0))
    rest = {name.rpartition(".")[2] for name, leaf in leaves(p) if leaf.ndim == 2} - {
        name.rpartition(".")[2] for name in matrices_of(p)
    }
    assert rest <= {"items", "positions", "conv", "log_A"}
    assert any(name.startswith("blocks.0.attention.") for name in matrices_of(p))


def test_a_model_without_weight_matrices_is_refused_before_it_trains():
    with pytest.raises(ValueError, match="optimizer is 'muon', expected 'adam' for a model without weight matrices"):
        make("mf", optimizer="muon").fit(DATA["ranking"], progress=False)
    with pytest.raises(ValueError, match="optimizer is 'sgd', expected"):
        make("sasrec", optimizer="sgd")


@pytest.mark.host
def test_steps_are_pytorchs_up_to_its_bfloat16(torch, rng):
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this PyTorch has no Muon")
    W, g = rng.standard_normal((6, 4)), rng.standard_normal((3, 6, 4))
    theirs = torch.nn.Parameter(torch.tensor(W))
    optimizer = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.3, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    mine, momentum = W.copy(), np.zeros_like(W)
    for gradient in g:
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
        muon(mine, gradient, momentum, lr=0.1, weight_decay=0.3)
    assert np.abs(mine - W).max() > 0.1
    np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=0, atol=5e-3)
