"""The code of docs/check.md runs: adapters of all sorts, tables of pyproject.toml, and the workflow for maintainers."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tinyattn.check import check_in_process
from tinyattn.check.isolation import load
from tinyattn.check.targets import read_table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "check.md").read_text()

LAYERS = """
    import numpy as np
    from types import SimpleNamespace
    from tinyattn import ops
    class Dense:
        weight = bias = None
        def forward(self, x):
            self.x = x
            return x @ self.weight.T + self.bias
        def backward(self, dy):
            dx, dW, db = ops.linear_backward(dy, self.x, self.weight.T)
            self.grads = SimpleNamespace(weight=dW.T, bias=db)
            return dx
    class LayerNorm1D:
        def __init__(self, epsilon):
            self.epsilon, self.parameters = epsilon, {}
        def forward(self, x):
            if not self.parameters:
                self.parameters = {"scaler": np.ones(x.shape[1], x.dtype), "intercept": np.zeros(x.shape[1], x.dtype)}
            y, *self.cache = ops.layer_norm(x, self.parameters["scaler"], self.parameters["intercept"], self.epsilon)
            return y
        def backward(self, dy):
            dx, scaler, intercept = ops.layer_norm_backward(dy, *self.cache, self.parameters["scaler"])
            self.gradients = {"scaler": scaler, "intercept": intercept}
            return dx
    class BatchNorm:
        def __init__(self, features):
            self.mean, self.var = np.zeros(features), np.ones(features)
        def forward(self, x, training):
            if not training:
                return (x - self.mean) / np.sqrt(self.var + 1e-5)
            mean, var, n = x.mean(0), x.var(0), len(x)
            self.mean = 0.9 * self.mean + 0.1 * mean
            self.var = 0.9 * self.var + 0.1 * var * n / (n - 1)
            return (x - mean) / np.sqrt(var + 1e-5)
"""
TENSORS = """
    import numpy as np
    from tinyattn import ops
    class Tensor:
        def __init__(self, values):
            self.x = np.array(values, np.float64)
        def to_numpy(self):
            return self.x
        def softmax(self, axis):
            assert axis == self.x.ndim - 1
            p = Tensor(ops.softmax(self.x))
            p.of = self
            return p
        def backward(self, dp):
            self.of.grad = Tensor(ops.softmax_backward(dp.x, self.x))
"""
ATTENTION = """
    import numpy as np
    from tinyattn.check import adapters
    class Attention:
        def __init__(self, dim, heads):
            self.heads = heads
        def __call__(self, x, allowed=None):
            weights = np.split(self.weights, 3, axis=1)
            return adapters.multi_head_attention(x, *weights, self.out, self.heads, allowed)
"""
MODEL = """
    import torch
    class Attention(torch.nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.qkv = torch.nn.Linear(dim, 3 * dim, bias=False)
            self.out = torch.nn.Linear(dim, dim, bias=False)
        def forward(self, x):
            parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
            y = torch.nn.functional.scaled_dot_product_attention(*parts)
            return self.out(y.transpose(1, 2).flatten(2))
"""
DECODER = """
    import numpy as np
    from tinyattn import ops
    class Decoder:
        def __init__(self, dim, longest):
            rng = np.random.default_rng(0)
            self.W = rng.standard_normal((3, dim, dim)) / np.sqrt(dim)
            self.longest = longest
            self.keys = self.values = None
        def __call__(self, x, start_pos):
            batch, n, dim = x.shape
            if start_pos == 0:
                self.keys, self.values = np.zeros((2, batch, self.longest, dim))
            seen = slice(start_pos, start_pos + n)
            self.keys[:, seen], self.values[:, seen] = x @ self.W[0], x @ self.W[1]
            mask = np.arange(start_pos + n) <= np.arange(start_pos, start_pos + n)[:, None]
            return ops.attention(x @ self.W[2], self.keys[:, :seen.stop], self.values[:, :seen.stop], mask)[0]
"""
NORM = """
    from tinyattn.ops import layer_norm, layer_norm_backward
    def dx_of(dy, x_hat, rstd, gamma):
        return layer_norm_backward(dy, x_hat, rstd, gamma)[0]
"""
METRICS = """
    def recall_at_k(ranked, relevant, k):
        return len(relevant & set(ranked[:k].tolist())) / len(relevant)
"""
OPTIMISER = """
    import numpy as np
    class AdamW:
        def __init__(self, params, lr, betas, eps, weight_decay):
            self.params, self.lr, self.betas, self.eps, self.weight_decay = list(params), lr, betas, eps, weight_decay
            self.m, self.v, self.t = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params], 0
        def step(self, grads):
            self.t += 1
            b1, b2 = self.betas
            for i, (p, g) in enumerate(zip(self.params, grads)):
                m, v = self.m[i], self.v[i] = b1 * self.m[i] + (1 - b1) * g, b2 * self.v[i] + (1 - b2) * g * g
                step = m / (1 - b1**self.t) / (np.sqrt(v / (1 - b2**self.t)) + self.eps)
                self.params[i] = p - self.lr * (step + self.weight_decay * p)
