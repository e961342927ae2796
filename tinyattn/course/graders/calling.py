"""Answers are called: silently, for a limited time, kindly; and what they give is described."""

from __future__ import annotations

import contextlib
import functools
import io
import reprlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...check.isolation import alarm
from ...check.subject import TooLongError, message_of
from ..exercise import UNANSWERED, WRONG, Grade

PATIENCE = 2.0          # seconds of computing, for one case
UNWRITTEN = Grade(UNANSWERED, "not answered yet")
RAISES = (
    "Which line raises that? Call your function yourself and print the shapes before that line (check shows no prints)."
)
RETURNED_NONE = "it returned None. Is the `return` missing?"

Tempting = tuple[tuple[Any, ...], ...]  # (what readers give instead, a question) or (..., a question, the diagnosis)


def run_answer(answer: Callable[..., Any], *args: Any) -> Any:
    """`answer(*args)`; or a `Grade`, where it is not written yet, raises, or does not return in PATIENCE seconds.

    An AssertionError is passed on: it may be what a property says.
    """
    try:
        with silenced(), alarm(PATIENCE), np.errstate(all="ignore"):
            return answer(*args)
    except NotImplementedError:
        return UNWRITTEN
    except TooLongError:
        return Grade(WRONG, f"it had not returned after {PATIENCE:g} seconds.")
    except (KeyboardInterrupt, AssertionError):
        raise
    except BaseException as error:  # sys.exit() in an answer must not end the reader's process
        return Grade(WRONG, f"it raises {type(error).__name__}: {message_of(error)}", question=RAISES)


def as_truth(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The answer, with False for an AssertionError and True for None: a property may assert and return nothing."""

    @functools.wraps(answer)
    def holds(*args: Any, **kwargs: Any) -> Any:
        try:
            result = answer(*args, **kwargs)
        except AssertionError:
            return False
        return True if result is None else result

    return holds


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard what the answer prints and warns of in the block."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Kindly:
    """An answer, called kindly: with copies, and its results as arrays in the dtype of its arguments.

    It may pack its results otherwise than the task says, as one array of all of them, or a tuple of the only one; the
    `reference` tells how many axes a result has, and whether its numbers are whole, or True and False. `remarks` says
    what it does otherwise than a library would: "writes" into its arguments, returns a "list", a wider "dtype",
    "floats" for whole numbers, or "numbers" for True and False. `narrow` says what loses digits: "float64 in, float32
    out".
    """

    def __init__(self, answer: Callable[..., Any], returns: int, reference: Callable[..., Any]):
        self.answer, self.returns, self.reference = answer, returns, reference
        self.remarks: set[str] = set()
        self.narrow = ""

        @functools.wraps(answer)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = [_copied(x) for x in args]
            named = {name: _copied(x) for name, x in kwargs.items()}
            result = answer(*given, **named)
            before, after = (*args, *kwargs.values()), (*given, *named.values())
            if any(_changed(x, y) for x, y in zip(before, after, strict=True)):
                self.remarks.add("writes")
            dtypes = [x.dtype for x in before if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
            if result is None:
                return None
            dtype, kind = dtypes[0] if dtypes else None, functools.partial(self._kind, args, kwargs)
            result = self._unpacked(result, args, kwargs)
            if self.returns > 1 and isinstance(result, tuple | list):
                return tuple(self._array(x, dtype, functools.partial(kind, i)) for i, x in enumerate(result))
            return self._array(result, dtype, functools.partial(kind, 0))

        self.call = call

    def _unpacked(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results of one array that holds them all, and the only result of a tuple; anything else as it is."""
        if self.returns > 1:
            stacked = isinstance(result, np.ndarray) and result.ndim and len(result) == self.returns
            return tuple(result) if stacked and self._axes(args, kwargs) == result.ndim - 1 else result
        if not isinstance(result, tuple) or len(result) != 1:
            return result
        return result if self._axes(args, kwargs) == np.ndim(result[0]) + 1 else result[0]

    def _kind(self, args: tuple[Any, ...], kwargs: dict[str, Any], i: int) -> str:
        """The kind of dtype of the reference's result i; "" where it does not take what the answer takes."""
        try:
            expected = self.reference(*args, **kwargs)
            return np.asarray(expected[i] if self.returns > 1 else expected).dtype.kind
        except Exception:
            return ""

    def _axes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """How many axes the first result should have; -1 where the reference does not take what the answer takes."""
        try:
            expected = self.reference(*args, **kwargs)
        except Exception:
            return -1
        return np.ndim(expected[0] if self.returns > 1 else expected)

    def _array(self, x: Any, dtype: np.dtype | None, kind: Callable[[], str]) -> Any:
        """A result as an array: of whole numbers, or of True and False, where the reference's is, else of `dtype`."""
        if isinstance(x, list | tuple):
            try:
                made = np.array(x)
            except ValueError:  # rows of different lengths
                return x
            if made.dtype.kind in "biuf":
                self.remarks.add("list")
                x = made if made.dtype.kind != "f" or dtype is None else made.astype(dtype)
        if not isinstance(x, np.ndarray | np.number | int | float) or isinstance(x, bool):
            return x
        y = np.asarray(x)
        if _are_whole(y):
            asked = kind()
            if asked in ("i", "u"):
                if y.dtype.kind == "f" and y.ndim and y.size:
                    self.remarks.add("floats")
                return y.astype(int) if y.dtype.kind == "f" else x
            if asked == "b" and y.ndim and np.all((y == 0) | (y == 1)):
                self.remarks.add("numbers")
                return y.astype(bool)
        if dtype is None:  # of whole numbers
            return x
        if y.dtype.kind != "f":
            return y.astype(dtype) if y.dtype.kind in "iu" else y
        if y.dtype.itemsize > dtype.itemsize and y.ndim:
            self.remarks.add("dtype")
        elif y.dtype.itemsize < dtype.itemsize:
            self.narrow = f"{dtype} in, {y.dtype} out"
        return np.array(y, dtype)


def _are_whole(x: np.ndarray) -> bool:
    """Whether they are numbers that integers can hold."""
    return x.dtype.kind in "iu" or (x.dtype.kind == "f" and bool(np.all((x == np.round(x)) & (np.abs(x) < 2.0**53))))


def _copied(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(map(_copied, x))
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def _changed(before: Any, after: Any) -> bool:
    if isinstance(before, list | tuple):
        return len(before) != len(after) or any(map(_changed, before, after))
    return isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=before.dtype.kind == "f")


def described(x: Any) -> str:
    """What was given in place of an answer, in a few words."""
    if callable(x):
        return f"the function `{getattr(x, '__name__', type(x).__name__)}`"
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}" if x.dtype.kind != "O" else "an array of objects"
    name = type(x).__name__
    return f"{reprlib.repr(x)} ({name})" if type(x).__module__ in ("builtins", "numpy") else f"a {name}"


def no_function(answer: Any) -> Grade:
    """The grade of what cannot be called."""
    return Grade(WRONG, f"{described(answer)} is no answer here, expected a function")
