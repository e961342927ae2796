"""Masked text: what is chosen and what becomes of it; the grammar as a chain, which says what could be known."""

import re
from collections import Counter

import numpy as np
import pytest

from tinyattn.data import Grammar, GrammarChain, MaskedTextSampler, Masking, TextBatch, learned_tokens

CHAIN = GrammarChain.of_rules()
MASKINGS = [{}, {"hidden": 1.0, "swapped": 0.0}, {"chosen": 0.5, "hidden": 0.2, "swapped": 0.3}]


@pytest.mark.parametrize("shares", MASKINGS, ids=str)
def test_shares_are_those_that_were_asked_for(shares):
    masking, ids = Masking(**shares), np.random.default_rng(0).integers(0, 5, (100, 400))
    read, chosen = masking.masked(ids, 5, np.random.default_rng(1))
    np.testing.assert_array_equal(read[~chosen], ids[~chosen])
    assert chosen.mean() == pytest.approx(masking.chosen, abs=0.01)
    assert (read == 5)[chosen].mean() == pytest.approx(masking.hidden, abs=0.02)
    changed = (read != ids) & (read != 5)
    assert changed[chosen].mean() == pytest.approx(masking.swapped * 4 / 5, abs=0.02)


@pytest.mark.parametrize("shares", MASKINGS, ids=str)
def test_what_is_read_has_the_probability_that_masking_says(shares):
    masking, ids = Masking(**shares), np.random.default_rng(0).integers(0, 3, (100, 900))
    read, chosen = masking.masked(ids, 3, np.random.default_rng(1))
    everything = np.arange(4)
    for said, among in ((masking.seen(everything, 3), ids >= 0), (masking.seen_where_chosen(everything, 3), chosen)):
        np.testing.assert_allclose(said.sum(axis=0), 1, rtol=1e-12)
        for token in range(3):
            counts = np.bincount(read[among & (ids == token)], minlength=4)
            np.testing.assert_allclose(counts / counts.sum(), said[:, token], atol=0.02)


def test_one_token_at_least_is_asked_for():
    for seed in range(20):
        _, chosen = Masking(chosen=0.01).masked(np.zeros((1, 2), int), 1, np.random.default_rng(seed))
        assert chosen.any()


def test_what_cannot_be_is_refused():
    for shares, says in (
        ({"chosen": 0.0}, "chosen is 0.0, expected above 0 and at most 1"),
        ({"chosen": 1.5}, "chosen is 1.5, expected above 0 and at most 1"),
        ({"hidden": -0.1}, "hidden is -0.1, expected 0 to 1"),
        ({"hidden": 0.95}, "hidden 0.95 and swapped 0.1 are more than 1 together"),
    ):
        with pytest.raises(ValueError, match=says):
            Masking(**shares)


def sampler(n, context=8, **masking):
    return MaskedTextSampler(np.arange(n) % 11, context, 3, 0, n_tokens=11, masking=Masking(**masking))


def test_batches_are_windows_of_the_text_masked_anew_at_every_step():
    made = sampler(103, chosen=0.5)
    one, other = made.batch(0), made.batch(made.steps * 2)
    for batch in (one, other):
        np.testing.assert_array_equal(np.diff(batch.targets) % 11, 1)
        np.testing.assert_array_equal(batch.ids[batch.weight == 0], batch.targets[batch.weight == 0])
        assert 0.7 < np.mean(batch.ids[batch.weight == 1] == 11) < 0.95
    assert not np.array_equal(one.weight, other.weight)
    for mine, again in zip(one, made.batch(0), strict=True):
        np.testing.assert_array_equal(mine, again)


@pytest.mark.parametrize("n", [1, 3, 8, 9, 16, 50])
def test_measured_each_token_counts_once_and_always_in_the_same_way(n):
    whole = sampler(n, chosen=1.0).whole()
    counted = whole.targets[whole.weight > 0]
    assert sorted(counted) == sorted(np.arange(n) % 11)
    some = sampler(n, chosen=0.3)
    np.testing.assert_array_equal(some.whole().ids, some.whole().ids)


