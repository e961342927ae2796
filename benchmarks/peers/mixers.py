"""A decoder with some mixer, in a process of its own: `python -m benchmarks.peers.mixers NAME-THREADS FOLDER`.

A contender with one thread is timed by the CPU clock, which does not count what others on the machine take.
"""

import sys
import time
from functools import partial
from typing import Any

from benchmarks.peers import child


def load(name: str) -> Any:
    """What makes the contender, with so many threads; this imports what it needs."""
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
