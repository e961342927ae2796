"""What a trace prints, to the letter: tables, steps, pages, and what is followed, of functions that stand here."""

import ast
import dataclasses
import re

import numpy as np
import pytest

from tinyattn.show import trace
from tinyattn.show.follow import _entry_of
from tinyattn.show.records import is_array
from tinyattn.show.sources import _statements, dotted
from tinyattn.show.trace_table import described, origin
from tinyattn.tree import Rows


def outer(p, x):
    """Calls the one below twice."""
    first = helper(x @ p["W"] + p["b"])
    room = np.empty(2)
    room[:] = first[0] > 0  # a comment
    second = helper(first)
    total = 0.25
    return second * total


def helper(s):
    doubled = 2 * s
    return passed(doubled)


def passed(s):
    out = np.where(s > 0, s, np.nan)
    return out


def outer_backward(dy, p, x):
    dsecond = 0.25 * dy
    dfirst = 2 * dsecond
    ds = 2 * dfirst
    dx = ds @ p["W"].T
    return dx, {"W": x.T @ ds, "b": ds.sum(axis=0)}


FIRST = outer.__code__.co_firstlineno  # this file's lines are counted from there
HERE = "test_trace_text.py"
P = {"W": np.array([[1.0, -1], [0.5, 2]]), "b": np.array([0.0, 1])}
X = np.array([[1.0, 2.0]])


def relative(text):
    """Line numbers of this file as +0, +1, ... from the first function's."""
    text = re.sub(rf"{HERE}:(\d+)", lambda found: f"FILE:+{int(found[1]) - FIRST}", text)
    lines = []
    for line in text.splitlines():
        found = re.match(r"(.*? )(\d+)(  (?:\S+ = .*|room\[:\].*|return .*))$", line)
        lines.append(f"{found[1]}+{int(found[2]) - FIRST}{found[3]}" if found else line)
    return [re.sub(r" +", " ", line).strip() for line in lines]


TABLE = """13 steps
step name shape dtype min … max norm line made by
outer(p, x) -> y FILE:+0
0 p: 2 arrays, 6 numbers, come in (to step 1)
2 x (1, 2) float64 1 … 2 2.236 comes in
helper#1(s) -> returned FILE:+10
3 s (1, 2) float64 2 … 4 4.472 comes in
4 doubled (1, 2) float64 4 … 8 8.944 +11 doubled = 2 * s
passed(s) -> out FILE:+15
5 out (1, 2) float64 4 … 8 8.944 +16 out = np.where(s > 0, s, np.nan)
6 first (1, 2) float64 4 … 8 8.944 +2 first = helper(x @ p["W"] + p["b"])
7 room (2,) float64 +3 room = np.empty(2) (not yet filled)
8 room * (2,) float64 1 … 1 1.414 +4 room[:] = first[0] > 0
helper#2(s) -> returned FILE:+10
9 doubled (1, 2) float64 8 … 16 17.89 +11 doubled = 2 * s
passed(s) -> out FILE:+15
10 out (1, 2) float64 8 … 16 17.89 +16 out = np.where(s > 0, s, np.nan)
11 second (1, 2) float64 8 … 16 17.89 +5 second = helper(first)
12 y (1, 2) float64 2 … 4 4.472 +7 return second * total
* written in place: the same memory, new values""".splitlines()


def test_a_table_has_a_line_a_step_and_calls_as_a_tree():
    text = str(trace(outer, P, X))
    assert relative(text) == TABLE
    lines = text.splitlines()
    assert lines[2].startswith("      outer(")
    assert lines[5].startswith("        helper#1(")  # two more blanks a level
    assert lines[8].startswith("          passed(")
    assert [line[4:].index(name) for line, name in ((lines[4], "x"), (lines[6], "s"), (lines[9], "out"))] == [4, 6, 8]
    assert len({line.index("(1, 2)") for line in lines if "float64" in line and "(1, 2)" in line}) == 1  # columns


