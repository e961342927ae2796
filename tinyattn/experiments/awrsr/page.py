"""The page of the replication of AWRSR: verdicts, tables 2 and 3, and figures 2 to 5."""

from collections.abc import Iterable
from typing import Any

from ..experiment import Experiment, Results, Runs
from ..paired import over_users
from ..tables import TRAINING, cell, grid, page, table, values
from .checks import checks, cut_alike
from .claims import gain, other_seeds, verdicts
from .grid import (
    AT_DEPTH,
    AT_PAPERS,
    BACKBONES,
    BY_DEPTH,
    COLUMNS,
    DATASETS,
    DEPTHS,
    FORMS,
    LARGE,
    LARGE_PLACES,
    LATER,
    NDCG5,
    NDCG5_PRINTED,
    OF_BACKBONE,
    PATIENT,
    PUBLISHED,
    TRAINED,
    patient_key,
    published_gain,
)

RULES = """The rules were written down before the first run (tinyattn/experiments/awrsr/claims.py): gains are
shares of the backbone's NDCG@5, with 95 % intervals over seeds. A gain is *not replicated* if its interval ends below
1 %, *replicated* if it ends at 1 % or above and begins above 0, and else *undecided*. In epochs, the limit is 5 %
fewer, not 1 %; M_simp's claim has another rule. HR is Recall, as one item of each user is held out, and NDCG@1 is HR@1.
Added later, without a verdict: the rows *by rows* and *with distances*, those with n 20 and d 128. This table's last
column and the words *fragile* and *the rule does not apply* are later, too."""
DIFFERENCE = ("difference", "95 % over users", "gain, % of the backbone's (95 % over seeds)", "published")
BESIDE = "The difference in NDCG@5 from all runs of the backbone:"
OTHER_SEEDS = BESIDE[:-1] + """; in the rows "other seeds", the
difference of the second half of the backbone's runs from the first:"""
DEEP = """NDCG@5 on Beauty (table 3). An empty cell has no run yet, or is not in this grid; STOSA with several layers
is on [another page](../awrsr-depth/README.md)."""
LAYERS = ["1 layer", *(f"{depth} layers" for depth in DEPTHS)]
SUFFIXES = ["", *(f"-{depth}" for depth in DEPTHS)]                  # of the keys of their rows
ADDED = "Added after the first runs; no verdict depends on it."
DIP = """Many runs with a patience of 15 end in a dip of validation that follows epoch 33 or an earlier one; the paper's
patience is 20."""
COUNTS = """The paper's Beauty has 52.0 thousand users and 57.2 thousand items; this one, "the larger Beauty", has 40.2
and 54.5, and the one judged above 22.4 and 12.1. Settings are those of Beauty above, and validation ranks 5,000
users. With a patience of 15, the first two runs of SASRec ended after 167 and 23 epochs; so it has rows with 50."""
EARLY = 40          # epochs
FIGURES = {
    "ndcg": "NDCG against N (figure 2)",
    "attention": "Attention weights of one user (figure 3)",
    "validation": "Validation (figure 4, there NDCG@5 on Beauty)",
    "gradients": "The norm of the gradient (figure 5, there of SASRec)",
}


def awrsr_page(experiment: Experiment, results: Results) -> str:
    parts = [["## Claims"], verdicts(results), [RULES], checks(results)]
    for data in DATASETS:
        keys = [f"{data}-{key}" for key in ("popularity", "markov", "sasrec-ce")]
        for backbone in BACKBONES:
            keys += [f"{data}-{backbone}-{form}" for form in OF_BACKBONE[backbone] + LATER[backbone]]
        keys.append(f"{data}-stosa-released")
        parts += [[f"## {experiment.datasets[data].title}"],
                  table(experiment, results, keys, COLUMNS, TRAINING),
                  [OTHER_SEEDS], differences(experiment, results, data)]
    deeper = [f"beauty-sasrec-{form}-{depth}" for form in AT_DEPTH for depth in DEPTHS]
    parts += [["## Depth", "", DEEP], _by_depth(results),
              ["The gain in NDCG@5, as a share of the backbone's (95 % over seeds):"], _gains_by_depth(results),
              table(experiment, results, deeper, COLUMNS, TRAINING)]
    papers = [f"beauty-sasrec-{form}-n20" for form in AT_PAPERS]
    gains = _against_backbone(experiment, results, "beauty-sasrec", AT_PAPERS[1:], "-n20")
    parts += [["## The setting that the paper names for SASRec on Beauty", "", ADDED],
              table(experiment, results, papers, COLUMNS, TRAINING),
              [BESIDE], grid(DIFFERENCE, gains)]
    parts += [["## STOSA on Beauty with more patience", "", ADDED, DIP], _ends(results)]
    for patience, forms in PATIENT.items():
        keys = [patient_key(form, patience) for form in forms]
        gains = _against_backbone(experiment, results, "beauty-stosa", forms[1:], f"-patience-{patience}")
        parts += [table(experiment, results, keys, COLUMNS, TRAINING), grid(DIFFERENCE, gains)]
    places = ["large-sasrec", *LARGE_PLACES]
    keys = [f"{place}-{form}" for place in places for form in AT_PAPERS]
    gains = [row for place in places for row in _against_backbone(experiment, results, place, AT_PAPERS[1:])]
    parts += [[f"## {LARGE['large'].title}", "", ADDED, COUNTS], table(experiment, results, keys, COLUMNS, TRAINING),
              grid(DIFFERENCE, gains), cut_alike(results, dict.fromkeys(LARGE_PLACES, AT_PAPERS[1:]))]  # fmt: skip
    for name, picture in experiment.shown(results).items():
        parts.append([f"## {FIGURES[name]}", "", f"![{picture.alt}]({name}.svg)"])
    parts.append(["How the backbones' settings were found: [awrsr-settings](../awrsr-settings/README.md)."])
    return page(experiment, results, parts)


