"""Functions of torch and JAX, and classes that keep their gradients, checked as they are."""

from types import SimpleNamespace

import numpy as np
import pytest

from tinyattn import ops
from tinyattn.check import check_implementation, check_in_process, frameworks, layer
from tinyattn.check.frameworks import Lifted, subject_of
from tinyattn.check.isolation import load
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import CannotRunError, Subject

KINDS = ["softmax", "layer_norm", "rms_norm", "linear", "gelu", "relu", "cross_entropy", "embedding"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_torch_has_is_right_by_its_name_alone(kind, torch):
    report = check_in_process(torch.nn.functional, kind, examples=3)
    assert report.verdict in ("right", "contract"), report
    assert not any("_backward" in name for name in report.lacks)
    assert any(f.outcome == "holds" and f.stage == "gradients" for f in report.findings)


def test_attention_of_torch_and_its_masks(torch):
    report = check_in_process(torch.nn.functional.scaled_dot_product_attention, "attention", examples=6)
    assert report.verdict in ("right", "contract"), report


def test_a_wrong_function_of_tensors_is_found_through_autograd(torch):
    def softmax(s):
        e = torch.exp(s - s.max())
        return e / e.sum(-1, keepdim=True)

    report = check_in_process(softmax, "softmax", examples=10)
    assert report.verdict == "wrong"
    assert report.failures[0].property == "rows_far_apart"


def test_an_argument_that_must_be_given_does_not_switch_autograd_off(torch):
    def delta_rule(q, k, v, beta, a):
        decay, S, y = a.exp()[..., None, None], q.new_zeros(*q.shape[:-2], q.shape[-1], v.shape[-1]), []
        for t in range(q.shape[-2]):
            S, key = S * decay[..., t, :, :], k[..., t, :, None]
            S = S + beta[..., t, None, None] * key * (v[..., t, None, :] - key.mT @ S)
            y.append((q[..., t, None, :] @ S)[..., 0, :])
        return torch.stack(y, -2)

    report = check_in_process(delta_rule, "delta_rule", examples=4)
    assert report, f"\n{report}"
    assert "a=None" in str(report)
    assert "delta_rule_backward" not in str(report)


def test_a_module_of_torch_is_called_with_tensors(torch):
    class Model(torch.nn.Module):
        dim = 4

        def forward(self, x):
            return torch.cumsum(x, 1)

    assert check_in_process(Model(), "causal_model", examples=4)
    assert not check_in_process(torch.nn.Softmax(1), "softmax", examples=10)


def test_a_string_of_the_command_line_names_a_function_of_torch(torch):
    assert check_implementation("torch.nn.functional:gelu", "gelu", examples=4)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_an_optimiser_of_torch_is_right_by_its_name_alone(name, torch):
    report = check_in_process(getattr(torch.optim, name), name.lower(), examples=6)
    assert report, report
    assert report.conventions == ("beta2 is 0.999 by default",)
    assert report.not_offered == (("a weight_decay for each entry",) if name == "AdamW" else ())


def test_a_wrong_optimiser_of_torch_is_shown_at_its_own_line(torch):
    class Slow(torch.optim.Adam):
        def step(self, closure=None):
            pass

    line = Slow.step.__code__.co_firstlineno  # torch wraps the method when the first object is made
    report = check_in_process(Slow, "adam", stages=("oracle",), examples=4)
    assert report.place == f"{__file__}:{line}"
    assert report.failures[0].property == "oracle"


def test_where_torch_is_loaded_a_result_that_is_no_number_is_found_too(torch):
    report = check_in_process(lambda scores, relevant, k: None, "ranking_of_several", examples=2)
    assert report.verdict == "wrong"


def test_an_optimiser_that_does_not_write_into_its_arguments_is_found(torch):
    def adam(vector, gradient, moments, step, lr=1e-3, betas=(0.9, 0.98), eps=1e-8):
        assert isinstance(vector, torch.Tensor)
        return vector.clone().sub_(lr * gradient)

    report = check_in_process(adam, "adam", examples=4)
    assert "in_place" in {f.property for f in report.failures}
    assert report.unused == ()


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")
def test_the_gradient_goes_through_a_reentrant_checkpoint(torch):
    from torch.utils.checkpoint import checkpoint

    report = check_in_process(lambda x: checkpoint(torch.relu, x, use_reentrant=True), "relu", examples=4)
    assert report, report
    assert report.lacks == ()


FILE = """
import torch

def relu(x):
    return x * (x > 0)

def silu(x):
    return x.sigmoyd() * x

def elu(x, alpha=1.0):
    return torch.where(torch.from_numpy(x) > 0, torch.from_numpy(x), alpha * torch.expm1(torch.from_numpy(x))).numpy()
"""


@pytest.fixture
def theirs(tmp_path, torch):
    (tmp_path / "theirs.py").write_text(FILE)
    return load(str(tmp_path / "theirs.py"))


def test_operators_alone_are_differentiated_if_their_file_imports_torch(theirs):
    assert check_in_process(theirs.relu, "relu", examples=4).lacks == ()
    assert check_in_process(theirs.elu, "elu", examples=4).lacks == ("elu_backward",)  # it takes arrays alone


def test_what_a_function_raises_for_tensors_is_reported(theirs):
    with pytest.raises(CannotRunError, match="'Tensor' object has no attribute 'sigmoyd'"):
        check_in_process(theirs.silu, "silu", examples=2)


def test_floats_have_the_dtype_of_a_modules_parameters_and_methods_get_tensors(torch):
    class Model(torch.nn.Module):
        dim = 4

        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(4, 4)

        def forward(self, x):
            return torch.cumsum(self.out(x), 1)

        def step(self, x, total=None):
            total = self.out(x) if total is None else total + self.out(x)
            return total, total

    report = check_in_process(Model(), "cached_model", examples=3)
    assert report, report


def test_an_object_that_makes_tensors_itself_is_called_with_tensors(torch):
    model = SimpleNamespace(dim=4, forward=lambda x: torch.cumsum(torch.as_tensor(x), 1))
    assert check_in_process(model, "causal_model", examples=3)


def test_a_refusal_of_another_memory_order_is_a_form_of_tensors_alone(torch):
    def viewed(x):
        return torch.relu(x.view(-1)).view(x.shape)

    report = check_in_process(viewed, "relu", examples=4)
    assert report, report
    assert report.not_offered == ("arrays that do not lie in C order",)
    strict = check_in_process(viewed, "relu", examples=4, strict=True)
    assert {"memory_layout", "backward_memory_layout"} == {f.property for f in strict.failures}

    def flat(x):
        if not x.flags.c_contiguous:
            raise RuntimeError("C order, please")
        return np.maximum(x, 0)

    assert {f.property for f in check_in_process(flat, "relu", examples=4).failures} == {"memory_layout"}


def test_a_mask_of_fewer_axes_is_written_out(torch):
    def attend(x, W_q, W_k, W_v, W_o, heads, attention_mask=None):
        assert x.ndim == 3
        assert attention_mask is None or attention_mask.ndim == 4
        q, k, v = ((x @ W).unflatten(-1, (heads, -1)).transpose(1, 2) for W in (W_q, W_k, W_v))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask)
        return out.transpose(1, 2).flatten(2) @ W_o

    report = check_in_process(attend, "multi_head_attention", examples=4)
    assert report, report
    assert "a mask of fewer than four axes" in report.not_offered
    assert "mask" not in report.lacks


