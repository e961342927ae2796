"""SASRec as pmixer/SASRec.pytorch saves it: the state dict of its class.

Its code has had three orders of norms under the same names. Until 2025 it was that of the released TensorFlow code
("sasrec"); since then norms are before the sublayers ("pre", `--norm_first`) or after the residuals ("post"). Attention
looks at padding, which stands before the items.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...files import FileError
from .layout import Entry, norm
from .sasrec_layout import SASRecLayout, heads, linear
from .state_dict import StateDict

FORMS = ("pre", "post", "sasrec")
POSITIONS = "pos_emb.weight"


class Pmixer(SASRecLayout):
    """`item_emb.weight`, `attention_layers.0.in_proj_weight`, ..."""

    name, items, first = "pmixer/SASRec.pytorch", "item_emb.weight", "attention_layers.{}.in_proj_weight"
    required: ClassVar[dict[str, str]] = {
        "heads": "its --num_heads, which was 1 unless it was set",
        "block_form": "pre for --norm_first, post without it, sasrec for code before 2025",
    }

    def options(self, state: StateDict, options: dict[str, Any]) -> dict[str, Any]:
        if options["block_form"] not in FORMS:
            expected = f"one of {', '.join(FORMS)}, as {self.name} has"
            raise FileError(f"block_form is {options['block_form']!r}, expected {expected}")
        longest, padding = self.shape(state, POSITIONS, 2)[0], options.get("padding", "tokens")
        if "padding" not in options and options["block_form"] == "sasrec" and np.any(state.read(POSITIONS)[0]):
            padding = "blank"                                # as in its first code: row 0 was learned
        longest -= padding != "blank"
        maxlen = options.get("maxlen", longest)
        if maxlen > longest:
            raise FileError(f"maxlen is {maxlen}, expected at most {longest}: {state.path} has no more positions")
        return {
            "dim": self.shape(state, self.items, 2)[1], "blocks": self.blocks(state), "maxlen": maxlen,
            "padding": padding, "emb_scale": True, "qkv_bias": True, "output_projection": True, "eps": 1e-8,
        }  # fmt: skip

    def entries(self, network: Any) -> Iterator[Entry]:
        D = network.dim
        yield Entry(self.items, (network.n_items + 1, D), ("items",))
        for i in range(network.blocks):
            ours = f"blocks.{i}"
            yield from norm(f"attention_layernorms.{i}", f"{ours}.norm_1", D)
            yield from heads(f"attention_layers.{i}", f"{ours}.attention", D)
            yield from norm(f"forward_layernorms.{i}", f"{ours}.norm_2", D)
            for theirs, name in (("conv1", "inner"), ("conv2", "outer")):
                yield from linear(f"forward_layers.{i}.{theirs}", f"{ours}.feed_forward.{name}", D, kernel=(1,))
        yield from norm("last_layernorm", "norm", D)
        yield Entry(POSITIONS, (-1, D), ())

    def finish(self, network: Any, arrays: dict[str, np.ndarray], state: StateDict) -> None:
        """Position 0 belongs to padding: if padding is a token, its position is added to row 0 of the items."""
        positions = state.read(POSITIONS)
        if network.padding != "blank":
            arrays["items"][0] += positions[0] / np.float32(math.sqrt(network.dim))
            positions = positions[1:]
        arrays["positions"] = positions[: network.maxlen]
