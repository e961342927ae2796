"""Where images come from: a file, or a set that is drawn or installed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...options import one_of
from .digits import Digits
from .images import Images, read_images
from .shapes import Shapes

IMAGE_SETS: dict[str, Any] = {made.name: made for made in (Shapes, Digits)}
DEFAULT = "shapes"


@dataclass(frozen=True)
class ImageSource:
    """A file of images, or a set."""

    path: Path | None
    made: Any                # an entry of IMAGE_SETS, made
    teacher: str | Path | None = None        # the run of the model whose answers are learned, if any

    @classmethod
    def of(cls, path: str | None, name: str | None = None) -> ImageSource:
        """The file at `path`, or the set of this name, by default `shapes`. Raises ValueError for both, and for an
        unknown set."""
        if path is not None and name is not None:
            raise ValueError(f"--images is {path} and --image-set {name}, expected one of them")
        if path is not None:
            return cls(Path(path), None)
        if name is not None and name not in IMAGE_SETS:
            raise ValueError(f"--image-set is {name!r}, expected {one_of(IMAGE_SETS, name)}")
        return cls(None, IMAGE_SETS[name or DEFAULT]())

    @classmethod
    def from_config(cls, data: dict[str, Any]) -> ImageSource:
        """From what `describe` returns. Raises KeyError, TypeError or ValueError where it is something else."""
        teacher = Path(data["teacher"]) if "teacher" in data else None
        if "image_set" in data:
            settings = dict(data["image_set"])
            return cls(None, IMAGE_SETS[settings.pop("name")](**settings), teacher)
        return cls(Path(data["path"]), None, teacher)

    @property
    def name(self) -> str:
        """Short, for the name of a folder."""
        return self.made.name if self.path is None else self.path.name.split(".")[0] or "images"

    @property
    def title(self) -> str:
        """For people to read."""
        return self.made.title if self.path is None else str(self.path)

    def describe(self) -> dict[str, Any]:
        """Which data these are, as JSON."""
        taught = {} if self.teacher is None else {"teacher": str(Path(self.teacher).resolve())}
        if self.path is not None:
            return {"path": str(self.path.resolve())} | taught
        return {"image_set": {"name": self.made.name, **asdict(self.made)}} | taught

    def load(self, labelled: bool = True) -> Images:
        """Without `labelled` a file may lack labels."""
        return read_images(self.path, labelled) if self.path is not None else self.made.generate()
