"""What stands in the data and the tables of views, recomputed: no browser is needed to read them."""

import base64
import importlib
import math
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

from tests.show.test_drawn_models import doubled
from tests.show.test_visualiser import WORLD, _only, history, trained
from tinyattn.data import leave_one_out
from tinyattn.models import BERT4Rec
from tinyattn.ops import attention, causal_mask, softmax
from tinyattn.show import trace
from tinyattn.show.tracked import Sources
from tinyattn.show.views import Goal, mirror, player, visualise, visualise_text
from tinyattn.show.views.player import _flat
from tinyattn.show.views.view import as_table, numbers
from tinyattn.show.views.visualiser import _asked, _short

players = importlib.import_module("tinyattn.show.views.player")  # the function has its module's name


def tables_of(html: str) -> dict[str, tuple[list[str], dict[str, list[float]]]]:
    """Caption: names of columns, and the numbers of every row by its name."""
    found = {}
    for table in re.findall(r"<table>(.*?)</table>", html):
        caption = re.search(r"<caption>(.*?)</caption>", table)[1]
        columns = re.findall(r'<th scope="col">(.*?)</th>', table)
        rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table)
        cells = {unescape(name): [float(x) for x in re.findall(r"<td>(.*?)</td>", row)] for name, row in rows}
        found[unescape(caption)] = [unescape(column) for column in columns], cells
    return found


def test_a_table_has_names_of_rows_and_columns_and_three_decimals():
    assert as_table("a<b", ["x&", "y"], [("<r>", [1.23456, -0.0001]), ("s", [2.0, 1e3])]) == (
        "<table><caption>a&lt;b</caption>"
        '<tr><td></td><th scope="col">x&amp;</th><th scope="col">y</th></tr>'
        '<tr><th scope="row">&lt;r&gt;</th><td>1.235</td><td>0.000</td></tr>'
        '<tr><th scope="row">s</th><td>2.000</td><td>1000.000</td></tr></table>'
    )


def test_numbers_of_a_page_are_rounded_and_whole_ones_are_whole():
    found = numbers(np.array([1e14, 1e15, 2 / 3, 1234567.0, 123456.7]), digits=6)
    assert [(x, type(x)) for x in found] == [
        (10**14, int), (1e15, float), (0.666667, float), (1234570, int), (123457, int)
    ]  # fmt: skip
    assert numbers(np.array([2 / 3]), digits=17) == [2 / 3]
    assert numbers(np.array([True, False])) == [True, False]
    assert numbers(np.array([[10**17, 2], [3, 4]])) == [10**17, 2, 3, 4]


# ---- the mirror


