"""Folders of weights that are refused: the message names the cause, and nothing is unpacked before."""

import json
import pickle
import re
import sys

import numpy as np
import pytest

from tests.models.layouts.elsewhere import GPT_2, LLAMA, D, N, V, weights_of, write
from tinyattn.files import FileError
from tinyattn.models import Checkpoint, import_model

pytest.importorskip("safetensors", reason="weights of others are read with the package safetensors")


def without(table, *names):
    return {name: value for name, value in table.items() if name not in names}


SCALED = {"rope_type": "llama3", "factor": 8.0}
YARN = {"rope_type": "yarn", "factor": 2.0}
CONFIGURATIONS = [
    (GPT_2, {"model_type": "qwen2"}, "has model_type 'qwen2', expected one of gpt2, llama"),
    (GPT_2, {"model_type": 3}, "has model_type 3, expected one of gpt2, llama"),
    (GPT_2, {"n_embd": None}, "config.json has no n_embd"),
    (GPT_2, {"n_layer": True}, "has n_layer True, expected a whole number, 1 or more"),
    (GPT_2, {"n_layer": "2"}, "has n_layer '2', expected a whole number, 1 or more"),
    (GPT_2, {"vocab_size": 0}, "has vocab_size 0, expected a whole number, 1 or more"),
    (GPT_2, {"n_inner": 10**400}, "0000..., expected a whole number, 1 or more and below 2**63"),
    (GPT_2, {"n_inner": 2**63}, "has n_inner 9223372036854775808, expected a whole number"),
    (GPT_2, {"layer_norm_epsilon": 10**400}, "0000..., expected a positive number"),
    (GPT_2, {"vocab_size": None}, "config.json has no vocab_size"),
    (GPT_2, {"layer_norm_epsilon": 0}, "has layer_norm_epsilon 0, expected a positive number"),
    (GPT_2, {"layer_norm_epsilon": 1e999}, "has layer_norm_epsilon inf, expected a positive number"),
    (GPT_2, {"activation_function": "tanh"}, "has activation_function 'tanh', expected one of gelu_new"),
    (GPT_2, {"activation_function": ["relu"]}, "has activation_function ['relu'], expected one of gelu_new"),
    (GPT_2, {"scale_attn_weights": False}, "has scale_attn_weights False, expected True"),
    (GPT_2, {"scale_attn_by_inverse_layer_idx": True}, "has scale_attn_by_inverse_layer_idx True, expected False"),
    (GPT_2, {"add_cross_attention": True}, "has add_cross_attention True, expected False"),
    (GPT_2, {"tie_word_embeddings": "no"}, "has tie_word_embeddings 'no', expected true or false"),
    (GPT_2, {"n_head": 3}, "dim 16 is not divisible by heads 3"),
    (GPT_2, {"n_inner": 8}, "feed_forward_width is 0.5, expected 1 to 1000"),
    (GPT_2, {"n_layer": 3}, "has no h.2.ln_1.weight, expected in gpt2 by its config.json"),
    (GPT_2, {"n_layer": 10**12}, "layers is 1000000000000, expected 1 to 1000"),
    (GPT_2, {"n_layer": 1}, "has h.1.attn.c_attn.bias, which no gpt2 has"),
    (GPT_2, {"vocab_size": 10**12}, "wte.weight is (11, 16), expected (1000000000000, 16) by its config.json"),
    (GPT_2, {"tie_word_embeddings": False}, "has no lm_head.weight, expected in gpt2"),
    (LLAMA, {"rope_scaling": SCALED}, "has no original_max_position_embeddings"),
    (LLAMA, {"rope_scaling": SCALED | {"original_max_position_embeddings": 8}}, "has no low_freq_factor"),
    (LLAMA, {"rope_parameters": {"rope_type": "longrope"}}, "has rope_type 'longrope', expected one of default"),
    (LLAMA, {"rope_scaling": {"rope_type": ["yarn"]}}, "has rope_type ['yarn'], expected one of default, linear"),
    (LLAMA, {"rope_scaling": {"factor": 2.0}}, "scales angles by 2.0 without a rope_type, one of default, linear"),
    (LLAMA, {"rope_scaling": {"rope_type": None, "factor": 2.0}}, "scales angles by 2.0 without a rope_type"),
    (LLAMA, {"rope_scaling": {"type": "linear"}}, "config.json has no factor"),
    (LLAMA, {"rope_scaling": {"type": "linear", "factor": 0.5}}, "rope_factor is 0.5, expected at least 1"),
    (LLAMA, {"rope_scaling": YARN | {"factor": float("inf")}}, "has factor inf, expected a positive number"),
    (LLAMA, {"rope_scaling": YARN | {"beta_fast": 1}}, "rope_fast is 1.0, expected above rope_slow, which is 1.0"),
    (LLAMA, {"rope_scaling": YARN | {"truncate": False}}, "has truncate False, expected True"),
    (LLAMA, {"rope_scaling": YARN, "rope_theta": 1.0}, "rope_base is 1.0, expected above 1 with rope_scaling yarn"),
    (LLAMA, {"rope_scaling": YARN, "rope_parameters": SCALED}, "in rope_parameters and in rope_scaling, expected one"),
    (LLAMA, {"rope_parameters": {"full_attention": {"factor": 2.0}}}, "has a table of angles for full_attention alone"),
    (LLAMA, {"rope_scaling": "linear"}, "config.json has rope_scaling 'linear', expected names and values"),
    (LLAMA, {"partial_rotary_factor": 0.5}, "has partial_rotary_factor 0.5, expected 1"),
    (LLAMA, {"rope_theta": -1}, "has rope_theta -1, expected a positive number"),
    (LLAMA, {"head_dim": 8}, "has head_dim 8, expected 4"),
    (LLAMA, {"hidden_act": "gelu"}, "has hidden_act 'gelu', expected 'silu'"),
    (LLAMA, {"mlp_bias": True}, "has mlp_bias True, expected False"),
    (LLAMA, {"num_key_value_heads": 3}, "kv_heads is 3, expected a divisor of heads, which is 4"),
    (LLAMA, {"num_key_value_heads": 4}, "layers.0.self_attn.k_proj.weight is (8, 16), expected (16, 16)"),
    (LLAMA, {"num_attention_heads": 16, "num_key_value_heads": 8}, "turns features in pairs: heads of width 1"),
    (LLAMA, {"attention_bias": True}, "has no layers.0.self_attn.q_proj.bias, expected in llama"),
    (LLAMA, {"intermediate_size": 24}, "mlp.gate_proj.weight is (22, 16), expected (24, 16)"),
    (LLAMA, {"tie_word_embeddings": True}, "says that lm_head.weight is embed_tokens.weight (tie_word_embeddings), "
                                           "and their numbers differ"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "change", "says"), CONFIGURATIONS, ids=[says for _, _, says in CONFIGURATIONS])
