"""The options of a check, for the command, for targets in a table and for tests."""

from dataclasses import dataclass, fields
from typing import Any

from .property import Property
from .specs import near

FEW, SOON = 6, 0.7  # of a fast check: cases per property, and seconds to shrink a failure or to name its bug


@dataclass(frozen=True)
class Options:
    """Each property is tried on `examples` cases drawn from `seed`. The check may take `time_limit` seconds, and one
    case `patience` seconds. With `strict`, forms of a call that are not offered, other conventions and mere rounding
    are failures. The properties named in `skip` are not tried. With `dtype`, "float32" or "float64", every array of
    floats has this dtype. With `brief`, the searches for a small counterexample and for the cause are short. `fast`,
    for a check at every save, implies `brief`, draws few cases, and leaves out large sizes and long runs.

    Raises ValueError for numbers out of range, TypeError for another option.
    """

    examples: int = 50
    seed: int = 0
    time_limit: float = 900.0
    patience: float = 10.0
    strict: bool = False
    skip: tuple[str, ...] = ()
    dtype: str | None = None
    brief: bool = False
    fast: bool = False

    def __post_init__(self) -> None:
        numbers = ("examples", "time_limit", "patience", "seed")
        refuse_out_of_range(**{name: getattr(self, name) for name in numbers})
        object.__setattr__(self, "skip", tuple(self.skip))
        if self.fast:
            object.__setattr__(self, "examples", min(self.examples, FEW))
            object.__setattr__(self, "brief", True)

    @property
    def of_trial(self) -> dict[str, Any]:
        """The arguments of `trial_of`."""
        return {name: getattr(self, name) for name in ("examples", "seed", "patience", "strict")}

    def left_out_by(self, prop: Property) -> str:
        """The option that leaves the property out, or ""."""
        return "skip" if prop.name in self.skip else "fast" if self.fast and (prop.wide or prop.once) else ""


_TYPES: dict[Any, tuple[Any, str]] = {  # by annotation: the type of a value in a table, and its name in messages
    int: (int, "a whole number"),
    float: (int | float, "a number of seconds"),
    bool: (bool, "true or false"),
    str | None: (str, '"float32" or "float64"'),
    tuple[str, ...]: (list, "a list of properties"),
}
OF_TABLES = {f.name: _TYPES[f.type] for f in fields(Options) if f.name not in ("patience", "brief")}
OF_TABLES["xfail"] = OF_TABLES["skip"]  # properties that are expected to fail


def refuse_wrong_types(options: dict[str, Any], what: str) -> None:
    """Raise ValueError for an option of a table that does not exist, or has a value of another type or out of range."""
    for name, value in options.items():
        if name not in OF_TABLES:
            raise ValueError(f"{name!r} is no {what.removeprefix('an ')}; {near(name, OF_TABLES)}")
        kind, words = OF_TABLES[name]
        right = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
        if not right or (kind is list and not all(isinstance(part, str) for part in value)):
            raise ValueError(f"{name}, {what}, is {value!r}, expected {words}")
    refuse_out_of_range(**{name: options[name] for name in ("examples", "seed", "time_limit") if name in options})


def refuse_out_of_range(**numbers: float) -> None:
    """Raise ValueError for a negative seed, and for another number that is not above 0, or is ten million or more."""
    for name, value in numbers.items():
        if name == "seed" and value < 0:
            raise ValueError(f"seed is {value}, expected a whole number of at least 0")
        if name != "seed" and not 0 < value < 1e7:
            raise ValueError(f"{name} is {value}, expected more than 0, and less than ten million")
