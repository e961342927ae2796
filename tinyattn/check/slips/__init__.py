"""Known slips, as changes of the text of a formula: of a form in plain.py, of an oracle, or of a backward of the library.

What one rule of mutants.py changes is no slip, unless a sentence says it better.
"""

from . import layers, losses, optimisers, recurrences, scans
from .slip import Slip
from .tiles import OF_TILES as OF_TILES

SLIPS: dict[str, tuple[Slip, ...]] = {
    "lstm": recurrences.LSTM,
    "gru": recurrences.GRU,
    "rnn": recurrences.RNN,
    "adamw": optimisers.ADAMW,
    "rms_norm": layers.RMS_NORM,
    "batch_norm": layers.BATCH_NORM,
    "swiglu": layers.SWIGLU,
    "rotary": layers.ROTARY,
    "attention": layers.ATTENTION,
    "fused_attention": layers.ATTENTION,
    "flash_attention": layers.ATTENTION,
    "grouped_query_attention": layers.GROUPED_QUERY_ATTENTION,
    "conv1d": layers.CONV1D,
    "associative_scan": scans.ASSOCIATIVE_SCAN,
    "selective_scan": scans.SELECTIVE_SCAN,
    "wkv": scans.WKV,
    "bpr": losses.BPR,
    "bpr_max": losses.BPR_MAX,
    "distance_bpr": losses.DISTANCE_BPR,
    "cross_entropy": losses.CROSS_ENTROPY,
    "smoothed_cross_entropy": losses.SMOOTHED_CROSS_ENTROPY,
    "ranking_of_several": losses.RANKING_OF_SEVERAL,
}
