"""Results of earlier mutation runs, the reasons why mutants are equivalent, and the page of both."""

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import tinyattn.ops
from benchmarks.machine import ROOT, made_on
from benchmarks.mutation import Mutant, mutants_of

EQUIVALENT = Path(__file__).parent / "mutants_equivalent.toml"
PACKAGE = Path(tinyattn.__file__).parent
OPS = PACKAGE / "ops"
NOT_REACHED = ""  # in place of the killer: the mutant survives because no test runs its line
ENOUGH = 0.9  # required share of killed mutants among those of a room that are not equivalent


def key(mutant: Mutant) -> str:
    return f"{name_of(mutant.file)}: {mutant.name}"


def name_of(file: str | Path) -> str:
    """A file's name in the results, relative to ops/ or else to the package, e.g. gelu.py or layers/norm.py."""
    path = Path(file)
    within = next((folder for folder in (OPS, PACKAGE) if path.is_relative_to(folder)), path.parent)
    return path.relative_to(within).as_posix()


def path_of(name: str) -> Path:
    return OPS / name if (OPS / name).exists() else PACKAGE / name


@cache
def _owners(file: str) -> dict[str, str]:
    """{top-level name of a file: its op}; a helper belongs to the first op that uses it."""
    needs = {}
    for node in ast.parse(Path(file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            needs[node.name] = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    owner: dict[str, str] = {}
    for name in needs:
        left = [name] if name in tinyattn.ops.__all__ else []
        while left:
            found = left.pop()
            if found == name or (found not in owner and found not in tinyattn.ops.__all__):
                owner[found] = name.removesuffix("_backward")
                left.extend(needs.get(found, ()))
    return owner


def op_of(mutant: Mutant) -> str:
    name = mutant.function.split(".")[0]
    return _owners(mutant.file).get(name, Path(mutant.file).stem)


def hash_of(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()[:12]


def hash_of_code(path: Path) -> str:
    """Of what runs: a changed docstring, comment or line break keeps the results of a file."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node, clean=False):
            node.body[0] = ast.Pass()
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:12]


@cache  # the hash at the beginning of the run
def hash_of_checks() -> str:
    return hash_of([*PACKAGE.glob("check/**/*.py"), *(ROOT / "tests").rglob("*.py")])


def by_file(every: dict[str, list[Mutant]], found: dict[str, Any]) -> dict[str, Any]:
    """The entries of the results file: every mutant that was tried, and the check that killed it."""
    checks = hash_of_checks()
    return {
        name: {
            "source": hash_of_code(path_of(name)),
            "checks": checks,
            "killed by": {
                op: by_line({m.name: found[key(m)] for m in some if key(m) in found}) for op, some in by_op(mutants)
            },
        }
        for name, mutants in every.items()
        if any(key(m) in found for m in mutants)
    }


def by_line(found: dict[str, str]) -> dict[str, dict[str, str]]:
    """Group killers by the changed line: "f: a -> b in line" becomes {line: {"f: a -> b": killer}}."""
    lines: dict[str, dict[str, str]] = {}
    for name, killer in found.items():
        change, _, line = name.partition(" in ")
        lines.setdefault(line, {})[change] = killer
    return lines


def by_name(lines: dict[str, dict[str, str]]) -> dict[str, str]:
    """The inverse of `by_line`."""
    return {f"{change} in {line}" if line else change: by for line, of in lines.items() for change, by in of.items()}


def by_op(mutants: list[Mutant]) -> list[tuple[str, list[Mutant]]]:
    ops = dict.fromkeys(op_of(m) for m in mutants)
    return [(op, [m for m in mutants if op_of(m) == op]) for op in ops]


def still_known(result: dict[str, Any], every: dict[str, list[Mutant]], reasons: dict[str, str]) -> dict[str, Any]:
    """{mutant: killer} of earlier runs, for unchanged sources.

    A survivor that is not equivalent is left out if a check has changed since, because it has to be tried again.
    """
    found, checks = {}, hash_of_checks()
    for name, row in result.get("files", {}).items():
        if name in every and row["source"] == hash_of_code(path_of(name)):
            for of_op in row["killed by"].values():
                for mutant, by in by_name(of_op).items():
                    mutant = f"{name}: {mutant}"
                    if by or mutant in reasons or row["checks"] == checks:
                        found[mutant] = by
    names = {key(m) for mutants in every.values() for m in mutants}
    return {name: by for name, by in found.items() if name in names}


def killers(result: dict[str, Any]) -> dict[str, str]:
    """{mutant: the check that killed it} of all results, also of files whose code has changed since."""
    found = {f"{name}: {mutant}": by for name, row in result["files"].items()
             for of_op in row["killed by"].values() for mutant, by in by_name(of_op).items()}  # fmt: skip
    return {mutant: re.sub(r" \((does not end|the process dies)\)$", "", by) for mutant, by in found.items() if by}


def machines_of(
    before: dict[str, Any], known: Iterable[str], found: Iterable[str], now: dict[str, Any]
) -> dict[str, list[dict[str, Any]]]:
    """{file: the machine and commit of each run that tried its mutants}, from the entries of the results so far.

    Those in `known` were tried before this run, the rest of `found` on the machine `now`.
    """
    each: dict[str, list[dict[str, Any]]] = {}
    for name in dict.fromkeys(mutant.split(": ")[0] for mutant in known):
        each[name] = list(before[name]["machines"])
    for name in dict.fromkeys(mutant.split(": ")[0] for mutant in set(found) - set(known)):
        if now not in each.setdefault(name, []):
            each[name].append(now)
    return each


def read_equivalent(path: Path, names: set[str] | None = None) -> dict[str, str]:
    """{key of a mutant: why it is equivalent}. Raises ValueError for a key that is not in `names`, or is repeated."""
    reasons: dict[str, str] = {}
    for entry in tomllib.loads(path.read_text()).get("equivalent", []):
        for line in filter(None, map(str.strip, entry["mutants"].splitlines())):
            if names is not None and line not in names:
                raise ValueError(f"{path.name}: there is no mutant {line!r}: has the source changed?")
            if line in reasons:
                raise ValueError(f"{path.name}: {line!r} is there twice")
            reasons[line] = entry["because"]
    return reasons


def keys_in(names: Iterable[str]) -> set[str]:
    """The keys of all mutants of these files."""
    paths = [path for path in map(path_of, sorted(names)) if path.exists()]
    return {key(m) for path in paths for m in mutants_of(path.read_text(), str(path))}


def rows_of(result: dict[str, Any], reasons: dict[str, str]) -> list[dict[str, Any]]:
    """For each op: numbers of mutants and of killed ones; lists of equivalent ones, survivors and refuted reasons."""
    rows = []
    for name, of_file in result["files"].items():
        for op, lines in of_file["killed by"].items():
            found = by_name(lines)
            by = {f"{name}: {mutant}": killer for mutant, killer in found.items()}
            rows.append({
                "op": op,
                "file": name,
                "mutants": len(by),
                "backward": sum(mutant.startswith(f"{op}_backward") for mutant in found),
                "by specs": sum(bool(killer) and not killer.startswith("tests") for killer in by.values()),
                "by tests": sum(bool(killer) and killer.startswith("tests") for killer in by.values()),
                "not reached": [m for m, killer in by.items() if killer == NOT_REACHED and m not in reasons],
                "equivalent": [m for m, killer in by.items() if not killer and m in reasons],
                "survive": [m for m, killer in by.items() if not killer and m not in reasons],
                "refuted": [f"{m}: by {killer}" for m, killer in by.items() if killer and m in reasons],
            })  # fmt: skip
    return rows


def page(result: dict[str, Any], reasons: dict[str, str]) -> str:
    """The Markdown page, from the results file and the reasons alone."""
    rows, machines = rows_of(result, reasons), [m for row in result["files"].values() for m in row["machines"]]
    total, specs, tests = (sum(row[k] for row in rows) for k in ("mutants", "by specs", "by tests"))
    equivalent, survive, refuted = ([m for row in rows for m in row[k]] for k in ("equivalent", "survive", "refuted"))
    lines = [
        f"# Mutants by rule: {specs + tests:,} of {total - len(equivalent):,} killed",
        "",
        f"{total:,} changes to the sources of the ops, one at a time: operators, numbers, comparisons, dropped terms, "
        f"transposes, guards, steps in place. {specs:,} are killed by properties of `tinyattn check`, "
        f"{result['seeds']} seeded cases each, or cannot be imported, and {tests:,} of the others are killed by tests. "
        f"{len(equivalent)} are equivalent: "
        f"no input tells them from the original, or none that an op is for. {len(survive)} survive. Each is tried on "
        f"what reaches its lines, the properties of its op first, then what reaches little else, for "
        f"{result['budget']:g} seconds at most.",
        "",
        "| op | mutants | of its backward | killed by specs | killed by tests | equivalent | survive |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['op']} | {row['mutants']} | {row['backward']} | {row['by specs']} | {row['by tests']} | "
        f"{len(row['equivalent'])} | {len(row['survive'])} |"
        for row in rows
    ]
    lines += ["", "Helpers are counted with the first op of their file that needs them.", ""]
    if survive:
        lines += ["## Survive", "", *(f"- `{m}`" for m in survive), ""]
    if refuted:
        lines += ["## Called equivalent, and killed", "", *(f"- `{m}`" for m in refuted), ""]
    lines += ["## Equivalent, and why", "", *by_reason(equivalent, reasons)]
    lines += [
        f"The ops: made by `python benchmarks/mutants.py` on {made_on(*machines)}.",
        "",
    ]
    return "\n".join(lines + rooms_part(result.get("rooms", {})))


def counts_of(room: dict[str, Any], reasons: dict[str, str]) -> dict[str, Any]:
    """Counts and lists of a room's sample, by outcome."""
    rows = rows_of(room, reasons)
    lists = {k: [m for row in rows for m in row[k]] for k in ("equivalent", "survive", "refuted", "not reached")}
    sampled = sum(row["mutants"] for row in rows)
    killed = sampled - len(lists["equivalent"]) - len(lists["survive"])
    enough = not lists["refuted"] and killed >= ENOUGH * (sampled - len(lists["equivalent"]))
    return {"sampled": sampled, "killed": killed, "enough": enough, **lists}


def rooms_part(rooms: dict[str, Any]) -> list[str]:
    """The rooms' part of the page, with the reasons recorded in the results: source lines may have changed since."""
    if not rooms:
        return []
    counts = {name: counts_of(room, room["because"]) for name, room in rooms.items()}
    reasons = {mutant: reason for room in rooms.values() for mutant, reason in room["because"].items()}
    tried = sum(c["sampled"] - len(c["equivalent"]) for c in counts.values())
    lines = [
        f"## The rest of the package: {sum(c['killed'] for c in counts.values())} of {tried} killed",
        "",
        "A seed draws a sample of every room, each mutant as likely as any other. A mutant is tried in a copy of "
        "the project, in a process of its own, on the default tests: those of its room in files that reach its lines, "
        "for a minute of computing at most, then those of other rooms that reach them, for half a minute. Where none "
        "reaches them, it is tried on those of its room that reach its file, and is called not reached if it survives; "
        "what runs while `trace` runs a function is not seen. Types, texts and errors are not changed, nor `strict=` "
        "and `repr=`; the zoo of `check`, which is wrong on purpose, has no mutants.",
        "",
        "| room | mutants | sampled | killed | equivalent | survive | not reached | killed of those not equivalent |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, c in counts.items():
        share = c["killed"] / max(1, c["sampled"] - len(c["equivalent"]))
        sizes = (c["sampled"], c["killed"], *(len(c[k]) for k in ("equivalent", "survive", "not reached")))
        lines.append(f"| {name} | {rooms[name]['mutants']:,} | {' | '.join(map(str, sizes))} | {share:.0%} |")
    kinds = ("survive", "not reached", "equivalent", "refuted")
    survive, unreached, equivalent, refuted = ([m for c in counts.values() for m in c[k]] for k in kinds)
    lines += ["", "### Survive in the rest", ""]
    lines += [*(f"- `{m}`{' (not reached)' if m in unreached else ''}" for m in survive), ""]
    if refuted:
        lines += ["### Called equivalent in the rest, and killed", "", *(f"- `{m}`" for m in refuted), ""]
    lines += ["### Equivalent in the rest, and why", "", *by_reason(equivalent, reasons)]
    made = made_on(*(room["machine"] for room in rooms.values()))
    seeds = " and ".join(dict.fromkeys(str(room["seed"]) for room in rooms.values()))
    return [*lines, f"The rest: made by `python benchmarks/mutants.py --rooms`, seed {seeds}, on {made}.", ""]


def by_reason(equivalent: list[str], reasons: dict[str, str]) -> list[str]:
    lines = []
    for reason in dict.fromkeys(reasons[m] for m in equivalent):
        lines += [reason, "", *(f"- `{m}`" for m in equivalent if reasons[m] == reason), ""]
    return lines
