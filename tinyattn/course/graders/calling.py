"""Calls of answers: silent, limited in time, tolerant of style; and descriptions of their results."""

import contextlib
import functools
import io
import reprlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...check.isolation import alarm
from ...check.subject import TooLongError, by_name, message_of
from ..exercise import UNANSWERED, WRONG, Grade

PATIENCE = 2.0          # seconds of computing, for one case
UNWRITTEN = Grade(UNANSWERED, "not answered yet")
RAISES = (
    "Which line raises that? Call your function yourself and print the shapes before that line (check shows no prints)."
)
ONCE_IT_RUNS = "Yours stops before it has a result. Once it runs, compare it with this:"
RETURNED_NONE = "it returned None. Is the `return` missing?"

ALWAYS_NONE = Grade(WRONG, "it always returns None, expected True or False. Is the `return` missing?")

# Tuples such as (answer, question, diagnosis): a wrong answer, or another object, and its strings. A chapter writes a
# dict, name -> object; `Prose.exercises` adds the strings of the chapter's TOML file.
Listed = Any


def run_answer(answer: Callable[..., Any], *args: Any, may_assert: bool = False) -> Any:
    """`answer(*args)`, or a `Grade` if it is not written yet, raises, or does not return in PATIENCE seconds.

    With `may_assert` an AssertionError is passed on: a property may raise it on purpose.
    """
    try:
        with silenced(), alarm(PATIENCE), np.errstate(all="ignore"):
            return answer(*args)
    except NotImplementedError:
        return UNWRITTEN
    except TooLongError:
        return Grade(WRONG, f"it had not returned after {PATIENCE:g} seconds.")
    except BaseException as error:  # sys.exit() in an answer must not end the reader's process
        if isinstance(error, KeyboardInterrupt) or (may_assert and isinstance(error, AssertionError)):
            raise
        return Grade(WRONG, f"it raises {type(error).__name__}: {message_of(error)}", (), RAISES, ONCE_IT_RUNS)


def ask_property(answer: Callable[..., Any], *args: Any, advice: str = "np.all or bool") -> tuple[Any, str]:
    """Call a property. -> True, False, None if it returned nothing, or a `Grade`; and an AssertionError's message."""
    try:
        result = run_answer(answer, *args, may_assert=True)
    except AssertionError as error:
        return False, message_of(error)
    if isinstance(result, np.ndarray) and not result.ndim:
        result = result[()]
    if isinstance(result, bool | np.bool_):
        return bool(result), ""
    if result is None or isinstance(result, Grade):
        return result, ""
    question = f"Did you mean to wrap the result in {advice}?"
    return Grade(WRONG, f"it returns {described(result)}, expected True or False. {question}"), ""


