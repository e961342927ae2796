"""`tinyattn reproduce`: repeat an experiment, and make its page.

Carry out every run of the experiment NAME, and write its page. Finished runs are not repeated: the same command resumes
an interrupted experiment.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..experiments import EXPERIMENTS, carry_out, results_of, with_remarks
from ..files import write_atomically
from ..options import one_of
from .arguments import add_device
from .ops import add_ops, begin
from .runs import drawing, refuse_another_page

MOST = 1000              # of seeds and of jobs; a larger number is a slip


def add(command: Any, arguments: list[str]) -> None:
    command.print_below("experiments:\n" + "".join(f"  {name:16}{e.title}\n" for name, e in EXPERIMENTS.items()))
    command.add_argument("name", metavar="NAME", help=f"one of {', '.join(EXPERIMENTS)}")
    text = "the folder of the data; rows without data are left out"
    command.add_argument("--data", type=Path, metavar="DIR", help=text)
    command.add_argument("--out", metavar="OUT", help="the folder for results and page (default: reproduce/NAME)")
    command.add_argument("--seeds", type=int, metavar="N", help="seeds of each row (default: the experiment's)")
    text = "parallel runs, each on one core; on a GPU they share it (default: 2)"
    command.add_argument("--jobs", type=int, default=2, metavar="N", help=text)
    add_device(command)
    add_ops(command)
    command.add_argument("--quick", action="store_true", help="little data and two epochs, to try it out")
    command.add_argument("--page", action="store_true", help="only make the page of the finished runs")


def run(options: argparse.Namespace) -> None:
    if options.name not in EXPERIMENTS:
        raise ValueError(f"experiment is {options.name!r}, expected {one_of(EXPERIMENTS, options.name)}")
    for name in ("jobs", "seeds"):
        if getattr(options, name) is not None and not 1 <= getattr(options, name) <= MOST:
            raise ValueError(f"--{name} is {getattr(options, name)}, expected 1 to {MOST}")
    if options.quick and options.seeds is not None:
        raise ValueError("--seeds cannot be given with --quick: a quick look has one seed")
    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data is {options.data}, expected a folder")
    experiment = EXPERIMENTS[options.name]
    if options.seeds is not None:
        experiment = replace(experiment, seeds=options.seeds)
    if options.quick:
        experiment = experiment.quick()
    out = Path("reproduce") / (options.name + ("-quick" if options.quick else "") + options.computing.suffix)
    if options.out is not None:
        out = Path(options.out)
    page = out / "README.md"
    made_by = f"Made by `tinyattn reproduce {experiment.name}`"
    refuse_another_page(page, made_by, f"a page of experiment {experiment.name}", "give another --out")
    if options.page and not out.is_dir():
        raise ValueError(f"--page makes the page of runs, and {out} is no folder")
    if not options.page:
        compute = partial(begin, options.ops, options.unchecked)
        carry_out(experiment, options.data, out, jobs=options.jobs, device=options.device, begin=compute)
    experiment, results = with_remarks(experiment, out), results_of(experiment, out)
    text = experiment.page(experiment, results)
    with drawing(f"the pictures of {page}"):
        if shown := experiment.shown(results):
            from ..show import draw_picture, save

            for name, picture in shown.items():
                save(draw_picture(picture), out / f"{name}.svg")
    write_atomically(page, text.encode())
    print(text)
