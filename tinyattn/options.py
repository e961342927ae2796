"""Options, declared once: default, help and bounds are written at the field of a dataclass.

    @dataclass(kw_only=True)
    class Markov(Recommender):
        order: int = option(1, "items that are looked back at", at_least=1)

The constructor, its checks, the flags of the command line, `--help`, config.json and the API page read them from there.
"""

import dataclasses
import difflib
import functools
import math
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

_KEY = "option"
_NUMBERS: dict[type, Any] = {int: Integral, float: Real}      # including NumPy's


@dataclass(frozen=True)
class Option:
    """What an option declares beside its name, type and default."""

    help: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    choices: Collection[str] | None = None       # the keys of a table of variants
    group: str = "model"                         # its heading in --help
    identity: bool = True                        # does it affect the learned parameters?
    items: bool = False                          # is it a number of items of a history? Larger ones take all items
    parts: frozenset[tuple[str, str]] = frozenset()      # choices such as ("loss", "gbce"), of which it needs one


def option(default: Any, help: str, **rest: Any) -> Any:
    """A dataclass field that is an option; `rest` as in `Option`. With a default of None the model chooses a value.

    Its type is bool, int, float, or str with `choices`; or one of these and None.
    """
    return dataclasses.field(default=default, metadata={_KEY: Option(help, **rest)})


def with_default(default: Any, declaring: type, name: str) -> Any:
    """The option `name` of the dataclass `declaring` for a subclass, with another default."""
    (declared,) = (f for f in dataclasses.fields(declaring) if f.name == name)
    return dataclasses.field(default=default, metadata=declared.metadata)


class Declared(typing.NamedTuple):
    """An option as its class declares it."""

    name: str
    type: type                                   # bool, int, float or str
    optional: bool                               # may it be None?
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


def options_of(declaring: Any) -> list[Declared]:
    """The options of a dataclass, or of an instance of one, in the order of its fields."""
    return list(_declared(declaring if isinstance(declaring, type) else type(declaring)))


@functools.cache     # every constructor needs them, and evaluating hints is slow
def _declared(cls: type) -> tuple[Declared, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        Declared(f.name, *_type(hints[f.name]), f.default, f.metadata[_KEY])
        for f in dataclasses.fields(cls)
        if _KEY in f.metadata
    )


def _type(hint: Any) -> tuple[type, bool]:
    if isinstance(hint, types.UnionType):
        (kind,) = (t for t in hint.__args__ if t is not types.NoneType)
        return kind, True
    return hint, False


def check_options(owner: Any) -> None:
    """Convert every option of `owner` to its declared type. Raises ValueError with the value and what was expected."""
    for declared in options_of(owner):
        value = getattr(owner, declared.name)
        if value is None and declared.optional:
            continue
        if expected := _expected(declared, value):
            shown = repr(value) if isinstance(value, str) or value is None else value
            raise ValueError(f"{declared.name} is {shown}, expected {expected}")
        object.__setattr__(owner, declared.name, declared.type(value))       # NumPy's numbers become Python's, for JSON


class Checked:
    """A base of dataclasses whose constructor checks their options."""

    def __post_init__(self) -> None:
        check_options(self)


def _expected(declared: Declared, value: Any) -> str:
    """What was expected, or "" for a valid value."""
    option, name = declared.option, declared.name
    if option.choices is not None:
        return "" if isinstance(value, str) and value in option.choices else one_of(option.choices, value)
    if declared.type is bool:
        return "" if type(value).__name__ in ("bool", "bool_") else "True or False"       # NumPy's as well
    if isinstance(value, bool) or not isinstance(value, _NUMBERS[declared.type]):
        return "a whole number" if declared.type is int else "a number"
    low, high = option.at_least, option.at_most
    fits = (
        (abs(int(value)) < 2**63 if isinstance(value, Integral) else math.isfinite(value))
        and (low is None or value >= low)
        and (option.above is None or value > option.above)
        and (high is None or value <= high)
        and (option.below is None or value < option.below)
    )
    if fits:
        return ""
    if isinstance(value, Integral) and high is None and abs(int(value)) >= 2**63:
        return "a number of 64 bits"
    if option.above == 0 and high is None and option.below is None:
        return "a positive, finite number"
    if low is not None and option.below is not None:
        return f"{low} <= {name} < {option.below}"
    if low is not None and high is not None:
        return f"{low} to {high}"
    bounds = {"at least": low, "above": option.above, "at most": high, "below": option.below}
    limits = " and ".join(f"{word} {bound}" for word, bound in bounds.items() if bound is not None)
    if limits and (isinstance(value, Integral) or math.isfinite(value)):
        return limits
    return f"a finite number, {limits}" if limits else "a finite number"


