"""`tinyattn sweep`: a grid of options as commands, a line each.

Write DIR/commands.txt, one `tinyattn train` command per line, for xargs, GNU parallel or a job array. A command that
was killed resumes when started again; one that has finished does nothing. `tinyattn collect DIR` makes the table.

GRID.toml has options of `tinyattn train` by name: `dim = [32, 64]` tries each value, `epochs = 50` is the same for all
runs, data = "FILE" is DATA. Each table [[grid]] is a separate grid, to which the options above all tables are added.
--draw N also takes ranges, such as lr = {from = 1e-4, to = 1e-2, log = true}.
Run the commands in the folder where sweep was called: `parallel < DIR/commands.txt`, or
`sed -n ${N}p DIR/commands.txt | sh` for job N.
"""

import argparse
import difflib
import itertools
import math
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..files import FileError, alone_in, read_json, write_atomically, write_json
from ..models import MODELS, PRESETS, RunFolder
from ..options import one_of
from ..random import Stream, generator
from . import train
from .parser import Parser

COMMANDS_FILE, RUNS_FILE = "commands.txt", "sweep.json"
TRAIN_OPTIONS = ("model", "preset", "data")  # of every model; `train.flags_of` lists those of the chosen one
LONGEST = 200                                # letters of a folder's name
MOST = 100_000                               # runs; a larger grid is a mistake


def add(command: Any, arguments: list[str]) -> None:
    command.add_argument("grid", metavar="GRID.toml", help="the options")
    command.add_argument("--out", required=True, metavar="DIR", help="the folder of the sweep, and of its runs")
    text = "draw N combinations at random (Bergstra & Bengio 2012) instead of all; each runs with every seed"
    command.add_argument("--draw", type=int, metavar="N", help=text)
    command.add_argument("--seed", type=int, default=0, metavar="S", help="the seed of --draw (default: 0)")


def run(options: argparse.Namespace) -> None:
    """Check every run of the grid as `train` does, then write."""
    grids = _read(Path(options.grid))
    if options.draw is None:
        ranged = next((name for grid in grids for name, value in grid.items() if isinstance(value, dict)), None)
        if ranged is not None:
            raise ValueError(f"{options.grid}: {ranged} is a range, from which --draw N draws")
        runs = list(itertools.islice((point for grid in grids for point in _points(grid)), MOST + 1))
    else:
        runs = _drawn(grids, options.draw, options.seed)
    if len(runs) > MOST:
        raise ValueError(f"{options.grid} has more than {MOST:,} runs")
    names = dict.fromkeys(name for run in runs for name in run)
    varied = [name for name in names if len({str(run.get(name)) for run in runs}) > 1]
    out, named = Path(options.out), dict[str, Any]()
    for point in runs:
        name = _name(point, varied)
        if (other := named.setdefault(name, point)) is not point:
            repeated = ", ".join(f"{option} = {value}" for option, value in point.items())
            twice = "the same run twice" if other == point else f"two runs whose folder would be {name}"
            raise ValueError(f"{options.grid} has {twice}: {repeated}")
        if len(name) > LONGEST:
            raise ValueError(f"{options.grid} makes a folder name of {len(name)} letters, expected at most {LONGEST}")
        _check(point, options.grid)
    try:
        with alone_in(out):                                  # no other process may write one of the two files
            if (out / COMMANDS_FILE).exists() and not (out / RUNS_FILE).exists():
                raise FileError(f"{out} has a {COMMANDS_FILE} that no sweep wrote: choose another --out or remove it")
            known = runs_of(out)[1] if (out / RUNS_FILE).exists() else {}
            _rename(out, named, known)
            _refuse_other_runs(out, named, known)
            write_json(out / RUNS_FILE, {"varied": varied, "runs": named})
            lines = (f"{shlex.join(_arguments(point, out / name))} 2> {shlex.quote(f'{out / name}.log')}\n"
                     for name, point in named.items())  # fmt: skip
            write_atomically(out / COMMANDS_FILE, "".join(lines).encode())          # errors go beside a run's folder
    except OSError as error:
        raise FileError(f"cannot write to {out}: {error.strerror}") from None
    print(f"{out / COMMANDS_FILE}: {len(named):,} commands; `tinyattn collect {out}` makes the table")


