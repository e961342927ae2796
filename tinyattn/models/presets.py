"""Models as their papers trained them: `tinyattn train --preset NAME`, or `SASRec(**PRESETS["esasrec"].options)`."""

from typing import Any, NamedTuple

from ..options import one_of


class Preset(NamedTuple):
    """The options of a paper, or of its released code. All others have their defaults."""

    model: str                   # a key of MODELS
    options: dict[str, Any]
    source: str


_SPARSE = {"maxlen": 50, "dim": 50, "blocks": 2, "heads": 1, "dropout": 0.5, "lr": 1e-3, "batch_size": 128}
_KANG = "Kang & McAuley 2018, sections IV-C and IV-D"

_STU = {
    "block_form": "hstu", "mechanism": "pointwise", "emb_scale": True, "eps": 1e-6, "blocks": 2, "dropout": 0.2,
    "lr": 1e-3, "batch_size": 128,
}  # fmt: skip
_HSTU = _STU | {                 # 400 buckets: each distance below 200 has its number
    "loss": "sampled-softmax", "n_negatives": 128, "buckets": 400, "furthest": 400, "maxlen": 200, "dim": 50,
    "heads": 1,
}  # fmt: skip
_ZHAI = "Zhai et al. 2024, released code for ML-1M, with dot products in place of cosines and without learned positions"

PRESETS = {
    "sasrec-ml1m": Preset("sasrec", _SPARSE | {"maxlen": 200, "dropout": 0.2}, _KANG),
    "sasrec-beauty": Preset("sasrec", _SPARSE, _KANG),
    "sasrec-games": Preset("sasrec", _SPARSE, _KANG),
    "gsasrec-ml1m": Preset(      # with the loss's 256 negatives and t = 0.75
        "sasrec",
        {"loss": "gbce", "base_rate": False, "block_form": "sasrec", "emb_scale": False,
         "maxlen": 200, "dim": 128, "blocks": 2, "heads": 1, "dropout": 0.0, "lr": 1e-3, "batch_size": 128},
        "Petrov & Macdonald 2023, released code for ML-1M",
    ),
    "bert4rec-ml1m": Preset(     # 16,667 epochs of 23 steps: 383,341 steps; the code has 400,000
        "bert4rec",
        {"rho": 0.2, "mask_last": 1 / 11,
         "maxlen": 200, "dim": 64, "blocks": 2, "heads": 2, "dropout": 0.2, "lr": 1e-4, "beta2": 0.999,
         "batch_size": 256, "epochs": 16_667, "patience": 500},
        "Sun et al. 2019, section 4.3, and released code for ML-1M; here at a constant rate, without weight decay, "
        "clipping, dropout of weights or windows over older items, and with early stopping",
    ),
    "esasrec": Preset(           # with the loss's 256 negatives; torch's attention has biases and an output projection
        "sasrec",
        {"loss": "sampled-softmax", "block_form": "ligr", "feed_forward": "swiglu", "feed_forward_width": 4,
         "qkv_bias": True, "output_projection": True, "last_norm": False, "eps": 1e-5,
         "maxlen": 200, "dim": 64, "blocks": 2, "heads": 1, "dropout": 0.1, "lr": 1e-3, "batch_size": 128},
        "Tikhonovich et al. 2025, released code for ML-1M",
    ),
    "hstu": Preset(              # positions alone; hstu-ml1m reads times as well
        "sasrec",
        _HSTU | {"position": "t5"},
        f"{_ZHAI}, without its time bias",
    ),
    "hstu-ml1m": Preset("sasrec", _HSTU | {"position": "timed"}, _ZHAI),
    "hstu-rectools": Preset(
        "sasrec",
        _STU | {"loss": "ce", "position": "timed", "buckets": 200, "furthest": 200, "maxlen": 100, "dim": 256,
                "heads": 4},
        "RecTools 0.17, defaults of HSTUModel, with dot products in place of cosines and without learned positions",
    ),
    "roberta": Preset(           # the encoder has no next-sentence task, draws masks anew, and has beta2 0.98 anyway
        "encoder",
        {"batch_size": 256, "dropout": 0.1, "weight_decay": 0.01},
        "Liu et al. 2019, table 9, with batches of 256 windows in place of 8,000 sequences; all else by default",
    ),
    "llama": Preset(             # LLaMA's form; sizes are the defaults
        "decoder",
        {"norm": "rms", "position": "rope", "feed_forward": "swiglu", "feed_forward_width": 3, "kv_heads": 2,
         "bias": False, "tied": False, "dropout": 0.0},
        "the form of Touvron et al. 2023, with grouped queries as in LLaMA 3",
    ),
}  # fmt: skip


def preset_options(name: str | None, model: str) -> dict[str, Any]:
    """The options of a preset of this model; none where `name` is None. Raises ValueError for an unknown preset."""
    if name is None:
        return {}
    if name not in PRESETS:
        raise ValueError(f"preset is {name!r}, expected {one_of(PRESETS, name)}")
    if PRESETS[name].model != model:
        raise ValueError(f"preset {name} is one of model {PRESETS[name].model}; model is {model}")
    return PRESETS[name].options
