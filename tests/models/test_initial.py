"""Fresh parameters of every model: each array is drawn from what its docstring says, and no part begins as another."""

import numpy as np
import pytest

from tests.models.initial import ZEROS, by_rows, could_be, expected, glorot, normal, refuse_equal
from tests.models.small import DATA, TRAINED
from tests.models.test_masks import DROPPING, network_and_batch
from tinyattn.models import BEiT, SASRecNetwork, ViT
from tinyattn.models.recommenders.timesvdpp import TimeSVDppNetwork
from tinyattn.random import Stream, generator
from tinyattn.tree import leaves

D, OPTIONS = 32, {"dim": 32, "heads": 4, "maxlen": 40, "context": 40}
ITEMS = DATA["ranking"].train.n_items + 1
TABLE = glorot(ITEMS, D)                               # of items; the row of padding is 0
POSITIONS = glorot(40, D)
GRU = {"W": by_rows(D), "U": by_rows(D)}
STOSA = normal(0.02, 0.01)
OWN = {
    "sasrec": {"items": TABLE, "positions": POSITIONS},
    "gru4rec": {"items": TABLE} | {f"layers.{i}.{name}": what for i in range(2) for name, what in GRU.items()},
    "narm": {"items": TABLE, "v": glorot(D, 1)} | {f"encoder.{name}": what for name, what in GRU.items()},
    "caser": {"items": TABLE, "outputs": glorot(ITEMS, 2 * D), "users": ZEROS, "vertical": glorot(5, 4)}
             | {f"horizontal.{i}.W": glorot((i + 1) * D, 16) for i in range(5)},
    "bert4rec": {"items": TABLE, "mask": TABLE, "positions": POSITIONS},
    "stosa": {"items": STOSA, "positions": STOSA},
    "mf": {"output": TABLE, "users": ZEROS},
    "fism": {"items": TABLE, "output": TABLE},
    "fpmc": {"items": TABLE, "output": glorot(ITEMS, 2 * D), "users": ZEROS},
    "fossil": {"items": TABLE, "output": TABLE, "users": ZEROS, "weights": ZEROS},
    "transformer": {"source": normal(D**-0.5), "target": normal(D**-0.5), "output": normal(1 / D)},
    "rnnsearch": {"source": normal(1), "target": normal(1), "output.W": normal(1 / D), "decoder.W": by_rows(3 * D),
                  "decoder.U": by_rows(D), "decoder.Wq": by_rows(D), "decoder.Wk": by_rows(2 * D),
                  "decoder.w": by_rows(D), "decoder.W0": by_rows(2 * D)}
                 | {f"encoder.{way}.{name}": what for way in ("forward", "backward") for name, what in GRU.items()},
    "decoder": {"tokens": normal(0.02), "positions": POSITIONS},
    "encoder": {"tokens": normal(0.02), "positions": normal(0.02)},
    "classifier": {"tokens": normal(0.02), "positions": normal(0.02), "head.W": ZEROS},
    "tagger": {"tokens": normal(1), "output": normal(0.02), "positions": POSITIONS},
    "vit": {"tokens": normal(0.02), "positions": normal(0.02), "heads.0.W": ZEROS},
    "beit": {"tokens": normal(0.02), "positions": normal(0.02), "mask": normal(0.02), "head.W": ZEROS},
    "swin": {"heads.0.W": ZEROS} | {f"stages.{s}.blocks.{i}.attention.mechanism.table": normal(0.02)
                                    for s in range(2) for i in range(2)},
}  # fmt: skip
PADDED = {"items", "outputs", "output"}               # tables of items, whose row 0 is no item's
BIASED = {"caser": "outputs", "bert4rec": "items", "mf": "output", "fism": "output", "fpmc": "output",
          "fossil": "output"}  # fmt: skip


def drawn(model, name, a):
    """The part of an array that is drawn: without the row of padding, and without items' biases."""
    if name in PADDED and len(a) == ITEMS:
        assert not a[0].any()
        a = a[1:]
    if BIASED.get(model) == name and model != "fpmc":
        assert not a[:, -1].any()
        a = a[:, :-1]
    return a


