"""A trained model for use elsewhere: parameters, a graph, or a table. A new form is a line in FORMS."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..files import write_atomically
from ..options import one_of
from .graphs import onnx_graph
from .values import NoGraphError
from .weights import popularity_table, safetensors

FORMS: dict[str, Callable[[Any], bytes]] = {".safetensors": safetensors, ".onnx": onnx_graph, ".csv": popularity_table}


def export(model: Any, path: str | Path) -> None:
    """Write a trained model in the form that the ending of `path` names, whole or not at all.

        export(model, "model.onnx")

    Raises ValueError for an ending that is not in FORMS, and for a model that has no such form.
    """
    form = form_of(path)
    write_atomically(Path(path), form(model))


def form_of(path: str | Path) -> Callable[[Any], bytes]:
    """The function that makes the file. Raises ValueError for an ending that is not in FORMS."""
    ending = Path(path).suffix
    if ending not in FORMS:
        raise ValueError(f"{path} ends in {ending!r}, expected {one_of(FORMS, ending)}")
    return FORMS[ending]


__all__ = ["FORMS", "NoGraphError", "export", "form_of", "onnx_graph", "popularity_table", "safetensors"]
