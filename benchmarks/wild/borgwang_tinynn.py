"""borgwang/tinynn: layers with forward and backward, losses with loss and grad."""

import numpy as np
from checkout import bare_package, checkout, drawn, one_batch

bare_package("tinynn", checkout("borgwang/tinynn") / "tinynn")

from tinynn.core import layer as layers  # noqa: E402
from tinynn.core import loss as losses  # noqa: E402
from tinynn.core import optimizer as optimizers  # noqa: E402
from tinynn.utils import math  # noqa: E402


class Softmax:
    def softmax(self, s):
        return math.softmax(s)


class CrossEntropy:
    def cross_entropy(self, logits, targets):
        return losses.SoftmaxCrossEntropy().loss(*self.pair(logits, targets))

    def cross_entropy_backward(self, dloss, logits, targets):
        return dloss * losses.SoftmaxCrossEntropy().grad(*self.pair(logits, targets)).reshape(logits.shape)

    def pair(self, logits, targets):
        one_hot = np.eye(logits.shape[-1], dtype=logits.dtype)[targets.reshape(-1)]
        return one_batch(logits, 1), one_hot


class Bce:
    def bce_with_logits(self, z, targets):
        return losses.SigmoidCrossEntropy().loss(z.reshape(-1), targets.reshape(-1))

    def bce_with_logits_backward(self, dloss, z, targets):
        return dloss * losses.SigmoidCrossEntropy().grad(z.reshape(-1), targets.reshape(-1)).reshape(z.shape)


class Linear:
    def linear(self, x, W, b):
        self.layer = layers.Dense(W.shape[1])
        self.layer.params = {"w": W, "b": b}
        self.layer.is_init = True
        return self.layer.forward(one_batch(x, 1)).reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        dx = self.layer.backward(one_batch(dy, 1)).reshape(x.shape)
        return dx, self.layer.grads["w"], self.layer.grads["b"]


class Relu:
    def relu(self, x):
        return layers.ReLU().forward(x)

    def relu_backward(self, dy, x):
        layer = layers.ReLU()
        layer.forward(x)
        return layer.backward(dy)


class Gelu:
    def gelu(self, x):
        return layers.GELU().forward(x)

    def gelu_backward(self, dy, x):
        layer = layers.GELU()
        layer.forward(x)
        return layer.backward(dy)


class Dropout:
    """In training mode with a mask. Evaluation mode, without a mask, has no backward."""

    def dropout(self, x, keep, rate):
        self.layer = layers.Dropout(keep_prob=1 - rate)
        self.layer.is_training = keep is not None
        with drawn(keep):
            return self.layer.forward(x)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return self.layer.backward(dy)


class Adam:
    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        optimizer = optimizers.Adam(lr, beta1, beta2, eps)
        optimizer._t, (optimizer._m, optimizer._v) = step - 1, moments
        vector += optimizer._compute_step(gradient)
