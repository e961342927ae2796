"""Answers to the exercises of chapter 08, the block."""

from typing import Any

import numpy as np

from tinyattn import ops
from tinyattn.check import adapters
from tinyattn.check.zoo import ZOO


def zoo(kind: str, function: str, name: str) -> Any:
    """A function with the zoo's bug `name`, called after it."""
    wrong = getattr(ZOO[kind].make(frozenset([name])), function)

    def answer(*args: Any, **kwargs: Any) -> Any:
        return wrong(*args, **kwargs)

    answer.__name__ = name
    answer.__wrapped__ = wrong  # type: ignore[attr-defined]
    return answer, name


# --- my_layer_norm -----------------------------------------------------------------------------------------------


def short(x, gamma, beta, eps=1e-5):
    rstd = 1 / np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    x_hat = (x - x.mean(axis=-1, keepdims=True)) * rstd
    return gamma * x_hat + beta, x_hat, rstd


def loops(x, gamma, beta, eps=1e-5):
    """Token by token, into np.zeros: float64 out of float32."""
    y, x_hat, rstd = np.zeros(x.shape), np.zeros(x.shape), np.zeros((*x.shape[:-1], 1))
    for i in np.ndindex(x.shape[:-1]):
        token = x[i]
        mean = sum(token) / len(token)
        variance = sum((value - mean) ** 2 for value in token) / len(token)
        rstd[i] = 1 / (variance + eps) ** 0.5
        x_hat[i] = (token - mean) * rstd[i]
        y[i] = x_hat[i] * gamma + beta
    return y, x_hat, rstd


def lists(x, gamma, beta, eps=1e-5):
    return [a.tolist() for a in short(x, gamma, beta, eps)]


def einsum(x, gamma, beta, eps=1e-5):
    d = x.shape[-1]
    centred = x - np.einsum("...d->...", x)[..., None] / d
    rstd = (np.einsum("...d,...d->...", centred, centred)[..., None] / d + eps) ** -0.5
    return np.einsum("...d,d->...d", centred * rstd, gamma) + beta, centred * rstd, rstd


def flattened(x, gamma, beta, eps=1e-5):
    """By reshape(-1, d), which fails on no empty batch here."""
    tokens = x.reshape(-1, x.shape[-1])
    centred = tokens - tokens.mean(1)[:, None]
    rstd = 1 / np.sqrt((centred**2).mean(1) + eps)[:, None]
    x_hat = (centred * rstd).reshape(x.shape)
    return x_hat * gamma + beta, x_hat, rstd.reshape(*x.shape[:-1], 1)


def in_place(x, gamma, beta, eps=1e-5):
    """Writes into what it is given."""
    x -= x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    x *= rstd
    return x * gamma + beta, x, rstd


def in_float64(x, gamma, beta, eps=1e-5):
    return short(x.astype(np.float64), gamma, beta, eps)


def transposed(x, gamma, beta, eps=1e-5):
    """Features first, and turned back: a view with other strides."""
    turned = np.moveaxis(x, -1, 0)
    centred = turned - turned.mean(axis=0)
    rstd = 1 / np.sqrt((centred**2).mean(axis=0) + eps)
    x_hat = np.moveaxis(centred * rstd, 0, -1)
    return x_hat * gamma + beta, x_hat, rstd[..., None]


def by_std(x, gamma, beta, eps=1e-5):
    """eps outside of the root."""
    x_hat = (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps)
    return x_hat * gamma + beta, x_hat, 1 / (x.std(-1, keepdims=True) + eps)


def fixed_eps(x, gamma, beta):
    return short(x, gamma, beta)


def no_eps(x, gamma, beta, eps=1e-5):
    return short(x, gamma, beta, 0.0)


def over_the_batch(x, gamma, beta, eps=1e-5):
    rstd = 1 / np.sqrt(x.var(axis=0, keepdims=True) + eps)
    x_hat = (x - x.mean(axis=0, keepdims=True)) * rstd
    return x_hat * gamma + beta, x_hat, rstd


