"""The chapters as a JupyterLite site: notebooks that a reader's browser runs by itself, nothing installed.

    pip install -e ".[lite]" && python website/lite.py build/lite
    python -m http.server --directory build/lite        # then open /notebooks/index.html?path=00_first_look.ipynb

The site has the chapters, exercises unsolved, and a wheel of this checkout, which each chapter's first cell installs.
Python and NumPy are Pyodide's, which a reader's browser fetches from Pyodide's server. docs/browser.md says which
parts were tried.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tinyattn.course.chapters import chapters  # noqa: E402
from tinyattn.course.notebook import build  # noqa: E402


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("to", type=Path, metavar="FOLDER", help="the folder of the site")
    to = parser.parse_args().to.resolve()
    if importlib.util.find_spec("jupyterlite_pyodide_kernel") is None:
        raise SystemExit('website/lite.py needs JupyterLite: pip install -e ".[lite]"')
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)], check=True)
        [wheel] = Path(folder).glob("*.whl")
        build(chapters(), Path(folder) / "chapters", install="tinyattn[check]")
        lite = [sys.executable, "-m", "jupyter", "lite", "build", "--lite-dir", folder, "--contents", "chapters"]
        lite += ["--piplite-wheels", str(wheel), "--output-dir", str(to), "--no-sourcemaps", "--apps", "notebooks"]
        subprocess.run([*lite, "--apps", "lab"], check=True, cwd=folder)


if __name__ == "__main__":
    main()
