"""States that are carried from token to token."""

from .associative_scan import associative_scan, associative_scan_backward
from .gru import gru, gru_backward
from .lstm import lstm, lstm_backward
from .matrices import scan_matrix, wkv_weights
from .rnn import rnn, rnn_backward
from .selective_scan import ScanStates, selective_scan, selective_scan_backward
from .wkv import wkv, wkv_backward

__all__ = [
    "ScanStates",
    "associative_scan",
    "associative_scan_backward",
    "gru",
    "gru_backward",
    "lstm",
    "lstm_backward",
    "rnn",
    "rnn_backward",
    "scan_matrix",
    "selective_scan",
    "selective_scan_backward",
    "wkv",
    "wkv_backward",
    "wkv_weights",
]
