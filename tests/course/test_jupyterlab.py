"""Chapters in JupyterLab, as a learner runs them: driven in Chromium, skipped where one of the two is missing."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.show.conftest import chromium  # noqa: F401  (a fixture)
from tinyattn.course.chapters import chapters
from tinyattn.course.notebook import build

CHAPTERS = chapters([0, 1, 4])
TOKEN = "of-this-test"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab whose kernels are this Python, and its folder of chapters with their solutions."""
    command = shutil.which("jupyter-lab")
    if command is None:
        pytest.skip("jupyterlab is not installed")
    folder, home = tmp_path_factory.mktemp("course"), tmp_path_factory.mktemp("home")
    build(CHAPTERS, folder, True)
    kernel = home / "data" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": start, "display_name": "Python 3", "language": "python"}))
    settings = home / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"windowingMode": "none"}')  # all cells are in the page
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    options = {
        "ServerApp.port": port, "IdentityProvider.token": TOKEN, "ServerApp.root_dir": folder,
        "ServerApp.ip": "localhost",
        "LabApp.expose_app_in_browser": True, "ServerApp.allow_root": True, "LabApp.news_url": "",
    }  # fmt: skip
    places = {"JUPYTER_PATH": home / "data", "JUPYTERLAB_SETTINGS_DIR": home / "settings",
              "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces", "JUPYTER_RUNTIME_DIR": home / "runtime",
              "JUPYTER_CONFIG_DIR": home / "config"}  # fmt: skip
    server = subprocess.Popen(
        [command, "--no-browser", *(f"--{name}={value}" for name, value in options.items())],
        env=os.environ | {name: str(place) for name, place in places.items()},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://localhost:{port}"
    try:
        for _ in range(300):
            try:
                urlopen(f"{address}/api/status?token={TOKEN}", timeout=5).close()
                break
            except (URLError, OSError):
                time.sleep(0.2)
        yield address, folder
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slow(seconds=60)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.path.stem)
def test_a_chapter_runs_to_its_end_in_jupyterlab(lab, chromium, chapter):  # noqa: F811
    address, folder = lab
    path = folder / f"{chapter.path.stem}.ipynb"
    chromium.set_script_timeout(400)
    chromium.get(f"{address}/lab/tree/{path.name}?token={TOKEN}&reset")
    failed = chromium.execute_async_script(
        """
        const done = arguments[0];
        const until = async (f) => { while (!f()) await new Promise(r => setTimeout(r, 100)); return f(); };
        (async () => {
            const app = await until(() => window.jupyterapp);
            const panel = await until(() => app.shell.currentWidget?.sessionContext && app.shell.currentWidget);
            await panel.context.ready;
            await panel.sessionContext.ready;
            await until(() => panel.sessionContext.session?.kernel?.status === 'idle');
            await app.commands.execute('notebook:run-all-cells');
            await panel.context.save();
        })().then(() => done(null), error => done(String(error)));
        """
    )
    assert failed is None
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in cells if cell["execution_count"] is None and cell["source"]] == []
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert [output["evalue"] for output in outputs if output["output_type"] == "error"] == []
    shown = json.dumps(outputs, ensure_ascii=False)
    assert len(re.findall(r"✓", shown)) >= len(chapter.exercises)
    page = "return [...document.querySelectorAll('.jp-OutputArea-output img')].filter(x => !x.alt).length"
    assert chromium.execute_script(page) == 0  # each picture has a text for who cannot see it
    frames = "return [...document.querySelectorAll('.jp-OutputArea-output iframe')].map(x => x.scrollWidth)"
    assert all(width > 300 for width in chromium.execute_script(frames))
