"""How long do scripts of interactive pages take for each act of a reader, in headless Chromium? How large are pages?

    python benchmarks/views.py [--times 30]
    python benchmarks/views.py --parents        # only count the numbers of a trace whose parents the player knows

The visualiser shows 200 positions, 4 heads and 4 layers of a SASRec that was trained on the generated world. The player
shows a trace of self-attention, and the mirror 6 tokens, its maximum. Each act is done `--times` times. A page spreads
long work over frames, so the longest handler or frame after the act is reported. It is processor time of the page's own
thread, from Chromium's trace: without other processes, and without layout and paint unless the script forces them.
Needs chromium, chromium-driver and selenium (`pip install -e ".[browser]"`). Writes benchmarks/results/views.json and
.md.
"""

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.machine import RESULTS, describe, made_on, write_pages, write_result
from tinyattn.data import SeriesWorld
from tinyattn.layers import Block, MultiHead
from tinyattn.models import SASRec
from tinyattn.ops import Mask, attention, layer_norm, softmax
from tinyattn.show import Trace, trace
from tinyattn.show.parents import Parents
from tinyattn.show.views import View, mirror, visualise

RESULT, PAGE = RESULTS / "views.json", RESULTS / "views.md"
GOAL_MS, GOAL_BYTES = 16, 5_000_000
SCRIPT = ("EvaluateScript", "EventDispatch", "FireAnimationFrame", "TimerFire", "FunctionCall")      # kinds of events
# JavaScript that does an act, in place of %s -> milliseconds until all is drawn.
ACT = """const [i, done] = arguments, root = document.getElementById("view"), from = performance.now();
{ %s }
const check = () => root.hasAttribute("aria-busy") ? window.setTimeout(check, 4) : done(performance.now() - from);
check();"""
SELECT = """const s = document.querySelector("select[aria-label='WHICH']"), o = [...s.options];
s.value = o[(i + 1) % o.length].value; s.dispatchEvent(new Event("change"));"""
TOKEN = """const b = document.querySelectorAll("[aria-label^='tokens: choose'] button");
b[(i * 37) % b.length].click();"""
ANSWER = """const b = document.querySelectorAll("[aria-label^='answers: choose'] button");
b[i % b.length].click();"""
BACKWARD = """{ const s = document.querySelector("select[aria-label=view]"); if (s.value !== "product") {
  s.value = "product"; s.dispatchEvent(new Event("change")); } }
"""
STEP = """const s = document.querySelector("input[type=range]"); s.value = i % (Number(s.max) + 1);
s.dispatchEvent(new Event("input"));"""
CHOOSE = """const c = document.querySelectorAll("[aria-label=numbers] td[role=gridcell]");
c[(i * 7) % c.length].click();"""
TURN = """const c = document.querySelectorAll("g.edited"); c[(i * 7) % c.length].focus();
c[(i * 7) % c.length].dispatchEvent(new KeyboardEvent("keydown", {key: "+", bubbles: true}));"""

POINT = """const c = document.querySelectorAll("g.entry");
c[(i * 7) % c.length].dispatchEvent(new PointerEvent("pointerover", {pointerType: "mouse", bubbles: true}));"""


def select(which: str) -> str:
    return SELECT.replace("WHICH", which)


def measured() -> Iterator[tuple[str, View, dict[str, str]]]:
    """Yields the name of a page, the page, and {act of a reader: JavaScript that does it}."""
    model = SASRec(epochs=1, dim=64, heads=4, blocks=4, maxlen=200, workers=1).fit(SeriesWorld(users=60).generate())
    looks = visualise(model, (model.items.ids.tolist() * 10)[:200])
    acts = {"choose another view": select("view"), "choose another token": TOKEN,
            "choose another layer": select("layer"), "choose another head": select("head"),
            "choose another token, gradient times weight": BACKWARD + TOKEN,
            "choose another answer": ANSWER, "choose another answer, gradient times weight": BACKWARD + ANSWER,
            "choose lines, or the matrix": select("drawn as")}  # fmt: skip
    yield "visualiser, 200 positions, 4 heads, 4 layers", looks, acts
    q, k, v = np.random.default_rng(0).standard_normal((3, 6, 4))
    steps = trace(attention, q, k, v, backward=True).player()
    yield "player, attention of 6 tokens", steps, {"choose another number": CHOOSE, "go to another step": STEP}
    reflected = mirror(["the", "cat", "sat", "on", "the", "mat"])
    yield "mirror, 6 tokens", reflected, {"turn a number": TURN, "point at a number": POINT}


