"""How attention comes to know order: a file an idea. What adds or turns vectors, and what is added to scores."""

from .alibi import alibi
from .rotary import rotary, rotary_backward, rotary_tables
from .sinusoids import sinusoids

__all__ = ["alibi", "rotary", "rotary_backward", "rotary_tables", "sinusoids"]
