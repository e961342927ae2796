"""The visualiser: its numbers are the model's, on the page as in the arrays; gradients are held to differences."""

from __future__ import annotations

import importlib
import json
import re
import time
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.show.browser import contrast, emulated, opened, refuse_complaints, refuse_unreachable, settle
from tinyattn.data.worlds import SeriesWorld
from tinyattn.models import BERT4Rec, Markov, SASRec
from tinyattn.models.explanation import gradient_times_input
from tinyattn.ops import relative_values_backward
from tinyattn.show.views import visualise, visualise_text
from tinyattn.show.views.view import as_json
from tinyattn.show.views.visualiser import _asked
from tinyattn.show.views.watch import Watched

WORLD = SeriesWorld(users=60)


@cache
def trained(**options: Any) -> SASRec:
    how: dict[str, Any] = {"epochs": 2, "dim": 8, "heads": 2, "maxlen": 10, "workers": 1, "patience": 0}
    return SASRec(**how | options).fit(WORLD.generate())


def history(model: SASRec, n: int = 6) -> list[Any]:
    return model.items.ids[:n].tolist()


KINDS: list[dict[str, Any]] = [
    {}, {"position": "alibi"}, {"mechanism": "window", "window": 3}, {"mechanism": "linear"}, {"position": "shaw"},
    {"mechanism": "strided"}, {"block_form": "ligr"}, {"position": "rope", "kv_heads": 1},
]  # fmt: skip


def named(options: dict[str, Any]) -> str:
    return "-".join(map(str, options.values())) or "plain"


@pytest.mark.parametrize("options", KINDS, ids=named)
def test_what_is_watched_is_what_the_model_does(options: dict[str, Any]) -> None:
    model = trained(**options)
    asked = _asked(model, history(model))
    scores, _ = asked.scores()
    whole = model.score([np.arange(1, 7)], np.zeros(1, dtype=int))[0]
    np.testing.assert_allclose(scores[-1, 1:], whole[1:], atol=1e-5)
    weights = np.array([layer.weights for layer in asked.watched.layers])
    np.testing.assert_allclose(weights, model.attention(history(model))[1], atol=1e-6)
    assert all(layer.from_scores == (options.get("mechanism") != "linear") for layer in asked.watched.layers)


@pytest.mark.parametrize("options", [*KINDS[:2], KINDS[4], *KINDS[6:]], ids=named)
def test_gradients_of_weights_and_inputs_are_those_of_the_score(options: dict[str, Any]) -> None:
    model = trained(**options)
    asked = _asked(model, history(model))
    asked.p = _wide(asked.p)
    asked.table = asked.table.astype(float)
    symbol = asked.best()[0]
    scores, cache = asked.scores()
    asked.watched.backward(asked.p, _only(scores, symbol) @ asked.table, cache)
    layers = asked.watched.layers
    for at, layer in enumerate(layers):
        gradient = by_weight(layer)
        for place in ((0, 5, 2), (1, 3, 3)):
            def nudged(by: float, at: int = at, place: tuple[int, ...] = place) -> float:
                def change(i: int, weights: np.ndarray) -> np.ndarray:
                    return weights + by * (np.arange(weights.size).reshape(weights.shape) == np.ravel_multi_index(
                        place, weights.shape)) if i == at else weights  # fmt: skip
                asked.watched.change = change
                return float(asked.scores()[0][-1, symbol])

            measured = (nudged(1e-5) - nudged(-1e-5)) / 2e-5
            assert gradient[place] == pytest.approx(measured, abs=1e-6)
    asked.watched.change = None


def by_weight(layer: Any) -> np.ndarray:
    """The gradient of the first output by each weight, (h, n, m)."""
    if layer.relative is None:
        return layer.gradients[0] @ layer.v.swapaxes(-1, -2)
    dv = relative_values_backward(layer.gradients[0], layer.weights, layer.relative)[0]
    return layer.gradients[0] @ layer.v.swapaxes(-1, -2) + dv


def _wide(tree: Any) -> Any:
    from tinyattn.tree import tree_map

    return tree_map(lambda x: np.asarray(x, dtype=float), tree)


def _only(scores: np.ndarray, symbol: int) -> np.ndarray:
    dscores = np.zeros((1, *scores.shape))
    dscores[0, -1, symbol] = 1
    return dscores


