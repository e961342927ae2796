"""The parent's side: start the processes that run answers, call them with time limits, and end them."""

import contextlib
import json
import os
import select
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .wire import Peer, Remote, WireError

PACKAGE = Path(__file__).parents[1]
SYSTEM = ("/usr", "/lib", "/lib64", "/etc/ssl", "/etc/localtime", "/etc/ld.so.cache")
STARTS = 4  # starts of a process for one answer
LATE = 2  # calls that may run out of time or memory; every later call raises at once
WALL = 5  # the limit of wall time, as a multiple of that of CPU time
LOOK = 0.05  # seconds between looks at the clocks


class EndedError(Exception):
    """The process of an answer has ended, or sent something that is no result."""


@dataclass(frozen=True)
class Limits:
    """Limits of an answer: bytes of `memory`; seconds to `define` it, for one `call`, and `in_all`. With `fenced`, the
    kernel isolates its process."""

    memory: int = 2**31
    define: float = 10.0
    call: float = 2.0
    in_all: float = 120.0
    fenced: bool = True


class Room:
    """A folder in which processes run answers, one at a time; `readable` are the files and folders that they may read.

    `hidden` is a folder that they may not read, even if it lies in a readable one. `too_long` is the exception that a
    call raises if it does not return in time. `end` ends the process, as does the end of a `with` block.
    """

    def __init__(
        self, folder: Path, limits: Limits, too_long: type[BaseException], readable: Iterable[Path], hidden: Path
    ):
        self.folder, self.limits, self.too_long = folder.resolve(), limits, too_long
        paths = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        paths |= {Path(sys.base_prefix) / "lib", Path(sys.prefix) / "lib", PACKAGE, *map(Path, SYSTEM), *readable}
        roots = {path.resolve() for path in paths if path.exists()}
        self._rules = [rule for root in sorted(roots) for rule in _without(root, hidden.resolve())]
        self.ended = ""  # how the last process ended
        self.process: subprocess.Popen[bytes] | None = None
        self.peer: _Watched | None = None

    def __enter__(self) -> "Room":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self) -> "_Watched":
        """The connection to the process, which is started if there is none. Raises OSError if it cannot be started."""
        if self.peer is None:
            limits = self.limits
            options = {
                "folder": str(self.folder),
                "memory": limits.memory,
                "computing": int(limits.in_all * STARTS * 10),
                "fenced": limits.fenced,
                "rules": [(str(path), readable) for path, readable in self._rules],
            }
            code = "from tinyattn.sandbox.player import main; main()"
            command = [sys.executable, "-c", code, json.dumps(options)]
            environment = {
                "PATH": os.defpath, "HOME": str(self.folder), "TMPDIR": str(self.folder), "LANG": "C.UTF-8",
                "PYTHONPATH": str(PACKAGE.parent), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1",
                "MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
            }  # fmt: skip
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self.folder,
                env=environment,
            )  # fmt: skip
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.peer = _Watched(self.process.stdout.fileno(), self.process.stdin.fileno(), self.process.pid)
        return self.peer

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            for pipe in (self.process.stdin, self.process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]
            self.process.wait()
        self.process = self.peer = None

    def during(self, seconds: float, until: float, work: "Callable[[_Watched], Any]") -> Any:
        """The result of `work(peer)`, within `seconds` of CPU time and before `until`. Ends the process on failure.

        Raises `too_long`, EndedError, and the errors of the answer.
        """
        try:
            peer = self.start()
            with peer.limited(seconds, until):
                return work(peer)
        except _LateError:
            self.end()
            raise self.too_long from None
        except Exception as error:
            if hasattr(error, "sent"):  # the answer raised it
                raise
            broken = isinstance(error, EOFError | WireError | OSError)
            says = f"it sent {error}" if isinstance(error, WireError) else self._how_it_ended()
            self.end()
            if not broken:
                raise
            self.ended = says
            raise EndedError(says) from None
        except BaseException:  # such as an alarm of the caller
            self.end()
            raise

    def _how_it_ended(self) -> str:
        assert self.process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(1)
            how = f"ended by itself, with exit code {code}" if code >= 0 else f"died of signal {-code}"
            return f"its process {how}"
        return "its process closed its connection"