def as_truth(answer: Callable[..., Any]) -> Callable[..., Any]:
    """The answer as a function that returns True or False: a property may assert instead, and return None."""

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
    """Discard prints and warnings in the block."""
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class TolerantCall:
    """Calls an answer with copies of its arguments, and makes its results arrays.

    Several results may be stacked in one array, or in a dict by `names`, with `all_names` only if none is missing; one
    result may be in a 1-tuple. Floats get the dtype of the first float argument; results become integers or booleans if
    the reference's are. `remarks` are deviations from a library's style: the answer "writes" into its arguments, or
    returns a "list", a wider "dtype", "floats" for integers, "numbers" for booleans, or a "tuple" for an array.
    `narrow` is a loss of digits, such as "float64 in, float32 out".
    """

    def __init__(
        self, answer: Callable[..., Any], returns: int, reference: Callable[..., Any], names: Sequence[str] = (),
        all_names: bool = False,
    ):  # fmt: skip
        self.answer, self.returns, self.reference = answer, returns, reference
        self.names, self.all_names = names, all_names
        self.remarks: set[str] = set()
        self.narrow = ""

        @functools.wraps(answer)
        def call(*args: Any, **kwargs: Any) -> Any:
            copies, keywords = _copied(list(args)), {name: _copied(x) for name, x in kwargs.items()}
            result = answer(*copies, **keywords)
            before, after = (*args, *kwargs.values()), (*copies, *keywords.values())
            if any(_changed(x, y) for x, y in zip(before, after, strict=True)):
                self.remarks.add("writes")
            dtypes = [x.dtype for x in before if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
            if result is None:
                return None
            dtype, expected = dtypes[0] if dtypes else None, functools.partial(self._expected, args, kwargs)
            result = self._unpacked(result, expected)
            if self.returns > 1 and isinstance(result, tuple | list):
                return tuple(self._array(x, dtype, functools.partial(expected, i)) for i, x in enumerate(result))
            return self._array(result, dtype, expected)

        self.call = call

    def _unpacked(self, result: Any, expected: Callable[[], np.ndarray | None]) -> Any:
        """Unpack stacked results into a tuple, and a 1-tuple into its element; return anything else unchanged."""
        if not (self.all_names and isinstance(result, dict) and len(result) < len(self.names)):
            result = by_name(result, self.names)
        if self.returns > 1:
            stacked = isinstance(result, np.ndarray) and result.ndim and len(result) == self.returns
            first = expected() if stacked else None
            return tuple(result) if first is not None and first.ndim == result.ndim - 1 else result
        if not isinstance(result, tuple) or len(result) != 1:
            return result
        first = expected()
        return result if first is not None and first.ndim == np.ndim(result[0]) + 1 else result[0]

    def _expected(self, args: tuple[Any, ...], kwargs: dict[str, Any], i: int = 0) -> np.ndarray | None:
        """Result i of the reference; None if the reference fails on the answer's arguments."""
        try:
            results = self.reference(*args, **kwargs)
            return np.asarray(results[i] if self.returns > 1 else results)
        except Exception:
            return None

    def _array(self, x: Any, dtype: np.dtype | None, expected: Callable[[], np.ndarray | None]) -> Any:
        """A result as an array: of integers or booleans if the reference's is, else of `dtype`."""
        if isinstance(x, list | tuple):
            try:
                array = np.array(x)
            except Exception:  # rows of different lengths, or an entry that NumPy cannot read
                array = np.asarray(None)
            if array.dtype.kind in "biuf":
                self.remarks.add("list")
                x = array if array.dtype.kind != "f" or dtype is None else array.astype(dtype)
            elif self.returns == 1 and isinstance(x, tuple):
                self.remarks.add("tuple")
        if not isinstance(x, np.ndarray | np.number | int | float) or isinstance(x, bool):
            return x
        y = np.asarray(x)
        if _are_whole(y):
            reference = expected()
            kind = "" if reference is None else reference.dtype.kind
            if kind in ("i", "u"):
                if y.dtype.kind == "f" and y.ndim and y.size:
                    self.remarks.add("floats")
                return y.astype(int) if y.dtype.kind == "f" else x
            if kind == "b" and y.ndim and np.all((y == 0) | (y == 1)):
                self.remarks.add("numbers")
                return y.astype(bool)
        if dtype is None:
            return x
        if y.dtype.kind != "f":
            return y.astype(dtype) if y.dtype.kind in "iu" else y
        if y.dtype.itemsize > dtype.itemsize and y.ndim:
            self.remarks.add("dtype")
        elif y.dtype.itemsize < dtype.itemsize:
            self.narrow = f"{dtype} in, {y.dtype} out"
        return np.array(y, dtype)


def _are_whole(x: np.ndarray) -> bool:
    """Whether all numbers of x are whole and exact as integers."""
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
    """A short description of an unexpected value, for messages."""
    if callable(x):
        return f"the function `{getattr(x, '__name__', type(x).__name__)}`"
    if isinstance(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}" if x.dtype.kind != "O" else "an array of objects"
    name = type(x).__name__
    return f"{reprlib.repr(x)} ({name})" if type(x).__module__ in ("builtins", "numpy") else f"a {name}"


def no_function(answer: Any) -> Grade:
    """The grade for an answer that cannot be called."""
    return Grade(WRONG, f"{described(answer)} is no answer here, expected a function")
