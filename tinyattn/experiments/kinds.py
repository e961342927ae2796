"""Tasks that distinguish kinds of sequence models: recall, induction, copying, counting, also on longer sequences."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.sequence_tasks import Balance, Count, Induction, Recall, SelectiveCopy, SequenceTask
from ..layers import nbytes
from ..tree import leaves
from .experiment import TIMES, Experiment, Results, Row, TaskData
from .pictures import Curves, Line, Picture
from .tables import cell, figures, grid, page, values
from .whole import is_count

SOLVED = 0.99            # the share of right answers from which a task is solved
LENGTH = 32
LONGEST = TIMES["longest"] * LENGTH
DRAWN: dict[str, Any] = {"length": LENGTH, "sequences": 6400, "held_out": 500}
TRAINED: dict[str, Any] = {"dim": 32, "layers": 2, "batch_size": 32, "epochs": 20, "lr": 3e-3, "enough": 0.998,
                           "context": LONGEST}  # fmt: skip
STEPS = TRAINED["epochs"] * DRAWN["sequences"] // TRAINED["batch_size"]
WINDOW, SINKS = 12, 2

# key: the heading of its column, the task
TASKS: dict[str, tuple[str, SequenceTask]] = {
    "recall-2": ("recall, 2 pairs", Recall(pairs=2, keys=16, values=16, **DRAWN)),
    "recall-8": ("recall, 8 pairs", Recall(pairs=8, keys=16, values=16, **DRAWN)),
    "induction": ("induction", Induction(tokens=16, **DRAWN)),
    "copy": ("selective copy", SelectiveCopy(copied=8, tokens=8, **DRAWN)),
    "parity": ("parity", Count(modulus=2, **DRAWN)),
    "balance": ("balance", Balance(**DRAWN)),
}

# key: title, options, milliseconds of a step; theory about recall, induction, copying, parity and balance
KINDS: dict[str, tuple[str, dict[str, Any], int, tuple[str, ...]]] = {
    "learned": ("attention, learned positions", {"position": "learned", "heads": 2}, 10,
                ("yes", "yes", "yes", "no", "yes")),
    "rope": ("attention, rotary positions", {"position": "rope", "heads": 2}, 11,
             ("yes", "yes", "yes", "no", "yes")),
    "none": ("attention, no positions", {"position": "none", "heads": 2}, 10,
             ("deeper", "deeper", "deeper", "no", "yes")),
    "one-block": ("attention, learned positions, one block", {"position": "learned", "heads": 2, "layers": 1}, 6,
                  ("no", "no", "no", "no", "yes")),
    "shared": ("attention, rotary positions, shared keys, values",
               {"position": "rope", "heads": 2, "kv_heads": 1}, 11, ("yes", "yes", "yes", "no", "yes")),
    "latent-16": ("latent attention, 16 + 8 numbers a token",
                  {"mixer": "latent", "position": "rope", "heads": 2, "latent": 16, "turned": 8}, 10,
                  ("yes", "yes", "yes", "no", "yes")),
    "latent-8": ("latent attention, 8 + 8 numbers a token",
                 {"mixer": "latent", "position": "rope", "heads": 2, "latent": 8, "turned": 8}, 10,
                 ("yes", "yes", "yes", "no", "yes")),
    "window": (f"attention, rotary positions, {WINDOW} tokens, {SINKS} sinks",
               {"position": "rope", "heads": 2, "mechanism": "bigbird", "block_size": 1, "window_blocks": WINDOW,
                "global_blocks": SINKS, "random_blocks": 0}, 20, ("no", "no", "no", "no", "no")),
    "rnn": ("RNN", {"mixer": "rnn", "position": "none"}, 10, ("size", "size", "size", "yes", "no")),
    "lstm": ("LSTM", {"mixer": "lstm", "position": "none"}, 12, ("size", "size", "size", "yes", "yes")),
    "gru": ("GRU", {"mixer": "gru", "position": "none"}, 12, ("size", "size", "size", "yes", "no")),
    "rwkv": ("RWKV", {"mixer": "rwkv", "position": "none"}, 15, ("size", "size", "size", "no", "yes")),
    "mamba": ("Mamba", {"mixer": "mamba", "position": "none"}, 24, ("size", "size", "size", "no", "yes")),
    "delta": ("Gated DeltaNet", {"mixer": "delta", "position": "none"}, 17, ("size", "size", "size", "no", "yes")),
}  # fmt: skip
RULES = list(dict.fromkeys(type(task) for _, task in TASKS.values()))       # in the order of the theory

FIRST = f"""
The share of right answers on unseen sequences of {LENGTH} tokens, and how many of the runs solved the task; in bold
where all did. In italics, the theory (below). *yes*: there are weights that solve the task at every length; *no*: there
are none; *size*: a state of fixed size cannot, once it has more to remember than it holds; *deeper*: it takes one more
block.
"""
WHY = f"""
The theory, in italics. **Recall, induction, copying**: a state of fixed size holds a limited number of pairs, as each
takes some bits (Arora et al. 2024; Jelassi et al. 2024): *size*, a limit where there is much to remember.
{{room}}Attention keeps all tokens. It needs two blocks, as the answer stands beside the searched token, or as tokens
have to be counted before the search: one block would have to be wider for more tokens (for induction Sanford et al.
2024). Without positions, a causal mask lets a block find out where tokens stand, for the blocks after it to use
(Kazemnejad et al. 2023): *deeper*, as a third block comes first, unless one of the two does this, too. Shared keys and
values, and latent vectors, are fewer numbers a token, of all tokens. With a window of w tokens, L blocks reach
L (w - 1) tokens back, here {TRAINED["layers"] * (WINDOW - 1)}, and sinks are the first {SINKS} tokens, which all later
ones see; what is asked for may stand between, or be a count of tokens there: *no*. **Parity** takes a state that a
token can flip. Attention with bounded scores has none (Hahn 2020; with a norm and positions i / n it can still solve
the task, Chiang & Cholak 2022). Linear recurrences whose maps have no negative eigenvalue have none either: RWKV and
Mamba (Sarrof et al. 2024), Gated DeltaNet (Grazzi et al. 2024). **Balance**: an LSTM's cell counts without bound, the
states of RNN and GRU are bounded (Weiss et al. 2018); a mean over all tokens, such as attention's, is 0 for as many a's
as b's (Bhattamishra et al. 2020), and linear recurrences whose decay may be 1 count as well (Sarrof et al. 2024); here
decays come near 1 and never reach it. Learned positions beyond the trained length are untrained. The theory says
whether weights exist that solve a task at every length. It says nothing about training: where a *yes* was not solved,
these steps did not find such weights; where a *no* was solved, it was solved at this length.
"""
ROOM = """
Here no task asks for more than {most:.0f} bits, and the smallest state, {kept} numbers in float32, has {bits:,}: where
they fail, it is not for want of room.
"""


def in_theory(kind: str, data: str) -> str:
    return KINDS[kind][3][RULES.index(type(TASKS[data][1]))]


SIZES = ("parameters", "kept", "kept longest")


def sizes(model: Any, split: Any) -> dict[str, Any]:
    """The number of parameters, and of the numbers that a model keeps of a sequence to continue it."""
    numbers = {"parameters": sum(leaf.size for _, leaf in leaves(model.parameters))}
    for name, length in zip(SIZES[1:], (LENGTH, LONGEST), strict=True):
        _, kept = model.network.extend(model.parameters, np.zeros((1, length), dtype=np.int64))
        numbers[name] = nbytes(kept) // np.dtype(np.float32).itemsize
    return numbers


def sizes_are_whole(run: dict[str, Any]) -> bool:
    return all(is_count(run[name]) for name in SIZES)


def _by_task(content: Callable[[str, str], str]) -> list[tuple[str, list[str]]]:
    """Rows of a table: a line for each kind, a column for each task; content(kind, task) is a cell."""
    return [(title, [content(kind, data) for data in TASKS]) for kind, (title, *_) in KINDS.items()]


def _answers(results: Results, protocol: str) -> list[str]:
    """The share of right answers, mean and deviation, and how many of the runs solved the task."""
    tasks = [replace(task, length=TIMES[protocol] * LENGTH) for _, task in TASKS.values()]
    rows = [
        ("*a blind guess*", [f"*{task.chance:.3f}*" for task in tasks]),
        ("*a guess by odd or even place*",
         ["" if task.by_place is None else f"*{task.by_place:.3f}*" for task in tasks]),
        ("*bits that there are to remember*", [f"*{task.bits:.0f}*" for task in tasks]),
    ]  # fmt: skip

    def content(kind: str, data: str) -> str:
        accuracies = values(results[f"{data}-{kind}"], (protocol, "accuracy"))
        solved = sum(value >= SOLVED for value in accuracies)
        text = f"{cell(accuracies, 3)} ({solved} of {len(accuracies)})" if accuracies else "to come"
        return f"{f'**{text}**' if accuracies and solved == len(accuracies) else text}, *{in_theory(kind, data)}*"

    return grid([title for title, _ in TASKS.values()], rows + _by_task(content))


def _sizes(results: Results) -> list[str]:
    """Sizes of the first task's models, and right answers as the mean over tasks, once each has runs."""
    rows = []
    for kind, (title, *_) in KINDS.items():
        by_task = [results[f"{data}-{kind}"] for data in TASKS]
        numbers = [f"{by_task[0][0][name]:,}" for name in SIZES] if by_task[0] else [""] * len(SIZES)
        for protocol in ("trained", "longest"):
            means = [statistics.mean(values(runs, (protocol, "accuracy"))) for runs in by_task if runs]
            numbers.append(f"{statistics.mean(means):.3f}" if len(means) == len(TASKS) else "")
        rows.append((title, numbers))
    columns = [f"{what} {n} tokens" for what in ("numbers kept after", "right answers at") for n in (LENGTH, LONGEST)]
    return grid(["parameters", *columns], rows)


