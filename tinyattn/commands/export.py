"""`tinyattn export`: a run's model for use elsewhere.

Write the model of RUN to FILE, whose ending names the form: .safetensors has the parameters; .onnx, for networks over
histories, a graph from padded histories to scores; .csv, for popularity, its table. docs/serve.md shows programs that
use them.
"""

import argparse
from pathlib import Path
from typing import Any

from ..export import FORMS, export, form_of
from ..models import Estimator
from .arguments import add_run
from .measures import open_kind
from .runs import refuse_unwritable


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    command.add_argument("file", metavar="FILE", help=f"the file to write; it ends in {', '.join(FORMS)}")


def run(options: argparse.Namespace) -> None:
    """Names are checked before the model is read."""
    form_of(options.file)
    refuse_unwritable(options.file, "FILE")
    model, config = open_kind(options.run_folder, Estimator, options.device)
    trained_on = config["data"].get("path")
    refuse_unwritable(options.file, "FILE", [trained_on] if isinstance(trained_on, str) else [])
    export(model, options.file)
    print(f"{options.file}: {Path(options.file).stat().st_size:,} bytes of model {model.name}")
