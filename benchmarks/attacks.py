"""The attacks of benchmarks/robustness.py: damaged or hostile files, frames and arguments.

Each kind of attack draws its tries at random. A try is a description and a function that returns what went wrong, or
"". Tries run one after the other in a worker process with limits of memory and time. A try has failed if the process
dies or hangs, or if compiled code writes to standard error. After a crash or a hang, a new process runs the next try.

A command passes in two ways. It succeeds, and its answer equals one that is computed independently; or it ends with
exit code 2 and one line, and leaves no files behind.
"""

import contextlib
import copy
import io
import itertools
import json
import os
import pickle
import random
import resource
import shutil
import signal
import socket
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.models.broken_runs import DEEP, LONGEST, ODD, _places
from tests.models.layouts import elsewhere, sasrecs
from tests.models.layouts.test_layouts import ids_of, logits
from tests.models.test_seams import OWN
from tests.models.test_session import EVERY, ITEMS, made, same
from tests.models.worlds import write_tiny
from tests.ops import test_hidden
from tinyattn.cli import main
from tinyattn.course.grading.folders import submissions
from tinyattn.course.grading.submission import answer_of, read_sources
from tinyattn.data import Interactions
from tinyattn.models import Recommender, RunFolder, import_model
from tinyattn.models.layouts.weights import WRAPPERS

PATIENCE = 60  # seconds of a try; a machine may be loaded
MEMORY = 6 << 30  # bytes of a worker's address space; PyTorch takes most of them


class Kind(NamedTuple):
    """`run(folder, tries, rng)` yields what went wrong in each try, or ""; `needs` lists the packages it requires."""

    says: str
    tries: int
    run: Callable[[Path, int, random.Random], Iterator[str]]
    needs: tuple[str, ...] = ()


class Try(NamedTuple):
    what: str
    wrong: Callable[[], str]


def guarded(what: str, f: Callable[[], str]) -> str:
    """The failure that f returns or raises, in words; "" if there is none."""
    try:
        wrong = f()
        return f"{what}: {wrong}" if wrong else ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{what}: {type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {error}"


def apart(tries: list[Try]) -> Iterator[str]:
    """Run the tries in worker processes, and yield what went wrong in each. A new process replaces one that died."""
    done = 0
    while done < len(tries):
        reads, writes = os.pipe()
        number = os.fork()
        if not number:
            os.close(reads)
            _work(tries[done:], writes)
        os.close(writes)
        with os.fdopen(reads) as lines:
            for line in lines:
                done += 1
                yield json.loads(line)
        code = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        if done < len(tries):
            how = f"no end within {PATIENCE} s" if code == -signal.SIGALRM else f"its process ended with {code}"
            yield f"{tries[done].what}: {how}"
            done += 1


def _work(tries: list[Try], writes: int) -> None:
    """Run the tries in this process, which then exits. SIGALRM kills it if a try takes too long."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryFile() as native:  # receives what compiled code prints
        os.dup2(native.fileno(), 2)
        for one in tries:
            signal.alarm(PATIENCE)
            before = os.fstat(native.fileno()).st_size
            wrong = guarded(one.what, one.wrong)
            signal.alarm(0)
            if not wrong and os.fstat(native.fileno()).st_size > before:
                wrong = f"{one.what}: standard error has {os.pread(native.fileno(), 300, before)!r}"
            os.write(writes, (json.dumps(wrong) + "\n").encode())
    os._exit(0)


class Said(NamedTuple):
    command: str
    code: int
    out: str
    err: str

    @property
    def wrong(self) -> str:
        """A wrong exit code or message, in words, or "". Only `collect` may end with 1, if a run failed."""
        *before, last = self.err.splitlines() or [""]
        odd = [line for line in [*before, last if self.code != 2 else ""] if "Warning" in line or "Traceback" in line]
        if self.code == 2 and (odd or not last.startswith("tinyattn") or len(last) > LONGEST
                               or not all(line.startswith(("note: ", "epoch ")) for line in before)):  # fmt: skip
            return f"refused in other words: {self.err[-600:]!r}"
        is_end = self.code in (0, 2) or (self.code == 1 and self.command == "collect")
        return f"exit code {self.code}: {(odd or [self.err])[0][-600:]!r}" if odd or not is_end else ""


def typed(*arguments: object) -> Said:
    """Run the command in this process, with the streams of a UTF-8 terminal."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:  # raised by argparse
            code = stop.code if isinstance(stop.code, int) else 2
        out.flush()
        err.flush()
    return Said(str(arguments[0]), code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def left(folder: Path) -> str:
    """The files that a refused command left in a folder that it made, in words; "" if there is no folder."""
    return f"it left {', '.join(sorted(p.name for p in folder.iterdir()))}" if folder.exists() else ""


def close(found: np.ndarray, expected: np.ndarray, what: str = "scores") -> str:
    scale = max(1.0, float(np.max(np.abs(expected))))
    off = float(np.max(np.abs(found - expected))) / scale
    return "" if off < 1e-4 else f"{what} are off by {off:.1e}"


# --- parameters from other libraries


HISTORIES = [np.array(h) for h in ([4], [1, 2, 3], [9, 9, 1, 5, 2, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9])]
LAYOUTS: dict[str, tuple[Any, Any, list[str]]] = {
    "pmixer": (sasrecs.pmixer_weights, lambda w, h: sasrecs.pmixer(w, "pre", h), ["--block-form", "pre"]),
    "rectools": (sasrecs.rectools_weights, sasrecs.rectools, []),
}
# {form: (change of a parameter, the array it must be read as, or None if the import must be refused)}
TENSORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any] | None]] = {
    "as it is": (lambda torch, t: t, lambda x: x),
    "float64": (lambda torch, t: t.double(), lambda x: x),
    "float16": (lambda torch, t: t.half(), lambda x: x.astype("f2").astype("f4")),
    "bfloat16": (lambda torch, t: (t * 0 + 0.5).bfloat16(), lambda x: 0 * x + np.float32(0.5)),
    "a Parameter": (lambda torch, t: torch.nn.Parameter(t), lambda x: x),
    "every other number": (lambda torch, t: torch.stack([t, t + 1], -1)[..., 0], lambda x: x),
    "column by column": (lambda torch, t: t.T.contiguous().T, lambda x: x),
    "a part of another": (lambda torch, t: torch.cat([t, t])[: len(t)], lambda x: x),
    "its first number, repeated": (lambda torch, t: t.as_strided(t.shape, [0] * t.ndim), lambda x: 0 * x + x.flat[0]),
    **{kind: (lambda torch, t, kind=kind: t.to(getattr(torch, kind)), None)
       for kind in ("int64", "int8", "uint8", "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")},
    "sparse": (lambda torch, t: t.to_sparse(), None),
    "sparse rows": (lambda torch, t: t[: len(t), None].reshape(len(t), -1).to_sparse_csr(), None),
    "quantised": (lambda torch, t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8), None),
    "without numbers": (lambda torch, t: t.to("meta"), None),
    "nested": (lambda torch, t: torch.nested.nested_tensor([t, t]), None),
    "one number, repeated": (lambda torch, t: t.reshape(-1)[:1].clone().as_strided(t.shape, [0] * t.ndim), None),
    "a billion of one number": (lambda torch, t: torch.zeros(1, 1).expand(10**9, 8), None),
    "nothing": (lambda torch, t: t[:0], None),
    "one number": (lambda torch, t: t.reshape(-1)[0], None),
    "another axis": (lambda torch, t: t[None], None),
    "NaN": (lambda torch, t: t * float("nan"), None),
    "infinite in float32": (lambda torch, t: t.double() * 1e300 * 1e10, None),
    "a list": (lambda torch, t: t.tolist(), None),
    "None": (lambda torch, t: None, None),
    "text": (lambda torch, t: "0.5", None),
    "an array of NumPy": (lambda torch, t: t.numpy(), None),
}  # fmt: skip
NESTS = ("", "", "state_dict", "model_state_dict", "model")


