"""Draw the pictures of the site's interactive pages, figures/view-NAME.png, in headless Chromium.

    python benchmarks/stills.py [NAME ...]

Opens each page of website/extensions/live.py, does there what a reader would do first, and takes a picture of its upper
part. Needs chromium, chromium-driver and selenium (`pip install -e ".[browser]"`), and Sphinx (`pip install -e
".[dev]"`).
"""

import argparse
import base64
import contextlib
import io
import sys
import tempfile
from pathlib import Path

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from PIL import Image

from benchmarks.views import ACT, browser
from tinyattn.files import write_atomically
from website.extensions.live import PAGES, PICTURES

# name: (width and height in CSS pixels, each drawn as 2 × 2 pixels; JavaScript that does what a reader does first).
STILLS: dict[str, tuple[int, int, list[str]]] = {
    "player": (1200, 760, []),               # as it opens, at the first product of the backward
    "visualiser": (1000, 600, ["""const s = document.querySelector("select[aria-label='drawn as']"); s.value = "lines";
s.dispatchEvent(new Event("change"));"""]),
    "mirror": (1060, 460, ["""document.querySelector("g.entry[aria-label^='ds[1, 2]']").dispatchEvent(
new PointerEvent("pointerover", {pointerType: "mouse", bubbles: true}));"""]),
    "derivation": (800, 610, 3 * ["""const all = [...document.querySelectorAll("button")];
all.find((b) => b.textContent === "Next").click();"""]),
}  # fmt: skip


def draw(names: list[str]) -> None:
    with contextlib.ExitStack() as stack:
        driver = browser()
        stack.callback(driver.quit)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        still = [{"name": "prefers-reduced-motion", "value": "reduce"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": still})
        driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        for name in names:
            width, height, does = STILLS[name]
            size = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": False}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.get(PAGES[name]().save(folder / "view.html").as_uri())
            for code in ("", *does):
                driver.execute_async_script(ACT.replace("%s", code), 0)
            drawn = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
            [path] = [path for path, page in PICTURES.items() if page == name]
            image, small = Image.open(io.BytesIO(base64.b64decode(drawn))).convert("RGB"), io.BytesIO()
            image.quantize(256).save(small, "png", optimize=True)        # half the bytes
            write_atomically(path, small.getvalue())
            print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(STILLS)} (default: all)")
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in STILLS]:
        parser.error(f"{unknown[0]} is no page, expected {', '.join(STILLS)}")
    draw(names or list(STILLS))


if __name__ == "__main__":
    main()
