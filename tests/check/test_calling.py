"""Implementations as people write them: with other names, signatures and return values."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import check_implementation, check_in_process
from tinyattn.check.isolation import load
from tinyattn.check.property import Violation
from tinyattn.check.subject import CannotRunError, called


def check(spec, forward, backward=None, **options):
    names = {"bce": "bce_with_logits"}
    f = names.get(spec, spec)
    found = {f: forward} | ({f"{f}_backward": backward} if backward else {})
    return check_implementation(SimpleNamespace(**found), spec, examples=5, **options)


def test_its_own_names_win_over_the_librarys():
    """TensorFlow's x and z are logits and labels; here z is the logits."""

    def forward(x, z, weights=None):
        return ops.bce_with_logits(x, z, weights)

    def backward(dloss, x, z, weights=None):
        return ops.bce_with_logits_backward(dloss, x, z, weights)

    assert check("bce", forward, backward)


def test_the_kinds_own_name_will_do():
    """The spec is called bce, its function bce_with_logits."""
    found = SimpleNamespace(bce=ops.bce_with_logits, bce_backward=ops.bce_with_logits_backward)
    assert check_implementation(found, "bce", examples=3)


def test_a_causal_model_may_take_tokens_without_saying_so():
    table = np.random.default_rng(0).standard_normal((16, 4))

    def forward(x):
        seen = table[x]
        return np.cumsum(seen, axis=1) / np.arange(1, x.shape[1] + 1)[:, None]

    assert check_implementation(SimpleNamespace(forward=forward), "causal_model", examples=5)
    assert not check_implementation(SimpleNamespace(forward=lambda x: forward(x)[:, ::-1]), "causal_model", examples=5)


def test_a_causal_model_is_tried_with_as_many_positions_as_it_takes():
    def model(leak):
        def forward(x):
            sees = np.tri(x.shape[1], dtype=bool) | (np.arange(x.shape[1]) >= leak)
            return sees @ x / np.sum(sees, axis=1)[:, None]

        return SimpleNamespace(forward=forward, dim=4, maxlen=64)

    report = check_in_process(model(64), "causal_model", examples=3)
    assert report, report
    assert "long_sequences: tried with 64 positions, of its 64" in str(report)
    report = check_in_process(model(48), "causal_model", examples=3)
    assert [f.property for f in report.failures] == ["long_sequences"]


def test_positional_only_and_keyword_only_arguments():
    def forward(s, /, *, mask=None):
        return ops.softmax(s, mask)

    def backward(dp, p, /):
        return ops.softmax_backward(dp, p)

    assert check("softmax", forward, backward)


def test_a_mask_by_its_usual_names_is_passed_and_what_never_is_is_said():
    def attention(query, key, value, attn_mask=None, is_causal=False):
        s = query @ np.swapaxes(key, -1, -2) / query.dtype.type(np.sqrt(query.shape[-1]))
        return ops.softmax(s if attn_mask is None else s * attn_mask) @ value  # wrong: a masked logit is 0

    report = check("attention", attention)
    assert report.verdict == "wrong"
    assert "mask" not in report.lacks
    assert "never passed, and so not looked at: is_causal" in str(report)

    def softmax(s, *, attention_mask=None):
        return ops.softmax(s, attention_mask)

    def backward(dp, s, attention_mask):
        return ops.softmax_backward(dp, ops.softmax(s, attention_mask))

    report = check("softmax", softmax, backward)
    assert report, report
    assert report.lacks == report.unused == ()


def test_behind_a_decorator_that_tells_nothing():
    def hidden(f):
        return lambda *args, **kwargs: f(*args, **kwargs)

    assert check("softmax", hidden(ops.softmax), hidden(ops.softmax_backward))
    assert check("layer_norm", hidden(ops.layer_norm), hidden(ops.layer_norm_backward))


def test_gradients_in_a_named_tuple_and_results_in_a_list():
    class Gradients(NamedTuple):
        dq: np.ndarray
        dk: np.ndarray
        dv: np.ndarray
        dbias: np.ndarray | None

    def backward(dout, q, k, v, weights, bias=None, keep=None, rate=0.0, scale=None):
        return Gradients(*ops.attention_backward(dout, q, k, v, weights, bias, keep, rate, scale))

    assert check("attention", lambda *a, **k: list(ops.attention(*a, **k)), backward)


@pytest.mark.parametrize("named", ["dx", "x"])
def test_gradients_in_a_dict_by_name_in_any_order(named):
    def backward(dy, x, W):
        gradients = dict(zip("xWb", ops.linear_backward(dy, x, W), strict=True))
        return {named.replace("x", n): gradients[n] for n in "bWx"}

    assert check("linear", ops.linear, backward)


def test_a_dict_without_one_of_the_gradients_lacks_it():
    def backward(dy, x, W):
        return {"dx": ops.linear_backward(dy, x, W)[0]}

    report = check("linear", ops.linear, backward)
    assert "linear_backward returned 1 gradient, expected dx, dW, db" in str(report)


