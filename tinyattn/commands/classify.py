"""`tinyattn classify`: classify images or texts by a trained model.

For each image or text of FILE, or for some that RUN was tested on, print the likeliest class and its probability.
"""

import argparse
from typing import Any

import numpy as np

from ..data import Vocabulary, read_images, read_text
from ..models import Classifier, ImageModel, distances_by_head
from ..terminal import quoted, shortened
from .arguments import add_run
from .measures import open_kind
from .runs import refuse_no_picture, training_data_of
from .tables import print_distances

PICTURES = {
    "rollout": "how much of each patch reaches the token that is classified",
    "distances": "how far the heads of each block look, also printed as numbers",
    "field": "which patches a patch of the last block depends on, compared with convolutions",
}
SHOWN = 10               # test images or texts, without FILE


def add(command: Any, arguments: list[str]) -> None:
    add_run(command)
    text = "a NumPy .npz file with the array images (N, height, width[, channels]), or a text file, one text per line"
    command.add_argument("file", metavar="FILE", nargs="?", help=text)
    command.add_argument("--picture", metavar="FILE", help="a picture of an image model to write; --of says which")
    text = "; ".join(f"{name}: {about}" for name, about in PICTURES.items())
    command.add_argument("--of", choices=PICTURES, default="rollout", help=f"{text} (default: rollout)")


def run(options: argparse.Namespace) -> None:
    if options.picture:
        refuse_no_picture(options.picture, "--picture", [options.file])
    elif options.of != "rollout":
        raise ValueError(f"--of {options.of} is for --picture FILE, which is missing")
    model, config = open_kind(options.run_folder, (ImageModel, Classifier), options.device)
    if isinstance(model, Classifier):
        if options.picture:
            raise ValueError(f"--picture is of an image model, and {options.run_folder} is of model {model.name}")
        texts = _texts(options, model, config)
        _print_classes(model.labels, model.probabilities(texts), [f"  {shortened(text)!r}" for text in texts])
        return
    data = read_images(options.file, labelled=False) if options.file else _tested(options, model, config)[:SHOWN]
    if options.picture:                                      # before anything is printed: it may be refused
        from ..show import LOOKS, save

        picture = LOOKS[options.of](model, data, f"{model.name} of {options.run_folder}")
    _print_classes(model.classes, model.probabilities(data), [""] * len(data))
    if options.of == "distances":
        print()
        print_distances(distances_by_head(model, data))
    if options.picture:
        print(save(picture, options.picture))


def _tested(options: argparse.Namespace, model: Any, config: dict[str, Any]) -> Any:
    return training_data_of(options.run_folder, model, config)[1].split().test


def _texts(options: argparse.Namespace, model: Classifier, config: dict[str, Any]) -> list[str]:
    if options.file is None:
        return list(_tested(options, model, config).sources[:SHOWN])
    texts = read_text(options.file).removesuffix("\n").split("\n")
    if "" in texts:
        raise ValueError(f"{options.file}: line {texts.index('') + 1} is blank, expected a text a line")
    return texts


def _print_classes(classes: Vocabulary, probabilities: np.ndarray, names: list[str]) -> None:
    width = max(len(quoted(name)) for name in classes.ids)
    for number, (row, name) in enumerate(zip(probabilities, names, strict=True), start=1):
        best = int(np.argmax(row))
        print(f"{number:4}  {quoted(classes.ids[best]):{width}}  {row[best]:.4f}{name}")
