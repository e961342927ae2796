"""Three small causal sequence models with fixed random weights, and the bugs that can be planted in each.

The styles are three models: `loops` a causal convolution and a linear recurrence, stepped through time; `einsum` a
two-layer pre-LN causal attention model; `inplace` a mixer of cumulative means and per-position layers.
"""

from types import SimpleNamespace

import numpy as np

STYLES = ("loops", "einsum", "inplace")
DIM = 6

PLANTED = {
    "leak_one": ("loops",),
    "no_mask": ("einsum", "inplace"),
    "mask_transposed": ("einsum", "inplace"),
    "over_masked": ("loops",),
    "window_of_one": ("loops",),
    "batch_norm": ("loops",),
    "time_norm": ("loops",),
    "key_row_mask": ("einsum", "inplace"),
    "conv_pads_both": ("loops",),
    "second_layer_leaks": ("loops",),
    "max_over_time": ("loops",),
    "reversed": ("loops",),
    "sees_last": ("einsum", "inplace"),
    "mask_up_to_4": ("einsum", "inplace"),
    "mask_first_entry": ("einsum", "inplace"),
    "blocks_of_two": ("einsum", "inplace"),
    "leak_at_last_step": ("loops",),
    "short_window": ("loops",),
    "first_dropped": ("loops",),
    "length_leak": ("einsum", "inplace"),
    "faint_time_mean": ("einsum", "inplace"),
    "max_over_batch": ("loops",),
    "batch_rolled": ("einsum", "inplace"),
    "fill_-10": ("einsum",),
    "softmax_over_queries": ("einsum",),
    "values_rolled": ("einsum",),
    "state_over_batch": ("loops",),
    "state_over_calls": ("loops",),
    "circular_pad": ("loops",),
    "bidirectional": ("loops",),
    "writes_x": ("loops",),
    "shared_buffer": ("einsum", "inplace"),
}

INVENTED = {
    "sees_last": "every position also sees the last one, as if it were a summary token",
    "mask_up_to_4": "the mask is built for four positions; keys from the fifth on are seen by all, wrong where T > 4",
    "mask_first_entry": "only the first batch entry is masked",
    "blocks_of_two": "positions 2i and 2i + 1 see each other",
    "leak_at_last_step": "the last position but one sees the last one; all others are right",
    "short_window": "only the last few positions are seen, so x[:, 0] is forgotten in longer sequences",
    "first_dropped": "x[:, 0] is overwritten by a start token of zeros",
    "length_leak": "outputs depend on T: einsum counts positions from the end, inplace divides by T, not t + 1",
    "faint_time_mean": "a thousandth of the mean over all positions is added",
    "max_over_batch": "the hidden values are divided by their maximum over the batch",
    "batch_rolled": "the second layer's context comes from the previous batch entry",
    "fill_-10": "masked logits are -10 in place of -inf, so the future is seen faintly",
    "softmax_over_queries": "the masked logits are normalised over queries, so later queries change earlier outputs",
    "values_rolled": "the values are one position early, with wrap-around",
    "state_over_batch": "the recurrence's state is not reset between batch entries",
    "state_over_calls": "the recurrence's state is carried on into the next call",
    "circular_pad": "the convolution pads with the sequence's end in place of zeros",
    "bidirectional": "a tenth of a state that runs backwards in time is added",
    "writes_x": "x is changed",
    "shared_buffer": "calls of equal shape return the same memory",
}


def make(style, bug=None):
    """-> a namespace with forward, x (B, T, dim) -> (B, T, dim), and dim; with `bug`, wrong in exactly that one way."""
    if bug is not None and style not in PLANTED[bug]:
        raise ValueError(f"{bug} is not planted in {style}")
    model = {"loops": _recurrent, "einsum": _attentive, "inplace": _mixer}[style](bug)

    def forward(x):
        if bug == "reversed":
            return model(x[:, ::-1].copy())[:, ::-1].copy()
        if bug != "writes_x":
            x = np.array(x, order="C")
        if bug == "first_dropped":
            x[:, :1] = 0.0
        return model(x)

    return SimpleNamespace(forward=forward, dim=DIM)


