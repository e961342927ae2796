"""Run untrusted code in a child process, with time limits."""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import importlib.util
import inspect
import io
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from .subject import CannotRunError, TooLongError, message_of

START = "fork" if sys.platform == "linux" else "spawn"  # elsewhere, a child forked after BLAS was used may crash
WAITING = 10  # the limit of wall time, as a multiple of that of CPU time: a call may wait for a core
AGAIN = 0.5  # seconds until an alarm is repeated: an exception raised in a garbage collector's callback is lost
SLACK = 1.1  # the first alarm comes later by this factor, since wall time exceeds CPU time a little


@contextlib.contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise TooLongError in the block after `seconds` of CPU time, or WAITING times as many of wall time.

    In the main thread of a system with SIGALRM this ends anything that Python can interrupt. Elsewhere, as on Windows,
    it ends loops of Python code, but no call that blocks.
    """
    main = threading.current_thread() is threading.main_thread()
    with _signal(seconds) if hasattr(signal, "setitimer") and main else _watcher(seconds):
        yield


def _late(seconds: float) -> Callable[[], bool]:
    """A function that returns whether the time is up, which is counted from now."""
    computed, clock = time.process_time(), time.monotonic()

    def late() -> bool:
        return time.process_time() - computed >= seconds or time.monotonic() - clock >= WAITING * seconds

    return late


@contextlib.contextmanager
def _signal(seconds: float) -> Iterator[None]:
    late, began = _late(seconds), time.monotonic()
    ended: list[bool] = []  # an append cannot be interrupted

    def ring(number: int, frame: Any) -> None:
        if late() and not ended:
            raise TooLongError

    before = signal.signal(signal.SIGALRM, ring)
    left = again = 0.0
    try:
        left, again = signal.setitimer(signal.ITIMER_REAL, SLACK * seconds, AGAIN)  # of an outer timer, as a plugin's
        yield
    finally:
        ended.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-3), again)


@contextlib.contextmanager
def _watcher(seconds: float) -> Iterator[None]:
    """Raise TooLongError in this thread from another thread, through the interpreter."""
    watched, lock, ended = ctypes.c_ulong(threading.get_ident()), threading.Lock(), threading.Event()
    late = _late(seconds)

    def watch() -> None:
        wait = SLACK * seconds
        while not ended.wait(wait):
            with lock:
                if late() and not ended.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(watched, ctypes.py_object(TooLongError))
            wait = AGAIN

    try:
        with contextlib.suppress(RuntimeError):  # no more threads: no alarm
            threading.Thread(target=watch, daemon=True).start()
        yield
    finally:
        while not ended.is_set():
            with contextlib.suppress(TooLongError), lock:  # TooLongError may still be raised here
                ended.set()
        # A loop raises a pending TooLongError here. After SetAsyncExc(None), Python 3.11's interpreter would look for
        # it for ever, and loop without end under sys.settrace.
        with contextlib.suppress(TooLongError):
            for _ in range(10):
                pass


def load(target: str) -> Any:
    """Import MODULE or FILE.py, with or without :OBJECT. Raises CannotRunError, with the reason."""
    place, name = split(target)
    is_file = place.endswith(".py") or Path(place).is_dir()
    if os.getcwd() not in sys.path:  # last for a file, whose imports find installed packages first
        sys.path.insert(len(sys.path) if is_file else 0, os.getcwd())
    try:
        module = _from_file(Path(place)) if is_file else importlib.import_module(place)
    except CannotRunError:
        raise
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and not is_file and Path(place).is_file():  # a notebook, or a text
            raise CannotRunError(f"{place} is no Python file: put the function into a file NAME.py") from None
        raise CannotRunError(f"importing {place} raised {type(error).__name__}: {message_of(error)}") from error
    loaded: Any = module
    for part in name.split(".") if name else ():
        if not hasattr(loaded, part):
            public = ", ".join(n for n in dir(loaded) if not n.startswith("_"))
            raise CannotRunError(f"{place} has no `{part}`; it has: {public[:300]}")
        loaded = getattr(loaded, part)
    return loaded


def split(target: str) -> tuple[str, str]:
    """-> the module or file, and the object's name, "" for none; the colon of a Windows drive does not count."""
    place, colon, name = target.rpartition(":")
    has_object = colon and place and name and not name.startswith(("\\", "/"))
    return (place, name) if has_object else (target, "")


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise CannotRunError(f"{path} is {'a directory' if path.is_dir() else 'no file'}")
    folder, name = path.resolve().parent, f"checked_{path.stem}"  # random.py must not replace the standard module
    sys.path.append(str(folder))  # for its imports of neighbouring files; installed packages first
    while (folder / "__init__.py").is_file():  # a file in a package may import from the package
        name, folder = f"{folder.name}.{name}", folder.parent
    if "." in name:
        sys.path.insert(0, str(folder))
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
WROTE = "it wrote into the pipe to the checker"
LONGEST_MESSAGE = 2**28  # bytes: no report is longer
ARRAYS = {(f"numpy.{core}.multiarray", name) for core in ("_core", "core") for name in ("_reconstruct", "scalar")} | {
    ("numpy", "ndarray"), ("numpy", "dtype")
}  # fmt: skip