NAMES = {
    "gelu": lambda torch: lambda x, approximate="none": torch.nn.functional.gelu(x, approximate=approximate),
    "linear": lambda torch: lambda x, weight, bias: x @ weight + (0 if bias is None else bias),
    "linear_attention": lambda torch: lambda queries, keys, values: torch.tensor(
        ops.linear_attention(queries.numpy(), keys.numpy(), values.numpy())[0]
    ),
}


@pytest.mark.parametrize("kind", NAMES)
def test_pytorchs_names_of_arguments_are_known(kind, torch):
    report = check_in_process(NAMES[kind](torch), kind, examples=4)
    assert report, report
    assert {"approximate", "b"}.isdisjoint(report.lacks)
    assert report.unused == ()


def test_a_flag_called_bias_is_no_bias():
    report = check_in_process(lambda x, W, bias=True: x @ W, "linear", examples=4)
    assert report, report
    assert (report.lacks[0], report.unused) == ("b", ("bias",))


def test_a_class_that_cannot_be_made_is_a_problem():
    with pytest.raises(CannotRunError, match=r"Needs\(\) raised TypeError: .*'size'; write a function that makes"):
        check_in_process(Needs, "relu")


class Needs:
    def __init__(self, size):
        self.size = size


def test_a_mask_of_another_name_reaches_the_function_that_is_differentiated():
    """A framework differentiates the function by calling it with the forward's arguments."""

    def attention(query, key, value, dropout_p=0.0, attn_mask=None):
        assert dropout_p == 0.0
        return ops.attention(query, key, value, attn_mask)[0]

    class Differences:
        lift = lower = staticmethod(lambda x: x)

        @staticmethod
        def differentiate(f, wrt, given, dy):
            weights = ops.attention(given["q"], given["k"], given["v"], given["mask"])[1]
            np.testing.assert_array_equal(f(**given), weights @ given["v"])
            found = ops.attention_backward(dy, given["q"], given["k"], given["v"], weights)
            return dict(zip(wrt, found[:3], strict=False))

    op = Subject(attention, SPECS["attention"])
    lifted = SimpleNamespace(attention=Lifted(attention, op, Differences))
    report = check_in_process(lifted, "attention", examples=5)
    assert report, report
    assert "mask" not in report.lacks
    assert "attention_backward" not in report.lacks


