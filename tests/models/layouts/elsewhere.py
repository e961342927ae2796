"""Small folders as other libraries write them, with random weights, and what their models compute, in plain NumPy.

Nothing here is taken from tinyattn: names, shapes and equations are GPT-2's and LLaMA's own.
"""

import json
import math

import numpy as np

V, N, D, H, G, F = 11, 12, 16, 4, 2, 22

GPT_2 = {"model_type": "gpt2", "vocab_size": V, "n_positions": N, "n_embd": D, "n_layer": 2, "n_head": H,
         "n_inner": None, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "eos_token_id": 50256}
LLAMA = {"model_type": "llama", "vocab_size": V, "max_position_embeddings": N, "hidden_size": D, "num_hidden_layers": 2,
         "num_attention_heads": H, "num_key_value_heads": G, "intermediate_size": F, "hidden_act": "silu",
         "rms_norm_eps": 1e-6, "rope_theta": 500.0, "rope_scaling": None, "tie_word_embeddings": False}
CONFIGS = {"gpt2": GPT_2, "llama": LLAMA}


def shapes_of_gpt_2(config):
    """Linear maps are (in, out)."""
    inner = config["n_inner"] or 4 * D
    found = {"wte.weight": (V, D), "wpe.weight": (N, D)}
    for i in range(config["n_layer"]):
        maps = {"attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, inner), "mlp.c_proj": (inner, D)}
        for name, shape in maps.items():
            found |= {f"h.{i}.{name}.weight": shape, f"h.{i}.{name}.bias": shape[1:]}
        for name in ("ln_1", "ln_2"):
            found |= {f"h.{i}.{name}.weight": (D,), f"h.{i}.{name}.bias": (D,)}
    found |= {"ln_f.weight": (D,), "ln_f.bias": (D,)}
    return found | ({} if config.get("tie_word_embeddings", True) else {"lm_head.weight": (V, D)})


def shapes_of_llama(config):
    """Linear maps are (out, in)."""
    narrow = config["num_key_value_heads"] * D // config["num_attention_heads"]
    found = {"embed_tokens.weight": (V, D), "norm.weight": (D,)}
    for i in range(config["num_hidden_layers"]):
        at = {"q_proj": (D, D), "k_proj": (narrow, D), "v_proj": (narrow, D), "o_proj": (D, D)}
        for name, shape in at.items():
            found[f"layers.{i}.self_attn.{name}.weight"] = shape
            if config.get("attention_bias"):
                found[f"layers.{i}.self_attn.{name}.bias"] = shape[:1]
        for name, shape in {"gate_proj": (F, D), "up_proj": (F, D), "down_proj": (D, F)}.items():
            found[f"layers.{i}.mlp.{name}.weight"] = shape
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"layers.{i}.{name}.weight"] = (D,)
    return found | ({} if config["tie_word_embeddings"] else {"lm_head.weight": (V, D)})


SHAPES = {"gpt2": shapes_of_gpt_2, "llama": shapes_of_llama}
PREFIXES = {"gpt2": "transformer.", "llama": "model."}


