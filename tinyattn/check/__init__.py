"""Instruments that tell whether an implementation is right, forward and backward: this library's, or anyone's.

gradcheck(forward, backward, *inputs)      is this backward the derivative of this forward?
conform(implementation, "attention")       everything that is known of attention, and the name of the bug
hold(implementation, "attention")          the same, in this process
properties_for(implementation, kind)       the same as tests of your own: one a property
"""

from __future__ import annotations

from typing import Any

from .gradcheck import GradReport, gradcheck, gradcheck_layer, gradcheck_model

_LATER = {
    "conform": "front",
    "hold": "front",
    "Report": "trial",
    "KINDS": "kinds",
    "properties_for": "plugin",
    "diagnose": "diagnosis",
    "zoo": "zoo",
}

__all__ = ["KINDS", "GradReport", "Report", "conform", "diagnose", "gradcheck", "gradcheck_layer", "gradcheck_model",
           "hold", "properties_for", "zoo"]  # fmt: skip


def __getattr__(name: str) -> Any:
    """What brings all kinds and the zoo along is imported where it is asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f".{_LATER[name]}", __name__)
    return module if name == "zoo" else getattr(module, name)
