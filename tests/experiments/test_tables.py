"""Tables, remarks and pages of made-up runs with known answers."""

from dataclasses import replace

from tests.helpers import MACHINE
from tests.models.worlds import TINY
from tinyattn.data.sequence_tasks import Recall
from tinyattn.evaluation import compare_means
from tinyattn.experiments import Dataset, Experiment, Row, TaskData
from tinyattn.experiments.pictures import Curves, Dot, Maps, has_something
from tinyattn.experiments.tables import (
    at_pace,
    beyond,
    cell,
    compare,
    contrasts,
    dots,
    ended_by_limit,
    epochs,
    figures,
    heading,
    made,
    minutes,
    missing,
    pace,
    page,
    ranked,
    table,
    to_come,
    values,
)

FULL, HR = ("full", "ndcg@10"), ("uni100", "hr@10")
SERIES = Dataset("series", world=TINY)
SMALL = Experiment(
    name="small", title="Small", question="\nDoes it run?\n", datasets={"series": SERIES},
    rows={
        "popularity": Row("popularity", "series", "popularity", {}, {HR: 0.43291}, "a paper"),
        "sasrec": Row("SASRec", "series", "sasrec", {"epochs": 5}, minutes=30),
        "gru4rec": Row("GRU4Rec", "series", "gru4rec", {"epochs": 5}, minutes=12),
    },
    page=lambda experiment, results: "",
)  # fmt: skip


def run(full=0.1, hr=0.5, *, seconds=60.0, took=2, pace=3.0, **more):
    return {"metrics": {"full": {"ndcg@10": full}, "uni100": {"hr@10": hr}}, "seconds": seconds, "epochs": took,
            "epoch_seconds": pace, "machine": MACHINE} | more  # fmt: skip


ON_GPU = MACHINE | {"device": "H100"}


def test_a_cell_is_the_mean_and_with_several_seeds_the_standard_deviation_of_the_sample():
    assert cell([]) == ""
    assert cell([0.12344]) == "0.1234"
    assert cell([0.1, 0.3, 0.2]) == "0.2000 ± 0.1000"
    assert cell([0.1, 0.3], 2) == f"0.20 ± {0.02**0.5:.2f}"
    assert values([run(0.25, 0.5), run(0.75)], FULL) == [0.25, 0.75]
    assert heading(["a", "b"]) == ["| | a | b |", "|---|---|---|"]


def test_a_table_has_a_line_a_row_and_what_is_published_beneath():
    results = {"popularity": [run(0.2, 0.5)], "sasrec": [run(0.1, 0.7), run(0.3, 0.7, before=[ON_GPU])], "gru4rec": []}
    more = {"runs": lambda runs: str(len(runs))}
    assert table(SMALL, results, ["popularity", "sasrec", "gru4rec"], [FULL, HR], more) == [
        "| | seeds | full NDCG@10 | uni100 HR@10 | runs |",
        "|---|---|---|---|---|",
        "| popularity | 1 | 0.2000 | 0.5000 | 1 |",
        "| *published: a paper* | |  | *0.4329* |  |",
        "| SASRec | 2, 1 on a GPU | 0.2000 ± 0.1414 | 0.7000 ± 0.0000 | 2 |",
        "| GRU4Rec | to come |  |  |  |",
    ]


def test_dots_are_the_seeds_of_rows_that_have_been_run_and_what_is_published():
    results = {"popularity": [run(0.2, 0.5)], "sasrec": [run(0.1), run(0.3)], "gru4rec": []}
    assert dots(SMALL, results, list(SMALL.rows), HR) == {
        "popularity": Dot([0.5], 0.43291), "SASRec": Dot([0.5, 0.5], None)
    }  # fmt: skip
    assert list(dots(SMALL, results, ["sasrec", "popularity"], FULL).values()) == [Dot([0.1, 0.3]), Dot([0.2])]


def of_seeds(**by_seed):
    return {key: [run(*both, row={"seed": seed}) for seed, both in runs.items()] for key, runs in by_seed.items()}


