"""Ranks without MPI: threads of this process, which meet at a barrier."""

import functools
import operator
import threading
from concurrent.futures import ThreadPoolExecutor

from tinyattn.ranks import Ranks, sharing


class Thread(Ranks):
    """A rank of `size`, in a thread. `place` is where all of them leave what they tell the others."""

    def __init__(self, number, size, barrier, place):
        self.number, self.size, self.barrier, self.place = number, size, barrier, place

    def gather(self, value):
        self.place[self.number] = value
        self.barrier.wait()
        found = list(self.place)
        self.barrier.wait()  # all have read
        return found

    def sum(self, array):
        array[...] = functools.reduce(operator.add, self.gather(array.copy()))

    def wait(self):
        self.barrier.wait()


def side_by_side(size, f):
    """[f(rank) of every rank], or the exception that it raised. Whoever waits for it then gets one, too."""
    barrier, place = threading.Barrier(size, timeout=60), [None] * size

    def one(number):
        with sharing(Thread(number, size, barrier, place)) as rank:
            try:
                return f(rank)
            except Exception as error:
                return error

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(one, range(size)))
