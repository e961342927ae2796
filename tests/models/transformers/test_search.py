"""Beam search on distributions that are known: greedy with one place, never worse with more, exhaustive with enough."""

import itertools

import numpy as np
import pytest

from tinyattn.models.transformers.search import beam_search

SYMBOLS, LONGEST = 4, 4


def language(seed):
    """log p(symbol | beginning), random and fixed: a table that is filled on demand."""
    table = {}

    def log_probabilities(beginnings):
        for row in beginnings.tolist():
            if tuple(row) not in table:
                scores = 2 * np.random.default_rng([seed, *row]).standard_normal(SYMBOLS)
                table[tuple(row)] = scores - np.log(np.sum(np.exp(scores)))
        return np.array([table[tuple(row)] for row in beginnings.tolist()])

    return log_probabilities


def score(log_probabilities, symbols):
    return sum(log_probabilities(np.array([[0, *symbols[:i]]]))[0, symbol] for i, symbol in enumerate(symbols))


@pytest.mark.parametrize("seed", range(20))
def test_one_place_is_greedy_and_a_wider_beam_never_finds_less(seed):
    log_probabilities = language(seed)
    greedy = []
    while 0 not in greedy:
        likeliest = int(np.argmax(log_probabilities(np.array([[0, *greedy]]))[0]))
        greedy.append(likeliest if len(greedy) < LONGEST - 1 else 0)
    (found,) = beam_search(log_probabilities, 1, LONGEST)
    assert list(found.symbols) == greedy
    best = []
    for beam in range(1, 12):
        hypotheses = beam_search(log_probabilities, beam, LONGEST)
        for h in hypotheses:
            assert h.is_whole
            assert h.score == pytest.approx(score(log_probabilities, h.symbols))
        assert len(set(hypotheses)) == len(hypotheses)
        assert hypotheses == sorted(hypotheses, key=lambda h: -h.score)
        best.append(hypotheses[0].score)
    assert best == sorted(best)


def test_with_enough_places_it_finds_the_best_of_all():
    wins = 0
    for seed in range(20):
        log_probabilities = language(seed)
        words = (w for n in range(LONGEST) for w in itertools.product(range(1, SYMBOLS), repeat=n))
        best = max(score(log_probabilities, (*word, 0)) for word in words)
        assert beam_search(log_probabilities, SYMBOLS**LONGEST, LONGEST)[0].score == pytest.approx(best)
        wins += best > beam_search(log_probabilities, 1, LONGEST)[0].score + 1e-9
    assert wins > 3  # greedy decoding misses some of them


def test_what_it_writes_ends():
    found = beam_search(lambda beginnings: np.log(np.full((len(beginnings), 2), [1e-9, 1.0])), 1, 5)
    assert found[0].symbols == (1, 1, 1, 1, 0)
    assert len(beam_search(language(0), 1000, 2)) == SYMBOLS
    for beam in (0, 1001, 10**30):
        with pytest.raises(ValueError, match=f"beam is {beam}, expected 1 to 1000"):
            beam_search(language(0), beam, LONGEST)
