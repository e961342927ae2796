"""Bugs that train: the effect on training of every known bug of the ops of a SASRec, one at a time."""

import math
import statistics
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..check.measure import soonest
from ..check.specs import SPECS
from ..check.subject import Subject
from ..check.substitute import Substitute, of_subject, substituted
from ..check.zoo import ZOO, Bug
from ..data.worlds import SeriesWorld
from ..evaluation.bootstrap import t_95
from ..forms import readable
from ..machine import HERE
from ..random import MaskKeys, Stream, generator
from ..training import DivergedWarning, InterruptedRunError
from ..training.adam import adam
from ..tree import flatten
from .datasets import ML_1M
from .experiment import Dataset, Experiment, Results, Row, Runs
from .mutants import MUTANTS, mutated
from .pictures import Line, Picture, Scatter
from .tables import cell, figures, grid, page, values

NDCG = ("full", "ndcg@10")
RIGHT = "right"                                   # the row of each dataset without a bug
KINDS = ("attention", "softmax", "layer_norm", "linear", "dropout", "embedding", "relu", "bce", "adam")
WRONG = 1.0                                       # degrees from which a gradient is wrong; rounding gives 0.02 at most
SMALL = 15.0                                      # degrees up to which it looks right
SHOWN = 12                                        # rows of the tables of surprises
TRAINED: dict[str, Any] = {"maxlen": 50, "lr": 0.003, "batch_size": 32, "patience": 0}
# key: the data, options of its runs, seeds without a bug, minutes of a run
DATA: dict[str, tuple[Dataset, dict[str, Any], int, float]] = {
    "world": (Dataset("default world", world=SeriesWorld()), {"epochs": 6}, 10, 0.11),
    "ml-1m": (ML_1M, {"epochs": 3, "valid_users": 1000}, 5, 0.19),
}
IN_A_SENTENCE = {"world": "the default world", "ml-1m": "MovieLens 1M"}
BY_RULE = {f"mutant-{i}": mutant for i, mutant in enumerate(MUTANTS, 1)}      # name: kind, a line, what it becomes


def _bugs() -> dict[tuple[str, str], Bug]:
    """The bugs by (kind, name). Bugs of softmax are planted in softmax alone, though the zoo has them in both."""
    of_softmax = {bug.says for bug in ZOO["softmax"].BUGS}
    every = ((kind, bug) for kind in KINDS for bug in ZOO[kind].BUGS if not bug.convention)
    known = {(kind, bug.name): bug for kind, bug in every if kind != "attention" or bug.says not in of_softmax}
    by_rule = {(k, name): Bug(name, f"`{new}` in place of `{old}`", "") for name, (k, old, new) in BY_RULE.items()}
    return known | by_rule


BUGS = MappingProxyType(_bugs())


# planting
def made(kind: str, bug: str = "") -> Any:
    """A kind's functions with a bug: the zoo's, or the library's with another line in the backward. "" is no bug."""
    return mutated(*BY_RULE[bug]) if bug in BY_RULE else ZOO[kind].make(frozenset([bug] if bug else ()))


def plant(kind: str, functions: Any) -> list[Substitute]:
    """The functions as substitutes for the library's."""
    if kind == "adam":                            # it has no backward, so `--ops` does not know it
        return [Substitute("adam", f"zoo/{kind}", adam, functions.adam)]
    return list(of_subject(Subject(functions, SPECS[kind])))


