"""What a report prints: as text, as a page, as JUnit's XML; the lines of a diagnosis and of the zoo's table."""

from xml.etree import ElementTree

from tinyattn import ops
from tinyattn.check import check_in_process
from tinyattn.check.diagnosis import Diagnosis
from tinyattn.check.measure import table
from tinyattn.check.report import Report, junit, page
from tinyattn.check.trial import Finding
from tinyattn.check.zoo import Bug


def found(name, stage="oracle", outcome="fails", **more):
    return Finding(name, stage, f"{name} is right", "exact", outcome, 1_200, **more)


FINDINGS = (
    found("dtype", "shapes", message="y is float64", gravity="contract", cause="widens"),
    found("layout", "shapes", message="the same", gravity="contract", cause="widens"),
    found("own_memory", "shapes", message="no y", gravity="contract", sort="shape"),
    found("causal", "properties", gravity="leak"),
    found("values", message="y is off (line 7 of b.py)", expected="1", got="2", counterexample="x = 3", hint="Look.",
          cause="NaN is", place="/a/b.py:7"),
    found("again", cause="NaN is", counterexample="x = 5"),
    found("large", "extremes"),
    found("held", "shapes", "holds", note="1, and 2", message="on 3 cases"),
    found("left", "gradients", "skipped", message="no backward"),
    found("empty", "shapes", message="no dx", gravity="contract"),
    found("repeats", "shapes", "holds"),
)  # fmt: skip
REPORT = Report(
    "relu", "mine", FINDINGS, ("b",), not_offered=("x with 4 axes",), unused=("axis",), conventions=("it is odd",),
    not_run=3, again="do it", seed=5, examples=9,
)  # fmt: skip
TEXT = """\
mine as relu
  shapes      2 of 6 hold, 4 FAIL
  oracle      0 of 2 hold, 2 FAIL
  properties  0 of 1 hold, 1 FAIL
  gradients   0 of 1 hold, 1 skipped
  extremes    0 of 1 hold, 1 FAIL
  not offered, and so not looked at: b, x with 4 axes
  never passed, and so not looked at: axis
  differs by convention: it is odd
  holds to rounding, not to the bit: held (1, and 2)
  held: on 3 cases

FAILS  values is right
       (oracle: values, to the last bit)
smallest counterexample:
    x = 3
y is off (line 7 of b.py)
    expected  1
    got       2
hint: Look.
/a/b.py:7: relu: y is off
of the same cause (NaN): again
also fails: large
leaks: causal
contract: y is float64 (dtype, layout)
contract: no y (own_memory)
contract: no dx (empty)
not run after that: 3 properties
again: do it"""


def test_failures_are_ordered_and_grouped_by_gravity_and_cause():
    assert str(REPORT) == TEXT
    memory = found("own_memory", "shapes", message="y is x", gravity="contract")
    assert [f.property for f in Report("relu", "mine", (*FINDINGS[2:5], memory)).failures] == [
        "own_memory", "values", "causal", "own_memory"]  # fmt: skip
    kept = Report("relu", "mine", FINDINGS[:2])
    assert (kept.verdict, Report("relu", "mine", FINDINGS[3:4]).verdict) == ("contract", "wrong")
    assert "\nThe numbers are right; the contract is not kept:\nFAILS" in str(kept)
    holds = Report("relu", "mine", (FINDINGS[7], FINDINGS[7], FINDINGS[8]))
    assert str(holds).endswith("all hold, in 3,600 tries")
    assert (holds.verdict, Report("relu", "mine", FINDINGS[8:9]).verdict) == ("right", "not run")


def test_a_page_and_xml_have_every_property():
    text = page([REPORT])
    for part in ("<h1>mine as relu: wrong</h1>", "<h2>values is right: fails</h2>", "<pre>x = 3</pre>",
                 "<th>expected<td><code>1</code>\n<tr><th>got<td><code>2</code>", '<p class="hint">hint: Look.</p>',
                 *(f"<p>{line}</p>" for line in TEXT.splitlines()[20:27]), "<li>differs by convention: it is odd<li>",
                 "<p>9 examples a property, seed 5.</p>"):  # fmt: skip
        assert part in text
    rows = [f"<tr><td>{f.stage}<td>{f.property}<td>{f.outcome}<td>{f.statement}" for f in FINDINGS]
    assert [line for line in text.splitlines() if line.startswith("<tr><td>")] == rows
    first, second = ElementTree.fromstring(junit([REPORT, Report("gelu", "yours", (), problem="no file")]).encode())
    assert first.attrib == {"name": "mine as relu", "tests": "11", "failures": "8", "skipped": "1", "errors": "0"}
    assert [case.get("classname") for case in first] == [f"relu.{f.stage}" for f in FINDINGS]
    assert [part.get("type") for part in first.iter("failure")] == [f.gravity for f in FINDINGS if f.outcome == "fails"]
    texts = [part.text for part in first.iter("failure")]
    assert texts[4].splitlines() == TEXT.splitlines()[12:20]
    assert "\na counterexample:\n    x = 5" in texts[5]
    assert [part.get("message") for part in first.iter("skipped")] == ["no backward"]
    assert (second.get("errors"), second[0][0].get("message")) == ("1", "no file")


def test_a_diagnosis_tells_bugs_that_are_alike_from_bugs_that_are_both_there():
    one, two, three = (Bug(name, f"it {name}", f"Why {name}?") for name in ("adds", "drops", "doubles"))
    alike = ["Yours: one of these, with equal results in all cases tried", "    it adds (adds)",
             "    it drops (drops)", "hint: Why adds?"]  # fmt: skip
    both = ["Yours, too: it doubles (doubles)", "hint: Why doubles?"]
    assert str(Diagnosis(((one, two), (three,)), "numbers")).splitlines() == alike + both
    assert Diagnosis(((one, two), (three,))).names == ("adds", "drops")
    assert str(Diagnosis(((one,),), "numbers")) == "Yours: it adds (adds)\nhint: Why adds?"
    assert "recognised by which properties fail" in str(Diagnosis(((one,),), "failures"))
    assert str(Diagnosis()) == "no known bug gives these results"


def test_the_table_of_a_zoo_names_what_is_wrong():
    bugs = {"a": ["gate"], "b": ["oracle"], "c": [], "both": ["gate", "oracle"], "two": ["two_halves", "gate"]}
    row = {name: {"convention": False, "killed by": killers} for name, killers in bugs.items()}
    row |= {"d": {"convention": True, "killed by": []}, "e": {"convention": True, "killed by": ["gate"]}}
    head, line, *rest = table({"relu": {"bugs": row, "sound": ["large"]}})
    assert head.split("  ")[0] == "kind"
    assert line.split()[:1] + line.split()[2:] == ["relu", "5", "4", "1", "2"]
    assert rest == ["4 of 5 bugs are killed", "  relu: c survives", "  relu: d is a convention and no bug; it passes",
                    "  relu: e is a convention, and ACCUSED",
                    "  relu: large ACCUSES an implementation that has no bug"]  # fmt: skip


def test_a_cause_is_looked_for_once_and_when_it_is_read(monkeypatch):
    looked = []
    found = Diagnosis(where="everywhere")
    monkeypatch.setattr("tinyattn.check.runner.find_cause", lambda *failure: looked.append(failure) or found)
    report = check_in_process(lambda x: -x, "relu", examples=2)
    assert report.failures
    assert not looked
    assert report.diagnosis is report.diagnosis is found
    assert "everywhere" in str(report)
    assert len(looked) == 1
    assert check_in_process(ops.relu, "relu", examples=2).diagnosis is None
