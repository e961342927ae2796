"""Cross-entropy, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug, in_place

BUGS = [
    Bug("no_max", "the row's maximum is not subtracted: exp overflows", "Logit 1000: print exp."),
    Bug("global_max", "one maximum is subtracted from all rows", "One row lies 2,000 below another: compute exp of that."),
    Bug("log_softmax_naive", "it takes the logarithm of softmax, which underflows", "log of an underflowed 0?"),
    Bug("eps_log", "1e-12 is added inside the logarithm", "log(1e-12) caps the loss at 27.6: why is that bad for gradients?"),
    Bug("eps_log_small", "1e-24 is added inside the logarithm", "1e-24 caps the loss at 55: why is that bad for gradients?"),
    Bug("log_of_p_plus_eps", "a number of 1e-8 to 1e-16 is added inside the logarithm",
        "Two logits, 0 and 100, the target is the first: compute the loss on paper, and with your code.",
        also=("eps_log_1e-8", "eps_log_1e-10", "eps_log_1e-15")),
    Bug("clipped", "probabilities are cut at 1e-7", "That caps the loss at 16: why is that bad for gradients?"),
    Bug("div_all", "it divides by the number of positions, not by the sum of weights", "With all-zero logits, is the loss ln V?"),
    Bug("div_batch", "it divides by the length of the first axis", "With all-zero logits, is the loss ln V?"),
    Bug("div_nonzero", "it divides by the number of positions of weight above 0", "Multiply all weights by 4: what happens?"),
    Bug("ignore_forgot", "the weights are not used", "Change a padding target: does the loss move?"),
    Bug("weights_in_sum_only", "the sum is weighted, and divided by nothing", "Multiply all weights by 4: what happens?"),
    Bug("weights_only_divide", "the weights divide, but do not multiply", "Change a padding target: does the loss move?"),
    Bug("weights_squared", "weights are squared", "Σ w nll / Σ w.", also=("weights_squared_above",)),
    Bug("weights_binary", "every weight above 0 counts as 1", "Σ w nll / Σ w."),
    Bug("sum_not_mean", "the losses are added, not averaged", "With all-zero logits, is the loss ln V?"),
    Bug("div_by_v", "it is also averaged over the classes", "With all-zero logits, is the loss ln V?"),
    Bug("log2", "it is in bits", "With all-zero logits the loss is ln V."),
    Bug("sign", "it has the wrong sign", "Can a loss be negative?"),
    Bug("softmax_axis", "softmax runs over the positions", "For each position the probabilities sum to 1.",
        also=("softmax_first_axis",)),
    Bug("logit_only", "it is the mean of -logit[target], without the normaliser", "Add 4 to all logits: what happens?"),
    Bug("target_off_by_one", "the class before the target is looked up", "Which class is id 0?"),
    Bug("argmax_target", "the likeliest class is looked up instead of the target", "Does the loss depend on the target?"),
    Bug("target_by_value", "the target is found by its logit's value: equal logits are targets, too",
        "What do you get where two classes have the same logit?",
        also=("target_by_value_backward", "target_by_value_in_batch", "one_hot_by_value")),
    Bug("zero_ignored", "targets of 0 are taken for padding", "Who says that class 0 does not count?"),
    Bug("smoothing", "targets are smoothed by 0.1", "With a sure and right prediction, is the loss 0?"),
    Bug("changes_input", "it writes into the logits", "Print the logits before and after."),
    Bug("inplace", "the backward writes into the logits", "Call backward twice."),
    Bug("no_div", "the gradient is not divided by the sum of weights", "The mean has a 1 / N."),
    Bug("backward_div_all", "the gradient is divided by the number of positions", "What does the forward divide by?"),
    Bug("double_softmax", "the gradient passes softmax, or its Jacobian, once more", "p - y already contains the softmax Jacobian.",
        also=("softmax_of_softmax",)),
    Bug("backward_ignore", "the gradient does not use the weights", "Ignored positions must get zeros."),
    Bug("onehot_missing", "the gradient is softmax alone", "Each row of the gradient sums to 0."),
    Bug("onehot_only", "the gradient is -one-hot alone", "Each row of the gradient sums to 0."),
    Bug("dloss_missing", "dloss is not used", "Halve the upstream gradient: what happens?"),
    Bug("backward_sign", "the gradient has the wrong sign", "Should the target's logit rise or fall?"),
    Bug("backward_no_max", "softmax in the backward overflows", "Logit 1000: print exp."),
    Bug("targets_ignored", "the gradient takes class 0 for every target", "Which class should rise?"),
    Bug("backward_zero_ignored", "positions with target 0 get no gradient", "Who says that class 0 does not count?"),
]  # fmt: skip


EPS = {"eps_log": 1e-12, "eps_log_small": 1e-24, "log_of_p_plus_eps": 2.0**-52, "eps_log_1e-8": 1e-8, "eps_log_1e-10": 1e-10,
       "eps_log_1e-15": 1e-15}  # fmt: skip


def make(bugs=frozenset()):
    """-> cross_entropy and cross_entropy_backward with these bugs."""

    def softmax(z, overflow=False):
        z = z if overflow else z - np.max(z, axis=-1, keepdims=True, initial=-np.inf)
        e = np.exp(z)
        return e / np.sum(e, axis=-1, keepdims=True)

    def cross_entropy(logits, targets, weights=None):
        z, dtype = logits, logits.dtype
        w = np.ones(targets.shape, dtype) if weights is None or "ignore_forgot" in bugs else weights
        if {"softmax_axis", "softmax_first_axis"} & bugs and z.ndim > 1:
            axis = -2 if "softmax_axis" in bugs else 0
            top = np.max(z, axis=axis, keepdims=True, initial=-np.inf)
            log_p = z - top - np.log(np.sum(np.exp(z - top), axis=axis, keepdims=True))
        elif {"no_max", "log_softmax_naive", "clipped", "global_max", *EPS} & bugs:
            top = np.max(z, axis=-1, keepdims=True, initial=-np.inf)
            top = np.max(z, initial=-np.inf) if "global_max" in bugs else 0 * top if "no_max" in bugs else top
            e = np.exp(z - top)
            p = e / np.sum(e, axis=-1, keepdims=True)
            p = np.clip(p, 1e-7, 1) if "clipped" in bugs else p
            log_p = np.log(p + dtype.type(next((eps for name, eps in EPS.items() if name in bugs), 0)))
        else:
            top = np.max(z, axis=-1, keepdims=True, initial=-np.inf)
            log_p = z - top - np.log(np.sum(np.exp(z - top), axis=-1, keepdims=True))
        log_p = z if "logit_only" in bugs else log_p
        at = targets - 1 if "target_off_by_one" in bugs else targets
        at = np.argmax(z, axis=-1) if "argmax_target" in bugs else at
        nll = -np.take_along_axis(log_p, at[..., None].astype(np.int64), axis=-1)[..., 0]
        nll = -np.sum(log_p * _equal_logits(logits, targets), axis=-1) if "target_by_value" in bugs else nll
        nll = dtype.type(0.9) * nll - dtype.type(0.1) * np.mean(log_p, axis=-1) if "smoothing" in bugs else nll
        w = w * (targets != 0) if "zero_ignored" in bugs else w
        w = w * w if "weights_squared" in bugs else w
        w = (w > 0).astype(dtype) if "weights_binary" in bugs else w
        total = np.sum(w)
        w = w * w if "weights_squared_above" in bugs else w
        total = dtype.type(targets.size) if "div_all" in bugs else total
        total = dtype.type(len(targets)) if "div_batch" in bugs else total
        total = dtype.type(np.count_nonzero(w)) if "div_nonzero" in bugs else total
        total = dtype.type(1) if {"sum_not_mean", "weights_in_sum_only"} & bugs else total
        each = nll if "weights_only_divide" in bugs else nll * w
        loss = np.sum(each) / np.where(total == 0, dtype.type(1), total)
        loss = loss / dtype.type(z.shape[-1]) if "div_by_v" in bugs else loss
        loss = loss / dtype.type(np.log(2)) if "log2" in bugs else loss
        in_place(np.subtract, logits, top, "changes_input" in bugs)
        return (-loss if "sign" in bugs else loss).astype(dtype)

    def cross_entropy_backward(dloss, logits, targets, weights=None):
        dtype = logits.dtype
        w = np.ones(targets.shape, dtype) if weights is None or "backward_ignore" in bugs else weights
        p = softmax(logits, "backward_no_max" in bugs)
        at = np.zeros_like(targets) if "targets_ignored" in bugs else targets
        one_hot = (np.arange(logits.shape[-1]) == at[..., None]).astype(dtype)
        p = softmax(p) if "softmax_of_softmax" in bugs else p
        d = p - one_hot
        if {"target_by_value", "target_by_value_backward"} & bugs:
            same = _equal_logits(logits, targets)
            d = p * np.sum(same, axis=-1, keepdims=True, dtype=dtype) - same
        if "target_by_value_in_batch" in bugs:
            same = np.isin(logits, np.take_along_axis(logits, targets[..., None].astype(np.int64), axis=-1))
            d = p * np.sum(same, axis=-1, keepdims=True, dtype=dtype) - same
        d = p - _equal_logits(logits, targets) if "one_hot_by_value" in bugs else d
        d = p if "onehot_missing" in bugs else d
        d = -one_hot if "onehot_only" in bugs else d
        d = p * (d - np.sum(d * p, axis=-1, keepdims=True)) if "double_softmax" in bugs else d
        total = np.sum(w)
        total = dtype.type(1) if "no_div" in bugs else total
        total = dtype.type(targets.size) if "backward_div_all" in bugs else total
        w = w * (targets != 0) if "backward_zero_ignored" in bugs else w
        share = w / np.where(total == 0, dtype.type(1), total)
        share = share * dtype.type(dloss) if "dloss_missing" not in bugs else share
        in_place(np.subtract, logits, 0.5, "inplace" in bugs)
        return (-d if "backward_sign" in bugs else d) * share[..., None]

    def _equal_logits(logits, targets):
        return logits == np.take_along_axis(logits, targets[..., None].astype(np.int64), axis=-1)

    return SimpleNamespace(cross_entropy=cross_entropy, cross_entropy_backward=cross_entropy_backward)
