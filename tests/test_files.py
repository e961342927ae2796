import json
import os
import pickle

import numpy as np
import pytest

from tinyattn import __version__
from tinyattn.files import FORMAT, FileError, read_arrays, read_json, write_arrays, write_atomically, write_json
from tinyattn.models.run import RunFolder


def test_arrays_there_and_back_and_the_same_bytes_each_time(tmp_path):
    arrays = {"a.b": np.arange(6, dtype=np.float32).reshape(2, 3), "ids": np.array(["x", "yy"])}
    write_arrays(tmp_path / "one.npz", "model", {"n": 3}, arrays)
    write_arrays(tmp_path / "two.npz", "model", {"n": 3}, arrays)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    meta, found = read_arrays(tmp_path / "one.npz", "model")
    assert meta == {"n": 3}
    for name, x in arrays.items():
        np.testing.assert_array_equal(found[name], x)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "f"
    write_atomically(path, b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


class Trap:
    """Unpickling this would leave a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_are_refused_and_not_executed(tmp_path):
    trace = tmp_path / "executed"
    np.savez(tmp_path / "inside.npz", tinyattn=np.array([Trap(trace)], dtype=object))
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Trap(trace)))
    np.save(tmp_path / "single.npy", np.array([Trap(trace)], dtype=object), allow_pickle=True)
    for name in ("inside.npz", "plain.npz", "single.npy"):
        with pytest.raises(FileError, match="pickled objects"):
            read_arrays(tmp_path / name, "model")
    assert not trace.exists()


def test_truncated_foreign_and_missing_files_are_refused(tmp_path):
    good = tmp_path / "good.npz"
    write_arrays(good, "model", {}, {"a": np.arange(1000)})
    content = good.read_bytes()
    for end in (0, 1, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.npz").write_bytes(content[:end])
        with pytest.raises(FileError, match="not a tinyattn model"):
            read_arrays(tmp_path / "cut.npz", "model")
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(bytes(flipped))
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    np.save(tmp_path / "array.npy", np.arange(3))
    (tmp_path / "text.npz").write_text("hello")
    for name in ("flipped.npz", "other.npz", "array.npy", "text.npz"):
        with pytest.raises(FileError, match="not a tinyattn model"):
            read_arrays(tmp_path / name, "model")
    with pytest.raises(FileError, match="is a tinyattn model, expected a checkpoint"):
        read_arrays(good, "checkpoint")
    with pytest.raises(FileError, match="no such file"):
        read_arrays(tmp_path / "none.npz", "model")


def test_json(tmp_path):
    write_json(tmp_path / "a.json", {"x": [1, 2.5]})
    assert read_json(tmp_path / "a.json") == {"x": [1, 2.5]} == json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(FileError, match="not readable JSON"):
        read_json(tmp_path / "b.json")
    with pytest.raises(FileError, match="no such file"):
        read_json(tmp_path / "c.json")
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "d.json", {"x": float("nan")})
    assert not (tmp_path / "d.json").exists()


def save_with_head(path, **head):
    np.savez(path, tinyattn=np.array(json.dumps({"kind": "model", "meta": {"n": 3}} | head)), a=np.arange(3))


def test_files_say_their_format_and_who_wrote_them(tmp_path):
    write_arrays(tmp_path / "a.npz", "model", {}, {})
    with np.load(tmp_path / "a.npz") as archive:
        head = json.loads(str(archive["tinyattn"]))
    assert (head["format"], head["tinyattn"]) == (FORMAT, __version__)


def test_files_of_tinyattn_0_1_had_no_format_number_and_are_read(tmp_path):
    for head in ({}, {"format": 1}, {"format": 2, "tinyattn": "0.2.7"}):
        save_with_head(tmp_path / "old.npz", **head)
        meta, arrays = read_arrays(tmp_path / "old.npz", "model")
        assert meta == {"n": 3}
        assert arrays.keys() == {"a"}


def test_another_format_is_refused_with_its_writer_and_what_is_read_here(tmp_path):
    path = tmp_path / "model.npz"
    save_with_head(path, format=9, tinyattn="3.1", kind="a kind of its own")
    expected = r"model\.npz has format 9, written by tinyattn 3\.1; this version reads formats 1 to 2$"
    with pytest.raises(FileError, match=expected):
        read_arrays(path, "model")
    for odd in (0, -1, FORMAT + 1, 1.5, True, "2", None):
        save_with_head(path, format=odd)
        with pytest.raises(FileError, match=f"has format {odd}, written by an unknown version of tinyattn; this"):
            read_arrays(path, "model")


@pytest.mark.parametrize("method", [lambda run: run.claim({"parameters": {}, "data": {}}), RunFolder.open])
def test_a_run_of_another_format_is_refused_and_left_as_it_was(tmp_path, method):
    path = tmp_path / "config.json"
    write_json(path, {"tinyattn": "3.1", "format": 9, "of": "another form"})
    before = path.read_bytes()
    with pytest.raises(FileError, match=r"config\.json has format 9, written by tinyattn 3\.1; this version reads"):
        method(RunFolder(tmp_path))
    assert path.read_bytes() == before


def test_a_run_of_tinyattn_0_1_goes_on_and_gets_a_format(tmp_path):
    config = {"parameters": {}, "data": {"fingerprint": "f"}, "tinyattn": "0.1.0"}
    write_json(tmp_path / "config.json", config)
    RunFolder(tmp_path).claim(config | {"tinyattn": __version__})
    assert read_json(tmp_path / "config.json") == config | {"tinyattn": __version__, "format": FORMAT}
