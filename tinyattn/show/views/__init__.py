"""Views: pages of their own that step, hover and follow; one script, `view.js`, draws them all."""

from .bench import Goal, bench
from .player import Player, player
from .view import View

__all__ = ["Goal", "Player", "View", "bench", "player"]
