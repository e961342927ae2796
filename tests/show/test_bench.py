"""The bench: the page's own attention is the library's, whatever is turned."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.show.browser import contrast, emulated, opened, refuse_complaints, refuse_unreachable, settle
from tinyattn.ops import attention, attention_backward
from tinyattn.show.views import Goal, bench

RESULTS = ("weights", "out", "dq", "dk", "dv")


def drawn(seed: int) -> dict[str, Any]:
    """Random settings: sizes, heads, mask, scale."""
    rng = np.random.default_rng(seed)
    n, heads, d, e = rng.integers(1, 7), rng.integers(1, 4), rng.integers(1, 4), rng.integers(1, 4)
    mask = [np.ones((n, n), bool), np.tril(np.ones((n, n), bool)), rng.random((n, n)) < 0.5][seed % 3]
    widths = {"q": d, "k": d, "v": e, "dout": e}
    numbers = {name: 3 * rng.standard_normal((n, heads * width)) for name, width in widths.items()}
    return numbers | {"mask": mask, "heads": int(heads), "scale": float(rng.uniform(-2, 3))}


def expected(q: Any, k: Any, v: Any, dout: Any, mask: Any, heads: int, scale: float) -> dict[str, np.ndarray]:
    """What the library's attention gives, heads joined again."""
    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(len(x), heads, -1).swapaxes(0, 1)

    def joined(x: np.ndarray) -> np.ndarray:
        return x.swapaxes(0, 1).reshape(x.shape[1], -1)

    q, k, v, dout = map(split, (q, k, v, dout))
    out, weights = attention(q, k, v, mask, scale=scale)
    dq, dk, dv, _ = attention_backward(dout, q, k, v, weights, scale=scale)
    return {"weights": weights} | {n: joined(x) for n, x in zip(RESULTS[1:], (out, dq, dk, dv), strict=True)}


def shown(driver: Any, name: str) -> list[float]:
    """What stands in all matrices of that name, exactly as the page holds it."""
    settle(driver)
    return driver.execute_script("""
        const boxes = [...document.querySelectorAll('.array')];
        const box = boxes.find((x) => x.querySelector('h3 code').textContent === arguments[0]);
        const select = box.querySelector('select'), found = [];
        for (const option of select ? select.options : [null]) {
            if (option) { select.value = option.value; select.dispatchEvent(new Event('change')); }
            found.push(...[...box.querySelectorAll('td')].map((x) => Number(x.dataset.value)));
        }
        return found;""", name)  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_the_page_computes_what_the_library_does(seed: int, chromium: Any, tmp_path: Any) -> None:
    settings = drawn(seed)
    opened(chromium, bench([f"t{i}" for i in range(len(settings["q"]))], **settings), tmp_path)
    for name, x in expected(**settings).items():
        np.testing.assert_allclose(shown(chromium, name), x.ravel(), atol=1e-6, rtol=1e-6, err_msg=name)
    refuse_complaints(chromium)


