"""The pages and pictures of benchmarks, made again from their results: nothing is measured.

    python benchmarks/pages.py               all of them
    python benchmarks/pages.py ladder zoo    those of these benchmarks

For when the words of a page have changed, or the way a picture is drawn. `tinyattn reproduce NAME --page` does it for
experiments.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import ROOT, write_pages, write_pictures

SCRIPTS = [path.stem for path in sorted((ROOT / "benchmarks").glob("*.py")) if "\ndef pages()" in path.read_text()]


def pages_of(script: str) -> dict[Path, str]:
    """What the script's `pages()` gives: the text of each page, or of its part of one."""
    module: Any = importlib.import_module(f"benchmarks.{script}")
    made: dict[Path, str] = module.pages()
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SCRIPTS)}")
    names = parser.parse_args().names or SCRIPTS
    if unknown := set(names) - set(SCRIPTS):
        parser.error(f"no pages of {', '.join(sorted(unknown))}: expected some of {', '.join(SCRIPTS)}")
    if len(names) == 1:
        write_pages(names[0], pages_of(names[0]))
        write_pictures(getattr(importlib.import_module(f"benchmarks.{names[0]}"), "pictures", dict)())
    else:                                    # each alone: what one of them imports may show on another's page
        for name in names:
            subprocess.run([sys.executable, __file__, name], check=True)