def state_dicts(folder: Path, rng: random.Random) -> Iterator[Try]:
    while True:
        layout, form, nest = rng.choice([*LAYOUTS]), rng.choice([*TENSORS]), rng.choice(NESTS)
        prefix = "".join(rng.choices(WRAPPERS, k=rng.randrange(3)))
        damage = rng.choice(["", "", "", "", "bytes", "bytes", "compressed", "hyper-parameters", "names"])
        name = rng.choice([*LAYOUTS[layout][0]()])
        what = f"{layout}, {name} {form}, in {nest or 'nothing'}, prefix {prefix!r}, {damage or 'whole'}"
        yield Try(what, partial(_state_dict, folder, layout, name, form, nest, prefix, damage, rng.randrange(2**32)))


def _state_dict(
    folder: Path, layout: str, name: str, form: str, nest: str, prefix: str, damage: str, seed: int
) -> str:
    import torch

    rng, (make, scores, flags) = random.Random(seed), LAYOUTS[layout]
    weights, (change, becomes), path, out = make(), TENSORS[form], folder / "m.pth", folder / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state: dict[Any, Any] = {f"{prefix}{n}": torch.tensor(x) for n, x in weights.items()}
        state[prefix + name] = change(torch, torch.tensor(weights[name]))
        if damage == "names":
            state[rng.choice([3, ("a",), "", "a\0b", "\x1b[31m", "x" * 5000])] = torch.ones(2)
        whole = {"epoch": 3, nest: state} if nest else state
        if damage == "hyper-parameters":
            about = {key: copy.deepcopy(rng.choice(ODD)) for key in ("model_config", "item_external_ids", "lr")}
            whole = {"state_dict": state, "hyper_parameters": about}
        torch.save(whole, path)
    if damage == "bytes":
        path.write_bytes(flipped(path.read_bytes(), rng))
    elif damage == "compressed":
        repacked(path)
    found = typed("import-model", path, "--heads", sasrecs.H, *flags, "--out", out)
    try:
        if found.wrong or found.code:
            refused_right = not damage and becomes is not None
            return found.wrong or left(out) or (f"it is refused: {found.err}" if refused_right else "")
        if damage in ("bytes", "hyper-parameters"):
            return "" if np.isfinite(Recommender.load(out / "model.npz").score(HISTORIES)[:, 1:]).all() else "no scores"
        if becomes is None or damage:
            return "it is accepted"
        return _same_scores(out, weights | {name: becomes(weights[name])}, scores)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _same_scores(out: Path, weights: Any, scores: Any) -> str:
    found = Recommender.load(out / "model.npz").score(HISTORIES)[:, 1:]
    return close(found, np.stack([scores(weights, history)[1:] for history in HISTORIES]))


def odd_json(text: str, rng: random.Random) -> str:
    """The JSON with one to three values replaced, deleted or added, and sometimes a duplicate key."""
    whole = {"": json.loads(text)}
    for _ in range(rng.randrange(1, 4)):
        places = list(_places(whole))
        holder, key = rng.choice(places[1:] if len(places) > 1 and rng.random() < 0.95 else places)
        what = rng.choice(["other", "other", "gone", "new"])
        if what == "gone" and holder is not whole:
            del holder[key]
        elif what == "new" and isinstance(holder[key], dict):
            holder[key][rng.choice(["a", "", "format", "\x1b", "__class__"])] = copy.deepcopy(rng.choice(ODD))
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD))
    found = json.dumps(whole[""]).replace(json.dumps(DEEP), "[" * 100_000 + "]" * 100_000)
    names = sorted({str(key) for holder, key in _places(whole) if isinstance(holder, dict) and key})
    if names and rng.random() < 0.1:
        name = json.dumps(rng.choice(names))
        found = found.replace(f"{name}: ", f"{name}: 7, {name}: ", 1)
    return found


def flipped(content: bytes, rng: random.Random) -> bytes:
    """The bytes after one to three changes: a flipped bit, bytes deleted or inserted, or the rest cut off."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(max(1, len(content)))
        some = [bytes(b ^ 1 << rng.randrange(8) for b in content[at : at + 1]) + content[at + 1 :],
                content[at + rng.randrange(1, 40) :], b"", rng.randbytes(8) + content[at:]]  # fmt: skip
        content = content[:at] + rng.choice(some)
    return content


def repacked(path: Path) -> None:
    """Rewrite the archive with compressed members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


SIZES: list[Any] = [0, -1, 1, 7, 10**9, 10**12, 2**62, 2**63, 2**64, 10**400, 1.5, "3", None, True, [8], float("nan")]


