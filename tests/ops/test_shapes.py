"""Shapes at the door: what is let in, what is refused and in which words; and sums that undo broadcasting."""

import numpy as np
import pytest

from tests.strict import strict
from tinyattn.ops import Mask, shapes
from tinyattn.ops.shapes import expect, expect_mask, expect_onto, unbroadcast

pytestmark = pytest.mark.host


def ones(*shape):
    return np.ones(shape)


@pytest.mark.parametrize(
    ("spec", "given"),
    [
        ("...nd ...md", [(2, 3, 4), (2, 5, 4)]),
        ("d ...d", [(4,), (2, 3, 4)]),  # the leading axes are those of the first that has any
        ("...d d", [(4,), None]),
        ("nd d n", [(3, 4), (4,), (3,)]),
        ("...nn n", [(2, 3, 3), (3,)]),
    ],
)
def test_what_fits_is_let_in(spec, given):
    arrays = {f"x{i}": None if shape is None else ones(*shape) for i, shape in enumerate(given)}
    for _ in range(2):
        expect(spec, **arrays)


@pytest.mark.parametrize(
    ("spec", "given", "says"),
    [
        ("nd", [(3,)], r": x0 has shape \(3,\), expected \(n, d\)$"),
        ("nd", [(2, 3, 4)], r": x0 has shape \(2, 3, 4\), expected \(n, d\)$"),
        ("...nd", [(3,)], r": x0 has shape \(3,\), expected \(\.\.\., n, d\)$"),
        ("...d ...d", [(2, 4), (3, 4)], r": x1 has .* \(3, 4\), expected \(\.\.\., d\) with \.\.\. = \(2,\), d = 4$"),
        ("nd d n", [(3, 4), (4,), (5,)], r": x2 has shape \(5,\), expected \(n\) with n = 3$"),
        ("...nn", [(3, 4)], r": x0 has shape \(3, 4\), expected \(\.\.\., n, n\) with \.\.\. = \(\)$"),
        ("nn d n", [(3, 3), (4,), (4,)], r": x2 has shape \(4,\), expected \(n\) with n = 3$"),
        ("nd n", [(3, 4)], "zip"),  # a word without an argument
    ],
)
def test_what_does_not_fit_is_refused_in_these_words(spec, given, says):
    """After a call that fits, too: what is known to fit is not asked again."""
    expect("...nd", x0=ones(2, 3, 4))
    with pytest.raises(ValueError, match=says):
        expect(spec, **{f"x{i}": ones(*shape) for i, shape in enumerate(given)})


def test_arrays_of_two_modules_are_refused():
    host, there = ones(3), strict.asarray(ones(3))
    with pytest.raises(TypeError, match="arrays of numpy and of strict in one call"):
        expect("n n", x=host, y=there)
    with pytest.raises(TypeError, match="arrays of numpy and of strict in one call"):
        expect_onto((3,), np.float64, like=host, y=there)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (1, 3), (2, 1)])
def test_what_broadcasts_is_let_in(shape):
    expect_onto((2, 3), np.float64, x=ones(*shape), y=None)


@pytest.mark.parametrize("shape", [(2,), (3, 3), (1, 2, 3), (2, 2, 3)])
def test_what_does_not_broadcast_is_refused(shape):
    with pytest.raises(ValueError, match=r": x has shape \(.*\), expected one that broadcasts to \(2, 3\)$"):
        expect_onto((2, 3), np.float64, x=ones(*shape))


def test_a_mask_has_a_length_for_each_sequence():
    mask = Mask(lengths=np.array([5, 2]))
    for shape in ((2, 1, 5, 5), (2, 3, 4, 5), (3, 2, 1, 5, 5)):
        expect_mask(shape, mask)
    for shape in ((5, 5), (2, 5, 5), (3, 1, 5, 5), (2, 3, 1, 5, 5)):
        with pytest.raises(ValueError, match=r"the mask's lengths have shape \(2,\), expected \(B,\), one a sequence"):
            expect_mask(shape, mask)



@pytest.mark.parametrize("whole", [(2, 3, 4), (1, 4, 1, 5)])
def test_unbroadcast_is_what_a_derivative_by_a_repeated_entry_is(whole, rng):
    g = rng.standard_normal(whole)
    for ones_at in np.ndindex(*(2,) * len(whole)):
        full = tuple(1 if one else size for one, size in zip(ones_at, whole, strict=True))
        for shape in {full[i:] for i in range(len(full) + 1)}:
            where = tuple(i for i in range(-len(whole), 0) if -i > len(shape) or shape[i] == 1)
            expected = g.sum(axis=where, keepdims=True).reshape(shape)
            np.testing.assert_allclose(unbroadcast(g, shape), expected, rtol=0, atol=1e-13)


def test_weighted_and_plain_sums_of_rows_and_columns(rng):
    x, weights = rng.standard_normal((2, 3, 4)), rng.standard_normal(4)
    np.testing.assert_allclose(shapes.row_sum(x), x.sum(axis=-1, keepdims=True), rtol=0, atol=1e-14)
    np.testing.assert_allclose(shapes.row_sum(x, weights)[..., 0], x @ weights, rtol=0, atol=1e-14)
    np.testing.assert_allclose(shapes.column_sum(x), x.sum(axis=(0, 1)), rtol=0, atol=1e-14)