def test_a_backward_of_other_names_beside_a_forward_with_a_result_to_spare():
    def forward(q, k, v):
        out, weights = ops.attention(q, k, v)
        return out, weights, weights

    def backward(grad, Q, K, V, A):
        return ops.attention_backward(grad, Q, K, V, A)[:3]

    report = check("attention", forward, backward)
    assert report, report


def test_a_backward_may_ask_for_what_the_forward_returns_beyond_its_answer():
    def forward(s, mask=None):
        p = ops.softmax(s, mask)
        return p, {"p": p}

    def backward(dp, cache):
        return ops.softmax_backward(dp, cache["p"])

    assert check("softmax", forward, backward)


def test_a_function_of_a_file_has_the_backward_that_stands_beside_it(tmp_path):
    path = tmp_path / "mine.py"
    text = """
        import numpy as np
        from tinyattn import ops
        def my_softmax(x):
            return ops.softmax(x)
        def my_softmax_backward(dy, p):
            return p * dy
    """
    path.write_text(textwrap.dedent(text))
    report = check_implementation(f"{path}:my_softmax", "softmax", examples=5)
    assert report.lacks == ("mask",)
    assert report.diagnosis.names == ("backward_no_sum",)


def test_a_second_result_that_is_no_array_is_a_cache():
    """As in cs231n; the library's second output is an array."""

    def layer_norm(x, gamma, beta, eps=1e-5):
        y, *kept = ops.layer_norm(x, gamma, beta, eps)
        return y, (*kept, gamma)

    def backward(dout, cache):
        return ops.layer_norm_backward(dout, *cache)

    report = check("layer_norm", layer_norm, backward)
    assert report, report
    assert report.lacks == ()


def test_optional_arguments_of_a_backward_do_not_count():
    def softmax(x, axis=-1):
        e = np.exp(x - np.max(x, axis=axis, keepdims=True))
        return e / np.sum(e, axis=axis, keepdims=True)

    def backward(dout, y, axis=-1):
        return y * (dout - np.sum(dout * y, axis=axis, keepdims=True))

    report = check("softmax", softmax, backward)
    assert report, report
    assert report.unused == ("axis",)


def test_less_than_the_library_offers_is_enough():
    def layer_norm(x, gamma, beta, eps=1e-5):
        return ops.layer_norm(x, gamma, beta, eps)[0]

    def layer_norm_backward(dy, x, gamma, eps):
        _, x_hat, rstd = ops.layer_norm(x, gamma, gamma, eps)
        return ops.layer_norm_backward(dy, x_hat, rstd, gamma)

    assert check("layer_norm", layer_norm, layer_norm_backward)
    report = check("softmax", lambda s: ops.softmax(s))
    assert report
    assert report.lacks == ("mask", "softmax_backward")


def test_probabilities_by_log_sum_exp_are_right():
    """They round as coarsely as logits of 10,000 do, which is no mistake."""

    def softmax(s, mask=None):
        allowed = np.broadcast_to(True if mask is None else mask, s.shape)
        some = np.any(allowed, axis=-1, keepdims=True)
        s = np.where(allowed, s, -np.inf)
        top = np.where(some, np.max(s, axis=-1, keepdims=True), 0)
        log_sum = top + np.log(np.where(some, np.sum(np.exp(s - top), axis=-1, keepdims=True), 1))
        return np.exp(s - log_sum).astype(top.dtype)

    assert check("softmax", softmax)


class Refusing:
    shape, dtype = (2, 3), np.dtype("f8")

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda s: None, "p is None, expected an array of numbers"),
        (lambda s: Refusing(), "p is a Refusing, which NumPy cannot make an array: no"),
        (lambda s: {"p": s}, "p is a dict, expected an array"),
        (lambda s: "weights", "p is a str, expected an array"),
        (lambda s: s.astype(object), "p is an array of object, expected an array of numbers"),
        (lambda s: s.astype(complex), "p is an array of complex128, expected an array of real numbers"),
        (lambda s: 1j, "p is a complex, expected an array of real numbers"),
        (lambda s: (row for row in s), "p is a generator"),
        (lambda s: (), "softmax returned nothing"),
        (lambda s: s / s.shape[3], "softmax raised IndexError"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_odd_results_are_findings_and_not_our_crash(result, says):
    mine = SimpleNamespace(softmax=lambda s, mask=None: result(s))
    report = check_in_process(mine, "softmax", examples=2, strict=True, stages=("shapes", "oracle"))
    assert not report
    assert not report.problem
    assert says in report.failures[0].message


def test_a_dict_of_results_is_told_to_be_taken_out_by_an_adapter():
    report = check_in_process(lambda s, mask=None: {"weights": s}, "softmax", examples=2)
    assert "hint: Return arrays, the result first: an adapter of a few lines" in str(report)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda s: sys.exit(3), "softmax raised SystemExit: 3"),
        (lambda s: (_ for _ in ()).throw(BaseException("odd")), "softmax raised BaseException: odd"),
        (lambda s: s.nothing, "softmax raised AttributeError"),
    ],
)
def test_what_raises_on_every_call_could_not_be_run_and_the_one_reason_is_said(result, says):
    report = check("softmax", lambda s, mask=None: result(s))
    assert not report
    assert report.problem.startswith(f"nothing could be called: {says}")
    assert not report.findings


