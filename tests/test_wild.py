"""The benchmark on public code, without any: its table, its judgement, its second opinion, and its page."""

import ast
import json
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import wild
from tinyattn import ops
from tinyattn.check import SPECS, adapters, zoo
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.rules import slips_of
from tinyattn.check.specs.optimisers import Moments
from tinyattn.check.subject import Subject
from tinyattn.check.trial import show_case

sys.path.append(str(wild.ADAPTERS))  # as for an adapter that `tinyattn check` loads
import checkout
import reference

pytestmark = pytest.mark.host
TABLE = wild.cases()


def objects(file):
    """The names that a file defines, without importing it: what it imports is not here."""
    tree = ast.parse((wild.ADAPTERS / file).read_text())
    named = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return named + [part.id for t in targets for part in ast.walk(t) if isinstance(part, ast.Name)]


def test_every_case_has_an_adapter_and_every_bug_a_place():
    assert len(TABLE) == len({case.target for case in TABLE}) >= 150
    assert len({case.repository for case in TABLE}) >= 30
    for case in TABLE:
        assert case.object in objects(case.file), case.target
        assert re.fullmatch("[0-9a-f]{40}", case.commit)
        if case.truly in ("bug", "minor"):
            assert re.match(r"\w+: [\w/.-]+:\d+, \S", case.truth), case.truth
        elif case.truly != "right":
            assert re.match(r"\w+: \S", case.truth), case.truth


def test_every_adapter_has_a_case():
    for file in wild.ADAPTERS.glob("*.py"):
        if file.name not in ("checkout.py", "reference.py"):
            tree = ast.parse(file.read_text())
            kinds = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
            listed = {case.object for case in TABLE if case.file == file.name}
            assert kinds <= listed | {"Taking"}, file.name
            assert ast.get_docstring(tree).startswith(next(c.repository for c in TABLE if c.file == file.name))


def test_names_that_would_be_right_are_bugs_of_the_zoo_or_known_slips():
    expected = {(case.kind, name) for case in TABLE for name in case.names if case.kind in zoo.ZOO}
    known = {(kind, bug.name) for kind, module in zoo.ZOO.items() for bug in module.BUGS}
    known |= {(kind, slip.name) for kind in zoo.ZOO for slip in slips_of(kind)}
    later = {"float32", "backward_div_batch", "gamma_outside", "t_constant", "log_of_p_plus_eps", "target_by_value"}
    assert {name for _, name in expected - known} <= later


def test_without_checkouts_it_says_what_is_needed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["wild.py"])
    wild.main()
    said = capsys.readouterr().out
    assert "--repos" in said
    assert "git clone https://github.com/jaymody/picoGPT jaymody__picoGPT" in said
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["wild.py", "--repos", str(tmp_path), "--out", str(out)])
    monkeypatch.setenv("WILD_REPOS", "")
    monkeypatch.chdir(tmp_path)
    wild.main()
    result = json.loads(out.read_text())
    assert result["cases"] == []
    assert result["skipped"]["jaymody/picoGPT, softmax"] == "not there"


def test_another_commit_is_skipped(tmp_path):
    case = next(case for case in TABLE if case.repository == "jaymody/picoGPT")
    folder = tmp_path / "jaymody__picoGPT"
    folder.mkdir()
    git = ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    assert wild.missing(case, tmp_path).endswith(f"not at {case.commit[:7]}")


def test_an_adapter_without_its_checkout_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.delenv("WILD_REPOS", raising=False)
    with pytest.raises(LookupError, match="set WILD_REPOS to the folder that holds the checkout of a/b"):
        checkout.checkout("a/b")
    monkeypatch.setenv("WILD_REPOS", str(tmp_path))
    with pytest.raises(LookupError, match="a__b"):
        checkout.checkout("a/b")


FAKE = """
import numpy as np

def softmax(x):
    e = np.exp(x{0})
    return e / np.sum(e, axis=-1, keepdims=True)
"""


@pytest.mark.parametrize(("safe", "verdict"), [(" - np.max(x, axis=-1, keepdims=True)", "holds"), ("", "fails")])
def test_a_case_from_the_adapter_to_the_verdict(safe, verdict, monkeypatch, tmp_path):
    """With a checkout of our own in place of picoGPT's."""
    (tmp_path / "jaymody__picoGPT").mkdir()
    (tmp_path / "jaymody__picoGPT" / "gpt2.py").write_text(FAKE.format(safe))
    monkeypatch.setenv("WILD_REPOS", str(tmp_path))
    monkeypatch.chdir(wild.ROOT)
    case = next(case for case in TABLE if (case.repository, case.object) == ("jaymody/picoGPT", "Softmax"))
    row = wild.looked_at(case, examples=10)
    assert row["verdict"] == verdict
    assert row["in float64"]["right"] == bool(safe)  # some of its inputs are large
    assert row["outcome"] == ("held" if verdict == "holds" else "accused")
    assert str(tmp_path) not in json.dumps(row)


