"""Rows that grow: nothing that anybody sees is written over, and a row is copied about once."""

import copy
import threading

import numpy as np

from tinyattn.layers.growing import GrowingRows


def rows(*values):
    return np.array(values, dtype=float)[None, :, None]  # (1, n, 1)


def seen(grown):
    return grown.rows.ravel().tolist()


def test_two_continuations_of_the_same_rows_do_not_meet():
    start = GrowingRows.none(rows(0)).append(rows(1, 2))
    left = start.append(rows(3))
    right = start.append(rows(4))
    more = left.append(rows(5))
    assert left.buffer is start.buffer
    assert [seen(x) for x in (start, left, right, more)] == [[1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 3, 5]]
    assert seen(right.append(rows(6, 7, 8))) == [1, 2, 4, 6, 7, 8]


def test_a_deep_copy_goes_on_by_itself():
    start = GrowingRows.none(rows(0)).append(rows(1))
    other = copy.deepcopy(start)
    assert seen(start.append(rows(2))) == [1, 2]
    assert seen(other.append(rows(3))) == [1, 3]


def test_of_many_threads_that_append_to_the_same_rows_each_sees_its_own():
    start, found = GrowingRows.none(rows(0)).append(rows(*range(50))), {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: start.append(rows(i))})) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {i: seen(grown)[-1] for i, grown in found.items()} == {i: i for i in range(8)}


def test_one_at_a_time_few_buffers_are_made_and_nbytes_are_those_of_the_rows():
    grown, buffers = GrowingRows.none(np.zeros((2, 0, 3))), set()
    for i in range(1000):
        grown = grown.append(np.full((2, 1, 3), float(i)))
        buffers.add(id(grown.buffer))
    assert len(buffers) <= 11
    assert grown.nbytes == grown.rows.nbytes == 2 * 1000 * 3 * 8
    np.testing.assert_array_equal(grown.rows[1, :, 2], np.arange(1000.0))


def test_rows_are_left_out_in_a_copy_or_none_are():
    grown = GrowingRows.none(rows(0)).append(rows(0, 1, 2, 3, 4, 5)).newest(5)
    fewer = grown.without(1, 3)
    assert (seen(grown), seen(fewer), seen(fewer.append(rows(6)))) == ([1, 2, 3, 4, 5], [1, 4, 5], [1, 4, 5, 6])
    assert seen(grown.without(0, 5)) == []
    assert grown.without(2, 2) is grown.without(2, -1) is grown


def test_the_newest_rows_alone_need_no_more_room_however_many_there_were():
    grown = GrowingRows.none(rows(0))
    for i in range(200):
        grown = grown.append(rows(i)).newest(4)
    assert seen(grown) == [196, 197, 198, 199]
    assert grown.buffer.shape[-2] <= 10
    assert grown.nbytes == 4 * 8
    assert seen(grown.newest(None)) == seen(grown.newest(9)) == seen(grown)
