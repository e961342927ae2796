"""What do 8 bits change? The ONNX graph of a SASRec, quantised by ONNX Runtime's own tool, compared with float32.

    python benchmarks/quantised.py [--users 6040] [--epochs 20] [--rounds 40]

The model has the size of one for ML-1M: 3,416 items and histories of up to 200. It is trained on the generated world
`series`. For each form of the graph, every user's test item is ranked among all items. Times are processor time on one
thread: in each round every form answers once, in a random order, and the median over rounds is reported. Writes
benchmarks/results/quantised.json and .md, and a part of docs/production.md.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.children import tell
from benchmarks.machine import RESULTS, ROOT, describe_code, made_on, write_pages, write_result
from tinyattn.data import SeriesWorld, leave_one_out
from tinyattn.evaluation.ranking import refuse_nan
from tinyattn.export import export
from tinyattn.models import SASRec

RESULT, PAGE, PRODUCTION = RESULTS / "quantised.json", RESULTS / "quantised.md", ROOT / "docs" / "production.md"
CODE = ("tinyattn/export", "tinyattn/models", "benchmarks/quantised.py")
SEED, AT_ONCE, K = 0, 64, 10
CALIBRATED = 128  # histories that calibrate the ranges of the static form
WORLD = {"series": 427, "episodes": 8, "shortest": 20, "longest": 120}
MODEL = {"maxlen": 200, "dim": 50, "blocks": 2, "heads": 1, "dropout": 0.2, "lr": 1e-3, "patience": 0, "seed": SEED}
FORMS = {
    "float32": "as `tinyattn export` writes it",
    "int8": "`quantize_dynamic`: weights in 8 bits, activations when they are there",
    "int8, by channel": "the same with a scale for each column of a weight",
    "int8, static": f"`quantize_static`: ranges of activations from {CALIBRATED} histories",
}


def write_forms(folder: Path, batches: list[np.ndarray]) -> dict[str, Path]:
    """Quantise folder/float32.onnx into every other form -> the path of each. `batches` are for calibration."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(batches)

        def get_next(self) -> dict[str, np.ndarray] | None:
            ids = next(self.left, None)
            return None if ids is None else {"ids": ids}

    whole, bits = folder / "float32.onnx", {"weight_type": QuantType.QInt8}
    paths = {name: folder / f"{name}.onnx" for name in FORMS}
    quantize_dynamic(whole, paths["int8"], **bits)
    quantize_dynamic(whole, paths["int8, by channel"], per_channel=True, **bits)
    # padding scores -inf, and a range that includes -inf turns all scores into NaN: quantise MatMul and Gather only
    quantize_static(whole, paths["int8, static"], Reader(), op_types_to_quantize=["MatMul", "Gather"], **bits)
    return paths


