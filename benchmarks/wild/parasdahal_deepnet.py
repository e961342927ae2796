"""parasdahal/deepnet: layers with forward and backward, on (N, D)."""

from checkout import checkout, drawn, importable, one_batch

importable(checkout("parasdahal/deepnet"))

from deepnet import layers, loss, utils  # noqa: E402


class Softmax:
    def softmax(self, s):
        return utils.softmax(one_batch(s, 1)).reshape(s.shape)


class Linear:
    def linear(self, x, W, b):
        self.layer = layers.FullyConnected(*W.shape)
        self.layer.W, self.layer.b = W, b
        return self.layer.forward(one_batch(x, 1)).reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        dx, parameters = self.layer.backward(one_batch(dy, 1))
        return dx.reshape(x.shape), *parameters


class Relu:
    def relu(self, x):
        return layers.ReLU().forward(x)

    def relu_backward(self, dy, x):
        layer = layers.ReLU()
        layer.forward(x)
        return layer.backward(dy)[0]


class Dropout:
    """In training mode, the only one. `prob` is the share that is kept."""

    def dropout(self, x, keep, rate):
        self.layer = layers.Dropout(1 - rate)
        with drawn(keep):
            return self.layer.forward(x)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return self.layer.backward(dy)[0]


class CrossEntropy:
    def cross_entropy(self, logits, targets):
        return loss.SoftmaxLoss(one_batch(logits, 1), targets.reshape(-1))[0]

    def cross_entropy_backward(self, dloss, logits, targets):
        return dloss * loss.SoftmaxLoss(one_batch(logits, 1), targets.reshape(-1))[1].reshape(logits.shape)
