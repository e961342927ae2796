"""Is the release complete? Checks versions, sdist and wheel, README's commands from the wheel, the site and its links.

    python benchmarks/release.py [--python PROGRAM] [--whole]

Sdist and wheel are built in a temporary folder. The wheel is installed in a fresh virtual environment of each Python
that `.github/workflows/check.yml` names and this machine has; `--python` adds others. The commands of README run in
that environment, outside of the checkout, with the extras that README installs. The Pythons are tried in parallel.
Trainings are cut to one epoch, unless `--whole` is given. The tests of the site build it and follow the links inside.
Needs the extras `dev` and `release`, git, and the package index. In the checkout only benchmarks/results/release.json
and .md change; the exit code is 1 if a check fails.
"""

import argparse
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result

RESULT, PAGE = RESULTS / "release.json", RESULTS / "release.md"
PASS, FAIL, NOT_RUN = "pass", "FAIL", "not run"
PATIENCE = 3600  # seconds a command may take
# README's commands that are not run, by how they begin, and the reason.
REASONS = {
    "jupyter lab": "it is a server that waits for a browser",
    "pytest": "the tests are in the checkout, not in a wheel; `.ci/run` runs them",
    "pip install -e .[dev]": "it is for work on the checkout; `.ci/run` runs it",
    "pip install -e .[gpu]": "it needs a GPU",
    "tinyattn train --device gpu": "it needs a GPU",
    "tinyattn import-model gpt2/": "GPT-2's weights are not shipped; tests/models/layouts makes small ones",
    "tinyattn generate runs/gpt2": "GPT-2's weights are not shipped; tests/models/layouts makes small ones",
    "tinyattn reproduce": "an experiment takes minutes to hours; tests/experiments runs small ones",
}
READ = ("README.md", "docs/data.md", "docs/transformers.md")  # pages whose commands are run, in this order
RELATIVE = r"\]\((?!https?:|#)[^)]+\)"  # Markdown: the target of a link or picture, where it is a file of the checkout
LINKS_OUT = "where there is a network, `sphinx-build -b linkcheck -c website . build/links` asks each for an answer"
# README's commands read files of the reader, and runs of earlier commands: both are made first.
FILES = {
    "interactions.txt": "".join(f"{u} {(u * 7 + t * (u % 5 + 1)) % 60 + 1}\n" for u in range(1, 60) for t in range(8)),
    "available.txt": "".join(f"{item}\n" for item in range(1, 31)),
    "grid.toml": "epochs = 1\nseed = [0, 1]\n",
    "reviews.tsv": "".join(f"{x}\tthe film of {n} minutes is {x}\n" for n in range(60, 150) for x in ("good", "bad")),
    "new.txt": "the good film of 99 minutes\n",
}
BEFORE = ["tinyattn train interactions.txt --model markov", "tinyattn train --model swin"]
PLACEHOLDERS = {"RUN": "runs/sasrec-interactions", "OTHER": "runs/markov-interactions"}


class Step(NamedTuple):
    """One step of README: a shell command, `words`, or Python, `code`. `shows` is the output that README prints."""

    words: list[str]
    code: str = ""
    shows: str = ""

    def __str__(self) -> str:
        return shlex.join(self.words) if self.words else self.code.strip().splitlines()[0] + " ..."


def steps(readme: str) -> list[Step]:
    """README's commands and pieces of Python, in order; a ```text block below one is the output to expect."""
    found: list[Step] = []
    fence_or_command = r"^```(\w+)\n(.*?)^```$|^ {4,6}((?:pip|tinyattn) [^\n]*)$"
    for fence, body, line in re.findall(fence_or_command, readme, re.M | re.S):
        if fence == "python":
            found.append(Step([], body))
        elif fence == "text":
            found[-1] = found[-1]._replace(shows=body)
        elif line:
            command, _, comment = line.partition("  #")
            extra = re.search(r"pip install -e '\.(\[\w+\])'", comment)
            if extra:
                found.append(Step(["pip", "install", "-e", f".{extra[1]}"]))
            for part in command.split("&&"):
                found.append(Step([PLACEHOLDERS.get(word, word) for word in shlex.split(part)]))
    return found


