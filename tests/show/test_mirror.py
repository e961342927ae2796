"""The mirror: the page's numbers are the library's whatever is changed, and every number shows its terms."""

import math
from typing import Any

import numpy as np
import pytest

from tests.show.browser import contrast, emulated, opened, refuse_complaints, refuse_unreachable
from tinyattn import layers, ops
from tinyattn.show.views import Goal, mirror


def drawn(seed: int) -> dict[str, Any]:
    """Random settings of attention: sizes, heads, mask, scale."""
    rng = np.random.default_rng(seed)
    n, heads, d, e = rng.integers(1, 7), rng.integers(1, 4), rng.integers(1, 3), rng.integers(1, 3)
    mask = [np.ones((n, n), bool), np.tril(np.ones((n, n), bool)), rng.random((n, n)) < 0.5][seed % 3]
    widths = {"q": d, "k": d, "v": e, "dout": e}
    numbers = {name: 3 * rng.standard_normal((n, heads * width)) for name, width in widths.items()}
    return numbers | {"mask": mask, "heads": int(heads), "scale": float(rng.uniform(-2, 3))}


def split(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


def joined(x: np.ndarray) -> np.ndarray:
    """Heads side by side, as the page has them: (h, n, m) -> (n, h m)."""
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)


def attended(q: Any, k: Any, v: Any, dout: Any, mask: Any, heads: int, scale: float) -> dict[str, np.ndarray]:
    """The arrays of attention by the library's functions."""
    q, k, v, dout = (split(x, heads) for x in (q, k, v, dout))
    out, p = ops.attention(q, k, v, mask, scale=scale)
    dp = dout @ v.swapaxes(-1, -2)
    dq, dk, dv, _ = ops.attention_backward(dout, q, k, v, p, scale=scale)
    found = {"p": p, "out": out, "dq": dq, "dk": dk, "dv": dv, "dp": dp, "ds": ops.softmax_backward(dp, p)}
    return {name: joined(x) for name, x in found.items()}


def shown(driver: Any, name: str) -> list[float]:
    """The numbers of an array, as exactly as the page holds them."""
    return driver.execute_script("""
        const grid = document.querySelector(`[role=grid][data-name="${arguments[0]}"]`);
        return [...grid.querySelectorAll('g.entry')].map((x) => Number(x.dataset.value));""", name)  # fmt: skip


def entry(driver: Any, name: str, i: int, j: int) -> Any:
    return driver.execute_script("""
        const grid = document.querySelector(`[role=grid][data-name="${arguments[0]}"]`);
        const [_, i, j] = arguments;
        return [...grid.querySelectorAll('g.entry')].find(({ entry }) => entry[1] === i && entry[2] === j);
        """, name, i, j)  # fmt: skip


def text(driver: Any, selector: str) -> str:
    return driver.find_element("css selector", selector).text


def agrees(driver: Any, expected: dict[str, np.ndarray]) -> None:
    for name, x in expected.items():
        np.testing.assert_allclose(shown(driver, name), x.ravel(), atol=1e-6, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("seed", range(9))
def test_attention_is_the_librarys(seed: int, chromium: Any, tmp_path: Any) -> None:
    settings = drawn(seed)
    opened(chromium, mirror([f"t{i}" for i in range(len(settings["q"]))], **settings), tmp_path)
    agrees(chromium, attended(**settings))
    refuse_complaints(chromium)


@pytest.mark.parametrize("heads", [1, 2])
def test_many_heads_are_the_librarys(heads: int, chromium: Any, tmp_path: Any) -> None:
    rng, causal = np.random.default_rng(heads), np.tril(np.ones((3, 3), bool))
    W = {name: rng.standard_normal((4, 4)) for name in ("W_q", "W_k", "W_v", "W_o")}
    x, dy = rng.standard_normal((2, 3, 4))
    view = mirror(["a", "b", "c"], "multi_head_attention", x=x, dy=dy, heads=heads, mask=causal, **W)
    opened(chromium, view, tmp_path)
    projections = {name: {"W": W[f"W_{name[0]}"]} for name in ("query", "key", "value", "output")}
    y, cache = layers.multi_head_attention(projections, x, x, heads=heads, mask=causal)
    from_queries, from_memory, grads = layers.multi_head_attention_backward(projections, dy, cache)
    gradients = {f"dW_{name[0]}": grads[name]["W"] for name in projections}
    agrees(chromium, {"y": y, "dx": from_queries + from_memory, **gradients})


def test_softmax_linear_and_layer_norm_are_the_librarys(chromium: Any, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    s, dp = rng.standard_normal((2, 2, 5))
    opened(chromium, mirror(["a", "b"], "softmax", s=s, dp=dp), tmp_path)
    p = ops.softmax(s)
    agrees(chromium, {"p": p, "ds": ops.softmax_backward(dp, p)})
    refuse_complaints(chromium)
    (x, dy), W = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 2))
    opened(chromium, mirror(["a", "b", "c"], "linear", x=x, W=W, dy=dy[:, :2]), tmp_path)
    dx, dW, _ = ops.linear_backward(dy[:, :2], x, W)
    agrees(chromium, {"y": x @ W, "dx": dx, "dW": dW})
    (x, dy), (gamma, beta) = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4))
    opened(chromium, mirror(["a", "b", "c"], "layer_norm", x=x, dy=dy, gamma=gamma, beta=beta, eps=0.1), tmp_path)
    y, *saved = ops.layer_norm(x, gamma, beta, 0.1)
    dx, dgamma, dbeta = ops.layer_norm_backward(dy, *saved, gamma)
    agrees(chromium, {"y": y, "dx": dx, "dgamma": dgamma, "dbeta": dbeta})
    refuse_complaints(chromium)


