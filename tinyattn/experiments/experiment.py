"""What an experiment is: data, rows of models and options, and seeds, all written down before the first run.

Each training, one row from one seed, leaves one JSON file; tables and pictures are made from these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..data import Interactions, SequenceTask, Truth, read
from ..data.worlds import World
from ..models import MODELS, Trained
from .pictures import Picture, has_something

Results = Mapping[str, list[dict[str, Any]]]      # row: what its runs found, a dict a seed
QUICK_USERS, QUICK_EPOCHS, QUICK_SEQUENCES = 300, 2, 100
CLOSE_SEEDS = 4                                          # of rows that two seeds leave within two standard deviations
TIMES = {"trained": 1, "twice": 2, "longest": 8}         # how long tested sequences are, in terms of those learned from


@dataclass(frozen=True)
class Dataset:
    """Interactions for an experiment: a file in the folder that the user names, or a generated world.

    With `newest`, only so many of each user's training items are kept: the items that models are tested on stay.
    """

    title: str
    file: str | None = None
    world: World | None = None
    newest: int | None = None
    split: str = "leave-one-out"        # a key of SPLITS
    users: int | None = None            # only the first so many, for a quick look

    def path(self, folder: Path | None) -> Path | None:
        """The file in `folder`, as it is named or without .gz; None where it is not there, or where none is needed."""
        if self.file is None or folder is None:
            return None
        found = (folder / name for name in (self.file, self.file.removesuffix(".gz")))
        return next((path for path in found if path.exists()), None)

    def missing(self, folder: Path | None) -> str | None:
        """The file that is needed and not there, or None."""
        return None if self.world is not None or self.path(folder) is not None else self.file

    def load(self, folder: Path | None) -> tuple[Interactions, Truth | None]:
        """The interactions, and the true distribution where it is known."""
        if self.world is not None:
            return self.world.generate(), self.world.next_item
        path = self.path(folder)
        assert path is not None
        data = read(path)
        if self.users is not None:
            data = data.first_users(self.users).k_core(1)                # without the items that none of them had
        return (data if self.newest is None else data.newest(self.newest + 2)), None     # two: validation and test

    def quick(self) -> Dataset:
        """The same of few people."""
        world = None if self.world is None else replace(self.world, users=QUICK_USERS)
        return replace(self, world=world, users=QUICK_USERS)


@dataclass(frozen=True)
class TaskData:
    """Sequences for an experiment, drawn by a task. Models are tested on longer ones as well: TIMES."""

    title: str
    task: SequenceTask

    def missing(self, folder: Path | None) -> None:
        """Nothing is: they are drawn."""

    def quick(self) -> TaskData:
        """The same with few sequences."""
        return replace(self, task=replace(self.task, sequences=QUICK_SEQUENCES, held_out=QUICK_SEQUENCES))


@dataclass(frozen=True)
class Row:
    """A model with options, on a dataset; `published` holds numbers of papers, by (protocol, metric)."""

    title: str
    data: str                           # a key of the experiment's datasets
    model: str                          # a key of MODELS
    options: dict[str, Any] = field(default_factory=dict)
    published: dict[tuple[str, str], float] = field(default_factory=dict)
    source: str = ""                    # of what is published
    minutes: float = 0.1                # about what a run takes on one core; for the budget that is printed
    seeds: int | None = None            # where not as many as the experiment has
    times: int = 1                      # how many times as many seeds as other rows it has
    late: int = 0                       # what can wait: a row is run after all seeds of the rows with a smaller number


@dataclass(frozen=True)
class Experiment:
    """Rows to be filled, and the page that is made of them."""

    name: str
    title: str
    question: str                       # what it asks, and how it is set up: the page's first paragraph
    datasets: Mapping[str, Dataset | TaskData]
    rows: dict[str, Row]
    page: Callable[[Experiment, Results], str]
    protocols: tuple[str, ...] = ("full",)
    ks: tuple[int, ...] = (5, 10)       # metrics are computed at these
    per_user: bool = False              # write down each user's rank under full ranking, for differences in pairs?
    pictures: Callable[[Experiment, Results], dict[str, Picture]] | None = None    # beside the page, by file name
    also: Callable[[Any, Any], dict[str, Any]] | None = None     # (model, split) -> what else a run writes, as JSON
    is_whole: Callable[[dict[str, Any]], bool] | None = None     # is what `also` wrote all there?
    norms: bool = False                 # are its pages made of the gradient's norms, too? Old files have none
    seeds: int = 2
    first_seed: int = 0
    alone: bool = False                 # one run at a time, as where seconds are compared
    is_quick: bool = False              # a quick look measures nothing

    def __post_init__(self) -> None:
        unknown = {row.data for row in self.rows.values()} - self.datasets.keys()
        if unknown:
            raise ValueError(f"experiment {self.name}: rows on {', '.join(sorted(unknown))}, which it does not have")

    def is_trained(self, key: str) -> bool:
        """Is the row's model trained from a seed, so that another seed makes another model?"""
        return issubclass(MODELS[self.rows[key].model], Trained)

    def shown(self, results: Results) -> dict[str, Picture]:
        """The pictures of what has been run."""
        found = self.pictures(self, results) if self.pictures else {}
        return {name: picture for name, picture in found.items() if has_something(picture)}

    def runs(self) -> list[tuple[str, int]]:
        """(row, seed) of every run, in the order in which they are carried out: a whole table from the first seed.

        Rows that are `late` follow, in the same order, those of 1 before those of 2. A model that is not trained
        from a seed has one.
        """
        wanted = {key: (row.seeds or row.times * self.seeds) if self.is_trained(key) else 1
                  for key, row in self.rows.items()}  # fmt: skip
        turns = [(key, turn) for turn in range(max(wanted.values())) for key in self.rows if turn < wanted[key]]
        turns.sort(key=lambda run: self.rows[run[0]].late)
        return [(key, self.first_seed + turn) for key, turn in turns]

    def quick(self) -> Experiment:
        """The same in minutes: little data, two epochs, one seed. It shows that all works, and measures nothing."""

        def shorter(row: Row) -> Row:
            options = dict(row.options)
            if "epochs" in options:
                options["epochs"] = QUICK_EPOCHS
            return replace(row, options=options, minutes=0.1, seeds=1)

        return replace(
            self, title=f"{self.title}, a quick look", seeds=1, is_quick=True,
            datasets={key: data.quick() for key, data in self.datasets.items()},
            rows={key: shorter(row) for key, row in self.rows.items()},
        )  # fmt: skip
