"""What a number was measured on."""

import datetime
import os
import sys

import numpy as np

from tinyattn import __version__, machine


def test_the_machine_is_described(monkeypatch):
    found = machine.describe()
    assert list(found) == ["date", "tinyattn", "cpu", "cores", "python", "numpy", "system"]
    assert datetime.date.fromisoformat(found["date"]) <= datetime.date.today()
    assert found["tinyattn"] == __version__
    assert found["cores"] == os.cpu_count()
    assert found["numpy"] == np.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    for log, status, expected in (("abc", "", "abc"), ("abc", " M x", "abc+"), ("", "", ""), ("", "?? x", "")):
        monkeypatch.setattr(machine, "_git", lambda word, *_, log=log, status=status: log if word == "log" else status)
        assert machine.commit.__wrapped__() == expected

    class CPUInfo:
        def __init__(self, _):
            pass

        def read_text(self):
            return "processor : 0\nmodel name\t: Some CPU: 3 GHz \nmodel name\t: Other\n"

    monkeypatch.setattr(machine, "Path", CPUInfo)
    assert machine._cpu() == "Some CPU: 3 GHz"
