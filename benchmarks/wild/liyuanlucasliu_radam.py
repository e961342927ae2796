"""LiyuanLucasLiu/RAdam: its AdamW, a torch optimiser."""

from checkout import checkout, importable, optimisers

importable(checkout("LiyuanLucasLiu/RAdam") / "radam")

from radam import AdamW as Theirs  # noqa: E402

Adam, AdamW = optimisers(Theirs)