def reason_not_to_run(step: Step) -> str | None:
    line = " ".join(step.words)
    return next((reason for beginning, reason in REASONS.items() if line.startswith(beginning)), None)


def versions(root: Path) -> dict[str, str]:
    """{file: the version that it names, or "none"}."""

    def first(path: str, pattern: str) -> str:
        found = re.search(pattern, (root / path).read_text(), re.M)
        return found[1] if found else "none"

    return {
        "tinyattn.__version__": first("tinyattn/__init__.py", r'^__version__ = "(.*)"$'),
        "CHANGELOG.md": first("CHANGELOG.md", r"^## (\S+)"),
        "CITATION.cff": first("CITATION.cff", r"^version: (\S+)$"),
    }


def disagreement(named: dict[str, str]) -> str | None:
    """All versions in words, if they differ; else None."""
    return None if len(set(named.values())) == 1 else ", ".join(f"{where}: {v}" for where, v in named.items())


class Failure(Exception):
    """A check has failed; the message says how."""


class Report:
    """What was checked, in order; each line is printed as soon as it is known."""

    def __init__(self) -> None:
        self.checks: list[dict[str, str]] = []

    def add(self, check: str, result: str, detail: str) -> None:
        self.checks.append({"check": check, "result": result, "detail": detail})
        print(f"{result:7}  {check}: {detail}", flush=True)

    def run(self, check: str, work: Any, *args: Any) -> Any:
        """work(*args) -> detail, or (detail, value), which is returned. A Failure is a failed check."""
        try:
            found = work(*args)
        except Failure as failure:
            self.add(check, FAIL, str(failure))
            return None
        detail, value = found if isinstance(found, tuple) else (found, True)
        self.add(check, PASS, detail)
        return value


def run(words: list[str], folder: Path) -> str:
    """Run a command without variables such as PYTHONPATH -> its output. Raises Failure with the reason it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "Agg"}
    try:
        done = subprocess.run(
            words, cwd=folder, env=clean, timeout=PATIENCE, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{shlex.join(words)} had not ended after {PATIENCE} seconds") from None
    except OSError as error:
        raise Failure(f"{words[0]} does not start: {error.strerror}") from None
    if done.returncode:
        raise Failure(f"{name_of(words)} exits with {done.returncode}: {blame(done.stdout)}")
    return done.stdout


def name_of(words: list[str]) -> str:
    """The command, without the folders of absolute paths."""
    return shlex.join(re.sub(r"^/\S*/", "", word) for word in words)


def blame(output: str) -> str:
    """The line that says what went wrong: pip's last ERROR, pytest's first failed test, or the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["it printed nothing"]
    errors = [line for line in lines if line.startswith("ERROR")]
    failed = [line for line in lines if line.startswith("FAILED")]
    return (errors[-1:] or failed[:1] or lines[-1:])[0]


