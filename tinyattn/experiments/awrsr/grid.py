"""The grid of the replication of AWRSR: rows, settings, and the paper's results (Liu et al. 2024).

Fixed before the first run, with the rules of the verdicts in claims.py. **Selection**: the epoch by validation;
learning rate and dropout of each backbone by settings.py, on its plain form alone. **Budget**: a refinement has its
backbone's settings, epochs and patience. **Power**: NDCG@5 is taken to vary by 3 % (standard deviation) over seeds, as
SASRec's did before the grid. Three runs of a row and six of its backbone then show a difference of 5 % (at 95 %
confidence); the twelve runs of a refinement, three for each dataset and backbone, show one of 2 %. Intervals over users
leave out the variation between seeds. The paper's gains are 0 to 9 %, one number each. **Left out** for the budget:
M_value and M_stoc at depth, lags on STOSA; STOSA at depth is in depth.py.

**Added after the first runs**, without a verdict: M_value in its other causal form; n 20 and d 128 on Beauty
(OF_PAPER), which the paper names for SASRec; and plain SASRec with a learned bias for each range of distances (T5)
instead of learned positions, because a refinement's matrices also learn something about positions. Also STOSA on Beauty
with more patience (PATIENT), as many runs with 15 end in a dip of validation: with 20 as many seeds as with 15, with 50
one run of each form (of the backbone two), which shows what follows the dip; three were planned. And a larger Beauty
(LARGE), whose counts are nearer to the paper's, with Beauty's settings and validation on 5,000 users. There SASRec,
too, has a patience of 50: with 15 its second seed ended on a plateau after 23 epochs, its first after 167. So the rows
with 15 keep the seeds that they had; three were planned.
"""

from dataclasses import replace
from typing import Any

from ..datasets import BEAUTY, LARGE_BEAUTY, ML_1M
from ..experiment import Row

# NDCG@1 is HR@1; and with one item held out, HR is Recall
COLUMNS = [("full", f"{name}@{k}") for k in (1, 5, 10, 20) for name in ("hr", "ndcg") if (name, k) != ("ndcg", 1)]
PRINTED = [("full", "hr@1"), ("full", "hr@5"), ("full", "ndcg@5")]
NDCG5 = ("full", "ndcg@5")
NDCG5_PRINTED = PRINTED.index(NDCG5)
DATASETS = {"ml-1m": ML_1M, "beauty": BEAUTY}
LARGE = {"large": LARGE_BEAUTY}                 # not among the places that are judged; the paper has one Beauty
LARGE_PLACES = {"large-patient-sasrec": "SASRec on the larger Beauty, patience 50",
                "large-stosa": "STOSA on the larger Beauty"}  # fmt: skip
SOURCE = "Liu et al. 2024, table 2"
TRAINED: dict[str, Any] = {"maxlen": 50, "dim": 64, "blocks": 1, "epochs": 200, "patience": 15}
BACKBONES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sasrec": ("SASRec", "sasrec", TRAINED | {"block_form": "sasrec"}),
    "stosa": ("STOSA", "stosa", TRAINED | {"heads": 4}),
}
TITLES = {f"{data}-{backbone}": f"{title} on {dataset.title}"
          for data, dataset in DATASETS.items() for backbone, (title, *_) in BACKBONES.items()}  # fmt: skip
