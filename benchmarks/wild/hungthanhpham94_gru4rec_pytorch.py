"""hungthanhpham94/GRU4REC-pytorch: losses of scores whose diagonal holds the targets, and recall."""

import torch
from checkout import checkout, importable, with_autograd

importable(checkout("hungthanhpham94/GRU4REC-pytorch") / "lib")

import lossfunction  # noqa: E402
import metric  # noqa: E402


def bpr_max(positive, negatives):
    """The mean over rows. Each row is passed alone, with its target in the first column and its negatives after it."""
    rows = torch.cat([positive.reshape(-1, 1), negatives.reshape(-1, negatives.shape[-1])], dim=1)
    return sum(lossfunction.BPR_max()(row[None]) for row in rows) / len(rows)


BprMax = with_autograd(bpr_max)


class Ranking:
    """Recall with one relevant item is the hit rate."""

    def hit_rate(self, scores, target, k):
        given = torch.tensor(scores)[None], torch.tensor([target])
        return metric.evaluate(*given, k=min(k, len(scores)))[0]
