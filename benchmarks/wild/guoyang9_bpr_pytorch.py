"""guoyang9/BPR-pytorch: metrics of one relevant item in a list of recommendations."""

import numpy as np
from checkout import checkout, importable

importable(checkout("guoyang9/BPR-pytorch"))

import evaluate  # noqa: E402


class Ranking:
    def hit_rate(self, scores, target, k):
        return evaluate.hit(target, self.best(scores, k))

    def ndcg(self, scores, target, k):
        return evaluate.ndcg(target, self.best(scores, k))

    def best(self, scores, k):
        return np.argsort(-scores, kind="stable")[:k].tolist()
