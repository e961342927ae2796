"""What can be said on the command line, with the estimators' own defaults."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from . import __version__
from .backend import DEVICES
from .data import FORMATS
from .evaluation import PROTOCOLS
from .layers import BLOCKS
from .models import ItemCosine, Markov, Popularity, SASRec
from .models.objectives import OBJECTIVES

MODELS = {"sasrec": SASRec}
BASELINES = {
    "popularity": Popularity,
    "cosine": ItemCosine,
    "markov": Markov,
    "markov2": lambda: Markov(order=2),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, where argparse would print the whole usage first."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _cutoffs(text: str) -> tuple[int, ...]:
    try:
        ks = tuple(int(k) for k in text.split(","))
    except ValueError:
        ks = ()
    if not ks or min(ks) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of cut-offs such as 5,10")
    return ks


def _names(known: Any) -> Any:
    """A type for argparse: a list of known names with commas between."""

    def convert(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None or not names or len(set(names)) < len(names):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of {', '.join(known)}")
        return names

    return convert


def parser() -> argparse.ArgumentParser:
    """Of all commands; what it parses has `command`, the name of one."""
    whole = _Parser(
        prog="tinyattn",
        description="Train, measure and look into sequential recommenders built from scratch in NumPy.",
    )
    whole.add_argument("--version", action="version", version=f"tinyattn {__version__}")
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)

    command = commands.add_parser(
        "train",
        help="train a model, print its table, write a folder",
        description="Train on DATA, or on a generated world where none is given, and write the folder RUN. "
        "Killed and started again with the same arguments, it goes on where it was.",
    )
    command.set_defaults(command="train")
    _add_data(command, "a file of interactions, .gz as well; `tinyattn data --help` lists the formats")
    command.add_argument("--out", metavar="RUN", help="the folder to write (default: runs/MODEL-DATA)")
    group = command.add_argument_group("model")
    group.add_argument("--model", choices=MODELS, default="sasrec")
    _add(group, "maxlen", int, "newest items that are looked at")
    _add(group, "dim", int, "width of embeddings and blocks")
    _add(group, "blocks", int, "number of blocks")
    _add(group, "heads", int, "attention heads a block; must divide dim")
    _add(group, "dropout", float, "dropout rate")
    _add(group, "block_form", str, "pre-LN (the paper), post-LN, or the original code", choices=tuple(BLOCKS))
    _add(group, "emb_scale", bool, "multiply item embeddings by the root of dim (default: in the original code's form)")
    _add(group, "qkv_bias", bool, "biases in query, key and value projections (default: in the original code's form)")
    _add(
        group, "output_projection", bool, "a projection after the heads are joined, as in the Transformer (default: no)"
    )
    _add(group, "user_embedding", bool, "add an embedding of the user; paper, section III-D (default: no)")
    group = command.add_argument_group("training")
    _add(group, "loss", str, "one sampled negative a position (the paper), or cross-entropy", choices=tuple(OBJECTIVES))
    _add(group, "epochs", int, "epochs at most")
    _add(group, "patience", int, "stop after so many epochs without a better validation NDCG@10; 0 = never")
    _add(group, "batch_size", int, "users a step")
    _add(group, "lr", float, "learning rate of Adam")
    _add(group, "beta2", float, "second decay rate of Adam")
    _add(group, "seed", int, "of initialisation, order, negatives and dropout")
    _add(group, "workers", int, "worker processes (default: one a core, up to 8); never changes the result")
    _add_device(group)
    _add_evaluation(command)

    command = commands.add_parser(
        "evaluate",
        help="measure a trained model again",
        description="Print the table of the run in RUN, on its own data or on DATA with the same items.",
    )
    command.set_defaults(command="evaluate")
    _add_run(command)
    _add_data(command)
    _add_evaluation(command)

    command = commands.add_parser(
        "data",
        help="what is in a file of interactions",
        description="Read DATA and print what is in it: users, items, density, lengths, ties in time.",
        epilog="formats, known by the first lines:\n" + "".join(f"  {n:15} {f.example}\n" for n, f in FORMATS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(command="data")
    _add_data(command, "a file, .gz as well", required=True)

    command = commands.add_parser(
        "recommend",
        help="the best next items for a history",
        description="Recommend for a history that need not occur in any data, or for a user of the run's data.",
    )
    command.set_defaults(command="recommend")
    _add_run(command)
    _add_data(command)
    _add_history(command)
    command.add_argument("-k", "--k", type=int, default=10, help="how many (default: 10)")

    command = commands.add_parser(
        "show",
        help="who looks at whom, as a picture",
        description="Draw the attention weights for a history, by layer and head.",
    )
    command.set_defaults(command="show")
    _add_run(command)
    _add_data(command)
    _add_history(command)
    command.add_argument(
        "--out", metavar="FILE", help="the picture (default: RUN/figures/attention-LAST.png, after the last item)"
    )
    command = commands.add_parser(
        "check",
        help="is this attention right? (or softmax, LayerNorm, a causal model, ...)",
        description="Hold an implementation against all that is known of its kind, and name its bug. It runs in a "
        "process of its own. Exit code: 0 all hold, 1 something fails, 2 it could not be run.",
    )
    command.set_defaults(command="check")
    text = "package.module or path/to/file.py, with :OBJECT or without, that has the library's public names"
    command.add_argument("target", nargs="?", metavar="MODULE[:OBJECT]", help=text)
    command.add_argument("--as", dest="kind", metavar="KIND", help="what it is, of the kinds that --list names")
    command.add_argument("--examples", type=int, default=50, metavar="N", help="cases a property (default: 50)")
    command.add_argument("--seed", type=int, default=0, metavar="S", help="of the cases (default: 0)")
    text = "seconds for everything (default: 900)"
    command.add_argument("--time-limit", type=float, default=900.0, metavar="S", help=text)
    command.add_argument("--json", action="store_true", help="print JSON")
    group = command.add_argument_group("instead of checking").add_mutually_exclusive_group()
    group.add_argument("--list", action="store_true", help="every property of every kind, or of the one given by --as")
    group.add_argument("--contract", metavar="KIND", help="what an implementation of a kind is held to, in sentences")
    group.add_argument("--self", action="store_true", help="check this library, every kind or the one given by --as")
    text = "measure the suite on the zoo of known bugs, of every kind or of the one given by --as"
    group.add_argument("--zoo", action="store_true", help=text)
    _add_course(commands)
    return whole


def _add_course(commands: Any) -> None:
    course = commands.add_parser(
        "course",
        help="the chapters and their exercises, as notebooks",
        description="The course: what there is, notebooks to work in, and whether its exercises are sound.",
    )
    course.set_defaults(command="course")
    whats = course.add_subparsers(dest="what", title="commands", metavar="COMMAND", required=True)
    told = {
        "list": ("the chapters and exercises", "List chapters and exercises, with difficulty and time."),
        "build": ("write notebooks to work in", "Write the chapters as notebooks, exercises unsolved, into a folder."),
        "check": ("does every stub fail, every solution pass?", "Run all chapters, unsolved and solved."),
    }
    for what, (text, description) in told.items():
        command = whats.add_parser(what, help=text, description=description)
        command.add_argument("chapters", nargs="*", type=int, metavar="NN", help="chapters by number (default: all)")
        if what == "build":
            command.add_argument("--to", required=True, metavar="DIR", help="the folder to write; overwrites nothing")
            command.add_argument("--solutions", action="store_true", help="with the solutions filled in")


def _add(group: Any, name: str, kind: type, text: str, **how: Any) -> None:
    """An option whose default is SASRec's own."""
    flag, default = "--" + name.replace("_", "-"), getattr(SASRec, name)
    if kind is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=default, help=text)
        return
    if default is not None:
        text += f" (default: {default})"
    if "choices" not in how:
        how["metavar"] = {int: "N", float: "X"}[kind]
    group.add_argument(flag, type=kind, default=default, help=text, **how)


