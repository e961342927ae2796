"""Pictures of the attention of models of images."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..data import Images
from ..models import BEiT, ImageModel
from ..models.transformers import looking
from .style import BLUE, GREY, HEAT, ORANGE, figure, in_style


@in_style
def rollout_map(images: np.ndarray, rolled: np.ndarray, labels: Any, title: str = "") -> Any:
    """Images, and below them the rolled-out attention to each patch. -> matplotlib figure.

    Shapes: images (N, height, width, channels), rolled (N, rows, columns). `labels`: N titles.
    """
    fig, axes = figure(2, len(images), size=(1.3 * len(images) + 0.4, 3.3), title=title, squeeze=False)
    for (above, below), image, patches, label in zip(axes.T, images, rolled, labels, strict=True):
        above.imshow(image.mean(axis=-1), cmap="gray")
        above.set_title(str(label))
        below.imshow(patches, cmap=HEAT)
        for ax in (above, below):
            ax.set(xticks=[], yticks=[])
    axes[0, 0].set_ylabel("image")
    axes[1, 0].set_ylabel("rolled out")
    return fig


@in_style
def distance_plot(distances: np.ndarray, uniform: float, title: str = "") -> Any:
    """The mean attention distance of each head, by block, and `uniform`, the distance for equal weights. -> figure.

    Shapes: distances (blocks, heads), NaN for missing heads; uniform in pixels.
    """
    fig, ax = figure(size=(5.0, 3.2))
    blocks = np.arange(1, len(distances) + 1)
    for head in distances.T:
        ax.plot(blocks, head, "o", color=BLUE, alpha=0.6)
    ax.plot(blocks, np.nanmean(distances, axis=1), "-", color=ORANGE, label="mean of the heads")
    ax.axhline(uniform, color=GREY, linestyle="--", label="all patches alike")
    ax.set(xlabel="block", ylabel="mean attention distance (pixels)", xticks=blocks, ylim=(0, None), title=title)
    ax.legend()
    return fig


@in_style
def field_map(fields: dict[str, np.ndarray], title: str = "") -> Any:
    """Receptive fields (height, width) by name, each relative to its maximum; 0 stays blank. -> figure."""
    fig, axes = figure(1, len(fields), size=(3.0 * len(fields), 3.2), title=title, squeeze=False)
    for ax, (name, field) in zip(axes[0], fields.items(), strict=True):
        ax.imshow(np.ma.masked_equal(field / field.max(), 0), cmap=HEAT, vmin=0, vmax=1)
        ax.set(title=name, xticks=[], yticks=[])
    return fig


@in_style
def hidden_map(model: BEiT, images: Images, title: str = "") -> Any:
    """Rows: the images; their hidden patches; the hidden patches' words; the predicted words. -> matplotlib figure."""
    batch = model.evaluation_batch(images)
    shown = {
        "image": batch.images,
        "hidden": model.painted(images, batch.hidden, None),
        "its words": model.painted(images, batch.hidden, batch.words),
        "guessed": model.painted(images, batch.hidden, model.guessed(images, batch.hidden)),
    }
    size = (1.3 * len(images) + 0.4, 5.6)
    fig, axes = figure(len(shown), len(images), size=size, title=title, squeeze=False)
    for row, (name, pixels) in zip(axes, shown.items(), strict=True):
        for ax, image, whole in zip(row, pixels, batch.images, strict=True):
            ax.imshow(image.mean(axis=-1), cmap="gray", vmin=whole.min(), vmax=whole.max())
            ax.set(xticks=[], yticks=[])
        row[0].set_ylabel(name)
    return fig


def _rollout(model: ImageModel, images: Images, title: str) -> Any:
    """Rolled-out attention to the patches of the first images: the class token's, or the mean over all tokens."""
    some, read = images[:8], model.network.read
    rolled = looking.rollout(model.attention(some))
    row = rolled[:, 0, read:] if read else rolled.mean(axis=1)
    rows, columns = model.network.grid
    return rollout_map(some.images, row.reshape(-1, rows, columns), model.classify(some), f"{title}: rolled out")


def _distances(model: ImageModel, images: Images, title: str) -> Any:
    weights, read, (height, width, _) = model.attention(images[:100]), model.network.read, model.shape
    uniform = looking.uniform_distance(weights[0].shape[-1] - read, height, width)
    distances = looking.attention_distance(weights, height, width, read)
    return distance_plot(distances, uniform, f"{title}: how far heads look")


def _field(model: ImageModel, images: Images, title: str) -> Any:
    """Receptive fields in the first image: the model's, and that of as many convolutions as the model has blocks."""
    layers, (height, width, _) = len(model.attention(images[:1])), model.shape
    fields = {
        f"a patch after {layers} blocks": looking.receptive_field(model, images.images[0]),
        f"{layers} convolutions of 3 x 3": looking.convolution_field(height, width, layers),
    }
    return field_map(fields, f"{title}: what one output depends on")


LOOKS: dict[str, Callable[[ImageModel, Images, str], Any]] = {      # (model, images, title) -> picture
    "rollout": _rollout,
    "distances": _distances,
    "field": _field,
}
