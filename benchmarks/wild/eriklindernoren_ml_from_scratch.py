"""eriklindernoren/ML-From-Scratch: activations with `gradient`, layers with passes, optimisers with `update`."""

from checkout import bare_package, checkout, drawn, importable, one_batch, stand_in

FOLDER = checkout("eriklindernoren/ML-From-Scratch")
importable(FOLDER)
stand_in("mlfromscratch.utils", make_diagonal=None, normalize=None, accuracy_score=None)
bare_package("mlfromscratch.deep_learning", FOLDER / "mlfromscratch" / "deep_learning")

from mlfromscratch.deep_learning import activation_functions, layers, optimizers  # noqa: E402


class Softmax:
    def softmax(self, s):
        return activation_functions.Softmax()(s)

    def softmax_backward(self, dp, s):
        return dp * activation_functions.Softmax().gradient(s)


class Relu:
    def relu(self, x):
        return activation_functions.ReLU()(x)

    def relu_backward(self, dy, x):
        return dy * activation_functions.ReLU().gradient(x)


class Adam:
    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        optimizer = optimizers.Adam(lr, beta1, beta2)
        optimizer.eps, (optimizer.m, optimizer.v) = eps, moments
        vector[...] = optimizer.update(vector, gradient)
        moments[0][...], moments[1][...] = optimizer.m, optimizer.v


class Dropout:
    """In training mode with a mask, in evaluation mode without one."""

    def dropout(self, x, keep, rate):
        self.layer = layers.Dropout(rate)
        with drawn(keep):
            return self.layer.forward_pass(x, training=keep is not None)

    def dropout_backward(self, dy, x, keep, rate):
        self.dropout(x, keep, rate)
        return self.layer.backward_pass(dy)


class Linear:
    """Its backward updates the weights at once, so the gradients are read from the optimisers' arguments."""

    def linear(self, x, W, b):
        self.layer = layers.Dense(W.shape[1])
        self.layer.W, self.layer.w0 = W, b[None]
        return self.layer.forward_pass(one_batch(x, 1)).reshape(*x.shape[:-1], W.shape[1])

    def linear_backward(self, dy, x, W, b):
        self.linear(x, W, b)
        self.layer.W_opt, self.layer.w0_opt = Taking(), Taking()
        dx = self.layer.backward_pass(one_batch(dy, 1)).reshape(x.shape)
        return dx, self.layer.W_opt.gradient, self.layer.w0_opt.gradient[0]


class Taking:
    """An optimiser that keeps the gradient and leaves the weights as they are."""

    def update(self, w, gradient):
        self.gradient = gradient
        return w