def build(to: Path) -> tuple[str, Path]:
    """-> detail, and the wheel. The wheel is built from the sdist: so the sdist has all that a build needs."""
    run([sys.executable, "-m", "build", "--outdir", str(to), str(ROOT)], to)
    [sdist], [wheel] = to.glob("*.tar.gz"), to.glob("*.whl")
    return ", ".join(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB" for path in (sdist, wheel)), wheel


def wheel_is_whole(folder: Path) -> str:
    """Does the wheel have every file of the package, every chapter, and all texts of exercises that the sdist has?"""
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
    wanted = {name for name in names if name.startswith("tinyattn/")}
    chapters = {name for name in names if re.fullmatch(r"notebooks/\d\d_\w+\.py", name)}
    prose = {name for name in names if re.fullmatch(r"notebooks/exercises/\d\d\.toml", name)}
    wanted |= {f"tinyattn/course/chapters/{name.removeprefix('notebooks/')}" for name in chapters | prose}
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
    if wanted - there:
        raise Failure(f"{wheel.name} lacks {', '.join(sorted(wanted - there)[:5])}")
    return f"{len(wanted)} files, with the sources of {len(chapters)} chapters"


def environment(program: str, folder: Path, wheel: Path) -> tuple[str, Path]:
    """Make a virtual environment of the wheel and its dependencies alone -> detail, and the folder of its programs."""
    run([program, "-m", "venv", str(folder)], folder.parent)
    programs = folder / "bin"
    python = str(programs / "python")
    run([python, "-m", "pip", "install", "-q", str(wheel)], folder)
    run([python, "-m", "pip", "check"], folder)
    show = "import numpy, tinyattn; print(tinyattn.__version__, numpy.__version__, tinyattn.__file__)"
    version, numpy, where = run([python, "-c", show], folder).split()
    if Path(where).is_relative_to(ROOT):
        raise Failure("tinyattn is imported from the checkout, not from the wheel")
    problem = disagreement({"the wheel": wheel.name.split("-")[1], "installed": version})
    if problem:
        raise Failure(problem)
    return f"tinyattn {version}, NumPy {numpy}; `pip check` finds nothing", programs


def follow_readme(version: str, programs: Path, folder: Path, wheel: Path, whole: bool) -> str:
    """Follow README's steps in order, also after one has failed. Raises Failure, naming every step that failed."""
    for name, content in FILES.items():
        (folder / name).write_text(content)
    counts, failures = {"commands": 0, "pieces of Python": 0}, []
    before = [Step(shlex.split(line)) for line in BEFORE]
    for step in before + [step for page in READ for step in steps((ROOT / page).read_text())]:
        if step.words and reason_not_to_run(step):
            continue
        print(f"         {version}: {step}", flush=True)
        counts["commands" if step.words else "pieces of Python"] += 1
        try:
            follow(step, programs, folder, wheel, whole)
        except Failure as failure:
            failures.append(f"`{step}`: {failure}")
    if failures:
        raise Failure("; ".join(failures))
    return " and ".join(f"{count} {what}" for what, count in counts.items())


def follow(step: Step, programs: Path, folder: Path, wheel: Path, whole: bool) -> None:
    """Run one step and compare its output. `tinyattn check` must exit with 1: README shows it on a wrong answer."""
    if step.words[:3] == ["pip", "install", "-e"]:
        extras = step.words[3].removeprefix(".")
        run([str(programs / "python"), "-m", "pip", "install", "-q", f"{wheel}{extras}"], folder)
        return
    if step.words:
        words = [str(programs / step.words[0]), *step.words[1:]]
        if step.words[:2] == ["tinyattn", "train"] and "markov" not in words and not whole:
            words += ["--epochs", "1"]
    else:
        (folder / ("my_attention.py" if "def attention(Q" in step.code else "piece.py")).write_text(step.code)
        words = [str(programs / "python"), "-c", step.code]
    if step.words[:2] == ["tinyattn", "check"]:
        words = ["sh", "-c", f"{shlex.join(words)}; test $? = 1"]
    printed = run(words, folder)
    if step.shows and printed != step.shows:
        raise Failure(f"it prints {blame(printed)!r} at the end, README {blame(step.shows)!r}")


def pythons(more: list[str]) -> dict[str, str]:
    """{version: program} for the Pythons of the workflow and `more`; "" for one of the workflow that is missing."""
    named = re.findall(r'"(3\.\d+)"', (ROOT / ".github/workflows/check.yml").read_text())
    found = {}
    for program in [*(f"python{version}" for version in named), *more]:
        if shutil.which(program):
            command = [program, "-c", "import platform; print(platform.python_version())"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode == 0:
                found[done.stdout.strip()] = program
            elif program in more:
                raise SystemExit(f"benchmarks/release.py: --python {program} does not start: {blame(done.stderr)}")
        elif program in more:
            raise SystemExit(f"benchmarks/release.py: --python {program}: no such program")
    return found | {version: "" for version in named if not any(f.startswith(f"{version}.") for f in found)}


def site(folder: Path) -> str:
    """Run tests/test_site.py, which builds the site, with warnings as errors, and follows every link inside it."""
    tests = [sys.executable, "-m", "pytest", "-m", "slow", "-q", "-n0", "-p", "no:cacheprovider", "tests/test_site.py"]
    printed = run([*tests, "--basetemp", str(folder)], ROOT)
    return printed.strip().splitlines()[-1]


def status() -> str:
    return subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True).stdout


def lacks() -> str:
    """A text: which folders of the checkout a wheel lacks, and how many of README's links become plain words."""
    there = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    folders = sorted({name.partition("/")[0] for name in there if "/" in name and name[0] != "."} - {"tinyattn"})
    links = re.findall(RELATIVE, (ROOT / "README.md").read_text())
    return (
        "A wheel holds the package and the chapters' sources, from which `tinyattn course build` makes the notebooks. "
        f"It lacks the rest of {', '.join(f'`{folder}/`' for folder in folders)}: the executed notebooks and the "
        f"figures among them. README is its description, in which {len(links)} links and pictures that lead to "
        "files of the checkout are words. The sdist has all of it."
    )


def check_all(arguments: argparse.Namespace) -> dict[str, Any]:
    report, before = Report(), status()
    found = pythons(arguments.python)
    named = versions(ROOT)
    problem = disagreement(named)
    report.add("versions", FAIL if problem else PASS, problem or f"{', '.join(named)} say {named['CHANGELOG.md']}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "dist").mkdir()
        wheel = report.run("sdist and wheel are built", build, folder / "dist")
        if wheel:
            report.run("metadata", twine, folder / "dist")
            report.run("links of the description", description, folder / "dist")
            report.run("the wheel is whole", wheel_is_whole, folder / "dist")
        with ThreadPoolExecutor(len(found) + 1) as side_by_side:  # threads suffice: the work is in processes
            tried = [side_by_side.submit(try_python, *one, folder, wheel, arguments.whole) for one in found.items()]
            built = side_by_side.submit(try_site, folder / "site")
            for part in [*tried, built]:
                report.checks += part.result().checks
        report.add("links out of the site", NOT_RUN, LINKS_OUT)
    report.add("the checkout is unchanged", *((PASS, "as before") if status() == before else (FAIL, status())))
    return {"machine": describe(), "whole": arguments.whole, "checks": report.checks, "lacks": lacks()}


def twine(folder: Path) -> str:
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(folder.iterdir()))], folder)
    return "`twine check --strict` finds nothing"


