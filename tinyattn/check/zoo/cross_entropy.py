"""Cross-entropy, and its known bugs."""

import numpy as np

from .bug import bug, in_place, planted


def cross_entropy(logits, targets, weights=None):
    z, dtype = logits, logits.dtype
    w = np.ones(targets.shape, dtype) if weights is None else weights
    log_p = _log_softmax(z)
    at = targets
    nll = -_at(log_p, at)[..., 0]
    total = np.sum(w)
    loss = np.sum(nll * w) / np.where(total == 0, dtype.type(1), total)
    return loss.astype(dtype)


def _top(z, axis=-1):
    return np.max(z, axis=axis, keepdims=True, initial=-np.inf)


def _softmax(z, top):
    e = np.exp(z - top)
    return e / np.sum(e, axis=-1, keepdims=True)


def _log_softmax(z, axis=-1):
    top = _top(z, axis)
    return z - top - np.log(np.sum(np.exp(z - top), axis=axis, keepdims=True))


def _log_of_p(z, eps=0.0, least=0.0):
    return np.log(np.clip(_softmax(z, _top(z)), least, 1) + z.dtype.type(eps))


def _at(values, targets):
    return np.take_along_axis(values, targets[..., None].astype(np.int64), axis=-1)


def _by_value(p, same):
    return p * np.sum(same, axis=-1, keepdims=True, dtype=p.dtype) - same


def cross_entropy_backward(dloss, logits, targets, weights=None):
    dtype = logits.dtype
    v = np.ones(targets.shape, logits.dtype) if weights is None else weights
    p = _softmax(logits, _top(logits))
    one_hot = (np.arange(logits.shape[-1]) == targets[..., None]).astype(dtype)
    d = p - one_hot
    size = np.sum(v)
    share = v / np.where(size == 0, dtype.type(1), size)
    return d * share[..., None] * dtype.type(dloss)


_LN_V, _FOUR = "With all-zero logits, is the loss ln V?", "Multiply all weights by 4: what happens?"
_ROWS, _CLASS_0 = "Each row of the gradient sums to 0.", "Who says that class 0 does not count?"
_TOTAL, _LOSS, _D = "total = np.sum(w) -> {}", "return loss.astype -> {}.astype", "d = p - one_hot -> {}"
_LOG_P, _AT = "log_p = _log_softmax(z) -> log_p = {}", "at = targets -> at = {}"

