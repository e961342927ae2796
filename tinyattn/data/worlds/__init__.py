"""Generated worlds, whose truth is known: a file each, and a line in WORLDS."""

from .chain import ChainWorld
from .series import SeriesWorld
from .tastes import TasteWorld
from .world import World

WORLDS: dict[str, type[World]] = {cls.name: cls for cls in (SeriesWorld, ChainWorld, TasteWorld)}
