"""The checker's child process and its alarms, also without the features that other systems lack."""

import gc
import importlib.util
import os
import signal
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest

from tests.check import variants
from tinyattn import ops
from tinyattn.check import check_implementation, isolation
from tinyattn.check.isolation import alarm, in_child, load, sendable
from tinyattn.check.subject import CannotRunError, TooLongError

ENDLESS = "def softmax(s, mask=None):\n    while True:\n        pass\n"


@pytest.fixture
def spawn(monkeypatch):
    monkeypatch.setattr(isolation, "START", "spawn")


@pytest.fixture(params=["a signal", "no signal", "another thread"])
def called(request, monkeypatch):
    """Calls a function with alarms by signal, without signals, and outside the main thread."""
    if request.param == "no signal":
        monkeypatch.delattr(signal, "setitimer", raising=False)
    with ThreadPoolExecutor(1) as pool:
        yield (lambda f: pool.submit(f).result(30)) if request.param == "another thread" else lambda f: f()


def too_long():
    with alarm(0.05):
        while True:
            pass


def test_an_endless_loop_is_ended_on_every_system_and_in_every_thread(called):
    with pytest.raises(TooLongError):
        called(too_long)


def quick():
    for i in range(30):
        with suppress(TooLongError), alarm(1e-5 * (i + 1)):
            pass
    time.sleep(0.01)
    return "nothing rang afterwards"


def test_an_alarm_rings_inside_its_block_only(called):
    assert called(quick) == "nothing rang afterwards"


def test_where_no_thread_starts_there_is_no_alarm(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.delattr(signal, "setitimer", raising=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with alarm(1e-3):
        time.sleep(0.01)


@pytest.mark.skipif(isolation.START != "fork", reason="only Linux gives orphans to another process than the first")
@pytest.mark.parametrize(
    ("ends", "how"),
    [
        (lambda: None, ""),
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "died of SIGSEGV"),
        (lambda: time.sleep(60), "it had not ended after"),
    ],
)
def test_what_it_starts_ends_with_it_in_whatever_session(ends, how):
    def work(send):
        if not os.fork():
            os.setsid()
            orphan = os.fork()
            if orphan:
                send("orphan", orphan)
                os._exit(0)
            time.sleep(60)
            os._exit(0)
        os.wait()
        ends()

    began = time.monotonic()
    (_, orphan), (_, said) = in_child(work, limit=1.0 if "after" in how else 30.0)
    assert how in said
    assert time.monotonic() - began < 20                 # the orphan has the pipe as well
    with pytest.raises(ProcessLookupError):
        os.kill(orphan, 0)


class Planted:
    """Plain pickle would end the process when it loads this."""

    def __reduce__(self):
        return os._exit, (0,)


WRITTEN = {
    "a call": lambda pipe: pipe.send(("finding", Planted())),
    "no message": lambda pipe: pipe.send(5),
    "what no check sends": lambda pipe: pipe.send(("nonsense", 5)),
    "of another type": lambda pipe: pipe.send(("finding", 5)),
    "a name that is a list": lambda pipe: pipe.send(([], 5)),
    "bytes": lambda pipe: pipe.send_bytes(b"no pickle"),
    "too long": lambda pipe: os.write(pipe.fileno(), struct.pack("!i", isolation.LONGEST_MESSAGE + 1)),
}


@pytest.mark.skipif(isolation.START != "fork", reason="the pipe is found in a child that was forked")
@pytest.mark.parametrize("write", WRITTEN.values(), ids=list(WRITTEN))
def test_what_the_code_writes_into_the_pipe_is_no_report_and_calls_nothing(write):
    def relu(x):
        gc.unfreeze()
        write(next(x for x in gc.get_objects() if isinstance(x, Connection) and x.writable))
        return ops.relu(x)

    report = check_implementation(relu, "relu", examples=1, time_limit=20)
    assert not report
    assert isolation.WROTE in str(report)


@pytest.mark.skipif(isolation.START != "fork", reason="the pipe is found in a child that was forked")
def test_a_message_that_is_announced_and_does_not_come_ends_with_the_time():
    def work(send):
        gc.unfreeze()
        pipe = next(x for x in gc.get_objects() if isinstance(x, Connection) and x.writable)
        os.write(pipe.fileno(), struct.pack("!i", 1000) + b"x")
        time.sleep(60)

    began = time.monotonic()
    assert list(in_child(work, limit=0.5)) == [("ended", "it had not ended after 0.5 seconds")]
    assert time.monotonic() - began < 20


def test_an_endless_function_fails_where_there_are_no_signals(tmp_path, monkeypatch):
    monkeypatch.delattr(signal, "setitimer", raising=False)
    (tmp_path / "endless.py").write_text(ENDLESS)
    how = {"examples": 1, "patience": 0.2, "time_limit": 60, "strict": True}
    report = check_implementation(str(tmp_path / "endless.py"), "softmax", **how)
    assert not report.problem
    assert any(finding.endless for finding in report.findings)


def test_a_process_that_starts_anew_checks_a_module(spawn):
    report = check_implementation(ops, "relu", examples=1)
    assert report, str(report)


def test_a_file_imports_from_its_folder_and_from_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    for name, text in (("ours_/math.py", "pi = 3"), ("checks/beside.py", "pi = 4")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "checks" / "adapter.py").write_text("import beside, math, ours_.math\npis = [ours_.math.pi, beside.pi]")
    (tmp_path / "math.py").write_text("raise ImportError")  # it replaces no standard module
    assert load("checks/adapter.py:pis") == [3, 4]


def test_what_a_process_that_starts_anew_is_given(spawn, tmp_path, monkeypatch):
    assert sendable("student.py") == "student.py"
    assert sendable(ops) == "tinyattn.ops"
    assert sendable(variants) == "tests.check.variants"
    assert sendable(ops.relu) is ops.relu
    path = tmp_path / "student.py"
    path.write_text("from tinyattn.ops import relu\n")
    assert sendable(load(str(path))) == str(path)
    spec = importlib.util.spec_from_file_location("json", path)  # of a name that another module has
    assert sendable(importlib.util.module_from_spec(spec)) == str(path)


def test_what_no_other_process_can_import_is_said_in_one_line(spawn, monkeypatch):
    for implementation in (lambda x: x, sys.__class__("made_up")):
        report = check_implementation(implementation, "relu", examples=1)
        assert "starts a process anew" in report.problem
        assert "check_in_process" in report.problem
        assert "\n" not in report.problem
    main = sys.__class__("__main__")  # a notebook's
    exec("def relu(x): return x", main.__dict__)
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(CannotRunError, match="defined in a notebook"):
        sendable(main.relu)


def test_a_call_that_waits_for_a_core_is_given_more_time():
    with alarm(0.05):
        time.sleep(0.2)
    with pytest.raises(TooLongError), alarm(0.05):
        time.sleep(5)
