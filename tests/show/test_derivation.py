"""Derivations: every step's products have the same total, the last line is the library's gradient, and keys step."""

from typing import Any

import numpy as np
import pytest

from tests.show.browser import emulated, opened, refuse_complaints, refuse_unreachable
from tinyattn import ops
from tinyattn.show import moving
from tinyattn.show.views import derivation
from tinyattn.show.views.derivation import DERIVATIONS, brief, in_words

TERMS = "return [...document.querySelectorAll(arguments[0] + ' [data-key]')].map((x) => x.dataset.key)"
LAST: dict[str, Any] = {  # the arrays left of the comma in the last step
    "rule": lambda A, B, C: [A @ C.T],
    "product": lambda p, v, dout, **changes: list(ops.linear_backward(dout, p, v)[:2]),
    "softmax": lambda p, dp, δs: [ops.softmax_backward(dp, p)],
}


def drawn(kind: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sizes = dict(zip("nme", rng.integers(1, 7, 3), strict=True))
    arrays = {name: rng.standard_normal([sizes[axis] for axis in axes]) for name, axes in DERIVATIONS[kind][1].items()}
    return arrays | ({"p": ops.softmax(arrays["p"])} if "p" in arrays else {})


def array(factor: dict[str, Any]) -> np.ndarray:
    return np.array(factor["values"]).reshape(factor["shape"])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", DERIVATIONS)
def test_both_sides_of_every_step_agree_and_the_last_is_the_librarys_gradient(kind: str, seed: int) -> None:
    arrays = drawn(kind, seed)
    steps = derivation(kind, **arrays).data["steps"]
    for step in steps:
        np.testing.assert_allclose(step["total"], steps[0]["total"], rtol=1e-12, atol=1e-12)
        products = [p["factors"] for p in step["products"] if len(p["factors"]) == 2]
        signs = [-1 if "−" in p["opening"] else 1 for p in step["products"]]
        shown = [sign * np.sum(array(one) * array(other)) for sign, (one, other) in zip(signs, products, strict=False)]
        if shown:                                                      # the arrays beside the formula have its total
            np.testing.assert_allclose(sum(shown), step["total"], rtol=1e-12, atol=1e-12)
    found = [array(product["factors"][0]) for product in steps[-1]["products"]]
    for ours, expected in zip(found, LAST[kind](**arrays), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_a_seed_repeats_the_arrays_and_another_one_draws_anew() -> None:
    one, again, other = (derivation(seed=seed).data["steps"] for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("kind", DERIVATIONS)
def test_terms_have_a_key_of_their_own_in_each_step(kind: str) -> None:
    for step in derivation(kind).data["steps"]:
        keys = [key for line in step["lines"] for key, *_ in line]
        assert len(keys) == len(set(keys))


def test_the_steps_in_words() -> None:
    lines = in_words(derivation("product").data["steps"]).splitlines()
    assert lines[:2] == ["1. δL = ⟨dout, δout⟩", "   δout = δp v + p δv"]
    assert "4. δL = ⟨dout vᵀ, δp⟩ + ⟨dout, p δv⟩" in lines
    assert lines[-4:-2] == ["   dp = dout vᵀ", "   dv = pᵀ dout"]
    assert lines[-1] == "   −0.95 + 1.51 = 0.56: the same in every step"
    assert "6. ∑ᵢⱼ (∑ₖ Aᵢₖ Cⱼₖ) Bᵢⱼ" in in_words(derivation("rule").data["steps"])
    assert "   ds = p ⊙ (dp − ∑ₖ pₖ dpₖ)" in in_words(derivation("softmax").data["steps"])
    assert brief(-0.001) == "0.00"


@pytest.mark.parametrize("kind", DERIVATIONS)
def test_keys_and_buttons_step_and_the_page_says_what_the_data_say(kind: str, chromium: Any, tmp_path: Any) -> None:
    view = derivation(kind)
    steps = opened(chromium, view, tmp_path) and view.data["steps"]
    stage, (back, following) = (chromium.find_elements("css selector", x) for x in (".stage", ".controls button"))
    keys = ["\ue014", " "] * 4

    def refuse_other(i: int) -> None:
        text, step = chromium.find_element("css selector", "article.now").text, steps[i]
        assert step["says"] in text
        assert text.endswith(step["sum"])
        assert chromium.execute_script(TERMS, ".now math") == [key for line in step["lines"] for key, *_ in line]
        shown = chromium.execute_script("return [...document.querySelectorAll('.now td')].map((x) => x.textContent)")
        factors = [factor for product in step["products"] for factor in product["factors"]]
        assert shown == [brief(x) for factor in factors for x in factor["values"]]
        status = chromium.execute_script("return document.querySelector('[aria-live]').textContent")
        assert status == f"Step {i + 1} of {len(steps)}. {step['says']}"
        assert stage[0].get_attribute("aria-label") == f"{view.title}, step {i + 1} of {len(steps)}"
        assert (back.is_enabled(), following.is_enabled()) == (i > 0, i < len(steps) - 1)

    for i in range(len(steps)):
        refuse_other(i)
        stage[0].send_keys(keys[i])
    stage[0].send_keys("\ue012")                                           # left
    refuse_other(len(steps) - 2)
    following.click()
    refuse_other(len(steps) - 1)
    stage[0].send_keys("\ue011")                                           # home
    refuse_other(0)
    refuse_complaints(chromium)


def test_terms_move_unless_less_motion_is_asked_for(chromium: Any, tmp_path: Any) -> None:
    moves = "return document.getAnimations().filter((x) => x.effect.getKeyframes()[0].transform !== undefined).length"
    for reduced in (False, True):
        value = "reduce" if reduced else "no-preference"
        features = [{"name": "prefers-reduced-motion", "value": value}]
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        try:
            opened(chromium, derivation("product"), tmp_path)
            chromium.find_element("css selector", ".stage").send_keys(" ")
            assert (chromium.execute_script(moves) == 0) is reduced
        finally:
            emulated(chromium, "light")


def test_on_paper_all_steps_are_seen_and_the_stage_is_one_tab_stop(chromium: Any, tmp_path: Any) -> None:
    seen = "return [...document.querySelectorAll('article')].filter((x) => x.checkVisibility(arguments[0])).length"
    how = {"visibilityProperty": True}
    opened(chromium, derivation("softmax"), tmp_path)
    assert chromium.execute_script(seen, how) == 1
    assert chromium.execute_script("return document.querySelectorAll('main [tabindex]').length") == 1
    refuse_unreachable(chromium, {"BUTTON", "DIV"})
    emulated(chromium, "dark", "print")
    try:
        assert chromium.execute_script(seen, how) == 8
    finally:
        emulated(chromium, "light")


@pytest.mark.parametrize("width", [320, 400, 1300])
def test_no_formula_is_cut_off(width: int, chromium: Any, tmp_path: Any) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(chromium, derivation("softmax"), tmp_path)
        wait = "requestAnimationFrame(() => requestAnimationFrame(() => arguments[0]()))"
        chromium.execute_async_script(wait)                            # the observer of its width has seen it
        ends = "return [...document.querySelectorAll('.formula math')].map((x) => x.getBoundingClientRect().right)"
        assert max(chromium.execute_script(ends)) <= width
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_film_has_each_step_and_moves_between_them(monkeypatch: Any) -> None:
    monkeypatch.setattr(moving, "MOVES", 3)
    steps = derivation("product").data["steps"][2:4]
    shown = [seconds for _, seconds in moving.pictures(steps)]
    assert shown == [3.5, 0.07, 0.07, 3.5]
    before, after = (moving._placed(step, steps, tuple("abcdef")) for step in steps)
    halfway = list(moving._between(before, after, 0.5))
    v = next(item for item in halfway if item.text == r"$\mathit{v}$" and item.points == 22)
    assert v.x == (before["v"].x + after["v"].x) / 2
    assert {item.text for item in before.values()} >= {"−0.95 + 1.51 = 0.56: the same in every step", steps[0]["says"]}


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [
        ("flash", {}, "there is no derivation 'flash', expected one of rule, product, softmax"),
        ("product", {"q": np.ones((2, 2))}, "product has no array 'q', expected some of p, v, dout, δp, δv"),
        ("product", {"p": np.ones((3, 3)), "v": np.ones((4, 2))}, r"v has shape \(4, 2\), expected \(3, 2\)"),
        ("product", {"p": np.ones((3, 3)), "dout": np.ones((2, 2))}, r"dout has shape \(2, 2\), expected \(3, 2\)"),
        ("rule", {"A": np.ones((7, 2))}, r"A has shape \(7, 2\), expected 1 to 6 rows and columns"),
        ("rule", {"A": np.ones((0, 2))}, r"A has shape \(0, 2\)"),
        ("rule", {"A": np.ones(2)}, r"A has shape \(2,\)"),
        ("rule", {"A": [[1.0], [1.0, 2.0]]}, "A is not an array of real numbers"),
        ("softmax", {"dp": np.full((2, 2), np.nan)}, "dp has numbers that are not finite, or beyond 1000"),
        ("softmax", {"p": np.ones((1, 2))}, r"rows of p sum to \[2.\], expected 1"),
    ],
)
def test_refusals(kind: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        derivation(kind, **given)