"""
# a word of the code -> the module that it imports, that module's text, what is checked, and its kind
RECIPES = {
    "Dense": ("my_layers", LAYERS, "linear", "linear"),
    "LayerNorm1D": ("my_layers", LAYERS, "layer_norm", "layer_norm"),
    "Tensor": ("my_tensors", TENSORS, "softmax", "softmax"),
    "attention.weights": ("my_attention", ATTENTION, "multi_head_attention", "multi_head_attention"),
    "functional_call": ("my_model", MODEL, "multi_head_attention", "multi_head_attention"),
    "Cached": ("my_decoder", DECODER, "Cached", "cached_model"),
    "BatchNorm": ("my_layers", LAYERS, "", "batch_norm_layer"),
    "recall_at_k": ("my_metrics", METRICS, "", "ranking_of_several"),
    "dx_of": ("my_norm", NORM, "", "layer_norm"),
    "AdamW": ("my_optim", OPTIMISER, "", "adamw"),
}
BLOCKS = {word: [c for c in re.findall(r"```python\n(.*?)```", PAGE, re.S) if word in c] for word in RECIPES}


@pytest.mark.parametrize("word", RECIPES)
def test_an_adapter_of_the_page_makes_right_code_right(word, tmp_path, monkeypatch):
    if word == "functional_call" and importlib.util.find_spec("torch") is None:
        pytest.skip("it needs torch")
    module, text, name, kind = RECIPES[word]
    (code,) = BLOCKS[word]
    (tmp_path / f"{module}.py").write_text(textwrap.dedent(text))
    (tmp_path / "adapter.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setitem(sys.modules, module, None)  # as it was, afterwards
    del sys.modules[module]
    report = check_in_process(load(f"adapter.py:{name}" if name else "adapter.py"), kind, examples=4)
    assert report, report
    assert sum(f.outcome == "holds" for f in report.findings) >= 4
    if word == "dx_of":
        assert report.not_offered == ("the gradient of gamma", "the gradient of beta")


def test_every_block_of_python_is_tried():
    elsewhere = ("def swish", "properties_for")  # tests/test_docs.py, test_runner.py
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        assert sum(word in code for word in (*BLOCKS, *elsewhere)) == 1, code


def test_tables_of_the_page_are_read(tmp_path):
    tables = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    found = []
    for text in tables:
        (tmp_path / "pyproject.toml").write_text(text)
        found.append([(t.name, t.kind, t.options, t.xfail) for t in read_table(tmp_path / "pyproject.toml")])
    few = {"examples": 20}
    assert found == [
        [("mypkg/attention.py:attention", "attention", {}, ())],
        [
            ("mypkg/norms.py", "layer_norm", few, ()),
            ("mypkg/norms.py", "rms_norm", few, ()),
            ("mypkg/fast.py:attention", "attention", few | {"dtype": "float32"}, ("gradients_of_large_sizes",)),
            ("mypkg/models.py:Decoder", "cached_model", few | {"skip": ["begins_anew"]}, ()),
        ],
    ]


@pytest.mark.parametrize("right", [True, pytest.param(False, marks=pytest.mark.slow(10))])
def test_the_workflow_of_the_page_runs(right, tmp_path):
    """Its lines `run:`, in a repository with the page's table; what pip installs is here."""
    (workflow,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    lines = re.findall(r"- run: (.*)", workflow)
    assert shlex.split(lines[0]) == ["pip", "install", "-e", ".", "tinyattn[check]"]
    (tmp_path / "pyproject.toml").write_text(re.findall(r"```toml\n(.*?)```", PAGE, re.S)[0])
    (tmp_path / "mypkg").mkdir()
    code = "from tinyattn import ops\ndef attention(q, k, v):\n    return ops.attention(q, k, v)[0]\n"
    (tmp_path / "mypkg" / "attention.py").write_text(code if right else code.replace("[0]", "[0] * 2"))
    for line in lines[1:]:
        program, *arguments = shlex.split(line)
        environment = os.environ | {"PYTHONPATH": str(ROOT), "GITHUB_WORKSPACE": str(tmp_path)}
        done = subprocess.run([sys.executable, "-m", program, *arguments], cwd=tmp_path, env=environment,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == (0 if right else 1), done.stdout + done.stderr
        annotation = (
            "" if right else "::error file=mypkg/attention.py,line=2,title=tinyattn check%3A mypkg/attention.py"
        )
        assert done.stderr.startswith(annotation)
        assert bool(done.stderr) != right