def test_calls_below_the_depth_are_folded_to_their_first_step_and_how_many():
    t = trace(outer, P, X)
    folded = relative(t.table(depth=0))
    assert folded[5:] == [
        "3+ helper#1(s) -> returned 3 steps", *TABLE[10:13], "9+ helper#2(s) -> returned 2 steps", *TABLE[17:],
        "+ folded: .table(depth=1) opens one level more, .table(call=NAME) one call",
    ]  # fmt: skip
    wide = trace(lambda p: p["W"] + 1, {"W": np.zeros((20, 60)), "b": np.zeros(3)})
    assert "p: 2 arrays, 1,203 numbers, come in (to step 1)" in str(wide)
    assert "<b>p</b> comes in: 2 arrays, 1,203 numbers" in wide._repr_html_()
    one = relative(t.table(depth=1))
    assert one[8] == "5+ passed(s) -> out 1 step"
    assert one[-1] == "+ folded: .table(depth=2) opens one level more, .table(call=NAME) one call"
    assert relative(t.table(depth=2)) == TABLE
    assert relative(t.table(call="helper#2")) == [*TABLE[:2], *TABLE[13:17]]
    both = relative(t.table(call="helper", depth=0))
    assert [line for line in both if line.startswith("helper")] == [TABLE[5], TABLE[13]]
    narrow = t.table(width=40).splitlines()
    assert max(map(len, narrow)) == 40
    assert narrow[4] == str(t).splitlines()[4][:39] + "…"
    assert t.table(width=max(map(len, str(t).splitlines()))) == str(t)


@pytest.mark.parametrize(
    ("x", "span", "norm"),
    [
        (np.array([True, True, False]), "2 of 3 True", ""),
        (np.array([3, 12345]), "3 … 12345", ""),
        (np.array([-3.0, 4.0]), "-3 … 4", "5"),
        (np.array([3j, 4.0]), "", "5"),
        (np.array([np.nan, 4.0, np.nan]), "4 … 4, 2 NaN", "nan"),
        (np.array([np.nan]), "nan … nan, 1 NaN", "nan"),
        (np.array([-0.0, 1 / 3]), "0 … 0.3333", "0.3333"),
        (np.array([3e200, 4e200]), "3e+200 … 4e+200", "5e+200"),
        (np.array([0.0, 0.0]), "0 … 0", "0"),
        (np.array([-np.inf, 1.0]), "-inf … 1", "inf"),
        (np.array(2.5), "2.5", ""),
        (np.zeros((0, 2)), "", ""),
    ],
)
def test_arrays_are_described_by_their_range_and_norm(x, span, norm):
    """The norm is the root of the sum of squares, without overflow; no range of complex numbers."""
    entry = trace(few, x[None]).entries[0]
    assert described(entry)[:2] == (str((1, *x.shape)), str(x.dtype))
    alone = dataclasses.replace(entry, value=x, dtype=str(x.dtype))
    assert described(alone)[2:] == (span, norm)
    assert described(dataclasses.replace(alone, how="allocated"))[2:] == ("", "")


def test_where_a_value_comes_from_is_its_line_or_why_it_has_none():
    entry = trace(few, X).entries[-1]
    how = {"": "", "in place": "", "returned": "", "allocated": "   (not yet filled)",
           "implied": "   (follows from the cache: no line computes it)"}  # fmt: skip
    for each, more in how.items():
        assert origin(dataclasses.replace(entry, how=each)) == f"x = x + 1{more}"
    assert origin(dataclasses.replace(entry, how="input")) == "comes in"


def many(x, times):
    for _ in range(times):
        x = few(x)
    return x + 0


def few(x):
    x = x + 1
    return x


def test_as_many_levels_are_shown_as_fit_sixty_lines():
    """Three lines a call, and three for what is around them: 19 calls just fit."""
    for times, folded in ((19, 0), (20, 20)):
        text = str(trace(many, np.zeros(2), times))
        assert len(re.findall(r"^ *\d+\+ ", text, re.MULTILINE)) == folded
        assert ("opens one level more" in text) == bool(folded)


def test_a_step_shows_its_line_between_three_more_and_its_numbers():
    t = trace(outer, P, X)
    lines = str(t.at("first")).splitlines()
    assert lines[0] == f"step 6 of 12: outer   {HERE}:{FIRST}"
    shown = [(line[0], int(line[1:7]) - FIRST, line[8:]) for line in lines[1:7]]
    assert [(mark, n) for mark, n, _ in shown] == [(" ", 0), (" ", 1), (">", 2), (" ", 3), (" ", 4), (" ", 5)]
    assert shown[2][2] == '    first = helper(x @ p["W"] + p["b"])'
    assert lines[7:] == ["first (1, 2) float64   4 … 8   norm 8.944", "[[4. 8.]]"]
    shown = {n: str(trace(few, np.full(n, 1 / 3)).at(1)).splitlines() for n in (200, 201)}
    assert shown[201][-1] == "[1.3333 1.3333 1.3333 ... 1.3333 1.3333 1.3333]"
    assert "\n".join(shown[200]).count("1.3333") == 200
    deep = str(t.at("helper#2.passed.out")).splitlines()
    assert deep[0] == f"step 10 of 12: outer > helper#2 > passed   {HERE}:{FIRST + 15}"
    assert [line[8:] for line in deep[1:4]] == [
        "def passed(s):", "    out = np.where(s > 0, s, np.nan)", "    return out"
    ]  # fmt: skip
    assert deep[4] == "out (1, 2) float64   8 … 16   norm 17.89"  # the next function's lines are left out
    assert "p.W (2, 2) float64   -1 … 2   norm 2.5   came in" in str(t.at(0))
    assert "y (1, 2) float64   2 … 4   norm 4.472   was returned" in str(t.at(-1))
    assert str(t.at(7)).endswith("room (2,) float64   allocated\nnot yet filled: it holds what the memory held")
    assert t.at("first").picture()._suptitle.get_text() == "first, step 6  (1, 2)"
    assert t.at(8).picture("mine").axes[0].get_title(loc="left") == "mine  (2,)"
    html = t.at("first")._repr_html_()
    assert html.count("▶") == 1
    assert "<b>first</b>  (1, 2) float64" in html


