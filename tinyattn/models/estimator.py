"""The base of all models: options, saving, loading."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..backend import module_for
from ..data import Vocabulary
from ..files import Arrays, FileError, read_arrays, write_arrays
from ..options import Checked, one_of, options_of


class Estimator(Checked):
    """Base of all models: a dataclass of options with a `name`, a `fit`, and one line in MODELS.

    `arrays` names what a file keeps, and `_restore` reads it back. Users pass the ids of their data; inside, ids are
    numbers 1, 2, 3, ..., and the attributes named in `vocabularies` convert them. Options are checked when a model is
    made: ValueError names the value and what was expected.
    """

    name: ClassVar[str]
    table: ClassVar[str]                     # a key of MEASURES in commands/measures
    criterion: ClassVar[str]                 # the metric that chooses the epoch
    vocabularies: ClassVar[tuple[str, ...]] = ()       # each is a Vocabulary, set by fit and load
    made_by: ClassVar[dict[str, Callable[[np.ndarray], Vocabulary]]] = {}    # those that load makes otherwise, from ids
    attends: bool = False                    # does it have `attention`?
    models: ClassVar[dict[str, "type[Estimator]"]] = {}  # MODELS, which models/__init__.py fills in
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]      # the constructor's

    def __new__(cls, *values: Any, **options: Any) -> Self:
        """Keep the arguments for `get_params`, because the constructor replaces None by a value."""
        model = super().__new__(cls)
        model._arguments = values, options
        return model

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's options, as in scikit-learn; None where the model chooses the value.

        `type(model)(**model.get_params())` is this model before fit, as `clone` makes it. `deep` changes nothing.
        """
        (values, options), defaults = self._arguments, {o.name: o.default for o in options_of(self)}
        arguments = defaults | dict(zip(defaults, values, strict=False)) | options
        return {name: None if arguments[name] is None else getattr(self, name) for name in defaults}

    def set_params(self, **params: Any) -> Self:
        """Set options, as in scikit-learn: -> the model itself.

        Learned parameters are dropped if an option that shapes them changes. Raises ValueError, with nothing changed,
        for a name that is no option and for values that the constructor refuses.
        """
        known = self.get_params()
        if (unknown := next((name for name in params if name not in known), None)) is not None:
            raise ValueError(f"{unknown} is no option of {type(self).__name__}, expected {one_of(known, unknown)}")
        fresh = type(self)(**known | params)
        kept = {} if fresh.identity() != self.identity() else vars(self).copy()
        new = {declared.name: getattr(fresh, declared.name) for declared in options_of(fresh)}
        new["_arguments"] = fresh._arguments
        vars(self).clear()
        vars(self).update(vars(fresh) | kept | new)
        return self

    def fit(self, data: Any, **how: Any) -> Self:
        """Learn from data. Raises ValueError for data that cannot be learned from."""
        raise NotImplementedError

    def check_data(self, data: Any) -> None:
        """Raise ValueError for training data that cannot be learned from."""

    def identity(self) -> dict[str, Any]:
        """The options that decide the learned parameters, as JSON: all but those like `device`."""
        values = {o.name: getattr(self, o.name) for o in options_of(self) if o.option.identity}
        return {name: value for name, value in values.items() if value is not None}   # None: the chosen parts lack it

    @classmethod
    def upgrade_identity(cls, stored: dict[str, Any]) -> dict[str, Any]:
        """The identity that an older version stored, with the defaults of newer options; unchanged if invalid."""
        try:
            return cls(**stored).identity()
        except (TypeError, ValueError, OverflowError):
            return stored

    def save(self, path: str | Path) -> None:
        """Write the whole model to one .npz file, atomically. Raises ValueError before `fit`."""
        self.fitted()
        known = {f"vocabulary.{what}": getattr(self, what).ids for what in self.vocabularies}
        content = known | self.other_arrays() | self.arrays()
        write_arrays(Path(path), "model", {"model": self.name, "options": self.identity()}, content)

    @classmethod
    def load(cls, path: str | Path, **where: Any) -> Self:
        """The model that a file holds. A base, such as `Estimator` or `Recommender`, loads models of any subclass.

        `where` holds `device` and `workers`, which files do not keep; models without them compute on the host. Raises
        FileError for a file that is missing, truncated, pickled, or another model's, ValueError for a missing device,
        TypeError for another argument.
        """
        module_for(where.get("device", "cpu"))
        if unknown := where.keys() - {"device", "workers"}:
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
                make = kind.made_by.get(what, partial(Vocabulary, what=what.removesuffix("s")))
                setattr(model, what, make(ids))
            model.restore_besides(arrays)
            model._restore(arrays)
            arrays.refuse_unread()
        except FileError:
            raise
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, MemoryError) as error:
            raise FileError(f"{path} is not a whole {meta['model']} model: {error}") from None
        return model

    def fitted(self) -> Any:
        """A recommender's vocabulary of items, or another model's network. Raises ValueError before `fit`."""
        raise NotImplementedError

    def arrays(self) -> dict[str, np.ndarray]:
        """The learned arrays, by name."""
        raise NotImplementedError

    def other_arrays(self) -> dict[str, np.ndarray]:
        """Arrays that a file keeps but no score depends on, by name."""
        return {}

    def restore_besides(self, arrays: Arrays) -> None:
        """Read back `other_arrays`, which files of older versions lack. Raises ValueError for a misshapen one."""

    def digest(self) -> str:
        """A digest of all that was learned."""
        arrays = sorted(self.arrays().items())
        return hashlib.sha256(b"".join(name.encode() + a.tobytes() for name, a in arrays)).hexdigest()[:16]

    def _restore(self, arrays: Arrays) -> None:
        """Read back `arrays`. Raises KeyError or ValueError for a missing or misshapen one."""
        raise NotImplementedError
