import errno
import json
import os
import pickle
import stat
import threading
import zipfile

import numpy as np
import pytest

from tinyattn import __version__, files
from tinyattn.files import (
    FORMAT,
    Arrays,
    FileError,
    alone_in,
    read_arrays,
    read_json,
    write_arrays,
    write_atomically,
    write_json,
)
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


LEFT = ".tinyattn-0123456789abcdef.tmp"


def test_no_link_is_followed(tmp_path, monkeypatch):
    """Neither one in the place of the file nor one where a temporary file would stand."""
    (tmp_path / "other").write_bytes(b"another's")
    (tmp_path / "f").symlink_to(tmp_path / "other")
    (tmp_path / ".f.tmp").symlink_to(tmp_path / "other")
    write_atomically(tmp_path / "f", b"new")
    (tmp_path / LEFT).symlink_to(tmp_path / "other")
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: LEFT[10:-4])
    with pytest.raises(FileExistsError, match=r"/g'$"):
        write_atomically(tmp_path / "g", b"new")
    assert (tmp_path / "other").read_bytes() == b"another's"
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize("locks", [True, False])
def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path, monkeypatch, locks):
    if not locks:
        monkeypatch.setattr(files, "fcntl", None)
    for name in (LEFT, ".tinyattn-notes.tmp", "f.tmp"):
        (tmp_path / name).touch()
    write_atomically(tmp_path / "f", b"new")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".tinyattn-notes.tmp", "f", "f.tmp"]


def test_the_file_of_a_writer_at_work_stays(tmp_path):
    (tmp_path / LEFT).touch()
    with (tmp_path / LEFT).open("rb") as file:
        files.fcntl.flock(file, files.fcntl.LOCK_EX)
        write_atomically(tmp_path / "f", b"new")
    assert (tmp_path / LEFT).exists()


def test_writers_at_the_same_time_leave_whole_files(tmp_path):
    path, torn = tmp_path / "f", []
    write_atomically(path, b"a" * 5000)

    def write(letter):
        for _ in range(15):
            write_atomically(path, letter * 5000)
            found = path.read_bytes()
            if len(found) != 5000 or len(set(found)) != 1:
                torn.append(found)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_names_the_file(tmp_path, monkeypatch, code):
    def full(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"{os.strerror(code)}: '{tmp_path}/f'"):
        write_atomically(tmp_path / "f", b"new")
    assert not list(tmp_path.iterdir())


def test_a_file_that_somebody_reads_is_replaced_a_moment_later(tmp_path, monkeypatch):
    """Windows says PermissionError as long as it is open."""
    replace, pauses, needed = os.replace, [], 10
    monkeypatch.setattr(files.time, "sleep", pauses.append)

    def busy(*paths):
        if len(pauses) < needed:
            raise PermissionError(errno.EACCES, "Access is denied", *map(str, paths))
        replace(*paths)

    monkeypatch.setattr(os, "replace", busy)
    write_atomically(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    assert pauses == [0.05] * 10                     # half a second
    pauses.clear()
    needed = 11
    with pytest.raises(PermissionError, match=r"Access is denied: '.*/f'$"):
        write_atomically(tmp_path / "f", b"newer")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("f", b"new")]


def test_a_folder_is_one_ones(tmp_path):
    folder = tmp_path / "new"
    said = f"another process is at work in {folder}"
    with alone_in(folder), pytest.raises(FileError, match=said), alone_in(folder):
        pass
    with alone_in(folder):
        folder.rmdir()
        with alone_in(folder):                       # another folder, of the same name
            pass


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_keep_what_its_parent_was_alone_in(tmp_path):
    (waits, ends), (heard, says) = os.pipe(), os.pipe()
    with alone_in(tmp_path):
        child = os.fork()
        if not child:
            os.close(ends)
            os.write(says, b".")
            os.read(waits, 1)
            os._exit(0)
        os.read(heard, 1)
        os.close(files._locks.pop())                 # as where the parent is killed
        with alone_in(tmp_path):
            pass
    os.close(ends)
    os.waitpid(child, 0)
    for handle in (waits, heard, says):
        os.close(handle)


