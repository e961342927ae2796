"""Losses and metrics of rankings."""

from .slip import slip

_LOG_SIGMOID = "math.log1p(math.exp(-z)) if z > 0 else -z + math.log1p(math.exp(z))"
_WITH_EPS = tuple(
    slip(f"log_with_{eps:g}", f"{eps:g} is added in the logarithm", "A target 100 behind: how large is the loss, and its gradient?", (_LOG_SIGMOID, f"-math.log(1 / (1 + math.exp(-max(z, -700))) + {eps})"))
    for eps in (1e-24, 1e-16, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
)  # fmt: skip
_WEIGHTED = (
    slip("weights_ignored", "the weights are not used", "Give a position a weight of 0: does its loss still count?", (" if weights is None else (weights * loss).sum() / weights.sum()", "")),
    slip("sum_of_weighted", "the weighted losses are summed, and not divided by the sum of the weights", "Double all weights: does the loss double?", (".sum() / weights.sum()", ".sum()")),
    slip("mean_of_weighted", "the sum is divided by the number of positions, not by the sum of the weights", "Double all weights: does the loss double?", ("(weights * loss).sum() / weights.sum()", "(weights * loss).mean()")),
    slip("shares_missing", "the gradient is not divided by the sum of the weights, or by the number of positions", "The loss is a mean: by what is its gradient divided?",
         ("get_xp(like).full(targets.shape, 1 / max(targets.size, 1), dtype=like.dtype)", "get_xp(like).ones_like(targets, dtype=like.dtype)"),
         ("shares = weights / _total(weights)", "shares = weights + 0")),
    slip("shares_by_count", "the gradient is divided by the number of positions, not by the sum of the weights",
         "Double all weights: does the gradient double?", ("shares = weights / _total(weights)", "shares = weights / weights.size")),
)  # fmt: skip
_LOG_S, _S = "negatives - _log_sum_exp(negatives, axis=-1)", "(np.exp(log_s) * negatives ** 2).sum(axis=-1)"
_LIKELIHOOD = "_log_sum_exp(log_s + _log_sigmoid(positive - negatives), axis=-1)[..., 0]"
_Q = "(1 - smoothing) * np.eye(logits.shape[-1])[targets] + smoothing / logits.shape[-1]"

BPR = (
    slip("no_logarithm", "it is σ or 1 - σ itself, without the logarithm", "A target 4,000 behind: how large is the loss?", ("-_log_sigmoid(positive - negative)", "_sigmoid(negative - positive)")),
    slip("squared", "it is the square of 1 - difference", "How does the loss change when the target is 2 ahead, and then 3?", ("-_log_sigmoid(positive - negative)", "(1 - (positive - negative)) ** 2")),
    slip("hinge", "it is a hinge, max(1 - difference, 0)", "How does the loss fall when the target is 2 ahead?", ("-_log_sigmoid(positive - negative)", "np.maximum(1 - (positive - negative), 0)")),
    slip("base_2", "the logarithm has the base 2", "With equal scores the loss is ln 2: what is yours?", ("-_log_sigmoid(positive - negative)", "-_log_sigmoid(positive - negative) / np.log(2)")),
    *_WITH_EPS,
    *_WEIGHTED[:1],
)  # fmt: skip
BPR_MAX = (
    slip("regularised_whole", "the squares of the regularisation are summed without weights", "Σ s r²: which weights?", (_S, "(negatives ** 2).sum(axis=-1)")),
    *(slip(f"log_with_{eps:g}", f"{eps:g} is added in the logarithm", "All negatives 100 ahead: how large is the loss, and its gradient?",
           ("_log_sum_exp(logs)", f"math.log(sum((math.exp(x) for x in logs)) + {eps})")) for eps in (1e-24, 1e-16, 1e-12, 1e-10, 1e-8, 1e-6)),
    slip("positive_in_softmax", "the softmax is over the positive, too", "Over which scores do the weights sum to 1?", (_LOG_S, "negatives - _log_sum_exp(np.concatenate([positive, negatives], axis=-1), axis=-1)")),
    slip("no_softmax", "the negatives are averaged with equal weights, not with their softmax", "Which negative should count most?", ("log_s + _log_sigmoid", "-np.log(negatives.shape[-1]) + _log_sigmoid")),
    slip("softmax_of_minus", "the weights are the softmax of minus the scores, or of the differences", "Which negative should count most?",
         ("log_s + _log_sigmoid", "-negatives - _log_sum_exp(-negatives, axis=-1) + _log_sigmoid")),
    slip("mean", "the logarithm is that of a mean over the negatives, not of a sum", "The weights sum to 1: is there a division?", (_LIKELIHOOD, f"{_LIKELIHOOD} - np.log(negatives.shape[-1])")),
    slip("mean_of_logs", "the logarithm is inside of the sum: it is Σ s log σ, not log Σ s σ", "Log of a mean, or mean of logs?", (_LIKELIHOOD, "(np.exp(log_s) * _log_sigmoid(positive - negatives)).sum(axis=-1)")),
    slip("bpr", "it is BPR: the mean of -log σ over the negatives, without max", "Log of a mean, or mean of logs?", (_LIKELIHOOD, "_log_sigmoid(positive - negatives).mean(axis=-1)")),
    slip("largest", "only the largest term of the sum counts", "Is it a maximum, or a softmax?", (_LIKELIHOOD, "(log_s + _log_sigmoid(positive - negatives)).max(axis=-1)")),
    slip("regularised_evenly", "the squares of the regularisation are averaged, not weighted with the softmax", "Σ s r²: which weights?", (_S, "(negatives ** 2).mean(axis=-1)")),
    *_WEIGHTED,
)  # fmt: skip
DISTANCE_BPR = (
    slip("between_missing", "the gradient of the hinge by d is missing", "d is in the hinge as well.", ("-hinge", "0 * hinge")),
    *_WEIGHTED[3:],
)  # fmt: skip
SMOOTHED_CROSS_ENTROPY = (
    slip("target_without_share", "the target has no share of ε: q sums to less than 1", "ε is spread over all V classes, the target among them.",
         (_Q, f"{_Q} - smoothing / logits.shape[-1] * np.eye(logits.shape[-1])[targets]")),
    slip("divergence", "it is the KL divergence: the entropy of q is subtracted", "The best logits: is the loss 0 there?", ("-(q * logs)", "(q * (np.log(np.maximum(q, 1e-300)) - logs))")),
    slip("probabilities", "the probabilities are smoothed, not the targets", "What is smoothed: softmax(logits), or q?",
         ("logs = logits - _log_sum_exp(logits, axis=-1)", "logs = np.log((1 - smoothing) * softmax(logits) + smoothing / logits.shape[-1])"),
         (_Q, "np.eye(logits.shape[-1])[targets]")),
    slip("unsmoothed", "`smoothing` is not used", "Pass ε = 0.5: does the loss move?", (_Q, "np.eye(logits.shape[-1])[targets]")),
    slip("gradient_unsmoothed", "the gradient is that of cross-entropy, without smoothing", "softmax minus q.", ("float(smoothing)", "0.0")),
    slip("gradient_without_share", "the target of the gradient has 1 - ε, not 1 - ε + ε / V", "softmax minus q: what is q at the target?", ("-= 1 - eps", "-= 1 - eps - eps / logits.shape[-1]")),
    slip("gradient_sign", "the gradient has the wrong sign: q minus softmax", "softmax minus q.", ("shares.reshape(-1, 1)", "-shares.reshape(-1, 1)")),
    *_WEIGHTED,
)  # fmt: skip
CROSS_ENTROPY = (
    slip("every_row", "1 is subtracted in the targets' columns of every row", "dlogits[:, targets] takes all rows: what picks one entry in each?", ("dlogits[xp.arange(len(dlogits)), ", "dlogits[:, ")),
)  # fmt: skip
RANKING_OF_SEVERAL = (
    slip("ideal_of_hits", "the ideal ranking has as many relevant items as are within k", "With a relevant item at rank k + 1, can NDCG@k be 1?", ("min(k, relevant.sum())", "max(relevant[_order(scores)][:k].sum(), 1)")),
    slip("precision", "recall is divided by k: it is precision", "Divided by k, or by the number of relevant items?", ("sum() / relevant.sum()", "sum() / k")),
    slip("any_hit", "recall is 1 for any hit: it is the hit rate", "With one of two relevant items within k, what is recall?", ("sum() / relevant.sum()", "max()")),
    slip("rank_from_0", "the logarithm of the DCG takes the rank, not the rank + 1", "Compute NDCG at ranks 1 and 2.", ("* gains)", "* (1 / np.log2(np.maximum(np.arange(len(scores)) + 1, 2))))")),
    slip("ranks_from_0", "both logarithms take the rank, not the rank + 1", "Compute NDCG at ranks 1 and 2.", ("np.arange(len(scores)) + 2", "np.maximum(np.arange(len(scores)) + 1, 2)")),
)  # fmt: skip
