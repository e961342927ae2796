"""How few records serve a training on a device, if batches are padded to few lengths? For docs/gpu.md.

    python benchmarks/lengths.py Beauty=beauty.txt MovieLens-1M=ml-1m.txt     files of `user item` lines

Nothing is trained: three epochs of batches of 128 users are drawn, and each step is launched from a record or computed
call by call, as `training/launching.py` would do. Writes benchmarks/results/lengths.json.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.machine import RESULTS, ROOT, describe, made_on, write_pages, write_result
from tinyattn.data import Batch, ClozeSampler, Sampler, leave_one_out, read
from tinyattn.training.launching import MOST

RESULT = RESULTS / "lengths.json"
MAXLENS, USERS, EPOCHS, HIDDEN = (50, 200), 128, 3, 0.2
USED = "a power of two"
RULES: dict[str, Callable[[int, int], int]] = {
    "the batch's": lambda length, _: length,
    "a multiple of maxlen / 8": lambda length, maxlen: multiple(length, maxlen, 8),
    "a multiple of maxlen / 4": lambda length, maxlen: multiple(length, maxlen, 4),
    USED: lambda length, maxlen: min(1 << (length - 1).bit_length(), maxlen),
    "maxlen": lambda _, maxlen: maxlen,
}
Sizes = tuple[int, ...]


def multiple(length: int, maxlen: int, parts: int) -> int:
    part = -(-maxlen // parts)
    return min(-(-length // part) * part, maxlen)


def launches(steps: list[tuple[Sizes, Sizes]]) -> dict[str, Any]:
    """Of (sizes of the batch, sizes once padded) of each step: how many are launched, and what that computes."""
    met: set[Sizes] = set()
    records: set[Sizes] = set()
    launched, computed = 0, 0
    for own, layout in steps:
        if layout in met and len(records) < MOST:
            records.add(layout)
        launched += layout in records
        computed += entries(layout if layout in records else own)
        met.add(layout)
    return {
        "layouts": len(met), "launched": launched / len(steps),
        "positions": computed / sum(entries(own) for own, _ in steps),
        "memory": sum(map(entries, records)) / max(entries(layout) for _, layout in steps),
    }  # fmt: skip


def entries(sizes: Sizes) -> int:
    return sizes[0] * sizes[1]


def sizes_of(batch: Batch) -> Sizes:
    return *batch.ids.shape, batch.targets.shape[1]


def measured(name: str, path: str) -> Iterator[dict[str, Any]]:
    train = leave_one_out(read(path)).train
    for maxlen in MAXLENS:
        sampler = Sampler(train, maxlen, USERS, 0, False)
        sizes = [sampler.batch(i).ids.shape for i in range(EPOCHS * sampler.steps)]
        for rule, length_of in RULES.items():
            row = launches([((B, n), (B, length_of(n, maxlen))) for B, n in sizes])
            yield {"data": name, "maxlen": maxlen, "length": rule} | row
        cloze = ClozeSampler(train, maxlen, USERS, 0, False, rho=HIDDEN, mask_last=0.1)
        batches = [cloze.batch(i) for i in range(EPOCHS * cloze.steps)]
        for rule, padded in (("the batch's, BERT4Rec", lambda x: x), (USED + ", BERT4Rec", Batch.padded)):
            steps = [(sizes_of(b), sizes_of(padded(b))) for b in batches]
            yield {"data": name, "maxlen": maxlen, "length": rule} | launches(steps)


def pages() -> dict[Path, str]:
    found = json.loads(RESULT.read_text())
    lines = [
        "| data, maxlen | length of a record | layouts | launched | positions | memory |",
        "|---|---|---|---|---|---|",
    ]
    uneven = {
        (row["data"], row["maxlen"]) for row in found["rows"] if row["length"] == "the batch's" and row["layouts"] > 2
    }
    others = sorted({f"{row['data']}, {row['maxlen']}" for row in found["rows"]} - {f"{a}, {n}" for a, n in uneven})
    for row in (row for row in found["rows"] if (row["data"], row["maxlen"]) in uneven):
        length = f"**{row['length']}**" if row["length"].startswith(USED) else row["length"]
        numbers = f"{row['launched']:.0%} | {row['positions']:.2f} | {row['memory']:.1f}"
        lines.append(f"| {row['data']}, {row['maxlen']} | {length} | {row['layouts']} | {numbers} |")
    lines += [
        "",
        f"{EPOCHS} epochs of {USERS} users a batch, at most {MOST} records. Positions are those computed, beside those "
        "of unpadded batches; memory is that of all records, beside the largest step's. Every batch has one length: "
        f"{'; '.join(others)} ({made_on(found['machine'])}).",
    ]
    return {ROOT / "docs" / "gpu.md": "\n".join(lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", metavar="NAME=FILE")
    given = [text.partition("=") for text in parser.parse_args().data]
    if not all(name and path for name, _, path in given):
        parser.error("expected NAME=FILE")
    rows = [row for name, _, path in given for row in measured(name, path)]
    write_result(RESULT, {"rows": rows, "machine": describe()})
    write_pages(__file__, pages())


if __name__ == "__main__":
    main()