def of_block() -> Trace:
    rng, block = np.random.default_rng(0), Block(MultiHead(heads=2))
    p, x = block.init(rng, 4), rng.standard_normal((1, 4, 4))
    return trace(block.forward, p, x, mask=Mask(causal=True), backward=block.backward)


def drawn(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape)


TRACES = {
    "attention": lambda: trace(attention, *drawn(3, 4, 3), np.tri(4, dtype=bool), backward=True),
    "softmax": lambda: trace(softmax, drawn(3, 4), np.tri(3, 4, dtype=bool), backward=True),
    "layer_norm": lambda: trace(layer_norm, drawn(3, 4), *1 + drawn(2, 4), backward=True),
    "block": of_block,
}


def share_known(traced: Trace) -> tuple[int, int, set[str]]:
    """-> how many numbers have known parents, how many there are, and names of steps with a number without parents."""
    found = Parents(traced)
    known = [not sources.unknown for of in found.of for sources in np.ravel(of)]
    made = [(e, of) for e, of in zip(traced.entries, found.of, strict=False) if e.how not in ("input", "allocated")]
    total = sum(entry.value.size for entry in traced.entries)
    return sum(known), total, {entry.name for entry, of in made if not all(np.ravel(of))}


def parents_known() -> list[dict[str, Any]]:
    """A row for each trace: its steps, its numbers, and what `share_known` returns."""
    rows = []
    for name, make in TRACES.items():
        traced = make()
        known, total, bare = share_known(traced)
        rows.append({
            "trace": name, "steps": len(traced), "numbers": total, "known": known, "without": sorted(bare),
            "bytes": len(traced.player().html().encode()),
        })  # fmt: skip
    return rows


def browser() -> Any:
    try:
        from selenium import webdriver
    except ImportError:
        raise SystemExit('benchmarks/views.py needs selenium: pip install -e ".[browser]"') from None
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise SystemExit(f"benchmarks/views.py needs {' and '.join(missing)}")
    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1000",
        "--remote-allow-origins=*",
    ):  # fmt: skip
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(found["chromedriver"]))


class Tracer:
    """Chromium's own trace of its processes, read from the socket of its debugger."""

    def __init__(self, driver: Any) -> None:
        from websocket import create_connection  # installed with selenium, which needs it

        address = driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
        with urlopen(f"http://{address}/json/version") as answer:
            self._socket = create_connection(json.load(answer)["webSocketDebuggerUrl"])

    def close(self) -> None:
        self._socket.close()

    def _send(self, method: str, until: str, **params: Any) -> list[dict[str, Any]]:
        """Send a command -> the events that arrive before the message that has the key or the method `until`."""
        self._socket.send(json.dumps({"id": 1, "method": method, "params": params}))
        events: list[dict[str, Any]] = []
        while until not in (message := json.loads(self._socket.recv())) and message.get("method") != until:
            events += message.get("params", {}).get("value", [])
        return events

    def start(self) -> None:
        self._send("Tracing.start", "id", categories="devtools.timeline", transferMode="ReportEvents")

    def stop(self) -> list[float]:
        """-> milliseconds of processor time of each event in SCRIPT."""
        events = self._send("Tracing.end", "Tracing.tracingComplete")
        return [event["tdur"] / 1000 for event in events if event["name"] in SCRIPT and "tdur" in event]


