"""Makes the pages and pictures of benchmarks again from their results, without measuring.

    python benchmarks/pages.py               all of them
    python benchmarks/pages.py ladder zoo    the pages of these benchmarks
    python benchmarks/pages.py --age         how old each page is: commits, dates, CPU models

Run it when a page's text or a picture's style has changed. `tinyattn reproduce NAME --page` does the same for
experiments. In a checkout with the whole history, --age also counts the commits that changed the measured code
(MEASURED) after the oldest commit of a page's results.
"""

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, ROOT, short, write_pages, write_pictures

SCRIPTS = [path.stem for path in sorted((ROOT / "benchmarks").glob("*.py")) if "\ndef pages()" in path.read_text()]

STEP = ("ops", "layers", "fast", "training", "backend.py", "forms.py")    # in tinyattn/: the code of a training step
RUN = (*STEP, "models", "data", "evaluation")
MEASURED = {
    **dict.fromkeys(("checking", "zoo", "wild", "wild_before"), ("check",)),
    **dict.fromkeys(("training_step", "roofline", "ladder", "growth", "decoder_step", "inference", "refinements",
                     "against", "what_changed"), (*STEP, "models")),
    **dict.fromkeys(("long_attention", "scans", "comparison"), ("ops", "layers", "fast")),
    **dict.fromkeys(("cordonnier", "mutants"), ("ops",)),
    **dict.fromkeys(("course", "grading"), ("course",)),
    "lengths": ("data", "training"),
    "views": ("show",),
    "reading": ("data",), "release": (".",), "robustness": (".",), "quantised": (*STEP, "models", "export"),
}  # fmt: skip


def results() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each page's name, and the machine descriptions of all its runs."""
    for path in sorted(RESULTS.glob("*.json")):
        yield path.stem, list(machines_in(json.loads(path.read_text())))
    for folder in sorted((RESULTS / "reproduce").iterdir()):
        runs = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        yield f"reproduce/{folder.name}", list(machines_in(runs))


def machines_in(result: Any) -> Iterator[dict[str, Any]]:
    """The machine descriptions in a result, at any depth."""
    if isinstance(result, dict) and {"cpu", "date"} <= result.keys():
        yield result
    elif isinstance(result, dict | list):
        for part in result.values() if isinstance(result, dict) else result:
            yield from machines_in(part)


def age(name: str, machines: list[dict[str, Any]], since: Callable[[str, tuple[str, ...]], int | None]) -> list[str]:
    """A row: name, number of later commits that changed the code, dates, CPU models, and the commits of the results.

    The number is "?" if git knows none of the results' commits, and ends with "+" if it lacks some.
    """
    commits = list(dict.fromkeys(m.get("commit") or "unknown" for m in sorted(machines, key=lambda m: m["date"])))
    code = tuple(f"tinyattn/{part}" for part in MEASURED.get(name, RUN))
    counts = [since(commit.removesuffix("+"), code) for commit in commits if commit != "unknown"]
    known = [count for count in counts if count is not None]
    partly = "+" if len(known) < len(commits) else ""
    dates = sorted({m["date"] for m in machines})
    makes = ", ".join(sorted({short(m["cpu"]) for m in machines}))
    span = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else ""
    return [name, f"{max(known)}{partly}" if known else "?", span, makes, " ".join(commits)]


def commits_since(commit: str, code: tuple[str, ...]) -> int | None:
    """How many commits after this one changed these paths; None if git does not know this one."""
    command = ["git", "rev-list", "--count", f"{commit}..HEAD", "--", *code]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return None if answer.returncode else int(answer.stdout)


def print_ages() -> None:
    rows = [age(name, machines, commits_since) for name, machines in results() if machines]
    rows.sort(key=lambda row: -int(row[1].strip("+?") or -1))
    rows.insert(0, ["page", "since", "dates", "makes", "commits"])
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))


def pages_of(script: str) -> dict[Path, str]:
    """The result of the script's `pages()`: {page: its text, or the script's part of it}."""
    module: Any = importlib.import_module(f"benchmarks.{script}")
    made: dict[Path, str] = module.pages()
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}")
    parser.add_argument("--age", action="store_true", help="print how old each page is; make no page")
    options = parser.parse_args()
    names = options.names or SCRIPTS
    if unknown := set(names) - set(SCRIPTS):
        parser.error(f"no pages of {', '.join(sorted(unknown))}: expected some of {', '.join(SCRIPTS)}")
    if options.age:
        print_ages()
    elif len(names) == 1:
        write_pages(names[0], pages_of(names[0]))
        write_pictures(getattr(importlib.import_module(f"benchmarks.{names[0]}"), "pictures", dict)())
    else:                                # each in a process of its own: a script's imports may change another's page
        for name in names:
            subprocess.run([sys.executable, __file__, name], check=True)
