"""benchmarks/decoder_step.py and benchmarks/one_more.py, without their timing."""

import pickle

import numpy as np
import pytest

from benchmarks import decoder_step, one_more, ranking
from benchmarks.children import check
from benchmarks.peers import child, growing, installed
from benchmarks.peers.ours import reference
from tests.helpers import MACHINE
from tinyattn.models import DecoderNetwork, SASRecNetwork
from tinyattn.tree import tree_map

TORCH = pytest.mark.skipif(not installed("torch-sdpa"), reason="torch is not installed")
TINY = DecoderNetwork(n_tokens=11, context=12, dim=8, layers=2, heads=2)
HISTORY = SASRecNetwork(n_items=50, maxlen=12, dim=8, blocks=2, heads=2, position="rope")


def spoiled(path):
    """The reference, moved where it is largest."""
    expected = pickle.loads(path.read_bytes())
    array = expected if isinstance(expected, np.ndarray) else expected[1]["tokens"]
    array.flat[np.argmax(np.abs(array))] *= 1.01
    path.write_bytes(pickle.dumps(expected))


@pytest.mark.slow(seconds=1)
@pytest.mark.parametrize("name", ["tinyattn", pytest.param("torch-sdpa", marks=TORCH)])
def test_contenders_train_on_the_librarys_gradients(name, tmp_path):
    batches = decoder_step.draw(TINY, 3, 2)
    assert [batch.ids.shape for batch in batches] == [(3, 12)] * 2
    weights = tree_map(lambda w: w.astype(np.float32), TINY.init(np.random.default_rng(0)))
    child.write(tmp_path, TINY, weights, batches, reference(TINY, weights, batches[0]))
    assert check([name], tmp_path, "text")[name]["agrees"]
    spoiled(tmp_path / "reference.pickle")
    assert not check([name], tmp_path, "text")[name]["agrees"]


@pytest.mark.parametrize("network", [TINY, HISTORY], ids=["text", "history"])
@pytest.mark.parametrize("name", ["tinyattn", "tinyattn-again", *(pytest.param(n, marks=TORCH)
                                                                  for n in ("torch", "torch-again"))])  # fmt: skip
def test_contenders_say_what_follows_as_the_library_does(name, network, tmp_path):
    growing.write(tmp_path, network, ranking.shaken(network), one_more.numbers_of(network, 12))
    asked = growing.Grower(growing.load(name), tmp_path)
    assert asked.check()["agrees"]
    spoiled(tmp_path / "reference.pickle")
    assert not asked.check()["agrees"]


@pytest.mark.parametrize("mixer", one_more.RECURRENT)
@pytest.mark.parametrize("kind", [DecoderNetwork, SASRecNetwork], ids=["text", "history"])
def test_recurrent_contenders_do_so_too(kind, mixer, tmp_path):
    sizes = {DecoderNetwork: {"n_tokens": 11, "context": 12, "layers": 2},
             SASRecNetwork: {"n_items": 50, "maxlen": 12, "blocks": 2, "position": "none"}}  # fmt: skip
    network = kind(mixer=mixer, dim=8, **sizes[kind])
    growing.write(tmp_path, network, ranking.shaken(network), one_more.numbers_of(network, 12))
    for name in ("tinyattn", "tinyattn-again"):
        assert growing.Grower(growing.load(name), tmp_path).check()["agrees"]


@pytest.mark.slow(seconds=1)
def test_what_is_kept_grows_where_the_mixer_keeps_tokens_and_nowhere_else():
    """A case for every recurrent mixer, of texts and of histories."""
    kept = {case: one_more.kept(network, n) for case, (network, n) in one_more.CASES.items()}
    for mixer in one_more.RECURRENT:
        assert kept[f"token 64 of a text, mixer {mixer}"] == kept[f"token 1,024 of a text, mixer {mixer}"]
        assert kept[f"item 50 of a history, mixer {mixer}"] == kept[f"item 200 of a history, mixer {mixer}"]
    assert kept["token 1,024 of a text"] == 16 * kept["token 64 of a text"]
    assert kept["item 200 of a history"] == 4 * kept["item 50 of a history"]


def found(seconds, **more):
    about = {"about": {"torch": "2", "threads": 2}, "check": {"off": 1e-6, "worst": "a", "agrees": True}}
    return about | {"seconds": seconds, "peak": 100.0, "pools": []} | more


def test_the_part_on_one_more_says_what_was_found():
    row = {"tinyattn": found([1e-3, 2e-3]), "torch": found([3e-3, 5e-3])}
    part = one_more.part({"cases": {"item 50": row}, "machine": MACHINE, "rounds": 2})
    assert "| item 50 | 1.5 | 4 (2.75) |  |  |  |" in part
    assert "Reached: 2.75 (item 50), must." in part
    for size, shown in ((400, "0.4"), (9_949, "9.9"), (12_345_678, "12,346")):
        row["tinyattn"]["kept"] = size
        assert f"| 1.5 | 4 (2.75) |  |  | {shown} |" in one_more.summary({"cases": {"item 50": row}})
    assert "2 rounds. 2 cores of abacus" in part
    assert one_more.verdict({"cases": {"item 50": {"tinyattn": row["tinyattn"]}}}).endswith("Not measured.")


def test_the_page_of_the_decoders_step_has_a_part_for_every_make_of_cpu():
    row = {"contenders": {"tinyattn": found([0.2, 0.2]), "torch-sdpa": found([0.1, 0.2])}, "machine": MACHINE,
           "rounds": 2, "OPENBLAS_CORETYPE": None}  # fmt: skip
    page = decoder_step.page({"a CPU": row, "another": row})
    assert page.count("| torch-sdpa | 150 | 0.75 | 0.55 to 0.95 | 100 |") == 2
    assert "## another" in page
    assert page.count("Reached: 0.75, **missed**.") == 2
    assert decoder_step.summary({"a CPU": row}).startswith("2 cores of abacus, ")
