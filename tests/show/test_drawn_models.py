"""Pictures of models at work, and of steps that follow one another: they draw what the model, or the trace, has."""

import linecache
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from tests.show.test_drawn import points, title
from tinyattn.data import Images, Interactions, leave_one_out
from tinyattn.models import attention_distance, convolution_field, receptive_field, rollout, uniform_distance
from tinyattn.ops import softmax
from tinyattn.show import (
    LOOKS,
    animate,
    curves,
    distance_plot,
    draw_run,
    field_map,
    hidden_map,
    rollout_map,
    trace,
)
from tinyattn.show import images as of_images
from tinyattn.show.animation import step_picture

RNG = np.random.default_rng(0)
PIXELS = Images(RNG.random((9, 4, 6, 3)), np.arange(9))


# ---- models of images


def looking(read):
    """A model of images of 4 by 6 pixels, in 2 by 3 patches after `read` tokens, with two blocks of two heads."""
    weights = RNG.random((200, 2, 2, 6 + read, 6 + read))

    def attention(images):
        some = weights[: len(images)]
        return [some[:, block] for block in range(2)]

    network = SimpleNamespace(read=read, grid=(2, 3))
    classify = lambda images: [f"image {i}" for i in range(len(images))]  # noqa: E731
    return SimpleNamespace(network=network, attention=attention, classify=classify, shape=(4, 6, 3))


@pytest.mark.parametrize("read", [0, 1, 2])
def test_rolled_out_is_the_class_tokens_row_or_the_mean_of_all(read):
    model = looking(read)
    made = LOOKS["rollout"](model, PIXELS, "vit")
    below = [ax.images[0].get_array() for ax in made.axes[8:]]
    rolled = rollout(model.attention(PIXELS[:8]))
    for found, one in zip(below, rolled, strict=True):
        row = one[0, read:] if read else one.mean(axis=0)
        np.testing.assert_array_equal(found, row.reshape(2, 3))
    np.testing.assert_allclose(made.axes[7].images[0].get_array(), PIXELS.images[7].mean(axis=-1), rtol=1e-6)
    assert [title(ax) for ax in made.axes[:8]] == [f"image {i}" for i in range(8)]
    assert made._suptitle.get_text() == "vit: rolled out"


def test_distances_leave_out_what_is_no_patch():
    model, many = looking(1), Images(RNG.random((101, 4, 6)))
    (ax,) = LOOKS["distances"](model, many, "vit").axes
    expected = attention_distance(model.attention(many[:100]), 4, 6, 1)
    assert points(ax.lines[0]) == [[1, expected[0, 0]], [2, expected[1, 0]]]
    assert points(ax.lines[1]) == [[1, expected[0, 1]], [2, expected[1, 1]]]
    assert ax.lines[3].get_ydata()[0] == uniform_distance(6, 4, 6)
    assert title(ax) == "vit: how far heads look"


def test_the_field_of_a_patch_stands_beside_that_of_as_many_convolutions(monkeypatch):
    fields = {}

    def receptive(model, image):
        fields["given"] = image
        return np.arange(24.0).reshape(4, 6)

    monkeypatch.setattr(of_images.looking, "receptive_field", receptive)
    left, right = LOOKS["field"](looking(1), PIXELS, "vit").axes
    np.testing.assert_array_equal(fields["given"], PIXELS.images[0])
    assert (title(left), title(right)) == ("a patch after 2 blocks", "2 convolutions of 3 x 3")
    np.testing.assert_allclose(left.images[0].get_array().filled(0), np.arange(24).reshape(4, 6) / 23)
    of_two = convolution_field(4, 6, 2)
    np.testing.assert_allclose(right.images[0].get_array().filled(0), of_two / of_two.max())
    assert callable(receptive_field)


def test_hidden_patches_their_words_and_guesses_are_rows():
    some = PIXELS[:2]
    hidden, words, guesses = (np.full((2, 6), n) for n in (True, 7, 8))

    def painted(images, where, what):
        assert images is some
        assert where is hidden
        return images.images * 0 + (-1 if what is None else what[0, 0])

    batch = SimpleNamespace(images=some.images, hidden=hidden, words=words)
    guessed = lambda images, where: guesses  # noqa: E731
    model = SimpleNamespace(evaluation_batch=lambda images: batch, painted=painted, guessed=guessed)
    made = hidden_map(model, some, "beit")
    rows = np.array(made.axes).reshape(4, 2)
    assert [ax.get_ylabel() for ax in rows[:, 0]] == ["image", "hidden", "its words", "guessed"]
    for j in range(2):
        np.testing.assert_allclose(rows[0, j].images[0].get_array(), some.images[j].mean(axis=-1), rtol=1e-6)
        assert [float(rows[i, j].images[0].get_array().mean()) for i in (1, 2, 3)] == [-1, 7, 8]
        limits = (some.images[j].min(), some.images[j].max())
        assert {ax.images[0].get_clim() for ax in rows[:, j]} == {limits}  # those of the whole image
    assert made._suptitle.get_text() == "beit"


