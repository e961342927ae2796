import errno
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from tinyattn.cli import main
from tinyattn.commands.tables import print_history, print_items
from tinyattn.data import ItemNames
from tinyattn.terminal import any_terminal, filled, one_line, progress_bar, quoted, shortened, visible


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("1 2\n1 3\n2 3\n")
    return str(path)


def test_values_are_quoted_and_shortened_where_that_helps():
    assert [quoted(value) for value in (7, "a b", " a", "", "\x1b", "ł")] == ["7", "a b", "' a'", "''", r"'\x1b'", "ł"]
    assert shortened("x" * 60) == "x" * 60
    assert shortened("x" * 61) == "x" * 57 + "..."


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_notes_are_as_wide_as_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = filled("a note of many words " * 20 + "\nanother-one")
    lines = shown.split("\n")
    assert columns - 6 < max(map(len, lines)) <= columns
    assert lines[-1] == "another-one"                              # a line of its own, and not cut at the hyphen
    assert "".join(shown.split()) == "anoteofmanywords" * 20 + "another-one"


def test_notes_without_a_terminal_have_80_columns(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("sys.__stdout__", io.StringIO())
    assert max(map(len, filled("word " * 40).split("\n"))) == 79


@pytest.mark.parametrize(("on_a_terminal", "disable", "shown"), [
    (True, None, True), (False, None, False), (True, True, False), (False, False, True),
])  # fmt: skip
def test_a_progress_bar_is_shown_on_a_terminal_or_where_it_must(on_a_terminal, disable, shown, monkeypatch):
    monkeypatch.setattr("sys.stderr", err := io.StringIO())
    err.isatty = lambda: on_a_terminal
    with progress_bar(disable, total=3) as bar:
        bar.set_postfix_str("words")
        bar.update()
    assert ("words" in err.getvalue()) == shown


def test_a_notebook_shows_progress_among_its_output(monkeypatch):
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    monkeypatch.setattr("sys.stdout", out := stream())
    monkeypatch.setattr("sys.stderr", err := stream())
    for disable, shown in ((True, False), (None, True)):
        with progress_bar(disable, total=3) as bar:
            bar.set_postfix_str("words")
            bar.update()
        assert ("words" in out.getvalue(), err.getvalue()) == (shown, "")


def test_escapes_in_ids_are_shown_and_columns_stand(capsys):
    print_items(np.array(["a", "\x1b[31m\n"]), np.array([1.0, 0.5]), ItemNames({"a": "A"}))
    print_history(["\x1b[31m"], ItemNames())
    assert capsys.readouterr().out.splitlines() == [
        r"   1             a     1.000  A", r"   2  '\x1b[31m\n'     0.500", r"after '\x1b[31m':",
    ]  # fmt: skip


def test_escapes_in_whatever_is_printed_are_shown(capsys):
    with any_terminal():
        print("title \x1b]0;you\x07")
    assert capsys.readouterr().out == "title \\x1b]0;you\\x07\n"
    with pytest.raises(SystemExit):
        main(["data", "\x1b", "--two"])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["train", "--dim", "\n" * 2000])
    main(["data", "none\x1b\n.txt"])
    main(["data", "x", "--columns", "x" * 5000])
    err = capsys.readouterr().err
    assert r"none\x1b\n.txt: no such file" in err
    assert err.count("\n") == 3
    assert max(map(len, err.split("\n"))) < 1200


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_what_an_encoding_lacks_is_printed_as_an_escape(monkeypatch, encoding):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["check", "--contract", "attention"]) == 0
    assert raw.getvalue().startswith(b"- ")
    assert b"\\u" in raw.getvalue()
    assert sys.stdout is out
    assert out.errors == "strict"


def test_streams_may_not_be_there(monkeypatch, data):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["data", data]) == 0
    assert main(["data", "none.txt"]) == 2
    assert sys.stdout is None


class Full(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_standard_output_that_cannot_be_written_is_named(monkeypatch, capsys, data):
    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["data", data]) == 2
    err = capsys.readouterr().err
    assert err == "tinyattn: [Errno 28] No space left on device: 'standard output'\n"


def test_what_nobody_reads_any_more_is_given_up_without_a_word(monkeypatch, capsys, data):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as out:                                    # closing it would write again, and fail
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["data", data]) == 1
    assert capsys.readouterr().err == ""


def test_work_goes_on_where_standard_error_is_gone(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Full())
    with any_terminal():
        print("a bar", file=sys.stderr, flush=True)


def test_nothing_takes_the_number_of_a_closed_stream():
    code = "import os; from tinyattn.terminal import open_standard_handles as o; o(); print(os.open('.', 0))"
    command = f'exec "{sys.executable}" -c "{code}" <&- 2>&-'
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout == "3\n"


def test_one_line_is_one_line_of_at_most_a_thousand_characters():
    assert one_line("a\nb\x1b\tc") == "a\\nb\\x1b\tc"
    assert one_line("x" * 1000) == "x" * 1000
    assert one_line("x" * 1001) == "x" * 997 + "..."
    assert shortened("abcdef", 5) == "ab..."
    assert shortened("abcde", 5) == "abcde"
    turning = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
    for code in (*range(9), *range(11, 32), *range(127, 160), *turning):
        assert visible(chr(code)) == repr(chr(code))[1:-1]
    for code in (9, 10, 32, 126, 160, 0x61B, 0x61D, 0x200D, 0x2010, 0x2027, 0x202F, 0x2065, 0x206A):
        assert visible(chr(code)) == chr(code)


def test_streams_are_put_back_and_what_is_written_is_counted(monkeypatch):
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with any_terminal():
        assert sys.stdout.write("a\x1b") == 2
        assert sys.stderr.write("b\x1b") == 2
        sys.stdout.flush()
        assert sys.stdout.getvalue() == "a\\x1b"
        assert sys.stderr.getvalue() == "b\x1b"                                  # bars move by such characters
    assert sys.stdout is out
    assert sys.stderr is err
    with pytest.raises(KeyError), any_terminal():
        raise KeyError
    assert sys.stdout is out
    narrow = io.TextIOWrapper(io.BytesIO(), "ascii", errors="strict")
    monkeypatch.setattr(sys, "stdout", narrow)
    with any_terminal():
        print("ł", end="")
    assert narrow.errors == "strict"
    narrow.flush()
    assert narrow.buffer.getvalue() == b"\\u0142"