def safetensors_files(folder: Path, rng: random.Random) -> Iterator[Try]:
    from safetensors.numpy import save

    whole = {layout: save({n: np.ascontiguousarray(x) for n, x in make().items()})
             for layout, (make, *_) in LAYOUTS.items()}  # fmt: skip
    heads = {layout: content[8 : 8 + int.from_bytes(content[:8], "little")] for layout, content in whole.items()}
    while True:
        layout = rng.choice([*LAYOUTS])
        head, content, length = json.loads(heads[layout]), whole[layout][8 + len(heads[layout]) :], None
        name = rng.choice([n for n in head if n != "__metadata__"])
        how = rng.choice(["whole", "prefix", "json", "json", "shape", "offsets", "kind", "names", "length", "bytes"])
        if how == "prefix":
            prefix = "".join(rng.choices(WRAPPERS, k=rng.randrange(1, 4)))
            head = {prefix + n: about for n, about in head.items()}
        elif how == "shape":
            head[name]["shape"] = [rng.choice(SIZES) for _ in range(rng.randrange(4))]
        elif how == "offsets":
            head[name]["data_offsets"] = [rng.choice([0, 8, *SIZES]) for _ in range(rng.choice([1, 2, 2, 2, 3]))]
        elif how == "kind":
            head[name]["dtype"] = rng.choice(["I64", "BOOL", "U8", "F8_E4M3", "C64", "BF16", "F64", "X", "", None, 3])
        elif how == "names":
            n = rng.choice([1, 10, 5000, 20_000])
            empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
            head |= {rng.choice([f"x{i}", f"\0{i}", f"\x1b{i}"]): empty for i in range(n)}
        elif how == "length":
            length = rng.choice([0, 1, 2**31, 2**63, 2**64 - 1])
        text = (odd_json(heads[layout].decode(), rng) if how == "json" else json.dumps(head)).encode()
        file = (len(text) if length is None else length).to_bytes(8, "little") + text + content
        file = flipped(file, rng) if how == "bytes" else file
        ids = rng.choice([None, None, None, ["a", "a\0", "a\0\0"], ["é", "\x1b", " "]])
        yield Try(f"{layout}, {how}, {name}, ids {ids}", partial(_safetensors, folder, layout, how, file, ids))


def _safetensors(folder: Path, layout: str, how: str, file: bytes, ids: list[str] | None) -> str:
    make, scores, flags = LAYOUTS[layout]
    path, out, more = folder / "m.safetensors", folder / "run", []
    path.write_bytes(file)
    if ids:
        (folder / "ids").write_text("\n".join([*ids, *"bcdefg"]))
        more = ["--item-ids", folder / "ids"]
    found = typed("import-model", path, "--heads", sasrecs.H, *flags, *more, "--out", out)
    try:
        if found.wrong or found.code:
            refused_right = not ids and how in ("whole", "prefix")
            return found.wrong or left(out) or (f"it is refused: {found.err}" if refused_right else "")
        if how in ("whole", "prefix") and not ids:
            return _same_scores(out, make(), scores)
        return "" if np.isfinite(Recommender.load(out / "model.npz").score(HISTORIES)[:, 1:]).all() else "no scores"
    finally:
        shutil.rmtree(out, ignore_errors=True)


ROPES: list[Any] = [
    {"type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 4.0}, {"rope_type": "yarn", "factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0}, {"rope_type": "longrope"}, {"factor": 2.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 6},
    {"type": "su", "long_factor": [1.0]}, {"rope_type": "mrope"}, {"rope_type": None, "factor": 2.0}, {"type": 3},
    {"rope_type": ["default"]}, {"rope_type": "Default"}, "linear", [2.0], 2.0, {"rope_type": "unheard of"},
]  # fmt: skip


def configurations(folder: Path, rng: random.Random) -> Iterator[Try]:
    """Folders of GPT-2 and LLaMA with a damaged configuration. If one is imported, its logits must follow it."""
    for kind, config in elsewhere.CONFIGS.items():
        elsewhere.write(folder / kind, config, elsewhere.weights_of(config))
        elsewhere.write(folder / f"{kind}-parts", config, elsewhere.weights_of(config), shards=3)
    index = (folder / "llama-parts" / "model.safetensors.index.json").read_text()
    while True:
        kind, how = rng.choice([*elsewhere.CONFIGS]), rng.choice(["json", "json", "size", "size", "rope", "index"])
        config, where = copy.deepcopy(elsewhere.CONFIGS[kind]), kind
        text = None
        if how == "json":
            text = odd_json(json.dumps(config), rng)
        elif how == "size":
            config[rng.choice([*config])] = rng.choice(SIZES)
        elif how == "rope":
            kind = where = "llama"
            config = elsewhere.LLAMA | {rng.choice(["rope_scaling", "rope_parameters"]): rng.choice(ROPES)}
        else:
            kind, where, config, text = "llama", "llama-parts", elsewhere.LLAMA, odd_json(index, rng)
        written = json.dumps(config) if how in ("size", "rope") else text
        file = "model.safetensors.index.json" if how == "index" else "config.json"
        yield Try(f"{where}, {how}: {str(written)[:300]}", partial(_configured, folder / where, file, written, how))


def _configured(folder: Path, file: str, text: str, how: str) -> str:
    path, out = folder / file, folder.parent / "run"
    before = path.read_text()
    path.write_bytes(text.encode(errors="surrogatepass"))
    try:
        found = typed("import-model", folder, "--out", out)
        if found.wrong or found.code:
            return found.wrong or left(out)
        config = json.loads((folder / "config.json").read_text())
        model = import_model(folder)
        with contextlib.suppress(KeyError, TypeError, ValueError, IndexError):  # the reference cannot compute it
            base = elsewhere.LLAMA if folder.name.startswith("llama") else elsewhere.GPT_2
            if config.get("num_attention_heads", config.get("n_head")) != elsewhere.H:  # the reference has H heads
                return ""
            expected = elsewhere.FORWARDS[base["model_type"]](config, elsewhere.weights_of(base), ids_of())
            return close(logits(model, ids_of()), expected, "logits")
        return ""
    finally:
        path.write_text(before)
        shutil.rmtree(out, ignore_errors=True)


# --- runs, files and folders

SMALL = ["--maxlen", "6", "--dim", "8", "--batch-size", "20", "--lr", "0.01", "--epochs", "1", "--workers", "1"]


class Nights(NamedTuple):
    """A file of interactions, and the run folder of a SASRec trained on it."""

    data: Path
    run: Path

    @classmethod
    def of(cls, folder: Path) -> "Nights":
        made = cls(write_tiny(folder / "tiny.txt"), folder / "first")
        if (found := typed("train", made.data, *SMALL, "--out", made.run)).code:
            raise RuntimeError(f"the undisturbed training: {found}")
        return made