def runs_of(folder: Path) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """The options that vary in a sweep, and its runs: name -> options. Raises FileError for a folder of no sweep."""
    plan = read_json(folder / RUNS_FILE)
    try:
        varied, runs = plan["varied"], plan["runs"]
        plain = all(isinstance(value, str | int | float) for point in runs.values() for value in point.values())
        known = all(name == _name(point, varied) and len(name) <= LONGEST for name, point in runs.items())
        ours = type(varied) is list and runs and known and plain
    except (TypeError, KeyError, AttributeError):
        ours = False
    if not ours:
        raise FileError(f"{folder / RUNS_FILE} was not written by `tinyattn sweep`")
    return varied, runs


def _rename(out: Path, named: dict[str, Any], known: dict[str, Any]) -> None:
    """Rename finished runs of an earlier grid (`known`) to their names in this one, as other options may vary."""
    for name, point in named.items():
        old = next((other for other, was in known.items() if was == point), name)
        if old != name and RunFolder(out / old).finished and not (out / name).exists():
            (out / old).rename(out / name)
            if (log := out / f"{old}.log").exists():
                log.rename(out / f"{name}.log")
            print(f"{out / old} is {out / name} now")


def _refuse_other_runs(out: Path, named: dict[str, Any], known: dict[str, Any]) -> None:
    """Raise FileError for a run whose name means other options in this grid."""
    for name, point in named.items():
        if not (out / name).exists():
            continue
        was = known.get(name, point)
        if was != point:
            other = next(o for o in point | was if point.get(o) != was.get(o))
            conflict = f"{out / name} is a run with {other} {was.get(other)!r}, and the grid has {point.get(other)!r}"
            raise FileError(f"{conflict}: choose another --out")
        if (run := RunFolder(out / name)).finished:          # several sweeps may share the folder
            run.refuse_other(config_of(point))


def config_of(point: dict[str, Any]) -> dict[str, Any]:
    """The config.json of a run with these options, without its data. Raises ValueError for invalid options."""
    options = _parsed(point)
    model, measure = train.model_of(options)
    return {"model": options.model, "parameters": model.identity(), "evaluation": measure.settings(options)}


def _read(path: Path) -> list[dict[str, Any]]:
    """The grids of the file, each with the options above all tables."""
    if not path.is_file():
        raise FileError(f"{path} is no regular file, expected TOML" if path.exists() else f"{path}: no such file")
    try:
        shared = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileError(f"{path} is not readable TOML: {error}") from None
    grids = shared.pop("grid", [{}])
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise FileError(f"{path}: grid is one table, expected one or more [[grid]]")
    whole = [shared | grid for grid in grids]
    for name, value in ((name, value) for grid in whole for name, value in grid.items()):
        if isinstance(value, dict):
            _refuse_range(path, name, value)
            continue
        for one in value if isinstance(value, list) and value else [value]:
            if not isinstance(one, bool | int | float | str):
                expected = "a number, a text, true or false, or a list of them"
                raise FileError(f"{path}: {name} is {value!r}, expected {expected}")
            if isinstance(one, str) and not one.isprintable():           # a command is one line
                raise FileError(f"{path}: {name} is {one!r}, expected a text of one line that can be printed")
            if name == "data" and str(one).startswith("-"):              # which would be a flag
                raise FileError(f"{path}: {name} is {one!r}, expected a path that begins with no -, as ./{one}")
    return whole


def _points(grid: dict[str, Any]) -> Iterator[dict[str, Any]]:
    values = [value if isinstance(value, list) else [value] for value in grid.values()]
    return (dict(zip(grid, point, strict=True)) for point in itertools.product(*values))


