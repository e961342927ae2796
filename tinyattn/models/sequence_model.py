"""Base of the models in transformers/: fit, validate, evaluate."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .. import backend
from ..data import Parts, Vocabulary
from ..options import check_options, option, with_default
from ..ranks import ranks
from ..training import SLICE_TOKENS, Settings, Workers
from ..tree import leaves
from .trained import Trained


@dataclass(eq=False, kw_only=True)
class SequenceModel(Trained):
    """Base of the models that learn from `Parts` of characters, words or patches.

    A new one is a file in models/transformers/ with options, network and estimator, and a line in MODELS. It defines
    the class of its data (`Data`), their numbers (`vocabularies_of`, `numbered`), batches (`sampler`), and `Network`
    with init, loss, loss_backward and `measure(p, batch)`: name -> (sum, how many), whose means are the metrics. The
    metric `criterion` chooses the epoch; "-loss" is a loss to minimise.
    """

    patience: int = with_default(5, Settings, "patience")
    batch_size: int = option(
        128, "rows a batch, at least: an epoch has rows // N batches of nearly equal size", at_least=1, group="training"
    )

    Network: ClassVar[Any]
    Data: ClassVar[Any]              # `Data.of` converts the other arguments of fit

    def __post_init__(self) -> None:
        check_options(self)
        self.make_network({what: Vocabulary(np.array(["a"])) for what in self.vocabularies})   # checks the parts
        backend.module_for(self.device)

    def vocabularies_of(self, parts: list[Any]) -> dict[str, Vocabulary]:
        """The vocabularies of data, by the names in `vocabularies`."""
        return {}

    def sizes(self, known: dict[str, Any]) -> dict[str, int]:
        """The sizes that the network is made for: `n_tokens` of a vocabulary `tokens`, and so on."""
        return {f"n_{what}": len(known[what]) for what in self.vocabularies}

    def make_network(self, known: dict[str, Any]) -> Any:
        """The network for these vocabularies, with this model's options."""
        return self.Network(**self.sizes(known), **self.options_for(self.Network))

    def numbered(self, data: Any, known: dict[str, Vocabulary]) -> Any:
        """The data in numbers. Raises ValueError, which names it, for anything that the model cannot read."""
        raise NotImplementedError

    def sampler(self, numbered: Any) -> Any:
        """The training batches, a `Batches`; `whole()` is one batch of everything."""
        raise NotImplementedError

    def fit(self, data: Any, **how: Any) -> Self:
        """Learn from `Parts`, whose validation part chooses the epoch, or from whatever `Data.of` takes.

        The vocabulary covers all parts. `how` is as in `tinyattn.training.train`. Raises ValueError for data that
        cannot be learned from, before any work.
        """
        parts = data if isinstance(data, Parts) else Parts(self.Data.of(data))
        present = [part for part in (parts.train, parts.valid, parts.test) if part is not None]
        known = self.vocabularies_of(present)
        network = self.make_network(known)
        train, *others = [self.numbered(part, known) for part in present]    # all of them, before any work

        def validate(p: Any) -> float:
            value = self._measures(network, p, self.sampler(others[0]).whole())[self.criterion.removeprefix("-")]
            return -value if self.criterion.startswith("-") else value

        self._train(network, self.sampler(train), validate if parts.valid else None, self.fingerprint(parts), **how)
        for what, vocabulary in known.items():
            setattr(self, what, vocabulary)
        return self

    def fingerprint(self, parts: Any) -> str:
        """A digest of the training data: a checkpoint of other data is refused."""
        return str(parts.train.fingerprint())

    def evaluate(self, data: Any) -> dict[str, float]:
        """Metrics on whatever `fit` takes: name -> value.

        Pairs: "exact" and "characters", shares of right answers, and "loss"; texts: "loss"; images, hidden patches,
        sequence tasks and labelled texts: "accuracy" and "loss". Losses are means in nats. Raises ValueError before
        `fit`, and for data that the model cannot read.
        """
        batch = self.evaluation_batch(data)
        return self._measures(self.network, self.parameters, batch)

    def evaluation_batch(self, data: Any) -> Any:
        """All the data, in any form that `fit` takes, as one batch. Patches and tokens are hidden as in `evaluate`."""
        self.fitted()
        return self.sampler(self.numbered(self.Data.of(data), self.known())).whole()

    def _measures(self, network: Any, p: Any, batch: Any) -> dict[str, float]:
        xp = self._module(p)
        slices = batch.slices((2 if backend.is_numpy(xp) else 64) * SLICE_TOKENS)

        def work(part: Any) -> dict[str, tuple[float, float]]:
            with np.errstate(over="ignore", invalid="ignore"):       # the loop reports these
                return network.measure(p, part.to(xp))

        with Workers(self.workers if backend.is_numpy(xp) else 1) as pool:
            sums = ranks().map(work, slices, pool.map)
        return {name: sum(f[name][0] for f in sums) / sum(f[name][1] for f in sums) for name in sums[0]}

    def known(self) -> dict[str, Vocabulary]:
        """The vocabularies, set by fit and load."""
        return {what: getattr(self, what) for what in self.vocabularies}

    def known_network(self) -> Any:
        return self.make_network(self.known())

    def _module(self, p: Any) -> Any:
        return backend.get_xp(next(leaf for _, leaf in leaves(p)))

    def fitted(self) -> Any:
        if not hasattr(self, "network"):
            raise ValueError(f"this {type(self).__name__} has not learned anything yet: call fit first")
        return self.network