def test_inputs_are_those_of_explain() -> None:
    model = trained(position="none")                 # what goes into the first block is the item's embedding alone
    found = visualise(model, history(model)).data["runs"][0]
    symbol = _asked(model, history(model)).best()[0]
    expected = gradient_times_input(model, np.arange(1, 7), symbol, np.zeros(1, dtype=int))
    np.testing.assert_allclose(_unpacked(found["inputs"][0]), expected, atol=1e-5)


def _unpacked(packed: dict[str, str]) -> np.ndarray:
    import base64

    return np.frombuffer(base64.b64decode(packed["f4"]), dtype="<f4")


@pytest.mark.parametrize("kind", [SASRec, BERT4Rec])
def test_padding_changes_nothing_and_is_masked(kind: Any) -> None:
    model = kind(epochs=1, dim=8, heads=2, maxlen=10, workers=1).fit(WORLD.generate())
    asked, padded = _asked(model, history(model)), _asked(model, history(model), padding=2)
    assert padded.tokens == [*asked.tokens, "padding", "padding"]
    whole = model.score([np.arange(1, 7)], np.zeros(1, dtype=int))[0]
    for one in (asked, padded):
        np.testing.assert_allclose(one.scores()[0][-1, 1:], whole[1:], atol=1e-5)
    n = padded.real
    assert not any(layer.allowed[:n, n:].any() for layer in padded.watched.layers)
    page, other = (visualise(model, history(model), padding=p).data["runs"][0] for p in (2, 0))
    assert (page["last"], page["shuffled"]) == (n - 1, other["shuffled"])
    one, more = (visualise(model, history(model), padding=p).table for p in (0, 2))      # of the last item
    last = [np.array(re.findall(r"<td>([\d.]+)</td>", page), float).reshape(-1, len(r.tokens))
            for page, r in ((one, asked), (more, padded))]
    np.testing.assert_allclose(last[1][:, :n], last[0], atol=1e-3)
    assert "padding" in page["mask"]
    assert "padding" not in other["mask"]
    np.testing.assert_allclose(_unpacked(page["inputs"][0])[:n], _unpacked(other["inputs"][0]), atol=1e-5)


def test_a_history_longer_than_the_model_is_cut_and_that_is_said() -> None:
    data = visualise(trained(), history(trained(), 12)).data
    assert data["note"] == "It looks at the newest 10 of the 12 items of the history."
    assert data["runs"][0]["tokens"] == history(trained(), 12)[2:]
    assert visualise(trained(), history(trained())).data["note"] == ""


def test_weights_are_dealt_out_where_a_head_may_look() -> None:
    model = trained(position="shaw")
    asked = _asked(model, history(model))
    asked.watched.change = lambda at, weights: weights                   # as they are: nothing may move
    before = asked.scores()[0]
    asked.watched.change = None
    np.testing.assert_allclose(before, asked.scores()[0], atol=1e-5)


@pytest.mark.slow
def test_a_large_one_is_below_five_megabytes() -> None:
    model = SASRec(epochs=1, dim=64, heads=4, blocks=4, maxlen=200, workers=1).fit(WORLD.generate())
    ids = model.items.ids.tolist()
    view = visualise(model, (ids * 10)[:200])
    assert len(view.data["runs"][0]["tokens"]) == 200
    assert len(view.html()) < 5_000_000


def test_the_text_form_learns_and_says_so(monkeypatch: Any) -> None:
    view = visualise_text("The cat sat on the mat")
    assert "has just learned this one sentence" in view.data["note"]
    best = view.data["runs"][0]["outputs"]
    assert best[-1]["value"] < 0.1                                         # nats a word
    for text in ("word", 65 * "a "):
        with pytest.raises(ValueError, match=f"the text has {len(text.split())} words, expected 2 to 64"):
            visualise_text(text)
    visualisers = importlib.import_module("tinyattn.show.views.visualiser")
    monkeypatch.setattr(visualisers, "STEPS", 1)
    assert len(visualise_text(32 * "a b ").data["runs"][0]["tokens"]) == 64
    monkeypatch.setattr(visualisers, "LONGEST", 4)
    assert visualise(trained(), history(trained())).data["note"].startswith("It looks at the newest 4 of the 6 items")


