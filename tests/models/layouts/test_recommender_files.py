"""Recommenders that others trained give their scores here; what cannot be mapped is named."""

import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers import refuses
from tests.models.layouts.sasrecs import (
    ITEMS,
    RECTOOLS_ITEMS,
    D,
    H,
    N,
    first_pmixer_weights,
    pmixer,
    pmixer_weights,
    rectools,
    rectools_weights,
)
from tinyattn.cli import main
from tinyattn.files import FileError
from tinyattn.models import import_model
from tinyattn.models.layouts.recommender_file import RecommenderFile
from tinyattn.models.layouts.rectools import RecTools

HISTORIES = [np.array(h) for h in ([4], [1, 2, 3], [9, 9, 1, 5, 2, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9])]


def write(path, weights):
    save = pytest.importorskip("safetensors.numpy", reason="weights are written with the package safetensors").save_file
    save({name: np.ascontiguousarray(array) for name, array in weights.items()}, path)
    return path


def agrees(model, scores):
    found = model.score(HISTORIES)
    for row, history in zip(found, HISTORIES, strict=True):
        np.testing.assert_allclose(row[1:], scores(history)[1:], rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["pre", "post", "sasrec"])
def test_the_scores_of_pmixer_in_each_order_of_norms(form, tmp_path):
    weights = pmixer_weights()
    model = import_model(write(tmp_path / "m.safetensors", weights), heads=H, block_form=form)
    agrees(model, lambda history: pmixer(weights, form, history))


def test_the_scores_of_pmixers_first_code_which_is_known_by_its_positions(tmp_path):
    weights = first_pmixer_weights()
    file = write(tmp_path / "m.safetensors", weights)
    model = import_model(file, heads=H, block_form="sasrec")
    assert (model.padding, model.maxlen) == ("blank", N)
    agrees(model, lambda history: pmixer(weights, "sasrec", history, first_code=True))


def test_a_position_of_padding_that_is_not_0_is_added_to_it(tmp_path):
    """As in a file of which it is said that padding is a token."""
    weights = pmixer_weights()
    weights["pos_emb.weight"][0] = 0.5
    model = import_model(write(tmp_path / "m.safetensors", weights), heads=H, block_form="sasrec", padding="tokens")
    agrees(model, lambda history: pmixer(weights, "sasrec", history))


def test_of_positions_a_shorter_model_takes_the_first(tmp_path):
    """They count from the newest item: row 1 of the file, after padding's, is the newest's."""
    weights = pmixer_weights()
    file = write(tmp_path / "m.safetensors", weights)
    for maxlen in (N, 3):
        model = import_model(file, heads=H, block_form="pre", maxlen=maxlen)
        np.testing.assert_array_equal(model.parameters["positions"], weights["pos_emb.weight"][1 : maxlen + 1])


def test_ids_of_rectools_follow_that_of_padding():
    found = SimpleNamespace(about={"item_external_ids": np.array(["PAD", "a", "b"], dtype=object)})
    assert RecTools().ids(found) == ["a", "b"]
    assert RecTools().ids(SimpleNamespace(about={})) is None


@pytest.mark.parametrize("mask", [False, True])
def test_the_scores_of_rectools(mask, tmp_path):
    weights = rectools_weights()
    options = {"padding": "hidden"} if mask else {}
    model = import_model(write(tmp_path / "m.safetensors", weights), heads=H, **options)
    agrees(model, lambda history: rectools(weights, history, mask))


def test_ids_are_sorted_and_rows_with_them(tmp_path):
    weights, ids = pmixer_weights(), ["i", "c", "a", "h", "b", "d", "g", "f", "e"]
    model = import_model(write(tmp_path / "m.safetensors", weights), ids, heads=H, block_form="pre")
    found, scores = model.recommend(["c", "a"], k=7)
    expected = pmixer(weights, "pre", np.array([2, 3]))
    best = [i for i in np.argsort(-expected) if i not in (0, 2, 3)][:7]
    assert found.tolist() == [ids[i - 1] for i in best]
    np.testing.assert_allclose(scores, expected[best], atol=1e-5)


