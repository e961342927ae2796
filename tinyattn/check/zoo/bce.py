"""Binary cross-entropy, and its known bugs."""

import numpy as np

from .bug import bug, in_place, planted


def bce_with_logits(z, targets, weights=None):
    dtype, t = z.dtype, targets
    w = np.ones(z.shape, dtype) if weights is None else weights
    yes, no = _minus_logs(z)
    each = t * yes + (1 - t) * no
    total = np.sum(w)
    loss = np.sum(w * each) / np.where(total == 0, dtype.type(1), total)
    return loss.astype(dtype)


def _minus_logs(z):
    """-log σ(z) and -log(1 - σ(z))."""
    small = np.log1p(np.exp(-np.abs(z)))
    return np.maximum(-z, 0) + small, np.maximum(z, 0) + small


def _of_probability(p, eps=0.0):
    return -np.log(p + p.dtype.type(eps)), -np.log(1 - p + p.dtype.type(eps))


def bce_with_logits_backward(dloss, z, targets, weights=None):
    labels = targets
    v = np.ones_like(z) if weights is None else weights
    small = np.exp(-np.abs(z))
    s = np.where(z >= 0, 1, small) / (1 + small)
    d = s - labels
    size = np.sum(v)
    share = v / np.where(size == 0, z.dtype.type(1), size) * z.dtype.type(dloss)
    return (d * share).astype(z.dtype)


_LOGS, _TOTAL, _LOSS = "= _minus_logs(z) -> = {}", "total = np.sum(w) -> {}", "return loss.astype -> {}.astype"
_D, _END = "d = s - labels -> d = {}", "return (d * share) -> {}(d * share)"

BUGS, make = planted(__name__, [
    bug("naive_sigmoid_log", "it takes the logarithm of the sigmoid, which underflows", "log σ(-1000)?", _LOGS.format("_of_probability(1 / (1 + np.exp(-z)))")),
    bug("eps_log", "1e-12 is added inside the logarithms", "That caps the loss at 27.6: why is that bad for gradients?", _LOGS.format("_of_probability(1 / (1 + np.exp(-z)), 1e-12)")),
    bug("clipped", "probabilities are cut at 1e-7", "That caps the loss at 16: why is that bad for gradients?",
        _LOGS.format("_of_probability(np.clip(1 / (1 + np.exp(-z)), dtype.type(1e-7), dtype.type(1 - 1e-7)))")),
    bug("naive_softplus", "log(1 + exp(z)) overflows", "exp(1000)?", _LOGS.format("np.log(1 + np.exp(-z)), np.log(1 + np.exp(z))")),
    bug("targets_ignored_second_term", "the term of label 0 is missing", "What does a sure and wrong 'yes' cost?", "t * yes + (1 - t) * no -> t * yes"),
    bug("first_term_missing", "the term of label 1 is missing", "What does a sure and wrong 'no' cost?", "t * yes + (1 - t) * no -> (1 - t) * no"),
    bug("div_all", "it divides by the number of positions, not by the sum of weights", "Multiply all weights by 4.", _TOTAL.format("total = dtype.type(z.size)")),
    bug("div_nonzero", "it divides by the number of positions of weight above 0", "Multiply all weights by 4.", _TOTAL.format("total = dtype.type(np.count_nonzero(w))")),
    bug("weights_ignored", "the weights are not used", "Does a position of weight 0 count?", "np.ones(z.shape, dtype) if weights is None else weights -> np.ones(z.shape, dtype)"),
    bug("weights_squared", "weights are squared", "Σ w l / Σ w.", _TOTAL.format("w = w * w; total = np.sum(w)")),
    bug("weights_binary", "every weight above 0 counts as 1", "Σ w l / Σ w.", _TOTAL.format("w = (w > 0).astype(dtype); total = np.sum(w)")),
    bug("weights_on_positives", "only label 1 is weighted", "Does a position of weight 0 count?", "np.sum(w * each) -> np.sum(w * t * yes + (1 - t) * no)"),
    bug("hard_targets", "targets are rounded", "Compute the loss for a target of 0.25.", "t = z.dtype, targets -> t = z.dtype, np.round(targets)"),
    bug("sum_not_mean", "the losses are added, not averaged", "With all-zero logits the loss is ln 2.", _TOTAL.format("total = dtype.type(1)")),
    bug("swapped", "labels 0 and 1 are exchanged", "Is a large logit a yes or a no?", "t = z.dtype, targets -> t = z.dtype, 1 - targets"),
    bug("sign", "it has the wrong sign", "Can a loss be negative?", _LOSS.format("return (-loss)")),
    bug("log2", "it is in bits", "With all-zero logits the loss is ln 2.", _LOSS.format("return (loss / dtype.type(np.log(2)))")),
    bug("logits_as_probabilities", "logits are taken for probabilities", "Where is the sigmoid?", _LOGS.format("_of_probability(np.clip(z, 1e-7, 1 - 1e-7))")),
    bug("sigmoid_twice", "the sigmoid is applied twice", "Compute the loss for a logit of 1000 under label 1.", _LOGS.format("_of_probability(1 / (1 + np.exp(-1 / (1 + np.exp(-z)))))")),
    bug("changes_input", "it writes into z", "Print z before and after.", _LOSS.format("in_place(np.multiply, z, 0.5); return loss")),
    bug("extra_sigmoid_derivative", "the gradient is multiplied by σ(1 - σ)", "The sigmoid's derivative has cancelled.", _D.format("(s - labels) * s * (1 - s)")),
    bug("no_div", "the gradient is not divided by the sum of weights", "The mean has a 1 / N.", "size = np.sum(v) -> size = z.dtype.type(1)"),
    bug("backward_div_all", "the gradient is divided by the number of positions", "What does the forward divide by?", "size = np.sum(v) -> size = z.dtype.type(z.size)"),
    bug("dloss_missing", "dloss is not used", "Halve the upstream gradient: what happens?", " * z.dtype.type(dloss) -> "),
    bug("backward_weights_ignored", "the gradient does not use the weights", "A position of weight 0 must get 0.", "np.ones_like(z) if weights is None else weights -> np.ones_like(z)"),
    bug("overflow_backward", "the sigmoid in the backward is exp(z) / (1 + exp(z)), which overflows", "exp(1000) / exp(1000)?",
        "np.where(z >= 0, 1, small) / (1 + small) -> np.exp(z) / (1 + np.exp(z))"),
    bug("backward_sign", "the gradient has the wrong sign", "Should the logit of label 1 rise or fall?", _END.format("return -")),
    bug("target_missing", "the gradient is σ(z) alone", "Predicted minus true.", _D.format("s")),
    bug("sigmoid_missing", "the gradient is z - t", "Predicted minus true: is z the prediction?", _D.format("z - labels")),
    bug("backward_hard_targets", "the gradient rounds the targets", "Compute the gradient for a target of 0.25.", "labels = targets -> labels = np.round(targets)"),
    bug("backward_changes_targets", "the backward writes into the targets", "Call backward twice.", _END.format("in_place(np.multiply, targets, 0.5); return ")),
])  # fmt: skip
