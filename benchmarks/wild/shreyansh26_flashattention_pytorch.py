"""shreyansh26/FlashAttention-PyTorch: attention in tiles, with its backward, (batch, heads, n, d), on one device."""

import torch
from checkout import array, checkout, importable, tensor

importable(checkout("shreyansh26/FlashAttention-PyTorch"))

import flash_attention as theirs  # noqa: E402

theirs.BLOCK_SIZE = 3
to = torch.Tensor.to
torch.Tensor.to = lambda x, *args, **kwargs: x if kwargs == {"device": "cuda"} else to(x, *args, **kwargs)


class FlashAttention:
    """Without masking: the repository requires a key mask, which is all ones here."""

    def flash_attention(self, q, k, v):
        self.given = [tensor(x).reshape(-1, 1, *x.shape[-2:]) for x in (q, k, v)]
        self.mask = torch.ones(len(self.given[1]), k.shape[-2])
        self.results = theirs.flash_attention_forward(*self.given, self.mask)
        return array(self.results[0]).reshape(*q.shape[:-1], v.shape[-1]).copy()

    def flash_attention_backward(self, dout, q, k, v):
        self.flash_attention(q, k, v)
        dout = tensor(dout).reshape(self.results[0].shape)
        gradients = theirs.flash_attention_backward(*self.given, self.mask, *self.results, dout)
        return tuple(array(g).reshape(x.shape) for g, x in zip(gradients, (q, k, v), strict=True))
