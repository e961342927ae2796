"""A decoder with a given mixer, in a process of its own: `python -m benchmarks.peers.mixers NAME-THREADS FOLDER`.

A contender with one thread is timed by its CPU time, which does not include other processes' time.
"""

import sys
import time
from functools import partial
from typing import Any

from benchmarks.peers import child


def load(name: str) -> Any:
    """The constructor of the contender NAME-THREADS, with its number of threads set."""
    name, threads = name.rsplit("-", 1)
    if name == "tinyattn":
        from benchmarks.peers.ours import TinyAttn

        return partial(TinyAttn, workers=int(threads))
    from benchmarks.peers.torch_mixers import TrainedMixer

    return partial(TrainedMixer, threads=int(threads))


class Alone(child.Child):
    clock = staticmethod(time.process_time)


if __name__ == "__main__":
    child.main(load, Alone if sys.argv[1].endswith("-1") else child.Child)
