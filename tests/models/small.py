"""A small model of each kind that is trained, and data for it to learn from in a second."""

from typing import Any

import numpy as np

from tests.models.worlds import TINY, drifting_ratings
from tinyattn.data import SEQUENCE_TASKS, Grammar, Images, LabelledTexts, Pairs, leave_one_out, split_ratings
from tinyattn.models import MODELS, SequenceModel
from tinyattn.options import options_of
from tinyattn.training import Settings

SEQUENCE = {"dim": 8, "heads": 2, "layers": 1, "batch_size": 8, "epochs": 2, "workers": 1, "patience": 0, "lr": 0.01}
RECOMMENDER = {"dim": 8, "maxlen": 6, "batch_size": 20, "epochs": 2, "workers": 1, "patience": 0}
SEQUENCE_MODELS = [name for name, cls in MODELS.items() if issubclass(cls, SequenceModel)]
TRAINED = [name for name, cls in MODELS.items() if issubclass(cls, Settings)]


def pairs(n: int = 30) -> Any:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcde"), rng.integers(1, 7))) for _ in range(n)]
    return Pairs.of((word, word[::-1]) for word in words).split()


def images(n: int = 30) -> Any:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=n)
    return Images(rng.random((n, 8, 8)) + labels[:, None, None] * np.eye(8), labels).split()


def labelled(n: int = 40) -> Any:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcde"), rng.integers(2, 7))) for _ in range(n)]
    return LabelledTexts.of((word, "early" if word[0] < "c" else "late") for word in words).split()


# for each table of measures, what its models learn from
TEXT = Grammar(sentences=8).generate().split()
COPY = SEQUENCE_TASKS["selective-copy"](copied=1, tokens=2, length=6, sequences=160, held_out=40)
DATA = {
    "pairs": pairs(), "text": TEXT, "masked text": TEXT, "labelled texts": labelled(), "images": images(),
    "hidden patches": images(),
    "sequence tasks": COPY.generate().split(), "ranking": leave_one_out(TINY.generate()),
    "ratings": split_ratings(drifting_ratings()),
}  # fmt: skip


def make(name: str, **more: Any) -> Any:
    """A model with the small options and `more`, as far as it has them."""
    given = SEQUENCE if name in SEQUENCE_MODELS else RECOMMENDER
    known = {o.name for o in options_of(MODELS[name])}
    return MODELS[name](**{key: value for key, value in (given | more).items() if key in known})