class _Unpickler(pickle.Unpickler):
    """Makes only arrays and records of this library, so that a message cannot call any other function."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in ARRAYS:
            return super().find_class(module, name)
        record = getattr(sys.modules.get(module), name, None) if module.startswith("tinyattn.") else None
        if isinstance(record, type) and (is_dataclass(record) or hasattr(record, "_fields")):
            return record
        raise pickle.UnpicklingError(f"{module}.{name} is not something that a child sends")


class _Reader(threading.Thread):
    """Reads a child's messages in a thread, so that an incomplete message does not block the checker."""

    def __init__(self, connection: Any) -> None:
        super().__init__(daemon=True)
        self.connection, self.messages, self.ended = connection, queue.Queue[bytes | None](1), threading.Event()
        self.start()

    def run(self) -> None:
        message: bytes | None = b"first"
        with self.connection:
            while message and not self.ended.is_set():
                try:
                    message = bytes(self.connection.recv_bytes(LONGEST_MESSAGE))
                except EOFError:
                    message = None
                except (OSError, MemoryError):
                    message = b""  # no message, or one that is too long
                while not self.ended.is_set():
                    with contextlib.suppress(queue.Full):
                        self.messages.put(message, timeout=AGAIN)
                        break

    def next(self, until: float) -> bytes | None:
        """A message; b"" for an invalid one; None at the end. Raises queue.Empty where none comes in time."""
        return self.messages.get(timeout=max(0.0, until - time.monotonic()))


def in_child(work: Callable[..., None], *args: Any, limit: float) -> Iterator[tuple[str, Any]]:
    """Run `work(send, *args)` in a child process, and yield the pairs (what, value) that it sends.

    Ends with ("ended", "") if `work` returned, else with ("ended", reason): out of time, or a crash.
    Raises CheckerFailedError where `work` itself raised.
    """
    context: Any = multiprocessing.get_context(START)
    here, there = context.Pipe(duplex=False)
    supervised = START == "fork"
    child = context.Process(target=_supervised if supervised else _child, args=(there, work, args), daemon=True)
    with there, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking a process with threads (BLAS)
        child.start()
    until, reader = time.monotonic() + limit, _Reader(here)
    try:
        what: Any = ""
        while what != "ended":
            try:
                sent = reader.next(until)
                if sent is None:
                    child.join(5)
                what, value = ("ended", _died(child.exitcode)) if sent is None else _Unpickler(io.BytesIO(sent)).load()
            except queue.Empty:
                what, value = "ended", f"{OUT_OF_TIME} {limit:g} seconds"
            except Exception:  # pickle may raise anything on bytes that are no message
                what, value = "ended", WROTE
            if what == "broken":
                trace = str(value)[-10_000:]
                raise CheckerFailedError(f"the checker itself failed, which is no fault of the code:\n{trace}")
            yield what, value
    finally:
        reader.ended.set()
        if supervised:
            child.terminate()
            child.join(5)
        with contextlib.suppress(OSError, AttributeError):
            os.killpg(child.pid, signal.SIGKILL)  # the child, and its children that stayed in its group
        child.kill()
        child.join()


def sendable(implementation: Any) -> Any:
    """The implementation as an argument of `in_child`: under spawn, a module's name or file in place of the module.

    Raises CannotRunError for an object that a spawned child could not import.
    """
    if START == "fork" or isinstance(implementation, str):
        return implementation
    if inspect.ismodule(implementation) and (place := _place_of(implementation)):
        return place
    try:
        pickle.dumps(implementation)
        if getattr(implementation, "__module__", "") == "__main__" and _place_of(sys.modules["__main__"]) is None:
            raise TypeError("it was defined in a notebook or at a prompt")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise CannotRunError(
            f"this system starts a process anew, which cannot import it ({message_of(error)}); give its name instead, "
            "as FILE.py:OBJECT, or use check_in_process"
        ) from None
    return implementation


def _place_of(module: Any) -> str | None:
    """The name or the file from which `load` gets a module in another process, or None."""
    file, (top, *inside) = getattr(module, "__file__", None), module.__name__.split(".")
    specs = (finder.find_spec(top, None) for finder in sys.meta_path)  # importlib.util's looks in sys.modules first
    spec = next((spec for spec in specs if spec is not None), None)
    return module.__name__ if spec is not None and (inside or spec.origin == file) else file


def _supervised(pipe: Any, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    """On Linux: run `_child` in a child of this process. When it has ended, or on SIGTERM, end every process that it
    started, in any group and session. Then send how the child ended, and exit."""
    gc.freeze()  # collects nothing of the parent's: a destructor may wait for threads that were not forked
    _die_with_the_parent(signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphaned descendants become children of this process
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signals = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        child = os.fork()
    except OSError:
        pipe.send(("broken", traceback.format_exc()))
        os._exit(0)
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        _child(pipe, work, args)
    code = None
    while code is None and signal.sigwait(signals) == signal.SIGCHLD:
        ended, status = os.waitpid(child, os.WNOHANG)  # another child may have ended
        code = os.waitstatus_to_exitcode(status) if ended else None
    _end_descendants()
    with contextlib.suppress(OSError):  # after the time limit the pipe has no reader
        pipe.send(("ended", _died(code)))
    os._exit(0)


def _end_descendants() -> None:
    """Kill and wait for this process's descendants: a killed child's children become this process's."""
    with contextlib.suppress(OSError):  # no children, or no list of them
        while True:
            for child in Path("/proc/thread-self/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)


def _child(pipe: Any, work: Callable[..., None], args: tuple[Any, ...]) -> None:
    _die_with_the_parent()
    faulthandler.disable()  # a crash must not print to our stderr
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # the output is discarded
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


_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _die_with_the_parent(number: int | None = None) -> None:
    """Start a process group, so that grandchildren can be killed. On Linux, this process also gets a signal, by default
    SIGKILL, when its parent dies."""
    with contextlib.suppress(OSError, AttributeError):
        os.setpgid(0, 0)
    if sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL if number is None else number)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value)


def _died(code: int | None) -> str:
    if code is not None and code < 0:
        names = {known.value: known.name for known in signal.Signals}  # real-time signals have none
        return f"the process died of {names.get(-code, f'signal {-code}')}"
    return f"the process ended by itself, with exit code {code}"