def test_a_configuration_that_is_not_computed_here_or_not_that_of_the_weights(config, change, says, tmp_path):
    write(tmp_path, config, weights_of(config))
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(FileError, match=re.escape(says)) as refused:
        import_model(tmp_path)
    assert str(tmp_path) in str(refused.value)


WEIGHTS = [
    ({"h.0.attn.c_attn.weight": None}, "has no h.0.attn.c_attn.weight, expected in gpt2"),
    ({"wpe.weight": np.ones((N, D + 1), np.float32)}, "wpe.weight is (12, 17), expected (12, 16) by its config.json"),
    ({"h.0.attn.c_attn.weight": np.ones((3 * D, D), np.float32)}, "c_attn.weight is (48, 16), expected (16, 48)"),
    ({"h.0.crossattention.bias": np.ones(2, np.float32)}, "has h.0.crossattention.bias, which no gpt2 has"),
    ({"transformer.ln_f.weight": np.ones(D, np.float32)}, "has no transformer.wte.weight"),
    ({"ln_f.weight": np.ones(D, np.int8)}, "ln_f.weight is of I8, expected one of F64, F32, F16, BF16"),
    ({"ln_f.weight": np.full(D, np.nan, np.float32)}, "ln_f.weight has numbers that are not finite in float32"),
    ({"wte.weight": np.full((V, D), 1e300)}, "wte.weight has numbers that are not finite in float32"),
    ({"lm_head.weight": np.ones((V, D), np.float32)}, "lm_head.weight is wte.weight (tie_word_embeddings)"),
    ({"lm_head.weight": np.ones((V, 3), np.float32)}, "lm_head.weight is (11, 3), expected (11, 16)"),
]


@pytest.mark.parametrize(("change", "says"), WEIGHTS, ids=[says for _, says in WEIGHTS])
def test_a_parameter_that_is_missing_misshapen_unknown_or_no_number(change, says, tmp_path):
    found = {name: array for name, array in (weights_of(GPT_2) | change).items() if array is not None}
    with pytest.raises(ValueError, match=re.escape(says)):
        import_model(write(tmp_path, GPT_2, found))


