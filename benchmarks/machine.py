"""Describes the machine and code of a benchmark, and writes its results and pages."""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tinyattn import machine
from tinyattn.files import json_text, write_atomically
from tinyattn.show import save

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
README, SPEED = ROOT / "README.md", ROOT / "docs" / "speed.md"  # pages with parts that benchmarks write


def read_no_arguments(doc: str | None) -> None:
    """Parse the command line of a script without options: --help prints `doc`, any other argument is an error."""
    argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()


def measure_seeds(
    doc: str | None,
    measure: Callable[[int], Any],
    result: Path,
    page: Path,
    text: Callable[[Any], str],
    words: Sequence[str] | None,
) -> None:
    """Run a script whose only option is --seeds: measure each seed, and write `result` and `page` after each."""
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
    """Write a result as JSON, atomically: a run that is interrupted leaves the last complete file."""
    write_atomically(path, (json_text(result) + "\n").encode())


def short(cpu: str) -> str:
    """The name of a make of CPU, without what all names have."""
    return cpu.replace("(R)", "").removesuffix(" Processor")


def with_kernels(cpu: str, kernels: Iterable[str]) -> str:
    """The name of a make of CPU and the BLAS kernels that run on it, which differ where clouds hide the model."""
    return " ".join([cpu, *(f"({kernel})" for kernel in kernels)])


def makes_in(path: Path) -> dict[str, Any]:
    """{make of CPU: its result}, the one that was measured last at the end."""
    return dict(json.loads(path.read_text())) if path.exists() else {}


def write_make(path: Path, result: Any) -> None:
    """Write the result of this make of CPU, and keep those of others."""
    cpu = describe()["cpu"]
    write_result(path, {name: old for name, old in makes_in(path).items() if name != cpu} | {cpu: result})


def by_make(makes: dict[str, Any], page: Callable[[Any], str]) -> str:
    """The page of the only make; or a page with a section for each, the newest first. Pictures are the newest's."""
    title, texts = "", {}
    for cpu, result in reversed(makes.items()):
        title, _, text = page(result).partition("\n")
        texts[cpu] = text if not texts else re.sub(r"^!\[.*\n\n?", "", text, flags=re.M)
    if len(texts) == 1:
        return "\n".join([title, *texts.values()])
    parts = [f"## {cpu}\n\n{re.sub('^#', '##', text.strip(), flags=re.M)}" for cpu, text in texts.items()]
    return "\n\n".join([title, *parts]) + "\n"


def newest(makes: dict[str, Any]) -> Any:
    return list(makes.values())[-1]


def others(makes: dict[str, Any], page: Path) -> str:
    """A line for docs/speed.md, which has the newest make's tables: where those of all are. "" if there is one make."""
    names = " and ".join(reversed(makes))
    return f"\n\nOn each make of CPU, {names}: [{page.name}](../{page.relative_to(ROOT)})." if len(makes) > 1 else ""


def write_pages(script: str, pages: dict[Path, str]) -> None:
    """Write the texts of a script's `pages()` into their pages; tests/test_pages.py compares the two."""
    for page, text in pages.items():
        write_atomically(page, filled(script, page, text).encode())


def write_pictures(pictures: dict[Path, Any]) -> None:
    """Save the figures of a script's `pictures()`."""
    for path, figure in pictures.items():
        save(figure, path)


def filled(script: str, page: Path, text: str) -> str:
    """The page's new content: `text` for a page of results; elsewhere `text` replaces the part between two marks."""
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
    """Date, commit, machine and versions; "+" after the commit means uncommitted changes of code."""
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    return machine.describe() | {"commit": commit + _changed("tinyattn", "benchmarks/*.py")}


def describe_code(*paths: str) -> dict[str, Any]:
    """`describe` with the last commit that changed these paths; "+" means uncommitted changes of them."""
    commit = _git("log", "-1", "--format=%h", "--", *paths) or "unknown"
    return describe() | {"commit": commit + _changed(*paths)}


def made_on(*machines: dict[str, Any]) -> str:
    """The machines, versions and commits of the parts of a result, without repetitions."""
    each = (
        f"{m['cores']} cores of {m['cpu']}{of_model(m)}, Python {m['python']}, NumPy {m['numpy']}, "
        f"commit {m['commit']}, {m['date']}"
        for m in machines
    )
    return "; ".join(dict.fromkeys(each))


def of_model(machine: dict[str, Any]) -> str:
    """The processor's family and model, for later results, as processors with one name differ."""
    family, _, model = machine.get("cpu_model", "").partition("/")
    return f" (family {family}, model {model})" if model else ""


def unlike(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The fields in which two machines differ so that their times cannot stand side by side."""
    return [what for what in ("cpu", "cpu_model", "cores", "python", "numpy") if one.get(what) != other.get(what)]


def refuse_other_code(known: Iterable[dict[str, Any]], what: str) -> None:
    """Exit if results that would be kept under this CPU's name are of another commit, or of another model of it."""

    def made(machine: dict[str, Any]) -> str:
        return f"commit {machine['commit']}{of_model(machine)}"

    now = describe()
    others = {made(machine) for machine in known if machine["cpu"] == now["cpu"]} - {made(now)}
    if others:
        raise SystemExit(f"{what} that stay are of {', '.join(sorted(others))}: measure all of them")


def _changed(*paths: str) -> str:
    return "+" if _git("status", "--porcelain", "--", *paths) else ""


def _git(*words: str) -> str:
    return machine.git(*words, folder=ROOT)
