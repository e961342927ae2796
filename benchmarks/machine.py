"""What a benchmark ran on, for its results file."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tinyattn import machine

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"


def write_readme(name: str, block: str, page: str = "README.md") -> None:
    """Put `block` between README's, or another page's, two marks of that name."""
    path = ROOT / page
    begin, end = readme_marks(name)
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n{block.strip()}\n{end}{rest.split(end, 1)[1]}")


def readme_marks(name: str) -> tuple[str, str]:
    return f"<!-- made by benchmarks/{name}.py: begin -->", f"<!-- benchmarks/{name}.py: end -->"


def clean_environment() -> dict[str, str]:
    """The environment without variables that would choose a BLAS kernel or a thread count for us."""
    forced = ("OPENBLAS_", "MKL_", "OMP_", "BLIS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(forced)}


def describe() -> dict[str, Any]:
    """Date, commit, machine and versions."""
    return machine.describe() | {"commit": _git("rev-parse", "--short", "HEAD") or "unknown"}


def describe_code(*paths: str) -> dict[str, Any]:
    """`describe`, with the last commit that changed these paths for the commit; with "+", they have changed since."""
    commit = _git("log", "-1", "--format=%h", "--", *paths) or "unknown"
    return describe() | {"commit": commit + ("+" if _git("status", "--porcelain", "--", *paths) else "")}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
