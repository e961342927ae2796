"""hidasib/GRU4Rec_PyTorch_Official: losses of scores (batch, batch + samples), whose diagonal holds the targets."""

import torch
from checkout import checkout, importable, stand_in, with_autograd

importable(checkout("hidasib/GRU4Rec_PyTorch_Official"))
stand_in("pandas")

from gru4rec_pytorch import GRU4Rec  # noqa: E402


def summed(loss, targets, others):
    """The mean over rows. Each row is passed alone, with its target in the first column and its negatives after it."""
    rows = torch.cat([targets.reshape(-1, 1), others.reshape(-1, others.shape[-1])], dim=1)
    return sum(loss(row[None], None, None) for row in rows) / len(rows)


def bpr_max(positive, negatives, regularisation=1.0):
    model = GRU4Rec(loss="bpr-max", bpreg=regularisation, elu_param=0, device="cpu")
    return summed(model.loss_function, positive, negatives)


BprMax = with_autograd(bpr_max)


def cross_entropy(logits, targets):
    """The target's column is moved to the front."""
    rows, at = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1, 1)
    others = rows[torch.arange(rows.shape[1]) != at].reshape(len(rows), -1)
    return summed(GRU4Rec(device="cpu").loss_function, rows.gather(1, at), others)


CrossEntropy = with_autograd(cross_entropy)
