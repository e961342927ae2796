"""Untrusted functions in a process of their own: what passes, and what the process cannot do."""

import functools
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tinyattn.sandbox import Answer, EndedError, Limits, Room, fence
from tinyattn.sandbox.wire import Peer, WireError

pytestmark = pytest.mark.skipif(bool(fence.available()), reason="this system cannot close off a process")
HIDDEN = Path(__file__).parents[2] / "notebooks"
LIMITS = Limits(memory=2**30, call=0.5, in_all=30.0)


class LateError(BaseException):
    pass


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    folder = tmp_path_factory.mktemp("room")
    (folder.parent / "other.txt").write_text("an answer")
    with Room(folder, LIMITS, LateError, [], HIDDEN) as made:
        yield made


def called(room, body, *args, head="def f(*args):"):
    text = "import os, sys\nimport numpy as np\n" + head + "".join(f"\n    {line}" for line in body.split("\n"))
    return Answer(room, text, "f").load()[0](*args)


def echo(room, x):
    return called(room, "return args[0]", x)


@pytest.mark.parametrize(
    "x",
    [None, True, 3, -0.0, float("inf"), "naïve", [1, (2, [])], {"a": (1,)}, 1 + 2j, Fraction(1, 3), np.float32(0.1),
     np.arange(6).reshape(2, 3).T, np.zeros((0, 4), np.float16), np.array(5), np.array([True, False]),
     np.array([np.nan, -0.0])],
    ids=repr,
)  # fmt: skip
def test_values_arrive_as_they_were(room, x):
    got = echo(room, x)
    assert type(got) is type(x)
    np.testing.assert_equal(got, x)
    if isinstance(x, np.ndarray):
        assert (got.dtype, got.flags.f_contiguous) == (x.dtype, x.flags.f_contiguous)
        assert got.flags.writeable


def test_other_values_keep_the_name_of_their_type_alone(room):
    assert type(called(room, "return {1, 2}")).__name__ == "set"
    assert type(called(room, "return ...")).__name__ == "ellipsis"
    assert called(room, "return np.array([object()])").dtype == object
    assert (
        called(room, "class Tensor:\n    def __array__(self, *_, **__): return np.ones(2)\nreturn Tensor()").sum() == 2
    )


def test_functions_are_called_where_they_are(room):
    assert called(room, "return args[0](2) + 1", lambda x: 10 * x) == 21
    assert called(room, "return args[0](lambda y: y + 1)", lambda f: f(f(1))) == 3
    assert called(room, "return args[0](args[0])(5)", lambda f: f) == 5
    caught = "try:\n    args[0]()\nexcept ZeroDivisionError as error:\n    return str(error)"
    assert called(room, caught, lambda: 1 / 0) == "division by zero"
    kept = []
    answer, _ = Answer(room, "kept = []\ndef f(g):\n    kept.append(g)\n    return kept[0]()", "f").load()
    assert answer(lambda: 1) == 1
    with pytest.raises(Exception, match="never sent"):
        answer(lambda: kept.append(2))
    assert not kept  # a function of an earlier call is not called


def test_the_signature_and_the_module_are_known(room):
    from inspect import signature

    answer, module = Answer(room, "def f(a, b=2, *, c='x', d=[]): pass", "f").load()
    assert (str(signature(answer)), answer.__name__, module) == ("(a, b=2, *, c='x', d='...')", "f", "__main__.f")
    assert Answer(room, "from tinyattn.ops import softmax", "softmax").load()[1].startswith("tinyattn.ops")
    assert Answer(room, "x = 3", "x + 1").load()[0] == 4


@pytest.mark.parametrize(
    "error",
    ["ValueError('no')", "AssertionError()", "NotImplementedError", "SystemExit(0)", "KeyboardInterrupt",
     "type('TooLongError', (BaseException,), {})('no')"],
)  # fmt: skip
def test_errors_arrive_by_name_and_the_process_goes_on(room, error):
    process = room.start()
    with pytest.raises(Exception, match=r"^(no|0|)$") as raised:
        called(room, f"raise {error}")
    assert type(raised.value).__name__ == error.partition("(")[0].replace("type", "TooLongError")
    assert room.start() is process


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("os._exit(0)", "exit code 0"),
        ("os.write(4, b'x' * 99)", "it sent"),
        ("[os.close(i) for i in range(99)]", "ended|closed"),
        ("os.write(4, (2).to_bytes(8, 'little') + bytes(8) + b'[]')", "unknown kind"),
        ("os.write(4, (2**40).to_bytes(8, 'little') + bytes(8))", "bytes"),
        ("for i in range(9):\n    os.write(4, (2).to_bytes(8, 'little') + bytes(8) + b'[]')", "unknown kind"),
    ],
)
def test_a_process_that_ends_or_talks_nonsense_has_no_result(room, body, why):
    with pytest.raises(EndedError, match=why):
        called(room, body)
    assert echo(room, 1) == 1


@pytest.mark.slow(seconds=3)
@pytest.mark.parametrize("body", ["while True: pass", "while True:\n    try:\n        while True: pass\n"
                                  "    except BaseException: pass"])  # fmt: skip