def as_adapter(implementation, kind):
    """Ours take what the forward saved; an adapter's backward takes the forward's arguments."""
    spec = SPECS[kind]
    if not spec.wrt:
        return implementation
    op = Subject(implementation, spec)

    def forward(**given):
        return op(**given)

    def backward(dy, **given):
        return tuple(op.gradients(given, dy).values())

    forward.__signature__ = op.signature
    return SimpleNamespace(**{spec.function: forward, f"{spec.function}_backward": backward})


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted({*reference.FORMS, *reference.ALONE} & SPECS.keys()))
def test_the_second_opinion_finds_this_library_right(kind):
    ours = adapters.SASRecTokens() if kind == "causal_model" else SPECS[kind].ours()
    found = reference.measure(as_adapter(ours, kind), kind)
    assert found
    assert reference.is_right(found), found


@pytest.mark.parametrize(
    ("kind", "bug", "where"),
    [
        ("softmax", "backward_diag", "s"),
        ("layer_norm", "ddof1", "forward"),
        ("gelu", "cube_coefficient", "forward"),
        ("cross_entropy", "sum_not_mean", "forward"),
        ("attention", "no_scale", "forward"),
        ("multi_head_attention", "dx_only_q", "x"),
        ("feed_forward", "no_b1", "forward"),
        ("block", "parallel", "forward"),
        ("adam", "one_correction", "vector"),
        ("embedding", "assign", "E"),
        ("dropout", "p_is_keep", "forward"),
        ("linear", "db_mean", "b"),
        ("relu", "mask_from_dy", "x"),
        ("bce", "sum_not_mean", "forward"),
    ],
)
def test_the_second_opinion_finds_bugs(kind, bug, where):
    found = reference.measure(as_adapter(zoo.ZOO[kind].make(frozenset([bug])), kind), kind)
    assert found[where] > 1e-3, found
    assert not reference.is_right(found)


def test_the_second_opinion_tells_what_raises_and_what_widens():
    class Softmax:
        def softmax(self, s):
            e = np.exp(s.astype(float) - np.max(s, axis=-1, keepdims=True))
            return e / np.sum(e, axis=-1, keepdims=True)

        def softmax_backward(self, dp, s):
            raise TypeError("two\nlines")

    found = reference.measure(Softmax(), "softmax")
    assert found["backward"] == "raises TypeError: two"
    assert not reference.is_right(found)
    del Softmax.softmax_backward
    found = reference.measure(Softmax(), "softmax")
    assert found["float32"] == "becomes float64"
    assert reference.is_right(found)


@pytest.mark.parametrize("keep", [np.array([True, False, True]), np.zeros(3, bool)])
def test_a_mask_is_drawn_as_it_is_given(keep):
    legacy = np.random  # whose functions the repositories use
    with checkout.drawn(keep):
        for draw in (legacy.rand(2, 3), legacy.uniform(size=(2, 3)), legacy.random(2, 3)):
            assert np.array_equal(draw >= 0.3, np.broadcast_to(keep, (2, 3)))
            assert np.array_equal(draw > 0.0, np.broadcast_to(keep, (2, 3)))
        assert np.array_equal(legacy.binomial(1, 0.5, (2, 3)), np.broadcast_to(keep, (2, 3)))
        assert np.array_equal(legacy.binomial(n=1, p=0.5, size=(3,)), keep)
    assert legacy.rand(50).max() <= 1


def test_autograd_as_the_backward():
    torch = pytest.importorskip("torch")

    def linear(x, W, b, name="ignored"):
        return torch.einsum("...i,io->...o", x, W) + b

    ours, theirs = ops, checkout.with_autograd(linear)
    rng = np.random.default_rng(0)
    x, W, b, dy = (rng.standard_normal(shape) for shape in ((2, 3), (3, 4), (4,), (2, 4)))
    x.flags.writeable = False  # torch cannot say so: it is given a copy
    assert np.allclose(theirs.linear(x=x, W=W, b=b), ours.linear(x, W, b))
    for found, expected in zip(theirs.linear_backward(dy, x, W, b), ours.linear_backward(dy, x, W), strict=True):
        assert np.allclose(found, expected)


