"""axe-core finds nothing in views and pages of the site, light and dark, but what is the theme's."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.show.browser import emulated, opened, settle
from tests.test_site import site  # noqa: F401  a fixture
from tinyattn.ops import softmax
from tinyattn.show import trace
from tinyattn.show.views import boards_of, derivation, mirror, visualise_text

ROOT = Path(__file__).parents[2]
WHERE = Path(os.environ.get("AXE", ROOT / "node_modules/axe-core/axe.min.js"))
THEMES = {
    "landmark-unique",       # Furo has an <aside> on either side, without names
    "definition-list",       # Sphinx sets a long signature as a list in the middle of a term
}
FIND = """
const done = arguments[0];
axe.run(document, { iframes: false, resultTypes: ["violations"] }).then((found) => done(
  found.violations.map((v) => `${v.id}: ${v.nodes.length} as ${v.nodes[0].html.slice(0, 200)}`)));
"""


@pytest.fixture(scope="module")
def axe() -> str:
    if not WHERE.is_file():
        pytest.skip(f"{WHERE} is not there: `npm install --no-save axe-core`, or AXE=FILE with the path of axe.min.js")
    return WHERE.read_text(encoding="utf-8")


def violations(driver: Any, axe: str) -> list[str]:
    driver.execute_script(axe)
    return list(driver.execute_async_script(FIND))


VIEWS = {
    "mirror": lambda: mirror(["a", "b"], q=np.eye(2), k=np.eye(2), v=np.eye(2)),
    "player": lambda: trace(softmax, np.ones((2, 2)), backward=True).player(),
    "visualiser": lambda: visualise_text("The cat sat"),
    "board": lambda: boards_of("softmax", 1),
    "derivation": derivation,
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_no_violation(chromium: Any, axe: str, tmp_path: Path, view: str, scheme: str) -> None:
    emulated(chromium, scheme)
    opened(chromium, VIEWS[view](), tmp_path)
    assert violations(chromium, axe) == []


def test_what_is_wrong_is_found(chromium: Any, axe: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><html lang=en><title>a</title><main><h1>a</h1><p style='color: #999'>pale words")
    chromium.get(page.as_uri())
    [found] = violations(chromium, axe)
    assert found.startswith("color-contrast: 1 as <p ")


PAGES = ("website/index", "notebooks/04_attention_backward", "notebooks/00_first_look", "website/api/ops",
         "website/api/ops_attention", "docs/check", "docs/views", "docs/speed", "benchmarks/results/zoo")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_site_has_none_but_the_themes(chromium: Any, axe: str, site: Path, page: str) -> None:  # noqa: F811
    for scheme in ("light", "dark"):
        emulated(chromium, scheme)
        chromium.get((site / f"{page}.html").as_uri())
        settle(chromium)
        assert [each for each in violations(chromium, axe) if each.split(":")[0] not in THEMES] == [], scheme
