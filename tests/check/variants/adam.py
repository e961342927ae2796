"""Adam's step written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
PLANTED = {
    "no_bias_corr": ("loops",),
    "t_from_0": ("loops",),
    "v_no_square": ("loops",),
    "eps_inside": ("loops",),
    "one_correction": ("loops",),
    "eps_uncorrected": ("loops",),
    "sign_plus": ("loops",),
    "gradient_changed": ("loops",),
    "m_not_stored": ("loops",),
    "betas_swapped": ("loops",),
    "lr_ignored": ("loops",),
    "nesterov": ("loops",),
    "sqrt_missing": ("loops",),
    "float32_state": ("loops",),
    "l2_decay": ("loops",),
    "amsgrad": ("loops",),
    "decoupled_decay": ("loops",),
    "old_m": ("loops",),
    "gradient_clipped": ("loops",),
    "zero_gradient_skipped": ("loops",),
    "eps_fixed": ("loops",),
    "correction_of_beta1": ("loops",),
    "correction_first_step_only": ("loops",),
    "own_counter": ("loops",),
    "v_not_stored": ("loops",),
    "v_of_all": ("loops",),
    "m_not_averaged": ("loops",),
    "copy_of_strided": ("einsum", "inplace"),
    "last_entry_missed": ("loops",),
    "v_centred": ("loops",),
}
INVENTED = {
    "amsgrad": "v never falls: the larger of the old and the new value is kept",
    "decoupled_decay": "the vector also shrinks by lr * 0.01 of itself",
    "old_m": "the vector moves by the m from before this step",
    "gradient_clipped": "gradients are clipped to -1..1: wrong only beyond",
    "zero_gradient_skipped": "entries whose gradient is 0 are passed over: no decay of their moments, no move",
    "eps_fixed": "eps is 1e-8 whatever is asked for",
    "correction_of_beta1": "both moments are corrected by 1 - beta1^step",
    "correction_first_step_only": "the moments are corrected in step 1 only",
    "own_counter": "counts its own calls and does not look at step: wrong for a second run or a resumed one",
    "v_not_stored": "v is computed but not stored",
    "v_of_all": "v takes the mean of g^2 over all entries: right only for one entry, or equal ones",
    "m_not_averaged": "m = beta1 m + g, without the factor 1 - beta1",
    "copy_of_strided": "vector is made contiguous first: a strided one does not move, its copy does",
    "last_entry_missed": "an odd last entry is left out, as if entries came in pairs",
    "v_centred": "v takes (g - m)^2, not g^2 (as AdaBelief does)",
}
_DECAY = 0.01


def make(style, bug=None):
    """-> a namespace with adam; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    return SimpleNamespace(adam={"loops": _loops, "einsum": _einsum, "inplace": _inplace}[style](bug))