def weights_of(config, seed=0):
    """Random weights in float32, by the names without a prefix."""
    rng = np.random.default_rng(seed)
    shapes = SHAPES[config["model_type"]](config)
    return {name: 0.4 * rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def prefixed(weights, prefix):
    return {name if name == "lm_head.weight" else prefix + name: array for name, array in weights.items()}


def write(folder, config, weights, shards=1):
    """A folder as transformers saves it, in one file or in several with an index. -> the folder."""
    from safetensors.numpy import save_file  # it ignores strides, so arrays must be contiguous

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {name: np.ascontiguousarray(array) for name, array in weights.items()}
    if shards == 1:
        save_file(arrays, folder / "model.safetensors")
        return folder
    where = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(arrays)}
    for file in set(where.values()):
        save_file({name: array for name, array in arrays.items() if where[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


def looked(q, k, v, heads, shared):
    """Causal attention, head by head; each head of keys and values serves `shared` heads of queries."""
    n, d = len(q), q.shape[1] // heads
    out = np.zeros_like(q)
    for i in range(heads):
        mine, theirs = slice(i * d, (i + 1) * d), slice(i // shared * d, (i // shared + 1) * d)
        for t in range(n):
            e = np.exp(k[: t + 1, theirs] @ q[t, mine] / d**0.5)
            out[t, mine] = e / e.sum() @ v[: t + 1, theirs]
    return out


def gpt_2(config, weights, ids):
    """Logits (n, V) of one sequence, in float64."""
    t = {name: array.astype(np.float64) for name, array in weights.items()}

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + config["layer_norm_epsilon"])
        return centred / scale * t[f"{name}.weight"] + t[f"{name}.bias"]

    def conv1d(x, name):
        return x @ t[f"{name}.weight"] + t[f"{name}.bias"]

    def gelu_new(x):
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    f = {"gelu_new": gelu_new, "gelu_pytorch_tanh": gelu_new, "relu": lambda x: np.maximum(x, 0),
         "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / 2**0.5)) / 2}[config["activation_function"]]  # fmt: skip
    x = t["wte.weight"][ids] + t["wpe.weight"][: len(ids)]
    for i in range(config["n_layer"]):
        q, k, v = np.split(conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, axis=-1)
        x = x + conv1d(looked(q, k, v, H, 1), f"h.{i}.attn.c_proj")
        x = x + conv1d(f(conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")), f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ t.get("lm_head.weight", t["wte.weight"]).T


def scaled(config, base, d):
    """Speeds (d/2,) and amplitude of rotary positions, pair by pair, by the papers and the released code of YaRN."""
    table = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind, s = table.get("rope_type", table.get("type", "default")), table.get("factor", 1.0)
    L = table.get("original_max_position_embeddings", config["max_position_embeddings"])
    speeds = []
    for i in range(d // 2):
        w = base ** (-2 * i / d)
        if kind == "linear":
            w = w / s
        if kind == "llama3":
            low, high = L / table["low_freq_factor"], L / table["high_freq_factor"]
            if 2 * math.pi / w > low:
                w = w / s
            elif 2 * math.pi / w >= high:
                smooth = (L * w / (2 * math.pi) - table["low_freq_factor"])
                smooth /= table["high_freq_factor"] - table["low_freq_factor"]
                w = (1 - smooth) * w / s + smooth * w
        if kind == "yarn":
            turning = [d * math.log(L / (2 * math.pi * r)) / (2 * math.log(base))
                       for r in (table.get("beta_fast", 32), table.get("beta_slow", 1))]  # fmt: skip
            first, last = max(math.floor(turning[0]), 0), min(math.ceil(turning[1]), d - 1)
            ramp = min(max((i - first) / (last - first if first != last else 0.001), 0), 1)
            w = w / s * ramp + w * (1 - ramp)
        speeds.append(w)
    amplitude = 0.1 * math.log(s) + 1 if kind == "yarn" else 1
    return np.array(speeds), table.get("attention_factor", amplitude)


def llama(config, weights, ids):
    """Logits (n, V) of one sequence, in float64."""
    t = {name: array.astype(np.float64) for name, array in weights.items()}
    heads = config["num_attention_heads"]
    base = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * t[f"{name}.weight"]

    def linear(x, name):
        return x @ t[f"{name}.weight"].T + t.get(f"{name}.bias", 0)

    def turned(x):
        """x cos + rotate_half(x) sin, with rotate_half(a, b) = (-b, a) of the halves of a head."""
        d = D // heads
        speeds, amplitude = scaled(config, base, d)
        angle = np.outer(np.arange(len(x)), speeds)
        cos, sin = (amplitude * np.concatenate([f(angle)] * 2, axis=-1) for f in (np.cos, np.sin))
        found = [part * cos + np.concatenate([-part[:, d // 2 :], part[:, : d // 2]], axis=-1) * sin
                 for part in np.split(x, x.shape[1] // d, axis=-1)]  # fmt: skip
        return np.concatenate(found, axis=-1)

    x = t["embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        at, h = f"layers.{i}.self_attn", norm(x, f"layers.{i}.input_layernorm")
        q, k, v = (linear(h, f"{at}.{name}_proj") for name in "qkv")
        x = x + linear(looked(turned(q), turned(k), v, heads, heads // config["num_key_value_heads"]), f"{at}.o_proj")
        h, mlp = norm(x, f"layers.{i}.post_attention_layernorm"), f"layers.{i}.mlp"
        gate = linear(h, f"{mlp}.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, f"{mlp}.up_proj"), f"{mlp}.down_proj")
    return norm(x, "norm") @ t.get("lm_head.weight", t["embed_tokens.weight"]).T


FORWARDS = {"gpt2": gpt_2, "llama": llama}
