"""PreferredAI/cornac: metrics of a ranking of items."""

import numpy as np
from checkout import bare_package, checkout, stand_in

bare_package("cornac_metrics", checkout("PreferredAI/cornac") / "cornac" / "metrics")
stand_in("scipy")
stand_in("scipy.stats", rankdata=None)

from cornac_metrics import ranking  # noqa: E402


class Ranking:
    def hit_rate(self, scores, target, k):
        return ranking.HitRatio(k).compute(np.array([target]), self.order(scores))

    def ndcg(self, scores, target, k):
        return ranking.NDCG(k).compute(np.array([target]), self.order(scores))

    def order(self, scores):
        return np.argsort(-scores, kind="stable")
