"""The page SASRec beside the library's: loss, gradients, batches, ranking; what it prints, and its length."""

import numpy as np
import pytest

from tests.pages.programs import is_a_page, main_of, refuses, run
from tinyattn.data import Batch, Interactions, SeriesWorld, leave_one_out, pad
from tinyattn.evaluation import full_ranking
from tinyattn.models import SASRecNetwork
from tinyattn.pages import sasrec as page
from tinyattn.training import Moments, adam
from tinyattn.tree import add_to, leaves, tree_map

N = 30
NETWORK = SASRecNetwork(n_items=N, maxlen=page.MAXLEN, dim=page.D, blocks=page.BLOCKS, dropout=0.0)


def as_library(p):
    """The page's parameters, or gradients, as the library's tree."""
    def norm(i):
        return {"gamma": p[f"gain{i}"], "beta": p[f"bias{i}"]}

    def block(i):
        def of(name):
            return p[name][i]

        return {
            "norm_1": {"gamma": of("gain1"), "beta": of("bias1")},
            "attention": {"query": {"W": of("Wq")}, "key": {"W": of("Wk")}, "value": {"W": of("Wv")}},
            "norm_2": {"gamma": of("gain2"), "beta": of("bias2")},
            "feed_forward": {"inner": {"W": of("W1"), "b": of("b1")}, "outer": {"W": of("W2"), "b": of("b2")}},
        }

    tables = {"items": p["items"], "positions": p["positions"]}
    return tables | {"blocks": [block(i) for i in range(page.BLOCKS)], "norm": norm("")}


@pytest.fixture
def histories(rng):
    """Some shorter than MAXLEN, some longer."""
    return [rng.integers(1, N + 1, length).tolist() for length in (4, 5, 17, 50, 51, 52, 60)]


@pytest.fixture
def p(rng):
    p = {name: x + 0.1 * rng.standard_normal(x.shape) for name, x in page.init(rng, N).items()}
    p["items"][0] = 0
    return p


def test_loss_and_gradients_are_the_librarys(p, histories, rng):
    ids, slots, targets, negatives = page.batch(histories, N, rng)
    weight = (targets > 0).astype(float)
    batch = Batch(ids, slots, np.arange(len(ids)), targets, negatives, None, weight)
    tree = as_library(p)
    expected, cache = NETWORK.loss(tree, batch)
    grads = tree_map(np.zeros_like, tree)
    add_to(grads, NETWORK.loss_backward(tree, 1.0, cache))
    grads["items"][0] = 0                                   # the library lets padding's row learn, and never reads it
    loss, mine = page.loss_and_gradient(p, ids, slots, targets, negatives)
    assert loss == pytest.approx(expected, abs=1e-12)
    theirs = dict(leaves(grads))
    for name, gradient in leaves(as_library(mine)):
        np.testing.assert_allclose(gradient, theirs[name], rtol=0, atol=1e-12, err_msg=name)


def test_fresh_parameters_have_the_librarys_shapes_and_sizes(rng):
    mine, theirs = (dict(leaves(tree)) for tree in (as_library(page.init(rng, N)), NETWORK.init(rng)))
    assert mine.keys() == theirs.keys()
    for name, x in mine.items():
        assert x.shape == theirs[name].shape
        assert np.std(x) == pytest.approx(np.std(theirs[name]), rel=0.1)


def test_batches_are_histories_as_the_library_pads_them(histories, rng):
    ids, slots, targets, negatives = page.batch(histories, N, rng)
    theirs = pad([np.array(h[:-1]) for h in histories], page.MAXLEN)
    np.testing.assert_array_equal(ids, theirs.ids)
    np.testing.assert_array_equal(slots, theirs.slots)
    for row, history in enumerate(histories):
        real = targets[row] > 0
        assert targets[row][real].tolist() == history[1:][-page.MAXLEN :]
        assert not set(negatives[row][real].tolist()) & set(history[-page.MAXLEN - 1 :])
    assert set(np.unique(negatives).tolist()) == set(range(1, N + 1))


def test_scores_are_the_librarys_but_for_items_of_the_history(p, histories):
    found = page.score(p, histories)
    for row, history in zip(found, histories, strict=True):
        expected = NETWORK.score(as_library(p), pad([np.array(history)], page.MAXLEN))[0]
        expected[history] = -np.inf
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)


def test_adam_is_the_librarys(p, rng):
    mine = {name: x.copy() for name, x in p.items()}
    moments = {name: (np.zeros_like(x), np.zeros_like(x)) for name, x in p.items()}
    theirs, others = p["W1"].copy(), Moments(np.zeros_like(p["W1"]), np.zeros_like(p["W1"]))
    for step in (1, 2, 3):
        grads = {name: rng.standard_normal(x.shape) for name, x in p.items()}
        page.adam(mine, grads, moments, step)
        adam(theirs, grads["W1"], others, step, lr=page.LR, beta1=page.BETA1, beta2=page.BETA2)
    np.testing.assert_allclose(mine["W1"], theirs, rtol=0, atol=1e-12)


