"""lucidrains/local-attention: attention within a window, with exact_windowsize, padded to a multiple of the window."""

from checkout import bare_package, checkout, stand_in, with_autograd

bare_package("local_attention", checkout("lucidrains/local-attention") / "local_attention")
stand_in("hyper_connections", get_init_and_expand_reduce_stream_functions=None)

from local_attention.local_attention import LocalAttention  # noqa: E402


def window_attention(q, k, v, window, scale=None):
    """Causal, without positional embeddings."""
    module = LocalAttention(
        window, causal=True, look_backward=1, look_forward=0, autopad=True, exact_windowsize=True, scale=scale,
        use_rotary_pos_emb=False,
    )  # fmt: skip
    three = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
    return module(*three).reshape(*q.shape[:-1], v.shape[-1])


WindowAttention = with_autograd(window_attention)
