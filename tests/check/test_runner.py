"""What a user of `check_implementation`, `tinyattn check` and `properties_for` sees."""

import json
import os
import shlex
import sys
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn import cli, ops
from tinyattn.check import check_implementation, check_in_process, command, plugin, properties_for
from tinyattn.check.command import ours
from tinyattn.check.isolation import load
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.zoo import ZOO

STUDENT = """
    import numpy as np

    def softmax(x):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def attention(Q, K, V, mask=None):
        s = Q @ np.swapaxes(K, -1, -2)
        if mask is not None:
            s = np.where(mask, s, -1e9)
        w = softmax(s)
        return w @ V, w

    def attention_backward(dout, Q, K, V, weights):
        dV = np.swapaxes(weights, -1, -2) @ dout
        dp = dout @ np.swapaxes(V, -1, -2)
        ds = weights * (dp - np.sum(dp * weights, -1, keepdims=True))
        return ds @ K, np.swapaxes(ds, -1, -2) @ Q, dV
"""


@pytest.fixture
def write(tmp_path):
    def at(text, name="student.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return at


def check(*arguments, capsys):
    code = cli.main(["check", *arguments])
    return code, capsys.readouterr().out


def test_an_afternoons_attention_is_told_what_is_wrong(write, capsys):
    """It has a bug, a different convention and different argument names, and neither bias nor dropout."""
    code, out = check(write(STUDENT), "--as", "attention", "--examples", "20", capsys=capsys)
    assert code == 1
    assert "FAILS  attention computes what plain loops compute" in out
    assert "smallest counterexample:" in out
    assert "q = [[" in out
    assert "expected" in out
    assert "scores are not divided by √d (no_scale)" in out
    assert "differs by convention: a query that may look at nothing gets an average" in out
    assert "fill_-1e9" not in out
    assert "hint: Compute the variance of one score" in out
    assert "not offered, and so not looked at: bias, keep, rate, scale" in out


def test_a_failing_report_ends_with_the_command_that_does_it_again(write, capsys):
    path = write("def relu(x):\n    return x", "my file.py")
    arguments = ["--as", "relu", "--seed", "3", "--examples", "4", "--time-limit", "80"]
    code, out = check(path, *arguments, "--strict", capsys=capsys)
    assert code == 1
    again = out.splitlines()[-1]
    assert again.startswith("again: tinyattn check ")
    assert shlex.split(again.removeprefix("again: tinyattn check ")) == [path, *arguments, "--strict"]
    code, twice = check(*shlex.split(again.removeprefix("again: tinyattn check ")), capsys=capsys)
    assert twice == out
    said = str(check_in_process(lambda x: x, "relu", seed=5, examples=2))
    assert said.splitlines()[-1] == "again: seed 5, 2 examples a property"


def test_json_says_the_same(write, capsys):
    code, out = check(write(STUDENT), "--as", "attention", "--examples", "5", "--json", capsys=capsys)
    report = json.loads(out)
    assert code == 1
    assert report["holds"] is False
    assert report["failures"][0] == "oracle"
    assert report["diagnosis"]["bugs"][0][0]["name"] == "no_scale"


def test_forward_alone_is_enough_and_that_is_said(write, capsys):
    text = "def softmax(s, mask=None):\n    from tinyattn.ops import softmax\n    return softmax(s, mask)\n"
    code, out = check(write(text), "--as", "softmax", "--examples", "5", capsys=capsys)
    assert code == 0
    assert "not offered, and so not looked at: softmax_backward" in out
    assert "skipped" in out


@pytest.mark.parametrize(
    ("text", "target", "says"),
    [
        ("import nothing_of_the_kind", "", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "", "SystemExit"),
        ("def f(", "", "SyntaxError"),
        ("def soft_max(s): return s", "", "it has no `softmax`, only soft_max"),
        ("x = 1", ":y", "has no `y`"),
        ("def softmax(): return 1", "", "takes 0 arguments, expected 1: s"),
        ("def soft(a, b): return a", ":soft", "`soft` requires a, b, expected s: write a function that takes these"),
        ("def softmax(s, temperature): return s", "", "requires `temperature`"),
        ("def soft(s, t): return s", ":soft", "which the library's softmax(s, mask) does not have: write a function"),
        ("def softmax(s, mask=None): return s\ndef softmax_backward(dp, p, cache): return dp", "", "requires `cache`"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(text, target, says, write, capsys):
    code, out = check(write(text) + target, "--as", "softmax", "--examples", "3", capsys=capsys)
    assert code == 2
    assert "could not run: " in out
    assert says in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.py", "--as", "softmax"], None),
        (["x.py", "--as", "nonsense"], "'nonsense' is no kind of implementation; known: adam, adamw, addi"),
        (["x.py"], "say what to check, and its kind"),
        (["x.py", "--as", "softmax", "--examples", "0"], "examples is 0, expected more than 0"),
        (["x.py", "--as", "softmax", "--seed", "-1"], "seed is -1, expected a whole number of at least 0"),
        (["x.py", "--as", "softmax", "--time-limit", "1e7"], "time_limit is 10000000.0, expected more than 0"),
        (["x.py", "--list"], "--list takes no target: leave out x.py"),
        (["--contract", "relu", "--as", "gelu"], "--contract relu and --as gelu name two kinds"),
        (["--zoo", "--as", "silu"], "silu has no zoo; known: "),
        (["--self", "--as", "nonsense"], "'nonsense' is no kind of implementation"),
    ],
)
def test_wrong_questions_are_refused(arguments, says, capsys):
    assert cli.main(["check", *arguments]) == 2
    if says:
        assert says in capsys.readouterr().err


@pytest.mark.slow(seconds=1)
def test_without_hypothesis_bugs_are_found_and_shown_as_drawn(monkeypatch, write):
    monkeypatch.setitem(sys.modules, "hypothesis", None)  # an import of it raises ImportError
    assert check_implementation("tinyattn.ops", "softmax", examples=10)
    wrong = write("import numpy as np\ndef softmax(s, mask=None):\n    return np.exp(s) + 1")
    findings = check_implementation(wrong, "softmax", examples=10).findings
    first = next(finding for finding in findings if finding.outcome == "fails")
    assert first.counterexample


def test_an_endless_loop_ends(write):
    endless = write("def softmax(s, mask=None):\n    while True: pass")
    report = check_implementation(endless, "softmax", patience=0.3, time_limit=60, strict=True)
    assert not report
    assert report.failures[0].message == "it had not returned after 0.3 seconds"
    assert report.failures[0].hint == "Which loop does not end, and for which input?"
    assert (len(report.findings), report.not_run) == (2, len(properties_of(SPECS["softmax"])) - 2)


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (15, "SIGTERM"), (40, "signal 40")])
def test_a_crash_is_told(write, number, name):
    text = f"import os\ndef softmax(s, mask=None):\n    os.kill(os.getpid(), {number})"
    report = check_implementation(write(text), "softmax", examples=3)
    assert f"the process died of {name}" in report.failures[0].message
    assert not report