def test_all_follows_what_is_changed(chromium: Any, tmp_path: Any) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select

    rng = np.random.default_rng(5)
    settings: dict[str, Any] = {name: np.round(rng.standard_normal((4, 2)), 1) for name in ("q", "k", "v", "dout")}
    opened(chromium, mirror(["The", "cat", "sat", "down"], **settings), tmp_path)
    entry(chromium, "k", 1, 1).send_keys("+", "+", "-", "+")                                # by keys: .2 more
    settings["k"][1, 1] += 0.2
    cell = entry(chromium, "q", 1, 0)
    ActionChains(chromium).move_to_element(cell).click_and_hold().move_by_offset(0, -50).release().perform()
    settings["q"][1, 0] += 0.5                                                              # by dragging: .5 more
    before = attended(**settings, mask=np.ones((4, 4), bool), heads=1, scale=1 / math.sqrt(2))
    agrees(chromium, before)
    ringed = chromium.execute_script("return [...document.querySelectorAll('g rect[fill=none]')].length")
    assert ringed >= 4 + 4 + 2 + 4 + 2 + 8                         # s, p, out, ds, dq of this token; dk of all of them
    Select(chromium.find_element("css selector", "[aria-label='the mask hides']")).select_by_visible_text("itself")
    chromium.find_element("css selector", "[aria-label=scale]").send_keys(Keys.HOME, Keys.ARROW_RIGHT)
    Select(chromium.find_element("css selector", "[aria-label=heads]")).select_by_visible_text("2")
    agrees(chromium, attended(**settings, mask=~np.eye(4, dtype=bool), heads=2, scale=0.01))
    refuse_complaints(chromium)


SUMS = {
    ("attention", "s", 1, 0): ("s = scale q kᵀ", "2 (3 · 1 + 0 · 2) = 6", ["q", "q", "k", "k"]),
    ("attention", "p", 0, 1): ("p = softmax(s)", "exp(8 − 8) / (exp(4 − 8) + exp(8 − 8)) = 0.982", ["s", "s"]),
    ("attention", "dp", 0, 1): ("dp = dout vᵀ undoes out = p v", "1 · 0 = 0", ["dout", "v"]),
    ("attention", "dv", 1, 0): ("dv = pᵀ dout undoes out = p v", "0.982 · 1 + 0.998 · (−1) = −0.01551",
                                ["p", "dout"] * 2),
    ("softmax", "ds", 0, 1): ("ds = p (dp − Σ p dp) undoes p = softmax(s)", "0.5 (−1 − (0.5 · 1 + 0.5 · (−1))) = −0.5",
                              ["p", "dp"] * 2),
}  # fmt: skip
ARRAYS = {
    "attention": dict(q=[[0.0, 2], [3, 0]], k=[[1.0, 1], [2, 2]], v=[[4.0], [0]], dout=[[1.0], [-1]], scale=2.0),
    "softmax": dict(s=[[1.0, 1]], dp=[[1.0, -1]]),
}


