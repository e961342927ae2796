"""mpyrozhok/adamwr: a torch optimiser."""

from checkout import checkout, importable, optimisers

importable(checkout("mpyrozhok/adamwr"))

from adamw import AdamW as Theirs  # noqa: E402

Adam, AdamW = optimisers(Theirs)