def test_the_chain_writes_what_the_grammar_writes():
    """Its mean length of a sentence is the grammar's; each character is as often as in a text."""
    assert 1 / (CHAIN.anywhere @ CHAIN.ends) == pytest.approx(Grammar()._expected("sentence")[1], rel=1e-12)
    np.testing.assert_allclose(CHAIN.moves.sum(axis=1) + CHAIN.ends, 1, rtol=1e-12)
    assert CHAIN.begins.sum() == pytest.approx(1)
    text = Grammar(sentences=4000).generate().text
    counts = Counter(text)
    for character in counts:
        here = sum(p for p, c in zip(CHAIN.anywhere, CHAIN.characters, strict=True) if c == character)
        assert counts[character] / len(text) == pytest.approx(here, abs=0.004)


@pytest.fixture(scope="module")
def text():
    return Grammar(sentences=12000).generate().text


@pytest.fixture(scope="module")
def known(text):
    return learned_tokens(text)


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize("window", ["the _at", "s_e", "o__", "_s the", ". t_", "the owl that _"])
def test_what_stands_in_a_gap_comes_as_often_as_the_chain_says(window, text, known):
    """Blanks are "_", the first one is asked for: counted in a text, where nothing is swapped."""
    hidden, V = Masking(hidden=1.0, swapped=0.0), len(known)
    ids = known.encode(window.replace("_", "t"))
    ids[[i for i, c in enumerate(window) if c == "_"]] = V
    at = window.index("_")
    p = CHAIN.posterior(ids[None], known.strings, hidden)[0, at]
    pattern = "".join("(.)" if c == "_" else re.escape(c) for c in window)
    found = Counter(match[0] if isinstance(match, tuple) else match for match in re.findall(f"(?={pattern})", text))
    total = sum(found.values())
    assert total > 100
    for i, character in enumerate(known.strings):
        spread = 4 * np.sqrt(p[i] * (1 - p[i]) / total) + 1e-9
        assert found[character] / total == pytest.approx(p[i], abs=spread)


def test_its_loss_is_that_of_its_posterior_and_no_other_is_smaller(text, known):
    """Where what is swapped counts, too: a model that is surer, or less sure, loses more on average."""
    masking = Masking(chosen=0.4)
    batch = MaskedTextSampler(known.encode(text[:8000]), 64, 3, 0, n_tokens=len(known), masking=masking).whole()
    least = CHAIN.loss(batch, known.strings, masking)
    p = CHAIN.posterior(batch.ids, known.strings, masking)
    asked = batch.weight > 0
    losses = {}
    for power in (0.5, 1.0, 2.0):
        q = p[asked] ** power
        q /= q.sum(axis=-1, keepdims=True)
        losses[power] = -np.mean(np.log(q[np.arange(len(q)), batch.targets[asked]]))
    assert losses[1.0] == pytest.approx(least)
    assert min(losses[0.5], losses[2.0]) > 1.02 * least
    assert CHAIN.loss(batch, known.strings, Masking(chosen=0.4, hidden=0.5, swapped=0.02)) > 1.02 * least


def test_parts_are_those_that_wrote_each_character():
    parts = CHAIN.parts_of("two cats see the dog. a goat runs. ")
    words = {"two": "many", "cat": "noun", "see": "see", "the": "other", "dog": "noun", "a ": "one", "runs": "does"}
    text = "two cats see the dog. a goat runs. "
    for word, part in words.items():
        at = text.index(word)
        assert set(parts[at : at + len(word)]) == {part}
    assert len(parts) == len(text)
    assert CHAIN.parts_of("the cat runs. " + 40 * text) == CHAIN.parts_of("the cat runs. ") + 40 * parts
    for wrong, says in (
        ("the cat", "does not end with a whole sentence"),
        ("", "does not end with a whole sentence"),
        ("the cat runs. the cat see the dog. ", "'the cat see the dog. ' is no sentence of the grammar"),
    ):
        with pytest.raises(ValueError, match=says):
            CHAIN.parts_of(wrong)


def test_a_text_that_lacks_characters_of_the_grammar_is_no_trouble():
    text = "the cats sleep. " * 20
    few = learned_tokens(text)
    batch = MaskedTextSampler(few.encode(text), 16, 3, 0, n_tokens=len(few), masking=Masking()).whole()
    assert isinstance(batch, TextBatch)
    assert 0 < CHAIN.loss(batch, few.strings, Masking()) < 1


def test_where_none_is_chosen_any_token_may_be_the_one():
    draws = (np.random.default_rng(seed) for seed in range(60))
    chosen = [Masking(chosen=1e-9).masked(np.zeros((1, 4), int), 1, rng)[1] for rng in draws]
    assert {int(np.argmax(one)) for one in chosen} == {0, 1, 2, 3}
