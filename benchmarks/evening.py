"""Write docs/reading.md: lines to read in pages/sasrec.py, its ops and the library, and the calls of one step.

    python benchmarks/evening.py

It reads the sources, and traces the calls of one training step, from the command down to `softmax_backward`. It also
writes the code of docs/block.md.
"""

import ast
import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import ROOT, read_no_arguments, write_pages
from tinyattn.pages import part

PAGE = ROOT / "docs" / "reading.md"
PACKAGE = ROOT / "tinyattn"
DOWN = {
    "ops/linear.py": ("linear", "linear_backward"),
    "ops/softmax.py": ("softmax", "softmax_backward"),
    "ops/attention/attention.py": ("attention", "attention_backward"),
    "ops/layer_norm.py": ("layer_norm", "layer_norm_backward"),
    "ops/activations.py": ("relu", "relu_backward"),
    "ops/dropout.py": ("dropout", "dropout_backward"),
    "ops/embedding.py": ("embedding", "embedding_backward"),
    "ops/losses.py": ("bce_with_logits", "bce_with_logits_backward"),
    "training/adam.py": ("adam",),
}
UP = {
    "layers/mixers/multi_head.py": ("multi_head_attention", "multi_head_attention_backward"),
    "layers/feed_forward.py": ("feed_forward", "feed_forward_backward"),
    "layers/block.py": ("pre_block", "pre_block_backward"),
    "layers/stack.py": ("Stack.forward", "Stack.backward"),
    "models/recommenders/sasrec.py": ("SASRecNetwork.forward", "SASRecNetwork.backward"),
    "models/objectives.py": ("bce", "bce_backward"),
    "models/next_item.py": ("NextItemNetwork.loss", "NextItemNetwork.loss_backward"),
    "training/learner.py": ("Learner.differentiate", "Learner.update"),
    "training/loop.py": ("train",),
}


def lines_of(file: str, names: tuple[str, ...]) -> int:
    """The total lines of these functions and methods (`Class.method`), with docstrings."""
    found = {}
    for node in ast.parse((PACKAGE / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}": part for part in node.body if isinstance(part, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = node
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in (found[name] for name in names))


def table(parts: dict[str, tuple[str, ...]]) -> list[str]:
    rows = ["| file | what to read | lines |", "|---|---|---|"]
    total = 0
    for file, names in parts.items():
        lines = lines_of(file, names)
        total += lines
        rows.append(f"| [{file}](../tinyattn/{file}) | {', '.join(f'`{name}`' for name in names)} | {lines} |")
    return [*rows, f"| | together | {total:,} |"]


class _SeenError(BaseException):
    """Stops training when it has reached `softmax_backward`."""


def calls() -> list[str]:
    """FILE: FUNCTION of every call from the command down to `softmax_backward`."""
    from tinyattn.cli import main

    chain: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == "softmax_backward" and not chain:
            up: FrameType | None = frame
            while up is not None and Path(up.f_code.co_filename).is_relative_to(PACKAGE):
                name = Path(up.f_code.co_filename).relative_to(PACKAGE).as_posix()
                chain.append(f"{name}: {up.f_code.co_qualname}")
                up = up.f_back
            raise _SeenError

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        words = ["train", "--epochs", "1", "--dim", "4", "--maxlen", "4", "--batch-size", "3000", "--ops", "readable"]
        sys.setprofile(watch)
        try:
            with contextlib.suppress(_SeenError):
                main([*words, "--out", f"{folder}/run"])
        finally:
            sys.setprofile(None)
    return chain[::-1]


def pages() -> dict[Path, str]:
    page = len((PACKAGE / "pages" / "sasrec.py").read_text().splitlines())
    steps = calls()
    text = [
        f"## The page: {page} lines", "",
        "[tinyattn/pages/sasrec.py](../tinyattn/pages/sasrec.py) is all of it, from a file of interactions to ten "
        "items. `tinyattn page sasrec > sasrec.py` writes a copy.", "",
        "## Down: what the page spells out, as ops", "", *table(DOWN), "",
        "## Up: the page as a library", "", *table(UP), "",
        f"## From the command to `softmax_backward`: {len(steps)} calls", "",
        *(f"{i}. `{step}`" for i, step in enumerate(steps, start=1)),
    ]  # fmt: skip
    block = f"~~~python\n{part('sasrec', 'block', 'block_backward')}\n~~~"      # a test runs every ```python block
    return {PAGE: "\n".join(text), ROOT / "docs" / "block.md": block}


if __name__ == "__main__":
    read_no_arguments(__doc__)
    write_pages(__file__, pages())
