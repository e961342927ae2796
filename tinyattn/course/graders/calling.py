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

PATIENCE = 2.0          # seconds for one case
UNWRITTEN = Grade(UNANSWERED, "not answered yet")
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
        return Grade(WRONG, f"it raises {type(error).__name__}: {message_of(error)}")


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Discard what the answer prints and warns of in the block."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Kindly:
    """An answer, called kindly: with copies, and its results as arrays in the dtype of its arguments.

    `remarks` says what it does otherwise than a library would: "writes" into its arguments, returns a "list" or a wider
    "dtype". `narrow` says what loses digits: "float64 in, float32 out".
    """

    def __init__(self, answer: Callable[..., Any], returns: int):
        self.answer, self.returns = answer, returns
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
            if not dtypes:  # of whole numbers
                return self._array(result, np.dtype(float)) if isinstance(result, list) else result
            if self.returns > 1 and isinstance(result, tuple | list):
                return tuple(self._array(x, dtypes[0]) for x in result)
            one = isinstance(result, tuple) and len(result) == 1
            return self._array(result[0] if one else result, dtypes[0])

        self.call = call

    def _array(self, x: Any, dtype: np.dtype) -> Any:
        if isinstance(x, list | tuple):
            try:
                made = np.array(x)
            except ValueError:  # rows of different lengths
                return x
            if made.dtype.kind in "biuf":
                self.remarks.add("list")
                x = made if made.dtype.kind == "b" else made.astype(dtype)
        if not isinstance(x, np.ndarray | np.number | int | float) or isinstance(x, bool):
            return x
        x = np.asarray(x)
        if x.dtype.kind != "f":
            return x.astype(dtype) if x.dtype.kind in "iu" else x
        if x.dtype.itemsize > dtype.itemsize and x.ndim:
            self.remarks.add("dtype")
        elif x.dtype.itemsize < dtype.itemsize:
            self.narrow = f"{dtype} in, {x.dtype} out"
        return np.array(x, dtype)


def _copied(x: Any) -> Any:
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def _changed(before: Any, after: Any) -> bool:
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
