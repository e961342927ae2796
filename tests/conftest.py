import numpy as np
import pytest

from tests.devices import DEVICES, MISSING, On


@pytest.fixture
def rng():
    return np.random.default_rng(0)


NOT_RUN = pytest.StashKey()


def pytest_generate_tests(metafunc):
    if "device" in metafunc.fixturenames:
        host = metafunc.definition.get_closest_marker("host")
        here = [name for name in DEVICES if name not in MISSING]
        metafunc.parametrize("device", ["cpu"] if host else here, indirect=True)


def pytest_collection_finish(session):
    if MISSING:
        on_the_double = [item for item in session.items if "strict" in item.name]
        session.config.stash[NOT_RUN] = len(on_the_double)


def pytest_terminal_summary(terminalreporter, config):
    count = config.stash.get(NOT_RUN, 0)
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
