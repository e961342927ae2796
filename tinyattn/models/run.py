"""The folder that a training leaves behind: whose it is, what stands in it, and in which order that came."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from ..data import FileError, read_json, write_atomically, write_json
from .recommender import Recommender


class RunFolder:
    """config.json first, then checkpoint.npz and training.csv as training goes, model.npz and metrics.json last.

    A run has finished when metrics.json is there and no checkpoint is. Every file is written whole or not at all.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint.npz"
        self.model = self.path / "model.npz"
        self.figures = self.path / "figures"

    def claim(self, config: dict[str, Any]) -> None:
        """Make the folder this configuration's, or find that it is.

        Raises FileError where it belongs to another configuration or other data, or nothing can be written there.
        """
        path = self.path / "config.json"
        if path.exists():
            self._refuse_other(self._config(), config)
            return
        try:
            write_json(path, config)
        except OSError as error:
            raise FileError(f"cannot write to {self.path}: {error.strerror}") from None

    @property
    def finished(self) -> bool:
        return (self.path / "metrics.json").exists() and not self.checkpoint.exists()

    def open(self) -> tuple[Any, dict[str, Any]]:
        """The model of a finished run and its configuration. Raises FileError for any other folder."""
        config = self._config()
        if not self.model.exists():
            raise FileError(f"{self.path} has no model.npz yet: its training has not finished")
        return Recommender.load(self.model), config

    def metrics(self) -> dict[str, Any]:
        """What metrics.json holds."""
        return read_json(self.path / "metrics.json")

    def write_history(self, history: list[dict[str, Any]]) -> None:
        """training.csv: one row an epoch."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["epoch", "loss", "valid_ndcg@10", "gradient_norm", "tokens_per_second"])
        for row in history:
            valid = "" if row["valid"] is None else f"{row['valid']:.6f}"
            loss, norm = f"{row['loss']:.6f}", f"{row['gradient_norm']:.6f}"
            writer.writerow([row["epoch"], loss, valid, norm, f"{row['tokens_per_second']:.0f}"])
        write_atomically(self.path / "training.csv", text.getvalue().encode())

    def finish(self, metrics: dict[str, Any]) -> None:
        """Leave the results and take the checkpoint away, in this order: killed in between, the run can still go on."""
        write_json(self.path / "metrics.json", metrics)
        self.checkpoint.unlink(missing_ok=True)

    def _config(self) -> dict[str, Any]:
        config = read_json(self.path / "config.json")
        if not isinstance(config, dict) or not {"model", "parameters", "data"} <= set(config):
            raise FileError(f"{self.path / 'config.json'} was not written by tinyattn")
        return config

    def _refuse_other(self, found: dict[str, Any], config: dict[str, Any]) -> None:
        remedy = "choose another --out or remove it"
        if found["data"].get("fingerprint") != config["data"]["fingerprint"]:
            raise FileError(f"{self.path} was trained on other data; {remedy}")
        old, new = (c["parameters"] | c.get("evaluation", {}) | {"model": c["model"]} for c in (found, config))
        for name in new:
            if old.get(name) != new[name]:
                was, now = _told(old.get(name)), _told(new[name])
                raise FileError(f"{self.path} was made with --{name.replace('_', '-')} {was}, not {now}; {remedy}")


def _told(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
