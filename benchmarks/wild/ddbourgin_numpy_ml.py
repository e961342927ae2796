"""ddbourgin/numpy-ml: layers with parameters and gradients in dictionaries, documented for (n_ex, n_in)."""

from types import SimpleNamespace

import numpy as np
from checkout import bare_package, checkout, drawn, one_batch

FOLDER = checkout("ddbourgin/numpy-ml") / "numpy_ml"
bare_package("numpy_ml", FOLDER)
bare_package("numpy_ml.utils", FOLDER / "utils")
bare_package("numpy_ml.neural_nets", FOLDER / "neural_nets")

from numpy_ml.neural_nets import activations, layers, losses, modules, optimizers, wrappers  # noqa: E402


def with_parameters(layer, **parameters):
    """The layer, initialised as in its first forward, with these parameters and with gradients of the same dtype."""
    layer._init_params()
    layer.parameters = parameters
    layer.gradients = {name: np.zeros_like(value) for name, value in parameters.items()}
    return layer


class Softmax:
    def softmax(self, s):
        self.layer = layers.Softmax()
        return self.layer.forward(one_batch(s, 1)).reshape(s.shape)

    def softmax_backward(self, dp, s):
        self.softmax(s)
        return self.layer.backward(one_batch(dp, 1)).reshape(s.shape)


class LayerNorm:
    def layer_norm(self, x, gamma, beta, eps=1e-5):
        layer = layers.LayerNorm1D(epsilon=eps)
        layer.n_in = layer.n_out = len(gamma)
        self.layer = with_parameters(layer, scaler=gamma, intercept=beta)
        return self.layer.forward(one_batch(x, 1)).reshape(x.shape)

    def layer_norm_backward(self, dy, x, gamma, beta, eps=1e-5):
        self.layer_norm(x, gamma, beta, eps)
        dx = self.layer.backward(one_batch(dy, 1)).reshape(x.shape)
        return dx, self.layer.gradients["scaler"], self.layer.gradients["intercept"]


class Embedding:
    def embedding(self, ids, E):
        self.layer = with_parameters(layers.Embedding(n_out=E.shape[1], vocab_size=len(E)), W=E)
        return self.layer.forward(ids)

    def embedding_backward(self, dy, ids, E):
        self.embedding(ids, E)
        self.layer.backward(dy)
        return self.layer.gradients["W"]


class Linear:
    def linear(self, x, W, b):
        layer = layers.FullyConnected(n_out=W.shape[1])
        layer.n_in = len(W)
        self.layer = with_parameters(layer, W=W, b=b[None])
        return self.layer.forward(one_batch(x, 1)).reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        dx = self.layer.backward(one_batch(dy, 1)).reshape(x.shape)
        return dx, self.layer.gradients["W"], self.layer.gradients["b"][0]


class Relu:
    def relu(self, x):
        return activations.ReLU().fn(x)

    def relu_backward(self, dy, x):
        return dy * activations.ReLU().grad(x)


class Gelu:
    def gelu(self, x, approximate=False):
        return activations.GELU(approximate).fn(x)

    def gelu_backward(self, dy, x, approximate=False):
        return dy * activations.GELU(approximate).grad(x)


class CrossEntropy:
    """The repository's sum over examples, divided by their number. The probabilities come from its own softmax."""

    def cross_entropy(self, logits, targets):
        one_hot, p = self.pair(logits, targets)
        return losses.CrossEntropy().loss(one_hot, p) / len(p)

    def cross_entropy_backward(self, dloss, logits, targets):
        one_hot, p = self.pair(logits, targets)
        return dloss * (losses.CrossEntropy().grad(one_hot, p) / len(p)).reshape(logits.shape)

    def pair(self, logits, targets):
        one_hot = np.eye(logits.shape[-1], dtype=logits.dtype)[targets.reshape(-1)]
        return one_hot, layers.Softmax().forward(one_batch(logits, 1))


class Adam:
    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        m, v = moments
        optimizer = optimizers.Adam(lr=lr, decay1=beta1, decay2=beta2, eps=eps)
        optimizer.cache["w"] = {"t": step - 1, "mean": m, "var": v}
        vector[...] = optimizer.update(vector, gradient, "w")
        m[...], v[...] = optimizer.cache["w"]["mean"], optimizer.cache["w"]["var"]


class Dropout:
    """Dropout around the identity. Without a mask the layer is frozen, which switches dropout off."""

    def dropout(self, x, keep, rate):
        identity = SimpleNamespace(
            forward=lambda X, retain: X, backward=lambda dy, retain: dy, trainable=keep is not None, hyperparameters={}
        )
        self.layer = wrappers.Dropout(identity, rate)
        with drawn(keep):
            return self.layer.forward(x)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return self.layer.backward(dy)


class Attention:
    def attention(self, q, k, v):
        self.layer = layers.DotProductAttention()
        return self.layer.forward(q, k, v)

    def attention_backward(self, dout, q, k, v):
        self.attention(q, k, v)
        return self.layer.backward(dout)


class MultiHeadAttention:
    def multi_head_attention(self, x, W_q, W_k, W_v, W_o, heads):
        self.module = modules.MultiHeadedAttentionModule(n_heads=heads)
        self.module.kqv_dim = x.shape[-1]
        self.module._init_params()
        for name, W in zip("QKVO", (W_q, W_k, W_v, W_o), strict=True):
            layer = self.module.projections[name]._base_layer
            layer.n_in = len(W)
            with_parameters(layer, W=W, b=np.zeros((1, len(W)), W.dtype))
        batch = one_batch(x)
        return self.module.forward(batch, batch, batch).reshape(x.shape)

    def multi_head_attention_backward(self, dy, x, W_q, W_k, W_v, W_o, heads):
        self.multi_head_attention(x, W_q, W_k, W_v, W_o, heads)
        dx = sum(self.module.backward(one_batch(dy)))
        return dx.reshape(x.shape), *(self.module.projections[name].gradients["W"] for name in "QKVO")
