"""`tinyattn classify`: what a trained model sees on images."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import read_images
from ..models import ImageModel, RunFolder
from .arguments import add_run


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "classify",
        help="what a vision transformer sees on images",
        description="Name the likeliest class of each image of IMAGES, and how likely it is.",
    )
    add_run(command)
    text = "a NumPy .npz file with the array images (N, height, width[, channels])"
    command.add_argument("images", metavar="IMAGES", help=text)
    return command


def run(options: argparse.Namespace) -> None:
    model, _ = RunFolder(options.run_folder).open(ImageModel, device=options.device)
    data = read_images(options.images, labelled=False)
    for number, found in enumerate(model.probabilities(data), start=1):
        best = int(np.argmax(found))
        print(f"{number:4}  {model.classes.ids[best]}  {found[best]:.4f}")
