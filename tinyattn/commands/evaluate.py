"""`tinyattn evaluate`: the table of a finished run, measured again, or on other data with the same items."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .arguments import add_data, add_evaluation, add_run
from .measures import MEASURES
from .runs import in_the_models_ids, open_run, said


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "evaluate",
        help="measure a trained model again",
        description="Print the table of the run in RUN, on its own data or on DATA with the same items.",
    )
    add_run(command)
    add_data(command)
    add_evaluation(command)
    return command


def run(options: argparse.Namespace) -> None:
    model, source, data, truth = open_run(options)
    measure = MEASURES[model.table]
    split = measure.split(in_the_models_ids(data, model), options)
    print(f"{model.name} of {options.run_folder} on {source.title}: {said(data)}")
    prepared = measure.prepare(split, options)
    measure.print(measure.rows(model, split, options, source, truth, prepared), model.name, truth is not None)
