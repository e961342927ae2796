"""Views: pages of their own that step, hover and follow; one script, `view.js`, draws them all."""

from .bench import Goal, bench
from .player import player
from .view import View
from .visualiser import visualise, visualise_text

__all__ = ["Goal", "View", "bench", "player", "visualise", "visualise_text"]
