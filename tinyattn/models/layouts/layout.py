"""The base of layouts of language models: they map a config.json to options, and a file's parameters to a model's."""

import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .config import Config

HEAD = "lm_head.weight"


class Entry(NamedTuple):
    """A parameter in a file, and the model's parameters that it becomes."""

    theirs: str
    shape: tuple[int, ...]
    ours: tuple[str, ...]                # equal shares of the last axis
    turn: Callable[[np.ndarray], np.ndarray] = np.asarray

    def parts(self, x: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        return zip(self.ours, np.split(self.turn(x), len(self.ours), axis=-1), strict=True)


def norm(theirs: str, ours: str, width: int, bias: bool = True) -> Iterator[Entry]:
    """The two vectors of a LayerNorm; without `bias`, that of an RMSNorm."""
    yield Entry(f"{theirs}.weight", (width,), (f"{ours}.gamma",))
    if bias:
        yield Entry(f"{theirs}.bias", (width,), (f"{ours}.beta",))


class TextLayout:
    """Base of the layouts of language models: a new one is a file with a subclass, and a line in TEXT_LAYOUTS."""

    name: ClassVar[str]                  # config.json's model_type
    prefix: ClassVar[str]                # begins most names, in files that also hold the table of scores
    embeddings: ClassVar[str]            # the name of the table of tokens
    typical: ClassVar[str]               # a name that no other layout has
    ignored: ClassVar[re.Pattern[str]]   # names that are no parameters: masks, constants

    def options(self, config: Config) -> dict[str, Any]:
        """The options of the Decoder. Raises FileError, which names the value, for a model that is not supported."""
        raise NotImplementedError

    def entries(self, network: Any, at: str) -> Iterator[Entry]:
        """Every parameter of a file; `at` is the prefix of its names."""
        raise NotImplementedError

    def output(self, network: Any) -> Iterator[Entry]:
        """The table of scores, if it is not that of the tokens."""
        if not network.tied:
            yield Entry(HEAD, (network.n_tokens, network.dim), ("output",))
