"""What a kind of model is measured by: how its data is read and split, and which table is printed. A line a kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...models import Estimator, RunFolder
from .images import OfHiddenPatches, OfImages
from .interactions import OfInteractions, Ranking, Ratings, in_the_models_ids
from .measure import Measure
from .pairs import OfPairs
from .sequence_tasks import OfSequenceTasks
from .texts import OfMaskedText, OfText

__all__ = ["MEASURES", "OF_INTERACTIONS", "Measure", "in_the_models_ids", "open_kind"]

OF_INTERACTIONS: dict[str, OfInteractions] = {"ranking": Ranking(), "ratings": Ratings()}      # of recommenders
MEASURES: dict[str, Measure] = {
    **OF_INTERACTIONS, "pairs": OfPairs(), "text": OfText(), "masked text": OfMaskedText(),
    "images": OfImages(), "hidden patches": OfHiddenPatches(), "sequence tasks": OfSequenceTasks(),
}  # fmt: skip


def open_kind(folder: str | Path, kind: type[Estimator], device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """The model of a finished run, and its configuration.

    Raises FileError as `RunFolder.open`, and ValueError, which names the right command, for a model of another kind.
    """
    model, config = RunFolder(folder).open(Estimator, device=device)
    if not isinstance(model, kind):
        measure = MEASURES[model.table]
        asked = f"`tinyattn {measure.asked_by}` asks it, and " if measure.asked_by else ""
        raise ValueError(
            f"{folder} is of model {model.name}, which {measure.does}: {asked}`tinyattn evaluate` measures it"
        )
    return model, config