def _ends(results: Results) -> list[str]:
    """How many runs of each patience validate best before epoch EARLY, and the mean NDCG@5 of these and of the others.
    """
    rows = []
    for patience in (TRAINED["patience"], *PATIENT):
        for title, forms in (("backbone", OF_BACKBONE["stosa"][:1]), ("refined", OF_BACKBONE["stosa"][1:])):
            runs = [run for form in forms for run in results.get(patient_key(form, patience), ())]
            halves = [[run for run in runs if (_best_epoch(run) < EARLY) == early] for early in (True, False)]
            cells = [part for half in halves for part in (str(len(half)), cell(values(half, NDCG5)))]
            rows.append((f"patience {patience}, {title}", cells))
    return grid([f"best on validation before epoch {EARLY}", "NDCG@5", "later", "NDCG@5"], rows)


def _best_epoch(run: dict[str, Any]) -> int:
    """The epoch, from 1, that validates best: training ends there, plus the patience."""
    return 1 + max(range(len(run["valid"])), key=lambda epoch: run["valid"][epoch] or 0.0)


def differences(experiment: Experiment, results: Results, data: str) -> list[str]:
    """Each refinement against all seeds of its backbone, and the second half of these seeds against the first."""
    rows = []
    for backbone in BACKBONES:
        later, first = other_seeds(results[f"{data}-{backbone}-none"])
        rows.append((f"{BACKBONES[backbone][0]}, other seeds beside the first", [_difference(later, first), ""]))
        forms = OF_BACKBONE[backbone][1:] + LATER[backbone]
        rows += _against_backbone(experiment, results, f"{data}-{backbone}", forms)
    return grid(DIFFERENCE, rows)


def _against_backbone(
    experiment: Experiment, results: Results, place: str, forms: Iterable[str], suffix: str = ""
) -> list[tuple[str, list[str]]]:
    data, _, backbone = place.rpartition("-")
    of = data if data in DATASETS else "beauty"
    rows = []
    for form in forms:
        mine, theirs = (f"{place}-{x}{suffix}" for x in (form, "none"))
        share, base = published_gain(of, backbone, form), PUBLISHED[of, backbone]["none"][NDCG5_PRINTED]
        published = "" if share is None else f"*{share * base:+.4f} ({share:+.1%})*"
        rows.append((experiment.rows[mine].title, [_difference(results[mine], results[theirs]), published]))
    return rows


def _difference(runs: Runs, backbone: Runs) -> str:
    return f"{over_users(runs, backbone)} | {gain(runs, backbone)}"


def _by_depth(results: Results) -> list[str]:
    rows = []
    for (backbone, form), theirs in BY_DEPTH.items():
        runs = [results.get(f"beauty-{backbone}-{form}{n}", []) for n in SUFFIXES]
        rows.append((f"{BACKBONES[backbone][0]}{FORMS[form][0]}", [cell(values(each, NDCG5)) for each in runs]))
        rows.append(("*published*", [f"*{value:.4f}*" for value in theirs]))
    return grid(LAYERS, rows)


def _gains_by_depth(results: Results) -> list[str]:
    rows = []
    for form in AT_DEPTH[1:]:
        gains = [gain(results[f"beauty-sasrec-{form}{n}"], results[f"beauty-sasrec-none{n}"]) for n in SUFFIXES]
        theirs = [published_gain("beauty", "sasrec", form, depth) for depth in (1, *DEPTHS)]
        rows += [(f"{BACKBONES['sasrec'][0]}{FORMS[form][0]}", gains), ("*published*", [f"*{x:+.1%}*" for x in theirs])]
    return grid(LAYERS, rows)
