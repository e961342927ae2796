"""mantasu/cs231n: solutions of a course's exercises. Functions return a cache; attention is a torch module."""

import torch
from checkout import bare_package, checkout, drawn, one_batch, with_autograd

FOLDER = checkout("mantasu/cs231n")
bare_package("assignment2", FOLDER / "assignment2" / "cs231n")
bare_package("assignment3", FOLDER / "assignment3" / "cs231n")

from assignment2 import layers, optim  # noqa: E402
from assignment3 import rnn_layers, transformer_layers  # noqa: E402


class Linear:
    def linear(self, x, W, b):
        y, self.cache = layers.affine_forward(one_batch(x, 1), W, b)
        return y.reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        dx, dW, db = layers.affine_backward(one_batch(dy, 1), self.cache)
        return dx.reshape(x.shape), dW, db


class Relu:
    def relu(self, x):
        return layers.relu_forward(x)[0]

    def relu_backward(self, dy, x):
        return layers.relu_backward(dy, layers.relu_forward(x)[1])


class LayerNorm:
    def layer_norm(self, x, gamma, beta, eps=1e-5):
        y, self.cache = layers.layernorm_forward(one_batch(x, 1), gamma, beta, {"eps": eps})
        return y.reshape(x.shape)

    def layer_norm_backward(self, dy, x, gamma, beta, eps=1e-5):
        self.layer_norm(x, gamma, beta, eps)
        dx, dgamma, dbeta = layers.layernorm_backward(one_batch(dy, 1), self.cache)
        return dx.reshape(x.shape), dgamma, dbeta


class Dropout:
    """p is the share kept. An entry is kept if its random number is below p, so `drawn` is given the inverted mask."""

    def dropout(self, x, keep, rate):
        mode = {"p": 1 - rate, "mode": "test" if keep is None else "train"}
        with drawn(None if keep is None else ~keep):
            y, self.cache = layers.dropout_forward(x, mode)
        return y

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return layers.dropout_backward(dy, self.cache)


class CrossEntropy:
    def cross_entropy(self, logits, targets):
        return layers.softmax_loss(one_batch(logits, 1), targets.reshape(-1))[0]

    def cross_entropy_backward(self, dloss, logits, targets):
        return dloss * layers.softmax_loss(one_batch(logits, 1), targets.reshape(-1))[1].reshape(logits.shape)


class Adam:
    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        config = {"learning_rate": lr, "beta1": beta1, "beta2": beta2, "epsilon": eps, "t": step - 1}
        vector[...], config = optim.adam(vector, gradient, config | dict(zip("mv", moments, strict=True)))
        moments[0][...], moments[1][...] = config["m"], config["v"]


class Embedding:
    def embedding(self, ids, E):
        return rnn_layers.word_embedding_forward(ids, E)[0]

    def embedding_backward(self, dy, ids, E):
        return rnn_layers.word_embedding_backward(dy, (ids, E))


def attended(q, k, W, b, heads, mask):
    names = ("query", "key", "value", "proj")
    given = {f"{name}.weight": w.T for name, w in zip(names, W, strict=True)}
    given |= {f"{name}.bias": x for name, x in zip(names, b, strict=True)}
    module = transformer_layers.MultiHeadAttention(len(W[0]), heads).eval()
    return torch.func.functional_call(module, given, (q, k, k, mask))


def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    return attended(x, x, (W_q, W_k, W_v, W_o), torch.zeros(4, len(W_q), dtype=x.dtype), heads, mask)


def biased_multi_head_attention(x, W_q, W_k, W_v, W_o, b_q, b_k, b_v, b_o, heads, mask=None):
    return attended(x, x, (W_q, W_k, W_v, W_o), (b_q, b_k, b_v, b_o), heads, mask)


def cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
    return attended(x, memory, (W_q, W_k, W_v, W_o), torch.zeros(4, len(W_q), dtype=x.dtype), heads, mask)


MultiHeadAttention = with_autograd(multi_head_attention)
BiasedMultiHeadAttention = with_autograd(biased_multi_head_attention)
CrossAttention = with_autograd(cross_attention)
