"""Text for people: every terminal can print it, and control characters in it are escaped."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

OUTPUT = "standard output"       # as an OSError calls it

# control characters, and those that turn the direction of writing or end a line; but no newline and no TAB
_OBEYED = {*range(32), *range(127, 160), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)}
_SHOWN = {code: repr(chr(code))[1:-1] for code in _OBEYED - {ord("\n"), ord("\t")}}


def visible(text: str) -> str:
    """The text with what a terminal would obey written as Python writes it: ESC is \\x1b."""
    return text.translate(_SHOWN)


def quoted(value: Any) -> str:
    """As text, in quotes where a reader could not see what it is: with blanks at its ends, unprintable, empty."""
    text = str(value)
    return text if text and text == text.strip() and text.isprintable() else repr(text)


def shortened(text: str, most: int = 60) -> str:
    """The text, or so many characters of its beginning and three points."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def one_line(text: str) -> str:
    """The text as `visible`, line ends too, and at most a thousand characters of it: what files and arguments hold
    comes back in messages about them."""
    return shortened(visible(text).replace("\n", r"\n"), 1000)


class _Output:
    """Standard output, on which everything is `visible`; its errors name it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _named():
            self._stream.write(visible(text))
        return len(text)

    def flush(self) -> None:
        with _named():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Progress:
    """Standard error, where bars move: if the terminal is gone, the work goes on."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, OUTPUT) from None


@contextmanager
def any_terminal() -> Iterator[None]:
    """Within it, what the encoding of standard output lacks is printed as an escape, streams may be closed or not
    there, and control characters are shown."""
    before = sys.stdout, sys.stderr
    with ExitStack() as stack:
        out, err = (stack.enter_context(open(os.devnull, "w")) if stream is None else stream for stream in before)
        errors = getattr(out, "errors", None)
        if hasattr(out, "reconfigure"):
            out.reconfigure(errors="backslashreplace")
        sys.stdout, sys.stderr = _Output(out), _Progress(err)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            if hasattr(out, "reconfigure"):
                out.reconfigure(errors=errors)


def silence_output() -> None:
    """What standard output could not take is forgotten: Python would try again at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_standard_handles() -> None:
    """Where a standard stream was closed, nothing takes its number: a file or pipe that did would be written into."""
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
