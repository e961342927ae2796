"""Flags that several commands share: options, data, a run, a history, an evaluation."""

import argparse
from collections.abc import Callable, Collection
from typing import Any

from ..backend import DEVICES
from ..data import FORMATS, WORLDS, Source
from ..data.split import REPEATS, TARGETS
from ..evaluation import PROTOCOLS
from ..models import BASELINES
from ..options import Declared, as_text, options_of
from ..terminal import shortened

MOST = 10**9                                     # the largest cut-off: no data has so many items


def add_options(command: Any, cls: type) -> None:
    """Add the options of a dataclass as flags, under the options' headings; an omitted flag sets no attribute."""
    groups: dict[str, Any] = {}
    for declared in options_of(cls):
        heading = declared.option.group
        if heading not in groups:
            groups[heading] = command.add_argument_group(heading)
        add_option(groups[heading], declared)


def add_option(group: Any, declared: Declared) -> None:
    """Add one flag: --name, or --name and --no-name for a switch."""
    option, how = declared.option, dict[str, Any]()
    text = option.help.replace("%", "%%")
    text += "" if declared.default is None else f" (default: {as_text(declared.default)})"
    if declared.type is bool:
        how["action"] = argparse.BooleanOptionalAction
    else:
        how["metavar"] = "|".join(option.choices) if option.choices else {int: "N", float: "X"}[declared.type]
        how["type"] = declared.type
    group.add_argument(declared.flag, default=argparse.SUPPRESS, help=text, **how)


# flags that say how a file of interactions is read
READING = ("format", "columns", "k_core", "min_rating", "where", "since", "until")


def add_data(command: Any, text: str = "default: the data the run was trained on") -> None:
    text += "; several files are joined; - is standard input"
    command.add_argument("data", nargs="*", metavar="DATA", help=text)
    group = command.add_argument_group("reading DATA")
    group.add_argument("--format", choices=FORMATS, metavar="NAME", help="the format, if the first lines mislead")
    text = "the columns of any other table: user;item;-;time, or by header user=NAME,item=NAME,time=NAME; also rating"
    group.add_argument("--columns", metavar="SPEC", help=text)
    text = "only rows with at least this rating"
    group.add_argument("--min-rating", type=float, metavar="X", help=text)
    text = "only rows with this value in another column: \"event == 'purchase'\"; also !="
    group.add_argument("--where", metavar="COLUMN==VALUE", help=text)
    group.add_argument("--since", metavar="DATE", help="only rows at or after this date, or number as in the file")
    group.add_argument("--until", metavar="DATE", help="only rows before this date, or number as in the file")
    group.add_argument("--k-core", type=int, metavar="K", help="only users and items with at least K interactions")


def reading_flags(options: argparse.Namespace) -> str:
    """The flags of READING on the command line, as a text for errors; "" for none."""
    return ", ".join(f"--{name.replace('_', '-')}" for name in READING if getattr(options, name) is not None)


def add_world(command: Any) -> None:
    text = f"a generated world instead of DATA, one of {', '.join(WORLDS)} (default, without DATA: series)"
    command.add_argument("--world", metavar="NAME", help=text)


def add_run(command: Any, optional: bool = False) -> None:
    how = {"nargs": "?"} if optional else {}
    command.add_argument("run_folder", metavar="RUN", help="a folder that `tinyattn train` wrote", **how)
    add_device(command)


def add_device(command: Any) -> None:
    command.add_argument("--device", choices=DEVICES, default="cpu", help="where to compute (default: cpu)")


def add_history(command: Any, required: bool = True) -> Any:
    """-> the group of mutually exclusive flags, to which a command may add."""
    which = command.add_mutually_exclusive_group(required=required)
    which.add_argument("--items", metavar="ID,ID,...", help="a history: ids of the data's items, oldest first")
    which.add_argument("--user", metavar="U", help="the whole history of a user of the data")
    return which


def add_names(command: Any) -> None:
    text = "item names to print: a table of id and name (TAB, csv, or MovieLens' movies.dat)"
    command.add_argument("--names", metavar="FILE", help=text)


def add_candidates(command: Any) -> None:
    command.add_argument("-k", "--k", type=int, metavar="K", help="how many items (default: 10, or all if fewer)")
    command.add_argument("--only", metavar="FILE", help="recommend only the items of this file, one id per line")


# Defaults of an evaluation of ranked items. The parser does not set them: for other models these flags are errors.
RANKING: dict[str, Any] = {
    "at": (10,), "protocols": ["full"], "negatives": None, "baselines": ["popularity", "markov"],
    "test_targets": None, "repeats": None,
}  # fmt: skip


def add_protocols(command: Any) -> Any:
    """-> the group of flags, to which a command may add."""
    group = command.add_argument_group("evaluation")
    text = "cut-offs of HR and NDCG (default: 10)"
    group.add_argument("--at", type=_cutoffs, default=argparse.SUPPRESS, metavar="K,K", help=text)
    text = f"any of {', '.join(PROTOCOLS)} (default: full)"
    group.add_argument("--protocols", type=names_among(PROTOCOLS), default=argparse.SUPPRESS, metavar="P,P", help=text)
    text = "the folder of candidates for sampled protocols; a missing file is drawn and written"
    group.add_argument("--negatives", default=argparse.SUPPRESS, metavar="DIR", help=text)
    text = "with a split by time: test each user's first item after the moment, or all items of the window, by Recall "
    text += "and NDCG (default: as in the run, or first)"
    how: Any = {"dest": "test_targets", "choices": TARGETS, "default": argparse.SUPPRESS, "help": text}
    try:
        group.add_argument("--targets", **how)
    except argparse.ArgumentError:
        group.add_argument("--test-targets", **how)          # model caser has --targets, the T of its paper
    add_repeats(group, "full ranking: drop items that the user has had, except the target, or keep them as candidates "
                "(default: as in the run, or drop)", argparse.SUPPRESS)  # fmt: skip
    return group


def add_repeats(command: Any, text: str, default: Any = "drop") -> None:
    command.add_argument("--repeats", choices=REPEATS, default=default, help=text)


def add_evaluation(command: Any) -> Any:
    """-> the group of flags, as `add_protocols`."""
    group = add_protocols(command)
    text = f"baselines in the table, any of {', '.join(BASELINES)} (default: popularity,markov)"
    group.add_argument("--baselines", type=names_among(BASELINES), default=argparse.SUPPRESS, metavar="B,B", help=text)
    return group


def _cutoffs(text: str) -> tuple[int, ...]:
    try:
        ks = tuple(int(k) for k in text.split(","))
    except ValueError:
        ks = ()
    if not ks or min(ks) < 1 or max(ks) > MOST or len(set(ks)) < len(ks):
        shown = shortened(repr(text))
        raise argparse.ArgumentTypeError(f"{shown} is no list of cut-offs such as 5,10, each once, at most {MOST:,}")
    return ks


def names_among(known: Collection[str]) -> Callable[[str], list[str]]:
    """A type for argparse: known names, separated by commas."""

    def convert(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None or not names or len(set(names)) < len(names):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of {', '.join(known)}, each once")
        return names

    return convert


def source_of(options: argparse.Namespace, ratings: bool = False) -> Source:
    """The data of the command line, with its ratings where a model needs them."""
    reading = {name: getattr(options, name) for name in READING}
    return Source.of(options.data, getattr(options, "world", None), **reading, ratings=ratings or None)