@pytest.mark.parametrize("model", DROPPING)
def test_every_array_of_a_fresh_network_is_drawn_from_what_it_should_be(model):
    network, _ = network_and_batch(model, **OPTIONS)
    p = network.init(generator(3, Stream.INIT))
    for name, a in leaves(p):
        what = OWN[model].get(name) or expected(name, a)
        if model == "stosa" and name.startswith("blocks") and name.endswith(".W"):
            what = STOSA
        assert what is not None, name
        assert could_be(drawn(model, name, a), what), (name, what, a.mean(), a.std())
    assert OWN[model].keys() <= {name for name, _ in leaves(p)}
    refuse_equal(p)
    again, other = network.init(generator(3, Stream.INIT)), network.init(generator(4, Stream.INIT))
    for (name, a), (_, b), (_, c) in zip(leaves(p), leaves(again), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.ptp(a) == 0 or not np.array_equal(a, c), name


def test_every_trained_model_is_among_them():
    assert set(TRAINED) == set(DROPPING) | {"timesvdpp"} == set(OWN) | {"timesvdpp"}


def test_of_timesvdpp_the_factors_of_items_alone_are_drawn():
    p = TimeSVDppNetwork(n_items=40, n_users=30, dim=20, bins=3).init(generator(0, Stream.INIT))
    shapes = {name: a.shape for name, a in leaves(p)}
    assert shapes == {
        "user_bias": (31, 1), "item_bias": (41, 1), "user_bias_drift": (31, 1), "item_bias_bins": (123, 1),
        "items": (41, 20), "users": (31, 20), "users_drift": (31, 20), "implicit": (41, 20),
    }  # fmt: skip
    for name, a in leaves(p):
        assert not a[0].any()
        assert could_be(a[1:], normal(0.1) if name == "items" else ZEROS), name


@pytest.mark.parametrize("options", [
    {"tied": False}, {"user_embedding": True}, {"block_form": "ligr"}, {"block_form": "sasrec"},
    {"mechanism": "longformer"}, {"position": "shaw"}, {"position": "xl"}, {"position": "t5"}, {"norm": "rms"},
    {"feed_forward": "swiglu"}, {"feed_forward_width": 3}, {"kv_heads": 2}, {"output_projection": True},
], ids=str)  # fmt: skip
def test_every_part_of_sasrec_is_drawn(options):
    network = SASRecNetwork(n_items=30, n_users=5, maxlen=40, dim=D, heads=4, **options)
    p = network.init(generator(0, Stream.INIT))
    table = glorot(31, D)
    own = {"items": table, "output": table, "positions": POSITIONS, "users": ZEROS}
    of_heads = {"keys": glorot(33, 8), "values": glorot(33, 8), "W": glorot(D, D), "u": glorot(4, 8),
                "v": glorot(4, 8), "table": glorot(32, 4)}  # fmt: skip
    for name, a in leaves(p):
        what = own.get(name) or expected(name, a)
        if ".position." in name:
            what = of_heads[name.split(".")[-1]]
        assert what is not None, name
        assert could_be(a[1:] if name in ("items", "output") else a, what), name
    refuse_equal(p)


@pytest.mark.parametrize("options", [{}, {"distil": True}, {"readout": "mean"}], ids=str)
def test_a_vit_begins_with_all_of_beit_but_for_what_beit_has_not(options):
    """The class token and its position are BEiT's; that of a teacher, which BEiT does not have, is drawn."""
    images = DATA["images"]
    sizes = {"dim": D, "heads": 4, "layers": 1, "epochs": 1, "workers": 1}
    beit = BEiT(words=3, block=1, **sizes).fit(images.train, progress=False)
    begun = beit.parameters
    model = ViT(**sizes, **options)
    assert model._startable(beit) is beit
    for name, other in (("patch", 2), ("dim", 64), ("layers", 2), ("heads", 2), ("norm", "rms"), ("eps", 1e-3),
                        ("feed_forward", "relu"), ("feed_forward_width", 3)):  # fmt: skip
        with pytest.raises(ValueError, match=f"{name} is {other}, expected .*, as in the model that this one starts"):
            ViT(**sizes | options | {name: other})._startable(beit)
    assert ViT(**sizes | options, dropout=0.5)._startable(beit) is beit
    network = model.Network(n_classes=3, height=8, width=8, channels=1, **model.options_for(model.Network))
    fresh = network.init(generator(0, Stream.INIT))
    network.start = begun
    p = network.init(generator(0, Stream.INIT))
    known = {"mean": 0}.get(options.get("readout"), 1)
    for name, a in leaves(p):
        if name.split(".")[0] in ("patches", "blocks", "norm"):
            np.testing.assert_array_equal(a, dict(leaves(begun))[name])
    np.testing.assert_array_equal(p["tokens"][:known], begun["tokens"][:known])
    np.testing.assert_array_equal(p["tokens"][known:], fresh["tokens"][known:])
    np.testing.assert_array_equal(p["positions"][:known], begun["positions"][:known])
    np.testing.assert_array_equal(p["positions"][known : network.read], fresh["positions"][known : network.read])
    np.testing.assert_array_equal(p["positions"][network.read :], begun["positions"][1:])
    for name in ("tokens", "positions"):
        assert not any(np.array_equal(a, b) for i, a in enumerate(p[name]) for b in p[name][:i])
    if not options:
        model.fit(images.train, start=beit, progress=False)
        assert model.network.start is None                            # what was learned from is not kept
        assert model._start is None
    assert all(not a.any() for _, a in leaves(p["heads"]))
