"""AkiRusProd/numpy-transformer: classes with forward and backward, which keep gradients on self."""

import numpy as np
from checkout import checkout, drawn, importable, one_batch, stand_in

importable(checkout("AkiRusProd/numpy-transformer"))
stand_in("numba", njit=lambda f: f)

from transformer import activations, losses, optimizers  # noqa: E402
from transformer.layers.base.dense import Dense  # noqa: E402
from transformer.layers.base.dropout import Dropout as DropoutLayer  # noqa: E402
from transformer.layers.base.embedding import Embedding as EmbeddingLayer  # noqa: E402
from transformer.layers.base.layer_norm import LayerNormalization  # noqa: E402
from transformer.layers.combined.positionwise_feed_forward import PositionwiseFeedforward  # noqa: E402
from transformer.layers.combined.self_attention import MultiHeadAttention as Heads  # noqa: E402


class Softmax:
    def softmax(self, s):
        return activations.Softmax().forward(s)

    def softmax_backward(self, dp, s):
        layer = activations.Softmax()
        layer.forward(s)
        return layer.backward(dp)


class LayerNorm:
    def layer_norm(self, x, gamma, beta, eps=1e-5):
        self.layer = LayerNormalization(gamma.shape, eps, x.dtype)
        self.layer.gamma, self.layer.beta = gamma, beta
        return self.layer.forward(x)

    def layer_norm_backward(self, dy, x, gamma, beta, eps=1e-5):
        self.layer_norm(x, gamma, beta, eps)
        return self.layer.backward(dy), *self.layer.get_grads()


class CrossEntropy:
    """The loss of a batch is its mean, as in transformer.py."""

    def cross_entropy(self, logits, targets):
        self.loss = losses.CrossEntropy()
        return self.loss.loss(one_batch(logits, 1), targets.reshape(-1)).mean()

    def cross_entropy_backward(self, dloss, logits, targets):
        self.cross_entropy(logits, targets)
        gradient = self.loss.derivative(one_batch(logits, 1), targets.reshape(-1))
        return dloss * gradient.reshape(logits.shape)


class MultiHeadAttention:
    """Evaluated without dropout. The mask is expanded to every entry of the batch."""

    def multi_head_attention(self, x, W_q, W_k, W_v, W_o, heads, mask=None):
        self.layer = Heads(x.shape[-1], heads, dropout=0.0, data_type=x.dtype)
        self.projections = [getattr(self.layer, f"{name}_linear") for name in "QKVO"]
        for dense, W in zip(self.projections, (W_q, W_k, W_v, W_o), strict=True):
            dense.w = W
        batch = one_batch(x)
        full = np.broadcast_to(True if mask is None else mask, (len(batch), x.shape[-2], x.shape[-2]))
        return self.layer.forward(batch, batch, batch, full, training=False)[0].reshape(x.shape)

    def multi_head_attention_backward(self, dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
        self.multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask)
        dq, dk, dv = self.layer.backward(one_batch(dy))
        return (dq + dk + dv).reshape(x.shape), *(dense.grad_w for dense in self.projections)


class CrossAttention:
    def cross_attention(self, x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
        self.layer = Heads(x.shape[-1], heads, dropout=0.0, data_type=x.dtype)
        self.projections = [getattr(self.layer, f"{name}_linear") for name in "QKVO"]
        for dense, W in zip(self.projections, (W_q, W_k, W_v, W_o), strict=True):
            dense.w = W
        queries, keys = one_batch(x), one_batch(memory)
        full = np.broadcast_to(True if mask is None else mask, (len(queries), x.shape[-2], memory.shape[-2]))
        return self.layer.forward(queries, keys, keys, full, training=False)[0].reshape(x.shape)

    def cross_attention_backward(self, dy, x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
        self.cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask)
        dq, dk, dv = self.layer.backward(one_batch(dy))
        return dq.reshape(x.shape), (dk + dv).reshape(memory.shape), *(dense.grad_w for dense in self.projections)


class Gelu:
    def gelu(self, x):
        return activations.GELU().forward(x)

    def gelu_backward(self, dy, x):
        layer = activations.GELU()
        layer.forward(x)
        return layer.backward(dy)


class Relu:
    def relu(self, x):
        return activations.ReLU().forward(x)

    def relu_backward(self, dy, x):
        layer = activations.ReLU()
        layer.forward(x)
        return layer.backward(dy)


class Linear:
    def linear(self, x, W, b):
        self.layer = Dense(W.shape[1], W.shape[0], data_type=W.dtype)
        self.layer.w, self.layer.b = W, b
        return self.layer.forward(x.reshape(1, -1, len(W))).reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        return self.layer.backward(dy.reshape(1, -1, W.shape[1])).reshape(x.shape), *self.layer.get_grads()


class FeedForward:
    def feed_forward(self, x, W_1, b_1, W_2, b_2):
        self.layer = PositionwiseFeedforward(*W_1.shape, dropout=0.0)
        self.layer.fc_1.w, self.layer.fc_1.b, self.layer.fc_2.w, self.layer.fc_2.b = W_1, b_1, W_2, b_2
        return self.layer.forward(x.reshape(1, -1, x.shape[-1]), training=False).reshape(x.shape)

    def feed_forward_backward(self, dy, x, W_1, b_1, W_2, b_2):
        self.feed_forward(x, W_1, b_1, W_2, b_2)
        dx = self.layer.backward(dy.reshape(1, -1, x.shape[-1]))
        return dx.reshape(x.shape), *self.layer.fc_1.get_grads(), *self.layer.fc_2.get_grads()


class Embedding:
    def embedding(self, ids, E):
        self.layer = EmbeddingLayer(*E.shape, data_type=E.dtype)
        self.layer.w = E
        return self.layer.forward(ids.reshape(1, -1)).reshape(*ids.shape, E.shape[1])

    def embedding_backward(self, dy, ids, E):
        self.embedding(ids, E)
        self.layer.backward(dy.reshape(1, -1, E.shape[1]))
        return self.layer.grad_w


class Adam:
    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        m, v = moments
        optimizer = optimizers.Adam(alpha=lr, beta=beta1, beta2=beta2, epsilon=eps)
        _, v[...], m[...], _, _ = optimizer.update(gradient, vector, v, m, None, None, step)


class AdamInTraining:
    """Adam as a layer calls it: `update_weights(3)`, as for the third layer, at every step (modules/encoder.py)."""

    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        layer = LayerNormalization(vector.shape, data_type=vector.dtype)
        layer.set_optimizer(optimizers.Adam(alpha=lr, beta=beta1, beta2=beta2, epsilon=eps))
        layer.gamma, (layer.mg, layer.vg) = vector, moments
        layer.set_grads((gradient, np.zeros_like(gradient)))
        layer.update_weights(3)
        moments[0][...], moments[1][...] = layer.mg, layer.vg


class Dropout:
    """In training mode with a mask, in evaluation mode without one."""

    def dropout(self, x, keep, rate):
        self.layer = DropoutLayer(rate, data_type=x.dtype)
        with drawn(keep):
            return self.layer.forward(x, training=keep is not None)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return self.layer.backward(dy)
