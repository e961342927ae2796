"""What tells wrong cases from right ones."""

import numpy as np
import pytest

from tinyattn.check.contrast import contrast, parts, resemblance, right_up_to


def case(n=2, mask=None, form="a", dtype=np.float64):
    return {"x": np.zeros((n, 3), dtype), "mask": mask, "form": form}


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ([case()] * 3, [case(mask=1.0)] * 3, "mask is None"),
        ([case(mask=1.0)] * 3, [case()] * 3, "mask is passed"),
        ([case(form="b")] * 3, [case()] * 3, "form is 'b'"),
        ([case(1), case(2), case(2)], [case(3)] * 3, "x.shape[-2] is at most 2"),
        ([case()] * 3, [case(dtype=np.float32)] * 3, "x is float64"),
        ([case()] * 4, [case(mask=1.0)] * 3, "mask is None"),
    ],
)
def test_the_condition_under_which_all_is_right(right, wrong, says):
    told = contrast(list(map(dict, right)), list(map(dict, wrong)))
    assert told == f"Yours is right wherever {says}, and wrong elsewhere."


def test_a_condition_may_leave_a_few_right_cases_out_but_no_wrong_one_in():
    right, wrong = [case() for _ in range(4)], [case(mask=1.0) for _ in range(5)]
    assert contrast([*right, case(mask=1.0)], wrong).endswith("mask is None, and mostly wrong elsewhere.")
    assert contrast(right, [*wrong, case()]) == contrast(right[:2], wrong) == contrast(right, wrong[:2]) == ""
    assert contrast([*right, *(case(mask=1.0) for _ in range(5))], wrong) == ""


def test_some_results_are_wrong_and_some_are_right():
    assert parts({"dx": True, "dW": False, "db": True}) == "Wrong: dx, db. Right: dW."
    assert parts({"dx": True}) == parts({"dx": False}) == parts({}) == ""


@pytest.mark.parametrize(("most", "found"), [(3, (3, 4)), (17, (17, 32)), (0, None), (1000, None)])
def test_the_size_up_to_which_it_is_right(most, found):
    assert right_up_to(lambda n: n <= most) == found


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda y: 0 * y, "In each case yours is 0: is the way to it cut"),
        (lambda y: -y, "Yours has the opposite sign."),
        (lambda y: y * len(y), "times one number"),
        (lambda y: y + len(y), "plus one number"),
        (lambda y: y[::-1], "the right numbers in other places"),
        (lambda y: y + np.arange(len(y))[:, None], "right for the first token"),
        (lambda y: y + np.cos(y), ""),
    ],
)
def test_what_wrong_results_have_in_common_with_right_ones(change, says):
    right = [np.random.default_rng(n).normal(size=(n, 3)) for n in (2, 3, 4)]
    assert says in resemblance([(change(y), y) for y in right])
    assert bool(says) == bool(resemblance([(change(y), y) for y in right]))
    assert resemblance([(change(y), y) for y in right[:2]]) == ""
    for spoilt in ([(change(y)[:1], y) for y in right], [(change(y) + np.inf, y) for y in right]):
        assert resemblance(spoilt) == ""