def session_of(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def padded(histories: list[np.ndarray], maxlen: int) -> np.ndarray:
    ids = np.zeros((len(histories), maxlen), dtype=np.int64)
    for row, history in zip(ids, histories, strict=True):
        newest = history[-maxlen:]
        row[: len(newest)] = newest
    return ids


def best(session: Any, histories: list[np.ndarray], targets: np.ndarray, maxlen: int) -> tuple[np.ndarray, np.ndarray]:
    """-> the K best unseen items of each history, and the rank of its target among all unseen items, from 0."""
    tops, places = [], []
    for at in range(0, len(histories), AT_ONCE):
        some, wanted = histories[at : at + AT_ONCE], targets[at : at + AT_ONCE]
        (scores,) = session.run(["scores"], {"ids": padded(some, maxlen)})
        refuse_nan(scores)
        rows = np.arange(len(some))
        target = scores[rows, wanted].copy()
        for row, history in zip(scores, some, strict=True):
            row[history] = -np.inf
        scores[:, 0] = -np.inf
        tops.append(np.argsort(-scores, axis=1, kind="stable")[:, :K])
        better = (scores > target[:, None]).sum(axis=1)
        equal = (scores == target[:, None]).sum(axis=1) - (scores[rows, wanted] == target)
        places.append(better + equal / 2)  # 8 bits make ties: the target takes the middle place
    return np.concatenate(tops), np.concatenate(places)


def timed(answers: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """{name: median of the processor time of an answer, in seconds}."""
    order, seconds = random.Random(SEED), {name: list[float]() for name in answers}
    for _ in range(rounds + 3):  # the first three warm up
        for name in order.sample([*answers], len(answers)):
            began = time.process_time()
            answers[name]()
            seconds[name].append(time.process_time() - began)
    return {name: float(np.median(each[3:])) for name, each in seconds.items()}


def measured(users: int, epochs: int, rounds: int) -> dict[str, Any]:
    split = leave_one_out(SeriesWorld(users=users, seed=SEED, **WORLD).generate())
    tell(f"{len(split.data):,} interactions; training ...")
    model = SASRec(**MODEL, epochs=epochs, batch_size=128).fit(split)
    histories, targets = histories_of(split)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        export(model, folder / "float32.onnx")
        some = [padded(histories[i : i + 8], model.maxlen) for i in range(0, CALIBRATED, 8)]
        paths = write_forms(folder, some)
        sessions = {name: session_of(path) for name, path in paths.items()}
        tell("ranking ...")
        found = {name: best(session, histories, targets, model.maxlen) for name, session in sessions.items()}
        longest = sorted(histories, key=len)[-1:]
        seconds = {}
        for n in (1, AT_ONCE):
            feed = {"ids": padded(longest * n, model.maxlen)}
            seconds[n] = timed({name: partial(s.run, ["scores"], feed) for name, s in sessions.items()}, rounds)
        size = {name: path.stat().st_size for name, path in paths.items()}
    exact, _ = found["float32"]
    forms = {}
    for name, (tops, places) in found.items():
        gain = np.where(places < K, 1 / np.log2(places + 2), 0.0)
        overlap = np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(tops, exact, strict=True)])
        forms[name] = {
            "bytes": size[name], "ndcg@10": float(np.mean(gain)), "overlap": float(overlap),
            "one": seconds[1][name], "many": seconds[AT_ONCE][name],
        }  # fmt: skip
    return {"users": users, "items": split.data.n_items, "interactions": len(split.data), "epochs": epochs,
            "rounds": rounds, "forms": forms}  # fmt: skip


def histories_of(split: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """-> for each tested user, the history without the test item; and the test items. Both hold item numbers."""
    data = split.data
    rows = [data.sequence(u) for u in range(data.n_users) if len(data.sequence(u)) > 2]
    return [row[:-1] for row in rows], np.array([row[-1] for row in rows])


def table(result: dict[str, Any]) -> Iterator[str]:
    yield f"| | MB | NDCG@10 | of the {K} best, the same | one answer, ms | {AT_ONCE} at once, ms |"
    yield "|---|---|---|---|---|---|"
    for name, row in result["forms"].items():
        yield (f"| {name} | {row['bytes'] / 1e6:.2f} | {row['ndcg@10']:.4f} | {row['overlap']:.1%} "
               f"| {1e3 * row['one']:.2f} | {1e3 * row['many']:.0f} |")  # fmt: skip


def conditions(result: dict[str, Any]) -> str:
    return (
        f"A SASRec of {result['items']:,} items, histories of up to {MODEL['maxlen']}, width {MODEL['dim']}, "
        f"{MODEL['blocks']} blocks, on {result['users']:,} users of the generated world `series`; every user's last "
        "item is ranked among all others. Times are medians of the processor's time on one thread, for the longest "
        f"history, on {made_on(result['machine'])}, which also did other work: compare them with each other only."
    )


def page(result: dict[str, Any]) -> str:
    return "\n".join([
        "# An ONNX graph in 8 bits", "", conditions(result), "", *table(result), "",
        *(f"- {name}: {says}" for name, says in FORMS.items()), "",
        f"ONNX Runtime {result['onnxruntime']}; {result['rounds']} rounds. Made by `python benchmarks/quantised.py`.",
        "",
    ])  # fmt: skip


def pages() -> dict[Path, str]:
    result = json.loads(RESULT.read_text())
    return {PAGE: page(result), PRODUCTION: "\n".join([*table(result), "", conditions(result)])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=6040, metavar="N")
    parser.add_argument("--epochs", type=int, default=20, metavar="N")
    parser.add_argument("--rounds", type=int, default=40, metavar="N")
    options = parser.parse_args()
    import onnxruntime

    result = measured(options.users, options.epochs, options.rounds)
    result |= {"machine": describe_code(*CODE), "onnxruntime": onnxruntime.__version__}
    print(json.dumps(result["forms"], indent=1))
    write_result(RESULT, result)
    write_pages(__file__, pages())


if __name__ == "__main__":
    main()