@pytest.mark.parametrize("kind", ["softmax", "attention", "embedding", "cross_entropy", "layer_norm", "dropout"])
def test_a_printed_counterexample_can_be_read_again(kind):
    for seed in range(8):
        case = SPECS[kind].case(CaseDrawer.seeded(seed, ((), (2,), (0,))))
        text = show_case(case)
        if "..." in text:
            assert wild.parsed(text) == {}
            continue
        read = wild.parsed(text)
        assert read.keys() == {name for name, x in case.items() if x is not None}
        for name, x in read.items():
            if isinstance(x, np.ndarray):
                assert x.shape == case[name].shape
                assert x.dtype == (np.float64 if case[name].dtype.kind == "f" else case[name].dtype)
                assert np.allclose(x, case[name], rtol=1e-5, atol=1e-6)
            else:
                assert x == case[name]


def test_what_cannot_be_read_is_left():
    assert wild.parsed("") == {}
    assert wild.parsed("x = Unknown(3)") == {}
    moments = wild.parsed(show_case({"moments": Moments(np.zeros(1, "f"), np.ones(1, "f"))}))["moments"]
    assert [(x.dtype, x.tolist()) for x in moments] == [(float, [0.0]), (float, [1.0])]
    assert wild.parsed(show_case({"x": np.array([np.nan, np.inf])}))["x"][1] == np.inf


def row(truth, **more):
    """A row of a results file."""
    base = {"repository": "a/b", "commit": "1234567", "target": f"t:{truth}{len(more)}", "kind": "softmax",
            "truth": truth, "convention": "", "contract": "", "names": [], "verdict": "holds", "named": [],
            "failures": {}, "in float64": {"off": {"forward": 0.0}, "right": True}}  # fmt: skip
    if "failures" in more:
        first = next(iter(more["failures"]))
        more = {"verdict": "fails", "headline": first, "statement": "s", "message": more["failures"][first],
                "counterexample": "s = [1., 2.]   float64 (2,)", "expected": "1", "got": "2"} | more  # fmt: skip
    found = base | more
    return found | wild.judged(found)


OFF, WIDE = {"oracle": "p[0] is off by 1"}, {"shape_and_dtype": "y has the wrong dtype"}
ROWS = [
    (row("right"), "held", "none"),
    (row("right", failures=WIDE), "accused", "none"),
    (row("right", failures={"shape_and_dtype": "f raised TypeError: b"}), "accused", "none"),
    (row("convention: x"), "held", "none"),
    (row("convention: x", failures=OFF, named=[["nan_row"]]), "accused", "wrong"),
    (row("convention: x", failures=WIDE), "accused", "none"),
    (row("convention: x", failures=WIDE, contract="float64"), "refused for its contract", "none"),
    (row("contract: x", failures=WIDE), "refused for its contract", "none"),
    (row("contract: x", failures=WIDE | OFF), "accused", "none"),
    (row("contract: x", failures=OFF, gravity={"oracle": "contract"}), "refused for its contract", "none"),
    (row("contract: x", failures=WIDE, gravity={"shape_and_dtype": "crash"}), "accused", "none"),
    (row("contract: x", failures={"batch_of_nothing": "f raised ValueError"}), "refused for its contract", "none"),
    (row("minor: f:1, x", failures=OFF, named=[["ddof1"]], names=["ddof1"]), "refused", "right"),
    (row("bug: f:1, x"), "missed", "none"),
    (row("bug: f:2, x", failures=OFF, named=[["a", "b"]], names=["b"]), "refused", "right"),
    (row("bug: f:3, x", failures=WIDE | OFF, named=[["a"]], names=["b"]), "misled", "wrong"),
    (row("bug: f:4, x", failures={"empty_row": "not 0"} | OFF), "misled", "none"),
    (row("bug: f:5, x", failures={"shape_and_dtype": "f raised ValueError"}), "refused", "none"),
    (row("right", verdict="not run", problem="it asks for z"), "not run", "none"),
]


@pytest.mark.parametrize(("found", "outcome", "naming"), ROWS)
def test_reports_are_judged_by_the_truth(found, outcome, naming):
    assert (found["outcome"], found["naming"]) == (outcome, naming)


def test_the_page_of_generated_results():
    machine = {"commit": "abc", "cpu": "a cpu", "numpy": "2", "python": "3", "date": "today"}
    rows = [found | {"target": f"t:{i}"} for i, (found, _, _) in enumerate(ROWS)]
    result = {"machine": machine, "skipped": {"c/d, relu": "not there"}, "cases": rows}
    before = {"machine": machine | {"commit": "old"}, "skipped": {}, "cases": rows[:4]}
    text = wild.page(result, before)
    assert "| 4 cases | before, old | now, abc |" in text
    assert "| accused of wrong numbers or a crash | 2 | 2 |" in text
    assert "## 5 bugs" in text
    assert "- skipped: c/d, relu: not there" in text
    assert "the second opinion does not confirm t:13" in text  # a bug, and nothing is off
    assert all(line.count("|") in (0, 4, 7, 8) for line in text.splitlines())
    counted = wild.counts(rows)
    assert (counted["bugs"], counted["bugs refused"], counted["bugs missed"]) == (5, 4, 1)
    assert (counted["bugs named rightly"], counted["named wrongly"]) == (1, 2)
    assert "finds 4 of the 5 that are wrong" in wild.quote(result)


