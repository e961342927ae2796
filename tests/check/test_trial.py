"""How a property is tried: on how many cases, on which, with what outcome; and the edges of tolerances."""

import time

import numpy as np
import pytest

from tests.check.breaking import broken, plus
from tinyattn.check import check_in_process
from tinyattn.check.cases import CaseDrawer, long_cases
from tinyattn.check.property import (
    EMPTY_BATCHES,
    FEW_ULP,
    LEADS,
    Property,
    RoundingViolation,
    Violation,
    close,
    largest,
    rounding,
    same_bits,
    untouched,
)
from tinyattn.check.spec import Spec
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.subject import MissingError, NotOfferedError, Subject
from tinyattn.check.trial import Failure, show_case, show_value, trial_of

EPS = np.finfo(float).eps


def made_up(holds, exactness="rounding", **options):
    return Property("relu", "made_up", "properties", exactness, "it holds", holds, **options)


def tried(holds, exactness="rounding", implementation=None, given=None, **options):
    spec = SPECS["relu"]
    op = Subject(implementation or spec.ours(), spec)
    return trial_of(op, spec, made_up(holds, exactness, **(given or {})), **options)


def holds(op, x):
    return None


def test_as_many_examples_are_drawn_as_are_asked_for_and_not_all_alike():
    seen = []
    trial = tried(lambda op, x: seen.append((x.shape, x.dtype.str, x.tobytes())), examples=30)
    assert (trial.tries, trial.failed, trial.finding().outcome) == (30, False, "holds")
    assert len(set(seen)) > 25
    again, other = [], []
    tried(lambda op, x: again.append((x.shape, x.dtype.str, x.tobytes())), examples=30)
    tried(lambda op, x: other.append((x.shape, x.dtype.str, x.tobytes())), examples=30, seed=1)
    assert again == seen != other
    assert tried(holds, examples=30, given={"once": True}).tries == 1
    assert tried(holds, examples=4, given={"wide": True}).tries == 4 or not list(long_cases(SPECS["relu"].case))
    assert [made_up(holds, once=once).at_most(50) for once in (False, True)] == [50, 1]
    assert [made_up(holds, wide=True).at_most(examples) for examples in (50, 6, 3)] == [6, 6, 3]


def test_leading_axes_and_sizes_are_those_of_the_property():
    def shapes(**given):
        found = []
        tried(lambda op, x: found.append(x.shape), examples=40, given=given)
        return found

    assert {len(shape) > 2 for shape in shapes()} == {True, False}
    assert all(0 in shape for shape in shapes(leads=EMPTY_BATCHES))
    assert all(shape[:3] == (2, 1, 3) for shape in shapes(leads=((2, 1, 3),)))
    assert all(min(shape) >= 20 for shape in shapes(leads=((),), wide=True))
    assert LEADS == ((), (1,), (2,), (2, 3))


def test_a_failing_case_is_shrunk_and_still_fails():
    def no_large_entry(op, x):
        if x.size > 3 and np.any(x > 1):
            raise Violation("too large", x.size, 3)

    whole = tried(no_large_entry, examples=50)
    kept = whole.failure().case["x"]
    assert whole.failed
    assert kept.size > 3
    assert np.any(kept > 1)
    assert 4 <= kept.size <= 6
    quick = tried(no_large_entry, examples=50, shrink=False)
    assert quick.failed
    assert quick.tries < whole.tries
    found = whole.finding()
    assert (found.outcome, found.message, found.got, found.expected) == ("fails", "too large", str(kept.size), "3")
    assert found.counterexample == show_case({"x": kept})


def test_no_source_is_read_for_constants_so_that_nothing_is_written_beside_a_notebook(monkeypatch):
    from hypothesis.internal.conjecture import providers

    def reads():
        raise AssertionError("hypothesis reads the source of local modules, and writes what it finds into .hypothesis")

    monkeypatch.setattr(providers, "_get_local_constants", reads)
    trial = tried(lambda op, x: close(x, 0 * x, 1e-9, "x"))
    assert trial.failed
    assert trial.tries > 50                                     # hypothesis has drawn cases, too
    assert providers._get_local_constants is reads              # for others it is as it was


def test_when_time_is_out_a_failure_keeps_its_case():
    calls = []

    def the_first(op, x):
        calls.append(np.array(x))
        if len(calls) == 1 or np.array_equal(x, calls[0]):
            raise Violation("the first", 1.0, 2.0)
        time.sleep(0.05)  # each of the others holds, until no time is left

    trial = tried(the_first, examples=20, shrink=False, budget=0.12)
    assert len(calls) < 20
    np.testing.assert_array_equal(trial.failure().case["x"], calls[0])


