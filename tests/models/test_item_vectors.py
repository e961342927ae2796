"""Items by vectors: the adapter's gradient, what the finished model is, and new items that are recommended."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import cold_items
from tests.helpers import refuses
from tests.models.worlds import TINY
from tinyattn.check import gradcheck_model
from tinyattn.cli import main
from tinyattn.data import Interactions, ItemVectors, leave_one_out
from tinyattn.export import onnx_graph
from tinyattn.files import FileError
from tinyattn.forms import readable
from tinyattn.models import GRU4Rec, SASRec
from tinyattn.models.item_vectors import with_vectors
from tinyattn.tree import add_to

DATA = TINY.generate()
RNG = np.random.default_rng(0)
ALL = ItemVectors(DATA.items.ids, RNG.standard_normal((DATA.n_items, 5)))
MORE = ItemVectors(np.append(DATA.items.ids[:12], ["new 1", "new 2"]), RNG.standard_normal((14, 5)))
SMALL = {"maxlen": 6, "dim": 8, "epochs": 2, "workers": 1}


@pytest.mark.parametrize("loss", ["bce", "ce"])
@pytest.mark.parametrize("beside", [True, False])
def test_gradients_through_the_adapter(loss, beside):
    model = SASRec(maxlen=6, dim=8, blocks=1, dropout=0.0, loss=loss)
    known, network = with_vectors(model, DATA, ALL, beside, None)
    p = network.init(np.random.default_rng(1))
    assert ("items" in p) == beside
    assert gradcheck_model(network, p, model.sampler(known).batch(0), entries=2)


def test_the_loss_is_that_of_the_plain_network_with_the_whole_table():
    model = SASRec(maxlen=6, dim=8, dropout=0.0)
    known, network = with_vectors(model, DATA, ALL, True, None)
    p = network.init(np.random.default_rng(1))
    p["items"][1:] = RNG.standard_normal(p["items"][1:].shape)
    batch = model.sampler(known).batch(0)
    assert network.loss(p, batch)[0] == pytest.approx(network.network.loss(network.whole(p), batch)[0], rel=1e-12)


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("loss", ["bce", "gbce"])
def test_only_the_rows_that_a_sampled_loss_reads_are_made(loss, beside):
    """Of many items; the numbers are those of the whole table, and so is a training, whose table is updated lazily."""
    data = Interactions.of(RNG.integers(1, 1201, (300, 5)).tolist())
    vectors = ItemVectors(data.items.ids, RNG.standard_normal((data.n_items, 7)))
    options = {"loss": loss} | ({"n_negatives": 5} if loss == "gbce" else {})
    model = SASRec(dropout=0.0, batch_size=8, **SMALL, **options)
    known, network = with_vectors(model, data, vectors, beside, None)
    p = network.init(np.random.default_rng(1))
    batch = model.sampler(known).batch(0)
    value, cache = network.loss(p, batch)
    read = network.network.rows_read(batch)["items"]
    assert np.flatnonzero(cache[0]["items"].any(axis=1)).tolist() == sorted({*read.tolist()} - {0})
    assert ("items" in network.rows_read(batch)) == beside
    plain, whole = network.network, network.whole(p)
    expected, remembered = plain.loss(whole, batch)
    assert value == pytest.approx(expected, rel=1e-12)
    dE = np.zeros_like(whole["items"])
    add_to(dE, plain.loss_backward(whole, 1.0, remembered)["items"])
    np.testing.assert_allclose(network.loss_backward(p, 1.0, cache)["adapter"], network.F.T @ dE, atol=1e-12)
    how = {"progress": False, "item_vectors": vectors, "id_embeddings": beside}
    trained = [SASRec(batch_size=8, **SMALL, **options).fit(data, **how).parameters["items"]]
    with readable():
        trained.append(SASRec(batch_size=8, **SMALL, **options).fit(data, **how).parameters["items"])
    np.testing.assert_allclose(*trained, atol=1e-4)


@pytest.mark.parametrize("beside", [True, False])
def test_the_finished_model_is_a_plain_one_that_also_knows_new_items(beside, tmp_path):
    vectors = MORE if beside else ItemVectors(np.append(DATA.items.ids, "new 1"), RNG.standard_normal((17, 5)))
    split = leave_one_out(vectors.joined(DATA))
    model = SASRec(**SMALL).fit(split, progress=False, item_vectors=vectors, id_embeddings=beside)
    assert "adapter" not in model.parameters
    assert model.moments is None
    ids, scores = model.recommend(["new 1", DATA.items.ids[0]], k=len(model.items) - 2)
    assert np.all(np.isfinite(scores))
    assert ("new 2" in ids) == beside
    model.evaluate(split)
    model.save(tmp_path / "model.npz")
    again = SASRec.load(tmp_path / "model.npz")
    best = [m.recommend([DATA.items.ids[0]], k=5)[1] for m in (again, model)]
    np.testing.assert_array_equal(*best)
    pytest.importorskip("onnx")
    assert onnx_graph(model)


def test_an_item_that_training_lacks_is_no_negative_and_has_its_vector_alone():
    model = SASRec(**SMALL)
    known, network = with_vectors(model, MORE.joined(DATA), MORE, True, None)
    assert known.items.ids.tolist() == DATA.items.ids.tolist()
    p = network.init(np.random.default_rng(1))
    p["items"] = p["items"] + 1.0
    whole = network.whole(p)["items"]
    joined = MORE.joined(DATA).items
    (new,) = joined.numbers(["new 2"])
    (with_both,) = joined.numbers([DATA.items.ids[0]])
    F = MORE.table(joined)
    np.testing.assert_allclose(whole[network.occurring], network.F[1:] @ p["adapter"] + p["items"][1:])
    np.testing.assert_allclose(whole[new], F[new] @ p["adapter"])
    np.testing.assert_allclose(whole[with_both], F[with_both] @ p["adapter"] + 1.0)
    assert not whole[0].any()
    with_vectors(model, MORE.joined(DATA), ALL, False, None)                 # no vectors of these items are needed


def test_sequences_are_joined_with_the_items_of_the_vectors():
    model = SASRec(**SMALL).fit([["a", "b", "c"], ["b", "c", "e"]], progress=False,
                                item_vectors=ItemVectors(np.array(["a", "d"]), np.eye(2)))  # fmt: skip
    assert model.items.ids.tolist() == ["a", "b", "c", "d", "e"]
    assert "d" in model.recommend(["a"], k=4)[0]


def test_a_training_that_was_stopped_resumes_to_the_same_bits_and_not_with_other_vectors(tmp_path):
    def stop(history):
        raise KeyboardInterrupt

    split, how = leave_one_out(MORE.joined(DATA)), {"progress": False, "item_vectors": MORE}
    checkpoint = tmp_path / "checkpoint.npz"
    with pytest.raises(KeyboardInterrupt):
        SASRec(**SMALL).fit(split, checkpoint=checkpoint, on_epoch=stop, **how)
    for others in ({"vectors": 2 * MORE.vectors + 1}, {"ids": MORE.ids[::-1].copy()}):
        with pytest.raises(FileError, match="belongs to another configuration or other data"):
            SASRec(**SMALL).fit(split, checkpoint=checkpoint, **how | {"item_vectors": replace(MORE, **others)})
    resumed, whole = SASRec(**SMALL).fit(split, checkpoint=checkpoint, **how), SASRec(**SMALL).fit(split, **how)
    np.testing.assert_array_equal(resumed.parameters["items"], whole.parameters["items"])


def test_what_does_not_go_with_vectors_is_refused():
    split = leave_one_out(DATA)
    with pytest.raises(ValueError, match=r"expected model sasrec, tied, not untied sasrec"):
        SASRec(tied=False, **SMALL).fit(split, item_vectors=ALL)
    with pytest.raises(ValueError, match=r"item_vectors is of type ndarray, expected ItemVectors\(ids, vectors\)"):
        SASRec(**SMALL).fit(split, item_vectors=ALL.vectors)
    with pytest.raises(ValueError, match=r"id_embeddings is False without item_vectors: nothing would tell items"):
        SASRec(**SMALL).fit(split, id_embeddings=False)
    with pytest.raises(ValueError, match=r"expected model sasrec, tied, not gru4rec"):
        GRU4Rec(**SMALL).fit(split, item_vectors=ALL)
    some = r"item vectors has no vector of 4 of 16 items of training, such as .*: expected all, or id embeddings beside"
    with pytest.raises(ValueError, match=some):
        SASRec(**SMALL).fit(leave_one_out(MORE.joined(DATA)), item_vectors=MORE, id_embeddings=False)
    start = SASRec(**SMALL).fit(split, progress=False)
    with pytest.raises(ValueError, match="a model to start from, which has no adapter, do not go together"):
        SASRec(**SMALL).fit(split, item_vectors=ALL, start=start)


def test_the_command_trains_resumes_and_recommends_new_items(tmp_path, capsys):
    rows = [f"{user},{100 + (user * k) % 17},{k}" for user in range(1, 25) for k in range(1, 7)]
    data, out = tmp_path / "data.csv", tmp_path / "run"
    data.write_text("user,item,time\n" + "\n".join(rows) + "\n")
    np.savez(tmp_path / "v.npz", ids=np.arange(95, 115), vectors=RNG.standard_normal((20, 3)))
    np.savez(tmp_path / "w.npz", ids=np.arange(95, 115), vectors=RNG.standard_normal((20, 3)))
    train = ["train", str(data), "--epochs", "1", "--maxlen", "5", "--dim", "4", "--workers", "1", "--out", str(out)]
    vectors = [*train, "--item-vectors", str(tmp_path / "v.npz")]
    assert main(vectors) == 0
    said = capsys.readouterr().out
    assert "of 17 items of training have none, and 5 other items have one" in said
    assert main(vectors) == 0                                                  # the run is complete
    assert main(["recommend", str(out), "--items", "95,101", "-k", "20"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    listed = {int(line[1]) for line in lines if len(line) == 3 and line[0].isdigit()}
    assert {96, 97, 98, 99} <= listed
    assert main(["evaluate", str(out)]) == 0
    capsys.readouterr()
    plain = tmp_path / "plain"
    assert main([*train[:-1], str(plain)]) == 0
    refuses(capsys, ["compare", out, plain], f"{plain} has other items than {out}, of --item-vectors: they cannot")
    for flags, message in (
        (["--item-vectors", str(tmp_path / "w.npz")], "was made with --item-vectors "),
        (["--item-vectors", str(tmp_path / "none.npy")], "none.npy cannot be read: No such file"),
        (["--no-id-embeddings"], "--no-id-embeddings goes with --item-vectors FILE"),
        (["--item-vectors", str(tmp_path / "v.npz"), "--start", str(out)], "--start and --item-vectors: "),
        (["--item-vectors", str(tmp_path / "v.npz"), "--model", "gru4rec"], "--item-vectors is for model sasrec"),
    ):
        refuses(capsys, [*train, *flags], message)


def test_cold_items_of_equal_vectors_share_their_ranks():
    """Films of the same genres have one vector: the first of them all is no hit for each."""
    scores = np.array([[3.0, 1.0, 1.0, 1.0], [3.0, 1.0, 0.0, 2.0]])
    np.testing.assert_array_equal(cold_items.ahead(scores, scores[:, [1]]), [2, 2])


@pytest.mark.slow(10)
def test_cold_items_are_found_by_their_vectors():
    """Chance is about .03 among all items, and a third among 30 cold ones; popularity finds none."""
    found = cold_items.measure(*cold_items.of_world(users=600), seed=0, epochs=12, workers=1)
    assert found["vectors"]["all"] > 5 * found["chance"]["all"]
    assert found["vectors"]["cold"] > 2 * found["chance"]["cold"]
    assert found["ids alone"]["cold"] < 1.3 * found["chance"]["cold"]
