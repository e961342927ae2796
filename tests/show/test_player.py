"""The player: what stands on its page, and, in a browser, what a reader sees and may do."""

import importlib
import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

from tests.show.browser import opened, refuse_complaints, refuse_unreachable
from tinyattn.data import Batch
from tinyattn.layers import multi_head_attention, multi_head_init
from tinyattn.models import SASRecNetwork
from tinyattn.ops import attention, layer_norm, refine_simp
from tinyattn.show import Trace, trace
from tinyattn.show.parents import Parents
from tinyattn.show.views import player
from tinyattn.show.views.view import View, as_json, numbers

players = importlib.import_module("tinyattn.show.views.player")            # the function has its module's name
STEP = "input[type=range]"
MOVE = "const s = document.querySelector(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('input'))"


def attended(**more: Any) -> Trace:
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((2, 4)), rng.standard_normal((3, 4)), rng.standard_normal((3, 2))
    return trace(attention, q, k, v, np.array([[True, True, False], [True, True, True]]), **more)


def steps_of(found: Any) -> dict[int, Any]:
    return {found.data["first"] + i: step for i, step in enumerate(found.data["steps"])}


def test_every_step_has_its_line_its_array_and_what_the_line_read() -> None:
    t = attended(backward=True)
    data = player(t).data
    assert len(data["steps"]) == len(t)
    for entry, step in zip(t.entries, data["steps"], strict=True):
        array = data["arrays"][step["array"]]
        assert (step["name"], array["shape"]) == (entry.name, list(entry.value.shape))
        here = [float(x) for x in array["values"]]
        np.testing.assert_allclose(here, entry.value.ravel().astype(float), rtol=1e-5, atol=1e-12)
        lines = dict(data["functions"][data["calls"][step["call"]]["function"]]["lines"])
        assert lines[step["line"]].strip()[:10] in entry.text or entry.how == "input"
    read = {r["name"]: r["step"] for r in data["steps"][5]["reads"]}
    assert read == {"q": 0, "c": 4, "k": 1}                                # s = (q * c) @ transpose_last(k)


def test_a_gradient_has_its_value_and_the_lines_that_read_it() -> None:
    t = attended(backward=True)
    found = steps_of(player(t))
    gradients = {n: s["gradient"] for n, s in found.items() if s["gradient"]}
    values = {t.entries[n].path: t.entries[g["of"]].path for n, g in gradients.items()}
    assert values["attention_backward.ds"] == "attention.s"
    assert values["attention_backward.dout"] == "attention.out"
    assert values["attention_backward.dv"] == "attention.v"
    ds = next(g for n, g in gradients.items() if t.entries[n].path == "attention_backward.ds")
    text = dict(player(t).data["functions"][0]["lines"])
    assert [text[first].strip().partition(" =")[0] for first, _ in ds["lines"]] == ["weights"]


def test_where_gradients_meet_the_terms_are_named() -> None:
    network = SASRecNetwork(n_items=5, maxlen=3, dim=4, dropout=0.0, blocks=1)
    batch = Batch(
        ids=np.array([[2, 5, 1]]), slots=np.array([[0, 1, 2]]), users=np.array([1]),
        targets=np.array([[5, 1, 3]]), negatives=np.array([[4, 4, 2]]), weight=np.ones((1, 3)),
    )  # fmt: skip
    t = trace(network, network.init(np.random.default_rng(0)), batch, backward=True)
    found = player(t)
    met = [s for s in found.data["steps"] if s["adds"]]
    assert len(met) >= 3                                  # two residuals, and keys and values of one memory
    for step in met:
        terms = [np.array(found.data["arrays"][term["array"]]["values"], dtype=float) for term in step["adds"]]
        total = np.array(found.data["arrays"][step["array"]]["values"], dtype=float)
        np.testing.assert_allclose(sum(terms), total, rtol=1e-4, atol=1e-5 * np.max(np.abs(total)))


def test_a_term_without_a_name_is_what_is_left_of_the_sum() -> None:
    A, W_Q, W_K = np.random.default_rng(0).standard_normal((3, 3, 3))
    t = trace(refine_simp, A, W_Q, W_K, backward=True)
    found = player(t)
    [met] = [s for s in found.data["steps"] if s["adds"]]                  # dA += dY @ transpose_last(W_K)
    first, second = met["adds"]
    assert (first["name"], second["name"]) == ("dA", "dY @ transpose_last(W_K)")
    assert second["step"] == t.entry("refine_simp_backward.dY").number
    rest = np.reshape(found.data["arrays"][second["array"]]["values"], (3, 3))
    np.testing.assert_allclose(rest, t["refine_simp_backward.dY"] @ W_K.T, rtol=1e-4)