def test_refusals() -> None:
    model = trained()
    with pytest.raises(ValueError, match="unknown item id nope"):
        visualise(model, ["nope"])
    with pytest.raises(ValueError, match="the history is empty"):
        visualise(model, [])
    chain = Markov().fit(WORLD.generate())
    with pytest.raises(ValueError, match="markov is of model markov, without attention that can be shown"):
        visualise(chain, history(model))
    with pytest.raises(ValueError, match="padding is 'tokens': its attention looks at slots before the history"):
        visualise(trained(padding="tokens"), history(model))
    with pytest.raises(ValueError, match="none is of model sasrec, without attention that can be shown"):
        visualise(trained(blocks=0), history(model), titles=["none"])
    with pytest.raises(ValueError, match="look at different tokens"):
        visualise(model, history(model, 8), against=trained(maxlen=5))
    with pytest.raises(ValueError, match="no blocks of queries, keys and values"):
        Watched(object())
    with pytest.raises(ValueError, match="longformer does not give weights times values"):
        visualise(trained(mechanism="longformer", window=3), history(model))
    for padding in (-1, 5):
        with pytest.raises(ValueError, match=f"padding is {padding}, expected 0 to 4"):
            visualise(model, history(model), padding=padding)


# ---- in a browser

LOOKED_AT, STEPS = "[aria-label='what it looks at']", "[aria-label='from scores to weights']"


def weights_on(driver: Any) -> np.ndarray:
    settle(driver)
    return cells_of(driver, "Number(x.dataset.value)")


def cells_of(driver: Any, what: str) -> np.ndarray:
    """Of every cell x of the matrix of all tokens."""
    cells = '[...document.querySelectorAll("[aria-label=\'all tokens\'] td")]'
    found = np.array(driver.execute_script(f"return {cells}.map((x) => {what})"))
    return found.reshape(int(len(found) ** 0.5), -1)


def chosen(driver: Any, label: str, value: Any) -> None:
    driver.execute_script(
        "const s = document.querySelector(`select[aria-label=${arguments[0]}]`); s.value = arguments[1];"
        "s.dispatchEvent(new Event('change'))", label, str(value),
    )  # fmt: skip


@pytest.mark.parametrize("options", KINDS[:6], ids=named)
def test_the_screen_shows_the_models_weights_and_gradients(
    options: dict[str, Any], chromium: Any, tmp_path: Any
) -> None:
    model = trained(**options)
    view = visualise(model, history(model))
    opened(chromium, view, tmp_path)
    expected, asked = model.attention(history(model))[1], _asked(model, history(model))
    symbol = asked.best()[0]
    scores, cache = asked.scores()
    asked.gradient(_only(scores, symbol)[0], cache)
    for layer in range(2):
        for head in range(2):
            chosen(chromium, "layer", layer)
            chosen(chromium, "head", head)
            chosen(chromium, "view", "weights")
            np.testing.assert_allclose(weights_on(chromium), expected[layer, head], atol=1e-6)
            allowed = np.broadcast_to(asked.watched.layers[layer].allowed, (2, 6, 6))[head]
            np.testing.assert_array_equal(cells_of(chromium, "!x.classList.contains('masked')"), allowed)
            chosen(chromium, "view", "gradient")
            gradient = by_weight(asked.watched.layers[layer])[head] * allowed
            np.testing.assert_allclose(weights_on(chromium), gradient, atol=1e-5)
    heads, below = (chromium.find_elements("css selector", f"[aria-label=inputs] {x}") for x in ("th", "td"))
    assert [x.rect["x"] for x in heads] == [x.rect["x"] for x in below]   # names stand above their numbers
    chosen(chromium, "view", "rollout")
    np.testing.assert_allclose(weights_on(chromium).sum(axis=1), 1, atol=1e-5)
    refuse_complaints(chromium)


