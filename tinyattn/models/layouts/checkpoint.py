"""A model that was trained elsewhere, from a folder of weights."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...data import Tokenizer, tokenizer_of
from ...files import FileError
from ...options import one_of
from ..parameters import PREFIX
from ..recommenders.sasrec import SASRec
from ..transformers.decoder import Decoder, DecoderNetwork
from .config import Config
from .gpt2 import GPT2
from .layout import HEAD, Entry, TextLayout
from .llama import Llama
from .recommender_file import RecommenderFile
from .state_dict import FILES
from .weights import Weights, refuse_format

# by config.json's model_type
TEXT_LAYOUTS: dict[str, TextLayout] = {layout.name: layout for layout in (GPT2(), Llama())}


class Checkpoint:
    """A folder with config.json, weights and usually a tokenizer; checked before any number is read.

    Raises FileError for a missing file, a configuration that is not supported, and a parameter (named) that is
    missing, misshapen, unknown or not of floating point; DataError for a tokenizer that cannot be used; ImportError for
    a missing package.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.weights = Weights(self.folder)
        self.config = Config(self.folder / "config.json")
        self.layout = self._recognised()
        size = self.config.whole("vocab_size")
        options = self.layout.options(self.config)
        try:
            self.model = Decoder(**options)
            network = DecoderNetwork(n_tokens=size, **self.model.options_for(DecoderNetwork))
        except ValueError as error:
            raise FileError(f"{self.config.path} is of a model that cannot be made here: {error}") from error
        self.copies = {HEAD: f"{self._at}{self.layout.embeddings}"} if network.tied else {}
        self.entries = self._checked(network)
        self.tokens = self._tokenizer(size)

    def load(self) -> Decoder:
        """The model. Numbers are read, and turned to float32, one parameter at a time."""
        read = self.weights.read
        for name, original in self.copies.items():
            if name in self.weights.parameters and not np.array_equal(read(name), read(original)):
                conflict = f"{self.config.path} says that {name} is {original} (tie_word_embeddings)"
                raise FileError(f"{conflict}, and their numbers differ")
        return self.model.learned_elsewhere(self.tokens, self._arrays())

    def describe(self) -> dict[str, Any]:
        """The source of the model, as JSON."""
        about = {"imported": str(self.folder.resolve()), "layout": self.layout.name}
        return about | {"fingerprint": self.weights.fingerprint()}

    @property
    def _at(self) -> str:
        """The prefix of the names in these files: the layout's, or none."""
        prefix = self.layout.prefix
        return prefix if any(name.startswith(prefix) for name in self.weights.parameters) else ""

    def _recognised(self) -> TextLayout:
        if (kind := self.config.get("model_type")) is None:
            names = self.weights.parameters
            kind = next((n for n, y in TEXT_LAYOUTS.items() if {y.typical, y.prefix + y.typical} & names.keys()), None)
            if kind is None:
                known = " or ".join(layout.typical for layout in TEXT_LAYOUTS.values())
                raise FileError(f"{self.config.path} has no model_type, and no parameter is called {known}")
        if not isinstance(kind, str) or kind not in TEXT_LAYOUTS:
            raise FileError(f"{self.config.path} has model_type {kind!r}, expected {one_of(TEXT_LAYOUTS, kind)}")
        return TEXT_LAYOUTS[kind]

    def _checked(self, network: DecoderNetwork) -> list[Entry]:
        """The layout's entries, checked against the files."""
        parameters, entries = self.weights.parameters, []
        at, ignored = self._at, self.layout.ignored
        for entry in self.layout.entries(network, at):                   # ends at the first missing name
            if entry.theirs not in parameters:
                missing = f"{self.folder} has no {entry.theirs}"
                raise FileError(f"{missing}, expected in {self.layout.name} by its config.json")
            entries.append(entry)
        known = {entry.theirs: entry.shape for entry in entries}
        known |= {name: known[original] for name, original in self.copies.items()}
        others = (name for name in parameters if name not in known)
        if unknown := [name for name in others if not ignored.fullmatch(name.removeprefix(at))]:
            raise FileError(f"{parameters[min(unknown)].path} has {min(unknown)}, which no {self.layout.name} has")
        for name, expected in known.items():
            if name not in parameters:        # a copy
                continue
            path, _, shape, _ = parameters[name]
            if shape != expected:
                raise FileError(f"{path}: {name} is {shape}, expected {expected} by its config.json")
            refuse_format(parameters[name], name)
        return entries

    def _tokenizer(self, size: int) -> Tokenizer:
        ids = self.config.get("eos_token_id", [])
        ends = ids if isinstance(ids, list) else [ids]
        return tokenizer_of(self.folder, size, [e for e in ends if type(e) is int and 0 <= e < size])

    def _arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        for entry in self.entries:
            for ours, part in entry.parts(self.weights.read(entry.theirs)):
                yield f"{PREFIX}{ours}", part


def opened(path: str | Path, items: list[Any] | None = None, **options: Any) -> Checkpoint | RecommenderFile:
    """A folder in one of TEXT_LAYOUTS or a file in one of SASREC_LAYOUTS. ValueError for a folder with options."""
    is_file = Path(path).is_file() or Path(path).suffix in FILES
    if not Path(path).is_dir() and (options or items is not None or is_file):
        return RecommenderFile(path, items, **options)
    if options or items is not None:
        unused = ", ".join([*options, *(["ids of items"] if items is not None else [])])
        raise ValueError(f"{path} is a folder, whose config.json has its options; {unused} are for a file")
    return Checkpoint(path)


def import_model(path: str | Path, items: list[Any] | None = None, **options: Any) -> Decoder | SASRec:
    """The model whose weights are in a folder, in one of TEXT_LAYOUTS, or in a file, in one of SASREC_LAYOUTS.

        model = import_model("gpt2")             # config.json, model.safetensors, tokenizer.json
        print(model.generate("The cat", 20))
        model = import_model("sasrec.pth", heads=1, block_form="pre")        # of pmixer/SASRec.pytorch

    Raises as `Checkpoint` or `RecommenderFile`, which explains `items` and `options`; FileError for infinite numbers.
    """
    return opened(path, items, **options).load()
