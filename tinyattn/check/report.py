"""The report of a check: as text, as JSON, as a page and as JUnit's XML."""

import html
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .isolation import split
from .property import GRAVITY, STAGES
from .trial import Finding

MEMORY = ("inputs_unchanged", "own_memory", "repeatable")  # their failure may be the cause of wrong numbers
LEFT_OUT = "left out"  # the message of a property that an option leaves out begins so
_HELD_TO = {
    "exact": "to the last bit",
    "rounding": "up to rounding",
    "approximate": "approximately",
    "statistical": "up to five standard deviations",
}


class _WhenRead:
    """A field that may be set to a function without arguments, which is called when the field is first read."""

    def __get__(self, report: Any, owner: Any = None) -> Any:
        if report is None:
            return None  # the field's default
        value = vars(report)["_read"]
        if callable(value):
            value = vars(report)["_read"] = value()
        return value

    def __set__(self, report: Any, value: Any) -> None:
        vars(report)["_read"] = value


@dataclass(frozen=True)
class Report:
    """All findings, in order of trial; true if none fails and at least one holds. `kind` is the name of the spec.

    The following are no failures: `lacks`, the names that the implementation does not have; `not_offered`, the forms of
    a call that it does not take; `unused`, its optional arguments that were never passed; `conventions` that differ
    from the library's.
    """

    kind: str
    implementation: str
    findings: tuple[Finding, ...]
    lacks: tuple[str, ...] = ()
    examples: int = 0
    seed: int = 0
    diagnosis: Any = _WhenRead()  # the search takes longest, and many callers do not need it
    not_run: int = 0  # properties not tried, after a crash or two endless calls
    problem: str = ""  # the reason why it could not run
    not_offered: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    again: str = ""  # the command that repeats the check, where the implementation was given by name
    place: str = ""  # FILE:LINE of the function
    case: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the counterexample, as arrays
    last: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the last call's arguments

    @property
    def failures(self) -> list[Finding]:
        """The failed properties by gravity: MEMORY, wrong numbers and crashes, leaks, the contract."""
        return sorted((f for f in self.findings if f.outcome == "fails"), key=by_gravity)

    @property
    def notes(self) -> list[Finding]:
        """Exact properties that hold only up to rounding."""
        return [f for f in self.findings if f.note]

    @property
    def verdict(self) -> str:
        """ "right", "contract" (the numbers are right), "wrong", or "not run"."""
        if self.problem:
            return "not run"
        if self.failures:
            return "contract" if all(f.gravity == "contract" for f in self.failures) else "wrong"
        return "right" if self else "not run"

    def __bool__(self) -> bool:
        return not self.problem and not self.failures and any(f.outcome == "holds" for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        """As plain dictionaries and lists."""
        whole = asdict(replace(self, case={}, last={}))
        del whole["case"], whole["last"]  # the findings have them as text
        whole |= {"holds": bool(self), "verdict": self.verdict, "failures": [f.property for f in self.failures]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in whole.items()}

    def __str__(self) -> str:
        return "\n".join(map(_printable, _lines(self)))

    __repr__ = __str__


def by_gravity(finding: Finding) -> int:
    """A key that sorts failures by gravity. Those of MEMORY come first, since they may make other properties fail."""
    if finding.property in MEMORY and finding.sort == "values":
        return -1
    return list(GRAVITY).index(finding.gravity)


def _lines(report: Report) -> Iterator[str]:
    yield f"{report.implementation} as {report.kind}"
    for stage in STAGES:
        outcomes = [f.outcome for f in report.findings if f.stage == stage]
        if outcomes:
            counts = [(outcomes.count(outcome), word) for outcome, word in (("fails", "FAIL"), ("skipped", "skipped"))]
            text = "".join(f", {count} {word}" for count, word in counts if count)
            yield f"  {stage:11} {outcomes.count('holds')} of {len(outcomes)} hold{text}"
    yield from (f"  {line}" for line in remarks(report))
    failures = report.failures
    if failures:
        yield ""
        if report.verdict == "contract":
            yield "The numbers are right; the contract is not kept:"
        yield from describe(failures[0], report.diagnosis)
        yield from filter(None, [problem_line(report)])
        yield from also_fails(failures)
        if report.not_run:
            yield f"not run after that: {report.not_run} properties"
        yield f"again: {report.again or f'seed {report.seed}, {report.examples} examples a property'}"
    if report.problem:
        yield f"could not run: {report.problem}"
    elif report:
        yield f"all hold, in {sum(f.tries for f in report.findings):,} tries"


def remarks(report: Report) -> Iterator[str]:
    """Remarks that are no failures: names not offered, other conventions, rounding, the extent of a trial."""
    missing = (*report.lacks, *report.not_offered)
    if missing:
        yield f"not offered, and so not looked at: {', '.join(missing)}"
    if report.unused:
        yield f"never passed, and so not looked at: {', '.join(report.unused)}"
    left_out = [f for f in report.findings if f.outcome == "skipped" and f.message.startswith(LEFT_OUT)]
    for reason in dict.fromkeys(f.message for f in left_out):
        yield f"{reason}: {', '.join(f.property for f in left_out if f.message == reason)}"
    yield from (f"differs by convention: {says}" for says in report.conventions)
    yield from (f"holds to rounding, not to the bit: {f.property} ({f.note})" for f in report.notes)
    yield from (f"{f.property}: {f.message}" for f in report.findings if f.outcome == "holds" and f.message)


def describe(first: Finding, diagnosis: Any = None, smallest: bool = True) -> Iterator[str]:
    """A failure in lines of text: the statement, the smallest counterexample, expected against got, and a hint."""
    yield f"FAILS  {first.statement}"
    yield f"       ({first.stage}: {first.property}, {_HELD_TO[first.exactness]})"
    if first.counterexample:
        yield "smallest counterexample:" if smallest else "a counterexample:"
        yield from ("    " + line for line in first.counterexample.splitlines())
    yield first.message
    if first.expected:
        yield f"    expected  {first.expected}"
        yield f"    got       {first.got}"
    yield from tell(first, diagnosis)


def tell(first: Finding, diagnosis: Any) -> Iterator[str]:
    """The bug that explains a failure, or else where the implementation is wrong; then a hint."""
    if diagnosis:
        yield str(diagnosis)
    else:
        where = getattr(diagnosis, "where", "")
        yield from filter(None, [where, first.hint and "hint: " not in where and f"hint: {first.hint}"])


def also_fails(failures: list[Finding]) -> Iterator[str]:
    """The failures after the first: a line each for those of its cause, wrong numbers, leaks, and each breach."""
    first, rest = failures[0], failures[1:]
    same = [f.property for f in rest if first.cause and f.cause == first.cause]
    rest = [f for f in rest if f.property not in same]
    if same:
        yield f"of the same cause ({first.cause.split()[0]}): {', '.join(same)}"
    for gravity, title in (("numbers", "also fails"), ("leak", "leaks")):
        names = [f.property for f in rest if f.gravity == gravity]
        if names:
            yield f"{title}: {', '.join(names)}"
    groups: dict[Any, list[Finding]] = {}  # breaches of the contract by cause; one without a cause is a group by itself
    for f in rest:
        if f.gravity == "contract":
            groups.setdefault(f.cause or id(f), []).append(f)
    yield from (f"contract: {group[0].message} ({', '.join(f.property for f in group)})" for group in groups.values())


def problem_line(report: Report) -> str:
    """FILE:LINE: message, as editors and Git hosts read it; "" if the line is unknown."""
    path, line, message = problem(report)
    return f"{path}:{line}: {message}" if path and not report.problem else ""


def problem(report: Report, root: str = "") -> tuple[str, str, str]:
    """-> file, line and message of the gravest failure, or of the problem that kept the check from running.

    The path of a file in `root` (default: the current folder) is relative to it; an unknown file is "".
    """
    root = os.path.abspath(root)
    first = next(iter(report.failures), None)
    path, _, line = ((first and first.place) or report.place).rpartition(":")
    if not path and os.path.isfile(file := split(report.implementation)[0]):  # it could not be imported
        path = os.path.abspath(file)
    says = report.problem or (first.message.partition(" (line ")[0] if first else "")
    relative = os.path.relpath(path, root) if path and Path(path).is_relative_to(root) else path
    return relative, line, f"{report.kind}: {says}"


def annotation(report: Report) -> str:
    """A command of GitHub's workflows that shows the gravest failure at its line, or ""."""
    if not report.failures and not report.problem:
        return ""
    path, line, message = problem(report, os.environ.get("GITHUB_WORKSPACE", ""))
    parts = {"file": path, "line": line, "title": f"tinyattn check: {report.implementation}"}
    if report.failures:
        message = "\n".join(describe(report.failures[0], report.diagnosis))
    properties = ",".join(f"{name}={_escaped(text, ':,')}" for name, text in parts.items() if text)
    return f"::error {properties}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """The text as a value of a workflow command: line breaks, % and the characters of `more` are written as %HH."""
    escapes = {c: f"%{ord(c):02X}" for c in f"%\r\n{more}"}
    return "".join(escapes.get(c, c) for c in _printable(text))


def junit(reports: Iterable[Report]) -> str:
    """The reports as JUnit's XML: a suite per report, a case per property."""
    suites = ElementTree.Element("testsuites")
    for report in reports:
        suite = ElementTree.SubElement(suites, "testsuite", name=_xml(f"{report.implementation} as {report.kind}"))
        outcomes = [f.outcome for f in report.findings]
        counts = {"tests": len(outcomes), "failures": outcomes.count("fails"), "skipped": outcomes.count("skipped")}
        suite.attrib |= {name: str(n) for name, n in (counts | {"errors": int(bool(report.problem))}).items()}
        for f in report.findings:
            case = ElementTree.SubElement(suite, "testcase", classname=f"{report.kind}.{f.stage}", name=f.property)
            if f.outcome == "fails":
                first = f is report.failures[0]
                lines = describe(f, report.diagnosis if first else None, smallest=first)
                failure = ElementTree.SubElement(case, "failure", type=f.gravity, message=_xml(f.message))
                failure.text = _xml("\n".join(lines))
            elif f.outcome == "skipped":
                ElementTree.SubElement(case, "skipped", message=_xml(f.message))
        if report.problem:
            case = ElementTree.SubElement(suite, "testcase", classname=report.kind, name="could be run")
            ElementTree.SubElement(case, "error", message=_xml(report.problem))
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """The text with escapes for control characters and lone surrogates, which a message may contain."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def _xml(text: str) -> str:
    return "".join("\N{REPLACEMENT CHARACTER}" if c in "\ufffe\uffff" else c for c in _printable(text))


_VERDICTS = {
    "right": "right: all tried properties hold",
    "contract": "right numbers, but the contract is not kept",
    "wrong": "wrong",
    "not run": "it could not be run",
}
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tinyattn check</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
pre {{ overflow-x: auto; padding: .6rem; border: 1px solid #8888; border-radius: 4px }}
table {{ border-collapse: collapse }} td, th {{ text-align: left; padding: .1rem .8rem .1rem 0; vertical-align: top }}
.hint {{ border-left: 4px solid #0072b2; padding-left: .8rem }}
</style></head><body>
{body}
</body></html>
"""


def page(reports: Iterable[Report]) -> str:
    """The reports as one self-contained HTML page."""
    return _PAGE.format(body="\n".join("\n".join(_section(report)) for report in reports))


def _section(report: Report) -> Iterator[str]:
    def e(text: str) -> str:
        return html.escape(_printable(text))

    yield f"<h1>{e(report.implementation)} as {e(report.kind)}: {_VERDICTS[report.verdict]}</h1>"
    if report.problem:
        yield f"<p>{e(report.problem)}</p>"
    failures = report.failures
    if failures:
        first = failures[0]
        yield f"<h2>{e(first.statement)}: fails</h2><p>{e(first.message)}</p>"
        if first.counterexample:
            yield f"<p>The smallest counterexample:</p><pre>{e(first.counterexample)}</pre>"
        if first.expected:
            yield f"<table><tr><th>expected<td><code>{e(first.expected)}</code>"
            yield f"<tr><th>got<td><code>{e(first.got)}</code></table>"
        hint = "\n".join(tell(first, report.diagnosis))
        if hint:
            yield f'<p class="hint">{e(hint).replace(chr(10), "<br>")}</p>'
        yield from (f"<p>{e(line)}</p>" for line in (problem_line(report), *also_fails(failures)) if line)
    items = "".join(f"<li>{e(line)}" for line in remarks(report))
    if items:
        yield f"<h2>Remarks, no failures</h2><ul>{items}</ul>"
    yield "<h2>Every property</h2><table><tr><th>stage<th>property<th>outcome<th>statement"
    for f in report.findings:
        yield f"<tr><td>{e(f.stage)}<td>{e(f.property)}<td>{e(f.outcome)}<td>{e(f.statement)}"
    yield f"</table><p>{report.examples} examples a property, seed {report.seed}.</p>"
