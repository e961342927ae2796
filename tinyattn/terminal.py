"""Text for people: every terminal can print it, and control characters in it are escaped."""

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

OUTPUT = "standard output"       # its name in an OSError

# control characters, and others that change the direction of writing or end a line; newline and TAB are printed
_CONTROLS = {*range(32), *range(127, 160), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)}
_ESCAPES = {code: repr(chr(code))[1:-1] for code in _CONTROLS - {ord("\n"), ord("\t")}}


def visible(text: str) -> str:
    """The text with control characters escaped: ESC is \\x1b."""
    return text.translate(_ESCAPES)


def quoted(value: Any) -> str:
    """The value as text, in quotes if it is empty, unprintable, or begins or ends with blanks."""
    text = str(value)
    return text if text and text == text.strip() and text.isprintable() else repr(text)


def shortened(text: str, most: int = 60) -> str:
    """The text, cut to `most` characters if it is longer; then it ends in three dots."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def filled(text: str) -> str:
    """Each line of the text, wrapped at the width of the terminal, or at 80 columns without one."""
    width = shutil.get_terminal_size((80, 24)).columns
    return "\n".join(textwrap.fill(line, width, break_on_hyphens=False) for line in text.splitlines())


def one_line(text: str) -> str:
    """`visible` text with newlines escaped, cut to a thousand characters: to quote files and arguments in messages."""
    return shortened(visible(text).replace("\n", r"\n"), 1000)


class _Stream:
    """A stream that writes `shown(text)`; each write and flush runs in the context `guard()`."""

    def __init__(self, stream: Any, shown: Callable[[str], str], guard: Callable[[], Any]) -> None:
        self._stream, self._shown, self._guard = stream, shown, guard

    def write(self, text: str) -> int:
        with self._guard():
            self._stream.write(self._shown(text))
        return len(text)

    def flush(self) -> None:
        with self._guard():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _naming_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, OUTPUT) from None


@contextmanager
def any_terminal() -> Iterator[None]:
    """A context in which control characters, and characters that standard output cannot encode, are printed as escapes.

    Streams may be closed or missing. Failed writes to standard error, which shows progress bars, are ignored.
    """
    before = sys.stdout, sys.stderr
    with ExitStack() as stack:
        out, err = (stack.enter_context(open(os.devnull, "w")) if stream is None else stream for stream in before)
        errors = getattr(out, "errors", None)
        if hasattr(out, "reconfigure"):
            out.reconfigure(errors="backslashreplace")
        sys.stdout = _Stream(out, visible, _naming_output)
        sys.stderr = _Stream(err, str, lambda: suppress(OSError, ValueError))
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            if hasattr(out, "reconfigure"):
                out.reconfigure(errors=errors)


def silence_output() -> None:
    """Discard what standard output could not write, so that Python does not try again at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_standard_handles() -> None:
    """Open handles 0 to 2 where they are closed, so that no file or pipe gets their number and is written into."""
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class _NoBar(AbstractContextManager[Any]):
    def __exit__(self, *error: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        pass

    def set_postfix_str(self, words: str) -> None:
        pass


def progress_bar(disable: bool | None = None, **how: Any) -> Any:
    """tqdm's progress bar. With `disable` None it is shown on terminals and in notebooks, unless TQDM_DISABLE is set.

    tqdm is imported only when a bar is shown, as the import takes 50 ms.
    """
    notebook = type(sys.stdout).__module__.startswith("ipykernel")
    if disable or (disable is None and not (notebook or sys.stderr.isatty())):
        return _NoBar()
    from tqdm import tqdm

    return tqdm(file=sys.stdout if notebook else sys.stderr, **{"leave": False} | how)  # notebooks show stderr in red
