"""`tinyattn compare`: runs side by side, with intervals of their differences.

Measure several runs on the same data; with --items or --user also print what each recommends. On generated data,
`train` and `evaluate` print metrics expected under the known distribution (full ranking only); `compare` always
ranks each user's one test item. Models that predict ratings are compared by their errors, and cannot be compared with
models that rank items.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Interactions
from ..terminal import filled
from .arguments import add_device, add_history, add_names, add_protocols
from .measures import OF_INTERACTIONS
from .runs import describe_counts, listed, names_of, open_runs, refuse_no_times
from .tables import Evaluation, print_history

NOTES = (
    "Differences are to the first run. [low, high] is the 95 % percentile interval of a paired bootstrap: 2,000 times, "
    "as many users as there are in the test set are drawn with replacement; both runs are measured on the same draw. "
    "It covers the choice of users, not the variation between training seeds.\n"
)


def add(command: Any, arguments: list[str]) -> None:
    kinds = [f"\nWhere a model {m.does}:\n{m.notes}" for m in OF_INTERACTIONS.values()]
    command.print_below(filled(NOTES + "".join(kinds)))
    command.add_argument("run_folders", nargs="+", metavar="RUN", help="folders that `tinyattn train` wrote")
    add_device(command)
    add_protocols(command)
    command.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the bootstrap (default: 0)")
    add_history(command, required=False)
    command.add_argument("-k", "--k", type=int, help="how many to recommend (default: 10)")
    add_names(command)


def run(options: argparse.Namespace) -> None:
    if len(options.run_folders) < 2 or len({Path(f).resolve() for f in options.run_folders}) < len(options.run_folders):
        raise ValueError(f"compare takes two runs or more, each once; given: {', '.join(options.run_folders)}")
    if options.items is None and options.user is None and (options.k is not None or options.names is not None):
        raise ValueError("-k and --names only affect recommendations: expected --items or --user, too")
    if options.seed < 0:
        raise ValueError(f"--seed is {options.seed}, expected at least 0")
    models, source, data, split = open_runs(options)
    measure = OF_INTERACTIONS[models[0].table]
    measure.fill_options(options, models[0].name)
    names = names_of(options, models[0])
    history, best = _recommended(options, models, data)            # errors come before the models are measured
    evaluation = Evaluation(options, source, None, split, measure.prepare(split, options))
    print(f"{len(models)} runs on {source.title}: {describe_counts(data, split)}")
    measure.compare(options.run_folders, models, evaluation)
    print(f"\n{filled(NOTES + measure.notes)}")
    if best:
        print()
        print_history(history, names)
        columns = [[f, *map(names.label, ids.tolist())] for f, ids in zip(options.run_folders, best, strict=True)]
        widths = [max(map(len, column)) for column in columns]
        for place, row in enumerate(zip(*columns, strict=True)):
            cells = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
            print(f"{place or '':4}  {cells}".rstrip())


def _recommended(
    options: argparse.Namespace, models: list[Any], data: Interactions
) -> tuple[list[Any], list[np.ndarray]]:
    """The history of --items or --user, and each model's recommendations; two empty lists without these flags."""
    history, users, times = [], None, None
    if options.user is not None:
        row = int(data.users.numbers([options.user])[0]) - 1
        history, users = data.items.decode(data.sequence(row)).tolist(), [options.user]
        times = [data.timed(row).seconds] if any(model.reads_times for model in models) else None
    elif options.items is not None:
        for folder, model in zip(options.run_folders, models, strict=True):
            refuse_no_times(folder, model)
        history = listed(options.items)
    else:
        return [], []
    k = 10 if options.k is None else options.k
    return history, [model.recommend([history], k, users=users, times=times)[0][0] for model in models]
