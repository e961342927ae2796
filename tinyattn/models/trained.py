"""Base of the models that are trained by gradient steps: they train, resume, and keep their parameters."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..files import Arrays
from ..options import option
from ..training import Batches, DivergedError, DivergedWarning, Settings, train
from .estimator import Estimator
from .parameters import named, restored


@dataclass(eq=False, kw_only=True)
class Trained(Settings, Estimator):
    """Base of the models that have a network. A subclass makes it in `known_network`."""

    workers: int | None = option(
        None, "worker processes (default: one a core, up to 8); never changes the result", at_least=1, at_most=1000,
        group="training", identity=False,
    )  # fmt: skip

    network: Any = field(init=False, repr=False)                         # set by fit and load
    parameters: Any = field(init=False, repr=False)                      # a tree, set by fit and load
    moments: tuple[Any, Any] | None = field(init=False, repr=False, default=None)        # Adam's m and v, from fit
    history: list[dict[str, Any]] = field(init=False, repr=False, default_factory=list)  # a dict an epoch, from fit

    def known_network(self) -> Any:
        """The network of these vocabularies and options."""
        raise NotImplementedError

    def options_for(self, network: type) -> dict[str, Any]:
        """The options that this model shares with a network."""
        mine = {f.name for f in fields(self)}
        return {f.name: getattr(self, f.name) for f in fields(network) if f.name in mine}

    def _train(
        self, network: Any, batches: Batches, validate: Callable[[Any], float] | None, fingerprint: str, **how: Any
    ) -> None:
        """Set network, parameters and history. `how` is as in `tinyattn.training.train`.

        Where training diverges after an epoch with a validation score, the model is that of the best epoch, without
        moments, and a DivergedWarning is given.
        """
        try:
            self.parameters, self.history = train(
                network,
                batches,
                Settings(**self.options_for(Settings)),
                workers=self.workers,
                validate=validate,
                identity={"model": self.identity(), "data": fingerprint},
                upgrade_identity=lambda saved: saved | {"model": self.upgrade_identity(saved["model"])},
                **how,
            )
        except DivergedError as error:
            if error.parameters is None:
                raise
            warnings.warn(str(error), DivergedWarning, stacklevel=4)
            self.parameters, self.history, self.moments = error.parameters, list(error.history), None
        self.network = network

    def arrays(self) -> dict[str, np.ndarray]:
        return named(self.parameters)

    def _restore(self, arrays: Arrays) -> None:
        self._take(arrays)

    def _take(self, arrays: Arrays | Iterable[tuple[str, np.ndarray]]) -> None:
        """Set the parameters from arrays by name, which may come one at a time. Raises as `_restore`."""
        self.network = self.known_network()
        self.parameters = restored(self.network, arrays, self.device)
