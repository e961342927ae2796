"""A reader's functions in place of the library's: the ops that are read are the ones that run."""

import sys
from contextlib import ExitStack
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

from tinyattn import layers, ops
from tinyattn.check.substitute import Substitute, SubstituteError, read_substitutes, replaceable, substituted
from tinyattn.forms import readable
from tinyattn.layers.mixers import multi_head
from tinyattn.models import GRU4Rec, SASRec
from tinyattn.training import DivergedError
from tinyattn.tree import leaves

TEXTBOOK = str(Path(__file__).with_name("textbook.py"))
OF_DEFAULT = [  # what SASRec as it is computes with
    "attention", "bce_with_logits", "dropout", "embedding", "layer_norm", "linear", "multi_head_attention", "relu",
    "softmax",
]  # fmt: skip
HEADS = """
import numpy as np
def multi_head_attention(x, W_q, W_k, W_v, W_o, heads, mask=None):
    return run(x, W_q, W_k, W_v, W_o, heads, mask)[0]
def run(x, W_q, W_k, W_v, W_o, heads, mask):
    split = lambda y: y.reshape(*y.shape[:-1], heads, -1).swapaxes(-2, -3)
    q, k, v = split(x @ W_q), split(x @ W_k), split(x @ W_v)
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    s = s if mask is None else np.where(mask, s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    w = e / np.where(total == 0, 1, total)
    out = (w @ v).swapaxes(-2, -3).reshape(x.shape)
    return out @ W_o, q, k, v, w, out
def multi_head_attention_backward(dy, x, W_q, W_k, W_v, W_o, heads, mask=None):
    _, q, k, v, w, out = run(x, W_q, W_k, W_v, W_o, heads, mask)
    split = lambda y: y.reshape(*y.shape[:-1], heads, -1).swapaxes(-2, -3)
    join = lambda y: y.swapaxes(-2, -3).reshape(x.shape)
    rows = lambda y: y.reshape(-1, y.shape[-1])
    dout = split(dy @ W_o.T)
    dw = dout @ v.swapaxes(-1, -2)
    ds = w * (dw - (dw * w).sum(-1, keepdims=True)) / np.sqrt(q.dtype.type(q.shape[-1]))
    dq, dk, dv = join(ds @ k), join(ds.swapaxes(-1, -2) @ q), join(w.swapaxes(-1, -2) @ dout)
    dx = dq @ W_q.T + dk @ W_k.T + dv @ W_v.T
    return dx, *(rows(x).T @ rows(d) for d in (dq, dk, dv)), rows(out).T @ rows(dy)
"""


def sequences():
    rng = np.random.default_rng(0)
    return [rng.integers(1, 30, size=size).tolist() for size in rng.integers(3, 12, size=24)]


def fitted(model=SASRec, inside=(), **options):
    """A model after two steps of training with readable ops, inside these contexts."""
    options = {"epochs": 1, "batch_size": 12, "dim": 8, "maxlen": 10, "workers": 1, "heads": 2} | options
    if model is not SASRec:
        del options["heads"]
    with ExitStack() as stack:
        stack.enter_context(readable())
        for context in inside:
            stack.enter_context(context)
        return model(**options).fit(sequences(), progress=False)


def ours(name):
    return getattr(ops, name, None) or getattr(multi_head, name)


def written(tmp_path, text):
    (tmp_path / "mine.py").write_text("import numpy as np\n" + text)
    return str(tmp_path / "mine.py")


def unchecked(tmp_path, text):
    return substituted(read_substitutes(written(tmp_path, text), checked=False))


@pytest.mark.parametrize("name", [f"{op}{part}" for op in OF_DEFAULT for part in ("", "_backward")])
def test_training_computes_with_every_readable_op(name):
    """If one of them raises, training with readable ops raises."""

    def raises(*_, **__):
        raise ZeroDivisionError(name)

    with pytest.raises(ZeroDivisionError, match=name):
        fitted(inside=[substituted([Substitute(name, "", ours(name), raises)])])
    fitted()                                                 # the library's are back


def test_a_breakpoint_in_softmax_backward_is_in_this_process_and_in_its_file():
    import sys

    seen = set()

    def watch(frame, event, argument):
        seen.add((Path(frame.f_code.co_filename).name, frame.f_code.co_name))

    sys.setprofile(watch)
    try:
        fitted()
    finally:
        sys.setprofile(None)
    assert {("softmax.py", "softmax_backward"), ("attention.py", "attention"), ("layer_norm.py", "layer_norm")} <= seen
    assert not {name for _, name in seen} & {"fused_attention", "norm_linear", "flash_attention", "catch_up"}


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (SASRec, {}),
        (SASRec, {"workers": 2}),
        (SASRec, {"block_form": "sasrec", "dropout": 0.0}),
        (SASRec, {"block_form": "ligr", "feed_forward": "gelu", "user_embedding": True}),
        (SASRec, {"tied": False, "loss": "ce"}),
        (GRU4Rec, {}),
    ],
    ids=lambda x: getattr(x, "__name__", None) or ",".join(x) or "default",
)
def test_the_same_numbers_as_with_the_librarys_ops_to_rounding(model, options):
    theirs = fitted(model, [substituted(read_substitutes(TEXTBOOK, checked=False))], **options)
    library = fitted(model, **options)
    assert theirs.history[0]["loss"] == pytest.approx(library.history[0]["loss"], rel=1e-5)
    for (name, x), (_, y) in zip(leaves(theirs.parameters), leaves(library.parameters), strict=True):
        if not name.endswith("key.b"):                       # whose gradient is 0: Adam makes steps of rounding
            np.testing.assert_allclose(x, y, atol=1e-4, err_msg=name)


