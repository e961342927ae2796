"""The page of the mixers, of made-up runs: parameters counted from the options, and differences from attention."""

from tests.helpers import MACHINE
from tinyattn.experiments import EXPERIMENTS
from tinyattn.experiments.mixers import LENGTHS, PLACED, PROBE

MIXERS = EXPERIMENTS["mixers"]


def made_up(ranks):
    return {key: [{
        "row": {"options": row.options, "seed": seed}, "metrics": {"full": {"hr@10": 0.3, "ndcg@10": 0.16}},
        "epoch_seconds": 12.0, "epochs": 40, "seconds": 500.0, "ranks": ranks[key.split("-")[-1]], "machine": MACHINE,
    } for seed in range(2)] for key, row in MIXERS.rows.items()}  # fmt: skip


def test_the_rows_differ_in_the_mixer_and_the_length_alone():
    options = [row.options for row in MIXERS.rows.values()]
    varied = {"maxlen", "mixer", "expand", "position"}
    for each in options:
        assert {n: v for n, v in each.items() if n not in varied}.items() <= options[0].items()
    assert len(options) == len(LENGTHS) * len(PLACED) + len(PROBE) == 13


def test_the_page_counts_parameters_and_compares_with_attention():
    ranks = {"attention": "A...", "gru": "AG..", "lstm": "A...", "rwkv": "....", "mamba": "A...", "delta": "A...",
             "t5": "A..."}
    found = MIXERS.page(MIXERS, made_up(ranks))
    D, rest = 50, 2 * 50 + 2 * 50 + 2 * (50 * 50 + 50)           # of a block: two norms, and the feed-forward network
    for title, mixer in {"attention": 3 * D * D, "GRU": 6 * D * D + 6 * D, "LSTM": 8 * D * D + 4 * D,
                         "RWKV": 4 * D * D + 5 * D,
                         "Gated DeltaNet": 5 * D * D + 4 * 3 * D + 2 * D + 2 + D}.items():  # fmt: skip
        assert found.count(f"| {title} | 2 | 0.3000 ± 0.0000 | 0.1600 ± 0.0000 | {2 * (mixer + rest):,} | 12.0") == 2
    assert found.count(f"| GRU | {1 / 12:+.4f} |") == 2
    assert found.count("| RWKV | -0.2500 |") == 2
