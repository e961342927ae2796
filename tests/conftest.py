import gc
import os
from functools import wraps
from importlib.util import find_spec

import hypothesis  # noqa: F401  once here: every process that the checker forks would import it, and pytest rewrite it
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests import strict
from tests.devices import DEVICES, MISSING, On
from tests.helpers import STYLE, pictures_drawn
from tinyattn.training.workers import OPEN


@pytest.fixture(autouse=True)
def _orders_of_its_own():
    """The double of a device adds in orders that follow one another: every test begins with the first."""
    strict.begin()


@pytest.fixture(autouse=True)
def _pools_are_closed():
    """A pool that a test leaves open would change what later tests see of processes and threads."""
    yield
    left, OPEN.count = OPEN.count, 0
    assert not left, f"{left} pools are still open"


@pytest.fixture(autouse=True, scope="session")
def _pictures_are_blank():
    """A picture takes a fifth of a second to draw, a run writes three: tests of pictures ask for `with_pictures`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(STYLE, "drawn", wraps(STYLE.drawn)(lambda *_: b"a picture"))  # its defaults are pinned
        yield


@pytest.fixture(autouse=True, scope="session")
def _disks_are_not_waited_for():
    """What a test writes need not outlast a loss of power; tests/test_files.py sees when files are flushed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def with_pictures():
    """Pictures that are saved are drawn."""
    with pictures_drawn():
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def torch():
    """PyTorch where it is installed, in one thread: another would wait in a loop on the core of another test."""
    found = pytest.importorskip("torch")
    found.set_num_threads(1)
    return found


def pytest_configure(config):
    """Where each core has a process of its own, a second thread of BLAS would wait in a loop on another test's core."""
    if hasattr(config, "workerinput"):
        threadpool_limits(1, "blas")
    if find_spec("hypothesis.internal.conjecture.providers"):  # older versions have none
        from hypothesis.internal.conjecture import providers

        if hasattr(providers, "_get_local_constants"):  # of all files of the package: a second of every process
            providers._get_local_constants = lambda: providers._local_constants
    gc.set_threshold(100_000, 20, 100)  # a search for garbage at every 700 objects takes a tenth of the time


def pytest_xdist_auto_num_workers(config):
    """A whole run has a process for each core; what the command line names runs in one, where a debugger works."""
    return 0 if config.args_source is config.ArgsSource.ARGS else None  # None: xdist counts the cores


@pytest.hookimpl(tryfirst=True)  # before -m 'not slow' takes the slow ones out
def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow_elsewhere") and item.callspec.params.get("device", "cpu") != "cpu":
            item.add_marker(pytest.mark.slow)
    items.sort(key=_seconds, reverse=True)


def _seconds(item):
    """What a slow test says it takes. The longest begin first: at the end, one would keep one core busy alone."""
    slow = item.get_closest_marker("slow")
    return slow.kwargs.get("seconds", next(iter(slow.args), 0)) if slow else 0


def pytest_collection_finish():
    gc.freeze()  # what is there to stay is not searched for garbage, nor copied into every process that is forked


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        host = metafunc.definition.get_closest_marker("host")
        here = [name for name in DEVICES if name not in MISSING]
        metafunc.parametrize("device", ["cpu"] if host else here, indirect=True)


def pytest_terminal_summary(terminalreporter):
    ran = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, ())]
    count = sum("strict" in report.nodeid.partition("::")[2] for report in ran)
    for device, why in MISSING.items() if count else ():
        terminalreporter.line(f"NOT RUN on {device}: {count} tests that ran on the double ({why})")


@pytest.fixture
def device(request, monkeypatch):
    """Where this test computes: "cpu", "strict" (the double of a device, tests/strict.py) or "gpu".

    What the test's module has imported of the library computes there, though the test hands over NumPy arrays and
    gets them back. In tests/ops, tests/layers and tests/training every test is run so; @pytest.mark.host says not.
    """
    on = On(request.param)
    for name, thing in list(vars(request.module).items()):
        stand_in = on.of(thing)
        if stand_in is not thing:
            monkeypatch.setattr(request.module, name, stand_in)
    return request.param