def test_what_is_not_offered_or_missing_or_out_of_time_does_not_hold():
    def needs_more(op, x):
        raise MissingError("there is no `more`")

    missing = tried(needs_more, examples=9)
    assert (missing.tries, missing.finding().outcome, missing.finding().message) == (1, "skipped", "there is no `more`")

    def of_another_form(op, x):
        raise NotOfferedError("x with a batch axis")

    refused = tried(of_another_form, examples=9)
    assert (refused.tries, refused.finding().outcome) == (0, "skipped")
    assert refused.finding().message == "x with a batch axis"
    late = tried(holds, budget=-1.0)
    assert (late.finding().outcome, late.finding().message) == ("skipped", "there was no time left")
    slow = tried(lambda op, x: time.sleep(0.02), budget=0.1, examples=50)
    assert 1 <= slow.tries < 10
    assert slow.finding().outcome == "holds"


def test_an_exact_property_that_holds_to_rounding_is_a_note_or_strictly_a_failure():
    def rounds(op, x):
        raise RoundingViolation("y differs", 1.0, 2.0)

    loose, strict = tried(rounds, "exact", strict=False, examples=5), tried(rounds, "exact", examples=5)
    assert (loose.finding().outcome, loose.tries) == ("holds", 5)
    assert loose.finding().note == "y differs: 2.0, and 1.0"
    assert strict.finding().outcome == "fails"


def test_what_fails_on_some_calls_only_is_said_to():
    calls = []

    def at_times(op, x):
        calls.append(1)
        if len(calls) == 7:
            raise Violation("odd")

    found = tried(at_times, examples=20).finding()
    assert found.outcome == "fails"
    assert "not at every call" in found.message


def test_a_result_that_cannot_be_looked_at_fails():
    found = tried(lambda op, x: {}["p"], examples=5).finding()
    assert (found.outcome, found.sort) == ("fails", "type")
    assert found.message == "its result cannot be used: KeyError: 'p'"
    found = tried(lambda op, x: op(x), implementation=lambda x: x.nothing, examples=5).finding()
    assert (found.sort, found.hint) == ("raised", "What does that line do with this input?")
    assert found.cause == f"AttributeError {found.place}"


def test_a_training_without_an_end_is_skipped():
    """For any other property an endless call is a failure: test_runner.py."""
    def endless(op, x):
        while True:
            pass

    found = tried(endless, patience=0.05, budget=0.06, given={"once": True}).finding()
    assert (found.outcome, found.endless) == ("skipped", False)
    assert "--time-limit allows more" in found.message


@pytest.mark.parametrize("form", range(4), ids=["none", "left", "window", "random"])
def test_each_case_of_300_tokens_is_tried(form):
    """Wrong beyond 256 tokens, with one form of the mask."""
    spec = SPECS["softmax"]
    bad = list(long_cases(spec.case))[form]

    def change(right, s, mask=None):
        wrong = s.shape == bad["s"].shape and (mask is None) == (bad["mask"] is None)
        return plus(right(s, mask), 1) if wrong else right(s, mask)

    prop = next(p for p in properties_of(spec) if p.name == "large_sizes")
    found = trial_of(Subject(broken("softmax", change), spec), spec, prop, examples=6).finding()
    assert (found.outcome, found.tries >= 6) == ("fails", True)
    assert trial_of(Subject(spec.ours(), spec), spec, prop, examples=6).finding().tries == 10


def test_only_the_stages_that_are_asked_for_are_tried_and_the_rest_is_counted():
    report = check_in_process(broken("relu"), "relu", stages=("oracle",), examples=3)
    assert {f.stage for f in report.findings} == {"oracle"}
    assert all(f.tries == 3 for f in report.findings)
    assert report.not_run == 0


# tolerances


def test_the_rounding_error_that_is_allowed():
    """30 u √length · the largest term."""
    assert rounding(np.float64, 1, 1.0) == pytest.approx(30 * 1.1e-16)
    assert rounding(np.float32, 1, 1.0) == pytest.approx(30 * 6e-8)
    assert rounding(np.float64, 9, 2.0) == pytest.approx(30 * 1.1e-16 * 3 * 2)
    assert rounding(np.float64, 0, 0.0) == pytest.approx(30 * 1.1e-16 * 1e-30)
    assert largest(np.array([-3.0, 2.0]), None, np.zeros(0)) == 3
    assert largest(np.array([0.5])) == 1


