"""`--ops` chooses the functions that compute: the faster forms, the readable forms, or the reader's."""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..forms import readable

if TYPE_CHECKING:
    from ..check.substitute import Substitute

FAST, READABLE = "fast", "readable"


def add_ops(command: Any, default: str = FAST) -> None:
    text = f"the ops that compute: the library's faster forms ({FAST}), its readable forms ({READABLE}), functions "
    text += f"of FILE.py, if `tinyattn check` passes them, or of a course's folder `answers` (default: {default})"
    command.add_argument("--ops", default=default, metavar="OPS", help=text)
    command.add_argument("--unchecked", action="store_true", help="with --ops FILE.py: use its functions unchecked")


@dataclass(frozen=True)
class Computing:
    """The value of `--ops`, with the substitutes read and checked."""

    ops: str
    substitutes: "list[Substitute]" = field(default_factory=list)
    notes: tuple[str, ...] = ()                     # unusable answers, and why

    @property
    def suffix(self) -> str:
        """The suffix of a folder of results: each file of functions has its own folder."""
        return f"-{Path(self.ops).stem}" if self.substitutes else ""

    def identity(self) -> dict[str, Any]:
        """A hash of the substitutes' files, on which the numbers depend; {} without substitutes."""
        files = sorted({s.origin.rpartition(":")[0] or self.ops for s in self.substitutes})
        source = hashlib.sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()
        return {"ops": f"{Path(self.ops).name} ({source[:12]})"} if files else {}

    def lines(self) -> list[str]:
        """The origin of each op, as printed lines."""
        if self.ops == FAST:
            slower = f"--ops {READABLE} computes with the ops as they are read, and takes longer (docs/speed.md)"
            return [f"ops: the faster forms; {slower}"]
        if not self.substitutes:
            return ["ops: the library's readable forms"]
        rows = [(s.name, s.origin) for s in self.substitutes] + [("all others", "the library's readable forms")]
        width = max(len(name) for name, _ in rows)
        return ["ops, and whose code each is:", *(f"  {name:{width}}  {whose}" for name, whose in rows), *self.notes]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Inside the block these functions compute."""
        with ExitStack() as stack:
            if self.ops != FAST:
                stack.enter_context(readable())
            if self.substitutes:
                from ..check.substitute import substituted

                stack.enter_context(substituted(self.substitutes))
            yield


def computing(ops: str, unchecked: bool = False, device: str = "cpu") -> Computing:
    """Read and check the value of `--ops`. Raises ValueError for functions that cannot compute."""
    if ops in (FAST, READABLE):
        if unchecked:
            raise ValueError(f"--unchecked is for --ops FILE.py, and --ops is {ops}")
        return Computing(ops)
    if not ops.endswith(".py") and not Path(ops).is_dir():
        raise ValueError(f"--ops is {ops!r}, expected {FAST}, {READABLE}, FILE.py or a folder of accepted answers")
    if device != "cpu":
        raise ValueError(f"functions of {ops} take NumPy's arrays: expected --device cpu")
    from ..check.substitute import SubstituteError, read_substitutes

    try:
        if Path(ops).is_dir():
            from ..course.substitutes import read_answers

            return Computing(ops, *read_answers(Path(ops), checked=not unchecked))
        return Computing(ops, read_substitutes(ops, checked=not unchecked))
    except SubstituteError as error:
        if error.report:
            print(error.report)
        raise


def begin(ops: str, unchecked: bool) -> None:
    """Compute by `ops` for the rest of this process; the parent process has checked the code."""
    _for_good.enter_context(computing(ops, unchecked or ops not in (FAST, READABLE)).active())


_for_good = ExitStack()