def _refuse_range(path: Path, name: str, value: Any) -> None:
    """Raise FileError unless the table is a range of numbers: from, to and perhaps log."""
    low, high, log = value.get("from"), value.get("to"), value.get("log", False)
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    known = value.keys() <= {"from", "to", "log"} and isinstance(log, bool)
    if not numbers or not known or not low < high or not math.isfinite(high - low) or (log and low <= 0):
        expected = "a number, a text, true or false, a list of them, or a range {from = 1e-4, to = 1e-2, log = true}"
        raise FileError(f"{path}: {name} is {value}, expected {expected}")


def _drawn(grids: list[dict[str, Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """`count` different points, each with every value of `seed`; for each point, a grid is drawn uniformly.

    A list gives one of its values. A range gives a number: a whole one if both ends are whole, otherwise one of three
    digits. Raises ValueError for a count below 1, or if there are fewer different points.
    """
    if not 1 <= count <= MOST:
        raise ValueError(f"--draw is {count}, expected 1 to {MOST:,}")
    rng, points = generator(seed, Stream.SWEEP), dict[str, list[dict[str, Any]]]()
    for _ in range(100 * count):
        grid = grids[int(rng.integers(len(grids)))]
        point = {name: value if name == "seed" else _draw(value, rng) for name, value in grid.items()}
        points.setdefault(repr(point), list(_points(point)))
        if len(points) == count:
            return [run for runs in points.values() for run in runs]
    raise ValueError(f"--draw is {count}, and only {len(points)} different combinations were drawn: expected fewer")


def _draw(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, list):
        return value[int(rng.integers(len(value)))]
    if not isinstance(value, dict):
        return value
    low, high, log = value["from"], value["to"], value.get("log", False)
    whole = isinstance(low, int) and isinstance(high, int)
    if whole and not log:
        return int(rng.integers(low, high + 1))
    drawn = math.exp(rng.uniform(math.log(low), math.log(high))) if log else rng.uniform(low, high)
    return round(drawn) if whole else min(max(float(f"{drawn:.3g}"), low), high)


def _name(point: dict[str, Any], varied: list[str]) -> str:
    """The name of a run's folder: its options that vary."""
    text = ",".join(f"{name}={point[name]}" for name in varied if name in point) or "run"
    return "".join(c if c.isalnum() or c in "=,.-_+" else "_" for c in text)


def _arguments(point: dict[str, Any], out: Path) -> list[str]:
    words = ["tinyattn", "train", *([str(point["data"])] if "data" in point else [])]
    for name, value in point.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif name != "data":
            words += [f"{flag}={value}"]
    return [*words, f"--out={out}"]


def _check(point: dict[str, Any], grid: str) -> None:
    """Raise ValueError for options that `train` refuses, with the nearest name for an unknown one."""
    preset = PRESETS.get(point.get("preset", ""))
    model = point.get("model", preset.model if preset else train.DEFAULT)
    if model not in MODELS:
        raise ValueError(f"{grid}: model is {model!r}, expected {one_of(MODELS, model)}")
    if len({name.replace("-", "_") for name in point}) < len(point):
        raise ValueError(f"{grid}: an option is there twice, with - and with _: {', '.join(point)}")
    known = [*TRAIN_OPTIONS, *(flag.removeprefix("--").replace("-", "_") for flag in train.flags_of(MODELS[model]))]
    for name in point:
        if name.replace("-", "_") not in known or name == "out":
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"`tinyattn train --model {model} --help` shows them"
            raise ValueError(f"{grid}: {name} is no option of model {model}; {hint}")
    try:
        options = _parsed(point)
        train.model_of(options)[1].source(options)
    except ValueError as error:
        raise ValueError(f"{grid}: {error}") from None


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _parsed(point: dict[str, Any]) -> argparse.Namespace:
    """The parsed command line of a run. Raises ValueError for a value of another type."""
    words, parser = _arguments(point, Path("."))[2:], _Parser(prog="tinyattn train")
    train.add(parser, words)
    return parser.parse_args(words)
