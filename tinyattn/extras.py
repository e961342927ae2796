"""Optional packages, which the extras of pyproject.toml install."""

from importlib import import_module
from typing import Any


def optional(package: str, needs: str, extra: str) -> Any:
    """The module `package`. Without it, raises ImportError with `needs` and the command that installs the extra."""
    try:
        return import_module(package)
    except ImportError:
        raise ImportError(f"{needs}: pip install 'tinyattn[{extra}]'") from None
