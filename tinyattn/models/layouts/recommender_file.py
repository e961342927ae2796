"""A recommender that was trained elsewhere, from one file of parameters."""

from pathlib import Path
from typing import Any

import numpy as np

from ...data import Vocabulary
from ...data.vocabulary import refuse_nul
from ...files import FileError
from ..parameters import PREFIX
from ..recommenders.sasrec import SASRec
from .layout import Entry
from .pmixer import Pmixer
from .rectools import RecTools
from .sasrec_layout import SASRecLayout
from .state_dict import StateDict

SASREC_LAYOUTS: dict[str, SASRecLayout] = {layout.name: layout for layout in (Pmixer(), RecTools())}
STRANGER = 0             # the only user: such files have none


class RecommenderFile:
    """A state dict in a layout of SASREC_LAYOUTS, checked when it is opened.

    `options` are options of SASRec that the file lacks: `heads`, `block_form`, `maxlen`, `padding`. `items` are the ids
    of items 1, 2, 3, ...; by default those in the file, or these numbers. Raises FileError for a file that cannot be
    read (`StateDict`), fits no layout, or has a missing, misshapen or unknown parameter (named); ValueError for invalid
    options and ids.
    """

    def __init__(self, path: str | Path, items: list[Any] | None = None, **options: Any) -> None:
        self.state = StateDict(Path(path))
        self.layout = self._recognised()
        for name, why in self.layout.required.items():
            if name not in options and name not in self._of_file():
                raise FileError(f"{path} does not hold {name}: set --{name.replace('_', '-')} to {why}")
        self.model = SASRec(**self.layout.options(self.state, options) | options)
        self.count = self.layout.shape(self.state, self.layout.items, 2)[0] - 1
        self.ids = self._ids(items)
        self.network = self.model.make_network(self.count, 1)
        self.entries = self._checked()

    def load(self) -> SASRec:
        """The model. Numbers are turned to float32 here."""
        arrays: dict[str, np.ndarray] = {}
        for entry in self.entries:
            for ours, part in entry.parts(self.state.read(entry.theirs)) if entry.ours else ():
                arrays[ours] = np.array(part)
        self.layout.finish(self.network, arrays, self.state)
        order = np.argsort(self.ids)                         # here items are numbered in the order of their ids
        arrays["items"] = arrays["items"][np.concatenate([[0], 1 + order])]
        parameters = ((f"{PREFIX}{name}", x) for name, x in arrays.items())
        items, users = Vocabulary(self.ids[order], "item"), Vocabulary(np.array([STRANGER]), "user")
        return self.model.learned_elsewhere(items, users, parameters)

    def describe(self) -> dict[str, Any]:
        """The source of the model, as JSON."""
        about = {"imported": str(self.state.path.resolve()), "layout": self.layout.name}
        return about | {"fingerprint": self.state.fingerprint()}

    def _recognised(self) -> SASRecLayout:
        layout = next((y for y in SASREC_LAYOUTS.values() if y.items in self.state.parameters), None)
        if layout is None:
            known = " or ".join(f"{y.items} ({y.name})" for y in SASREC_LAYOUTS.values())
            raise FileError(f"{self.state.path} has no parameter that is called {known}")
        return layout

    def _of_file(self) -> dict[str, Any]:
        """Options that a checkpoint holds."""
        config = self.state.about.get("model_config")
        return {"heads": config["n_heads"]} if isinstance(config, dict) and "n_heads" in config else {}

    def _ids(self, items: list[Any] | None) -> np.ndarray:
        ids = self.layout.ids(self.state) if items is None else items
        if ids is None:
            return np.arange(1, self.count + 1)
        if len(ids) != self.count or len(set(map(str, ids))) != len(ids):
            counts = f"{len(ids):,} ids, {len(set(map(str, ids))):,} of them different"
            raise ValueError(f"{counts}, expected {self.count:,} different ones: {self.state.path} has so many items")
        texts = [str(i) for i in ids]
        refuse_nul(texts, "item id")
        whole = all(text.isascii() and text.isdigit() and str(int(text)) == text and len(text) < 19 for text in texts)
        return np.array([int(text) for text in texts]) if whole else np.array(texts)

    def _checked(self) -> list[Entry]:
        """The layout's entries, checked against the file."""
        parameters, entries = self.state.parameters, list(self.layout.entries(self.network))
        for entry in entries:
            if entry.theirs not in parameters:
                raise FileError(f"{self.state.path} has no {entry.theirs}, expected in {self.layout.name}")
            shape = parameters[entry.theirs].shape
            if len(shape) != len(entry.shape) or any(n not in (-1, m) for n, m in zip(entry.shape, shape, strict=True)):
                expected = str(entry.shape).replace("-1", "any")
                raise FileError(f"{self.state.path}: {entry.theirs} is {tuple(shape)}, expected {expected}")
        if unknown := parameters.keys() - {entry.theirs for entry in entries}:
            unmapped = f"which no mapped SASRec of {self.layout.name} has"
            raise FileError(f"{self.state.path} has {min(unknown)}, {unmapped}")
        return entries