def test_close_is_within_the_tolerance_and_not_beyond():
    close([1.0, 2.0], [1.0, 2.5], 0.5)
    close(np.array([1.0, 2.0]), np.array([1.1, 2.5]), np.array([0.2, 0.5]))
    close(np.zeros(0), np.zeros(0), 0)
    close(3.0, 3, 0)
    with pytest.raises(Violation, match=r"^y \[1\] is off by 0.5 \(allowed: 0.4\)") as wrong:
        close([1.0, 2.0], [1.1, 2.5], 0.4, "y ")
    assert (wrong.value.got, wrong.value.expected) == (2.0, 2.5)
    with pytest.raises(Violation, match=r"y\[0\] is off by 0.1"):                 # the worst by what is allowed there
        close([1.0, 2.0], [1.1, 2.5], np.array([0.01, 0.4]), "y")
    for bad in (np.nan, np.inf):
        with pytest.raises(Violation, match="off by inf"):
            close([bad], [1.0], 1e9)
    with pytest.raises(Violation, match="wrong shape") as shape:
        close([[1.0]], [1.0], 1)
    assert shape.value.sort == "shape"
    with pytest.raises(Violation, match="expected numbers") as kind:
        close(["1"], [1.0], 1)
    assert kind.value.sort == "type"


@pytest.mark.parametrize("compare", [lambda a, b: close(a, b, 0), same_bits], ids=["close", "same_bits"])
def test_a_few_units_in_the_last_place_are_rounding_and_more_are_not(compare):
    """FEW_ULP units of the largest entry."""
    one = np.array([1.0, 0.25])
    compare(one, one.copy())
    for units, kind in ((1, RoundingViolation), (FEW_ULP, RoundingViolation), (FEW_ULP + 2, Violation)):
        with pytest.raises(Violation) as found:
            compare(one + [0, units * EPS], one)
        assert type(found.value) is kind, units
    with pytest.raises(Violation) as whole:
        compare(np.array([1, 2]), np.array([1, 3]))
    assert type(whole.value) is Violation
    assert FEW_ULP == 16


def test_same_bits_of_a_scale_of_zeros_and_of_dtypes():
    same_bits(np.array([0.0, np.nan]), np.array([-0.0, np.nan]))
    with pytest.raises(RoundingViolation):
        same_bits(np.array([1.0 + 100 * EPS]), np.array([1.0]), scale=10.0)
    with pytest.raises(Violation) as found:
        same_bits(np.array([1.0 + 200 * EPS]), np.array([1.0]), scale=10.0)
    assert type(found.value) is Violation
    with pytest.raises(Violation, match="wrong dtype") as dtype:
        same_bits(np.zeros(2, "f4"), np.zeros(2))
    assert dtype.value.gravity == "contract"
    with pytest.raises(Violation, match=r"y\[1\] differs") as place:
        same_bits(np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 6.0]), "y")
    assert (place.value.got, place.value.expected) == (2.0, 5.0)


def test_untouched_forgives_no_rounding():
    untouched(np.array([0.0]), np.array([-0.0]), "x")
    with pytest.raises(Violation, match=r"x\[0\] differs") as found:
        untouched(np.array([1 + EPS]), np.array([1.0]), "x")
    assert type(found.value) is Violation


def test_all_digits_are_shown_of_a_value_and_six_of_a_case():
    assert show_value(np.float64(0.1) + np.float64(0.2)) == "0.30000000000000004"
    assert show_value(np.float32(0.1)) == "0.1"
    assert show_case({"x": np.array([1 / 3]), "n": 2, "none": None}) == "x = [0.333333]   float64 (1,)\nn = 2"


# cases


OPTIONAL = {(kind, name) for kind, spec in SPECS.items() for seed in range(12)
            for name, x in spec.case(CaseDrawer.seeded(seed)).items() if x is None}  # fmt: skip

EQUAL = {("block", "eps"), ("post_ln_block", "eps")}


