"""What a stranger installs: one version everywhere, type hints, and the versions that were tried."""

import re
import tomllib
from pathlib import Path

from benchmarks import release
from tinyattn import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_stands_in_one_place_and_others_follow():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "tinyattn/__init__.py"
    assert re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M) == [__version__]
    assert re.findall(r"^## ([0-9.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == __version__


def test_type_hints_are_part_of_the_package():
    assert (ROOT / "tinyattn" / "py.typed").exists()


def test_the_description_needs_no_file_of_the_checkout():
    """As hatch-fancy-pypi-readme makes it of README; what stands in code is as it was."""
    readme = found = (ROOT / "README.md").read_text()
    for one in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        found = re.sub(one["pattern"], one["replacement"], found)
    assert re.search(release.RELATIVE, readme)
    assert not re.search(release.RELATIVE, found)
    code = r"^```.*?^```$|^    [^\n]*$|`[^`\n]+`"
    assert re.findall(code, found, re.M | re.S) == re.findall(code, readme, re.M | re.S)


def test_the_constraints_are_exact_and_name_all_that_dev_asks_for():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    pinned = {normal(line.partition("==")[0]) for line in lines}
    extras = PROJECT["project"]["optional-dependencies"]
    asked = PROJECT["project"]["dependencies"] + extras["check"] + extras["docs"] + extras["dev"]
    names = {normal(re.match(r"[\w.-]+", line)[0]) for line in asked}
    assert names - {"tinyattn"} <= pinned


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()
