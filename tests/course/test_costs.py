"""Steps and memory of a call are counted, and leave no trace behind."""

import sys
import tracemalloc

import numpy as np
import pytest

from tinyattn.course.costs import peak, steps


def loop(n):
    for _ in range(n):
        pass


def test_steps_grow_with_a_loop_and_not_with_an_array():
    assert steps(loop, 200) - steps(loop, 100) == steps(loop, 300) - steps(loop, 200) > 100
    assert steps(lambda x: x + 1, np.zeros(10)) == steps(lambda x: x + 1, np.zeros(1000))


def test_peak_is_what_is_alive_at_a_time():
    x = np.zeros(100_000)
    assert 1 <= peak(lambda: x + 1) / x.nbytes < 1.1
    assert 2 <= peak(lambda: (x + 1, x + 2)) / x.nbytes < 2.1
    assert peak(lambda: np.add(x, 1, out=x)) < 0.1 * x.nbytes


def test_a_call_that_raises_ends_the_counting():
    for count in (steps, peak):
        with pytest.raises(ZeroDivisionError):
            count(lambda: 1 / 0)
    assert sys.gettrace() is None or "follow" not in repr(sys.gettrace())
    assert not tracemalloc.is_tracing()
