"""Presets: each is a model that can be made, with the numbers of its paper or of the code that came with it."""

import pytest

from tinyattn.models import MODELS, PRESETS
from tinyattn.models.presets import preset_options

KANG = {"maxlen": 50, "dim": 50, "blocks": 2, "heads": 1, "dropout": 0.5, "lr": 0.001, "batch_size": 128,
        "block_form": "pre", "loss": "bce", "feed_forward": "relu", "norm": "layer", "position": "learned",
        "emb_scale": False, "qkv_bias": False, "last_norm": True, "tied": True, "eps": 1e-8}  # fmt: skip
HSTU = KANG | {
    "loss": "sampled-softmax", "n_negatives": 128, "block_form": "hstu", "mechanism": "pointwise", "buckets": 400,
    "furthest": 400, "emb_scale": True, "eps": 1e-6, "maxlen": 200, "dropout": 0.2, "position": "t5",
}  # fmt: skip
PAPERS = {
    "sasrec-ml1m": ("sasrec", KANG | {"maxlen": 200, "dropout": 0.2}),
    "sasrec-beauty": ("sasrec", KANG),
    "sasrec-games": ("sasrec", KANG),
    "gsasrec-ml1m": ("sasrec", KANG | {
        "loss": "gbce", "n_negatives": 256, "calibration": 0.75, "base_rate": False, "block_form": "sasrec",
        "qkv_bias": True, "emb_scale": False, "maxlen": 200, "dim": 128, "dropout": 0.0,
    }),
    "bert4rec-ml1m": ("bert4rec", {
        "rho": 0.2, "mask_last": 1 / 11, "maxlen": 200, "dim": 64, "blocks": 2, "heads": 2, "dropout": 0.2, "lr": 1e-4,
        "beta2": 0.999, "batch_size": 256, "epochs": 16_667, "patience": 500, "loss": "ce", "schedule": "constant",
        "weight_decay": 0.0,
    }),
    "esasrec": ("sasrec", KANG | {
        "loss": "sampled-softmax", "n_negatives": 256, "in_batch": 0.0, "popularity_power": 0.0, "block_form": "ligr",
        "feed_forward": "swiglu", "feed_forward_width": 4, "qkv_bias": True, "output_projection": True,
        "last_norm": False, "eps": 1e-5, "maxlen": 200, "dim": 64, "dropout": 0.1,
    }),
    "hstu": ("sasrec", HSTU | {"position": "t5"}),
    "hstu-ml1m": ("sasrec", HSTU | {"position": "timed", "time_buckets": 128}),
    "hstu-rectools": ("sasrec", {n: x for n, x in HSTU.items() if n != "n_negatives"} | {
        "loss": "ce", "position": "timed", "time_buckets": 128, "buckets": 200, "furthest": 200, "maxlen": 100,
        "dim": 256, "heads": 4,
    }),
    "roberta": ("encoder", {
        "batch_size": 256, "dropout": 0.1, "weight_decay": 0.01, "beta2": 0.98, "schedule": "linear", "chosen": 0.15,
        "hidden": 0.8, "swapped": 0.1, "feed_forward": "gelu", "block_form": "post",
    }),
    "llama": ("decoder", {
        "norm": "rms", "position": "rope", "rope_base": 10_000, "feed_forward": "swiglu", "feed_forward_width": 3,
        "heads": 4, "kv_heads": 2, "bias": False, "tied": False, "dropout": 0.0, "block_form": "pre", "eps": 1e-5,
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_makes_its_model_with_the_papers_numbers(name):
    preset, (model, numbers) = PRESETS[name], PAPERS[name]
    assert preset.model == model
    found = MODELS[model](**preset.options).identity()
    assert {option: found[option] for option in numbers} == numbers
    assert found == found | preset.options
    assert preset_options(name, model) == preset.options
    assert len(preset.source) > 10


def test_a_preset_of_another_model_or_of_no_name_is_refused():
    assert preset_options(None, "sasrec") == {}
    with pytest.raises(ValueError, match="preset esasrec is one of model sasrec; model is decoder"):
        preset_options("esasrec", "decoder")
    with pytest.raises(ValueError, match=r"preset is 'esasrek', expected one of .*; did you mean esasrec\?"):
        preset_options("esasrek", "sasrec")
