"""karpathy/llm.c: the layer norm of doc/layernorm, with a backward by hand, on torch tensors (B, T, C)."""

import contextlib
import tempfile

from checkout import array, checkout, importable, tensor

importable(checkout("karpathy/llm.c") / "doc" / "layernorm")

with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # its import writes a file
    import layernorm


class LayerNorm:
    def layer_norm(self, x, gamma, beta):
        y, self.cache = layernorm.LayerNorm.forward(tensor(self.three(x)), tensor(gamma), tensor(beta))
        return array(y).reshape(x.shape)

    def layer_norm_backward(self, dy, x, gamma, beta):
        self.layer_norm(x, gamma, beta)
        dx, dgamma, dbeta = array(layernorm.LayerNorm.backward(tensor(self.three(dy)), self.cache))
        return dx.reshape(x.shape), dgamma, dbeta

    def three(self, x):
        """(..., C) as (B, 1, C): every token is a sequence of its own."""
        return x.reshape(x.size // x.shape[-1], 1, x.shape[-1])
