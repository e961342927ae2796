"""The cases that properties are tried on: large ones cross the blocks of a computation, and hide whole blocks."""

import time

import numpy as np
import pytest

from tinyattn.check import check_in_process
from tinyattn.check.cases import CaseDrawer, long_cases
from tinyattn.check.specs import SPECS, properties_of
from tinyattn.check.subject import Subject
from tinyattn.check.trial import Trial, trial_of

OF_TOKENS = [name for name, spec in SPECS.items() if spec.common and list(long_cases(spec.case, 1))]
WIDE = ("large_sizes", "gradients_of_large_sizes")


@pytest.mark.parametrize("kind", OF_TOKENS)
def test_the_library_is_right_for_300_tokens(kind):
    spec = SPECS[kind]
    for prop in (prop for prop in properties_of(spec) if prop.wide):
        trial = Trial(Subject(spec.ours(), spec), prop, until=time.monotonic() + 60, patience=60.0, strict=True)
        for case in long_cases(spec.case):
            trial(case)  # raises Violation
        assert trial.tries == 4


@pytest.mark.parametrize("kind", ["attention", "softmax", "multi_head_attention", "cross_attention"])
def test_large_masks_hide_whole_blocks_from_rows_that_see_others(kind):
    _, left, window, _ = (case["mask"] for case in long_cases(SPECS[kind].case))
    assert not np.any(left[:, :128])
    assert np.all(np.any(left, axis=1))
    seeing = np.any(window, axis=1)
    assert np.all(seeing[:270])
    assert not np.any(window[200, :128])
    drawn = (SPECS[kind].case(CaseDrawer.seeded(seed, ((),), wide=True))["mask"] for seed in range(60))
    masks = [mask for mask in drawn if mask is not None and mask.ndim == 2 and min(mask.shape) > 1]
    assert 0 < sum(not np.any(mask[:, 0]) for mask in masks) < len(masks)


def in_blocks(size, start, rescales):
    """Attention in blocks of keys, with a running maximum that begins at `start`."""

    def attention(q, k, v, mask=None):
        s = q @ np.swapaxes(k, -1, -2) / q.dtype.type(np.sqrt(q.shape[-1]))
        s = s if mask is None else np.where(mask, s, -np.inf)
        top = np.full((*s.shape[:-1], 1), start, s.dtype)
        total, out = np.zeros_like(top), 0
        for a in range(0, s.shape[-1], size):
            before, top = top, np.maximum(top, np.max(s[..., a : a + size], axis=-1, keepdims=True))
            shrunk = np.exp(before - top) if rescales else s.dtype.type(1)
            e = np.exp(s[..., a : a + size] - top)
            total, out = total * shrunk + e.sum(-1, keepdims=True), out * shrunk + e @ v[..., a : a + size, :]
        return out / np.where(total == 0, 1, total)

    return attention


@pytest.mark.filterwarnings("ignore")
def test_mistakes_between_blocks_of_128_and_at_a_block_that_is_all_masked_are_seen():
    low = -1e30  # beside it exp gives 0, as beside -inf, and the difference of two is no NaN
    right = check_in_process(in_blocks(128, low, True), "attention", examples=6, stages=("extremes",))
    assert all(f.outcome != "fails" for f in right.findings if f.property in WIDE), right
    for size, start, rescales in ((128, low, False), (16, -np.inf, True)):
        report = check_in_process(in_blocks(size, start, rescales), "attention", examples=6, stages=("extremes",))
        assert "large_sizes" in [f.property for f in report.failures], report


@pytest.mark.slow(seconds=2)
def test_loops_over_every_entry_are_slow_and_may_be_right():
    def attention(q, k, v, mask=None):
        if k.shape[-2] > 200:
            time.sleep(30)
        return in_blocks(128, -1e30, True)(q, k, v, mask)

    spec = SPECS["attention"]
    prop = next(prop for prop in properties_of(spec) if prop.name == "large_sizes")
    found = trial_of(Subject(attention, spec), spec, prop, examples=6, patience=0.2).finding()
    assert (found.outcome, found.message) == ("holds", "300 tokens took more than 0.2 seconds, and are left out")
