# %% [markdown]
# # 10 · Learning itself
#
# Backward says which way every weight should move. It does not say how far. **How long should a step be, and should it follow the gradient at all?**
#
# This chapter goes from the plain step against the gradient to momentum, Adam, weight decay, warm-up, clipping and Muon. Each answers a
# fault of the one before, which you can see on a loss of two numbers. You write all of them, and in the end your functions train the recommender of chapter 00.
#
# **You need**: gradients ([chapter 03](03_gradients.ipynb)), the eigenvalues of a 2 × 2 matrix, the mean of random numbers.
#
# **You will be able to**:
#
# - say which learning rate is too large, and what the condition number costs;
# - write momentum, AdamW, a schedule and clipping, number for number as the library has them;
# - say what Muon does to a matrix of gradients, and why it needs no decomposition for it.

# %% tags=["hide-input"]
import numpy as np

from tinyattn.course import check, road, show_figure, table, yours
from tinyattn.data import Sampler, SeriesWorld, leave_one_out
from tinyattn.models import SASRec
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE
from tinyattn.training import Learner, orthogonal
from tinyattn.tree import leaves

road(10)

# %% [markdown]
# ## The largest step
#
# Near its minimum every smooth loss is a quadratic. In two directions, suitably turned, it is
#
# $$L(w) = \tfrac12 \sum_i \lambda_i w_i^2, \qquad g_i = \lambda_i w_i .$$
#
# $\lambda_i$ is the *curvature* in direction $i$. *Gradient descent* takes the step $w \leftarrow w - \eta\,g$ with a *learning rate* $\eta$, so
#
# $$w_i \leftarrow (1 - \eta \lambda_i)\, w_i :$$
#
# each direction shrinks by a factor that depends on no other. The steepest sets a limit: beyond $\eta = 2 / \lambda_{\max}$ its factor is below $-1$, and the loss explodes. The
# flattest pays for it. The best $\eta$ makes the two factors equal in size, $1 - \eta \lambda_{\min} = \eta \lambda_{\max} - 1$, and then both are
#
# $$\frac{\kappa - 1}{\kappa + 1}, \qquad \kappa = \frac{\lambda_{\max}}{\lambda_{\min}} .$$
#
# $\kappa$ is the *condition number*. With $\kappa = 1000$ a step takes off 0.2 % of the error.
#
# ## Momentum
#
# In a ravine the gradient points from wall to wall. Across, it changes its sign at every step; along, it stays. So add gradients up, and let old ones fade:
#
# $$u \leftarrow \beta u + g, \qquad w \leftarrow w - \eta\,u .$$
#
# ### Exercise `my_momentum` (write the op, ★☆☆, 4 min)
#
# One step. `u` is 0 before the first.


# %%
def my_momentum(w, g, u, lr, beta):
    """Shapes: weights w, gradient g and velocity u (...) -> the new w, u (...)."""
    ### BEGIN SOLUTION
    u = beta * u + g
    return w - lr * u, u
    ### END SOLUTION


# %%
check("my_momentum", my_momentum)

# %% [markdown]
# How fast is it? In one direction, a step is a matrix:
#
# $$\begin{pmatrix} w \\ u \end{pmatrix} \leftarrow
# \begin{pmatrix} 1 - \eta\lambda & -\eta\beta \\ \lambda & \beta \end{pmatrix} \begin{pmatrix} w \\ u \end{pmatrix} .$$
#
# Its determinant is $(1 - \eta\lambda)\beta + \eta\lambda\beta = \beta$: the curvature cancels. Where the two eigenvalues are a complex pair, they have the same size, and their product is
# $\beta$. So **every such direction shrinks by $\sqrt\beta$, whatever its curvature.** They are complex where the squared trace is below four times the determinant,
#
# $$(1 + \beta - \eta\lambda)^2 < 4\beta
# \quad\Longleftrightarrow\quad (1 - \sqrt\beta)^2 < \eta\lambda < (1 + \sqrt\beta)^2 .$$
#
# The smallest $\beta$ for which all curvatures fit in has $\kappa = (1 + \sqrt\beta)^2 / (1 - \sqrt\beta)^2$. Solved for the factor:
#
# $$\sqrt\beta = \frac{\sqrt\kappa - 1}{\sqrt\kappa + 1} .$$
#
# ### Exercise `steps_saved` (predict the number, ★★☆, 4 min)
#
# A loss has the condition number $\kappa = 900$. By these two factors, how many times fewer steps does momentum need than gradient descent for the same gain? (For small $x$,
# $\log \frac{1 - x}{1 + x} \approx -2x$.)