def test_hovering_and_tabbing_choose_who_looks(chromium: Any, tmp_path: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    model = trained()
    opened(chromium, visualise(model, history(model), against=trained(position="alibi")), tmp_path)
    words = chromium.find_elements("css selector", "[aria-label^='tokens: choose'] button")
    ActionChains(chromium).move_to_element(words[2]).perform()
    settle(chromium)
    heads = [h.text for h in chromium.find_elements("css selector", f"{LOOKED_AT} h2")]
    assert len(heads) == 2
    assert all(history(model)[2] in text for text in heads)
    words[3].send_keys(Keys.TAB)                                           # focus goes on to the next one
    settle(chromium)
    assert history(model)[4] in chromium.find_element("css selector", f"{LOOKED_AT} h2").text
    assert "the weights sum to 1" in chromium.find_element("css selector", f"{LOOKED_AT} .number").text
    refuse_complaints(chromium)


def test_every_control_can_be_reached_and_keys_choose_a_row(chromium: Any, tmp_path: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    model = trained()
    opened(chromium, visualise(model, history(model)), tmp_path)
    refuse_unreachable(chromium, {"BUTTON", "SELECT", "TD", "DIV"})
    chosen(chromium, "view", "gradient")
    box = f"{STEPS} .scroll"
    chromium.execute_script("document.querySelector(arguments[0]).focus()", box)
    chromium.switch_to.active_element.send_keys(Keys.ARROW_UP)
    chromium.switch_to.active_element.send_keys(Keys.ARROW_UP)             # it is drawn anew, and keeps the focus
    settle(chromium)
    assert chromium.find_element("css selector", f"{STEPS} tr.now th").text == history(model)[3]
    refuse_complaints(chromium)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_weights_on_colours_can_be_read(scheme: str, chromium: Any, tmp_path: Any) -> None:
    model = trained()
    emulated(chromium, scheme)
    try:
        opened(chromium, visualise(model, history(model)), tmp_path)
        shades = chromium.execute_script("""
            const all = "[aria-label='what it looks at'] [role=listitem], [aria-label='all tokens'] td";
            return [...document.querySelectorAll(all)].filter((x) => !x.classList.contains('masked'))
                .map((x) => getComputedStyle(x)).map((x) => [x.color, x.backgroundColor])""")
        assert len(shades) == 27                                           # 6 looked at, and half of 6 by 6
        assert min(contrast(*shade) for shade in shades) >= 4.5
    finally:
        emulated(chromium, "light")


def test_hostile_tokens_are_text(chromium: Any, tmp_path: Any) -> None:
    model = trained()
    hostile = ["</script><script>alert(1)</script>", "\u202eright to left", "\U0001f642", 10_000 * "x", "<b>", ""]
    named = dict(zip(history(model), hostile, strict=True))
    try:
        chromium.set_window_size(400, 900)
        opened(chromium, visualise(model, history(model), names=lambda item: named.get(item, str(item))), tmp_path)
        words = chromium.find_elements("css selector", "[aria-label^='tokens: choose'] button")
        assert words[0].text == hostile[0]
        assert not chromium.find_elements("css selector", f"{LOOKED_AT} b")
        assert chromium.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        chromium.set_window_size(1300, 1000)
    refuse_complaints(chromium)


def test_an_array_is_saved_as_svg_with_its_names_and_numbers_as_text(chromium: Any, tmp_path: Any) -> None:
    model = trained()
    names = dict(zip(history(model), ["<b>", "&", "\u202eright to left", 100 * "x", "", "\U0001f642"], strict=True))
    try:
        emulated(chromium, "dark")
        opened(chromium, visualise(model, history(model), names=lambda item: names.get(item, str(item))), tmp_path)
        chromium.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
        chromium.find_element("css selector", "[aria-label='save attention weights as SVG']").click()
        for _ in range(500):
            if (tmp_path / "attention-weights.svg").exists():
                break
            time.sleep(0.01)
    finally:
        emulated(chromium, "light")
    drawn = ElementTree.fromstring((tmp_path / "attention-weights.svg").read_text(encoding="utf-8"))
    texts = [one.text or "" for one in drawn if one.tag.endswith("text")]
    tokens = [*names.values()]
    tokens[3] = 17 * "x" + "…"
    assert texts[0] == "attention weights (6, 6) layer 1, head 1"
    assert texts[1:13] == 2 * tokens
    weights = model.attention(history(model))[1][0, 0]
    np.testing.assert_allclose([float(x) for x in texts[13:]], weights[np.tri(6, dtype=bool)], rtol=5e-3, atol=1e-6)
    fills = [one.attrib["fill"] for one in drawn if one.tag.endswith("rect")]
    assert (len(fills), fills.count("rgb(222,222,222)")) == (36, 15)      # masked, as on paper


def test_data_is_json_without_markup() -> None:
    model = trained()
    text = as_json(visualise(model, history(model)).data)
    assert "<" not in text
    assert json.loads(text)["runs"][0]["tokens"] == history(model)
