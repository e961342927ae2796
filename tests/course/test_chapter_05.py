"""Chapter 05: what a reader may write instead of a split, of multi-head attention and of a merge's gradient."""

import numpy as np
import pytest

from tests.check.variants import multi_head_attention as variants
from tinyattn import ops
from tinyattn.check.adapters import multi_head_attention as ours
from tinyattn.check.zoo import ZOO
from tinyattn.course import check
from tinyattn.course.checking import find
from tinyattn.layers.mixers.multi_head import merge, split

pytestmark = pytest.mark.slow  # every wrong answer is diagnosed; test_chapters.py holds stubs and solutions


def told(name, answer):
    return " ".join(str(check(name, answer)).split())


# --- to_heads -------------------------------------------------------------------------------------------------------


def cut(x, heads):
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], x.shape[-1] // heads)


def uncut(x):
    return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])


def cut_before(x, W, heads):
    """The tokens cut first, and each piece projected by its columns."""
    return cut(x @ W, heads)


def every_hth_column(x, W, heads):
    return np.stack([(x @ W)[..., i::heads] for i in range(heads)], axis=-3)


def slices(x, W, heads):
    d = x.shape[-1] // heads
    return np.stack(
        [x[..., i * d : (i + 1) * d] @ W[i * d : (i + 1) * d, i * d : (i + 1) * d] for i in range(heads)], axis=-3
    )


def head_first(x, W, heads):
    return np.moveaxis((x @ W).reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, 0)


