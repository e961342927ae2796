"""What a benchmark ran on, for its results file."""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tinyattn import machine
from tinyattn.files import json_text, write_atomically
from tinyattn.show import save

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
README, SPEED = ROOT / "README.md", ROOT / "docs" / "speed.md"  # pages with parts that are made of results


def read_no_arguments(doc: str | None) -> None:
    """For a script without options: --help prints `doc`, and anything else is refused before a page is written."""
    argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()


def measure_seeds(
    doc: str | None,
    measure: Callable[[int], Any],
    result: Path,
    page: Path,
    text: Callable[[Any], str],
    words: Sequence[str] | None,
) -> None:
    """For a script with the option --seeds alone: measure each, and write `result` and `page` after every one."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args(words)
    if args.seeds < 1:
        parser.error(f"{args.seeds} seeds: expected at least 1")
    runs: list[Any] = []
    for seed in range(args.seeds):
        print(f"seed {seed}", file=sys.stderr, flush=True)
        runs.append(measure(seed))
        found = {"runs": runs, "machine": describe()}
        write_result(result, found)
        write_atomically(page, text(found).encode())
    print(page.read_text())


def write_result(path: Path, result: Any) -> None:
    """Write it as JSON, whole or not at all: some results are written again and again while they are measured."""
    write_atomically(path, (json_text(result) + "\n").encode())


def write_pages(script: str, pages: dict[Path, str]) -> None:
    """What a script's `pages()` gives, each where it belongs: tests/test_pages.py checks that they are there."""
    for page, text in pages.items():
        write_atomically(page, filled(script, page, text).encode())


def write_pictures(pictures: dict[Path, Any]) -> None:
    """What a script's `pictures()` draws from its results file."""
    for path, figure in pictures.items():
        save(figure, path)


def filled(script: str, page: Path, text: str) -> str:
    """What the page has to be: a page of results is `text`; any other has `text` between the script's two marks."""
    if RESULTS in page.parents:
        return text
    name = Path(script).stem
    begin, end = f"<!-- made by benchmarks/{name}.py: begin -->", f"<!-- benchmarks/{name}.py: end -->"
    before, rest = page.read_text().split(begin)
    return f"{before}{begin}\n{text.strip()}\n{end}{rest.split(end, 1)[1]}"


def clean_environment() -> dict[str, str]:
    """The environment without variables that would choose a BLAS kernel or a thread count for us."""
    forced = ("OPENBLAS_", "MKL_", "OMP_", "BLIS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(forced)}


def describe() -> dict[str, Any]:
    """Date, commit, machine and versions; with "+" after the commit, code has changed since."""
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    return machine.describe() | {"commit": commit + _changed("tinyattn", "benchmarks/*.py")}


def describe_code(*paths: str) -> dict[str, Any]:
    """`describe`, but its commit is the last that changed these paths; with "+", they have changed since."""
    commit = _git("log", "-1", "--format=%h", "--", *paths) or "unknown"
    return describe() | {"commit": commit + _changed(*paths)}


def made_on(*machines: dict[str, Any]) -> str:
    """The machines, versions and commits that the parts of a result were measured with, each once."""
    each = (
        f"{m['cores']} cores of {m['cpu']}, Python {m['python']}, NumPy {m['numpy']}, commit {m['commit']}, {m['date']}"
        for m in machines
    )
    return "; ".join(dict.fromkeys(each))


def refuse_other_code(known: Iterable[dict[str, Any]], what: str) -> None:
    """End where only a part is to be measured, and the parts that stay are of another commit on this processor."""
    now = describe()
    others = {m["commit"] for m in known if m["cpu"] == now["cpu"]} - {now["commit"]}
    if others:
        raise SystemExit(f"{what} that stay are of commit {', '.join(sorted(others))}: measure all of them")


def _changed(*paths: str) -> str:
    return "+" if _git("status", "--porcelain", "--", *paths) else ""


def _git(*words: str) -> str:
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except OSError:                      # there is no git
        return ""
