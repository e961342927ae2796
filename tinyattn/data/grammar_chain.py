"""The grammar as a hidden Markov chain, which gives the exact distribution of a token in a gap.

The grammar is not recursive, so it expands into finitely many states: one for every character of a rule's expansion,
with the probabilities of the next state. A text is a walk through the states, one for each character.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .grammar import PART, RULES
from .masked_text import Masking
from .texts import TextBatch

ROWS = 64                                # windows or sentences in one computation
Ways = list[tuple[int, float]]           # states, and the probability of leaving from each


@dataclass(frozen=True, eq=False)
class GrammarChain:
    """S states, each of which writes one character. `GrammarChain.of_rules()` is the chain of the grammar."""

    characters: tuple[str, ...]          # of each state
    parts: tuple[str, ...]               # the part of the grammar of each state, a key of RULES
    begins: np.ndarray                   # (S,): P(the first state of a sentence)
    moves: np.ndarray                    # (S, S): P(next state of the same sentence | state)
    ends: np.ndarray                     # (S,): P(the sentence ends | state)

    @classmethod
    def of_rules(cls) -> "GrammarChain":
        characters: list[str] = []
        parts: list[str] = []
        steps: dict[tuple[int, int], float] = {}

        def write(part: str, ways: Ways) -> Ways:
            """Add the states of a part. `ways` lead into it; returns the ways that lead out of it."""
            left: Ways = []
            for form, weight in RULES[part].items():
                here = [(state, p * weight / sum(RULES[part].values())) for state, p in ways]
                for i, piece in enumerate(PART.split(form)):             # characters and names of parts alternate
                    if i % 2:
                        here = write(piece, here)
                        continue
                    for character in piece:
                        steps.update({(state, len(parts)): p for state, p in here})
                        here = [(len(parts), 1.0)]
                        characters.append(character)
                        parts.append(part)
                left += here
            return left

        ended, S = write("sentence", [(-1, 1.0)]), len(parts)
        moves, ends = np.zeros((S + 1, S)), np.zeros(S)
        for (state, then), p in steps.items():
            moves[state, then] = p                                       # row -1 is the beginning of a sentence
        for state, p in ended:
            ends[state] = p
        return cls(tuple(characters), tuple(parts), moves[-1], moves[:-1], ends)

    @cached_property
    def anywhere(self) -> np.ndarray:
        """(S,): the stationary distribution. A sentence visits state j v_j times on average, v = begins + v moves."""
        v = np.linalg.solve((np.eye(len(self.begins)) - self.moves).T, self.begins)
        return v / v.sum()

    def elsewhere(self, evidence: np.ndarray, first: np.ndarray) -> np.ndarray:
        """P(state | evidence at all other positions), by the forward-backward algorithm (Rabiner 1989, section III).

        Shapes: evidence (B, n, S), P(seen | state) up to a factor; first (S,), P(state at position 0)
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
        """P(token | the window, the token was chosen for prediction). No model can predict better.

        Shapes: ids (B, n), numbers of the V `known` characters, and V for [MASK] -> (B, n, V).
        """
        V, place = len(known), {character: i for i, character in enumerate(known)}
        writes = np.zeros((len(self.characters), V))                     # (S, V): 1 where a state writes a character
        for state, character in enumerate(self.characters):
            if character in place:
                writes[state, place[character]] = 1
        states = self.elsewhere(masking.seen(ids, V) @ writes.T, self.anywhere)
        return _shares((states @ writes) * masking.seen_where_chosen(ids, V))

    def loss(self, batch: TextBatch, known: Sequence[str], masking: Masking) -> float:
        """The mean cross-entropy, in nats, of `posterior` at the targets of a batch."""
        total = 0.0
        for i in range(0, len(batch.ids), ROWS):
            ids, targets, weight, _ = (part[i : i + ROWS] for part in batch)
            p = np.take_along_axis(self.posterior(ids, known, masking), targets[..., None], axis=-1)[..., 0]
            total -= float(np.sum(weight[weight > 0] * np.log(p[weight > 0])))
        return total / batch.total

    def parts_of(self, text: str) -> list[str]:
        """The part of the grammar that wrote each character. Raises ValueError for other sentences."""
        if not text.endswith(". "):
            raise ValueError("the text does not end with a whole sentence of the grammar")
        sentences = [sentence + ". " for sentence in text.split(". ")[:-1]]
        n, parts = max(map(len, sentences)), []
        for i in range(0, len(sentences), ROWS):
            some = sentences[i : i + ROWS]
            letters = np.array([list(sentence.ljust(n, "\0")) for sentence in some])[..., None]
            evidence = ((letters == np.array(self.characters)) | (letters == "\0")).astype(float)
            states = self.elsewhere(evidence, self.begins) * evidence
            for sentence, likely in zip(some, states, strict=True):
                if not likely.any(axis=-1).all():
                    raise ValueError(f"{sentence!r} is no sentence of the grammar")
                parts += [self.parts[state] for state in np.argmax(likely[: len(sentence)], axis=-1)]
        return parts


def _shares(p: np.ndarray) -> np.ndarray:
    """Each row divided by its sum; rows of 0s stay."""
    total = p.sum(axis=-1, keepdims=True)
    return p / np.where(total > 0, total, 1)
