"""Right code written in other ways is not accused; wrong code is accused of its bug alone."""

import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest

from tinyattn import cli, ops
from tinyattn.check import adapters, causes, check_implementation, check_in_process, runner
from tinyattn.check.forms import BROADCAST, find_backward_forms
from tinyattn.check.property import RoundingViolation, Violation, close, same_bits
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject


def check(implementation, spec, **options):
    return check_in_process(implementation, spec, **{"examples": 8} | options)


class Mine:
    """An implementation with these functions, by name."""

    def __init__(self, **functions):
        self.__dict__ |= functions


# what is not offered


def batched_layer_norm(x, gamma, beta, eps=1e-5):
    _batch, _n, _d = x.shape
    return ops.layer_norm(x, gamma, beta, eps)


def batched_layer_norm_backward(dy, x, gamma, eps=1e-5):
    _, x_hat, rstd = ops.layer_norm(x, gamma, gamma, eps)
    return ops.layer_norm_backward(dy, x_hat, rstd, gamma)


def test_a_form_that_is_not_taken_is_said_once_and_the_rest_is_checked():
    mine = Mine(layer_norm=batched_layer_norm, layer_norm_backward=batched_layer_norm_backward)
    report = check(mine, "layer_norm")
    assert report, report
    assert all(says.startswith("x with ") for says in report.not_offered)
    assert "x with 3 axes" not in report.not_offered
    assert sum(f.outcome == "holds" for f in report.findings) > 15


def test_its_bug_is_found_behind_what_it_does_not_take():
    def backward(dy, x, gamma, eps=1e-5):
        dx, dgamma, dbeta = batched_layer_norm_backward(dy, x, gamma, eps)
        return dx, dgamma / len(x), dbeta

    report = check(Mine(layer_norm=batched_layer_norm, layer_norm_backward=backward), "layer_norm")
    assert report.verdict == "wrong"
    assert "dgamma" in report.failures[0].message
    assert " raised " not in report.failures[0].message


def test_a_required_bias_is_no_fault():
    report = check(lambda x, W, b: x @ W + b, "linear")
    assert report, report
    assert report.not_offered == ("b=None",)


def test_a_crash_that_no_form_explains_is_a_failure():
    def softmax(s):
        assert s.shape[-1] != 3
        return ops.softmax(s)

    report = check(softmax, "softmax")
    assert report.failures[0].cause.startswith("AssertionError")
    assert report.verdict == "wrong"
    assert "of the same cause (AssertionError)" in str(report)


def test_a_crash_of_the_backward_alone_is_a_failure():
    """The forward takes the form, so it is offered."""

    def backward(dp, p):
        assert p.ndim == 2
        return ops.softmax_backward(dp, p)

    assert check(Mine(softmax=ops.softmax, softmax_backward=backward), "softmax").verdict == "wrong"


def test_two_forms_at_once_are_both_found():
    def linear(x, W, b):
        _n, _d = x.shape
        return x @ W + b

    report = check(linear, "linear")
    assert report, report
    assert "b=None" in report.not_offered
    assert "x with two batch axes" in report.not_offered or "x with 4 axes" in report.not_offered


def test_a_mask_may_have_to_have_two_axes_in_every_kind():
    def cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask=None):
        if mask is not None:
            mask.shape[1]
        return adapters.cross_attention(x, memory, W_q, W_k, W_v, W_o, heads, mask)

    report = check(cross_attention, "cross_attention")
    assert report, report
    assert "a mask of one axis" in report.not_offered


def test_a_backward_that_takes_no_evaluation_is_told_from_one_that_takes_nothing():
    def training_alone(dy, keep, rate):
        return dy * keep / dy.dtype.type(1 - rate)

    for backward, says in ((training_alone, ["the gradient for keep=None"]), (lambda dy, keep, rate: dy.nothing, []),
                           (ops.dropout_backward, [])):  # fmt: skip
        op = Subject(Mine(dropout=ops.dropout, dropout_backward=backward), SPECS["dropout"])
        assert [form.says for form in find_backward_forms(op)] == says


