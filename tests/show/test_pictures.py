"""Pictures show the numbers they are given, in the place they belong, whatever the labels hold."""

import re

import numpy as np
import pytest

from tinyattn.experiments.pictures import Curves
from tinyattn.ops import softmax
from tinyattn.show import (
    animate,
    animation,
    attention_map,
    draw_picture,
    field_map,
    looking_picture,
    rollout_map,
    save,
    trace,
    trace_result,
)
from tinyattn.show.memory import blank_memory
from tinyattn.show.style import picture_format


def images(made):
    return [ax.images[0] for ax in made.axes if ax.images]


def test_rows_are_queries_columns_keys_and_zeros_stay_blank(rng):
    weights = np.tril(rng.random((2, 3, 4, 4)))
    made = attention_map(weights, ["a", "b", "c", "d"])
    shown = images(made)
    assert len(shown) == 6
    for image, expected in zip(shown, weights.reshape(6, 4, 4), strict=True):
        np.testing.assert_array_equal(image.get_array().filled(0), expected)
        assert image.get_array().mask.tolist() == (expected == 0).tolist()
    ax = next(ax for ax in made.axes if ax.images)
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "b", "c", "d"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c", "d"]
    assert ax.get_xlabel().startswith("key")
    assert ax.get_title(loc="left") == "layer 1, head 1"


def test_one_map_and_cross_attention():
    assert len(images(attention_map(np.eye(3)))) == 1
    assert images(attention_map(np.full((2, 2, 5), 0.2)))[1].get_array().shape == (2, 5)
    named = attention_map(np.full((2, 3, 3), 0.2), names=["softmax", "linear"])
    assert [ax.get_title(loc="left") for ax in named.axes if ax.images] == ["softmax", "linear"]
    with pytest.raises(ValueError, match="1 names, expected 2, one per map"):
        attention_map(np.full((2, 3, 3), 0.2), names=["softmax"])
    for shape in ((3,), (1, 1, 1, 2, 2)):
        with pytest.raises(ValueError, match=rf"weights have shape {re.escape(str(shape))}, expected"):
            attention_map(np.ones(shape))
    with pytest.raises(ValueError, match="2 labels, expected 3, one per key"):
        attention_map(np.eye(3), ["a", "b"])


def test_without_a_suffix_a_picture_is_a_png(tmp_path):
    assert save(attention_map(np.eye(2)), tmp_path / "a").read_bytes().startswith(b"\x89PNG")
    assert picture_format("a.b/c.SVG") == "svg"
    with pytest.raises(ValueError, match=r"a.xyz ends in .xyz, expected a format of pictures: .*pdf, .*svg"):
        save(attention_map(np.eye(2)), tmp_path / "a.xyz")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_memory_is_blank_until_the_last_of_several_traces_ends():
    plain = np.empty
    with blank_memory():
        with blank_memory():
            assert np.isnan(np.empty(3)).all()
        assert np.isnan(np.empty_like(np.zeros(2))).all()
        assert np.isnan(np.empty(2, dtype=complex)).all()
        assert np.empty(2, dtype=int).tolist() == [0, 0]
        assert np.empty(2, dtype=bool).tolist() == [False, False]
        for _ in range(2):                                                 # the second has memory that the first filled
            used = np.empty(100, np.uint8)
            assert not used.any()
            used[:] = 7
            del used
        assert np.empty(1, dtype=object).tolist() == [None]
    assert np.empty is plain


def test_labels_are_taken_literally(tmp_path):
    path = save(attention_map(np.eye(2), ["$\\x$", "100 % _a^"], "a $ title"), tmp_path / "new" / "a.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_pictures_of_images_show_their_numbers(rng):
    pixels, rolled = rng.random((2, 4, 4, 3)), rng.random((2, 2, 2))
    made = rollout_map(pixels, rolled, ["a", "b"])
    shown = [image.get_array() for image in images(made)]
    for found, wanted in zip(shown, [*pixels.mean(axis=-1), *rolled], strict=True):
        np.testing.assert_array_equal(found, wanted)
    field = np.array([[0.0, 1.0], [2.0, 4.0]])
    (found,) = (image.get_array() for image in images(field_map({"a": field})))
    np.testing.assert_array_equal(found.filled(-1), [[-1, 0.25], [0.5, 1]])


def test_text_stays_text_in_svg_and_pdf(tmp_path):
    picture = attention_map(np.eye(2), ["cat", "mat"], "a title")
    svg = save(picture, tmp_path / "a.svg").read_text(encoding="utf-8")
    assert all(f">{word}</text>" in svg for word in ("cat", "mat", "a title"))
    pdf = save(picture, tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in pdf                                            # TrueType: no outlines in its place
    assert b"/Type3" not in pdf


@pytest.mark.slow(seconds=2)
def test_animations_have_a_picture_a_step_and_a_token(tmp_path, monkeypatch):
    from PIL import Image

    t = trace(softmax, np.array([[1.0, 2.0]]))
    with Image.open(t.gif(tmp_path / "trace.gif")) as found:
        assert found.n_frames == len(t)
    with Image.open(t.gif(tmp_path / "part.gif", steps=(1, 2))) as found:
        assert found.n_frames == 2
    monkeypatch.setattr(trace_result, "MOST", 2)                           # so many fit, and one more does not
    assert t.gif(tmp_path / "part.gif", steps=(1, 2)).exists()
    with pytest.raises(ValueError, match="0-2 are 3 pictures, and an animation has at most 2: steps 0-1 would fit"):
        t.gif(tmp_path / "x.gif", steps=(0, 2))
    weights = np.full((1, 2, 3, 3), 1 / 3)
    frames = (looking_picture(weights, ["a", "b", "c"], i) for i in range(3))
    assert animate(frames, tmp_path / "looks.gif").exists()
    for steps in ((0, len(t)), (2, 1), (-1, 1)):
        says = f"steps {steps[0]}-{steps[1]} are not there: the trace has steps 0-{len(t) - 1}"
        with pytest.raises(ValueError, match=says):
            t.gif(tmp_path / "x.gif", steps=steps)
    monkeypatch.setattr(animation, "MOST", 2)
    few = [looking_picture(weights, ["a", "b", "c"], i) for i in range(3)]
    assert animate(few[:2], tmp_path / "few.gif").exists()
    with pytest.raises(ValueError, match="there are more than 2 pictures"):
        animate(few, tmp_path / "x.gif")
    with pytest.raises(ValueError, match="there are no pictures"):
        animate([], tmp_path / "x.gif")
    with pytest.raises(ValueError, match="seconds is 0"):
        animate([], tmp_path / "x.gif", seconds=0)


@pytest.mark.parametrize("count", [3, 14])
@pytest.mark.parametrize("letters", [3, 60])
def test_a_legend_is_no_wider_than_its_picture(letters, count):
    names = [f"{i:{letters}}" for i in range(count)]
    panels = {title: {name: ([1, 2], [0.5, 1]) for name in names} for title in ("one", "two")}
    figure = draw_picture(Curves("curves", "tokens", "right answers", panels))
    figure.canvas.draw()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    assert legend.get_window_extent().width <= figure.bbox.width
    panel = figure.axes[0].get_window_extent()
    assert panel.height > 100  # dots: a long legend does not take the panels' room
