"""Known slips, as changes of the text of a formula: of a form in plain.py, of an oracle, or of a backward of the library.

What one rule of mutants.py changes is no slip, unless a sentence says it better.
"""

from . import layers, losses, optimisers, recurrences, scans
from .slip import Slip
from .tiles import OF_TILES as OF_TILES

SLIPS: dict[str, tuple[Slip, ...]] = {  # by kind: a file names its tuples like the kinds, in capitals
    name.lower(): slips
    for file in (layers, losses, optimisers, recurrences, scans)
    for name, slips in vars(file).items()
    if name.isupper() and name[0] != "_"
}
SLIPS |= dict.fromkeys(("fused_attention", "flash_attention"), layers.ATTENTION)
