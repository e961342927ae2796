"""Tokenizers from elsewhere, and token numbers where there is none."""

import json
import os
import sys
from unittest.mock import Mock

import numpy as np
import pytest

from tinyattn.data import TOKENIZERS, DataError, TokenizerFile, TokenNumbers, Tokens, tokenizer_of

TEXT = "The cat's café: 3 mice, 😀 and\n\n  a naïve dog."


@pytest.fixture(scope="module")
def package():
    return pytest.importorskip("tokenizers", reason="tokenizers of others are read with the package tokenizers")


@pytest.fixture(scope="module")
def of_bytes(package):
    """As GPT-2's: merges of bytes, and one special token."""
    found = package.Tokenizer(package.models.BPE())
    found.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = package.decoders.ByteLevel()
    alphabet = package.pre_tokenizers.ByteLevel.alphabet()
    how = {"initial_alphabet": alphabet, "special_tokens": ["<|endoftext|>"], "show_progress": False}
    found.train_from_iterator(["the cat sat on the mat. " * 3], package.trainers.BpeTrainer(vocab_size=270, **how))
    return found


@pytest.fixture(scope="module")
def of_pieces(package):
    """As LLaMA's: a mark for blanks, one before the text as well, and a token that begins every text."""
    found = package.Tokenizer(package.models.BPE())
    found.pre_tokenizer = package.pre_tokenizers.Metaspace(prepend_scheme="first")
    found.decoder = package.decoders.Metaspace(prepend_scheme="first")
    how = {"special_tokens": ["<s>"], "show_progress": False}
    found.train_from_iterator(["the cat sat on the mat"], package.trainers.BpeTrainer(vocab_size=40, **how))
    found.post_processor = package.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return found


def as_folder(tokenizer, folder):
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    return folder


def test_a_tokenizer_json_reads_as_its_package_does_and_nothing_is_lost(of_bytes, tmp_path):
    found = tokenizer_of(as_folder(of_bytes, tmp_path), 300)
    assert len(found) == 300
    assert found.encode(TEXT).tolist() == of_bytes.encode(TEXT).ids
    assert found.text(found.encode(TEXT)) == TEXT
    assert found.encode("<|endoftext|>cat").tolist()[0] == 0


def test_the_two_files_of_gpt_2_are_the_same_tokenizer(of_bytes, tmp_path):
    of_bytes.model.save(str(tmp_path))
    found = tokenizer_of(tmp_path, 270)
    for text in (TEXT, "the cat<|endoftext|>sat"):
        assert found.encode(text).tolist() == of_bytes.encode(text).ids
        assert found.text(found.encode(text)) == text.replace("<|endoftext|>", "")


def test_what_follows_keeps_its_first_blank_and_special_tokens_are_not_said(of_pieces, tmp_path):
    found = tokenizer_of(as_folder(of_pieces, tmp_path), 40)
    ids = found.encode("the cat").tolist()
    assert ids[0] == 0                                                  # <s>
    assert found.after([*ids, *found.encode("sat")[1:]], len(ids)) == " sat"
    assert found.text(ids) == "the cat"


@pytest.mark.parametrize("kind", ["of_bytes", "of_pieces"])
def test_what_a_models_file_keeps_is_the_tokenizer(kind, request, tmp_path):
    found = tokenizer_of(as_folder(request.getfixturevalue(kind), tmp_path), 300, [2, 5])
    again = TOKENIZERS[found.name].restored(found.ids, found.arrays())
    assert again.encode("the mat").tolist() == found.encode("the mat").tolist()
    assert (len(again), again.ends) == (300, {2, 5})


def test_a_length_that_training_wanted_is_not_kept(of_bytes, tmp_path):
    asked = type(of_bytes).from_str(of_bytes.to_str())
    asked.enable_truncation(3)
    asked.enable_padding(length=100)
    found = tokenizer_of(as_folder(asked, tmp_path), 300)
    assert found.encode(TEXT).tolist() == of_bytes.encode(TEXT).ids


def test_without_files_text_is_token_numbers(tmp_path):
    found = tokenizer_of(tmp_path, 30, [7])
    assert type(found) is TokenNumbers
    assert found.encode(" 3 29\n0").tolist() == [3, 29, 0]
    assert found.text(np.array([3, 29, 0])) == "3 29 0"
    assert found.after([3, 29, 0], 1) == " 29 0"
    again = TokenNumbers.restored(found.ids, found.arrays())
    assert (len(again), again.ends) == (30, {7})
    for text, says in (("", "the text is empty"), (" ", "is empty: expected at least one token number"),
                       ("1 30", "'30' of the text is no token, expected numbers from 0 to 29"),
                       ("9" * 5000, "999' of the text is no token"),
                       ("-1", "'-1' of the text"), ("1 x", "'x' of the text"), ("²", "'²' of the text")):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            found.encode(text)


