"""What a spec says of a failing case that no bug explains: models with a cache, tiles, scans."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.check.strangers import textbook
from tinyattn.check import adapters, oracles
from tinyattn.check.diagnosis import Diagnosis
from tinyattn.check.formula import Formula
from tinyattn.check.report import tell
from tinyattn.check.rules import slips_of
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject


class Steps(adapters.CachedAttention):
    """Attention with positions; a step takes its position, and keeps its cache, as told."""

    def __init__(self, position=lambda past: past, keep=lambda x: x, causal=True):
        super().__init__()
        self.position, self.keep, self.causal = position, keep, causal
        self.positions = np.random.default_rng(1).standard_normal((300, self.dim))

    def forward(self, x):
        if not self.causal:
            x = x + np.mean(x, axis=1, keepdims=True) - x[:, :1]
        return super().forward(x + self.positions[: x.shape[1]])

    def step(self, x, cache=None):
        past = 0 if cache is None else cache[0].shape[1]
        y, cache = super().step(x + self.positions[self.position(past)], cache)
        return y, tuple(map(self.keep, cache))


def remark(kind, implementation, **case):
    return SPECS[kind].remark(Subject(implementation, SPECS[kind]), **case)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Steps(), ""),
        (Steps(lambda past: 0), "each step has the first position."),
        (Steps(lambda past: past + 1), "The first step, which has no cache, is wrong already"),
        (Steps(causal=False), "forward itself is not causal"),
        (Steps(keep=lambda x: 1.01 * x), "The first step is right, and the second"),
        (Steps(keep=lambda x: 0 * x), "does not change with token 1,"),
        (Steps(keep=lambda x: x[::-1]), "Each sequence alone is right, and two together are not"),
        (Steps(keep=lambda x: x[:, :3]), "what forward gives for the first 3 tokens and its own alone."),
        (Steps(keep=lambda x: x if x.shape[1] < 4 else 2 * x), "The first 4 steps are right, and the next one is not."),
    ],
)
def test_a_step_that_differs_from_forward(model, says):
    assert says in remark("cached_model", model, x=np.arange(12).reshape(2, 6))
    assert bool(says) == bool(remark("cached_model", model, x=np.arange(12).reshape(2, 6)))


def no_positions(keep):
    """Attention without positions and with the cache that `keep` makes."""

    class Model(textbook.cached_model):
        def step(self, x, cache):
            y, cache = super().step(x, cache)
            return y, keep(cache)

    return Model()


@pytest.mark.parametrize(
    ("keep", "says"),
    [
        (lambda c: None, "its token alone"),
        (lambda c: c[:, -2:], "the last 3 tokens alone"),
        (lambda c: np.repeat(c, 2, axis=1) if c.shape[1] == 1 else c, "all tokens, the first one twice"),
    ],
)
def test_a_cache_that_forgets(keep, says):
    assert says in remark("cached_model", no_positions(keep), x=np.arange(12).reshape(2, 6))


class Attended(textbook.cached_model):
    """A step's query, and the keys that it meets, are those that `choose` makes of the cache and the new token."""

    def __init__(self, choose):
        self.choose = choose

    def step(self, x, cache):
        x = x[:, None]
        old = x[:, :0] if cache is None else cache
        q, keys = self.choose(x, old, np.concatenate([old, x], axis=1))
        return textbook.attention(q, keys, keys)[0][:, 0], np.concatenate([old, x], axis=1)


@pytest.mark.parametrize(
    ("choose", "hint"),
    [
        (lambda x, old, new: (x, old if old.size else x), "Is a token appended before it is attended to?"),
        (lambda x, old, new: (new, new), "Which row of the result belongs to the newest token?"),
        (lambda x, old, new: (x, np.concatenate([new, x], axis=1)), "How often is a token appended to the cache?"),
        (lambda x, old, new: (x, new[:1]), "Which axis of the cache is the batch?"),
    ],
)
def test_a_step_has_a_hint_on_what_it_attends_to(choose, hint):
    model = Attended(lambda *arrays: [np.broadcast_to(a, (len(arrays[0]), *a.shape[1:])) for a in choose(*arrays)])
    says = remark("cached_model", model, x=np.arange(12).reshape(2, 6))
    assert says.endswith(f"\nhint: {hint}")
    assert list(tell(SimpleNamespace(hint="A general one?"), Diagnosis(where=says))) == [says]


@pytest.mark.parametrize("slip", slips_of("tiles"), ids=lambda slip: slip.name)
def test_what_a_tile_of_keys_hands_on(slip):
    formula = Formula(oracles.tiled_attention, within=oracles.__name__)
    mutants = formula.patched(slip.says, slip.changes)
    source = formula.source("tiled_attention")
    assert all(source.count(old) == 1 for old, _ in slip.changes)

    def tiled(q, k, v, mask=None):
        out = np.zeros((*q.shape[:-1], v.shape[-1]))
        with formula.mutated(mutants), np.errstate(all="ignore"):
            for at in np.ndindex(q.shape[:-2]):
                out[at] = formula.function()(q[at], k[at], v[at], 4)
        return out

    says = remark("flash_attention", tiled)
    assert says == f"Yours is right for 4 keys, and wrong for 5: so it seems that {slip.says}."


def test_a_tile_of_keys_and_a_pair_of_tokens_from_which_on_it_is_wrong():
    def tiled(q, k, v, mask=None):
        return textbook.flash_attention(q, k[..., :32, :], v[..., :32, :], mask)

    assert remark("flash_attention", tiled).startswith("Yours is right for 32 keys, and wrong for 33")
    assert remark("flash_attention", SimpleNamespace(flash_attention=textbook.flash_attention)) == ""

    def scan(a, b, h0=None):
        return textbook.associative_scan(a, b) if a.shape[-2] < 3 else b

    assert remark("associative_scan", scan).startswith("Yours is right for 2 tokens, and wrong for 3")
    assert remark("associative_scan", textbook.associative_scan) == ""
