"""A plugin of pytest, for benchmarks/mutants.py: which lines of the package each test reaches, and who kills a mutant.

With REACH=FOLDER each process of a test run writes two things into FOLDER: the lines that each test reached, also in
forked children (coverage.py's data, one context for each test), and how long each test took. With MUTANT=FILE the tests
that FILE lists run in its order, each for at most the time listed there; as each test begins, its name replaces what
FILE holds.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

MEMORY = 4 << 30  # bytes that a mutant may allocate


class Traced:
    def __init__(self, folder: Path) -> None:
        import coverage

        self.folder, self.rows = folder, dict[str, list[Any]]()
        self.coverage = coverage.Coverage(folder / "lines", data_suffix=True, include=["tinyattn/*"], config_file=False)
        self.coverage.set_option("run:relative_files", True)
        self.coverage.start()
        self.end, os._exit = os._exit, self.exit_child  # type: ignore[assignment]
        self.give_way()

    def give_way(self) -> None:
        """Hide coverage's tracer from `trace`, which refuses to run beside another one, and restart it afterwards."""
        ours, gettrace, settrace = sys.gettrace(), sys.gettrace, sys.settrace
        sys.gettrace = lambda: None if gettrace() is ours else gettrace()
        sys.settrace = lambda function: settrace(ours if function is None else function)

    def exit_child(self, status: int) -> None:
        try:
            self.coverage.save()
        finally:
            self.end(status)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.coverage.switch_context(item.nodeid)
        begin, failed = sum(os.times()[:4]), item.session.testsfailed
        result = yield
        self.rows[item.nodeid] = [sum(os.times()[:4]) - begin, item.session.testsfailed == failed]
        return result

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        os._exit = self.end
        (self.folder / f"tests.{os.getpid()}.json").write_text(json.dumps(self.rows))


class Ordered:
    def __init__(self, file: Path) -> None:
        self.file, self.seconds = file, json.loads(file.read_text())
        file.write_text("import")
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        place = {name: i for i, name in enumerate(self.seconds)}
        items[:] = sorted((i for i in items if i.nodeid in place), key=lambda item: place[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self.file.write_text(item.nodeid)
        signal.setitimer(signal.ITIMER_PROF, self.seconds[item.nodeid])


class Counted:
    """Writes how many tests there are, in the process that distributes them."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        (Path(os.environ["REACH"]) / "collected").write_text(str(session.testscollected))


def pytest_configure(config: pytest.Config) -> None:
    if "REACH" in os.environ and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Counted())
    here = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    for name, plugin in (("REACH", Traced), ("MUTANT", Ordered)) if here else ():
        if name in os.environ:
            config.pluginmanager.register(plugin(Path(os.environ.pop(name))))  # popped: children inherit none
