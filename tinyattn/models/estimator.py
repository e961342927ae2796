"""What every model can do, whatever its data: have options, be saved, be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..backend import module_for
from ..data import Vocabulary
from ..files import Arrays, FileError, read_arrays, write_arrays
from ..options import one_of, options_of


class Estimator:
    """Base of all models: a dataclass of options with a `name`, a `fit`, and one line in MODELS.

    It says what it keeps (`arrays`) and how that comes back (`_restore`). People speak in the ids of their data;
    inside, ids are numbers 1, 2, 3, ..., and `vocabularies` names the attributes that hold both. Options are checked
    when a model is made: ValueError names the value and what was expected.
    """

    name: ClassVar[str]
    table: ClassVar[str]                     # what it is measured by: a key of MEASURES in commands/measures
    criterion: ClassVar[str]                 # what chooses the epoch, if anything does
    vocabularies: ClassVar[tuple[str, ...]] = ()       # each is a Vocabulary, set by fit and load
    attends: bool = False                    # is there attention to show?
    models: ClassVar[dict[str, type[Estimator]]] = {}  # MODELS, which models/__init__.py fills in
    _said: tuple[tuple[Any, ...], dict[str, Any]]      # the constructor's arguments

    def __new__(cls, *values: Any, **options: Any) -> Self:
        """Keep the arguments as they came: the constructor replaces None by the value that the model chooses."""
        model = super().__new__(cls)
        model._said = values, options
        return model

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every option of the constructor with its value, as scikit-learn has it; None is one the model chooses.

        So `type(model)(**model.get_params())` is a model like this one before fit, which scikit-learn's `clone` makes.
        No option is an estimator, so `deep` changes nothing.
        """
        names = [declared.name for declared in options_of(self)]
        values, options = self._said
        arguments = dict(zip(names, values, strict=False)) | options
        chosen = {o.name for o in options_of(self) if arguments.get(o.name, o.default) is None}
        return {name: None if name in chosen else getattr(self, name) for name in names}

    def set_params(self, **params: Any) -> Self:
        """Set options, as scikit-learn has it: -> the model itself.

        What was learned is forgotten where it would have been learned otherwise. Raises ValueError for a name that is
        no option, and for values that the constructor refuses; then nothing has changed.
        """
        known = self.get_params()
        unknown = next((name for name in params if name not in known), None)
        if unknown is not None:
            raise ValueError(f"{unknown} is no option of {type(self).__name__}, expected {one_of(known, unknown)}")
        fresh = type(self)(**known | params)
        kept = {} if fresh.identity() != self.identity() else vars(self).copy()
        new = {declared.name: getattr(fresh, declared.name) for declared in options_of(fresh)} | {"_said": fresh._said}
        vars(self).clear()
        vars(self).update(vars(fresh) | kept | new)
        return self

    def fit(self, data: Any, **how: Any) -> Self:
        """Learn from data. Raises ValueError for data that cannot be learned from."""
        raise NotImplementedError

    def check_data(self, data: Any) -> None:
        """Raise ValueError for training data that cannot be learned from."""

    def identity(self) -> dict[str, Any]:
        """Every option that decides what is learned, as JSON: all but those, as `device`, that decide where."""
        values = {o.name: getattr(self, o.name) for o in options_of(self) if o.option.identity}
        return {name: value for name, value in values.items() if value is not None}     # None: of a part not chosen

    @classmethod
    def identity_today(cls, found: dict[str, Any]) -> dict[str, Any]:
        """An identity as an older version wrote it, with the options that came since; as it is where that cannot be."""
        try:
            return cls(**found).identity()
        except (TypeError, ValueError, OverflowError):
            return found

    def save(self, path: str | Path) -> None:
        """Write the whole model to one .npz file, atomically. Raises ValueError before `fit`."""
        self.fitted()
        known = {f"vocabulary.{what}": getattr(self, what).ids for what in self.vocabularies}
        write_arrays(Path(path), "model", {"model": self.name, "options": self.identity()}, known | self.arrays())

    @classmethod
    def load(cls, path: str | Path, **where: Any) -> Self:
        """The model in the file. A base, as `Estimator` or `Recommender`, loads any of its kind, a model only its own.

        `where` holds arguments that a file does not keep: `device`, `workers`. A model that has no such argument
        computes on the host. Raises FileError for a file that is missing, truncated, pickled, or not such a model,
        ValueError for a device that is not there, TypeError for another argument.
        """
        module_for(where.get("device", "cpu"))
        unknown = where.keys() - {"device", "workers"}
        if unknown:
            raise TypeError(f"load got {', '.join(sorted(unknown))}, expected device or workers")
        meta, arrays = read_arrays(Path(path), "model")
        is_base = not hasattr(cls, "name")
        known = {n: kind for n, kind in cls.models.items() if issubclass(kind, cls)} if is_base else {cls.name: cls}
        if not isinstance(meta.get("model"), str) or meta["model"] not in known:
            raise FileError(f"{path} is of model {meta.get('model')}, expected {' or '.join(known)}")
        try:
            kind: Any = known[meta["model"]]
            model = kind(**meta["options"] | {name: value for name, value in where.items() if hasattr(kind, name)})
            for what in kind.vocabularies:
                ids = arrays.pop(f"vocabulary.{what}")
                if ids.ndim != 1 or ids.dtype.kind not in "iuU" or not len(ids) or not np.all(ids[1:] > ids[:-1]):
                    raise ValueError(f"vocabulary.{what} is no sorted list of ids")
                setattr(model, what, Vocabulary(ids, what.removesuffix("s")))
            model._restore(arrays)
            arrays.refuse_unread()
        except FileError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, MemoryError) as error:
            raise FileError(f"{path} is not a whole {meta['model']} model: {error}") from None
        return model

    def fitted(self) -> Any:
        """What fit has set first, the first vocabulary say. Raises ValueError where it has not been called."""
        raise NotImplementedError

    def arrays(self) -> dict[str, np.ndarray]:
        """What was learned, by name."""
        raise NotImplementedError

    def _restore(self, arrays: Arrays) -> None:
        """Take back what `arrays` gave; KeyError or ValueError where something is missing or misshapen."""
        raise NotImplementedError
