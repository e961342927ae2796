"""Finished runs, their data, and the files that commands write."""

import argparse
import csv
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import DataError, Interactions, ItemNames, Source, Truth, Vocabulary, read_ids, read_names
from ..data.read import STDIN
from ..files import FileError, csv_bytes, is_same, write_atomically
from ..models import Estimator, Recommender, RunFolder
from ..terminal import quoted, shortened
from .arguments import reading_flags
from .measures import MEASURES, OF_INTERACTIONS, as_requested, open_kind

DEFAULT_K = 10               # items of a list


def open_run(
    options: argparse.Namespace, kind: type[Estimator] = Recommender
) -> tuple[Any, Any, Any, Truth | None]:
    """-> the model of a finished run, of this kind; the source, data and truth of DATA, or else of its training."""
    _refuse_reading_nothing(options)
    model, config = open_kind(options.run_folder, kind, options.device)
    if not options.data:
        return model, *training_data_of(options.run_folder, model, config)
    measure = MEASURES[model.table]
    source = measure.named(options)
    reading = config["data"].get("reading") if isinstance(config.get("data"), dict) else None
    if isinstance(source, Source) and isinstance(reading, dict) and not reading_flags(options):
        like = {what: how for what, how in reading.items() if what in ("format", "columns")}
        source = replace(source, reading=source.reading | like)      # a file like the one of its training
    return model, source, *measure.load(source)


def open_runs(options: argparse.Namespace) -> tuple[list[Any], Any, Interactions, Any]:
    """The models of several finished runs, the source and data that all were trained on, and the split.

    Raises FileError for a run that has not finished, ValueError for one of another kind, other data or another split.
    """
    folders = options.run_folders
    opened = [open_kind(folder, Recommender, options.device) for folder in folders]
    first = opened[0][0]
    source, data, _ = training_data_of(folders[0], *opened[0])
    by = RunFolder(folders[0]).evaluation()["split"]
    fingerprint = MEASURES[first.table].fingerprint(data, by)
    for folder, (model, config) in zip(folders, opened, strict=True):
        if model.table != first.table:
            kinds = " and ".join(f"model {m.name} {OF_INTERACTIONS[m.table].does}" for m in (first, model))
            raise ValueError(f"{folders[0]} and {folder} have no measure in common: {kinds}")
        if RunFolder(folder).evaluation()["split"] != by:
            raise ValueError(f"{folder} has another --split than {folders[0]}: their metrics cannot be compared")
        if config["data"].get("fingerprint") != fingerprint:
            raise ValueError(f"{folder} was trained on other data than {folders[0]}: their metrics cannot be compared")
        if not np.array_equal(model.items.ids, first.items.ids):
            raise ValueError(f"{folder} has other items than {folders[0]}, of --item-vectors: they cannot be compared")
    return [model for model, _ in opened], source, data, split_of(folders[0], first, data, options)


def split_of(folder: str, model: Any, data: Any, options: argparse.Namespace, is_training_data: bool = True) -> Any:
    """The data, split as for this run. Raises FileError for a run with an unknown split."""
    measured, measure = RunFolder(folder).evaluation(), MEASURES[model.table]
    name = measured["split"]
    if name not in measure.splits:
        raise FileError(f"{folder}/config.json has split {name!r}, expected one of {', '.join(measure.splits)}")
    return as_requested(measure.split_again(data, model, name, is_training_data), options, measured)


def training_data_of(folder: str, model: Any, config: dict[str, Any]) -> tuple[Any, Any, Truth | None]:
    """The source, data and truth of a run's training. Raises ValueError where the data has changed or is missing."""
    measure = MEASURES[model.table]
    try:
        source = measure.sources.from_config(config["data"])
        trained_on = config["data"]["fingerprint"]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(f"{folder}/config.json does not say which data the run was trained on; name DATA") from None
    if STDIN in getattr(source, "paths", []):
        raise ValueError(f"{folder} was trained on standard input, which is gone: name DATA, a file with the same rows")
    try:
        data, truth = measure.load(source)
    except DataError as error:
        raise DataError(f"{error}: {folder} was trained on it; name DATA to use another") from None
    if measure.fingerprint(data, RunFolder(folder).evaluation()["split"]) != trained_on:
        then = ", ".join(f"{config['data'].get(what, 0):,} {what} then, {n:,} now" for what, n in data.sizes.items()
                         if config["data"].get(what) != n) or "as many rows, of other content"  # fmt: skip
        changed = f"{source.title} is no longer what {folder} was trained on ({then})"
        raise ValueError(f"{changed}; name DATA to use it anyway")
    return source, data, truth


