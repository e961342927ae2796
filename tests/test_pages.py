"""Pages that commands make are what these commands make today of the results files, and every page has its command.

`python benchmarks/pages.py NAME`, or `tinyattn reproduce NAME --page`, makes one again. Pictures are not compared.
"""

import functools
import re
import runpy

import pytest

from benchmarks import machine as benchmark
from benchmarks import order_and_cost, pages
from benchmarks.machine import README, RESULTS, ROOT, filled
from benchmarks.pages import SCRIPTS
from tinyattn.backend import DEVICES
from tinyattn.experiments import EXPERIMENTS, results_of, with_remarks

SLOW = dict.fromkeys(("awrsr", "planted"), pytest.mark.slow(seconds=4))    # all users are drawn anew; best rankings


@pytest.fixture(autouse=True)
def as_installed():
    """Tests have a device more, and the page of options would name it."""
    known = DEVICES[:]
    DEVICES.remove("strict")
    yield
    DEVICES[:] = known


pages_of = functools.cache(pages.pages_of)


@pytest.mark.parametrize("script", SCRIPTS)
def test_pages_of_a_benchmark_are_those_of_its_results(script):
    for page, text in pages_of(script).items():
        again = f"`python benchmarks/pages.py {script}` makes {page.relative_to(ROOT)} again"
        assert page.read_text() == filled(script, page, text), again


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in EXPERIMENTS])
def test_the_page_of_an_experiment_is_that_of_its_runs(name):
    folder = RESULTS / "reproduce" / name
    experiment = with_remarks(EXPERIMENTS[name], folder)
    again = f"`tinyattn reproduce {name} --out benchmarks/results/reproduce/{name} --page` makes its page again"
    assert (folder / "README.md").read_text() == experiment.page(experiment, results_of(experiment, folder)), again


def test_every_page_of_results_and_every_marked_part_is_one_of_them():
    there = {(page, "") for page in RESULTS.glob("*.md")}
    for page in (README, *(ROOT / "docs").glob("*.md")):
        there |= {(page, script) for script in re.findall(r"made by benchmarks/(\w+)\.py: begin", page.read_text())}
    assert there == {(p, "" if RESULTS in p.parents else script) for script in SCRIPTS for p in pages_of(script)}
    assert {folder.name for folder in (RESULTS / "reproduce").iterdir()} == EXPERIMENTS.keys()


RUN = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text())


@pytest.mark.parametrize("script", RUN)
def test_a_script_refuses_an_argument_that_it_does_not_know_before_it_writes(script, monkeypatch, capsys):
    path = ROOT / "benchmarks" / f"{script}.py"
    monkeypatch.setattr("sys.argv", [str(path), "--datum", "x"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 2
    assert "error: " in capsys.readouterr().err


def machine(commit, cpu="Intel(R) Xeon(R) Processor", date="2026-01-01"):
    return {"cpu": cpu, "date": date} | ({} if commit is None else {"commit": commit})


def test_the_age_of_a_page_is_that_of_its_oldest_commit():
    asked = []

    def since(commit, code):
        asked.append((commit, code))
        return {"old": 7, "new": 2}.get(commit)

    found = pages.age("zoo", [machine("new+", date="2026-02-02"), machine("old", cpu="AMD EPYC")], since)
    assert found == ["zoo", "7", "2026-01-01 to 2026-02-02", "AMD EPYC, Intel Xeon", "old new+"]
    assert asked == [("old", ("tinyattn/check",)), ("new", ("tinyattn/check",))]
    partly = pages.age("x", [machine("new"), machine(None)], since)
    assert partly[1:] == ["2+", "2026-01-01", "Intel Xeon", "new unknown"]
    assert pages.age("x", [machine("lost")], since)[1] == "?"


@pytest.mark.parametrize(("name", "machines"), [(n, m) for n, m in pages.results() if (RESULTS / f"{n}.md").exists()])
def test_a_page_names_the_commits_of_its_results(name, machines):
    page = (RESULTS / f"{name}.md").read_text()
    assert all((m.get("commit") or "unknown") in page and m["date"] in page for m in machines)


def test_a_make_of_cpu_keeps_its_part_when_another_is_measured(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    for cpu, result in (("A", 1), ("B", 2), ("A", 3)):
        monkeypatch.setattr(benchmark, "describe", lambda cpu=cpu: {"cpu": cpu})
        benchmark.write_make(path, result)
    makes = benchmark.makes_in(path)
    assert list(makes.items()) == [("B", 2), ("A", 3)]
    assert benchmark.newest(makes) == 3
    assert benchmark.makes_in(tmp_path / "none.json") == {}


def test_results_of_another_model_with_the_same_name_are_not_mixed_with_todays(monkeypatch):
    """Clouds have one name for processors that differ by half."""
    now = machine("abc", cpu="AMD EPYC") | {"cpu_model": "25/17", "cores": 2, "python": "3", "numpy": "2"}
    monkeypatch.setattr(benchmark, "describe", lambda: now)
    benchmark.refuse_other_code([now, now | {"cpu": "Intel", "cpu_model": "6/143"}], "sizes")
    assert benchmark.unlike(now, now | {"date": "x", "commit": "def"}) == []
    changes = ({"commit": "def"}, r"def \(.*, model 17\)"), ({"cpu_model": "25/1"}, r"abc \(family 25, model 1\)")
    for other, says in changes:
        with pytest.raises(SystemExit, match=f"sizes that stay are of commit {says}: measure all of them"):
            benchmark.refuse_other_code([now, now | other], "sizes")
    older = {name: value for name, value in now.items() if name != "cpu_model"}
    assert benchmark.unlike(older, now) == ["cpu_model"]


def test_a_page_has_a_section_for_each_make_and_the_newest_makes_picture():
    def page(result):
        return f"# Title\n\n## Part\n\n![alt](a.svg)\n\n{result}\n"

    assert benchmark.by_make({"A": 1}, page) == page(1)
    assert benchmark.by_make({"B": 2, "A": 1}, page) == (
        "# Title\n\n## A\n\n### Part\n\n![alt](a.svg)\n\n1\n\n## B\n\n### Part\n\n2\n"
    )
    assert benchmark.others({"A": 1}, RESULTS / "ladder.md") == ""
    line = "\n\nOn each make of CPU, A and B: [ladder.md](../benchmarks/results/ladder.md)."
    assert benchmark.others({"B": 2, "A": 1}, RESULTS / "ladder.md") == line


def test_seconds_of_an_epoch_name_their_makes_where_there_are_several():
    steps = {"full": [0.1, 0.3], "rope": [0.2, 0.2]}
    result = {"data": {"users": 1280}, "seconds": {"AMD EPYC": {"steps": steps}}}
    assert order_and_cost.seconds(result, "rope") == "2.0 (1.33)"
    assert order_and_cost.seconds(result, "none") == ""
    result["seconds"]["Intel(R) Xeon(R) Processor"] = {"steps": {"full": [0.1], "rope": [0.1]}}
    assert order_and_cost.seconds(result, "rope") == "2.0 (1.33) AMD EPYC; 1.0 (1.00) Intel Xeon"


def test_machines_stand_anywhere_in_a_result():
    result = {"machine": machine("a"), "rows": [{"runs": [{"machine": machine("b")}], "date": "x"}, 3]}
    assert [m["commit"] for m in pages.machines_in(result)] == ["a", "b"]


def test_what_is_measured_of_the_package_is_there():
    for parts in pages.MEASURED.values():
        assert all((ROOT / "tinyattn" / part).exists() for part in parts)
    assert pages.MEASURED.keys() <= {name for name, _ in pages.results()}
