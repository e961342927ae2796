"""JackHanke/nets: activations with `function_prime`, attention on (batch, row, d)."""

import numpy as np
from checkout import checkout, importable, one_batch

importable(checkout("JackHanke/nets"))

from functions import activation_funcs, optimizers  # noqa: E402
from models.attention.attention import MultiHeadAttention as Heads  # noqa: E402


class Softmax:
    def softmax(self, s):
        return activation_funcs.SoftMax().function(one_batch(s)).reshape(s.shape)

    def softmax_backward(self, dp, s):
        return dp * activation_funcs.SoftMax().function_prime(one_batch(s)).reshape(s.shape)


class Relu:
    def relu(self, x):
        return activation_funcs.ReLu().function(x)

    def relu_backward(self, dy, x):
        return dy * activation_funcs.ReLu().function_prime(x)


class Adam:
    """The only layer with weights is layer 2 of a network; the first two entries of the lists are no layers."""

    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        nothing, m, v = np.zeros(1, vector.dtype), *moments
        optimizer = optimizers.ADAM([-1, -1, vector], [-1, -1, nothing], lr, beta1, beta2, eps)
        optimizer.t, optimizer.m[0][2], optimizer.v[0][2] = step - 1, m, v
        optimizer.step([-1, -1, vector], [-1, -1, gradient], [-1, -1, nothing.copy()], [-1, -1, nothing])
        m[...], v[...] = optimizer.m[0][2], optimizer.v[0][2]


class MultiHeadAttention:
    """The forward alone, because the backward returns no gradient of the input."""

    def multi_head_attention(self, x, W_q, W_k, W_v, W_o, heads):
        q, k, v = (np.split(W, heads, axis=1) for W in (W_q, W_k, W_v))
        layer = Heads(x.shape[-1], heads, activation_funcs.SoftMax(), q, k, v, W_o)
        batch = one_batch(x)
        return layer._forward(batch, batch, batch).reshape(x.shape)
