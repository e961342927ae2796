"""lucidrains/rotary-embedding-torch: rotary positions from angles, each repeated twice."""

import torch
from checkout import bare_package, checkout, with_autograd

bare_package("rotary_embedding_torch", checkout("lucidrains/rotary-embedding-torch") / "rotary_embedding_torch")

from rotary_embedding_torch import rotary_embedding_torch as theirs  # noqa: E402


def rotary(x, cos, sin):
    angles = torch.atan2(sin, cos).repeat_interleave(2, dim=-1)
    return theirs.apply_rotary_emb(angles, x.reshape(-1, 1, *x.shape[-2:])).reshape(x.shape)


Rotary = with_autograd(rotary, constant=("cos", "sin"))
