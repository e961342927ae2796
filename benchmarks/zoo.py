"""How many bugs does `tinyattn check` find and name, and does it call correct implementations wrong?

    python benchmarks/zoo.py                 which properties find each bug of the zoo
    python benchmarks/zoo.py --naming        bugs planted in loops, einsum and in-place variants: found? named?
    python benchmarks/zoo.py --sound         correct implementations, the library's and three variants of each kind
    python benchmarks/zoo.py --fair          the verdict and the name that a user reads for every bug and every variant

Each part writes its own key of benchmarks/results/zoo.json, and the page beside it. The part without an option also
writes tinyattn/check/zoo/fingerprints.json, which tells apart the bugs whose wrong numbers are random.
"""

import argparse
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from tqdm import tqdm

from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.diagnosis import FINGERPRINTS, diagnose
from tinyattn.check.measure import measure, summary
from tinyattn.check.property import Violation
from tinyattn.check.runner import check_in_process
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.subject import CannotRunError, MissingError, Subject
from tinyattn.check.trial import trial_of
from tinyattn.check.zoo import ZOO

RESULT, PAGE = RESULTS / "zoo.json", RESULTS / "zoo.md"
# {kind: {name of a planted bug: the zoo's name of it}}, where the names differ or the zoo uses it for another bug.
SAME = {
    "cross_entropy": {"sign": "backward_sign"},
    "block": {"residual_twice": "residual_gradient_twice"},
}


