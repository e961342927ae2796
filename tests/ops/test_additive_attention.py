"""Additive attention: how much is computed."""

import pytest

from tinyattn.ops.attention.additive_scores import squashed


@pytest.mark.host
@pytest.mark.parametrize(("causal", "seen"), [(True, [1, 2, 3, 4]), (False, [4, 4, 4, 4])])
def test_keys_after_the_query_are_not_computed(causal, seen, rng):
    """Half of the evaluations of σ, as the docstring says."""
    q, k = rng.standard_normal((2, 3, 4, 2))
    found = list(squashed(q, k, causal))
    assert [count for _, count, _ in found] == [t.shape[1] for _, _, t in found] == seen
