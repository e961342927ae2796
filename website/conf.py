"""The site: `sphinx-build -W -c website . build/site`. The sources are the repository's own files, where they stand.

So a link or a picture of docs/, notebooks/ or CONTRIBUTING.md is the same on a Git host and here. No notebook is
executed, and nothing is fetched, neither by the build nor by who reads: formulas are MathML, which browsers draw by
themselves.
"""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE.parent)]

import tinyattn  # noqa: E402

project = "tinyattn"
author = "The tinyattn authors"
copyright = author
version = release = tinyattn.__version__

extensions = [
    "myst_nb", "sphinx.ext.autodoc", "docstrings", "findings", "formulas", "live", "ops_page", "pictures", "sidebar",
    "sources", "tables",
]
root_doc = "website/index"
include_patterns = [
    "website/**.md",
    "docs/*.md",
    "notebooks/README.md",
    "notebooks/[0-9]*.ipynb",
    "benchmarks/results/*.md",
    "benchmarks/results/reproduce/*/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]
exclude_patterns = [".*", "build", "dist", "runs", "**/.ipynb_checkpoints"]     # folders that need not be searched
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

nb_execution_mode = "off"                  # committed as executed; `notebooks/build.py --check` says what is stale
myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

# What a package offers lazily is there from now on: autodoc looks a module's names up in its dictionary.
FLOORS = ("ops", "layers", "data", "evaluation", "training", "models", "export", "experiments", "check", "show")
FLOORS += ("course",)
for floor in FLOORS:
    module = importlib.import_module(f"tinyattn.{floor}")
    for name in module.__all__:
        setattr(module, name, getattr(module, name))

default_role = "py:obj"
add_module_names = False
autodoc_default_options = {"members": True, "undoc-members": True, "no-value": True}
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True           # `np.float32`, and not what it is called on this machine
autodoc_typehints_format = "short"
maximum_signature_line_length = 95
toc_object_entries_show_parents = "hide"

smartquotes = False                        # docstrings hold formulas: a prime is no apostrophe

html_theme = "furo"
html_title = "tinyattn"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["scroll.js"]
templates_path = ["templates"]
html_additional_pages = {"index": "to_the_front_page.html"}
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_use_index = True
pygments_style = "default"