BUGS, make = planted(__name__, [
    bug("no_max", "the row's maximum is not subtracted: exp overflows", "Logit 1000: print exp.", _LOG_P.format("np.log(_softmax(z, 0 * _top(z)))")),
    bug("global_max", "one maximum is subtracted from all rows", "One row lies 2,000 below another: compute exp of that.", _LOG_P.format("np.log(_softmax(z, np.max(z, initial=-np.inf)))")),
    bug("log_softmax_naive", "it takes the logarithm of softmax, which underflows", "log of an underflowed 0?", _LOG_P.format("_log_of_p(z)")),
    bug("eps_log", "1e-12 is added inside the logarithm", "log(1e-12) caps the loss at 27.6: why is that bad for gradients?", _LOG_P.format("_log_of_p(z, 1e-12)")),
    bug("eps_log_small", "1e-24 is added inside the logarithm", "1e-24 caps the loss at 55: why is that bad for gradients?", _LOG_P.format("_log_of_p(z, 1e-24)")),
    bug("log_of_p_plus_eps", "a number of 1e-8 to 1e-16 is added inside the logarithm",
        "Two logits, 0 and 100, the target is the first: compute the loss on paper, and with your code.", _LOG_P.format("_log_of_p(z, 2.0**-52)"),
        {f"eps_log_{eps}": _LOG_P.format(f"_log_of_p(z, {eps})") for eps in ("1e-8", "1e-10", "1e-15")}),
    bug("clipped", "probabilities are cut at 1e-7", "That caps the loss at 16: why is that bad for gradients?", _LOG_P.format("_log_of_p(z, 0, 1e-7)")),
    bug("div_all", "it divides by the number of positions, not by the sum of weights", _LN_V, _TOTAL.format("total = dtype.type(targets.size)")),
    bug("div_batch", "it divides by the length of the first axis", _LN_V, _TOTAL.format("total = dtype.type(len(targets))")),
    bug("div_nonzero", "it divides by the number of positions of weight above 0", _FOUR, _TOTAL.format("total = dtype.type(np.count_nonzero(w))")),
    bug("ignore_forgot", "the weights are not used", "Change a padding target: does the loss move?", "np.ones(targets.shape, dtype) if weights is None else weights -> np.ones(targets.shape, dtype)"),
    bug("weights_in_sum_only", "the sum is weighted, and divided by nothing", _FOUR, _TOTAL.format("total = dtype.type(1)")),
    bug("weights_only_divide", "the weights divide, but do not multiply", "Change a padding target: does the loss move?", "np.sum(nll * w) -> np.sum(nll)"),
    bug("weights_squared", "weights are squared", "Σ w nll / Σ w.", _TOTAL.format("w = w * w; total = np.sum(w)"), {"weights_squared_above": _TOTAL.format("total = np.sum(w); w = w * w")}),
    bug("weights_binary", "every weight above 0 counts as 1", "Σ w nll / Σ w.", _TOTAL.format("w = (w > 0).astype(dtype); total = np.sum(w)")),
    bug("sum_not_mean", "the losses are added, not averaged", _LN_V, _TOTAL.format("total = dtype.type(1)")),
    bug("div_by_v", "it is also averaged over the classes", _LN_V, _LOSS.format("return (loss / dtype.type(z.shape[-1]))")),
    bug("log2", "it is in bits", "With all-zero logits the loss is ln V.", _LOSS.format("return (loss / dtype.type(np.log(2)))")),
    bug("sign", "it has the wrong sign", "Can a loss be negative?", _LOSS.format("return (-loss)")),
    bug("softmax_axis", "softmax runs over the positions", "For each position the probabilities sum to 1.", _LOG_P.format("_log_softmax(z, -2 if z.ndim > 1 else -1)"),
        {"softmax_first_axis": _LOG_P.format("_log_softmax(z, 0 if z.ndim > 1 else -1)")}),
    bug("logit_only", "it is the mean of -logit[target], without the normaliser", "Add 4 to all logits: what happens?", _LOG_P.format("z")),
    bug("target_off_by_one", "the class before the target is looked up", "Which class is id 0?", _AT.format("targets - 1")),
    bug("argmax_target", "the likeliest class is looked up instead of the target", "Does the loss depend on the target?", _AT.format("np.argmax(z, axis=-1)")),
    bug("target_by_value", "the target is found by its logit's value: equal logits are targets, too", "What do you get where two classes have the same logit?",
        "-_at(log_p, at)[..., 0] -> -np.sum(log_p * (z == _at(z, targets)), axis=-1) && " + _D.format("d = _by_value(p, logits == _at(logits, targets))"),
        {"target_by_value_backward": _D.format("d = _by_value(p, logits == _at(logits, targets))"),
         "target_by_value_in_batch": _D.format("d = _by_value(p, np.isin(logits, _at(logits, targets)))"),
         "one_hot_by_value": _D.format("d = p - (logits == _at(logits, targets))")}),
    bug("zero_ignored", "targets of 0 are taken for padding", _CLASS_0, _TOTAL.format("w = w * (targets != 0); total = np.sum(w)")),
    bug("smoothing", "targets are smoothed by 0.1", "With a sure and right prediction, is the loss 0?",
        _TOTAL.format("nll = dtype.type(0.9) * nll - dtype.type(0.1) * np.mean(log_p, axis=-1); total = np.sum(w)")),
    bug("changes_input", "it writes into the logits", "Print the logits before and after.", _LOSS.format("in_place(np.subtract, logits, _top(logits)); return loss")),
    bug("inplace", "the backward writes into the logits", "Call backward twice.", "return d * share -> in_place(np.subtract, logits, 0.5); return d * share"),
    bug("no_div", "the gradient is not divided by the sum of weights", "The mean has a 1 / N.", "size = np.sum(v) -> size = dtype.type(1)"),
    bug("backward_div_all", "the gradient is divided by the number of positions", "What does the forward divide by?", "size = np.sum(v) -> size = dtype.type(targets.size)"),
    bug("double_softmax", "the gradient passes softmax, or its Jacobian, once more", "p - y already contains the softmax Jacobian.",
        _D.format("d = p - one_hot; d = p * (d - np.sum(d * p, axis=-1, keepdims=True))"), {"softmax_of_softmax": _D.format("p = _softmax(p, _top(p)); d = p - one_hot")}),
    bug("backward_ignore", "the gradient does not use the weights", "Ignored positions must get zeros.",
        "np.ones(targets.shape, logits.dtype) if weights is None else weights -> np.ones(targets.shape, logits.dtype)"),
    bug("onehot_missing", "the gradient is softmax alone", _ROWS, _D.format("d = p")),
    bug("onehot_only", "the gradient is -one-hot alone", _ROWS, _D.format("d = -one_hot")),
    bug("dloss_missing", "dloss is not used", "Halve the upstream gradient: what happens?", " * dtype.type(dloss) -> "),
    bug("backward_sign", "the gradient has the wrong sign", "Should the target's logit rise or fall?", "return d * share -> return -d * share"),
    bug("backward_no_max", "softmax in the backward overflows", "Logit 1000: print exp.", "_softmax(logits, _top(logits)) -> _softmax(logits, 0 * _top(logits))"),
    bug("targets_ignored", "the gradient takes class 0 for every target", "Which class should rise?", "== targets[..., None]) -> == 0 * targets[..., None])"),
    bug("backward_zero_ignored", "positions with target 0 get no gradient", _CLASS_0, "share = v / -> v = v * (targets != 0); share = v /"),
])  # fmt: skip
