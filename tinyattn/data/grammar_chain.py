"""The grammar as a hidden Markov chain: what stands in a gap, given all around it, can be computed exactly.

No part of the grammar contains itself, so it can be written out: a state for every character that a rule writes, and
from each state the probabilities of the next. A text is then a walk through the states, one for each character.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .grammar import PART, RULES
from .masked_text import Masking
from .texts import TextBatch

ROWS = 64                                # windows that are worked on at a time
Ways = list[tuple[int, float]]           # states, and how probable it is to go on from each


@dataclass(frozen=True, eq=False)
class GrammarChain:
    """S states, of which each writes one character. `GrammarChain.of_rules()` is that of the grammar."""

    characters: tuple[str, ...]          # of each state
    parts: tuple[str, ...]               # the part of the grammar that each state is in, a key of RULES
    begins: np.ndarray                   # (S,): how probably a sentence begins there
    moves: np.ndarray                    # (S, S): from state to state of one sentence
    ends: np.ndarray                     # (S,): how probably it is the sentence's last

    @classmethod
    def of_rules(cls) -> GrammarChain:
        """The chain of RULES."""
        characters: list[str] = []
        parts: list[str] = []
        found: dict[tuple[int, int], float] = {}

        def write(part: str, ways: Ways) -> Ways:
            """Add the states of a part that is come to in these ways -> the ways in which it is left."""
            left: Ways = []
            for form, weight in RULES[part].items():
                here = [(state, p * weight / sum(RULES[part].values())) for state, p in ways]
                for i, piece in enumerate(PART.split(form)):             # characters, and names of parts, in turns
                    if i % 2:
                        here = write(piece, here)
                        continue
                    for character in piece:
                        found.update({(state, len(parts)): p for state, p in here})
                        here = [(len(parts), 1.0)]
                        characters.append(character)
                        parts.append(part)
                left += here
            return left

        ended, S = write("sentence", [(-1, 1.0)]), len(parts)
        moves, ends = np.zeros((S + 1, S)), np.zeros(S)
        for (state, then), p in found.items():
            moves[state, then] = p                                       # row -1 is how a sentence begins
        for state, p in ended:
            ends[state] = p
        return cls(tuple(characters), tuple(parts), moves[-1], moves[:-1], ends)

    @cached_property
    def anywhere(self) -> np.ndarray:
        """(S,): how much of a text each state writes. So likely is each where nothing is known.

        A sentence comes to state j v_j times on average, v = begins + v moves.
        """
        v = np.linalg.solve((np.eye(len(self.begins)) - self.moves).T, self.begins)
        return v / v.sum()

    def elsewhere(self, evidence: np.ndarray, first: np.ndarray) -> np.ndarray:
        """P(state | the evidence of all other places), by the forward-backward algorithm (Rabiner 1989, section III).

        Shapes: evidence (B, n, S), P(seen | state) up to a factor; first (S,), the chances at place 0
        -> (B, n, S), rows of sum 1, or of 0s where the evidence contradicts the grammar.
        """
        n, step = evidence.shape[1], self.moves + np.outer(self.ends, self.begins)
        before, after = np.empty_like(evidence), np.ones_like(evidence)
        before[:, 0] = first
        for i in range(1, n):                                            # P(state | evidence before it)
            before[:, i] = _shares(before[:, i - 1] * evidence[:, i - 1]) @ step
        for i in range(n - 2, -1, -1):                                   # P(evidence after it | state), up to a factor
            after[:, i] = _shares((evidence[:, i + 1] * after[:, i + 1]) @ step.T)
        return _shares(before * after)

    def posterior(self, ids: np.ndarray, known: Sequence[str], masking: Masking) -> np.ndarray:
        """P(token | all that is read, and that it was chosen), in a window from anywhere in a text.

        Nothing that reads the same can be better, on average. Shapes: ids (B, n), numbers of the V `known` characters,
        and V for [MASK] -> (B, n, V).
        """
        V, place = len(known), {character: i for i, character in enumerate(known)}
        writes = np.zeros((len(self.characters), V))                     # (S, V): 1 where a state writes a character
        for state, character in enumerate(self.characters):
            if character in place:
                writes[state, place[character]] = 1
        states = self.elsewhere(masking.seen(ids, V) @ writes.T, self.anywhere)
        return _shares((states @ writes) * masking.seen_where_chosen(ids, V))

    def loss(self, batch: TextBatch, known: Sequence[str], masking: Masking) -> float:
        """The mean cross-entropy, in nats, of `posterior` at the tokens that a batch asks for."""
        total = 0.0
        for i in range(0, len(batch.ids), ROWS):
            ids, targets, weight, _ = (part[i : i + ROWS] for part in batch)
            p = np.take_along_axis(self.posterior(ids, known, masking), targets[..., None], axis=-1)[..., 0]
            total -= float(np.sum(weight[weight > 0] * np.log(p[weight > 0])))
        return total / batch.total

    def parts_of(self, text: str) -> list[str]:
        """The part of the grammar that wrote each character. Raises ValueError where a sentence is not whole."""
        if not text.endswith(". "):
            raise ValueError("the text does not end with a whole sentence of the grammar")
        sentences = [sentence + ". " for sentence in text.split(". ")[:-1]]
        n, found = max(map(len, sentences)), []
        written = np.array(self.characters)
        for i in range(0, len(sentences), ROWS):
            some = sentences[i : i + ROWS]
            letters = np.array([list(sentence.ljust(n, "\0")) for sentence in some])
            evidence = ((letters[..., None] == written) | (letters == "\0")[..., None]).astype(float)
            states = self.elsewhere(evidence, self.begins) * evidence
            for sentence, likely in zip(some, states, strict=True):
                if not likely.any(axis=-1).all():
                    raise ValueError(f"{sentence!r} is no sentence of the grammar")
                found += [self.parts[state] for state in np.argmax(likely[: len(sentence)], axis=-1)]
        return found


def _shares(p: np.ndarray) -> np.ndarray:
    """Each row divided by its sum; rows of 0s stay."""
    total = p.sum(axis=-1, keepdims=True)
    return p / np.where(total > 0, total, 1)