def description(folder: Path) -> str:
    """Does README, as a package index shows it, have no link to a file of the checkout?"""
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    left = re.findall(RELATIVE, text)
    if left:
        raise Failure(f"{len(left)} lead to files of the checkout, the first of them is {left[0][1:]}")
    return "none leads to a file of the checkout"


def try_python(version: str, program: str, folder: Path, wheel: Path | None, whole: bool) -> Report:
    """Follow README with this Python; `program` is "" if this machine lacks it."""
    report, own = Report(), folder / version
    if not program or wheel is None:
        report.add(f"Python {version}", NOT_RUN, "there is no wheel" if program else f"python{version} is not here")
        return report
    (own / "reader").mkdir(parents=True)
    programs = report.run(f"Python {version}: the wheel is installed", environment, program, own / "venv", wheel)
    if programs:
        what = f"Python {version}: README's commands"
        report.run(what, follow_readme, version, programs, own / "reader", wheel, whole)
    return report


def try_site(folder: Path) -> Report:
    report = Report()
    report.run("the site is built, and links inside are followed", site, folder)
    return report


def page(result: dict[str, Any]) -> str:
    machine = result["machine"]
    lines = ["# Before a release", "", "| check | result | what was seen |", "|---|---|---|"]
    lines += [f"| {one['check']} | {one['result']} | {one['detail'].replace('|', '/')} |" for one in result["checks"]]
    lines += ["", result["lacks"], ""]
    if not result["whole"]:
        lines += ["Trainings are cut to one epoch.", ""]
    lines += ["Of README's commands these are not run:", ""]
    lines += [f"- `{beginning}`: {reason}" for beginning, reason in REASONS.items()]
    lines += [
        "",
        f"{made_on(machine)}. Made by `python benchmarks/release.py`.",
    ]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", default=[], metavar="PROGRAM", help="try this Python, too")
    parser.add_argument("--whole", action="store_true", help="train as long as README does, not for one epoch")
    arguments = parser.parse_args()
    missing = [name for name in ("build", "twine", "pytest", "sphinx") if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(f'benchmarks/release.py needs {", ".join(missing)}: pip install -e ".[dev,release]"')
    if shutil.which("git") is None:
        raise SystemExit("benchmarks/release.py needs git")
    result = check_all(arguments)
    write_result(RESULT, result)
    write_pages(__file__, pages())
    return int(any(one["result"] == FAIL for one in result["checks"]))


if __name__ == "__main__":
    sys.exit(main())
