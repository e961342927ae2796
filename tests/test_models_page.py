"""The page on which model to take: its commands are those of its runs."""

import pytest

from benchmarks import models
from tinyattn.cli import parser
from tinyattn.commands.train import model_of
from tinyattn.experiments import EXPERIMENTS
from tinyattn.experiments.running import make_model


@pytest.mark.parametrize(("one", "other"), [keys for _, *keys in models.MODELS.values()], ids=list(models.MODELS))
def test_each_command_makes_the_model_that_was_run(one, other):
    given = models.command(one, other).split()[1:]
    model, _ = model_of(parser(given).parse_args(given))
    row = EXPERIMENTS["full" if other else "sampled"].rows[f"ml-1m-{other or one}"]
    mine, theirs = model.get_params(), make_model(row, 0).get_params()
    assert mine | {"workers": 1} == theirs | {"workers": 1}