def test_readme_says_that_the_checker_was_changed_for_some_of_the_cases():
    then, now = (wild.counts(json.loads(path.read_text())["cases"]) for path in (wild.BEFORE, wild.RESULT))
    accused = "accused of wrong numbers or a crash"
    assert then[accused] > now[accused] == 0
    assert "It was changed where it failed on some of them" in wild.README.read_text()


def test_the_page_names_the_commits_of_rows_that_were_kept():
    machine = {"commit": "new", "cpu": "a cpu", "numpy": "2", "python": "3", "date": "today"}
    rows = [found | {"target": f"t:{i}", "checker": "new" if i else "old"} for i, (found, _, _) in enumerate(ROWS[:3])]
    result = {"machine": machine, "skipped": {}, "cases": rows}
    assert "at commit old (1), new (2) on a cpu" in wild.page(result, result)
    assert "at commit new on a cpu" in wild.page(result | {"cases": rows[1:]}, result)


def test_a_demonstration_prints_and_raises_in_its_checkout(monkeypatch, tmp_path):
    (tmp_path / "a__b").mkdir()
    (tmp_path / "a__b" / "theirs.py").write_text("def half(x):\n    return x / 3\n")
    adapter = tmp_path / "adapter.py"
    adapter.write_text("import sys, types\nsys.modules['not_installed'] = types.ModuleType('x')\n")
    monkeypatch.setenv("WILD_REPOS", str(tmp_path))

    def prints(lines):
        return wild.in_a_child(wild.run_in_checkout, str(adapter), "a/b", lines)

    assert prints("import not_installed\nfrom theirs import half\nprint(half(3), 1.5)") == "1.0 1.5"
    assert prints("print(1)\nraise ValueError('x\\ny')") == "1\nraises ValueError: x"


def test_demonstrations_that_are_there_are_kept(monkeypatch):
    case = next(case for case in TABLE if case.shows)
    monkeypatch.setattr(wild, "in_a_child", lambda work, adapter, repository, lines: "anew")
    monkeypatch.setenv("WILD_REPOS", "")
    rows = [{"target": case.target}, {"target": case.target, "demonstration": {"lines": case.shows, "prints": "kept"}}]
    wild.demonstrate([case], rows)
    assert [row["demonstration"]["prints"] for row in rows] == ["anew", "kept"]


def test_every_place_of_a_bug_is_shown_in_five_lines():
    shown = {(case.repository, case.truth.split(",")[0]) for case in TABLE if case.shows}
    for case in TABLE:
        assert len(case.shows.strip().splitlines()) <= 5
        assert not case.shows or "print(" in case.shows
        if case.truly == "bug":
            assert (case.repository, case.truth.split(",")[0]) in shown, case.target


def test_the_list_of_bugs_has_a_link_and_what_was_printed():
    demonstration = {"lines": "print(1, 2)\n", "prints": "1 2"}
    rows = [row("bug: f/g.py:1, x", demonstration=demonstration), row("bug: f/g.py:1, y", kind="relu"), row("right")]
    text = wild.bugs_page({"cases": rows})
    assert "1 places in 1 repositories" in text
    assert "[f/g.py:1](https://github.com/a/b/blob/1234567/f/g.py#L1), softmax, relu: x." in text
    assert "```python\nprint(1, 2)\n```\n\n```text\n1 2\n```" in text


def test_kept_rows_are_judged_by_the_table_as_it_is():
    case = TABLE[0]
    old = row("right", failures=OFF) | {"target": case.target}
    gone = row("right") | {"target": "nowhere.py:Gone"}
    (found,) = wild.judged_anew(TABLE, [gone, row("right") | {"target": case.target}, old])
    assert found["truth"] == case.truth
    assert found["outcome"] == "refused"


def test_nothing_is_disputed_and_no_path_is_of_this_machine():
    assert wild.disputed(json.loads(wild.RESULT.read_text())["cases"]) == []
    for path in (wild.RESULT, wild.BEFORE):
        assert not re.search(r"line \d+ of /", path.read_text())  # paths are those of the repository
