"""Does tinyattn give the same scores as the code that trained a SASRec checkpoint?

    python benchmarks/imported.py sasrec.pth --code SASRec.pytorch/python --heads 1 --block-form pre
    python benchmarks/imported.py last.ckpt                    # a checkpoint of RecTools, which must be installed

FILE is a checkpoint of pmixer/SASRec.pytorch or RecTools. For pmixer's, `--code` is the folder of the model.py that
trained it. That code and tinyattn score the same histories. Writes benchmarks/results/imported.json, with a row for
each `--name`, and the table of docs/elsewhere.md.
"""

import argparse
import hashlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result
from tinyattn.models import import_model

RESULT, PAGE = RESULTS / "imported.json", ROOT / "docs" / "elsewhere.md"
ALIKE = 1e-5                      # largest difference allowed, relative to a history's largest score


def of_pmixer(file: str, code: str, model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A function from a history to its scores by the class SASRec of pmixer's model.py."""
    import torch

    sys.path.insert(0, code)
    from model import SASRec  # type: ignore[import-not-found]

    args = SimpleNamespace(
        device="cpu", hidden_units=model.dim, maxlen=model.maxlen, dropout_rate=0.0, num_blocks=model.blocks,
        num_heads=model.heads, norm_first=model.block_form == "pre",
    )  # fmt: skip
    if model.block_form != "sasrec" and "norm_first" not in inspect.getsource(SASRec):
        raise SystemExit(f"{code}/model.py knows one order of norms, which is --block-form sasrec")
    network = SASRec(0, len(model.items), args)
    network.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    network.eval()

    def score(history: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network.predict(None, padded(history, model.maxlen), np.arange(len(model.items) + 1)).numpy().ravel()

    return score


def of_rectools(file: str, model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """A function from a history to its scores by RecTools. Loading a checkpoint can run code: only load your own.

    RecTools 0.19 with a Lightning newer than 2.5.2 loads it only with TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1.
    """
    import torch
    from rectools.models import SASRecModel  # type: ignore[import-not-found]

    theirs = SASRecModel.load_from_checkpoint(file, map_location="cpu")
    network = theirs.torch_model.eval()
    numbers = np.concatenate([[0], theirs.data_preparator.item_id_map.convert_to_internal(model.items.ids)])

    def score(history: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            batch = {"x": torch.tensor(padded(numbers[history], model.maxlen))}
            return network(batch)[0, -1].numpy()[numbers]

    return score


def padded(history: np.ndarray, maxlen: int) -> np.ndarray:
    """(1, maxlen), with 0 before the items."""
    newest = history[-maxlen:]
    return np.concatenate([np.zeros(maxlen - len(newest), dtype=np.int64), newest])[None]


def pages() -> dict[Path, str]:
    return {PAGE: table(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--code", metavar="FOLDER", help="folder of pmixer's model.py, for a FILE of pmixer's")
    parser.add_argument("--heads", type=int)
    parser.add_argument("--block-form")
    parser.add_argument("--name", metavar="TEXT", help="the model's name in the table (default: the name of FILE)")
    parser.add_argument("--histories", type=int, default=50, metavar="N")
    options = parser.parse_args()
    named = {name: getattr(options, name) for name in ("heads", "block_form") if getattr(options, name) is not None}
    model: Any = import_model(options.file, **named)
    score = of_pmixer(options.file, options.code, model) if options.code else of_rectools(options.file, model)
    rng, worst = np.random.default_rng(0), 0.0
    for n in rng.integers(1, model.maxlen + 10, size=options.histories):
        history = rng.integers(1, len(model.items) + 1, size=n)
        found, expected = model.score([history])[0, 1:], score(history)[1:]
        worst = max(worst, float(np.max(np.abs(found - expected)) / np.max(np.abs(expected))))
    print(f"{options.histories} histories: scores differ by {worst:.2g} of the largest at most")
    if not worst <= ALIKE:
        raise SystemExit(f"expected at most {ALIKE:g}")
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    shape = {name: getattr(model, name) for name in ("block_form", "padding", "blocks", "heads", "dim", "maxlen")}
    result[options.name or Path(options.file).name] = {
        "sha256": hashlib.sha256(Path(options.file).read_bytes()).hexdigest(), "items": len(model.items), **shape,
        "histories": options.histories, "differ": worst, "machine": describe(),
    }  # fmt: skip
    write_result(RESULT, result)
    write_pages(__file__, pages())


def table(result: dict[str, Any]) -> str:
    """The table of docs/elsewhere.md, from the results file alone."""
    lines = ["| checkpoint | block form, padding | items | blocks × width, heads, maxlen | scores differ by |",
             "|---|---|---|---|---|"]  # fmt: skip
    for name, row in result.items():
        size = f"{row['blocks']} × {row['dim']}, {row['heads']}, {row['maxlen']}"
        form = f"{row['block_form']}, {row['padding']}"
        lines.append(f"| {name} | {form} | {row['items']:,} | {size} | {row['differ']:.1e} |")
    return "\n".join([*lines, "", f"Compared on {made_on(*(row['machine'] for row in result.values()))}."])


if __name__ == "__main__":
    main()
