"""What every model can do that is trained by gradient steps: train and resume, keep its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..files import Arrays
from ..options import option
from ..training import Batches, Settings, train
from .estimator import Estimator
from .parameters import named, restored


@dataclass(eq=False, kw_only=True)
class Trained(Settings, Estimator):
    """Base of the models whose parameters a network has. A new one says how to make that (`known_network`)."""

    workers: int | None = option(
        None, "worker processes (default: one a core, up to 8); never changes the result", at_least=1, at_most=1000,
        group="training", identity=False,
    )  # fmt: skip

    network: Any = field(init=False, repr=False)                         # set by fit and load, as are
    parameters: Any = field(init=False, repr=False)                      # the tree of its parameters and
    history: list[dict[str, Any]] = field(init=False, repr=False, default_factory=list)  # a dict an epoch, from fit

    def known_network(self) -> Any:
        """The network for what the vocabularies hold, with this model's options."""
        raise NotImplementedError

    def options_for(self, network: type) -> dict[str, Any]:
        """Those of this model's options that a network has as well."""
        mine = {f.name for f in fields(self)}
        return {f.name: getattr(self, f.name) for f in fields(network) if f.name in mine}

    def _train(
        self,
        network: Any,
        batches: Batches,
        validate: Callable[[Any], float] | None,
        fingerprint: str,
        *,
        checkpoint: str | Path | None = None,
        on_epoch: Any = None,
        progress: bool = True,
        enough: float | None = None,
    ) -> None:
        """Set network, parameters and history. The last four arguments are those of `tinyattn.training.train`."""
        parameters, history = train(
            network,
            batches,
            Settings(**self.options_for(Settings)),
            workers=self.workers,
            validate=validate,
            identity={"model": self.identity(), "data": fingerprint},
            identity_today=lambda found: found | {"model": self.identity_today(found["model"])},
            checkpoint=checkpoint,
            on_epoch=on_epoch,
            progress=progress,
            enough=enough,
        )
        self.network, self.parameters, self.history = network, parameters, history

    def arrays(self) -> dict[str, np.ndarray]:
        return named(self.parameters)

    def _restore(self, arrays: Arrays) -> None:
        self._take(arrays)

    def _take(self, arrays: Arrays | Iterable[tuple[str, np.ndarray]]) -> None:
        """Parameters by name, which may come one at a time. Raises as `_restore`."""
        self.network = self.known_network()
        self.parameters = restored(self.network, arrays, self.device)
