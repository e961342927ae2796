"""Adam, wrong in every way that is known."""

from types import SimpleNamespace

import numpy as np

from .bug import Bug

BUGS = [
    Bug("no_bias_corr", "neither moment is corrected for its start at 0", "Feed a constant gradient: the step at t = 2?"),
    Bug("one_correction", "only m is corrected", "Feed a constant gradient: the step at t = 2?"),
    Bug("only_v_corrected", "only v is corrected", "Feed a constant gradient: the step at t = 2?"),
    Bug("t_from_0", "the correction's step is off by one", "1 - β⁰? How large is the first step?", also=("t_plus_1",)),
    Bug("t_constant", "both moments are corrected as at the first step, at every step",
        "Feed a constant gradient: how large are the steps at t = 1, 2 and 100?"),
    Bug("v_no_square", "v averages |g|, not g²", "Units of v?"),
    Bug("v_of_m", "v averages m², not g²", "Whose square is averaged?"),
    Bug("eps_inside", "eps stands inside the root", "Multiply all gradients by 1e-3."),
    Bug("eps_uncorrected", "eps is added to √v before the correction", "Compute the step for a gradient of 1e-8.", permitted=True),
    Bug("no_eps", "eps is missing", "A gradient of 1e-9: how large is the step?"),
    Bug("eps_fixed", "eps is always 1e-8", "Is the argument eps used?"),
    Bug("sign_plus", "the step has the wrong sign", "Which way does the loss go?"),
    Bug("lr_ignored", "the learning rate is fixed", "Is the argument lr used?", also=("lr_one",)),
    Bug("betas_swapped", "beta1 and beta2 are exchanged", "Which of the two means is the faster?"),
    Bug("beta1_fixed", "beta1 is always 0.9", "Is the argument beta1 used?"),
    Bug("beta2_fixed", "beta2 is always 0.999", "Is the argument beta2 used?"),
    Bug("beta2_default", "beta2 is 0.999 by default", "SASRec's default is 0.98.", permitted=True),
    Bug("weights_swapped", "β weights the gradient and 1 - β the old m", "How slow should a running mean be?"),
    Bug("no_one_minus", "the gradient is added whole: 1 - β is missing", "The mean of a constant is the constant."),
    Bug("sqrt_missing", "m is divided by v, not by √v", "Units of the step?"),
    Bug("m_not_stored", "m is not written back, or neither moment is", "Feed two different gradients.", also=("m_alone_not_stored",)),
    Bug("v_not_stored", "v is not written back", "Feed two different gradients."),
    Bug("corrected_stored", "the corrected moments are written back", "Feed a constant gradient: the step at t = 3?"),
    Bug("old_m", "the step uses the old m", "How large is the first step?"),
    Bug("gradient_only", "the step uses g in place of m: RMSProp", "Feed two different gradients."),
    Bug("nesterov", "it looks ahead as Nesterov does", "Feed two different gradients."),
    Bug("amsgrad", "v never falls", "Feed a large gradient, then small ones."),
    Bug("l2_decay", "0.01 of the weights is added to the gradient", "Zero gradient: should anything move?"),
    Bug("decoupled_decay", "weights decay by lr · 0.01", "Zero gradient: should anything move?"),
    Bug("gradient_changed", "it writes into the gradient", "Print the gradient before and after."),
    Bug("not_in_place", "the vector is not written to", "vector = vector - ... makes a new array."),
    Bug("float32_state", "the moments are rounded to float32", "How many digits agree in float64?", noisy=True),
    Bug("clipped", "gradients are cut at ±1", "A gradient of 30: compute m."),
]  # fmt: skip


def make(bugs=frozenset()):
    """-> adam with these bugs."""

    def adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=None, eps=1e-8):
        m, v = moments
        beta2 = (0.999 if "beta2_default" in bugs else 0.98) if beta2 is None else beta2
        g = gradient + vector.dtype.type(0.01) * vector if "l2_decay" in bugs else gradient
        g = np.clip(g, -1, 1) if "clipped" in bugs else g
        lr = 1e-3 if "lr_ignored" in bugs else 1.0 if "lr_one" in bugs else lr
        beta1 = 0.9 if "beta1_fixed" in bugs else beta1
        beta2 = 0.999 if "beta2_fixed" in bugs else beta2
        eps = 0.0 if "no_eps" in bugs else 1e-8 if "eps_fixed" in bugs else eps
        beta1, beta2 = (beta2, beta1) if "betas_swapped" in bugs else (beta1, beta2)
        old = m.copy()
        weights = (1 - beta1, beta1) if "weights_swapped" in bugs else (beta1, 1.0 if "no_one_minus" in bugs else 1 - beta1)
        new_m = weights[0] * m + weights[1] * g
        square = np.abs(g) if "v_no_square" in bugs else new_m * new_m if "v_of_m" in bugs else g * g
        new_v = beta2 * v + (1.0 if "no_one_minus" in bugs else 1 - beta2) * square
        new_v = np.maximum(new_v, v) if "amsgrad" in bugs else new_v
        t = step - 1 if "t_from_0" in bugs else step + 1 if "t_plus_1" in bugs else 1 if "t_constant" in bugs else step
        up_m = 1.0 if {"no_bias_corr", "only_v_corrected"} & bugs else 1 - beta1**t
        up_v = 1.0 if {"no_bias_corr", "one_correction"} & bugs else 1 - beta2**t
        direction = old if "old_m" in bugs else g * up_m if "gradient_only" in bugs else new_m
        direction = beta1 * new_m + (1 - beta1) * g if "nesterov" in bugs else direction
        m_hat, v_hat = direction / np.float64(up_m), new_v / np.float64(up_v)
        if "eps_inside" in bugs:
            size = np.sqrt(v_hat + eps)
        elif "eps_uncorrected" in bugs:
            size = (np.sqrt(new_v) + eps) / np.sqrt(np.float64(up_v))
        elif "sqrt_missing" in bugs:
            size = v_hat + eps
        else:
            size = np.sqrt(v_hat) + eps
        update = lr * m_hat / size
        update = update + lr * 0.01 * vector if "decoupled_decay" in bugs else update
        if "not_in_place" not in bugs:
            vector += (update if "sign_plus" in bugs else -update).astype(vector.dtype)
        new_m, new_v = (m_hat, v_hat) if "corrected_stored" in bugs else (new_m, new_v)
        if "float32_state" in bugs:
            new_m, new_v = new_m.astype(np.float32), new_v.astype(np.float32)
        if not {"m_not_stored", "m_alone_not_stored"} & bugs:
            m[...] = new_m
        if not {"m_not_stored", "v_not_stored"} & bugs:
            v[...] = new_v
        if "gradient_changed" in bugs:
            gradient *= 0.5

    def with_signature(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=None, eps=1e-8):
        return adam(vector, gradient, moments, step, lr=lr, beta1=beta1, beta2=beta2, eps=eps)

    return SimpleNamespace(adam=with_signature)
