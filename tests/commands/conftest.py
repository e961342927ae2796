"""Finished runs of several models on one small generated file, shared by the tests of commands that ask them."""

import pytest

from tests.models.worlds import write_tiny
from tinyattn.cli import main

MODELS = {
    "sasrec": ["--maxlen", "6", "--dim", "8", "--batch-size", "20", "--lr", "0.01", "--epochs", "2", "--heads", "2"],
    "markov": ["--model", "markov"],
    "popularity": ["--model", "popularity"],
}


@pytest.fixture(scope="package")
def data(tmp_path_factory):
    """A file of `user item` lines."""
    return write_tiny(tmp_path_factory.mktemp("data") / "tiny.txt")


@pytest.fixture(scope="package")
def runs(data, tmp_path_factory):
    """{model: the folder of its run}."""
    folder = tmp_path_factory.mktemp("runs")
    for name, options in MODELS.items():
        assert main(["train", str(data), *options, "--out", str(folder / name)]) == 0
    return {name: folder / name for name in MODELS}


@pytest.fixture
def names(tmp_path):
    """Names of two items of the data, and of one that it does not have."""
    path = tmp_path / "names.dat"
    path.write_bytes("s1e1::Le Café (1995)::Drama\ns1e2::Second, the (1996)::Drama\nzz::Nobody\n".encode("latin-1"))
    return path
