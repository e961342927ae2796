"""Every model that chooses among classes has label smoothing, in its training loss alone."""

import numpy as np
import pytest

from tests.models.transformers import test_decoder, test_images, test_transformer
from tinyattn.check import gradcheck_model
from tinyattn.models import MODELS
from tinyattn.models.cross_entropy import ClassNetwork

OF_CLASSES = [name for name, model in MODELS.items() if issubclass(getattr(model, "Network", object), ClassNetwork)]
MADE = {
    "decoder": lambda **options: (*test_decoder.make(**options), test_decoder.batch_of()),
    "transformer": lambda **options: (*test_transformer.make(**options), test_transformer.batch_of()),
}


def smoothed_by_hand(scores, targets, weights, rate):
    """The mean of -Σ q log softmax(scores), q written out."""
    log_p = scores - np.log(np.sum(np.exp(scores), axis=-1, keepdims=True))
    q = np.full_like(scores, rate / scores.shape[-1])
    np.put_along_axis(q, targets[..., None], 1 - rate + rate / scores.shape[-1], axis=-1)
    return np.sum(weights * -np.sum(q * log_p, axis=-1)) / np.sum(weights)


@pytest.mark.parametrize("name", MADE)
def test_the_loss_is_smoothed_with_its_gradient_and_what_is_measured_is_not(name):
    network, p, batch = MADE[name](dropout=0.0, label_smoothing=0.2)
    plain, *_ = MADE[name](dropout=0.0)
    scores, targets, weights, _ = network.scores_and_targets(p, batch)
    assert network.loss(p, batch)[0] == pytest.approx(smoothed_by_hand(scores, targets, weights, 0.2), rel=1e-12)
    assert gradcheck_model(network, p, batch, entries=1)
    assert network.measure(p, batch) == plain.measure(p, batch)


def test_of_two_heads_both_losses_are_smoothed():
    network, p = test_images.make("distil")
    network.label_smoothing = 0.2
    scores, targets, weights, _ = network.scores_and_targets(p, test_images.batch_of())
    assert scores.shape[1] == 2
    loss = network.loss(p, test_images.batch_of())[0]
    assert loss == pytest.approx(smoothed_by_hand(scores, targets, weights, 0.2), rel=1e-12)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_every_model_hands_the_option_to_its_network(name):
    model = MODELS[name](label_smoothing=0.1)
    assert model.options_for(model.Network)["label_smoothing"] == 0.1
    with pytest.raises(ValueError, match=r"label_smoothing is 1.0, expected 0 <= label_smoothing < 1"):
        MODELS[name](label_smoothing=1.0)


def test_which_models_choose_among_classes():
    of_texts = OF_CLASSES[:6]
    assert of_texts == ["transformer", "rnnsearch", "decoder", "encoder", "classifier", "tagger"]
    assert OF_CLASSES[6:] == ["vit", "swin", "beit"]
