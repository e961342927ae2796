"""import-model as people type it, and what the run does then."""

import json

import numpy as np
import pytest

from tests.helpers import refuses
from tests.models.layouts.elsewhere import CONFIGS, FORWARDS, GPT_2, LLAMA, V, weights_of, write
from tinyattn.cli import main
from tinyattn.models import TEXT_LAYOUTS

pytest.importorskip("safetensors", reason="weights of others are read with the package safetensors")


def generated(capsys, run, prompt, *more):
    capsys.readouterr()
    assert main(["generate", str(run), "--prompt", prompt, *more]) == 0
    return capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize("kind", TEXT_LAYOUTS)
def test_an_imported_model_writes_what_its_own_would(kind, tmp_path, capsys):
    """The likeliest token each time, as far as the context goes."""
    weights = weights_of(CONFIGS[kind])
    folder, out = write(tmp_path / "there", CONFIGS[kind], weights), tmp_path / "run"
    assert main(["import-model", str(folder), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"{sum(array.size for array in weights.values()):,} parameters" in said
    assert f"a prompt is token numbers from 0 to {V - 1}, as '15 27 3'" in said
    ids = [1, 2, 3]
    while len(ids) < 12:
        ids.append(int(np.argmax(FORWARDS[kind](CONFIGS[kind], weights, np.array(ids))[-1])))
    assert generated(capsys, out, "1 2 3", "--length", "9", "--top-k", "1") == " ".join(map(str, ids))
    assert generated(capsys, out, "1", "--seed", "1") == generated(capsys, out, "1", "--seed", "1")
    refuses(capsys, ["generate", out, "--prompt", "the cat"], "'the' of the text is no token, expected numbers from 0")
    refuses(capsys, ["generate", out, "--prompt", "1 " * 13], "the prompt has 13 tokens, expected 12 at most")
    assert main(["import-model", str(folder), "--out", str(out)]) == 0
    assert f"{out} has this model already" in capsys.readouterr().out
    (tmp_path / "text.txt").write_text("1 2 3 " * 9)
    assert main(["evaluate", str(out), str(tmp_path / "text.txt")]) == 0
    refuses(capsys, ["evaluate", out], "does not say which data the run was trained on; name DATA")


def test_with_a_tokenizer_prompts_are_words(tmp_path, capsys):
    package = pytest.importorskip("tokenizers", reason="tokenizers of others are read with the package tokenizers")
    words = ["the", "cat", "dog", "sat", "ran", "on", "a", "mat", "and", "then", "[?]"]
    known = {word: i for i, word in enumerate(words)}
    tokenizer = package.Tokenizer(package.models.WordLevel(known, unk_token="[?]"))
    tokenizer.pre_tokenizer = package.pre_tokenizers.Whitespace()
    folder = write(tmp_path / "there", LLAMA, weights_of(LLAMA))
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    assert main(["import-model", str(folder), "--out", str(tmp_path / "run")]) == 0
    assert "a prompt is text, for the tokenizer that came with the weights" in capsys.readouterr().out
    written = generated(capsys, tmp_path / "run", "the cat", "--length", "4", "--top-k", "1")
    bare = write(tmp_path / "bare", LLAMA, weights_of(LLAMA))
    assert main(["import-model", str(bare), "--out", str(tmp_path / "other")]) == 0
    numbers = generated(capsys, tmp_path / "other", "0 1", "--length", "4", "--top-k", "1")
    assert written == " ".join(words[int(i)] for i in numbers.split())


def test_what_cannot_be_imported_leaves_no_folder(tmp_path, capsys):
    out, weights = tmp_path / "run", weights_of(GPT_2)
    refuses(capsys, ["import-model", tmp_path / "none", "--out", out], "none is no folder")
    weights["wte.weight"][0, 0] = np.inf
    folder = write(tmp_path / "there", GPT_2, weights)
    refuses(capsys, ["import-model", folder, "--out", out], "wte.weight has numbers that are not finite in float32")
    assert not out.exists()
    refuses(capsys, ["import-model", folder], "the following arguments are required: --out")


def test_a_run_of_another_model_is_not_written_over(tmp_path, capsys):
    out = tmp_path / "run"
    first = write(tmp_path / "first", GPT_2, weights_of(GPT_2))
    assert main(["import-model", str(first), "--out", str(out)]) == 0
    config, model = (out / "config.json").read_bytes(), (out / "model.npz").read_bytes()
    assert json.loads(config)["data"]["layout"] == "gpt2"
    other = write(tmp_path / "other", GPT_2, weights_of(GPT_2, seed=1))
    refuses(capsys, ["import-model", other, "--out", out], "was trained on other data; choose another --out")
    assert (config, model) == ((out / "config.json").read_bytes(), (out / "model.npz").read_bytes())
    refuses(capsys, ["evaluate", out], "does not say which data the run was trained on; name DATA")
