"""Where data comes from: a file, or a generator in a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..options import one_of
from .grammar import Grammar
from .interactions import Interactions
from .pairs import Pairs, read_pairs
from .read import STDIN, read, read_text, titled
from .tasks import TASKS, Task
from .texts import Text
from .worlds import WORLDS, World

Truth = Callable[[list[np.ndarray]], np.ndarray]      # P(next item | history), (len(histories), n_items + 1)


class AnySource:
    """Base of the sources: frozen dataclasses with a file's `path`, or None, and a generator, or None.

    Arguments of a subclass's class statement become these class variables.
    """

    path: Path | None
    made_as: ClassVar[str]                   # the field of the generator
    key: ClassVar[str]                       # the generator's key in config.json
    table: ClassVar[Mapping[str, Any]]       # generators by name, the default first
    flags: ClassVar[tuple[str, str]]         # of the file, and of the generator's name
    noun: ClassVar[str] = ""                 # before the generator's title
    nameless: ClassVar[str]                  # the name of a file whose name is empty

    def __init_subclass__(cls, **settings: Any) -> None:
        for name, value in settings.items():
            setattr(cls, name, value)

    @classmethod
    def of(cls, path: str | None, name: str | None = None) -> Self:
        """The file at `path`, or the generator of this name. Raises ValueError for both, and an unknown name."""
        if path is not None and name is not None:
            raise ValueError(f"{cls.flags[0]} is {path} and {cls.flags[1]} {name}, expected one of them")
        make: Any = cls
        return make(None, cls.chosen(name)()) if path is None else make(Path(path), None)

    @classmethod
    def chosen(cls, name: str | None) -> Any:
        """The class of the generator of this name, or the default one. Raises ValueError for an unknown name."""
        if name is not None and name not in cls.table:
            raise ValueError(f"{cls.flags[1]} is {name!r}, expected {one_of(cls.table, name)}")
        return cls.table[name or next(iter(cls.table))]

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Self:
        """The source that `describe` returned. Raises KeyError, TypeError or ValueError for anything else."""
        make: Any = cls
        return make(None, cls.remade(data[cls.key])) if cls.key in data else make(Path(data["path"]), None)

    @classmethod
    def remade(cls, settings: dict[str, Any]) -> Any:
        """The generator with these settings, its name among them."""
        return cls.table[settings["name"]](**{name: value for name, value in settings.items() if name != "name"})

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        return self.path.name.split(".")[0] or self.nameless if self.path else getattr(self, self.made_as).name

    @property
    def paths(self) -> list[Path]:
        """The files; none for a generator."""
        return [] if self.path is None else [self.path]

    @property
    def title(self) -> str:
        """For people to read."""
        return titled(self.paths) if self.path else f"{self.noun}{getattr(self, self.made_as).title}"

    def describe(self) -> dict[str, Any]:
        """The source as JSON, for `from_config`."""
        if self.path:
            return {"path": str(self.path.resolve())}
        made = getattr(self, self.made_as)
        return {self.key: {"name": made.name, **asdict(made)}}


@dataclass(frozen=True)
class Source(AnySource, made_as="world", key="world", table=WORLDS, flags=("DATA", "--world"), noun="the world ",
             nameless="data"):  # fmt: skip
    """Files, or a world; `reading` holds the arguments of `read` that were set, and k_core."""

    path: Path | None
    world: World | None
    reading: dict[str, Any] = field(default_factory=dict)
    more: tuple[Path, ...] = ()              # files after the first

    @classmethod
    def of(  # type: ignore[override]
        cls, path: str | Sequence[str] | None, world: str | None = None, **reading: Any
    ) -> Self:
        """The file or files at `path`, or the world.

        Raises ValueError for both, an unknown one, `reading` without a file, and standard input twice.
        """
        reading = {name: value for name, value in reading.items() if value is not None}
        paths = [path] if isinstance(path, str) else list(path or [])
        if paths.count(str(STDIN)) > 1:
            raise ValueError("standard input can be read once, and DATA names it twice")
        if not paths and reading.get("ratings"):
            raise ValueError("a generated world has no ratings: expected DATA with columns of ratings and of times")
        if not paths and reading:
            raise ValueError(f"--{min(reading).replace('_', '-')} is for a file of interactions, and DATA is missing")
        first = paths[0] if paths else None
        return replace(super().of(first, world), reading=reading, more=tuple(map(Path, paths[1:])))

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Self:
        if "world" in data:                              # in older files worlds have no name, and all are series
            return super().from_config({"world": {"name": "series", **data["world"]}})
        reading = dict(data.get("reading", {}))
        kinds = {"format": str, "columns": str, "k_core": int, "ratings": bool,
                 "min_rating": float, "where": str, "since": str, "until": str}  # fmt: skip
        if any(type(value) is not kinds.get(name) for name, value in reading.items()):
            raise TypeError(f"reading is {reading}")
        more = tuple(map(Path, data.get("more", [])))
        return replace(super().from_config(data), reading=reading, more=more)

    @property
    def paths(self) -> list[Path]:
        return [*super().paths, *self.more]

    @property
    def name(self) -> str:
        if self.path is None:
            return super().name
        name = "stdin" if self.path == STDIN else self.path.name
        for suffix in (".gz", ".txt", ".inter", ".csv", ".tsv", ".json", ".dat", ".data", ".parquet"):
            name = name.removesuffix(suffix)
        return (name or self.nameless) + (f"+{len(self.more)}" if self.more else "")

    def describe(self) -> dict[str, Any]:
        if self.path is None:
            return super().describe()
        first, *more = (str(path if path == STDIN else path.resolve()) for path in self.paths)
        return {"path": first} | ({"more": more} if more else {}) | {"reading": self.reading}

    def load(self) -> tuple[Interactions, Truth | None]:
        """The interactions, and the true distribution of the next item, where it is known."""
        if self.world is not None:
            return self.world.generate(), self.world.next_item
        assert self.path is not None
        settings = dict(self.reading)
        k = settings.pop("k_core", None)
        data = read(self.paths, **settings)
        return (data if k is None else data.k_core(k)), None


@dataclass(frozen=True)
class PairSource(AnySource, made_as="task", key="task", table=TASKS, flags=("--pairs", "--task"), noun="the task ",
                 nameless="pairs"):  # fmt: skip
    """A file of pairs, or a task."""

    path: Path | None
    task: Task | None

    def load(self) -> Pairs:
        if self.task is not None:
            return self.task.generate()
        assert self.path is not None
        return read_pairs(self.path)


@dataclass(frozen=True)
class TextSource(AnySource, made_as="grammar", nameless="text"):
    """The file at `path`, or the default grammar."""

    path: Path | None

    grammar = Grammar()

    @classmethod
    def of(cls, path: str | None, name: None = None) -> "TextSource":  # type: ignore[override]
        return cls(None if path is None else Path(path))

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> "TextSource":
        return cls(None if "grammar" in data else Path(data["path"]))

    @property
    def entropy(self) -> float | None:
        """The entropy in nats a character; None where it is unknown."""
        return Grammar().entropy if self.path is None else None

    def describe(self) -> dict[str, Any]:
        return super().describe() if self.path else {"grammar": asdict(self.grammar)}

    def load(self) -> Text:
        """Raises DataError, naming the file, where it is missing, empty, or no text."""
        return Grammar().generate() if self.path is None else Text(read_text(self.path))