def test_rows_stand_by_their_means_each_beside_the_next():
    """Pairs of seeds 0 and 1 differ by .1 and .2: t is 3, and p is 2 / π · arctan 1/3 = .205.

    SASRec beside one exact value: t is 6, and p 2 / π · arctan 1/6 = .105; twice that for two lines, and for both.
    """
    results = of_seeds(gru4rec={0: (0.4, 0), 1: (0.6, 0)}, sasrec={1: (0.4, 0), 0: (0.3, 0)}, popularity={0: (0.05, 0)})
    head = ["| | full NDCG@10 | above the next by (95 % over seeds) | p |", "|---|---|---|---|"]
    assert ranked(SMALL, results, list(SMALL.rows), FULL)[2:] == [
        *head,
        "| GRU4Rec | 0.5000 ± 0.1414 | +0.1500 (-0.4855 to +0.7855) | .210 |",
        "| SASRec | 0.3500 ± 0.0707 | +0.3000 (-0.3355 to +0.9355) | .210 |",
        "| popularity | 0.0500 |  |  |",
    ]
    alone = results | {"sasrec": results["sasrec"][:1]}                         # trained once: nothing to compare
    assert ranked(SMALL, alone, ["sasrec", "gru4rec"], FULL) == []
    assert ranked(SMALL, alone | {"sasrec": []}, list(SMALL.rows), FULL)[2:][2:] == [
        "| GRU4Rec | 0.5000 ± 0.1414 | +0.4500 (-0.8210 to +1.7210) | .139 |", "| popularity | 0.0500 |  |  |"
    ]  # fmt: skip
    assert ranked(SMALL, alone | {"sasrec": [], "gru4rec": []}, list(SMALL.rows), FULL) == []


def test_what_distinguishes_two_rows_is_a_line_with_their_difference():
    """p as above: of two lines, and of the one that can be compared."""
    results = of_seeds(gru4rec={0: (0.4, 0), 1: (0.6, 0)}, sasrec={1: (0.4, 0), 0: (0.3, 0)}, popularity={0: (0.05, 0)})
    pairs = {"a GRU": ("gru4rec", "sasrec"), "learning": ("sasrec", "popularity")}
    found = contrasts(SMALL, results, pairs, FULL)
    assert found[0].startswith("What each part brings. Intervals and p are Student's over seeds")
    assert found[2:] == [
        "| | full NDCG@10 (95 % over seeds) | p |", "|---|---|---|",
        "| a GRU | +0.1500 (-0.4855 to +0.7855) | .210 |", "| learning | +0.3000 (-0.3355 to +0.9355) | .210 |",
    ]  # fmt: skip
    alone = results | {"gru4rec": []}
    assert contrasts(SMALL, alone, pairs, FULL)[4:] == [
        "| a GRU |  |  |", "| learning | +0.3000 (-0.3355 to +0.9355) | .105 |"
    ]  # fmt: skip
    assert contrasts(SMALL, alone | {"sasrec": results["sasrec"][:1]}, pairs, FULL) == []


def test_rows_of_other_seeds_are_compared_by_welch():
    results = of_seeds(sasrec={0: (0, 0.4), 1: (0, 0.6)}, gru4rec={1: (0, 0.1), 2: (0, 0.3), 3: (0, 0.2)})
    found = compare(SMALL, results, "sasrec", "gru4rec", HR)
    assert found == compare_means([0.4, 0.6], [0.1, 0.3, 0.2])
    same = results | {"gru4rec": results["gru4rec"][:1] + [run(0, 0.2, row={"seed": 0})]}
    assert compare(SMALL, same, "sasrec", "gru4rec", HR) == compare_means([0.4, 0.6], [0.2, 0.1], paired=True)


def test_what_accuracy_does_not_show_is_averaged_over_seeds_and_pairs_of_seeds():
    def of(coverage, *best):
        measured = {"coverage@10": coverage, "novelty": 2 * coverage, "popularity": 4 * coverage}
        return run(beyond=measured | {"best": list(best)})

    results = {"popularity": [of(0.25, [1, 2], [3, 4])], "sasrec": [of(0.5, [1, 2], [5, 6]), of(0.75, [1, 9], [4, 3])],
               "gru4rec": [run()]}  # fmt: skip
    titles = {key: row.title for key, row in SMALL.rows.items()}
    assert beyond(results, list(SMALL.rows), titles, "popularity") == [
        "| | coverage@10 | novelty | popularity | overlap with popularity |",
        "|---|---|---|---|---|",
        "| popularity | 0.250 | 0.500 | 1.000 | 1.00 |",
        "| SASRec | 0.625 | 1.250 | 2.500 | 0.62 |",
    ]
    alone = beyond(results | {"popularity": []}, ["sasrec"], titles, "popularity")
    assert alone[2] == "| SASRec | 0.625 | 1.250 | 2.500 |  |"


def test_the_pace_is_that_of_the_quickest_run_on_the_host():
    slow, quick, gpu = run(pace=30.0), run(pace=12.0), run(pace=1.0, machine=ON_GPU)
    assert pace([slow, quick, gpu]) == (12.0, "")
    assert pace([gpu, run(pace=2.0, machine=ON_GPU)]) == (1.0, "H100")
    assert pace([run(pace=None)]) is pace([]) is None
    assert at_pace([slow, quick]) == "12.0"
    assert at_pace([gpu], 2.5) == "2.5, H100"
    assert at_pace([run(pace=None)]) == ""