def test_the_mirror_has_what_is_given_and_draws_the_rest_from_its_seed():
    q, v = np.array([[1 / 3, 2.0], [3.0, 4.0]]), np.array([[1.0], [2.0]])
    mask = np.array([[True, False], [True, True]])
    found = mirror(["a", 2], q=q, v=v, mask=mask, hide=["mask", "heads"], goal=Goal("do", 1, 0), title="t").data
    assert (found["tokens"], found["title"], found["heads"]) == (["a", "2"], "t", 1)
    arrays = found["arrays"]
    assert (arrays["q"], arrays["v"], found["mask"]) == ([1 / 3, 2, 3, 4], [1, 2], [True, False, True, True])
    assert (len(arrays["k"]), len(arrays["dout"])) == (4, 2)  # as wide as q, and as v
    assert found["scale"] == 1 / math.sqrt(2)
    assert found["hide"] == ["heads", "mask"]
    assert found["goal"] == {"says": "do", "row": 1, "column": 0, "least": 0.95}
    plain, again, other = (mirror(["a", "b"], seed=seed).data for seed in (0, 0, 1))
    assert plain == again
    assert plain["arrays"]["q"] != other["arrays"]["q"]
    assert (len(plain["arrays"]["q"]), plain["scale"], plain["mask"], plain["goal"]) == (8, 0.5, [True] * 4, None)
    assert (plain["plays"], mirror(["a"], play=True).data["plays"]) == (False, True)
    for name in ("q", "k", "v", "dout"):
        tenths = np.multiply(plain["arrays"][name], 10)
        np.testing.assert_allclose(tenths, np.round(tenths), atol=1e-9)
    assert mirror(["a"], heads=2).data["scale"] == 1 / math.sqrt(2)  # by the width of a head
    assert mirror(["a"], dout=np.ones((1, 3)), q=np.ones((1, 6))).data["arrays"]["dout"] == [1, 1, 1]
    assert len(mirror(list("abcdef"), q=np.ones((6, 12))).data["arrays"]["k"]) == 72  # as much as there may be
    assert mirror(["a"], goal=Goal("", 0, 0, 1.0)).data["goal"]["least"] == 1
    assert mirror(["a"], "layer_norm", gamma=np.ones(3)).data["sizes"] == {"D": 3}
    for more, says in (({"tokens": range(7)}, "there are 7 tokens"), ({"q": np.ones((1, 13))}, "D is 13"),
                       ({"q": np.ones((1, 0))}, "D is 0"),
                       ({"v": np.ones((1, 13)), "q": np.ones((1, 4))}, "D is 4, E is 13"),
                       ({"goal": Goal("", 0, 1)}, "expected tokens 0 to 0"), ({"heads": 0}, "heads 0"),
                       ({"goal": Goal("", -1, 0)}, "expected tokens 0 to 0"), ({"scale": np.inf}, "scale is inf"),
                       ({"goal": Goal("", 0, -1)}, "expected tokens 0 to 0"),
                       ({"mask": np.ones((1, 2), bool)}, r"mask has shape \(1, 2\), expected \(1, 1\)"),
                       ({"goal": Goal("", 0, 0, 0.0)}, "a weight above 0"),
                       ({"goal": Goal("", 0, 0, 1.1)}, "a weight above 0 and up to 1")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            mirror(**{"tokens": ["a"], **more})


def test_the_mirror_in_words_is_the_librarys_attention_head_by_head():
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 3, 4))
    mask = np.tri(3, dtype=bool)
    found = tables_of(mirror(["a", "b", "c"], q=q, k=k, v=v, mask=mask, heads=2, scale=0.7).table)
    assert list(found) == ["q", "k", "v", "dout", "weights, head 1", "weights, head 2", "out"]
    for name, x in (("q", q), ("k", k), ("v", v)):
        columns, rows = found[name]
        assert columns == ["0", "1", "2", "3"]
        np.testing.assert_allclose(list(rows.values()), x, atol=6e-4)
    for head in range(2):
        part = slice(2 * head, 2 * head + 2)
        out, weights = attention(q[:, part], k[:, part], v[:, part], mask, scale=0.7)
        columns, rows = found[f"weights, head {head + 1}"]
        assert columns == list(rows) == ["a", "b", "c"]
        np.testing.assert_allclose(list(rows.values()), weights, atol=6e-4)
        np.testing.assert_allclose(np.array(list(found["out"][1].values()))[:, part], out, atol=6e-4)
    assert "weights" in tables_of(mirror(["a"]).table)
    assert list(tables_of(mirror(["a"], "softmax").table)) == ["s", "dp"]


# ---- the player


def scaled(x: Any) -> Any:
    room = np.empty(2)
    room[:] = x * x
    y = inner(room) + x
    return y


def inner(a: Any) -> Any:
    a = a * 3
    return a


def test_pages_of_the_player_have_calls_functions_and_what_each_line_read():
    x = np.array([1 / 3, 1e8])
    t = trace(scaled, x)
    data = player(t, title="mine").data
    assert (data["title"], data["said"], data["first"]) == ("mine", "5 steps", 0)
    assert not any(step["adds"] for step in data["steps"])  # gradients alone meet
    assert data["forward_end"] == 4
    outer, called = data["calls"]
    assert (outer["label"], outer["parent"], outer["steps"]) == ("scaled", None, [0, 4])
    assert (called["label"], called["parent"], called["steps"]) == ("inner", 0, [3, 3])
    assert outer["title"] == "scaled(x) -> y"
    assert [f["name"] for f in data["functions"]] == ["scaled", "inner"]
    assert {f["file"] for f in data["functions"]} == {"test_views.py"}
    lines = dict(data["functions"][1]["lines"])
    first = inner.__code__.co_firstlineno
    assert list(lines) == [first, first + 1, first + 2]
    names = [(s["name"], s["how"], s["unfilled"], s["call"]) for s in data["steps"]]
    assert names == [
        ("x", "comes in", False, 0), ("room", "allocated", True, 0), ("room", "written in place", False, 0),
        ("a", "", False, 1), ("y", "", False, 0),
    ]  # fmt: skip
    reads = [[(r["name"], r["step"]) for r in s["reads"]] for s in data["steps"]]
    assert reads[3] == [("a", 2)]  # what came in, and was made two steps before
    assert reads[4][:2] == [("room", 2), ("x", 0)]
    assert all(s["line"] == s["last"] for s in data["steps"][1:])
    assert [s["last"] - s["line"] for s in player(trace(doubled, x)).data["steps"][1:]] == [2, 0]
    shown = data["arrays"][data["steps"][0]["array"]]
    assert shown == {"shape": [2], "dtype": "float64", "values": [0.333333, 100000000]}
    assert player(t).data["title"] == "scaled(x)"
    part = player(t, steps=(2, 3)).data
    assert (part["first"], [s["name"] for s in part["steps"]]) == (2, ["room", "a"])


