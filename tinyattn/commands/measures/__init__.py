"""How each kind of model is measured: how its data is read and split, and which table is printed."""

from .images import OfHiddenPatches, OfImages
from .interactions import OfInteractions, Ranking, Ratings, as_requested
from .measure import MEASURES, Measure, open_kind
from .pairs import OfPairs
from .sequence_tasks import OfSequenceTasks
from .texts import OfLabelledTexts, OfMaskedText, OfText

__all__ = ["MEASURES", "OF_INTERACTIONS", "Measure", "as_requested", "open_kind"]

OF_INTERACTIONS: dict[str, OfInteractions] = {"ranking": Ranking(), "ratings": Ratings()}      # of recommenders
MEASURES |= {
    **OF_INTERACTIONS, "pairs": OfPairs(), "text": OfText(), "masked text": OfMaskedText(),
    "labelled texts": OfLabelledTexts(),
    "images": OfImages(), "hidden patches": OfHiddenPatches(), "sequence tasks": OfSequenceTasks(),
}  # fmt: skip
