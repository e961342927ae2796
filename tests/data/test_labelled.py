"""Texts with labels: read, split by label, batch, generate."""

import numpy as np
import pytest

from tinyattn.data import DataError, LabelledSampler, LabelledSource, LabelledTexts, NumberedTexts, read_labelled
from tinyattn.data.labelled import Subjects


def test_a_file_has_the_label_first(tmp_path):
    path = tmp_path / "reviews.tsv"
    path.write_text("good\tI liked it\nbad\tnot at all\n")
    assert read_labelled(path) == LabelledTexts(("I liked it", "not at all"), ("good", "bad"))
    for text, says in (("good I liked it\n", "line 1 is 'good I liked it'"), ("good\ta\n\nbad\tb\n", "line 2 is ''"),
                       ("\ta\n", "line 1"), ("good\t\n", "line 1 is 'good"), ("good\ta\tb\n", "line 1")):  # fmt: skip
        path.write_text(text)
        with pytest.raises(DataError, match=rf"{says}.*, expected a label, one TAB, and a text"):
            read_labelled(path)


def test_each_part_has_each_label_and_no_text_of_another_part():
    texts = [(f"{label}{i % 25}", label) for label, n in (("often", 200), ("rare", 3)) for i in range(n)]
    parts = LabelledTexts.of(texts).split()
    assert sum(map(len, (parts.train, parts.valid, parts.test))) == len(texts)
    seen = [set(part.sources) for part in (parts.train, parts.valid, parts.test)]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 28
    assert all(set(part.targets) == {"often", "rare"} for part in (parts.train, parts.valid, parts.test))
    assert isinstance(parts.test, LabelledTexts)
    with pytest.raises(ValueError, match=r"too few texts of label 'x' \(2\), expected at least 3"):
        LabelledTexts.of([*texts, ("p", "x"), ("q", "x"), ("q", "x")]).split()


def test_batches_are_padded_and_slices_cut_to_their_longest():
    texts = [np.arange(1, n + 1) for n in (2, 9, 1)]
    whole = LabelledSampler(NumberedTexts(texts, np.array([1, 0, 1])), 2, 0).whole()
    assert whole.ids.tolist()[0] == [1, 2, *[0] * 7]
    assert (whole.lengths.tolist(), whole.labels.tolist(), whole.total) == ([2, 9, 1], [1, 0, 1], 3)
    slices = whole.slices(9)
    assert [part.ids.shape[1] for part in slices] == [part.lengths.max() for part in slices]
    assert sorted(row for part in slices for row in part.rows.tolist()) == [0, 1, 2]


def test_generated_sentences_have_the_number_of_their_verb():
    data = LabelledSource(None).load()
    assert (len(data), data.sizes["labels"]) == (200, 2)
    for text, label in zip(data.sources, data.targets, strict=True):
        first = text.split()[0]
        if first in ("a", "every"):
            assert label == "singular"
        elif first in ("two", "all"):
            assert label == "plural"
        if text.endswith(("sleeps.", "runs.")):
            assert label == "singular"
    assert data == LabelledSource(None).load() != Subjects(seed=1).labelled()
    assert LabelledSource.from_config(LabelledSource(None).describe()) == LabelledSource(None)
