"""Where images come from: a file, or a set that is drawn or installed."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from ..sources import AnySource
from .digits import Digits
from .images import Images, read_images
from .shapes import Shapes

IMAGE_SETS: dict[str, Any] = {made.name: made for made in (Shapes, Digits)}


@dataclass(frozen=True)
class ImageSource(AnySource, made_as="made", key="image_set", table=IMAGE_SETS, flags=("--images", "--image-set"),
                  nameless="images"):  # fmt: skip
    """A file of images, or a set."""

    path: Path | None
    made: Any                # an instance of a class in IMAGE_SETS
    teacher: str | Path | None = None        # the run of the model that teaches, if any

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> Self:
        teacher = Path(data["teacher"]) if "teacher" in data else None
        return replace(super().from_config(data), teacher=teacher)

    def describe(self) -> dict[str, Any]:
        taught = {} if self.teacher is None else {"teacher": str(Path(self.teacher).resolve())}
        return super().describe() | taught

    def load(self, labelled: bool = True) -> Images:
        """Without `labelled` a file may lack labels."""
        return read_images(self.path, labelled) if self.path is not None else self.made.generate()