def test_a_broadcast_mask_can_be_written_out():
    s, mask = np.ones((2, 3, 4)), np.arange(12).reshape(3, 4) % 3 == 0
    assert [BROADCAST.has({"s": s, "mask": m}) for m in (mask, s > 0, None)] == [True, False, False]
    full = BROADCAST.rewrite({"mask": mask, "s": s})
    np.testing.assert_array_equal(full["mask"], [mask, mask])
    assert full["s"] is s


@pytest.mark.parametrize(("given", "shape"), [
    ({"q": (2, 5, 3), "k": (2, 4, 3)}, (2, 5, 4)),
    ({"x": (2, 5, 6), "W_q": (6, 6)}, (5, 5)),
    ({"x": (2, 5, 6), "memory": (2, 4, 6)}, (5, 4)),
    ({"A": (2, 5, 5)}, (2, 5, 5)),
])  # fmt: skip
def test_the_shape_that_a_mask_is_broadcast_to(given, shape):
    case = {name: np.ones(x) for name, x in given.items()} | {"mask": np.ones(shape[-1:], bool)}
    assert BROADCAST.has(case)
    assert BROADCAST.rewrite(case)["mask"].shape == shape


def test_exchanged_axes_are_said_to_be():
    def attention(q, k, v, mask=None):
        s = np.einsum("bnhd,bmhd->bhnm", q, k) / q.dtype.type(np.sqrt(q.shape[-1]))
        return np.einsum("bhnm,bmhd->bnhd", ops.softmax(s, mask), v)

    report = check(attention, "attention")
    assert report.verdict == "wrong"
    assert "Yours: axes 1 and 2 are exchanged: it is right for (batch, n, heads, d)" in str(report)
    assert "known bug" not in str(report)