TITLES |= LARGE_PLACES
# learning rate and dropout by data and backbone: those of TRIED that validate best, by settings.py
SETTINGS = {
    ("ml-1m", "sasrec"): (5e-4, 0.2), ("ml-1m", "stosa"): (1e-3, 0.2),
    ("beauty", "sasrec"): (5e-4, 0.5), ("beauty", "stosa"): (1e-3, 0.2),
}  # fmt: skip
TRIED = [(lr, dropout) for lr in (1e-3, 5e-4) for dropout in (0.2, 0.5)]
DEEP_TRIED = ("beauty", "sasrec", 3)            # added after the first deep runs
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("", {}),
    "simp": (" + M_simp", {"refine": "simp"}),
    "value": (" + M_value, causal", {"refine": "value"}),
    "add": (" + M_add", {"refine": "add"}),
    "stoc": (" + M_stoc", {"refine": "stoc"}),
    "lags": (" + M_simp by lags, ours", {"refine": "simp", "refine_lags": True}),
    "rows": (" + M_value by rows", {"refine": "value-rows"}),
    "distances": (" with distances, unrefined", {"position": "t5"}),
}
OF_BACKBONE = {"sasrec": ("none", "simp", "value", "add", "lags"), "stosa": ("none", "simp", "value", "add", "stoc")}
LATER = {"sasrec": ("rows", "distances"), "stosa": ()}              # forms without a verdict, one run each
OF_PAPER: dict[str, Any] = {"maxlen": 20, "dim": 128}               # of SASRec on Beauty, in the paper's section 3.5
AT_PAPERS = ("none", "simp", "value", "add")
PATIENT: dict[int, tuple[str, ...]] = {20: OF_BACKBONE["stosa"], 50: ("none", "simp", "value")}    # epochs: forms
VALIDATED: dict[str, Any] = {"valid_users": 5000}                   # of the 40,226 on LARGE
DEPTHS = (2, 3, 4)                              # of SASRec, and in depth.py of STOSA
SEEDS = 3
# PRINTED (table 2)
PUBLISHED: dict[tuple[str, str], dict[str, tuple[float, float, float]]] = {
    ("beauty", "sasrec"): {"none": (0.0097, 0.0371, 0.0234), "simp": (0.0104, 0.0376, 0.0243),
                           "value": (0.0116, 0.0376, 0.0251), "add": (0.0108, 0.0380, 0.0239)},
    ("ml-1m", "sasrec"): {"none": (0.0265, 0.0959, 0.0616), "simp": (0.0291, 0.1004, 0.0649),
                          "value": (0.0267, 0.0976, 0.0642), "add": (0.0289, 0.1013, 0.0654)},
    ("beauty", "stosa"): {"none": (0.0150, 0.0422, 0.0285), "simp": (0.0153, 0.0453, 0.0304),
                          "value": (0.0154, 0.0428, 0.0286), "add": (0.0162, 0.0442, 0.0305),
                          "stoc": (0.0154, 0.0425, 0.0276)},
    ("ml-1m", "stosa"): {"none": (0.0218, 0.0720, 0.0475), "simp": (0.0221, 0.0756, 0.0489),
                         "value": (0.0246, 0.0789, 0.0516), "add": (0.0223, 0.0750, 0.0481),
                         "stoc": (0.0225, 0.0733, 0.0478)},
}  # fmt: skip
# NDCG@5 on Beauty with 1 to 4 layers (table 3)
BY_DEPTH = {
    ("sasrec", "none"): (0.0234, 0.0242, 0.0265, 0.0247), ("sasrec", "simp"): (0.0243, 0.0255, 0.0274, 0.0262),
    ("sasrec", "value"): (0.0251, 0.0250, 0.0270, 0.0255), ("sasrec", "add"): (0.0239, 0.0254, 0.0278, 0.0267),
    ("stosa", "none"): (0.0285, 0.0271, 0.0257, 0.0260), ("stosa", "simp"): (0.0304, 0.0286, 0.0265, 0.0267),
    ("stosa", "value"): (0.0286, 0.0278, 0.0260, 0.0265), ("stosa", "add"): (0.0305, 0.0289, 0.0277, 0.0284),
    ("stosa", "stoc"): (0.0276, 0.0273, 0.0261, 0.0270),
}  # fmt: skip
AT_DEPTH = ("none", "simp", "add")                                   # the forms with more layers
# estimates: minutes of a plain backbone's run, and the other forms' multiples
MINUTES = {"sasrec": 4, "stosa": 14}
TIMES_AS_LONG = {"none": 1.0, "simp": 1.25, "value": 2.3, "add": 1.25, "stoc": 1.4, "lags": 1.25, "rows": 1.4,
                 "distances": 1.1}  # fmt: skip


def published_gain(data: str, backbone: str, form: str, depth: int = 1) -> float | None:
    """The paper's gain in NDCG@5, as a share of the backbone's, or None. Only Beauty has several layers."""
    if depth > 1:
        mine, theirs = (BY_DEPTH[backbone, name][depth - 1] for name in (form, "none"))
        return mine / theirs - 1
    of = PUBLISHED[data, backbone]
    return of[form][NDCG5_PRINTED] / of["none"][NDCG5_PRINTED] - 1 if form in of else None