def test_where_nothing_was_tried_nothing_holds():
    report = check_in_process(ops, "relu", time_limit=1e-9)
    assert not report
    assert report.verdict == "not run"
    assert "could not run: no property was tried: there was no time left" in str(report)


@pytest.mark.slow(seconds=2)
def test_an_import_without_end_is_told(write):
    started = time.monotonic()
    report = check_implementation(write("import time\ntime.sleep(60)"), "softmax", time_limit=1.5)
    assert "it had not ended after 1.5 seconds" in report.problem
    assert time.monotonic() - started < 30


def test_what_it_prints_stays_out_of_the_way(write, capfd):
    text = "print('hello')\ndef softmax(s, mask=None):\n    print('again')\n    return s"
    assert not check_implementation(write(text), "softmax", examples=2)
    assert "hello" not in capfd.readouterr().out


def test_an_object_a_function_a_class_will_do():
    class Mine:
        relu = staticmethod(ops.relu)

    for implementation in (ops, Mine(), ops.relu, "tinyattn.ops", "tinyattn.ops:relu"):
        tried = []
        assert check_implementation(implementation, "relu", examples=1, progress=tried.append), implementation
        assert tried == [prop.name for prop in properties_of(SPECS["relu"])]


def test_a_result_that_changes_from_call_to_call_is_said_to(write):
    text = """
        import numpy as np
        from tinyattn import ops
        seen = set()
        def softmax(s, mask=None):
            first = s.tobytes() not in seen
            seen.add(s.tobytes())
            return ops.softmax(s, mask) * np.array(2 if first else 1, s.dtype)
    """
    report = check_implementation(write(text), "softmax", examples=10)
    assert not report
    assert "not at every call: equal calls give different results" in str(report)


def test_list_and_contract(capsys):
    code, out = check("--list", capsys=capsys)
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == list(SPECS)
    assert all(line.endswith(f": {spec.says}") for line, spec in zip(lines, SPECS.values(), strict=True))
    assert "layer_norm                  layer_norm(x, gamma, beta, eps=1e-05): y = x_hat ⊙ γ + β" in out
    rows = json.loads(check("--list", "--json", capsys=capsys)[1])
    assert rows["bce"]["signature"] == "bce_with_logits(z, targets, weights=None)"
    code, out = check("--list", "--as", "attention", capsys=capsys)
    assert "adding the same vector to all keys changes nothing" in out
    code, out = check("--list", "--as", "relu", "--json", capsys=capsys)
    prop = next(p for p in SPECS["relu"].properties if p.name == "gate")
    told = {"name": "gate", "stage": "gradients", "held to": "exact", "statement": prop.statement, "hint": prop.hint}
    assert [told] == [row for row in json.loads(out)["relu"] if row["name"] == "gate"]
    code, out = check("--contract", "layer_norm", capsys=capsys)
    assert code == 0
    assert "the biased variance" in out
    assert "inputs keep every bit" in out


