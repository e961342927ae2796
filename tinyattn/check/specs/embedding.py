"""The embedding."""

from typing import Any

import numpy as np

from ..families import LARGE
from ..property import close, largest, rounding, same_bits, waves
from ..spec import Form
from .builder import CaseDrawer, SpecBuilder, Subject

states = SpecBuilder("embedding")


def case(draw: CaseDrawer) -> dict[str, Any]:
    rows = draw.choose((1, 2, 3, 5, 7))
    ids = draw.rng.integers(0, rows, (*draw.lead, draw.size()) if draw.flag() else draw.lead)
    dtype = draw.choose((np.int64, np.int32, np.uint8, np.int8))
    return {"ids": np.asarray(ids, dtype), "E": draw.array(rows, draw.size())}


def special_cases() -> list[dict[str, Any]]:
    """Repeated ids, row 0, a table of 300 rows read by uint8 ids."""
    E = np.cos(np.arange(900.0)).reshape(300, 3)
    small = [np.array([0, 2, 2, 1, 2, 0]), np.array([[1, 1], [0, 3]], np.int32), np.array(2)]
    cases = [{"ids": ids, "E": E[:4]} for ids in small]
    return [*cases[:2], {"ids": np.array([200, 255, 200], np.uint8), "E": E}, *cases[2:]]


states.law("picks_rows", "exact", "y[...] is row ids[...] of the table, bit by bit",
        lambda op, c: [(op(**c(E=E)), E[c.ids]) for E in (c.E, LARGE * c.E)], bits=True,
        hint="Is anything scaled, shifted, clipped or zeroed?")
states.law("total_mass", "rounding", "no gradient is lost: the columns of dE and of dy have the same sums",
        lambda op, c: (
            np.sum(op.gradients(c, dy := _dy(c.ids, c.E))["E"], axis=0),
            np.sum(dy.reshape(-1, dy.shape[-1]).astype(float), axis=0),
            rounding(c.E.dtype, c.ids.size, 4.0), "the sum of column ",
        ), "gradients", hint="The same id appears three times: how often does its row receive a gradient?")
states.law("unread_rows", "exact", "rows never read have gradient 0", lambda op, c: (
            np.all(op.gradients(c, _dy(c.ids, c.E))["E"][np.setdiff1d(np.arange(len(c.E)), c.ids)] == 0),
            "a row that was never read has a gradient",
        ), "gradients", hint="Which rows did the forward look at?")
states.law("order", "rounding", "the order of ids does not matter", lambda op, c: (
            op.gradients(c(ids=c.ids[::-1]), (dy := _dy(c.ids, c.E))[::-1])["E"], op.gradients(c, dy)["E"],
            rounding(c.E.dtype, c.ids.size, 4.0), "dE",
        ), "gradients", of=lambda c: c(ids=c.ids.reshape(-1)), hint="a[[2, 2]] += 1 adds once: one write wins.")


@states("rounding", "an id read 300 times receives all 300 gradients, whatever integer type holds it", "extremes",
        hint="A count, or a product id · d, may not fit into the ids' integer type.")
def many_reads(op: Subject, ids: np.ndarray, E: np.ndarray) -> None:
    repeated = np.full(300, ids.reshape(-1)[0] if ids.size else 0, ids.dtype)
    dy = waves(E, 300, E.shape[1])
    dE = op.gradients({"ids": repeated, "E": E}, dy)["E"]
    expected = np.zeros(E.shape)
    expected[int(repeated[0])] = np.sum(dy.astype(float), axis=0)
    close(dE, expected, rounding(E.dtype, 300, 20 * largest(dy)), "dE")


@states("exact", "a table of 250 rows is read through ids of any integer type", "extremes",
        hint="An id of type uint8 times the row length overflows; so does its negation.")
def small_integers(op: Subject, ids: np.ndarray, E: np.ndarray) -> None:
    table = waves(E, 250, 3)
    top = min(249, np.iinfo(ids.dtype).max)
    high = np.array([top, 0, top, 100], ids.dtype)
    same_bits(op(high, table), table[high.astype(int)], "y")
    if op.has_backward:
        dE = op.gradients({"ids": high, "E": table}, np.ones((4, 3), E.dtype))["E"]
        counts = np.bincount(high, minlength=250).astype(float)
        close(dE, np.repeat(counts[:, None], 3, axis=1), 0, "dE")


def _dy(ids: np.ndarray, E: np.ndarray) -> np.ndarray:
    return waves(E, *ids.shape, E.shape[1])


SPEC = states.spec(
    "y = E[ids]",
    "embedding(ids, E): ids (...) of any integer dtype, 0..V-1, with any repetitions; E (V, d) -> (..., d)",
    "no id is special: 0 is a row like any other",
    case=case, wrt=("E",), forms=(Form("a table of one row", lambda case: len(case["E"]) == 1),),
    special_cases=special_cases, choices=("padding",),
)
