"""Measured numbers in chapters are those of benchmarks/results/."""

import ast
import json
import re

from benchmarks import ladder, roofline
from benchmarks.machine import RESULTS
from tinyattn.course.chapters import chapters
from tinyattn.course.exercises.chapter_22 import PRODUCTS_MS, STEP_MS


def assigned(number, name):
    """What a chapter assigns to a name, and its whole text in one line."""
    (chapter,) = chapters([number])
    (node,) = (x for x in ast.walk(ast.parse(chapter.source))
               if isinstance(x, ast.Assign) and getattr(x.targets[0], "id", "") == name)  # fmt: skip
    return ast.literal_eval(node.value), " ".join(re.sub(r"^# ?", "", chapter.source, flags=re.M).split())


def test_the_ladder_of_chapter_22():
    steps, text = assigned(22, "LADDER")
    rungs = json.loads((RESULTS / "ladder.json").read_text())["A"]["rungs"]
    climbed = [ms for row in ladder._climbed("A", rungs).values() if (ms := row.split(" ")[0])]
    assert [f"{ms:.1f}" for ms in steps.values()] == climbed
    assert f"took {max(steps.values()):.0f} ms a step" in text
    assert f"library's took {min(steps.values()):.0f}," in text
    page = (RESULTS / "ladder.md").read_text()
    for quoted in re.findall(r"\d\.\d\d \(\d\.\d\d to \d\.\d\d\)", text.replace(" times as long", "")):
        assert quoted in page


def test_the_profile_of_chapter_22():
    profile, text = assigned(22, "PROFILE")
    result = json.loads((RESULTS / "roofline.json").read_text())
    speeds = [round(result["one"][name] / 1e9) for name in ("copy in cache", "copy in memory")]
    assert "Copying 300 kB ran at {} GB a second in the record, and copying 80 MB at {}".format(*speeds) in text
    groups = [ms for ms, _ in roofline.groups(result).values()]
    assert (round(sum(groups), 1), tuple(round(ms, 1) for ms in groups[:2])) == (STEP_MS, PRODUCTS_MS)
    *largest, rest = profile.values()
    assert largest == [round(ms, 1) for ms in groups[: len(largest)]]
    assert abs(sum(groups[len(largest) :]) - rest) < 0.1
    assert round(sum(profile.values()), 1) == STEP_MS


def test_the_card_of_chapter_21():
    card = json.loads((RESULTS / "gpu.json").read_text())["gpu"]
    ours, torch = ({row["name"]: 1e6 * row["seconds"] for row in card[key]} for key in ("times", "torch"))
    recorded, text = assigned(21, "RECORDED")
    assert recorded == {name: (round(ours[name]), round(torch[name])) for name in recorded}
    steps, _ = assigned(21, "STEP_MS")
    for name, times in steps.items():
        whole = f"SASRec, a training step of {name}"
        assert times == (round(ours[whole] / 1e3, 3), round(torch[whole] / 1e3, 3))
    world, machine = card["default_world"], card["machine"]
    assert f"took {world['there']['seconds']:.0f} seconds on one of the fastest cards, and" in text
    assert f"and {world['host']['seconds']:.0f} on the {machine['cores']} cores beside it" in text
    assert f"NDCG@10 {world['there']['metrics']['ndcg@10']:.4f}" in text
    assert f"on the host with {world['host']['metrics']['ndcg@10']:.4f}" in text
    assert f"{machine['device']} with CuPy {machine['cupy']}" in text
