"""The files of a run, changed at random: the same answer, or one line of error, in memory like that of the file."""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.broken_runs import Run, changes

QUICK = settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=100)
MOST = 60e6              # bytes: files of some kB, what a command itself needs, JSON that is nested deep


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("broken"))


def attack(run, name, data):
    change = data.draw(changes(name, run.content[name]))
    tracemalloc.start()
    wrong = run.wrong(name, change)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert not wrong
    assert peak < MOST


@pytest.mark.parametrize("name", Run.FILES)
@QUICK
@given(data=st.data())
def test_a_changed_file_gives_the_same_answer_or_one_line(run, name, data):
    attack(run, name, data)


@pytest.mark.slow(seconds=7)
@pytest.mark.parametrize("name", Run.FILES)
@LONG
@given(data=st.data())
def test_many_changed_files(run, name, data):
    attack(run, name, data)
