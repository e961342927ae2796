"""What a number was measured on."""

import datetime
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinyattn import __version__, machine


def test_the_machine_is_described(monkeypatch):
    found = machine.describe()
    assert list(found) == ["date", "tinyattn", "cpu", "cpu_model", "cores", "python", "numpy", "system"]
    assert datetime.date.fromisoformat(found["date"]) <= datetime.date.today()
    assert found["tinyattn"] == __version__
    assert found["cores"] == os.cpu_count()
    assert found["numpy"] == np.__version__
    assert found["system"].split(" ") == [platform.system(), platform.machine()]
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    for log, status, expected in (("abc", "", "abc"), ("abc", " M x", "abc+"), ("", "", ""), ("", "?? x", "")):
        monkeypatch.setattr(machine, "git", lambda word, *_, log=log, status=status: log if word == "log" else status)
        assert machine.commit.__wrapped__() == expected

    class CPUInfo:
        def __init__(self, _):
            pass

        def read_text(self):
            return ("processor : 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: Some CPU: 3 GHz \n"
                    "model name\t: Other\n")  # fmt: skip

    monkeypatch.setattr(machine, "Path", CPUInfo)
    assert (machine.describe()["cpu"], machine.describe()["cpu_model"]) == ("Some CPU: 3 GHz", "25/17")
    monkeypatch.setattr(machine, "Path", lambda _: Path("no such file"))          # as where there is no /proc
    for name, expected in (("M9", "M9"), ("", "unknown")):
        monkeypatch.setattr(machine.platform, "processor", lambda name=name: name)
        assert (machine.describe()["cpu"], machine.describe()["cpu_model"]) == (expected, "")


def test_git_is_asked_in_the_folder_of_the_package_whatever_its_environment_says(monkeypatch):
    asked = []

    def run(words, **how):
        asked.append((words, how))
        return subprocess.CompletedProcess(words, 0, " abc \n")

    monkeypatch.setenv("GIT_DIR", "elsewhere")
    monkeypatch.setenv("KEPT", "yes")
    monkeypatch.setattr(machine.subprocess, "run", run)
    assert machine.commit.__wrapped__() == "abc+"
    assert [" ".join(words) for words, _ in asked] == ["git log -1 --format=%h -- .", "git status --porcelain -- ."]
    for _, how in asked:
        assert how["cwd"] == Path(machine.__file__).parent
        assert "GIT_DIR" not in how["env"]
        assert how["env"]["KEPT"] == "yes"
        assert how["capture_output"]
        assert how["text"]

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(machine.subprocess, "run", missing)
    assert machine.commit.__wrapped__() == ""


def test_avx2_names_the_kernels_that_all_processors_with_avx2_share(monkeypatch):
    for baseline, found, newer in (
        (["X86_V2"], ["X86_V3", "X86_V4", "AVX512_ICL"], "AVX512_ICL X86_V4"),        # NumPy 2.4
        (["SSE", "SSE2"], ["AVX2", "FMA3", "AVX512F"], "AVX512F"),                      # before it
    ):
        simd = {"SIMD Extensions": {"baseline": baseline, "found": found, "not found": ["AVX512_SPR"]}}
        monkeypatch.setattr(machine.np, "show_config", lambda mode, simd=simd: simd)
        assert machine.avx2() == {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": newer}
    for simd, chosen in (({"baseline": ["X86_V3"]}, True), ({"baseline": ["NEON"], "found": ["ASIMDHP"]}, False)):
        monkeypatch.setattr(machine.np, "show_config", lambda mode, simd=simd: {"SIMD Extensions": simd})
        assert bool(machine.avx2()) is chosen
    monkeypatch.setattr(machine.np, "show_config", lambda mode: {})
    assert machine.avx2() == {}


def test_a_process_with_avx2_computes_with_these_kernels():
    code = """
import threadpoolctl, numpy as np
found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
blas = [x for x in threadpoolctl.threadpool_info() if x["internal_api"] == "openblas"]
print({x["architecture"] for x in blas} - {"Haswell"}, [x for x in found if x >= "X86_V4" or "512" in x])
"""
    asked = machine.avx2()
    if not asked:
        pytest.skip("this processor has no AVX2")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=os.environ | asked,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout == "set() []\n", done.stdout
    assert not done.stderr