def test_titles_and_scales_of_pictures_of_images():
    made = rollout_map(np.ones((2, 2, 2, 1)), np.ones((2, 1, 1)), ["a", "b"], "rolled")
    assert [title(ax) for ax in made.axes] == ["a", "b", "", ""]
    assert [ax.get_ylabel() for ax in made.axes] == ["image", "", "rolled out", ""]
    fields = field_map({"x": np.array([[0.0, 2.0]]), "y": np.array([[4.0, 1.0]])}, "f")
    assert [title(ax) for ax in fields.axes] == ["x", "y"]
    assert {ax.images[0].get_clim() for ax in fields.axes} == {(0, 1)}
    (ax,) = distance_plot(np.array([[1.0, 2.0], [3.0, np.nan]]), 2.5, "far").axes
    assert points(ax.lines[0]) == [[1, 1], [2, 3]]
    assert points(ax.lines[2]) == [[1, 1.5], [2, 3]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mean of the heads", "all patches alike"]
    assert ax.get_xticks().tolist() == [1, 2]
    assert ax.get_ylim()[0] == 0


# ---- a run


def test_pictures_of_a_run_are_of_its_metrics_its_history_and_one_user(monkeypatch, tmp_path):
    """The user's history is the one whose length is nearest to 20, and its newest 8 items are drawn."""
    asked = {}
    for name in ("metric_bars", "training_curves", "attention_map"):
        monkeypatch.setattr(curves, name, lambda *given, name=name, **how: asked.setdefault(name, given))
    monkeypatch.setattr(curves, "save", lambda picture, path: asked.setdefault("saved", []).append(path.name))
    sequences = [[f"i{i:02}" for i in range(n)] for n in (2, 3, 25, 18, 60)]  # two are too few to be evaluated
    split = leave_one_out(Interactions.from_sequences(sequences))

    def attention(ids, times):
        return ids[::-1], np.full((1, 1, len(ids), len(ids)), 0.5)

    model = SimpleNamespace(name="sasrec", history=[{"epoch": 1}], attends=True, reads_times=False, attention=attention)
    rows = {"model": dict.fromkeys(("hr@5", "ndcg@5", "hr@10", "ndcg@10", "mrr"), 0.5)}
    draw_run(tmp_path, model, split, rows, (5, 10), "run")
    assert asked["metric_bars"] == (rows, ("hr@5", "ndcg@5", "mrr"), "sasrec", "run")
    assert asked["training_curves"] == ([{"epoch": 1}], "run")
    weights, ids, said = asked["attention_map"]
    assert ids == sequences[3][9:17][::-1]  # the last before the test item, as the model names them
    assert weights.shape == (1, 8, 8)
    assert said == "run: who looks at whom, user 4"
    assert asked["saved"] == ["metrics.png", "training.png", "attention.png"]
    asked.clear()
    long = leave_one_out(Interactions.from_sequences(sequences[2:3]))
    plain = SimpleNamespace(name="x", attends=True, reads_times=False, attention=attention)
    draw_run(tmp_path, plain, long, rows, (10,), "run")
    assert asked["attention_map"][1] == sequences[2][16:24][::-1]
    assert asked["saved"] == ["metrics.png", "attention.png"]
    asked.clear()
    draw_run(tmp_path, SimpleNamespace(name="x", history=[]), long, rows, (10,), "run")
    assert asked["saved"] == ["metrics.png"]


# ---- steps


def doubled(x):
    """One line.

    And this one is left out.
    """
    y = x + (
        1
    )
    z = y * 2
    return z


def test_a_step_shows_its_statement_among_its_neighbours_and_its_array():
    x = np.arange(6.0).reshape(1, 2, 3)
    t = trace(doubled, x)
    left, right = step_picture(t.entry("y"), len(t)).axes
    assert title(left) == "step 1 of 2: doubled"
    said = [text.get_text().split(maxsplit=1) for text in left.texts]
    first = doubled.__code__.co_firstlineno
    assert [int(n) for n, _ in said] == [first, first + 1, *range(first + 5, first + 10)]
    assert [text for _, text in said] == [
        "def doubled(x):", '"""One line.', "y = x + (", "1", ")", "z = y * 2", "return z"
    ]  # fmt: skip
    assert [text.get_weight() for text in left.texts] == ["normal"] * 2 + ["bold"] * 3 + ["normal"] * 2
    heights = [text.get_position()[1] for text in left.texts]
    assert heights == sorted(heights, reverse=True)
    assert 1 > heights[0] > heights[-1] > 0  # within the axes
    np.testing.assert_array_equal(right.images[0].get_array(), (x + 1).reshape(2, 3))
    assert title(right) == "y (1, 2, 3)"
    short = step_picture(trace(softmax, np.array([1.0, 2.0])).entry("p"), 9).axes[1]
    assert short.images[0].get_array().shape == (1, 2)


def test_a_step_shows_seven_lines_before_and_after_and_seventy_characters_of_each():
    code, scope = "def long(x):\n" + 20 * f"    x = x + 1  # {80 * '-'}\n" + "    return x\n", {}
    linecache.cache["long.py"] = len(code), None, code.splitlines(keepends=True), "long.py"
    exec(compile(code, "long.py", "exec"), scope)
    t = trace(scope["long"], np.zeros(2))
    said = [text.get_text() for text in step_picture(t.entry(10), len(t)).axes[0].texts]
    assert [int(text[:4]) for text in said] == list(range(4, 19))  # around line 11
    assert {len(text) for text in said} == {6 + 70}


def test_frames_follow_in_order_each_as_long_as_asked_and_go_round_for_ever(tmp_path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def frame(level):
        fig = Figure(figsize=(0.2, 0.2), facecolor=(level, level, level))
        FigureCanvasAgg(fig)
        return fig

    levels = [0.0, 0.5, 1.0]
    with Image.open(animate(map(frame, levels), tmp_path / "a.gif", seconds=0.25)) as found:
        assert (found.n_frames, found.info["loop"]) == (3, 0)
        for i, level in enumerate(levels):
            found.seek(i)
            assert found.info["duration"] == 250
            assert found.convert("RGB").getpixel((5, 5))[0] == pytest.approx(255 * level, abs=2)