def test_minutes_are_epochs_at_that_pace_and_without_epochs_those_that_passed():
    assert minutes([run(took=10, pace=30.0), run(took=20, pace=12.0)]) == "3.0"  # 15 epochs of 12 seconds
    assert minutes([run(took=10, pace=30.0, machine=ON_GPU)]) == "5.0, H100"
    assert minutes([run(took=0, seconds=90.0), run(took=0, seconds=30.0)]) == "1.0"
    assert minutes([run(took=0, seconds=90.0), run(took=5, seconds=30.0)]) == "1.0"
    assert epochs([run(took=10), run(took=13)]) == "12"
    assert epochs([run(took=0)]) == ""


def test_where_runs_were_made_is_said_by_machine_with_their_dates():
    later, earlier = MACHINE | {"date": "2026-03-01", "commit": "def"}, MACHINE | {"date": "2025-12-31"}
    assert made({}) == "0 runs, each with one worker, on no machine yet."
    host = "2 cores of abacus, Python 3.11, NumPy 2.4"
    of = "Commits, with their runs: abc (1)."
    assert made({"a": [run()]}) == f"1 run, each with one worker, on {host}, 2026-01-01. {of}"
    results = {"a": [run(machine=later), run()], "b": [run(machine=ON_GPU, before=[earlier])]}
    assert made(results) == (
        f"3 runs, each with one worker, on {host}, 2025-12-31 to 2026-03-01; "
        f"H100 beside {host}, 2026-01-01. Commits, with their runs: abc (2), def (1)."
    )


def test_commits_are_listed_and_a_tree_with_changes_is_marked():
    """A run that went on with another commit counts for both."""
    changed, clean, old = (MACHINE | {"commit": commit} for commit in ("abc+", "def", ""))
    found = made({"a": [run(machine=changed, before=[clean]), run(machine=clean), run(machine=old)]})
    assert found.endswith(
        "Commits, with their runs: def (2), abc+ (1), unknown (1); + marks a tree with changes that were not committed."
    )


def test_runs_that_the_limit_ended_are_listed_unless_they_had_no_patience():
    def row(**options):
        return Row("SASRec", "series", "sasrec", options)

    rows = {"limited": row(epochs=5, patience=2), "stopped": row(epochs=9, patience=2), "fixed": row(epochs=5),
            "patient": row(epochs=5, patience=0), "counted": row(), "absent": row(epochs=5, patience=2)}  # fmt: skip
    some = {key: [run(took=5), run(took=4)] for key in rows} | {"absent": []}
    sentence = "The limit of epochs ended these runs, which might have learned more: limited (1 of 2)."
    assert ended_by_limit(rows, some) == sentence
    assert ended_by_limit(rows, some | {"limited": [run(took=4)]}) == ""
    assert f"\n\n{sentence}\n\nMade by" in page(replace(SMALL, rows=rows), some, [["a"]])


def test_runs_to_come_take_as_long_as_their_likes():
    """A run of SASRec took 2 epochs of 900 seconds; of GRU4Rec 12 minutes are expected."""
    results = {"popularity": [run(took=0, pace=None)], "sasrec": [run(took=2, pace=900.0)], "gru4rec": []}
    assert missing(SMALL, results) == {"sasrec": 1, "gru4rec": 2}
    command = "`tinyattn reproduce small --out OUT` runs"
    assert to_come(SMALL, results) == f"3 runs of the grid are to come, about 0.9 hours of one core: {command} them. "
    results["gru4rec"] = [run()] * 2
    assert to_come(SMALL, results) == f"1 run of the grid is to come, about 0.5 hours of one core: {command} it. "
    results["sasrec"] = [run(took=2, pace=1.0, machine=ON_GPU)]  # which says nothing of the host
    assert "about 0.5 hours" in to_come(SMALL, results)
    assert to_come(SMALL, results | {"sasrec": [run()] * 2}) == ""
    absent = replace(SMALL, datasets={"series": Dataset("a file", file="x.txt")})
    assert "`tinyattn reproduce small --data DIR --out OUT`" in to_come(absent, results)
    quick = SMALL.quick()
    assert "`tinyattn reproduce small --quick --out OUT`" in to_come(quick, results | {"sasrec": []})
    assert "about 0.1 hours" in to_come(quick, results | {"sasrec": []})


