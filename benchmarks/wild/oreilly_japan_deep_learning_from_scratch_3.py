"""oreilly-japan/deep-learning-from-scratch-3: DeZero, variables with automatic differentiation."""

import numpy as np
from checkout import checkout, drawn, importable, one_batch

importable(checkout("oreilly-japan/deep-learning-from-scratch-3"))

import dezero  # noqa: E402
from dezero import functions as F  # noqa: E402
from dezero import layers, optimizers  # noqa: E402


def gradients(y, dy, *inputs):
    """The gradients of <dy, y> with respect to the inputs, as arrays."""
    y.grad = dezero.Variable(np.array(dy))
    y.backward()
    return tuple(x.grad.data for x in inputs)


def variables(*arrays):
    return tuple(dezero.Variable(x) for x in arrays)


class Softmax:
    def softmax(self, s):
        self.s = dezero.Variable(one_batch(s, 1))
        self.p = F.softmax(self.s)
        return self.p.data.reshape(s.shape)

    def softmax_backward(self, dp, s):
        self.softmax(s)
        return gradients(self.p, one_batch(dp, 1), self.s)[0].reshape(s.shape)


class CrossEntropy:
    def cross_entropy(self, logits, targets):
        self.x = dezero.Variable(one_batch(logits, 1))
        self.loss = F.softmax_cross_entropy(self.x, targets.reshape(-1))
        return float(self.loss.data)

    def cross_entropy_backward(self, dloss, logits, targets):
        self.cross_entropy(logits, targets)
        return gradients(self.loss, np.asarray(dloss, logits.dtype), self.x)[0].reshape(logits.shape)


class Bce:
    def bce_with_logits(self, z, targets):
        self.z = dezero.Variable(z.reshape(-1))
        self.loss = F.sigmoid_cross_entropy(self.z, dezero.Variable(targets.reshape(-1)))
        return float(self.loss.data)

    def bce_with_logits_backward(self, dloss, z, targets):
        self.bce_with_logits(z, targets)
        return gradients(self.loss, np.asarray(dloss, z.dtype), self.z)[0].reshape(z.shape)


class Linear:
    def linear(self, x, W, b=None):
        self.given = variables(one_batch(x, 1), W, *([] if b is None else [b]))
        self.y = F.linear(*self.given)
        return self.y.data.reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b=None):
        self.linear(x, W, b)
        dx, dW, *db = gradients(self.y, one_batch(dy, 1), *self.given)
        return dx.reshape(x.shape), dW, db[0] if db else None


class BatchNorm:
    def batch_norm(self, x, gamma, beta, eps=1e-5):
        self.given = variables(one_batch(x, 1), gamma, beta)
        d = len(gamma)
        self.y = F.batch_nrom(*self.given, np.zeros(d, x.dtype), np.ones(d, x.dtype), eps=eps)
        return self.y.data.reshape(x.shape)

    def batch_norm_backward(self, dy, x, gamma, beta, eps=1e-5):
        self.batch_norm(x, gamma, beta, eps)
        dx, dgamma, dbeta = gradients(self.y, one_batch(dy, 1), *self.given)
        return dx.reshape(x.shape), dgamma, dbeta


class Dropout:
    def dropout(self, x, keep, rate):
        self.x = dezero.Variable(x)
        with drawn(keep), dezero.using_config("train", keep is not None):
            self.y = F.dropout(self.x, rate)
        return self.y.data

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return dy.copy() if keep is None else gradients(self.y, dy, self.x)[0]


class Embedding:
    def embedding(self, ids, E):
        self.E = dezero.Variable(E)
        self.y = F.embed_id(ids, self.E)
        return self.y.data

    def embedding_backward(self, dy, ids, E):
        self.embedding(ids, E)
        return gradients(self.y, dy, self.E)[0]


class Adam:
    """eps is added before the bias correction of v."""

    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        parameter = dezero.Parameter(vector)
        parameter.grad = dezero.Variable(gradient)
        theirs = optimizers.Adam(lr, beta1, beta2, eps)
        theirs.t, theirs.ms[id(parameter)], theirs.vs[id(parameter)] = step, *moments
        theirs.update_one(parameter)


def over_time(layer, x):
    """The states of a recurrent layer: a list of variables (batch, H), and one array (..., n, H)."""
    layer.reset_state()
    states = [layer(dezero.Variable(np.ascontiguousarray(token))) for token in np.moveaxis(one_batch(x), 1, 0)]
    return states, np.stack([h.data for h in states], axis=1).reshape(*x.shape[:-1], -1)


class Rnn:
    """The forward alone."""

    def rnn(self, x, W, U, b):
        layer = layers.RNN(len(U), len(W))
        layer.x2h.W.data, layer.x2h.b.data, layer.h2h.W.data = W, b, self.recurrent(layer, U)
        return over_time(layer, x)[1]

    def recurrent(self, layer, U):
        """U, resized to the matrix that the layer makes: a wrong shape if states and tokens differ in width."""
        return U if layer.h2h.W.data.shape == U.shape else np.resize(U, layer.h2h.W.data.shape)


class Lstm:
    """The forward alone."""

    def lstm(self, x, W, U, b):
        layer = layers.LSTM(len(U), len(W))
        for name, rows, matrix, bias in zip("ifou", *(np.split(part, 4, axis=-1) for part in (W, U, b)), strict=True):
            getattr(layer, f"x2{name}").W.data, getattr(layer, f"x2{name}").b.data = rows, bias
            getattr(layer, f"h2{name}").W.data = matrix
        return over_time(layer, x)[1]