# %%
### BEGIN SOLUTION
steps_saved = 30
### END SOLUTION

# %%
check("steps_saved", steps_saved)

# %% [markdown]
# Count the steps. `run` collects the points that a rule visits; a rule takes weights, gradient, its state and the number of the step.

# %%
momentum = yours("my_momentum")


def run(rule, gradient, w, steps, arrays=0):
    """-> (steps + 1, ...), the points. The state is so many `arrays`, 0 at first."""
    path, state = [w], [np.zeros_like(w)] * arrays
    for t in range(1, steps + 1):
        w, *state = rule(w, gradient(w), *state, t)
        path.append(w)
    return np.array(path)


def ravine(k):
    """Both rules at their best, on curvatures 1 and k, for 8 k steps from (1, 1)."""
    root, lr = np.sqrt(k), 2 / (1 + k)
    beta = ((root - 1) / (root + 1)) ** 2
    fast = (1 + np.sqrt(beta)) ** 2 / k
    gradient, start = lambda w: np.array([1, k]) * w, np.ones(2)
    return (
        run(lambda w, g, t: (w - lr * g,), gradient, start, 8 * k),
        run(lambda w, g, u, t: momentum(w, g, u, fast, beta), gradient, start, 8 * k, arrays=1),
    )


rows, paths = [], {k: ravine(k) for k in (10, 100, 1000)}
for k, both in paths.items():
    far = [np.linalg.norm(path, axis=1) >= 1e-6 for path in both]
    counts = [int(np.flatnonzero(one)[-1]) + 1 for one in far]
    rows.append([k, *counts, counts[0] / counts[1], np.sqrt(k)])
table("κ | descent, steps to 1e-6 | momentum | ratio | √κ", rows)

# %% [markdown]
# The ratio grows with $\sqrt\kappa$. It stays below, since momentum first swings far out: at the smallest $\beta$ the eigenvalues of a pair are equal, and the error falls like $t\,\beta^{t/2}$.

# %% tags=["hide-input"]
with style():
    fig, axes = figure(1, 2, size=(8.4, 3.4))
    k = 30
    x, y = np.meshgrid(np.linspace(-0.25, 1.1, 80), np.linspace(-3.2, 3.2, 80))
    levels = np.geomspace(0.05, 150, 10)
    axes[0].contour(x, y, (x**2 + k * y**2) / 2, levels=levels, colors=GREY, linewidths=0.6)
    looks = (("gradient descent", BLUE, "o", "-"), ("momentum", ORANGE, "s", "--"))
    for path, (name, colour, marker, line) in zip(ravine(k), looks, strict=True):
        axes[0].plot(*path[:41].T, line, marker=marker, ms=3.5, lw=1.1, color=colour, label=name)
    axes[0].plot(0, 0, "*", color=INK, ms=11)
    axes[0].set(
        title="κ = 30: the first 40 steps from (1, 1)",
        xlabel="flat direction",
        ylabel="steep direction",
    )
    axes[0].legend(loc="lower right")
    for k in (100, 1000):
        factors = (k - 1) / (k + 1), (k**0.5 - 1) / (k**0.5 + 1)
        for path, (_, colour, _, line), each in zip(paths[k], looks, factors, strict=True):
            error = np.linalg.norm(path, axis=1)[:1500]
            error = error[error > 1e-9]
            axes[1].plot(error, line, color=colour)
            axes[1].plot(each ** np.arange(len(error)), ":", color=INK, lw=1)
    for text, at, colour in (
        ("κ = 100", (330, 6e-3), BLUE),
        ("κ = 1000", (900, 4e-1), BLUE),
        ("100", (140, 2e-9), ORANGE),
        ("1000", (455, 2e-9), ORANGE),
    ):
        axes[1].text(*at, text, color=colour)
    axes[1].set(
        yscale="log",
        ylim=(1e-9, 40),
        title="distance; dotted: factor to the power t",
        xlabel="step t",
    )
