"""Recommenders that were trained elsewhere give the same scores here; what cannot be mapped is named."""

import math
import os
import pickle
import sys
import zipfile
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

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
from tinyattn.models.layouts.state_dict import StateDict

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
    """With padding="tokens", though the position is like one of the first code."""
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
    for ids in (3, "PAD", {"PAD": 0}, np.array([["PAD", "a"]])):
        with pytest.raises(FileError, match=r"m.ckpt has item_external_ids .*, expected a list of ids"):
            RecTools().ids(SimpleNamespace(about={"item_external_ids": ids}, path="m.ckpt"))


def test_the_configuration_in_a_checkpoint_of_rectools_decides():
    def options(config, without="none", **given):
        found = {name: array for name, array in rectools_weights().items() if without not in name}
        about = {"model_config": config}
        return RecTools().options(SimpleNamespace(parameters=found, about=about, path="m.ckpt"), given)

    assert options({}) == options(None) == {
        "dim": D, "blocks": 2, "block_form": "sasrec", "emb_scale": False, "qkv_bias": True, "output_projection": True,
        "eps": 1e-5, "last_eps": 1e-8, "padding": "blank", "maxlen": N,
    }  # fmt: skip
    for config, name, value in (
        ({"pos_encoding_kwargs": {"use_scale_factor": True}}, "emb_scale", True), ({"n_heads": 4}, "heads", 4),
        ({"use_key_padding_mask": True}, "padding", "hidden"), ({"use_causal_attn": True}, "padding", "blank"),
        ({"transformer_layers_type": "rectools.SASRecTransformerLayers"}, "maxlen", N),
    ):  # fmt: skip
        assert options(config)[name] == value
    found = options({"session_max_len": 5}, without="pos_emb")
    assert (found["position"], found["maxlen"], options({}, "pos_emb", maxlen=7)["maxlen"]) == ("none", 5, 7)
    for config, without, says in (
        ({"use_causal_attn": False}, "none", "has use_causal_attn False, expected True"),
        ({"transformer_layers_type": "a.Other"}, "none", "has transformer_layers_type 'a.Other', expected 'SASRecTr"),
        ({"similarity_module_kwargs": {"distance": "cosine"}}, "none", "has distance 'cosine', expected 'dot'"),
        ({"similarity_module_kwargs": "dot"}, "none", "has similarity_module_kwargs 'dot', expected a dict"),
        ({"pos_encoding_kwargs": [1]}, "none", r"has pos_encoding_kwargs \[1\], expected a dict"),
        ({}, "pos_emb", "has no pos_encoding_layer.pos_emb.weight: set maxlen to its session_max_len"),
    ):
        with pytest.raises(FileError, match=says):
            options(config, without)


class Tensor:
    """What is asked of a torch.Tensor, of two numbers; `others` take the place of its answers."""

    layout, is_nested, is_meta, dtype, shape = "torch.strided", False, False, "torch.float32", (2,)

    def __init__(self, **others):
        vars(self).update(others)

    def detach(self, *dtype):
        return self

    to = resolve_neg = detach

    def numpy(self):
        return np.ones(2, np.float32)

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return 4

    def untyped_storage(self):
        return SimpleNamespace(nbytes=lambda: 8)


def torch_of(**others):
    serialization = SimpleNamespace(safe_globals=nullcontext)
    return SimpleNamespace(Tensor=Tensor, float32=None, strided="torch.strided", serialization=serialization, **others)


