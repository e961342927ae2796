"""The plugin of pytest, which tests properties of the targets in pyproject.toml's table or on the command line.

    pytest                                                      with the table of the root's pyproject.toml
    pytest pyproject.toml -k "attention and not large"          the table alone
    pytest --tinyattn mypkg/attention.py:attention --tinyattn-as attention

Without targets it imports no other file of this library, and no NumPy.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("tinyattn", "properties of attention, softmax, LayerNorm, ... as tests")
    text = "Test this MODULE[:OBJECT] or FILE.py[:OBJECT]; --tinyattn-as names its kind.\nMay be given several times."
    group.addoption("--tinyattn", action="append", default=[], metavar="TARGET", help=text)
    text = "The target's kind, from the list that `tinyattn check --list` prints."
    group.addoption("--tinyattn-as", metavar="KIND", help=text)


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "tinyattn: a property that tinyattn checks")
    named, kind = config.getoption("tinyattn"), config.getoption("tinyattn_as")
    if bool(named) != bool(kind):
        raise pytest.UsageError("--tinyattn TARGET and --tinyattn-as KIND must be given together")
    chosen = config.args_source is config.ArgsSource.ARGS
    if named and not chosen:
        config.args = []  # no tests but the target's
    elif config.args_source is config.ArgsSource.TESTPATHS:  # the rest of the root folder is not collected
        config.args += [str(path) for path in (config.rootpath / "pyproject.toml",) if _has_table(path)]


def pytest_collect_file(file_path: Path, parent: Any) -> Any:
    if file_path.name == "pyproject.toml" and _has_table(file_path):
        return Table.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(tryfirst=True)  # before -k and -m select
def pytest_collection_modifyitems(session: Any, config: Any, items: list[Any]) -> None:
    if named := config.getoption("tinyattn"):
        from .check.targets import Target

        for name in dict.fromkeys(named):
            target = Target(name, name, config.getoption("tinyattn_as"))
            items.extend(session.genitems(Checked.from_parent(session, name=name, nodeid=name, target=target)))


def _has_table(path: Path) -> bool:
    """Whether pyproject.toml has a table `[tool.tinyattn.check]`, right or wrong."""
    import tomllib

    try:
        text = path.read_text("utf-8")
        return "tinyattn" in text and "check" in tomllib.loads(text).get("tool", {}).get("tinyattn", {})
    except (OSError, ValueError, AttributeError, TypeError):
        return False


class Table(pytest.File):
    """The table of a pyproject.toml."""

    def collect(self) -> Iterator[Any]:
        from .check.targets import read_table

        try:
            targets = read_table(self.path)
        except ValueError as error:
            raise self.CollectError(str(error)) from None
        for target in targets:
            yield Checked.from_parent(self, name=target.name, target=target)


class Checked(pytest.Collector):
    """A target, checked as one kind."""

    def __init__(self, target: Any, **rest: Any):
        super().__init__(**rest)
        self.target = target
        self.add_marker("tinyattn")

    def collect(self) -> Iterator[Any]:
        from .check.plugin import Candidate
        from .check.subject import CannotRunError

        try:
            self.candidate = Candidate(self.target, self.path.parent if isinstance(self.parent, Table) else None)
        except (CannotRunError, ValueError) as error:
            raise self.CollectError(f"{self.target.name} as {self.target.kind}: {error}") from None
        for prop in self.candidate.properties:
            name = f"{self.target.kind}[{prop.name}]"
            item = Holds.from_parent(self, name=name, nodeid=f"{self.nodeid}::{name}", prop=prop)  # --lf parses it
            if reason := self.candidate.left_out(prop):
                item.add_marker(pytest.mark.skip(reason=reason))
            if prop.name in self.target.xfail:
                item.add_marker(pytest.mark.xfail(reason="xfail in pyproject.toml"))
            yield item


class Holds(pytest.Item):
    """One property of a target."""

    parent: Checked

    def __init__(self, prop: Any, **rest: Any):
        super().__init__(**rest)
        self.prop = prop

    def runtest(self) -> None:
        try:
            self.parent.candidate.test(self.prop)
        except pytest.skip.Exception as skipped:
            skipped._use_item_location = True  # pytest then reports the target's location, not this file's
            raise

    def reportinfo(self) -> tuple[Any, Any, str]:
        return self.path, 0, f"{self.parent.name}: {self.name}"