def test_readable_and_fast_forms_give_the_same_numbers_to_rounding():
    fast = SASRec(epochs=1, batch_size=12, dim=8, maxlen=10, workers=1, heads=2).fit(sequences(), progress=False)
    slow = fitted()
    for (name, x), (_, y) in zip(leaves(fast.parameters), leaves(slow.parameters), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-4, err_msg=name)


def test_every_function_of_the_textbook_is_used():
    """Their names and places."""
    found = read_substitutes(TEXTBOOK, checked=False)
    expected = [name for name in OF_DEFAULT if name != "multi_head_attention"]
    assert sorted(s.name for s in found) == sorted(f"{n}{part}" for n in expected for part in ("", "_backward"))
    lines = Path(TEXTBOOK).read_text().splitlines()
    for substitute in found:
        file, _, line = substitute.origin.rpartition(":")
        assert file == TEXTBOOK
        assert lines[int(line) - 1].startswith(f"def {substitute.name}(")


@pytest.mark.slow
def test_the_check_finds_the_textbook_right():
    assert read_substitutes(TEXTBOOK)


def test_multi_head_attention_of_four_matrices(tmp_path):
    mine = fitted(inside=[unchecked(tmp_path, HEADS)], output_projection=True)
    library = fitted(output_projection=True)
    for (name, x), (_, y) in zip(leaves(mine.parameters), leaves(library.parameters), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-4, err_msg=name)
    with unchecked(tmp_path, HEADS), readable():
        _, weights = mine.attention([3, 5, 7])
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


TAKES = "multi_head_attention takes x, W_q, W_k, W_v, W_o, heads, mask"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"qkv_bias": True}, "biases"),
        ({"position": "rope"}, "positions at the heads"),
        ({"mechanism": "linear"}, "another mechanism than full attention"),
        ({"kv_heads": 1}, "fewer heads of keys than of queries"),
        ({"block_form": "sasrec", "qkv_bias": False}, "keys and values of other tokens"),
        ({"block_form": "hstu"}, "SiLU of queries, keys and values"),
    ],
)
def test_what_multi_head_attention_of_four_matrices_cannot_do_is_named(options, says, tmp_path):
    with pytest.raises(SubstituteError, match=rf"mine.py:4: {TAKES}, and this model needs {says}"):
        fitted(inside=[unchecked(tmp_path, HEADS)], **options)


def test_dropout_of_the_weights_is_named_where_it_drops(tmp_path):
    p, x = {name: {"W": np.eye(4)} for name in ("query", "key", "value", "output")}, np.ones((2, 3, 4))
    with unchecked(tmp_path, HEADS):
        for rate, rng in ((0.0, np.random.default_rng(0)), (0.5, None)):
            multi_head.multi_head_attention(p, x, x, heads=2, rate=rate, rng=rng)
        with pytest.raises(SubstituteError, match="needs dropout of the weights"):
            multi_head.multi_head_attention(p, x, x, heads=2, rate=0.5, rng=np.random.default_rng(0))


SOFTMAX = """
def softmax(s, mask=None):
    s = s if mask is None else np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""
BACKWARD = """
def softmax_backward(dp, p):
    return p * (dp - (dp * p).sum(-1, keepdims=True))
