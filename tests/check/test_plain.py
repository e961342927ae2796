"""A plain form computes what the oracle of its kind does, and its changes are those that people make in vectors."""

import ast
import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn.check import oracles, plain
from tinyattn.check.common import upstream, widened
from tinyattn.check.comparing import battery
from tinyattn.check.diagnosis import diagnose
from tinyattn.check.formula import Formula
from tinyattn.check.mutants import mutants_of
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject

LOOPS = {(kind, loop.__name__) for kind, spec in SPECS.items() for loop in spec.loops or (spec.oracle,) if loop}
PLAIN = sorted((kind, name) for kind, name in LOOPS if hasattr(plain, name))
OTHERWISE = {"gelu": {"approximate": True}, "alibi": {"heads": 4}}  # a plain form has one convention


@pytest.mark.parametrize(("kind", "name"), PLAIN)
def test_a_plain_form_computes_what_the_oracle_does(kind, name):
    form, oracle = getattr(plain, name), getattr(oracles, name)
    names = list(inspect.signature(oracle).parameters)
    assert list(inspect.signature(form).parameters)[: len(names)] == names
    for case in map(widened, battery(kind)[:10]):
        if "moments" in case:
            case["m"], case["v"] = case.pop("moments")
        if kind.startswith("ranking"):
            case["scores"] = case["scores"] + 0.1 * np.arange(len(case["scores"]))  # ties are a convention
        case = {n: case[n] for n in names if n in case} | OTHERWISE.get(kind, {})
        with np.errstate(all="ignore"):
            results = [y if isinstance(y, tuple) else (y,) for y in (form(**case), oracle(**case))]
        assert all(np.allclose(x, y, rtol=0, atol=1e-8) for x, y in zip(*results, strict=False)), case


@pytest.mark.parametrize("kind", [kind for kind in SPECS if hasattr(plain, f"{kind}_backward")])
def test_a_plain_backward_is_the_librarys(kind):
    spec, ours = SPECS[kind], SPECS[kind].ours()
    both = {kind: getattr(ours, kind), f"{kind}_backward": getattr(plain, f"{kind}_backward")}
    mine = Subject(SimpleNamespace(**both), spec)
    for case in map(widened, battery(kind)[:6]):
        dy = upstream(spec, case)
        gradients = mine.gradients(case, *dy), Subject(ours, spec).gradients(case, *dy)
        for name, g in gradients[0].items():
            assert (g is None and gradients[1][name] is None) or np.allclose(g, gradients[1][name], rtol=0, atol=1e-6)


def test_every_comment_is_what_a_statement_computes():
    comments = [line for line in inspect.getsource(plain).splitlines() if "  # " in line and "fmt" not in line]
    words = []
    for name in {name for _, name in PLAIN} | {"gelu", "bpr_backward", "rnn_backward", "swiglu_backward"}:
        formula = Formula(getattr(plain, name), within=plain.__name__)
        for function, tree in formula.trees.items():
            lines = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)}
            words += [(function, *of) for line, of in formula.words[function].items() if line in lines]
    assert len(set(words)) == len(comments)


def carried(x):
    y = np.zeros(x.shape)
    h, n = np.zeros(len(x.T)), np.zeros(len(x.T))
    for t in range(len(x)):
        n = x[t] + h
        h = np.cos(n) + 2 * h
        y[t] = h
    return y


@pytest.mark.parametrize(
    ("says", "change"),
    [
        ("the next step reads `n` in place of `h`", lambda lines: [*lines, "h = n"]),
        ("`h` is not handed on: every step reads the first one", lambda lines: [*lines, "h = 0 * h"]),
        ("a result is stored before its step: `y[t] = h` comes first", lambda lines: [lines[-1], *lines[:-1]]),
        ("all results are the last one: they share one array", lambda lines: [*lines, "y[:t + 1] = h"]),
        ("the rows of `x` are in reversed order", lambda lines: ["x = x if t else x[::-1]", *lines]),
        (
            "it is added to, not overwritten, as with `h += np.cos(n) + 2 * h`",
            lambda lines: [line.replace("2", "3") for line in lines],
        ),
    ],
)
def test_what_people_do_wrong_in_a_loop(says, change):
    lines = ["n = x[t] + h", "h = np.cos(n) + 2 * h", "y[t] = h"]
    x = np.random.default_rng(0).normal(size=(4, 3))
    y, t, h, n = np.zeros(x.shape), 0, np.zeros(3), np.zeros(3)
    scope = {"x": x, "y": y, "h": h, "n": n, "np": np}
    for t in range(4):
        exec("\n".join(change(lines)), scope | {"t": t}, scope)
    formula = Formula(carried, within=__name__)
    mutants = {mutant.says: mutant for mutant in mutants_of(formula, lambda: formula.function()(x))}
    with formula.mutated([mutants[says]]):
        assert np.allclose(formula.function()(x), scope["y"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda q, k, v: plain.softmax(q @ k.swapaxes(-1, -2), axis=-1) @ v, "the factor `scale` is missing"),
        (lambda q, k, v: plain.attention(q, np.sin(3 * k), v), ""),
        (lambda q, k, v: plain.attention(q, k[..., ::-1, :], v), "the rows of `k` are in reversed order"),
    ],
)
def test_a_change_of_vectors_is_named_where_it_explains_everything(change, says):
    found = diagnose(Subject(lambda q, k, v: change(q, k, v), SPECS["fused_attention"]), SPECS["fused_attention"])
    assert says in str(found)
    assert bool(says) == bool(found)


def test_changes_of_adamw_name_the_line_in_which_the_decay_stands_in_a_wrong_place():
    formula, numbers = Formula(plain.adamw, within=plain.__name__), np.array([0.3, -0.2])
    says = {m.says for m in mutants_of(formula, lambda: formula.function()(numbers, numbers, numbers, numbers**2, 3))}
    wrong = "vector = vector - lr * weight_decay * m_hat / (np.sqrt(v_hat) + eps)"
    right = "vector = vector - lr * m_hat / (np.sqrt(v_hat) + eps)"
    assert f"in the step, `weight_decay` is a factor too much, as with `{wrong}` in place of `{right}`" in says
    assert not any("adam(" in each for each in says)  # a reader's code has no such call
