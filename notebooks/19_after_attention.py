# %% [markdown]
# # 19 · After attention
#
# Attention keeps all of the past and looks at it again for every token. Since 2020 there are again networks that keep a state of fixed size instead, like those of
# [chapter 17](17_before_attention.ipynb). **Can a recurrence have the last word?**
#
# Linear attention, RWKV and Mamba look like three inventions. This chapter writes them as one equation, and asks of each what it keeps, what it
# writes, and what it can no longer find.
#
# **You need**: linear attention as a recurrence ([chapter 18](18_cheaper.ipynb)), scans and what a vector can hold ([chapter 17](17_before_attention.ipynb)), softmax.
#
# **You will be able to**:
#
# - write one state as a recurrence, as a matrix, in chunks and as a convolution, and go back through it;
# - keep a decaying mean from overflowing, and say what Δ does to a state;
# - predict how many pairs a state can recall.

# %% tags=["hide-input"]

import numpy as np

from tinyattn.course import check, road, show_figure, table, yours
from tinyattn.layers import MECHANISMS, MIXERS, nbytes
from tinyattn.ops import (
    associative_scan,
    delta_rule,
    linear_attention,
    linear_weights,
    scan_matrix,
    selective_scan,
    selective_scan_backward,
    sigmoid,
    softmax,
    wkv,
    wkv_weights,
)
from tinyattn.show import attention_map, figure, style, trace
from tinyattn.show.style import BLUE, GREEN, GREY, INK, ORANGE

road(19)

# %% [markdown]
# ## One equation
#
# A state $S$ is a matrix. Token $t$ lets it decay by $\lambda_t$, adds a key times a value, and reads it with a query:
#
# $$S_t = \lambda_t\, S_{t-1} + k_t^\top v_t, \qquad y_t = q_t\, S_t .$$
#
# With $q$ and $k$ of $d$ numbers and $v$ of $e$, $S$ has $d \cdot e$. It is linear in $S$, so we can insert it into itself until no state is left:
#
# $$y_t = \sum_{j \le t} M_{tj}\, v_j, \qquad M_{tj} = \lambda_{j+1} \cdots \lambda_t\; (q_t \cdot k_j) .$$
#
# That is attention without softmax: a lower triangular matrix of tokens by tokens, in which weights decay with distance.


# %%
def recurrent(lam, q, k, v):
    """Shapes: lam (n,), q and k (n, d), v (n, e) -> y (n, e)."""
    S, y = np.zeros((k.shape[1], v.shape[1])), np.zeros(v.shape)
    for t in range(len(v)):
        S = lam[t] * S + np.outer(k[t], v[t])
        y[t] = q[t] @ S
    return y


def explicit(lam, q, k, v):
    """The same by its matrix."""
    n = len(v)
    decays = np.eye(n)  # entry (t, j): λ_{j+1} ⋯ λ_t
    for t in range(1, n):
        decays[t, :t] = lam[t] * decays[t - 1, :t]
    return (decays * (q @ k.T)) @ v


n, d, e = 50, 6, 5
rng = np.random.default_rng(17)
q, k = rng.standard_normal((2, n, d))
v, lam = rng.standard_normal((n, e)), rng.uniform(0.5, 1, n)
print("the same:", np.allclose(recurrent(lam, q, k, v), explicit(lam, q, k, v)))

# %% [markdown]
# Step through four tokens. Choose a number of the first token's key, `k`, and go on: at each token its effect on $S$ is smaller, and it reaches $y_t$ only through $S$.

# %% tags=["hide-input"]
four = lam[:4], *(x[:4, :2] for x in (q, k, v))
trace(recurrent, *four).player(title="One state, four tokens")

# %% [markdown]
# Three questions tell the members of this family apart: what is kept ($\lambda$), what is written ($k$ and $v$), and how it is read ($q$).
#
# | | $\lambda_t$ | $k_t$ | $v_t$ | $q_t$ | and then |
# |---|---|---|---|---|---|
# | linear attention | 1 | $\varphi(k_t)$ | $[v_t, 1]$ | $\varphi(q_t)$ | divide by the last column |
# | RWKV-4, a channel | $e^{-w}$ | $e^{k_t}$ | $[v_t, 1]$ | 1 | divide by the last column |
# | Mamba, a channel | $e^{\Delta_t A}$ | $\Delta_t B_t$ | $x_t$ | $C_t$ | add $D x_t$ |
#
# In RWKV and Mamba each channel has a state of its own, and in Mamba each row of it has its own $A$, and so its own $\lambda$. RWKV computes $y_t$ from the state as it was before token $t$, without the decay, and adds token $t$
# with the weight $e^{u + k_t}$, where $u$ is a learned *bonus*. If $u = w$, that is the same $y_t$. Does the library agree?


