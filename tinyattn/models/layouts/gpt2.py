"""GPT-2 as Hugging Face's transformers saves it (Radford et al. 2019).

Its linear maps are y = x W + b with W (in, out), as here, and one of them makes queries, keys and values, side by side.
"""

import re
from collections.abc import Iterator
from typing import Any

from .config import Config
from .layout import Entry, TextLayout, norm

ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu", "relu": "relu"}


class GPT2(TextLayout):
    """`wte.weight`, `h.0.attn.c_attn.weight`, ..., with or without `transformer.` before them."""

    name, prefix, embeddings = "gpt2", "transformer.", "wte.weight"
    typical = "h.0.attn.c_attn.weight"
    ignored = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")        # the causal mask, which older files hold

    def options(self, config: Config) -> dict[str, Any]:
        config.refuse_other("scale_attn_weights", True)
        config.refuse_other("scale_attn_by_inverse_layer_idx", False)
        config.refuse_other("add_cross_attention", False)
        dim = config.whole("n_embd")
        return {
            "context": config.whole("n_positions"),
            "dim": dim,
            "layers": config.whole("n_layer"),
            "heads": config.whole("n_head"),
            "feed_forward": ACTIVATIONS[config.one_of("activation_function", ACTIVATIONS, "gelu_new")],
            "feed_forward_width": config.whole("n_inner", 4 * dim) / dim,
            "eps": config.positive("layer_norm_epsilon", 1e-5),
            "tied": config.flag("tie_word_embeddings", True),
        }

    def entries(self, network: Any, at: str) -> Iterator[Entry]:
        D, F = network.dim, network.inner
        yield Entry(f"{at}wte.weight", (network.n_tokens, D), ("tokens",))
        yield Entry(f"{at}wpe.weight", (network.context, D), ("positions",))
        for i in range(network.layers):
            theirs, ours = f"{at}h.{i}", f"blocks.{i}"
            yield from norm(f"{theirs}.ln_1", f"{ours}.norm_1", D)
            qkv = [f"{ours}.attention.{name}" for name in ("query", "key", "value")]
            yield from _map(f"{theirs}.attn.c_attn", qkv, D, 3 * D)
            yield from _map(f"{theirs}.attn.c_proj", [f"{ours}.attention.output"], D, D)
            yield from norm(f"{theirs}.ln_2", f"{ours}.norm_2", D)
            yield from _map(f"{theirs}.mlp.c_fc", [f"{ours}.feed_forward.inner"], D, F)
            yield from _map(f"{theirs}.mlp.c_proj", [f"{ours}.feed_forward.outer"], F, D)
        yield from norm(f"{at}ln_f", "norm", D)
        yield from self.output(network)


def _map(theirs: str, ours: list[str], n_in: int, n_out: int) -> Iterator[Entry]:
    yield Entry(f"{theirs}.weight", (n_in, n_out), tuple(f"{name}.W" for name in ours))
    yield Entry(f"{theirs}.bias", (n_out,), tuple(f"{name}.b" for name in ours))
