"""The programs of docs/serve.md, run as they stand there, give what the library gives."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.export.networks import untrained
from tinyattn.export import export
from tinyattn.export.weights import about
from tinyattn.models import SASRec

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return untrained(SASRec, heads=2)


def run(block):
    found = {}
    exec(compile(block, "docs/serve.md", "exec"), found)
    return found


def test_a_loop_with_onnx_runtime(model):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model.item_counts = np.random.default_rng(0).permutation(len(model.items))
    export(model, "model.onnx")
    found = run(BLOCKS[0])
    history = [10]
    for answer in found["answers"]:
        assert answer == model.recommend(history, k=5)[0].tolist()
        history.append(answer[0])
    assert found["history"] == history
    kept = model.recommend(history, k=5, repeats=True)[0].tolist()
    assert found["recommend"]([history], k=5, repeats=True) == [kept]
    odd = [[10, "new", 30], [], ["new"]]                 # unknown items are skipped, and nothing is popularity
    assert found["recommend"](odd, k=5) == model.recommend(odd, k=5, unknown="skip")[0].tolist()


def test_a_module_of_pytorch(model):
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    export(model, "model.safetensors")
    found = run(BLOCKS[1])
    expected = model.score([np.array([1, 2, 3]), np.array([4])])
    np.testing.assert_allclose(found["scores"].numpy()[:, 1:], expected[:, 1:], atol=1e-5)
    assert found["model"].ids == model.items.ids.tolist()
    assert len([line for line in BLOCKS[1].splitlines() if line.strip()]) <= 48


def test_ids_of_users_go_along_where_the_model_has_a_vector_for_each():
    without, with_users = untrained(SASRec), untrained(SASRec, user_embedding=True)
    assert not {"users", "counts"} & about(without).keys()
    assert json.loads(about(with_users)["users"]) == with_users.users.ids.tolist()
