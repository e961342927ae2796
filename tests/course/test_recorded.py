"""Measured numbers in chapters are those of benchmarks/results/."""

import ast
import json
import re
from itertools import pairwise

from benchmarks import ladder, roofline
from benchmarks.machine import RESULTS, ROOT, makes_in, short
from tinyattn.course.chapters import chapters
from tinyattn.course.exercises.chapter_22 import PRODUCTS_MS, STEP_MS


def assigned(number, name):
    """What a chapter assigns to a name, and its whole text in one line."""
    (chapter,) = chapters([number])
    (node,) = (x for x in ast.walk(ast.parse(chapter.source))
               if isinstance(x, ast.Assign) and getattr(x.targets[0], "id", "") == name)  # fmt: skip
    return ast.literal_eval(node.value), " ".join(re.sub(r"^# ?", "", chapter.source, flags=re.M).split())


WORDS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"]


def recorded(name, text):
    """The results of the make of CPU that the chapter names, and that name."""
    makes = {short(cpu): result for cpu, result in makes_in(RESULTS / f"{name}.json").items()}
    (cpu,) = re.findall(r"Recorded on an (.*?) with NumPy", text)
    return makes[cpu], cpu


def test_the_ladder_of_chapter_22():
    steps, text = assigned(22, "LADDER")
    result, cpu = recorded("ladder", text)
    row = result["A"]
    rungs, machine = row["rungs"], row["machine"]
    assert f"ms a step, {machine['cores']} cores of an {cpu}, NumPy {machine['numpy']}" in text
    climbed = [ms for row in ladder._climbed("A", rungs).values() if (ms := row.split(" ")[0])]
    assert [f"{ms:.1f}" for ms in steps.values()] == climbed
    assert f"took {max(steps.values()):.0f} ms a step" in text
    assert f"library's took {min(steps.values()):.0f}," in text
    count = WORDS[len(steps) - 1]
    assert f"from {max(steps.values()):.0f} ms to {min(steps.values()):.0f} has {count.lower()} steps" in text
    assert f"{count} choices lead from the textbook's way to the library's" in text
    gains = dict(zip(list(steps)[1:], (before / now for before, now in pairwise(steps.values())), strict=True))
    assert set(sorted(gains, key=gains.get)[-2:]) == {"rows sorted by length", "2 worker processes"}
    assert "Sorting by length and the second core gain most: each makes a step about twice as fast." in text
    assert all(1.9 < gains[name] < 2.1 for name in ("rows sorted by length", "2 worker processes"))
    gained = {name: before - now for name, (before, now) in zip(gains, pairwise(steps.values()), strict=True)}
    assert max(gained, key=gained.get) == "rows sorted by length"
    assert "most milliseconds are gained by work left out" in text
    slower = WORDS[sum(gain < 1 for gain in gains.values())]
    rounds = WORDS[row["options"]["rounds"]].lower()
    assert f"{slower} lines made it *slower* in this record of {rounds} rounds." in text
    assert f"{slower.lower()} bars are longer than the one above" in text
    page = (RESULTS / "ladder.md").read_text()
    for quoted in re.findall(r"\d\.\d\d \(\d\.\d\d to \d\.\d\d\)", text.replace(" times as long", "")):
        assert quoted in page


def test_the_profile_of_chapter_22():
    profile, text = assigned(22, "PROFILE")
    result, cpu = recorded("roofline", text)
    speeds = [round(result["one"][name] / 1e9) for name in ("copy in cache", "copy in memory")]
    assert "Copying 300 kB ran at {} GB a second in the record, and copying 80 MB at {}".format(*speeds) in text
    groups = [ms for ms, _ in roofline.groups(result).values()]
    assert (round(sum(groups), 1), tuple(round(ms, 1) for ms in groups[:2])) == (STEP_MS, PRODUCTS_MS)
    *largest, rest = profile.values()
    assert largest == [round(ms, 1) for ms in groups[: len(largest)]]
    assert abs(sum(groups[len(largest) :]) - rest) < 0.1
    assert round(sum(profile.values()), 1) == STEP_MS
    machine, both = result["machine"], sum(PRODUCTS_MS)
    assert f"(Recorded on an {cpu} with NumPy {machine['numpy']} by" in text
    norms = round(groups[2], 1)
    for name, ms in (("linear maps", PRODUCTS_MS[0]), ("both products", both), ("norms", norms)):
        assert f'("{name}, {100 * ms / STEP_MS:.0f} %", {ms:.1f},' in text
    most, least = (STEP_MS / (STEP_MS - ms) for ms in (both, PRODUCTS_MS[0]))
    assert f"at {most:.1f} for both products, at {least:.1f} for linear maps alone" in text
    assert f"linear maps and attention's products take {100 * both / STEP_MS:.0f} %" in text
    hints, (linear, scores), share = (ROOT / "notebooks/exercises/22.toml").read_text(), PRODUCTS_MS, both / STEP_MS
    assert f"{STEP_MS} - {linear} - {scores} = {STEP_MS - both:.1f} ms are left. Divide {STEP_MS} by that." in hints
    assert f"p = {both:.1f} / {STEP_MS} = {share:.2f}, the step can become 1 / (1 - p) = {most:.1f} times" in hints
    alone = STEP_MS / (STEP_MS - scores)
    wrong = {"share_of_the_rest": 1 / share, "share": share, "left": 1 - share, "per_cent": 100 * share,
             "linear_alone": least, "attention_alone": alone, "factors_multiplied": least * alone}  # fmt: skip
    for name, value in wrong.items():
        (shown,) = re.findall(rf"^{name} = \[([\d.]+),", hints, re.M)
        assert abs(float(shown) / value - 1) < 0.002, name


def test_the_card_of_chapter_21():
    card = json.loads((RESULTS / "gpu.json").read_text())["gpu"]
    ours, torch = ({row["name"]: 1e6 * row["seconds"] for row in card[key]} for key in ("times", "torch"))
    recorded, text = assigned(21, "RECORDED")
    assert recorded == {name: (round(ours[name]), round(torch[name])) for name in recorded}
    steps, _ = assigned(21, "STEP_MS")
    for name, times in steps.items():
        whole = f"SASRec, a training step of {name}"
        assert times == (round(ours[whole] / 1e3, 3), round(torch[whole] / 1e3, 3))
    small = next(iter(steps.values()))[0]
    launches = int(re.search(r"a step with (\d+) launches", text)[1])
    assert f"a step with {launches} launches takes {small:.1f} ms" in text
    assert f"The small step takes {1e3 * small / launches:.0f} µs a launch" in text
    world, machine = card["default_world"], card["machine"]
    assert f"took {world['there']['seconds']:.0f} seconds on one of the fastest cards, and" in text
    assert f"and {world['host']['seconds']:.0f} on the {machine['cores']} cores beside it" in text
    assert f"NDCG@10 {world['there']['metrics']['ndcg@10']:.4f}" in text
    assert f"on the host with {world['host']['metrics']['ndcg@10']:.4f}" in text
    assert f"{machine['device']} with CuPy {machine['cupy']}" in text