# %%
def divided(y):
    return y[:, :-1] / y[:, -1:]


def with_one(v):
    return np.concatenate([v, np.ones((len(v), 1))], axis=-1)


def phi(x):
    return np.where(x > 0, 1 + x, np.exp(np.minimum(x, 0)))


mine = divided(recurrent(np.ones(n), phi(q), phi(k), with_one(v)))
print("linear attention:", np.allclose(mine, linear_attention(q, k, v)[0]))

w, one = 0.3, v[:, :1]  # one channel
mine = divided(recurrent(np.full(n, np.exp(-w)), np.ones((n, 1)), np.exp(k[:, :1]), with_one(one)))
theirs = wkv(k[:, :1], one, np.array([w]), np.array([w]))[0]  # u = w
print("RWKV, one channel:", np.allclose(mine, theirs))

delta, A, D = rng.exponential(size=(n, 1)), -np.ones((d, 1)), np.zeros(1)
mine = recurrent(np.exp(-delta[:, 0]), q, k, delta * one)
theirs, states = selective_scan(one, delta, A, B=k, C=q, D=D)
print("Mamba, one channel:", np.allclose(mine, theirs))

# %% [markdown]
# ### In chunks
#
# The recurrence takes $n$ steps, each of which waits for the one before. The matrix takes one step, but has $n^2$ numbers. Chunks lie between the two: cut the tokens into chunks, use the matrix within each, and hand the state
# on to the next. Layers of this kind are trained like that ([RetNet](https://arxiv.org/abs/2307.08621), Sun et al. 2023, has a constant $\lambda$ in each head).
#
# ### Exercise `my_chunk` (write the op, ★★☆, 12 min)
#
# One chunk, with a constant decay `lam`. Given the state `S` that the chunk begins with, return the outputs of its tokens and the state after it, without a loop over tokens. (`check` looks at the
# numbers only.)


# %%
def my_chunk(S, q, k, v, lam):
    """Shapes: S (d, e), q and k (c, d), v (c, e), lam a number -> y (c, e), S (d, e)."""
    ### BEGIN SOLUTION
    i = np.arange(len(q))
    decays = np.tril(lam ** np.maximum(i[:, None] - i, 0))  # (c, c)
    y = (decays * (q @ k.T)) @ v + lam ** (i[:, None] + 1) * (q @ S)
    left = lam ** (len(q) - 1 - i[:, None])  # (c, 1): what is left of each at the end
    return y, lam ** len(q) * S + (left * k).T @ v
    ### END SOLUTION


# %%
check("my_chunk", my_chunk)

# %%
chunk, expected, rows = yours("my_chunk"), recurrent(np.full(n, 0.9), q, k, v), []
for c in (1, 7, n):
    S, y = np.zeros((d, e)), []
    for at in range(0, n, c):
        part, S = chunk(S, q[at : at + c], k[at : at + c], v[at : at + c], 0.9)
        y.append(part)
    rows.append([c, len(y), c * c, str(np.allclose(np.concatenate(y), expected))])
table("tokens a chunk | steps that wait | weights at once | the same", rows)

# %% tags=["hide-input"]


class Counted(np.ndarray):
    """Counts sums: here each is of many tokens at once, and waits for the one before."""

    def __array_ufunc__(self, f, method, *given, out=None, **more):
        Counted.sums += f is np.add
        given = [x.view(np.ndarray) if isinstance(x, Counted) else x for x in given]
        if out is not None:
            more["out"] = tuple(x.view(np.ndarray) for x in out)
        return getattr(f, method)(*given, **more).view(Counted)


# %% [markdown]
# ### In a tree
#
# Chunks of $\sqrt n$ tokens wait for about $2 \sqrt n$ steps. The scan of [chapter 17](17_before_attention.ipynb) waits less: a token is a map, $S \mapsto \lambda S + k^\top v$, two maps in a row are one of
# the same kind, and brackets may be set anywhere. **Predict:** for 16 times as many tokens, how many steps more does a tree wait?

