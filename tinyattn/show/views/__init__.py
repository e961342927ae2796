"""Views: interactive pages, all drawn by one script, `view.js`."""

from .bench import Goal, bench
from .player import player
from .view import View
from .visualiser import visualise, visualise_text

__all__ = ["Goal", "View", "bench", "player", "visualise", "visualise_text"]
