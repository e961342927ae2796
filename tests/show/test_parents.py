"""The parents of every number, and its slopes, held to brute force: every entry of every input of a line is nudged."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.views import TRACES, share_known
from tests.show import test_trace
from tinyattn.ops import attention, embedding, layer_norm, softmax
from tinyattn.show import Trace, trace
from tinyattn.show import parents as of_parents
from tinyattn.show.parents import Parents
from tinyattn.show.tracked import Sources, Tracked

A, B = (1, 3, 4), (3, 1)


def brute(f: Callable[..., Any], inputs: list[np.ndarray]) -> dict[tuple[int, int], np.ndarray]:
    """(input, its entry) -> the rate of every entry of the result."""
    rates = {}
    for k, x in enumerate(inputs):
        for i in range(x.size if x.dtype.kind == "f" else 0):
            h = np.zeros(x.size)
            h[i] = 1e-6
            high, low = (f(*inputs[:k], x + sign * h.reshape(x.shape), *inputs[k + 1 :]) for sign in (1, -1))
            rates[k, i] = np.ravel((high - low) / 2e-6)
    return rates


def product(a: Any, b: Any) -> Any:
    y = a @ b
    return y


def added(a: Any, b: Any) -> Any:
    y = a + 2 * b
    return y


def scaled(a: Any, b: Any) -> Any:
    y = a * b / (1 + b * b) - np.exp(-a)
    return y


def summed(a: Any) -> Any:
    y = np.sum(a, axis=-2) + a.mean(-1, keepdims=True).max()
    return y


def spread(a: Any) -> Any:
    y = a.var(axis=(0, -1), keepdims=True) + np.abs(a).prod(axis=0) - a.std(-1)[..., None]
    return y


def largest(a: Any) -> Any:
    y = np.max(a, axis=-1, keepdims=True) + np.maximum(a, 0.1) + a.clip(-0.5, 0.5)
    return y


def einsum(a: Any, b: Any) -> Any:
    y = np.einsum("...nd,...md->...nm", a, b)
    return y


def moved(a: Any) -> Any:
    y = np.concatenate([a.T, np.pad(a, 1)[1:-1, 1:-1].T, np.tril(a).T, a[::-1].swapaxes(0, 1)], axis=-1).reshape(-1, 2)
    return y


def gathered(table: Any, ids: Any, rows: Any) -> Any:
    y = table[ids] + table[rows[:, None], 0:1].sum(-1)[:, None] * np.take(table, ids, axis=0)
    return y


def scattered(table: Any, ids: Any, x: Any) -> Any:
    y = np.zeros_like(table)
    np.add.at(y, ids, x)
    np.subtract.at(y, ids[::-1], 3 * x)
    y[1:, 0] *= 3
    half = y[:2]
    half += 1
    y = y * y
    return y


def chosen(a: Any, mask: Any) -> Any:
    y = np.where(mask, a, -np.inf)
    y = np.where(np.isfinite(y), a * y, 0.0)
    return y


def listed(a: Any) -> Any:
    y = np.array([a[0], 2 * a[-1]]) + np.asarray(a[:2])
    return y


IDS = np.array([2, 0, 2])
CASES: dict[str, tuple[Any, list[tuple[int, ...] | np.ndarray]]] = {
    "product": (product, [(3, 4), (4, 2)]), "product, vectors": (product, [(4,), (4,)]),
    "product, batch": (product, [(2, 3, 4), (4, 2)]), "product, row": (product, [(4,), (2, 4, 3)]),
    "sum": (added, [A, B]), "broadcast": (added, [(4,), (3, 4)]), "a number": (added, [(), (2, 2)]),
    "entry by entry": (scaled, [(3, 4), (4,)]), "sums": (summed, [(2, 3, 4)]), "spread": (spread, [(2, 3)]),
    "largest": (largest, [(3, 4)]), "einsum": (einsum, [(2, 3, 4), (5, 4)]), "moves": (moved, [(4, 4)]),
    "gather": (gathered, [(4, 3), IDS, IDS[::-1]]), "scatter": (scattered, [(4, 3), IDS, (3, 3)]),
    "where": (chosen, [(3, 3), np.tri(3, dtype=bool)]), "list": (listed, [(3, 2)]), "one": (product, [(1, 1), (1, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_slopes_are_those_of_brute_force_and_what_moves_a_number_is_a_parent(case: str, dtype: Any) -> None:
    f, shapes = CASES[case]
    rng = np.random.default_rng(len(case))
    wide = [s if isinstance(s, np.ndarray) else rng.standard_normal(s).astype(dtype).astype(float) for s in shapes]
    t = trace(f, *(x.astype(dtype) if x.dtype.kind == "f" else x for x in wide))
    found = Parents(t)
    assert found.reason == ""
    rates = brute(f, wide)
    total = reached(found, t)
    assert len(total) == t.entries[-1].value.size
    for j, sources in enumerate(total):
        for (k, i), rate in rates.items():
            slope = sources.get((k, i))
            assert slope is not None or abs(rate[j]) < 1e-7
            assert slope == pytest.approx(rate[j], rel=1e-4, abs=2e-4 if dtype == np.float32 else 1e-6) or slope is None


def reached(found: Parents, t: Trace) -> list[Sources]:
    """Of each number of the last step, the slopes by the inputs, multiplied along the paths."""
    steps: list[list[Sources]] = []
    for n, of in enumerate(found.of):
        mine = []
        for j, sources in enumerate(np.ravel(of)):
            total = Sources({(n, j): 1.0}) if t.entries[n].how == "input" else Sources()
            for (m, i), slope in sources.items():
                total += steps[m][i] * slope
            mine.append(total)
        steps.append(mine)
    return steps[-1]


def parents_of(t: Trace, name: str, index: tuple[int, ...]) -> dict[str, float]:
    """"x[0, 1]" -> the slope."""
    entry = t.entry(name)
    sources = Parents(t).of[entry.number][index]
    names = {}
    for (n, i), slope in sources.items():
        at = np.unravel_index(i, t.entries[n].value.shape)
        names[f"{t.entries[n].name}{[int(a) for a in at]}"] = slope
    return names


def test_a_score_is_made_of_a_row_of_q_and_a_row_of_k_and_ds_of_its_row() -> None:
    q, k, v = np.random.default_rng(0).standard_normal((3, 3, 2))
    t = trace(attention, q, k, v, backward=True)
    assert list(parents_of(t, "attention.s", (2, 1))) == ["q[2, 0]", "q[2, 1]", "k[1, 0]", "k[1, 1]", "c[]"]
    assert list(parents_of(t, "attention_backward.dv", (1, 0)))[:3] == [f"weights[{i}, 1]" for i in range(3)]
    row = parents_of(t, "softmax_backward.ds", (1, 2))
    p = t["weights"]
    assert {name: row[name] for name in ("ds[1, 0]", "ds[1, 1]")} == pytest.approx(
        {"ds[1, 0]": -p[1, 2], "ds[1, 1]": -p[1, 2]}
    )
    assert set(row) == {"ds[1, 0]", "ds[1, 1]", "ds[1, 2]", "weights[1, 2]"}


def test_of_a_gather_the_row_and_the_id_are_parents() -> None:
    t = trace(embedding, np.array([2, 0]), np.arange(6.0).reshape(3, 2))
    assert parents_of(t, "y", (0, 1)) == {"ids[0]": 0.0, "E[2, 1]": 1.0}


def test_of_a_masked_score_the_mask_is_the_parent_and_all_compared_ones_of_a_maximum() -> None:
    t = trace(softmax, np.array([[3.0, 1, 2]]), np.array([[True, True, False]]))
    masked, row_max = (Parents(t).of[t.all(name)[-1 if name == "s" else 0].number] for name in ("s", "row_max"))
    assert [sorted(sources.items()) for sources in masked.ravel()] == [
        [((0, 0), 1.0), ((1, 0), 0.0)], [((0, 1), 1.0), ((1, 1), 0.0)], [((1, 2), 0.0)],
    ]  # fmt: skip
    assert [sorted(sources.values()) for sources in row_max.ravel()] == [[0.0, 0.0, pytest.approx(1.0)]]


@pytest.mark.parametrize("name", TRACES)
def test_every_number_of_the_four_traces_has_its_parents(name: str) -> None:
    """Attention, softmax, LayerNorm, the block: and none without parents but what came in and what no array made."""
    t = TRACES[name]()
    known, total, bare = share_known(t)
    assert known == total > 50
    assert bare <= {"c", "rate", "returned"}


@pytest.mark.parametrize("name", ["softmax", "attention", "layer_norm"])
def test_slopes_of_the_forward_alone_give_the_gradients_of_the_backward(name: str) -> None:
    t = TRACES[name]()
    found = Parents(t)
    total: dict[Any, float] = dict(found.loss)
    for n in reversed(range(max(e.number for e in t.roots[0].entries()) + 1)):
        for i, sources in enumerate(np.ravel(found.of[n])):
            for place, slope in sources.items():
                total[place] = total.get(place, 0.0) + slope * total.get((n, i), 0.0)
    for argument, gradient in t.gradients.items():
        entry = t.entry(f"{name}.{argument}")
        mine = [total.get((entry.number, i), 0.0) for i in range(entry.value.size)]
        np.testing.assert_allclose(np.reshape(mine, gradient.shape), gradient, rtol=1e-5, atol=1e-7, err_msg=argument)


def inverted(x: Any) -> Any:
    a = 2 * x
    y = np.linalg.pinv(a) + np.interp(a, [0, 1], [0, 1])
    z = 3 * y
    return z


def test_what_is_sorted_has_all_entries_along_the_axis_as_parents_and_what_is_searched_all() -> None:
    sources = [[Sources({(0, 3 * i + j): 1.0}) for j in range(3)] for i in range(2)]
    x = Tracked([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]], sources, SimpleNamespace())
    for made in (np.sort(x), np.argsort(x), np.sort(x, 1), np.partition(x, 1), np.argpartition(x, 1, axis=-1)):
        assert [[{n for _, n in of} for of in row] for row in made.sources] == [[{0, 1, 2}] * 3, [{3, 4, 5}] * 3]
    for made in (np.sort(x, axis=0), np.argsort(x, 0)):
        assert [[{n for _, n in of} for of in row] for row in made.sources] == [[{0, 3}, {1, 4}, {2, 5}]] * 2
    for made in (np.searchsorted(x[0], x[1]), np.argwhere(x > 2), *np.nonzero(x), np.unique(x), np.flatnonzero(x)):
        assert all({n for _, n in of} == set(range(6)) for of in made.sources.ravel())


def known(of) -> list[bool]:
    """For each number of a step, whether its parents are known."""
    return [not sources.unknown for sources in np.ravel(of)]


def test_a_function_without_a_rule_is_named_and_what_follows_is_known_again() -> None:
    t = trace(inverted, np.eye(2))
    found = Parents(t)
    assert [known(of) for of in found.of] == [[True] * 4, [True] * 4, [False] * 4, [True] * 4]
    assert found.of[2][0, 0].unknown == ["interp"]


def numbered(x: Any, factor: Any = 0.5) -> Any:
    scale = 2.0
    largest = float(x.max())
    y = x * scale
    if largest > 0:
        y = y / largest
    y[0] = int(x[1]) + factor
    return y


def test_python_numbers_count_for_the_line_that_reads_or_makes_them() -> None:
    t = trace(numbered, np.array([1.0, 3.0]))
    assert parents_of(t, "largest", ()) == pytest.approx({"x[0]": 0.0, "x[1]": 1.0})
    divided = Parents(t).of[t.all("y")[1].number]
    assert [sorted(n for n, _ in sources) for sources in divided] == [[1, 2], [1, 2]]
    assert (0, 1) in Parents(t).of[t.all("y")[2].number][0]                # int(x[1])


def guarded(x: Any) -> Any:
    if type(x) is not np.ndarray:
        raise TypeError("no array")
    y = 2 * x
    return y


def test_where_the_run_with_sources_fails_the_reason_is_on_the_page(monkeypatch: Any) -> None:
    found = Parents(trace(guarded, np.ones(2)))
    assert len(found.of) == 1                                              # what came in before
    assert "TypeError: no array" in found.reason
    monkeypatch.setattr(of_parents, "MOST", 3)
    long = Parents(trace(product, np.ones((1, 2)), np.ones((2, 1))))
    assert long.of == []
    assert long.reason == "the trace has 5 numbers, and parents are found for up to 3"


def test_the_arguments_and_numpy_stay_as_they_are() -> None:
    x, kept, make = np.ones((2, 2)), [np.ones(2)], np.asarray
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Parents(trace(lambda x, kept: x @ kept[0], x, kept))
    assert type(x) is type(kept[0]) is np.ndarray
    assert np.asarray is make


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_have_parents_as_well(bad: float) -> None:
    x = np.array([[1.0, bad], [2.0, 3.0]])
    with np.errstate(all="ignore"):
        t = trace(layer_norm, x, np.ones(2), np.zeros(2), backward=True)
    found = Parents(t)
    assert len(found.of) == len(t.entries)
    assert all(all(known(of)) for of in found.of)


def test_a_tracked_array_passes_for_an_array_and_refuses_what_has_no_rule() -> None:
    t = Tracked(np.arange(3.0), Sources(), None)
    assert isinstance(t, np.ndarray)
    assert (len(t), bool(t[1]), f"{t[2]:.1f}", repr(t)) == (3, True, "2.0", "array([0., 1., 2.])")
    with pytest.raises(AttributeError, match="setfield has no rule"):
        t.setfield(1, float)


def drawn_inside(x: Any, rng: Any) -> Any:
    """Compiled code allocates the memory of `noise`, and reads `x`; the function allocates that of `y`."""
    y = np.full(x.shape, 3.0)
    noise = rng.standard_normal(x.shape)
    y += noise * x
    return y


def test_compiled_code_that_allocates_gets_memory_that_it_can_write() -> None:
    """NumPy's generators call np.empty as well: a tracked array there would end the process."""
    t = trace(drawn_inside, np.arange(2.0), np.random.default_rng(0))
    (_, noise), sources = t["noise"], np.ravel(Parents(t).of[-1])
    assert sources[1] == {(1, 1): 1.0, (0, 1): noise, (2, 1): 1.0}


EVERY = [name for name in test_trace.CALLS if name != "window_attention"]                # longer than `MOST`
QUICK = ["block_sparse_attention", "dense_weights", "orthogonal_features"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow(1)) for n in EVERY])
def test_every_number_of_every_op_and_layer_has_its_parents(name: str) -> None:
    args, kwargs = test_trace.fresh(name)
    t = trace(test_trace.BY_NAME[name], *args, backward=bool(test_trace.opposite(name)), **kwargs)
    known, total, _ = share_known(t)
    assert known == total > 0
