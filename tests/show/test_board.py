"""Boards: each has one wrong line, whose gradient is the first that differs from its difference quotients."""

from typing import Any

import numpy as np
import pytest

from tests.show.browser import opened, refuse_complaints, refuse_unreachable
from tinyattn import ops
from tinyattn.show.views import find_the_bug
from tinyattn.show.views.board import CODE, SLIPS

BOARDS = find_the_bug().data["boards"]
COMPUTED = {1: "dv", 2: "dp", 3: "ds", 4: "dq", 5: "dk"}  # by the line of CODE


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["code"][board["guilty"]].split("#")[0].strip())
def test_the_first_array_that_differs_is_the_guilty_lines(board: Any) -> None:
    first = next(array for array in board["arrays"] if not array["agrees"])
    assert first["name"] == COMPUTED[board["guilty"]]
    assert np.abs(np.subtract(first["backward"], first["quotient"])).max() > 0.01  # seen in two decimals
    assert board["code"][board["guilty"]].split("#")[0].rstrip() != board["right"]
    assert board["right"] == CODE[board["guilty"]][0]


def test_the_quotients_are_the_librarys_gradients() -> None:
    rng = np.random.default_rng(0)
    q, k, v, dout = (np.round(rng.standard_normal((3, width)), 1) for width in (2, 2, 3, 3))
    dq, dk, dv, ds = ops.attention_backward(dout, q, k, v, ops.attention(q, k, v)[1], np.zeros((3, 3)))
    right = {"dq": dq, "dk": dk, "dv": dv, "ds": ds, "dp": dout @ v.T}
    for array in BOARDS[0]["arrays"]:
        expected = right[array["name"]]
        assert array["shape"] == list(expected.shape)
        np.testing.assert_allclose(array["quotient"], expected.ravel(), rtol=1e-4, atol=1e-6)


def test_every_line_is_guilty_once_and_other_seeds_have_other_numbers() -> None:
    assert {line for line, *_ in SLIPS} == set(COMPUTED)
    other = find_the_bug(seed=1).data["boards"]
    assert other[0]["arrays"][0]["quotient"] != BOARDS[0]["arrays"][0]["quotient"]
    assert [board["guilty"] for board in other] == [board["guilty"] for board in BOARDS]


def test_a_board_is_solved_by_its_guilty_line(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, find_the_bug(), tmp_path)

    def shown(selector: str) -> Any:
        return chromium.find_element("css selector", selector)

    status, save = shown("[role=status]"), chromium.find_elements("css selector", ".controls button")[2]
    assert (save.text, save.is_enabled()) == ("Save as SVG", False)
    shown("[data-line='1']").click()
    assert status.text == "Not this one: dv = p.T @ dout is right."
    shown("[data-line='5']").send_keys("\ue007")                                            # enter
    assert status.text == BOARDS[0]["says"]
    assert save.is_enabled()
    assert "board 1 of 6, 1 solved" in shown(".controls").text
    assert "tinyattn check my_attention.py --as attention" in shown("svg").text
    shown(".controls button:nth-of-type(2)").click()
    assert (status.text, save.is_enabled()) == ("", False)
    assert "board 2 of 6, 1 solved" in shown(".controls").text
    refuse_complaints(chromium)


def test_all_lines_can_be_reached(chromium: Any, tmp_path: Any) -> None:
    opened(chromium, find_the_bug(), tmp_path)
    refuse_unreachable(chromium, {"BUTTON", "g"})
