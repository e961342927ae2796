"""The command `tinyattn`, and `python -m tinyattn`."""

import signal
import sys


def run() -> int:
    """`cli.main`, imported here so that Ctrl-C prints no traceback even while NumPy loads."""
    try:
        from .terminal import open_standard_handles

        open_standard_handles()
        from .cli import main

        code = main()
    except KeyboardInterrupt:
        print("\ntinyattn: interrupted", file=sys.stderr)
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)     # only the interpreter's shutdown is left
    return code


if __name__ == "__main__":
    sys.exit(run())