BYTES = [b"\xff\xfe", b"a\xffb", b"\xed\xa0\x80", b"x" * 255, b"x" * 300, b"\n", b"a\nb", b"\x1b[31m", b"-x", b"--out",
         b" ", b"\xc3\xa9", b"\xe2\x80\xae", b"a,b", b"a|b", b"*", b"%s{0}", b"a\0b", b"con", b"=1", b"."]  # fmt: skip


def names(folder: Path, rng: random.Random) -> Iterator[Try]:
    """Files and folders whose names are not UTF-8, contain line breaks, are too long or are invalid."""
    nights = Nights.of(folder)
    while True:
        odd, place = os.fsdecode(rng.choice(BYTES) + rng.choice([b"", b"", b"z"])), rng.randrange(9)
        yield Try(f"{odd!r} in place {place}", partial(_named, folder / "odd", nights, odd, place))


def _named(folder: Path, nights: Nights, odd: str, place: int) -> str:
    folder.mkdir()
    path = folder / odd
    try:
        with contextlib.suppress(OSError, ValueError):  # such a file cannot exist: the command finds none
            if place in (0, 1, 2):
                shutil.copy(nights.data, path)
            elif place in (3, 4, 5):
                shutil.copytree(nights.run, path)
            elif place == 6:
                (path / "tiny").mkdir(parents=True)
                write_runs(path)
        command: list[Any] = [
            ["data", path], ["train", path, "--model", "markov", "--out", folder / "out"],
            ["recommend", nights.run, "--users", path, "--out", folder / "out"],
            ["explain", path, "--user", "5"], ["recommend", path, "--user", "5"],
            ["train", nights.data, *SMALL, "--start", path, "--out", folder / "out"],
            ["collect", path], ["train", nights.data, "--model", "markov", "--out", path],
            ["recommend", nights.run, "--users", "all", "--out", path],
        ][place]  # fmt: skip
        found = typed(*command)
        is_left = found.code == 2 and place in (1, 2, 5) and (folder / "out").exists()
        return found.wrong or ("it left a folder" if is_left else "")
    finally:
        shutil.rmtree(folder)


def write_runs(folder: Path) -> None:
    """The folder of a sweep of two runs: its sweep.json, and the log of one run."""
    (folder / "sweep.json").write_text('{"varied": ["dim"], "runs": {"dim=8": {"dim": 8}, "dim=16": {"dim": 16}}}')
    (folder / "dim=8.log").write_text("tinyattn: a note\n")


ODD_FILES: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": lambda path: (path / "x").mkdir(parents=True),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a device without end": lambda path: path.symlink_to("/dev/zero"),
    "a device of nothing": lambda path: path.symlink_to("/dev/null"),
    "a socket": lambda path: _socket(path),
    "nothing": lambda path: path.touch(),
    "NULs": lambda path: path.write_bytes(bytes(4096)) and None,
}


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one, contextlib.chdir(path.parent):
        one.bind(path.name)


def odd_files(folder: Path, rng: random.Random) -> Iterator[Try]:
    """A pipe, folder, device, socket or broken link in the place of a file that a command reads or writes."""
    nights = Nights.of(folder)
    inside = ["config.json", "model.npz", "metrics.json", "checkpoint.npz", "training.csv", "moments.npz", "figures"]
    places = [*inside, "DATA", "--names", "--users", "--only", "--out", "run", "grid", "sweep.json", "log", "weights"]
    while True:
        kind, place = rng.choice([*ODD_FILES]), rng.choice(places)
        asked = rng.randrange(6)
        yield Try(f"{kind} as {place}, {asked}", partial(_odd_file, folder / "odd", nights, kind, place, asked, inside))


def _odd_file(folder: Path, nights: Nights, kind: str, place: str, asked: int, inside: list[str]) -> str:
    folder.mkdir()
    run, out = folder / "run", folder / "out"
    make = ODD_FILES[kind]
    try:
        commands: list[list[Any]]
        if place in inside:
            shutil.copytree(nights.run, run)
            path = run / place
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            make(path)
            commands = [
                ["train", nights.data, *SMALL, "--out", run], ["recommend", run, "--user", "5"],
                ["explain", run, "--user", "5"],
                ["train", nights.data, *SMALL, "--start", run, "--out", out], ["evaluate", run],
                ["export", run, out.with_suffix(".safetensors")],
            ]  # fmt: skip
        else:
            path = folder / {"weights": "m.safetensors", "sweep.json": "sweep.json", "log": "dim=8.log"}.get(place, "x")
            if place == "log":
                write_runs(folder)
                path.unlink()
            make(path)
            ask, last = ["recommend", nights.run], ["--users", "all", "--out"]
            commands = [{
                "DATA": [["data", path], ["train", path, "--model", "markov", "--out", out],
                         ["train", nights.data, path, "--model", "markov", "--out", out]][asked % 3],
                "--names": [*ask, "--user", "5", "--names", path], "--only": [*ask, "--user", "5", "--only", path],
                "--users": [*ask, "--users", path, "--out", out], "--out": [*ask, *last, path],
                "run": [["recommend", path, "--user", "5"], ["explain", path, "--user", "5"],
                        ["train", nights.data, *SMALL, "--out", path]][asked % 3],
                "grid": ["sweep", path, "--out", out], "sweep.json": ["collect", folder], "log": ["collect", folder],
                "weights": ["import-model", path, "--heads", "1", "--out", out],
            }[place]]  # fmt: skip
        found = typed(*commands[asked % len(commands)])
        return found.wrong or (left(out) if found.code == 2 and out.is_dir() else "")
    finally:
        shutil.rmtree(folder)


def sweeps(folder: Path, rng: random.Random) -> Iterator[Try]:
    """A sweep whose sweep.json, grid or run files are damaged."""
    data, swept = write_tiny(folder / "tiny.txt"), folder / "swept"
    grid = f'data = "{data}"\nmodel = "markov"\norder = [1, 2]\n'
    (folder / "grid.toml").write_text(grid)
    ran = [typed("sweep", folder / "grid.toml", "--out", swept)]
    ran += [typed("train", data, "--model", "markov", "--order", n, "--out", swept / f"order={n}") for n in (1, 2)]
    ran += [typed("collect", swept)]
    if any(said.code for said in ran):
        raise RuntimeError(f"the undisturbed sweep: {ran}")
    files = ["sweep.json", *(f"order={n}/{name}" for n in (1, 2) for name in ("config.json", "metrics.json"))]
    texts = {name: (swept / name).read_text() for name in files}
    while True:
        name = rng.choice([*files, "sweep.json", "grid", "log"])
        again = rng.random() < 0.3
        content = odd_json(texts[name], rng).encode() if name in texts else flipped(grid.encode(), rng)
        yield Try(f"{name}: {content[:200]!r}", partial(_swept, folder, swept, name, content, again))


