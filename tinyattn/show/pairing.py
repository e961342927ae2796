"""Match backward calls with forward calls, and gradients with the values they belong to."""

from collections.abc import Iterator

import numpy as np

from ..check.binding import upstream_names
from .records import Call, Entry


def forward_of(call: Call, forward: Call) -> Call | None:
    """The forward call that this backward call undoes: of the same name, with the most arrays in common."""
    if call.name.endswith(".backward"):
        plain = call.name.removesuffix("backward") + "forward"
    elif call.name.endswith("_backward"):
        plain = call.name.removesuffix("_backward")
    else:
        return None
    shared = {c: len(call.met & c.met) for c in forward.calls() if c.name == plain}
    most = max(shared.values(), default=0)
    best = [c for c, n in shared.items() if n == most > 0]
    return best[0] if len(best) == 1 else None


def gradients_of(call: Call, base: Call) -> Iterator[tuple[str, int | None, np.ndarray]]:
    """(name in the forward, index among its results or None, gradient) for every gradient in this backward call.

    Upstream gradients belong to results, in order. `dx` belongs to `x` if each of them is assigned once. A `dx` that is
    assigned twice is the gradient of two different values.
    """
    upstream = upstream_names(list(call.parameters), base.parameters)
    for i, name in enumerate(upstream):
        if name in call.inputs and i < len(base.results):
            yield name[1:], i, call.inputs[name]
    entries = [s for s in call.steps if isinstance(s, Entry) and s.name.startswith("d")]
    for entry in {e.name: e for e in entries}.values():
        bindings = sum(e.name == entry.name and e.how == "" for e in entries)
        values = [s for s in base.steps if isinstance(s, Entry) and s.name == entry.name[1:] and s.how != "in place"]
        single = len(values) == 1 or (not values and entry.name[1:] in base.inputs | base.renamed)
        if bindings <= 1 and entry.how != "input" and single and entry.name not in upstream:
            yield entry.name[1:], None, entry.value


def value_of(call: Call, name: str, place_of: int | None) -> np.ndarray | None:
    if place_of is not None:
        return call.results[place_of] if place_of < len(call.results) else None
    values = [s.value for s in call.steps if isinstance(s, Entry) and s.name == name]
    return call.inputs[name] if name in call.inputs else values[-1] if values else call.renamed.get(name)


def made_by(call: Call, value: np.ndarray) -> str:
    """The text of the line that computed the value, in this call or an inner one; of the calling line for an input."""
    made = [e for e in call.entries() if e.value is value and e.how != "input"]
    if made:
        return made[-1].text
    return f"read by  {call.called_at[1]}" if call.called_at[1] else "comes in"