# %% tags=["hide-output"]
rows, drawn = [], np.random.default_rng(4)
for size in (16, 256):
    a, b = drawn.uniform(0.5, 1, (size, 1)), drawn.standard_normal((size, 1))
    sums, found = [], []
    for form in ("sequential", "chunked", "tree", "doubling"):
        Counted.sums = 0
        found.append(associative_scan(a.view(Counted), b.view(Counted), form=form))
        sums.append(Counted.sums)
    rows.append([size, *sums, str(all(np.allclose(h, found[0]) for h in found))])
table("tokens | one by one | chunks | tree | doubling | the same", rows)

# %%
maps = np.repeat(lam[:, None], d * e, axis=1), (k[:, :, None] * v[:, None]).reshape(n, d * e)
read = q[:, None] @ associative_scan(*maps).reshape(n, d, e)
print("its states, read by q:", np.allclose(read[:, 0], recurrent(lam, q, k, v)))

# %% [markdown]
# 8 more: a tree takes $2 \log_2 n$ steps; doubling takes $\log_2 n$, but computes more numbers. All four compute the same sum with the brackets in other places, and Mamba is trained by such a scan.

# %% [markdown]
# ### Exercise `my_state_backward` (derive the backward, ★★★, 20 min)
#
# Back through $S_t = \lambda_t S_{t-1} + k_t^\top v_t$ and $y_t = q_t S_t$, from $dy$ to all four inputs. $S_0 = 0$, and $\lambda_t$ is one number a token. (Let $G_t$ be all
# that comes back to $S_t$.)


# %%
def my_state_backward(dy, lam, q, k, v):
    """Shapes: dy and v (n, e), lam (n,), q and k (n, d) -> dlam, dq, dk, dv."""
    ### BEGIN SOLUTION
    states = [np.zeros((k.shape[1], v.shape[1]))]
    for t in range(len(v)):
        states.append(lam[t] * states[-1] + np.outer(k[t], v[t]))
    dlam, dq, dk, dv = (np.empty_like(x) for x in (lam, q, k, v))
    G = np.zeros_like(states[0])
    for t in reversed(range(len(v))):
        G = np.outer(q[t], dy[t]) + G  # y_t = q_t S_t
        dq[t] = states[t + 1] @ dy[t]
        dlam[t] = np.sum(G * states[t])  # λ_t stood before S_{t-1}
        dk[t], dv[t] = G @ v[t], k[t] @ G
        G = lam[t] * G  # to S_{t-1}
    return dlam, dq, dk, dv
    ### END SOLUTION


# %%
check("my_state_backward", my_state_backward)

# %% [markdown]
# The way back is the same recurrence, from the last token to the first. And it is Mamba's: with $\lambda = e^{-\Delta}$, and $\Delta$ put with $v$ instead of $k$, $v = \Delta x$, the rest is the chain rule.

# %%
dy = rng.standard_normal((n, 1))
dlam, dC, dB, dv = yours("my_state_backward")(dy, np.exp(-delta[:, 0]), q, k, delta * one)
ddelta = one * dv - np.exp(-delta) * dlam[:, None]
theirs = selective_scan_backward(dy, one, delta, A, k, q, D, states)
for name, mine, ours in (
    ("x", delta * dv, theirs[0]),
    ("Δ", ddelta, theirs[1]),
    ("B", dB, theirs[3]),
    ("C", dC, theirs[4]),
):
    print(f"d{name} is the library's:", np.allclose(mine, ours))

# %% [markdown]
# ## Keep everything
#
# Linear attention has $\lambda = 1$: nothing is ever taken out of its state. Does it remember everything, then? Let a query be one of $n$ random keys, times 4. **Predict:** as $n$ grows,
# how does the weight on that key fall?

# %% tags=["hide-output"]
rows = []
for n_keys in (16, 64, 256, 1024, 4096):
    keys = rng.standard_normal((n_keys, 16))
    asked = 4 * keys[:16]
    linear = np.diagonal(linear_weights(asked, keys, causal=False)).mean()
    sharp = np.diagonal(softmax(asked @ keys.T / 4)).mean()
    rows.append([n_keys, linear, linear * n_keys, sharp])
