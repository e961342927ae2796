"""SASRec as PyTorch ports of its code compute it: attention also sees the padding before a history.

Imported models need it (`import-model`). Padding tokens are row 0 of the items, without a position.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from ...backend import Array, get_xp
from ...data import Batch
from ...ops import Mask
from .sasrec import NETWORKS, NetworkCache, SASRecNetwork


@dataclass(kw_only=True)
class PortedNetwork(SASRecNetwork):
    """`SASRecNetwork` of histories that are padded to `maxlen`: token j is at slot j.

    `padding` is "blank" (zeros before every block) or "tokens" (tokens like others).
    """

    paddings = ("blank", "tokens")

    def forward(self, p: Any, batch: Batch, rng: Any = None) -> tuple[Array, NetworkCache]:
        h, cache = super().forward(p, self._filled(batch), rng)
        return _at_slots(h, batch), cache._replace(batch=batch)

    def backward(self, p: Any, dh: Array, cache: NetworkCache) -> tuple[Array, dict[str, Any]]:
        xp, filled = get_xp(dh), self._filled(cache.batch)
        dh = _hide(filled, xp.take_along_axis(dh, self._places(cache.batch)[..., None], axis=1))
        dx, grads = super().backward(p, dh, cache._replace(batch=filled))
        return _at_slots(dx, cache.batch) * (cache.batch.ids != 0)[..., None], grads

    def last_state(self, p: Any, batch: Batch) -> Array:
        return super().last_state(p, self._filled(batch))

    def attention(self, cache: NetworkCache) -> list[Array]:
        """The weights of each block, (B, h, L, L), without those of padding: rows may sum to less than 1."""
        back, take = cache.batch.slots, get_xp(cache.batch.slots).take_along_axis
        weights = (take(w, back[:, None, :, None], axis=2) for w in super().attention(cache))
        return [take(w, back[:, None, None, :], axis=3) for w in weights]

    def _places(self, batch: Batch) -> Array:
        """(B, maxlen): the place in the batch of the token at each slot; 0 at padding."""
        xp = get_xp(batch.ids)
        return xp.maximum(xp.arange(self.maxlen)[None, :] - batch.slots[:, :1], 0)

    def _filled(self, batch: Batch) -> Batch:
        """The batch with its padding before the items: slot j holds the item at place j - (slot of the first item)."""
        xp = get_xp(batch.ids)
        slots = xp.broadcast_to(xp.arange(self.maxlen)[None, :], (len(batch.ids), self.maxlen))
        ids = xp.take_along_axis(batch.ids, self._places(batch), axis=1)
        return batch._replace(ids=xp.where(slots >= batch.slots[:, :1], ids, 0), slots=slots)

    def _last(self, batch: Batch) -> Array:
        return batch.slots[:, -1]

    def _context(self, batch: Batch) -> dict[str, Any]:
        before = partial(_hide, batch) if self.padding == "blank" else None
        return {"mask": Mask(causal=True), "slots": batch.slots, "before": before}

    def _read(self, p: Any, batch: Batch) -> Array:
        return get_xp(batch.ids).where(batch.ids[..., None] != 0, super()._read(p, batch), self._items(p, batch.ids))

    def _read_backward(self, p: Any, dx: Array, batch: Batch) -> tuple[Array, dict[str, Any]]:
        return super()._read_backward(p, _hide(batch, dx), batch)        # row 0 of the items does not learn

    @property
    def extends(self) -> bool:
        """False: with every new item, all others move to another slot."""
        return False

    @property
    def is_plain(self) -> bool:
        return False


def _hide(batch: Batch, x: Array) -> Array:
    """x with zeros at padding. Shapes: x (B, maxlen, D)."""
    return x * (batch.ids != 0)[..., None].astype(x.dtype)


def _at_slots(x: Array, batch: Batch) -> Array:
    """The rows at the batch's slots: `_filled` undone. Shapes: x (B, maxlen, D) -> (B, L, D)."""
    return get_xp(x).take_along_axis(x, batch.slots[..., None], axis=1)


NETWORKS["blank"] = NETWORKS["tokens"] = PortedNetwork