def test_slopes_on_the_page_are_derivatives_of_each_line_of_the_steps_that_are_shown():
    """room = x², a = 3 room, y = a + x."""
    x = np.array([0.51234, -2.0])
    t = trace(scaled, x)
    found = player(t).data["parents"]
    filled, a, y = (t.all(name)[-1].number for name in ("room", "a", "y"))
    for i, value in enumerate(x.tolist()):
        assert found[filled][i] == [0, 1, i, pytest.approx(2 * value, rel=1e-4)]
        assert found[a][i] == [filled, 1, i, 3]
        assert found[y][i] == [0, 1, i, 1, a, 1, i, 1]
    assert set(found) == {filled, a, y}
    assert set(player(t, steps=(filled, a)).data["parents"]) == {filled, a}


def test_a_page_holds_so_many_numbers_and_steps(monkeypatch):
    t = trace(scaled, np.array([1.0, 2.0]))  # five steps of two numbers
    monkeypatch.setattr(players, "MOST", 10)
    assert len(player(t).data["steps"]) == 5
    monkeypatch.setattr(players, "MOST", 9)
    with pytest.raises(ValueError, match=r"steps 0-4 have 10 numbers, .* 9 numbers .*: steps 0-3 would fit \(steps="):
        player(t)
    monkeypatch.setattr(players, "MOST", 1)
    with pytest.raises(ValueError, match=r"steps 1-4 have 8 numbers, .*: step 1 alone does not fit"):
        player(t, steps=(1, 4))
    monkeypatch.setattr(players, "MOST", 99)
    monkeypatch.setattr(players, "STEPS", 3)
    with pytest.raises(ValueError, match="steps 1-3 would fit"):
        player(t, steps=(1, 4))
    assert len(player(t, steps=(2, 4)).data["steps"]) == 3


def test_what_rounding_leaves_of_a_slope_is_nought():
    assert _flat(Sources({(0, 1): 1e-9, (2, 3): 2.0, (0, 0): -3e-6})) == [0, 2, 0, -3e-06, 1, 0, 2, 1, 3, 2]
    assert _flat(Sources({(0, 0): 1e-4, (0, 1): 1e9})) == [0, 2, 0, 0, 1, 1000000000]  # beside the largest
    assert _flat(Sources({(0, 0): np.nan, (0, 1): np.inf, (0, 2): 1.234567})) == [0, 3, 0, "nan", 1, "inf", 2, 1.2346]
    assert _flat(Sources()) == []
    assert _flat(Sources({"inv": np.nan})) == "the line uses inv, for which there is no rule"


# ---- the visualiser


def unpacked(packed: Any, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["f4"]), dtype="<f4").reshape(shape)


def bits(packed: str, *shape: int) -> np.ndarray:
    """Of each byte the lowest bit comes first."""
    found = [byte >> i & 1 for byte in base64.b64decode(packed) for i in range(8)]
    return np.array(found[: math.prod(shape)], dtype=bool).reshape(shape)


