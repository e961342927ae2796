"""The page GPT beside the library's decoder: the same loss, gradients and grammar; what it prints, and its length."""

import numpy as np
import pytest

from tests.pages.programs import is_a_page, refuses, run
from tinyattn.data import Grammar, TextBatch
from tinyattn.data.grammar import RULES
from tinyattn.models import DecoderNetwork
from tinyattn.pages import gpt as page
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
def rng():
    return np.random.default_rng(0)


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


def test_it_trains_on_a_file_and_writes_on(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text("abcd " * 300)
    done = run(page, "STEPS", 100, str(path))
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
