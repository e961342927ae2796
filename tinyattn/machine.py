"""The machine and versions that a measurement ran on."""

import datetime
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__

HERE = Path(__file__).parent


def describe() -> dict[str, Any]:
    """The date, the version, the processor by name and by family/model ("" where unknown), cores, versions, system."""
    return {
        "date": datetime.date.today().isoformat(),
        "tinyattn": __version__,
        "cpu": _of_cpu("model name") or platform.processor() or "unknown",
        "cpu_model": "/".join(filter(None, map(_of_cpu, ("cpu family", "model")))),   # clouds have one name for several
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def avx2() -> dict[str, str]:
    """Environment variables by which OpenBLAS and NumPy compute with AVX2, at most; {} on a processor without it.

    The last digits of a product depend on the kernels, and training makes small differences large. A process started
    with these variables and one thread rounds alike on all processors that have AVX2.
    """
    simd: Any = np.show_config(mode="dicts").get("SIMD Extensions", {})     # NumPy leaves out what is empty
    chosen = simd.get("found", [])          # those beyond the baseline that are compiled in, and that the processor has
    if not {"AVX2", "X86_V3"} & {*simd.get("baseline", []), *chosen}:       # before NumPy 2.4, and since
        return {}
    newer = sorted(name for name in chosen if name.startswith(("AVX512", "X86_V4")))
    return {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": " ".join(newer)}


@cache
def commit() -> str:
    """The last commit of this package, with "+" if files have changed since; "" outside git. Call it early."""
    last = git("log", "-1", "--format=%h", "--", ".")
    return last + ("+" if last and git("status", "--porcelain", "--", ".") else "")


def git(*words: str, folder: Path | None = None) -> str:
    """What git prints in a folder (default: this package's), whatever GIT_DIR says, as in a hook; "" where it fails."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    how: dict[str, Any] = {"cwd": folder or HERE, "env": env, "capture_output": True, "text": True}
    try:
        return str(subprocess.run(["git", *words], **how).stdout).strip()
    except OSError:                      # git is not installed
        return ""


def _of_cpu(name: str) -> str:
    """The value of a line of Linux's /proc/cpuinfo, for the first processor; "" elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((value.strip() for key, _, value in (line.partition(":") for line in lines) if key.strip() == name), "")