def rstd_squared(x, gamma, beta, eps=1e-5):
    y, x_hat, rstd = short(x, gamma, beta, eps)
    return y, x_hat, rstd * rstd


def only_y(x, gamma, beta, eps=1e-5):
    return short(x, gamma, beta, eps)[0]


# --- my_layer_norm_backward ----------------------------------------------------------------------------------------


def by_the_formula(dy, x_hat, rstd, gamma):
    g = dy * gamma
    dx = rstd * (g - g.mean(-1, keepdims=True) - x_hat * (g * x_hat).mean(-1, keepdims=True))
    axes = tuple(range(dy.ndim - 1))
    return dx, (dy * x_hat).sum(axis=axes), dy.sum(axis=axes)


def step_by_step(dy, x_hat, rstd, gamma):
    """One gradient for each intermediate."""
    d = dy.shape[-1]
    dx_hat = dy * gamma
    c = x_hat / rstd
    drstd = (dx_hat * c).sum(-1, keepdims=True)
    dvariance = -0.5 * drstd * rstd**3
    dc = dx_hat * rstd + dvariance * 2 * c / d
    dx = dc - dc.sum(-1, keepdims=True) / d
    return dx, (dy * x_hat).reshape(-1, d).sum(0), dy.reshape(-1, d).sum(0)


def by_jacobian(dy, x_hat, rstd, gamma):
    """A (d, d) matrix for every token."""
    d = dy.shape[-1]
    J = rstd[..., None] * (np.eye(d) - 1 / d - x_hat[..., :, None] * x_hat[..., None, :] / d)
    dx = np.einsum("...ij,...i->...j", J, dy * gamma)
    return dx, (dy * x_hat).reshape(-1, d).sum(0), dy.reshape(-1, d).sum(0)


def backward_loops(dy, x_hat, rstd, gamma):
    dx, dgamma, dbeta = np.zeros(dy.shape), np.zeros(len(gamma)), np.zeros(len(gamma))
    for i in np.ndindex(dy.shape[:-1]):
        g = dy[i] * gamma
        one, two = sum(g) / len(g), sum(g * x_hat[i]) / len(g)
        for j in range(len(gamma)):
            dx[i][j] = rstd[i][0] * (g[j] - one - x_hat[i][j] * two)
        dgamma += dy[i] * x_hat[i]
        dbeta += dy[i]
    return dx, dgamma, dbeta


def backward_lists(dy, x_hat, rstd, gamma):
    return [a.tolist() for a in by_the_formula(dy, x_hat, rstd, gamma)]


def backward_in_place(dy, x_hat, rstd, gamma):
    axes = tuple(range(dy.ndim - 1))
    dgamma, dbeta = (dy * x_hat).sum(axis=axes), dy.sum(axis=axes)
    dy *= gamma
    dy -= dy.mean(-1, keepdims=True) + x_hat * (dy * x_hat).mean(-1, keepdims=True)
    dy *= rstd
    return dy, dgamma, dbeta


def backward_in_float64(dy, x_hat, rstd, gamma):
    return by_the_formula(*(a.astype(np.float64) for a in (dy, x_hat, rstd, gamma)))


def rstd_twice(dy, x_hat, rstd, gamma):
    dx, dgamma, dbeta = by_the_formula(dy, x_hat, rstd, gamma)
    return dx * rstd, dgamma, dbeta


def zeros(dy, x_hat, rstd, gamma):
    return dy * 0, gamma * 0, gamma * 0


# --- each_token_alone ----------------------------------------------------------------------------------------------


def given(shape=(2, 3, 4)):
    rng = np.random.default_rng(0)
    d = shape[-1]
    return rng.standard_normal(shape), rng.standard_normal(d), rng.standard_normal(d)


def one_without_the_others(layer_norm):
    x, gamma, beta = given((3, 4))
    return np.allclose(layer_norm(x[1], gamma, beta)[0], layer_norm(x, gamma, beta)[0][1])


def a_neighbour_changes(layer_norm):
    x, gamma, beta = given((3, 4))
    before = layer_norm(x, gamma, beta)[0][0]
    x[1:] = 100.0
    assert np.allclose(before, layer_norm(x, gamma, beta)[0][0])


