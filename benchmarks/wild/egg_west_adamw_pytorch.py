"""egg-west/AdamW-pytorch: a torch optimiser."""

from checkout import checkout, importable, optimisers

importable(checkout("egg-west/AdamW-pytorch"))

from adamW import AdamW as Theirs  # noqa: E402

Adam, AdamW = optimisers(Theirs)
