"""`tinyattn classify`: what a trained model sees on images, and what it looks at."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data import ImageSource, read_images
from ..models import ImageModel, RunFolder
from .arguments import add_run
from .runs import refuse_unwritable

PICTURES = {
    "rollout": "how much of each patch has come to what is read",
    "distances": "how far the heads of each block look",
    "field": "what a patch of the last block depends on, beside convolutions",
}
SHOWN = 10               # of a run's own images


def add(commands: Any, arguments: Sequence[str]) -> Any:
    command = commands.add_parser(
        "classify",
        help="what a vision transformer sees on images",
        description="Name the likeliest class of each image of IMAGES, or of some that RUN was tested on, and how "
        "likely it is.",
    )
    add_run(command)
    text = "a NumPy .npz file with the array images (N, height, width[, channels])"
    command.add_argument("images", metavar="IMAGES", nargs="?", help=text)
    command.add_argument("--picture", metavar="FILE", help="a picture to write, of what --of says")
    text = "; ".join(f"{name}: {said}" for name, said in PICTURES.items())
    command.add_argument("--of", choices=PICTURES, default="rollout", help=f"{text} (default: rollout)")
    return command


def run(options: argparse.Namespace) -> None:
    if options.picture:
        refuse_unwritable(options.picture, "--picture")
    model, config = RunFolder(options.run_folder).open(ImageModel, device=options.device)
    if options.images is not None:
        data = read_images(options.images, labelled=False)
    else:
        data = _its_own(options.run_folder, config)[:SHOWN]
    for number, found in enumerate(model.probabilities(data), start=1):
        best = int(np.argmax(found))
        print(f"{number:4}  {model.classes.ids[best]}  {found[best]:.4f}")
    if options.picture:
        from ..show import LOOKS, save

        print(save(LOOKS[options.of](model, data, f"{model.name} of {options.run_folder}"), options.picture))


def _its_own(folder: str, config: dict[str, Any]) -> Any:
    """The images that a run was tested on. Raises ValueError where it does not say which they are."""
    try:
        source = ImageSource.from_config(config["data"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{folder}/config.json does not say what images it is about; name IMAGES") from None
    return source.load().split().test