def one_of(known: Iterable[str], value: Any) -> str:
    """"one of full, window; did you mean window?": the known names, and the closest, if any is close."""
    known = list(known)
    near = difflib.get_close_matches(str(value), known, 1, 0.5)
    return f"one of {', '.join(known)}" + (f"; did you mean {near[0]}?" if near else "")


# --- parts: entries of tables (mechanisms, positions), dataclasses that declare options -----------------------------


def part_options(**tables: Mapping[str, Any]) -> Any:
    """A base class for a model's options: a dataclass with every option that an entry of these tables declares.

    A table's keyword is the model's option that chooses from it: `part_options(mechanism=MECHANISMS)`. The default of
    each option is None; `make_parts` passes values that are set to the part that declares them.
    """
    fields: dict[str, tuple[str, Any, Any]] = {}
    texts: dict[str, dict[tuple[Any, ...], list[str]]] = {}          # option -> its help texts -> parts with this text
    for chosen_by, table in tables.items():
        for name, cls in table.items():
            for declared in options_of(cls):
                if declared.name in fields:
                    _, kind, field = fields[declared.name]
                    if (declared.type | None, _bounds(declared.option)) != (kind, _bounds(field.metadata[_KEY])):
                        raise TypeError(f"two parts declare {declared.name} with different types or bounds")
                variants = texts.setdefault(declared.name, {})
                variants.setdefault((declared.option.help, chosen_by, declared.default), []).append(name)
                help = "; ".join(
                    f"{text} ({by} {' or '.join(names)}; default: {as_text(default)})"
                    for (text, by, default), names in variants.items()
                )
                needs = frozenset((by, name) for (_, by, _), names in variants.items() for name in names)
                field = option(None, **{**vars(declared.option), "help": help, "parts": needs})
                fields[declared.name] = (declared.name, declared.type | None, field)
    return dataclasses.make_dataclass("PartOptions", list(fields.values()), kw_only=True)


def as_text(default: Any) -> str:
    """A default in help."""
    return {True: "yes", False: "no"}[default] if isinstance(default, bool) else str(default)


def _bounds(option: Option) -> tuple[Any, ...]:
    return option.at_least, option.above, option.at_most, option.below


def make_parts(owner: Any, **tables: Mapping[str, Any]) -> list[Any]:
    """Make the entry of each table that `owner` chooses, and fill in the options that `owner` leaves unset.

    Raises ValueError for an option that is set but belongs to an entry that was not chosen.
    """
    chosen = {by: table[getattr(owner, by)] for by, table in tables.items()}
    taken = {declared.name for cls in chosen.values() for declared in options_of(cls)}
    for by, table in tables.items():
        for cls in table.values():
            for declared in options_of(cls):
                value = getattr(owner, declared.name)
                if value is not None and declared.name not in taken:
                    of = [key for key, part in table.items() if declared.name in {o.name for o in options_of(part)}]
                    chosen_by = f"{by} {' or '.join(of)}; {by} is {getattr(owner, by)}"
                    raise ValueError(f"{declared.name} is {value}, an option of {chosen_by}")
    made = []
    for cls in chosen.values():
        options = {declared.name: getattr(owner, declared.name) for declared in options_of(cls)}
        made.append(cls(**{name: value for name, value in options.items() if value is not None}))
        for name in options:
            setattr(owner, name, getattr(made[-1], name))
    return made