def _swept(folder: Path, swept: Path, name: str, content: bytes, again: bool) -> str:
    at, to = {"grid": folder / "grid.toml", "log": swept / "order=1.log"}.get(name, swept / name), folder / "again"
    before = at.read_bytes() if at.exists() else None
    at.write_bytes(content)
    try:
        if name == "grid":
            found = typed("sweep", at, "--out", to)
            return found.wrong or (left(to) if found.code == 2 else "")
        found = typed("sweep", folder / "grid.toml", "--out", swept) if again else typed("collect", swept)
        return found.wrong
    finally:
        at.unlink() if before is None else at.write_bytes(before)
        shutil.rmtree(to, ignore_errors=True)


# --- calls of the library


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)), "an old pickle": lambda x: pickle.loads(pickle.dumps(x, 2)),
    "deepcopy": copy.deepcopy, "copy": lambda x: x.copy(),
}  # fmt: skip


def sessions(folder: Path, rng: random.Random) -> Iterator[Try]:
    while True:
        mechanism, position, form, scaled, eps = rng.choice(EVERY)
        cuts = sorted(rng.sample(range(1, 13), 3))
        way = rng.choice([*COPIES])
        parts = {"mechanism": mechanism, "position": position, "block_form": form}
        options = {**parts, "emb_scale": scaled, "last_eps": eps}
        what = f"{way} of a session of {', '.join(map(str, options.values()))} after {cuts} items"
        yield Try(what, partial(_session, options, cuts, way))


def _session(options: dict[str, Any], cuts: list[int], way: str) -> str:
    model = made(heads=2, **options, **OWN.get(options["mechanism"], {}))
    session = model.session()
    for begin, end in itertools.pairwise([0, *cuts]):
        session.add(*ITEMS[begin:end])
        session.best(3)
        other = COPIES[way](session)
        same(other.add(ITEMS[end]), model, ITEMS[: end + 1])
        same(session, model, ITEMS[:end])
        session = other if begin % 2 and end == cuts[-1] else session
    return ""


FORMS = ("plain", "fused", "flash", "window", "block_sparse", "linear")
DAMAGE = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e300, 5e-324]


def hidden(folder: Path, rng: random.Random) -> Iterator[Try]:
    """Huge or non-finite numbers behind a mask: outputs must be right or NaN (see tests/ops/test_hidden.py)."""
    while True:
        form, damage, which = rng.choice(FORMS), rng.choice(DAMAGE), rng.choice(["key", "value", "both", "one entry"])
        seed = rng.randrange(2**32)
        yield Try(f"{form}: {damage} in a hidden {which}, {seed}", partial(_hidden, form, damage, which, seed))


def _hidden(form: str, damage: float, which: str, seed: int) -> str:
    rng, f = np.random.default_rng(seed), getattr(test_hidden, form)
    q, k, v = (rng.standard_normal(test_hidden.Q.shape) for _ in range(3))
    expected, (k, v) = f(q, k, v), (k.copy(), v.copy())
    for x in ([k] if which == "key" else [v] if which == "value" else [k, v]):
        row = x[:, test_hidden.HIDDEN]
        row[(..., rng.integers(row.shape[-1])) if which == "one entry" else ...] = damage
    with np.errstate(all="ignore"):
        found = f(q, k, v)
    for x, y in zip(found, expected, strict=True):
        fine = ~np.isnan(x)
        if not fine.all() and abs(damage) < 1e200:
            return "a finite number makes NaN"
        if not np.allclose(x[fine], y[fine], rtol=1e-9, atol=1e-9):
            return "another number"
    return ""


# --- frames

IDS: dict[str, Callable[[random.Random, int], list[Any]]] = {
    "integers": lambda rng, n: [rng.randrange(5) for _ in range(n)],
    "texts": lambda rng, n: [rng.choice(["a", "b", "é", "x y", "1"]) for _ in range(n)],
    "huge": lambda rng, n: [rng.choice([2**62, 2**63 - 1, -(2**63), 0]) for _ in range(n)],
    "beyond 64 bits": lambda rng, n: [rng.choice([2**63, 2**64, 10**30]) for _ in range(n)],
    "floats": lambda rng, n: [float(rng.randrange(5)) for _ in range(n)],
    "halves": lambda rng, n: [rng.randrange(5) / 2 for _ in range(n)],
    "huge floats": lambda rng, n: [2.0**53 + rng.randrange(5) for _ in range(n)],
    "booleans": lambda rng, n: [rng.random() < 0.5 for _ in range(n)],
    "lists": lambda rng, n: [[1] for _ in range(n)],
    "bytes": lambda rng, n: [rng.choice([b"a", b"\xff"]) for _ in range(n)],
    "NULs": lambda rng, n: [rng.choice(["a", "a\0"]) for _ in range(n)],
    "mixed": lambda rng, n: [rng.choice([1, "1"]) for _ in range(n)],
}  # fmt: skip
TIMES: dict[str, Callable[[random.Random, int], list[Any]]] = {
    "seconds": lambda rng, n: [1_700_000_000 + rng.randrange(99) for _ in range(n)],
    "dates": lambda rng, n: [_date(rng) for _ in range(n)],
    "zones": lambda rng, n: [_date(rng, rng.choice([-11, 0, 5.5])) for _ in range(n)],
    "texts": lambda rng, n: [_date(rng).isoformat() for _ in range(n)],
    "texts of zones": lambda rng, n: [_date(rng, 2).isoformat() for _ in range(n)],
    "huge": lambda rng, n: [2**62 + rng.randrange(9) for _ in range(n)],
    "at the edge": lambda rng, n: [rng.choice([2**63 - 1, 2**63, -1]) for _ in range(n)],
    "beyond 64 bits": lambda rng, n: [10**30 + rng.randrange(9) for _ in range(n)],
    "infinite": lambda rng, n: [rng.choice([1.0, float("inf")]) for _ in range(n)],
    "words": lambda rng, n: ["yesterday" for _ in range(n)],
    "booleans": lambda rng, n: [rng.random() < 0.5 for _ in range(n)],
}
KINDS_OF = {
    "pandas": [None, None, "category", "Int64", "string", "object", "float32", "UInt64", "Int8", "string[pyarrow]"],
    "polars": [None, None, "Categorical", "Int64", "String", "Object", "Float32", "UInt64", "Int8", "Decimal"],
}
GONE = ("nothing", "nothing", "nothing", "an id", "an item", "a time")


