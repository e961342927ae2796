"""nicodjimenez/lstm: one LSTM cell at a time, on vectors. A gate's matrix has the columns of x, then those of h."""

import numpy as np
from checkout import checkout, importable, one_batch

importable(checkout("nicodjimenez/lstm"))

import lstm as theirs  # noqa: E402


class Lstm:
    """The forward and all gradients. In the checker's arrays the gates are columns in the order i, f, o, g."""

    def lstm(self, x, W, U, b):
        self.params = theirs.LstmParam(len(U), len(W))
        weights = np.split(np.vstack([W, U]).T, 4)
        for name, matrix, bias in zip("ifog", weights, np.split(b, 4), strict=True):
            setattr(self.params, f"w{name}", matrix)
            setattr(self.params, f"b{name}", bias)
        self.nets = [self.run(tokens) for tokens in one_batch(x)]
        states = [[node.state.h for node in net.lstm_node_list] for net in self.nets]
        return np.reshape(states, (*x.shape[:-1], len(U)))

    def run(self, tokens):
        net = theirs.LstmNetwork(self.params)
        for token in tokens:
            net.x_list_add(token)
        return net

    def lstm_backward(self, dh, x, W, U, b):
        self.lstm(x, W, U, b)
        dx = [self.back(net, dnet, len(W)) for net, dnet in zip(self.nets, one_batch(dh), strict=True)]
        dW = np.vstack([getattr(self.params, f"w{name}_diff") for name in "ifog"]).T
        db = np.concatenate([getattr(self.params, f"b{name}_diff") for name in "ifog"])
        return np.reshape(dx, x.shape), dW[: len(W)], dW[len(W) :], db

    def back(self, net, dh, width):
        """-> dx, node by node from the last. The repository does not keep dx; it follows from the biases' gradients."""
        after_h, after_s, dx = np.zeros(dh.shape[-1]), np.zeros(dh.shape[-1]), []
        for node, d in zip(net.lstm_node_list[::-1], dh[::-1], strict=True):
            before = {name: getattr(self.params, f"b{name}_diff").copy() for name in "ifog"}
            node.top_diff_is(d + after_h, after_s)
            gates = [(getattr(self.params, f"b{name}_diff") - before[name]) @ getattr(self.params, f"w{name}")
                     for name in "ifog"]  # fmt: skip
            dx.append(sum(gates)[:width])
            after_h, after_s = node.state.bottom_diff_h, node.state.bottom_diff_s
        return dx[::-1]
