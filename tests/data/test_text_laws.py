"""Windows, tokens and the grammar, against counting and enumeration."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tinyattn.data import Grammar, MaskedTextSampler, Masking, Text, TextSampler, TextSource, Tokens, learned_tokens
from tinyattn.data.grammar import PART, RULES
from tinyattn.data.tokenizers.characters import replaced


@pytest.mark.parametrize(
    ("n", "context", "size"), [(30, 7, 2), (9, 4, 3), (5, 9, 1), (40, 5, 3), (2, 1, 1), (31, 10, 8)]
)
def test_windows_may_begin_anywhere_and_every_token_is_asked_for(n, context, size):
    sampler = TextSampler(np.arange(n) + 50, context, size, 4)
    width = min(context, n - 1)
    windows = max(1, n // width - 1)
    assert (sampler.width, sampler.windows, sampler.steps) == (width, windows, max(1, windows // size))
    firsts, asked = set(), set()
    for epoch in range(60):
        batches = [sampler.batch(epoch * sampler.steps + step) for step in range(sampler.steps)]
        begins = sorted(np.concatenate([b.ids[:, 0] for b in batches]).tolist())
        assert begins == [begins[0] + i * width for i in range(windows)]
        firsts.add(begins[0] - 50)
        asked |= set(np.concatenate([b.targets.ravel() for b in batches]).tolist())
        for batch in batches:
            assert batch.targets.tolist() == (batch.ids + 1).tolist()
            assert ((batch.ids - batch.ids[:, :1]) == np.arange(width)).all()
            assert (batch.ids[:, 0] - begins[0] == batch.rows * width).all()
            assert batch.weight.dtype == np.float32
            assert batch.total == batch.ids.size
    assert firsts == set(range(n - 1 - windows * width + 1))
    assert asked == set(range(51, 50 + n))
    other = TextSampler(np.arange(n) + 50, context, size, 5)
    ours, theirs = ([s.batch(i * s.steps) for i in range(9)] for s in (sampler, other))
    assert any(a.rows.tolist() != b.rows.tolist() for a, b in zip(ours, theirs, strict=True)) == (windows > 1)
    begins = [[int(b.ids[0, 0] - b.rows[0] * width) for b in each] for each in (ours, theirs)]
    assert (begins[0] != begins[1]) == (len(firsts) > 1)


@pytest.mark.parametrize(("n", "context"), [(1, 4), (4, 4), (9, 4), (10, 3), (12, 4)])
def test_masked_windows_reach_the_last_token(n, context):
    """Nothing has to follow it. What is asked is what was there, and the seed decides what is chosen."""
    how = {"n_tokens": 30, "masking": Masking(chosen=0.5)}
    sampler = MaskedTextSampler(np.arange(n), context, 2, 0, **how)
    width = min(context, n)
    assert (sampler.width, sampler.windows) == (width, max(1, n // width - 1))
    seen = set()
    for step in range(80):
        batch = sampler.batch(step)
        seen |= set(batch.targets.ravel().tolist())
        assert set(batch.weight.ravel().tolist()) <= {0.0, 1.0}
    assert seen == set(range(n))
    whole, other = (MaskedTextSampler(np.arange(n), context, 2, seed, **how).whole() for seed in (0, 1))
    assert whole.targets.tolist() == other.targets.tolist()
    assert n == 1 or whole.weight.tolist() != other.weight.tolist()
    begins = [*range(0, n - width, width), n - width]
    assert whole.targets[:, 0].tolist() == begins


def test_what_validation_hides_is_not_what_the_first_step_hides():
    """Of a text of one window both read the same tokens."""
    sampler = MaskedTextSampler(np.arange(60), 60, 1, 0, n_tokens=60, masking=Masking(chosen=0.5))
    whole, first = sampler.whole(), sampler.batch(0)
    assert whole.targets.tolist() == first.targets.tolist()
    assert whole.weight.tolist() != first.weight.tolist()


@pytest.mark.parametrize("context", [1, 2, 5, 6])
def test_measured_windows_overlap_by_half(context):
    n = 23
    whole = TextSampler(np.arange(n), context, 3, 0).whole()
    half = max(1, context // 2)
    begins = [*range(0, n - 1 - context, half), n - 1 - context]
    assert whole.ids[:, 0].tolist() == begins
    assert whole.rows.tolist() == list(range(len(begins)))
    count = np.zeros(n)
    for row, begin in enumerate(begins):
        for place in range(context):
            first = not any(b <= begin + place < b + context for b in begins[:row])
            assert whole.weight[row, place] == first
            count[begin + place + 1] += first
    assert count.tolist() == [0, *[1] * (n - 1)]
    parts = whole.slices(10)
    assert len(parts) == -(-whole.ids.size // 10)
    assert sum(part.total for part in parts) == n - 1


@pytest.mark.parametrize("n", [20, 29, 30, 99])
def test_a_text_is_cut_at_its_tenths(n):
    text = "".join(chr(97 + i % 26) for i in range(n))
    parts = Text(text).split()
    assert (parts.train.text, parts.valid.text, parts.test.text) == (
        text[: n - 2 * (n // 10)], text[n - 2 * (n // 10) : n - n // 10], text[n - n // 10 :]
    )  # fmt: skip
    assert parts.tested == f"{n // 10} characters"
    with pytest.raises(ValueError, match="the text has 19 characters, expected at least 20"):
        Text(text[:19]).split()
    assert Text(text).sizes == {"characters": n, "different ones": min(n, 26)}
    assert Text.of(text) == Text(text) == Text.of(Text(text))
    assert Text(text).fingerprint() != Text(text[:-1] + "!").fingerprint()
    assert len(Text(text).fingerprint()) == 16


def sentences(part="sentence"):
    """(text, probability) of everything that a part may become."""
    total = sum(RULES[part].values())
    for form, weight in RULES[part].items():
        found = [("", weight / total)]
        for i, piece in enumerate(PART.split(form)):
            more = [(piece, 1.0)] if i % 2 == 0 else list(sentences(piece))
            found = [(text + tail, p * q) for text, p in found for tail, q in more]
        yield from found


def test_the_entropy_is_that_of_all_sentences_enumerated():
    chances = dict(sentences())
    assert len(chances) > 1000
    assert len(chances) == sum(1 for _ in sentences())  # each can be made in one way only
    assert sum(chances.values()) == pytest.approx(1, rel=1e-9)
    nats = -sum(p * math.log(p) for p in chances.values())
    length = sum(p * len(text) for text, p in chances.items())
    assert Grammar().entropy == pytest.approx(nats / length, rel=1e-9)
    assert TextSource.of(None).entropy == Grammar().entropy
    rng = np.random.default_rng(0)
    for _ in range(60):
        text, score = Grammar().draw(rng)
        assert score == pytest.approx(math.log(chances[text]), rel=1e-9)
    assert Grammar(sentences=5).generate() == Grammar(sentences=5).generate() != Grammar(sentences=5, seed=1).generate()
    text = Grammar(sentences=5, seed=3).generate().text
    assert text.count(". ") == 5
    assert all(sentence + ". " in chances for sentence in text.split(". ")[:-1])


def test_every_form_of_a_part_comes_as_often_as_its_weight_says():
    rng, grammar, n = np.random.default_rng(1), Grammar(), 3000
    drawn = [grammar.draw(rng, "noun")[0] for _ in range(n)]
    for noun, weight in RULES["noun"].items():
        p = weight / 8
        assert abs(drawn.count(noun) / n - p) < 5 * math.sqrt(p * (1 - p) / n)


def merged(tokens, words, merges):
    """Plain encoding: one merge after the other, over the whole text."""
    for new, pair in enumerate(merges, start=tokens):
        for word in words:
            i = 0
            while i < len(word) - 1:
                if (word[i], word[i + 1]) == pair:
                    word[i : i + 2] = [new]
                i += 1
    return [token for word in words for token in word]


@pytest.mark.parametrize("seed", range(8))
def test_merges_are_those_of_counting_anew_at_every_merge(seed):
    """Ties go to the smaller numbers; a pair that stands there once is not merged; a run of letters joins in pairs."""
    rng = np.random.default_rng(seed)
    text = "".join(rng.choice(list("abc \n"), 50 + 5 * seed, p=[0.4, 0.2, 0.15, 0.2, 0.05]))
    characters = sorted(set(text))
    words, at = [], 0
    while at < len(text):  # a blank joins the letters after it
        end = at + (text[at] == " " and at + 1 < len(text) and not text[at + 1].isspace())
        end += 1
        while end < len(text) and not text[end - 1].isspace() and not text[end].isspace():
            end += 1
        words.append([characters.index(c) for c in text[at:end]])
        at = end
    assert sum(map(len, words)) == len(text)
    left, expected = [list(word) for word in words], []
    while len(expected) < 25:
        counts = {}
        for word in left:
            for pair in pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        often = max(counts.values(), default=0)
        if often < 2:
            break
        best = min(pair for pair, count in counts.items() if count == often)
        expected.append(best)
        left = [replaced(word, best, len(characters) + len(expected) - 1) for word in left]
    tokens = learned_tokens(text, 25)
    assert [tuple(pair) for pair in tokens.merges.tolist()] == expected
    assert tokens.encode(text).tolist() == merged(len(characters), words, expected)
    assert len(tokens) == len(characters) + len(expected)
    assert len(learned_tokens(text, 3)) == len(characters) + min(3, len(expected))
    assert [tokens.strings[a] + tokens.strings[b] for a, b in expected] == tokens.strings[len(characters) :]


def test_a_pair_is_replaced_from_left_to_right():
    assert replaced([1, 1, 1, 2, 1, 1], (1, 1), 9) == [9, 1, 2, 9]
    assert replaced([1, 2], (2, 1), 9) == [1, 2]
    assert replaced([], (1, 1), 9) == []
    with pytest.raises(ValueError, match="a merge uses a token that is not defined before it"):
        Tokens(np.array(["a"]), [(0, -1)])
    assert Tokens(np.array(["a"]), [(0, 0), (1, 1)]).strings == ["a", "aa", "aaaa"]
    assert Tokens(np.array(["a"]), [(0, 0), (1, 1)]).encode("aaaaaaa").tolist() == [2, 1, 0]


def test_the_grammar_is_the_one_that_published_numbers_are_of():
    assert Grammar().entropy == pytest.approx(0.27334908594912016, rel=1e-12)
    with pytest.raises(ValueError, match="the text has 1 token, expected at least 2"):
        TextSampler(np.arange(1), 4, 1, 0)
