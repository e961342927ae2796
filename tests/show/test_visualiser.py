"""The visualiser: its numbers are the model's, on the page as in the arrays; gradients are held to differences."""

import importlib
import json
import re
import time
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.show.browser import (
    contrast,
    emulated,
    opened,
    refuse_complaints,
    refuse_unreachable,
    screen,
    settle,
    tab_stops,
)
from tinyattn.data.worlds import SeriesWorld
from tinyattn.models import BERT4Rec, Decoder, Encoder, Markov, SASRec
from tinyattn.models.explanation import gradient_times_input
from tinyattn.ops import relative_values_backward, softmax
from tinyattn.show.views import visualise, visualise_text
from tinyattn.show.views.view import as_json
from tinyattn.show.views.visualiser import _asked, _packed
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
    assert (page["last"], page["shuffled"]["moved"]) == (n - 1, pytest.approx(other["shuffled"]["moved"], rel=1e-4))
    one, more = (visualise(model, history(model), padding=p).table for p in (0, 2))      # of the last item
    last = [np.array(re.findall(r"<td>([\d.]+)</td>", page.split("</table>")[1]), float).reshape(-1, len(r.tokens))
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
    assert len(visualise_text(32 * "a b ").data["runs"][0]["tokens"]) == 63
    one, again, other = (visualise_text("one word", seed=seed).data["runs"] for seed in (1, 1, 2))
    assert one == again != other
    assert one[0]["tokens"] == ["one"]
    unlearned = visualise_text(" ".join(f"w{i}" for i in range(30))).data["runs"][0]["outputs"]
    assert [o["name"] for o in unlearned if o.get("came")] == ["w29"]        # not among the ten best
    monkeypatch.setattr(visualisers, "LONGEST", 4)
    assert visualise(trained(), history(trained())).data["note"].startswith("It looks at the newest 4 of the 6 items")


@cache
def text_model(kind: Any, **options: Any) -> Any:
    return kind(**{"epochs": 1, "dim": 8, "heads": 2, "layers": 2, "context": 8} | options).fit(40 * "abc def\n")


def test_a_decoder_answers_with_the_next_token_and_an_encoder_with_the_hidden_one() -> None:
    model = text_model(Decoder)
    run = visualise(model, "abc def").data["runs"][0]
    assert run["tokens"] == list("abc␣def")                                # a blank can be seen
    scores = model.network.forward(model.parameters, model.tokens.encode("abc def")[None])[0][0, -1]
    order = np.argsort(-scores, kind="stable")
    *best, loss = run["outputs"]
    assert [o["name"] for o in best] == [model.tokens.text([i]).replace(" ", "␣").replace("\n", "⏎") for i in order]
    np.testing.assert_allclose([o["share"] for o in best], softmax(scores)[order], atol=1e-6)
    assert (loss["name"], any(o["came"] for o in best)) == ("the loss", False)      # nothing follows a prompt
    masked = text_model(Encoder)
    run = visualise(masked, "a_c d_f").data["runs"][0]
    assert (run["last"], run["tokens"], {o["rank"] > 0 for o in run["outputs"]}) == (1, list("a_c␣d_f"), {True})
    ways = [(text[1], p) for text, p in masked.fill("a_c d_f", 100)]
    for one in run["outputs"]:
        character = one["name"].replace("␣", " ").replace("⏎", "\n")
        assert one["share"] == pytest.approx(sum(p for first, p in ways if first == character), abs=1e-6)


def test_two_models_answer_with_what_both_know(monkeypatch: Any) -> None:
    ab, ac = (Decoder(epochs=10, dim=8, heads=2, layers=1, context=8, lr=0.02).fit(99 * text) for text in ("ab", "ac"))
    runs = visualise(ab, "a", against=ac).data["runs"]
    assert [[o["name"] for o in run["outputs"]] for run in runs] == 2 * [["a"]]
    monkeypatch.setattr(importlib.import_module("tinyattn.show.views.visualiser"), "BEST", 2)
    with pytest.raises(ValueError, match="the two models have no answer in common: they know different items"):
        visualise(ab, "a", against=ac)


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
    damaged = SASRec(epochs=1, dim=8, heads=2, maxlen=10, workers=1).fit(WORLD.generate())
    damaged.parameters["items"][...] = np.nan
    with pytest.raises(ValueError, match="the model's scores are NaN: its parameters are damaged"):
        visualise(damaged, history(damaged))
    masked = text_model(Encoder)
    with pytest.raises(ValueError, match="the text has no blank: expected '_'"):
        visualise(masked, "abc")
    with pytest.raises(ValueError, match="the text has 9 tokens, expected 8 at most"):
        visualise(masked, "abcdefab_")
    with pytest.raises(ValueError, match="the text is empty"):
        visualise(text_model(Decoder), "")
    for padding in (-1, 5):
        with pytest.raises(ValueError, match=f"padding is {padding}, expected 0 to 4"):
            visualise(model, history(model), padding=padding)


# ---- in a browser

LOOKED_AT, STEPS = "[aria-label='what it looks at']", "[aria-label='from scores to weights']"
TOKENS, ANSWERS = "[aria-label^='tokens: choose'] button", "[aria-label^='answers: choose'] button"


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
        "const s = document.querySelector(`select[aria-label='${arguments[0]}']`); s.value = arguments[1];"
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
    chosen(chromium, "view", "rollout")
    np.testing.assert_allclose(weights_on(chromium).sum(axis=1), 1, atol=1e-5)
    refuse_complaints(chromium)


def test_hovering_and_keys_choose_who_looks(chromium: Any, tmp_path: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    model = trained()
    opened(chromium, visualise(model, history(model), against=trained(position="alibi")), tmp_path)
    chosen(chromium, "view", "weights")
    words = chromium.find_elements("css selector", TOKENS)

    def looking() -> list[str]:
        settle(chromium)
        return [h.text.split()[1] for h in chromium.find_elements("css selector", f"{LOOKED_AT} h2")]

    ActionChains(chromium).move_to_element(words[2]).perform()
    assert looking() == 2 * [history(model)[2]]                             # both models
    ActionChains(chromium).move_to_element(chromium.find_element("css selector", "h1")).perform()
    assert looking() == 2 * [history(model)[5]]                             # the last, as before
    words[3].click()
    ActionChains(chromium).move_to_element(chromium.find_element("css selector", "h1")).perform()
    words[3].send_keys(Keys.ARROW_RIGHT)                                   # focus goes on to the next one
    assert looking() == 2 * [history(model)[4]]
    for key, i in ((Keys.HOME, 0), (Keys.ARROW_LEFT, 0), (Keys.PAGE_DOWN, 5), (Keys.ARROW_UP, 4), (Keys.END, 5)):
        chromium.switch_to.active_element.send_keys(key)
        assert looking()[0] == history(model)[i]
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


def test_answers_are_shown_with_the_models_numbers_and_the_chosen_one_is_explained(
    chromium: Any, tmp_path: Any
) -> None:
    from selenium.webdriver.common.keys import Keys

    model = trained(position="none")
    opened(chromium, visualise(model, history(model)), tmp_path)

    def numbers_of(where: str) -> list[float]:
        settle(chromium)
        return [float(x.get_attribute("data-value")) for x in chromium.find_elements("css selector", where)]

    shown = [x.text.split("\n") for x in chromium.find_elements("css selector", ANSWERS)]
    items, scores = model.recommend([history(model)], 10)
    assert [(int(rank), name) for rank, name, _ in shown[:-1]] == list(enumerate(items[0].tolist(), 1))
    np.testing.assert_allclose(numbers_of(ANSWERS)[:-1], scores[0], atol=1e-6)
    for place in (0, 3):
        heading = chromium.find_element("css selector", f"{LOOKED_AT} h2").text
        assert heading == f"What each token adds to the score of {items[0, place]}"
        symbol = int(model.items.numbers([items[0, place]])[0])
        expected = gradient_times_input(model, np.arange(1, 7), symbol, np.zeros(1, dtype=int))
        np.testing.assert_allclose(numbers_of(TOKENS), expected, atol=1e-6)
        chromium.execute_script("document.querySelector(arguments[0]).focus()", f"{ANSWERS}[tabindex='0']")
        for _ in range(3):
            chromium.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        chromium.switch_to.active_element.send_keys(Keys.ENTER)
        settle(chromium)
    opened(chromium, visualise_text("The cat sat on the mat"), tmp_path)
    assert [x.text.split("\n")[1] for x in chromium.find_elements("css selector", f"{ANSWERS}:has(em)")] == ["mat"]
    refuse_complaints(chromium)


@pytest.mark.parametrize("options", [KINDS[0], KINDS[5]], ids=named)
def test_lines_have_the_weights_of_all_heads(options: dict[str, Any], chromium: Any, tmp_path: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    model = trained(**options)
    opened(chromium, visualise(model, history(model)), tmp_path)
    chromium.execute_script("document.querySelector(\"select[aria-label='drawn as']\").focus()")
    chromium.switch_to.active_element.send_keys(Keys.ARROW_DOWN)           # the keyboard is enough
    settle(chromium)

    def lines(which: str = "line") -> dict[tuple[int, ...], float]:
        settle(chromium)
        found = chromium.execute_script(
            "return [...document.querySelectorAll(arguments[0])].map((x) => "
            "[x.dataset.head, x.dataset.from, x.dataset.to, x.dataset.value].map(Number))", f".lines {which}",
        )  # fmt: skip
        return {(int(h), int(i), int(j)): x for h, i, j, x in found}

    weights = model.attention(history(model))[1][0]
    drawn = lines()
    assert drawn == pytest.approx({place: weights[place] for place in drawn}, abs=1e-6)
    assert set(drawn) == {place for place in np.ndindex(*weights.shape) if weights[place] >= 0.01 * weights.max()}
    assert {i for _, i, _ in lines("line.now")} == {5}
    chromium.execute_script("document.querySelector('.lines').focus()")
    for _ in range(2):
        chromium.switch_to.active_element.send_keys(Keys.ARROW_UP)
        settle(chromium)
    assert {i for _, i, _ in lines("line.now")} == {3}
    chosen(chromium, "head", 1)
    assert {h for h, _, _ in lines()} == {1}
    chosen(chromium, "view", "product")
    assert min(lines().values()) < 0
    assert chromium.find_elements("css selector", ".lines line[stroke-dasharray]")
    refuse_complaints(chromium)


def test_of_200_items_the_answer_is_on_the_first_screen_and_twenty_tabs_reach_all(
    chromium: Any, tmp_path: Any
) -> None:
    model = trained(maxlen=200, epochs=1, heads=4)
    ids = (model.items.ids.tolist() * 10)[:200]
    view = visualise(model, ids, names=lambda item: f"an item named {item}")
    assert len(view.data["runs"][0]["tokens"]) == 200
    with screen(chromium, 1280, 900):
        opened(chromium, view, tmp_path)
        for part in (ANSWERS, f"{LOOKED_AT} ol", f"{LOOKED_AT} [role=group]"):
            boxes = [x.rect for x in chromium.find_elements("css selector", part)]
            assert all(box["y"] + box["height"] <= 900 and box["width"] > 0 for box in boxes), part
        shown = chromium.find_elements("css selector", f"{LOOKED_AT} li small")
        effects = np.abs(_unpacked(view.data["runs"][0]["inputs"][0]))
        largest = [abs(float(x.text.replace("−", "-"))) for x in shown]
        np.testing.assert_allclose(largest, np.sort(effects)[::-1][:10], rtol=0.06)
        used = chromium.execute_script(
            "return Math.max(...[...document.querySelectorAll('.panel')].map((x) => x.getBoundingClientRect().right))"
        )
        assert used > 1200
        for form in ("matrix", "lines"):
            chosen(chromium, "drawn as", form)
            settle(chromium)
            stops = tab_stops(chromium)
            assert 8 <= len(stops) <= 20, stops
        assert len(chromium.find_elements("css selector", ".lines > div:last-of-type span")) == 10
    refuse_complaints(chromium)


@pytest.mark.parametrize("options", [{}, {"heads": 8, "kv_heads": 1, "blocks": 3, "position": "rope"}], ids=named)
def test_a_phone_shows_all_without_overflow(options: dict[str, Any], chromium: Any, tmp_path: Any) -> None:
    model, wide = trained(), trained(**{"dim": 16} | options)
    ids = history(model)
    with screen(chromium, 400, 800):
        for view in (visualise(wide, ids, against=model), visualise(wide, ids[:1])):       # two, and a single token
            opened(chromium, view, tmp_path)
            for form in ("matrix", "lines"):
                chosen(chromium, "drawn as", form)
                settle(chromium)
                assert chromium.execute_script("return document.documentElement.scrollWidth <= innerWidth")
            thumbs = [x.rect for x in chromium.find_elements("css selector", ".small canvas")]
            assert all(x["width"] == x["height"] and x["x"] + x["width"] <= 400 for x in thumbs)
        chosen(chromium, "drawn as", "matrix")
        assert weights_on(chromium) == [[1]]
    refuse_complaints(chromium)


def test_infinities_are_shown_as_such(chromium: Any, tmp_path: Any) -> None:
    view = visualise(trained(), history(trained()))
    run = json.loads(json.dumps(view.data["runs"][0]))
    run["outputs"][0]["value"] = "inf"
    run["inputs"][0]["f4"] = _packed(np.array([np.nan, np.inf, -np.inf, 1, 2, 3]))["f4"]
    run["layers"][0]["v"] = _packed(np.full((2, 6, 4), np.nan))
    view.data = view.data | {"runs": [run]}
    opened(chromium, view, tmp_path)
    assert chromium.find_element("css selector", f"{ANSWERS} b").text == "∞"
    assert [x.text.split("\n")[1] for x in chromium.find_elements("css selector", TOKENS)] == ["NaN", "∞", "−∞", *"123"]
    chosen(chromium, "view", "gradient")
    for form in ("lines", "matrix"):
        chosen(chromium, "drawn as", form)
        settle(chromium)
    assert "NaN" in chromium.find_element("css selector", "[aria-label='all tokens']").text
    refuse_complaints(chromium)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_weights_on_colours_can_be_read(scheme: str, chromium: Any, tmp_path: Any) -> None:
    model = trained()
    emulated(chromium, scheme)
    try:
        opened(chromium, visualise(model, history(model)), tmp_path)
        shades = chromium.execute_script("""
            const all = "[aria-label='what it looks at'] button, [aria-label='all tokens'] td";
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
        view = visualise(model, history(model), names=lambda item: named.get(item, f"</script><i>{item}"))
        opened(chromium, view, tmp_path)
        answers = chromium.find_elements("css selector", f"{ANSWERS} span")
        assert all(x.text.startswith("</script><i>") for x in answers[:-1])
        words = chromium.find_elements("css selector", TOKENS)
        assert words[0].text.split("\n")[0] == hostile[0]
        chosen(chromium, "drawn as", "lines")
        settle(chromium)
        left = chromium.find_elements("css selector", ".lines > div:first-of-type span")
        assert left[0].get_attribute("textContent") == hostile[0]
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
        chosen(chromium, "head", 0)
        settle(chromium)
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