def test_a_state_dict_of_pytorch_and_a_checkpoint_that_says_more(tmp_path):
    torch = pytest.importorskip("torch", reason="state dicts are read with PyTorch")
    weights = {name: torch.tensor(array) for name, array in pmixer_weights().items()}
    torch.save(weights, tmp_path / "m.pth")
    agrees(import_model(tmp_path / "m.pth", heads=H, block_form="pre"), lambda h: pmixer(pmixer_weights(), "pre", h))
    theirs = rectools_weights()
    said = {"model_config": {"n_heads": H, "session_max_len": N, "use_key_padding_mask": True, "use_causal_attn": True},
            "item_external_ids": np.array(["PAD", *range(100, 100 + ITEMS)], dtype=object)}  # fmt: skip
    state = {f"torch_model.{name}": torch.tensor(array) for name, array in theirs.items()}
    torch.save({"state_dict": state, "hyper_parameters": said}, tmp_path / "m.ckpt")
    model = import_model(tmp_path / "m.ckpt")
    agrees(model, lambda history: rectools(theirs, history, mask=True))
    assert model.items.ids.tolist() == list(range(100, 100 + ITEMS))
    said["model_config"]["similarity_module_kwargs"] = {"distance": "cosine"}
    torch.save({"state_dict": state, "hyper_parameters": said}, tmp_path / "m.ckpt")
    with pytest.raises(FileError, match="has distance 'cosine', expected 'dot'"):
        import_model(tmp_path / "m.ckpt")


