"""How long does an answer take? From an unseen history to its ten best next items: tinyattn beside PyTorch.

    python benchmarks/inference.py [--rounds 15] [--contenders tinyattn,torch-sdpa] [--only answers,one-more]

answers: one history of 5, 20, 50 or 200 items, ten histories at once, and 6,040 users. Histories are random; the
numbers of users and items (3,416) are ML-1M's. one-more: one more token of a text, or item of a history, with and
without a cache, by the contenders of benchmarks/one_more.py. Every contender's answers are first compared with the
library's in float64. Writes benchmarks/results/inference.json, which keeps the results of other makes of CPU, and .md.
"""

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks import one_more
from benchmarks.children import check, in_rounds, refuse, tell
from benchmarks.machine import (
    RESULTS,
    SPEED,
    by_make,
    describe,
    made_on,
    makes_in,
    newest,
    others,
    write_make,
    write_pages,
)
from benchmarks.peers import THREADS
from benchmarks.peers.answering import write
from benchmarks.peers.child import TOLERANCE
from benchmarks.ranking import draw, parameters
from benchmarks.training_step import ML_1M, SEED
from tinyattn.models import SASRecNetwork

RESULT, PAGE = RESULTS / "inference.json", RESULTS / "inference.md"
CONTENDERS = {"tinyattn": "numpy", "torch-released": "torch", "torch-sdpa": "torch"}  # name: the package it needs
NETWORK = SASRecNetwork(n_items=3_416, maxlen=200, dim=50, blocks=2, heads=1, dropout=0.2)
ONE = {f"one of {n} items": n for n in (5, 20, 50, 200)}
CASES = [*ONE, "ten at once", "all users"]
TITLES = {case: f"one history of {n} items" for case, n in ONE.items()} | {
    "ten at once": "ten histories at once", "all users": "all 6,040 users"}  # fmt: skip
PARTS = ("answers", "one-more")
GOAL = {"must": 2, "moonshot": 5}  # how many times as fast as the faster PyTorch, for a single history of any length
CHECKED = 20  # histories of full length, because torch-released attends to padding


def histories_of(case: str, network: SASRecNetwork) -> list[np.ndarray]:
    """Random histories of this case, without repeated items."""
    rng = np.random.default_rng(SEED)
    if case in ONE:
        return [1 + rng.choice(network.n_items, ONE[case], replace=False)]
    everyone = draw(network, ML_1M, None)
    return everyone[:10] if case == "ten at once" else everyone


def measure(network: SASRecNetwork, names: list[str], cases: list[str], rounds: int) -> dict[str, Any]:
    rng, weights, found = np.random.default_rng(SEED), parameters(network), {}
    full = [1 + rng.choice(network.n_items, network.maxlen, replace=False) for _ in range(CHECKED)]
    checked: dict[str, Any] = {}
    for case in cases:
        tell(f"-- {case}")
        with tempfile.TemporaryDirectory() as folder:
            histories = histories_of(case, network)
            write(Path(folder), network, weights, histories, full)
            if not checked:
                checked = check(names, Path(folder), "answering")
                refuse(checked)
            contenders = in_rounds(names, Path(folder), rounds, SEED, "answering")
        found[case] = {"histories": len(histories), "contenders": contenders}
    shape = {name: getattr(network, name) for name in ("n_items", "maxlen", "dim", "blocks")}
    return {"network": shape, "check": checked, "cases": found}


def times(result: dict[str, Any], case: str, name: str) -> np.ndarray:
    """The contender's time / tinyattn's, for every round."""
    contenders = result["cases"][case]["contenders"]
    return np.divide(contenders[name]["seconds"], contenders["tinyattn"]["seconds"])


def table(result: dict[str, Any]) -> str:
    """A row for each case: milliseconds, and in brackets the ratio to tinyattn's."""
    names = list(next(iter(result["cases"].values()))["contenders"])
    lines = ["| ms | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for case, found in result["cases"].items():
        cells = []
        for name in names:
            cell = f"{1e3 * float(np.median(found['contenders'][name]['seconds'])):.3g}"
            ratio = "tinyattn" in names and name != "tinyattn"
            cells.append(cell + (f" ({float(np.median(times(result, case, name))):.2f})" if ratio else ""))
        lines.append(f"| {TITLES.get(case, case)} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", verdict(result)])


