"""Text: tokens and merges, windows, the grammar whose entropy is known."""

import numpy as np
import pytest

from tinyattn.data import DataError, Grammar, Text, TextSource, Tokens, learned_tokens
from tinyattn.models import Decoder


def test_the_pair_that_is_most_often_side_by_side_is_merged_first():
    """The example of Sennrich et al. 2016, section 3.2, without their end of words."""
    text = "low " * 5 + "lower " * 2 + "newest " * 6 + "widest " * 3
    tokens = learned_tokens(text, 4)
    assert tokens.strings[-4:] == ["es", "est", "lo", "low"]
    assert [tokens.strings[i] for i in tokens.encode("lowest newer")] == ["low", "est", " ", "n", "e", "w", "e", "r"]


@pytest.mark.parametrize("text", ["a  b\n\nc d \t", " x", "aaaaa aaa", "été — naïve"])
def test_whatever_the_text_its_tokens_joined_are_the_text(text):
    for merges in (0, 3):
        tokens = learned_tokens(text * 3, merges)
        assert tokens.text(tokens.encode(text)) == text
    assert len(learned_tokens("abcd", 3)) == 4  # no pair stands there twice


def test_what_has_no_number_is_refused():
    tokens = learned_tokens("ab", others=["c"])
    assert tokens.encode("cab").tolist() == [2, 0, 1]
    assert tokens.reads == "text of the characters 'abc'"
    with pytest.raises(ValueError, match="character 'x' of the text is unknown: the known ones are 'abc'"):
        tokens.encode("abx")
    with pytest.raises(ValueError, match=r"the text 'a.x00b' has a NUL in it$"):
        Text("a\0b")
    with pytest.raises(ValueError, match=r"the text 'a.*' has a NUL in it, its character 71$"):
        Text("a" * 70 + "\0")
    for bad in (["abc"], b"abc", 5, None):
        with pytest.raises(ValueError, match=r"the text is .*, expected a string"):
            Text.of(bad)
    with pytest.raises(ValueError, match="the text is empty"):
        tokens.encode("")
    with pytest.raises(ValueError, match="a merge uses a token that is not defined before it"):
        Tokens(np.array(["a", "b"]), [[0, 2]])
    doubling = [[0, 0], *([i, i] for i in range(2, 60))]
    with pytest.raises(ValueError, match="its tokens have more than 100,000,000 characters"):
        Tokens(np.array(["a", "b"]), doubling)


def test_what_is_drawn_and_learned_is_not_without_end():
    with pytest.raises(ValueError, match="sentences is 1000000000000, expected 1 to 1000000"):
        Grammar(sentences=10**12)
    with pytest.raises(ValueError, match="merges is 1000000, expected 0 to 100000"):
        Decoder(merges=10**6)


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(b"some \r\n text \r\n\n")
    assert TextSource.of(str(path)).load() == Text("some \n text\n")
    assert TextSource.of(str(path)).entropy is None
    path.write_text("")
    for found, says in ((path, "empty"), (tmp_path / "none", "no such file"), (tmp_path, "a directory")):
        with pytest.raises(DataError, match=f"{found}: {says}"):
            TextSource.of(str(found)).load()