@pytest.mark.parametrize(("where", "says"), SUMS.items())
def test_an_entry_shows_its_terms_and_their_sum(where: Any, says: Any, chromium: Any, tmp_path: Any) -> None:
    algorithm, name, i, j = where
    line, summed, terms = says
    numbers: Any = {key: np.array(x) if isinstance(x, list) else x for key, x in ARRAYS[algorithm].items()}
    if name == "s":
        numbers["k"] = np.array([[1.0, 2], [2, 2]])
    opened(chromium, mirror(["a", "b"][: 2 if algorithm == "attention" else 1], algorithm, **numbers), tmp_path)
    entry(chromium, name, i, j).click()
    first, second = text(chromium, ".sum").splitlines()[:2]
    assert (first, second) == (line, f"{name}[{i}, {j}] = {summed}")
    lit = chromium.execute_script("""
        const boxes = [...document.querySelectorAll('g.entry')], at = (x, name) => x.getAttribute(name);
        const blue = getComputedStyle(document.documentElement).getPropertyValue('--mark').trim();
        const outlines = [...document.querySelectorAll('rect[fill=none]')];
        return outlines.filter((x) => at(x, 'stroke') === blue).map((x) => boxes
            .find((b) => at(b.firstChild, 'x') === at(x, 'x') && at(b.firstChild, 'y') === at(x, 'y')).entry[0]);""")
    assert sorted(lit) == sorted(terms)


def test_a_nudge_agrees_with_every_gradient(chromium: Any, tmp_path: Any) -> None:
    entries = {"attention": ("q", "k", "v", "s", "p"), "layer_norm": ("x", "gamma", "beta", "x_hat"), "linear": ("W",)}
    for algorithm, names in entries.items():
        opened(chromium, mirror(["a", "b"], algorithm, seed=3), tmp_path)
        for name in names:
            for chosen in (name, f"d{name}"):
                entry(chromium, chosen, 0, 0).click()
                button = chromium.find_element("css selector", ".sum button")
                assert button.text == f"Nudge {name}[0, 0]"
                button.click()
                assert text(chromium, ".sum").endswith("they agree"), (algorithm, chosen, text(chromium, ".sum"))


def test_it_plays_once_on_demand(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, mirror(["a", "b"]), tmp_path)
    button = chromium.find_element("css selector", ".controls button")
    assert button.text == "Play"
    button.click()
    assert button.text == "Stop"
    assert text(chromium, ".sum").startswith("s = scale q kᵀ")
    button.click()
    assert button.text == "Play"


