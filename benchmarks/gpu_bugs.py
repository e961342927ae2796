"""Bugs that only a GPU would show, planted one at a time: does the default test run notice, on a machine without one?

    python benchmarks/gpu_bugs.py                the list and the score; writes benchmarks/results/gpu_bugs.json and .md
    python benchmarks/gpu_bugs.py --numpy        also: would the same tests on NumPy alone have noticed? (half an hour)

Each bug is one replaced piece of the library's source, in a copy. What may notice it is the surface check (names and
keywords that CuPy lacks, NumPy calls where devices compute) and the tests that run on the strict double.
"""

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from tqdm import tqdm

from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result

RESULT, PAGE = RESULTS / "gpu_bugs.json", RESULTS / "gpu_bugs.md"
TESTS = [
    f"tests/{t}" for t in ("test_surface.py", "test_devices.py", "ops", "layers", "training", "models/test_network.py")
]
LOOKERS = {"surface": "surface", "double": "not surface and not cpu", "numpy": "cpu"}


class Bug(NamedTuple):
    """`old` stands once in `file` and becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    why: str  # what a device would do


def plain_np(name: str, file: str, old: str, why: str = "computes on the host, or fails") -> Bug:
    return Bug(name, file, old, old.replace("xp.", "np.").replace("get_xp(x).", "np.").replace("math.", "np."), why)


SYNC = "Python waits for the device, at every step"
BUGS = [
    plain_np("softmax_np_max", "ops/softmax.py", "row_max = xp.max(s"),
    plain_np("softmax_np_where", "ops/softmax.py", "s = xp.where(mask"),
    plain_np("layer_norm_np_sqrt", "ops/layer_norm.py", "1 / xp.sqrt(row_sum"),
    plain_np("relu_np_maximum", "ops/activations.py", "get_xp(x).maximum(x, 0)"),
    plain_np("bce_np_log1p", "ops/losses.py", "z * targets + xp.log1p("),
    plain_np("adam_np_sqrt", "training/adam.py", "size = xp.sqrt(v)"),
    plain_np("adam_np_scalar", "training/adam.py", "1 / math.sqrt(1 - beta2**step)", "a float64 scalar widens float32"),
    plain_np("attention_np_scale", "ops/attention/attention.py", "1 / math.sqrt(max(", "a float64 scalar widens float32"),
    Bug("gelu_np_constant", "ops/activations.py", "_SQRT_HALF = math.sqrt(0.5)", "import numpy as np\n_SQRT_HALF = np.float64(0.5) ** 0.5",
        "a float64 scalar widens float32"),
    Bug("causal_mask_on_the_host", "ops/masks.py", "get_xp(like).tri(n, dtype=bool)", "__import__('numpy').tri(n, dtype=bool)",
        "a host mask among device arrays"),
    Bug("keep_mask_on_the_host", "layers/dropout_mask.py", "keep_mask(rng, shape, rate, like=x)", "keep_mask(rng, shape, rate)",
        "a host mask among device arrays"),
    Bug("masks_carried_over", "layers/dropout_mask.py", "keep_mask(rng, shape, rate, like=x)",
        "__import__('tinyattn').backend.asarray(keep_mask(rng, shape, rate), like=x)", "a transfer a mask, megabytes a step"),
    Bug("masks_from_the_device", "random.py", "    return kept.reshape(shape)",
        "    return xp.random.default_rng(key).random(shape) >= rate", "another stream: same seed, other masks"),
    Bug("loss_as_float", "ops/losses.py", "return xp.sum(counted * weights) / _total(weights)",
        "return float(xp.sum(counted * weights)) / _total(weights)", SYNC),
    Bug("total_compared", "ops/losses.py", "return xp.where(total == 0, 1.0, total)", "return total if total != 0 else 1.0", SYNC),
    Bug("softmax_sum_where", "ops/softmax.py", "denominator = row_sum(p)",
        "denominator = xp.sum(p, axis=-1, keepdims=True, where=p > 0)", "CuPy's reductions take no where="),
    Bug("softmax_exp_where", "ops/softmax.py", "xp.exp(p, out=p)", "p = xp.exp(p, where=p > -xp.inf, out=xp.zeros_like(p))",
        "CuPy's ufuncs take no where="),
    Bug("softmax_max_initial", "ops/softmax.py", "row_max = xp.max(s, axis=-1, keepdims=True)",
        "row_max = xp.max(s, axis=-1, keepdims=True, initial=-xp.inf)", "CuPy's max takes no initial="),
    Bug("layer_norm_var_mean", "ops/layer_norm.py", "row_sum(x_hat * x_hat) / d",
        "xp.var(x_hat, axis=-1, keepdims=True, mean=0.0)", "CuPy's var takes no mean="),
    Bug("argsort_stable", "ops/embedding.py", 'xp.argsort(small, kind="stable")', "xp.argsort(small, stable=True)",
        "CuPy's argsort takes no stable="),
    Bug("take_mode", "ops/embedding.py", "take(E, ids, axis=0)", 'take(E, ids, axis=0, mode="clip")', "CuPy's take takes no mode="),
    Bug("dot_by_vecdot", "models/objectives.py", "row_sum(h * e)[..., 0]", "xp.vecdot(h, e)", "CuPy has no vecdot"),
    Bug("gelu_errstate", "ops/activations.py", "    near = _near(x)\n    density",
        "    with get_xp(x).errstate(all='ignore'):\n        near = _near(x)\n    density", "CuPy has no errstate"),
    Bug("rows_assigned", "ops/embedding.py", "    xp.add.at(dE, ids.reshape(-1), rows(values))", "    dE[ids.reshape(-1)] = rows(values)",
        "of rows that share an id one wins, nobody knows which"),
    Bug("rows_added_by_index", "ops/embedding.py", "    xp.add.at(dE, ids.reshape(-1), rows(values))",
        "    dE[ids.reshape(-1)] += rows(values)", "of rows that share an id one is kept"),
    Bug("rows_into_empty", "ops/embedding.py", "dE = xp.zeros(E.shape, dtype=xp.float64)", "dE = xp.empty(E.shape, dtype=xp.float64)",
        "adds to what the memory held before"),
    Bug("rows_by_rounds", "ops/embedding.py", "    if is_numpy(xp):\n", "    if True:\n", SYNC),
    Bug("ids_unchecked", "data/batches.py", "    if np.any(wrong):", "    if False:",
        "a wrong id reads another row, in silence"),
    Bug("targets_minus_one", "models/objectives.py", "get_xp(h).maximum(batch.targets - 1, 0)",
        "get_xp(h).asarray(__import__('numpy').maximum(batch.targets - 1, 0))", "fails, or a round trip over the host"),
    Bug("write_into_a_broadcast", "ops/losses.py", "        shares = weights / _total(weights)\n",
        "        shares = get_xp(weights).broadcast_to(weights / _total(weights), targets.shape)\n",
        "writes to memory that many places share"),
    Bug("boolean_index", "models/recommenders/sasrec.py", "        x = self._read(p, batch)\n",
        "        x = self._read(p, batch); x[batch.ids == 0] = 0\n", SYNC),
    Bug("mask_assigned", "ops/softmax.py", "        s = xp.where(mask, s, -xp.inf)\n",
        "        s = s.copy()\n        s[~xp.broadcast_to(mask, s.shape)] = -xp.inf\n", SYNC),
    Bug("rows_one_by_one", "ops/softmax.py", "    xp.exp(p, out=p)",
        "    p = xp.stack([xp.exp(a) for a in p]) if len(s) and s.ndim > 1 else xp.exp(p)", "one launch a row"),
    Bug("loss_fetched", "training/learner.py", "            return loss if share == 1", "            return float(loss) if share == 1", SYNC),
    Bug("norm_fetched", "training/learner.py", "squares += self.xp.sum(part * part, dtype=np.float64)",
        "squares += float(self.xp.sum(part * part, dtype=np.float64))", SYNC),
    Bug("finite_every_step", "training/around.py", "        self._looks = every_step or", "        self._looks = True or", SYNC),
    Bug("loss_printed", "training/learner.py", "            total += loss\n", "            total += loss\n            f'{loss:.4f}'\n", SYNC),
    Bug("six_transfers", "data/batches.py", "there = iter(transfer([x for x in self if x is not None], xp))",
        "there = iter([xp.asarray(x) for x in self if x is not None])", "six transfers a step instead of one"),
    Bug("zeros_leaf_by_leaf", "training/learner.py", "            self.gradient[piece] = 0\n",
        "            for _, g in leaves(self.grads):\n                g[...] = 0\n", "a launch a parameter"),
    Bug("gradient_gathered", "training/learner.py", "        self.gradient = self.xp.zeros_like(self.vector)\n        self.grads = views(self.gradient, self.p)",
        "        self.gradient, self.grads = flatten(self.p, np.float32, self.xp)", "gathers device arrays on the host"),
    Bug("checkpoint_of_device_arrays", "training/state.py", "{name: backend.to_numpy(x) for name, x in self._arrays().items()}",
        "self._arrays()", "an implicit copy fails"),
    Bug("restored_on_the_host", "training/state.py", "target[...] = backend.asarray(array, like=target)", "target[...] = array",
        "a host array assigned to a device array"),
    Bug("scores_left_there", "models/neural.py", "return backend.to_numpy(self.network.score_items(self.parameters, states))",
        "return self.network.score_items(self.parameters, states)", "the host's ranking gets device arrays"),
    Bug("best_compared_there", "training/loop.py", "if not np.all(np.isfinite(backend.to_numpy(state.best))):",
        "if not np.all(np.isfinite(state.best)):", "an implicit copy fails"),
    Bug("loaded_on_the_host", "models/parameters.py", "backend.module_for(device).empty(size", "np.empty(size",
        "a loaded model computes on the host, whatever was asked for"),
    Bug("rows_counted_in_16_bits", "ops/embedding.py", "    dE = xp.zeros(E.shape, dtype=xp.float64)\n",
        "    read = xp.zeros(len(E), dtype=xp.int16)\n    xp.add.at(read, ids.reshape(-1), 1)\n    dE = xp.zeros(E.shape, dtype=xp.float64)\n",
        "CuPy's add.at takes no int16"),
    Bug("rows_added_in_float32", "ops/embedding.py", "dE = xp.zeros(E.shape, dtype=xp.float64)", "dE = xp.zeros(E.shape, dtype=E.dtype)",
        "the order of the additions shows in the sums: other numbers at every run"),
    Bug("targets_subtracted_at", "ops/losses.py", "    dlogits[xp.arange(len(dlogits)), targets.reshape(-1)] -= 1\n",
        "    flat, each = dlogits.reshape(-1), xp.arange(len(dlogits))\n    xp.subtract.at(flat, each * dlogits.shape[-1] + targets.reshape(-1), 1)\n",
        "CuPy's subtract.at takes no floats"),
    Bug("weights_multiplied_at", "ops/losses.py", "    dlogits *= _shares(dloss, targets, logits, weights).reshape(-1, 1)\n",
        "    xp.multiply.at(dlogits, xp.arange(len(dlogits)), _shares(dloss, targets, logits, weights).reshape(-1, 1))\n",
        "CuPy's multiply has no at"),
    Bug("states_fetched_by_slice", "models/neural.py", "return network.last_state(p, batch.to(xp))",
        "return xp.asarray(backend.to_numpy(network.last_state(p, batch.to(xp))))", "Python waits for the device, at every slice that is scored"),
    Bug("states_checked_there", "models/neural.py", '            with np.errstate(over="ignore", invalid="ignore"):       # a ranking refuses NaN\n',
        '            if not xp.all(xp.isfinite(states)):\n                raise NaNScoreError\n            with np.errstate(over="ignore", invalid="ignore"):\n',
        "Python waits for the device, once more for each scoring"),
    Bug("where_for_places", "ops/softmax.py", "    row_max = xp.where(row_max == -xp.inf, 0.0, row_max)",
        "    row_max[xp.where(row_max == -xp.inf)] = 0.0", SYNC),
    Bug("rows_by_bincount", "ops/embedding.py", "    xp.add.at(dE, ids.reshape(-1), rows(values))\n",
        "    for j in range(E.shape[1]):\n        dE[:, j] = xp.bincount(ids.reshape(-1), weights=rows(values)[:, j], minlength=len(E))\n", SYNC),
    Bug("rows_sorted_first", "ops/embedding.py", "    xp.add.at(dE, ids.reshape(-1), rows(values))\n",
        "    order = xp.argsort(ids.reshape(-1), kind=\"quicksort\")\n    xp.add.at(dE, xp.take(ids.reshape(-1), order), xp.take(rows(values), order, axis=0))\n",
        "CuPy's argsort takes no kind but stable"),
    Bug("batch_packed_tight", "backend.py", "    sizes = [-(-a.nbytes // 8) * 8 for a in arrays] ", "    sizes = [a.nbytes for a in arrays] ",
        "an array begins between multiples of its size: the process ends with a misaligned address"),
    Bug("softmax_maximum_reduce", "ops/softmax.py", "row_max = xp.max(s, axis=-1, keepdims=True)", "row_max = xp.maximum.reduce(s, axis=-1, keepdims=True)",
        "CuPy's maximum has no reduce"),
    Bug("share_in_a_list", "ops/losses.py", "    shares *= float(dloss) ", "    shares *= [float(dloss)] ", "CuPy takes no list for an array"),
    Bug("device_cut_in_slices", "training/learner.py", "        if not backend.is_numpy(self.xp):\n            return list(batches)\n", "",
        "every launch of a step, once more for each slice"),
]  # fmt: skip


def plant(bug: Bug, tree: Path) -> None:
    """Write the bug into the copy of the repository in `tree`."""
    path = tree / "tinyattn" / bug.file
    text = (ROOT / "tinyattn" / bug.file).read_text()
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.name}: {bug.old!r} stands {text.count(bug.old)} times in {bug.file}, expected once")
    text = text.replace(bug.old, bug.new)
    if "np." in bug.new and "import numpy as np" not in text:
        text, found = re.subn(r"^(?=from \.+backend )", "import numpy as np\n\n", text, count=1, flags=re.MULTILINE)
        if not found:
            raise ValueError(f"{bug.name}: {bug.file} imports nothing of backend, beside which NumPy could be imported")
    path.write_text(text)


def run_tests(tree: Path, *which: str) -> subprocess.CompletedProcess[str]:
    """Tests of the copy in `tree`, up to the first that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-W", "ignore"]
    return subprocess.run([*command, *which], cwd=tree, capture_output=True, text=True)


