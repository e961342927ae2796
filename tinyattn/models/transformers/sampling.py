"""Sampling of the next token."""

from dataclasses import dataclass

import numpy as np

from ...options import Checked, option


@dataclass(frozen=True, kw_only=True)
class Sampling(Checked):
    """p ∝ exp(scores / temperature) over tokens that top_k and top_p keep. Raises ValueError for invalid options."""

    temperature: float = option(1.0, "scores are divided by it: near 0 only the likeliest is drawn", above=0)
    top_k: int | None = option(None, "only the N likeliest are drawn from; 1 is greedy (default: all)", at_least=1)
    top_p: float = option(
        1.0, "only the likeliest that together have this probability (Holtzman et al. 2020)", above=0, at_most=1
    )

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Shapes: scores (V,) -> (V,), float64. Of equally likely tokens the first counts as likelier.

        Raises ValueError unless all scores are finite.
        """
        scores = scores.astype(np.float64)
        if not np.all(np.isfinite(scores)):
            raise ValueError("the model's logits are not finite: its weights are too large, so it has no probabilities")
        with np.errstate(over="ignore"):                   # a temperature near 0 gives -inf, probability 0
            p = np.exp((scores - scores.max()) / self.temperature)
        order = np.argsort(-p, kind="stable")[: self.top_k]
        among = p[order] / p[order].sum()
        before = np.cumsum(among) - among                  # the sum of the likelier ones
        chosen = order[before < self.top_p]
        kept = np.zeros_like(p)
        kept[chosen] = p[chosen] / p[chosen].sum()
        return kept

    def draw(self, scores: np.ndarray, rng: np.random.Generator) -> int:
        """A token's number. Shapes: scores (V,)."""
        return int(rng.choice(len(scores), p=self.probabilities(scores)))
