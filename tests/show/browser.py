"""A view in a browser, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def opened(driver: Any, view: Any, folder: Path) -> Any:
    """The page of a view, from a file."""
    driver.get(view.save(folder / "view.html").as_uri())
    return driver


def refuse_complaints(driver: Any) -> None:
    """The console has no word, and nothing but the file itself was asked for."""
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    asked = [e["message"] for e in driver.get_log("performance") if "Network.requestWillBeSent" in e["message"]]
    assert all('"url":"file:' in message or '"url":"data:' in message for message in asked), asked
