"""LLaMA as Hugging Face's transformers saves it (Touvron et al. 2023).

Its linear maps are y = x Wᵀ with W (out, in). Its rotary positions pair feature i of a head with feature i + d/2; ours,
like the paper's, pair 2i with 2i + 1. Columns of queries and keys are permuted alike, so scores are equal.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ...files import FileError
from .config import Config
from .layout import Entry, TextLayout, norm

SCALED = ("default", "linear", "dynamic", "yarn", "llama3")


class Llama(TextLayout):
    """`model.embed_tokens.weight`, `model.layers.0.self_attn.q_proj.weight`, ..., with or without `model.`."""

    name, prefix, embeddings = "llama", "model.", "embed_tokens.weight"
    typical = "layers.0.self_attn.q_proj.weight"
    ignored = re.compile(r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq")    # constants in older files

    def options(self, config: Config) -> dict[str, Any]:
        dim, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
        config.refuse_other("hidden_act", "silu")
        config.refuse_other("mlp_bias", False)
        if dim % heads == 0:             # else the network refuses it
            config.refuse_other("head_dim", dim // heads)
        return {
            "context": config.whole("max_position_embeddings"),
            "dim": dim,
            "layers": config.whole("num_hidden_layers"),
            "heads": heads,
            "kv_heads": config.whole("num_key_value_heads", heads),
            "position": "rope",
            **_rope(config),
            "norm": "rms",
            "eps": config.positive("rms_norm_eps", 1e-6),
            "feed_forward": "swiglu",
            "feed_forward_width": config.whole("intermediate_size") / dim,
            "bias": config.flag("attention_bias", False),
            "tied": config.flag("tie_word_embeddings", False),
        }

    def entries(self, network: Any, at: str) -> Iterator[Entry]:
        D, F, h = network.dim, network.inner, network.heads
        g = network.kv_heads
        yield Entry(f"{at}embed_tokens.weight", (network.n_tokens, D), ("tokens",))
        for i in range(network.layers):
            theirs, ours = f"{at}layers.{i}", f"blocks.{i}"
            yield from norm(f"{theirs}.input_layernorm", f"{ours}.norm_1", D, bias=False)
            for name, our, heads, turn in (
                ("q_proj", "query", h, partial(neighbours, heads=h)),
                ("k_proj", "key", g, partial(neighbours, heads=g)),
                ("v_proj", "value", g, np.transpose),
                ("o_proj", "output", h, np.transpose),
            ):
                names = f"{theirs}.self_attn.{name}", f"{ours}.attention.{our}"
                yield from _map(*names, D, heads * D // h, turn, network.bias)
            yield from norm(f"{theirs}.post_attention_layernorm", f"{ours}.norm_2", D, bias=False)
            for name, our, n_in, n_out in (("gate", "gate", D, F), ("up", "inner", D, F), ("down", "outer", F, D)):
                yield from _map(f"{theirs}.mlp.{name}_proj", f"{ours}.feed_forward.{our}", n_in, n_out)
        yield from norm(f"{at}norm", "norm", D, bias=False)
        yield from self.output(network)


def neighbours(W: np.ndarray, heads: int) -> np.ndarray:
    """Wᵀ, columns i and i + d/2 of each head as 2i and 2i + 1. Shapes: (heads d, D) -> (D, heads d), or (heads d,)."""
    columns = W.T
    *rows, width = columns.shape
    return columns.reshape(*rows, heads, 2, width // heads // 2).swapaxes(-1, -2).reshape(columns.shape)


def _rope(config: Config) -> dict[str, Any]:
    """Options of rotary positions, which newer files keep in a table. Raises FileError for unsupported ones.

    "dynamic" leaves angles as they are up to max_position_embeddings tokens, and here no text is longer.
    """
    newer, older = (config.table(name) for name in ("rope_parameters", "rope_scaling"))
    if nested := [name for name, value in (newer.values | older.values).items() if isinstance(value, dict)]:
        raise FileError(f"{config.path} has a table of angles for {nested[0]} alone: expected one for all layers")
    kinds = [kind for table in (newer, older) if (kind := _kind(table)) != "default"]
    if len(kinds) == 2 and newer.values != older.values:
        raise FileError(f"{config.path} scales angles in rope_parameters and in rope_scaling, expected one of them")
    options: dict[str, Any] = {"rope_base": newer.positive("rope_theta", config.positive("rope_theta", 10000.0))}
    table = newer if _kind(newer) != "default" else older
    for part in (config, newer, older):
        part.refuse_other("partial_rotary_factor", 1)
    if not kinds or kinds == ["dynamic"]:
        return options
    factor = table.positive("factor")
    options |= {"rope_scaling": kinds[0], "rope_factor": factor}
    if kinds[0] == "llama3":
        options["rope_trained"] = table.whole("original_max_position_embeddings")
        options |= {"rope_slow": table.positive("low_freq_factor"), "rope_fast": table.positive("high_freq_factor")}
    if kinds[0] == "yarn":
        table.refuse_other("truncate", True)
        longest, usual = config.whole("max_position_embeddings"), 0.1 * math.log(factor) + 1
        if table.get("mscale") and table.get("mscale_all_dim"):                  # DeepSeek's files
            over, under = (0.1 * table.positive(m) * math.log(factor) + 1 for m in ("mscale", "mscale_all_dim"))
            usual = over / under
        options["rope_trained"] = table.whole("original_max_position_embeddings", longest)
        options |= {"rope_slow": table.positive("beta_slow", 1.0), "rope_fast": table.positive("beta_fast", 32.0)}
        options["rope_amplitude"] = table.positive("attention_factor", usual)
    return options


def _kind(table: Config) -> str:
    """How a table scales angles. Raises FileError for a table with a factor that does not say how."""
    kind, factor = table.get("rope_type", table.get("type")), table.get("factor")
    if kind is None and factor is not None:
        raise FileError(f"{table.path} scales angles by {factor} without a rope_type, one of {', '.join(SCALED)}")
    return Config(table.path, {"rope_type": kind}).one_of("rope_type", SCALED, "default")


def _map(
    theirs: str, ours: str, n_in: int, n_out: int,
    turn: Callable[[np.ndarray], np.ndarray] = np.transpose, bias: bool = False,
) -> Iterator[Entry]:  # fmt: skip
    yield Entry(f"{theirs}.weight", (n_out, n_in), (f"{ours}.W",), turn)
    if bias:
        yield Entry(f"{theirs}.bias", (n_out,), (f"{ours}.b",), turn)
