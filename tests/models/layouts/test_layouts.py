"""Imported weights: the logits are those of the original model."""

import json

import numpy as np
import pytest

from tests.models.layouts.elsewhere import (
    CONFIGS,
    FORWARDS,
    GPT_2,
    LLAMA,
    PREFIXES,
    D,
    G,
    H,
    N,
    V,
    prefixed,
    weights_of,
    write,
)
from tinyattn.models import TEXT_LAYOUTS, Decoder, import_model
from tinyattn.models.layouts.config import Config
from tinyattn.tree import tree_map

pytest.importorskip("safetensors", reason="weights of others are read with the package safetensors")

CLOSE = {"rtol": 0, "atol": 1e-10}
WIDE = LLAMA | {"num_attention_heads": 1, "num_key_value_heads": 1, "rope_theta": 50.0}  # 8 pairs, at many speeds
VARIANTS = {
    "gpt2": GPT_2,
    "gpt2-own-scores": GPT_2 | {"tie_word_embeddings": False, "n_inner": 40, "layer_norm_epsilon": 1e-3},
    **{f"gpt2-{name}": GPT_2 | {"activation_function": name} for name in ("relu", "gelu", "gelu_pytorch_tanh")},
    "llama": LLAMA,
    "llama-tied": LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": H},
    "llama-linear": LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "llama-dynamic": LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
    "llama-yarn": WIDE | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16}},
    "llama-yarn-trained": WIDE | {"rope_scaling": {
        "rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 40, "attention_factor": 0.5}},
    "llama-3.1": WIDE | {"rope_theta": None, "rope_parameters": {
        "rope_theta": 50.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 24}},
    "llama-biased": LLAMA | {"attention_bias": True, "num_key_value_heads": 1, "rms_norm_eps": 1e-2},
}


def logits(model, ids):
    """In float64."""
    p = tree_map(lambda leaf: leaf.astype(np.float64), model.parameters)
    return model.network.forward(p, np.asarray(ids)[None])[0][0]


def ids_of(n=N, seed=3):
    return np.random.default_rng(seed).integers(0, V, n)


def agrees(model, config, weights):
    ids = ids_of()
    np.testing.assert_allclose(logits(model, ids), FORWARDS[config["model_type"]](config, weights, ids), **CLOSE)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_logits_are_those_of_the_model_that_the_weights_are_of(name, tmp_path):
    config, weights = VARIANTS[name], weights_of(VARIANTS[name])
    agrees(import_model(write(tmp_path, config, weights)), config, weights)


@pytest.mark.parametrize("kind", TEXT_LAYOUTS)
def test_prefix_shards_and_what_is_no_parameter_change_nothing(kind, tmp_path):
    """With the prefix, in three files, with the constants that older files hold, tied weights written twice."""
    config = CONFIGS[kind] | {"tie_word_embeddings": True}
    weights = weights_of(config)
    first = "wte.weight" if kind == "gpt2" else "embed_tokens.weight"
    more = {"gpt2": {"h.1.attn.bias": np.ones((1, 1, N, N), np.uint8), "h.0.attn.masked_bias": np.float32([-1])},
            "llama": {"layers.1.self_attn.rotary_emb.inv_freq": np.ones(2, np.float32)}}[kind]  # fmt: skip
    whole = prefixed(weights | more | {"lm_head.weight": weights[first]}, PREFIXES[kind])
    agrees(import_model(write(tmp_path, config, whole, shards=3)), config, weights)


@pytest.mark.parametrize("kind", TEXT_LAYOUTS)
def test_without_a_model_type_the_names_tell(kind, tmp_path):
    config, weights = CONFIGS[kind], weights_of(CONFIGS[kind])
    bare = {name: value for name, value in config.items() if name != "model_type"}
    for prefix in ("", PREFIXES[kind]):
        agrees(import_model(write(tmp_path / prefix, bare, prefixed(weights, prefix))), config, weights)


@pytest.mark.parametrize("kind", TEXT_LAYOUTS)
@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "model.", "module._orig_mod."])
def test_the_prefix_of_a_wrapper_is_left_out(kind, wrapper, tmp_path):
    config, weights = CONFIGS[kind], weights_of(CONFIGS[kind])
    for number, inner in enumerate((weights, prefixed(weights, PREFIXES[kind]))):
        wrapped = {f"{wrapper}{name}": array for name, array in inner.items()}
        agrees(import_model(write(tmp_path / str(number), config, wrapped)), config, weights)