def _date(rng: random.Random, hours: float | None = None) -> Any:
    from datetime import datetime, timedelta, timezone

    zone = None if hours is None else timezone(timedelta(hours=hours))
    return datetime(2026, 1, 1, rng.randrange(24), rng.randrange(60), microsecond=rng.randrange(3), tzinfo=zone)


def frames(folder: Path, rng: random.Random) -> Iterator[Try]:
    """Frames of pandas and Polars: they must give the sequences of their rows sorted by time, or ValueError."""
    while True:
        of, users, items = rng.choice([*KINDS_OF]), rng.choice([*IDS]), rng.choice([*IDS])
        times, gone = rng.choice([*TIMES, ""]), rng.choice(GONE)
        kinds = [rng.choice(KINDS_OF[of]) for _ in range(2)] + [rng.choice([None, None, None, *KINDS_OF[of]])]
        columns = rng.choice(["usual"] * 6 + ["twice", "one", "none", "numbers", "levels", "spaces"])
        how = rng.choice(["frame"] * 6 + ["lazy", "series", "groups", "index", "sliced"])
        n, seed = rng.choice([0, 1, 2, 20, 20]), rng.randrange(2**32)
        what = f"{of} of {n} rows, {users} {kinds[0]}, {items} {kinds[1]}, {times} {kinds[2]}, {gone} gone, "
        what += f"{columns}, {how}"
        yield Try(f"{what}, {seed}", partial(_frame, of, (users, items, times), kinds, gone, columns, how, n, seed))


def _frame(
    of: str, names: tuple[str, str, str], kinds: list[Any], gone: str, columns: str, how: str, n: int, seed: int
) -> str:
    import importlib

    rng, package = random.Random(seed), importlib.import_module(of)
    rows: dict[str, list[Any]] = {"user": IDS[names[0]](rng, n), "item": IDS[names[1]](rng, n)}
    if names[2]:
        rows["time"] = TIMES[names[2]](rng, n)
    lost = {"an id": "user", "an item": "item", "a time": "time"}.get(gone)
    if lost in rows and n:
        rows[lost][rng.randrange(n)] = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = _made(package, rows, dict(zip(("user", "item", "time"), kinds, strict=True)))
            frame = _arranged(package, frame, columns, how)
    except Exception:  # the package itself cannot make such a frame
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            data = Interactions.of(frame)
    except ValueError as error:
        plain = not lost and n and columns == "usual" and how in ("frame", "index", "sliced") and not any(kinds)
        plain = plain and names[0] in ("integers", "texts") and names[1] in ("integers", "texts")
        plain = plain and names[2] in ("", "seconds", "dates", "zones", "texts", "texts of zones")
        is_line = "\n" not in str(error) and len(str(error)) < 500
        return f"it is refused: {error}" if plain or not is_line else ""
    if not n:
        return "a frame without rows is accepted"
    if lost in rows:
        return f"a row without {lost} is accepted"
    if how == "series" and names[0] == "lists":  # one sequence per row
        return ""
    if columns in ("twice", "one", "none", "numbers", "levels") or how in ("series", "groups"):
        return "it is accepted"
    return _sorted_alike(data, frame, rows)


def _made(package: Any, rows: dict[str, list[Any]], kinds: dict[str, Any]) -> Any:
    if package.__name__ == "pandas":
        columns = {name: package.Series(values) for name, values in rows.items()}
        return package.DataFrame({name: x.astype(kinds[name]) if kinds.get(name) else x for name, x in columns.items()})
    columns = {name: package.Series(name, values) for name, values in rows.items()}
    types = {name: getattr(package, kind) for name, kind in kinds.items() if kind}
    return package.DataFrame([x.cast(types[name]) if name in types else x for name, x in columns.items()])


def _arranged(package: Any, frame: Any, columns: str, how: str) -> Any:
    pandas = package.__name__ == "pandas"
    if columns == "twice":
        frame = package.concat([frame, frame[["user"]]], axis=1) if pandas else frame.with_columns(User=frame["user"])
    elif columns == "one":
        frame = frame[["user"]] if pandas else frame.select("user")
    elif columns == "none":
        frame = frame[[]] if pandas else frame.select([])
    elif columns in ("numbers", "levels", "spaces"):
        new = {
            "numbers": [i if pandas else f"column_{i}" for i in range(frame.shape[1])],
            "levels": [("x", name) if pandas else f"x.{name}" for name in frame.columns],
            "spaces": [f" {name.title()}{'' if name == 'time' else ' ID'}" for name in frame.columns],
        }
        frame = frame.copy() if pandas else frame
        frame.columns = new[columns]
    if how == "lazy":
        frame = frame.lazy()
    elif how == "series":
        frame = frame.iloc[:, 0] if pandas else frame.to_series()
    elif how == "groups":
        frame = frame.groupby(frame.columns[0]) if pandas else frame.group_by(frame.columns[0])
    elif how == "index" and pandas:
        frame.index = [0] * len(frame)
    elif how == "sliced":
        frame = frame[::-1]
    return frame


def _sorted_alike(data: Interactions, frame: Any, rows: dict[str, list[Any]]) -> str:
    """Compare the sequences with the frame's values, sorted stably by time. -> the difference, or ""."""
    frame = frame.collect() if hasattr(frame, "collect") else frame
    values = {plain.strip().lower().split()[0]: (frame[plain].tolist() if hasattr(frame[plain], "tolist")
                                                  else frame[plain].to_list()) for plain in frame.columns}  # fmt: skip
    times = values.get("time", range(len(values["user"])))
    found: dict[str, list[str]] = {}
    for user, item, _ in sorted(zip(values["user"], values["item"], times, strict=True), key=lambda row: row[2]):
        found.setdefault(_id(user), []).append(_id(item))
    here = {str(u): [str(i) for i in data.items.decode(data.sequence(row)).tolist()]
            for row, u in enumerate(data.users.ids.tolist())}  # fmt: skip
    return "" if here == found else f"{here} is not {found}"


