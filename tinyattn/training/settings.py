"""The options of training by gradient steps, which every such model has."""

from dataclasses import dataclass

from ..backend import DEVICES
from ..options import check_options, option
from .schedules import SCHEDULES


@dataclass(kw_only=True)
class Settings:
    """How to train. Raises ValueError, which names the value, for an invalid one."""

    epochs: int = option(100, "epochs at most", at_least=1, group="training")
    patience: int = option(
        20, "stop after so many epochs without a better score on validation (recommenders: NDCG@10); 0 = never",
        at_least=0, group="training",
    )  # fmt: skip
    lr: float = option(1e-3, "learning rate of Adam", above=0, group="training")
    optimizer: str = option(
        "adam", "muon: weight matrices take an orthogonal step, of a size that fits Adam's lr; all else takes Adam's",
        choices=("adam", "muon"), group="training",
    )  # fmt: skip
    beta2: float = option(0.98, "second decay rate of Adam", at_least=0, below=1, group="training")
    schedule: str = option(
        "constant", "how the learning rate changes after the warm-up: in a line or half a cosine to 0 at the end "
        "of all epochs, or as 1 / √step (noam)", choices=SCHEDULES, group="training",
    )  # fmt: skip
    warmup: int = option(0, "steps over which the learning rate grows to its value", at_least=0, group="training")
    weight_decay: float = option(
        0.0, "AdamW's decay of matrices and embeddings, not of biases and norms", at_least=0, group="training"
    )
    clip_norm: float | None = option(
        None, "longer gradients are scaled to this norm, of all parameters together (default: never)", above=0,
        group="training",
    )  # fmt: skip
    accumulate: int = option(1, "batches whose gradients make one step", at_least=1, group="training")
    seed: int = option(
        0, "seed of all that is drawn: initialisation, order, negatives, what is hidden, dropout", at_least=0,
        group="training",
    )  # fmt: skip
    device: str = option(
        "cpu", "where to compute; a run may move between them", choices=DEVICES, group="training", identity=False
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.lr * self.weight_decay >= 1:
            raise ValueError(
                f"weight_decay is {self.weight_decay}, expected below 1 / lr = {1 / self.lr:g}: a step leaves 1 - lr · "
                "weight_decay of a parameter"
            )
