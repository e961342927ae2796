"""The page GPT beside the library's decoder: the same loss, gradients and grammar; what it prints, and its length."""

import numpy as np
import pytest

from tests.pages.programs import is_a_page, main_of, refuses, run
from tinyattn import pages
from tinyattn.data import Grammar, TextBatch
from tinyattn.data.grammar import RULES
from tinyattn.models import DecoderNetwork
from tinyattn.pages import gpt as page
from tinyattn.training import Moments, adam
from tinyattn.tree import add_to, leaves, tree_map

N = 11
NETWORK = DecoderNetwork(n_tokens=N, context=page.CONTEXT, dim=page.D, layers=page.BLOCKS, heads=page.H, eps=page.EPS)


def as_library(p):
    """The page's parameters, or gradients, as the library's tree."""
    def block(i):
        def dense(name):
            return {"W": p["W" + name][i], "b": p["b" + name][i]}

        return {
            "norm_1": {"gamma": p["gain1"][i], "beta": p["bias1"][i]},
            "attention": {"query": dense("q"), "key": dense("k"), "value": dense("v"), "output": dense("o")},
            "norm_2": {"gamma": p["gain2"][i], "beta": p["bias2"][i]},
            "feed_forward": {"inner": dense("1"), "outer": dense("2")},
        }

    tables = {"tokens": p["tokens"], "positions": p["positions"]}
    return tables | {"blocks": [block(i) for i in range(page.BLOCKS)], "norm": {"gamma": p["gain"], "beta": p["bias"]}}


@pytest.fixture
def p(rng):
    return {name: x + 0.1 * rng.standard_normal(x.shape) for name, x in page.init(rng, N).items()}


@pytest.mark.parametrize("length", [1, 5, page.CONTEXT])
def test_loss_and_gradients_are_the_librarys(p, rng, length):
    ids, targets = rng.integers(0, N, (2, 3, length))
    tree = as_library(p)
    expected, cache = NETWORK.loss(tree, TextBatch(ids, targets, np.ones((3, length)), np.arange(3)))
    grads = tree_map(np.zeros_like, tree)
    add_to(grads, NETWORK.loss_backward(tree, 1.0, cache))
    loss, mine = page.loss_and_gradient(p, ids, targets)
    assert loss == pytest.approx(expected, abs=1e-12)
    theirs = dict(leaves(grads))
    for name, gradient in leaves(as_library(mine)):
        np.testing.assert_allclose(gradient, theirs[name], rtol=0, atol=1e-12, err_msg=name)


def test_fresh_parameters_have_the_librarys_shapes_and_sizes(rng):
    mine, theirs = (dict(leaves(tree)) for tree in (as_library(page.init(rng, N)), NETWORK.init(rng)))
    assert mine.keys() == theirs.keys()
    for name, x in mine.items():
        assert x.shape == theirs[name].shape
        assert np.std(x) == pytest.approx(np.std(theirs[name]), rel=0.15)


def test_its_grammar_is_the_librarys(rng):
    """The same rules and weights; and the choices of many sentences have the grammar's entropy."""
    for name, forms in RULES.items():
        if name not in ("sees", "see", "does", "do", "noun"):
            mine = page.RULES[name.upper()]
            assert sorted(mine.values()) == sorted(forms.values())
    assert page.RULES["NOUN"] == RULES["noun"]
    sentences = [page.write(rng) for _ in range(3000)]
    nats, characters = sum(nats for _, nats in sentences), sum(len(text) for text, _ in sentences)
    assert nats / characters == pytest.approx(Grammar().entropy, abs=0.004)
    assert all(text.endswith(". ") and text.islower() for text, _ in sentences)


def test_what_it_writes_is_drawn_from_the_newest_characters(p, rng):
    start = rng.integers(0, N, page.CONTEXT + 3).tolist()
    written = page.generate(p, start, 4, np.random.default_rng(5))
    assert written[: len(start)] == start
    again, draws = list(start), np.random.default_rng(5)
    for _ in range(4):
        z = NETWORK.forward(as_library(p), np.array([again[-page.CONTEXT :]]))[0][0, -1]
        again.append(draws.choice(N, p=np.exp(z) / np.exp(z).sum()))
    assert written == again