def shuffled(layer_norm):
    """A subset of the tokens, in another order."""
    x, gamma, beta = given((5, 4))
    order = [3, 1]
    return bool(np.all(np.abs(layer_norm(x[order], gamma, beta)[0] - layer_norm(x, gamma, beta)[0][order]) < 1e-9))


def in_a_loop(layer_norm):
    x, gamma, beta = given()
    y, x_hat, _ = layer_norm(x, gamma, beta)
    for i in range(2):
        for j in range(3):
            alone = layer_norm(x[i : i + 1, j : j + 1], gamma, beta)
            if not np.allclose(alone[0][0, 0], y[i, j]) or not np.allclose(alone[1][0, 0], x_hat[i, j]):
                return False
    return True


def each_scaled_by_its_own(layer_norm):
    """Without a second company: each token is multiplied by another number."""
    x, gamma, beta = given((4, 6))
    scaled = x * np.array([[1.0], [3.0], [10.0], [30.0]])
    return np.allclose(layer_norm(x, gamma, beta)[0], layer_norm(scaled, gamma, beta)[0], atol=1e-3)


def unseeded(layer_norm):
    x = np.random.default_rng().standard_normal((4, 3))
    return np.allclose(layer_norm(x, np.ones(3), np.zeros(3))[0].mean(axis=1), 0)


def always(layer_norm):
    return True


def never(layer_norm):
    return False


def of_shapes(layer_norm):
    x, gamma, beta = given()
    return layer_norm(x, gamma, beta)[0].shape == x.shape


def of_one_token(layer_norm):
    """With one token there is no neighbour."""
    x, gamma, beta = given((4,))
    y = layer_norm(x, gamma, beta)[0]
    return np.allclose(y, layer_norm(x, gamma, beta)[0])


def of_the_whole_mean(layer_norm):
    """The mean over everything is 0 for all of them."""
    x, _, _ = given((4, 4))
    return np.allclose(layer_norm(x, np.ones(4), np.zeros(4))[0].mean(), 0)


def wrong_columns(layer_norm):
    x, _, _ = given((4, 3))
    return np.allclose(layer_norm(x, np.ones(3), np.zeros(3))[0].mean(axis=0), 0)


def to_the_last_bit_of_a_formula(layer_norm):
    x, gamma, beta = given((4, 3))
    mean, std = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    return np.array_equal(layer_norm(x, gamma, beta)[0], gamma * (x - mean) / std + beta)


def returns_an_array(layer_norm):
    x, gamma, beta = given((3, 4))
    return layer_norm(x[1], gamma, beta)[0] == layer_norm(x, gamma, beta)[0][1]


def returns_nothing(layer_norm):
    layer_norm(*given())


def compares_tuples(layer_norm):
    x, gamma, beta = given((3, 4))
    return np.allclose(layer_norm(x[1], gamma, beta), layer_norm(x, gamma, beta)[1])


def equal_tokens(layer_norm):
    """All tokens are the same: what the others are cannot matter much."""
    gamma, beta = np.ones(4), np.zeros(4)
    x = np.tile([1.0, 2.0, 3.0, 5.0], (3, 1))
    return np.allclose(layer_norm(x, gamma, beta)[0][0], layer_norm(x, gamma, beta)[0][1])


# --- repaired_block --------------------------------------------------------------------------------------------------


def norm(x, gamma, beta, eps):
    return ops.layer_norm(x, gamma, beta, eps)[0]