TEMPTING = {
    "a reshape alone": (cut_before, "A reshape alone cuts the tokens, not the columns"),
    "interleaved": (every_hth_column, "Head 0 got columns 0, h, 2h, ..."),
    "slices of x": (slices, "Every head reads the whole of x."),
    "W transposed": (lambda x, W, heads: split(x @ W.T, heads), "a head owns columns of W"),
    "no W": (lambda x, W, heads: np.array(split(x, heads)), "These are slices of x. Where is W?"),
    "W after the split": (
        lambda x, W, heads: np.stack([x @ W[:, : W.shape[1] // heads]] * heads, axis=-3),
        "All heads are the first one.",
    ),
    "last head first": (lambda x, W, heads: np.flip(split(x @ W, heads), -3).copy(), "Head 0 owns the first columns"),
    "no swap": (
        lambda x, W, heads: (x @ W).reshape(*x.shape[:-1], heads, x.shape[-1] // heads),
        "q has the wrong shape",
    ),
    "swapped last axes": (lambda x, W, heads: np.swapaxes(split(x @ W, heads), -1, -2), "q has the wrong shape"),
    "heads before the batch": (head_first, "q has the wrong shape"),
    "heads forgotten": (lambda x, W, heads: (x @ W)[..., None, :, :], "q has the wrong shape"),
    "float64 inside": (lambda x, W, heads: split(x.astype(float) @ W, heads), "wrong dtype."),
    "x scaled": (lambda x, W, heads: split(x @ W, heads) / heads**0.5, "right shape, wrong values."),
}


@pytest.mark.parametrize("what", TEMPTING)
def test_a_split_that_is_none_is_told_why(what):
    answer, says = TEMPTING[what]
    text = told("to_heads", answer)
    assert text.startswith("✗")
    assert says in text


def test_a_loop_over_heads_is_right_too():
    def loop(x, W, heads):
        d = W.shape[1] // heads
        return np.stack([x @ W[:, i * d : (i + 1) * d] for i in range(heads)], axis=-3)

    assert check("to_heads", loop)
    assert "right in ordinary cases, wrong in an extreme one." in told(
        "to_heads", lambda x, W, heads: (x @ W).reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)
    )  # -1 of an empty batch is anything


# --- the whole of it ------------------------------------------------------------------------------------------------


WRITTEN = ["split_no_T", "split_interleaved", "scale_dmodel", "heads_avg", "heads_summed", "heads_reversed",
           "kv_swapped", "same_head", "merge_no_T", "no_Wo", "one_head", "Wo_first", "Wo_transposed", "residual",
           "no_scale"]  # fmt: skip
ELSEWHERE = [("split_no_T", "loops"), ("merge_no_T", "inplace"), ("scale_dmodel", "einsum"), ("kv_swapped", "einsum")]


def without_mask(wrong):
    return lambda x, W_q, W_k, W_v, W_o, heads: wrong(x, W_q, W_k, W_v, W_o, heads)


def gets_the_hint(text, name):
    bug = next(b for b in ZOO["multi_head_attention"].BUGS if b.name == name)
    assert text.startswith("✗")
    assert f"{bug.says} ({name})" in text
    assert f"hint: {bug.hint}" in text


@pytest.mark.parametrize("name", WRITTEN)
def test_multi_head_attention_with_a_known_bug_gets_its_hint(name):
    wrong = ZOO["multi_head_attention"].make(frozenset([name])).multi_head_attention
    gets_the_hint(told("my_multi_head", without_mask(wrong)), name)


@pytest.mark.parametrize(("name", "style"), ELSEWHERE)
def test_so_does_one_that_somebody_else_wrote(name, style):
    gets_the_hint(told("my_multi_head", without_mask(variants.make(style, name).multi_head_attention)), name)


@pytest.mark.parametrize("name", WRITTEN[:5])
def test_where_the_bug_is_the_answer_it_is_shown_and_not_named(name):
    wrong = ZOO["multi_head_attention"].make(frozenset([name])).multi_head_attention
    text = told("repaired_heads", without_mask(wrong))
    assert text.startswith("✗ repaired_heads: right shape, wrong values. ")
    assert "smallest counterexample:" in text
    assert f"({name})" not in text


def test_the_hasty_one_of_the_chapter_is_wrong_in_one_line():
    def hasty(x, W_q, W_k, W_v, W_o, heads):
        q, k, v = (split(x @ W, heads) for W in (W_q, W_k, W_v))
        return uncut(ops.attention(q, k, v)[0]) @ W_o

    assert told("repaired_heads", hasty).startswith("✗ repaired_heads: right shape, wrong values.")
    assert check("repaired_heads", ours)


# --- from_heads_backward --------------------------------------------------------------------------------------------


def outer(left, right):
    return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])


def right(dy, out, W_o):
    return split(dy @ W_o.T, out.shape[-3]), outer(merge(out), dy)


def changed(dout=None, dW_o=None):
    """The right gradients, but for what is given."""

    def wrong(dy, out, W_o):
        found = right(dy, out, W_o)
        return tuple(x if f is None else f(dy, out, W_o) for f, x in zip((dout, dW_o), found, strict=True))

    return wrong


def last_only(dy, out, W_o):
    return outer(merge(out).reshape(-1, *dy.shape[-2:])[-1:], dy.reshape(-1, *dy.shape[-2:])[-1:])


def first_head_only(dy, out, W_o):
    full = outer(merge(out), dy)
    full[out.shape[-1] :] = 0
    return full


def mean(dy, out, W_o):
    count = max(int(np.prod(dy.shape[:-2])), 1)
    return outer(merge(out), dy) / dy.dtype.type(count)


MERGED = {
    "dout by a reshape": (
        changed(lambda dy, out, W_o: cut(dy @ W_o.T, out.shape[-3])),
        "dout must go back the same way",
    ),
    "dW_o by a reshape": (changed(None, lambda dy, out, W_o: outer(uncut(out), dy)), "a token's heads side by side"),
    "both by a reshape": (
        changed(lambda dy, out, W_o: cut(dy @ W_o.T, out.shape[-3]), lambda dy, out, W_o: outer(uncut(out), dy)),
        "where is the swap?",
    ),
    "W_o as it stands": (changed(lambda dy, out, W_o: split(dy @ W_o, out.shape[-3])), "along which axis of W_o"),
    "dW_o transposed": (changed(None, lambda dy, out, W_o: outer(dy, merge(out))), "which index comes first in yours?"),
    "no W_o": (changed(lambda dy, out, W_o: np.array(split(dy, out.shape[-3]))), "Between out and y stands W_o"),
    "dW_o a mean": (changed(None, mean), "gradients add up"),
    "dW_o of the last": (changed(None, last_only), "not only the last"),
    "dW_o of one head": (changed(None, first_head_only), "not only the first"),
    "dout merged": (changed(lambda dy, out, W_o: dy @ W_o.T), "dout has the wrong shape"),
    "dW_o a batch": (
        changed(None, lambda dy, out, W_o: np.swapaxes(merge(out), -1, -2) @ dy),
        "dW_o has the wrong shape",
    ),
    "dout halved": (changed(lambda dy, out, W_o: split(dy @ W_o.T, out.shape[-3]) / 2), "dout is not the derivative"),
    "dW_o negative": (changed(None, lambda dy, out, W_o: -outer(merge(out), dy)), "dW_o is not the derivative"),
}  # fmt: skip


@pytest.mark.parametrize("what", MERGED)
def test_the_gradient_of_a_merge_that_is_none_is_told_why(what):
    answer, says = MERGED[what]
    text = told("from_heads_backward", answer)
    assert text.startswith("✗")
    assert says in text


def test_the_gradient_of_a_merge():
    assert check("from_heads_backward", right)


# --- joins_its_heads ------------------------------------------------------------------------------------------------


def shapes(multi_head_attention):
    x, W = np.ones((5, 6)), np.eye(6)
    return multi_head_attention(x, W, W, W, W, 2).shape == x.shape


def renumbers(multi_head_attention):
    """Heads in another order, with the rows of W_o: true of an average as well."""
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    columns = [3, 4, 5, 0, 1, 2]
    moved = [w[:, columns] for w in W[:3]] + [W[3][columns]]
    return np.allclose(multi_head_attention(x, *moved, 2), multi_head_attention(x, *W, 2))


def slices_differ(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((4, 6, 6))
    y = multi_head_attention(x, *W, np.eye(6), 2)
    return not np.allclose(y[:, :3], y[:, 3:])


def with_one_head(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((4, 6, 6))
    out = ops.attention(x @ W[0], x @ W[1], x @ W[2])[0]
    return np.allclose(multi_head_attention(x, *W, np.eye(6), 1), out)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (shapes, "true of what is right, but true of the bug as well."),
        (renumbers, "Silence one head and watch which slice moves."),
        (with_one_head, "heads are averaged, not joined (heads_avg)"),
        (lambda f: False, "it accuses multi_head_attention where nothing is wrong"),
        (lambda f: f, "expected True or False"),
        (lambda f: f(1), "it raises"),
    ],
)
def test_a_property_that_proves_nothing(answer, says):
    text = told("joins_its_heads", answer)
    assert text.startswith("✗")
    assert says in text


def test_other_properties_kill_the_bug_too():
    assert told("joins_its_heads", slices_differ).startswith("✓")
    assert told("joins_its_heads", lambda f: _loop_agrees(f)).startswith("✓")


def _loop_agrees(multi_head_attention):
    x, *W = np.random.default_rng(0).standard_normal((5, 6, 6))
    q, k, v = (x @ w for w in W[:3])
    apart = [ops.attention(q[:, c], k[:, c], v[:, c])[0] for c in (slice(0, 3), slice(3, 6))]
    return np.allclose(np.hstack(apart) @ W[3], multi_head_attention(x, *W, 2))


# --- numbers --------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_paper():
    """The bound of one head is exactly 1/2; the rank is the width of one head."""
    assert find("one_head_share").grader.compute() == pytest.approx(0.5, abs=0.01)
    assert find("score_rank").grader.compute() == 16
