"""The bugs that only a GPU would show: each is still there to be planted, and one for each test is noticed."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.gpu_bugs import BUGS, RESULT, ROOT, noticed, plant, planted, run_tests
from tests.test_surface import missing, on_the_host


def test_every_bug_can_still_be_planted(tmp_path):
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 30
    for bug in BUGS:
        path = tmp_path / "tinyattn" / bug.file
        path.parent.mkdir(parents=True, exist_ok=True)
        plant(bug, tmp_path)
        assert path.read_text() != (ROOT / "tinyattn" / bug.file).read_text()
        compile(path.read_text(), str(path), "exec")


def test_every_bug_has_been_looked_for():
    result = json.loads(RESULT.read_text())
    assert [row["name"] for row in result["bugs"]] == [bug.name for bug in BUGS]


def in_its_source(bug, folder):
    """Is it seen by the check of what is called, which reads the file alone?"""
    path = folder / "tinyattn" / bug.file
    path.parent.mkdir(parents=True, exist_ok=True)
    plant(bug, folder)
    return any(missing(path.read_text())) or any(on_the_host(path.read_text()))


def is_noticed(bug, first):
    """Does any test fail? The one that did when the page was made is asked first, and is nearly always enough."""
    with planted(bug) as tree:
        if first and run_tests(tree, first).returncode == pytest.ExitCode.TESTS_FAILED:
            return True
        return any(noticed(looker, tree) for looker in ("surface", "double"))


@pytest.mark.slow(seconds=30)
def test_each_is_noticed_and_nothing_is_where_nothing_was_planted(tmp_path):
    """By the check of what is called (surface) or by the double; here one bug for each test that noticed any.

    `python benchmarks/gpu_bugs.py` asks about every bug.
    """
    rows = json.loads(RESULT.read_text())["bugs"]
    unseen = {bug: row["double"] for bug, row in zip(BUGS, rows, strict=True)
              if row["surface"] is None or not in_its_source(bug, tmp_path)}  # fmt: skip
    first = {bug: test for test, bug in {test: bug for bug, test in unseen.items()}.items()}
    with planted(None) as tree:
        assert run_tests(tree, "tests/test_surface.py", *sorted(set(filter(None, first.values())))).returncode == 0
    with ThreadPoolExecutor(2) as pool:
        seen = pool.map(is_noticed, first, first.values())
    missed = [bug.name for bug, noticed_there in zip(first, seen, strict=True) if not noticed_there]
    assert not missed, f"nobody noticed {', '.join(missed)}"
