"""egg-west/AdamW-pytorch: a torch optimiser."""

from functools import partial

from checkout import checkout, importable, stepped

importable(checkout("egg-west/AdamW-pytorch"))

from adamW import AdamW as Theirs  # noqa: E402


class AdamW:
    def adamw(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.01):
        make = partial(Theirs, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
        stepped(make, vector, gradient, moments, step)


class Adam:
    """Without a decay, which is its default."""

    def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):
        stepped(partial(Theirs, lr=lr, betas=(beta1, beta2), eps=eps), vector, gradient, moments, step)