def test_adam_is_the_librarys_with_a_rate_that_falls_to_0(p, rng):
    mine, moments = p["W1"].copy(), {"W1": (np.zeros_like(p["W1"]), np.zeros_like(p["W1"]))}
    theirs, others = mine.copy(), Moments(np.zeros_like(mine), np.zeros_like(mine))
    for step in (1, 2, page.STEPS // 2, page.STEPS):
        gradient, before = rng.standard_normal(mine.shape), mine.copy()
        page.adam({"W1": mine}, {"W1": gradient}, moments, step)
        adam(theirs, gradient, others, step, lr=page.LR * (1 - step / page.STEPS), beta1=page.BETA1, beta2=page.BETA2)
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(mine, before)


def test_it_learns_from_nine_tenths_and_tests_on_all_windows_of_the_last(capsys):
    """Characters that each come once say which are read: 24,000 of them, in sentences of two."""
    text, asked, steps, begun = iter(map(chr, range(256, 24_256))), [], [], []

    def loss_and_gradient(p, ids, targets):
        asked.append(ids)
        np.testing.assert_array_equal(targets, ids + 1)
        return (1.5 if len(ids) == page.BATCH else len(asked) - 200), None

    main_of(page, STEPS=200, write=lambda rng: (next(text) + next(text), 0.5), init=lambda rng, n: {"n": np.array(n)},
            loss_and_gradient=loss_and_gradient, adam=lambda p, grads, moments, step: steps.append(step),
            generate=lambda p, *how: begun.append(how[:2]) or [1, 0])  # fmt: skip
    assert {ids.shape for ids in asked[:200]} == {(page.BATCH, page.CONTEXT)}
    first = np.concatenate(asked[:200])[:, 0]
    assert 0 <= first.min() < 100
    assert 21_300 < first.max() <= 21_599 - page.CONTEXT
    np.testing.assert_array_equal(np.concatenate(asked[200:]), 21_600 + np.arange(18 * page.CONTEXT).reshape(18, -1))
    assert (steps, begun) == (list(range(1, 201)), [([0], 300)])
    assert capsys.readouterr().out.splitlines() == [
        "step   100   loss 1.5000 nats a character", "step   200   loss 1.5000 nats a character",
        "test loss 9.5000 entropy 0.2500", chr(257) + chr(256),
    ]  # fmt: skip


def test_it_trains_on_a_file_and_writes_on(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text("abcd " * 300)
    done = run(page, str(path), BATCH=2, STEPS=100, CONTEXT=32)
    assert (done.returncode, done.stderr) == (0, "")
    step, test, text = done.stdout.splitlines()
    assert step.startswith("step   100   loss ")
    assert float(test.split()[2]) < 0.3
    assert text.count("abcd ") > 40


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file"), (b"ab", "a text of 2 characters, expected 1408"), (b"\xff" * 1999, "can't decode")],
)
def test_a_file_that_cannot_be_read_is_one_line_and_exit_code_2(tmp_path, content, message):
    refuses(page, "STEPS", tmp_path / "small.txt", content, message)


def test_it_imports_numpy_alone_and_is_short():
    is_a_page(page, ["import re", "import sys", "from pathlib import Path", "import numpy as np"], 200)


def test_functions_of_a_page_are_shown_in_the_order_asked():
    shown = pages.part("gpt", "merge", "split").split("\n\n\n")
    assert [text.splitlines()[0] for text in shown] == ["def merge(x):", "def split(x):"]
    assert shown[1].endswith("    return x.reshape(*x.shape[:2], H, -1).swapaxes(1, 2)")
    with pytest.raises(ValueError, match="page gpt has no function 'spilt', expected some of write, init, linear_back"):
        pages.part("gpt", "merge", "spilt")
    with pytest.raises(ValueError, match=r"there is no page 'bert', expected one of gpt, sasrec$"):
        pages.source("bert")
