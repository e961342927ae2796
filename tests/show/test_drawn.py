"""What figures draw, asked of matplotlib's artists: every number, tick, mark and label in its place."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import PowerNorm, to_hex

from tinyattn.data import Interactions, leave_one_out
from tinyattn.experiments.pictures import Curves, Dot, Dots, Maps
from tinyattn.show import (
    alignment_map,
    array_map,
    attention_map,
    draw_picture,
    draw_run,
    looking_picture,
    metric_bars,
    sweep_dots,
    training_curves,
)
from tinyattn.show.style import BLUE, GREEN, GREY, INK, ORANGE


def maps(made):
    """The axes that hold a map, in order; those of colour bars hold none."""
    return [ax for ax in made.axes if ax.images]


def written(ax):
    """Column and row of every text in the axes, and what it says."""
    return {text.get_position(): text.get_text() for text in ax.texts}


def ticks(axis):
    """What stands at every tick. Its labels are those of the formatter: shared axes hide their own."""
    places = [float(place) for place in axis.get_ticklocs()]
    return dict(zip(places, axis.get_major_formatter().format_ticks(places), strict=True))


def points(line):
    return np.array(line.get_xydata()).tolist()


def bars(ax):
    """The middle of every bar, and its height."""
    return [(round(bar.get_x() + bar.get_width() / 2, 9), bar.get_height()) for bar in ax.patches]


def legend(made):
    (found,) = made.legends
    return [text.get_text() for text in found.get_texts()]


def title(ax):
    return ax.get_title(loc="left")


# ---- arrays


def test_cells_show_their_numbers_by_row_and_column():
    x = np.array([[1.5, -2.0, 3.25], [-0.0, 5.0, np.nan]])
    made = array_map(x, "scores")
    (ax,) = maps(made)
    image = ax.images[0]
    np.testing.assert_array_equal(image.get_array().filled(99), np.nan_to_num(x, nan=99))
    assert written(ax) == {(0, 0): "1.5", (1, 0): "-2", (2, 0): "3.2", (0, 1): "0", (1, 1): "5", (2, 1): "nan"}
    assert image.get_extent() == [-0.5, 2.5, 1.5, -0.5]  # row 0 is the upper one
    assert (ax.get_xticks().tolist(), ax.get_yticks().tolist()) == ([0, 1, 2], [0, 1])
    assert made._suptitle.get_text() == "scores  (2, 3)"
    assert len(made.axes) == 2  # and the scale of colours


def test_what_is_written_on_dark_is_white():
    (ax,) = maps(array_map(np.array([[0.0, 10.0]])))
    assert [text.get_color() for text in ax.texts] == ["white", "black"]  # cividis begins with dark blue


@pytest.mark.parametrize(
    ("x", "limits", "colours"),
    [
        ([[1.0, -3.0], [2.0, 0.0]], (-3, 3), "PuOr_r"),
        ([[1.0, -3.0], [7.0, 0.0]], (-7, 7), "PuOr_r"),
        ([[1.0, 3.0], [2.0, 0.5]], (0, 3), "cividis"),
        ([[0.0, 0.0]], (0, 1), "cividis"),
        ([[np.inf, -np.inf, np.nan, 2.0]], (0, 2), "cividis"),
        ([[-np.inf, -2.0, 1.0]], (-2, 2), "PuOr_r"),
        ([[5.0 - 9j, 1.0]], (0, 5), "cividis"),
        ([[True, False]], (0, 1), "cividis"),
    ],
)
def test_colours_go_from_0_or_as_far_on_either_side_of_it(x, limits, colours):
    image = maps(array_map(np.array(x)))[0].images[0]
    assert (image.get_clim(), image.get_cmap().name) == (limits, colours)


def test_all_maps_share_one_scale_and_say_which_they_are():
    x = np.zeros((2, 2, 2, 3))
    x[0, 1, 1, 2], x[1, 0, 0, 1] = 3, -4
    made = array_map(x)
    shown = maps(made)
    assert [title(ax) for ax in shown] == ["[0, 0]", "[0, 1]", "[1, 0]", "[1, 1]"]
    assert {ax.images[0].get_clim() for ax in shown} == {(-4, 4)}
    for ax, part in zip(shown, x.reshape(4, 2, 3), strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), part)
    assert written(shown[2])[1, 0] == "-4"  # of four maps each has its numbers
    rows = [ax.get_subplotspec().rowspan.start for ax in shown]
    assert rows == [0, 0, 1, 1]
    assert [title(ax) for ax in maps(array_map(np.zeros((2, 1, 1))))] == ["[0]", "[1]"]


@pytest.mark.parametrize(
    ("shape", "shown", "numbers", "says"),
    [
        ((8, 8), 1, True, ""),
        ((8, 9), 1, False, ""),
        ((9, 8), 1, False, ""),
        ((4, 2, 2), 4, True, ""),
        ((5, 2, 2), 5, False, ""),
        ((13, 1, 2), 12, False, ", the first 1 x 12 maps"),
        ((13, 1, 1, 2), 12, False, ", the first 12 x 1 maps"),
    ],
)
def test_of_much_only_a_part_is_drawn_and_that_is_said(shape, shown, numbers, says):
    made = array_map(np.ones(shape))
    found = maps(made)
    assert len(found) == shown
    assert all(bool(ax.texts) == numbers for ax in found)
    assert made._suptitle.get_text() == f"  {shape}{says}"


def test_of_many_rows_about_eight_have_a_tick():
    (ax,) = maps(array_map(np.ones((17, 9))))
    assert ax.get_yticks().tolist() == [0, 3, 6, 9, 12, 15]
    assert ax.get_xticks().tolist() == [0, 2, 4, 6, 8]


def test_truth_values_are_letters_and_need_no_scale():
    made = array_map(np.array([[True, False]]))
    assert written(made.axes[0]) == {(0, 0): "T", (1, 0): "F"}
    assert len(made.axes) == 1
    assert made._suptitle.get_text().endswith("(dark: False, light: True)")


def test_a_vector_is_bars_from_0():
    (ax,) = array_map(np.array([1.0, -2.0, 0.0, 3.0]), "b").axes
    assert bars(ax) == [(0, 1), (1, -2), (2, 0), (3, 3)]
    assert list(ax.lines[0].get_ydata()) == [0, 0]
    assert title(ax) == "b  (4,)"
    assert ax.get_xticks().tolist() == [0, 1, 2, 3]
    assert array_map(np.ones(20)).axes[0].get_xticks().tolist() == [0, 3, 6, 9, 12, 15, 18]
    with pytest.raises(ValueError, match=r"the array has shape \(0, 2\)"):
        array_map(np.zeros((0, 2)))


# ---- attention


def test_ticks_of_attention_are_keys_below_and_queries_from_the_top():
    weights = np.array([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0]])
    (ax,) = maps(attention_map(weights, ["a", "b", "c"], "who", queries=["x", "y"]))
    assert ticks(ax.xaxis) == {0: "a", 1: "b", 2: "c"}
    assert ticks(ax.yaxis) == {0: "x", 1: "y"}
    assert ax.images[0].get_extent() == [-0.5, 2.5, 1.5, -0.5]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key: looked at", "query: looking")
    assert ax.figure._suptitle.get_text() == "who"
    (plain,) = maps(attention_map(weights))
    assert ticks(plain.xaxis) == {0: "1", 1: "2", 2: "3"}
    assert ticks(plain.yaxis) == {0: "1", 1: "2"}
    with pytest.raises(ValueError, match="1 names of queries, expected 2, one per query"):
        attention_map(weights, queries=["x"])


def test_colour_goes_with_the_root_up_to_the_largest_weight_below_1():
    for weights, brightest in (([[1.0, 0.0], [0.25, 0.75]], 0.75), ([[1.0, 0.0], [0.9985, 0.0015]], 0.9985),
                               ([[1.0, 0.0], [0.9995, 0.0005]], 1e-3)):  # fmt: skip
        norm = maps(attention_map(np.array(weights)))[0].images[0].norm
        assert (type(norm), norm.gamma, norm.vmin, norm.vmax) == (PowerNorm, 0.5, 0, brightest)


def test_layers_are_rows_of_heads_and_with_one_head_stand_side_by_side():
    def places(made):
        return [(title(ax), ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start)
                for ax in maps(made)]  # fmt: skip

    assert places(attention_map(np.full((2, 2, 1, 1), 0.5))) == [
        ("layer 1, head 1", 0, 0), ("layer 1, head 2", 0, 1), ("layer 2, head 1", 1, 0), ("layer 2, head 2", 1, 1)
    ]  # fmt: skip
    assert places(attention_map(np.full((2, 1, 1, 1), 0.5))) == [("layer 1, head 1", 0, 0), ("layer 2, head 1", 0, 1)]


def test_of_many_keys_every_second_or_third_is_named():
    for m, every in ((40, 1), (41, 2)):
        (ax,) = maps(attention_map(np.full((1, m), 0.1), [f"k{i}" for i in range(m)]))
        assert ticks(ax.xaxis) == {i: f"k{i}" for i in range(0, m, every)}


def test_of_an_alignment_the_end_of_the_target_comes_last():
    weights = np.arange(1.0, 13).reshape(1, 1, 3, 4) / 20
    (ax,) = maps(alignment_map(weights, "12.5", "ab", "added"))
    assert list(ticks(ax.xaxis).values()) == ["1", "2", ".", "5"]
    assert list(ticks(ax.yaxis).values()) == ["a", "b", "end"]
    np.testing.assert_array_equal(ax.images[0].get_array(), weights[0, 0])
    assert ax.figure._suptitle.get_text() == "added"


def test_what_one_token_looks_at_is_its_row_in_every_head():
    weights = np.arange(36.0).reshape(2, 2, 3, 3) / 36
    made = looking_picture(weights, ["a", "b", "c"], 1)
    assert made._suptitle.get_text() == "b looks at"
    assert [ax.get_title(loc="left") for ax in made.axes] == [
        f"layer {i + 1}, head {j + 1}" for i in range(2) for j in range(2)
    ]
    for ax, row in zip(made.axes, weights[:, :, 1].reshape(4, 3), strict=True):
        assert bars(ax) == list(enumerate(row.tolist()))
        assert ax.get_ylim() == (0, 1)
        assert ticks(ax.xaxis) == {0: "a", 1: "b", 2: "c"}
    long = looking_picture(np.full((1, 1, 21, 21), 0.1), [str(i) for i in range(21)], 0)
    assert ticks(long.axes[0].xaxis) == {i: str(i) for i in range(0, 21, 2)}


# ---- curves and bars


def test_of_training_the_best_epoch_is_marked_and_named():
    rows = [(1, 3.0, None), (2, 2.0, 0.0), (3, 1.5, 0.5), (4, 1.0, 0.4)]
    history = [{"epoch": e, "loss": loss, "valid": v} for e, loss, v in rows]
    left, right = training_curves(history, "run", "bits", "HR@5", "held out").axes
    assert points(left.lines[0]) == [[1, 3], [2, 2], [3, 1.5], [4, 1]]
    assert points(right.lines[0]) == [[2, 0.0], [3, 0.5], [4, 0.4]]
    assert points(right.lines[1]) == [[3, 0.5]]
    assert right.lines[1].get_marker() == "o"
    assert (right.texts[0].get_text(), right.texts[0].xy) == ("best: epoch 3", (3, 0.5))
    assert (left.get_xlabel(), left.get_ylabel(), title(left)) == ("epoch", "bits", "training loss")
    assert (right.get_xlabel(), right.get_ylabel(), title(right)) == ("epoch", "HR@5", "held out")
    assert left.figure._suptitle.get_text() == "run"
    assert left.get_subplotspec().colspan.start < right.get_subplotspec().colspan.start
    assert len(training_curves([row | {"valid": None} for row in history]).axes) == 1


def test_bars_of_metrics_stand_in_the_order_of_the_rows_with_their_values():
    rows = {"popularity": {"hr@10": 0.1, "mrr": 0.05}, "markov": {"hr@10": 0.3, "mrr": 0.2},
            "model": {"hr@10": 0.5, "mrr": 0.25}, "optimum": {"hr@10": 0.4, "mrr": 0.25}}  # fmt: skip
    made = metric_bars(rows, ("mrr", "hr@10"), "sasrec", "a run")
    for ax, name in zip(made.axes, ("mrr", "hr@10"), strict=True):
        assert bars(ax) == [(i, row[name]) for i, row in enumerate(rows.values())]
        assert ticks(ax.xaxis) == {0: "popularity", 1: "markov", 2: "sasrec", 3: "optimum"}
        assert [to_hex(bar.get_facecolor()) for bar in ax.patches] == ["#a8a8a8", GREY, BLUE, GREEN]
        assert [text.get_text() for text in ax.texts] == [f"{row[name]:.3f}" for row in rows.values()]
        assert title(ax) == name.upper()
        assert ax.get_ylim() == (0, pytest.approx(1.12 * 0.5))  # one scale for all
    assert made._suptitle.get_text() == "a run"
    assert metric_bars({"x": {"mrr": 0.0}}, ("mrr",)).axes[0].get_ylim() == (0, 1.12)


def test_of_a_sweep_each_run_is_a_dot_and_the_bar_stands_at_their_mean():
    full = ("full", "mrr")
    groups = {name: [SimpleNamespace(metrics=found) for found in runs] for name, runs in {
        "a": [{full: 0.1}, {full: 0.4}, {("other", "mrr"): 9.0}], "b": [{}], "c": [{full: 0.3}]}.items()}  # fmt: skip
    (ax,) = sweep_dots(groups, full).axes
    assert [points(line) for line in ax.lines] == [
        [[0.1, 0], [0.4, 0]], [[0.25, 0]], [], [[0.3, 2]], [[0.3, 2]]
    ]  # fmt: skip
    assert [line.get_marker() for line in ax.lines] == ["o", "|", "o", "o", "|"]
    assert ticks(ax.yaxis) == {0: "a", 1: "b", 2: "c"}
    top, bottom = ax.get_ylim()[::-1]
    assert top < bottom  # the first group stands at the top
    assert ax.get_xlabel() == "MRR, full"


def test_a_run_has_the_last_layers_weights_of_the_newest_items_of_a_user_with_about_20(monkeypatch):
    saved = {}
    monkeypatch.setattr("tinyattn.show.curves.save", lambda made, path: saved.update({path.name: made}))
    histories = [range(1, 31), range(7, 29), range(5, 9)]
    split = leave_one_out(Interactions.of([list(items) for items in histories]))
    weights = np.random.default_rng(0).random((3, 2, 8, 8))
    model = SimpleNamespace(name="sasrec", history=[], attends=True, reads_times=False,
                            attention=lambda ids, times: (ids, weights))  # fmt: skip
    draw_run(Path("figures"), model, split, {"model": {"hr@5": 0.5, "ndcg@5": 0.25, "mrr": 0.125}}, (5, 10), "t")
    assert sorted(saved) == ["attention.png", "metrics.png"]
    assert [title(ax) for ax in saved["metrics.png"].axes] == ["HR@5", "NDCG@5", "MRR"]
    for head, ax in enumerate(maps(saved["attention.png"])):
        np.testing.assert_array_equal(ax.images[0].get_array(), weights[2, head])
        assert title(ax) == f"layer 3, head {head + 1}"
        assert list(ticks(ax.xaxis).values()) == [str(item) for item in range(20, 28)]  # 28 is the test item
    assert saved["attention.png"]._suptitle.get_text() == "t: who looks at whom, user 2"


# ---- experiments


def test_curves_of_an_experiment_have_one_style_a_name_in_all_panels():
    panels = {"p": {"one": ([1, 2, 3], [4.0, 5.0, 6.0]), "two": ([1, 2], [0.5, 0.25])}, "q": {"two": ([3], [7.0])},
              "r": {"three": ([1], [1.0]), "one": ([2], [9.0])}}  # fmt: skip
    made = draw_picture(Curves("alt", "epoch", "loss", panels, "the target", {"q": 2.5}))
    first, second, third, empty = made.axes
    assert [title(ax) for ax in made.axes[:3]] == ["p", "q", "r"]
    assert not empty.get_visible()
    assert [points(line) for line in first.lines] == [[[1, 4], [2, 5], [3, 6]], [[1, 0.5], [2, 0.25]]]
    assert points(second.lines[0]) == [[3, 7]]
    assert list(second.lines[1].get_ydata()) == [2.5, 2.5]
    assert [points(line) for line in third.lines] == [[[1, 1]], [[2, 9]]]
    styles = [[(line.get_color(), line.get_linestyle()) for line in ax.lines] for ax in (first, second, third)]
    assert styles[0] == [(GREY, "-"), (BLUE, "--")]
    assert styles[1] == [(BLUE, "--"), (INK, ":")]
    assert styles[2] == [(ORANGE, "-."), (GREY, "-")]
    assert legend(made) == ["one", "two", "three", "the target"]
    handles = made.legends[0].legend_handles
    assert [handle.get_color() for handle in handles] == [GREY, BLUE, ORANGE, INK]
    assert {(ax.get_xlabel(), ax.get_ylabel()) for ax in made.axes[:3]} == {("epoch", "loss")}
    alone = draw_picture(Curves("alt", "x", "y", {"p": panels["p"]}, "the target"))
    assert (len(alone.axes), legend(alone)) == (1, ["one", "two"])
    many = draw_picture(Curves("alt", "x", "y", {"p": {str(i): ([1], [1.0]) for i in range(15)}})).axes[0].lines
    styles = [(line.get_color(), line.get_linestyle()) for line in many]
    assert len(set(styles)) == 14  # the fifteenth has the first one's style
    assert styles[14] == styles[0]


def test_dots_of_an_experiment_are_its_seeds_with_a_mark_at_their_mean():
    panels = {"p": {"one": Dot([0.1, 0.2, 0.6], 0.5), "two": Dot([0.4])}, "q": {"three": Dot([0.7, 0.8])},
              "r": {"two": Dot([0.9])}}  # fmt: skip
    made = draw_picture(Dots("alt", "NDCG", panels, "the best"))
    first, second, third, empty = made.axes
    assert not empty.get_visible()

    def marks(ax):
        return [(line.get_marker(), np.round(points(line), 9).tolist()) for line in ax.lines if len(line.get_xdata())]

    assert marks(first) == [
        ("o", [[0.1, 0], [0.2, 0], [0.6, 0]]), ("|", [[0.3, 0]]), ("D", [[0.5, 0]]),
        ("o", [[0.4, 1]]), ("|", [[0.4, 1]]),
    ]  # fmt: skip
    assert marks(second) == [("o", [[0.7, 2], [0.8, 2]]), ("|", [[0.75, 2]])]
    assert marks(third) == [("o", [[0.9, 1]]), ("|", [[0.9, 1]])]
    for ax, name in zip(made.axes, panels, strict=False):
        assert (title(ax), ax.get_xlabel()) == (name, "NDCG")
        assert ticks(ax.yaxis) == {0: "one", 1: "two", 2: "three"}
        bottom, top = ax.get_ylim()
        assert top < 0
        assert bottom > 2
    assert legend(made) == ["a seed, and the mean", "the best"]
    assert [handle.get_marker() for handle in made.legends[0].legend_handles] == ["o", "D"]
    without = draw_picture(Dots("alt", "NDCG", {"p": {"two": Dot([0.4])}}))
    assert legend(without) == ["a seed, and the mean"]


def test_maps_of_an_experiment_count_positions_from_the_last_and_have_a_scale_a_row():
    small, large = [[0.1], [0.2, 0.3]], [[1.0], [0.25, 0.75], [0.5, 0.0, 0.5]]
    made = draw_picture(Maps("alt", {"SASRec": {"host": small, "refined": [[0.4], [0.0, 0.2]]},
                                    "STOSA": {"host": large}}))  # fmt: skip
    first, second, third = maps(made)
    assert [title(ax) for ax in (first, second, third)] == ["host", "refined", "host"]
    assert [ax.get_visible() for ax in made.axes[:4]] == [True, True, True, False]  # the second row has one map
    assert first.images[0].get_array().tolist() == [[0.1, None], [0.2, 0.3]]  # above the diagonal: masked
    assert third.images[0].get_array().tolist() == [[1, None, None], [0.25, 0.75, None], [0.5, 0, 0.5]]
    assert [ax.images[0].norm.vmax for ax in (first, second, third)] == [0.4, 0.4, 1.0]
    assert {(ax.images[0].norm.gamma, ax.images[0].norm.vmin) for ax in (first, second, third)} == {(0.5, 0)}
    for ax, n in ((first, 2), (second, 2), (third, 3)):
        assert ticks(ax.xaxis) == ticks(ax.yaxis) == {0: f"-{n}", n - 1: "-1"}
        assert ax.get_xlabel() == "attended position"
    scales = [ax for ax in made.axes if not ax.images and ax.get_ylabel()]
    assert [ax.get_ylabel() for ax in scales] == ["weight, √ scale"] * 2
    assert first.get_ylabel() == "SASRec\nattending position"
    assert third.get_ylabel() == "STOSA\nattending position"
