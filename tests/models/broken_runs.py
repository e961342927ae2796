"""hypothesis strategies that break the files of a run, and what a run with a broken file has to do.

A file is changed byte by byte (`damaged`), an archive of arrays member by member (`rearranged`), JSON value by value
(`odd_json`, and `odd_head` for the JSON inside of an archive). `Run` asks a run for what it knows: with a changed file
it has to answer as before, or to refuse in one line, with exit code 2. Where the changed JSON is
still valid, such as another learning rate, another answer is no failure.
"""

import copy
import io
import json
import signal
import struct
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from tests.models.worlds import TINY, write_tiny
from tinyattn.cli import main
from tinyattn.data import leave_one_out
from tinyattn.models import Recommender, SASRec
from tinyattn.training import InterruptedRunError
from tinyattn.tree import leaves

SMALL = {"maxlen": 6, "dim": 8, "batch_size": 20, "lr": 0.01, "epochs": 2, "workers": 1}
HEAD = "tinyattn.npy"                    # the member of an archive that is JSON
LONGEST = 1200                           # characters of a refusal


class Change(NamedTuple):
    """New content of a file; may a run that takes it give another answer?"""

    content: bytes
    other: bool


@st.composite
def damaged(draw: Any, content: bytes, other: bool = False) -> Change:
    """One to three changes of bytes: one flipped, some taken out, put in, written twice, or all from here on gone."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        end = min(len(content), at + draw(st.integers(1, 40)))
        flipped = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in content[at : at + 1])
        content = draw(st.sampled_from([
            content[:at] + flipped + content[at + 1 :],
            content[:at] + content[end:],
            content[:at],
            content[:end] + content[at:],
            content[:at] + draw(st.binary(max_size=8)) + content[at:],
        ]))  # fmt: skip
    return Change(content, other)


HEADERS = [
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000, 10000000000, 10000000000), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<f4', 'fortran_order': True, 'shape': (), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<U1000000000', 'fortran_order': False, 'shape': (0,), }",
    "{'descr': [('a', '<f4', (1000000000,))], 'fortran_order': False, 'shape': (0,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 1000000000000000000000), }",
    "{'descr': '<f4', 'fortran_order': False, }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (3L,), }",
    "9" * 8000, "(" * 8000, "[" * 60_000, "-" * 9000 + "1", "{'descr'", "", "\0" * 64, "'" * 3,
]  # fmt: skip


@st.composite
def rearranged(draw: Any, content: bytes) -> Change:
    """An archive with a member gone, new, renamed, there twice, packed, or with another shape or header."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from(sorted(members)))
    packed, twice = [zipfile.ZIP_STORED], None
    x = np.load(io.BytesIO(members[name]))
    what = draw(st.sampled_from(["less", "more", "renamed", "twice", "shape", "dtype", "number", "header", "packed"]))
    if what == "less":
        del members[name]
    elif what == "more":
        members[draw(st.sampled_from(["a.npy", "parameters.a.npy", "../a.npy", "a", "a\n\x1b.npy"]))] = _npy(x)
    elif what == "renamed":
        new = draw(st.sampled_from([f"{name}.npy", name.removesuffix(".npy"), "a.npy", *members]))
        members = {new if old == name else old: held for old, held in members.items()}
    elif what == "twice":
        twice = draw(st.sampled_from([_npy(np.zeros_like(x)), b""]))
    elif what == "shape":
        shaped = [x[None], x.reshape(-1)[:-1], x.reshape(-1)[:0], np.stack([x, x]), np.zeros((0, 10**12), x.dtype)]
        members[name] = _npy(draw(st.sampled_from(shaped)))
    elif what == "dtype":
        text, numbers = ["U9", "S9"], ["f2", "f8", "c8", "i2", ">i8", ">f4", "?"]
        members[name] = _npy(x.astype(draw(st.sampled_from(text if x.dtype.kind == "U" else text + numbers))))
    elif what == "number" and x.dtype.kind in "if" and x.size:
        odd = [np.nan, np.inf, -np.inf] if x.dtype.kind == "f" else [-1, 2**62, -(2**62)]
        x.reshape(-1)[draw(st.integers(0, x.size - 1))] = draw(st.sampled_from(odd))
        members[name] = _npy(x)
    elif what == "header":
        members[name] = _with_header(draw(st.sampled_from(HEADERS)), draw(st.integers(0, 4))) + members[name][128:]
    elif what == "packed":
        packed = [zipfile.ZIP_DEFLATED] * len(members)
        members[name] = draw(st.sampled_from([members[name], _npy(np.zeros(4_000_000 // x.itemsize, x.dtype))]))
    return Change(_archive(members, packed, (name, twice)), other=False)


def _npy(x: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(x), allow_pickle=False)
    return out.getvalue()


def _with_header(text: str, version: int) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + b"\n"


def _archive(
    members: dict[str, bytes], packed: Sequence[int] = (), again: tuple[str, bytes | None] = ("", None)
) -> bytes:
    """`packed` says how the first of them are compressed; `again` is one more at the end."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)             # a name that is there twice
        for (name, held), how in zip(members.items(), chain(packed, repeat(zipfile.ZIP_STORED)), strict=False):
            archive.writestr(name, held, how)
        if again[1] is not None:
            archive.writestr(again[0], again[1])
    return out.getvalue()


DEEP = "a list that is nested deep"                                   # stands for text that json.dumps cannot write
ODD: list[Any] = [
    None, True, False, -1, 0, 1, 3, 2**63, 10**30, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"),
    "", "x", "x" * 9000, "\x1b[31m\n", "\ud800", "../..", [], {}, [1], [[]], {"a": 1}, {"": None}, DEEP,
]  # fmt: skip


odd_values = st.sampled_from(ODD).map(copy.deepcopy)                 # lists and dicts are written into


@st.composite
def odd_json(draw: Any, text: str) -> str:
    """JSON in which one to three values are others, gone, new, or there twice."""
    whole = {"": json.loads(text)}
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(list(_places(whole))))
        what = draw(st.sampled_from(["other", "other", "gone", "new"]))
        if what == "gone" and holder is not whole:
            del holder[key]
        elif what == "new" and isinstance(holder[key], dict):
            holder[key][draw(st.sampled_from(["a", "", "format", "\x1b", "__class__"]))] = draw(odd_values)
        else:
            holder[key] = draw(odd_values)
    found = json.dumps(whole[""]).replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)
    names = sorted({str(key) for holder, key in _places(whole) if isinstance(holder, dict) and key})
    if names and draw(st.integers(0, 4)) == 0:
        name = json.dumps(draw(st.sampled_from(names)))
        found = found.replace(f"{name}: ", f"{name}: 7, {name}: ", 1)
    return found


def _places(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Every (dict, key) and (list, index) in a tree."""
    for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
        yield holder, key
        if isinstance(holder[key], dict | list):
            yield from _places(holder[key])


@st.composite
def odd_head(draw: Any, content: bytes) -> Change:
    """An archive whose JSON says something else."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    said = draw(odd_json(str(np.load(io.BytesIO(members[HEAD])))))
    members[HEAD] = _npy(np.array(said))
    return Change(_archive(members), other=True)


def changes(name: str, content: bytes) -> st.SearchStrategy[Change]:
    """A change of the run's file `name`."""
    if name.endswith(".npz"):
        return damaged(content) | rearranged(content) | odd_head(content)
    text = content.decode()
    return damaged(content, other=True) | odd_json(text).map(lambda t: Change(t.encode(errors="surrogatepass"), True))


class Run:
    """A small run in `folder`, and what it is asked. `wrong` says what is wrong with its answer to a changed file."""

    FILES = ("model.npz", "config.json", "metrics.json", "checkpoint.npz")

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder / "run", write_tiny(folder / "tiny.txt")
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
        train = ["train", str(self.data), *flags, "--out", str(self.folder)]
        assert said(train)[0] == 0
        by_user = ["recommend", str(self.folder), "--user", "5", "-k", "3"]
        self.commands = {"config.json": [train, by_user], "metrics.json": [train]}
        self.answers = {tuple(command): said(command) for asked in self.commands.values() for command in asked}
        self.split = leave_one_out(TINY.generate())
        self.checkpoint = folder / "checkpoint.npz"
        self._stop_at_the_end()
        self.content = {name: self.path(name).read_bytes() for name in self.FILES}
        self.questions = {"model.npz": self._recommended, "checkpoint.npz": self._resumed}
        self.found = {name: ask() for name, ask in self.questions.items()}

    def path(self, name: str) -> Path:
        return self.checkpoint if name == "checkpoint.npz" else self.folder / name

    def _stop_at_the_end(self) -> None:
        """Leave a checkpoint after the last step, so that going on from it takes no time."""

        def stop(history: list[dict[str, Any]]) -> None:
            if len(history) == SMALL["epochs"]:
                signal.raise_signal(signal.SIGINT)

        with suppress(InterruptedRunError):
            SASRec(**SMALL).fit(self.split, checkpoint=self.checkpoint, on_epoch=stop, progress=False)

    def _recommended(self) -> bytes:
        ids, scores = Recommender.load(self.path("model.npz")).recommend(["s1e1", "s2e1"], 3)
        return repr(ids.tolist()).encode() + scores.tobytes()

    def _resumed(self) -> bytes:
        model = SASRec(**SMALL).fit(self.split, checkpoint=self.checkpoint, progress=False)
        return b"".join(leaf.tobytes() for _, leaf in leaves(model.parameters))

    def wrong(self, name: str, change: Change) -> str:
        """What is wrong with what the run does with this file, or "". Afterwards the file is as it was."""
        path = self.path(name)
        path.write_bytes(change.content)
        try:
            if name in self.questions:
                return self._wrong_found(name, change)
            return next(filter(None, (self._wrong_said(command, change) for command in self.commands[name])), "")
        finally:
            path.write_bytes(self.content[name])

    def _wrong_said(self, command: list[str], change: Change) -> str:
        code, out, err = said(command)
        if code == 0:
            return "" if change.other or out == self.answers[tuple(command)][1] else f"another answer: {out}"
        is_line = err.count("\n") == 1 and err.startswith("tinyattn: ") and len(err) < LONGEST
        return "" if code == 2 and is_line else f"exit code {code}: {out}{err}"

    def _wrong_found(self, name: str, change: Change) -> str:
        try:
            found = self.questions[name]()
        except ValueError:                           # which the command tells in one line
            return ""
        return "" if change.other or found == self.found[name] else "another answer"


def said(command: list[str]) -> tuple[int, str, str]:
    """-> exit code, standard output, standard error of the command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(command)
    return code, out.getvalue(), err.getvalue()