def test_a_page_has_a_row_a_step_in_order_and_long_inner_calls_are_folded():
    html = trace(outer, P, X)._repr_html_()
    body = html[html.index("</thead>") :]
    rows = re.findall(r"<tr>(.*?)</tr>", body)
    cells = [re.findall(r"<td(?: class=\"n\")?>(.*?)</td>", row) for row in rows]
    assert [int(row[0]) for row in cells] == list(range(13))
    assert cells[2] == ["2", "<b>x</b>", "(1, 2)", "float64", "1 … 2", "2.236", "", "comes in"]
    assert cells[8] == ["8", "<b>room *</b>", "(2,)", "float64", "1 … 1", "1.414", str(FIRST + 4),
                        "<code>room[:] = first[0] &gt; 0</code>"]  # fmt: skip
    assert [i for i, td in enumerate(re.findall(r"<td(.*?)>", rows[8])) if "n" in td] == [0, 5, 6]
    assert [i for i, th in enumerate(re.findall(r"<th (.*?)>", html)) if 'class="n"' in th] == [0, 5, 6]
    heads = [re.sub(r"<.*?>", "", head) for head in re.findall(r"<summary>(.*?)</summary>", body)]
    assert heads[0] == f"outer(p, x) -&gt; y {HERE}:{FIRST}, steps 0 to 12"
    assert heads[1] == "p comes in: 2 arrays, 6 numbers"
    assert heads[2] == f"helper#1(s) -&gt; returned {HERE}:{FIRST + 10}, steps 3 to 5"
    assert body.count("<details open>") == 5  # all calls, and not the arrays that come in
    assert "written in place" in body
    assert "written in place" not in trace(helper, X)._repr_html_()

    def inner(x, times):
        for _ in range(times):
            x = x + 1
        return x

    def within(x, times):
        def between(y):
            z = inner(y, times)
            return z + 1

        return between(x) + 2

    for times, opened in ((15, 3), (16, 2), (28, 2), (29, 1)):  # 30 steps a level down, and half as many another one
        assert trace(within, np.zeros(1), times)._repr_html_().count("<details open>") == opened, times


# ---- followed


def test_what_is_followed_is_told_stage_by_stage():
    """y = 2 first / 4 and first = 2 (x W + b): with W[0, 1] move first by 2, second by 4 and y by 1."""
    t = trace(outer, P, X, backward=outer_backward, dy=np.array([[1.0, 10.0]]))
    assert t.header() == "20 steps; upstream gradient: dy as passed"
    found = t.follow("W", (0, 1))
    assert [(s.gradient, s.name, s.step, s.shape) for s in found.stages] == [
        ("dy", "y", 13, (1, 2)), ("dsecond", "second", 14, (1, 2)), ("dfirst", "first", 15, (1, 2))
    ]  # fmt: skip
    assert [s.moves for s in found.stages] == pytest.approx([1, 4, 2])
    assert [s.norm for s in found.stages] == pytest.approx(np.array([1, 0.25, 0.5]) * np.sqrt(101))
    assert [s.passes for s in found.stages] == pytest.approx([10, 10, 10])
    assert [s.line for s in found.stages] == [
        "return second * total", "second = helper(first)", 'first = helper(x @ p["W"] + p["b"])'
    ]  # fmt: skip
    assert {(s.backward.label, s.forward.label) for s in found.stages} == {("outer_backward", "outer")}
    assert (found.traced, found.measured, found.h) == (10, pytest.approx(10), 1e-6)
    assert [(m.entry.name, m.numbers) for m in found.moved] == [
        ("doubled", 1), ("out", 1), ("first", 1), ("doubled", 1), ("out", 1), ("second", 1), ("y", 1)
    ]  # fmt: skip
    np.testing.assert_allclose(found.moved[2].rate, [[0, 2]], atol=1e-8)
    assert str(found).splitlines() == [
        "from the loss L back to w = W[0, 1]: 7 of 8 forward intermediates move with it",
        "share: Σ dX ⊙ ∂X/∂w divided by ∂L/∂w. 100 %: all effects of w pass through X; else a part bypasses X",
        "",
        "step  gradient dX             shape   norm dX  norm ∂X/∂w    share  the line that made X, or read it",
        "  13  outer_backward.dy       (1, 2)    10.05           1  100.0 %  return second * total",
        "  14  outer_backward.dsecond  (1, 2)    2.512           4  100.0 %  second = helper(first)",
        '  15  outer_backward.dfirst   (1, 2)    5.025           2  100.0 %  first = helper(x @ p["W"] + p["b"])',
        "",
        "traced    ∂L/∂w = 10   the backward's gradient of W",
        "measured  ∂L/∂w = 10   (L(w + h) - L(w - h)) / 2h with h = 1e-06: they agree",
    ]
    forward = found.forward().splitlines()
    assert forward[0] == "step  X                    numbers that move  norm ∂X/∂w  made by"
    assert forward[2] == "   5  helper#1.passed.out             1 of 2           2  out = np.where(s > 0, s, np.nan)"
    assert len(forward) == 8
    cells = re.findall(r"<td[^>]*>(.*?)</td>", found._repr_html_())
    assert cells[7:12] == ["14", "outer_backward.dsecond", "(1, 2)", "2.512", "4"]


