"""Which module arrays belong to; messages where a device cannot be used, with a made-up CuPy."""

import sys
import types

import numpy as np
import pytest

from tinyattn import backend
from tinyattn.backend import device_name, get_xp, module_for, register

CuPyArray, Sub = type("CuPyArray", (), {}), type("Sub", (np.ndarray,), {})


def cupy(look):
    """A CuPy that counts devices by `look`."""
    runtime = types.SimpleNamespace(getDeviceCount=look, CUDARuntimeError=ZeroDivisionError,
                                    getDeviceProperties=lambda number: {"name": f"GPU {number}".encode()})  # fmt: skip
    return types.SimpleNamespace(ndarray=CuPyArray, cuda=types.SimpleNamespace(runtime=runtime), __name__="cupy")


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Tables as they are without CuPy and without the devices of other tests."""
    for name, table in {"_MODULES": {np.ndarray: np, np.generic: np}, "_TOGETHER": {}, "_DEVICES": {"cpu": np},
                        "DEVICES": ["cpu", "gpu"]}.items():  # fmt: skip
        monkeypatch.setattr(backend, name, table)


def test_arrays_of_one_module_have_it_and_all_else_is_refused(monkeypatch):
    found = cupy(int)
    monkeypatch.setitem(sys.modules, "cupy", found)
    assert get_xp(None, np.ones(2), np.float32(1), np.ones(1).view(Sub)) is np
    assert get_xp(CuPyArray(), None) is found
    for wrong, says in (
        ((np.ones(1), [1.0]), "expected an array, got list: convert"), ((None,), "expected at least one array"),
        ((np.ones(1), CuPyArray()), "arrays of numpy and of cupy in one call"),
    ):  # fmt: skip
        for _ in range(2):
            with pytest.raises(TypeError, match=says):
                get_xp(*wrong)
    assert backend.asarray(None, np.ones(1)) is None


def test_another_kind_of_array_is_known_from_the_moment_that_it_is_registered():
    x = np.ones(1).view(Sub)
    assert get_xp(x) is np
    for _ in range(2):
        register(Sub, types, "sub")
    assert get_xp(x) is module_for("sub") is types
    register(CuPyArray, sys)
    assert backend.DEVICES == ["cpu", "gpu", "sub"]


def test_a_device_is_used_or_it_is_said_what_is_missing(monkeypatch, tmp_path):
    assert (module_for("cpu"), device_name("cpu")) == (np, "cpu")
    (tmp_path / "cupy.py").write_text("raise ImportError('no libcudart')")
    for found, says in ((None, "gpu needs CuPy: pip install"), (cupy(lambda: 0), r"no CUDA device \(none was found\)"),
                        (cupy(lambda: 1 / 0), r"no CUDA device \(division by zero\)")):  # fmt: skip
        monkeypatch.setitem(sys.modules, "cupy", found)
        with pytest.raises(ValueError, match=says):
            module_for("gpu")
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="CuPy is installed and cannot be imported: no libcudart"):
        module_for("gpu")
    with pytest.raises(ValueError, match=r"device is 'tpu', expected one of cpu, gpu$"):
        device_name("tpu")
    monkeypatch.setitem(sys.modules, "cupy", cupy(lambda: 1))
    assert module_for("gpu") is sys.modules["cupy"] is get_xp(CuPyArray())
    assert device_name("gpu") == "GPU 0"