def test_dropout_keeps_the_mean_and_its_backward_has_the_same_factors(rng):
    x = np.ones((200, 200), np.float32)
    y, keep = page.dropout(x, rng)
    assert y.dtype == np.float32
    assert set(np.unique(y).tolist()) == {0.0, np.float32(1 / (1 - page.DROPOUT))}
    assert np.mean(y) == pytest.approx(1, abs=0.02)
    np.testing.assert_array_equal(y, x * keep)


def test_it_ranks_as_the_library_does(p, rng):
    sequences = [rng.permutation(N)[: rng.integers(4, 9)] + 1 for _ in range(40)]
    split = leave_one_out(Interactions.from_sequences(sequences))
    assert len(split.data.items) == N

    def score(histories, users):
        return page.score(p, [h.tolist() for h in histories])

    expected = full_ranking(score, split)
    given = [h.tolist() for h in split.histories(split.evaluated, "test")]
    printed = page.measure(p, given, split.test[split.evaluated])
    assert printed == f"HR@10 {expected['hr@10']:.4f}   NDCG@10 {expected['ndcg@10']:.4f}"


def test_its_world_is_the_librarys(rng):
    """The same people in distribution: how long histories are, how often each item is had, what follows what."""
    mine, names = page.world(rng, users=1500)
    theirs = SeriesWorld(users=1500, seed=3).generate()
    assert (len(names), names[:3], names[9], names[-1]) == (97, ["", "s1e1", "s1e2"], "s2e1", "s12e8")
    watched = np.zeros((1500, 12, 31), int)
    for user, history in enumerate(mine):
        for n, item in enumerate(history):
            assert watched[user, (item - 1) // 8, n] == (item - 1) % 8        # each series in its order
            watched[user, (item - 1) // 8, n + 1 :] += 1
    assert np.max(np.sum((watched > 0) & (watched < 8), axis=1)) == 4         # at once
    assert abs(np.mean([len(h) for h in mine]) - np.mean(theirs.lengths)) < 0.5
    assert {min(map(len, mine)), max(map(len, mine))} == {10, 30}
    share, other = (np.bincount(np.concatenate(x), minlength=97) / 1500 for x in (mine, [theirs.flat]))
    assert np.abs(share - other).max() < 0.08
    went_on = [np.mean(np.concatenate([np.diff(h) == 1 for h in x])) for x in
               (mine, [theirs.sequence(u) for u in range(1500)])]  # fmt: skip
    assert went_on[0] == pytest.approx(went_on[1], abs=0.02)


def test_it_learns_from_all_but_two_items_validates_on_one_and_tests_on_the_other(capsys):
    histories = [[1, 2, 3, 4, 5], [2, 4, 1, 3], [5, 4, 3, 2, 1, 2]]
    read, steps, measured = [], [], []
    main_of(
        page, EPOCHS=5, BATCH=1, world=lambda rng: (histories, ["", *"abcde"]),
        batch=lambda some, n_items, rng: read.extend(some) or (n_items,),
        loss_and_gradient=lambda p, n, rng: (n / 8, None),
        adam=lambda p, grads, moments, step: steps.append(step),
        measure=lambda p, *asked: measured.append(asked) or f"of {len(measured)}",
        score=lambda p, some: np.array([[-np.inf, 3, 5, 4, 2, 1]] * len(some)),
    )  # fmt: skip
    train = [[1, 2, 3], [2, 4], [5, 4, 3, 2]]
    assert sorted(read[:3]) == train
    assert read[:3] != read[3:6] or read[:3] != read[6:9]       # in another order
    assert steps == list(range(1, 16))
    assert measured == [(train, [4, 1, 1]), ([h[:-1] for h in histories], [5, 3, 2])]
    *table, after = capsys.readouterr().out.splitlines()
    assert table == ["epoch   5   loss 0.6250   valid of 1", "test of 2"]
    assert after.strip() == "after a b c d e comes b c a d e"


def test_it_trains_on_a_file_and_prints_its_table(tmp_path):
    path = tmp_path / "small.txt"
    rows = [(user, (user + step) % 20) for user in range(60) for step in range(8)]
    path.write_text("".join(f"u{user} i{item}\n" for user, item in rows))
    done = run(page, str(path), EPOCHS=5)
    assert (done.returncode, done.stderr) == (0, "")
    epoch, test, after = done.stdout.splitlines()
    assert epoch.startswith("epoch   5   loss ")
    assert test.startswith("test HR@10 ")
    assert len(after.split(" comes ")[1].split()) == 10


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "nobody has four items"),
        (b"u1\n", "expected a line `user item`"),
        (b"u1 a\nu1 b\nu1 c\n", "nobody has four items"),
        (b"\xff\xfe", "can't decode"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line_and_exit_code_2(tmp_path, content, message):
    refuses(page, "EPOCHS", tmp_path / "small.txt", content, message)


def test_ids_are_whatever_has_no_blanks_and_blank_lines_are_none(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text("#1 a#b 5\n\n#1 c\n  #1\ta#b\n#1 é\nu2 c\n")
    assert page.read(path) == ([[1, 2, 1, 3]], ["", "a#b", "c", "é"])


def test_it_imports_numpy_alone_and_is_short():
    is_a_page(page, ["import sys", "import numpy as np"], 220)