@pytest.mark.parametrize("kind", [kind for kind, spec in SPECS.items() if spec.common])
def test_cases_reach_both_dtypes_every_option_and_sizes_from_1(kind):
    cases = [SPECS[kind].case(CaseDrawer.seeded(seed)) for seed in range(40)]
    floats = [next(x for x in case.values() if isinstance(x, np.ndarray) and x.dtype.kind == "f") for case in cases]
    assert {x.dtype.str for x in floats} == {"<f4", "<f8"}
    assert len({x.shape for x in floats}) > 15
    axes = {x.ndim for case in cases for x in case.values() if isinstance(x, np.ndarray)}
    assert len(axes) > 1 or kind == "bucket_bias"
    for name in cases[0]:
        values = [case[name] for case in cases]
        if (kind, name) in OPTIONAL:
            assert 4 < sum(x is None for x in values) < 36, name
        elif isinstance(values[0], bool):
            assert {*values} == {True, False}, name
        elif isinstance(values[0], int | float):
            assert len({*values}) > 1 or (kind, name) in EQUAL, name
    masks = [np.asarray(case["mask"]) for case in cases if isinstance(case.get("mask"), np.ndarray)]
    if masks:
        rows = [row for mask in masks for row in mask.reshape(-1, mask.shape[-1]) if mask.shape[-1] > 1]
        assert any(row.all() for row in rows)
        assert any(not row.any() for row in rows)
        assert any(row.any() and not row.all() for row in rows)


def test_ranking_cases_have_ties_with_the_target_cuts_on_both_sides_and_small_sizes():
    cases = [SPECS["ranking"].case(CaseDrawer.seeded(seed)) for seed in range(60)]
    tied = [np.sum(case["scores"] == case["scores"][case["target"]]) > 1 for case in cases]
    ranks = [np.sum(case["scores"] > case["scores"][case["target"]]) + 1 for case in cases]
    assert 10 < sum(tied) < 50
    assert 15 < sum(rank <= case["k"] for rank, case in zip(ranks, cases, strict=True)) < 55
    assert {case["k"] for case in cases} == {1, 2, 3, 5, 10, 20}
    assert min(len(case["scores"]) for case in cases) == 1
    assert max(len(case["scores"]) for case in cases) > 9


def test_padded_cases_have_full_sequences_short_ones_and_one_alone():
    cases = [SPECS["padding_invariance"].case(CaseDrawer.seeded(seed)) for seed in range(60)]
    lengths = [case["lengths"] for case in cases]
    assert all(n[0] == case["x"].shape[1] for n, case in zip(lengths, cases, strict=True))
    assert {len(n) for n in lengths} == {1, 2, 3}
    assert min(map(min, lengths)) == 1
    assert sum(np.any(n < n[0]) for n in lengths) > 25


def test_drawn_arrays_weights_and_masks():
    draws = [CaseDrawer.seeded(seed) for seed in range(60)]
    arrays = [draw.array(40, 5) for draw in draws]
    whole = sum(np.array_equal(x, np.round(x)) for x in arrays)
    assert 10 < whole < 30                                          # one in three
    assert 0.03 < np.mean([np.mean(x == 0) for x in arrays if not np.array_equal(x, np.round(x))]) < 0.07
    assert all(x.min() >= -2 and x.max() <= 3 for x in arrays if np.array_equal(x, np.round(x)))
    weights = [w for draw in draws if (w := draw.weights((2, 3))) is not None]
    assert 20 < len(weights) < 40
    assert all(np.any(w) and w.min() >= 0 and w.max() <= 2 for w in weights)
    assert any(np.any(w == 0) for w in weights)
    one = [w for draw in draws if (w := draw.weights((1,))) is not None]
    assert all(w[0] > 0 for w in one)
    assert {draw.size(2, 5) for draw in draws} == {2, 3, 4, 5}
    same = [draw.size_like(4) == 4 for draw in draws]
    assert 12 < sum(same) < 45


def test_a_spec_is_a_square_of_its_numbers_unless_it_says_otherwise():
    spec = SPECS["linear"]
    assert isinstance(spec, Spec)
    assert spec.scale({"x": np.array([-3.0]), "ids": np.array([9]), "b": None}) == 9


def test_code_that_writes_into_its_arguments_is_shown_what_it_got():
    def adam(vector, gradient, moments, step, **options):
        for x in (vector, *moments):
            x[...] = 77.25

    shown = check_in_process(adam, "adam", stages=("oracle",), examples=3).failures[0].counterexample
    assert "moments = Moments(m=array([" in shown
    assert "77.25" not in shown


def test_of_several_failures_the_largest_error_of_a_number_on_axes_of_several_entries_is_shown():
    wide, narrow = {"x": np.zeros((2, 3))}, {"x": np.zeros((1, 3))}
    shown = [(3.0, 1.0, wide), (10.5, 10.0, wide), (9.0, 1.0, narrow), (np.nan, 1.0, wide)]
    failures = [Failure(Violation("", got, expected), case, {}) for got, expected, case in shown]
    assert sorted(failures[::-1], key=Failure.oddity) == failures
