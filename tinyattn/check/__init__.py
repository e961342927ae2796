"""Checks of forward and backward implementations: this library's, or anyone's.

gradcheck(forward, backward, *inputs)      is this backward the derivative of this forward?
check_implementation(mine, "attention")    every property of attention, and the name of the bug; in a child process
check_in_process(mine, "attention")        the same without a child process, as in a notebook
properties_for(mine, "attention")          the same as pytest tests, one per property
layer(Class, params={...}, grads={...})    adapts a class with forward and backward for `check_implementation`
"""

from typing import Any

from .gradcheck import GradReport, gradcheck, gradcheck_layer, gradcheck_model

_LAZY = {
    "check_implementation": "runner",
    "check_in_process": "runner",
    "Report": "report",
    "layer": "classes",
    "SPECS": "specs",
    "properties_for": "plugin",
    "diagnose": "diagnosis",
    "zoo": "zoo",
}

__all__ = ["SPECS", "GradReport", "Report", "check_implementation", "check_in_process", "diagnose", "gradcheck",
           "gradcheck_layer", "gradcheck_model", "layer", "properties_for", "zoo"]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import the modules that load all specs and the zoo on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f".{_LAZY[name]}", __name__)
    return module if name == "zoo" else getattr(module, name)
