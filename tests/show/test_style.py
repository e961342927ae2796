"""The one style: what is written can be read, on light pages and on dark ones, and labels stand beside their lines."""

import re

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from tests.show.browser import contrast
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, DARK, GREEN, GREY, GROUND, INK, ORANGE, PURPLE, drawn, label_ends


def readable(one, other):
    """WCAG's contrast of two colours: 1 for the same, 21 for black on white."""
    return contrast(*(f"rgb{tuple(round(255 * part) for part in to_rgb(colour))}" for colour in (one, other)))


@pytest.mark.parametrize("colour", [INK, BLUE, ORANGE, GREEN, PURPLE, GREY])
def test_text_of_every_colour_can_be_read_on_light_and_on_dark(colour):
    assert readable(colour, GROUND) >= 4.5
    assert readable(DARK[colour], DARK[GROUND]) >= 4.5


def test_an_svg_has_dark_colours_and_leaves_the_cells_of_a_heat_map_alone():
    with style():
        made, ax = figure()
        ax.imshow([[0, 1]])
        ax.text(0, 0, "b", color="black")
        ax.text(1, 0, "w", color="white")
        ax.set_title("√d", color=ORANGE)
        svg = drawn(made, "svg").decode()
    assert f'[style*="fill: {ORANGE}"] {{fill: {DARK[ORANGE]} !important}}' in svg
    assert svg.count(f"fill: {GROUND}") == 2                       # what all stands on, and its rule
    assert re.search(r"fill: #ffffff[^>]*>w<", svg)
    assert not re.search(r"fill: [^>]*>b<", svg)                   # black, whatever the page
    assert "000000" not in svg
    assert re.search(r'width="2" height="1"|data:image/png', svg)


def test_labels_stand_beside_the_end_of_their_line_and_not_on_one_another():
    with style():
        made, ax = figure()
        for i in range(3):
            ax.plot([1, 2, np.nan], [0, 0.01 * i, 5], label=f"line {i}", color=(BLUE, GREEN, GREY)[i])
        ax.axhline(1)
        ax.plot([1, 2], [1, 9], label="leaves")
        ax.set(ylim=(0, 2), xlim=(1, 2))
        label_ends(ax)
        places = {text.get_text(): text.xy for text in ax.texts}
        assert [text.get_color() for text in ax.texts[:3]] == [BLUE, GREEN, GREY]
        assert sorted(places, key=lambda name: places[name][1])[:3] == [f"line {i}" for i in range(3)]
        made.draw_without_rendering()
        boxes = [text.get_window_extent() for text in ax.texts]
    assert list(places) == ["line 0", "line 1", "line 2", "leaves"]
    assert places["leaves"] == pytest.approx((0, 0.5))             # the last point that is seen
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_labels_may_stand_left_of_the_first_point():
    with style():
        _, ax = figure()
        ax.plot([1, 2], [0.25, 1], label="a")
        ax.set(ylim=(0, 1), xlim=(0, 2))
        label_ends(ax, start=True)
    (text,) = ax.texts
    assert text.xy == pytest.approx((0.5, 0.25))
    assert text.get_ha() == "right"


def test_a_line_without_a_visible_point_has_no_label():
    with style():
        _, ax = figure()
        ax.plot([1, 2], [np.nan, np.nan], label="empty")
        label_ends(ax)
        assert not ax.texts
        ax.plot([1, 2], [0, 1], label="seen")
        label_ends(ax)
    assert [text.get_text() for text in ax.texts] == ["seen"]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_name_that_is_no_utf_8_is_drawn_with_a_question_mark(suffix):
    fig, ax = figure()
    title = ax.set_title("run \udcff")
    ax.contour(np.arange(4).reshape(2, 2))  # contour lines have a get_text, and are no text
    assert drawn(fig, suffix)
    assert title.get_text() == "run ?"
