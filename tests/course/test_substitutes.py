"""`--ops my-course/answers`: a learner's accepted answers train a recommender."""

import textwrap

import pytest

from tests.check.test_substitute import fitted
from tests.helpers import refuses
from tinyattn import ops
from tinyattn.check.substitute import SubstituteError, substituted
from tinyattn.cli import main
from tinyattn.course import session, your_ops
from tinyattn.course.answers import prepare
from tinyattn.course.chapters import solution_of
from tinyattn.course.exercises import BY_NAME
from tinyattn.course.substitutes import read_answers
from tinyattn.forms import is_readable
from tinyattn.ops import attention_backward

ANSWERS = ("my_softmax", "my_masked_softmax", "my_softmax_backward", "my_linear_backward", "my_attention_backward",
           "repaired_backward", "my_layer_norm", "my_layer_norm_backward", "my_hit_rate")  # fmt: skip


IMPORTS = "import math\nimport numpy as np\nfrom tinyattn.ops import attention\n\n\n"


def folder_of(tmp_path, *names):
    """A folder of answers as a course keeps them: here the chapters' solutions."""
    prepare(tmp_path)
    for name in names:
        (tmp_path / "answers" / f"{name}.py").write_text(f"{IMPORTS}{textwrap.dedent(solution_of(BY_NAME[name]))}\n")
    return tmp_path / "answers"


@pytest.fixture(autouse=True)
def few_examples(monkeypatch):
    monkeypatch.setattr("tinyattn.course.graders.function.EXAMPLES", 2)


def test_answers_train_the_same_model_to_rounding(tmp_path):
    folder = folder_of(tmp_path, *ANSWERS)
    substitutes, notes = read_answers(folder)
    assert {s.name: s.origin.rpartition(":")[0] for s in substitutes} == {
        "softmax": f"{folder}/my_masked_softmax.py",
        "softmax_backward": f"{folder}/my_softmax_backward.py",
        "linear_backward": f"{folder}/my_linear_backward.py",
        "attention_backward": f"{folder}/my_attention_backward.py",
        "layer_norm": f"{folder}/my_layer_norm.py",
        "layer_norm_backward": f"{folder}/my_layer_norm_backward.py",
    }
    assert [note.split()[0] for note in notes] == [f"{folder}/my_softmax.py"]
    assert "takes no mask" in notes[0]
    mine = fitted(inside=[substituted(substitutes)])
    assert mine.history[0]["loss"] == pytest.approx(fitted().history[0]["loss"], rel=1e-5)


def test_multi_head_attention_of_chapter_5_comes_with_the_librarys_backward(tmp_path):
    folder = folder_of(tmp_path, "my_multi_head", "my_softmax_backward")
    substitutes, notes = read_answers(folder)
    assert [s.name for s in substitutes] == ["softmax_backward"]
    assert "my_multi_head.py is not used: it takes no mask" in notes[0]
    file, text = folder / "my_multi_head.py", (folder / "my_multi_head.py").read_text()
    file.write_text(text.replace("heads):", "heads, mask=None):").replace("(q, k, v)", "(q, k, v, mask)"))
    (folder / "my_softmax_backward.py").unlink()
    substitutes, _ = read_answers(folder)
    assert [s.name for s in substitutes] == ["multi_head_attention", "multi_head_attention_backward"]
    assert substitutes[0].origin.endswith("my_multi_head.py:6")
    mine = fitted(inside=[substituted(substitutes)])
    assert mine.history[0]["loss"] == pytest.approx(fitted().history[0]["loss"], rel=1e-5)


def test_an_answer_that_was_changed_is_graded_again(tmp_path):
    folder = folder_of(tmp_path, "my_softmax_backward")
    file = folder / "my_softmax_backward.py"
    file.write_text(file.read_text().replace("return p", "return 2 * p"))
    with pytest.raises(SubstituteError, match=r"my_softmax_backward.py is no longer right: --unchecked computes"):
        read_answers(folder)
    assert read_answers(folder, checked=False)
    file.write_text("def my_softmax_backward(dp p):")
    with pytest.raises(SubstituteError, match=r"my_softmax_backward.py cannot be used: SyntaxError"):
        read_answers(folder)


def test_folders_without_answers_to_ops_are_refused(tmp_path):
    with pytest.raises(SubstituteError, match=r"is no folder of accepted answers: `tinyattn course build` makes one"):
        read_answers(tmp_path)
    with pytest.raises(SubstituteError, match=r"no accepted answer that is an op of a model: expected my_softmax.py"):
        read_answers(folder_of(tmp_path, "my_hit_rate"))
    with pytest.raises(SubstituteError, match=r"my_softmax.py is not used: it takes no mask"):
        read_answers(folder_of(tmp_path, "my_softmax"))


def test_the_command_says_whose_code_each_op_was(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder_of(tmp_path / "my-course", "my_masked_softmax", "my_softmax_backward")
    words = ["train", "--epochs", "1", "--dim", "8", "--maxlen", "5", "--out", "run", "--ops"]
    assert main([*words, "my-course/answers"]) == 0
    out = capsys.readouterr().out
    assert "  softmax           my-course/answers/my_masked_softmax.py:6\n" in out
    assert "  all others        the library's readable forms\n" in out
    refuses(capsys, [*words, "readable"], "run was made with --ops answers (", "not fast")


def test_a_notebook_computes_with_the_accepted_answers_and_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "_HERE", {})
    with your_ops():
        assert is_readable()
        library = fitted()
    assert capsys.readouterr().out == "every op: the library's, as its file says\n"
    folder_of(tmp_path, "my_softmax", "my_softmax_backward")
    with your_ops():
        assert attention_backward.__globals__["softmax_backward"] is not ops.softmax_backward
        mine = fitted()
    said = "softmax_backward: yours, my_softmax_backward\nall other ops: the library's, as its file says\n"
    assert capsys.readouterr().out == said
    assert attention_backward.__globals__["softmax_backward"] is ops.softmax_backward
    assert mine.history[0]["loss"] == pytest.approx(library.history[0]["loss"], rel=1e-5)
