"""Files of every format, well-formed and broken at random: the same table, or one line of error."""

import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.data.broken_files import WRITERS, broken, expected, files, held, sequences
from tinyattn.data import FORMATS

QUICK = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
LONG = settings(QUICK, max_examples=1000)


def test_every_format_has_a_writer():
    assert set(WRITERS) == set(FORMATS)


HEADED = ("inter", "amazon-json", "movielens-csv", "gru4rec", "header")


def agree(path, file):
    path.write_bytes(file.content)
    data = held(path, format=None if file.format in HEADED else file.format)
    if data is not None:
        assert sequences(data) == expected(file)
    else:                                          # words above numbers: a header? lines of one length: a table?
        assert file.format not in HEADED


def attack(path, file, draw):
    path.write_bytes(draw(broken(file.content)))
    tracemalloc.start()
    held(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6           # of files of some hundred bytes: the piece that is read at a time, and its line


@QUICK
@given(file=files())
def test_a_well_formed_file_is_read_as_it_was_written(tmp_path_factory, file):
    agree(tmp_path_factory.getbasetemp() / "whole", file)


@QUICK
@given(file=files(), data=st.data())
def test_a_broken_file_is_a_table_or_one_line_of_error(tmp_path_factory, file, data):
    attack(tmp_path_factory.getbasetemp() / "broken", file, data.draw)


@pytest.mark.slow(seconds=10)
@LONG
@given(file=files(), data=st.data())
def test_many_files_whole_and_broken(tmp_path_factory, file, data):
    agree(tmp_path_factory.getbasetemp() / "whole", file)
    attack(tmp_path_factory.getbasetemp() / "broken", file, data.draw)
