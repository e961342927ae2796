"""A training step of every model with kernels, interpreted on a CPU, beside the step without them."""

import numpy as np
import pytest

from tests.fast.test_kernels import proven  # noqa: F401  a fixture
from tests.models import small
from tinyattn import backend
from tinyattn.fast import kernels
from tinyattn.models import MODELS
from tinyattn.training import Learner

pytestmark = [
    pytest.mark.host,
    pytest.mark.filterwarnings("ignore:.*overflow encountered in scalar"),  # of a hash, in the simulator's threads
]

TINY = {"dim": 4, "heads": 2, "layers": 1, "blocks": 1, "maxlen": 7, "context": 7, "batch_size": 2}
MORE = {  # the simulator has a Python thread for each entry
    **{name: {"maxlen": 3} for name in small.TRAINED if MODELS[name].table == "ranking"},
    "caser": {"maxlen": 3, "window": 2, "nh": 2, "nv": 2},
    **{name: {"context": 3} for name in ("decoder", "encoder")},
    "swin": {"window": 2, "stages": 1},
    "transformer": {"dim": 2},
    "beit": {"words": 4},
}
AT_ONCE = ("fpmc", "stosa", "vit")  # whose arrays have gaps between rows; the others are slow tests
FORMS = (  # SASRec's parts that reach kernels, or pass others what kernels made: each once, several at a time
    {"block_form": "post", "loss": "bpr", "position": "rope", "feed_forward": "gelu"},
    {"block_form": "sasrec", "loss": "ce", "position": "alibi", "refine": "simp"},
    {"block_form": "ligr", "loss": "gbce", "n_negatives": 3, "position": "t5", "refine": "add"},
    {"block_form": "plain", "loss": "sampled-softmax", "n_negatives": 3, "position": "shaw", "refine": "value"},
    {"loss": "bpr-max", "n_negatives": 3, "position": "xl", "feed_forward": "elu"},
    {"block_form": "hstu", "mechanism": "pointwise"},
    {"mechanism": "linear", "feed_forward": "swiglu", "optimizer": "muon"},
    {"mechanism": "performer", "norm": "rms"},
    {"refine": "stoc", "tied": False, "user_embedding": True, "weight_decay": 0.1},
    *({"mixer": mixer} for mixer in ("rnn", "lstm", "lstmn", "gru", "rwkv", "delta", "latent")),
)


class SteppedError(Exception):
    """The first step was differentiated."""


def gradient(name, monkeypatch, **options):
    """Loss and gradient of the first step."""

    def stop(learner, step):
        raise SteppedError(backend.to_numpy(learner._seen[:1]), backend.to_numpy(learner.gradient))

    heads = {} if options.get("mixer") is None else {"heads": 1}
    made = small.make(name, device="strict", **TINY | MORE.get(name, {}) | heads | options)
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "update", stop)
        with pytest.raises(SteppedError) as stepped:
            made.fit(small.DATA[MODELS[name].table], progress=False)
    return stepped.value.args


def compare(name, monkeypatch, **options):
    launched = []

    def launch(kernel, *arguments, whole=kernels.launch):
        launched.append(kernel)
        whole(kernel, *arguments)

    monkeypatch.setattr(kernels, "launch", launch)
    mine = gradient(name, monkeypatch, **options)
    assert launched
    monkeypatch.setattr(kernels, "PROVEN", ())
    kernels._is_proven.cache_clear()
    for a, b in zip(mine, gradient(name, monkeypatch, **options), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * max(1, np.abs(b).max()))
        assert np.any(b)


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=() if x in AT_ONCE else pytest.mark.slow(seconds=2)) for x in small.TRAINED]
)
def test_a_step_of_every_model_has_the_same_numbers_with_kernels(name, proven, monkeypatch):  # noqa: F811
    compare(name, monkeypatch)


@pytest.mark.slow(seconds=2)
@pytest.mark.parametrize("options", FORMS, ids=lambda options: "-".join(map(str, options.values())))
def test_a_step_of_every_form_of_sasrec_has_the_same_numbers_with_kernels(options, proven, monkeypatch):  # noqa: F811
    compare("sasrec", monkeypatch, **options)
