"""Tasks of sequences: every answer is what plain reading of the rule says, and batches are drawn anew."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tinyattn.data import SEQUENCE_TASKS, Parts, SequencePart, SequenceTaskSource, TaskSampler
from tinyattn.data.sequence_tasks import Balance, Count, Induction, Recall, SelectiveCopy

TINY = {"length": 20, "sequences": 50, "held_out": 40}
SMALL = {
    "recall": Recall(pairs=3, keys=5, values=4, **TINY),
    "induction": Induction(tokens=5, **TINY),
    "selective-copy": SelectiveCopy(copied=4, tokens=3, **TINY),
    "count": Count(modulus=3, **TINY),
    "balance": Balance(**TINY),
}


def read_recall(ids, task):
    head = 2 * task.pairs
    known = dict(zip(ids[0:head:2], ids[1:head:2], strict=True))
    yield from ((t, known[ids[t]]) for t in range(head, len(ids)))
    assert len(known) == task.pairs
    assert set(known) <= set(range(task.keys))
    assert set(known.values()) <= set(range(task.keys, task.n_tokens))


def read_induction(ids, task):
    for t, token in enumerate(ids):
        before = [s for s in range(t) if ids[s] == token]
        if before:
            yield t, ids[before[-1] + 1]


def read_copy(ids, task):
    copied = [token for token in ids if token > 1]
    assert ids[-task.copied :] == [1] * task.copied
    assert len(copied) == task.copied
    yield from zip(range(len(ids) - task.copied, len(ids)), copied, strict=True)


def read_count(ids, task):
    for t in range(len(ids)):
        yield t, sum(ids[: t + 1]) % task.modulus


def read_balance(ids, task):
    n = ids.count(1)
    assert ids == [1] * n + [2] * n + [0] * (len(ids) - 2 * n)
    yield from ((t, 2) for t in range(n, 2 * n - 1))  # any of these may be asked for
    yield 2 * n - 1, 0


READERS = dict(zip(SMALL, (read_recall, read_induction, read_copy, read_count, read_balance), strict=True))


@pytest.mark.parametrize("name", SEQUENCE_TASKS)
def test_every_answer_is_what_the_rule_says(name):
    task = SMALL[name]
    drawn = task.generate().held_out()
    assert drawn.ids.shape == drawn.targets.shape == drawn.has_answer.shape == (40, 20)
    assert min(drawn.ids.min(), drawn.targets.min()) >= 0
    assert max(drawn.ids.max(), drawn.targets.max()) < task.n_tokens
    for ids, targets, asked in zip(*(array.tolist() for array in drawn), strict=True):
        answers, rule = {t: target for t, target in enumerate(targets) if asked[t]}, dict(READERS[name](ids, task))
        if name == "balance":
            assert len(answers) == 2
            assert max(rule) in answers
            rule = {t: rule[t] for t in answers}
        assert answers == rule


@pytest.mark.parametrize("modulus", range(2, 9))
def test_balance_is_not_told_by_the_place_of_a_token(modulus):
    """Nor by any small counter: at best it is right as often as the places of one remainder say."""
    drawn = Balance(length=128, held_out=4000).generate().held_out()
    rows, places = np.nonzero(drawn.has_answer)
    ends = drawn.targets[rows, places] == 0
    back = 2 * np.sum(drawn.ids == 1, axis=1)[rows] - 1 - places         # how many b are still to come
    assert np.mean((back % modulus == 0) == ends) < 1 - 0.15 / modulus
    assert max(np.mean((places % modulus == r) == ends) for r in range(modulus)) < 0.78
    if modulus == 2:
        assert np.mean((places % 2 == 1) == ends) == pytest.approx(Balance(length=128).by_place, abs=0.01)


@pytest.mark.parametrize("name", SEQUENCE_TASKS)
def test_chance_is_how_often_the_best_constant_guess_is_right(name):
    task = SEQUENCE_TASKS[name](held_out=4000)
    drawn = task.generate().held_out()
    counts = np.bincount(drawn.targets[drawn.has_answer])
    assert counts.max() / counts.sum() == pytest.approx(task.chance, rel=0.15)


def pairs_to_remember(ids, task):
    return frozenset(zip(ids[0 : 2 * task.pairs : 2], ids[1 : 2 * task.pairs : 2], strict=True))


def followers_to_remember(ids, task):
    followers = dict(pairwise(ids))
    return (*sorted(followers.items()), ids[-1]) if len(followers) == task.tokens else None


REMEMBERED = {
    "recall": (Recall(pairs=2, keys=4, values=2, length=6, held_out=4000), pairs_to_remember),
    "induction": (Induction(tokens=3, held_out=4000), followers_to_remember),
    "selective-copy": (SelectiveCopy(copied=3, tokens=3, length=9, held_out=4000),
                       lambda ids, task: tuple(token for token in ids if token > 1)),
    "count": (Count(modulus=5, held_out=4000), lambda ids, task: sum(ids) % task.modulus),
    "balance": (Balance(length=15, held_out=4000), lambda ids, task: ids.count(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCE_TASKS)
def test_bits_count_what_there_may_be_to_remember(name):
    """All of it comes up among many small sequences, and nothing else."""
    task, remembered = REMEMBERED[name]
    found = {remembered(ids, task) for ids in task.generate().held_out().ids.tolist()} - {None}
    assert len(found) == round(2**task.bits)


def test_a_longer_sequence_asks_for_no_more_memory_but_to_balance():
    for name, task in SMALL.items():
        assert (replace(task, length=800).bits == task.bits) == (name != "balance")


@pytest.mark.parametrize("name", SEQUENCE_TASKS)
def test_parts_are_different_sequences_and_the_same_ones_again(name):
    parts = SMALL[name].generate().split()
    assert isinstance(parts, Parts)
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [50, 40, 40]
    assert parts.tested == "40 sequences"
    prints = [part.fingerprint() for part in (parts.train, parts.valid, parts.test)]
    assert len(set(prints)) == 3
    assert prints == [part.fingerprint() for part in SMALL[name].generate().split().__dict__.values()]
    assert SequencePart.of(SMALL[name]) == parts.test


def test_batches_are_drawn_anew_at_every_step_and_are_a_function_of_it():
    task = SMALL["induction"]
    sampler = TaskSampler(task.generate(), 8, seed=1)
    assert sampler.steps == 6
    batch = sampler.batch(4)
    assert batch.ids.shape == (8, 20)
    assert batch.total == batch.weight.sum() < batch.weight.size
    np.testing.assert_array_equal(batch.ids, sampler.batch(4).ids)
    for other in (sampler.batch(5), sampler.batch(10), TaskSampler(task.generate(), 8, seed=2).batch(4)):
        assert not np.array_equal(batch.ids, other.ids)
    np.testing.assert_array_equal(sampler.whole().ids, task.generate().held_out().ids)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Recall(pairs=9, keys=8), "pairs is 9 and keys 8, expected pairs <= keys"),
        (lambda: Recall(length=16), "length is 16 and pairs 8, expected length > 2 pairs"),
        (lambda: SelectiveCopy(copied=9, length=17), "length is 17 and copied 9, expected length >= 2 copied"),
        (lambda: SequencePart.of([[1, 0]]), r"data is \[\[1, 0\]\], expected a task of sequences"),
        (lambda: Balance(length=3), "length is 3, expected at least 4"),
        (lambda: Count(modulus=1), "modulus is 1"),
        (lambda: SequenceTaskSource.of("recal"), "--task is 'recal', expected .*did you mean recall"),
    ],
)
def test_what_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_a_source_is_what_it_describes():
    source = SequenceTaskSource.of("count", length=10)
    assert SequenceTaskSource.from_config(source.describe()) == source
    assert (source.name, source.title) == ("count", "the task count: the number of ones so far, modulo k")
    assert source.load() == Count(length=10).generate()
    assert SequenceTaskSource.of().name == "recall"


@pytest.mark.parametrize("length", [4, 6, 8, 12])
def test_balance_is_guessed_by_odd_and_even_places_as_often_as_it_says(length):
    """Of short sequences, where it is more than of long ones."""
    drawn = Balance(length=length, held_out=20000).generate().held_out()
    rows, places = np.nonzero(drawn.has_answer)
    ends = drawn.targets[rows, places] == 0
    assert np.mean((places % 2 == 1) == ends) == pytest.approx(Balance(length=length).by_place, abs=0.008)
