"""Vectors of items, such as of their texts or images: read from files, and matched by id with a data set's items."""

import hashlib
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from ..terminal import quoted, shortened
from .distinct import signed
from .interactions import Interactions
from .vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class ItemVectors:
    """Vectors (n, W) of items, by ids (n,). An item whose vector is all 0 has none: its row is left out.

    Raises ValueError for shapes, dtypes, masks, NaN, ids that recur, and lengths that would make most vectors 0.
    """

    ids: np.ndarray
    vectors: np.ndarray
    name: str = "item vectors"           # in messages: the file

    def __post_init__(self) -> None:
        if np.ma.is_masked(self.ids) or np.ma.is_masked(self.vectors):      # np.asarray drops a mask
            raise ValueError(f"{self.name}: some values are masked, expected none")
        ids, vectors = (np.asarray(part) for part in (self.ids, self.vectors))
        if vectors.ndim != 2 or not vectors.size or vectors.dtype.kind != "f":
            what = f"{vectors.shape} {vectors.dtype}"
            raise ValueError(f"{self.name}: vectors are {what}, expected floats (items, width)")
        if ids.shape != vectors.shape[:1] or ids.dtype.kind not in "iuU":
            many = f"({len(vectors)},) integers or texts"
            raise ValueError(f"{self.name}: ids are {ids.shape} {ids.dtype}, expected {many}, one for each vector")
        ids = signed(ids, f"{self.name}: id")
        finite = np.all(np.isfinite(vectors), axis=1)
        if not np.all(finite):
            raise ValueError(f"{self.name}: the vector of item {quoted(ids[np.argmin(finite)])} has NaN or infinity")
        values, counts = np.unique(ids, return_counts=True)
        if np.any(counts > 1):
            raise ValueError(f"{self.name}: item {quoted(values[np.argmax(counts > 1)])} has several vectors")
        if not 1e-100 < (largest := float(np.max(np.abs(vectors)))) < 1e100:     # squares are neither 0 nor inf
            raise ValueError(f"{self.name}: the largest number is {largest}, expected between 1e-100 and 1e100")
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        has = lengths > 0                                        # what a linear map makes of 0 tells no items apart
        if np.max(lengths) > 1e9 * (median := np.median(lengths[has])):
            one = f"item {quoted(ids[np.argmax(lengths)])} has a vector of length {np.max(lengths):.3g}"
            raise ValueError(f"{self.name}: {one}, and half of all have {median:.3g} at most: scaled, they would be 0")
        self.__dict__.update(ids=ids[has], vectors=vectors[has])

    @classmethod
    def read(cls, path: str | Path, items: Vocabulary) -> Self:
        """A file for data with these `items`: .npz with `ids` (n,) and `vectors` (n, W), or .npy with `vectors` alone.

        Row i of a .npy file belongs to item i in the ascending order of the data's ids. Raises ValueError for a file
        that is missing, damaged or pickled, for a .npy file with more or fewer rows than there are items, and as the
        constructor.
        """
        path = Path(path)
        try:
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                arrays = {"vectors": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror or error}") from None
        except (ValueError, EOFError, KeyError, zipfile.BadZipFile, MemoryError) as error:
            pickled = "Object arrays" in str(error)                      # of pandas' texts, for example
            of = " (an array has dtype object: make ids integers or texts, as by ids.astype(str))" * pickled
            raise ValueError(f"{path} is no .npy or .npz file of numbers, as numpy.savez writes it{of}") from None
        if "vectors" not in arrays or (path.suffix == ".npz" and "ids" not in arrays):
            raise ValueError(f"{path} has {shortened(', '.join(arrays)) or 'no arrays'}, expected ids and vectors")
        if "ids" not in arrays and arrays["vectors"].ndim and len(arrays["vectors"]) != len(items):
            rows = f"{len(arrays['vectors']):,} rows, and the data {len(items):,} items"
            raise ValueError(f"{path} has {rows}: expected a row for each, or a .npz file with ids and vectors")
        return cls(arrays.get("ids", items.ids), arrays["vectors"], str(path))

    def numbers(self, items: Vocabulary) -> np.ndarray:
        """(n,): the number of each item in `items`, 0 where it has none. Raises ValueError for two ids of one item."""
        numbers = items.numbers_or_zero(self.ids)
        again = np.bincount(numbers, minlength=2)[1:] > 1
        if np.any(again):                                        # such as "7" and " 7", where the data's are integers
            same = self.ids[numbers == 1 + np.argmax(again)].tolist()
            raise ValueError(f"{self.name}: ids {same} are one item of the data, expected one vector")
        return numbers

    def missing(self, items: Vocabulary) -> np.ndarray:
        """The ids among `items` that have no vector."""
        has = np.zeros(len(items) + 1, dtype=bool)
        has[self.numbers(items)] = True
        return items.ids[~has[1:]]

    def joined(self, data: Interactions) -> Interactions:
        """The data with the items of these vectors among its items, so that they can be recommended.

        Raises ValueError where no item of the data has a vector, and for texts beside ids that are integers.
        """
        new = self.ids[self.numbers(data.items) == 0]
        if not len(new):
            return data
        if len(new) == len(self.ids):
            mine, theirs = quoted(self.ids[0]), quoted(data.items.ids[0])
            raise ValueError(f"{self.name} has vectors of none of the {len(data.items):,} items: its ids are like "
                             f"{mine}, those of the data like {theirs}")  # fmt: skip
        if data.items.ids.dtype.kind == "U":
            new = new.astype("U")
        elif new.dtype.kind == "U":
            new = np.array([self._integer(text) for text in new.tolist()])
        return data.in_numbers_of(Vocabulary(np.union1d(data.items.ids, new), data.items.what))

    def _integer(self, text: str) -> int:
        with suppress(ValueError):
            if str(number := int(text)) == text and abs(number) < 2**63:         # not 007
                return number
        raise ValueError(f"{self.name} has id {quoted(text)}, and those of the data are integers")

    def table(self, items: Vocabulary) -> np.ndarray:
        """(items + 1, W) float32, 0 for padding and items without a vector; scaled to a mean norm of 1."""
        table, numbers = np.zeros((len(items) + 1, self.vectors.shape[1]), np.float32), self.numbers(items)
        mean = np.mean(np.linalg.norm(self.vectors.astype(np.float64), axis=1))
        table[numbers[numbers > 0]] = self.vectors[numbers > 0] / mean
        return table

    def digest(self) -> str:
        """A digest of ids and vectors."""
        ids = "\n".join(map(str, self.ids.tolist())).encode()
        return hashlib.sha256(ids + self.vectors.astype(np.float64).tobytes()).hexdigest()[:16]