table("keys n | linear attention's weight on it | times n | softmax's", rows, digits=2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# As $1/n$: it stays below twice an equal share. Nothing has decayed, but all features are positive, so every token takes its share, wanted or not. What is never forgotten is *diluted*.
#
# </details>
#
# ## Let it decay
#
# [RWKV](https://arxiv.org/abs/2305.13048) (Peng et al. 2023) forgets on purpose, at a constant rate $w \ge 0$ of its own in every channel. A channel has two numbers, the numerator and the denominator of a mean:
#
# $$a_t = e^{-w} a_{t-1} + e^{k_t} v_t, \quad b_t = e^{-w} b_{t-1} + e^{k_t}, \qquad
# y_t = \frac{a_{t-1} + e^{u + k_t} v_t}{b_{t-1} + e^{u + k_t}} .$$
#
# In words: a softmax over $k_j - (t - 1 - j)\,w$ for earlier tokens and $k_t + u$ for the newest. There is no query. What decides is when a token came, and how large its key is. **Predict:** what comes out if all $k$ are
# 800 larger, on paper and in code?


# %% tags=["hide-output"]
def naive(k, v, w, u):
    """Shapes: k and v (n, d), w and u (d,) -> y (n, d)."""
    a, b, y = np.zeros_like(w), np.zeros_like(w), np.empty(v.shape)
    for t in range(len(k)):
        own = np.exp(u + k[t])
        y[t] = (a + own * v[t]) / (b + own)
        a, b = np.exp(-w) * a + np.exp(k[t]) * v[t], np.exp(-w) * b + np.exp(k[t])
    return y


k, v = rng.standard_normal((2, n, d))
w, u = np.exp(rng.uniform(-5, 1, d)), rng.standard_normal(d)
print("the library's wkv:", np.allclose(naive(k, v, w, u), wkv(k, v, w, u)[0]))
with np.errstate(all="ignore"):
    print("with k + 800:", naive(k + 800, v, w, u)[-1])

# %% [markdown]
# <details><summary>Answer</summary>
#
# On paper nothing changes, since $e^{800}$ stands above and below. In code it is $\infty / \infty$.
#
# </details>
#
# Chapter 18's running maximum would help. Shorter still: keep the mean itself, $m = a / b$, and the *logarithm* of the weight
# behind it, $z = \log b$. A mean moves towards a new value by that value's share, which is a sigmoid of a difference of logarithms:
#
# $$m_t = m_{t-1} + \gamma_t\,(v_t - m_{t-1}), \qquad \gamma_t = \frac{e^{k_t}}{e^{z_{t-1} - w} + e^{k_t}} = \sigma\big(k_t - (z_{t-1} - w)\big), \qquad
# z_t = \log\big(e^{z_{t-1} - w} + e^{k_t}\big) .$$
#
# The output is such a step, too, from $z_{t-1}$ and $u + k_t$, and is not kept.


# %%
def stable(k, v, w, u):
    m, z, y = np.zeros_like(w), np.full_like(w, -np.inf), np.empty(v.shape)  # nothing so far
    for t in range(len(k)):
        y[t] = m + sigmoid(k[t] + u - z) * (v[t] - m)
        m = m + sigmoid(k[t] - (z - w)) * (v[t] - m)
        z = np.logaddexp(z - w, k[t])
    return y


weights = wkv_weights(k, w, u)  # (d, n, n): the matrix that is never made
for far in (0, 800, -800):
    ours = wkv(k + far, v, w, u)[0]
    by_matrix = np.einsum("dtj,jd->td", wkv_weights(k + far, w, u), v)
    same = [np.allclose(x, naive(k, v, w, u)) for x in (stable(k + far, v, w, u), ours, by_matrix)]
    print(f"k + {far}: stable, the library's, and its matrix times v: {same}")
print("rows of the matrix sum to 1:", np.allclose(weights.sum(axis=-1), 1))

# %% [markdown]
# ### Exercise `shifts_change_nothing` (write the property that kills this bug, ★★☆, 8 min)
#
# Return True if moving *all* keys of `wkv(k, v, w, u) -> y` by one number $c$, however large (as long as $k + c$ keeps its digits), leaves $y$ as it is, else False. `k` and `v` are (n, d), `w` and `u` (d,). It must be False for `naive`, and for false repairs: keys that are cut off, NaN replaced by 0.


# %%
def shifts_change_nothing(wkv):
    ### BEGIN SOLUTION
    k, v = np.random.default_rng(0).standard_normal((2, 6, 3))
    w, u = np.array([0.1, 0.5, 2.0]), np.array([0.3, -1.0, 0.0])
    y = wkv(k, v, w, u)
    return all(np.allclose(wkv(k + far, v, w, u), y) for far in (800, -800))
    ### END SOLUTION


# %%
check("shifts_change_nothing", shifts_change_nothing)

# %% [markdown]
# How long does a channel remember? After $\ln 2 / w$ tokens half of the weight is left. RWKV begins with channels of all speeds:

# %%
RWKV = MIXERS["rwkv"]
w = np.exp(RWKV().init(rng, 64)["log_w"])
table("channel | w | tokens until half is left", [[c, w[c], np.log(2) / w[c]] for c in (0, 21, 63)])

# %% [markdown]
# ## The same for all tokens: a convolution
#
# If $\lambda$, $q$ and $k$ are the same for all tokens, $M_{tj} = q \cdot k\, \lambda^{t - j}$ depends on the distance alone. Then $y$ is a *convolution* of $v$ with the kernel $(q \cdot k)\,(1, \lambda, \lambda^2, \dots)$. *State-space models* (SSMs) such as S4 were trained
# like that, by Fourier transforms in $n \log n$ ([S4, Gu et al. 2022](https://arxiv.org/abs/2111.00396)).

# %%
alike = [np.broadcast_to(x, (n, d)) for x in (q[0], k[0])]
kernel = q[0] @ k[0] * 0.9 ** np.arange(n)
y = recurrent(np.full(n, 0.9), *alike, v[:, :1])[:, 0]
spectra = np.fft.rfft(kernel, 2 * n) * np.fft.rfft(v[:, 0], 2 * n)
print("a convolution:", np.allclose(y, np.convolve(kernel, v[:, 0])[:n]))
print("by Fourier transforms:", np.allclose(y, np.fft.irfft(spectra)[:n]))

# %% [markdown]
# The price: every token is kept for equally long. A comma fades as slowly as a name.
#
# ## Let the token choose
#
# [Mamba](https://arxiv.org/abs/2312.00752) (Gu and Dao 2023) makes $\Delta$, $B$ and $C$ from the token: how long it lasts, what it writes, what it reads. Where does $\Delta$ come from? From a differential equation,
# $h' = A\,h + B\,x$, in which the token $x$ is *held* for a time $\Delta$ (a *zero-order hold*, ZOH). Its solution is
#
# $$h(\Delta) = e^{\Delta A}\, h(0) + \frac{e^{\Delta A} - 1}{A}\, B\,x .$$
#
# For small $\Delta A$ the fraction is nearly $\Delta$, which is one step of Euler's method for the input. (The decay stays $e^{\Delta A}$; Euler's would be $1 + \Delta A$.) ZOH and Euler differ only in how the input is written. The paper's equation 4 has the fraction (ZOH); its code has $\Delta$ (Euler), as the library does without `exact=True`.
#
# ### Exercise `held_state` (predict the number, ★★☆, 4 min)
#
# $A = -1$, $B = C = 1$, $D = 0$. The state is 10. Then comes one token, $x = 1$, with $\Delta = 3$, held exactly. What is $y$, to two decimals?

# %%
### BEGIN SOLUTION
held_state = 1.448  # 10 e^-3 + 1 - e^-3
### END SOLUTION

# %%
check("held_state", held_state)

# %% [markdown]
# **Predict:** which $\Delta$ makes the state skip a token, as if it had not been there? Which one makes it forget all but the token?

# %% tags=["hide-output"]
unit, rows = np.ones((1, 1)), []


def one_token(x, h, time, exact=True):
    y, _ = selective_scan(x * unit, time * unit, -unit, unit, unit, np.zeros(1), h * unit, exact)
    return y.item()


for time in (0, 0.1, 1, 10):
    written = one_token(1, 0, time), one_token(1, 0, time, exact=False)
    rows.append([f"{time:g}", one_token(0, 1, time), *written])
table("Δ | left of the state | written, held | written, Δ itself", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# $\Delta = 0$ skips, $\Delta \to \infty$ resets. Held, what is left and what is written sum to 1; with $\Delta$ itself, a token that lasts 10 is written ten times over.
#
# </details>
#
# You have met such a switch: $\Delta = \log(1 + e^s)$, as Mamba has it, and $A = -1$ make
# $e^{-\Delta} = 1 - \sigma(s)$, and the state a *gated* one, as in chapter 17's GRU, but with a gate that does not look at the state (the paper's theorem 1):

# %%
s, x = rng.standard_normal((2, n, 1))
h, gated = 0.0, []
for t in range(n):
    h = (1 - sigmoid(s[t])) * h + sigmoid(s[t]) * x[t]
    gated.append(h)
ones = np.ones((n, 1))
y, _ = selective_scan(x, np.logaddexp(0, s), -unit, ones, ones, np.zeros(1), exact=True)
print("a gate:", np.allclose(y, gated))

# %% [markdown]
# Here are the matrices of all of them. The tokens of the last one choose: *the* and *a* last 0.01, a full stop 10, every other word 0.5. So the columns of the articles are dark
# in it, and nothing before a full stop is seen from there on. (Rows of the two scans are divided by their sums, so that one scale serves all.)

# %% tags=["hide-input"]
words = ["the", "cat", "saw", "a", "dog", ".", "a", "bird", "sang", "the", "song", "."]
size = len(words)
q_, k_ = 1.5 * np.random.default_rng(3).standard_normal((2, size, 4))
lasts = np.array([{"the": 0.01, "a": 0.01, ".": 10}.get(word, 0.5) for word in words])


def scanned(delta):
    """The matrix of one channel with A = -1, B = C = 1, its input held."""
    ones = np.ones((size, 1))
    M = scan_matrix(delta[:, None], -unit, ones, ones, np.zeros(1), exact=True)[0]
    return M / M.sum(axis=-1, keepdims=True)


slow, fast = wkv_weights(np.stack([k_[:, 0], k_[:, 0]], axis=-1), np.array([0.02, 1]), np.zeros(2))
maps = {
    "softmax attention": softmax(q_ @ k_.T / 2, np.tri(size, dtype=bool)),
    "linear attention: keeps all": linear_weights(q_, k_),
    "RWKV, a slow channel": slow,
    "RWKV, a fast channel": fast,
    "scan, all tokens alike": scanned(np.full(size, 0.5)),
    "scan, tokens choose": scanned(lasts),
}
fig = attention_map(np.stack(list(maps.values())).reshape(2, 3, size, size), words, names=maps)
fig.set_size_inches(8.6, 5.6)
for ax in fig.axes[: len(maps)]:  # the last is the scale
    ax.set(xlabel="token j", ylabel="output t")
    ax.label_outer()
show_figure(
    fig,
    "matrices",
    "Six lower triangular maps of twelve words, outputs by tokens. Softmax attention has a few bright entries a row, linear attention's "
    "rows are nearly even. RWKV's slow channel has bright columns that last to the end, its fast channel and the scan of equal tokens fade away from the "
    "diagonal. In the scan whose tokens choose, the columns of the articles are dark, and nothing before a full stop is seen after it",
)

# %% [markdown]
# ## How large is a state?
#
# Every mixer of the library has an `extend`, which returns what it keeps for the tokens that follow. Count the numbers in it. **Predict:** from how many tokens on is attention's cache larger than Mamba's state?

# %% tags=["hide-output"]
width, rows, Attention, Linear = 64, [], MIXERS["attention"], MECHANISMS["linear"]
mixers = {
    "attention": Attention(heads=1),
    "linear attention": Attention(heads=1, mechanism=Linear()),
    "RWKV": RWKV(),
    "Mamba": MIXERS["mamba"](),
}
for name, mixer in mixers.items():
    p, counts = mixer.init(rng, width), []
    for tokens in (1, 19, 20, 1000):
        x = rng.standard_normal((1, tokens, width))
        _, kept = mixer.extend(p, x, x if mixer.takes_memory else None, None)
        counts.append(nbytes(kept) // x.itemsize)
    rows.append([name, *counts])
table("numbers kept, width 64, after | 1 token | 19 | 20 | 1,000", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# From 20 on, whatever the width $D$: attention keeps $2D$ numbers a token, Mamba $16 \cdot 2D$ for its states and $3 \cdot 2D$ for a small convolution before them.
#
# </details>
#
# RWKV keeps three numbers a channel. One head of linear
# attention has a matrix of $64 \times 65$.
#
# ## What does not fit
#
# Chapter 17 wrote letters into one vector of $d$ numbers and lost half of them at $d/4$. A matrix has $d^2$. Write $n$ pairs of random keys and values of length 1 into it, and ask for each by its key:
#
# $$k_i\, S = v_i + \sum_{j \ne i} (k_i \cdot k_j)\, v_j .$$
#
# A dot product of two random directions has the variance $1/d$. So the other pairs add an error of length $\sqrt{(n - 1)/d}$, as long as $v_i$ itself when $n \approx d$. If we only want to know *which* of the $n$ values it was, the error's part along any other
# value counts, and that is only about $\sqrt n / d$. The largest of $n$ normal numbers
# is about $\sqrt{2 \ln n}$ standard deviations: so half should be lost near $n = d^2 / (2 \ln n)$. Nothing is trained here, so nothing can have been trained badly.

# %% tags=["hide-input"]
SHARES = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32)


def directions(rng, *shape):
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def recall(n, d):
    """Of n pairs written into a (d, d) state: the error, and the share of right ones among n values."""
    rng, errors, right = np.random.default_rng([17, n, d]), [], []
    for _ in range(max(1, 400 // n)):
        k, v = directions(rng, 2, n, d)
        found = k[:200] @ (k.T @ v)
        errors += [*np.sum((found - v[:200]) ** 2, axis=-1)]
        right += [*(np.argmax(found @ v.T, axis=-1) == np.arange(len(found)))]
    return np.sqrt(np.mean(errors)), np.mean(right)


def half_lost(d):
    """The n for which n = d² / (2 ln n)."""
    n = d
    for _ in range(50):
        n = d * d / (2 * np.log(n))
    return n


with style():
    fig, (left, right) = figure(1, 2, size=(8.6, 3.9))
    grid = np.array([0.045, 45])
    left.loglog(grid, np.sqrt(grid), "-", color=GREY, lw=1)
    left.text(1.5, 0.9, "√((n - 1) / d)", color=GREY)
    for d_, colour, look in ((16, GREEN, "^"), (64, BLUE, "o"), (256, ORANGE, "s")):
        sizes = [int(share * d_) for share in SHARES]
        found = np.array([recall(n_, d_) for n_ in sizes])
        left.loglog(
            (np.array(sizes) - 1) / d_, found[:, 0], look, color=colour, ms=5, label=f"d = {d_}"
        )
        right.semilogx(sizes, found[:, 1], "-" + look, color=colour, ms=5)
        right.plot(half_lost(d_), 0.5, "o", ms=13, mfc="none", color=INK)
    left.legend(fontsize=9)
    left.set(title="error, of values of length 1", xlabel="(n - 1) / d")
    left.set(xticks=SHARES[::2], xticklabels=["1/8", "1/2", "2", "8", "32"])
    left.set(yticks=[0.5, 1, 2, 4], yticklabels=["0.5", "1", "2", "4"])
    right.set(title="right value found among n", xlabel="pairs n", ylim=(-0.03, 1.05))
    right.set(xticks=[4, 32, 256, 2048], xticklabels=["4", "32", "256", "2,048"])
    for ax in (left, right):
        ax.minorticks_off()
show_figure(
    fig,
    "recall",
    "Left: for d of 16, 64 and 256 the error lies on the square root of (n - 1) over d. Right: the share of pairs that are still told apart falls "
    "from 1 to 0 as n grows, later for larger d; a circle at n = d² / (2 ln n) marks about one half for each",
)

# %% [markdown]
# Both estimates hold; the circles are $n = d^2 / (2 \ln n)$. As with the vector, how many pairs can be recalled grows nearly in proportion to how many numbers the state has: *a larger state forgets later.* Softmax attention looks up sharply (chapters 17 and 18), and
# stores $2nd$ numbers for that.
#
# ### Write the difference
#
# What is in the way under a key can be read before writing. The *delta rule* ([Schlag et al., 2021](https://arxiv.org/abs/2102.11174)) writes only what is missing, a share $\beta_t$ of it;
# with a decay it is *Gated DeltaNet* ([Yang et al., 2025](https://arxiv.org/abs/2412.06464)):
#
# $$S_t = S' + \beta_t\, k_t^\top (v_t - k_t S'), \qquad S' = \lambda_t S_{t-1} .$$
#
# A key then reads $k_t S_t = k_t S' + \beta_t\, |k_t|^2\, (v_t - k_t S')$: with $\beta = 1$ and $|k| = 1$ it is $v_t$, whatever was there. Step through it: token 4 has the key of token 1.

# %% tags=["hide-input"]


def corrected(lam, beta, q, k, v):
    S, y = np.zeros((k.shape[1], v.shape[1])), np.zeros(v.shape)
    for t in range(len(v)):
        kept = lam[t] * S
        missing = v[t] - k[t] @ kept
        S = kept + beta[t] * np.outer(k[t], missing)
        y[t] = q[t] @ S
    return y


keys = directions(np.random.default_rng(7), 4, 2)
keys[3] = keys[0]
trace(corrected, np.full(4, 0.9), np.ones(4), keys, keys, v[:4, :2]).player(title="The delta rule")

# %% [markdown]
# What does it bring? Of $n$ keys each gets a new value three times, and we ask for the newest.

# %% tags=["hide-input"]
rows, drawn, d_ = [], np.random.default_rng(8), 64
unit_keys = k / np.linalg.norm(k, axis=-1, keepdims=True)
mine, ours = corrected(lam, lam, q, unit_keys, v), delta_rule(q, unit_keys, v, lam, np.log(lam))[0]
print("the library's delta_rule:", np.allclose(mine, ours))
for n_ in (16, 32, 64, 128):
    k_, v_ = np.tile(directions(drawn, n_, d_), (3, 1)), directions(drawn, 3 * n_, d_)
    states = k_.T @ v_, delta_rule(k_, k_, v_, np.ones(3 * n_))[1].last
    errors = [np.sqrt(np.mean(np.sum((k_[-n_:] @ S - v_[-n_:]) ** 2, axis=-1))) for S in states]
    rows.append([n_, *errors, np.sqrt((n_ - 1) / d_)])
table("keys n, d = 64 | error, all added | delta rule | √((n - 1) / d)", rows)

# %% [markdown]
# A sum holds three values under each key. The delta rule has about the error of a state into which each key was written once, and less where there are many. It overwrites; it has no more room.
#
# What do decay and selection buy? Of 256 tokens 32 matter, in random places, and $d = 64$. We ask for these 32, for the newest and for the oldest of them. **Predict** the order of the last column.


# %% tags=["hide-output"]
def asked_of(decay, chosen, trials=50, n=256, d=64):
    """Errors for all that matter, the newest, the oldest; `chosen`: the rest is not written."""
    rng, errors = np.random.default_rng(18), []
    for _ in range(trials):
        k, v = directions(rng, 2, n, d)
        matters = np.sort(rng.permutation(n)[:32])
        writes = np.isin(np.arange(n), matters) if chosen else np.ones(n, bool)
        S = (k * (writes * decay ** np.arange(n)[::-1])[:, None]).T @ v
        errors.append(np.sum((k[matters] @ S - v[matters]) ** 2, axis=-1))
    mean = np.mean(errors, axis=0)
    return np.sqrt([mean[-1], mean[0], mean.mean()])


rows = [
    ["keeps all, λ = 1", *asked_of(1.0, False)],
    ["decays, λ = 0.99", *asked_of(0.99, False)],
    ["decays, λ = 0.95", *asked_of(0.95, False)],
    ["tokens choose", *asked_of(1.0, True)],
]
table("error | the newest | the oldest | all 32", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# An empty state has an error of 1. A decaying state holds the very last token as one of $1 / (1 - \lambda^2)$ pairs, here 50 or 10; the newest of the 32 lies some seven tokens back, and has decayed, too. For the oldest, and for all 32 together, decay is worse than an empty state; keeping all is worst. For these two choosing is best: the state holds 31 other pairs, and $\sqrt{31/64} = 0.70$. (For the newest, $\lambda = 0.95$ is better.)
#
# </details>
#
# But a state that chooses must know what matters *when it comes*. Attention decides when it is asked.
#
# So, who has the last word? Where the past can be summed up, or can be chosen from beforehand, a state of fixed size does. Where any of it may be asked for, one has to keep it; and models may have layers of both kinds ([Jamba](https://arxiv.org/abs/2403.19887), Lieber et al. 2024).
#
# | what is often said | what the cells above show |
# |---|---|
# | linear attention forgets nothing | nothing decays; a token's weight falls as $1/n$, and recall fails as $\sqrt{n/d}$ |
# | a state has room for any length | it can read any length; of $n = d^2 / (2 \ln n)$ random pairs half are found again |
# | recurrences cannot look up by content | they can, by $q_t S_t$; other pairs are in the way |
# | Mamba holds its input exactly (its equation 4) | its code writes $\Delta$ in place of $1 - e^{-\Delta}$: with $\Delta = 10$, ten times as much |
#
# ## In five lines
#
# - $S_t = \lambda_t S_{t-1} + k_t^\top v_t$, $y_t = q_t S_t$: linear attention keeps ($\lambda = 1$), RWKV lets decay (constant $\lambda$), Mamba chooses ($\lambda$ from the token).
# - The same numbers come from a recurrence, a matrix, chunks, and, where all tokens are alike, a convolution.
# - A mean of exponentials knows only differences of keys: keep the mean and a logarithm, and $k + 800$ is harmless.
# - $\Delta = 0$ skips a token, a large one resets the state; with $A = -1$ it is a gate.
# - A state of $d \times d$ recalls with an error of $\sqrt{n/d}$; decay and choice decide *which* $n$ are in the way.
#
# To read: [Gu and Dao (2023)](https://arxiv.org/abs/2312.00752), sections 3.1 to 3.5. Next: [20, images](20_images.ipynb).
