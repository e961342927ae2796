"""Pages as programs: run as a reader runs them, and what holds of each."""

import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path

from tinyattn import pages


def run(page, *arguments, **constants):
    """The program with other values of some of its constants, in a process of its own, with one thread."""
    code = Path(page.__file__).read_text()
    for name, value in constants.items():
        code = code.replace(f" {getattr(page, name)}, ", f" {value}, ", 1)
    how = {"capture_output": True, "text": True, "timeout": 300, "env": os.environ | {"OPENBLAS_NUM_THREADS": "1"}}
    return subprocess.run([sys.executable, "-", *arguments], input=code, **how)


def main_of(page, **instead):
    """Run the program here, without a file, with other functions and constants."""
    text = Path(page.__file__).read_text().partition('if __name__ == "__main__":\n')[2]
    exec(textwrap.dedent(text), vars(page) | {"sys": types.SimpleNamespace(argv=["page"])} | instead)


def refuses(page, constant, path, content, message):
    """One line on standard error that says `message`, and exit code 2; a content of None is a file that is missing."""
    if content is not None:
        path.write_bytes(content)
    done = run(page, str(path), **{constant: 1})
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def is_a_page(page, imports, lines):
    """It imports nothing else, is no longer, and is what `tinyattn page` prints."""
    text = Path(page.__file__).read_text()
    assert [line for line in text.splitlines() if line.startswith(("import", "from"))] == imports
    assert text.count("\n") <= lines
    assert pages.source(page.__name__.rpartition(".")[2]) == text