def test_the_focus_outlives_another_width_and_a_menu_drags_nothing(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, mirror(["a", "b"], heads=np.int64(2), goal=Goal("x", np.int64(0), np.int64(1))), tmp_path)
    press = "arguments[0].dispatchEvent(new PointerEvent('pointerdown', arguments[1]))"
    move = "document.querySelector('.mirror').dispatchEvent(new PointerEvent('pointermove', arguments[0]))"
    before = shown(chromium, "q")
    for how in ({"button": 2, "isPrimary": True}, {"button": 0, "isPrimary": False}):
        chromium.execute_script(press, entry(chromium, "q", 0, 0), how | {"bubbles": True, "clientY": 100})
        chromium.execute_script(move, how | {"clientY": 40})
        assert shown(chromium, "q") == before
    chromium.execute_script("arguments[0].focus()", entry(chromium, "q", 1, 2))
    chromium.execute_async_script("""
        document.querySelector('.mirror').style.width = '400px';
        requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0])));""")
    focused = chromium.execute_script("return document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("q[1, 2] = ")


def test_a_page_of_any_text_can_be_written_and_long_names_are_cut_between_characters(
    chromium: Any, tmp_path: Any
) -> None:
    names = ["</script><b>", "\ud800", "\N{GRINNING FACE}" * 9, "\u202e\u2028\n\""]
    opened(chromium, mirror(names, "linear", title="\udfff</title>"), tmp_path)
    assert "\N{GRINNING FACE}" * 6 + "…" in text(chromium, ".mirror")
    assert not chromium.find_elements("css selector", "main b")


def test_only_rows_of_tokens_have_their_names() -> None:
    page = mirror(["first", "second"], "linear", x=np.ones((2, 2))).table
    assert page.count('<th scope="row">first') == 2
    assert page.count('<th scope="row">0') == 1  # W is (2, E)


def test_an_exercise_says_when_it_is_done(chromium: Any, tmp_path: Any) -> None:
    says, q, k = "Make the second word look only at the first.", np.ones((2, 1)), np.array([[1.0], [0.0]])
    opened(chromium, mirror(["The", "cat"], goal=Goal(says, 1, 0), q=q, k=k), tmp_path)
    assert says in text(chromium, "strong")
    assert text(chromium, "[role=status]") == "The weight is 0.731; the goal is 0.95."
    entry(chromium, "q", 1, 0).send_keys("\ue00e", "\ue00e")                               # page up: 1 more
    assert text(chromium, "[role=status]") == "Done: the weight is 0.953."


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tokens": []}, "there are 0 tokens, expected 1 to 6"),
        ({"tokens": "abcdefg"}, "there are 7 tokens, expected 1 to 6"),
        ({"algorithm": "flash"}, "algorithm is 'flash', expected one of attention, multi_head_attention, softmax"),
        ({"x": np.ones((2, 4))}, "attention has no array 'x', expected some of q, k, v, dout"),
        ({"q": np.zeros((3, 4))}, r"q has shape \(3, 4\), expected \(2, 4\)"),
        ({"q": np.zeros((2, 4)), "k": np.full((2, 4), np.inf)}, "k has numbers that are not finite"),
        ({"q": np.zeros((2, 13))}, "D is 13, E is 2 and heads 1, expected 1 to 12"),
        ({"heads": 3}, "D is 4, E is 2 and heads 3"),
        ({"heads": 0}, "heads 0"),
        ({"heads": 2, "v": np.ones((2, 3))}, "E is 3 and heads 2"),
        ({"hide": ["keys"]}, "hide has 'keys', expected some of scale, heads, mask, backward"),
        ({"mask": np.ones((2, 2))}, "mask has dtype float64, expected bool"),
        ({"scale": math.nan}, "scale is nan"),
        ({"eps": 0.0}, "eps 0.0"),
        ({"eps": 1e-320}, "eps 1e-320"),
        ({"goal": Goal("x", 2, 0)}, "expected tokens 0 to 1"),
        ({"goal": Goal("x", 0.5, 0)}, "expected tokens 0 to 1"),
        ({"algorithm": "linear", "goal": Goal("x", 0, 0)}, "linear has no weights that a goal could ask for"),
        ({"q": np.full((2, 4), 1e300)}, "q has numbers that are not finite, or beyond 1e[+]30"),
        ({"q": np.ones((2, 4), complex)}, "q is not an array of real numbers"),
        ({"q": [[1.0], [1.0, 2.0]]}, "q is not an array of real numbers"),
        ({"heads": 1.5}, "heads 1.5"),
        ({"scale": 1e300}, "scale is 1e[+]300"),
    ],
)
def test_refusals(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        mirror(**{"tokens": ["a", "b"], **given})


def test_what_is_not_yet_taught_is_left_out(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, mirror(["a", "b"], hide=("scale", "heads", "mask", "backward")), tmp_path)
    names = [grid.get_attribute("data-name") for grid in chromium.find_elements("css selector", "[role=grid]")]
    assert names == ["q", "k", "v", "s", "p", "out"]
    assert len(chromium.find_elements("css selector", ".controls input, .controls select")) == 0
    assert "dout" not in text(chromium, "main")
    refuse_complaints(chromium)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_on_colours_can_be_read(scheme: str, chromium: Any, tmp_path: Any) -> None:
    """WCAG 2: a contrast of 4.5 for all shades of both signs, of what has no sign, and of masks."""
    emulated(chromium, scheme)
    try:
        ramp = np.linspace(-1, 1, 36).reshape(6, 6)
        causal = np.tril(np.ones((6, 6), bool))
        opened(chromium, mirror(list("abcdef"), q=ramp, k=abs(ramp), v=ramp, dout=ramp, mask=causal), tmp_path)
        shades = chromium.execute_script("""
            const fill = (x, tag) => getComputedStyle(x.querySelector(tag)).fill;
            return [...document.querySelectorAll('g.entry')].map((x) => [fill(x, 'text'), fill(x, 'rect')]);
        """)
        assert len({ground for _, ground in shades}) > 100
        assert min(contrast(*shade) for shade in shades) >= 4.5
    finally:
        emulated(chromium, "light")


def test_on_paper_it_is_light_and_whole(chromium: Any, tmp_path: Any) -> None:
    emulated(chromium, "dark", "print")
    try:
        opened(chromium, mirror(["a", "b"]), tmp_path)
        style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        assert chromium.execute_script(style, "body", "backgroundColor") == "rgb(255, 255, 255)"
        assert chromium.execute_script(style, ".controls", "display") == "none"
        fills = chromium.execute_script(
            "return [...document.querySelectorAll('g.entry rect')].map((x) => getComputedStyle(x).fill)"
        )
        assert "rgb(28, 30, 36)" not in fills              # zero in the dark
    finally:
        emulated(chromium, "light")


def test_every_control_can_be_reached_and_seen_to_be(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, mirror(["a", "b"]), tmp_path)
    refuse_unreachable(chromium, {"INPUT", "SELECT", "BUTTON", "g"})


def test_masked_entries_have_no_terms(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, mirror(["a", "b"], mask=np.tril(np.ones((2, 2), bool))), tmp_path)
    hidden = entry(chromium, "p", 0, 1)
    assert hidden.get_attribute("aria-label") == "p[0, 1] = 0, masked"
    hidden.click()
    assert "p[0, 1] = masked = 0" in text(chromium, ".sum")
    assert entry(chromium, "s", 0, 1).text == "−∞"
