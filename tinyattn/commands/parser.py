"""The parser of the command line."""

import argparse
import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from ..options import one_of
from ..terminal import one_line

# metavars of files and folders
PATHS = ("DATA", "DIR", "FILE", "FROM", "GRID.toml", "OUT", "RUN", "RUN2", "all|FILE")


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, and which refuses an empty path, as of a variable that is not set.

    Path("") would be the current folder.
    """

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.commands: Mapping[str, Parser] = {}
        self.short = set[str]()

    def shorten(self, short: Collection[str]) -> None:
        """Let --help show only these arguments, and --help-all show all."""
        self.short = {*short, "help_all"}
        text = "show every option"
        self.add_argument("--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help=text)

    def print_below(self, text: str) -> None:
        """Print this text below the help, with its line breaks."""
        self.epilog, self.formatter_class = text, argparse.RawDescriptionHelpFormatter

    def format_help(self) -> str:
        if self.short:
            positional = "".join(f"[{action.metavar}] " for action in self._get_positional_actions())
            self.usage = f"%(prog)s {positional}[OPTIONS]"
            for action in self._actions:
                if action.dest not in self.short:
                    action.help = argparse.SUPPRESS
        return super().format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            self.error(f"command is {value!r}, expected {one_of(action.choices, value)}")
        super()._check_value(action, value)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        if action.metavar in PATHS and not arg_string.strip():
            self.error(f"{(action.option_strings or [action.metavar])[-1]} is empty, expected a path")
        return super()._get_value(action, arg_string)

    def unrecognized(self, unknown: Sequence[str], command: str, arguments: Sequence[str]) -> str:
        """The error message for unknown arguments: a list may need quotes, or a flag is near to the first of them."""
        known = self.commands[command]._option_string_actions
        before = arguments[arguments.index(unknown[0]) - 1]
        if before.endswith(","):
            quoted = f"'{before} {unknown[0]}'"
            return f"unrecognized arguments: {' '.join(unknown)}; a list with blanks needs quotes: {quoted}"
        near = difflib.get_close_matches(unknown[0].partition("=")[0], known, 1, 0.7)
        return f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean {near[0]}?" if near else "")

    def error(self, message: str) -> NoReturn:
        if message == "argument --columns: expected one argument":          # argparse takes -,user for an option
            message += "; one that begins with - is written as --columns=-,user,item"
        self.exit(2, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")


class _HelpAll(argparse.Action):
    def __call__(self, parser: Any, *_: Any) -> None:
        parser.short = set()
        parser.print_help()
        parser.exit()
