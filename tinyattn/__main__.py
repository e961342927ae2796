"""The command `tinyattn`, and `python -m tinyattn`."""

import signal
import sys


def run() -> int:
    """`cli.main`, imported here so that a Ctrl-C while NumPy loads is no traceback either."""
    try:
        from .terminal import open_standard_handles

        open_standard_handles()
        from .cli import main

        code = main()
    except KeyboardInterrupt:
        print("\ntinyattn: interrupted", file=sys.stderr)
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)     # nothing is left but the interpreter's own end
    return code


if __name__ == "__main__":
    sys.exit(run())
