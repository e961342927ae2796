"""The tagger: reads a sequence, and answers at some of its tokens.

Its network is the decoder's, whose mixer may be attention or a recurrence. It learns tasks of sequences, drawn anew at
every step; the loss is that of the answers.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ...data import SequencePart, SequenceTask, TaskSampler, Vocabulary
from ...options import option, with_default
from ...training import Settings
from ..cross_entropy import ClassNetwork, Smoothed
from ..sequence_model import SequenceModel
from .decoder import SMALL, DecoderNetwork, DecoderOptions


@dataclass(kw_only=True)
class TaggerNetwork(DecoderNetwork):
    """The decoder's network, whose measure includes accuracy."""

    def init(self, rng: np.random.Generator) -> dict[str, Any]:
        """As the decoder's, but embeddings have deviation 1.

        Tokens that are never answers get no gradient from scores, so small embeddings would stay small beside the
        blocks' outputs.
        """
        p = super().init(rng)
        return p | {"tokens": p["tokens"] / SMALL}

    measure = ClassNetwork.measure         # accuracy, too


@dataclass(eq=False, kw_only=True)
class Tagger(DecoderOptions, Smoothed, SequenceModel):
    """Learns a task of sequences.

        model = Tagger(mixer="mamba", position="none").fit(SEQUENCE_TASKS["recall"](pairs=4, length=32))
        model.evaluate(SEQUENCE_TASKS["recall"](pairs=4, length=64))       # {"accuracy": ..., "loss": ...}
    """

    context: int = option(64, "length of the longest sequence, for learned positions", at_least=1, at_most=1_000_000)
    tied: bool = with_default(False, DecoderOptions, "tied")
    enough: float | None = option(
        None, "stop at this accuracy on the validation sequences (default: never)", above=0, at_most=1, group="training"
    )
    epochs: int = with_default(40, Settings, "epochs")
    patience: int = with_default(0, SequenceModel, "patience")           # accuracy may rise after a long plateau
    batch_size: int = with_default(64, SequenceModel, "batch_size")
    lr: float = with_default(3e-3, Settings, "lr")

    name = "tagger"
    table = "sequence tasks"
    criterion = "accuracy"
    vocabularies = ("tokens",)
    tokens: ClassVar[Vocabulary]     # set by fit and load
    Network = TaggerNetwork
    Data = SequencePart

    def fit(self, data: Any, **how: Any) -> Self:
        """As `SequenceModel.fit`, or learn a `SequenceTask`, with held-out sequences; `enough` may end it."""
        parts = data.generate().split() if isinstance(data, SequenceTask) else data
        return super().fit(parts, enough=self.enough, **how)

    def vocabularies_of(self, parts: list[SequencePart]) -> dict[str, Vocabulary]:
        return {"tokens": Vocabulary(np.arange(parts[0].task.n_tokens), "token")}

    def numbered(self, data: SequencePart, known: dict[str, Vocabulary]) -> SequencePart:
        task, tokens = data.task, len(known["tokens"])
        if task.n_tokens != tokens:
            raise ValueError(f"task {task.name} has {task.n_tokens} different tokens, expected the model's {tokens}")
        if not self.reads(task.length):
            raise ValueError(
                f"task {task.name} has sequences of {task.length} tokens, expected at most {self.context}: "
                "the context, which is as far as learned positions go"
            )
        return data

    def reads(self, length: int) -> bool:
        return self.position != "learned" or length <= self.context

    def sampler(self, numbered: SequencePart) -> TaskSampler:
        return TaskSampler(numbered, self.batch_size, self.seed)