def test_a_page_has_its_parts_with_blank_lines_between():
    found = page(SMALL, {"sasrec": [run()] * 2, "popularity": [run()], "gru4rec": [run()] * 2}, [["a", "b"], ["c"]])
    lines = found.split("\n")
    assert lines[:9] == ["# Small", "", "Does it run?", "", "a", "b", "", "c", ""]
    assert lines[9].startswith("Made by `tinyattn reproduce small`: 5 runs, each with one worker, on ")
    assert lines[9].endswith(". With several seeds: mean ± standard deviation.")
    assert lines[10:] == [""]
    assert page(SMALL, {}, [["| minutes of training |"]]).count("Minutes of training are") == 1


def test_pictures_stand_below_each_other_and_only_where_there_is_something_to_show():
    pictures = {"a": Curves("first", "x", "y", {"p": {"l": ([1], [2.0])}}), "none": Curves("n", "x", "y", {"p": {}}),
                "b": Maps("second", {"r": {"m": [[1.0]]}}), "nothing": Maps("m", {})}  # fmt: skip
    drawing = replace(SMALL, pictures=lambda experiment, results: pictures)
    assert list(drawing.shown({})) == ["a", "b"]
    assert [has_something(picture) for picture in pictures.values()] == [True, False, True, False]
    assert figures(drawing, {}) == ["![first](a.svg)", "", "![second](b.svg)"]
    assert figures(SMALL, {}) == []


# ---- the grid


def test_runs_go_seed_by_seed_and_late_rows_follow():
    rows = {
        "late": Row("", "series", "sasrec", late=2), "twice": Row("", "series", "sasrec", times=2),
        "counts": Row("", "series", "popularity", seeds=3), "one": Row("", "series", "sasrec", seeds=1),
        "soon": Row("", "series", "sasrec", late=1),
    }  # fmt: skip
    assert replace(SMALL, rows=rows, first_seed=7).runs() == [
        ("twice", 7), ("counts", 7), ("one", 7), ("twice", 8), ("twice", 9), ("twice", 10),
        ("soon", 7), ("soon", 8), ("late", 7), ("late", 8),
    ]  # fmt: skip
    assert [SMALL.is_trained(key) for key in SMALL.rows] == [False, True, True]


def test_a_quick_look_has_little_data_two_epochs_and_one_seed():
    world, task = Dataset("w", world=TINY), TaskData("t", Recall(sequences=5000, held_out=1000))
    rows = {"a": Row("A", "w", "sasrec", {"epochs": 9, "dim": 4}, minutes=60, seeds=4), "b": Row("B", "w", "markov")}
    quick = replace(SMALL, datasets={"w": world, "t": task}, rows=rows).quick()
    assert quick.title == "Small, a quick look"
    assert (quick.seeds, quick.is_quick, SMALL.is_quick) == (1, True, False)
    assert quick.rows["a"] == Row("A", "w", "sasrec", {"epochs": 2, "dim": 4}, minutes=0.1, seeds=1)
    assert quick.rows["b"].options == {}
    assert (quick.datasets["w"].users, quick.datasets["w"].world) == (300, replace(TINY, users=300))
    assert (quick.datasets["t"].task.sequences, quick.datasets["t"].task.held_out) == (100, 100)
    assert rows["a"].options["epochs"] == 9
    assert task.missing(None) is None
    assert Dataset("f", file="x.txt").quick() == Dataset("f", file="x.txt", users=300)


def test_a_data_set_is_a_file_in_the_folder_as_named_or_unpacked_and_cut_as_asked(tmp_path):
    data = Dataset("f", file="x.txt.gz")
    assert data.path(None) is data.path(tmp_path) is None
    assert data.missing(tmp_path) == data.missing(None) == "x.txt.gz"
    assert SERIES.missing(None) is None
    (tmp_path / "x.txt").write_text("".join(f"1 {i}\n" for i in "abcdef") + "2 g\n2 f\n2 a\n3 a\n")
    assert data.path(tmp_path) == tmp_path / "x.txt"
    assert data.missing(tmp_path) is None
    (whole, truth) = data.load(tmp_path)
    assert ([whole.items.decode(whole.sequence(u)).tolist() for u in range(3)], truth) == (
        [list("abcdef"), list("gfa"), ["a"]], None
    )  # fmt: skip
    cut = replace(data, newest=2, users=1).load(tmp_path)[0]  # of training; validation and test come on top
    assert [cut.items.decode(cut.sequence(u)).tolist() for u in range(cut.n_users)] == [list("cdef")]
    assert replace(data, users=2).load(tmp_path)[0].n_items == 7
    assert replace(data, users=1).load(tmp_path)[0].n_items == 6  # g is had by nobody then
    (tmp_path / "x.txt.gz").touch()
    assert data.path(tmp_path) == tmp_path / "x.txt.gz"
    interactions, truth = SERIES.load(None)
    assert interactions.n_users == TINY.users
    assert truth == TINY.next_item