def _id(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value == int(value) else str(value)


# --- every night

MOMENTS = ("whole", "missing", "cut", "bytes", "of another model", "of other sizes", "empty")


def starts(folder: Path, rng: random.Random) -> Iterator[Try]:
    nights, other = Nights.of(folder), folder / "other"
    if (found := typed("train", nights.data, *SMALL, "--model", "gru4rec", "--out", other)).code:
        raise RuntimeError(f"the undisturbed training: {found}")
    lines = nights.data.read_text().splitlines()
    while True:
        moments, seed = rng.choice(MOMENTS), rng.randrange(2**32)
        data = rng.choice(["the same", "new items", "other ids", "numbers", "one user", "none"])
        of = rng.choice(["it", "it", "it", "another model", "no run", "an unfinished run", "itself"])
        yield Try(f"{of}, moments {moments}, data {data}, {seed}",
                  partial(_started, folder, nights, other, lines, moments, data, of, seed))  # fmt: skip


def _started(
    folder: Path, nights: Nights, other: Path, lines: list[str], moments: str, data: str, of: str, seed: int
) -> str:
    rng, run, out, file = random.Random(seed), folder / "run", folder / "out", folder / "new.txt"
    pairs = [line.split() for line in lines]
    rows = {
        "the same": pairs, "new items": [[u, f"n{i}" if i.endswith("1") else i] for u, i in pairs],
        "other ids": [[u, f"n{i}"] for u, i in pairs], "one user": pairs[:3], "none": [],
        "numbers": [[u, str(sum(map(ord, i)))] for u, i in pairs],
    }[data]  # fmt: skip
    file.write_text("".join(f"{user} {item}\n" for user, item in rows))
    shutil.copytree(nights.run, run)
    at = run / "moments.npz"
    if moments == "missing":
        at.unlink()
    elif moments == "of another model":
        shutil.copy(other / "moments.npz", at)
    elif moments == "of other sizes":
        with np.load(at) as arrays:
            np.savez(at, **{name: x[: len(x) // 2] if x.ndim else x for name, x in arrays.items()})
    elif moments != "whole":
        content = at.read_bytes()
        cut = content[: rng.randrange(len(content))]
        at.write_bytes({"cut": cut, "bytes": flipped(content, rng), "empty": b""}[moments])
    try:
        if of == "an unfinished run":
            (run / "model.npz").unlink()
        start = {"another model": other, "no run": folder, "itself": out}.get(of, run)
        model = ["--model", "sasrec"] if of == "another model" else []
        found = typed("train", file, *SMALL, *model, "--start", start, "--out", out)
        if found.wrong or found.code:
            fine = of == "it" and moments in ("whole", "missing") and data in ("the same", "new items")
            return found.wrong or left(out) or (f"it is refused: {found.err}" if fine else "")
        if of != "it" or data in ("other ids", "numbers", "none") or moments not in ("whole", "missing", "bytes"):
            return "it is accepted"
        return "" if RunFolder(out).finished else "no finished run"
    finally:
        for each in (run, out):
            shutil.rmtree(each, ignore_errors=True)


SHARDS = ["0/0", "3/2", "x/y", "1/0", "0/3", "-1/3", "1/-3", "1", "/", "1/2/3", "1.5/2", "١/٢", " 1/2", "1/2 ", "1/1e3",
          "", "1/61", f"1/{10**30}", f"{'9' * 5000}/{'9' * 5000}", "+1/2", "0x1/2", "²/3", "1/²"]  # fmt: skip


def shards(folder: Path, rng: random.Random) -> Iterator[Try]:
    """`--shard` with invalid parts I/N, and with valid ones, which must agree with the command for all users."""
    nights, whole = Nights.of(folder), folder / "whole.csv"
    if (found := typed("recommend", nights.run, "--users", "all", "--out", whole)).code:
        raise RuntimeError(f"the undisturbed command: {found}")
    while True:
        if rng.random() < 0.6:
            odd, users = rng.choice(SHARDS), rng.choice([["--users", "all"]] * 3 + [["--user", "5"], []])
            yield Try(f"--shard {odd[:60]!r} {users}", partial(_odd_shard, folder, nights, odd, users))
        else:
            n, k = rng.randrange(1, 61), rng.choice([1, 3, 10, 16])
            some = rng.sample(range(n), min(n, 4))
            yield Try(f"{n} shards, -k {k}", partial(_all_shards, folder, nights, n, k, some))


def _odd_shard(folder: Path, nights: Nights, odd: str, users: list[str]) -> str:
    out = folder / "part.csv"
    to = ["--out", out] if "all" in users else []
    found = typed("recommend", nights.run, *users, f"--shard={odd}", *to)
    if found.wrong:
        return found.wrong
    written = out.exists()
    out.unlink(missing_ok=True)
    valid = odd.strip() in ("1/2", "١/٢") and "all" in users
    return ("" if valid else "it is accepted") if found.code == 0 else "it left a file" if written else ""


def _all_shards(folder: Path, nights: Nights, n: int, k: int, some: list[int]) -> str:
    """Users and items of `some` parts must equal those of the command for all users, and each user is in one part."""
    lines: dict[str, list[list[str]]] = {}
    for name, parts in (("all", [None]), ("parts", some)):
        lines[name] = []
        for part in parts:
            out = folder / "part.csv"
            more = [] if part is None else ["--shard", f"{part + 1}/{n}"]
            found = typed("recommend", nights.run, "--users", "all", *more, "-k", k, "--out", out)
            if found.wrong or found.code:
                return found.wrong or found.err
            lines[name] += [line.split(",")[:3] for line in out.read_text().splitlines()[1:]]
            out.unlink()
    users = list(dict.fromkeys(line[0] for line in lines["all"]))
    parts = np.array_split(np.array(users), n)
    expected = [u for part in some for u in parts[part].tolist()]
    found_users = list(dict.fromkeys(line[0] for line in lines["parts"]))
    if found_users != expected:
        return f"users {found_users}, expected {expected}"
    wanted = [line for u in expected for line in lines["all"] if line[0] == u]
    return "" if lines["parts"] == wanted else "another answer than for all at once"


def divergences(folder: Path, rng: random.Random) -> Iterator[Try]:
    """Learning rates of every size: training must give a usable model, or one line and no folder."""
    data = write_tiny(folder / "tiny.txt")
    while True:
        model = rng.choice(["sasrec", "mf", "gru4rec", "fpmc", "bert4rec"])
        lr, optimizer = 10 ** rng.uniform(-30, 38), rng.choice(["adam", "muon"])
        more = [["--clip-norm", "1"], ["--warmup", "5"], ["--weight-decay", f"{10 ** rng.uniform(0, 30):.3g}"]]
        odd = rng.choice([[], *more])
        flags = ["--model", model, "--lr", f"{lr:.3g}", "--optimizer", optimizer, "--epochs", "3", *odd]
        yield Try(" ".join(flags), partial(_diverged, folder / "out", data, flags))


def _diverged(out: Path, data: Path, flags: list[str]) -> str:
    found = typed("train", data, "--dim", "8", "--batch-size", "50", "--workers", "1", *flags, "--out", out)
    try:
        if found.wrong or found.code:
            return found.wrong or left(out)
        asked = typed("recommend", out, "--user", "5", "-k", "3")
        is_bad = asked.code or "nan" in asked.out or "inf" in asked.out
        return asked.wrong or (f"its model cannot be asked: {asked.err}" if is_bad else "")
    finally:
        shutil.rmtree(out, ignore_errors=True)


def handed_in(folder: Path, rng: random.Random) -> Iterator[Try]:
    """Broken submissions for `course grade`. Their code is read as text and never run."""
    from tests.course.grading import test_marks

    whole = test_marks.handed_in()
    cells = ["def my_hit_rate(ranks, k):\n    return " + "(" * 300, "x = " + "-" * 5000 + "1", "\0", "\ud800", "f = (",
             "return 1", "await x", "from __future__ import nothing", "my_hit_rate = lambda: (yield)", "a" * 100_000,
             "x = '" + "é" * 9000, "%%bash\nrm -rf /", "check('my_hit_rate')", "check(*[1], **{})", "import *",
             "class A:\n  check('my_hit_rate', 1)",
             "match x:\n  case check('my_hit_rate', y): pass", "\t\n x", "x = 1_", "f" + "()" * 20_000,
             "check('my_hit_rate', " + "[" * 120 + "]" * 120 + ")", "x" + "+x" * 20_000]  # fmt: skip
    while True:
        how = rng.choice(["json", "json", "bytes", "cell", "cell", "file", "name", "files"])
        seed = rng.randrange(2**32)
        text = odd_json(whole, rng) if how == "json" else test_marks.notebook(rng.choices(cells, k=rng.randrange(1, 4)))
        content = text.encode(errors="surrogatepass")
        content = flipped(whole.encode(), rng) if how == "bytes" else content
        yield Try(f"{how}: {content[:200]!r}", partial(_handed_in, folder / "class", content, how, seed))


def _handed_in(folder: Path, content: bytes, how: str, seed: int) -> str:
    rng, person = random.Random(seed), folder / "ann"
    person.mkdir(parents=True)
    try:
        notebook = person / "00_first_look.ipynb"
        if how == "file":
            ODD_FILES[rng.choice([*ODD_FILES])](notebook)
        elif how == "name":
            name = os.fsdecode(rng.choice(BYTES).replace(b"\0", b"")[:200] + b".ipynb")
            (folder / name).write_bytes(content)
            (folder / os.fsdecode(b"\xffx")).mkdir()
        elif how == "files":
            for i in range(rng.choice([3, 600])):
                (person / f"{i}.py").write_text("x = 1")
            (person / "again").symlink_to(person)
        if not notebook.exists() and not notebook.is_symlink():
            notebook.write_bytes(content)
        for one in submissions([folder]):
            (one.person + "".join(one.problems)).encode()
            sources, problems = read_sources(one.root, list(one.files))
            if not all(isinstance(problem, str) and "Traceback" not in problem for problem in problems):
                return f"problems {problems}"
            one.digest()
            one.answered()
            for name in ("chance_hit_rate", "my_hit_rate", "repaired_rank"):
                answer, why = answer_of(sources, name)
                _ = (answer.text, answer.asked, answer.is_stub) if answer else why
        return ""
    finally:
        shutil.rmtree(folder)


def of(make: Callable[[Path, random.Random], Iterator[Try]]) -> Callable[[Path, int, random.Random], Iterator[str]]:
    """`Kind.run`, from a generator of tries: the first `tries` of them, run in worker processes."""

    def run(folder: Path, tries: int, rng: random.Random) -> Iterator[str]:
        yield from apart(list(itertools.islice(make(folder, rng), tries)))

    return run


ATTACKS = {
    "state dicts": Kind("`import-model` of PyTorch's files, with a tensor of every kind, prefixes of wrappers, nests, "
                        "hyper-parameters of any type, bytes changed, compressed: the scores of other code, or a line",
                        700, of(state_dicts), ("torch",)),
    "safetensors": Kind("the same of safetensors whose header lies about shapes, places, kinds and lengths, with up to "
                        "20,000 unknown names, and ids with NULs", 500, of(safetensors_files), ("safetensors",)),
    "configurations": Kind("folders of GPT-2 and LLaMA with changed configurations and indices, sizes without measure, "
                           "scaled angles: the logits of other code, or one line", 400, of(configurations),
                           ("safetensors",)),
    "names": Kind("files and folders whose names are no UTF-8, no line, too long", 200, of(names)),
    "odd files": Kind("a pipe, a folder, a device, a socket, a link to itself in the place of every file", 300,
                      of(odd_files)),
    "sweeps": Kind("sweep.json, grids and runs of a sweep changed by hand, then `collect` and `sweep`", 300,
                   of(sweeps)),
    "sessions": Kind("sessions that are pickled and copied on their way: the answers for the whole history", 150,
                     of(sessions)),
    "masked numbers": Kind("NaN, infinities and huge numbers behind a mask, in every form of attention: the right "
                           "number or NaN", 400, of(hidden)),
    "frames": Kind("frames of pandas and Polars: missing ids and times, categories, nullable and huge integers, zones, "
                   "names that stand twice, no row, one column, lazy ones: the sequences that sorted() makes, or one "
                   "line", 800, of(frames), ("pandas", "polars", "pyarrow")),
    "starts": Kind("`train --start` from runs with damaged moments, of other models and ids, or unfinished", 120,
                   of(starts)),
    "shards": Kind("parts I/N that are none, and parts that together are everybody", 150, of(shards)),
    "divergences": Kind("learning rates from 1e-30 to 1e38: a model that can be asked, or one line and no folder", 100,
                        of(divergences)),
    "submissions": Kind("broken notebooks, files and names for `course grade`, read and never run", 300, of(handed_in)),
}  # fmt: skip