@pytest.mark.parametrize("form", ["float16", "float64", "bfloat16"])
def test_other_formats_become_float32(form, tmp_path):
    if form == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="NumPy knows bfloat16 by the package ml_dtypes")
    stored = {name: array.astype(form) for name, array in weights_of(LLAMA).items()}
    model = import_model(write(tmp_path, LLAMA, stored))
    assert model.parameters["tokens"].dtype == np.float32
    agrees(model, LLAMA, stored)


def test_what_a_configuration_leaves_out_has_the_default_of_transformers(tmp_path):
    sizes = {"context": 12, "dim": 16, "layers": 2, "heads": 4}
    gpt_2 = {"n_positions": 12, "n_embd": 16, "n_layer": 2, "n_head": 4}
    llama = {"max_position_embeddings": 12, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
             "intermediate_size": 40}  # fmt: skip
    found = [TEXT_LAYOUTS[name].options(Config(tmp_path, c)) for name, c in (("gpt2", gpt_2), ("llama", llama))]
    assert found[0] == sizes | {"feed_forward": "gelu-tanh", "feed_forward_width": 4, "eps": 1e-5, "tied": True}
    assert found[1] == sizes | {"kv_heads": 4, "position": "rope", "rope_base": 10000, "norm": "rms", "eps": 1e-6,
                                "feed_forward": "swiglu", "feed_forward_width": 2.5, "bias": False, "tied": False}


def test_newer_files_have_a_table_of_what_concerns_rotary_positions(tmp_path):
    config = LLAMA | {"rope_theta": None, "rope_parameters": {"rope_theta": 700.0, "rope_type": "default"}}
    weights = weights_of(config)
    model = import_model(write(tmp_path, config, weights))
    assert model.rope_base == 700
    agrees(model, config, weights)


@pytest.mark.parametrize("kind", TEXT_LAYOUTS)
def test_what_is_kept_of_past_tokens_changes_no_score(kind, tmp_path):
    model = import_model(write(tmp_path, CONFIGS[kind], weights_of(CONFIGS[kind])))
    p, ids = tree_map(lambda leaf: leaf.astype(np.float64), model.parameters), ids_of()[None]
    whole, past, found = model.network.forward(p, ids)[0], None, []
    for cut in np.split(ids, [5, 6, 9], axis=1):
        scores, past = model.network.extend(p, cut, past)
        found.append(scores)
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole, **CLOSE)


@pytest.mark.parametrize("kind", TEXT_LAYOUTS)
def test_saved_and_loaded_it_writes_the_same(kind, tmp_path):
    model = import_model(write(tmp_path, CONFIGS[kind], weights_of(CONFIGS[kind])))
    model.save(tmp_path / "m.npz")
    loaded = Decoder.load(tmp_path / "m.npz")
    assert loaded.identity() == model.identity()
    written = model.generate("3 1 4", 5, top_k=1)
    assert loaded.generate("3 1 4", 5, top_k=1) == written
    ids = np.array(f"3 1 4{written}".split(), dtype=int)
    np.testing.assert_array_equal(np.argmax(logits(model, ids)[2:-1], axis=-1), ids[3:])


def test_a_text_ends_with_the_token_that_says_so(tmp_path):
    folder = write(tmp_path, GPT_2 | {"eos_token_id": None}, weights_of(GPT_2))
    first, second, third, *_ = import_model(folder).generate("1", 6, 5).split()
    assert third not in (first, second)
    for ends in (int(third), [50256, int(third)]):
        (folder / "config.json").write_text(json.dumps(GPT_2 | {"eos_token_id": ends}))
        model = import_model(folder)
        assert model.generate("1", 6, 5) == f" {first} {second} {third}"
        model.save(tmp_path / "m.npz")
        assert Decoder.load(tmp_path / "m.npz").generate("1", 6, 5) == f" {first} {second} {third}"
    size = GPT_2["vocab_size"]
    (folder / "config.json").write_text(json.dumps(GPT_2 | {"eos_token_id": [0, size - 1, size, -1, True, None]}))
    assert sorted(import_model(folder).tokens.ends) == [0, size - 1]


