"""`tinyattn classify`: classify images by a vision transformer.

For each image of IMAGES, or for some images that RUN was tested on, print the likeliest class and its probability.
"""

import argparse
from typing import Any

import numpy as np

from ..data import read_images
from ..models import ImageModel, distances_by_head
from ..terminal import quoted
from .arguments import add_run
from .measures import open_kind
from .runs import refuse_no_picture, training_data_of
from .tables import print_distances

PICTURES = {
    "rollout": "how much of each patch has come to the token that is read",
    "distances": "how far the heads of each block look, in numbers as well",
    "field": "what a patch of the last block depends on, compared with convolutions",
}
SHOWN = 10               # test images, without IMAGES


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    text = "a NumPy .npz file with the array images (N, height, width[, channels])"
    command.add_argument("images", metavar="IMAGES", nargs="?", help=text)
    command.add_argument("--picture", metavar="FILE", help="a picture to write; --of says which")
    text = "; ".join(f"{name}: {about}" for name, about in PICTURES.items())
    command.add_argument("--of", choices=PICTURES, default="rollout", help=f"{text} (default: rollout)")


def run(options: argparse.Namespace) -> None:
    if options.picture:
        refuse_no_picture(options.picture, "--picture", [options.images])
    elif options.of != "rollout":
        raise ValueError(f"--of {options.of} is for --picture FILE, which is missing")
    model, config = open_kind(options.run_folder, ImageModel, options.device)
    if options.images is not None:
        data = read_images(options.images, labelled=False)
    else:
        data = training_data_of(options.run_folder, model, config)[1].split().test[:SHOWN]
    if options.picture:                                      # first: some models have no such picture
        from ..show import LOOKS, save

        picture = LOOKS[options.of](model, data, f"{model.name} of {options.run_folder}")
    for number, probabilities in enumerate(model.probabilities(data), start=1):
        best = int(np.argmax(probabilities))
        print(f"{number:4}  {quoted(model.classes.ids[best])}  {probabilities[best]:.4f}")
    if options.of == "distances":
        print()
        print_distances(distances_by_head(model, data))
    if options.picture:
        print(save(picture, options.picture))