def history_of(options: argparse.Namespace, other: Any = None) -> tuple[list[Any], list[Any] | None, Any, Any]:
    """-> the history of --items or --user, as ids; [user], or None if the model does not know the user; the model; the
    times of the history, or None where neither this model nor the one of --against, `other`, reads times.
    """
    if options.items is not None:
        if options.data:
            separated = f"its ids are separated by commas: --items {','.join([options.items, *options.data])}"
            named = f"DATA ({', '.join(options.data)}) goes with --user"
            raise ValueError(f"{named}; a history of --items needs none, and {separated}")
        _refuse_reading_nothing(options)
        model, _ = open_kind(options.run_folder, Recommender, options.device)
        refuse_no_times(options.run_folder, model)
        if other is not None:
            refuse_no_times(options.against, other)
        return listed(options.items), None, model, None
    model, _, data, _ = open_run(options)
    row = int(data.users.numbers([options.user])[0]) - 1
    known = model.users.numbers_or_zero(data.users.ids[row : row + 1])[0]
    times = data.timed(row).seconds if model.reads_times or (other is not None and other.reads_times) else None
    return data.items.decode(data.sequence(row)).tolist(), [options.user] if known else None, model, times


def refuse_no_times(folder: str, model: Recommender) -> None:
    """Raise ValueError for a model that reads times, which the history of --items does not have."""
    if model.reads_times:
        way = "name a --user of data with times, or train with position t5, which reads places alone"
        raise ValueError(f"{folder} reads the times of a history's items (position timed), and --items has none: {way}")


def _refuse_reading_nothing(options: argparse.Namespace) -> None:
    flags = reading_flags(options)
    if flags and not options.data:
        raise ValueError(f"{flags}: no DATA was named, and the data of a run is read as in its training")


def listed(items: str) -> list[str]:
    """The ids of --items, a line of CSV: an id with a comma is in quotes. Raises ValueError for invalid quotes."""
    try:
        fields = next(csv.reader([items], strict=True, skipinitialspace=True), [])
    except csv.Error as error:
        raise ValueError(f"--items {items!r} is no line of CSV: {error}; '\"Part 1, second\",7' is two ids") from None
    return [stripped for item in fields if (stripped := item.strip(" \t"))]               # as in a table's fields


def names_of(options: argparse.Namespace, model: Recommender) -> ItemNames:
    """The names in the file --names, or none; a note counts unknown ids. Raises ValueError where all are unknown."""
    if options.names is None:
        return ItemNames()
    assert model.items is not None
    names = read_names(options.names)
    unknown = names.unknown(model.items.ids.tolist())
    if unknown == len(names):
        some = ", ".join(map(quoted, model.items.ids[:3].tolist()))
        raise ValueError(f"{options.names} names no item of the run, whose ids are {some}, ...")
    if unknown:
        ignored = f"{unknown:,} of {len(names):,} ids are no items of the run, and their names are not used"
        print(f"note: {options.names}: {ignored}", file=sys.stderr)
    return names


