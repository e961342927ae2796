"""What commands print: the whole text, without seconds, speeds and paths."""

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.worlds import drifting_ratings, write_tiny
from tinyattn.cli import main

TRAIN = ["--epochs", "2", "--batch-size", "20", "--workers", "1", "--patience", "0"]
NEURAL = [*TRAIN, "--maxlen", "6", "--dim", "8"]
SEQUENCE = [*TRAIN, "--dim", "8", "--layers", "1", "--heads", "2", "--lr", "0.05", "--warmup", "0", "--batch-size", "8"]
# the run of each kind of model that other commands ask: what `train` is called with
RUNS = {
    "sasrec": ["tiny.txt", *NEURAL, "--lr", "0.01", "--heads", "2"],
    "markov": ["tiny.txt", "--model", "markov"],
    "timesvdpp": ["ratings.csv", "--model", "timesvdpp", *TRAIN, "--dim", "4"],
    "transformer": ["--model", "transformer", "--pairs", "pairs.tsv", *SEQUENCE],
    "decoder": ["--model", "decoder", "--text", "text.txt", *SEQUENCE, "--context", "16"],
    "encoder": ["--model", "encoder", "--text", "text.txt", *SEQUENCE, "--context", "16"],
    "vit": ["--model", "vit", "--images", "images.npz", *SEQUENCE],
}
# by the run that they ask, so that one process trains it
COMMANDS: dict[str, list[str]] = {
    "data": ["data", "tiny.txt"],
    "data of ratings": ["data", "ratings.csv"],
    "data, core": ["data", "tiny.txt", "--k-core", "4"],
    "data by columns": ["data", "columns.csv", "--columns", "user=who,item=what,time=when"],
    "data of a world": ["data", "--world", "chain"],
    "data, missing": ["data", "nothing.txt"],
    "sasrec evaluate": ["evaluate", "runs/sasrec", "--at", "1,5", "--protocols", "full,uni100",
                        "--baselines", "cosine,markov2"],
    "sasrec evaluate per user": ["evaluate", "runs/sasrec", "--per-user", "users.csv"],
    "sasrec recommend": ["recommend", "runs/sasrec", "--items", "s1e1,s2e2", "-k", "4", "--names", "names.csv"],
    "sasrec similar": ["similar", "runs/sasrec", "--item", "s1e1", "-k", "3"],
    "sasrec explain": ["explain", "runs/sasrec", "--user", "5"],
    "sasrec compare": ["compare", "runs/sasrec", "runs/markov", "--at", "5"],
    "sasrec compare items": ["compare", "runs/sasrec", "runs/markov", "--items", "s1e1", "-k", "3"],
    "markov recommend": ["recommend", "runs/markov", "--user", "3", "-k", "3"],
    "markov recommend only": ["recommend", "runs/markov", "--user", "3", "--only", "only.txt"],
    "markov explain": ["explain", "runs/markov", "--items", "s1e1,s2e2", "--for", "s1e2"],
    "timesvdpp evaluate": ["evaluate", "runs/timesvdpp"],
    "timesvdpp recommend": ["recommend", "runs/timesvdpp", "--user", "3", "-k", "3"],
    "transformer translate": ["translate", "runs/transformer", "abc", "--beam", "2"],
    "decoder generate": ["generate", "runs/decoder", "--prompt", "the ", "--length", "20"],
    "encoder fill": ["fill", "runs/encoder", "the c_t"],
    "vit classify": ["classify", "runs/vit", "images.npz"],
    "trace softmax": ["trace", "tinyattn.ops:softmax", "--as", "softmax"],
    "trace attention": ["trace", "tinyattn.ops:attention", "--as", "attention"],
    "check contract": ["check", "--contract", "layer_norm"],
    "sweep": ["sweep", "grid.toml", "--out", "sweep"],
    "train unknown option": ["train", "tiny.txt", "--hedas", "2"],
    "train unknown choice": ["train", "tiny.txt", "--mechanism", "windows"],
}
FILES = {
    "columns.csv": "who,what,when\n1,a,2020-01-02\n1,b,2020-01-01\n2,a,2020-01-03\n",
    "names.csv": "id,name\ns1e1,Le Café (1995)\ns2e2,\"Second, the\"\n",
    "only.txt": "s1e3\ns1e4\n",
    "pairs.tsv": "".join(f"{a}{b}{c}\t{c}{b}{a}\n" for a in "abcd" for b in "abcd" for c in "ab"),
    "text.txt": "the cat sat on the mat. the dog sat on the log.\n" * 12,
    "grid.toml": "data = \"tiny.txt\"\ndim = [4, 8]\nepochs = 1\n\n[[grid]]\nmodel = \"sasrec\"\nlr = [0.01]\n",
}
CHANGES = [
    (r"\d[\d.,]* ?(ms|s|min|h|minutes?|seconds?|hours?)\b", "TIME"),
    (r"[\d.,]+[kM]? tokens/s|[\d.,]+ tokens a second", "SPEED"),
    (r"tinyattn-\w+|/tmp/\S*?(?=/runs|/tiny|/ratings|/sweep)", "FOLDER"),
]


@cache
def folder() -> Path:
    """The files, in a folder that goes when the process does."""
    kept = tempfile.TemporaryDirectory(prefix="tinyattn-pin-")
    _KEPT.append(kept)
    path = Path(kept.name)
    write_tiny(path / "tiny.txt")
    data, rows = drifting_ratings(users=12, items=9, each=6), ["user,item,rating,timestamp"]
    assert data.times is not None
    assert data.ratings is not None
    for user in range(data.n_users):
        for place in range(*data.offsets[user : user + 2]):
            rows.append(f"{user + 1},{data.flat[place]},{data.ratings[place]:.3f},{data.times[place]:.0f}")
    (path / "ratings.csv").write_text("\n".join(rows) + "\n")
    rng = np.random.default_rng(0)
    np.savez(path / "images.npz", images=rng.random((24, 8, 8)), labels=np.arange(24) % 3)
    for name, text in FILES.items():
        (path / name).write_text(text)
    return path


_KEPT: list[Any] = []


@contextlib.contextmanager
def working_in(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)


def printed(*arguments: str) -> dict[str, Any]:
    """Exit code, and what was printed on both streams."""
    out, err = io.StringIO(), io.StringIO()
    with working_in(folder()), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(arguments))
        except SystemExit as stop:
            code = stop.code
    return {"code": code, "out": _lines(out.getvalue()), "err": _lines(err.getvalue())}


def _lines(text: str) -> list[str]:
    for pattern, by in CHANGES:
        text = re.sub(pattern, by, text)
    return text.replace(str(folder()), "FOLDER").splitlines()


@cache
def made(name: str) -> dict[str, Any]:
    """The run of that name, and what its training printed."""
    return printed("train", *RUNS[name], "--out", f"runs/{name}")


def command(arguments: list[str]) -> dict[str, Any]:
    for argument in arguments:
        if argument.startswith("runs/"):
            made(argument.removeprefix("runs/"))
    found = printed(*arguments)
    if "--per-user" in arguments:
        found["file"] = (folder() / arguments[-1]).read_text().splitlines()[:8]
    if arguments[0] == "sweep":
        found["file"] = (folder() / "sweep" / "commands.txt").read_text().replace(str(folder()), "FOLDER").splitlines()
    return found


CASES: dict[str, Callable[[], Any]] = {f"{name} train": partial(made, name) for name in RUNS}
CASES |= {name: partial(command, arguments) for name, arguments in COMMANDS.items()}
