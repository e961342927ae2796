"""A view in a browser, for tests."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def opened(driver: Any, view: Any, folder: Path) -> Any:
    """The page of a view, from a file, when all is drawn."""
    driver.get(view.save(folder / "view.html").as_uri())
    settle(driver)
    return driver


def settle(driver: Any) -> None:
    """Wait until all that was asked for is drawn."""
    driver.execute_async_script(
        "const done = arguments[0], busy = () => document.querySelector('[aria-busy]');"
        "const check = () => busy() ? setTimeout(check, 5) : done(); check();"
    )


def refuse_complaints(driver: Any) -> None:
    """The console has no word, and nothing but the file itself was asked for."""
    assert [entry["message"] for entry in driver.get_log("browser")] == []
    asked = [e["message"] for e in driver.get_log("performance") if "Network.requestWillBeSent" in e["message"]]
    assert all('"url":"file:' in message or '"url":"data:' in message for message in asked), asked


def emulated(driver: Any, scheme: str, medium: str = "screen") -> None:
    """As if the reader preferred light or dark, on a screen or on paper (`print`)."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})


@contextmanager
def screen(driver: Any, width: int, height: int) -> Iterator[None]:
    """A screen of this many pixels."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def tab_stops(driver: Any) -> list[str]:
    """What the Tab key comes to, from the top of the page to its end."""
    from selenium.webdriver.common.keys import Keys

    stops: list[str] = []
    driver.execute_script("window.came = new Set()")
    while len(stops) < 500:
        driver.switch_to.active_element.send_keys(Keys.TAB)
        stop = driver.execute_script(
            "const x = document.activeElement; if (x === document.body || window.came.has(x)) return null;"
            "window.came.add(x); return `${x.tagName} ${x.ariaLabel || x.className || x.textContent}`"
        )
        if stop is None:
            break
        stops.append(stop)
    return stops


def contrast(one: str, two: str) -> float:
    """Of two colours as the browser writes them, rgb(r, g, b): WCAG 2's ratio, 1 to 21."""
    light, dark = sorted((_luminance(one), _luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return sum(share * x for share, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def refuse_unreachable(driver: Any, tags: set[str]) -> None:
    """All that can be used has a name and is come to with Tab, some of all `tags`; where the focus is can be seen."""
    from selenium.webdriver.common.keys import Keys

    usable = ":is(button, input, select):enabled, textarea, summary, [tabindex='0']"
    usable = f":is({usable}):not([tabindex='-1'])"
    nameless = driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((x) => x.checkVisibility() && "
        "!(x.ariaLabel || x.textContent.trim())).map((x) => x.outerHTML)", usable,
    )  # fmt: skip
    assert nameless == []
    count = driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].filter((x) => x.checkVisibility()).length", usable
    )
    reached = set()
    for _ in range(count):
        driver.switch_to.active_element.send_keys(Keys.TAB)
        tag, outline, place = driver.execute_script(
            "const x = document.activeElement, s = getComputedStyle(x);"
            "const all = [...document.querySelectorAll(arguments[0])];"
            "return [x.tagName, s.outlineStyle + ' ' + s.outlineWidth, all.indexOf(x)]", usable,
        )  # fmt: skip
        if place >= 0:
            assert outline == "solid 3px", (tag, outline)
            reached.add((tag, place))
    assert len(reached) == count, f"{count - len(reached)} of {count} are never come to"
    assert {tag for tag, _ in reached} >= tags
