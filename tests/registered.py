"""Mechanisms added by CONTRIBUTING.md alone: the one that it shows, and sigmoid attention, as if their files stood in
the folder and their lines in the table.

    python -m pytest -p tests.registered tests/models/test_seams.py -k "tempered or sigmoid"

runs what the shared tests ask of them: the plugin puts them into MECHANISMS before options are made from the table.
"""

import linecache
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

NAME = "tinyattn.layers.mechanisms.tempered"


def example():
    """The class, made from the page."""
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    code = next(c for c in re.findall(r"```python\n(.*?)```", text, re.S) if "Mechanism" in c)
    module = ModuleType(NAME)
    module.__file__, module.__package__ = "CONTRIBUTING.md", NAME.rpartition(".")[0]
    linecache.cache[module.__file__] = len(code), None, code.splitlines(keepends=True), module.__file__
    sys.modules[NAME] = module                                  # where its dataclass looks for names
    exec(compile(code, module.__file__, "exec"), vars(module))
    return module.Tempered


@pytest.hookimpl(tryfirst=True)  # conftest.py imports the models
def pytest_load_initial_conftests():
    from tests.sigmoid import Sigmoid
    from tinyattn.layers.mechanisms import MECHANISMS

    MECHANISMS.update(tempered=example(), sigmoid=Sigmoid)
