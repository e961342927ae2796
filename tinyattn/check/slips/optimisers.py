"""AdamW."""

from .slip import slip

_DECAY = "vector = vector * (1 - lr * weight_decay)"
_CORRECTED = "m_hat = m / (1 - beta1 ** step)"

ADAMW = (
    slip("decay_sign", "the decay has the wrong sign: weights grow", "Zero gradient: does |p| fall?", ("1 - lr * weight_decay", "1 + lr * weight_decay")),
    slip("eps_inside", "eps stands inside the root", "Multiply all gradients by 1e-3.", ("np.sqrt(v_hat) + eps", "np.sqrt(v_hat + eps)")),
    slip("coupled", "the decay is added to the gradient: L2 regularisation, which the moments see", "Zero gradient: does an entry decay by lr λ p, or by lr?", (_DECAY, "gradient = gradient + weight_decay * vector")),
    slip("coupled_twice", "the decay is added to the gradient as well", "How often does λ p appear?", (_DECAY, f"gradient = gradient + weight_decay * vector\n    {_DECAY}")),
    slip("decay_after", "the decay acts on the vector after the step, not before it", "Whose λ p: the old p's, or the new one's?", (_DECAY, ""), ("return (vector, m, v)", f"{_DECAY}\n    return (vector, m, v)")),
    slip("decay_corrected", "the decay is multiplied by Adam's corrections of the step size", "Zero gradient at step 1: by how much does p decay?",
         ("lr * weight_decay", "lr * weight_decay * np.sqrt(1 - beta2 ** step) / (1 - beta1 ** step)")),
    slip("decay_corrected_m", "the decay is divided by 1 - β₁ᵗ, as m is", "Zero gradient at step 1: by how much does p decay?", ("lr * weight_decay", "lr * weight_decay / (1 - beta1 ** step)")),
    slip("decay_divided", "the decay is divided by √v̂ + eps, as m̂ is", "λ p is added beside m̂ / (√v̂ + eps).", (_DECAY, "decay = weight_decay * vector"), ("lr * m_hat /", "lr * (m_hat + decay) /")),
    slip("decay_of_sign", "the decay is that of L1: the sign of p, not p", "Units of λ p?", (_DECAY, "vector = vector - lr * weight_decay * np.sign(vector)")),
    slip("decay_half", "the decay is doubled, as the derivative of λ p²", "p ← p - lr λ p: is there a 2?", ("lr * weight_decay", "2 * lr * weight_decay")),
    slip("not_in_place", "the vector is not written to", "vector = vector - ... makes a new array.", (_DECAY, f"old = vector\n    {_DECAY}"), ("return (vector, m, v)", "return (old, m, v)")),
    slip("moments_not_stored", "the moments are not written back", "Feed two different gradients.", (_DECAY, f"old = (m, v)\n    {_DECAY}"), ("return (vector, m, v)", "return (vector, *old)")),
    slip("corrected_stored", "the corrected moments are written back", "Feed a constant gradient: the step at t = 3?", ("return (vector, m, v)", "return (vector, m_hat, v_hat)")),
    slip("no_one_minus", "the gradient is added whole: 1 - β is missing", "The mean of a constant is the constant.", ("(1 - beta1) * gradient", "gradient"), ("(1 - beta2) * gradient ** 2", "gradient ** 2")),
    slip("step_from_0", "the correction's step is one too low", "1 - β⁰? How large is the first step?", (_CORRECTED, f"step -= 1\n    {_CORRECTED}")),
    slip("step_plus_1", "the correction's step is one too high", "How large is the first step?", (_CORRECTED, f"step += 1\n    {_CORRECTED}")),
    slip("first_correction", "both moments are corrected as at the first step, at every step", "How large are the steps at t = 1, 2 and 100?", (_CORRECTED, f"step = 1\n    {_CORRECTED}")),
    slip("eps_uncorrected", "eps is added to √v before the correction", "Compute the step for a gradient of 1e-8.", ("(np.sqrt(v_hat) + eps)", "((np.sqrt(v) + eps) / np.sqrt(1 - beta2 ** step))")),
    slip("no_correction", "neither moment is corrected for its start at 0", "Feed a constant gradient: the step at t = 2?", (_CORRECTED, "m_hat = m"), ("v_hat = v / (1 - beta2 ** step)", "v_hat = v")),
)  # fmt: skip
