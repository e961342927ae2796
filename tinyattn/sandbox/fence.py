"""Restrict this process through the kernel: its memory, processes, signals, files and network.

The process cannot lift these restrictions. Needs Linux on x86-64 or 64-bit ARM, with Landlock (5.13).
"""

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

# System calls by number, on x86-64 and on 64-bit ARM: to start a process or a thread, to run a program, to signal, to
# look into or to change another process, to lift a limit, to reach a network, to watch or to reconfigure the system.
_REFUSED = {
    "x86_64": (
        56, 57, 58, 435, 59, 322, 62, 200, 234, 129, 297, 424, 434, 438, 101, 310, 311, 302, 160, 41, 53, 42, 49, 165,
        155, 272, 308, 321, 298, 425, 426, 427, 250, 248, 249, 112, 109, 442,
    ),
    "aarch64": (
        220, 435, 221, 281, 129, 130, 131, 138, 240, 424, 434, 438, 117, 270, 271, 261, 164, 198, 199, 203, 200, 40, 41,
        97, 268, 280, 241, 425, 426, 427, 219, 217, 218, 157, 154, 442,
    ),
}  # fmt: skip
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NO_NEW_PRIVS, _SECCOMP = 38, 22
_RULESET, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same numbers everywhere
_WRITE_FILE, _READ_FILE, _READ_FOLDER = 2, 4, 8
_READ = _READ_FILE | _READ_FOLDER
_OF_FILES = _WRITE_FILE | _READ_FILE  # rights that a file can have
_ALL = {1: 2**13 - 1, 2: 2**14 - 1, 3: 2**15 - 1, 4: 2**15 - 1, 5: 2**16 - 1}  # rights by Landlock's version
_EPERM = 1


def available() -> str:
    """The reason why this system cannot isolate a process, or ""."""
    if sys.platform != "linux" or platform.machine() not in _REFUSED:
        return f"{sys.platform} on {platform.machine()} is not supported"
    return "" if _landlock_version() else "its kernel has no Landlock, or it is switched off"


def limit(memory: int, **others: int) -> None:
    """Limit this process's memory in bytes, and `others` by the names of `resource`, as CPU. Not on Windows."""
    import resource

    for name, most in {"AS": memory, **others}.items():
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS has some of them only in name
            resource.setrlimit(number, (most, most))


def die_with_the_parent() -> None:
    """On Linux: have this process killed when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9)


def close_off(folder: Path, rules: Iterable[tuple[str, bool]]) -> None:
    """Restrict this process to reading and writing in `folder`, and to the `rules`: pairs (path, readable).

    The files below a readable path can be read, those below others only listed. System calls that start processes or
    reach the network fail. Raises OSError where the system cannot do this.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _expect(libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0))
    rights = _ALL[min(_landlock_version(), max(_ALL))]
    ruleset = _expect(libc.syscall(_RULESET, struct.pack("<Q", rights), ctypes.c_size_t(8), 0))
    devices = ((Path("/dev") / name, _OF_FILES) for name in ("null", "urandom"))
    others = ((Path(name), _READ if readable else _READ_FOLDER) for name, readable in rules)
    for path, allowed in (*others, *devices, (folder, rights)):
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                allowed = allowed if path.is_dir() else allowed & _OF_FILES
                rule = struct.pack("<Qi", allowed, handle)
                _expect(libc.syscall(_ADD_RULE, ruleset, 1, rule, 0))
            finally:
                os.close(handle)
    _expect(libc.syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)
    machine = platform.machine()
    program = list(_filter(_AUDIT[machine], _REFUSED[machine]))
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in program))
    _expect(libc.prctl(_SECCOMP, 2, struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(code)), 0, 0))


def _filter(audit: int, refused: tuple[int, ...]) -> Iterable[tuple[int, int, int, int]]:
    """A program for the kernel's filter of system calls: the refused calls fail, and so do calls in another ABI."""
    load, equal, at_least, result = 0x20, 0x15, 0x35, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | _EPERM
    left = len(refused)
    yield load, 0, 0, 4  # the architecture
    yield equal, 0, left + 3, audit
    yield load, 0, 0, 0  # the number
    yield at_least, left + 1, 0, 0x40000000  # x32
    for i, number in enumerate(refused):
        yield equal, left - i, 0, number
    yield result, 0, 0, allow
    yield result, 0, 0, refuse


def _landlock_version() -> int:
    with contextlib.suppress(OSError, AttributeError):
        return max(0, ctypes.CDLL(None, use_errno=True).syscall(_RULESET, None, ctypes.c_size_t(0), 1))
    return 0


def _expect(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