class Tensor:
    """A framework's array: no function of NumPy takes it."""

    def __init__(self, x):
        self.array = x


class Made:
    """A framework that differentiates softmax, unless a function is marked."""

    name = "tinyattn"  # of a module that is loaded

    @staticmethod
    def lift(x):
        return Tensor(x) if isinstance(x, np.ndarray) else x

    @staticmethod
    def lower(x):
        return getattr(x, "array", x)

    @classmethod
    def differentiate(cls, f, wrt, given, dy):
        y = f(**{name: cls.lift(x) for name, x in given.items()})
        if isinstance(y, tuple):
            raise RuntimeError("element 0 of tensors does not require grad")
        return {"s": ops.softmax_backward(dy, y.array)}


def test_a_function_of_tensors_is_lifted_and_differentiated_if_the_framework_can(monkeypatch):
    monkeypatch.setattr(frameworks, "FRAMEWORKS", (Made,))

    def softmax(s):
        return Tensor(ops.softmax(s.array))

    def by_hand(dp, p):
        return Tensor(2 * ops.softmax_backward(dp.array, p.array))

    case, dp = {"s": np.array([[1.0, 2.0, -1.0]])}, np.array([[1.0, 0.0, 3.0]])
    p = ops.softmax(**case)
    for implementation, factor in ((softmax, 1), (SimpleNamespace(softmax=softmax, softmax_backward=by_hand), 2)):
        op = subject_of(implementation, SPECS["softmax"])
        assert op.lacks == ["mask"]
        np.testing.assert_array_equal(op(**case), p)
        np.testing.assert_array_equal(op.gradients(case, dp)["s"], factor * ops.softmax_backward(dp, p))
    assert subject_of(lambda s: (softmax(s), s), SPECS["softmax"]).lacks == ["mask", "softmax_backward"]
    assert subject_of(ops, SPECS["softmax"]).forward is ops.softmax


def test_functions_of_jax():
    jax = pytest.importorskip("jax")
    assert check_in_process(jax.nn.gelu, "gelu", examples=4)


def test_an_adapter_of_arrays_stays_one_where_torch_is_loaded(torch):
    op = subject_of(ops, SPECS["softmax"])
    assert op.forward is ops.softmax


# classes


