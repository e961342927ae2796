# %% [markdown]
# # 09 · How to know you are right
#
# A recommender was trained on MovieLens, for three epochs, with half a softmax backward: $p (1 - p) \, dp$, without the sum. Before the first step, the gradient of all
# its parameters was 10° off the right one. The code ran, the shapes fitted, the loss fell, and the recommendations came out half as good
# ([measured](../benchmarks/results/reproduce/bugs/README.md)). With nothing to compare, that is easily missed.
#
# So far `check` has told you what is right. Out there, nobody has written a `check` for what you are about to build. **How will you know that it is
# right?**
#
# In this chapter you build the instrument yourself: a gradient checker in ten lines, an oracle, a handful of properties. Then you try
# it on ten planted bugs, and find out which of your tests are worth anything.
#
# **You need**: finite differences ([03](03_gradients.ipynb)), attention's backward ([04](04_attention_backward.ipynb)), masks and leaks
# ([05](05_masks.ipynb)), LayerNorm ([08](08_block.ipynb)).
#
# **You will be able to**:
#
# - write a gradient checker, and say which inputs make it blind;
# - write a property that needs no right answer to compare with;
# - measure a test by the bugs that it catches.

# %%
import math

import numpy as np

from tinyattn import ops
from tinyattn.check import check_in_process, gradcheck
from tinyattn.check.zoo import ZOO
from tinyattn.course import buggy, check, road, show_arrays, show_figure, table, yours
from tinyattn.ops import causal_mask, softmax, softmax_backward
from tinyattn.show import figure, style
from tinyattn.show.style import BLUE, GREY, INK, ORANGE

road(9)

# %% [markdown]
# ## Ten bugs, and a loss that falls
#
# [The zoo](../tinyattn/check/zoo/attention.toml) keeps implementations of attention that are wrong in one way each. Here are ten of them. Each
# mistake is easily made, and all return the right shapes.

# %%
BUGS = {
    "no_scale": "no division by √d, forward and backward",
    "scale_of_keys": "divides by √(number of keys)",
    "softmax_axis": "softmax runs along the queries",
    "no_rowmax": "exp without subtracting the maximum",
    "off_by_one_peek": "the mask shows one key too many",
    "scale_np64": "a NumPy scalar makes float32 float64",
    "softmax_diag": "softmax's backward: only p (1 - p) dp",
    "rowsum_missing": "softmax's backward: no sum subtracted",
    "dv_missing_batch": "the first sentence's dv for all sentences",
    "backward_changes_input": "the backward writes into dout",
}
ATTENTIONS = {name: ZOO["attention"].make(frozenset([name])) for name in BUGS} | {"right": ops}

# %% [markdown]
# The test that everybody has is training. SASRec, the recommender of [chapter 12](12_sasrec.ipynb), was trained with each of the ten, three times: six epochs on
# a generated world and three on MovieLens 1M, far from the end of training. **Predict:** with how many of them are its recommendations as good as without a bug?
#
# <details><summary>Answer</summary>
#
# The angle is between the gradient with the bug and without it, before training. The score is NDCG@10, which [chapter 13](13_not_to_fool_yourself.ipynb)
# explains: higher is better. A dot means that the score differs from one without a bug no more than another seed's does.
#
# | bug | world: angle | score | MovieLens: angle | score |
# |---|---|---|---|---|
# | `no_scale` | 74° | −43 % | 70° | −50 % |
# | `scale_of_keys` | 20° | −2 % | 0° | · |
# | `softmax_axis` | 53° | −68 % | 42° | −53 % |
# | `no_rowmax` | 0° | · | 0° | · |
# | `off_by_one_peek` | 33° | −21 % | 18° | −72 % |
# | `scale_np64` |  | it raises |  | it raises |
# | `softmax_diag` | 18° | −49 % | 10° | −50 % |
# | `rowsum_missing` | 25° | −54 % | 12° | −46 % |
# | `dv_missing_batch` | 66° | −39 % | 41° | −33 % |
# | `backward_changes_input` | 0° | · | 0° | · |
#
# Two change nothing: no logit is large enough for exp to overflow, and nobody reads `dout` again. One raises, since this training takes float32
# alone. Six cost a fifth to three quarters of the score. In all six the loss fell below where it began, without a warning, and furthest with
# `off_by_one_peek`, which shows the answers. (After its first epoch it rose a little in some runs of `softmax_axis` and `rowsum_missing`.) And `scale_of_keys` costs something on the generated
# world only: on MovieLens the model reads 50 films and attention is 50 wide, so the number of keys *is* the width.
#
# </details>
#
# A recommender trains for minutes. Here is a training that takes a blink: gradient descent moves the queries, keys and values of six tokens, so that
# attention's output comes near a target. Each implementation uses its own forward and backward.


