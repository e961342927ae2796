"""Headless Chromium, driven by selenium; tests that need it skip, and say so, where one is missing."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _drawn(with_pictures: None) -> None:
    """All pictures here are drawn."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    found = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found["chromedriver"]))
    yield driver
    driver.quit()
