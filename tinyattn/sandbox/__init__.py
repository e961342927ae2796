"""Calls of untrusted functions, in a separate process that the kernel closes off.

Its parent sends arguments and gets results, as plain numbers and arrays; nothing is ever unpickled. `Room` starts and
ends such processes, wire.py has the messages, fence.py what the kernel refuses, player.py is the process itself.
"""

from .room import Answer, EndedError, Limits, Room

__all__ = ["Answer", "EndedError", "Limits", "Room"]