@pytest.mark.parametrize(("other", "says"), [
    ({"dtype": "torch.complex64"}, "b is of complex64, expected one of float64, float32, float16, bfloat16"),
    ({"dtype": "torch.int64"}, "b is of int64, expected one of"),
    ({"dtype": "torch.qint8"}, "b is of qint8, expected one of"),
    ({"layout": "torch.sparse_coo"}, "b has the layout torch.sparse_coo, expected a dense tensor"),
    ({"is_nested": True}, "b has the layout nested, expected a dense tensor"),
    ({"is_meta": True}, "b has no numbers, expected a dense tensor"),
    ({"shape": (3,)}, r"b is \(3,\), and the file holds 2 numbers of it"),
    ({"shape": (10**9, 8)}, r"b is \(1000000000, 8\), and the file holds 2 numbers of it"),
])  # fmt: skip
def test_a_tensor_that_is_no_dense_array_of_floats_is_refused(other, says, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", torch_of(load=lambda path, **how: {"a": Tensor(), "b": Tensor(**other)}))
    (tmp_path / "m.pth").write_bytes(b"1")
    with pytest.raises(FileError, match=says):
        StateDict(tmp_path / "m.pth")


def test_whatever_torch_raises_of_a_damaged_file_is_a_refusal(monkeypatch, tmp_path):
    load = Mock()
    monkeypatch.setitem(sys.modules, "torch", torch_of(load=load))
    (tmp_path / "m.pth").write_bytes(b"1")
    for error in (AssertionError, IndexError, TypeError, AttributeError, OverflowError):
        load.side_effect = error("a. b")
        with pytest.raises(FileError, match=r"m.pth is truncated, damaged or no state dict: a$"):
            StateDict(tmp_path / "m.pth")
    load.side_effect = MemoryError("too large")
    with pytest.raises(MemoryError):
        StateDict(tmp_path / "m.pth")


def test_a_compressed_archive_is_refused_before_torch_reads_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", torch_of(load=lambda path, **how: {"a": Tensor()}))
    for method, refused in ((zipfile.ZIP_DEFLATED, True), (zipfile.ZIP_STORED, False)):
        with zipfile.ZipFile(tmp_path / "m.pth", "w", method) as archive:
            archive.writestr("archive/data/0", bytes(10**6))
        refusal = pytest.raises(FileError, match=r"m.pth has archive/data/0 compressed, which torch.save does not do")
        with refusal if refused else nullcontext():
            StateDict(tmp_path / "m.pth")


def test_a_state_dict_as_pytorch_would_give_it(monkeypatch, tmp_path):
    file, a = tmp_path / "m.ckpt", Tensor()
    file.write_bytes(b"1")
    loaded = {"torch_model.a": a, "torch_model.b": a}
    torch = torch_of()
    monkeypatch.setitem(sys.modules, "torch", torch)
    nested = [{key: loaded} for key in ("model", "model_state_dict")]
    twice = {f"module._orig_mod.{name}": x for name, x in loaded.items()}
    wholes = [(whole, {}) for whole in (loaded, twice, *nested)]
    for whole, about in (*wholes, ({"state_dict": loaded, "hyper_parameters": {"x": 1}}, {"x": 1})):
        torch.load = lambda path, map_location, weights_only, whole=whole: whole if weights_only else None
        state = StateDict(file)
        assert (state.about, list(state.parameters), state.read("b").tolist()) == (about, ["a", "b"], [1, 1])
    for whole in ({}, {"a": 1}, {"a": a, "b": 1}, {"state_dict": []}):
        torch.load = lambda path, whole=whole, **how: whole
        with pytest.raises(FileError, match="holds a dict, expected a state dict: names and tensors"):
            StateDict(file)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"m.ckpt needs PyTorch \(pip install torch\)"):
        StateDict(file)
    with pytest.raises(FileError, match=r"m.t is neither .safetensors nor one of \.pt, \.pth, \.ckpt, \.bin"):
        StateDict(file.rename(tmp_path / "m.t"))


@pytest.mark.parametrize("mask", [False, True])
def test_the_scores_of_rectools(mask, tmp_path):
    weights = rectools_weights()
    options, prefix = ({"padding": "hidden"}, "module.") if mask else ({}, "")
    file = write(tmp_path / "m.safetensors", {prefix + name: array for name, array in weights.items()})
    model = import_model(file, heads=H, **options)
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
    refuses(capsys, arguments, "m.pth would run code, and is not read", "mkdir")
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


@pytest.mark.parametrize("form", ["int64", "bool"])
def test_numbers_that_are_no_floats_are_refused(form, tmp_path):
    weights = pmixer_weights()
    weights["pos_emb.weight"] = weights["pos_emb.weight"].astype(form)
    file = write(tmp_path / "m.safetensors", weights)
    stored = {"int64": "I64", "bool": "BOOL"}[form]
    with pytest.raises(FileError, match=f"pos_emb.weight is of {stored}, expected one of F64, F32, F16, BF16"):
        import_model(file, heads=H, block_form="pre")


