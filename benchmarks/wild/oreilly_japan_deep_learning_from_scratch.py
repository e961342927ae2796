"""oreilly-japan/deep-learning-from-scratch: a book's layers, with forward and backward on (batch, d)."""

import numpy as np
from checkout import bare_package, checkout, drawn, one_batch

bare_package("common", checkout("oreilly-japan/deep-learning-from-scratch") / "common")

from common import functions, layers, optimizer  # noqa: E402


class Relu:
    def relu(self, x):
        return layers.Relu().forward(x)

    def relu_backward(self, dy, x):
        layer = layers.Relu()
        layer.forward(x)
        return layer.backward(dy)


class Linear:
    def linear(self, x, W, b):
        self.layer = layers.Affine(W, b)
        return self.layer.forward(one_batch(x, 1)).reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        dx = self.layer.backward(one_batch(dy, 1)).reshape(x.shape)
        return dx, self.layer.dW, self.layer.db


class Softmax:
    def softmax(self, s):
        return functions.softmax(s)


class CrossEntropy:
    def cross_entropy(self, logits, targets):
        self.layer = layers.SoftmaxWithLoss()
        return self.layer.forward(one_batch(logits, 1), targets.reshape(-1))

    def cross_entropy_backward(self, dloss, logits, targets):
        self.cross_entropy(logits, targets)
        return dloss * self.layer.backward().reshape(logits.shape)


class Dropout:
    def dropout(self, x, keep, rate):
        self.layer = layers.Dropout(rate)
        with drawn(keep):
            return self.layer.forward(x, keep is not None)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return self.layer.backward(dy)


class BatchNorm:
    def batch_norm(self, x, gamma, beta):
        self.layer = layers.BatchNormalization(gamma, beta)
        return self.layer.forward(one_batch(x, 1)).reshape(x.shape)

    def batch_norm_backward(self, dy, x, gamma, beta):
        self.batch_norm(x, gamma, beta)
        dx = self.layer.backward(one_batch(dy, 1)).reshape(x.shape)
        return dx, self.layer.dgamma, self.layer.dbeta


class Conv2d:
    """Theirs has channels before pixels and kernels (out, in, K, L). It cannot pad sides unequally, so np.pad does."""

    def conv2d(self, x, W, padding="same"):
        (K, L), (h, w) = W.shape[:2], x.shape[-3:-1]
        top, left = ((K - 1) // 2, (L - 1) // 2) if padding == "same" else (0, 0)
        edges = ((top, K - 1 - top), (left, L - 1 - left)) if padding == "same" else ((0, 0), (0, 0))
        self.inner = slice(top, top + h), slice(left, left + w)
        images = np.pad(one_batch(x, 3).transpose(0, 3, 1, 2), ((0, 0), (0, 0), *edges))
        self.layer = layers.Convolution(W.transpose(3, 2, 0, 1), np.zeros(W.shape[3], W.dtype))
        y = self.layer.forward(images).transpose(0, 2, 3, 1)
        return y.reshape(*x.shape[:-3], *y.shape[1:])

    def conv2d_backward(self, dy, x, W, padding="same"):
        self.conv2d(x, W, padding)
        dx = self.layer.backward(one_batch(dy, 3).transpose(0, 3, 1, 2))[:, :, *self.inner].transpose(0, 2, 3, 1)
        return dx.reshape(x.shape), self.layer.dW.transpose(2, 3, 1, 0)


class Adam:
    """eps is fixed at 1e-7, and added before the bias correction of v."""

    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98):
        theirs = optimizer.Adam(lr, beta1, beta2)
        theirs.iter, theirs.m, theirs.v = step - 1, {0: moments[0]}, {0: moments[1]}
        theirs.update({0: vector}, {0: gradient})