@pytest.mark.parametrize(
    "options", [{}, {"position": "alibi"}, {"mechanism": "linear"}, {"position": "shaw"}, {"mechanism": "strided"}],
    ids=lambda options: "-".join(options.values()) or "plain",
)  # fmt: skip
def test_weights_can_be_made_again_of_what_the_page_has(options):
    model = trained(**options)
    view = visualise(model, history(model))
    (run,) = view.data["runs"]
    expected = model.attention(history(model))[1]
    asked = _asked(model, history(model))
    for layer, weights, watched in zip(run["layers"], expected, _forward(asked), strict=True):
        h, n, m, d = layer["heads"], layer["n"], layer["m"], layer["d"]
        assert (h, n, m, d, layer["scale"]) == (2, 6, 6, 4, 0.5)
        q, k, v = (unpacked(layer[name], h, n, d) for name in "qkv")
        np.testing.assert_allclose(v, watched.v)
        allowed = bits(layer["allowed"], *((h, n, m) if layer["by_head"] else (n, m)))
        assert layer["by_head"] == (options.get("mechanism") == "strided")
        made = layer["weights"]
        if options.get("mechanism") == "linear":
            assert layer["bias"] is None
            found = unpacked(made, h, n, m)
        else:
            assert made is None
            bias = 0 if layer["bias"] is None else unpacked(layer["bias"], h, n, m)
            found = softmax(layer["scale"] * q @ k.swapaxes(-1, -2) + bias, np.broadcast_to(allowed, (h, n, m)))
        assert (layer["bias"] is None) == (options.get("position") not in ("alibi", "shaw"))
        assert (layer["relative"] is None) == (options.get("position") != "shaw")
        np.testing.assert_allclose(found, weights, atol=1e-5)
        if "mechanism" not in options:
            np.testing.assert_array_equal(np.broadcast_to(allowed, (n, m)), causal_mask(n, np.zeros(1)))
    (columns, rows) = tables_of(view.table)["sasrec: weights of the token that answers"]
    assert columns == run["tokens"] == history(model)
    assert list(rows) == [f"layer {i + 1}, head {j + 1}" for i in range(2) for j in range(2)]
    np.testing.assert_allclose(list(rows.values()), expected[:, :, -1].reshape(4, 6), atol=6e-4)
    more = "; the mechanism masks some earlier tokens, too" if options.get("mechanism") == "strided" else ""
    assert run["mask"] == f"Hatched, or grey, is masked: what comes later{more}."
    assert run["last"] == 5


def _forward(asked: Any) -> list[Any]:
    asked.scores()
    return asked.watched.layers


def test_outputs_are_the_best_scores_and_the_loss_with_a_gradient_each():
    model = trained()
    ids = history(model)
    (run,) = visualise(model, ids).data["runs"]
    scores = model.score([np.arange(1, 7)], np.zeros(1, dtype=int))[0]
    scores[:7] = -np.inf  # padding, and what was had
    best = np.argsort(-scores, kind="stable")[:10]
    items, _ = model.recommend([ids], 10)
    assert [o["name"] for o in run["outputs"][:-1]] == [model.items.ids[i - 1] for i in best] == items[0].tolist()
    assert [o["rank"] for o in run["outputs"]] == [*range(1, 11), 0]
    assert not any(o["came"] or o["share"] for o in run["outputs"][:-1])
    np.testing.assert_allclose([o["value"] for o in run["outputs"][:-1]], scores[best], atol=1e-6)
    (columns, rows) = tables_of(visualise(model, ids).table)["sasrec: answers"]
    assert (columns, list(rows)) == (["score"], items[0].tolist())
    asked = _asked(model, ids)
    rows, _ = asked.scores()
    following = [-math.log(np.exp(row[i] - row[1:].max()) / np.exp(row[1:] - row[1:].max()).sum())
                 for row, i in zip(rows, range(2, 7), strict=False)]  # fmt: skip
    assert run["outputs"][-1]["value"] == pytest.approx(np.mean(following), abs=1e-6)
    assert run["outputs"][-1]["name"] == "the loss"
    for output, symbol in enumerate(best[:2].tolist()):
        one = _asked(model, ids)
        _, cache = one.scores()
        one.gradient(_only(rows, symbol)[0], cache)
        for layer, watched in zip(run["layers"], one.watched.layers, strict=True):
            np.testing.assert_allclose(unpacked(layer["gradients"][output], 2, 6, 4), watched.gradients[0], atol=1e-6)
    assert {len(layer["gradients"]) for layer in run["layers"]} == {len(run["inputs"])} == {11}
    assert _asked(model, model.items.ids[:10].tolist()).left_out.tolist() == list(range(1, 11))