def _steps(results: Results) -> list[str]:
    def content(kind: str, data: str) -> str:
        runs = [run for run in results[f"{data}-{kind}"] if run["metrics"]["trained"]["accuracy"] >= SOLVED]
        return f"{np.mean([run['epochs'] for run in runs]) * (STEPS // TRAINED['epochs']):,.0f}" if runs else ""

    return grid([title for title, _ in TASKS.values()], _by_task(content))


def _why(results: Results) -> str:
    """The theory, and a comparison of its bounds with the states here."""
    kept = [run["kept"] for runs in results.values() for run in runs]
    most = max(task.bits for _, task in TASKS.values())
    room = ROOM.lstrip().format(most=most, kept=min(kept), bits=32 * min(kept)) if kept else ""
    return WHY.strip().replace("{room}", room)


def _page(experiment: Experiment, results: Results) -> str:
    parts = [[FIRST.strip()], _answers(results, "trained")]
    for name in experiment.protocols[1:]:
        parts += [[f"The same models on sequences of {TIMES[name] * LENGTH} tokens:"], _answers(results, name)]
    parts += [["Steps of the runs that solved their task, on average:"], _steps(results)]
    first_task = next(iter(TASKS.values()))[0]
    heading = f"Sizes of the models of the first task ({first_task}), and the mean of right answers over all tasks:"
    parts += [[heading], _sizes(results), figures(experiment, results)]
    return page(experiment, results, [*parts, [_why(results)]])


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    lengths = [TIMES[name] * LENGTH for name in experiment.protocols]
    panels: dict[str, dict[str, Line]] = {}
    for data, (task, _) in TASKS.items():
        for kind, (title, *_) in KINDS.items():
            if runs := results.get(f"{data}-{kind}"):
                means = [statistics.mean(values(runs, (name, "accuracy"))) for name in experiment.protocols]
                panels.setdefault(task, {})[title] = lengths, means
    alt = "Right answers of each kind by the length of the sequence, a panel a task"
    return {"lengths": Curves(alt, "tokens", "right answers", panels)}