def both(x: Any, A: Any, B: Any) -> Any:
    return np.tanh(x @ A) @ B


def both_backward(dy: Any, x: Any, A: Any, B: Any) -> Any:
    h = np.tanh(x @ A)
    ds = dy @ B.T * (1 - h * h)
    dx = ds @ A.T + 0 * dy @ B.T
    return dx, x.T @ ds, h.T @ dy


def test_terms_of_which_none_has_a_name_are_computed_again() -> None:
    x, A, B = np.random.default_rng(0).standard_normal((3, 3, 3))
    t = trace(both, x, A, B, backward=True)
    found = player(t)
    [met] = [s for s in found.data["steps"] if s["name"] == "dx" and s["adds"]]
    assert [term["name"] for term in met["adds"]] == ["ds @ A.T", "0 * dy @ B.T"]
    first, second = (np.reshape(found.data["arrays"][term["array"]]["values"], (3, 3)) for term in met["adds"])
    np.testing.assert_allclose(first, t["both_backward.ds"] @ A.T, rtol=1e-4)
    assert not second.any()


def test_parents_are_packed_by_step_and_an_unknown_one_says_why() -> None:
    t = attended(backward=True)
    data = player(t).data
    s = t.entry("attention.s").number
    q, k, c = (t.entry(f"attention.{name}").number for name in "qkc")
    first = data["parents"][s][0]
    assert [first[0:2], first[10:12], first[20:]] == [[q, 4], [k, 4], [c, 1, 0, "nan"]]
    assert first[2:10:2] == first[12:20:2] == [0, 1, 2, 3]
    np.testing.assert_allclose(first[3:10:2], t["k"][0] / 2, rtol=1e-4)
    assert q not in data["parents"]                                        # it comes in
    assert data["loss"][:2] == [t.entry("attention.out").number, 4]
    np.testing.assert_allclose(data["loss"][3::2], t.replay.cotangents[0].ravel(), rtol=1e-4)

    def odd(x: Any) -> Any:
        y = np.interp(x, [0, 1], [0, 2])
        return y

    assert player(trace(odd, np.zeros(1))).data["parents"][1] == ["the line uses interp, for which there is no rule"]


def test_a_page_holds_so_many_parents(monkeypatch: Any) -> None:
    monkeypatch.setattr(players, "LINKS", 60)
    pages = player(attended()).data["parents"]
    texts = {n for n, of in pages.items() if isinstance(of, str)}
    assert pages[5][0][0] == 0
    assert texts == set(range(min(texts), 15))
    assert "the page has 60 parents, and holds no more: take fewer steps" in pages.values()


def test_what_is_a_parent_stands_among_what_the_line_reads() -> None:
    t = attended(backward=True)
    data = player(t).data
    for n, of in data["parents"].items():
        read = {r["step"] for r in data["steps"][n]["reads"]}
        assert {flat[0] for flat in of if flat} <= read or data["steps"][n]["how"] == "comes in"


def test_it_opens_at_a_step_of_choice() -> None:
    assert player(attended()).data["start"] is None
    assert player(attended(), start=5).data["start"] == 5
    with pytest.raises(ValueError, match="start is 15, expected one of the steps 3-7 on the page"):
        player(attended(), (3, 7), start=15)


def test_part_of_a_trace_and_one_that_is_too_large() -> None:
    found = player(attended(), steps=(5, 7), title="part")
    assert attended().player((5, 7), "part").data == found.data
    assert [s["name"] for s in found.data["steps"]] == ["s", "s", "row_max"]
    assert len(player(attended(), steps=(14, 14)).data["steps"]) == 1
    for steps in ((5, 15), (6, 5), (-1, 3)):
        with pytest.raises(ValueError, match=f"steps {steps[0]}-{steps[1]} are not there: the trace has steps 0-14"):
            player(attended(), steps=steps)
    x = np.zeros((300, 400))
    with pytest.raises(ValueError, match=r"have [\d,]+ numbers, and a page holds 300,000 .*: steps 0-\d would fit"):
        player(trace(layer_norm, x, np.ones(400), np.zeros(400)))


def test_json_of_a_page_cannot_end_its_element() -> None:
    text = as_json({"</script><script>alert(1)</script>": "\u2028 \u202e"})
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == {"</script><script>alert(1)</script>": "\u2028 \u202e"}
    assert numbers(np.array([1.0, 1 / 3, np.inf, -np.inf, np.nan, -0.0])) == [1, 0.333333, "inf", "-inf", "nan", 0]


