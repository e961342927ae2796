"""vzhou842/cnn-from-scratch: a softmax layer."""

import numpy as np
from checkout import checkout, importable

importable(checkout("vzhou842/cnn-from-scratch"))

import softmax as theirs  # noqa: E402


class Softmax:
    """The layer takes one row, with the identity as weights. Its backward takes a gradient with one nonzero entry."""

    def softmax(self, s):
        return np.apply_along_axis(self.layer(s.shape[-1]).forward, -1, s)

    def softmax_backward(self, dp, s):
        ds = np.zeros(s.shape)
        for row in np.ndindex(s.shape[:-1]):
            layer = self.layer(s.shape[-1])
            layer.forward(s[row])
            for i, number in enumerate(dp[row]):
                if number != 0:
                    ds[row] += layer.backprop(np.where(np.arange(len(dp[row])) == i, number, 0.0), 0.0)
        return ds

    def layer(self, width):
        layer = theirs.Softmax(width, width)
        layer.weights = np.eye(width)
        return layer
