"""Every call of the library on an array module, held against what CuPy has: no device and no CuPy are needed."""

import ast
import json
from pathlib import Path

import pytest

from tests.record_cupy import SURFACE
from tests.strict import has_method
from tinyattn.models import MODELS

ROOT = Path(__file__).parent.parent / "tinyattn"
CUPY = json.loads(SURFACE.read_text())
FILES = sorted(p for folder in ("ops", "layers", "models", "training") for p in (ROOT / folder).rglob("*.py"))


def calls(source):
    """(line, dotted name, keywords, number of positional arguments) of `xp.name(...)` and `get_xp(...).name(...)`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts, base = [node.func.attr], node.func.value
            while isinstance(base, ast.Attribute):
                parts.insert(0, base.attr)
                base = base.value
            module = isinstance(base, ast.Name) and base.id == "xp"
            made = isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "get_xp"
            if module or made:
                yield node.lineno, ".".join(parts), [k.arg for k in node.keywords], len(node.args)


def missing(source):
    """What CuPy does not have, a sentence each."""
    for line, name, keywords, places in calls(source):
        known, method = CUPY["names"].get(name), name.rpartition(".")
        if known is None and method[0] and CUPY["names"].get(method[0], {}).get("kind") == "ufunc":
            if not has_method(method[0], method[2]):
                yield f"line {line}: CuPy's {method[0]} has no {method[2]}"
            continue
        if known is None:
            yield f"line {line}: CuPy has no {name}"
        elif known["arguments"] is not None:
            yield from (
                f"line {line}: CuPy's {name} takes no {keyword}="
                for keyword in keywords
                if keyword is not None and keyword not in known["arguments"]
            )
            if known["kind"] == "function" and places > len(known["arguments"]) and "args" not in known["arguments"]:
                yield f"line {line}: CuPy's {name} takes {len(known['arguments'])} arguments, not {places}"


# Which blocks of pairs a layout has is worked out on the host, once, and carried over by `_plan`.
BLOCK_LAYOUTS = {f"ops/attention/{name}.py" for name in ("blocks", "patterns", "shifted_windows")}
# What answers with host arrays, reads files, or goes the host's own faster way; and the organisation of training.
ON_THE_HOST = {
    *(f"models/{name}.py" for name in ("choosing", "explanation", "parameters", "products",
                                       "recommender", "run", "session", "starting")),
    *(f"models/recommenders/{name}.py" for name in ("co_occurrence", "markov")),
    *(f"models/transformers/{name}.py" for name in ("looking", "sampling", "search")),
    *(f"fast/{name}.py" for name in ("one_history", "one_token")),
    *(f"training/{name}.py" for name in ("around", "lazy", "learner", "loop", "processes", "schedules", "sending",
                                         "state")),
}  # fmt: skip
COMPUTES = [p for p in FILES if (name := p.relative_to(ROOT).as_posix()) not in BLOCK_LAYOUTS | ON_THE_HOST
            and not name.startswith("models/layouts/")]  # fmt: skip
# Functions that only see host arrays: parameters are drawn, flattened and cut to views on the host. `extending` is the
# host's faster way.
HOST_WORK = ("init", "init_users", "init_output", "init_heads", "_filters", "glorot", "flatten", "views", "generator",
             "_plan", "decay_of", "extending")  # fmt: skip
# Estimators: they read data and give answers on the host; their networks compute.
ESTIMATORS = {base.__name__ for model in MODELS.values() for base in model.__mro__}


def on_the_host(source):
    """A sentence for each call of an np function, which would compute on the host whatever it is given."""
    tree = ast.parse(source)
    inside = {}
    for f in ast.walk(tree):
        function = isinstance(f, ast.FunctionDef) and f.name.endswith(HOST_WORK)
        if function or (isinstance(f, ast.ClassDef) and f.name in ESTIMATORS):
            inside |= {id(node): f.name for node in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and id(node) not in inside:
            name = ast.unparse(node.func)
            if name.startswith(("np.", "numpy.")) and name != "np.errstate":      # it says how the host warns
                short = name.split(".", 1)[1]
                yield (
                    f"line {node.lineno}: {name} computes on the host, and a GPU's arrays are not there: "
                    f"write xp.{short}, with xp = get_xp(x); work that is the host's own belongs in {HOST_WORK}"
                )


def test_what_computes_calls_no_np_function():
    found = [f"{p.relative_to(ROOT.parent)}, {sentence}" for p in COMPUTES for sentence in on_the_host(p.read_text())]
    assert not found, "\n".join(found)


def test_a_newcomers_np_call_is_named_with_its_line_and_the_remedy():
    source = "import numpy as np\n\ndef swish(x):\n    return x / (1 + np.exp(-x))\n"
    (said,) = on_the_host(source)
    assert said.startswith("line 4: np.exp computes on the host")
    assert "write xp.exp, with xp = get_xp(x)" in said
    assert not list(on_the_host("def dense_init(rng):\n    return np.zeros(3)\n"))


def test_cupy_has_all_that_is_called():
    found = [f"{path.relative_to(ROOT.parent)}, {sentence}" for path in FILES for sentence in missing(path.read_text())]
    assert not found, "\n".join(found)


def test_the_library_calls_something_at_all():
    called = {name for path in FILES for _, name, _, _ in calls(path.read_text())}
    assert len(called) > 20


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("xp.errstate(all='ignore')", "line 1: CuPy has no errstate"),
        ("xp.sum(x, where=mask)", "line 1: CuPy's sum takes no where="),
        ("xp.max(x, initial=0)", "line 1: CuPy's max takes no initial="),
        ("xp.exp(x, where=mask)", "line 1: CuPy's exp takes no where="),
        ("get_xp(x).argsort(x, stable=True)", "line 1: CuPy's argsort takes no stable="),
        ("xp.take(x, i, 0, None, 'clip')", "line 1: CuPy's take takes 4 arguments, not 5"),
        ("xp.add.indices(x)", "line 1: CuPy's add has no indices"),
        ("xp.maximum.reduce(x)", "line 1: CuPy's maximum has no reduce"),
        ("xp.multiply.at(x, ids, y)", "line 1: CuPy's multiply has no at"),
    ],
)
def test_what_does_not_exist_there_is_named(line, says):
    assert list(missing(line)) == [says]