def test_self_knows_where_the_librarys_own_is():
    """The place can be given to `tinyattn check`."""
    assert [kind for kind, spec in SPECS.items() if not hasattr(load(ours(kind)), spec.function)] == []


def test_self_and_zoo_are_commands(capsys, monkeypatch):
    """On a small zoo; test_specs.py tries the whole one."""
    monkeypatch.setattr(ZOO["relu"], "BUGS", ZOO["relu"].BUGS[:4])
    code, out = check("--self", "--as", "relu", "--examples", "3", capsys=capsys)
    assert code == 0
    assert "all hold" in out
    code, out = check("--zoo", "--as", "relu", "--examples", "6", capsys=capsys)
    assert code == 0, out
    assert "4 of 4 bugs are killed" in out


@pytest.mark.parametrize("problem", ["survivors", "accused without a bug", "conventions accused"])
def test_the_zoo_ends_with_1_where_anything_is_wrong(problem, capsys, monkeypatch):
    row = {"survivors": [], "accused without a bug": [], "conventions accused": []}
    for rows, code in (([row], 0), ([row, row | {problem: ["one"]}], 1)):
        monkeypatch.setattr("tinyattn.check.command.measure", lambda *_, **__: {})
        monkeypatch.setattr("tinyattn.check.command.table", lambda _: [])
        monkeypatch.setattr("tinyattn.check.command.summary", lambda _, rows=rows: rows)
        assert check("--zoo", "--as", "relu", capsys=capsys)[0] == code


test_our_softmax = properties_for(ops, "softmax", examples=5)


def test_properties_for_fails_where_it_should():
    def wrong(s, mask=None):
        return np.exp(s)

    test = properties_for(wrong, "softmax", examples=5)
    marks = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    oracle = next(prop for prop in marks[0].args[1] if prop.name == "oracle")
    with pytest.raises(pytest.fail.Exception, match="softmax computes what plain loops compute"):
        test(oracle)
    kept = properties_for(wrong, "softmax", skip=["oracle"], dtype="float32").pytestmark[0].args[1]
    names = [prop.name for prop in properties_of(SPECS["softmax"])]
    assert [prop.name for prop in kept] == [name for name in names if name != "oracle"]
    with pytest.raises(ValueError, match="'orcale' is no property of softmax; did you mean oracle"):
        properties_for(wrong, "softmax", skip=["orcale"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="objects need a fork to reach a child process")
def test_the_checker_leaves_no_child_behind(write):
    import multiprocessing

    check_implementation(write("def softmax(s, mask=None): return s"), "softmax", examples=2)
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("strict", [False, True])
def test_a_test_of_pytest_tries_what_it_was_made_for(monkeypatch, strict):
    asked = {}

    def finds(**finding):
        trial = SimpleNamespace(finding=lambda: SimpleNamespace(**finding))
        monkeypatch.setattr(plugin, "trial_of", lambda op, spec, prop, **how: asked.update(how) or trial)

    finds(outcome="holds")
    test = properties_for(ops, "relu", examples=7, seed=3, strict=strict)
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")
    assert mark.kwargs["ids"](mark.args[1][0]) == "shapes-shape_and_dtype"
    test(mark.args[1][0])
    assert asked == {"examples": 7, "seed": 3, "strict": strict, "patience": 10.0}
    finds(outcome="skipped", message="no more")
    with pytest.raises(pytest.skip.Exception, match="no more"):
        test(mark.args[1][0])


@pytest.mark.parametrize(
    ("right", "code"), [((1, 1), 0), ((1, 0), 1), ((0, 1), 1), ((0, "a crash"), 2), (("a crash", 1), 2)]
)
def test_all_kinds_have_to_hold(right, code, monkeypatch, capsys):
    """`--self` exits with 1 if a kind fails, whichever it is, and with 2 if one could not be run."""
    kinds, asked = dict(zip(("relu", "gelu"), right, strict=True)), []
    monkeypatch.setattr(command, "SPECS", {kind: SPECS[kind] for kind in kinds})

    class Report:
        def __init__(self, holds):
            self.holds, self.problem = holds, holds if isinstance(holds, str) else ""

        def __bool__(self):
            return self.holds == 1

        def to_json(self):
            return {"holds": self.holds, "names": {"b", "a"}}

    monkeypatch.setattr(
        command, "check_implementation", lambda target, kind, **how: asked.append((target, how)) or Report(kinds[kind])
    )
    found, out = check("--self", "--json", capsys=capsys)
    assert (found, json.loads(out)) == (code, [{"holds": holds, "names": ["a", "b"]} for holds in right])
    assert [(target, how["strict"]) for target, how in asked] == [("tinyattn.ops", True)] * 2
    _, out = check("x.py", "--as", "gelu", "--json", "--seed", "4", "--time-limit", "7", capsys=capsys)
    assert json.loads(out)["holds"] == right[1]
    asked[-1][1].pop("progress")
    assert asked[-1] == ("x.py", {"seed": 4, "time_limit": 7.0, "skip": []})