def _add_run(command: Any) -> None:
    command.add_argument("run_folder", metavar="RUN", help="a folder that `tinyattn train` wrote")
    _add_device(command)


def _add_device(group: Any) -> None:
    _add(group, "device", str, "where to compute; a run may move between them", choices=DEVICES)


def _add_data(command: Any, text: str = "default: the data the run was trained on", required: bool = False) -> None:
    command.add_argument("data", nargs=None if required else "?", metavar="DATA", help=text)
    group = command.add_argument_group("reading DATA")
    group.add_argument("--format", choices=FORMATS, metavar="NAME", help="its format, where the first lines mislead")
    text = "any other table: user;item;-;time as a line of it, or user=NAME,item=NAME,time=NAME in its header"
    group.add_argument("--columns", metavar="SPEC", help=text)
    text = "only users and items with at least K interactions among themselves"
    group.add_argument("--k-core", type=int, metavar="K", help=text)


def _add_evaluation(command: Any) -> None:
    group = command.add_argument_group("evaluation")
    text = "cut-offs of HR and NDCG (default: 10)"
    group.add_argument("--at", type=_cutoffs, default=(10,), metavar="K,K", help=text)
    text = f"of {', '.join(PROTOCOLS)} (default: full)"
    group.add_argument("--protocols", type=_names(PROTOCOLS), default=["full"], metavar="P,P", help=text)
    text = "a folder to read the candidates of sampled protocols from, or to write them to where it has none"
    group.add_argument("--negatives", metavar="DIR", help=text)
    text = f"rows beside the model, of {', '.join(BASELINES)} (default: popularity,markov)"
    default = ["popularity", "markov"]
    group.add_argument("--baselines", type=_names(BASELINES), default=default, metavar="B,B", help=text)


def _add_history(command: Any) -> None:
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--items", metavar="ID,ID,...", help="a history, oldest item first, in the data's own ids")
    which.add_argument("--user", metavar="U", help="the whole history of a user of the data")
