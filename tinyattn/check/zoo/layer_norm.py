"""Layer normalisation, and its known bugs."""

import numpy as np

from .bug import count, in_place, planted, rows


def layer_norm(x, gamma, beta, eps=1e-5):
    axis, d = -1, x.shape[-1]
    mean = np.mean(x, axis=axis, keepdims=True)
    centred = x - mean
    variance = np.mean(centred * centred, axis=axis, keepdims=True)
    rstd = 1 / np.sqrt(variance + x.dtype.type(eps))
    x_hat = centred * rstd
    scaled = x_hat * gamma
    y = scaled + beta
    rstd = np.broadcast_to(rstd, (*x.shape[:-1], 1)).copy() if rstd.shape[-1] == 1 else rstd
    return y, x_hat, rstd


def layer_norm_backward(dy, x_hat, rstd, gamma):
    g = dy * gamma
    mean = np.mean(g, axis=-1, keepdims=True)
    along = np.mean(g * x_hat, axis=-1, keepdims=True)
    dx = g - mean - x_hat * along
    dx = dx * rstd
    each = dy * x_hat
    dgamma = np.sum(rows(each), axis=0)
    dbeta = np.sum(rows(dy), axis=0)
    return dx, dgamma, dbeta


BUGS, make = planted(__name__)
