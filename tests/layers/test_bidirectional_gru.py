"""The GRU that reads both ways: gradients, each sequence as if it were alone, and torch's as an oracle."""

import numpy as np
import pytest

from tests.helpers import noisy
from tinyattn.check import gradcheck_layer
from tinyattn.layers import BidirectionalGRU
from tinyattn.layers.bidirectional_gru import turned

D, LENGTHS = 3, np.array([4, 1, 5])
REAL = np.arange(5) < LENGTHS[:, None]


@pytest.fixture
def given(rng):
    p = noisy(BidirectionalGRU().init(rng, D), rng)
    return p, rng.standard_normal((3, 5, D))


def test_gradients(given):
    layer = BidirectionalGRU()
    assert gradcheck_layer(layer.forward, layer.backward, *given, lengths=LENGTHS)


def test_backward_is_each_sequences_own_last_token_first():
    x = np.arange(15).reshape(3, 5, 1)
    found = np.take_along_axis(x, turned(x, LENGTHS)[..., None], axis=1)[..., 0]
    np.testing.assert_array_equal(found, [[3, 2, 1, 0, 4], [5, 6, 7, 8, 9], [14, 13, 12, 11, 10]])


def test_a_sequence_says_what_it_says_alone_whatever_fills_up_its_row(given):
    p, x = given
    layer = BidirectionalGRU()
    y, cache = layer.forward(p, x, LENGTHS)
    moved, _ = layer.forward(p, np.where(REAL[..., None], x, 7.0), LENGTHS)
    np.testing.assert_array_equal(moved[REAL], y[REAL])
    for row, m in enumerate(LENGTHS):
        alone, _ = layer.forward(p, x[row : row + 1, :m], LENGTHS[row : row + 1])
        np.testing.assert_allclose(y[row, :m], alone[0], rtol=0, atol=1e-14)
    dx, _ = layer.backward(p, np.where(REAL[..., None], 1.0, 0.0) * np.ones_like(y), cache)
    assert not dx[~REAL].any()
    assert np.all(np.abs(dx[REAL]).max(axis=-1) > 0)


def test_with_torchs_weights_states_and_gradients_are_torchs(given):
    torch = pytest.importorskip("torch")
    p, x = given
    theirs = torch.nn.GRU(D, D, batch_first=True, bidirectional=True).double()
    names = {"weight_ih": "W", "weight_hh": "U", "bias_ih": "b", "bias_hh": "c"}
    ends = {"forward": "_l0", "backward": "_l0_reverse"}
    theirs.load_state_dict(
        {f"{name}{end}": torch.tensor(p[way][ours].T) for way, end in ends.items() for name, ours in names.items()}
    )
    tokens = torch.tensor(x, requires_grad=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(tokens, LENGTHS, batch_first=True, enforce_sorted=False)
    wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    dy = np.random.default_rng(1).standard_normal(wanted.shape) * REAL[..., None]
    wanted.backward(torch.tensor(dy))

    layer, close = BidirectionalGRU(), {"rtol": 0, "atol": 1e-12}
    y, cache = layer.forward(p, x, LENGTHS)
    np.testing.assert_allclose(y[REAL], wanted.detach().numpy()[REAL], **close)
    dx, grads = layer.backward(p, dy, cache)
    np.testing.assert_allclose(dx, tokens.grad.numpy(), **close)
    gradients = dict(theirs.named_parameters())
    for way, end in ends.items():
        for name, ours in names.items():
            np.testing.assert_allclose(grads[way][ours], gradients[f"{name}{end}"].grad.numpy().T, **close)
