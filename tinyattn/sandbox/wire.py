"""Messages between two processes that may call each other's functions.

A message is JSON and the bytes of its arrays. Values are None, booleans, numbers, strings, lists, tuples, dicts with
strings as keys, arrays of numbers, and functions. For a function the other process gets a `Remote`; a call of it is a
message there and one back. Anything else arrives as an object that has only the name of its type.
"""

import builtins
import contextlib
import inspect
import itertools
import json
import math
import os
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

MOST = 2**28  # bytes of a message
PLAIN = (bool, int, float, str, type(None))  # are themselves in JSON
_DTYPE = re.compile(r"[<>|=][biufc]\d+")


class WireError(Exception):
    """Bytes that are no message of this protocol."""


class Remote:
    """A function of the other process, with its signature, or else (*args, **kwargs)."""

    def __init__(self, peer: "Peer", number: int, name: str = "", signature: Any = None):
        self._peer, self._number, self.__name__ = peer, number, name if name.isidentifier() else "f"
        if signature is not None:
            self.__signature__ = _signature(signature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._peer.call(self._number, args, kwargs)


class Peer:
    """One end of a connection: two file descriptors. `local` are the functions that the other end may call."""

    caught: type[BaseException] = Exception  # the exceptions that are sent to the caller; others are raised here

    def __init__(self, read: int, write: int):
        self.ends = read, write
        self.local, self._sent = dict[int, Callable[..., Any]](), dict[int, int]()
        self._numbers = itertools.count(2)  # no number is used twice

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call function `number` of the other end. Raises an exception of the name that it raised, or WireError."""
        self.send("call", number, list(args), kwargs)
        while True:
            match self.receive():
                case ["call", int(other), list(positional), dict(named)]:
                    self.serve(other, positional, named)
                case ["return", result]:
                    return result
                case ["raise", str(name), str(message)]:
                    error: Any = _error(name, message)
                    error.sent = True  # the connection still works
                    raise error
                case _:
                    raise WireError("a message of an unknown kind")

    def serve(self, number: int, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Call a function of this end, and send its result or its error."""
        try:
            if number not in self.local:
                raise WireError("a function that was never sent")
            result = self.local[number](*args, **kwargs)
            content = self._packed(["return", result])
        except self.caught as error:
            content = self._packed(["raise", type(error).__name__, _message(error)])
        self._write(content)

    def forget(self) -> None:
        """Forbid the other end to call the functions that were sent before."""
        self.local.clear()
        self._sent.clear()

    def send(self, *message: Any) -> None:
        self._write(self._packed(list(message)))

    def receive(self) -> list[Any]:
        """The next message. Raises EOFError at the end, and WireError."""
        head, body = (int.from_bytes(self._read(8), "little") for _ in range(2))
        if head + body > MOST:
            raise WireError(f"a message of {head + body:,} bytes; the most is {MOST:,}")
        text, arrays = self._read(head), self._read(body)
        try:
            message = self._unpacked(json.loads(text), arrays)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, MemoryError) as error:
            raise WireError(f"no message: {type(error).__name__}") from None
        if not isinstance(message, list):
            raise WireError("no message")
        return message

    def wait(self, writing: bool) -> None:
        """Called before each read and write."""

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            self.wait(writing=True)
            with contextlib.suppress(BlockingIOError):
                left = left[os.write(self.ends[1], left) :]

    def _read(self, size: int) -> bytearray:
        content = bytearray()
        while len(content) < size:
            self.wait(writing=False)
            part = os.read(self.ends[0], min(size - len(content), 1 << 20))
            if not part:
                raise EOFError
            content += part
        return content

    def _packed(self, message: Any) -> bytes:
        arrays: list[bytes] = []
        text = json.dumps(self._pack(message, arrays)).encode()
        body = b"".join(arrays)
        if len(text) + len(body) > MOST:
            raise WireError(f"a value of {len(text) + len(body):,} bytes; the most is {MOST:,}")
        return b"".join((len(text).to_bytes(8, "little"), len(body).to_bytes(8, "little"), text, body))

    def _pack(self, x: Any, arrays: list[bytes]) -> Any:
        """The value for JSON: unchanged if it is plain, or else a list that begins with its kind."""
        if type(x) in PLAIN:
            return x
        if isinstance(x, list | tuple):
            return ["tuple" if isinstance(x, tuple) else "list", [self._pack(y, arrays) for y in x]]
        if isinstance(x, dict) and all(isinstance(key, str) for key in x):
            return ["dict", {str(key): self._pack(y, arrays) for key, y in x.items()}]
        if isinstance(x, complex) and not isinstance(x, np.generic):
            return ["complex", x.real, x.imag]
        if isinstance(x, Fraction):
            return ["fraction", int(x.numerator), int(x.denominator)]
        if isinstance(x, np.ndarray | np.generic) or (hasattr(x, "__array__") and not isinstance(x, type)):
            array = np.asarray(x)
            if array.dtype.kind in "biufc":
                order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
                arrays.append(array.tobytes(order))  # type: ignore[arg-type]
                kind = "scalar" if isinstance(x, np.generic) else "array"
                return [kind, array.dtype.str, list(array.shape), order]
            return ["array of objects"]
        if callable(x) and not isinstance(x, type):
            if isinstance(x, Remote) and x._peer is self:
                return ["back", x._number]
            return ["function", self._number(x), str(getattr(x, "__name__", "")), _parameters(x)]
        return ["object", type(x).__module__, type(x).__name__]

    def _number(self, f: Callable[..., Any]) -> int:
        """The number by which the other end calls a function; `local` keeps the function alive, and its id unique."""
        if id(f) not in self._sent:
            number = self._sent[id(f)] = next(self._numbers)
            self.local[number] = f
        return self._sent[id(f)]

    def _unpacked(self, x: Any, arrays: bytearray) -> Any:
        """The value of JSON. The bytes of its arrays are taken from the front of `arrays`."""
        if not isinstance(x, list):
            return x
        match x:
            case ["list" | "tuple" as kind, list(values)]:
                made = [self._unpacked(y, arrays) for y in values]
                return made if kind == "list" else tuple(made)
            case ["dict", dict(values)]:
                return {key: self._unpacked(y, arrays) for key, y in values.items()}
            case ["complex", real, imag]:
                return complex(real, imag)
            case ["fraction", int(over), int(under)]:
                return Fraction(over, under)
            case ["array" | "scalar" as kind, str(name), list(shape), "C" | "F" as order]:
                if not _DTYPE.fullmatch(name) or not all(type(n) is int and n >= 0 for n in shape):
                    raise WireError("an array of an unknown kind")
                dtype = np.dtype(name)
                size = math.prod(shape) * dtype.itemsize
                if size > len(arrays):
                    raise WireError("an array that is longer than its message")
                content = arrays[:size]
                del arrays[:size]
                array = np.frombuffer(content, dtype).reshape(shape, order=order).copy("K")
                return array[()] if kind == "scalar" else array
            case ["array of objects"]:
                return np.array(None)
            case ["back", int(number)] if number in self.local:
                return self.local[number]
            case ["function", int(number), str(name), signature]:
                return Remote(self, number, name, signature)
            case ["object", str(module), str(name)]:
                return type(name[:60] if name.isidentifier() else "object", (), {"__module__": module[:60]})()
        raise WireError("a value of an unknown kind")