"""


def test_another_convention_of_masks_is_found_and_followed(tmp_path):
    hidden = SOFTMAX.replace("np.where(mask, s, -np.inf)", "np.where(mask, -np.inf, s)") + BACKWARD
    mine, library = fitted(inside=[unchecked(tmp_path, hidden)]), fitted()
    assert mine.history[0]["loss"] == pytest.approx(library.history[0]["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "defines no function, expected"),
        ("def sofmax(s): return s", "defines sofmax, expected .*softmax"),
        (SOFTMAX, "it has no softmax_backward, and training needs one"),
        ("raise KeyError('oh')", "importing .*mine.py raised KeyError: 'oh'"),
        ("def softmax(: pass", "raised SyntaxError"),
        (SOFTMAX + "def softmax_backward(dp, s, mask): pass", "requires s, mask, but training calls it with dp, p"),
        ("def softmax(): pass" + BACKWARD, "`softmax` takes 0 arguments, expected 1: s"),
        ("class softmax:\n    pass" + BACKWARD, "`softmax` is a class, expected a function"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_before_training(text, says, tmp_path):
    with pytest.raises(SubstituteError, match=says):
        read_substitutes(written(tmp_path, text), checked=False)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SubstituteError, match=r"none.py is no file"):
        read_substitutes(str(tmp_path / "none.py"))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(SOFTMAX + BACKWARD.replace("dp - ", ""), id="backward"),
        pytest.param(SOFTMAX.replace("return e", "s += 1; return e") + BACKWARD, id="mutates", marks=pytest.mark.slow),
        pytest.param(SOFTMAX.replace("return e", "return np.nan * e") + BACKWARD, id="nan", marks=pytest.mark.slow),
    ],
)
def test_what_the_check_finds_wrong_is_refused_with_its_report(wrong, tmp_path):
    with pytest.raises(SubstituteError, match=r"softmax of .*mine.py is not right: --unchecked computes") as refused:
        read_substitutes(written(tmp_path, wrong))
    assert "FAIL" in refused.value.report
    assert "mine.py" in refused.value.report


LINEAR = "def linear(x, W, b=None): return x @ W\ndef linear_backward(dy, x, W): return dy @ W.T, W[:2], dy.sum((0, 1))"
LAYER_NORM = "def layer_norm(x, gamma, beta, eps=1e-5): return x\ndef layer_norm_backward(dy, x_hat, rstd, gamma): pass"
ATTENTION = "def attention(q, k, v): return v, q @ k.mT\ndef attention_backward(dout, q, k, v, w): pass"


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (SOFTMAX + "def softmax_backward(dp, p):\n    return 1 / 0", SubstituteError,
         r"softmax_backward raised ZeroDivisionError: division by zero \(line 8 of .*mine.py\)"),
        (SOFTMAX + "def softmax_backward(dp, p): return dp, p", SubstituteError,
         "mine.py:7: softmax_backward returned 2 gradients, expected ds"),
        (LINEAR, SubstituteError, r"mine.py:3: dW has shape \(2, 8\), expected \(8, 8\), as W"),
        (SOFTMAX + BACKWARD.replace("return p *", "return p.astype(float) *"), SubstituteError,
         "mine.py:8: ds is float64, expected float32, as dp"),
        (SOFTMAX + "def softmax_backward(dp, p): return None", SubstituteError, "returned None"),
        (SOFTMAX + "def softmax_backward(dp, p): return np.nan * dp", DivergedError, "gradient norm nan"),
        (LAYER_NORM, SubstituteError,
         "layer_norm returns no x_hat, rstd, which training saves for the backward"),
        (ATTENTION, SubstituteError, "attention takes no `mask`"),
    ],
    ids=["raises", "tuple", "shape", "gradient", "none", "nan", "saved", "mask"],
)  # fmt: skip
def test_what_breaks_while_training_is_named_with_its_file(text, error, says, tmp_path):
    with pytest.raises(error, match=says):
        fitted(inside=[unchecked(tmp_path, text)])


def test_results_that_are_float64_throughout_are_made_float32(tmp_path):
    wide = SOFTMAX.replace("return e", "return np.float64(1) * e.astype(float)") + BACKWARD
    mine, ours = fitted(inside=[unchecked(tmp_path, wide)]), fitted()
    np.testing.assert_allclose(mine.parameters["items"], ours.parameters["items"], rtol=0, atol=1e-5)


def test_a_substitute_in_a_worker_process_names_its_line_too(tmp_path):
    text = SOFTMAX + "def softmax_backward(dp, p):\n    return 1 / 0"
    with pytest.raises(SubstituteError, match=r"line 8 of"):
        fitted(inside=[unchecked(tmp_path, text)], workers=2)


def test_a_substitute_may_call_the_librarys_function(tmp_path):
    text = "from tinyattn import ops\ndef softmax(s, mask=None): return ops.softmax(s, mask)" + BACKWARD
    fitted(inside=[unchecked(tmp_path, text)])


def inside(value, depth=2):
    """What a container holds, a function's default arguments and closure, a class, or an object of the library."""
    parts = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    elif isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *cells]
    elif isinstance(value, type) or type(value).__module__.startswith("tinyattn."):
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        yield part
        yield from inside(part, depth - 1) if depth else ()


def test_ops_have_one_name_in_the_modules_that_compute():
    """One in a table or a default argument would still be called when a substitute replaces it."""
    functions = {id(ours(name + suffix)): name for name in replaceable() for suffix in ("", "_backward")}
    held = [
        f"{place}.{name}: {functions[id(x)]}"
        for place, module in list(sys.modules.items())
        if place.startswith("tinyattn.") and not place.startswith(("tinyattn.check", "tinyattn.course"))
        for name, value in vars(module).items()
        if not name.startswith("__") and id(value) not in functions
        for x in inside(value)
        if id(x) in functions
    ]
    assert held == []
    assert layers.multi_head_attention is multi_head.multi_head_attention
