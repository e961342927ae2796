"""The command `tinyattn`, and `python -m tinyattn`."""

import sys


def run() -> int:
    """`cli.main`, imported here so that a Ctrl-C while NumPy loads is no traceback either."""
    try:
        from .terminal import open_standard_handles

        open_standard_handles()
        from .cli import main

        return main()
    except KeyboardInterrupt:
        print("\ntinyattn: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