def _parameters(f: Callable[..., Any]) -> list[list[Any]] | None:
    """[name, kind, [default] or []] of each parameter; None if f has no signature."""
    try:
        return [[p.name, int(p.kind), _default(p)] for p in inspect.signature(f).parameters.values()]
    except Exception:  # __signature__ may be anything
        return None


def _default(p: inspect.Parameter) -> list[Any]:
    """[], or [default]; "..." stands for one that is not plain."""
    if p.default is p.empty:
        return []
    return [p.default if type(p.default) in PLAIN else "..."]


def _signature(parameters: Any) -> inspect.Signature:
    kind, empty = inspect._ParameterKind, inspect.Parameter.empty
    return inspect.Signature(
        [
            inspect.Parameter(str(name), kind(number), default=default[0] if default else empty)
            for name, number, default in parameters
        ]
    )


def _error(name: str, message: str) -> Exception:
    """An exception of this name: a builtin one, or one of a new type."""
    known = getattr(builtins, name, None)
    if not (isinstance(known, type) and issubclass(known, Exception)):
        known = type(name[:60] if name.isidentifier() else "Error", (Exception,), {})
    try:
        return known(message)
    except TypeError:  # UnicodeDecodeError takes more arguments
        return Exception(message)


def _message(error: BaseException) -> str:
    try:
        return str(error)[:300]
    except Exception:
        return ""