class Answer:
    """A function of untrusted code that this process can call after `load`.

    A process that has ended is started again, at most STARTS times. Every call raises once `limits.in_all` seconds have
    passed since `load`, or once LATE calls have run out of time or memory, since such calls take long.
    """

    def __init__(self, room: Room, text: str, expression: str):
        self._room, self._text, self._expression, self._starts = room, text, expression, 0
        self._remote: Remote | None = None
        self._until = 0.0
        self._late: list[BaseException] = []

    def load(self) -> tuple[Any, str]:
        """Define the answer in its process. -> this object if it is a function, or else its value; and MODULE.NAME."""
        self._until = time.monotonic() + self._room.limits.in_all
        value, module = self._define()
        if not isinstance(value, Remote):
            return value, module
        self._remote, self.__name__ = value, value.__name__
        if hasattr(value, "__signature__"):
            self.__signature__ = value.__signature__
        return self, module

    def _define(self) -> tuple[Any, str]:
        self._starts += 1
        work = (self._text, self._expression)
        defined = self._room.during(self._room.limits.define, self._until, lambda peer: peer.call(0, work, {}))
        match defined:
            case (value, str(module)):
                return value, module
        self._room.end()
        raise EndedError("it sent no answer")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(self._late) == LATE:
            raise self._late[-1].with_traceback(None)
        if self._room.peer is None:
            if self._starts == STARTS:
                raise EndedError(f"its process has ended {STARTS} times: {self._room.ended}")
            value, _ = self._define()
            if not isinstance(value, Remote):
                raise EndedError("it is no function any more")
            self._remote = value
        assert self._remote is not None
        call: Any = (self._remote._number, args, kwargs)
        try:
            return self._room.during(self._room.limits.call, self._until, lambda peer: peer.call(*call))
        except (self._room.too_long, MemoryError) as error:
            self._late.append(error)
            raise

    def there(self, count: Callable[..., Any], *args: Any) -> Any:
        """count(this answer, *args) as its process computes it, or fakes it; `count` is a function of this package."""
        counts = f"__import__({count.__module__!r}, fromlist=['_']).{count.__name__}"
        expression = f"__import__('functools').partial({counts}, {self._expression})"
        function, _ = Answer(self._room, self._text, expression).load()
        return function(*args)


class _LateError(BaseException):
    """The process has computed too long."""


class _Watched(Peer):
    """The connection to a process: reading and writing end with _LateError when the time is up."""

    def __init__(self, read: int, write: int, process: int):
        super().__init__(read, write)
        os.set_blocking(write, False)
        self._process, self._depth = process, 0
        self._computed = self._clock = self._until = 0.0

    @contextlib.contextmanager
    def limited(self, seconds: float, until: float) -> Any:
        """Limit the block. Only the outermost block counts: inner ones are in functions that the answer called."""
        self._depth += 1
        if self._depth == 1:
            self._computed, self._clock = self._used() + seconds, time.monotonic() + WALL * seconds
            self._until = until
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.forget()

    def _used(self) -> float:
        """The process's CPU time in seconds on Linux; the wall time on other systems."""
        if sys.platform != "linux":
            return time.monotonic()
        with contextlib.suppress(OSError):
            return time.clock_gettime((~self._process << 3) | 2)
        return 0.0

    def wait(self, writing: bool) -> None:
        """Wait until the pipe is ready. Raises _LateError."""
        read, write = self.ends
        while True:
            now = time.monotonic()
            if now > min(self._clock, self._until) or self._used() > self._computed:
                raise _LateError
            if select.select([] if writing else [read], [write] if writing else [], [], LOOK)[writing]:
                return


def _without(root: Path, hidden: Path) -> Iterator[tuple[Path, bool]]:
    """Pairs (path, readable) that give the tree `root` without `hidden`; folders above `hidden` can only be listed."""
    if root in hidden.parents:
        yield root, False
        for path in root.iterdir():
            yield from _without(path, hidden)
    elif root != hidden:
        yield root, True
