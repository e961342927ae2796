"""`tinyattn board`: pages of riddles, by hand or of any kind's backward."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinyattn.cli import main
from tinyattn.show.views import boards_of, find_the_bug
from tinyattn.show.views.view import as_json


def written(path: Path) -> Any:
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)[1])


def test_a_page_of_boards_is_written(tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "boards.html"
    views = find_the_bug(), find_the_bug(1), boards_of("softmax", 3, seed=2)
    for words, view in zip(([], ["--seed", "1"], ["softmax", "--boards", "3", "--seed", "2"]), views, strict=True):
        assert main(["board", *words, "--html", str(page)]) == 0
        assert capsys.readouterr().out == f"{page}: {len(view.data['boards'])} boards\n"
        assert written(page) == json.loads(as_json(view.data))
    by_hand, by_rule = views[0].data, views[2].data
    assert [(data["title"], len(data["boards"])) for data in (by_hand, by_rule)] == [
        ("Find the bug", 6), ("Find the bug: softmax", 3)
    ]  # fmt: skip
    assert by_rule["command"] == "tinyattn check my_softmax.py --as softmax"
    assert by_hand != views[1].data


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["adam"], "adam has no backward in one function, expected one of additive_attention"),
        (["relu"], "the backward of relu has a single line that can be wrong"),
        (["conv1d"], "the backward of conv1d has a single line that can be wrong"),  # it calls that of two axes
        (["nonsense"], "nonsense"),
        (["--boards", "3"], "--boards counts boards of a KIND"),
        (["softmax", "--boards", "0"], "count is 0, expected at least 1"),
    ],
)
def test_refusals(words: list[str], says: str, tmp_path: Path, capsys: Any) -> None:
    page = tmp_path / "boards.html"
    assert main(["board", *words, "--html", str(page)]) == 2
    assert says in capsys.readouterr().err
    assert not page.exists()


@pytest.mark.parametrize("kind", ["softmax", "linear", "layer_norm", "attention", "cross_entropy"])
def test_a_board_has_one_wrong_line_and_shows_what_it_does(kind: str) -> None:
    boards = boards_of(kind, count=8, seed=1).data["boards"]
    assert len(boards) == 8
    first = {board["guilty"] for board in boards[:2]}
    assert len(first) == 2  # of different lines, in turn
    for board in boards:
        assert board["code"][0].startswith(f"def {kind}_backward(")
        assert board["code"][board["guilty"]] != board["right"]
        assert board["says"].endswith(".")
        off = [np.abs(np.subtract(a["backward"], a["quotient"])).max() for a in board["arrays"] if not a["agrees"]]
        assert max(off) > 0.02


@pytest.mark.slow(5)
@pytest.mark.parametrize("kind", ["rnn", "gru"])
def test_changes_of_a_loop_are_boards_as_well(kind: str) -> None:
    assert len(boards_of(kind).data["boards"]) == 6
