"""`tinyattn check` on public code: which bugs does it find, and does it call correct code wrong?

    python benchmarks/wild.py --repos DIR [--jobs 2]          writes benchmarks/results/wild.json, and pages beside it
    python benchmarks/wild.py --repos DIR --only softmax      runs these kinds, repositories or files again
    python benchmarks/wild.py --repos DIR --only              runs nothing, judges the kept rows by the table again
    python benchmarks/wild.py --repos DIR --out FILE.json     writes another file, and no page

DIR holds checkouts named OWNER__NAME, at the commits of benchmarks/wild/cases.toml. A checkout that is missing, or at
another commit, is skipped. Our adapters in benchmarks/wild/ call the repositories' code, none of which is copied here.
Some repositories need torch and einops. Whether a case is right is not decided by the checker:
benchmarks/wild/reference.py measures it, and about five lines of code demonstrate each bug
(benchmarks/results/wild_bugs.md).
"""

import argparse
import contextlib
import functools
import importlib
import inspect
import io
import json
import math
import os
import re
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path[0] = str(Path(__file__).parent.parent)  # not this folder: its models.py would hide those of checkouts

import numpy as np
from tqdm import tqdm

from benchmarks.machine import README, RESULTS, ROOT, describe_code, write_pages, write_result
from tinyattn.check import SPECS, Report, check_implementation
from tinyattn.check.isolation import in_child, load

RESULT, PAGE, BUGS = RESULTS / "wild.json", RESULTS / "wild.md", RESULTS / "wild_bugs.md"
BEFORE = RESULTS / "wild_before.json"  # made with --out, by the checker before it was changed for these cases
ADAPTERS = Path(__file__).parent / "wild"
TRUTHS = ("right", "bug", "convention", "contract", "minor")
EMPTY = {"batch_of_nothing", "gradients_of_nothing"}
# Properties that an implementation with right numbers may fail, as long as it does not crash there.
CONTRACT = {
    "shape_and_dtype", "gradient_shapes", "inputs_unchanged", "backward_inputs_unchanged", "own_memory", "in_place",
    "memory_layout", "backward_memory_layout", *EMPTY,
}  # fmt: skip
DEAD_ROWS = {"empty_row", "nothing_to_look_at", "nothing_to_pass_on"}


@dataclass(frozen=True)
class Case:
    """One adapter, and whether the code that it calls is right."""

    repository: str
    commit: str
    file: str
    object: str
    kind: str
    truth: str
    convention: str = ""
    contract: str = ""
    names: tuple[str, ...] = ()
    lead: tuple[int, ...] = (2,)
    shows: str = ""

    @property
    def target(self) -> str:
        return f"{(ADAPTERS / self.file).relative_to(ROOT)}:{self.object}"

    def row(self) -> dict[str, Any]:
        """The table's entries that a row of the results repeats."""
        return {"truth": self.truth, "convention": self.convention, "contract": self.contract,
                "names": list(self.names)}  # fmt: skip

    @property
    def truly(self) -> str:
        """One of TRUTHS."""
        return self.truth.split(":")[0]


def cases() -> list[Case]:
    """The cases of cases.toml. Raises ValueError if a `truth` does not begin with one of `TRUTHS`."""
    found = []
    for repository in tomllib.loads((ADAPTERS / "cases.toml").read_text())["repository"]:
        of_all = {"repository": repository["name"], "commit": repository["commit"], "file": repository["file"]}
        for row in repository["case"]:
            lists = {name: tuple(row[name]) for name in ("names", "lead") if name in row}
            found.append(Case(**of_all | row | lists))
    for case in found:
        if case.truly not in TRUTHS:
            raise ValueError(f"{case.target}: the truth is {case.truth!r}, expected one of {', '.join(TRUTHS)}")
    return found


