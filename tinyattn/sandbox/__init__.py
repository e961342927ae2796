"""Calls of untrusted functions, such as answers to exercises, in a separate process that the kernel isolates.

The parent process sends arguments and receives results, as plain numbers and arrays; nothing is unpickled. `Room`
starts and ends such processes, wire.py has the messages, fence.py the kernel's restrictions, player.py the process.
"""

from .room import Answer, EndedError, Limits, Room

__all__ = ["Answer", "EndedError", "Limits", "Room"]