def test_a_file_that_is_no_tokenizer_or_has_more_tokens_than_the_model(of_bytes, package, tmp_path):
    folder, most = as_folder(of_bytes, tmp_path), of_bytes.get_vocab_size() - 1
    assert len(tokenizer_of(folder, most + 1)) == most + 1
    with pytest.raises(DataError, match=f"json: it has a token {most}, and the model has tokens 0 to {most - 1}"):
        tokenizer_of(folder, most)
    for content in (b"{}", b"", b"\xff\xfe"):
        (folder / "tokenizer.json").write_bytes(content)
        with pytest.raises(DataError, match=r"tokenizer.json: "):
            tokenizer_of(folder, 300)
    (folder / "tokenizer.json").unlink()
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    (folder / "vocab.json").write_text(json.dumps({"a": 0}))
    with pytest.raises(DataError, match=r"vocab.json: with merges.txt it is no byte-pair encoding"):
        tokenizer_of(folder, 300)
    (folder / "vocab.json").unlink()
    with pytest.raises(DataError, match=r"merges.txt is there and no vocab.json"):
        tokenizer_of(folder, 300)
    (folder / "merges.txt").rename(folder / "vocab.json")
    with pytest.raises(DataError, match=r"vocab.json is there and no merges.txt"):
        tokenizer_of(folder, 300)
    (folder / "vocab.json").unlink()
    assert type(tokenizer_of(folder, 300)) is TokenNumbers
    pieces = package.Tokenizer(package.models.BPE(vocab={"a": 0}, merges=[]))
    with pytest.raises(ValueError, match="the tokenizer has no token for the text 'x'"):
        TokenizerFile(1, pieces.to_str()).encode("x")
    with pytest.raises(ValueError, match="the text is empty"):
        TokenizerFile(1, pieces.to_str()).encode("")


BPE = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
CATASTROPHIC = {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated", "invert": False}
VERSION = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None}


def test_a_panic_of_the_package_is_a_refusal_and_ctrl_c_is_not(package, monkeypatch, capfd):
    """Both are BaseExceptions. A panic prints 84 lines by itself: they are not for the user."""
    parts = {"pre_tokenizer": CATASTROPHIC, "post_processor": None, "decoder": None, "model": BPE}
    found = TokenizerFile(2, json.dumps(VERSION | parts))
    for text in ("a" * 42 + "b", "a\udcff"):
        with pytest.raises(ValueError, match=r"tokenizer\.json cannot read the text 'a"):
            found.encode(text)
    monkeypatch.setattr(found, "_reader", Mock(encode=Mock(side_effect=KeyboardInterrupt)))
    with pytest.raises(KeyboardInterrupt):
        found.encode("a")
    with pytest.raises(ValueError, match="it describes no tokenizer: "):
        TokenizerFile(2, json.dumps({"model": BPE | {"vocab": {"a": 0, "b": 0}, "merges": [["a", "b"]]}}))
    assert capfd.readouterr() == ("", "")
    print("printed again", file=sys.stderr)
    assert capfd.readouterr().err == "printed again\n"


def test_replacements_that_could_make_a_text_a_thousand_times_as_long_are_refused(package):
    def reader(doublings, decoder=None):
        step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
        chain = {"type": "Sequence", "normalizers": [step] * doublings}
        parts = {"pre_tokenizer": None, "post_processor": None, "decoder": decoder, "model": BPE, "normalizer": chain}
        return TokenizerFile(2, json.dumps(VERSION | parts))

    assert reader(9).encode("a").tolist() == [0] * 512
    with pytest.raises(ValueError, match="its replacements can make a text 1,024 times as long"):
        reader(10)
    with pytest.raises(ValueError, match="its replacements can make a text 1,500 times as long"):
        reader(1, {"type": "Replace", "pattern": {"String": "ab"}, "content": "b" * 3000})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_only_regular_files_are_opened(package, tmp_path):
    for pipe, *others in (("tokenizer.json",), ("merges.txt", "vocab.json")):
        folder = tmp_path / pipe
        folder.mkdir()
        os.mkfifo(folder / pipe)
        for other in others:
            (folder / other).write_text("{}")
        with pytest.raises(DataError, match="a pipe, a device or a socket, expected a regular file"):
            TokenizerFile.of_folder(folder, 10, ())


def test_without_the_package_it_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ImportError, match=r"needs the package tokenizers: pip install 'tinyattn.export.'"):
        tokenizer_of(tmp_path, 3)


def test_tokens_that_were_learned_here_are_kept_too():
    found = Tokens(np.array(["a", "b"]), [[0, 1]])
    again = TOKENIZERS["characters"].restored(found.ids, found.arrays())
    assert again.encode("abb").tolist() == [2, 1]
    assert again.after([2, 1], 1) == "b"
    assert not again.ends
