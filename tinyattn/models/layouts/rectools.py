"""SASRec as RecTools saves it: a Lightning checkpoint of its SASRecModel, or the state dict in one.

The block is that of SASRec's released code, with torch's attention. Padding is 0 before every block, and attention
looks at it, unless `use_key_padding_mask` hides it. Positions count from the newest item.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...files import FileError
from ...terminal import shortened
from .layout import Entry, norm
from .sasrec_layout import SASRecLayout, heads, linear
from .state_dict import StateDict

POSITIONS = "pos_encoding_layer.pos_emb.weight"
BLOCKS = "transformer_layers.transformer_blocks"
# values of a configuration that are supported
ONLY = {"use_causal_attn": True, "transformer_layers_type": "SASRecTransformerLayers"}


class RecTools(SASRecLayout):
    name, items = "RecTools", "item_model.item_net_blocks.0.ids_emb.weight"
    first = BLOCKS + ".{}.q_layer_norm.weight"
    required: ClassVar[dict[str, str]] = {"heads": "its n_heads, which was 4 unless it was set"}

    def options(self, state: StateDict, options: dict[str, Any]) -> dict[str, Any]:
        other = f"{BLOCKS}.0.layer_norm_1.weight"
        if not self.blocks(state) and other in state.parameters:
            raise FileError(f"{state.path} has {other}: of RecTools' layers only SASRecTransformerLayers are mapped")
        config = self._config(state)
        about: dict[str, Any] = {
            "dim": self.shape(state, self.items, 2)[1], "blocks": self.blocks(state), "block_form": "sasrec",
            "emb_scale": bool(_table(state, config, "pos_encoding_kwargs").get("use_scale_factor", False)),
            "qkv_bias": True, "output_projection": True, "eps": 1e-5, "last_eps": 1e-8,
            "padding": "hidden" if config.get("use_key_padding_mask") else "blank",
        }  # fmt: skip
        if "n_heads" in config:
            about["heads"] = config["n_heads"]
        if POSITIONS in state.parameters:
            return about | {"maxlen": self.shape(state, POSITIONS, 2)[0]}
        if "session_max_len" not in config and "maxlen" not in options:
            raise FileError(f"{state.path} has no {POSITIONS}: set maxlen to its session_max_len")
        return about | {"position": "none", "maxlen": config.get("session_max_len", options.get("maxlen"))}

    def entries(self, network: Any) -> Iterator[Entry]:
        D = network.dim
        yield Entry(self.items, (network.n_items + 1, D), ("items",))
        if network.position == "learned":
            yield Entry(POSITIONS, (network.maxlen, D), ("positions",), lambda P: P[::-1])
        for i in range(network.blocks):
            theirs, ours = f"{BLOCKS}.{i}", f"blocks.{i}"
            yield from norm(f"{theirs}.q_layer_norm", f"{ours}.norm_1", D)
            yield from heads(f"{theirs}.multi_head_attn", f"{ours}.attention", D)
            yield from norm(f"{theirs}.ff_layer_norm", f"{ours}.norm_2", D)
            for name, part in (("ff_linear_1", "inner"), ("ff_linear_2", "outer")):
                yield from linear(f"{theirs}.feed_forward.{name}", f"{ours}.feed_forward.{part}", D)
        yield from norm("transformer_layers.last_layernorm", "norm", D)

    def ids(self, state: StateDict) -> list[Any] | None:
        """All but the first, which is padding's."""
        if (ids := state.about.get("item_external_ids")) is None:
            return None
        if not isinstance(ids, list | tuple | np.ndarray) or np.ndim(np.asarray(ids, dtype=object)) != 1:
            raise FileError(f"{state.path} has item_external_ids {shortened(repr(ids))}, expected a list of ids")
        return list(ids)[1:]

    def _config(self, state: StateDict) -> dict[str, Any]:
        """The model's configuration, {} if the file has none. FileError for one that is not supported."""
        config = state.about.get("model_config")
        if not isinstance(config, dict):
            return {}
        for name, only in ONLY.items():
            if str(config.get(name, only)).rpartition(".")[2] != str(only):
                raise FileError(f"{state.path} has {name} {config[name]!r}, expected {only!r}: nothing else is mapped")
        distance = _table(state, config, "similarity_module_kwargs").get("distance", "dot")
        if distance != "dot":
            raise FileError(f"{state.path} has distance {distance!r}, expected 'dot': nothing else is mapped")
        return config


def _table(state: StateDict, config: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of a configuration, {} if it is missing or None. Raises FileError for one that is no dict."""
    table = config.get(name) or {}
    if not isinstance(table, dict):
        raise FileError(f"{state.path} has {name} {shortened(repr(table))}, expected a dict")
    return table