show_figure(
    fig,
    "ravine",
    "Left, contours of a ravine: gradient descent zigzags from wall to wall, momentum swings in and arrives. Right, error by step "
    "on a logarithmic axis: straight lines, momentum's far steeper, each parallel to the predicted factor",
)

# %% [markdown]
# ## Adam
#
# One learning rate serves all weights, but their gradients differ by orders of magnitude: the row of a rare item gets little, a bias gets
# much. [Adam](https://arxiv.org/abs/1412.6980) (Kingma & Ba 2015) divides each weight's gradient by its usual size. It keeps two running means, of the gradient and of its square:
#
# $$m \leftarrow \beta_1 m + (1 - \beta_1)\,g, \qquad v \leftarrow \beta_2 v + (1 - \beta_2)\,g^2, \qquad
# w \leftarrow w - \eta\,\frac{\hat m}{\sqrt{\hat v} + \varepsilon} .$$
#
# What are the hats? Both means begin with 0, so that 0 weighs heavily at first. After $t$ steps $m$ is a sum of all gradients so far, with weights; *divide it by the sum of
# these weights* and it is a mean. The same for $v$. That sum is yours to derive: unroll three steps.
#
# ### Exercise `my_adam` (write the op, ★★☆, 10 min)
#
# One step, the `t`-th, counted from 1. $\varepsilon = 10^{-8}$ stands outside of the root. Return $m$ and $v$ without hats: they are the next step's.


# %%
def my_adam(w, g, m, v, t, lr, beta1, beta2):
    """Shapes: w, g, m and v (...), all others numbers -> the new w, m, v (...)."""
    ### BEGIN SOLUTION
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    mean, square = m / (1 - beta1**t), v / (1 - beta2**t)
    return w - lr * mean / (np.sqrt(square) + 1e-8), m, v
    ### END SOLUTION


# %%
check("my_adam", my_adam)

# %% [markdown]
# The first step is $\eta\,g / |g|$: **each weight moves by $\eta$, however large its gradient is.** Multiply the loss by 1,000, and Adam does not notice.
#
# Below are the three on a valley that bends, Rosenbrock's $L = (1 - x)^2 + 100\,(y - x^2)^2$. The rates are such that each follows the floor.

# %% tags=["hide-input"]
adam = yours("my_adam")


def rules(lr):
    """Each rule with its number of arrays of state."""
    return {
        "descent": (lambda w, g, t: (w - lr * g,), 0),
        "momentum": (lambda w, g, u, t: momentum(w, g, u, lr, 0.9), 1),
        "Adam": (lambda w, g, m, v, t: adam(w, g, m, v, t, lr, 0.9, 0.98), 2),
    }