def rows_of_grid() -> dict[str, Row]:
    """Every row, by key: data, backbone and refinement, and the number of layers if it is above one."""
    rows: dict[str, Row] = {}
    for data in DATASETS:
        for title, key in (("popularity", "popularity"), ("Markov", "markov")):
            rows[f"{data}-{key}"] = Row(title, data, key)
        for backbone in BACKBONES:
            for form in OF_BACKBONE[backbone]:
                theirs = dict(zip(PRINTED, PUBLISHED[data, backbone].get(form, ()), strict=False))
                times = 2 if form == "none" else 1
                rows[f"{data}-{backbone}-{form}"] = replace(row_of(data, backbone, form), published=theirs, times=times)
        rows[f"{data}-stosa-released"] = row_of(data, "stosa", more=(" as released", {"mean_passthrough": True}))
        entropy = row_of(data, "sasrec", more=(", cross-entropy", {"loss": "ce"}))
        rows[f"{data}-sasrec-ce"] = replace(entropy, minutes=15, seeds=1)
    deep = {f"beauty-sasrec-{form}-{depth}": row_of("beauty", "sasrec", form, depth)
            for form in AT_DEPTH for depth in DEPTHS}  # fmt: skip
    added = {f"{data}-{backbone}-{form}": replace(row_of(data, backbone, form), seeds=1)
             for data in DATASETS for backbone in BACKBONES for form in LATER[backbone]}  # fmt: skip
    for form in AT_PAPERS:
        theirs = dict(zip(PRINTED, PUBLISHED["beauty", "sasrec"][form], strict=True))
        row = row_of("beauty", "sasrec", form, more=(", n 20, d 128", OF_PAPER))
        added[f"beauty-sasrec-{form}-n20"] = replace(row, published=theirs)
    patient: dict[int, dict[str, Row]] = {patience: {} for patience in PATIENT}
    for patience, forms in PATIENT.items():
        for form in forms:
            row = row_of("beauty", "stosa", form, more=(f", patience {patience}", {"patience": patience}))
            times = 2 if form == "none" else 1
            row = replace(row, seeds=times) if patience == 50 else replace(row, times=times)
            patient[patience][patient_key(form, patience)] = row
    large, patient_large = {}, {}
    for backbone in BACKBONES:
        for form in AT_PAPERS:
            row = on_large_beauty(backbone, form)
            if backbone == "sasrec":
                patient_large[f"large-patient-{backbone}-{form}"] = on_large_beauty(backbone, form, patience=50)
                row = replace(row, seeds=2 if form in ("none", "simp") else 1)
            large[f"large-{backbone}-{form}"] = row
    rows |= {key: replace(row, late=1) for key, row in deep.items()}
    for late, more in enumerate((added, patient[20], large, patient[50], patient_large), start=2):
        rows |= {key: replace(row, late=late) for key, row in more.items()}
    return rows


def on_large_beauty(backbone: str, form: str, **options: Any) -> Row:
    """A row with Beauty's settings, on LARGE."""
    title = "".join(f", {name} {value}" for name, value in options.items())
    row = row_of("beauty", backbone, form, more=(title, VALIDATED | options))
    theirs = dict(zip(PRINTED, PUBLISHED["beauty", backbone][form], strict=True))
    return replace(row, data="large", published=theirs, minutes=3 * row.minutes)


def patient_key(form: str, patience: int) -> str:
    """The key of STOSA's row on Beauty; with the patience of all rows, that of the row which is judged."""
    return f"beauty-stosa-{form}" + (f"-patience-{patience}" if patience != TRAINED["patience"] else "")


def tried_rows() -> dict[str, Row]:
    """The rows of settings.py: each backbone's plain form with each of TRIED, and DEEP_TRIED with each."""
    rows = {}
    for data, backbone, depth in [(*place, 1) for place in SETTINGS] + [DEEP_TRIED]:
        title, model, options = BACKBONES[backbone]
        for lr, dropout in TRIED:
            about = f"{title} on {DATASETS[data].title}, learning rate {lr:g}, dropout {dropout}{layers(depth)}"
            tried = options | {"lr": lr, "dropout": dropout, "blocks": depth}
            row = Row(about, data, model, tried, minutes=MINUTES[backbone] * depth)
            rows[tried_key(data, backbone, depth, lr, dropout)] = row
    return rows


def tried_key(data: str, backbone: str, depth: int, lr: float, dropout: float) -> str:
    return f"{data}-{backbone}-{lr:g}-{dropout}" + (f"-{depth}" if depth > 1 else "")


def layers(depth: int) -> str:
    return f", {depth} layers" if depth > 1 else ""


def row_of(
    data: str, backbone: str, form: str = "none", depth: int = 1, more: tuple[str, dict[str, Any]] = ("", {})
) -> Row:
    """A backbone with a refinement and the backbone's settings; `more` is a suffix of the title, and its options."""
    title, model, options = BACKBONES[backbone]
    lr, dropout = SETTINGS[data, backbone]
    settled = options | {"lr": lr, "dropout": dropout, "blocks": depth} | FORMS[form][1] | more[1]
    minutes = round(MINUTES[backbone] * depth * TIMES_AS_LONG[form], 1)
    return Row(title + FORMS[form][0] + more[0] + layers(depth), data, model, settled, source=SOURCE, minutes=minutes)