def test_weights_of_the_last_token_are_dealt_out_anew_twenty_times():
    """The median move of the best score, by an attention that is written out here, for the last layer."""
    model = trained()
    ids = history(model)
    (run,) = visualise(model, ids).data["runs"]
    asked = _asked(model, ids)
    last = asked.answer()
    assert run["shuffled"]["spread"] == pytest.approx(np.std(last[np.isfinite(last)]))
    for at, median in enumerate(run["shuffled"]["moved"]):
        moved = []
        for shuffle in range(20):
            rng = np.random.default_rng([at, shuffle])

            def dealt(i: int, weights: np.ndarray, at: int = at, rng: Any = rng) -> np.ndarray:
                if i == at:
                    weights = weights.copy()
                    for head in range(2):
                        weights[head, -1] = rng.permutation(weights[head, -1])  # the last token may look at all
                return weights

            asked.watched.change = dealt
            moved.append(abs(asked.scores()[0][-1, np.argmax(last)] - last.max()))
        assert median == pytest.approx(np.median(moved), abs=1e-6)


def test_a_model_that_reads_both_ways_says_that_nothing_is_masked_and_is_asked_by_its_mask():
    model = BERT4Rec(epochs=1, dim=8, heads=2, maxlen=10, workers=1).fit(WORLD.generate())
    ids = history(model)
    (run,) = visualise(model, ids).data["runs"]
    assert run["tokens"] == [*ids, "[MASK]"]
    long = visualise(model, history(model, 12)).data  # one of ten places is [MASK]'s
    assert long["note"] == "It looks at the newest 9 of the 12 items of the history."
    assert long["runs"][0]["tokens"] == [*history(model, 12)[3:], "[MASK]"]
    assert run["mask"] == "Nothing is masked: every token may look at every other."
    assert all(o["rank"] for o in run["outputs"])  # no next tokens: no loss
    with pytest.raises(ValueError, match="padding is 4, expected 0 to 3"):
        visualise(model, ids, padding=4)
    padded = visualise(model, ids, padding=2).data["runs"][0]
    assert padded["mask"].startswith("Hatched, or grey, is masked: padding, at which no token looks.")
    causal = visualise(trained(), ids, padding=2).data["runs"][0]
    assert causal["mask"] == "Hatched, or grey, is masked: what comes later, padding included."


def test_two_models_are_asked_for_the_best_items_of_both_and_titles_have_the_options_that_differ():
    model, other = trained(), trained(position="alibi", dropout=0.4)
    ids = history(model)
    view = visualise(model, ids, against=other, titles=["first"], names=lambda item: f"<{item}>" + 60 * "x")
    mine, theirs = view.data["runs"]
    first, second = "dropout 0.2, position learned (first)", "dropout 0.4, position alibi (sasrec)"
    assert (mine["title"], theirs["title"]) == (first, second)
    assert [o["name"] for o in mine["outputs"]] == [o["name"] for o in theirs["outputs"]]
    for run in (mine, theirs):
        assert {1, 2, 3, 4, 5} <= {o["rank"] for o in run["outputs"]}
    assert mine["outputs"][0]["value"] != theirs["outputs"][0]["value"]
    assert mine["tokens"][0] == f"<{ids[0]}>" + 52 * "x" + "…"
    assert len(mine["tokens"][0]) == 60
    assert _short(60 * "x") == 60 * "x"
    parts = ("answers", "weights of the token that answers")
    assert list(tables_of(view.table)) == [f"{title}: {part}" for title in (first, second) for part in parts]
    alike = visualise(model, ids, against=model, titles=["a", "b"]).data["runs"]
    assert [run["title"] for run in alike] == ["the same options (a)", "the same options (b)"]
    many = trained(position="alibi", dropout=0.4, seed=1, epochs=1, lr=0.01, block_form="post")
    assert "and 2 more (sasrec)" in visualise(model, ids, against=many).data["runs"][1]["title"]
    everything = leave_one_out(WORLD.generate()).data.items.ids.tolist()
    all_had = _asked(model, everything)  # then items may come again
    assert np.isfinite(all_had.answer()[1:]).any()


def test_a_text_is_learned_from_its_seed_and_asked_for_its_last_word():
    view, other = visualise_text("a b a c"), visualise_text("a b a c", seed=1)
    (run,) = view.data["runs"]
    assert (view.title, run["tokens"], run["last"]) == ("a b a c", ["a", "b", "a"], 2)
    *words, _ = run["outputs"]
    assert {o["name"] for o in words} == set("abc")  # no word that the sentence does not have
    assert [o["name"] for o in words if o["came"]] == ["c"] == [o["name"] for o in words if o["rank"] == 1]
    assert sum(o["share"] for o in words) == pytest.approx(1)
    assert "in 150 steps from seed 0 (loss" in view.data["note"]
    assert other.data["runs"] != view.data["runs"]
