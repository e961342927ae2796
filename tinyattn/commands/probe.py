"""`tinyattn probe`: how well each layer's states tell which part of the grammar wrote a character.

Predict which part of the generated grammar wrote each character, by a linear map of the states of RUN's model. The map
is fitted on sentences of one seed, and measured on those of the next.
"""

import argparse
from typing import Any

import numpy as np

from ..data import Grammar, GrammarChain
from ..evaluation import linear_probe
from ..models import Encoder
from .arguments import add_run
from .measures import open_kind
from .tables import print_means


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    text = "sentences to fit the map, and half as many to test it (default: 400)"
    command.add_argument("--sentences", type=int, default=400, metavar="N", help=text)
    command.add_argument("--seed", type=int, default=1, metavar="N", help="seed of these sentences (default: 1)")


def run(options: argparse.Namespace) -> None:
    if options.sentences < 2:
        raise ValueError(f"--sentences is {options.sentences}, expected at least 2")
    fitted = Grammar(sentences=options.sentences, seed=options.seed).generate().text
    tested = Grammar(sentences=options.sentences // 2, seed=options.seed + 1).generate().text
    model, _ = open_kind(options.run_folder, Encoder, options.device)
    chain = GrammarChain.of_rules()
    labels, wanted = (np.array(chain.parts_of(text)) for text in (fitted, tested))
    rows = {}
    for layer, (train, test) in enumerate(zip(model.states(fitted), model.states(tested), strict=True)):
        probed = linear_probe(train, labels, test, wanted, options.seed)
        rows[f"block {layer}" if layer else "embedding"] = {"test": probed._asdict()}
    print_means(f"the part of the grammar of {len(wanted):,} characters, predicted from states", rows, "test", model)