def verdict(result: dict[str, Any]) -> str:
    """The goal and the result: the worst case with one history, against the faster PyTorch."""
    levels = ", ".join(f"{name} {least}" for name, least in GOAL.items())
    cases = [case for case in ONE if case in result["cases"]]
    rivals = [name for name in CONTENDERS if name != "tinyattn" and name in result["check"]]
    if not cases or not rivals or "tinyattn" not in result["check"]:
        return f"Goal, times as fast as the faster PyTorch with one history: {levels}. Not measured."
    value = min(float(np.median(times(result, case, name))) for case in cases for name in rivals)
    reached = [name for name, least in GOAL.items() if value >= least]
    level = reached[-1] if reached else "**missed**"
    return f"Goal, times as fast as the faster PyTorch with one history: {levels}. Reached: {value:.2f}, {level}."


def page(result: dict[str, Any]) -> str:
    """The Markdown page, from the results file alone."""
    machine, options, network = result["machine"], result["options"], result["network"]
    lines = [
        "# From a history to its ten best", "",
        f"{network['n_items']:,} items, n {network['maxlen']}, d {network['dim']}, {network['blocks']} blocks.",
        "", table(result), "", HOW.strip(), "",
        f"{options['rounds']} rounds. {made_on(machine)}; OPENBLAS_CORETYPE was "
        f"{result['OPENBLAS_CORETYPE'] or 'not set'} and is not set for any contender.", "",
    ]  # fmt: skip
    last = list(result["cases"].values())[-1]["contenders"]
    for name, row in result["check"].items():
        about = ", ".join(f"{what} {value}" for what, value in last[name]["about"].items() if what != "calls a round")
        lines.append(f"- {name}: {about}; scores off by {row['off']:.0e}")
    lines += [f"- {name}: not installed, not measured" for name in options["missing"]]
    if "one more" in result:
        lines += ["", "## One more token, one more item", "", one_more.part(result["one more"])]
    return "\n".join([*lines, "", "Made by `python benchmarks/inference.py`.", ""])


HOW = f"""
In brackets: times tinyattn's, medians of ratios within a round. Every contender has a process of its own and
{THREADS} threads, and gave for {CHECKED} histories of full length the ten best scores that the library gives in
float64, to {TOLERANCE:g} of the largest. In each round all answer the same question for about .2 s, one after the
other and in random order; a time is the median of a round's calls. The time runs from a list of items to the ten
best and their scores: it includes padding, leaving out the history's own items and choosing the ten. tinyattn is
`SASRec.recommend` of the default form, pre-LN blocks with full attention, which has a form of its own for one
history; other forms and models answer one history like a batch. torch-released has the form of
pmixer/SASRec.pytorch: every history padded to the full length, nn.MultiheadAttention, all positions. torch-sdpa is
eager with scaled_dot_product_attention, a batch as wide as its longest history, the last norm and the product with
the item table at the last position only. Both are in inference mode, sort histories by length and score them in
batches of 128.
"""


def pages() -> dict[Path, str]:
    makes = makes_in(RESULT)
    more = newest(makes)["one more"]
    made = f"{more['rounds']} rounds, {made_on(more['machine'])}."
    return {PAGE: by_make(makes, page), SPEED: f"{one_more.summary(more)}\n\n{made}{others(makes, PAGE)}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--contenders", default=",".join(CONTENDERS), metavar="NAME,NAME")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,PART", help="the parts to measure")
    args = parser.parse_args()
    for words, known in ((args.contenders, CONTENDERS), (args.only, PARTS)):
        unknown = set(words.split(",")) - set(known)
        if unknown:
            parser.error(f"{', '.join(sorted(unknown))}: expected some of {', '.join(known)}")
    if args.rounds < 1:
        parser.error(f"{args.rounds} rounds: expected at least 1")
    result = makes_in(RESULT).get(describe()["cpu"], {})
    if "answers" in args.only.split(",") or not result:
        names = [name for name in CONTENDERS if name in args.contenders.split(",")]
        missing = [name for name in names if importlib.util.find_spec(CONTENDERS[name]) is None]
        result |= measure(NETWORK, [n for n in names if n not in missing], CASES, args.rounds) | {
            "machine": describe(),
            "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
            "options": {"rounds": args.rounds, "missing": missing},
        }
    if "one-more" in args.only.split(","):
        found = one_more.measure(list(one_more.CONTENDERS), args.rounds, one_more.CASES)
        result["one more"] = {"cases": found, "machine": describe(), "rounds": args.rounds}
    RESULTS.mkdir(exist_ok=True)
    write_make(RESULT, result)
    if "one more" in result:
        write_pages(__file__, pages())
    else:
        print("no page is written before `--only one-more` has been measured as well", file=sys.stderr)
    print(page(result))


if __name__ == "__main__":
    main()
