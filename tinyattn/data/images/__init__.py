"""Images with labels. A new set is a file with a dataclass that has a `name`, a `title` and `generate`, and a line in
IMAGE_SETS."""

from .hidden import HiddenBatch, HiddenSampler, Hiding, WordedImages
from .images import ImageBatch, Images, ImageSampler, NumberedImages, read_images, standardised
from .source import IMAGE_SETS, ImageSource
from .words import learn_words, nearest_words
