"""Run untrusted code in a child process, with time limits."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import importlib.util
import inspect
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .subject import CannotRunError, TooLongError, message_of

AGAIN = 0.5             # seconds: an exception that rings in a callback of the garbage collector is swallowed


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TooLongError in the block after `seconds`: on systems with SIGALRM, in the main thread."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def load(target: str) -> Any:
    """Import MODULE or FILE.py, with or without :OBJECT. Raises CannotRunError, saying what went wrong."""
    place, _, name = target.rpartition(":") if _has_object(target) else (target, "", "")
    try:
        if place.endswith(".py") or Path(place).is_dir():
            module = _from_file(Path(place))
        else:
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            module = importlib.import_module(place)
    except CannotRunError:
        raise
    except BaseException as error:
        raise CannotRunError(f"importing {place} raised {type(error).__name__}: {message_of(error)}") from error
    found: Any = module
    for part in name.split(".") if name else ():
        if not hasattr(found, part):
            public = ", ".join(n for n in dir(found) if not n.startswith("_"))
            raise CannotRunError(f"{place} has no `{part}`; it has: {public[:300]}")
        found = getattr(found, part)
    if inspect.isclass(found):
        try:
            found = found()
        except Exception as error:
            raise CannotRunError(f"{target}() raised {type(error).__name__}: {message_of(error)}") from error
    return found


def _has_object(target: str) -> bool:
    """Whether `target` ends in :OBJECT; the colon of a Windows drive does not count."""
    place, colon, name = target.rpartition(":")
    return bool(colon and place and name) and not name.startswith(("\\", "/"))


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise CannotRunError(f"{path} is {'a directory' if path.is_dir() else 'no file'}")
    sys.path.append(str(path.resolve().parent))  # for its imports of neighbouring files, after installed packages
    name = f"checked_{path.stem}"  # a file called random.py must not replace the standard module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class CheckerFailedError(RuntimeError):
    """The checker itself raised, not the code that is checked."""


OUT_OF_TIME = "it had not ended after"


def in_child(work: Callable[..., None], *args: Any, limit: float) -> Iterator[tuple[str, Any]]:
    """Run `work(send, *args)` in a child process, and yield what it sends: (what, value) pairs.

    Ends with ("ended", "") if `work` returned, else with ("ended", reason): out of time, or a crash.
    Raises CheckerFailedError where `work` itself raised.
    """
    context: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(there, work, args), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking a process with threads (BLAS)
        child.start()
    there.close()
    until = time.monotonic() + limit
    try:
        while True:
            if not here.poll(max(0.0, until - time.monotonic())):
                yield "ended", f"{OUT_OF_TIME} {limit:g} seconds"
                return
            try:
                message = here.recv()
            except EOFError:
                child.join(5)
                yield "ended", _died(child.exitcode)
                return
            except (pickle.UnpicklingError, ValueError, OSError, MemoryError):
                yield "ended", "it wrote into the pipe to the checker"
                return
            if message[0] == "broken":
                raise CheckerFailedError(f"the checker itself failed, which is no fault of the code:\n{message[1]}")
            yield message
            if message[0] == "ended":
                return
    finally:
        with contextlib.suppress(OSError, AttributeError):
            os.killpg(child.pid, signal.SIGKILL)  # the child and its own children
        child.kill()
        child.join()
        here.close()


def _child(pipe: Any, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    _die_with_the_parent()
    faulthandler.disable()  # a crash must not print to our stderr
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # its output is discarded
        os.dup2(nowhere.fileno(), 2)
        sys.stdout = sys.stderr = nowhere
        warnings.simplefilter("ignore")
        try:
            work(lambda what, value: pipe.send((what, value)), *args)
            pipe.send(("ended", ""))
        except KeyboardInterrupt:
            pipe.send(("ended", "it raised KeyboardInterrupt"))
        except BaseException:
            pipe.send(("broken", traceback.format_exc()))
        pipe.close()
        os._exit(0)


def _die_with_the_parent() -> None:
    """Start a process group, so that grandchildren can be killed; on Linux, die if the parent is killed."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpgid(0, 0)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _died(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the process died of {signal.Signals(-code).name}"
    return f"the process ended by itself, with exit code {code}"
