"""wiseodd/hipsternet: layers as functions with a cache, and recurrent networks on one-hot tokens."""

import numpy as np
from checkout import bare_package, checkout, drawn, one_batch, stand_in

bare_package("hipsternet", checkout("wiseodd/hipsternet") / "hipsternet")
stand_in("sklearn.utils", shuffle=None)

from hipsternet import layer, loss, neuralnet, utils  # noqa: E402


class Linear:
    def linear(self, x, W, b):
        y, self.cache = layer.fc_forward(one_batch(x, 1), W, b)
        return y.reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        dx, dW, db = layer.fc_backward(one_batch(dy, 1), self.cache)
        return dx.reshape(x.shape), dW, db


class Relu:
    def relu(self, x):
        return layer.relu_forward(x)[0]

    def relu_backward(self, dy, x):
        return layer.relu_backward(dy, x)


class Softmax:
    def softmax(self, s):
        return utils.softmax(one_batch(s, 1)).reshape(s.shape)


class CrossEntropy:
    """The loss without a weight penalty."""

    def cross_entropy(self, logits, targets):
        return loss.cross_entropy({}, one_batch(logits, 1), targets.reshape(-1))

    def cross_entropy_backward(self, dloss, logits, targets):
        return dloss * loss.dcross_entropy(one_batch(logits, 1), targets.reshape(-1)).reshape(logits.shape)


class Dropout:
    """p is the share that is kept. In evaluation mode the repository's networks omit the layer."""

    def dropout(self, x, keep, rate):
        if keep is None:
            return x.copy()
        with drawn(keep):
            y, self.cache = layer.dropout_forward(x, 1 - rate)
        return y

    def dropout_backward(self, dy, x, keep, rate):
        if keep is None:
            return dy.copy()
        self.dropout(x, keep, rate)
        return layer.dropout_backward(dy, self.cache)


class BatchNorm:
    def batch_norm(self, x, gamma, beta):
        rows, d = one_batch(x, 1), len(gamma)
        y, self.cache, _, _ = layer.bn_forward(rows, gamma, beta, (np.zeros(d), np.ones(d)))
        return y.reshape(x.shape)

    def batch_norm_backward(self, dy, x, gamma, beta):
        self.batch_norm(x, gamma, beta)
        dx, dgamma, dbeta = layer.bn_backward(one_batch(dy, 1), self.cache)
        return dx.reshape(x.shape), dgamma, dbeta


def states(network, x, model):
    """All states h, (..., n, H). For each token x the network gets token 0 and a model whose row 0 is x W."""
    found = []
    for tokens in one_batch(x):
        now = network.initial_state()
        for token in tokens:
            network.D, network.model = 1, model(token)
            _, now, _ = network.forward(0, now)
            found.append(now[0] if isinstance(now, tuple) else now)
    return np.reshape(found, (*x.shape[:-1], network.H))


def network(kind, width):
    """A network without random parameters; `states` sets them for each token."""
    found = object.__new__(kind)
    found.H = width
    return found


class Rnn:
    def rnn(self, x, W, U, b):
        net, H = network(neuralnet.RNN, len(U)), len(U)

        def model(token):
            return {"Wxh": (token @ W)[None], "Whh": U, "bh": b[None], "Why": np.eye(H), "by": np.zeros((1, H))}

        return states(net, x, model)


class Lstm:
    """The forward, with the state that it returns."""

    def lstm(self, x, W, U, b):
        net, H = network(neuralnet.LSTM, len(U)), len(U)

        def model(token):
            parts = (np.split(part, 4, axis=-1) for part in ((token @ W)[None], U, b[None]))
            found = {"Wy": np.eye(H), "by": np.zeros((1, H))}
            for name, row, matrix, bias in zip("ifoc", *parts, strict=True):
                found |= {f"W{name}": np.vstack([matrix, row]), f"b{name}": bias}
            return found

        return states(net, x, model)


class Gru:
    """The forward. z is the share of the new state; r multiplies h before U does; there is one bias."""

    def gru(self, x, W, U, b, c):
        net, H, sign = network(neuralnet.GRU, len(U)), len(U), np.repeat([1.0, -1.0, 1.0], len(U))

        def model(token):
            parts = (np.split(sign * part, 3, axis=-1) for part in ((token @ W)[None], U, (b + c)[None]))
            found = {"Wy": np.eye(H), "by": np.zeros((1, H))}
            for name, row, matrix, bias in zip("rzh", *parts, strict=True):
                found |= {f"W{name}": np.vstack([matrix, row]), f"b{name}": bias}
            return found

        return states(net, x, model)
