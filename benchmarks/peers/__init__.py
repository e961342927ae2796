"""The contenders of benchmarks/training_step.py, each written as an expert of its library would write it.

A contender's constructor takes `(network, weights, batches)`: the library's configuration, its initial parameters as a
tree of float32, and its right-padded batches. A contender has `step(i)`, one training step on batch i; `finish()`,
which returns when all work is done; `gradients()`, the loss and gradients of batch 0 in the library's names and
shapes; and `about`, facts that the reader of its times needs. `python -m benchmarks.peers.child` runs a contender.
"""

import importlib
import importlib.util
from typing import Any

# name: (the package it needs, its file in this folder, its class)
CONTENDERS = {
    "tinyattn": ("numpy", "ours", "TinyAttn"),
    "torch-mha": ("torch", "torch_models", "MultiHead"),
    "torch-sdpa": ("torch", "torch_models", "Fused"),
    "torch-buckets": ("torch", "torch_models", "Buckets"),
    "torch-compile": ("torch", "torch_models", "Compiled"),
    "jax": ("jax", "jax_model", "Jax"),
}
THREADS = 2
BEST = 10  # items in an answer
ADAM = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-8}


def installed(name: str) -> bool:
    return importlib.util.find_spec(CONTENDERS[name][0]) is not None


def load(name: str) -> Any:
    """Import the contender's class."""
    _, file, what = CONTENDERS[name]
    return getattr(importlib.import_module(f"benchmarks.peers.{file}"), what)