def measure(times: int) -> tuple[str, list[dict[str, Any]]]:
    """-> the browser's version, and a row of measurements for each act."""
    found: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        driver = browser()
        stack.callback(driver.quit)
        driver.set_script_timeout(60)
        tracer = stack.enter_context(contextlib.closing(Tracer(driver)))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        for name, view, acts in measured():
            file = view.save(Path(folder) / "view.html")
            for act, code in {"open it": None, **acts}.items():
                longest, until = [], []
                for i in range(times):
                    if i == 0 or code is None:
                        if code is None:
                            tracer.start()
                        driver.get(file.as_uri())
                        until.append(driver.execute_async_script(ACT.replace("%s", ""), i))
                    if code is not None:
                        tracer.start()
                        until.append(driver.execute_async_script(ACT.replace("%s", code), i))
                    longest.append(max(tracer.stop()))
                found.append({
                    "page": name, "bytes": file.stat().st_size, "act": act, "median_ms": median(longest),
                    "worst_ms": max(longest), "drawn_ms": median(until),
                })  # fmt: skip
                print(found[-1], flush=True)
        return driver.capabilities["browserVersion"], found


def goals(acts: list[dict[str, Any]]) -> str:
    """Which goals are met, and by which tries they are not."""
    over = [one for one in acts if one["worst_ms"] > GOAL_MS]
    beyond = "; ".join(f"{one['act']}, {one['page']}: {one['worst_ms']:.1f} ms" for one in over)
    missed = [one for one in acts if one["median_ms"] > GOAL_MS or one["bytes"] > GOAL_BYTES]
    says = "by all medians" if not missed else f"but not by {len(missed)} of {len(acts)} rows"
    return f"{says}{f'; worst tries beyond it: {beyond}' if over else ''}"


def page(found: dict[str, Any]) -> str:
    machine = found["machine"]
    lines = ["# Pages to look into: size and script time", "",
             "| page | size, MB | what a reader does | longest script, ms | worst of all, ms | drawn after, ms |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    for one in found["acts"]:
        times = " | ".join(f"{one[name]:.1f}" for name in ("median_ms", "worst_ms", "drawn_ms"))
        lines.append(f"| {one['page']} | {one['bytes'] / 1e6:.2f} | {one['act']} | {times} |")
    lines += [
        "",
        f"Each {found['times']} times, in headless Chromium {found['chromium']}. The longest script, a handler or its "
        "share of one frame, is processor time of the page's thread: the median and the worst of all times. "
        f"The goals, {GOAL_MS} ms a frame and {GOAL_BYTES / 1e6:.0f} MB a page, are met {goals(found['acts'])}. "
        "Longer work is spread over "
        "frames: all is drawn after the time of the last column, on the clock and with layout and paint. The first "
        "tries compute what later ones look up: weights and gradients are computed in the page, from queries, keys, "
        "values and saved gradients, when they are first asked for.",
        "",
        f"{made_on(machine)}. Made by `python benchmarks/views.py`.",
        "",
        "## Of which numbers does the player know the parents?",
        "",
        "| trace, forward and backward | steps | numbers | parents known | size, MB |",
        "|---|---|---|---|---|",
    ]
    for one in found["parents"]:
        share = f"{100 * one['known'] / one['numbers']:.1f} %"
        lines.append(f"| {one['trace']} | {one['steps']} | {one['numbers']} | {share} | {one['bytes'] / 1e6:.2f} |")
    lines += [
        "",
        "Known are all numbers that the line reads to make a number, and those that have none: what comes in, and a "
        "constant such as c = 1 / √d. Made by `python benchmarks/views.py --parents`.",
    ]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=30, help="how often each act is done (default: 30)")
    parser.add_argument("--parents", action="store_true", help="only count numbers with known parents")
    options = parser.parse_args()
    times = options.times
    if times < 1:
        parser.error(f"--times is {times}, expected 1 or more")
    if options.parents:
        result = json.loads(RESULT.read_text())
    else:
        chromium, acts = measure(times)
        result = {"machine": describe(), "chromium": chromium, "times": times, "acts": acts}
    result["parents"] = parents_known()
    write_result(RESULT, result)
    write_pages(__file__, pages())
    print(page(result))


if __name__ == "__main__":
    main()
