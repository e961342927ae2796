"""Interactions, pairs of strings, text, images: read, split, batch, generate."""

from .batches import Batch, Sampler, pad
from .cloze import ClozeSampler
from .distinct import distinct
from .fields import DataError
from .formats import FORMATS
from .grammar import Grammar
from .grammar_chain import GrammarChain
from .images import (
    IMAGE_SETS,
    HiddenBatch,
    HiddenSampler,
    Hiding,
    ImageBatch,
    Images,
    ImageSampler,
    ImageSource,
    NumberedImages,
    WordedImages,
    learn_words,
    nearest_words,
    read_images,
    standardised,
)
from .interactions import Interactions, as_times
from .item_vectors import ItemVectors
from .labelled import LabelledSampler, LabelledSource, LabelledTexts, NumberedTexts, read_labelled
from .lists import ItemNames, read_ids, read_names
from .masked_text import MaskedTextSampler, Masking
from .pairs import NumberedPairs, PairBatch, Pairs, PairSampler, characters, numbers_of, pair_batch, read_pairs
from .parts import Parts, tenths
from .rated import Rated, RatingBatch, RatingSampler
from .rating_split import RATING_SPLITS, RatingSplit, refuse_unrated, split_ratings
from .read import read, read_text
from .seen import Seen
from .sequence_tasks import SEQUENCE_TASKS, SequencePart, SequenceTask, SequenceTaskSource, TaskSampler
from .slices import cut, rows_of_step, steps_of
from .sources import PairSource, Source, TextSource, Truth
from .split import SPLITS, Split, by_time, leave_one_out
from .tasks import TASKS, Task
from .texts import Text, TextBatch, TextSampler
from .timed import TimedHistory, in_seconds
from .tokenizers import TOKENIZERS, Tokenizer, TokenizerFile, TokenNumbers, Tokens, learned_tokens, tokenizer_of
from .vocabulary import Vocabulary
from .worlds import WORLDS, SeriesWorld, World

__all__ = ["FORMATS", "IMAGE_SETS", "RATING_SPLITS", "SEQUENCE_TASKS", "SPLITS", "TASKS", "TOKENIZERS", "WORLDS",
           "Batch", "ClozeSampler", "DataError", "Grammar", "GrammarChain", "HiddenBatch", "HiddenSampler", "Hiding",
           "ImageBatch", "ImageSampler", "ImageSource", "Images", "Interactions", "ItemNames", "ItemVectors",
           "LabelledSampler", "LabelledSource", "LabelledTexts", "MaskedTextSampler", "Masking", "NumberedImages",
           "NumberedPairs", "NumberedTexts", "PairBatch", "PairSampler", "PairSource", "Pairs", "Parts", "Rated",
           "RatingBatch", "RatingSampler", "RatingSplit", "Sampler", "Seen", "SequencePart", "SequenceTask",
           "SequenceTaskSource", "SeriesWorld", "Source", "Split", "Task", "TaskSampler", "Text", "TextBatch",
           "TextSampler", "TextSource", "TimedHistory", "TokenNumbers", "Tokenizer", "TokenizerFile", "Tokens",
           "Truth", "Vocabulary", "WordedImages", "World", "as_times", "by_time", "characters", "cut", "distinct",
           "in_seconds", "learn_words", "learned_tokens", "leave_one_out", "nearest_words", "numbers_of", "pad",
           "pair_batch", "read", "read_ids", "read_images", "read_labelled", "read_names", "read_pairs", "read_text",
           "refuse_unrated", "rows_of_step", "split_ratings", "standardised", "steps_of", "tenths",
           "tokenizer_of"]  # fmt: skip
