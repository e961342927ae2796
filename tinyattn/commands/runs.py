"""What commands share that work on data and on finished runs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from ..data import Interactions, Source, Truth
from ..models import Recommender, RunFolder


def source_of(options: argparse.Namespace, ratings: bool = False) -> Source:
    """The data that was named on the command line, with its ratings where a model asks for them."""
    world = getattr(options, "world", None)                  # of the commands that have the flag
    reading = {name: getattr(options, name) for name in ("format", "columns", "k_core")}
    return Source.of(options.data, world, **reading, ratings=ratings or None)


def open_run(options: argparse.Namespace) -> tuple[Any, Source, Interactions, Truth | None]:
    """The model of a finished run, and the data named, or else the data it was trained on, unchanged."""
    model, config = RunFolder(options.run_folder).open(device=options.device)
    if options.data is not None:
        source = source_of(options, config.get("data", {}).get("reading", {}).get("ratings", False))
        return model, source, *source.load()
    try:
        source = Source.from_config(config["data"])
        trained_on = config["data"]["fingerprint"]
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(f"{options.run_folder}/config.json does not say what data it is about; name DATA") from None
    data, truth = source.load()
    if data.fingerprint() != trained_on:
        raise ValueError(
            f"{source.title} is no longer what {options.run_folder} was trained on; name DATA to use it anyway"
        )
    return model, source, data, truth


def in_the_models_ids(data: Interactions, model: Recommender) -> Interactions:
    """The same interactions in the model's item numbers. ValueError names an item it does not know."""
    assert model.items is not None
    if np.array_equal(data.items.ids, model.items.ids):
        return data
    flat = model.items.numbers(data.items.ids.tolist())[data.flat - 1].astype(np.int32)
    return replace(data, flat=flat, items=model.items)


def history_of(options: argparse.Namespace) -> tuple[list[Any], list[Any] | None, Any]:
    """The history that --items or --user names, in the data's ids, whose it is, and the run's model."""
    if options.items is not None:
        if options.data is not None:
            raise ValueError(f"DATA ({options.data}) goes with --user; a history given by --items needs none")
        model, _ = RunFolder(options.run_folder).open(device=options.device)
        return [item.strip() for item in options.items.split(",") if item.strip()], None, model
    model, _, data, _ = open_run(options)
    row = int(data.users.numbers([options.user])[0]) - 1
    known = model.users.numbers_or_zero(data.users.ids[row : row + 1])[0]
    return data.items.decode(data.sequence(row)).tolist(), [options.user] if known else None, model


def sizes(data: Interactions) -> dict[str, int]:
    return {"users": data.n_users, "items": data.n_items, "interactions": len(data)}


def said(data: Interactions) -> str:
    """The sizes in words."""
    return ", ".join(f"{number:,} {what}" for what, number in sizes(data).items())