def pages() -> dict[Path, str]:
    result = json.loads(RESULT.read_text())
    return {PAGE: page(result), ROOT / "docs" / "check.md": quote(result)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--naming", action="store_true")
    parser.add_argument("--sound", action="store_true")
    parser.add_argument("--fair", action="store_true")
    parser.add_argument("--examples", type=int, default=50, help="cases per property")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # bugs of the zoo cause warnings
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    parts = {"naming": naming, "sound": sound, "fair": fair}
    part = next((name for name in parts if getattr(options, name)), "zoo")
    found = (parts | {"zoo": zoo})[part](options.examples)
    result[part] = {"machine": describe(), "examples": options.examples, **found}
    write_result(RESULT, result)
    if {"zoo", "naming", "sound"} <= result.keys():
        write_pages(__file__, pages())
    print(page(result))


def zoo(examples: int) -> dict[str, Any]:
    total = sum(len(module.BUGS) for module in ZOO.values())
    with tqdm(total=total, unit="bug") as bar:
        found = measure(examples=examples, progress=lambda _: bar.update())
    noisy = {name: {b.name for b in module.BUGS if b.noisy} for name, module in ZOO.items()}
    prints = {
        name: {bug: row["killed by"] for bug, row in found[name]["bugs"].items() if bug in noisy[name]}
        for name in found
    }
    write_result(FINGERPRINTS, {name: row for name, row in prints.items() if row})
    return {"summary": summary(found), "kinds": found}


def naming(examples: int) -> dict[str, Any]:
    """Every bug planted in every variant: which property sees it first, and how it is named."""
    specs: dict[str, Any] = {}
    for name in tqdm(ZOO, unit="kind"):
        spec = SPECS[name]
        module = importlib.import_module(f"tests.check.variants.{name}")
        known = {b.name for b in ZOO[name].BUGS}
        noisy = {b.name for b in ZOO[name].BUGS if b.noisy}
        planted: dict[str, Any] = {}
        for bug, styles in module.PLANTED.items():
            label = SAME.get(name, {}).get(bug, bug)
            for style in styles:
                op = Subject(module.make(style, bug), spec)
                failed = _failed(op, spec, examples, all_of_them=label in noisy)
                names = [[b.name for b in equals] for equals in diagnose(op, spec, failed).bugs]
                planted[f"{bug} in {style}"] = {
                    "in the zoo": label if label in known and bug not in module.INVENTED else None,
                    "killed by": failed,
                    "named": names,
                }
        specs[name] = planted
    rows = [_named(name, planted) for name, planted in specs.items()]
    return {"summary": rows, "pairs": pairs(), "kinds": specs}


def pairs(count: int = 40) -> dict[str, dict[str, int]]:
    """How often one or both are named when an implementation has two bugs of the zoo, drawn at random."""
    found = {}
    for name in tqdm(ZOO, unit="kind"):
        spec = SPECS[name]
        rng = np.random.default_rng(0)
        bugs = [b.name for b in ZOO[name].BUGS if not b.convention and not b.noisy]
        row = {"pairs": count, "first named": 0, "both named": 0, "wrong": 0, "nothing": 0}
        for _ in range(count):
            both = {bugs[i] for i in rng.choice(len(bugs), 2, replace=False)}
            named = [
                {b.name for b in equals}
                for equals in diagnose(Subject(ZOO[name].make(frozenset(both)), spec), spec).bugs
            ]
            right = [bool(equals & both) for equals in named]
            row["first named"] += bool(right) and right[0]
            row["both named"] += len(right) == 2 and all(right)
            row["wrong"] += bool(right) and not right[0]
            row["nothing"] += not right
        found[name] = row
    return found


def _failed(op: Subject, spec: Any, examples: int, all_of_them: bool) -> list[str]:
    """The properties that fail: all of them if `all_of_them` (they may serve as a fingerprint), else only the first."""
    failed = []
    for prop in properties_of(spec):
        if prop.once and op.lacks:
            continue
        if trial_of(op, spec, prop, examples=examples, shrink=False).finding().outcome == "fails":
            failed.append(prop.name)
            if not all_of_them:
                break
    return failed


def _named(spec: str, planted: dict[str, Any]) -> dict[str, Any]:
    known = {at: row for at, row in planted.items() if row["in the zoo"]}
    strange = {at: row for at, row in planted.items() if not row["in the zoo"]}
    right = {at for at, row in known.items() if row["named"] and row["in the zoo"] in row["named"][0]}
    return {
        "kind": spec,
        "planted": len(planted),
        "killed": sum(bool(row["killed by"]) for row in planted.values()),
        "survivors": [at for at, row in planted.items() if not row["killed by"]],
        "known": len(known),
        "named right": len(right),
        "named wrong": {at: row["named"] for at, row in known.items() if row["named"] and at not in right},
        "not named": [at for at, row in known.items() if not row["named"]],
        "unknown": len(strange),
        "unknown and given a name": {at: row["named"] for at, row in strange.items() if row["named"]},
    }


def sound(examples: int) -> dict[str, Any]:
    """The library's own implementation of every spec, and three variants of each: nothing may fail.

    Cases come from seeds instead of hypothesis, because hypothesis would take longer than the checks themselves.
    """
    accused, tries, count = [], 0, 0
    for name in tqdm(ZOO, unit="kind"):
        spec = SPECS[name]
        module = importlib.import_module(f"tests.check.variants.{name}")
        for title, implementation in [("the library", spec.ours()), *((s, module.make(s)) for s in module.STYLES)]:
            op = Subject(implementation, spec)
            count += 1
            for prop in properties_of(spec):
                for seed in range(prop.at_most(examples)):
                    try:
                        prop.holds(op, **op.fit(spec.case(CaseDrawer.seeded(seed, prop.leads, prop.wide))))
                    except MissingError:
                        break
                    except Violation as violation:
                        row = {"kind": name, "implementation": title, "property": prop.name, "seed": seed}
                        accused.append(row | {"says": str(violation)})
                        break
                    tries += 1
            if diagnose(op, spec):
                accused.append({"kind": name, "implementation": title, "property": "diagnosis", "says": "named a bug"})
    return {"implementations": count, "tries": tries, "accused": accused}


def fair(examples: int) -> dict[str, Any]:
    """The reports of `tinyattn check`, without --strict, on every bug of the zoo and three variants of each kind."""
    kinds: dict[str, Any] = {}
    for name in tqdm(ZOO, unit="kind"):
        module = importlib.import_module(f"tests.check.variants.{name}")
        kinds[name] = {
            "bugs": {bug.name: _row(ZOO[name].make(frozenset([bug.name])), name, examples) for bug in ZOO[name].BUGS},
            "variants": {style: _row(module.make(style), name, examples) for style in module.STYLES},
        }
    return {"kinds": kinds}


def _row(implementation: Any, kind: str, examples: int) -> dict[str, Any]:
    try:
        report = check_in_process(implementation, kind, examples=examples, time_limit=120.0)
    except CannotRunError as error:
        return {"verdict": "not run", "says": str(error)}
    named = [bug.name for equals in report.diagnosis.bugs for bug in equals] if report.diagnosis else []
    return {
        "verdict": report.verdict,
        "named": named,
        "conventions": list(report.conventions),
        "not offered": list(report.not_offered),
        "headline": report.failures[0].property if report.failures else "",
    }


def _verdicts(kind: str, row: dict[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """-> the reports on a kind's bugs, the bugs that are refused, and those that are only reported."""
    conventions = {b.name for b in ZOO[kind].BUGS if b.convention}
    bugs = {name: report for name, report in row["bugs"].items() if name not in conventions}
    refused = [name for name, report in bugs.items() if report["verdict"] != "right"]
    differ = [n for n, report in bugs.items() if n not in refused and report["conventions"] + report["not offered"]]
    return bugs, refused, differ


def _fair_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        "## What a user reads, without --strict",
        "",
        "Refused: wrong numbers, a crash, a leak, or the contract. Reported: another convention, or a form of a "
        "call that is not offered. A name is wrong if the bug that was planted is not among those named.",
        "",
        "| kind | bugs | refused | reported | missed | named | named wrongly | variants | accused |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    totals = [0] * 8
    missed = []
    for kind, row in found["kinds"].items():
        conventions = {b.name for b in ZOO[kind].BUGS if b.convention}
        bugs, refused, differ = _verdicts(kind, row)
        gone = [name for name in bugs if name not in refused + differ]
        named = [name for name, report in bugs.items() if name in report.get("named", ())]
        wrongly = [name for name, report in bugs.items() if report.get("named") and name not in report["named"]]
        accused = [style for style, report in row["variants"].items() if report["verdict"] != "right"]
        accused += [name for name in conventions if row["bugs"][name]["verdict"] != "right"]
        parts = (bugs, refused, differ, gone, named, wrongly, row["variants"], accused)
        totals = [total + len(part) for total, part in zip(totals, parts, strict=True)]
        lines.append(f"| {kind} | {' | '.join(str(len(part)) for part in parts)} |")
        missed += [f"- missed: {kind}: {name}" for name in gone]
        missed += [f"- named wrongly: {kind}: {name} as {', '.join(bugs[name]['named'])}" for name in wrongly]
        missed += [f"- accused: {kind}: {name}" for name in accused]
    lines += [f"| all | {' | '.join(map(str, totals))} |", "", *missed, ""]
    return lines


def quote(result: dict[str, Any]) -> str:
    """The sentences in docs/check.md, from the results file alone."""
    rows, planted, held = result["zoo"]["summary"], result["naming"]["summary"], result["sound"]
    bugs, killed = sum(r["bugs"] for r in rows), sum(r["killed"] for r in rows)
    there, seen, known, right = (sum(r[key] for r in planted) for key in ("planted", "killed", "known", "named right"))
    wrong = sum(len(r["named wrong"]) for r in planted)
    noted = sum(len(_verdicts(kind, row)[2]) for kind, row in result["fair"]["kinds"].items())
    return (
        f"It finds {killed} of the {bugs} bugs of the zoo, which has {len(rows)} kinds ({noted} of them fail only with "
        f"`--strict`: they are conventions, or forms that are not offered), and {seen:,} of {there:,} that an "
        "independent author planted in implementations written otherwise (loops, einsum, in place). "
        f"{known} of these are also in the zoo: it names {right} of them rightly ({100 * right / known:.0f} %), and "
        f"{wrong} wrongly. Of {held['implementations']} correct implementations, with up to {held['examples']:,} cases "
        f"a property, it calls {len(held['accused'])} wrong ([measured](../benchmarks/results/zoo.md) "
        f"{held['machine']['date']}). The checker was changed where it failed on any of these, so they say little "
        "about bugs of other kinds."
    )


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    lines = ["# What `tinyattn check` finds", ""]
    if "zoo" in result:
        rows = result["zoo"]["summary"]
        bugs, killed = sum(r["bugs"] for r in rows), sum(r["killed"] for r in rows)
        lines += [
            f"## The zoo: {killed} of {bugs} known bugs killed, {result['zoo']['examples']} cases a property",
            "",
            "| kind | properties | bugs | killed | by gradients or extremes alone | by one property alone |",
            "|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {r['kind']} | {r['properties']} | {r['bugs']} | {r['killed']} | "
            f"{r['by gradients or extremes alone']} | {r['by one property alone']} |"
            for r in rows
        ]
        passed = [f"{r['kind']}: {b}" for r in rows for b in r["conventions passed"]]
        lines += ["", f"Conventions that are no bugs, and pass: {', '.join(passed)}.", ""]
        lines += [f"Survives: {r['kind']}: {b}" for r in rows for b in r["survivors"]]
    if "naming" in result:
        lines += _naming_lines(result["naming"])
    if "sound" in result:
        found = result["sound"]
        lines += [
            f"## No correct implementation accused: {len(found['accused'])} accusations",
            "",
            f"The library's own and three other implementations of each kind, {found['implementations']} in all, in "
            f"float32 and float64, up to {found['examples']:,} cases a property (6 of large sizes): "
            f"{found['tries']:,} tries.",
            "",
        ]
        lines += [f"- {a['kind']}, {a['implementation']}, {a['property']}: {a['says']}" for a in found["accused"]]
    if "fair" in result:
        lines += _fair_lines(result["fair"])
    lines += [
        "Made by `python benchmarks/zoo.py`, `--naming`, `--sound` and `--fair` on "
        f"{made_on(*(part['machine'] for part in result.values()))}.",
        "",
    ]
    return "\n".join(lines)


def _naming_lines(found: dict[str, Any]) -> list[str]:
    rows = found["summary"]
    planted, killed, known, right = (sum(r[k] for r in rows) for k in ("planted", "killed", "known", "named right"))
    wrong, strange = (sum(len(r[k]) for r in rows) for k in ("named wrong", "unknown and given a name"))
    unknown = sum(r["unknown"] for r in rows)
    lines = [
        f"## Planted bugs: {killed:,} of {planted:,} killed; {right} of {known} known ones named "
        f"({100 * right / known:.0f} %)",
        "",
        "Bugs planted by somebody else in implementations written differently (loops, einsum, in place), in "
        "`tests/check/variants/`; the checker was changed where it failed on them, too. Known ones are in the zoo; "
        "naming one among equals counts as right. "
        f"{wrong} were given a wrong name. Of {unknown} bugs that the zoo does not have under that name, "
        f"{strange} were named; benchmarks/results/zoo.json lists the names.",
        "",
        "| kind | planted | killed | known | named | wrong name | no name |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['kind']} | {r['planted']} | {r['killed']} | {r['known']} | {r['named right']} | "
        f"{len(r['named wrong'])} | {len(r['not named'])} |"
        for r in rows
    ]
    rows = found["pairs"].values()
    total = sum(row["pairs"] for row in rows)
    share = {
        key: f"{100 * sum(row[key] for row in rows) / total:.0f} %" for key in ("first named", "both named", "wrong")
    }
    lines += [
        "",
        f"Two bugs of the zoo at once, {total} pairs drawn at random: one of them is named first in "
        f"{share['first named']}, both in {share['both named']}, a wrong one in {share['wrong']}.",
    ]
    lines += ["", "Survivors:", ""]
    lines += [f"- {r['kind']}: {at}" for r in found["summary"] for at in r["survivors"]]
    return [*lines, ""]


if __name__ == "__main__":
    main()
