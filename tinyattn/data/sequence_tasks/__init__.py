"""Tasks of sequences: drawn from a rule, with answers. A new one is a subclass of `SequenceTask` and a line in
SEQUENCE_TASKS."""

from .balance import Balance
from .copy import SelectiveCopy
from .count import Count
from .induction import Induction
from .recall import Recall
from .sequence_task import Drawn, SequencePart, SequenceTask, TaskSampler
from .source import SEQUENCE_TASKS, SequenceTaskSource