def refused(folder, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        Checkpoint(folder)


def test_a_folder_without_weights_or_with_a_pickle(tmp_path):
    refused(tmp_path / "none", "none is no folder, expected one with model.safetensors and config.json")
    refused(tmp_path, "has no model.safetensors and no model.safetensors.index.json")
    for name in ("pytorch_model.bin", "model.pth"):
        (tmp_path / name).write_bytes(pickle.dumps({"wte.weight": [1.0]}))
        refused(tmp_path, "is not read: reading a pickle runs whatever code is in it")
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "model.safetensors")
    refused(tmp_path, "model.safetensors is truncated, damaged or no safetensors file")


def test_files_that_are_damaged_or_no_configuration(tmp_path):
    folder = write(tmp_path, GPT_2, weights_of(GPT_2))
    refused(folder / "config.json", "config.json is no folder")
    for content, says in (("[1]", "config.json has [1], expected names and values"), ("{", "is not readable JSON")):
        (folder / "config.json").write_text(content)
        refused(folder, says)
    (folder / "config.json").unlink()
    refused(folder, "config.json: no such file")
    whole = (folder / "model.safetensors").read_bytes()
    for part in (whole[:-3], whole[:100], b""):
        (folder / "model.safetensors").write_bytes(part)
        refused(folder, "model.safetensors is truncated, damaged or no safetensors file")


def test_names_that_no_layout_has_tell_nothing(tmp_path):
    folder = write(tmp_path, without(GPT_2, "model_type"), {"w": np.ones(2, np.float32)})
    refused(folder, "has no model_type, and no parameter is called h.0.attn.c_attn.weight or layers.0.self_attn.q_proj")


def test_an_index_that_leaves_its_folder_or_does_not_agree_with_its_files(tmp_path):
    folder = write(tmp_path, GPT_2, weights_of(GPT_2), shards=2)
    path = folder / "model.safetensors.index.json"
    right = json.loads(path.read_text())
    first, second = sorted(set(right["weight_map"].values()))
    other, whole = write(tmp_path / "other", GPT_2, weights_of(GPT_2, 1), shards=2), Checkpoint(folder).describe()
    for file in (first, second):                     # the digest is of both
        kept = (folder / file).read_bytes()
        (folder / file).write_bytes((other / file).read_bytes())
        assert Checkpoint(folder).describe()["fingerprint"] != whole["fingerprint"]
        (folder / file).write_bytes(kept)
    for change, says in (
        ({"wte.weight": "../other.safetensors"}, "names the file '../other.safetensors', expected one in the same"),
        ({"wte.weight": ".."}, "names the file '..', expected one in the same folder"),
        ({"wte.weight": 3}, "names the file 3, expected one in the same folder"),
        ({"wte.weight": "model-3.safetensors"}, "model-3.safetensors: no such file"),
        ({"wte.weight": second}, f"says that wte.weight is in {second}, and it is not"),
        ({"other": first}, f"says that other is in {first}, and it is not"),
    ):
        path.write_text(json.dumps(right | {"weight_map": right["weight_map"] | change}))
        refused(folder, says)
    path.write_text(json.dumps({"weight_map": {}}))
    refused(folder, "has no weight_map: which parameter is in which file")
    path.write_text(json.dumps(right))
    (folder / second).write_bytes((folder / first).read_bytes())
    refused(folder, "is in both")


def test_numbers_are_not_read_before_all_names_and_shapes_are_right(tmp_path, monkeypatch):
    from tinyattn.models.layouts.weights import Weights

    monkeypatch.setattr(Weights, "read", lambda *_: pytest.fail("a number was read"))
    found = weights_of(GPT_2)
    Checkpoint(write(tmp_path, GPT_2, found))
    found["ln_f.bias"] = np.ones(D + 1, np.float32)
    with pytest.raises(ValueError, match=r"ln_f.bias is \(17,\), expected \(16,\)"):
        import_model(write(tmp_path, GPT_2, found))


@pytest.mark.parametrize("missing", ["safetensors", "ml_dtypes"])
def test_a_package_that_is_not_installed_is_named_with_its_extra(missing, tmp_path, monkeypatch):
    types = pytest.importorskip("ml_dtypes", reason="NumPy knows bfloat16 by the package ml_dtypes")
    write(tmp_path, GPT_2, {name: array.astype(types.bfloat16) for name, array in weights_of(GPT_2).items()})
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=f"needs the package {missing}: pip install 'tinyattn.export.'"):
        import_model(tmp_path)
