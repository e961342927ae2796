"""Solutions pass, and an accepted answer carries on: chapters run to their ends with each style of right answer.

Chapter and style are a test each, so that a run can be cut anywhere and resumed: `-k 09`, or `-k "09 and style-3"`.
The slow part tries one style a chapter, another one in the next; all, for a quarter of an hour, with EVERY_STYLE=1.
"""

import os
import re
from collections import Counter
from dataclasses import replace

import pytest

from tests.course.answers import found
from tests.models.worlds import write_tiny
from tinyattn.course.chapters import chapters
from tinyattn.course.exercises import BY_NAME
from tinyattn.course.graders import function
from tinyattn.course.session import accepted

RIGHT, _ = found()
STYLES = max(map(len, RIGHT.values()))
EVERY = bool(os.environ.get("EVERY_STYLE"))
TRIED = [(chapter, style) for chapter in chapters()
         for style in (range(STYLES) if EVERY else [chapter.number % STYLES])]  # fmt: skip
STEPS = "enumerate(batches, start=1)"                         # of chapter 10, which trains at 25 learning rates
EPOCHS = "epochs=6"                                           # of chapter 20
CHECKED = r'^check\("(\w+)", \1(?:, seed=\d+)?\)'


def of_style(i):
    """Answer i of every exercise that asks for code; exercises with fewer begin again."""
    return {name: answers[i % len(answers)] for name, answers in RIGHT.items()}


@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize(("chapter", "style"), TRIED, ids=[f"{c.path.stem}-style-{i}" for c, i in TRIED])
def test_every_accepted_answer_carries_on(chapter, style, monkeypatch, tmp_path):
    """Each exercise checks its solution first, then the answer. Those of earlier chapters are what `yours` returns.

    Chapter 12 trains on a small file: some are loops. Chapter 10 compares after 3 steps, not 60; chapter 20 trains for
    one epoch, not six. The text is one that a seed changes; with every style, the second has it.
    """
    monkeypatch.setattr(function, "EXAMPLES", 2)
    plain, chapter = chapter, replace(chapter, seed=2 if style == 1 or not EVERY else None)
    answers = of_style(style)
    here = {exercise.name for exercise in chapter.exercises} & answers.keys()
    if EVERY and style >= max((len(RIGHT[name]) for name in here), default=1) and chapter.source == plain.source:
        pytest.skip("its exercises have fewer styles")
    monkeypatch.setattr("builtins.ANSWERS", answers, raising=False)
    monkeypatch.setattr("builtins.accepted", accepted, raising=False)
    earlier = {n for n in answers if hasattr(BY_NAME[n].grader, "reference")} - here
    text = re.sub(CHECKED, lambda m: f'{m[0]}; {m[1]} = ANSWERS["{m[1]}"]; {m[0]}' if m[1] in here else m[0],
                  chapter.solved(), flags=re.M)  # fmt: skip
    text = text.replace("FILE = None", f"FILE = {str(write_tiny(tmp_path / 'mine.txt'))!r}")
    assert text.count(STEPS) == (chapter.path.stem == "10_learning")
    assert text.count(EPOCHS) == (chapter.path.stem == "20_images")
    text = text.replace(STEPS, "enumerate(batches[:3], start=1)").replace(EPOCHS, "epochs=1")
    text = f"accepted().update({{name: ANSWERS[name] for name in {sorted(earlier)}}}); {text}"
    verdicts = chapter.run(text)
    checks = Counter(verdict.exercise.name for verdict in verdicts)
    assert [e.name for e in chapter.exercises if checks[e.name] < 1 + (e.name in here)] == []
    assert [str(verdict) for verdict in verdicts if not verdict] == []
