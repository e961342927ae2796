"""Every model's network with each of its options in turn: initial weights, three steps of Adam in float64, an answer.

For an option the other choices are taken, or one other number. It is set alone, or, where the model refuses that,
beside the mechanism, position scheme, mixer, refinement or loss that has it.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from tests.models.small import DATA, RECOMMENDER, SEQUENCE, SEQUENCE_MODELS, TRAINED
from tinyattn.data import Parts, leave_one_out
from tinyattn.models import MODELS
from tinyattn.options import Declared, options_of
from tinyattn.random import MaskKeys, Stream, generator
from tinyattn.training import Moments, Settings, adam
from tinyattn.tree import add_to, flatten, leaves, tree_map

# options of the loop, which `training` pins, and those that change no step
ELSEWHERE = {o.name for o in options_of(Settings)} | {"workers", "valid_users", "batch_size"}
# other numbers than the default and one more than it, or half of it
VALUES = {
    "alpha": 0.3, "base_rate": True, "block": 1, "block_size": 2, "calibration": 0.6, "clip": 2, "day": 3600.0,
    "dropout": 0.4, "enough": 0.9, "expand": 3, "eps": 0.01, "feed_forward_width": 3, "furthest": 5, "global_tokens": 2,
    "heads": 4, "in_batch": 0.5, "kv_heads": 1, "label_smoothing": 0.2, "last_eps": 0.1, "maxlen": 5, "n_negatives": 3,
    "patch": 4, "popularity_power": 0.7, "random_blocks": 2, "regularisation": 0.5, "rope_base": 50.0, "stages": 1,
    "rope_factor": 3.0, "rope_trained": 9, "rope_slow": 0.5, "rope_fast": 3.0, "rope_amplitude": 0.5,
    "delta_heads": 2, "latent": 3, "turned": 6, "beta_limit": 2.0,
    "time_buckets": 20, "stride": 3, "window": 4, "window_blocks": 3, "words": 8, "buckets": 6, "features": 7,
    "state": 3, "kernel": 2,
    "global_blocks": 2, "merges": 5, "dim": 4, "context": 7, "hidden": 0.6, "swapped": 0.3, "rho": 0.5,
    "transformer maxlen": 9, "rnnsearch maxlen": 9,
}  # fmt: skip
BASE = {"heads": 2, "dim": 8, "maxlen": 7, "context": 8, "blocks": 1, "layers": 1, "patch": 2, "nh": 2, "nv": 2,
        "words": 6, "bins": 4, "batch_size": 8, "stages": 2, "window": 2, "block": 2}  # fmt: skip
# so that a mechanism differs from full attention on short histories, and negatives are fewer than the items
BESIDE = {
    "window": {"window": 3}, "longformer": {"window": 2}, "bigbird": {"block_size": 1, "window_blocks": 1},
    "strided": {"stride": 2}, "gbce": {"n_negatives": 4}, "sampled-softmax": {"n_negatives": 4},
    "bpr-max": {"n_negatives": 4},
    **{scaling: {"position": "rope", "rope_factor": 4.0, "rope_trained": 16} for scaling in ("ntk", "yarn", "llama3")},
}  # fmt: skip


# images whose teacher calls each of them what its label is not
TAUGHT = Parts(*(replace(part, teacher=(part.labels + 1) % 3) for part in vars(DATA["images"]).values()))
_PLAIN = DATA["ranking"].data
TIMED = leave_one_out(replace(_PLAIN, times=100 + 50 * np.arange(len(_PLAIN)) ** 2))


class _BatchesMadeError(Exception):
    """Ends `fit` where training would begin."""


def network_and_batches(name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """What `fit` would train, and on what."""
    model, caught = MODELS[name](**options), []
    data = TAUGHT if options.get("distil") else TIMED if options.get("position") == "timed" else DATA[model.table]

    def catch(self: Any, network: Any, batches: Any, *_: Any, **__: Any) -> None:
        caught.extend((network, batches))
        raise _BatchesMadeError

    with mock.patch("tinyattn.models.trained.Trained._train", catch), suppress(_BatchesMadeError):
        model.fit(data, progress=False)
    return caught[0], caught[1]


def three_steps(name: str, options: dict[str, Any]) -> dict[str, Any]:
    network, batches = network_and_batches(name, options)
    tree = network.init(generator(0, Stream.INIT))
    found: dict[str, Any] = {"init": [round(norm, 6) for norm in norms(tree)], "loss": []}
    vector, p = flatten(tree, np.float64, np)
    vector += 0.1 * generator(1, Stream.INIT).standard_normal(vector.shape)      # biases of 0 and gains of 1 say little
    moments = Moments(np.zeros_like(vector), np.zeros_like(vector))
    for step in range(3):
        batch = batches.batch(step)
        rng = MaskKeys(generator(0, Stream.DROPOUT, step), batch.rows)
        loss, saved = network.loss(p, batch, rng)
        grads = network.loss_backward(p, 1.0, saved)
        flat, tree = flatten(_whole(grads, p), np.float64, np)
        found["loss"].append(float(loss))
        if not step:
            found["gradient"] = norms(tree)
        adam(vector, flat, moments, step + 1, lr=0.01, beta2=0.98)
    return found | answer(network, p, batches)


def norms(tree: Any) -> list[float]:
    """Of each array, in the tree's order."""
    return [float(np.linalg.norm(leaf)) for _, leaf in leaves(tree)]


