"""Makes website/static/*.html, the live pages that the site shows in frames; a link to one is a frame on the site.

    python website/pages.py             write them
    python website/pages.py --check     write nothing, name what is stale, exit 1 if anything is

A page is stale if its script, style or words are others than now, or a number differs by more than rounding
(notebooks/build.py says how that is judged).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from notebooks.build import page_difference  # noqa: E402
from tinyattn.files import write_atomically  # noqa: E402
from tinyattn.ops import attention  # noqa: E402
from tinyattn.show import trace  # noqa: E402
from tinyattn.show.views import View, bench, visualise_text  # noqa: E402

STATIC = ROOT / "website" / "static"


def player() -> View:
    """Attention of the three words of chapter 01, and its backward."""
    q = np.array([[0.0, 2.0, 0.0, 0.0], [3.0, 0.0, 2.0, 0.0], [1.0, 2.0, 0.0, 0.0]])
    k = np.array([[2.0, 0.0, 0.0, 1.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0]])
    v = np.array([[4.0, 0.0], [0.0, 4.0], [0.0, -2.0]])
    found = trace(attention, q, k, v, backward=True)
    return found.player(follow=36, title="Attention of three words, forward and backward")


PAGES = {
    "player.html": player,
    "visualiser.html": lambda: visualise_text("The cat sat on the mat"),
    "bench.html": lambda: bench(["The", "cat", "sat", "down"]),
}


def stale() -> list[str]:
    """What of website/static is not what the code gives now, a sentence each."""
    found = []
    for name, make in PAGES.items():
        path = STATIC / name
        if not path.exists():
            found.append(f"{name} has not been made")
        elif why := page_difference(path.read_text(encoding="utf-8"), make().html()):
            found.append(f"{name} is stale: {why}")
    strays = sorted({path.name for path in STATIC.glob("*.html")} - PAGES.keys())
    return [*found, *(f"{name} is made by nothing" for name in strays)]


def main(arguments: list[str] | None = None) -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, name what is stale")
    if parser.parse_args(arguments).check:
        found = stale()
        print("\n".join(found) or f"{len(PAGES)} pages are as made")
        return 1 if found else 0
    for name, make in PAGES.items():
        write_atomically(STATIC / name, make().html().encode())
        print(STATIC / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
