"""Adam's step written three times, differently, and the bugs that can be planted in each."""

import math
from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
PLANTED = {
    "no_bias_corr": ("loops", "einsum", "inplace"),
    "t_from_0": ("loops", "einsum", "inplace"),
    "v_no_square": ("loops", "einsum", "inplace"),
    "eps_inside": ("loops", "einsum", "inplace"),
    "one_correction": ("loops", "einsum", "inplace"),
    "eps_uncorrected": ("loops", "einsum", "inplace"),
    "sign_plus": ("loops", "einsum", "inplace"),
    "gradient_changed": ("loops", "einsum", "inplace"),
    "m_not_stored": ("loops", "einsum", "inplace"),
    "betas_swapped": ("loops", "einsum", "inplace"),
    "lr_ignored": ("loops", "einsum", "inplace"),
    "nesterov": ("loops", "einsum", "inplace"),
    "sqrt_missing": ("loops", "einsum", "inplace"),
    "float32_state": ("loops", "einsum", "inplace"),
    "l2_decay": ("loops", "einsum", "inplace"),
    "amsgrad": ("loops", "einsum", "inplace"),
    "decoupled_decay": ("loops", "einsum", "inplace"),
    "old_m": ("loops", "einsum", "inplace"),
    "gradient_clipped": ("loops", "einsum", "inplace"),
    "zero_gradient_skipped": ("loops", "einsum", "inplace"),
    "eps_fixed": ("loops", "einsum", "inplace"),
    "correction_of_beta1": ("loops", "einsum", "inplace"),
    "correction_first_step_only": ("loops", "einsum", "inplace"),
    "own_counter": ("loops", "einsum", "inplace"),
    "v_not_stored": ("loops", "einsum", "inplace"),
    "v_of_all": ("loops", "einsum", "inplace"),
    "m_not_averaged": ("loops", "einsum", "inplace"),
    "copy_of_strided": ("einsum", "inplace"),
    "last_entry_missed": ("loops", "einsum", "inplace"),
    "v_centred": ("loops", "einsum", "inplace"),
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

    def adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        dtype = vector.dtype
        before = np.stack([moments.m, moments.v])
        calls[0] += 1
        if bug == "own_counter":
            step = calls[0]
        if bug == "t_from_0":
            step = step + 1
        if bug == "lr_ignored":
            lr = 1.0
        if bug == "eps_fixed":
            eps = 1e-8
        if bug == "copy_of_strided":
            vector = np.ascontiguousarray(vector)
        g = gradient
        if bug == "gradient_clipped":
            g = np.clip(g, -1, 1)
        if bug == "l2_decay":
            g = g + _DECAY * vector
        if bug == "gradient_changed":
            gradient *= 0.5
            g = 2 * gradient
        betas = (beta2, beta1) if bug == "betas_swapped" else (beta1, beta2)
        decay = np.array(betas, dtype)
        gain = np.array([1 - betas[0], 1 - betas[1]], dtype)
        if bug == "m_not_averaged":
            gain[0] = 1
        powers = np.stack([g, g * g])
        if bug == "v_no_square":
            powers[1] = np.abs(g)
        if bug == "v_of_all":
            powers[1] = np.mean(g * g) if g.size else 0
        if bug == "v_centred":
            powers[1] = np.square(g - decay[0] * before[0] - gain[0] * g)
        after = np.einsum("s,sp->sp", decay, before) + np.einsum("s,sp->sp", gain, powers)
        if bug == "amsgrad":
            after[1] = np.maximum(after[1], before[1])
        if bug == "zero_gradient_skipped":
            after = np.where(g == 0, before, after)
        m, v = after
        if bug == "old_m":
            m = before[0]
        if bug == "nesterov":
            m = decay[0] * m + gain[0] * g
        step = int(step)
        seen1, seen2 = 1 - betas[0] ** step, 1 - betas[1] ** step
        if bug == "no_bias_corr":
            seen1, seen2 = 1.0, 1.0
        if bug == "correction_first_step_only" and step != 1:
            seen1, seen2 = 1.0, 1.0
        if bug == "one_correction":
            seen2 = 1.0
        if bug == "correction_of_beta1":
            seen2 = seen1
        root = math.sqrt(seen2)
        length = lr * root / seen1
        below = np.sqrt(v) + eps * root
        if bug == "eps_inside":
            below = np.sqrt(v + eps * seen2)
        if bug == "eps_uncorrected":
            below = np.sqrt(v) + eps
        if bug == "sqrt_missing":
            length = lr * seen2 / seen1
            below = v + eps * seen2
        move = -length * (m / below)
        if bug == "sign_plus":
            move = -move
        if bug == "decoupled_decay":
            move = move - lr * _DECAY * vector
        if bug == "zero_gradient_skipped":
            move = np.where(g == 0, 0, move)
        end = g.size
        if bug == "last_entry_missed" and end > 1:
            end -= end % 2
        vector[:end] = vector[:end] + move[:end].astype(dtype)
        if bug == "float32_state":
            after = after.astype(np.float32)
        if bug != "m_not_stored":
            moments.m[:end] = after[0, :end]
        if bug not in ("m_not_stored", "v_not_stored"):
            moments.v[:end] = after[1, :end]

    return adam


def _inplace(bug):
    """The moments are written first; one float64 buffer then becomes the step."""
    calls = [0]

    def adam(vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        m, v = moments
        calls[0] += 1
        t = int(step)
        if bug == "own_counter":
            t = calls[0]
        if bug == "t_from_0":
            t -= 1
        if bug == "betas_swapped":
            beta1, beta2 = beta2, beta1
        if bug == "lr_ignored":
            lr = 1e-3
        if bug == "eps_fixed":
            eps = 1e-8
        if bug == "copy_of_strided":
            vector = np.require(vector, requirements="C")
        g = gradient if bug == "gradient_changed" else gradient.astype(np.float64)
        if bug == "gradient_clipped":
            np.clip(g, -1, 1, out=g)
        if bug == "l2_decay":
            g += _DECAY * vector
        untouched = (vector.copy(), m.copy(), v.copy())
        if bug == "m_not_stored":
            m, v = m.copy(), v.copy()
        if bug == "v_not_stored":
            v = v.copy()
        work = np.array(g, dtype=np.float64)
        work *= 1 if bug == "m_not_averaged" else 1 - beta1
        np.multiply(m, beta1, out=m)
        np.add(m, work, out=m, casting="same_kind")
        if bug == "v_centred":
            g -= m
        if bug == "v_no_square":
            np.abs(g, out=g)
        elif bug == "gradient_changed":
            g *= g
        else:
            np.square(g, out=g)
        if bug == "v_of_all" and g.size:
            g.fill(g.mean())
        work[...] = g
        work *= 1 - beta2
        np.multiply(v, beta2, out=v)
        np.add(v, work, out=v, casting="same_kind")
        if bug == "amsgrad":
            np.maximum(v, untouched[2], out=v)
        if bug == "float32_state":
            m[...] = m.astype(np.float32)
            v[...] = v.astype(np.float32)
        seen1, seen2 = -math.expm1(t * math.log(beta1)) if beta1 else 1.0, 1 - beta2**t
        if bug == "no_bias_corr" or (bug == "correction_first_step_only" and t > 1):
            seen1 = seen2 = 1.0
        if bug == "one_correction":
            seen2 = 1.0
        if bug == "correction_of_beta1":
            seen2 = seen1
        work[...] = v
        if bug == "t_from_0" and seen2 == 0:
            seen1 = seen2 = 1.0
        if bug != "eps_uncorrected":
            work /= seen2
        if bug == "eps_inside":
            work += eps
        if bug != "sqrt_missing":
            np.sqrt(work, out=work)
        if bug != "eps_inside":
            work += eps
        if bug == "eps_uncorrected":
            work /= math.sqrt(seen2)
        if bug == "old_m":
            np.divide(untouched[1], work, out=work)
        elif bug == "nesterov":
            np.divide(beta1 * m + (1 - beta1) * gradient, work, out=work)
        else:
            np.divide(m, work, out=work)
        work *= lr / seen1
        if bug == "sign_plus":
            np.negative(work, out=work)
        if bug == "decoupled_decay":
            work += lr * _DECAY * vector
        if bug == "last_entry_missed" and work.size > 1 and work.size % 2:
            work[-1] = 0
            m[-1], v[-1] = untouched[1][-1], untouched[2][-1]
        np.subtract(vector, work, out=vector, casting="same_kind")
        if bug == "zero_gradient_skipped":
            for array, old in zip((vector, m, v), untouched, strict=True):
                np.copyto(array, old, where=gradient == 0)

    return adam
