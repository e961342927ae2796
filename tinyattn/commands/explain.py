"""`tinyattn explain`: which earlier items led to a recommendation.

Print how much each item of a history adds to the score of the best recommendation, or of the item --for. This is
measured by leaving the item out of the history, and, if the model has them, by its gradient and its attention weights.
"""

import argparse
import sys
import textwrap
from typing import Any

from ..models import NeuralRecommender, explain
from ..models.explanation import ATTENTION, GRADIENT, LEFT_OUT
from .arguments import add_data, add_history, add_names, add_run
from .runs import history_of, names_of

NOTES = {
    LEFT_OUT: """\
left out: how much the item's score falls when this item is taken out of the history and everything is computed again.
This is what effect means here.
""",
    GRADIENT: """\
gradient: the derivative of the score by the item's embedding, times the embedding: an estimate of the effect, by the
network's own backward pass.
""",
    ATTENTION: """\
attention: how much the position that predicts attends to the item, the mean over blocks and heads. Attention is no
explanation by itself: weights may be high where nothing depends on them (Jain & Wallace 2019).
""",
}
AGREEMENT = "agreement: Spearman's rank correlation, 1 for the same order, -1 for the opposite one.\n"


def add(command: Any, arguments: list[str]) -> None:
    command.print_below("".join(NOTES.values()) + AGREEMENT)
    add_run(command)
    add_data(command)
    add_history(command)
    command.add_argument("--for", dest="item", metavar="ID", help="the item to explain (default: the best one)")
    add_names(command)


def run(options: argparse.Namespace) -> None:
    history, users, model, times = history_of(options)
    names = names_of(options, model)
    explained = explain(model, history, options.item, users[0] if users else None, times)
    read, effects = explained.history, explained.effects
    if len(read) < len(history):
        print(f"note: the model looks at the newest {len(read)} of the {len(history)} items", file=sys.stderr)
    print(f"what made {names.label(explained.item)}:")
    width = max(len(names.label(item)) for item in read)
    print(" " * (width + 6) + "".join(f"{name:>12}" for name in effects))
    for place, item in enumerate(read.tolist()):
        numbers = "".join(f"{row[place]:12.4f}" for row in effects.values())
        print(f"{place + 1:4}  {names.label(item):{width}}{numbers}")
    agreements = explained.agreement()
    for (one, other), agreement in agreements.items():
        shown = f"{agreement:+.2f}" if agreement == agreement else "none: one of them finds no difference"
        print(f"agreement of {one} and {other}: {shown}")
    if not effects[LEFT_OUT].any():
        print("no item changes the score: leaving out any of them has no effect")
    remark = model.network.weights_remark if isinstance(model, NeuralRecommender) else ""      # "" for shares of items
    about = textwrap.fill(f"In model {model.name} the weights are {remark}.", 118) + "\n" if remark else ""
    notes = NOTES | {ATTENTION: NOTES[ATTENTION] + about}
    shown = "".join(notes[name] for name in effects) + (AGREEMENT if agreements else "")
    print(f"\n{shown}", end="")