def noticed(looker: str, tree: Path) -> str | None:
    """The first test of the copy in `tree` that fails, or None."""
    ran = run_tests(tree, "-k", LOOKERS[looker], *TESTS)
    if ran.returncode == 0:
        return None
    lines = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" ")[1] if lines else f"pytest ended with {ran.returncode}"


@contextlib.contextmanager
def planted(bug: Bug | None) -> Iterator[Path]:
    """A copy of the repository with the bug, and with what is compiled of the rest; None plants nothing."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for part in ("tinyattn", "tests", "benchmarks", "docs"):
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("results", "*.pyc.*"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        if bug is not None:
            plant(bug, tree)
        yield tree


def try_bug(bug: Bug | None, lookers: tuple[str, ...]) -> dict[str, str | None]:
    """Who notices it? None plants nothing: nobody should."""
    with planted(bug) as tree:
        return {looker: noticed(looker, tree) for looker in lookers}


def page(result: dict[str, Any]) -> str:
    rows = result["bugs"]
    noticed = [
        f"{sum(bool(r['surface'] or r['double']) for r in rows)} of {len(rows)} by the surface check and the double"
    ]
    if "numpy" in rows[0]:
        noticed.append(f"{sum(bool(r['numpy']) for r in rows)} by the same tests on NumPy alone")
    lines = [
        "# Bugs that only a GPU would show",
        "",
        f"Made by `python benchmarks/gpu_bugs.py` ({made_on(result['machine'])}). Planted one at a time; noticed: "
        f"{', '.join(noticed)}.",
        "",
        "| bug | in | what a device would do | surface | double |" + (" NumPy |" if "numpy" in rows[0] else ""),
        "|---|---|---|---|---|" + ("---|" if "numpy" in rows[0] else ""),
    ]
    for r in rows:
        marks = ["yes" if r[k] else "-" for k in LOOKERS if k in r]
        lines.append(f"| {r['name']} | {r['file']} | {r['why']} | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--only", metavar="NAME", help="one bug, and nothing is written")
    options = parser.parse_args()
    lookers = ("surface", "double", *(["numpy"] if options.numpy else []))
    bugs = [bug for bug in BUGS if options.only in (None, bug.name)]
    if not options.only and any(try_bug(None, lookers).values()):
        raise SystemExit("tests fail before anything is planted")
    with ThreadPoolExecutor(2) as pool:
        found = list(tqdm(pool.map(lambda bug: try_bug(bug, lookers), bugs), total=len(bugs), unit="bug"))
    rows = [{"name": b.name, "file": b.file, "why": b.why, **by} for b, by in zip(bugs, found, strict=True)]
    for row in rows:
        print(f"{row['name']:28} " + "  ".join(f"{k}: {row[k] or '-'}" for k in lookers))
    if not options.only:
        result = {"machine": describe(), "bugs": rows}
        write_result(RESULT, result)
        write_pages(__file__, pages())
        print(PAGE.read_text().split("\n")[2])


if __name__ == "__main__":
    main()