def refuse_unwritable(out: str, flag: str = "--out", read: Iterable[str | Path | None] = ()) -> None:
    """Raise ValueError if `out` cannot be written, is a directory or a device, is in `read`, or belongs to a run."""
    for path in read:
        if path is not None and is_same(path, Path(out)):            # without a slash at its end
            raise ValueError(f"{flag} {out} is the file {path}, which is read: expected another one to write to")
    if Path(out).name in RunFolder.PARTS and (Path(out).absolute().parent / "config.json").exists():
        raise ValueError(f"{flag} {out} is a part of the run in that folder: expected another name")
    if Path(out).exists() and not Path(out).is_file():
        kind = "a directory" if Path(out).is_dir() else "a device"
        raise ValueError(f"{flag} {out} is {kind}, expected a file to write to")
    folder = next(parent for parent in Path(out).absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ValueError(f"{flag} {out} cannot be written: {folder} is no directory that may be written to")


def refuse_no_gif(out: str, read: Iterable[str | Path | None] = ()) -> None:
    """`refuse_unwritable`; also raise ValueError for an ending other than .gif."""
    refuse_unwritable(out, "--gif", read)
    if Path(out).suffix.lower() != ".gif":
        raise ValueError(f"--gif {out} is an animation, expected a name that ends in .gif")


def refuse_no_picture(out: str, flag: str, read: Iterable[str | Path | None] = ()) -> None:
    """`refuse_unwritable`; also raise ValueError for an ending that is no format of pictures."""
    refuse_unwritable(out, flag, read)
    from ..show.style import picture_format

    picture_format(out)


def refuse_another_page(page: Path, mark: str, ours: str, remedy: str) -> None:
    """Raise ValueError where `page` is no file, or exists without `mark`, which every generated page contains."""
    if page.exists() and not page.is_file():
        raise ValueError(f"{page} is no file, and a page is to be written there: {remedy}")
    if page.is_file() and mark not in page.read_text(errors="replace"):
        raise ValueError(f"{page} is not {ours}, and would be overwritten: {remedy}")


@contextmanager
def drawing(what: str) -> Iterator[None]:
    """Print a note where the block fails to draw: the results are kept without their pictures."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)          # matplotlib's, for an axis up to 1e308
            yield
    except Exception as error:           # matplotlib's, for a bad matplotlibrc, fonts, a full disk
        print(f"note: {what} could not be drawn: {shortened(str(error), 300)}", file=sys.stderr)


def recommendable(model: Recommender, only: Sequence[Any] | None) -> np.ndarray:
    """Which items may be recommended: a mask (n_items + 1,), False for padding; with `only`, True only for these."""
    vocabulary = model.fitted()
    may = np.full(len(vocabulary) + 1, only is None)
    if only is not None:
        may[vocabulary.numbers(only)] = True
    may[0] = False
    return may


def k_of(options: argparse.Namespace, model: Recommender, out: Sequence[Any], only: Sequence[Any] | None) -> int:
    """The option -k; by default 10, or all items if fewer are left. Raises ValueError where none are left."""
    if options.k is not None:
        return int(options.k)
    may = recommendable(model, only)
    may[model.fitted().numbers(out)] = False
    left = int(np.sum(may))
    if not left:
        raise ValueError("no items are left when seen ones are taken out")
    if left < DEFAULT_K:
        items = "1 item is" if left == 1 else f"{left} items are"
        print(f"note: {items} left, fewer than {DEFAULT_K}", file=sys.stderr)
    return min(left, DEFAULT_K)


def known_ids(path: str | None, known: Vocabulary) -> list[str] | None:
    """The ids that a file lists, or None without a file. Raises DataError naming the file and the first unknown id."""
    if path is None:
        return None
    ids = read_ids(path)
    try:
        known.numbers(ids)
    except ValueError as error:
        raise DataError(f"{path}: {error}") from None
    return ids


def describe_counts(data: Any, split: Any) -> str:
    sizes = ", ".join(f"{number:,} {what}" for what, number in data.sizes.items())
    return f"{sizes}; {split.tested} are tested{getattr(split, 'untested', '')}"


def remarks(data: Interactions, maxlen: int | None) -> list[str]:
    """What a file's interactions are like: days, rows left out, repeats, and how many `maxlen` cuts off."""
    report = data.report()
    cut = 0 if maxlen is None else int(np.sum(np.maximum(data.lengths - maxlen, 0)))
    counts = {"repeats of an item by a user": report["repeats"], "identical rows": report["identical rows"]}
    return [
        *([report["first and last"]] if report["first and last"] else []),
        *([f"{report['rows left out']} left out"] if "rows left out" in report else []),
        *([f"read twice: {report['read twice']}"] if "read twice" in report else []),
        *(f"{count:,} {what}" for what, count in counts.items() if count),
        *([f"maxlen {maxlen} cuts off {cut / len(data):.1%} of the interactions"] if cut else []),
    ]


def write_csv(path: str | Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file, whole or not at all."""
    write_atomically(Path(path), csv_bytes(rows))