def test_all_follows_what_is_turned(chromium: Any, tmp_path: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    settings = drawn(1) | {"heads": 1, "scale": None, "mask": np.ones((4, 4), bool)}
    rng = np.random.default_rng(5)
    settings |= {name: np.round(rng.standard_normal((4, 2)), 1) for name in ("q", "k", "v", "dout")}
    opened(chromium, bench(["The", "cat", "sat", "down"], **settings), tmp_path)
    first = dict(zip(("q", "k", "v", "mask"), chromium.find_elements("css selector", ".array"), strict=False))
    cell = first["k"].find_elements("css selector", "td")[3]
    cell.send_keys("+", "+", "-", "+")                                                     # by keys: .2 more
    settings["k"][1, 1] += 0.2
    cell = first["q"].find_elements("css selector", "td")[2]
    ActionChains(chromium).move_to_element(cell).click_and_hold().move_by_offset(0, -50).release().perform()
    settings["q"][1, 0] += 0.5                                                             # by dragging: .5 more
    first["mask"].find_elements("css selector", "td")[6].click()
    settings["mask"][1, 2] = False
    scale = chromium.find_element("css selector", "[aria-label=scale]")
    scale.send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    settings["scale"] = 0.01
    for name, x in expected(**settings).items():
        np.testing.assert_allclose(shown(chromium, name), x.ravel(), atol=1e-6, rtol=1e-6, err_msg=name)
    assert "np.array([[" in chromium.execute_script("return document.querySelector('textarea').value")
    refuse_complaints(chromium)


def test_an_exercise_says_when_it_is_done(chromium: Any, tmp_path: Any) -> None:
    says = "Make the second word look only at the first."
    opened(chromium, bench(["The", "cat"], goal=Goal(says, 1, 0), mask=np.ones((2, 2), bool)), tmp_path)
    assert says in chromium.find_element("css selector", "strong").text
    verdict = chromium.find_element("css selector", "[role=status]")
    assert "0.95 is asked for" in verdict.text
    chromium.find_elements("css selector", ".array")[3].find_elements("css selector", "td")[3].click()
    assert verdict.text == "Done: the weight is 1."
    refuse_complaints(chromium)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tokens": []}, "there are 0 tokens, expected 1 to 12"),
        ({"q": np.zeros((3, 4))}, r"q has shape \(3, 4\), expected \(2, 4\)"),
        ({"q": np.zeros((2, 4)), "k": np.full((2, 4), np.inf)}, "k has numbers that are not finite"),
        ({"heads": 3}, "D is 4 and heads 3"),
        ({"heads": 2, "v": np.ones((2, 3))}, "D is 3"),
        ({"heads": 2, "q": np.ones((2, 4)), "v": np.ones((2, 3))}, "D is 4, E is 3 and heads 2"),
        ({"hide": ["keys"]}, "hide has 'keys', expected some of scale, heads, mask, backward"),
        ({"mask": np.ones((2, 2))}, "mask has dtype float64, expected bool"),
        ({"scale": math.nan}, "scale is nan"),
        ({"goal": Goal("x", 2, 0)}, "expected tokens 0 to 1"),
    ],
)
def test_refusals(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        bench(**{"tokens": ["a", "b"], **given})


def test_what_is_not_yet_taught_is_left_out(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, bench(["a", "b"], hide=("scale", "heads", "mask", "backward")), tmp_path)
    names = [found.text for found in chromium.find_elements("css selector", ".array h3 code")]
    assert names == ["q", "k", "v", "q kᵀ", "q kᵀ / √d", "weights", "out"]
    assert len(chromium.find_elements("css selector", ".controls button, .controls input, .controls select")) == 1
    refuse_complaints(chromium)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_on_colours_can_be_read(scheme: str, chromium: Any, tmp_path: Any) -> None:
    """WCAG 2: a contrast of 4.5 for all shades of both signs, of what has no sign, and of masks."""
    emulated(chromium, scheme)
    try:
        ramp = np.linspace(-1, 1, 144).reshape(12, 12)
        opened(chromium, bench([str(i) for i in range(12)], q=ramp, k=abs(ramp), v=ramp, dout=ramp), tmp_path)
        shades = chromium.execute_script("""
            return [...document.querySelectorAll('.array td')].map((x) => getComputedStyle(x))
                .map((x) => [x.color, x.backgroundColor])
        """)
        assert len({ground for _, ground in shades}) > 200
        assert min(contrast(*shade) for shade in shades) >= 4.5
    finally:
        emulated(chromium, "light")


def test_on_paper_it_is_light_and_whole(chromium: Any, tmp_path: Any) -> None:
    emulated(chromium, "dark", "print")
    try:
        opened(chromium, bench(["a", "b"]), tmp_path)
        style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        assert chromium.execute_script(style, "body", "backgroundColor") == "rgb(255, 255, 255)"
        assert chromium.execute_script(style, ".controls", "display") == "none"
        assert chromium.execute_script(style, "td", "printColorAdjust") == "exact"
        grounds = chromium.execute_script(
            "return [...document.querySelectorAll('td')].map((x) => getComputedStyle(x).backgroundColor)"
        )
        assert "rgb(28, 30, 36)" not in grounds            # zero in the dark
    finally:
        emulated(chromium, "light")


def test_every_control_can_be_reached_and_seen_to_be(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, bench(["a", "b"]), tmp_path)
    refuse_unreachable(chromium, {"INPUT", "SELECT", "BUTTON", "TD", "SUMMARY"})
