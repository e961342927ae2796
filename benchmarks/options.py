"""Writes the tables of docs/options.md: every option of every model, as in `tinyattn train --model NAME --help`.

    python benchmarks/options.py

It reads the models' declarations, and trains nothing.
"""

import sys
from pathlib import Path

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import ROOT, read_no_arguments, write_pages
from tinyattn.models import MODELS
from tinyattn.options import Declared, as_text, options_of

PAGE = ROOT / "docs" / "options.md"


def table(group: str) -> list[str]:
    """A line for each option and meaning: an option's meaning and default may differ between models."""
    rows: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name, model in MODELS.items():
        for declared in options_of(model):
            if declared.option.group == group:
                default = "" if declared.default is None else f"`{as_text(declared.default)}`: "    # the help has it
                rows.setdefault(flag_and_help(declared), {}).setdefault(default, []).append(name)
    lines = ["| option | what it is | default, and models |", "|---|---|---|"]
    flags = list(dict.fromkeys(flag for flag, _ in rows))
    for (flag, text), found in sorted(rows.items(), key=lambda row: flags.index(row[0][0])):
        cell = "; ".join(default + ", ".join(names) for default, names in found.items())
        lines.append(f"| {flag} | {text} | {cell} |")
    return lines


def flag_and_help(declared: Declared) -> tuple[str, str]:
    """The flag, and its help with the choices."""
    flag, option = declared.flag, declared.option
    if declared.type is bool:
        return f"`{flag}`, `--no-{flag[2:]}`", option.help
    choices = "" if option.choices is None else f": {', '.join(f'`{choice}`' for choice in option.choices)}"
    return f"`{flag}`", option.help + choices


def pages() -> dict[Path, str]:
    parts = [["### Of the model", "", *table("model")], ["", "### Of training", "", *table("training")]]
    return {PAGE: "\n".join(line for part in parts for line in part)}


if __name__ == "__main__":
    read_no_arguments(__doc__)
    write_pages(__file__, pages())
