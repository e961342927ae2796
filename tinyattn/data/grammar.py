"""A generated text of known entropy: sentences of a grammar that chooses each word with known probabilities."""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..options import Checked, option
from ..random import Stream, generator
from .texts import Text

# The forms of each {part}, and their weights. A verb agrees with a noun that may be far before it.
RULES: dict[str, dict[str, int]] = {
    "sentence": {"{one} {does}. ": 1, "{many} {do}. ": 1},
    "one": {"the {noun}": 4, "a {noun}": 2, "the {noun} that {sees} {other}": 1, "every {noun} near {other}": 1},
    "many": {"the {noun}s": 4, "two {noun}s": 2, "the {noun}s that {see} {other}": 1, "all {noun}s near {other}": 1},
    "other": {"the {noun}": 1, "the {noun}s": 1},
    "does": {"sleeps": 1, "runs": 1, "{sees} {other}": 2},
    "do": {"sleep": 1, "run": 1, "{see} {other}": 2},
    "sees": {"sees": 2, "likes": 1, "hears": 1},
    "see": {"see": 2, "like": 1, "hear": 1},
    "noun": {"cat": 3, "dog": 3, "owl": 1, "goat": 1},
}
PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Grammar(Checked):
    """Independent sentences, each with a unique derivation, that end with ". ".

    So the entropy of a sentence is that of its derivation, and the entropy per character is that of a sentence divided
    by its mean length.
    """

    sentences: int = option(12000, "number of sentences", at_least=1, at_most=1_000_000)
    seed: int = option(0, "of the random numbers", at_least=0)

    name: ClassVar[str] = "grammar"
    title: ClassVar[str] = "a generated grammar"

    def generate(self) -> Text:
        rng = generator(self.seed, Stream.TEXT)
        return Text("".join(self.draw(rng)[0] for _ in range(self.sentences)))

    def draw(self, rng: np.random.Generator, part: str = "sentence") -> tuple[str, float]:
        """A drawn form of the part, and the logarithm of its probability."""
        forms, weights = list(RULES[part]), np.array(list(RULES[part].values()))
        i = int(rng.choice(len(forms), p=weights / weights.sum()))
        score = math.log(weights[i] / weights.sum())
        sentence = forms[i]
        for name in PART.findall(sentence):
            inner, more = self.draw(rng, name)
            sentence, score = sentence.replace("{" + name + "}", inner, 1), score + more
        return sentence, score

    @cached_property
    def entropy(self) -> float:
        """In nats per character: H(sentence) / E(characters of a sentence)."""
        nats, characters = self._expected("sentence")
        return nats / characters

    def _expected(self, part: str) -> tuple[float, float]:
        """Entropy and mean length of a part, by the chain rule."""
        nats = characters = 0.0
        total = sum(RULES[part].values())
        for form, weight in RULES[part].items():
            inner = [self._expected(name) for name in PART.findall(form)]
            p, length = weight / total, len(PART.sub("", form))
            nats += p * (-math.log(p) + sum(h for h, _ in inner))
            characters += p * (length + sum(n for _, n in inner))
        return nats, characters
