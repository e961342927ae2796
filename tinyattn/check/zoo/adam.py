"""Adam, and its known bugs."""

import numpy as np

from .bug import bug, planted


def adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
    m, v = moments
    g = gradient
    new_m = beta1 * m + (1 - beta1) * g
    new_v = beta2 * v + (1 - beta2) * (g * g)
    t = step
    up_m, up_v = 1 - beta1**t, 1 - beta2**t
    m_hat, v_hat = new_m / np.float64(up_m), new_v / np.float64(up_v)
    size = np.sqrt(v_hat) + eps
    update = lr * m_hat / size
    vector += (-update).astype(vector.dtype)
    m[...] = new_m
    v[...] = new_v


_CONSTANT = "Feed a constant gradient: the step at t = 2?"
_SIZE, _M_HAT = "np.sqrt(v_hat) + eps -> {}", "new_m / np.float64(up_m) -> {} / np.float64(up_m)"

BUGS, make = planted(__name__, [
    bug("no_bias_corr", "neither moment is corrected for its start at 0", _CONSTANT, "1 - beta1**t -> 1.0 && 1 - beta2**t -> 1.0"),
    bug("one_correction", "only m is corrected", _CONSTANT, "1 - beta2**t -> 1.0"),
    bug("only_v_corrected", "only v is corrected", _CONSTANT, "1 - beta1**t -> 1.0"),
    bug("t_from_0", "the correction's step is off by one", "1 - β⁰? How large is the first step?", "t = step -> t = step - 1", {"t_plus_1": "t = step -> t = step + 1"}),
    bug("t_constant", "both moments are corrected as at the first step, at every step", "Feed a constant gradient: how large are the steps at t = 1, 2 and 100?", "t = step -> t = 1"),
    bug("v_no_square", "v averages |g|, not g²", "Units of v?", "(g * g) -> np.abs(g)"),
    bug("v_of_m", "v averages m², not g²", "Whose square is averaged?", "(g * g) -> (new_m * new_m)"),
    bug("eps_inside", "eps stands inside the root", "Multiply all gradients by 1e-3.", _SIZE.format("np.sqrt(v_hat + eps)")),
    bug("eps_uncorrected", "eps is added to √v before the correction", "Compute the step for a gradient of 1e-8.",
        _SIZE.format("(np.sqrt(new_v) + eps) / np.sqrt(np.float64(up_v))"), permitted=True),
    bug("no_eps", "eps is missing", "A gradient of 1e-9: how large is the step?", _SIZE.format("np.sqrt(v_hat)")),
    bug("eps_fixed", "eps is always 1e-8", "Is the argument eps used?", _SIZE.format("np.sqrt(v_hat) + 1e-8")),
    bug("sign_plus", "the step has the wrong sign", "Which way does the loss go?", "(-update) -> update"),
    bug("lr_ignored", "the learning rate is fixed", "Is the argument lr used?", "lr * m_hat -> 1e-3 * m_hat", {"lr_one": "lr * m_hat -> 1.0 * m_hat"}),
    bug("betas_swapped", "beta1 and beta2 are exchanged", "Which of the two means is the faster?", "m, v = moments -> (m, v), beta1, beta2 = moments, beta2, beta1"),
    bug("beta1_fixed", "beta1 is always 0.9", "Is the argument beta1 used?", "m, v = moments -> (m, v), beta1 = moments, 0.9"),
    bug("beta2_fixed", "beta2 is always 0.999", "Is the argument beta2 used?", "m, v = moments -> (m, v), beta2 = moments, 0.999"),
    bug("beta2_default", "beta2 is 0.999 by default", "SASRec's default is 0.98.", "beta2=0.98 -> beta2=0.999", permitted=True),
    bug("weights_swapped", "β weights the gradient and 1 - β the old m", "How slow should a running mean be?", "beta1 * m + (1 - beta1) * g -> (1 - beta1) * m + beta1 * g"),
    bug("no_one_minus", "the gradient is added whole: 1 - β is missing", "The mean of a constant is the constant.", "(1 - beta1) * g -> g && (1 - beta2) * (g * g) -> g * g"),
    bug("sqrt_missing", "m is divided by v, not by √v", "Units of the step?", _SIZE.format("v_hat + eps")),
    bug("m_not_stored", "m is not written back, or neither moment is", "Feed two different gradients.", "m[...] = new_m -> pass && v[...] = new_v -> pass",
        {"m_alone_not_stored": "m[...] = new_m -> pass"}),
    bug("v_not_stored", "v is not written back", "Feed two different gradients.", "v[...] = new_v -> pass"),
    bug("corrected_stored", "the corrected moments are written back", "Feed a constant gradient: the step at t = 3?", "m[...] = new_m -> m[...] = m_hat && v[...] = new_v -> v[...] = v_hat"),
    bug("old_m", "the step uses the old m", "How large is the first step?", _M_HAT.format("m")),
    bug("gradient_only", "the step uses g in place of m: RMSProp", "Feed two different gradients.", _M_HAT.format("g * up_m")),
    bug("nesterov", "it looks ahead as Nesterov does", "Feed two different gradients.", _M_HAT.format("(beta1 * new_m + (1 - beta1) * g)")),
    bug("amsgrad", "v never falls", "Feed a large gradient, then small ones.", "m_hat, v_hat = -> new_v = np.maximum(new_v, v); m_hat, v_hat ="),
    bug("l2_decay", "0.01 of the weights is added to the gradient", "Zero gradient: should anything move?", "g = gradient -> g = gradient + vector.dtype.type(0.01) * vector"),
    bug("decoupled_decay", "weights decay by lr · 0.01", "Zero gradient: should anything move?", "m_hat / size -> m_hat / size + lr * 0.01 * vector"),
    bug("gradient_changed", "it writes into the gradient", "Print the gradient before and after.", "v[...] = new_v -> v[...] = new_v; gradient *= 0.5"),
    bug("not_in_place", "the vector is not written to", "vector = vector - ... makes a new array.", "vector += -> vector = vector +"),
    bug("float32_state", "the moments are rounded to float32", "How many digits agree in float64?",
        "m[...] = new_m -> m[...] = new_m.astype(np.float32) && v[...] = new_v -> v[...] = new_v.astype(np.float32)", noisy=True),
    bug("clipped", "gradients are cut at ±1", "A gradient of 30: compute m.", "g = gradient -> g = np.clip(gradient, -1, 1)"),
])  # fmt: skip
