"""What trained models answer: scores and recommendations, metrics of each protocol and split, what is generated."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as safetensors_of

from tests.models.small import DATA, RECOMMENDER, TRAINED, make
from tests.models.worlds import TINY, drifting_ratings
from tests.pin.training import trained
from tinyattn.data import RATING_SPLITS, SPLITS, Split, split_ratings
from tinyattn.evaluation import (
    RATING_BASELINES,
    best_items,
    beyond_accuracy,
    draw_candidates,
    evaluate,
    overlap,
    paired_difference,
    paired_error_difference,
    rating_errors,
    target_ranks,
)
from tinyattn.export import onnx_graph, popularity_table, safetensors
from tinyattn.models import MODELS, Recommender, explain

RANKING = [name for name, cls in MODELS.items() if issubclass(cls, Recommender)]
TIMED = drifting_ratings(users=40, items=25, each=8)


def model_of(name: str, data: Any = None) -> Any:
    if name in TRAINED:
        return trained(name)
    return make(name).fit(DATA["ranking"] if data is None else data)


def recommends(name: str) -> dict[str, Any]:
    """Of one history and of two, with items left out, and with those already seen; neighbours; a session; reasons."""
    model = model_of(name)
    ids = model.items.ids
    history, other = ids[[3, 0, 7, 5]].tolist(), ids[[2]].tolist()
    user = model.users.ids[4]
    found = {
        "one": model.recommend(history, 4),
        "two": model.recommend([history, other], 3, exclude=[ids[1]], users=[user, None]),
        "again": model.recommend(history, 3, repeats=True, only=ids[:6].tolist()),
        "session": model.session(history[:2], user=user).add(history[2]).best(k=3),
    }
    if name != "popularity":
        found["similar"] = model.similar(ids[2], 3)
    if name != "timesvdpp":
        why = explain(model, history, user=user)
        found["why"] = {"item": why.item, "effects": why.effects}
    if getattr(model, "attends", False):
        found["attention"] = model.attention(history)[1].ravel()[:12]
    return found


def simple_scores(histories: list[np.ndarray], users: Any = None) -> np.ndarray:
    """Scores with ties: how near an item's number is to the last one's, in steps of two."""
    last = np.array([h[-1] for h in histories])[:, None]
    return -(np.abs(np.arange(26) - last) // 2).astype(float)


def measures(split: Split) -> dict[str, Any]:
    among = {"uni100": draw_candidates(split, "uni100"), "pop100": draw_candidates(split, "pop100", count=5)}
    ranks = target_ranks(simple_scores, split, "test")["full"]
    best = best_items(simple_scores, split, 4)
    reversed_best = best_items(lambda *given: -simple_scores(*given), split, 4)
    return {
        "users": len(split.evaluated),
        "trained on": [len(split.train), split.train.fingerprint()],
        "test": evaluate(simple_scores, split, "test", (1, 5), sampled=among),
        "valid": evaluate(simple_scores, split, "valid", (5, 10)),
        "candidates": {name: drawn[:2, :8] for name, drawn in among.items()},
        "beyond": beyond_accuracy(best, split),
        "overlap": overlap(best, reversed_best),
        "difference": paired_difference(1 / ranks, np.roll(1 / ranks, 1)),
    }


def rating_measures(name: str) -> dict[str, Any]:
    split = split_ratings(TIMED, name)
    found = {"parts": np.bincount(split.part), "trained on": split.train.fingerprint()}
    errors = []
    for baseline, learn in RATING_BASELINES.items():
        predicted = learn(split.train)(split.test)
        found[baseline] = rating_errors(predicted, split.test.ratings)
        errors.append(predicted - split.test.ratings)
    owners = np.repeat(np.arange(split.test.n_users), split.test.lengths)
    return found | {"difference": paired_error_difference(errors[0], errors[1], owners)}


def expected_measures() -> dict[str, Any]:
    """Under the truth of a world: for each model that is not trained by steps."""
    split = DATA["ranking"]
    users = split.sample(15, 3)
    models = {name: model_of(name) for name in RANKING if name not in TRAINED}
    return {name: evaluate(model, users, ks=(3,), truth=TINY.next_item) for name, model in models.items()}


def written(**sampling: Any) -> str:
    return trained("decoder").generate("the ", 30, **sampling)


def sequence_answers(name: str) -> dict[str, Any]:
    model, data = trained(name), DATA[MODELS[name].table]
    found: dict[str, Any] = {"test": model.evaluate(data.test)}
    if name in ("transformer", "rnnsearch"):
        found["greedy"] = model.translate("abc")
        found["beam"] = model.translations("ab", beam=3)
    if name == "encoder":
        found["filled"] = model.fill("the _at", 3)
    if hasattr(model, "probabilities") and name != "beit":
        read = data.test.sources if name == "classifier" else data.test.images
        found["probabilities"] = model.probabilities(read[:2])
    return found


def exported() -> dict[str, Any]:
    """Scores of the ONNX graph, by onnxruntime; the arrays of the file of numbers; the table of popularity."""
    runtime = pytest.importorskip("onnxruntime", reason="graphs are computed with the package onnxruntime")
    session = runtime.InferenceSession(onnx_graph(trained("sasrec")), providers=["CPUExecutionProvider"])
    (ids,) = session.get_inputs()
    history = np.zeros((1, RECOMMENDER["maxlen"]), np.int64)
    history[0, :3] = [3, 1, 2]
    return {
        "scores": session.run(["scores"], {ids.name: history})[0][0, 1:6],
        "arrays": {name: array.shape for name, array in safetensors_of(safetensors(trained("sasrec"))).items()},
        "popularity": popularity_table(model_of("popularity")).decode(),
    }


CASES: dict[str, Any] = {f"{name} recommends": partial(recommends, name) for name in RANKING}
CASES |= {f"measures, split {name}": lambda make=make: measures(make(TIMED)) for name, make in SPLITS.items()}
CASES |= {f"errors of ratings, split {name}": partial(rating_measures, name) for name in RATING_SPLITS}
CASES |= {"expected measures": expected_measures, "exported": exported}
CASES |= {
    " ".join(["written", *(f"{key}={value}" for key, value in how.items())]): partial(written, **how)
    for how in ({}, {"seed": 1}, {"temperature": 0.3}, {"top_k": 3}, {"top_p": 0.4}, {"top_k": 4, "top_p": 0.6},
                {"top_k": 1})
}  # fmt: skip
CASES |= {f"{name} answers": partial(sequence_answers, name) for name in TRAINED if name not in RANKING}