def pages() -> dict[Path, str]:
    result, before = (json.loads(path.read_text()) for path in (RESULT, BEFORE))
    return {PAGE: page(result, before), BUGS: bugs_page(result), README: quote(result)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repos", type=Path, metavar="DIR", help="the folder of the checkouts, OWNER__NAME each")
    parser.add_argument("--only", nargs="*", metavar="WORD", help="repositories, files, objects or kinds to run")
    parser.add_argument("--out", type=Path, default=RESULT, metavar="FILE", help="the results file")
    parser.add_argument("--examples", type=int, default=50, help="cases per property")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once, each in a process of its own")
    options = parser.parse_args()
    table = cases()
    if options.repos is None:
        print(needed(table))
        return
    os.environ["WILD_REPOS"] = str(options.repos.resolve())
    out = options.out.resolve()
    os.chdir(ROOT)
    skipped = {f"{case.repository}, {case.kind}": why for case in table if (why := missing(case, options.repos))}
    there = [case for case in table if f"{case.repository}, {case.kind}" not in skipped]
    chosen = sorted((case for case in there if asked_for(case, options.only)), key=needs_torch)
    machine = describe_code("tinyattn")
    result = {"machine": machine, "examples": options.examples, "skipped": skipped, "cases": []}
    if options.only is not None and out.exists():
        kept = json.loads(out.read_text())
        result |= {"machine": machine if chosen else kept["machine"], "cases": kept["cases"]}
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        work = pool.map(functools.partial(looked_at, examples=options.examples), chosen)
        rows = [row | {"checker": machine["commit"]} for row in tqdm(work, total=len(chosen), unit="case")]
    result["cases"] = judged_anew(table, result["cases"] + rows)
    demonstrate(there, result["cases"])
    write_result(out, result)
    before = json.loads(BEFORE.read_text())
    if out == RESULT.resolve():
        write_pages(__file__, pages())
    print(page(result, before))


def judged_anew(table: list[Case], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest row of each case, in the table's order, judged by what the table says now."""
    newest = {row["target"]: row for row in rows}
    pairs = [(case, newest[case.target]) for case in table if case.target in newest]
    return [row | case.row() | judged(row | case.row()) for case, row in pairs]


def demonstrate(there: list[Case], rows: list[dict[str, Any]]) -> None:
    """Add to each bug's row what its demonstration prints. It runs only if its lines changed since the last run."""
    shown = {case.target: case for case in there if case.shows}
    for row in tqdm([row for row in rows if row["target"] in shown], unit="demonstration"):
        case = shown[row["target"]]
        if row.get("demonstration", {}).get("lines") != case.shows:
            prints = in_a_child(run_in_checkout, str(ADAPTERS / case.file), case.repository, case.shows)
            row["demonstration"] = {"lines": case.shows, "prints": in_paths(case.repository)(prints)}


def run_in_checkout(adapter: str, repository: str, lines: str) -> str:
    """What these lines print or raise in a checkout's folder, after its adapter has replaced missing imports."""
    load(adapter)
    path = Path(os.environ["WILD_REPOS"]) / folder(repository)
    os.chdir(path)
    sys.path.insert(0, str(path))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), np.errstate(all="ignore"):
        try:
            exec(lines, {"__name__": "__main__"})
        except Exception as raised:
            print(f"raises {type(raised).__name__}: {str(raised).splitlines()[0]}")
    return printed.getvalue().rstrip()


def needed(table: list[Case]) -> str:
    """The commands that clone every repository at its commit."""
    commits = dict.fromkeys((case.repository, case.commit) for case in table)
    lines = [f"git clone https://github.com/{name} {folder(name)} && git -C {folder(name)} checkout {commit[:7]}"
             for name, commit in commits]  # fmt: skip
    return "\n".join(["pass the folder of the checkouts, --repos DIR; these commands make it:", "", *lines])


def folder(repository: str) -> str:
    return repository.replace("/", "__")


def asked_for(case: Case, words: list[str] | None) -> bool:
    return words is None or not {case.repository, case.file, case.object, case.kind, case.target}.isdisjoint(words)


def needs_torch(case: Case) -> bool:
    return "torch" in (text := (ADAPTERS / case.file).read_text()) or "with_autograd" in text


def missing(case: Case, repos: Path) -> str:
    """Why a case cannot be run, or ""."""
    if case.kind not in SPECS:
        return f"this version knows no {case.kind}"
    path = repos / folder(case.repository)
    if not path.is_dir():
        return "not there"
    at = subprocess.run(["git", "-C", path, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    return "" if at == case.commit else f"at {at[:7] or 'no commit'}, not at {case.commit[:7]}"


def looked_at(case: Case, examples: int) -> dict[str, Any]:
    """The results' row of one case: what `reference` measures, what the checker reports, and how the two agree.

    Torch is imported here, once, for all child processes: its import takes longer than most checks.
    """
    if needs_torch(case):
        with contextlib.suppress(ImportError):
            importlib.import_module("torch.func")
    row: dict[str, Any] = {
        "repository": case.repository, "commit": case.commit[:7], "target": case.target, "kind": case.kind,
        **case.row(), "in float64": in_a_child(measured, case.target, case.kind, case.lead),
    }  # fmt: skip
    start = time.perf_counter()
    report = check_implementation(case.target, case.kind, examples=examples)
    row["seconds"] = round(time.perf_counter() - start, 1)
    row |= reported(report, in_paths(case.repository))
    shown = parsed(row.get("counterexample", ""))
    if shown and (SPECS[case.kind].oracle or case.kind == "adam"):
        row["counterexample in float64"] = in_a_child(tried_again, case.target, case.kind, shown)
    return row | judged(row)


def in_a_child(work: Callable[..., Any], *args: Any) -> Any:
    """work(*args) in a process of its own, so that the repositories' modules are not imported into this one."""
    for what, value in in_child(_send, work, args, limit=120.0):
        if what == "result":
            return value
    return {"off": {"forward": "the process ended"}, "right": False}


def _send(send: Callable[[str, Any], None], work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    send("result", work(*args))


def measured(target: str, kind: str, lead: tuple[int, ...]) -> dict[str, Any]:
    """The errors that `reference` measures, and whether all of them are rounding."""
    sys.path.insert(0, str(ADAPTERS))
    import reference

    found = reference.measure(an_instance(target), kind, lead)
    return {"off": writable(found), "right": reference.is_right(found)}


def an_instance(target: str) -> Any:
    found = load(target)
    return found() if isinstance(found, type) else found


def writable(found: dict[str, float | str]) -> dict[str, float | str]:
    """`found` with infinity as text, because JSON has no such number."""
    return {name: "inf" if x == math.inf else x for name, x in found.items()}


def tried_again(target: str, kind: str, given: dict[str, Any]) -> dict[str, float | str]:
    """Errors for the arguments that a report shows, in float64, compared with the kind's plain loops."""
    sys.path.insert(0, str(ADAPTERS))
    import reference

    found: dict[str, float | str] = {}
    if kind == "adam":
        reference.compare_step(found, an_instance(target), **given)
        return writable(found)
    spec = SPECS[kind]
    assert spec.oracle is not None

    def formula(**given: Any) -> Any:
        y = spec.oracle(**given)
        return y[0] if isinstance(y, tuple) else y

    given = {name: None for name in inspect.signature(spec.oracle).parameters} | given  # None is not printed
    reference.compare(found, an_instance(target), spec.function, formula, given, spec.wrt, np.random.default_rng(0))
    return writable(found)


def parsed(text: str) -> dict[str, Any]:
    """The arguments of a printed counterexample, floats as float64. {} if the print was shortened or cannot be read."""
    if "..." in text:
        return {}
    given = {}
    names = {"array": np.array, "nan": np.nan, "inf": np.inf, "float32": np.float64, "Moments": lambda m, v: (m, v)}
    for part in re.split(r"\n(?=\w+ = )", text):
        name, equals, value = part.partition(" = ")
        array = re.fullmatch(r"(.*)   (\w+) (\([\d, ]*\))", value, re.DOTALL)
        try:
            if array:
                dtype = np.dtype(array[2])
                x = np.array(eval(array[1], {"__builtins__": {}}, names), np.float64 if dtype.kind == "f" else dtype)
                given[name] = x.reshape(eval(array[3], {"__builtins__": {}}, {}))
            elif equals:
                given[name] = eval(value, {"__builtins__": {}}, names)
        except (NameError, SyntaxError, ValueError):
            return {}
    return given


def in_paths(repository: str) -> Callable[[str], str]:
    """A function that shortens paths in a message: of the checkout, of this project and of installed packages."""
    here = [f"{os.environ['WILD_REPOS']}/{folder(repository)}/", f"{ROOT}/"]
    return lambda text: re.sub(r"/\S*/site-packages/", "", functools.reduce(_without, here, text))


def _without(text: str, part: str) -> str:
    return text.replace(part, "")


def reported(report: Report, short: Callable[[str], str] = str) -> dict[str, Any]:
    """A report as a row: the verdict, the first failure, the names of bugs, and remarks if there are any."""
    bugs = report.diagnosis.bugs if report.diagnosis else ()
    # a bug by rule is named by its line, which moves
    row: dict[str, Any] = {
        "verdict": "not run" if report.problem else "holds" if report else "fails",
        "named": [[bug.says if ".py:" in bug.name else bug.name for bug in equals] for equals in bugs],
        "failures": {finding.property: short(finding.message) for finding in report.failures},
    }
    if report.problem:
        row["problem"] = short(report.problem)
    if report.failures:
        first = report.failures[0]
        row |= {"headline": first.property, "statement": first.statement, "message": short(first.message)}
        row |= {"counterexample": first.counterexample, "expected": first.expected, "got": first.got}
        if hasattr(first, "gravity"):
            row["gravity"] = {finding.property: finding.gravity for finding in report.failures}
    whole = report.to_json() | {"notes": [finding.property for finding in getattr(report, "notes", ())]}
    for name in ("lacks", "not_offered", "conventions", "notes"):
        if whole.get(name):
            row[name] = whole[name]
    return row


def judged(row: dict[str, Any]) -> dict[str, str]:
    """Compare a report with the truth ("outcome"), and the bug that it names with the right names ("naming").

    "accused": code without a bug fails for its numbers, or because it crashes. "misled": a bug is refused, but the
    failure that is shown first is not due to it.
    """
    truly, fails = row["truth"].split(":")[0], row["verdict"] == "fails"
    crashes = {name for name, message in row["failures"].items() if "raised" in message} - EMPTY
    grave = row["failures"].keys() - CONTRACT | crashes
    if "gravity" in row:
        grave = {name for name, gravity in row["gravity"].items() if gravity != "contract"}
    in_contract = "refused for its contract" if truly == "contract" or row["contract"] else "accused"
    outcome = {
        "right": "accused" if fails else "held",
        "convention": "accused" if grave else in_contract if fails else "held",
        "contract": "accused" if grave else in_contract if fails else "held",
        "minor": "refused" if grave else in_contract if fails else "held",
        "bug": "missed",
    }[truly]
    if truly == "bug" and fails:
        outcome = "refused" if row["headline"] in grave - DEAD_ROWS else "misled"
    if row["verdict"] == "not run":
        outcome = "not run"
    first = set(row["named"][0]) if row["named"] else set()
    naming = "none" if not first else "right" if first & set(row["names"]) else "wrong"
    return {"outcome": outcome, "naming": naming}


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """How many rows have each outcome and each naming."""
    bugs = [row for row in rows if row["truth"].startswith("bug")]
    outcomes = [row["outcome"] for row in rows]
    return {
        "bugs": len(bugs),
        "bugs refused": sum(row["outcome"] in ("refused", "misled") for row in bugs),
        "of these, something else shown first": outcomes.count("misled"),
        "bugs missed": outcomes.count("missed"),
        "not bugs": len(rows) - len(bugs),
        "accused of wrong numbers or a crash": outcomes.count("accused"),
        "refused for the contract alone: dtype, empty batches": outcomes.count("refused for its contract"),
        "refused for a small deviation": sum(row["outcome"] == "refused" for row in rows if row not in bugs),
        "bugs named rightly": sum(row["naming"] == "right" for row in bugs),
        "named wrongly": sum(row["naming"] == "wrong" for row in rows),
        "not run": outcomes.count("not run"),
    }


def disputed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows where `reference` contradicts the table: a bug that is right in float64, or right code that is not."""
    certain = {"bug": False, "right": True, "contract": True}
    truths = [(row, row["truth"].split(":")[0]) for row in rows]
    return [row for row, truly in truths if truly in certain and row["in float64"]["right"] != certain[truly]]


def quote(result: dict[str, Any]) -> str:
    """The sentences in README, from the results file alone."""
    rows = result["cases"]
    found, repositories = counts(rows), len({row["repository"] for row in rows})
    return (
        f"Run on {len(rows)} implementations from {repositories} public repositories, it finds "
        f"{found['bugs refused']} of the {found['bugs']} that are wrong, and names the bug of "
        f"{found['bugs named rightly']} of these, {found['named wrongly']} wrongly. Of the {found['not bugs']} others "
        f"it calls {found['accused of wrong numbers or a crash']} wrong; "
        f"{found['refused for the contract alone: dtype, empty batches']} fail only for their dtype or an empty batch, "
        f"and {found['refused for a small deviation']} for a small deviation. It was changed where it failed on some "
        "of them: [benchmarks/results/wild.md](benchmarks/results/wild.md), and "
        "[each bug in five lines](benchmarks/results/wild_bugs.md)."
    )


def page(result: dict[str, Any], before: dict[str, Any]) -> str:
    """The Markdown page, from the two results files alone."""
    rows, machine = result["cases"], result["machine"]
    bugs = [row for row in rows if row["truth"].startswith("bug")]
    repositories = dict.fromkeys((row["repository"], row["commit"]) for row in rows)
    lines = [
        "# What `tinyattn check` finds in public code",
        "",
        f"{len(rows)} implementations of {len({row['kind'] for row in rows})} kinds, from {len(repositories)} "
        "repositories whose authors let everybody read them. Each is a fact about one commit, found by calling it "
        "through an adapter of ours; it may be mended by now, and most were written to learn or to teach. None of "
        "their code is here. What is true of each was measured in float64 by formulas that share nothing with the "
        "checker (`benchmarks/wild/reference.py`), and read in the source.",
        "",
        *_beside(result, before),
        f"## {len(bugs)} bugs",
        "",
        'The counterexample is the smallest that the checker found. "Off" is the largest error in float64, relative '
        "to the largest entry or to 1: of that counterexample, against plain loops and their differences; and of "
        "twenty other inputs, against those formulas. Minor: right to a few digits, or a variant that somebody might "
        "choose. Nothing is off there where the property then changes the "
        "arguments shown: it removes the mask, or raises a logit.",
        "",
        "| repository | kind | where, and what | counterexample | off there | off elsewhere | verdict, and name |",
        "|---" * 7 + "|",
        *map(_bug_line, bugs),
        "",
        f"## {len(rows) - len(bugs)} that are not",
        "",
        "| repository | kind | what is true | off in float64 | verdict | what was shown first |",
        "|---" * 6 + "|",
        *(_other_line(row) for row in rows if row not in bugs),
        "",
        "## Repositories",
        "",
        *(f"- [{name}](https://github.com/{name}) at {commit}" for name, commit in repositories),
        *(f"- skipped: {name}: {why}" for name, why in result["skipped"].items()),
        *(f"- the second opinion does not confirm {row['target']}" for row in disputed(rows)),
        "",
        f"Made by `python benchmarks/wild.py --repos DIR` at commit {_commits(result)} on {machine['cpu']}, NumPy "
        f"{machine['numpy']}, Python {machine['python']}, {machine['date']}.",
        "",
    ]
    return "\n".join(lines)


def _commits(result: dict[str, Any]) -> str:
    """The checker's commit. If rows were kept from other commits: every commit, with the number of its rows."""
    found = Counter(row.get("checker", result["machine"]["commit"]) for row in result["cases"])
    several = ", ".join(f"{commit} ({count})" for commit, count in found.items())
    return several if len(found) > 1 else result["machine"]["commit"]


def bugs_page(result: dict[str, Any]) -> str:
    """The Markdown page of bugs by repository and place, for readers who could fix them."""
    places: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in result["cases"]:
        if row["truth"].startswith("bug"):
            places.setdefault(row["repository"], {}).setdefault(_place(row)[0], []).append(row)
    count = sum(map(len, places.values()))
    lines = [
        "# Bugs in public code, each shown in five lines",
        "",
        f"{count} places in {len(places)} repositories, at the commits named here: some may be mended by now. Most of "
        "these repositories were written to learn or to teach, and all of them were worth reading. Each block is run "
        "in the folder of the checkout; it prints what comes out, and then what is right. How they were found, and "
        "which variants are no bugs: [wild.md](wild.md).",
        "",
    ]
    for repository, found in places.items():
        lines += [f"## {repository}", ""]
        for place, rows in found.items():
            commit, (path, line) = rows[0]["commit"], place.rsplit(":", 1)
            link = f"https://github.com/{repository}/blob/{commit}/{path}#L{line}"
            kinds = ", ".join(dict.fromkeys(row["kind"] for row in rows))
            lines += [f"[{place}]({link}), {kinds}: {_place(rows[0])[1]}.", ""]
            for row in rows:
                if "demonstration" in row:
                    shown = row["demonstration"]
                    lines += ["```python", shown["lines"].strip(), "```", "", "```text", shown["prints"], "```", ""]
    return "\n".join(lines)


def _place(row: dict[str, Any]) -> tuple[str, str]:
    """FILE:LINE, and what is wrong there."""
    place, _, what = row["truth"].removeprefix("bug: ").partition(", ")
    return place, what


def _beside(result: dict[str, Any], before: dict[str, Any]) -> list[str]:
    """A table of the counts before and now, over the cases that both results have."""
    common = {row["target"] for row in before["cases"]} & {row["target"] for row in result["cases"]}
    then, now = ([row for row in part["cases"] if row["target"] in common] for part in (before, result))
    commits = [part["machine"]["commit"] for part in (before, result)]
    pairs = zip(counts(then).items(), counts(now).values(), strict=True)
    return [
        f"The checker before it was changed for these cases, and now, on the {len(common)} implementations that both "
        "runs have (the others came later, and it was changed for some of them, too):",
        "",
        f"| {len(common)} cases | before, {commits[0]} | now, {commits[1]} |",
        "|---|---|---|",
        *(f"| {name} | {old} | {new} |" for (name, old), new in pairs),
        "",
    ]


def _bug_line(row: dict[str, Any]) -> str:
    shown = _cell(row.get("counterexample", ""))
    there = _off(row.get("counterexample in float64", {}))
    name = " or ".join(row["named"][0]) if row["named"] else "no name"
    verdict = f"{row['verdict']}, {name}" + (" (wrong)" if row["naming"] == "wrong" else "")
    verdict += f"; shown: {row['headline']}" if row["outcome"] == "misled" else ""
    what = _cell(row["truth"].partition(": ")[2], 400)
    elsewhere = _off(row["in float64"]["off"])
    return f"| {row['repository']} | {row['kind']} | {what} | {shown} | {there} | {elsewhere} | {verdict} |"


def _other_line(row: dict[str, Any]) -> str:
    remarks = "; ".join(x for x in (row["truth"], row["convention"], row["contract"]) if x)
    first = f"{row['headline']}: {_cell(row['message'])}" if "headline" in row else row.get("problem", "")
    first += f" ({' or '.join(row['named'][0])})" if row["named"] else ""
    off, verdict = _off(row["in float64"]["off"]), f"{row['verdict']} ({row['outcome']})"
    return f"| {row['repository']} | {row['kind']} | {_cell(remarks, 400)} | {off} | {verdict} | {first} |"


def _off(found: dict[str, float | str]) -> str:
    """The errors larger than rounding, or "nothing"."""
    parts = [
        f"{name} {x}" if isinstance(x, str) else f"{name} {x:.1g}"
        for name, x in found.items()
        if isinstance(x, str) or x > 1e-7
    ]
    return _cell("; ".join(parts), 200) if parts else "nothing" if found else ""


def _cell(text: str, most: int = 120) -> str:
    """Text on one line of a table, cut after `most` characters."""
    flat = re.sub(r"\s+", " ", text).replace("|", "\\|")
    return flat if len(flat) <= most else flat[:most] + " ..."


if __name__ == "__main__":
    main()
