"""Views: interactive pages. Each kind of view has a script, which draws with the functions of `ground.js`."""

from .board import boards_of, find_the_bug
from .derivation import derivation
from .mirror import Goal, mirror
from .player import player
from .view import View
from .visualiser import visualise, visualise_text

__all__ = ["Goal", "View", "boards_of", "derivation", "find_the_bug", "mirror", "player", "visualise", "visualise_text"]
