"""The folder of a training run: its configuration, checkpoint, history, model and metrics."""

import math
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import to_numpy
from ..files import (
    FORMAT,
    FileError,
    alone_in,
    csv_bytes,
    read_arrays,
    read_json,
    refuse_unknown_format,
    write_arrays,
    write_atomically,
    write_json,
)
from ..terminal import shortened
from ..training import DivergedError
from ..tree import leaves, tree_map
from .estimator import Estimator
from .parameters import checked
from .recommender import Recommender
from .trained import Trained

_REMEDY = "choose another --out or remove it"


class RunFolder:
    """config.json first, then checkpoint.npz and training.csv as training goes, model.npz and metrics.json last.

    A run has finished when the last two exist and the checkpoint does not. Every file is written whole or not at all.
    moments.npz is for a later run that starts from this one; without it, that run's optimiser begins afresh.
    """

    PARTS = ("config.json", "model.npz", "metrics.json", "checkpoint.npz", "training.csv", "moments.npz")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint.npz"
        self.model = self.path / "model.npz"
        self.moments = self.path / "moments.npz"
        self.figures = self.path / "figures"

    @contextmanager
    def claimed(self, config: dict[str, Any]) -> Iterator[None]:
        """Lock the folder for this configuration until the block ends; a finished run is left unchanged.

        If the block diverges, or fails before anything was learned, its files are removed, so that another attempt can
        begin. Raises FileError, with nothing changed, if the folder is in use by another process, belongs to another
        configuration or other data, has some files of a run but no config.json, or cannot be written to.
        """
        if self.finished:                            # also on a read-only disk
            self.refuse_other(config)
            yield
            return
        if self.path.is_file():
            raise FileError(f"{self.path} is a file, expected a folder")
        with ExitStack() as alone:
            try:
                alone.enter_context(alone_in(self.path))
                self._claim(config | {"format": FORMAT})
            except OSError as error:
                with suppress(OSError):              # succeeds only if it is empty, as where the disk is full
                    self.path.rmdir()
                raise FileError(f"cannot write to {self.path}: {error.strerror}") from None
            try:
                yield
            except DivergedError:                    # and no epoch was good: the same command would diverge again
                self.checkpoint.unlink(missing_ok=True)
                self._give_back()
                raise
            except BaseException:                    # Ctrl-C, too
                if not self.checkpoint.exists() and not self.model.exists():
                    self._give_back()
                raise

    def _claim(self, config: dict[str, Any]) -> None:
        path = self.path / "config.json"
        if path.exists():
            self.refuse_other(config)
            if self.config() == config:
                return
        else:
            if lost := next((name for name in self.PARTS if (self.path / name).exists()), None):
                raise FileError(f"{self.path} has a {lost} and no config.json: {_REMEDY}")
        write_json(path, config)

    def _give_back(self) -> None:
        (self.path / "config.json").unlink(missing_ok=True)
        (self.path / "training.csv").unlink(missing_ok=True)
        if not any(self.path.iterdir()):
            self.path.rmdir()

    @property
    def finished(self) -> bool:
        written = (self.path / name for name in ("metrics.json", "model.npz"))
        return all(path.exists() for path in written) and not self.checkpoint.exists()

    def open(self, kind: type[Estimator] = Recommender, **where: Any) -> tuple[Any, dict[str, Any]]:
        """The model and the configuration of a finished run. FileError for another folder, kind or run's model.

        `where` goes to `Estimator.load`.
        """
        if self.path.is_file():
            raise FileError(f"{self.path} is a file, expected the folder of a run")
        config = self.config()
        if not self.model.exists():
            raise FileError(f"{self.path} has no model.npz yet: its training has not finished")
        model = kind.load(self.model, **where)
        expected = model.upgrade_identity(config["parameters"]) | {"model": config.get("model", model.name)}
        loaded = model.identity() | {"model": model.name}
        differ = (name for name in expected.keys() | loaded.keys() if expected.get(name) != loaded.get(name))
        if (other := min(differ, default=None)) is not None:
            values = f"{loaded.get(other)}, and config.json {expected.get(other)}"
            raise FileError(f"{self.model} has {other} {values}: it is another run's")
        return model, config

    def open_to_continue(self, kind: type[Trained], **where: Any) -> Trained:
        """The model of a finished run, with Adam's moments where the folder has them. Raises as `open`."""
        model: Trained = self.open(kind, **where)[0]
        if self.moments.exists():
            try:
                _, arrays = read_arrays(self.moments, "moments")
                m, v = (tree_map(np.zeros_like, tree_map(to_numpy, model.parameters)) for _ in "mv")
                for prefix, tree in (("m.", m), ("v.", v)):
                    for name, leaf in leaves(tree):
                        leaf[...] = checked(arrays, prefix + name, leaf.shape, np.float32)
                arrays.refuse_unread()
                if any((leaf < 0).any() for _, leaf in leaves(v)):
                    raise ValueError("a mean of squares is negative")
            except (KeyError, ValueError) as error:
                why = f"{error} is missing" if isinstance(error, KeyError) else error
                raise FileError(f"{self.moments} is damaged ({why}): remove it, and Adam begins afresh") from None
            model.moments = m, v
        return model

    def evaluation(self) -> dict[str, Any]:
        """How the run was measured, from config.json."""
        config = self.config()
        measured = _evaluation(config)
        if not isinstance(config.get("evaluation", {}), dict) or not isinstance(measured["split"], str):
            raise FileError(f"{self.path / 'config.json'} does not say how the run is measured")
        return measured

    def data(self) -> tuple[str, str]:
        """The source of the run's data, as one text, and their fingerprint. Raises FileError without a fingerprint."""
        data = dict(self.config()["data"])
        fingerprint = data.pop("fingerprint", None)
        if not isinstance(fingerprint, str):
            raise FileError(f"{self.path / 'config.json'} does not say what data it is about")
        return repr({name: x for name, x in data.items() if type(x) is not int}), fingerprint  # without sizes

    def refuse_other(self, config: dict[str, Any]) -> None:
        """Raise FileError if the run has another model, other options, evaluation, or data (where `config` has any)."""
        stored, models = self.config(), Estimator.models
        if isinstance(stored.get("model"), str) and stored["model"] in models:
            stored = stored | {"parameters": models[stored["model"]].upgrade_identity(stored["parameters"])}
        old, new = (
            c["parameters"] | _evaluation(c) | {"model": c.get("model"), "ops": c.get("ops", "fast")}
            for c in (stored, config)
        )
        first = ("model", "loss", "mechanism", "position")                  # other options depend on these
        for name in [*first, *sorted((old.keys() | new.keys()) - set(first))]:
            if old.get(name) != new.get(name):
                flag, was, now = f"--{name.replace('_', '-')}", old.get(name), new.get(name)
                if name == "test_targets" and "targets" not in new:
                    flag = "--targets"                                      # its name if the model has no such option
                made = f"with {flag} {_as_text(was)}, not " + ("without" if now is None else _as_text(now))
                if was is None:
                    made = f"without {flag}, not with {_as_text(now)}"
                raise FileError(f"{self.path} was made {made}; {_REMEDY}")
        if "data" in config and stored["data"].get("fingerprint") != config["data"]["fingerprint"]:
            raise FileError(f"{self.path} was trained on other data; {_REMEDY}")

    def metrics(self, parts: Collection[str] = ()) -> dict[str, Any]:
        """The contents of metrics.json. FileError if tinyattn did not write it, or if it has none of `parts`."""
        metrics = read_json(self.path / "metrics.json")
        if isinstance(metrics, dict):
            metrics = {row: value for row, value in metrics.items() if row != "validation"}
        rows = list(metrics.values()) if isinstance(metrics, dict) and "model" in metrics else [None]
        if any(_columns(row) is None or _columns(row) != _columns(metrics["model"]) for row in rows):
            raise FileError(f"{self.path / 'metrics.json'} was not written by tinyattn; {_REMEDY}")
        if parts and not metrics["model"].keys() & set(parts):
            there, wanted = shortened(repr(next(iter(metrics["model"])))), ", ".join(parts)
            raise FileError(f"{self.path / 'metrics.json'} has metrics of {there}, expected of {wanted}; {_REMEDY}")
        return metrics

    def validation(self) -> tuple[str, float] | None:
        """The metric by which the model was chosen on the validation part, and its value; None where none was kept."""
        metrics = read_json(self.path / "metrics.json")
        row = metrics.get("validation") if isinstance(metrics, dict) else None
        if not isinstance(row, dict) or len(row) != 1 or not all(isinstance(value, float) for value in row.values()):
            return None
        return next(iter(row.items()))

    def write_history(self, history: list[dict[str, Any]], criterion: str = "ndcg@10") -> None:
        """training.csv: a row an epoch; the metric `criterion` chooses the epoch."""
        rows = [["epoch", "loss", f"valid_{criterion}", "gradient_norm", "tokens_per_second"]]
        for row in history:
            valid = "" if row["valid"] is None else f"{row['valid']:.6f}"
            loss, norm = f"{row['loss']:.6f}", f"{row['gradient_norm']:.6f}"
            rows.append([row["epoch"], loss, valid, norm, f"{row['tokens_per_second']:.0f}"])
        write_atomically(self.path / "training.csv", csv_bytes(rows))

    def write_results(self, model: Estimator, metrics: dict[str, Any], valid: float | None = None) -> None:
        """Write model.npz and metrics.json; the checkpoint stays, so a run killed after this can be resumed.

        `valid` is the model's `criterion` on the validation part.
        """
        if (moments := getattr(model, "moments", None)) is not None:
            trees = zip("mv", moments, strict=True)
            arrays = {f"{which}.{name}": to_numpy(leaf) for which, tree in trees for name, leaf in leaves(tree)}
            write_arrays(self.moments, "moments", {}, arrays)
        model.save(self.model)
        validation = {} if valid is None else {"validation": {model.criterion: float(valid)}}
        write_json(self.path / "metrics.json", metrics | validation)

    def contents(self) -> list[str]:
        """The names of its files."""
        known = ("model.npz", "config.json", "metrics.json", "training.csv", "moments.npz", "figures")
        return [f"{name}/" if name == "figures" else name for name in known if (self.path / name).exists()]

    def finish(self) -> None:
        """Remove the checkpoint."""
        self.checkpoint.unlink(missing_ok=True)

    def config(self) -> dict[str, Any]:
        """config.json. Raises FileError where tinyattn did not write it."""
        config = read_json(self.path / "config.json")
        if isinstance(config, dict) and "tinyattn" in config:
            refuse_unknown_format(self.path / "config.json", config)
        if not isinstance(config, dict) or not all(isinstance(config.get(n), dict) for n in ("parameters", "data")):
            raise FileError(f"{self.path / 'config.json'} was not written by tinyattn")
        return config


def _evaluation(config: dict[str, Any]) -> dict[str, Any]:
    """The evaluation of a run. Runs of older versions, which had one split, do not name it."""
    evaluation = config.get("evaluation")
    return {"split": "leave-one-out"} | (evaluation if isinstance(evaluation, dict) else {})


def _columns(row: Any) -> list[tuple[str, list[str]]] | None:
    """Protocols and metrics of a row of metrics.json, in their order; None for another row."""
    if not isinstance(row, dict) or not row or not all(isinstance(table, dict) for table in row.values()):
        return None
    values = [value for table in row.values() for value in table.values()]
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        return None
    return [(protocol, list(table)) for protocol, table in row.items()]


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
