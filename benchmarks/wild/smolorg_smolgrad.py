"""smolorg/smolgrad: float32 tensors with automatic differentiation, and modules of them, here on NumPy."""

import contextlib
import io

import numpy as np
from checkout import checkout, drawn, importable

importable(checkout("smolorg/smolgrad"))

with contextlib.redirect_stdout(io.StringIO()):  # its import prints that MLX is missing
    from smolgrad import Tensor, nn
    from smolgrad.optims.adam import Adam as Theirs


def variable(x):
    return Tensor(x, requires_grad=True, use_np=True)


def gradients(y, dy, *inputs):
    """The gradients of <dy, y> with respect to the inputs, as arrays in the dtype of dy."""
    (y * Tensor(dy, use_np=True)).sum().backward()
    return tuple(x.grad.astype(dy.dtype) for x in inputs)


class Relu:
    def relu(self, x):
        self.x = variable(x)
        self.y = nn.relu(self.x)
        return self.y.data.astype(x.dtype)

    def relu_backward(self, dy, x):
        self.relu(x)
        return gradients(self.y, dy, self.x)[0]


class Softmax:
    def softmax(self, s):
        self.s = variable(s)
        self.p = nn.softmax(self.s)
        return self.p.data.astype(s.dtype)

    def softmax_backward(self, dp, s):
        self.softmax(s)
        return gradients(self.p, dp, self.s)[0]


class Linear:
    def linear(self, x, W, b):
        module = nn.Linear(*W.shape, device="cpu")
        module.weight, module.bias = variable(W.T), variable(b)
        self.module, self.x = module, variable(x)
        self.y = module.forward(self.x)
        return self.y.data.astype(x.dtype)

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        dx, dW, db = gradients(self.y, dy, self.x, self.module.weight, self.module.bias)
        return dx, dW.T, db


class LayerNorm:
    def layer_norm(self, x, gamma, beta, eps=1e-5):
        self.module, self.x = nn.LayerNorm(len(gamma), eps, device="cpu"), variable(x)
        self.module.weight, self.module.bias = variable(gamma), variable(beta)
        self.y = self.module.forward(self.x)
        return self.y.data.astype(x.dtype)

    def layer_norm_backward(self, dy, x, gamma, beta, eps=1e-5):
        self.layer_norm(x, gamma, beta, eps)
        return gradients(self.y, dy, self.x, self.module.weight, self.module.bias)


class Embedding:
    def embedding(self, ids, E):
        self.module = nn.Embedding(*E.shape, device="cpu")
        self.module.weight = variable(E)
        self.y = self.module.forward(Tensor(ids, dtype=np.int64, use_np=True))
        return self.y.data.astype(E.dtype)

    def embedding_backward(self, dy, ids, E):
        self.embedding(ids, E)
        return gradients(self.y, dy, self.module.weight)[0]


class Dropout:
    def dropout(self, x, keep, rate):
        self.module, self.x = nn.Dropout(rate, device="cpu"), variable(x)
        self.module.is_training = keep is not None
        with drawn(keep):
            self.y = self.module.forward(self.x)
        return self.y.data.astype(x.dtype)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return gradients(self.y, dy, self.x)[0]


class Bce:
    """The sigmoid, then the loss of its probabilities, averaged over predictions."""

    def bce_with_logits(self, z, targets):
        probabilities = nn.sigmoid(Tensor(z.reshape(-1), use_np=True))
        return float(nn.BCELoss().forward(probabilities, Tensor(targets.reshape(-1), use_np=True)).data)


class Adam:
    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-6):
        parameter = variable(vector)
        theirs = Theirs([parameter], lr, beta1, beta2, eps, device="cpu")
        parameter.grad, theirs.mo1, theirs.mo2, theirs.timestep = gradient, [moments[0]], [moments[1]], step - 1
        theirs.step()
        vector[...] = parameter.data