def test_windows_has_a_file_as_lock(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(os, "O_TEMPORARY", 0, raising=False)     # there it is removed when it is closed
    with alone_in(tmp_path / "a"), pytest.raises(FileError, match="at work"), alone_in(tmp_path / "a"):
        pass
    (tmp_path / ".a.lock").unlink()
    with alone_in(tmp_path / "a"):
        pass


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
            dict(read_arrays(tmp_path / name, "model")[1])
    with pytest.raises(FileError, match="is a tinyattn model, expected a checkpoint"):
        read_arrays(good, "checkpoint")
    with pytest.raises(FileError, match="no such file"):
        read_arrays(tmp_path / "none.npz", "model")


def npy(header, content=b""):
    """A member of an .npz file whose header says this."""
    said = (repr(header) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said + content


@pytest.mark.parametrize("shape", [(10**12,), (1,), (-1,), (10**30,), (3, 10**18)])
def test_a_header_that_lies_about_its_size_is_refused_before_anything_is_unpacked(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy({"descr": "<f4", "fortran_order": False, "shape": shape}, b"12345678"))
    with pytest.raises(FileError, match=r"a\.npz is not a model"):
        Arrays(tmp_path / "a.npz", "model")["a"]


@pytest.mark.parametrize(("descr", "shape"), [("<U0", (3 * 10**9,)), ("|S0", (2,)), ("<f4", (0, 10**22))])
def test_elements_without_a_size_and_shapes_beyond_any_array_are_refused(tmp_path, descr, shape):
    """As no bytes are said to follow, the header agrees with the archive's directory."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", npy({"descr": descr, "fortran_order": False, "shape": shape}))
    with pytest.raises(FileError, match=r"a\.npz is not a model"):
        Arrays(tmp_path / "a.npz", "model")["a"]


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    write_arrays(tmp_path / "a.npz", "model", {}, {})

    def refuse(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files.Path, "open", refuse)
    with pytest.raises(FileError, match=r"a\.npz cannot be read: Permission denied$"):
        Arrays(tmp_path / "a.npz", "model")


def test_a_header_whose_brackets_stay_open_is_refused(tmp_path):
    """NumPy takes it apart by the tokens of Python, and lets their error through."""
    said = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,\n"
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said)
    with pytest.raises(FileError, match=r"a\.npz is not a model"):
        Arrays(tmp_path / "a.npz", "model")["a"]


def test_a_header_of_python_2_is_read_without_a_word(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        said = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n"
        header = b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said
        archive.writestr("a.npy", header + np.array([1, 2], np.float32).tobytes())
    assert Arrays(tmp_path / "a.npz", "model")["a"].tolist() == [1, 2]


def test_what_unpacks_to_more_than_its_file_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**6))
    with pytest.raises(FileError, match="not a model"):
        Arrays(tmp_path / "a.npz", "model")["a"]
    with pytest.raises(FileError, match="not a set of images"):
        Arrays(tmp_path / "a.npz", "set of images", times=100)["a"]
    np.savez_compressed(tmp_path / "b.npz", b=np.arange(1000))
    assert np.array_equal(Arrays(tmp_path / "b.npz", "set of images", times=100)["b"], np.arange(1000))


def test_what_nobody_asked_for_is_refused_unread(tmp_path):
    write_arrays(tmp_path / "a.npz", "model", {}, {"a": np.arange(3), "b": np.arange(3)})
    _, arrays = read_arrays(tmp_path / "a.npz", "model")
    arrays.pop("a")
    with pytest.raises(FileError, match="has an array b, which no tinyattn model has"):
        arrays.refuse_unread()
    assert (list(arrays), len(arrays), arrays.pop("a", 7)) == (["b"], 1, 7)
    assert arrays.pop("b", 7).tolist() == [0, 1, 2]
    with pytest.raises(KeyError):
        arrays.pop("b")


def test_sizes_of_archives_and_names_that_are_there_twice(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(100), b=np.zeros(3, np.float32))
    assert Arrays(tmp_path / "a.npz", "model").nbytes == (128 + 800) + (128 + 12)          # each after its header
    np.savez_compressed(tmp_path / "b.npz", a=np.zeros(10**6))
    assert Arrays(tmp_path / "b.npz", "model", 3).nbytes == 3 * (tmp_path / "b.npz").stat().st_size
    with zipfile.ZipFile(tmp_path / "c.npz", "w") as archive:
        for name in ("a", "a.npy"):
            archive.writestr(name, b"")
    with pytest.raises(FileError, match=r"c\.npz is not a model \(two of its arrays have one name\)"):
        Arrays(tmp_path / "c.npz", "model")


def test_one_file_by_two_paths_is_the_same_and_files_alike_are_not(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("alike")
    (tmp_path / "link").symlink_to("a")
    found = {other: files.is_same(tmp_path / "a", str(tmp_path / other)) for other in ("a", "link", "b", "none")}
    assert found == {"a": True, "link": True, "b": False, "none": False}
    assert not files.is_same(tmp_path / "none", tmp_path / "none")


def test_a_pipe_is_no_archive(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="pipe is no regular file, expected a tinyattn model"):
        read_arrays(tmp_path / "pipe", "model")


def test_json_of_a_name_that_is_no_utf_8(tmp_path):
    """Python gives bytes of a path that are no UTF-8 as lone surrogates."""
    write_json(tmp_path / "a.json", {"data": "é\udcff.csv"})
    assert read_json(tmp_path / "a.json") == {"data": "é\udcff.csv"}
    assert "é".encode() in (tmp_path / "a.json").read_bytes()


def test_json(tmp_path):
    write_json(tmp_path / "a.json", {"x": [1, 2.5]})
    assert read_json(tmp_path / "a.json") == {"x": [1, 2.5]}
    assert (tmp_path / "a.json").read_text() == '{\n "x": [1, 2.5]\n}\n'
    (tmp_path / "a.json").write_text('{"x": 1}', encoding="utf-8-sig")     # as some editors of Windows save it
    assert read_json(tmp_path / "a.json") == {"x": 1}
    for text in ("{", "[" * 100_000, '{"a": {"b": 1, "c": 2, "b": 3}}', "1" * 5000):
        (tmp_path / "b.json").write_text(text)
        with pytest.raises(FileError, match="not readable JSON") as refused:
            read_json(tmp_path / "b.json")
        assert len(str(refused.value)) < 300 + len(str(tmp_path))
    (tmp_path / "b.json").write_text("{" + "".join(f'"{i}": 0, ' for i in range(200_000)) + '"199999": 0}')
    with pytest.raises(FileError, match="'199999' appears twice in one object"):        # counting each took minutes
        read_json(tmp_path / "b.json")
    for missing in ("c.json", "b.json/c.json"):
        with pytest.raises(FileError, match=f"{missing}: no such file"):
            read_json(tmp_path / missing)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "d.json", {"x": float("nan")})
    assert not (tmp_path / "d.json").exists()
    rows = {"ö": {"n": [1, 2], "none": {}}, "rows": [{"x": 1}, {"x": None}], "20": [0] * 20, "21": [0] * 21}
    assert files.json_text(rows).split("\n") == [
        "{", ' "ö": {', '  "n": [1, 2],', '  "none": {}', " },", ' "rows": [', '  {"x": 1},', '  {"x": null}', " ],",
        ' "20": [' + "0, " * 19 + "0],", ' "21": [' + "0," * 20 + "0]", "}",
    ]  # fmt: skip


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


def claim(run):
    with run.claimed({"parameters": {}, "data": {}}):
        pass


@pytest.mark.parametrize("method", [claim, RunFolder.open])
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
    with RunFolder(tmp_path).claimed(config | {"tinyattn": __version__}):
        pass
    assert read_json(tmp_path / "config.json") == config | {"tinyattn": __version__, "format": FORMAT}


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_the_return(tmp_path, monkeypatch):
    """Else a power failure could leave an empty file under the new name, or none."""
    done, fsync, replace = [], os.fsync, os.replace

    def sync(handle):
        status = os.fstat(handle)
        folder = stat.S_ISDIR(status.st_mode)
        here = folder and os.path.samestat(status, os.stat(tmp_path / "a"))
        done.append(("folder", here) if folder else ("file", status.st_size))
        fsync(handle)

    def move(old, new):
        done.append(("move", os.path.dirname(old) == os.path.dirname(new)))
        replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", move)
    write_atomically(tmp_path / "a" / "f", b"12345")
    assert done == [("file", 5), ("move", True), ("folder", True)]
    done.clear()
    write_arrays(tmp_path / "a" / "g.npz", "x", {}, {"n": np.ones(3)})
    assert [what for what, _ in done] == ["file", "move", "folder"]
    assert done[0][1] == (tmp_path / "a" / "g.npz").stat().st_size


def test_a_folder_that_cannot_be_synced_is_no_error(tmp_path, monkeypatch):
    fsync = os.fsync

    def refuse(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "no")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuse)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    write_atomically(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"new"
    if before:
        assert len(os.listdir("/proc/self/fd")) == before                        # no handle is left open


def test_nobody_follows_a_temporary_file_that_another_has_locked(tmp_path):
    path, handle = files._temporary(tmp_path)
    files._remove_leftovers(tmp_path)
    assert path.exists()
    os.close(handle)
    files._remove_leftovers(tmp_path)
    assert not path.exists()
    assert path.name.startswith(".tinyattn-")


def test_a_lock_that_is_lost_leaves_no_handle_open_and_a_folder_is_no_json(tmp_path, monkeypatch):
    """In the moment before the lock somebody took the temporary file for a killed writer's."""
    closed, close, lost = [], os.close, iter([False, True])
    monkeypatch.setattr(files, "_lock", lambda handle, path: next(lost))
    monkeypatch.setattr(files.os, "close", lambda handle: closed.append(handle) or close(handle))
    _, handle = files._temporary(tmp_path)
    assert len(closed) == 1
    close(handle)
    with pytest.raises(FileError, match="is no regular file, expected JSON"):
        read_json(tmp_path)