OTHERS = ("hypothesis.py", "numbers.py", "types.py")


@pytest.mark.parametrize(
    "name", ["random.py", "numpy.py", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_a_file_may_have_the_name_of_a_module(tmp_path, name):
    """In a new process: in this one the modules are already imported."""
    (tmp_path / name).write_text("def softmax(s):\n    from tinyattn import ops\n    return ops.softmax(s)\n")
    command = [sys.executable, "-m", "tinyattn", "check", str(tmp_path / name), "--as", "softmax", "--examples", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_may_import_what_lies_beside_it(tmp_path):
    (tmp_path / "helper_of_mine.py").write_text("from tinyattn.ops import softmax as right\n")
    (tmp_path / "mine.py").write_text("from helper_of_mine import right as softmax\n")
    assert check_implementation(str(tmp_path / "mine.py"), "softmax", examples=2)


def test_an_object_inside_of_another_is_loaded_and_a_class_is_called(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("class Outer:\n    class Inner:\n        size = 3\n")
    assert load(f"{path}:Outer.Inner").size == load(f"{path}:Outer.Inner.size") == 3
    notebook = tmp_path / "mine.ipynb"
    notebook.write_text("{}")
    for target, says in ((f"{path}:Outer.Other", "has no `Other`; it has: Inner"), (f"{tmp_path}", "is a directory"),
                         (f"{notebook}:softmax", "mine.ipynb is no Python file: put the function into a file NAME.py"),
                         (f"{tmp_path / 'none'}", "ModuleNotFoundError")):  # fmt: skip
        with pytest.raises(CannotRunError, match=says):
            load(target)


@pytest.mark.slow(seconds=2)
def test_our_own_time_limit_accuses_nobody(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(
        textwrap.dedent("""
        import time
        from tinyattn import ops
        def softmax(s, mask=None):
            time.sleep(0.7)
            return ops.softmax(s, mask)
    """)
    )
    report = check_implementation(str(path), "softmax", time_limit=2.0)
    assert not report.failures
    assert "it had not ended after 2 seconds" in report.problem


@pytest.mark.slow(seconds=1)
def test_slow_and_wrong_is_not_called_changeable():
    """Time runs out while the counterexample is shrunk; cases that failed are not tried again."""

    def softmax(s, mask=None):
        time.sleep(0.01)
        return s * 0

    report = check_in_process(softmax, "softmax", time_limit=1.0)  # for each property: three cases
    assert report.failures
    assert "not at every call" not in report.failures[0].message


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc for processes")
def test_a_killed_parent_leaves_no_child_behind(tmp_path):
    path, mark = tmp_path / "loop.py", tmp_path / "pid"
    say = f"import os\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\n"
    path.write_text(say + "def softmax(s, mask=None):\n    while True: pass\n")
    command = [sys.executable, "-m", "tinyattn", "check", str(path), "--as", "softmax"]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    child = _wait_for(lambda: mark.exists() and mark.read_text())
    parent.send_signal(signal.SIGTERM)
    parent.wait(10)
    status = Path(f"/proc/{child}/stat")
    assert _wait_for(lambda: not status.exists() or " Z " in status.read_text())


def _wait_for(what, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    return None


def test_what_raises_without_a_line_of_python_is_reported_without_one():
    with pytest.raises(Violation) as raised:
        called(int, "f", "x")
    assert str(raised.value) == "f raised ValueError: invalid literal for int() with base 10: 'x'"
    assert raised.value.place == ""


def test_a_gradient_that_is_none_at_every_call_is_not_offered():
    """And what needs it is skipped; the others are held to account."""

    def without(name, slip=1.0):
        def backward(dy, x_hat, rstd, gamma):
            named = dict(zip(("x", "gamma", "beta"), ops.layer_norm_backward(dy, x_hat, rstd, gamma), strict=True))
            return tuple(None if n == name else slip * g for n, g in named.items())

        return SimpleNamespace(layer_norm=ops.layer_norm, layer_norm_backward=backward)

    for name in ("x", "gamma"):
        report = check_in_process(without(name), "layer_norm", examples=6)
        assert report, report
        assert report.not_offered == (f"the gradient of {name}",)
        skipped = {f.property: f.message for f in report.findings if f.outcome == "skipped"}
        assert skipped == ({"gradient_directions": "there is no gradient of x"} if name == "x" else {})
    wrong = check_in_process(without("gamma", 1.1), "layer_norm", examples=6)
    assert "exact_gradients" in {f.property for f in wrong.failures}
    strict = check_in_process(without("gamma"), "layer_norm", examples=6, strict=True)
    assert any("layer_norm_backward returned None for dgamma" in f.message for f in strict.failures)
