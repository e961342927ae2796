"""The check before a release: what it reads in README, the versions it compares, how it fails, its page."""

import re
import sys

import pytest

from benchmarks import release

README = "\n".join((release.ROOT / page).read_text() for page in release.READ)


def test_every_command_of_readme_is_a_step_and_every_reason_is_needed():
    steps = release.steps(README)
    lines = [" ".join(step.words) for step in steps if step.words]
    assert len(re.findall(r"^ {4,6}(?:tinyattn|pip) ", README, re.M)) < len(lines)  # what && joins is taken apart
    assert sum(not step.words for step in steps) == README.count("```python")
    assert sum(bool(step.shows) for step in steps) == README.count("```text")
    assert "tinyattn compare runs/sasrec-interactions runs/markov-interactions --items 12,55,3" in lines
    images = lines.index("pip install -e .[images]")  # a comment of the next command asks for it
    assert lines[images + 1] == "tinyattn train --model vit --image-set digits --patch 2"
    for beginning in release.REASONS:
        assert any(line.startswith(beginning) for line in lines), beginning


def test_every_file_that_readme_reads_is_there():
    """What its commands write has other endings."""
    run = [step.words for step in release.steps(README) if step.words and not release.reason_not_to_run(step)]
    read = {word for words in run for word in words if word.endswith((".txt", ".toml", ".tsv"))}
    assert read == release.FILES.keys()


def test_a_version_that_differs_is_named(tmp_path):
    (tmp_path / "tinyattn").mkdir()
    (tmp_path / "tinyattn/__init__.py").write_text('__version__ = "0.3.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.2.0 (unreleased)\n\n## 0.1.0\n")
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 0.3.0\n")
    said = release.disagreement(release.versions(tmp_path))
    assert said == "tinyattn.__version__: 0.3.0, CHANGELOG.md: 0.2.0, CITATION.cff: 0.3.0"
    assert release.disagreement(release.versions(release.ROOT)) is None


def test_a_failure_is_one_line_without_folders_of_this_machine(tmp_path):
    say = "print('a'); print('ERROR: no network'); print('b'); raise SystemExit(3)"
    with pytest.raises(release.Failure) as caught:
        release.run([sys.executable, "-c", say], tmp_path)
    assert re.fullmatch(r"python\S* -c .* exits with 3: ERROR: no network", str(caught.value))
    with pytest.raises(release.Failure, match=r"^/no/such does not start: No such file or directory$"):
        release.run(["/no/such"], tmp_path)