def _loops(bug):
    """Entry by entry, in Python floats."""
    calls = [0]

    def adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        m, v = moments
        step = int(step)
        calls[0] += 1
        if bug == "own_counter":
            step = calls[0]
        if bug == "t_from_0":
            step += 1
        if bug == "betas_swapped":
            beta1, beta2 = beta2, beta1
        if bug == "lr_ignored":
            lr = 1e-3
        if bug == "eps_fixed":
            eps = 1e-8
        seen1, seen2 = 1 - beta1**step, 1 - beta2**step
        if bug == "no_bias_corr" or (bug == "correction_first_step_only" and step > 1):
            seen1 = seen2 = 1.0
        if bug == "one_correction":
            seen2 = 1.0
        if bug == "correction_of_beta1":
            seen2 = seen1
        count = len(vector)
        if bug == "last_entry_missed" and count > 1:
            count -= count % 2
        for i in range(count):
            g = float(gradient[i])
            if bug == "zero_gradient_skipped" and g == 0:
                continue
            if bug == "gradient_clipped":
                g = min(max(g, -1.0), 1.0)
            if bug == "l2_decay":
                g += _DECAY * float(vector[i])
            if bug == "gradient_changed":
                gradient[i] = (1 - beta1) * g
            square = g * g
            old_m, old_v = float(m[i]), float(v[i])
            new_m = beta1 * old_m + (1 - beta1) * g
            if bug == "m_not_averaged":
                new_m = beta1 * old_m + g
            if bug == "v_no_square":
                square = abs(g)
            if bug == "v_of_all":
                square = math.fsum(float(x) ** 2 for x in gradient) / len(gradient)
            if bug == "v_centred":
                square = (g - new_m) ** 2
            new_v = beta2 * old_v + (1 - beta2) * square
            if bug == "amsgrad":
                new_v = max(old_v, new_v)
            if bug != "m_not_stored":
                m[i] = np.float32(new_m) if bug == "float32_state" else new_m
            if bug not in ("m_not_stored", "v_not_stored"):
                v[i] = np.float32(new_v) if bug == "float32_state" else new_v
            top, below = new_m / seen1, math.sqrt(new_v / seen2) + eps
            if bug == "old_m":
                top = old_m / seen1
            if bug == "nesterov":
                top = (beta1 * new_m + (1 - beta1) * g) / seen1
            if bug == "eps_inside":
                below = math.sqrt(new_v / seen2 + eps)
            if bug == "eps_uncorrected":
                below = (math.sqrt(new_v) + eps) / math.sqrt(seen2)
            if bug == "sqrt_missing":
                below = new_v / seen2 + eps
            moved = float(vector[i]) - lr * top / below
            if bug == "sign_plus":
                moved = float(vector[i]) + lr * top / below
            if bug == "decoupled_decay":
                moved -= lr * _DECAY * float(vector[i])
            vector[i] = moved

    return adam


def _einsum(bug):
    """Both moments as one linear map; the corrections drawn into the step's length (Kingma & Ba's last remark)."""
    calls = [0]

    def adam(vector, gradient, moments, step, *, lr=0.001, beta1=0.9, beta2=0.98, eps=1e-08):
        dtype = vector.dtype
        before = np.stack([moments.m, moments.v])
        calls[0] += 1
        if bug == "copy_of_strided":
            vector = np.ascontiguousarray(vector)
        g = gradient
        betas = (beta1, beta2)
        decay = np.array(betas, dtype)
        gain = np.array([1 - betas[0], 1 - betas[1]], dtype)
        powers = np.stack([g, g * g])
        after = np.einsum("s,sp->sp", decay, before) + np.einsum("s,sp->sp", gain, powers)
        m, v = after
        step = int(step)
        seen1, seen2 = (1 - betas[0] ** step, 1 - betas[1] ** step)
        root = math.sqrt(seen2)
        length = lr * root / seen1
        below = np.sqrt(v) + eps * root
        move = -length * (m / below)
        end = g.size
        vector[:end] = vector[:end] + move[:end].astype(dtype)
        moments.m[:end] = after[0, :end]
        moments.v[:end] = after[1, :end]

    return adam


def _inplace(bug):
    """The moments are written first; one float64 buffer then becomes the step."""
    calls = [0]

    def adam(vector, gradient, moments, step, *, lr=0.001, beta1=0.9, beta2=0.98, eps=1e-08):
        m, v = moments
        calls[0] += 1
        t = int(step)
        if bug == "copy_of_strided":
            vector = np.require(vector, requirements="C")
        g = gradient.astype(np.float64)
        (vector.copy(), m.copy(), v.copy())
        work = np.array(g, dtype=np.float64)
        work *= 1 - beta1
        np.multiply(m, beta1, out=m)
        np.add(m, work, out=m, casting="same_kind")
        np.square(g, out=g)
        work[...] = g
        work *= 1 - beta2
        np.multiply(v, beta2, out=v)
        np.add(v, work, out=v, casting="same_kind")
        seen1, seen2 = (-math.expm1(t * math.log(beta1)) if beta1 else 1.0, 1 - beta2**t)
        work[...] = v
        work /= seen2
        np.sqrt(work, out=work)
        work += eps
        np.divide(m, work, out=work)
        work *= lr / seen1
        np.subtract(vector, work, out=vector, casting="same_kind")

    return adam