def _whole(grads: Any, p: Any) -> Any:
    """The gradients as arrays: those of a table may come as the rows that were read."""
    whole = tree_map(np.zeros_like, p)
    add_to(whole, grads)
    return whole


def answer(network: Any, p: Any, batches: Any) -> dict[str, Any]:
    """Of a recommender some scores, and what `extend` makes of two items and then of a third; of others its measures.
    """
    batch = batches.batch(0)
    if not hasattr(network, "last_state"):
        measures = getattr(network, "measure", None)
        return {"measures": {k: list(v) for k, v in measures(p, batch).items()}} if measures else {}
    scores = network.score_items(p, network.last_state(p, batch))
    found = {"scores": scores[:2, 1:6]}
    if network.extends:
        past, h = None, None
        for items in ([3, 5], [2]):
            h, past = network.extend(p, np.array([items]), past)
        found["extended"] = network.score_items(p, h[:, -1])[0, 1:6]
    return found


def values_of(name: str, option: Declared) -> list[Any]:
    """Other values of a model's option than its default."""
    if option.option.choices is not None:
        return [choice for choice in option.option.choices if choice != option.default]
    if option.type is bool:
        return [value for value in (False, True) if value is not option.default]
    base = BASE.get(option.name, option.default)
    for key in (f"{name} {option.name}", option.name):
        if key in VALUES:
            return [VALUES[key]]
    return [option.type(base + 1 if option.type is int else base / 2 or 0.5)]


def base_of(name: str) -> dict[str, Any]:
    known = {o.name: o for o in options_of(MODELS[name])}
    chosen = (SEQUENCE if name in SEQUENCE_MODELS else RECOMMENDER) | BASE
    # a part's options are None until its part is chosen
    return {key: value for key, value in chosen.items() if key in known and known[key].default is not None}


def choices(name: str) -> list[dict[str, Any]]:
    """Every choice that is no default, with what stands beside it; mixers without heads want their default."""
    options = {o.name: o for o in options_of(MODELS[name])}
    heads = {"heads": options["heads"].default} if "mixer" in options else {}
    return [{o.name: choice} | BESIDE.get(choice, {}) | (heads if o.name == "mixer" else {})
            for o in options.values() if o.name not in ELSEWHERE and o.option.choices is not None
            for choice in values_of(name, o)]  # fmt: skip


def taken(name: str, options: dict[str, Any]) -> bool:
    try:
        MODELS[name](**options)
    except ValueError:
        return False
    return True


def variants(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What stands beside a change, and the change: nothing, every choice, then each option's other values."""
    base = base_of(name)
    yield {}, {}
    for choice in choices(name):
        for context in [{}, *choices(name)]:        # a refinement's space of its scores wants a refinement
            if taken(name, base | context | choice):
                yield context, choice
                break
        else:
            UNTAKEN.add(f"{name} {next(iter(choice.values()))}")
    for option in options_of(MODELS[name]):
        if option.name in ELSEWHERE or option.option.choices is not None:
            continue
        for value in values_of(name, option):
            change = {option.name: value}
            alone = taken(name, base | change)
            for context in [{}] if alone else choices(name):
                if taken(name, base | context | change):
                    yield context, change


def title(name: str, context: dict[str, Any], change: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in (context | change).items())])


UNTAKEN: set[str] = set()        # choices that a model refuses whatever stands beside them
VARIANTS = [(name, context, change) for name in TRAINED for context, change in variants(name)]
CASES = {title(*variant): partial(three_steps, variant[0], base_of(variant[0]) | variant[1] | variant[2])
         for variant in VARIANTS}  # fmt: skip
# options that change no number here, and why
IDLE = {
    "transformer maxlen": "pairs are no longer than either",
    "rnnsearch maxlen": "pairs are no longer than either",
    "tagger enough": "ends training, which three steps do not",
}