def test_a_call_without_end_is_late_and_so_are_those_after_two(room, body):
    answer, _ = Answer(room, f"def f():\n    {body.replace(chr(10), chr(10) + '    ')}", "f").load()
    for _ in range(9):
        with pytest.raises(LateError):
            answer()


def test_an_answer_that_took_all_memory_twice_is_called_no_more(room):
    text = "calls = []\ndef f(n=10**9):\n    calls.append(n)\n    return np.ones(n), len(calls)"
    answer, _ = Answer(room, f"import numpy as np\n{text}", "f").load()
    for _ in range(2):
        with pytest.raises(MemoryError):
            answer()
        assert room.peer is not None
    room.end()
    for n in (10**9, 1):
        with pytest.raises(MemoryError):
            answer(n)
    assert room.peer is None


def test_memory_is_limited(room):
    with pytest.raises(MemoryError):
        called(room, "return np.ones(10**9)")
    with pytest.raises((MemoryError, LateError, EndedError)):
        called(room, "x = [0]\nwhile True:\n    x = x + x")


@pytest.mark.parametrize(
    "body",
    [
        "os.fork()",
        "os.kill(os.getppid(), 9)",
        "os.kill(-1, 9)",
        "import subprocess\nsubprocess.run(['true'])",
        "import _posixsubprocess\nos.posix_spawn('/bin/true', ['true'], {})",
        "import socket\nsocket.socket()",
        "import threading\nthreading.Thread(target=print).start()",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "open(f'/proc/{os.getppid()}/mem', 'rb')",
        "os.listdir('..')",
        "open('../other.txt').read()",
        "os.symlink('../other.txt', 'link')\nopen('link').read()",
        "open('../marks.csv', 'w')",
        "os.remove('../other.txt')",
        "open('/etc/passwd').read()",
        f"open({str(HIDDEN / '00_first_look.py')!r}).read()",
    ],
)
def test_the_kernel_refuses(room, body):
    before = os.listdir(room.folder.parent)
    with pytest.raises((OSError, RuntimeError, ValueError)) as raised:
        called(room, body)
    assert hasattr(raised.value, "sent")  # the answer's error, not an end of its process
    assert os.listdir(room.folder.parent) == before


def test_no_child_survives_a_call_of_the_kernel_itself(room):
    numbers = {"x86_64": (57, 56, 435, 62), "aarch64": (220, 220, 435, 129)}[os.uname().machine]
    body = f"import ctypes\nreturn [ctypes.CDLL(None).syscall(n, os.getppid(), 0) for n in {numbers}]"
    assert called(room, body) == [-1] * 4


def test_the_folder_is_the_processes_own_and_the_environment_is_clean(room, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    room.end()
    assert called(room, "open('mine', 'w').write('x')\nreturn open('mine').read()") == "x"
    assert called(room, "return os.environ.get('SECRET')") is None
    assert called(room, "return os.environ['HOME']") == str(room.folder)
    assert called(room, "return sys.argv[1:]") == []


def test_a_call_is_counted_where_it_runs(room):
    answer, _ = Answer(room, "import os\ndef f(a, b):\n    return f'{a}{b} {os.getpid()}'", "f").load()
    assert answer.there(functools.reduce, ["a", "b"]) == answer("a", "b") != f"ab {os.getpid()}"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (b'["call"', b""), (b'["return", ["array", "<f8", [2], "C"]]', bytes(8)), (b"7", b""),
        (b'["return", ["array", "|O8", [1], "C"]]', bytes(8)), (b'["return", ["array", "<f8", [-1], "C"]]', b""),
        (b'["return", ["array", "<f8", [true], "C"]]', bytes(8)), (b'["return", ["nothing"]]', b""),
        (b'["return", ["back", 3]]', b""), (b'["return", ["function", 0, "f", [["a", 9, []]]]]', b""),
        (b"[" * 100_000, b""), (b'["return", ["fraction", 1, 0]]', b""),
    ],
)  # fmt: skip
def test_bytes_that_are_no_message(text, body, tmp_path):
    head = len(text).to_bytes(8, "little") + len(body).to_bytes(8, "little")
    (tmp_path / "sent").write_bytes(head + text + body)
    with open(tmp_path / "sent", "rb") as file, pytest.raises(WireError):
        Peer(file.fileno(), file.fileno()).receive()


def test_a_hidden_folder_is_left_out_of_the_tree_around_it(tmp_path):
    """As an installed package holds the solutions."""
    from tinyattn.sandbox.room import _without

    for name in ("site/numpy", "site/course/chapters", "site/course/graders"):
        (tmp_path / name).mkdir(parents=True)
    site = tmp_path / "site"
    rules = dict(_without(site, site / "course" / "chapters"))
    assert rules == {site: False, site / "numpy": True, site / "course": False, site / "course" / "graders": True}
    assert dict(_without(site / "numpy", site / "course")) == {site / "numpy": True}
    assert not list(_without(site, site))