def test_a_parameter_that_stands_twice_in_the_header_is_refused(tmp_path):
    file = write(tmp_path / "m.safetensors", {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})
    content = file.read_bytes()
    entry = b'"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
    header = b"{" + b",".join([entry, entry, entry.replace(b'"a"', b'"b"').replace(b"[0,8]", b"[8,16]")]) + b"}"
    file.write_bytes(len(header).to_bytes(8, "little") + header + content[-16:])
    with pytest.raises(FileError, match=r"m.safetensors is not readable JSON: 'a' appears twice in one object"):
        import_model(file, heads=H, block_form="pre")


@pytest.mark.parametrize("ids", [["a", "a\0", "a\0\0"], ["\0", "x", "y"]])
def test_an_id_with_a_nul_is_refused(ids, tmp_path):
    """NumPy drops one at the end: two ids would be one, and the model could not be opened again."""
    file = write(tmp_path / "m.safetensors", pmixer_weights())
    with pytest.raises(ValueError, match="has a NUL in it"):
        import_model(file, [*ids, *"bcdefg"], heads=H, block_form="pre")


CHANGES = {
    "missing": (lambda w: w.pop("last_layernorm.bias"), "has no last_layernorm.bias, expected in pmixer/SASRec"),
    "misshapen": (
        lambda w: w.update({"attention_layers.1.in_proj_bias": np.zeros(D, dtype=np.float32)}),
        f"attention_layers.1.in_proj_bias is ({D},), expected ({3 * D},)",
    ),
    "unknown": (
        lambda w: w.update({"time_emb.weight": np.zeros((2, 2), dtype=np.float32)}),
        "has time_emb.weight, which no mapped SASRec of pmixer/SASRec.pytorch has",
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
    refuses(capsys, asked, "does not hold heads: set --heads to its --num_heads, which was 1 unless it was set")
    asked += ["--heads", H]
    refuses(capsys, asked, "does not hold block_form: set --block-form to pre for --norm_first, post without it,")
    refuses(capsys, [*asked, "--block-form", "plain"], "block_form is 'plain', expected one of pre, post, sasrec")
    refuses(capsys, [*asked, "--block-form", "pre", "--maxlen", "7"], f"maxlen is 7, expected at most {N}")
    ids.write_text("a\nb\n")
    said = f"2 ids, 2 of them different, expected {ITEMS} different ones"
    refuses(capsys, [*asked, "--block-form", "pre", "--item-ids", ids], said)
    ids.write_text("a\na\n" + "".join(f"{i}\n" for i in range(ITEMS - 1)))
    said = f"{ITEMS + 1} ids, {ITEMS} of them different, expected {ITEMS} different ones"
    refuses(capsys, [*asked, "--block-form", "pre", "--item-ids", ids], said)
    other = rectools_weights()
    moved = {name.replace("q_layer_norm", "layer_norm_1"): array for name, array in other.items()}
    file = write(tmp_path / "other.safetensors", moved)
    refuses(capsys, ["import-model", file, "--out", tmp_path / "run", "--heads", H], "0.layer_norm_1.weight: of Rec")
    assert RECTOOLS_ITEMS in moved
    refuses(capsys, ["import-model", tmp_path, "--out", tmp_path / "run", "--heads", H], "heads are for a file")
    with pytest.raises(ValueError, match="has its options; ids of items are for a file"):
        import_model(tmp_path, ["a"])
    refuses(capsys, ["import-model", tmp_path / "m.t", "--out", tmp_path / "run", "--heads", H], "m.t: no such file")
    refuses(capsys, ["import-model", tmp_path / "m.pth", "--out", tmp_path / "run"], "m.pth: no such file")


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
    [(["10", "9"], [10, 9]), (["007", "7"], ["007", "7"]), (["1", "٣"], ["1", "٣"]), ([3, "x"], ["3", "x"]),
     (["9" * 18, "2"], [10**18 - 1, 2]), (["9" * 19, "2"], ["9" * 19, "2"])],
)  # fmt: skip
def test_only_numbers_as_they_are_written_are_ids_of_numbers(items, ids):
    """007 and 7 are two items."""
    file = RecommenderFile.__new__(RecommenderFile)
    file.count = 2
    assert file._ids(items).tolist() == ids
    file.state = SimpleNamespace(path="m")
    with pytest.raises(ValueError, match="2 ids, 1 of them different, expected 2 different ones: m has so many items"):
        file._ids([items[0]] * 2)
