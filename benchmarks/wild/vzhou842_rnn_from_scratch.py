"""vzhou842/rnn-from-scratch: a recurrent network with a loss of its last state, whose backward updates parameters."""

import numpy as np
from checkout import checkout, importable, one_batch

importable(checkout("vzhou842/rnn-from-scratch"))

import rnn as theirs  # noqa: E402

SMALL = 1e-6  # scales gradients down, because the repository clips them at 1


class Rnn:
    """All states. The gradient of state t comes from a run on the first t tokens. The output layer is the identity."""

    def rnn(self, x, W, U, b):
        states = [self.run(tokens, W, U, b).last_hs for tokens in one_batch(x)]
        return np.reshape([[h[t + 1] for t in range(x.shape[-2])] for h in states], (*x.shape[:-1], len(U)))

    def run(self, tokens, W, U, b):
        net = theirs.RNN(len(W), len(U), len(U))
        net.Wxh, net.Whh, net.Why, net.bh = W.T.copy(), U.T.copy(), np.eye(len(U)), b[:, None].copy()
        net.forward(tokens[..., None])
        return net

    def rnn_backward(self, dh, x, W, U, b):
        dx, dW, dU, db = np.zeros(x.shape), np.zeros(W.shape), np.zeros(U.shape), np.zeros(b.shape)
        for tokens, out, dtokens in zip(one_batch(x), one_batch(dh), one_batch(dx), strict=True):
            for t in range(1, len(tokens) + 1):
                net = self.run(tokens[:t], W, U, b)
                net.Wxh, net.Whh, net.bh = np.zeros((len(U), t)), U.T.copy(), np.zeros((len(U), 1))
                net.last_inputs = np.eye(t)[..., None]  # the gradient of Wxh then has a column dz for each token
                scale = SMALL / max(1.0, np.max(np.abs(out[t - 1])))
                net.backprop(out[t - 1][:, None] * scale, 1.0)
                dz = -net.Wxh.T / scale
                dtokens[:t] += dz @ W.T
                dW += tokens[:t].T @ dz
                dU += (U.T - net.Whh).T / scale
                db -= net.bh[:, 0] / scale
        return dx, dW, dU, db
