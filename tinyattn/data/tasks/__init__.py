"""Tasks: pairs of strings drawn from a rule. A new one is a subclass of `Task` and a line in TASKS."""

from .dates import Dates
from .letters import Copy, Reverse, Sort
from .task import Task

TASKS: dict[str, type[Task]] = {task.name: task for task in (Dates, Reverse, Copy, Sort)}