def test_a_page_names_no_other_and_allows_its_own_script_only(tmp_path: Any) -> None:
    page = player(attended(), title="<b>&").html()
    assert "<title>&lt;b&gt;&amp;</title>" in page
    assert re.search(r"default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'", page)
    assert "http:" not in page
    assert "https:" not in page
    assert "innerHTML" not in page
    View("player", "", {}).save(tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").exists()


def test_in_a_notebook_it_is_a_frame_that_may_only_run_scripts() -> None:
    view = player(attended())
    html = view._repr_html_()
    assert 'sandbox="allow-scripts allow-downloads"' in html
    assert html.count("<iframe") == 1
    assert html.endswith(f"<summary>As a table</summary>{view.table}</details>")
    assert f"<noscript>{view.table}</noscript>" in view.html()
    srcdoc = re.search(r"srcdoc='([^']*)'>Run the cell, or trust the notebook, to see a page here.</iframe>", html)
    assert srcdoc is not None                                # the page is full of apostrophes, and none of them ends it
    assert unescape(srcdoc[1]) == view._page("This frame needs scripts; the table below it does not.")


# ---- in a browser


def key(driver: Any, name: str, times: int = 1) -> None:
    from selenium.webdriver.common.keys import Keys

    for _ in range(times):
        driver.switch_to.active_element.send_keys(getattr(Keys, name))


def texts(driver: Any, css: str) -> list[str]:
    return [found.text for found in driver.find_elements("css selector", css)]


def value_of(driver: Any, css: str) -> str:
    return driver.find_element("css selector", css).get_attribute("value")


def test_a_reader_steps_jumps_and_plays(chromium: Any, tmp_path: Any) -> None:
    t = attended(backward=True)
    opened(chromium, player(t), tmp_path)
    key(chromium, "ARROW_RIGHT", 5)
    assert value_of(chromium, STEP) == "5"
    assert "s = (q * c) @ transpose_last(k)" in texts(chromium, "pre .now")[0]
    key(chromium, "END")
    assert value_of(chromium, STEP) == str(len(t) - 1)
    key(chromium, "ARROW_RIGHT")                                           # no further
    key(chromium, "HOME")
    key(chromium, "ARROW_LEFT")
    assert value_of(chromium, STEP) == "0"
    leaf = next(b for b in chromium.find_elements("css selector", "nav button") if b.text.startswith("22"))
    leaf.click()
    assert value_of(chromium, STEP) == "22"
    assert chromium.find_elements("css selector", "pre .undone")
    refuse_complaints(chromium)


def test_numbers_on_the_screen_are_those_of_the_arrays(chromium: Any, tmp_path: Any) -> None:
    t = attended(backward=True)
    opened(chromium, player(t), tmp_path)
    for n in (0, 5, 13, 22):
        chromium.execute_script(MOVE, STEP, n)
        made = f"[aria-label=numbers] .panel:has(h2) table[aria-label^='{t.entries[n].name},'] td"
        cells = "return [...document.querySelectorAll(arguments[0])].map((x) => Number(x.dataset.value))"
        shown = chromium.execute_script(cells, made)[-t.entries[n].value.size :]
        assert sorted(shown) == pytest.approx(sorted(t.entries[n].value.ravel().tolist()), rel=1e-5, abs=1e-12)
    refuse_complaints(chromium)


def chosen(driver: Any, name: str, i: int = 0) -> str:
    """Choose a number of the step's result. -> what is said of it."""
    driver.find_elements("css selector", f".panel:not(:has(h2 button)) table[aria-label^='{name},'] td")[i].click()
    return texts(driver, ".panel[aria-live]")[0]


def at_step(driver: Any, n: int) -> None:
    driver.execute_script(MOVE, STEP, n)


def test_a_chosen_number_has_its_parents_its_sum_and_its_gradient(chromium: Any, tmp_path: Any) -> None:
    t = attended(backward=True)
    opened(chromium, player(t), tmp_path)
    text = chosen(chromium, "q")
    assert "q[0, 0] = " in text
    assert "It comes in from outside." in text
    assert "It goes into 3 of s step 5" in text
    assert "they agree" in text
    key(chromium, "ARROW_RIGHT")                                           # in the grid: the next number
    assert chromium.switch_to.active_element.get_attribute("aria-label").startswith("q[0, 1]")
    key(chromium, "ENTER")
    assert "q[0, 1] = " in texts(chromium, ".panel[aria-live]")[0]
    assert any("●" in text for text in texts(chromium, "nav button"))
    key(chromium, "ESCAPE")
    assert "Choose a number" in texts(chromium, ".panel[aria-live]")[0]

    at_step(chromium, t.entry("attention_backward.dv").number)
    text = chosen(chromium, "dv", 1)
    p, dout = t["weights"][:, 0], t.replay.cotangents[0][:, 1]
    shown = [float(x.replace("−", "-").strip("()")) for x in re.split(r" [·+] ", texts(chromium, "code.written")[0]
             .split(" = ")[1])]  # fmt: skip
    assert shown == pytest.approx([p[0], dout[0], p[1], dout[1]], rel=5e-3)
    assert "All its 4 parents" in text
    rows = texts(chromium, ".moves td:first-child")
    assert rows == ["weights[0, 0]", "weights[1, 0]", "dout[0, 1]", "dout[1, 1]"]
    linked = [cell.get_attribute("aria-label").partition(" ")[0] + "]" for cell in
              chromium.find_elements("css selector", "td.linked")]  # fmt: skip
    assert len(linked) == 4
    refuse_complaints(chromium)


def test_the_sum_of_every_product_on_the_page_is_its_number(chromium: Any, tmp_path: Any) -> None:
    """Every number of s, dq and out: the products that are written out add up to it."""
    t = attended(backward=True)
    opened(chromium, player(t), tmp_path)
    for name in ("attention.s", "attention.out", "attention_backward.dv"):
        entry = t.entry(name)
        at_step(chromium, entry.number)
        for i, x in enumerate(entry.value.ravel().tolist()):
            chosen(chromium, entry.name, i)
            written = texts(chromium, "code.written")[0].replace("−", "-").split(" = ")
            assert float(written[-1]) == pytest.approx(x, rel=1e-3, abs=1e-9)
            assert eval(written[1].replace("·", "*")) == pytest.approx(x, rel=0.02, abs=0.02)
    refuse_complaints(chromium)


def test_pointing_at_a_number_answers_where_it_came_from_without_scrolling(chromium: Any, tmp_path: Any) -> None:
    """Ten numbers: the marked parents are those of the trace, and all of the answer is on the screen."""
    from selenium.webdriver import ActionChains

    t = attended(backward=True)
    found, rng = Parents(t), np.random.default_rng(0)
    opened(chromium, player(t), tmp_path)
    numbers = [(e, i) for e in t.entries if e.how != "input" for i in range(e.value.size)]
    for k in rng.choice(len(numbers), 10, replace=False):
        entry, i = numbers[k]
        at_step(chromium, entry.number)
        made = f".panel:not(:has(h2 button)) table[aria-label^='{entry.name},'] td"
        cell = [c for c in chromium.find_elements("css selector", made) if c.is_displayed()][-entry.value.size :][i]
        chromium.execute_script("arguments[0].scrollIntoView({block: 'center'})", cell)
        ActionChains(chromium).move_to_element(cell).perform()
        label, what = texts(chromium, ".sum p")
        shown = float(label.split(" = ")[-1].replace("−", "-").replace("∞", "inf"))
        assert shown == pytest.approx(entry.value.flat[i], rel=1e-3)
        assert what
        assert chromium.execute_script("""const x = document.querySelector(".sum"), box = x.getBoundingClientRect();
return box.top > 0 && box.bottom <= innerHeight && x.scrollHeight <= x.clientHeight""")
        cells = chromium.find_elements("css selector", "td.linked")
        marked = [json.loads(c.get_attribute("data-value").replace("-inf", "-Infinity")) for c in cells]
        parents = [t.entries[n].value.flat[j] for n, j in np.ravel(found.of[entry.number])[i]]
        assert sorted(map(float, marked)) == pytest.approx(sorted(map(float, parents)), rel=1e-5)
    refuse_complaints(chromium)


def test_of_a_chosen_number_the_backward_shows_the_gradient_and_what_would_change_on_demand(
    chromium: Any, tmp_path: Any
) -> None:
    t = attended(backward=True)
    opened(chromium, player(t), tmp_path)
    chosen(chromium, "q")
    at_step(chromium, max(e.number for e in t.entries if e.name == "dq"))

    def linked() -> list[str]:
        cells = chromium.find_elements("css selector", "table[aria-label^='dq,'] td.linked")
        return [cell.get_attribute("aria-label") for cell in cells]

    assert [label.partition("; ")[2] for label in linked()] == ["is the gradient of q[0, 0]"]
    chromium.find_element("css selector", ".panel input[type=checkbox]").click()
    assert len(linked()) > 1
    assert any("moves by" in label for label in linked())
    refuse_complaints(chromium)


def test_numbers_that_are_none_and_a_line_without_a_rule_are_shown_as_such(chromium: Any, tmp_path: Any) -> None:
    def odd(x: Any) -> Any:
        y = 2 * x
        z = np.interp(y, [0, 1], [0, 2])
        return z

    opened(chromium, player(trace(odd, np.array([np.nan, np.inf, -np.inf, 1.0]))), tmp_path)
    assert texts(chromium, "[aria-label=numbers] td") == ["nan", "∞", "−∞", "1"]
    at_step(chromium, 1)
    assert "y[0] = nan" in chosen(chromium, "y")
    assert "Its only parent" in chosen(chromium, "y", 1)
    at_step(chromium, 2)
    assert "Its parents are not known here: the line uses interp, for which there is no rule." in chosen(chromium, "z")
    refuse_complaints(chromium)


def test_one_token_and_heads_that_do_not_fit_the_page(chromium: Any, tmp_path: Any) -> None:
    one = np.ones((1, 1))
    opened(chromium, player(trace(attention, one, 2 * one, 3 * one, backward=True)), tmp_path)
    assert "0 by nudging: they agree" in chosen(chromium, "q")
    opened(chromium, player(trace(attention, one, one, one, backward=True)), tmp_path)
    assert "no step of the backward is its gradient alone" in chosen(chromium, "q")     # of q, k and v
    rng = np.random.default_rng(0)
    p, x = multi_head_init(rng, 64), rng.standard_normal((1, 2, 64))
    t = trace(multi_head_attention, p, x, x, heads=32)
    opened(chromium, player(t, steps=(t.entry("weights").number, t.entry("weights").number)), tmp_path)
    which = chromium.find_elements("css selector", "select[aria-label='which matrix of weights'] option")
    assert len(which) == 32
    assert "not on this page" in chosen(chromium, "weights")
    assert chromium.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    refuse_complaints(chromium)


def test_the_outline_is_one_stop_for_tab(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, player(attended(backward=True), start=9), tmp_path)
    stops = "return [...document.querySelectorAll('nav button, nav summary')].filter((x) => x.tabIndex === 0)"
    [stop] = chromium.execute_script(stops)
    assert stop.text.startswith("9 ")
    stop.send_keys("")
    chromium.execute_script("arguments[0].focus()", stop)
    key(chromium, "ARROW_UP", 2)
    focused = chromium.switch_to.active_element
    assert focused.text.startswith("7 ")
    assert chromium.execute_script(stops) == [focused]
    key(chromium, "ENTER")
    assert value_of(chromium, STEP) == "7"
    refuse_complaints(chromium)


def test_a_gradient_under_two_names_has_the_one_that_matches() -> None:
    """dbias is ds, the same array."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 3, 2))
    data = player(trace(attention, q, k, v, bias=np.ones((3, 3)), backward=True)).data
    of = [(step["name"], step["gradient"]["name"]) for step in data["steps"] if step["gradient"]]
    assert all(name == f"d{what}" for name, what in of)
    assert {"ds", "dbias", "dq", "dk", "dv", "dout"} <= {name for name, _ in of}


def test_the_line_with_its_comment_stands_whole_below_the_code(chromium: Any, tmp_path: Any) -> None:
    t = attended(backward=True)
    opened(chromium, player(t), tmp_path)
    chromium.execute_script(MOVE, STEP, next(e.number for e in t.entries if e.name == "dv"))
    whole = texts(chromium, "pre.whole")[0]
    assert whole.startswith("dv = transpose_last(")
    assert "# out = dropped @ v" in whole


def test_hostile_names_and_a_narrow_phone(chromium: Any, tmp_path: Any) -> None:
    title = "</script><img src=x onerror=alert(1)> \u202e \U0001f642 " + 10_000 * "long"
    try:
        chromium.set_window_size(400, 900)
        tree = {"</script><b>": np.ones(2), "\u202e'\"\u2028": np.ones(2)}
        opened(chromium, player(trace(lambda p: p["</script><b>"] * 2, tree), title=title), tmp_path)
        assert texts(chromium, "h1")[0].startswith("</script><img")
        assert not chromium.find_elements("css selector", "img")
        assert chromium.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        chromium.set_window_size(1300, 1000)
    refuse_complaints(chromium)


def test_every_control_has_a_name_and_can_be_reached(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, player(attended()), tmp_path)
    refuse_unreachable(chromium, {"BUTTON", "INPUT", "TD", "PRE"})
    refuse_complaints(chromium)
