"""Record what one call of an implementation returns and changes, to compare it with other implementations."""

from typing import Any

import numpy as np

from .cases import copied, in_dtype
from .common import dtype_of, upstream
from .property import Violation
from .spec import Spec
from .subject import MissingError, Subject


def observe_call(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """Results, gradients, dtypes, shared memory, changed inputs, whether equal calls are equal, or the error raised."""
    lent = copied(case)
    seen: dict[str, Any] = {}
    try:
        for name, x in zip(spec.outputs, op.outputs_of_lent(**lent), strict=True):
            if x is not None:
                seen |= {name: copy_in_dtype(x, case), f"dtype of {name}": str(getattr(x, "dtype", "number"))}
                shared = any(isinstance(x, np.ndarray) and np.shares_memory(x, y) for y in _arrays(lent).values())
                seen[f"own memory of {name}"] = not shared
        seen["changed"] = _changed(case, lent)
        again = zip(spec.outputs, op.outputs(**copied(case)), strict=True)
        same = (np.array_equal(copy_in_dtype(x, case), seen[n], equal_nan=True) for n, x in again if n in seen)
        seen["repeats"] = all(same)
    except Violation as violation:
        seen["forward"] = _raised(violation)
        return seen
    if not op.has_backward:
        return seen
    try:
        arguments = op.prepared(copied(case), upstream(spec, case))
        before = copied(arguments)
        gradients = op.name_gradients(case, op.backward(arguments))
        seen |= {f"gradient {name}": copy_in_dtype(g, case) for name, g in gradients.items()}
        seen |= {f"gradient's dtype {name}": str(getattr(g, "dtype", "number")) for name, g in gradients.items()}
        seen["gradient's changes"] = _changed(before, arguments)
    except Violation as violation:
        seen["gradient's error"] = _raised(violation)
    except MissingError:
        pass
    return seen


def copy_in_dtype(x: Any, case: dict[str, Any]) -> np.ndarray:
    """A copy, with floats in the dtype of the inputs, since dtypes are compared separately."""
    return in_dtype(np.array(x), dtype_of(case))


def _raised(violation: Violation) -> str:
    """The kind of error. An ArithmeticError counts as overflow, since other code for the same formula returns inf."""
    cause = violation.__cause__
    if isinstance(cause, ArithmeticError):
        return "overflow"
    return "raises" if cause is not None else str(violation)


def _changed(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return any(not np.array_equal(x, after[n], equal_nan=True) for n, x in _arrays(before).items())


def _arrays(case: dict[str, Any]) -> dict[str, np.ndarray]:
    return {n: x for n, x in case.items() if isinstance(x, np.ndarray) and x.dtype.kind in "fiub"}
