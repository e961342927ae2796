"""oreilly-japan/deep-learning-from-scratch-2: a book's layers for text, (batch, time, d)."""

import numpy as np
from checkout import bare_package, checkout, drawn, importable, one_batch

importable(checkout("oreilly-japan/deep-learning-from-scratch-2") / "ch08")
bare_package("common", checkout("oreilly-japan/deep-learning-from-scratch-2") / "common")

import attention_layer  # noqa: E402
from common import layers, time_layers  # noqa: E402


class Softmax:
    def softmax(self, s):
        self.layer = layers.Softmax()
        return self.layer.forward(one_batch(s, 1)).reshape(s.shape)

    def softmax_backward(self, dp, s):
        self.softmax(s)
        return self.layer.backward(one_batch(dp, 1)).reshape(s.shape)


class CrossEntropy:
    def cross_entropy(self, logits, targets):
        self.layer = layers.SoftmaxWithLoss()
        return self.layer.forward(one_batch(logits, 1), targets.reshape(-1))

    def cross_entropy_backward(self, dloss, logits, targets):
        self.cross_entropy(logits, targets)
        return self.layer.backward(dloss).reshape(logits.shape)


class Bce:
    def bce_with_logits(self, z, targets):
        self.layer = layers.SigmoidWithLoss()
        return self.layer.forward(z.reshape(-1), targets.reshape(-1).astype(int))

    def bce_with_logits_backward(self, dloss, z, targets):
        self.bce_with_logits(z, targets)
        return self.layer.backward(dloss).reshape(z.shape)


class Dropout:
    def dropout(self, x, keep, rate):
        self.layer = time_layers.TimeDropout(rate)
        self.layer.train_flg = keep is not None
        with drawn(keep):
            return self.layer.forward(x)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return self.layer.backward(dy)


class Embedding:
    def embedding(self, ids, E):
        self.layer = layers.Embedding(E)
        return self.layer.forward(ids)

    def embedding_backward(self, dy, ids, E):
        self.embedding(ids, E)
        self.layer.backward(dy)
        return self.layer.grads[0]


def ran(make, x, W, U, b):
    """-> the layer over time that `make` gives, and its states (..., n, H)."""
    layer = make(W, U, b)
    return layer, layer.forward(one_batch(x)).reshape(*x.shape[:-1], len(U))


class Rnn:
    def rnn(self, x, W, U, b):
        self.layer, h = ran(time_layers.TimeRNN, x, W, U, b)
        return h

    def rnn_backward(self, dh, x, W, U, b):
        self.rnn(x, W, U, b)
        return self.layer.backward(one_batch(dh)).reshape(x.shape), *self.layer.grads


class Lstm:
    """The repository orders the gates' columns f, g, i, o."""

    def lstm(self, x, W, U, b):
        self.layer, h = ran(time_layers.TimeLSTM, x, *(self.moved(part, (1, 3, 0, 2)) for part in (W, U, b)))
        return h

    def lstm_backward(self, dh, x, W, U, b):
        self.lstm(x, W, U, b)
        dx = self.layer.backward(one_batch(dh)).reshape(x.shape)
        return dx, *(self.moved(part, (2, 0, 3, 1)) for part in self.layer.grads)

    def moved(self, part, order):
        columns = np.split(part, 4, axis=-1)
        return np.concatenate([columns[i] for i in order], axis=-1)


class Gru:
    """Columns are z, r, h. z is the share of the new state; r multiplies h before U does; there is one bias."""

    def gru(self, x, W, U, b, c):
        self.layer, h = ran(time_layers.TimeGRU, x, *(self.moved(part) for part in (W, U, b + c)))
        return h

    def gru_backward(self, dh, x, W, U, b, c):
        self.gru(x, W, U, b, c)
        dx = self.layer.backward(one_batch(dh)).reshape(x.shape)
        dW, dU, db = (self.moved(part, back=True) for part in self.layer.grads)
        return dx, dW, dU, db, db.copy()

    def moved(self, part, back=False):
        first, second, new = np.split(part, 3, axis=-1)
        return np.concatenate([second, -first, new] if back else [-second, first, new], axis=-1)


class Attention:
    """One query at a time. The repository does not scale scores, so queries are divided by √d here."""

    def attention(self, q, k, v):
        keys, values, self.scale = one_batch(k), one_batch(v), q.dtype.type(q.shape[-1] ** -0.5)
        self.pairs, out = [], []
        for query in np.moveaxis(one_batch(q), 1, 0):
            weight, total = attention_layer.AttentionWeight(), attention_layer.WeightSum()
            out.append(total.forward(values, weight.forward(keys, self.scale * query)))
            self.pairs.append((weight, total))
        return np.stack(out, axis=1).reshape(*q.shape[:-1], v.shape[-1])

    def attention_backward(self, dout, q, k, v):
        self.attention(q, k, v)
        dq, dk, dv = [], 0, 0
        for (weight, total), d in zip(self.pairs, np.moveaxis(one_batch(dout), 1, 0), strict=True):
            dvalues, dweights = total.backward(d)
            dkeys, dquery = weight.backward(dweights)
            dq.append(self.scale * dquery)
            dk, dv = dk + dkeys, dv + dvalues
        return np.stack(dq, axis=1).reshape(q.shape), dk.reshape(k.shape), dv.reshape(v.shape)