def _weights(seed, *shapes):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) / np.sqrt(DIM) for shape in shapes]


def _leaky(z):
    return np.where(z > 0, z, 0.2 * z)


def _normalise(h, bug):
    """Layer norm over the features of each position."""
    axis = {"batch_norm": 0, "time_norm": 1}.get(bug, -1)
    if h.size == 0:
        return h.copy()
    centred = h - h.mean(axis=axis, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=axis, keepdims=True) + 1e-5)


def _rescale(h, bug):
    if h.size == 0:
        return h
    if bug == "max_over_time":
        h = h / (1.0 + np.abs(h).max(axis=1, keepdims=True))
    if bug == "max_over_batch":
        h = h / (1.0 + np.abs(h).max(axis=0, keepdims=True))
    return h


def _sight(length, layer, bug):
    """Which positions (columns) each position (rows) sees."""
    see = np.tri(length, dtype=bool)
    if bug == "leak_one" or (bug == "second_layer_leaks" and layer == 2):
        see = np.tri(length, k=1, dtype=bool)
    if bug == "no_mask":
        see[...] = True
    if bug == "mask_transposed":
        see = see.T.copy()
    if bug == "window_of_one":
        see = np.eye(length, dtype=bool)
    if bug == "short_window":
        see &= ~np.tri(length, k=-2, dtype=bool)
    if bug == "key_row_mask":
        see = np.broadcast_to(see[-1:], see.shape).copy()
    if bug == "sees_last":
        see[:, -1:] = True
    if bug == "mask_up_to_4":
        see[:, 4:] = True
    if bug == "blocks_of_two":
        block = np.arange(length) // 2
        see |= block == block[:, None]
    if bug == "leak_at_last_step":
        see[-2:, -1:] = True
    return see


def _recurrent(bug):
    """Convolution of three taps, then a state that decays, then a second convolution of two taps."""
    taps, into, outs, final = _weights(1, (3, DIM, DIM), (DIM, DIM), (2, DIM, DIM), (DIM, DIM))
    decay = np.linspace(0.8, 0.97, DIM)
    if bug in ("window_of_one", "short_window"):
        decay = np.zeros(DIM)
    carried = {"state": np.zeros(DIM)}

    def convolved(x):
        """(T, D) -> (T, D), each position from itself and the two before it."""
        length = len(x)
        u = np.zeros(x.shape)
        for t in range(length):
            for lag in range(1 if bug == "window_of_one" else 3):
                source = t - lag
                if bug == "conv_pads_both":
                    source = t + 1 - lag
                if bug == "circular_pad":
                    source %= length
                if 0 <= source < length:
                    u[t] += x[source] @ taps[lag]
        return _leaky(u)

    def states(u, state):
        h = np.zeros(u.shape)
        for t in range(len(u)):
            before = state
            state = decay * state + u[t] @ into
            h[t] = before if bug == "over_masked" else state
            if bug == "leak_one" and t + 1 < len(u):
                h[t] = decay * state + u[t + 1] @ into
        if bug == "leak_at_last_step" and len(u) > 1:
            h[-2] += 0.1 * h[-1]
        return h, state

    def forward(x):
        batch, length, _ = x.shape
        if bug == "writes_x":
            np.clip(x, -1.0, 1.0, out=x)
        u = np.stack([convolved(x[b]) for b in range(batch)]) if batch else np.zeros(x.shape)
        if bug in ("batch_norm", "time_norm"):
            u = _normalise(u, bug)
        u = _rescale(u, bug)
        y = np.zeros(x.shape)
        state = carried["state"] if bug == "state_over_calls" else np.zeros(DIM)
        for b in range(batch):
            h, last = states(u[b], state)
            if bug == "state_over_batch":
                state = last
            if bug == "state_over_calls":
                carried["state"] = last
            if bug == "bidirectional":
                h = h + 0.1 * states(u[b, ::-1], state)[0][::-1]
            for t in range(length):
                z = h[t] @ outs[0]
                if t > 0 and bug != "window_of_one":
                    z = z + h[t - 1] @ outs[1]
                if bug == "second_layer_leaks" and t + 1 < length:
                    z = z + h[t + 1] @ outs[1]
                y[b, t] = _leaky(z) @ final
        return y

    return forward


