"""Fine-tuning: training that starts from the parameters of a model that learned without labels (Devlin et al. 2019)."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from ...backend import to_numpy
from ...options import options_of
from ...tree import tree_map
from ..sequence_model import SequenceModel


@dataclass(eq=False, kw_only=True)
class FineTuned(SequenceModel):
    """Base of estimators that may start from another model. Their network has a field `start`, which `init` reads."""

    starts_from: ClassVar[type[SequenceModel]]       # the other model's class
    shared: ClassVar[type]                           # a dataclass of options, which have to equal the other model's
    _start: Any = field(init=False, repr=False, default=None)       # the other model, while this one is fitted

    def fit(self, data: Any, *, start: Any = None, **how: Any) -> Self:
        """Learn from data with labels, as `SequenceModel.fit`, from fresh parameters or from those of `start`.

        Raises ValueError, before any work, for a `start` of another class or of other sizes.
        """
        self._start = None if start is None else self._startable(start)
        try:
            super().fit(data, **how)
        finally:
            self._start = None
        self.network.start = None
        return self

    def _startable(self, start: Any) -> Any:
        if not isinstance(start, self.starts_from):
            name = self.starts_from.__name__
            article = "an" if name[0] in "AEIO" else "a"
            raise ValueError(f"start is {start!r}, expected {article} {name} that has learned")
        start.fitted()
        for o in sorted(options_of(self.shared), key=lambda o: len(o.option.parts)):    # a choice before what it needs
            mine, theirs = getattr(self, o.name), getattr(start, o.name)
            if mine != theirs and o.name != "dropout":
                raise ValueError(f"{o.name} is {mine}, expected {theirs}, as in the model that this one starts from")
        return start

    def fingerprint(self, parts: Any) -> str:
        """A digest of the data and of the parameters of `start`."""
        return super().fingerprint(parts) + ("" if self._start is None else self._start.digest())

    def make_network(self, known: dict[str, Any]) -> Any:
        network = super().make_network(known)
        if self._start is not None:
            network.start = tree_map(to_numpy, self._start.parameters)
        return network