def planted_run(row: Row, model: Any, split: Any, train_and_measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Train and measure with the row's bug: the JSON of a run.

    "failed" is the error of a run that raised or diverged. "gradient" compares the gradient with the bug and without
    it, of the same batch at the same parameters, before training and after it. The first seed's "check" says how soon
    a property finds the bug.
    """
    kind, *bugs = row.bug
    if bugs and bugs[0] in BY_RULE:
        right = plant(kind, SPECS[kind].ours())
    else:
        right = [s for each in (KINDS if kind == RIGHT else [kind]) for s in plant(each, made(each))]
    wrong = plant(kind, made(kind, bugs[0])) if bugs else right
    split = getattr(split, "train", split)
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DivergedWarning)
        stack.enter_context(np.errstate(all="ignore"))
        stack.enter_context(readable())
        with substituted(wrong):
            try:
                measured = train_and_measure()
            except (InterruptedRunError, OSError):        # a damaged checkpoint is not the bug's fault
                raise
            except Exception as error:
                says = str(error).replace(f"{HERE.parent}/", "")      # no folder of this machine
                measured = {"failed": f"{type(error).__name__}: {says}"[:200]}
        measured.pop("beyond", None)
        network = model.make_network(split.n_items, split.n_users)
        batch = model.sampler(split).batch(0)
        places = {"before": network.init(generator(model.seed, Stream.INIT))}
        places |= {} if "failed" in measured else {"after": model.parameters}
        measured["gradient"] = {
            when: _compared(*(_gradient(network, p, batch, model.seed, ops) for ops in (right, wrong)))
            for when, p in places.items()
        }
    return measured | ({"check": soonest(made(kind, bugs[0]), kind)} if bugs and model.seed == 0 else {})


def _gradient(
    network: Any, p: Any, batch: Any, seed: int, ops: Iterable[Substitute]
) -> tuple[float, np.ndarray] | None:
    """Loss and gradient of a batch, computed by these ops; None where they raise. `p` is not changed."""
    _, p = flatten(p, np.float32, np)
    with substituted(ops):
        try:
            loss, saved = network.loss(p, batch, MaskKeys(generator(seed, Stream.DROPOUT, 0), batch.rows))
            return float(loss), flatten(network.loss_backward(p, 1.0, saved), np.float32, np)[0].astype(np.float64)
        except Exception:
            return None


def _compared(right: Any, wrong: Any) -> dict[str, Any]:
    """The angle of two gradients in degrees, and their losses; None for what is not finite or does not exist.

    Two gradients of different sizes, as without the sum over a batch, have no angle.
    """
    losses = [g and _finite(g[0]) for g in (right, wrong)]
    same = right is not None and wrong is not None and right[1].tobytes() == wrong[1].tobytes()
    angle = None if wrong is None or wrong[1].shape != right[1].shape else 0.0 if same else angle_of(right[1], wrong[1])
    return {"angle": angle if angle is None else float(f"{angle:.4g}"), "same bits": same, "losses": losses}


def angle_of(a: np.ndarray, b: np.ndarray) -> float | None:
    """Degrees between two vectors; None for a vector that is 0 or not finite. Precise for small angles (Kahan)."""
    sizes = [float(np.linalg.norm(v)) for v in (a, b)]
    if not all(math.isfinite(size) and size for size in sizes):
        return None
    u, v = a / sizes[0], b / sizes[1]
    return math.degrees(2 * math.atan2(float(np.linalg.norm(u - v)), float(np.linalg.norm(u + v))))


def _finite(x: float) -> float | None:
    return float(f"{x:.6g}") if math.isfinite(x) else None


def is_whole(run: dict[str, Any]) -> bool:
    gradients, check = run["gradient"], run.get("check", {"cases": 1, "property": "", "stage": "", "noted": []})
    return (
        gradients.keys() == ({"before"} if "failed" in run else {"before", "after"})
        and all(g["angle"] is None or 0 <= g["angle"] <= 180 for g in gradients.values())
        and type(run.get("failed", "")) is str
        and (check["cases"] is None or (type(check["cases"]) is int and check["cases"] > 0))
        and all(type(check[name]) is str for name in ("property", "stage"))
        and all(type(says) is str for says in check["noted"])
    )


# what the runs say
class Outcome(NamedTuple):
    """The effect of a bug on one dataset. `cost` is the share of the right NDCG@10 that is lost, 1 for a failed run."""

    verdict: str                                  # a key of VERDICTS
    cost: float
    seeds: list[float]                            # NDCG@10 of the runs that ended


ByBug = Mapping[tuple[str, str], tuple[Outcome, Runs]]
VERDICTS = {"within": "within seeds", "better": "above them", "worse": "below them", "failed": "diverged or raised"}


def interval(right: Sequence[float], runs: int) -> tuple[float, float]:
    """The 95 % prediction interval for the mean of `runs` more runs without a bug, from the values `right`.

    mean ± t s √(1/n + 1/runs), with n values, their standard deviation s and Student's t of n - 1 degrees.
    """
    n, mean = len(right), statistics.mean(right)
    half = t_95(n - 1) * statistics.stdev(right) * math.sqrt(1 / n + 1 / runs)
    return mean - half, mean + half


def outcome(right: Sequence[float], runs: Runs) -> Outcome | None:
    """None before any run, and before two runs without a bug."""
    if not runs or len(right) < 2:
        return None
    seeds = values([run for run in runs if "failed" not in run], NDCG)
    if len(seeds) < len(runs):
        return Outcome("failed", 1.0, seeds)
    low, high = interval(right, len(seeds))
    mean = statistics.mean(seeds)
    verdict = "worse" if mean < low else "better" if mean > high else "within"
    return Outcome(verdict, 1 - mean / statistics.mean(right), seeds)


def angle(runs: Runs, when: str = "before") -> float | None:
    """The mean angle over seeds; None where none is known."""
    angles = (run["gradient"].get(when, {}).get("angle") for run in runs)
    known = [x for x in angles if x is not None]
    return statistics.mean(known) if known else None


def is_wrong(runs: Runs) -> bool:
    """Is the gradient wrong, before or after training, or does it not exist?"""
    angles = [angle(runs, when) for when in ("before", "after")]
    return angles == [None, None] or any(x is not None and x > WRONG for x in angles)


def key_of(data: str, kind: str, bug: str = "") -> str:
    return f"{data}-{kind}" + (f"-{bug}" if bug else "")


def outcomes(results: Results, data: str) -> dict[tuple[str, str], tuple[Outcome, Runs]]:
    """Outcome and runs of every bug that has runs."""
    right = values(results[key_of(data, RIGHT)], NDCG)
    runs = {bug: results[key_of(data, *bug)] for bug in BUGS}
    return {bug: (result, runs[bug]) for bug in BUGS if (result := outcome(right, runs[bug])) is not None}


def checks(results: Results) -> dict[tuple[str, str], dict[str, Any]]:
    """How soon the check finds each bug, from the first seed's runs."""
    runs = ((bug, run) for bug in BUGS for data in DATA for run in results[key_of(data, *bug)])
    return {bug: run["check"] for bug, run in runs if "check" in run}


def counts(results: Results, data: str) -> dict[str, Counter[str]]:
    """The number of bugs by verdict, for three groups: the zoo's with a wrong gradient, its others, mutants by rule."""
    counted = {name: Counter[str]() for name in ("wrong gradient", "right gradient", "mutants by rule")}
    for (_, name), (result, runs) in outcomes(results, data).items():
        side = "mutants by rule" if name in BY_RULE else "wrong gradient" if is_wrong(runs) else "right gradient"
        counted[side][result.verdict] += 1
    return counted


def findings(results: Results) -> str:
    """What the runs say, in a few sentences; "" before any verdict."""
    by_data = {data: outcomes(results, data) for data in DATA}
    data_sets = [data for data in DATA if any(is_wrong(runs) for _, runs in by_data[data].values())]
    parts = [part for data in data_sets for part in (_of_wrong(data, by_data[data]), _most_costly(by_data[data]))]
    if not parts:
        return ""
    known = checks(results)
    cases = sorted(check["cases"] for check in known.values() if check["cases"])
    if cases:
        rest = len(known) - len(cases)
        accepted = f"; it accepts {rest}, and reports another convention" if rest else ""
        parts += [f"`tinyattn check` finds {len(cases)} of {len(known)}, half of them within {cases[len(cases) // 2]} "
                  f"cases{accepted}."]  # fmt: skip
    return " ".join(filter(None, parts))


def _of_wrong(data: str, by_bug: ByBug) -> str:
    wrong, epochs = [result.verdict for result, runs in by_bug.values() if is_wrong(runs)], DATA[data][1]["epochs"]
    fine, failed = sum(verdict in ("within", "better") for verdict in wrong), wrong.count("failed")
    train = f"{fine or 'none'} train{'s' * (fine < 2)}"
    fail = "diverges or raises" if failed == 1 else "diverge or raise"
    return (
        f"On {IN_A_SENTENCE[data]}, in {epochs} epochs, of {len(wrong)} bugs with a wrong gradient, {train} to an "
        f"NDCG@10 no worse than seeds make it, {wrong.count('worse')} to a lower one, and {failed} {fail}."
    )


def _most_costly(by_bug: ByBug) -> str:
    """The bug that costs most of those that train to the end and whose gradient is right at the start, or looks so."""
    looks_right = {bug: result for bug, (result, runs) in by_bug.items()
                   if result.verdict == "worse" and (a := angle(runs)) is not None and a <= SMALL}  # fmt: skip
    if not looks_right:
        return ""
    (kind, name), result = max(looks_right.items(), key=lambda pair: pair[1].cost)
    turned = angle(by_bug[kind, name][1])
    return (
        f"Of all bugs that begin within {SMALL:g}° of the right gradient and train to the end, the worst ({kind}: "
        f"{BUGS[kind, name].says}; {turned:.0f}°) costs {result.cost:.0%} of the NDCG@10."
    )


# the page
def _page(experiment: Experiment, results: Results) -> str:
    parts = [[findings(results)], ["## How many train"], *(_how_many(results, data) for data in DATA)]
    parts += [figures(experiment, results)]
    for data in DATA:
        parts += _surprises(results, data)
    return page(experiment, results, [*parts, ["## Every bug", "", EVERY.strip()], *_every(results)])


EVERY = """
The angle is between the gradient with the bug and without it, at the first parameters and after training, on the
default world where there are runs of it; "=" says that the two are equal to the last bit. The loss is the last
epoch's, as the bug computes it. NDCG@10 in bold is outside of what seeds make; "raised" also means that float32 inputs
gave float64 results, which `--ops` refuses. The last two columns say after how many cases `tinyattn check` finds the
bug, and by which property: it tries 50 cases of each property, first shapes, then oracles, and gradients last but one.
"noted" means that it accepts the bug, and reports it, such as another convention.
"""


def _how_many(results: Results, data: str) -> list[str]:
    right = values(results[key_of(data, RIGHT)], NDCG)
    title, counted = DATA[data][0].title, counts(results, data)
    if len(right) < 2 or not any(counted.values()):
        return [f"**{title}**: to come."]
    low, high = interval(right, 3)
    total = sum(sum(each.values()) for each in counted.values())
    about = f"**{title}**, {total} of {len(BUGS)} bugs. Without a bug, over {len(right)} seeds: {cell(right)}; "
    about += f"the mean of three more lies between {low:.4f} and {high:.4f} with 95 %."
    rows = ((side, [str(each[v]) for v in VERDICTS]) for side, each in counted.items() if each)
    return [about, "", *grid(list(VERDICTS.values()), rows)]


def _surprises(results: Results, data: str) -> list[list[str]]:
    """Wrong gradients that train as well as right ones, and bugs that cost more than their angle suggests."""
    by_bug = outcomes(results, data)
    title = DATA[data][0].title
    angles = {bug: angle(runs) for bug, (_, runs) in by_bug.items()}
    fine = [bug for bug, (result, _) in by_bug.items() if result.verdict in ("within", "better")]
    fine = sorted((bug for bug in fine if (angles[bug] or 0) > WRONG), key=lambda bug: -(angles[bug] or 0))
    costly = [bug for bug, (result, _) in by_bug.items() if result.verdict in ("worse", "failed")]
    costly = [bug for bug in costly if (a := angles[bug]) is not None and a <= SMALL]
    costly.sort(key=lambda bug: -by_bug[bug][0].cost)
    parts = []
    headings = {"Wrong gradients that train as well": fine, "Bugs that cost more than their angle suggests": costly}
    for heading, bugs in headings.items():
        rows = ((f"{kind}: {BUGS[kind, name].says}", [f"{angles[kind, name]:.0f}°", _ndcg(*by_bug[kind, name])])
                for kind, name in bugs[:SHOWN])  # fmt: skip
        more = [f"and {len(bugs) - SHOWN} more"] if len(bugs) > SHOWN else []
        if bugs:
            parts.append([f"## {heading}: {title}", "", *grid(["angle at the start", "NDCG@10"], rows), "", *more])
    return parts


def _ndcg(result: Outcome, runs: Runs) -> str:
    if result.verdict == "failed":
        return f"{cell(result.seeds)}, others {_failure(runs)}" if result.seeds else _failure(runs)
    text = cell(result.seeds)
    return text if result.verdict == "within" else f"**{text}**"


def _every(results: Results) -> list[list[str]]:
    by_data = {data: outcomes(results, data) for data in DATA}
    known = checks(results)
    columns = ["angle", "after training", "loss", *(f"{DATA[data][0].title}" for data in DATA), "cases", "property"]
    parts = []
    for kind in KINDS:
        rows = []
        for bug, about in BUGS.items():
            runs = next((by_data[data][bug][1] for data in DATA if bug in by_data[data]), [])
            if bug[0] != kind or not runs:
                continue
            losses = [run["loss"][-1] for run in runs if run["loss"] and "failed" not in run]
            ndcgs = [_ndcg(*by_data[data][bug]) if bug in by_data[data] else "" for data in DATA]
            title = f"`{about.name}`: {about.says}"
            angles = [_angle_cell(runs, "before"), _angle_cell(runs, "after")]
            loss = f"{statistics.mean(losses):.3f}" if losses else ""
            soon = ["", ""]
            if check := known.get(bug):
                soon = [str(check["cases"] or ("noted" if check["noted"] else "never")), check["property"]]
            rows.append((title, [*angles, loss, *ndcgs, *soon]))
        parts += [[f"### {kind}", "", *grid(columns, rows)]] if rows else []
    return parts


def _angle_cell(runs: Runs, when: str) -> str:
    compared = [run["gradient"][when] for run in runs if when in run["gradient"]]
    mean = angle(runs, when)
    if mean is None:
        return ""
    if all(each["same bits"] for each in compared):
        return "="
    return f"{mean:.0f}°" if mean >= 10 or mean < 0.01 else f"{mean:.2g}°"


def _failure(runs: Runs) -> str:
    errors = {run["failed"].partition(":")[0] for run in runs if "failed" in run}
    return ", ".join("diverged" if error.startswith("Diverged") else "raised" for error in sorted(errors))


GROUPS = {"wrong": "wrong gradient", "right": "right gradient", "failed": "diverged or raised"}


def _pictures(experiment: Experiment, results: Results) -> dict[str, Picture]:
    known = checks(results)
    panels: dict[str, dict[str, Line]] = {}
    bands = {}
    for data, (dataset, *_) in DATA.items():
        points: dict[str, list[tuple[float, float]]] = {name: [] for name in GROUPS}
        for bug, (result, runs) in outcomes(results, data).items():
            if (known.get(bug) or {}).get("cases"):
                group = "failed" if result.verdict == "failed" else "wrong" if is_wrong(runs) else "right"
                points[group].append((known[bug]["cases"], 100 * result.cost))
        lines: dict[str, Line] = {GROUPS[group]: tuple(zip(*pairs, strict=True))  # type: ignore[misc]
                                  for group, pairs in points.items() if pairs}  # fmt: skip
        if lines:
            panels[dataset.title] = lines
            right = values(results[key_of(data, RIGHT)], NDCG)
            mean = statistics.mean(right)
            low, high = (100 * (1 - edge / mean) for edge in interval(right, 3))
            bands[dataset.title] = (high, low)
    alt = "What each bug costs in NDCG@10, against the number of cases after which the check finds it"
    return {"bugs": Scatter(alt, "cases until a property fails", "cost, % of NDCG@10", panels,
                            "what seeds make, 95 %", bands)}  # fmt: skip


def _rows() -> dict[str, Row]:
    rows = {}
    for data, (_, options, seeds, minutes) in DATA.items():
        how = TRAINED | options
        rows[key_of(data, RIGHT)] = Row("no bug", data, "sasrec", how, minutes=minutes, seeds=seeds, late=-1,
                                        bug=(RIGHT,))  # fmt: skip
        for (kind, name), bug in BUGS.items():
            rows[key_of(data, kind, name)] = Row(f"{kind}: {bug.says}", data, "sasrec", how, minutes=minutes,
                                                 bug=(kind, name))  # fmt: skip
    return rows


EXPERIMENT = Experiment(
    name="bugs",
    title="Bugs that train",
    question=f"""
A SASRec is trained with every known bug ([the zoo](../../../../tinyattn/check/zoo)) of its ops, one at a time. The bug
is there in training, validation and test alike; all else is the library's readable code. There are
{len(BUGS) - len(BY_RULE)} bugs of {", ".join(KINDS)}, and {len(BY_RULE)} mutants by rule of
their backwards, a sample of those that change the gradient ([drawn](../../../../tinyattn/experiments/mutants.py)).
Each has three seeds. What does each do to the gradient's angle, to the loss and to NDCG@10, and how soon does a
property of `tinyattn check` find it?

The SASRec has its default options, except for batches of {TRAINED["batch_size"]} and a learning rate of
{TRAINED["lr"]}. It trains {DATA["world"][1]["epochs"]} epochs on the default world, and {DATA["ml-1m"][1]["epochs"]} on
MovieLens 1M, which is far from the end of training; the epoch that validates best is kept.
A bug trains **within seeds** if the mean NDCG@10 of its runs lies in the 95 % prediction interval for the mean of
as many runs without a bug: of forty bugs that do nothing, about one will lie below it, and one above. A gradient
is **wrong** if it is more than {WRONG:g}° off, before or after training, or if there is none. Other kinds of the
zoo cannot be planted: a SASRec calls no function `block` or `feed_forward`, and its heads take more arguments than
`multi_head_attention`.
""",
    datasets={data: dataset for data, (dataset, *_) in DATA.items()},
    rows=_rows(),
    page=_page,
    pictures=_pictures,
    within=planted_run,
    is_whole=is_whole,
    ks=(10,),
    seeds=3,
)
