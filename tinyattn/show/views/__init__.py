"""Views: pages of their own that step, hover and follow; one script, `view.js`, draws them all."""

from .player import Player, player
from .view import View

__all__ = ["Player", "View", "player"]
