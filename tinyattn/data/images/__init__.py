"""Images with labels. A new set is a file with a dataclass that has a `name`, a `title` and `generate`, and a line in
IMAGE_SETS."""

from .images import ImageBatch, Images, ImageSampler, NumberedImages, read_images, standardised
from .source import IMAGE_SETS, ImageSource

__all__ = ["IMAGE_SETS", "ImageBatch", "ImageSampler", "ImageSource", "Images", "NumberedImages", "read_images",
           "standardised"]  # fmt: skip