# %%
def losses(op, steps=90, rate=0.08):
    """The loss of every step of gradient descent with this attention."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((6, 4)), rng.standard_normal((6, 4)), rng.standard_normal((6, 4))
    target = np.random.default_rng(9).standard_normal((6, 4))
    seen = []
    for _ in range(steps):
        out, p = op.attention(q, k, v)
        error = out - target
        seen.append((error**2).sum() / 2)
        dq, dk, dv = op.attention_backward(error.copy(), q, k, v, p)[:3]
        q, k, v = q - rate * dq, k - rate * dk, v - rate * dv
    return np.array(seen)


curves = {name: losses(op) for name, op in ATTENTIONS.items()}

# %% tags=["hide-input"]
SHOWN = ("softmax_axis", "softmax_diag", "no_scale", "right", "rowsum_missing", "scale_of_keys")
STYLES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 3)))
COLOURS = (BLUE, ORANGE, GREY, INK, BLUE, ORANGE)
with style():
    fig, ax = figure(size=(6.6, 3.4))
    for name, line, colour, letter, marker in zip(
        SHOWN, STYLES, COLOURS, "ABCDEF", "os^Dv*", strict=True
    ):
        how = {
            "color": colour,
            "linestyle": line,
            "marker": marker,
            "markevery": 16,
            "label": letter,
        }
        ax.plot(curves[name], **how)
    ax.set(yscale="log", xlabel="step", title="six losses")
    ax.legend(ncols=2, loc="lower left")
show_figure(
    fig,
    "losses",
    "Six losses, A to F, that all end below where they began; A jumps upwards twice on its way, the others fall smoothly",
)

# %% [markdown]
# **Predict:** one of these six curves is that of the right attention. Which?
#
# <details><summary>Answer</summary>
#
# D is right, and it is neither the lowest nor the fastest. A runs softmax along the wrong axis, B has only the diagonal of softmax's Jacobian, C
# forgets the scale, E has no row sum, F divides by the root of the number of keys. The other five bugs give curve D up to rounding: this training
# never touches what they do wrong.
#
# </details>
#
# A falling loss says that the steps have something to do with the gradient, not that they *are* the gradient. We need tests that ask more.
#
# ## First test: the same in plain loops
#
# An *oracle* is a second implementation that is too simple to be wrong: one loop for every index of the formula, no axis, no broadcasting,
# no transpose. It may be slow.


# %%
def slow_attention(q, k, v):
    """Attention as the formula says it, for one sentence. Shapes: q (n, d), k (m, d), v (m, e) -> out (n, e)."""
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        s = [sum(a * b for a, b in zip(q[i], key, strict=True)) / math.sqrt(len(key)) for key in k]
        total = sum(math.exp(logit - max(s)) for logit in s)
        for j in range(len(k)):
            out[i] += math.exp(s[j] - max(s)) / total * v[j]
    return out


def inputs(n, m, d, *lead, size=1.0):
    rng = np.random.default_rng(n + m)
    shapes = ((*lead, n, d), (*lead, m, d), (*lead, m, d))
    return [size * rng.standard_normal(shape) for shape in shapes]


def like_loops(op, n, m, d, size=1.0):
    """True where the output is that of the loops, on these sizes."""
    q, k, v = inputs(n, m, d, size=size)
    with np.errstate(all="ignore"):
        return np.allclose(op.attention(q, k, v)[0], slow_attention(q, k, v))


# %% [markdown]
# On which inputs? **Predict:** which of the ten bugs are seen with one token, which with four tokens of width 4, which with 3 queries, 5 keys and
# width 4?

# %% tags=["hide-output"]
rows = []
for name in BUGS:
    sizes = ((1, 1, 4), (4, 4, 4), (3, 5, 4))
    rows.append([name, *("·" if like_loops(ATTENTIONS[name], *s) else "caught" for s in sizes)])
table("bug | 1 token | 4 tokens, width 4 | 3 queries, 5 keys, width 4", rows)

# %% [markdown]
# **One token catches nothing**: with a single key every softmax is 1 and the output is $v$, whatever the logits are. And with four keys of width
# 4 the number of keys *is* the width: the two scales agree. So give every axis a size of its own, and none the size 1.
#
# ## Second test: gradients, along one direction
#
# Loops say nothing about the backward. In [chapter 03](03_gradients.ipynb) you moved every entry of an input both ways: two runs for each. There is
# a cheaper question. Let $y = f(x)$, and draw two random arrays: $u$, shaped like $y$, and a direction $t$, shaped like $x$. The loss
# $\langle u, y \rangle$ has the gradient $dx$ that the backward returns for $dy = u$. So, if $x$ moves by $h t$,
#
# $$\frac{\langle u,\, f(x + h t) \rangle - \langle u,\, f(x - h t) \rangle}{2h} \;\approx\; \langle dx, t \rangle .$$
#
# On the left are two runs of the forward, on the right one of the backward. With the Jacobian $J$ this reads
# $\langle u, J t \rangle = \langle J^\top u, t \rangle$; it is called the *adjoint test*. All entries take part at once, and a wrong one has to be very lucky to cancel.
#
# What is a large difference? Compare it with the numbers themselves: $\;error = |a - b| \,/\, \max(|a|, |b|)$, and 0 where both are 0.
#
# ### Exercise `my_gradcheck` (write the op, ★★☆, 12 min)
#
# Given `f(x) -> y` and `f_backward(dy, x) -> dx`, return the relative error as a number: along a random direction, or, if you prefer, the largest over
# all entries, relative to the largest entry. It will be tried on right backwards, where it must be below 0.0001, and on wrong
# ones, where it must be above 0.001.


# %%
def my_gradcheck(f, f_backward, x):
    """f(x) -> y and f_backward(dy, x) -> dx, for float64 arrays of any shape -> the relative error, a number."""
    ### BEGIN SOLUTION
    rng, h = np.random.default_rng(0), 1e-5
    t = rng.standard_normal(x.shape)
    above, below = f(x + h * t), f(x - h * t)
    u = rng.standard_normal(above.shape)
    measured = (u * (above - below)).sum() / (2 * h)
    derived = (f_backward(u, x) * t).sum()
    return abs(measured - derived) / max(abs(measured), abs(derived), 1e-300)
    ### END SOLUTION


# %%
check("my_gradcheck", my_gradcheck)

# %% [markdown]
# Now to work with it. Here is your own LayerNorm of [chapter 08](08_block.ipynb):

# %%
checker = yours("my_gradcheck")
layer_norm, layer_norm_backward = yours("my_layer_norm"), yours("my_layer_norm_backward")
x, gamma, beta = np.random.default_rng(3).standard_normal((3, 2, 4))


def norm(x):
    return layer_norm(x, gamma[0], beta[0])[0]


def norm_backward(dy, x):
    return layer_norm_backward(dy, *layer_norm(x, gamma[0], beta[0])[1:], gamma[0])[0]


print("its error is below one in a million:", checker(norm, norm_backward, x) < 1e-6)

# %% [markdown]
# ### Why $u$ is random
#
# `out.sum()` would make all of $u$ ones. Then the true gradient is 0, and the test compares rounding with rounding: for softmax, whose weights sum to 1
# whatever $x$ is ([chapter 03](03_gradients.ipynb)), and for a LayerNorm that begins with $\gamma = 1$, since every $\hat x$ sums to 0. A random $u$ asks about all
# outputs, each with a weight of its own.
#
# ### How small is small?
#
# A right backward is not found to be exactly right: differences have errors of their own ([chapter 03](03_gradients.ipynb)). Here is the error that the
# test shows for a right backward of softmax, and for one that is 1 % too large. (Medians over 300 inputs, rounded up to a power of ten: the digits
# of noise are each machine's own.)


# %% tags=["hide-input"]
def shown_error(dtype, h, factor):
    """The median error of a backward that is off by `factor`, where all arrays are of this dtype."""
    errors = []
    for seed in range(300):
        x, u, t = np.random.default_rng(seed).standard_normal((3, 3, 4)).astype(dtype)
        change = softmax(x + dtype(h) * t) - softmax(x - dtype(h) * t)
        measured, derived = (
            (u * change).sum() / (2 * h),
            factor * (softmax_backward(u, softmax(x)) * t).sum(),
        )
        errors.append(abs(measured - derived) / max(abs(measured), abs(derived)))
    return f"about {10.0 ** math.ceil(math.log10(np.median(errors))):.0e}"


rows = [
    [dtype.__name__, f"{h:g}", shown_error(dtype, h, 1.0), shown_error(dtype, h, 1.01)]
    for dtype, h in ((np.float64, 1e-5), (np.float32, 1e-6), (np.float32, 1e-2))
]
table("precision | h | right backward | 1 % too large", rows)

# %% [markdown]
# In float64 there are many powers of ten between right and wrong, and any tolerance between them will do. In float32 with a small step, noise
# drowns both: a tolerance that lets the right one pass lets a bug pass, too. A larger step helps, but which one, for the next function?
# **Check gradients in float64**, and then compare the float32 backward with it.
#
# ## Third test: properties
#
# An oracle has a weakness: the same person writes it. If you believe that attention divides by $d$, so will your loops. A *property* needs
# no right answer. It says how two answers are related:
#
# - what must **not** change: under a causal mask, earlier outputs when a later token changes ([05](05_masks.ipynb)); a token's LayerNorm, whatever stands beside
#   it ([08](08_block.ipynb));
# - what must change **in a known way**: shuffle the queries, and outputs are shuffled alike; add 3 to all values, and outputs grow by 3.
#
# ### Exercise `twins_change_nothing` (write the property that kills this bug, ★★☆, 10 min)
#
# One bug divides logits by the root of the *number of keys*. Find a change of keys and values under which right attention gives the same
# output, and this one does not. (What if every key had a twin, with the same value?) You are given `attention(q, k, v) -> out, p`.
# `buggy("twins_change_nothing")` hands you the wrong one, to try your property on. It returns outputs that look as good as the right ones:

# %%
wrong = buggy("twins_change_nothing")
q, k, v = inputs(1, 3, 4)
show_arrays(right=ops.attention(q, k, v)[0], wrong=wrong(q, k, v)[0])


# %%
def twins_change_nothing(attention):
    """True where the number of keys does not matter by itself."""
    ### BEGIN SOLUTION
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4)), rng.standard_normal((5, 4)), rng.standard_normal((5, 2))
    once = attention(q, k, v)[0]
    with_twins = attention(q, np.concatenate([k, k]), np.concatenate([v, v]))[0]
    return np.allclose(once, with_twins)
    ### END SOLUTION


# %%
check("twins_change_nothing", twins_change_nothing)

# %% [markdown]
# With more twins the weights of the wrong one become ever flatter, and its output moves towards the mean of all values:

# %%
show_arrays(
    one_of_each_key=wrong(q, k, v)[0],
    two_of_each=wrong(q, np.tile(k, (2, 1)), np.tile(v, (2, 1)))[0],
    hundred_of_each=wrong(q, np.tile(k, (100, 1)), np.tile(v, (100, 1)))[0],
    mean_of_values=v.mean(axis=0),
)

# %% [markdown]
# ## Who tests the tests?
#
# How good is a test? Not: how many lines does it run? The loops with one token run every line of the forward, and see nothing. Ask how many bugs it catches.
# [DeMillo, Lipton & Sayward (1978)](https://doi.org/10.1109/C-M.1978.218136) proposed to plant small mistakes on purpose and to count: *mutation testing*.
#
# Thirteen tests, each a line or two with what we have; the last one is the property that you were asked for. Each returns True where it
# finds nothing wrong. (The longer ones are in the folded cell.)


# %% tags=["hide-input"]
def gradients_agree(op, n, m, d, *lead):
    """By your checker: for q, k and v in turn."""
    given = inputs(n, m, d, *lead)
    errors = []
    for i in range(3):

        def f(x, i=i):
            return op.attention(*given[:i], x, *given[i + 1 :])[0]

        def f_backward(dy, x, i=i):
            now = (*given[:i], x, *given[i + 1 :])
            return op.attention_backward(dy, *now, op.attention(*now)[1])[i]

        errors.append(checker(f, f_backward, given[i]))
    return max(errors) < 1e-4


def later_token_is_unseen(op):
    q, k, v = inputs(4, 4, 3)
    mask = causal_mask(4, like=q)
    before = op.attention(q, k, v, mask)[0]
    k[3], v[3] = 9.0, 9.0
    return np.allclose(before[:3], op.attention(q, k, v, mask)[0][:3])


def dout_is_left_alone(op):
    q, k, v = inputs(3, 5, 4)
    out, p = op.attention(q, k, v)
    dout = out.copy()
    op.attention_backward(dout, q, k, v, p)
    return np.array_equal(dout, out)


def stays_float32(op):
    return op.attention(*(a.astype(np.float32) for a in inputs(3, 5, 4)))[0].dtype == np.float32


def twins_are_unseen(op):
    q, k, v = inputs(3, 5, 4)
    twins = op.attention(q, np.concatenate([k, k]), np.concatenate([v, v]))[0]
    return np.allclose(op.attention(q, k, v)[0], twins)


# %%
TESTS = {
    "the shape is right": lambda op: op.attention(*inputs(3, 5, 4))[0].shape == (3, 4),
    "the loss falls": lambda op: losses(op)[-1] < losses(op)[0],
    "loops: 1 token": lambda op: like_loops(op, 1, 1, 4),
    "loops: 4 tokens, width 4": lambda op: like_loops(op, 4, 4, 4),
    "loops: 3 × 5, width 4": lambda op: like_loops(op, 3, 5, 4),
    "loops: logits of 10,000": lambda op: like_loops(op, 3, 5, 4, size=100),
    "gradients: 1 token": lambda op: gradients_agree(op, 1, 1, 4),
    "gradients: 3 × 5": lambda op: gradients_agree(op, 3, 5, 4),
    "gradients: 2 sentences": lambda op: gradients_agree(op, 3, 5, 4, 2),
    "a later token is unseen": later_token_is_unseen,
    "dout is left alone": dout_is_left_alone,
    "float32 stays float32": stays_float32,
    "a key twice: the output stays": twins_are_unseen,
}

# %% [markdown]
# ### Exercise `caught_by_one_token` (predict the number, ★★☆, 3 min)
#
# Take two of them: the loops with one token, and the gradients with one token. How many of the ten bugs do *the two together* catch? (With one
# key, $p = 1$. Put that into the two wrong backwards of softmax.)

# %%
### BEGIN SOLUTION
caught_by_one_token = 1
### END SOLUTION

# %%
check("caught_by_one_token", caught_by_one_token)

# %% [markdown]
# Now all tests against all bugs (folded: it answers the exercise). A filled circle means: this test catches this bug. The right attention passes all tests, of course; a test that rejects
# it is no test.

# %% tags=["hide-cell"]
with np.errstate(all="ignore"):
    caught = np.array([[not test(ATTENTIONS[bug]) for bug in BUGS] for test in TESTS.values()])
    sound = all(test(ops) for test in TESTS.values())
order = sorted(range(len(TESTS)), key=lambda i: caught[i].sum())
with style():
    fig, ax = figure(size=(7.6, 4.9))
    for y, i in enumerate(order):
        for x_at in range(len(BUGS)):
            if caught[i, x_at]:
                ax.plot(x_at, y, "o", color=BLUE, markersize=11)
            else:
                ax.plot(x_at, y, ".", color=GREY, markersize=3)
        ax.text(len(BUGS) - 0.2, y, f"{caught[i].sum()}", va="center", fontsize=10)
    ax.text(len(BUGS) - 0.35, len(TESTS) - 0.3, "of 10", fontsize=10)
    ax.set_yticks(range(len(TESTS)), [list(TESTS)[i] for i in order])
    ax.set_xticks(range(len(BUGS)), list(BUGS), rotation=40, ha="right")
    ax.set(xlim=(-0.5, len(BUGS) + 0.4), ylim=(-0.6, len(TESTS) - 0.1))
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    ax.set_title("which test catches which bug")
show_figure(
    fig,
    "matrix",
    "Thirteen tests against ten bugs: shapes, falling loss and one-token loops catch none; no test catches more than four, all together catch all",
)

# %%
print("the right attention passes all tests:", sound)
print("each bug is caught by some test:", caught.any(axis=0).all())
of_gradients = [i for i, name in enumerate(TESTS) if name.startswith("gradients")]
print("no gradient check sees", *np.array(list(BUGS))[~caught[of_gradients].any(axis=0)])

# %% [markdown]
# Read it by rows: three tests catch nothing at all. Read it by columns: five bugs are caught by *one* test only. And attention without $\sqrt d$
# passes every gradient check, since these ask whether this backward belongs to *this* forward. No single test is good; together they are.
#
# The library's tests are judged the same way: one change at a time is made to the lines of its ops
# ([results](../benchmarks/results/mutants.md)), and each change that passes all tests, though it changes a result, shows that one is missing.
#
# ## The instruments of the library
#
# `gradcheck` is your checker with more comfort: it takes any number of inputs, moves every entry as well as a direction, and, where a
# function has a corner, as relu at 0, accepts both slopes and any between. `tinyattn check` compares an implementation with loops, tries properties, gradients and extremes on random inputs, shrinks the example that fails, and compares the implementation with
# the zoo to *name* the bug. In a terminal: `tinyattn check my_file.py --as attention`. Here:

# %%
report = check_in_process(ATTENTIONS["softmax_diag"], "attention", examples=3)
print("right:", bool(report), "  it looks like:", *report.diagnosis.names)

# %% [markdown]
# ### Exercise `repaired_rms_backward` (find the bug, ★★☆, 8 min)
#
# RMSNorm ([Zhang & Sennrich 2019](https://arxiv.org/abs/1910.07467)) is LayerNorm without the centring: $\hat x = r\,x$ with
# $r = 1/\sqrt{\operatorname{mean}(x^2) + \varepsilon}$, and $y = \hat x \odot \gamma$. This backward comes with a test, and the test is green:


# %%
def buggy_rms_backward(dy, x_hat, r, gamma):
    """Shapes: dy, x_hat (..., d), r (..., 1), gamma (d,) -> dx (..., d), dgamma (d,)."""
    g = dy * gamma
    dx = r * (g - x_hat * (g * x_hat).mean())
    dgamma = (dy * x_hat).reshape(-1, len(gamma)).sum(axis=0)
    return dx, dgamma


rng = np.random.default_rng(5)
token, gamma = rng.standard_normal((1, 8)), rng.standard_normal(8)
print("green:", bool(gradcheck(ops.rms_norm, buggy_rms_backward, token, gamma)))


# %% [markdown]
# What does the test not try? Find inputs on which `gradcheck` is red, then write `repaired_rms_backward`.


# %%
def repaired_rms_backward(dy, x_hat, r, gamma):
    """Shapes: dy, x_hat (..., d), r (..., 1), gamma (d,) -> dx (..., d), dgamma (d,)."""
    ### BEGIN SOLUTION
    g = dy * gamma
    dx = r * (
        g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True)
    )  # each token has a mean of its own
    dgamma = (dy * x_hat).reshape(-1, len(gamma)).sum(axis=0)
    return dx, dgamma
    ### END SOLUTION


# %%
check("repaired_rms_backward", repaired_rms_backward)

# %% [markdown]
# ## What no test can see
#
# A test compares two things that you wrote. If both come from the same misunderstanding, they agree: loops that divide by $d$, and a
# property that asks for it. Only sources other than you help against that: the paper's equation, a published number, somebody else's code.
# And what is never called is never tested: without the test "a later token is unseen", nothing in the table above would have passed a mask.
#
# | what is often said | what the cells above show |
# |---|---|
# | the loss falls, so the gradients are right | it falls with all ten bugs |
# | a small tolerance makes a strict test | in float32 with $h = 10^{-6}$, right and 1 % wrong look the same |
# | gradients agree, so the op is right | attention without $\sqrt{d}$ agrees with itself |
# | a good test runs every line | loops with one token run every line of the forward, and catch nothing |
#
# ## In five lines
#
# - A falling loss proves little: it falls with ten different bugs.
# - Check gradients along one random direction, with a random $u$, in float64: two forwards, one backward, any number of entries.
# - Choose inputs that tell things apart: no size 1, no two sizes alike, more than one sentence, a mask, large logits.
# - Oracles say what the answer is, properties how answers are related; gradient checks cannot see a wrong forward.
# - Judge a test by the bugs that it catches. One that has never failed has shown nothing.
#
# To read: [is your attention right?](../docs/check.md), on everything that `tinyattn check` asks. Next: [10, learning itself](10_learning.ipynb):
# you have all the gradients, and the means to know that they are right. How far should a step go?