def _attentive(bug):
    """Two pre-LN blocks of causal attention and a feed-forward layer, with sinusoidal positions."""
    embed, final = _weights(2, (DIM, DIM), (DIM, DIM))
    layers = [_weights(seed, (4, DIM, DIM), (DIM, 2 * DIM), (2 * DIM, DIM)) for seed in (3, 4)]
    kept = {}

    def positions(length):
        place = np.arange(length)[:, None]
        if bug == "length_leak":
            place = length - 1 - place
        angle = place / 20.0 ** (np.arange(DIM) / DIM)
        return np.sin(angle + np.arange(DIM) % 2)

    def attend(a, projections, layer):
        w_q, w_k, w_v, w_o = projections
        source = np.roll(a, 1, axis=0) if bug == "batch_rolled" and layer == 2 else a
        q, k, v = (np.einsum("btd,de->bte", *pair) for pair in ((a, w_q), (source, w_k), (source, w_v)))
        if bug == "values_rolled":
            v = np.roll(v, -1, axis=1)
        s = np.einsum("btd,bud->btu", q, k) / np.sqrt(DIM)
        see = np.broadcast_to(_sight(a.shape[1], layer, bug), s.shape)
        if bug == "mask_first_entry":
            see = see | (np.arange(len(a)) > 0)[:, None, None]
        s = np.where(see, s, -10.0 if bug == "fill_-10" else -np.inf)
        axis = 1 if bug == "softmax_over_queries" else 2
        powers = np.exp(s - np.max(s, axis=axis, keepdims=True, initial=-1000000000.0))
        p = powers / np.sum(powers, axis=axis, keepdims=True)
        return np.einsum("btu,bud,de->bte", p, v, w_o)

    def forward(x):
        h = np.einsum("btd,de->bte", x, embed) + positions(x.shape[1])
        h = _rescale(h, bug)
        for layer, (projections, up, down) in enumerate(layers, start=1):
            h = h + attend(_normalise(h, bug), projections, layer)
            h = h + np.einsum("btf,fd->btd", _leaky(np.einsum("btd,df->btf", _normalise(h, bug), up)), down)
            if bug == "faint_time_mean" and h.size:
                h = h + 0.001 * h.mean(axis=1, keepdims=True)
        y = np.einsum("btd,de->bte", h, final)
        if bug == "shared_buffer":
            buffer = kept.setdefault(y.shape, np.empty_like(y))
            buffer[...] = y
            return buffer
        return y

    return forward


def _mixer(bug):
    """Cumulative means mix the positions; layers between them work on each position alone."""
    first, bias, second, third, fourth, final = _weights(
        5, (DIM, DIM), (DIM,), (DIM, DIM), (DIM, DIM), (DIM, DIM), (DIM, DIM)
    )
    kept = {}

    def means(h, layer):
        """Each position's mean over the positions that it sees."""
        length = h.shape[1]
        see = _sight(length, layer, bug)
        share = np.repeat(see[None].astype(np.float64), len(h), axis=0)
        if bug == "mask_first_entry":
            share[1:] = 1.0
        if bug == "length_leak":
            share /= max(length, 1)
        else:
            share /= np.maximum(share.sum(axis=-1, keepdims=True), 1.0)
        if bug == "batch_rolled" and layer == 2:
            h = np.roll(h, 1, axis=0)
        mixed = np.empty(h.shape)
        return np.matmul(share, h, out=mixed)

    def forward(x):
        h = np.matmul(x, first)
        h += bias
        np.maximum(h, 0.2 * h, out=h)
        h = _rescale(h, bug)
        if bug == "faint_time_mean" and h.size:
            h += 0.001 * h.mean(axis=1, keepdims=True)
        z = _normalise(np.matmul(means(h, 1), second), bug)
        wide = np.matmul(means(z, 2), third)
        np.maximum(wide, 0.2 * wide, out=wide)
        z += np.matmul(wide, fourth)
        y = np.matmul(z, final)
        if bug == "shared_buffer":
            buffer = kept.setdefault(y.shape, np.empty_like(y))
            np.copyto(buffer, y)
            return buffer
        return y

    return forward