EXPERIMENT = Experiment(
    name="kinds",
    title="What tells kinds of sequence models apart",
    question=f"""
Two causal blocks of width {TRAINED["dim"]} (or the row's number), with attention or a recurrence, learn {len(RULES)}
tasks. **Recall**: pairs of a key and its value, then keys; the answer is the value of
each. **Induction**: the token that followed the last occurrence of this one. **Selective copy**: 8 tokens among blanks,
to be repeated in order. **Parity**: is the number of ones so far odd? **Balance**: a's, then as many b's; was this
the last b? (`tinyattn.data.SEQUENCE_TASKS` has each with its source.) Sequences of {LENGTH} tokens are drawn anew at
every step, {TRAINED["batch_size"]} a step, at most {STEPS:,} steps; the loss counts at the tokens with an answer. A run
ends early once {TRAINED["enough"]} of the validation answers are right, and its best epoch counts. A task is solved
where {SOLVED} of the answers of {DRAWN["held_out"]} test sequences are right.
""",
    datasets={key: TaskData(title, task) for key, (title, task) in TASKS.items()},
    rows={
        f"{data}-{kind}": Row(title, data, "tagger", TRAINED | options, minutes=round(step * STEPS / 60_000, 2))
        for data in TASKS
        for kind, (title, options, step, _) in KINDS.items()
    },
    page=_page,
    pictures=_pictures,
    protocols=tuple(TIMES),
    also=sizes, is_whole=sizes_are_whole,
    seeds=3,
)