class Code:
    """Unpickled, it makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_wants_to_run_code_is_refused(tmp_path, capsys):
    torch = pytest.importorskip("torch", reason="state dicts are read with PyTorch")
    state = {name: torch.tensor(array) for name, array in pmixer_weights().items()}
    torch.save(state | {"more": Code(tmp_path / "made")}, tmp_path / "m.pth")
    out = tmp_path / "run"
    arguments = ["import-model", tmp_path / "m.pth", "--out", out, "--heads", H, "--block-form", "pre"]
    refuses(capsys, arguments, "m.pth wants to run code, and is not read", "mkdir")
    assert not (tmp_path / "made").exists()
    (tmp_path / "m.pth").write_bytes(pickle.dumps(Code(tmp_path / "made"), protocol=4))
    refuses(capsys, arguments, "m.pth is a pickle that torch.save did not write, and is not read")
    assert not (tmp_path / "made").exists()
    torch.save([1, 2], tmp_path / "m.pth")
    refuses(capsys, arguments, "m.pth holds a list, expected a state dict: names and tensors")
    (tmp_path / "m.pth").write_bytes(b"PK nothing")
    refuses(capsys, arguments, "m.pth")
    (tmp_path / "m.pth").write_bytes(b"")
    refuses(capsys, arguments, "m.pth is truncated, damaged or no state dict: it ends too soon")
    assert not out.exists()


CHANGES = {
    "missing": (lambda w: w.pop("last_layernorm.bias"), "has no last_layernorm.bias, expected in pmixer/SASRec"),
    "misshapen": (
        lambda w: w.update({"attention_layers.1.in_proj_bias": np.zeros(D, dtype=np.float32)}),
        f"attention_layers.1.in_proj_bias is ({D},), expected ({3 * D},)",
    ),
    "unknown": (
        lambda w: w.update({"time_emb.weight": np.zeros((2, 2), dtype=np.float32)}),
        "has time_emb.weight, which no SASRec of pmixer/SASRec.pytorch has that is mapped here",
    ),
    "not finite": (lambda w: w["item_emb.weight"].fill(np.nan), "item_emb.weight has numbers that are not finite"),
    "no positions": (lambda w: w.pop("pos_emb.weight"), "has no pos_emb.weight, expected in pmixer"),
    "another model": (lambda w: w.pop("item_emb.weight"), "has no parameter that is called item_emb.weight (pmixer/"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_missing_or_misshapen_is_named_and_nothing_written(name, tmp_path, capsys):
    weights, out = pmixer_weights(), tmp_path / "run"
    change, said = CHANGES[name]
    change(weights)
    file = write(tmp_path / "m.safetensors", weights)
    refuses(capsys, ["import-model", file, "--out", out, "--heads", H, "--block-form", "post"], said)
    assert not out.exists()


def test_what_the_file_does_not_tell_is_asked_for(tmp_path, capsys):
    file, ids = write(tmp_path / "m.safetensors", pmixer_weights()), tmp_path / "ids.txt"
    asked = ["import-model", file, "--out", tmp_path / "run"]
    refuses(capsys, asked, "does not tell heads: give its --num_heads, which was 1 unless it was given (--heads)")
    asked += ["--heads", H]
    refuses(capsys, asked, "does not tell block_form: give pre for --norm_first, post without it, sasrec for code")
    refuses(capsys, [*asked, "--block-form", "plain"], "block_form is 'plain', expected one of pre, post, sasrec")
    refuses(capsys, [*asked, "--block-form", "pre", "--maxlen", "7"], f"maxlen is 7, expected at most {N}")
    ids.write_text("a\nb\n")
    said = f"2 ids, 2 of them different, expected {ITEMS} different ones"
    refuses(capsys, [*asked, "--block-form", "pre", "--item-ids", ids], said)
    other = rectools_weights()
    moved = {name.replace("q_layer_norm", "layer_norm_1"): array for name, array in other.items()}
    file = write(tmp_path / "other.safetensors", moved)
    refuses(capsys, ["import-model", file, "--out", tmp_path / "run", "--heads", H], "0.layer_norm_1.weight: of Rec")
    assert RECTOOLS_ITEMS in moved
    refuses(capsys, ["import-model", tmp_path, "--out", tmp_path / "run", "--heads", H], "heads are for a file")
    refuses(capsys, ["import-model", tmp_path / "m.t", "--out", tmp_path / "run", "--heads", H], "m.t: no such file")


def test_a_run_that_recommend_asks(tmp_path, capsys):
    weights, run = pmixer_weights(), tmp_path / "run"
    file = write(tmp_path / "m.safetensors", weights)
    assert main(["import-model", str(file), "--out", str(run), "--heads", str(H), "--block-form", "post"]) == 0
    assert f"pmixer/SASRec.pytorch from {file}" in capsys.readouterr().out
    assert main(["recommend", str(run), "--items", "1,2,3", "-k", "4"]) == 0
    printed = capsys.readouterr().out.splitlines()[1:]
    expected = pmixer(weights, "post", np.array([1, 2, 3]))
    best = [i for i in np.argsort(-expected) if i > 3][:4]
    assert [int(line.split()[1]) for line in printed] == best
    lines = (f"{u},{1 + (u + t) % 9},{t}\n" for u in range(5) for t in range(5))
    (tmp_path / "data.csv").write_text("user_id,item_id,timestamp\n" + "".join(lines))
    assert main(["recommend", str(run), str(tmp_path / "data.csv"), "--user", "2", "-k", "2"]) == 0


@pytest.mark.parametrize(
    ("items", "ids"),
    [(["10", "9"], [10, 9]), (["007", "7"], ["007", "7"]), (["1", "٣"], ["1", "٣"]), ([3, "x"], ["3", "x"])],
)
def test_only_numbers_as_they_are_written_are_ids_of_numbers(items, ids):
    """007 and 7 are two items."""
    file = RecommenderFile.__new__(RecommenderFile)
    file.count = 2
    assert file._ids(items).tolist() == ids
