"""Binary cross-entropy, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("naive_sigmoid_log", "it takes the logarithm of the sigmoid, which underflows", "log σ(-1000)?"),
    Bug("eps_log", "1e-12 is added inside the logarithms", "That caps the loss at 27.6: why is that bad for gradients?"),
    Bug("clipped", "probabilities are cut at 1e-7", "That caps the loss at 16: why is that bad for gradients?"),
    Bug("naive_softplus", "log(1 + exp(z)) overflows", "exp(1000)?"),
    Bug("targets_ignored_second_term", "the term of label 0 is missing", "What does a sure and wrong 'yes' cost?"),
    Bug("first_term_missing", "the term of label 1 is missing", "What does a sure and wrong 'no' cost?"),
    Bug("div_all", "it divides by the number of positions, not by the sum of weights", "Multiply all weights by 4."),
    Bug("div_nonzero", "it divides by the number of positions of weight above 0", "Multiply all weights by 4."),
    Bug("weights_ignored", "the weights are not used", "Does a position of weight 0 count?"),
    Bug("weights_squared", "weights are squared", "Σ w l / Σ w."),
    Bug("weights_binary", "every weight above 0 counts as 1", "Σ w l / Σ w."),
    Bug("weights_on_positives", "only label 1 is weighted", "Does a position of weight 0 count?"),
    Bug("hard_targets", "targets are rounded", "Compute the loss for a target of 0.25."),
    Bug("sum_not_mean", "the losses are added, not averaged", "With all-zero logits the loss is ln 2."),
    Bug("swapped", "labels 0 and 1 are exchanged", "Is a large logit a yes or a no?"),
    Bug("sign", "it has the wrong sign", "Can a loss be negative?"),
    Bug("log2", "it is in bits", "With all-zero logits the loss is ln 2."),
    Bug("logits_as_probabilities", "logits are taken for probabilities", "Where is the sigmoid?"),
    Bug("sigmoid_twice", "the sigmoid is applied twice", "Compute the loss for a logit of 1000 under label 1."),
    Bug("changes_input", "it writes into z", "Print z before and after."),
    Bug("extra_sigmoid_derivative", "the gradient is multiplied by σ(1 - σ)", "The sigmoid's derivative has cancelled."),
    Bug("no_div", "the gradient is not divided by the sum of weights", "The mean has a 1 / N."),
    Bug("backward_div_all", "the gradient is divided by the number of positions", "What does the forward divide by?"),
    Bug("dloss_missing", "dloss is not used", "Halve the upstream gradient: what happens?"),
    Bug("backward_weights_ignored", "the gradient does not use the weights", "A position of weight 0 must get 0."),
    Bug("overflow_backward", "the sigmoid in the backward is exp(z) / (1 + exp(z)), which overflows", "exp(1000) / exp(1000)?"),
    Bug("backward_sign", "the gradient has the wrong sign", "Should the logit of label 1 rise or fall?"),
    Bug("target_missing", "the gradient is σ(z) alone", "Predicted minus true."),
    Bug("sigmoid_missing", "the gradient is z - t", "Predicted minus true: is z the prediction?"),
    Bug("backward_hard_targets", "the gradient rounds the targets", "Compute the gradient for a target of 0.25."),
    Bug("backward_changes_targets", "the backward writes into the targets", "Call backward twice."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> bce_with_logits and bce_with_logits_backward with these bugs."""

    def sigmoid(z):
        small = np.exp(-np.abs(z))
        return np.where(z >= 0, 1, small) / (1 + small)

    def bce_with_logits(z, targets, weights=None):
        dtype = z.dtype
        t = np.round(targets) if "hard_targets" in bugs else 1 - targets if "swapped" in bugs else targets
        w = np.ones(z.shape, dtype) if weights is None or "weights_ignored" in bugs else weights
        small = np.log1p(np.exp(-np.abs(z)))
        yes, no = np.maximum(-z, 0) + small, np.maximum(z, 0) + small    # -log σ(z), -log(1 - σ(z))
        if {"naive_sigmoid_log", "eps_log", "clipped", "logits_as_probabilities", "sigmoid_twice"} & bugs:
            s = 1 / (1 + np.exp(-z))
            s = np.clip(z, 1e-7, 1 - 1e-7) if "logits_as_probabilities" in bugs else s
            s = 1 / (1 + np.exp(-s)) if "sigmoid_twice" in bugs else s
            s = np.clip(s, dtype.type(1e-7), dtype.type(1 - 1e-7)) if "clipped" in bugs else s
            eps = dtype.type(1e-12 if "eps_log" in bugs else 0)
            yes, no = -np.log(s + eps), -np.log(1 - s + eps)
        if "naive_softplus" in bugs:
            yes, no = np.log(1 + np.exp(-z)), np.log(1 + np.exp(z))
        each = t * yes + (1 - t) * no
        each = t * yes if "targets_ignored_second_term" in bugs else each
        each = (1 - t) * no if "first_term_missing" in bugs else each
        w = w * w if "weights_squared" in bugs else w
        w = (w > 0).astype(dtype) if "weights_binary" in bugs else w
        total = np.sum(w)
        total = dtype.type(z.size) if "div_all" in bugs else total
        total = dtype.type(np.count_nonzero(w)) if "div_nonzero" in bugs else total
        total = dtype.type(1) if "sum_not_mean" in bugs else total
        summed = np.sum(w * t * yes + (1 - t) * no) if "weights_on_positives" in bugs else np.sum(w * each)
        loss = summed / np.where(total == 0, dtype.type(1), total)
        loss = loss / dtype.type(np.log(2)) if "log2" in bugs else loss
        in_place(np.multiply, z, 0.5, "changes_input" in bugs)
        return (-loss if "sign" in bugs else loss).astype(dtype)

    def bce_with_logits_backward(dloss, z, targets, weights=None):
        dtype = z.dtype
        t = np.round(targets) if "backward_hard_targets" in bugs else targets
        w = np.ones(z.shape, dtype) if weights is None or "backward_weights_ignored" in bugs else weights
        s = np.exp(z) / (1 + np.exp(z)) if "overflow_backward" in bugs else sigmoid(z)
        d = s - t
        d = s if "target_missing" in bugs else d
        d = z - t if "sigmoid_missing" in bugs else d
        d = d * s * (1 - s) if "extra_sigmoid_derivative" in bugs else d
        total = np.sum(w)
        total = dtype.type(1) if "no_div" in bugs else total
        total = dtype.type(z.size) if "backward_div_all" in bugs else total
        share = w / np.where(total == 0, dtype.type(1), total)
        share = share * dtype.type(dloss) if "dloss_missing" not in bugs else share
        in_place(np.multiply, targets, 0.5, "backward_changes_targets" in bugs)
        return ((-d if "backward_sign" in bugs else d) * share).astype(dtype)

    return SimpleNamespace(bce_with_logits=bce_with_logits, bce_with_logits_backward=bce_with_logits_backward)
