"""The tagger: its loss, its metrics, when training ends, what it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from tinyattn.check import gradcheck_model
from tinyattn.data import TaskSampler
from tinyattn.data.sequence_tasks import Count, Recall
from tinyattn.models import Tagger, TaggerNetwork
from tinyattn.random import Stream, generator
from tinyattn.tree import flatten, leaves

TASK = Recall(pairs=2, keys=4, values=3, length=8, sequences=160, held_out=40)
PARITY = Count(length=6, sequences=640, held_out=100)
SMALL = {"dim": 8, "layers": 1, "batch_size": 16, "workers": 1, "context": 12}


def make():
    network = TaggerNetwork(n_tokens=TASK.n_tokens, dim=8, heads=2, layers=1, tied=False, context=8)
    p = flatten(network.init(generator(0, Stream.INIT)), np.float64)[1]
    return network, p, TaskSampler(TASK.generate(), 6, 0).batch(0)


def test_its_gradient():
    network, p, batch = make()
    assert gradcheck_model(network, p, batch)


def test_the_loss_counts_where_an_answer_is_asked_for_and_nowhere_else():
    network, p, batch = make()
    asked = batch.weight > 0
    scores, _ = network.forward(p, batch.ids)
    logs = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    wanted = -np.take_along_axis(logs, batch.targets[..., None], axis=-1)[..., 0][asked].mean()
    assert network.loss(p, batch)[0] == pytest.approx(wanted)
    others = batch._replace(targets=np.where(asked, batch.targets, 1))
    assert network.loss(p, others)[0] == network.loss(p, batch)[0]
    found = network.measure(p, batch)
    right = (scores.argmax(axis=-1) == batch.targets)[asked].sum()
    assert found["accuracy"] == (right, asked.sum())
    assert found["loss"] == (pytest.approx(wanted * asked.sum()), asked.sum())


def test_embeddings_are_large_and_the_first_loss_is_that_of_a_guess():
    network, p, batch = make()
    assert dict(leaves(p))["tokens"].std() == pytest.approx(1, abs=0.2)
    assert network.loss(p, batch)[0] == pytest.approx(np.log(TASK.n_tokens), abs=0.1)


def test_it_ends_where_enough_answers_are_right_and_not_before():
    options = SMALL | {"mixer": "gru", "position": "none", "lr": 0.02, "epochs": 12}
    whole = Tagger(**options).fit(PARITY, progress=False).history
    scores = [row["valid"] for row in whole]
    first = next(i for i, score in enumerate(scores) if score >= 0.9)
    assert 0 < first < 11
    short = Tagger(**options, enough=0.9).fit(PARITY, progress=False).history
    assert [row["valid"] for row in short] == scores[: first + 1]


def test_a_run_that_had_enough_does_not_go_on_when_it_is_resumed(tmp_path):
    def stop(history):
        raise KeyboardInterrupt

    def fit(**how):
        return Tagger(**SMALL, epochs=3, enough=0.01).fit(PARITY, progress=False, **how)

    with pytest.raises(KeyboardInterrupt):
        fit(checkpoint=tmp_path / "c.npz", on_epoch=stop)
    assert len(fit(checkpoint=tmp_path / "c.npz").history) == 1


def test_longer_sequences_are_measured_where_there_are_positions_for_them():
    for options in ({"position": "rope"}, {"mixer": "mamba", "position": "none"}, {"position": "learned"}):
        model = Tagger(**SMALL | options, epochs=1).fit(PARITY, progress=False)
        longer = replace(PARITY, length=24)
        assert model.reads(12)                                       # as long as the context
        assert model.reads(13) == (options != {"position": "learned"})
        if model.reads(24):
            assert 0 <= model.evaluate(longer)["accuracy"] <= 1
        else:
            assert options == {"position": "learned"}
            with pytest.raises(ValueError, match="task count has sequences of 24 tokens, expected at most 12"):
                model.evaluate(longer)
    with pytest.raises(ValueError, match="task recall has 7 different tokens, expected the model's 2"):
        model.evaluate(TASK)
    with pytest.raises(ValueError, match=r"enough is 1\.5"):
        Tagger(enough=1.5)