def test_exchanged_axes_are_said_to_be_whatever_a_masked_query_gets_and_a_scale_of_zero_does():
    def attention(q, k, v, mask=None, scale=None):
        s = np.einsum("bnhd,bmhd->bhnm", q, k) * (scale or q.shape[-1] ** -0.5)
        s = s if mask is None else np.where(mask, s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("bhnm,bmhd->bnhd", e / e.sum(-1, keepdims=True), v)

    def adapted(q, k, v, mask=None, scale=None):
        return attention(*(np.swapaxes(x, -3, -2) for x in (q, k, v)), mask, scale).swapaxes(-3, -2)

    assert causes.misplaced(Subject(attention, SPECS["attention"])).names == ("heads_first",)
    report = check_in_process(adapted, "attention", examples=10, stages=("oracle",))
    assert "a scale of 0 is taken for no scale" in str(report.diagnosis)


def test_multi_query_attention_is_grouped_query_attention_with_one_head_of_keys():
    def one(x, W_q, W_k, W_v, W_o, heads, kv_heads):
        if kv_heads > 1:
            raise NotImplementedError("one head of keys")
        return adapters.grouped_query_attention(x, W_q, W_k, W_v, W_o, heads, kv_heads)

    report = check(one, "grouped_query_attention")
    assert report, f"\n{report}"
    assert "more than one head of keys" in str(report)


def test_multi_query_attention_with_a_wrong_sign_is_wrong():
    def one(x, W_q, W_k, W_v, W_o, heads, kv_heads):
        if kv_heads > 1:
            raise NotImplementedError("one head of keys")
        return adapters.grouped_query_attention(x, W_q, -W_k, W_v, W_o, heads, kv_heads)

    assert check(one, "grouped_query_attention", stages=("shapes", "oracle")).verdict == "wrong"


def test_the_hint_of_a_wrong_shape_is_not_about_dtypes():
    report = check(lambda s: ops.softmax(s)[..., None], "softmax", stages=("shapes",))
    assert report.failures[0].property == "shape_and_dtype"
    assert "dtype" not in report.failures[0].hint


def test_what_was_never_tried_does_not_hold():
    def softmax(s):
        _n, _m = s.shape
        return ops.softmax(s)

    report = check(softmax, "softmax")
    assert report, report
    assert all(f.tries for f in report.findings if f.outcome == "holds")
    assert [f.outcome for f in report.findings if f.property == "several_axes"] == ["skipped"]


def test_a_name_does_not_depend_on_what_was_checked_before():
    def backward(dy, x, gamma, eps=1e-5):
        dx, dgamma, dbeta = batched_layer_norm_backward(dy, x, gamma, eps)
        return dx, dgamma / max(dy[..., 0].size, 1), dbeta

    mine = Mine(layer_norm=batched_layer_norm, layer_norm_backward=backward)
    first = check(mine, "layer_norm").diagnosis.names
    check(Mine(layer_norm=ops.layer_norm, layer_norm_backward=lambda dy, x_hat, rstd, gamma: 3 * (dy,)), "layer_norm")
    assert check(mine, "layer_norm").diagnosis.names == first != ()


# conventions


def filled(fill):
    def softmax(s, mask=None):
        s = s if mask is None else np.where(mask, s, s.dtype.type(fill))
        e = np.exp(s - np.max(s, axis=-1, keepdims=True, initial=-np.inf))
        return e / np.sum(e, axis=-1, keepdims=True)

    return Mine(softmax=softmax, softmax_backward=ops.softmax_backward)


def test_another_convention_is_said_and_is_a_failure_only_where_it_is_asked_for():
    """test_conventions.py has all of them."""
    mine = Mine(relu=ops.relu, relu_backward=lambda dy, x: dy * (x >= 0))
    report = check(mine, "relu")
    assert report, report
    assert "differs by convention: the gradient of relu at 0 is 1, not 0" in str(report)
    strict = check(mine, "relu", strict=True, stages=("oracle", "properties", "gradients", "extremes"))
    assert not strict
    assert not strict.conventions


@pytest.mark.slow
def test_the_library_differs_by_no_convention_and_offers_every_form():
    for name, spec in SPECS.items():
        if spec.common:
            report = check(spec.ours(), name, examples=2, stages=("shapes",))
            assert report.conventions == report.not_offered == (), report


def test_a_bug_behind_a_convention_is_named():
    def softmax(s, mask=None):
        p = filled(-1e9).softmax(s, mask)
        return p

    mine = Mine(softmax=softmax, softmax_backward=lambda dp, p: p * (1 - p) * dp)
    report = check(mine, "softmax")
    assert report.conventions
    assert report.diagnosis.names == ("backward_diag",)


def test_the_contract_lists_the_conventions(capsys):
    assert cli.main(["check", "--contract", "softmax"]) == 0
    out = capsys.readouterr().out
    assert "conventions: no failure unless --strict is given" in out
    assert "True = may not look" in out


def small_fill(q, k, v, mask=None):
    s = q @ np.swapaxes(k, -1, -2) / q.dtype.type(np.sqrt(q.shape[-1]))
    return ops.softmax(s if mask is None else np.where(mask, s, s.dtype.type(-100))) @ v


def all_after(q, k, v, mask=None):
    out = ops.attention(q, k, v, mask)[0]
    blind = np.zeros(out.shape[:-1], bool) if mask is None else np.broadcast_to(~np.any(mask, -1), out.shape[:-1])
    return np.where(blind[..., None], out.dtype.type(1e6), out)


def leaky(q, k, v, mask=None):
    """It takes only masks of the full shape, and masked entries have a factor exp(-30)."""
    full = (*q.shape[:-1], k.shape[-2])
    if mask is not None and mask.shape != full:
        raise ValueError("write the mask out")
    s = q @ np.swapaxes(k, -1, -2) / q.dtype.type(np.sqrt(q.shape[-1]))
    out = ops.softmax(s if mask is None else np.where(mask, s, s - s.dtype.type(30))) @ v
    return out if mask is None else out * np.any(mask, axis=-1)[..., None]


def wrong_row(ids, E):
    return np.where((ids == 0)[..., None], E.dtype.type(7), E[ids])


def wrong_row_backward(dy, ids, E):
    return ops.embedding_backward(dy * (ids != 0)[..., None].astype(dy.dtype), ids, E)


def five_at_zero(x):
    return np.where(x == 0, x.dtype.type(5), ops.relu(x))


def only_with_a_mask(dout, q, k, v, weights, mask, bias=None, scale=None):
    return ops.attention_backward(dout, q, k, v, weights * mask, bias, scale=scale)


@pytest.mark.parametrize(
    ("kind", "mine"),
    [
        ("attention", small_fill),
        pytest.param("attention", all_after, marks=pytest.mark.slow),
        pytest.param("attention", leaky, marks=pytest.mark.slow),
        ("embedding", Mine(embedding=wrong_row, embedding_backward=wrong_row_backward)),
        ("relu", Mine(relu=five_at_zero, relu_backward=lambda dy, x: dy * (x >= 0))),
        pytest.param("attention", Mine(attention=ops.attention, attention_backward=only_with_a_mask),
                     marks=pytest.mark.slow),
    ],
    ids=["a fill of -100", "a million for the blind", "masks written out", "a wrong row", "relu(0) = 5", "no mask"],
)
def test_no_convention_and_no_form_hides_a_bug(kind, mine):
    report = check(mine, kind, examples=12)
    assert report.verdict == "wrong", report


def test_under_no_grad_there_is_no_backward(torch):
    @torch.no_grad()
    def softmax(s):
        return torch.softmax(s, -1)

    report = check(softmax, "softmax")
    assert report.verdict in ("right", "contract"), report
    assert "softmax_backward" in report.lacks


# gravity


def test_wrong_numbers_are_shown_and_named_beside_a_convention():
    """It widens float32, and its gradient is wrong: the report begins with the gradient, and names the bug."""

    def softmax(s, mask=None):
        return ops.softmax(s.astype(float), mask)

    mine = Mine(softmax=softmax, softmax_backward=lambda dp, p: p * dp)
    report = check(mine, "softmax")
    assert report.verdict == "wrong"
    assert report.failures[0].stage == "gradients"
    assert report.diagnosis.names == ("backward_no_sum",)
    lines = str(report).splitlines()
    assert "  differs by convention: float32 arrays give float64 results" in lines


def test_what_it_writes_into_its_input_does_not_change_what_is_expected():
    def softmax(s):
        s -= np.max(s, axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= np.sum(s, axis=-1, keepdims=True)
        return s

    report = check(softmax, "softmax")
    assert report.verdict == "contract", report
    assert {"inputs_unchanged", "own_memory"} <= {f.property for f in report.failures}
    assert report.failures[0].property == "inputs_unchanged"
    before = report.case["s"].copy()
    assert not np.array_equal(softmax(report.case["s"]), before)


def test_a_buffer_that_is_kept_comes_before_what_fails_because_of_it():
    kept = {}

    def attention(q, k, v, mask=None):
        out = ops.attention(q, k, v, mask)[0]
        buffer = kept.setdefault((out.shape, out.dtype), out)
        buffer[...] = out
        return buffer

    report = check(attention, "attention", examples=20)
    assert report.failures[0].property == "repeatable", report
    assert len(report.failures) > 1
    assert report.verdict == "wrong"
    crash = check(lambda s: s[:, :, :, 0], "softmax", strict=True)
    assert crash.failures[0].gravity == "numbers"


def test_one_nan_is_one_finding(monkeypatch):
    monkeypatch.setattr(runner, "cause_of", lambda *_: None)  # it takes seconds
    def attention(q, k, v, mask=None, scale=None):
        out, weights = ops.attention(q, k, v, mask, scale=scale)
        return np.where(np.arange(out.shape[-1]) == 0, np.nan, out), weights

    report = check(attention, "attention", stages=("oracle", "properties"))
    assert report.failures[0].cause == "NaN"
    said = str(report)
    assert "of the same cause (NaN): " in said
    assert "also fails" not in said.partition("of the same cause")[0]


def test_a_bug_is_named_only_if_it_explains_what_is_shown():
    """Cross-entropy that finds its target by value; on other cases its numbers look like those of another bug."""

    def backward(dloss, logits, targets):
        p = ops.softmax(logits)
        picked = np.take_along_axis(logits, targets[..., None], axis=-1)
        return dloss * (p - np.isin(logits, picked)) / max(targets.size, 1)

    def forward(logits, targets):
        return ops.cross_entropy(logits, targets)

    report = check(Mine(cross_entropy=forward, cross_entropy_backward=backward), "cross_entropy")
    assert report.verdict == "wrong"
    assert set(report.diagnosis.names) <= {"target_by_value"}


def test_chance_is_not_called_a_bug_that_it_looks_like_once():
    """Dropout that draws in evaluation, too; when its mask keeps everything, the result is x / (1 - rate)."""
    rng = np.random.default_rng(0)

    def dropout(x, keep, rate):
        return ops.dropout(x, rng.random(x.shape) < 0.5 if keep is None else keep, rate)

    for _ in range(3):
        report = check(dropout, "dropout", examples=5)
        assert report.verdict == "wrong"
        assert not report.diagnosis


# rounding


def test_rounding_is_a_note_where_the_bit_was_asked_for():
    ones = np.ones(3)
    with pytest.raises(RoundingViolation):
        same_bits(ones * (1 + 2e-16), ones)
    with pytest.raises(RoundingViolation):
        close(ones * (1 + 2e-16), ones, 0)
    with pytest.raises(Violation) as found:
        same_bits(ones * (1 + 1e-13), ones)
    assert not isinstance(found.value, RoundingViolation)
    with pytest.raises(Violation) as found:
        same_bits(np.array([1.0, np.nan]), np.ones(2))
    assert not isinstance(found.value, RoundingViolation)
    same_bits(np.zeros(2), -np.zeros(2))


def test_a_causal_convolution_by_fft_is_no_leak():
    def forward(x):
        n = x.shape[1]
        kernel = np.fft.rfft(0.5 ** np.arange(n), 2 * n)
        return np.fft.irfft(np.fft.rfft(x, 2 * n, axis=1) * kernel[:, None], axis=1)[:, :n]

    model = Mine(forward=forward, dim=4)
    report = check(model, "causal_model")
    assert report, report
    assert any(f.property == "causal" for f in report.notes)
    assert "holds to rounding, not to the bit: causal (" in str(report)
    assert check(model, "causal_model", strict=True, stages=("properties",)).failures[0].gravity == "leak"


def test_all_digits_of_numbers_that_differ_are_shown():
    report = check(lambda z, targets: ops.bce_with_logits(z, targets) + 3e-12, "bce", stages=("oracle",))
    first = report.failures[0]
    assert first.expected != first.got
    assert len(first.expected) > 12


# how it is handed in


WRONG = """
import numpy as np

def softmax(s):
    e = np.exp(s - np.max(s, axis=-2, keepdims=True))
    return e / np.sum(e, axis=-2, keepdims=True)
"""


def test_the_report_as_a_page_and_for_ci(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(WRONG)
    files = ["--html", "out/report.html", "--junit", "junit.xml", "--examples", "8"]
    assert cli.main(["check", "mine.py", "--as", "softmax", *files]) == 1
    out = capsys.readouterr().out
    assert "\nmine.py:4: softmax: " in out
    html = (tmp_path / "out/report.html").read_text()
    assert "it normalises over the second last axis" in html
    assert "s = [[" in html
    assert "http" not in html
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    suite = root.find("testsuite")
    failed = [case for case in suite if case.find("failure") is not None]
    assert int(suite.attrib["failures"]) == len(failed) > 0
    assert int(suite.attrib["tests"]) == len(list(suite))


def test_what_could_not_be_run_is_an_error_for_ci_and_hostile_names_stay_text(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("def softmax(s, mask=None):\n    raise ValueError('<script>\\x00</script>')\n")
    page, junit = tmp_path / "a.html", tmp_path / "a.xml"
    files = ["--html", str(page), "--junit", str(junit)]
    assert cli.main(["check", str(path), "--as", "softmax", *files]) == 2
    assert "<script>" not in page.read_text()
    assert ElementTree.parse(junit).getroot().find("testsuite").attrib["errors"] == "1"


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_checked(tmp_path, capsys):
    assert cli.main(["check", "tinyattn.ops", "--as", "relu", "--html", str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err
    (tmp_path / "own.py").write_text("def relu(x): ...")
    for target in (f"{tmp_path}/own.py", f"{tmp_path}/own.py:relu"):
        assert cli.main(["check", target, "--as", "relu", "--junit", f"{tmp_path}/own.py"]) == 2
        assert "is the checked file: expected another file to write to" in capsys.readouterr().err


def test_links_are_followed_and_what_is_no_file_stays_what_it_is(tmp_path, capsys):
    target, link, pipe = tmp_path / "kept.html", tmp_path / "link.html", tmp_path / "pipe"
    link.symlink_to(target)
    os.mkfifo(pipe)
    command = ["check", "tinyattn.ops", "--as", "relu", "--examples", "2"]
    assert cli.main([*command, "--html", str(link)]) == 0
    assert link.is_symlink()
    assert target.read_text().startswith("<!DOCTYPE html>")
    capsys.readouterr()
    for path in (pipe, target / "below", tmp_path):
        assert cli.main([*command, "--junit", str(path)]) == 2
        assert "cannot be written" in capsys.readouterr().err
    assert pipe.is_fifo()


def test_messages_may_hold_anything(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("def softmax(s, mask=None):\n    assert s.ndim == 9, '\\x1b[31m\\udc80\\ufffe'\n    return s\n")
    assert cli.main(["check", str(path), "--as", "softmax", "--junit", str(tmp_path / "a.xml")]) == 2
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"\x1b[31m\udc80" in out
    ElementTree.parse(tmp_path / "a.xml")


def test_strict_is_a_flag(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("from tinyattn import ops\ndef gelu(x):\n    return ops.gelu(x, True)\n")
    command = ["check", str(path), "--as", "gelu", "--examples", "4", "--json"]
    assert cli.main(command) == 0
    assert json.loads(capsys.readouterr().out)["conventions"] == ["it computes the tanh form"]
    assert cli.main([*command, "--strict"]) == 1


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("import os\ndef softmax(s, mask=None):\n    os._exit(0)", "wrong"),
        ("import os\nfrom tinyattn import ops\ndef softmax(s):\n    os.fork()\n    return ops.softmax(s)", "right"),
        ("print('x')\nfrom tinyattn.ops import softmax", "right"),
        ("class softmax:\n    def __call__(self, s, mask=None):\n        from tinyattn import ops\n"
         "        return ops.softmax(s, mask)", "not run"),
        ("def softmax(s, mask=None):\n    return [[0.0]]", "wrong"),
    ],
    ids=["exits", "forks", "prints", "a class", "a list"],
)  # fmt: skip
def test_what_a_hostile_or_odd_implementation_does_ends_in_a_report(text, outcome, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(text + "\n")
    report = check_implementation(str(path), "softmax", examples=3, patience=2.0, time_limit=60.0)
    assert report.verdict == outcome, report