def rosenbrock(w):
    return (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2


def rosenbrock_gradient(w):
    inner = w[1] - w[0] ** 2
    return np.array([-2 * (1 - w[0]) - 400 * w[0] * inner, 200 * inner])


start = np.array([-1.2, 1.0])
valley = {
    name: run(rules(lr)[name][0], rosenbrock_gradient, start, 400, rules(lr)[name][1])
    for name, lr in (("descent", 0.001), ("momentum", 0.0005), ("Adam", 0.05))
}
with style():
    fig, axes = figure(1, 2, size=(8.4, 3.6), width_ratios=(1.25, 1))
    x, y = np.meshgrid(np.linspace(-1.6, 1.4, 160), np.linspace(-0.6, 1.7, 160))
    axes[0].contour(
        x,
        y,
        rosenbrock(np.stack([x, y])),
        levels=np.geomspace(0.1, 1000, 11),
        colors=GREY,
        linewidths=0.6,
    )
    looks = (BLUE, "-", "o"), (ORANGE, "--", "s"), (GREEN, "-.", "^")
    for (name, path), (colour, line, marker) in zip(valley.items(), looks, strict=True):
        axes[0].plot(*path.T, line, color=colour, lw=1.2)
        axes[0].plot(*path[100::100].T, marker, color=colour, ms=6, label=name)
        axes[1].plot(rosenbrock(path.T), line, color=colour)
    axes[0].plot(1, 1, "*", color=INK, ms=11)
    axes[0].set(
        xlim=(-1.6, 1.4),
        ylim=(-0.6, 1.7),
        title="paths from (-1.2, 1); marked: every 100 steps",
        xlabel="x",
        ylabel="y",
    )
    axes[0].legend(loc="lower center")
    axes[1].set(yscale="log", ylim=(1e-3, 40), title="loss", xlabel="step")
show_figure(
    fig,
    "valley",
    "Left, a bent valley with the paths of gradient descent, momentum and Adam; right, their losses by step: descent is slowest",
)

# %% [markdown]
# Adam's $\hat m / \sqrt{\hat v}$ works entry by entry. **Predict:** turn the ravine of curvatures 1 and 1000 by 45°, so that its axis is no coordinate's. Which of the
# three need more steps?


# %% tags=["hide-cell"]
def lowest(name, R):
    """The loss after 300 steps on a ravine turned by R, with the best of nine learning rates."""
    H, losses = R @ np.diag([1, 1000]) @ R.T, []
    for lr in np.geomspace(1e-4, 1, 9):
        rule, arrays = rules(lr)[name]
        end = run(rule, lambda w: H @ w, R @ np.ones(2), 300, arrays)[-1]
        losses.append(end @ H @ end / 2)
    return f"{np.nanmin(losses):.0e}"


turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
with np.errstate(all="ignore"):  # some rates are too large
    rows = [[name, lowest(name, np.eye(2)), lowest(name, turn)] for name in rules(0)]
table("loss after 300 steps | axis along a coordinate | turned by 45°", rows)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Only Adam. The other two add gradients up, and sums turn with the axes. Adam rescales coordinates, which helps where the ravine lies along one.
#
# </details>
#
# ## Weight decay
#
# Large weights fit noise, so each step may also shrink them: $w \leftarrow w - \eta\,\lambda\,w$, here with the *decay* $\lambda$. With gradient descent this is the same as adding
# $\tfrac{\lambda}{2} \lVert w \rVert^2$ to the loss, whose gradient is $\lambda w$. Is it with Adam?
#
# ### Exercise `repaired_adamw` (find the bug, ★★☆, 5 min)
#
# A step should be $w \leftarrow w - \eta\,\bigl(\lambda w + \hat m / (\sqrt{\hat v} + \varepsilon)\bigr)$, with $m$ and $v$ means of $g$ and $g^2$ alone ([AdamW](https://arxiv.org/abs/1711.05101), Loshchilov & Hutter
# 2019). You may call `adam`.


# %%
def buggy_adamw(w, g, m, v, t, lr, decay):
    return adam(w, g + decay * w, m, v, t, lr, 0.9, 0.98)


def repaired_adamw(w, g, m, v, t, lr, decay):
    """Shapes: w, g, m and v (...), all others numbers -> the new w, m, v (...)."""
    ### BEGIN SOLUTION
    moved, m, v = adam(w, g, m, v, t, lr, 0.9, 0.98)
    return moved - lr * decay * w, m, v
    ### END SOLUTION


# %%
check("repaired_adamw", repaired_adamw)

# %% [markdown]
# **Predict:** a thousand weights begin at 1, and their gradients are noise, of size 0.1 for some and of size 10 for the others. After 200 steps with $\eta \lambda = 0.005$, which weights has
# each form shrunk to $0.995^{200} = 0.37$?

# %% tags=["hide-output"]
rows = []
for size in (0.1, 10):
    cells = []
    for rule in (buggy_adamw, yours("repaired_adamw")):
        rng = np.random.default_rng(0)
        path = run(
            lambda w, g, m, v, t: rule(w, g, m, v, t, 0.01, 0.5),
            lambda w: size * rng.standard_normal(1000), np.ones(1000), 200, arrays=2,
        )  # fmt: skip
        cells.append(path[-1].mean())
    rows.append([size, *cells])
table("size of gradients | λ w in the gradient | decoupled", rows, digits=2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Decoupled, both. In the gradient, $\lambda w$ is divided by $\sqrt{\hat v}$ like all else: weights with large gradients hardly decay, and those with small ones decay too fast.
#
# </details>
#
# ## Warm-up, and a rate that falls
#
# Let a gradient be pure noise. Its mean over many steps is near 0, and Adam should hardly move. **Predict:** how long is Adam's step then, as a share of $\eta$, at $t = 1$ and later?

# %% tags=["hide-output"]
noise = np.random.default_rng(1)
path = run(
    rules(1.0)["Adam"][0], lambda w: noise.standard_normal(5000), np.zeros(5000), 200, arrays=2
)
share = np.sqrt((np.diff(path, axis=0) ** 2).mean(axis=1))
table("step | length / η", [[t, share[t - 1]] for t in (1, 2, 5, 10, 30, 100, 200)], digits=2)

# %% [markdown]
# <details><summary>Answer</summary>
#
# At first it is all of $\eta$: one gradient is its own mean, $\hat m / \sqrt{\hat v} = \pm 1$. Later $\hat m$ averages about $1 / (1 - \beta_1)$ gradients, and
# its size is $\sqrt{(1 - \beta_1) / (1 + \beta_1)} = 0.23$.
#
# </details>
#
# So the first steps are the longest and know least. A *warm-up* lets the rate grow from 0. And at the end, steps of constant length hop around the minimum, as Adam did in the valley near step 380. So the rate should fall, often along half a cosine.
# With the peak $\eta$, $W$ steps of warm-up and $T$ steps in all,
#
# $$\eta_t = \eta\,\frac{t}{W} \;\text{ for } t \le W, \qquad
# \eta_t = \frac{\eta}{2} \left(1 + \cos \pi\,\frac{t - W}{T + 1 - W}\right) \;\text{ after.}$$
#
# ### Exercise `my_rate` (write the op, ★☆☆, 4 min)
#
# Return $\eta_t$ for one step, $1 \le t \le T$ and $1 \le W \le T$.


# %%
def my_rate(t, peak, warmup, steps):
    """Numbers: t from 1 to steps -> the learning rate of step t."""
    ### BEGIN SOLUTION
    if t <= warmup:
        return peak * t / warmup
    return peak * (1 + np.cos(np.pi * (t - warmup) / (steps + 1 - warmup))) / 2
    ### END SOLUTION


# %%
check("my_rate", my_rate)

# %% [markdown]
# ## Clipping
#
# A single batch may have a gradient a thousand times as long as the others. Gradient descent is thrown far off. Adam's step is bounded. **Predict:** constant gradients
# of 1, and one of 1,000 at step 50. For how long does Adam feel it?

# %% tags=["hide-output"]
gradients = np.ones(700)
gradients[49] = 1000
rows, shown = [], (49, 50, 51, 60, 100, 200, 400, 600)
for most in (np.inf, 2.0):
    stream = iter(np.minimum(gradients, most)[:, None])
    path = run(rules(1.0)["Adam"][0], lambda w: next(stream), np.zeros(1), 700, arrays=2)
    rows.append(-np.diff(path[:, 0])[[t - 1 for t in shown]])
table(
    "step | length / η | clipped to 2",
    [[t, *r] for t, *r in zip(shown, *rows, strict=True)],
    digits=2,
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# For hundreds of steps: $v$ remembers the square, a million, and forgets 2 % of it a step. Clipped, it is forgotten soon.
#
# </details>
#
# Clipping scales a gradient that is longer than $c$ to the length $c$, and leaves others as they are. Its direction must stay, so **all arrays of a network get one factor**, from the norm of all their entries together
# ([Pascanu et al. 2013](https://arxiv.org/abs/1211.5063)).
#
# ### Exercise `my_clip_factor` (write the op, ★☆☆, 4 min)
#
# Arrays may have any shapes. If all are 0, the factor is 1.


# %%
def my_clip_factor(gradients, most):
    """A list of arrays, and c -> the factor for all of them, one number."""
    ### BEGIN SOLUTION
    norm = np.sqrt(sum((g**2).sum() for g in gradients))
    return most / max(norm, most)
    ### END SOLUTION


# %%
check("my_clip_factor", my_clip_factor)

# %% [markdown]
# ## Is this what the library does?
#
# Four functions of yours make a step. `Learner` is what `tinyattn train` steps with. Both train the recommender of chapter 00, a small one, from the same start:

# %%
split = leave_one_out(
    SeriesWorld(series=9, episodes=6, users=2000, shortest=8, longest=24).generate()
)
how = dict(lr=0.01, warmup=5, schedule="cosine", weight_decay=0.1, clip_norm=0.3)
model = SASRec(maxlen=16, dim=24, blocks=1, dropout=0.0, loss="ce", **how)
network = model.make_network(split.train.n_items, split.train.n_users)
sampler = Sampler(split.train, maxlen=16, batch_size=32, seed=1, negatives=True)
batches = [sampler.batch(step) for step in range(60)]

learner = Learner(network, model, batches[:1], 20)
weights = {name: w.copy() for name, w in leaves(learner.p)}
with learner.pool(1) as pool:
    for step, batch in enumerate(batches[:20]):
        learner.differentiate([batch], step, np.zeros(2), pool)
        learner.update(step + 1)

# %%
factor, rate, adamw = yours("my_clip_factor"), yours("my_rate"), yours("repaired_adamw")


def gradients_of(p, batch):
    _, cache = network.loss(p, batch)
    return dict(leaves(network.loss_backward(p, 1.0, cache)))


p = network.init(np.random.default_rng(0))  # a tree of arrays, filled below
moments = {name: [np.zeros_like(w)] * 2 for name, w in weights.items()}
for name, w in leaves(p):
    w[...] = weights[name]
for t, batch in enumerate(batches[:20], start=1):
    grads = gradients_of(p, batch)
    scale = factor(list(grads.values()), 0.3)
    for name, w in leaves(p):
        decay = 0.1 if w.ndim > 1 else 0.0  # of matrices, not of biases and gains
        w[...], *moments[name] = adamw(
            w, scale * grads[name], *moments[name], t, rate(t, 0.01, 5, 20), decay
        )
theirs = dict(leaves(learner.p))
print("the library's weights:", all(np.allclose(w, theirs[n], atol=1e-5) for n, w in leaves(p)))

# %% [markdown]
# ## Muon: a step for matrices
#
# What *is* a small step? Say how a step $\Delta$ is measured, and ask which one of size 1 lowers the loss most: the one with the largest $\langle G, \Delta \rangle$, to be
# subtracted.
#
# - Measured by the root of the sum of squares: $\Delta = G / \lVert G \rVert$, gradient descent.
# - Measured by the largest entry: $\Delta = \operatorname{sign}(G)$, Adam's first step.
# - But $W$ is a map, $y = x W$. Measure the most that $x \Delta$ can be, for $x$ of length 1.
#
# Every matrix is $G = U \Sigma V^\top$: a turn, a stretch by *singular values* $\sigma_i \ge 0$ on a diagonal, another turn; the columns of $U$ and $V$ are orthogonal, of length 1. Then
#
# $$\langle G, \Delta \rangle = \sum_i \sigma_i\, u_i^\top \Delta\, v_i \le \sum_i \sigma_i ,$$
#
# since no $u_i^\top \Delta v_i$ is above 1, and $\Delta = U V^\top$ reaches it. **The best step has all singular values 1.** Weak directions in $G$ move as far as
# strong ones. ([Bernstein & Newhouse 2024](https://arxiv.org/abs/2409.20325) read Adam and others so.)
#
# A decomposition at each step is slow. But products can do it:
#
# $$X X^\top X = U \Sigma\, (V^\top V)\, \Sigma\, (U^\top U)\, \Sigma V^\top = U \Sigma^3 V^\top .$$
#
# So $a X + b\, X X^\top X + c\, (X X^\top)^2 X$ has the same $U$ and $V$, and the singular values $p(\sigma) = a \sigma + b \sigma^3 + c \sigma^5$: **an odd polynomial of a matrix acts on its singular values
# alone.** (An even power would lose a turn: $X X^\top = U \Sigma^2 U^\top$.) Repeat a $p$ that carries all of $(0, 1]$ towards 1. [Muon](https://kellerjordan.github.io/posts/muon/) (Jordan et al. 2024)
# repeats five times $p(\sigma) = 3.4445\,\sigma - 4.7750\,\sigma^3 + 2.0315\,\sigma^5$, after dividing $G$ by $\lVert G \rVert$, the root of the sum of squares, so that no $\sigma$ is above 1.

# %% tags=["hide-input"]
a, b, c = 3.4445, -4.7750, 2.0315
s = np.linspace(0, 1, 801)
jordan = [s]
cubic = [s]
for _ in range(5):
    jordan.append(a * jordan[-1] + b * jordan[-1] ** 3 + c * jordan[-1] ** 5)
    cubic.append(1.5 * cubic[-1] - 0.5 * cubic[-1] ** 3)
reached = jordan[5][s >= 0.01]
print(f"five times, from 0.01 on: between {reached.min():.2f} and {reached.max():.2f}")
with style():
    fig, axes = figure(1, 2, size=(8.4, 3.2), sharey=True)
    for ax, curves, title in (
        (axes[0], cubic, "(3σ - σ³) / 2"),
        (axes[1], jordan, "Muon's polynomial"),
    ):
        ax.axhspan(reached.min(), reached.max(), color=GREY, alpha=0.18, lw=0)
        for times, colour, line in ((1, BLUE, ":"), (3, ORANGE, "--"), (5, INK, "-")):
            ax.plot(s, curves[times], line, color=colour, label=f"{times} time{'s' * (times > 1)}")
        ax.set(title=title, xlabel="singular value before", ylim=(0, 1.3))
    axes[0].set_ylabel("singular value after")
    axes[0].legend(loc="lower right")
show_figure(
    fig,
    "singular-values",
    "Two polynomials applied once, three and five times to values from 0 to 1. The cubic comes to 1 but leaves small values small; "
    "Muon's lifts values from 0.01 on into a band around 1, and stays wavy there",
)

# %% [markdown]
# ### Exercise `my_newton_schulz` (write the op, ★★☆, 8 min)
#
# Five times, with products of matrices. $G$ need not be square. A $G$ of zeros stays so, without NaN.


# %%
def my_newton_schulz(G):
    """Shapes: G (n, m) -> X (n, m), with G's U and V and with singular values near 1."""
    ### BEGIN SOLUTION
    X = G / (np.linalg.norm(G) + 1e-20)
    for _ in range(5):
        A = X @ X.T
        X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
    return X
    ### END SOLUTION


# %%
check("my_newton_schulz", my_newton_schulz)

# %% [markdown]
# ### Exercise `turns_with_the_basis` (write the property that kills this bug, ★★★, 8 min)
#
# Adam depended on the coordinates. A step that acts on singular values alone must not: turn the inputs by $Q$ and the outputs by $R$, both orthogonal, and the step turns with them. Write this as a test of any `step(G) -> X`. It should
# be False for `buggy_step`, where `X**3` stands for $X X^\top X$, and for a step that respects only one of the two. (`np.linalg.qr` of a random matrix gives an orthogonal one.)


# %%
def buggy_step(G):
    X = G / np.linalg.norm(G)
    for _ in range(5):
        X = 3.4445 * X - 4.7750 * X**3 + 2.0315 * X**5
    return X


def turns_with_the_basis(step):
    """True where step(Q G R) = Q step(G) R for orthogonal Q and R."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    G = rng.standard_normal((4, 6))
    Q, R = (np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (4, 6))
    return np.allclose(step(Q @ G @ R), Q @ step(G) @ R)
    ### END SOLUTION


# %%
check("turns_with_the_basis", turns_with_the_basis)

# %%
newton_schulz = yours("my_newton_schulz")
G = np.random.default_rng(2).standard_normal((24, 32))
print("the library's `orthogonal`:", np.allclose(newton_schulz(G), orthogonal(G)))

# %% [markdown]
# ## All of them, on the recommender
#
# Muon as used: momentum with $\beta = 0.95$, of which $\beta u + g$ is taken (Nesterov's form), then the five products. An orthogonal $n \times m$ matrix has entries of about $1 / \sqrt{\max(n, m)}$; times
# $0.2 \sqrt{\max(n, m)}$ a step is as large as Adam's usual one ([Liu et al. 2025](https://arxiv.org/abs/2502.16982)). Only matrices inside the blocks take it; tables, biases and gains take Adam.
#
# A comparison at one learning rate says nothing. Here are five for each rule, 60 steps, one start, and the loss of 400 people afterwards: $-\log$ of the chance that
# the model gives to what came next. **Predict:** which has the lowest minimum, and which the widest valley?

# %% tags=["hide-output"]
checked = Sampler(split.train, maxlen=16, batch_size=400, seed=9, negatives=True).batch(0)


def trained(name, lr, warmup=1):
    """The loss after 60 steps."""
    p = network.init(np.random.default_rng(0))
    state = {key: [np.zeros_like(w)] * 2 for key, w in leaves(p)}
    for t, batch in enumerate(batches, start=1):
        grads, now = gradients_of(p, batch), lr * min(1, t / warmup)
        for key, w in leaves(p):
            g, (first, second) = grads[key], state[key]
            if name == "descent":
                w -= now * g
            elif name == "momentum":
                w[...], first = momentum(w, g, first, now, 0.9)
            elif name == "Muon" and key.startswith("blocks") and w.ndim == 2:
                first = 0.95 * first + g
                w -= now * 0.2 * np.sqrt(max(w.shape)) * newton_schulz(0.95 * first + g)
            else:
                w[...], first, second = adam(w, g, first, second, t, now, 0.9, 0.98)
            state[key] = [first, second]
    return network.loss(p, checked)[0]


low, high = np.geomspace(0.001, 0.1, 5), np.geomspace(0.03, 3, 5)
with np.errstate(all="ignore"):
    sweep = {name: (high, [trained(name, lr) for lr in high]) for name in ("descent", "momentum")}
    sweep |= {name: (low, [trained(name, lr) for lr in low]) for name in ("Adam", "Muon")}
    sweep["Adam, warm-up 20"] = low, [trained("Adam", lr, 20) for lr in low]
rows = []
for name, (lrs, losses) in sweep.items():
    best = np.nanargmin(losses)
    rows.append([name, losses[best], f"{lrs[best]:.2g}"])
table("rule | lowest loss | at η", rows)

# %% tags=["hide-cell"]
with style():
    fig, ax = figure(size=(7.4, 3.6))
    looks = (
        (BLUE, "-", "o"),
        (ORANGE, "--", "s"),
        (GREEN, "-.", "^"),
        (PURPLE, "-", "D"),
        (GREY, ":", "v"),
    )
    for (name, (lrs, losses)), (colour, line, marker) in zip(sweep.items(), looks, strict=True):
        ax.plot(lrs, losses, line, marker=marker, ms=5, color=colour, label=name)
    ax.set(xscale="log", xlabel="learning rate η", title="loss after 60 steps", ylim=(2.2, 4.2))
    ax.legend(loc="upper right")
show_figure(
    fig,
    "rates",
    "Loss after 60 steps against the learning rate, a U for each of five rules: Muon's and Adam's minima are the lowest",
)

# %% [markdown]
# <details><summary>Answer</summary>
#
# Muon, in both. By their minima Adam, momentum and descent follow; momentum's valley is the second widest, as Adam's loss climbs steeply above its best rate. A warm-up makes that climb gentler, and no
# minimum deeper (it shortens 19 of only 60 steps). A rate that is three times off costs about as much as the next rule brings, or more. (One seed is one draw: try another in `trained`.)
#
# </details>
#
# | what is often said | what the cells above show |
# |---|---|
# | momentum helps because it smooths noise | without any noise it needs 22 times fewer steps at κ = 1000 |
# | Adam adapts to the curvature | to that along coordinates; turn the ravine by 45°, and most of the gain is gone |
# | weight decay is L2 regularisation | for gradient descent; with Adam, λ w in the gradient decays some weights too fast and others hardly |
# | Newton-Schulz makes a matrix orthogonal | five steps leave singular values in a band around 1, and do not converge |
#
# ## In five lines
#
# - Gradient descent shrinks direction i by $1 - \eta\lambda_i$: the steepest limits $\eta$, the flattest pays, and the condition number κ counts the steps.
# - Momentum at its best shrinks all directions by $\sqrt\beta$, since the step's determinant is β: √κ in place of κ.
# - Adam divides by the usual size of each entry's gradient: no scale matters, but the choice of coordinates does.
# - Decay acts on weights and not on gradients; warm-up is for the first steps, which know least; one factor clips all arrays.
# - The best step of a map has singular values 1, and odd polynomials bring them there by products.
#
# To read: G. Goh, [Why momentum really works](https://distill.pub/2017/momentum/) (2017). The library's rules: `tinyattn.training`, and `tinyattn train --optimizer muon`; `tinyattn check FILE --as adam` asks more of
# yours. Next: [11, before SASRec](11_before_sasrec.ipynb), on recommenders that do without attention.
