"""How many calls of the array module each op makes: `python -m tests.count_calls` writes calls.json.

Each call is a launch on a device. They are counted on the double, over cases that the op's spec draws, and the largest
count is kept. `tests/test_devices.py` holds every op to its line: a higher one costs every GPU user time at every step.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.devices import On
from tests.strict import COUNTS
from tinyattn import ops
from tinyattn.check.cases import CaseDrawer
from tinyattn.check.common import upstream
from tinyattn.check.specs import SPECS, Spec
from tinyattn.check.subject import Subject
from tinyattn.files import write_atomically

CALLS = Path(__file__).parent / "calls.json"
COUNTED = [spec.function for spec in SPECS.values() if spec.ours() is ops]


def count(function: str) -> dict[str, int]:
    """-> calls "forward" and "backward"; how often either "waits" for the device; "transfers" to or from it."""
    spec = next(s for s in SPECS.values() if s.function == function)
    op, on, most = Subject(ops, spec), On("strict"), {"forward": 0, "backward": 0, "waits": 0, "transfers": 0}
    for seed in range(8):
        case = spec.case(CaseDrawer.seeded(seed, ((3,),)))
        runs = {"forward": (op.forward, case)}
        if spec.wrt:
            runs["backward"] = (getattr(ops, f"{function}_backward"), _backward_case(op, spec, case))
        for way, (f, arguments) in runs.items():
            there = on.there(arguments)
            if "layout" in there:
                f(**there)                  # what a layout asks for is carried over once for each length, and kept
            COUNTS.clear()
            with np.errstate(all="ignore"):
                f(**there)
            most[way] = max(most[way], COUNTS["calls"])
            most["waits"] += COUNTS["synchronisations"]
            most["transfers"] += COUNTS["transfers"]
    return most


def _backward_case(op: Subject, spec: Spec, case: dict[str, Any]) -> dict[str, Any]:
    """What the backward is called with. A cache is made by a forward on the double, as no host's would do."""
    on = On("strict")
    takes = op.prepared(case, upstream(spec, case))
    if "cache" in takes:
        takes["cache"] = op.forward(**on.there(case))[-1]
    return takes


def main() -> None:
    found = {}
    for function in sorted(COUNTED):
        counted = count(function)
        assert not counted["waits"] + counted["transfers"], f"{function} waits for the device or carries something over"
        found[function] = [counted["forward"], counted["backward"]]
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(calls)}" for name, calls in found.items())
    write_atomically(CALLS, ("{\n" + lines + "\n}\n").encode())


if __name__ == "__main__":
    main()
