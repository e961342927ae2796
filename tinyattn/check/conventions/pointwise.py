"""HSTU's released code divides by the padded length, hidden keys included; the paper's equation 2 does not divide."""

from typing import Any

import numpy as np

from ...ops import pointwise_attention, pointwise_attention_backward
from ..subject import Subject
from ..switch import Switch
from .convention import OtherSpec, convention, fitting, other_spec


def _seen(s: Any, mask: Any) -> Any:
    """The share of all keys that each query may look at, N_i / m."""
    seen = np.broadcast_to(True if mask is None else mask, s.shape)
    return np.mean(seen, axis=-1, keepdims=True, dtype=s.dtype)


def over_all(q: Any, k: Any, v: Any, mask: Any = None, bias: Any = None) -> Any:
    """out_i = (1 / m) Σ_j silu(q_i · k_j + bias_ij) v_j, over the keys that query i may look at, of m keys."""
    out, s = pointwise_attention(q, k, v, mask, bias)
    return out * _seen(s, mask)


def over_all_backward(dout: Any, q: Any, k: Any, v: Any, mask: Any = None, bias: Any = None) -> Any:
    _, s = pointwise_attention(q, k, v, mask, bias)
    return pointwise_attention_backward(dout * _seen(s, mask), q, k, v, s, mask, bias)


@convention("all keys", "the sum may be divided by the number of all keys, hidden ones too")
def _all_keys(op: Subject) -> Switch | None:
    kept = [prop for prop in op.spec.properties if prop.name != "keys_apart"]
    spec = other_spec(op.spec, over_all, over_all_backward, properties=kept)
    return fitting(op, (OtherSpec("the sum is divided by the number of all keys, hidden ones too", spec),))