def test_a_large_number_is_nudged_by_a_share_of_itself():
    t = trace(outer, P, np.array([[1000.0, 600.0]]), backward=True)
    assert t.follow("x", (0, -2)).h == pytest.approx(1e-3)
    assert t.follow("x", (0, 1)).h == pytest.approx(6e-4)
    assert t.follow("x", (0, 0), h=1e-4).h == pytest.approx(0.1)
    assert t.follow("x", (0, -2)).index == (0, 0)
    assert t.follow("b", 0).agrees


def test_a_backward_that_is_off_by_little_is_seen_in_float64():
    def off(dy, p, x):
        dx, grads = outer_backward(dy, p, x)
        return dx * (1 + 1e-4), grads

    assert not trace(outer, P, X, backward=off).follow("x", (0, 0)).agrees
    p32, x32 = {name: a.astype(np.float32) for name, a in P.items()}, X.astype(np.float32)
    assert trace(outer, p32, x32, backward=True).follow("x", (0, 0)).agrees
    assert not trace(outer, p32, x32, backward=lambda dy, p, x: (1.1 * dy, p)).follow("x", (0, 0)).agrees


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x", "x"),
        ("cache.x_hat", "cache.x_hat"),
        ('p["W"]', "p.W"),
        ('p["blocks"][0].W', "p.blocks.0.W"),
        ("f(x).y", None),
        ("x[i]", None),
        ("x + y", None),
    ],
)
def test_what_is_read_is_called_by_the_way_to_it(text, name):
    assert dotted(ast.parse(text, mode="eval").body) == name


@pytest.mark.parametrize(
    ("line", "targets", "writes", "renames"),
    [
        ("a, *b = c", "a b", False, True),
        ("a = b = -c[0]", "a b", False, True),
        ("a: int = f(c)", "a", False, False),
        ("a: int", "", False, False),
        ("a[0] = f(c)", "a", True, False),
        ("a.b = f(c)", "a", False, False),
        ("a += c", "a", True, False),
        ("for a in b:\n    pass", "a", False, True),
        ("with b as (a, c):\n    pass", "a c", False, True),
        ("if (a := f(b)):\n    c = 1", "a", False, False),
        ("a = 1; b = f(a)", "a b", False, False),
        ("a = lambda: (b := 1)", "a", False, False),
    ],
)
def test_what_a_line_assigns_and_how(line, targets, writes, renames):
    found = _statements(line.splitlines(keepends=True))[1]
    assert found[2:5] == (tuple(targets.split()), writes, renames)
    assert (found.first, found.last) == (1, 1)  # of what has a body, its header alone


def test_a_row_that_was_not_read_has_no_gradient():
    gradient = Rows(np.array([2, 5]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert [_entry_of(gradient, index) for index in ((2, 0), (5, 1), (3, 1))] == [1, 4, 0]


def test_only_numbers_are_arrays():
    assert is_array(np.arange(3))
    assert is_array(np.zeros(2, bool))
    for other in (np.array(["a"]), np.array([None]), None, 1.0, [1.0]):
        assert not is_array(other)


def test_another_name_of_a_numpy_number_is_no_entry():
    def f(x):
        total = x.sum()
        again = total
        return again * 2

    found = trace(f, np.arange(3.0))
    assert [entry.name for entry in found.entries] == ["x", "total", "returned"]
    assert found["again"] == found["total"] == 3.0
