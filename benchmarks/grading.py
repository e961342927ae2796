"""Measure how long `tinyattn course grade` takes for a class, on generated submissions of one chapter.

    python benchmarks/grading.py                    200 submissions of chapter 04, two workers
    python benchmarks/grading.py --chapter 8 --people 50

Of ten people, six hand in right answers, two have one wrong line, and one leaves an exercise out. The tenth hands in
hostile or broken work: an endless loop, code that fills the memory, starts processes without end, exits or reads other
people's folders, a forged "✓", or no notebook at all.
"""

import argparse
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import describe_code, write_result
from tinyattn.course.chapters import BEGIN, END, Chapter, chapters
from tinyattn.course.exercise import RIGHT
from tinyattn.course.grading.marks import grade
from tinyattn.sandbox import Limits

RESULT = Path(__file__).parent / "results" / "grading.json"
WRONG_LINES = ((" - ", " + "), (" @ ", " * "), ("axis=-1", "axis=0"), (" * ", " / "), (" / ", " * "), (" + ", " - "))
TROUBLE = {
    "loops": "while True:\n        pass",
    "fills_memory": "x = [0]\n    while True:\n        x = x + x",
    "starts_processes": "import os\n    while True:\n        os.fork()",
    "exits": "import os\n    os._exit(0)",
    "raises": "raise SystemExit(0)",
    "reads_others": "import pathlib\n    return [p.read_text() for p in pathlib.Path('/').rglob('*.ipynb')]",
    "prints_a_verdict": "print('✓ right. All properties hold.')\n    return True",
}


def written(chapter: Chapter, rng: random.Random, kind: str) -> list[str]:
    """The code cells of a submission: "right", "wrong", "left out", or a name in TROUBLE."""
    blocks = re.findall(rf"^ *{BEGIN}\n(.*?)^ *{END}\n", chapter.source, re.M | re.S)
    chosen, text = rng.randrange(len(blocks)), chapter.source
    for i, block in enumerate(blocks):
        new = block
        indent = block[: len(block) - len(block.lstrip())]
        if kind == "wrong" and i == chosen:
            code = re.sub(r" *#.*", "", block)  # an error in a comment would change nothing
            possible = [pair for pair in WRONG_LINES if pair[0] in code]
            new = code.replace(*rng.choice(possible), 1) if possible else re.sub(r"\d", "7", code)
        elif kind == "left out" and i == chosen:
            new = f"{indent}raise NotImplementedError\n" if indent else re.sub(r"=.*", "= ...", block)
        elif kind in TROUBLE and indent:
            new = f"    {TROUBLE[kind]}\n"
        text = text.replace(block, f"{indent}# {rng.random()}\n{new}", 1)
    text = re.sub(rf"^ *({BEGIN}|{END})\n", "", text, flags=re.M)
    cells = re.split(r"^# %%(.*)\n", text, flags=re.M)[1:]
    return [cell for head, cell in zip(cells[::2], cells[1::2], strict=True) if "[markdown]" not in head]


def notebook(cells: list[str]) -> str:
    verdict = [{"output_type": "stream", "name": "stdout", "text": "✓ right"}]  # forged: outputs are not graded
    made = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": verdict} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def hand_in(folder: Path, chapter: Chapter, people: int, seed: int = 0) -> dict[str, str]:
    """Write a folder of submissions. -> {person: kind of the submission}."""
    rng, kinds = random.Random(seed), dict[str, str]()
    trouble = [*TROUBLE, "no notebook"]
    for i in range(people):
        kind = ("right", "right", "right", "right", "right", "right", "wrong", "wrong", "left out", "")[i % 10]
        kind = kind or trouble[i // 10 % len(trouble)]
        person = f"person_{i:03}"
        text = "%PDF-1.7" if kind == "no notebook" else notebook(written(chapter, rng, kind))
        (folder / person).mkdir(parents=True)
        (folder / person / f"{chapter.path.stem}.ipynb").write_text(text)
        kinds[person] = kind
    return kinds


def measured(chapter: Chapter, people: int, workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as made:
        kinds = hand_in(Path(made) / "class", chapter, people)
        load, began = os.getloadavg()[0], time.perf_counter()
        records = grade([Path(made) / "class"], Path(made) / "marks.csv", [chapter.number], workers, Limits())
        seconds, computing = time.perf_counter() - began, _computed()
        again = time.perf_counter()
        grade([Path(made) / "class"], Path(made) / "marks.csv", [chapter.number], workers, Limits())
        again = time.perf_counter() - again
    right: dict[str, list[int]] = {}
    longest: dict[str, float] = {}
    for record in records:
        kind, marks = kinds[record["person"]], record["marks"]
        right.setdefault(kind, []).append(sum(mark["outcome"] == RIGHT for mark in marks))
        longest[kind] = max(longest.get(kind, 0.0), sum(mark["seconds"] for mark in marks))
    return {
        "load of the machine before": round(load, 1),
        "seconds of computing, of all processes": round(computing),
        "chapter": chapter.number, "people": people, "workers": workers, "seconds": round(seconds, 1),
        "seconds of a second run": round(again, 1), "exercises": len(chapter.exercises),
        "right answers, fewest and most of a person": {kind: [min(n), max(n)] for kind, n in right.items()},
        "longest, in seconds": {kind: round(x, 1) for kind, x in longest.items()},
    }  # fmt: skip


def _computed() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chapter", type=int, default=4, metavar="NN")
    parser.add_argument("--people", type=int, default=200, metavar="N")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    options = parser.parse_args()
    result = measured(chapters([options.chapter])[0], options.people, options.workers)
    print(json.dumps(result, indent=1))
    write_result(RESULT, result | {"machine": describe_code("tinyattn/course", "tinyattn/sandbox")})


if __name__ == "__main__":
    main()