def in_four_lines(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    a = adapters.multi_head_attention(norm(x, gamma_1, beta_1, eps), W_q, W_k, W_v, W_o, heads, mask)
    f = adapters.feed_forward(norm(x + a, gamma_2, beta_2, eps), W_1, b_1, W_2, b_2)
    return x + a + f


def adds_in_place(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    x += adapters.multi_head_attention(norm(x, gamma_1, beta_1, eps), W_q, W_k, W_v, W_o, heads, mask)
    x += adapters.feed_forward(norm(x, gamma_2, beta_2, eps), W_1, b_1, W_2, b_2)
    return x


def the_librarys(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    return adapters.block(
        x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask, eps
    )


def by_head(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5):
    """A loop over heads, and float64 inside."""
    x = x.astype(np.float64)
    h = norm(x, gamma_1.astype(float), beta_1.astype(float), eps)
    outs = []
    for q, k, v in zip(*(np.split(h @ W, heads, axis=-1) for W in (W_q, W_k, W_v)), strict=True):
        outs.append(ops.attention(q, k, v, mask)[0])
    stream = x + np.concatenate(outs, axis=-1) @ W_o
    h = norm(stream, gamma_2.astype(float), beta_2.astype(float), eps)
    return stream + np.maximum(h @ W_1 + b_1, 0) @ W_2 + b_2


def in_lists(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5):
    y = the_librarys(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask, eps)
    return y.tolist()


def as_it_was(x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5):
    a = adapters.multi_head_attention(norm(x, gamma_1, beta_1, eps), W_q, W_k, W_v, W_o, heads, mask)
    return x + adapters.feed_forward(norm(x + a, gamma_2, beta_2, eps), W_1, b_1, W_2, b_2)


def only_the_branches(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    a = adapters.multi_head_attention(norm(x, gamma_1, beta_1, eps), W_q, W_k, W_v, W_o, heads, mask)
    return a + adapters.feed_forward(norm(x + a, gamma_2, beta_2, eps), W_1, b_1, W_2, b_2)


def never_added(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    a = adapters.multi_head_attention(norm(x, gamma_1, beta_1, eps), W_q, W_k, W_v, W_o, heads, mask)
    return x + adapters.feed_forward(norm(a, gamma_2, beta_2, eps), W_1, b_1, W_2, b_2)


BLOCK = ("post_as_pre", "residual_of_normed", "no_residual", "no_residual_1", "no_residual_2", "residual_twice",
         "ln_on_branch_output", "no_norm", "one_norm", "same_norm", "parallel", "ffn_first", "final_norm",
         "mask_ignored")  # fmt: skip
FORWARD = ("axis", "all_axes", "ddof1", "no_eps", "gamma_ignored", "beta_before_gamma",
           "no_mean_subtraction", "variance_not_root", "norm_not_rms", "rstd_is_std", "x_hat_is_y")  # fmt: skip
BACKWARD = ("gamma_missing", "no_mean", "no_xhat", "only_direct", "sum_not_mean", "xhat_sign", "r_missing",
            "mean_of_dy", "xhat_mean_of_dy", "dgamma_lastbatch", "dgamma_x", "dgamma_mean", "dbeta_mean",
            "dgamma_dbeta_swapped")  # fmt: skip


# --- more of both ---------------------------------------------------------------------------------------------------


def as_two_projections(dy, x_hat, rstd, gamma):
    """What points along 1 and along x̂ is taken off g, with einsum."""
    g, d = dy * gamma, dy.shape[-1]
    ones = np.einsum("...i->...", g)[..., None] / d
    along = np.einsum("...i,...i->...", g, x_hat)[..., None] / d
    rows, hats = dy.reshape(-1, d), x_hat.reshape(-1, d)
    return rstd * (g - ones - along * x_hat), np.einsum("ti,ti->i", rows, hats), np.ones(len(rows)) @ rows


def tokens_added(layer_norm):
    """More tokens of another size come, and the old ones' outputs stay."""
    x, gamma, beta = given((3, 4))
    more = np.concatenate([x, 50 + 20 * np.random.default_rng(1).standard_normal((5, 4))])
    return np.allclose(layer_norm(x, gamma, beta)[0], layer_norm(more, gamma, beta)[0][:3])


def moved_by_its_own(layer_norm):
    """Another number is added to each token; no output moves."""
    x, gamma, beta = given((2, 3, 5))
    moved = x + np.arange(6.0).reshape(2, 3, 1)
    return np.abs(layer_norm(moved, gamma, beta)[0] - layer_norm(x, gamma, beta)[0]).max() < 1e-7


def one_number_for_all(layer_norm):
    x, gamma, beta = given((3, 4))
    return np.allclose(layer_norm(x + 5, gamma, beta)[0], layer_norm(x, gamma, beta)[0])


def all_scaled_alike(layer_norm):
    x, gamma, beta = given((3, 4))
    return np.allclose(layer_norm(7 * x, gamma, beta)[0], layer_norm(x, gamma, beta)[0], atol=1e-3)


def finite(layer_norm):
    return all(np.isfinite(part).all() for part in layer_norm(*given((3, 4))))


def affine(layer_norm):
    """γ and β act on each feature, of whatever was normalised."""
    x, gamma, beta = given((3, 4))
    y, x_hat, _ = layer_norm(x, gamma, beta)
    return np.allclose(y, x_hat * gamma + beta)


def branch_by_branch(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    """A loop over two branches, each added to the stream that it read."""
    branches = (
        (gamma_1, beta_1, lambda h: adapters.multi_head_attention(h, W_q, W_k, W_v, W_o, heads, mask)),
        (gamma_2, beta_2, lambda h: np.maximum(h @ W_1 + b_1, 0) @ W_2 + b_2),
    )
    for gamma, beta, branch in branches:
        x = x + branch(norm(x, gamma, beta, eps))
    return x


def norm_written_out(
    x, gamma_1, beta_1, W_q, W_k, W_v, W_o, gamma_2, beta_2, W_1, b_1, W_2, b_2, heads, mask=None, eps=1e-5
):  # fmt: skip
    def normed(z, gamma, beta):
        centred = z - z.mean(axis=-1, keepdims=True)
        return centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + eps) * gamma + beta

    stream = x + adapters.multi_head_attention(normed(x, gamma_1, beta_1), W_q, W_k, W_v, W_o, heads, mask)
    return adapters.feed_forward(normed(stream, gamma_2, beta_2), W_1, b_1, W_2, b_2) + stream


def in_any_names(x, *given, mask=None, eps=1e-5):
    """Parameters by their places."""
    *parameters, heads = given
    attends, computes = parameters[2:6], parameters[8:12]
    x = x + adapters.multi_head_attention(norm(x, *parameters[:2], eps), *attends, heads, mask)
    return x + adapters.feed_forward(norm(x, *parameters[6:8], eps), *computes)


RIGHT = {
    "my_layer_norm": (short, loops, lists, einsum, flattened, in_place, in_float64, transposed),
    "my_layer_norm_backward": (
        by_the_formula, step_by_step, by_jacobian, backward_loops, backward_lists, backward_in_place,
        backward_in_float64, as_two_projections,
    ),
    "each_token_alone": (
        one_without_the_others, a_neighbour_changes, shuffled, in_a_loop, each_scaled_by_its_own, unseeded,
        tokens_added, moved_by_its_own,
    ),
    "repaired_block": (
        in_four_lines, adds_in_place, the_librarys, by_head, in_lists, branch_by_branch, norm_written_out,
        in_any_names,
    ),
}  # fmt: skip
WRONG = {
    "my_layer_norm": (*(zoo("layer_norm", "layer_norm", name) for name in FORWARD),
                      (by_std, "eps_outside"), (no_eps, "no_eps"), (fixed_eps, ""), (over_the_batch, ""),
                      (rstd_squared, ""), (only_y, "")),
    "my_layer_norm_backward": (*(zoo("layer_norm", "layer_norm_backward", name) for name in BACKWARD),
                               (rstd_twice, ""), (zeros, "")),
    "each_token_alone": tuple((answer, "") for answer in (
        always, never, of_shapes, of_one_token, of_the_whole_mean, wrong_columns, to_the_last_bit_of_a_formula,
        returns_an_array, returns_nothing, compares_tuples, equal_tokens, one_number_for_all,
        all_scaled_alike, finite, affine)),
    "repaired_block": (*(zoo("block", "block", name) for name in BLOCK), (as_it_was, "second_residual_of_x"),
                       (only_the_branches, ""), (never_added, "")),
}  # fmt: skip