def gpt_2_module(torch, config):
    """GPT-2 in PyTorch, whose state dict has the released names; linear maps are Conv1D, y = x W + b."""
    nn = torch.nn

    class Conv1D(nn.Module):
        def __init__(self, n_in, n_out):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(n_in, n_out) / 3), nn.Parameter(torch.randn(n_out))

        def forward(self, x):
            return x @ self.weight + self.bias

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn, self.c_proj = Conv1D(D, 3 * D), Conv1D(D, D)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in self.c_attn(x).split(D, dim=-1))
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(out.transpose(1, 2).flatten(2))

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_fc, self.c_proj = Conv1D(D, 4 * D), Conv1D(4 * D, D)

        def forward(self, x):
            return self.c_proj(nn.functional.gelu(self.c_fc(x), approximate="tanh"))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = (nn.LayerNorm(D, config["layer_norm_epsilon"]) for _ in range(2))
            self.attn, self.mlp = Attention(), MLP()

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class GPT2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe, self.ln_f = nn.Embedding(V, D), nn.Embedding(N, D), nn.LayerNorm(D)
            self.h = nn.ModuleList(Block() for _ in range(config["n_layer"]))

        def forward(self, ids):
            x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
            for block in self.h:
                x = block(x)
            return self.ln_f(x) @ self.wte.weight.T

    return GPT2()


def llama_module(torch, config):
    """LLaMA in PyTorch, whose state dict has the released names; positions by rotate_half."""
    nn, d = torch.nn, D // H

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(1 + torch.randn(D) / 3)

        def forward(self, x):
            return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"])

    def rotate_half(x):
        return torch.cat((-x[..., d // 2 :], x[..., : d // 2]), dim=-1)

    def turned(x):
        speeds = config["rope_theta"] ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
        angles = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), speeds).repeat(1, 2)
        return x * angles.cos() + rotate_half(x) * angles.sin()

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q_proj, self.o_proj = (nn.Linear(D, D, bias=False) for _ in range(2))
            self.k_proj, self.v_proj = (nn.Linear(D, G * d, bias=False) for _ in range(2))

        def forward(self, x):
            q, k, v = (f(x).unflatten(-1, (-1, d)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
            k, v = (part.repeat_interleave(H // G, dim=1) for part in (turned(k), v))
            out = nn.functional.scaled_dot_product_attention(turned(q), k, v, is_causal=True)
            return self.o_proj(out.transpose(1, 2).flatten(2))

    class MLP(nn.Module):
        def __init__(self):
            super().__init__()
            inner = config["intermediate_size"]
            self.gate_proj, self.up_proj = (nn.Linear(D, inner, bias=False) for _ in range(2))
            self.down_proj = nn.Linear(inner, D, bias=False)

        def forward(self, x):
            return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.input_layernorm, self.post_attention_layernorm = RMSNorm(), RMSNorm()
            self.self_attn, self.mlp = Attention(), MLP()

        def forward(self, x):
            x = x + self.self_attn(self.input_layernorm(x))
            return x + self.mlp(self.post_attention_layernorm(x))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Module()
            self.model.embed_tokens, self.model.norm = nn.Embedding(V, D), RMSNorm()
            self.model.layers = nn.ModuleList(Block() for _ in range(config["num_hidden_layers"]))
            self.lm_head = nn.Linear(D, V, bias=False)

        def forward(self, ids):
            x = self.model.embed_tokens(ids)
            for block in self.model.layers:
                x = block(x)
            return self.lm_head(self.model.norm(x))

    return Llama()


@pytest.mark.parametrize(("config", "module"), [(GPT_2, gpt_2_module), (LLAMA, llama_module)], ids=list(TEXT_LAYOUTS))
def test_the_logits_are_those_of_a_module_in_torch(config, module, torch, tmp_path):
    torch.manual_seed(0)
    theirs, ids = module(torch, config), np.stack([ids_of(seed=1), ids_of(seed=2)])
    weights = {name: tensor.numpy() for name, tensor in theirs.state_dict().items()}
    model = import_model(write(tmp_path, config, weights))
    with torch.no_grad():
        wanted = theirs.double()(torch.tensor(ids)).numpy()
    for row, want in zip(ids, wanted, strict=True):
        np.testing.assert_allclose(logits(model, row), want, **CLOSE)