class Dense:
    """As in numpy-ml and many courses: weights (outputs, inputs), gradients in a dictionary."""

    def __init__(self, bias=True):
        self.parameters = {"W": None, "b": None}
        self.gradients = {}

    def forward(self, x):
        self.x = x
        return x @ self.parameters["W"].T + self.parameters["b"]

    def backward(self, dy):
        x, dy_flat = self.x.reshape(-1, self.x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        self.gradients = {"W": dy_flat.T @ x, "b": dy_flat.sum(axis=0)}
        return dy @ self.parameters["W"]


def dense(make=Dense):
    paths = {"W": "parameters.W.T", "b": "parameters.b"}
    return layer(make, params=paths, grads={"W": "gradients.W.T", "b": "gradients.b"})


def test_a_class_is_adapted_in_a_line():
    report = check_in_process(dense(), "linear", examples=10)
    assert report, report
    assert report.not_offered == ("b=None",)
    assert report.lacks == ()


def test_a_wrong_class_is_found_and_named():
    class Averaged(Dense):
        def backward(self, dy):
            dx = super().backward(dy)
            self.gradients["b"] = self.gradients["b"] / dy.size * dy.shape[-1]
            return dx

    report = check_in_process(dense(Averaged), "linear", examples=10)
    assert report.verdict == "wrong"
    assert "db" in report.failures[0].message


def test_a_backward_that_returns_none_has_no_gradient_of_inputs():
    class Embedding:
        W = dW = None

        def look_up(self, ids):
            self.ids = ids
            return self.W[ids]

        def scatter(self, dy):
            self.dW = ops.embedding_backward(dy, self.ids, self.W)

    how = {"forward": "look_up", "backward": "scatter"}
    mine = layer(Embedding, params={"E": "W"}, grads={"E": "dW"}, inputs=("ids",), **how)
    report = check_in_process(mine, "embedding", examples=5)
    assert report, report
    assert report.lacks == ()


def test_a_class_may_have_several_inputs():
    class Product:
        def forward(self, x, W):
            self.seen = x, W
            return x @ W

        def backward(self, dy):
            return ops.linear_backward(dy, *self.seen)[:2]

    mine, (x, W, dy) = layer(Product, inputs=("x", "W")), np.random.default_rng(0).standard_normal((3, 2, 2))
    np.testing.assert_array_equal(mine(x, W), x @ W)
    np.testing.assert_array_equal(mine.backward(dy, x, W), [dy @ W.T, x.T @ dy])


def test_options_and_sizes_reach_the_one_who_makes_the_object():
    class Norm:
        def __init__(self, size, eps):
            self.gamma, self.beta, self.eps = np.ones(size), np.zeros(size), eps

        def forward(self, x):
            self.seen = ops.layer_norm(x, self.gamma, self.beta, self.eps)
            return self.seen[0]

        def backward(self, dy):
            dx, self.dgamma, self.dbeta = ops.layer_norm_backward(dy, *self.seen[1:], self.gamma)
            return dx

    def make(x, eps=1e-5):
        return Norm(x.shape[-1], eps)

    mine = layer(make, params={"gamma": "gamma", "beta": "beta"}, grads={"gamma": "dgamma", "beta": "dbeta"})
    assert check_in_process(mine, "layer_norm", examples=10)


def test_layers_of_matrices_and_tensors_that_differentiate_by_themselves():
    """The two forms of docs/check.md: parameters that appear with the first input, and `backward` on a tensor."""

    class Norm:
        def forward(self, x):
            if not hasattr(self, "parameters"):
                size = x.shape[1], x.dtype
                self.parameters = {"scaler": np.ones(*size), "intercept": np.zeros(*size)}
            self.seen = ops.layer_norm(x, self.parameters["scaler"], self.parameters["intercept"])
            return self.seen[0]

        def backward(self, dy):
            assert dy.ndim == 2
            dx, *found = ops.layer_norm_backward(dy, *self.seen[1:], self.parameters["scaler"])
            self.gradients = dict(zip(("scaler", "intercept"), found, strict=True))
            return dx

    def make(x):
        norm = Norm()
        norm.forward(x.reshape(-1, x.shape[-1]))
        return norm

    paths = {"gamma": "parameters.scaler", "beta": "parameters.intercept"}
    grads = {"gamma": "gradients.scaler", "beta": "gradients.intercept"}
    assert check_in_process(layer(make, params=paths, grads=grads, rows=True), "layer_norm", examples=10)

    class Softmax:
        def forward(self, s):
            self.p = ops.softmax(s)
            return self.p

        def backward(self, dp):
            return ops.softmax_backward(dp, self.p)

    report = check_in_process(layer(Softmax, inputs=("s",)), "softmax", examples=5)
    assert report, report
    assert report.lacks == ("mask",)


def test_bad_adapters_are_refused_in_a_sentence():
    with pytest.raises(TypeError, match="make is 3, expected a class"):
        layer(3)
    with pytest.raises(TypeError, match="no path"):
        layer(Dense, params={"W": 1})
    with pytest.raises(LookupError, match=r"the path 'weights' leads nowhere: a Dense has no 'weights'"):
        layer(Dense, params={"W": "weights"})(np.ones((2, 3)), np.ones((3, 2)))
    mine = SimpleNamespace(linear=lambda x, W, b=None: [x.tolist()])
    report = check_implementation(mine, "linear", examples=2)
    assert "is a list, expected an array of numbers" in report.failures[0].message


def test_a_class_that_works_on_its_own_parameters_in_place_writes_into_nothing_of_ours():
    class Greedy(Dense):
        def forward(self, x):
            y = super().forward(x)
            self.parameters = {name: w.copy() for name, w in self.parameters.items()} | self._spoiled()
            return y

        def _spoiled(self):
            kept = dict(self.parameters)
            self.W = kept["W"].copy()
            kept["W"] *= 0
            return {"W": self.W}

    report = check_in_process(dense(Greedy), "linear", examples=5)
    assert "inputs_unchanged" not in {finding.property for finding in report.failures}
