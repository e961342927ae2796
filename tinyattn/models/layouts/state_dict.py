"""Parameters in one file: a state dict of PyTorch, or safetensors.

A state dict is a pickle, which may hold code. `torch.load(weights_only=True)` reads it without running any.
"""

import hashlib
import pickle
import warnings
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ...files import FileError
from .weights import as_float32, read_whole, without_wrappers

NESTS = ("state_dict", "model_state_dict", "model")      # keys under which trainers keep the state dict
PICKLED = (".pt", ".pth", ".ckpt", ".bin")
FILES = (".safetensors", *PICKLED)
FLOATS = ("float64", "float32", "float16", "bfloat16")


class StateDict:
    """The parameters of a file by name, in float32, and its hyper-parameters (`about`).

    Raises FileError for a file that is missing, damaged, of another kind, or would run code, and for numbers that
    are not finite; ImportError if the package that reads it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.about = path, dict[str, Any]()
        if not path.is_file():
            raise FileError(f"{path}: no such file")
        parameters = read_whole(path) if path.suffix == ".safetensors" else self._pickle()
        self.parameters = without_wrappers(parameters)

    def read(self, name: str) -> np.ndarray:
        """The parameter in float32, by `as_float32`."""
        return as_float32(self.parameters[name], self.path, name)

    def fingerprint(self) -> str:
        """A digest of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]

    def _pickle(self) -> dict[str, np.ndarray]:
        if self.path.suffix not in PICKLED:
            raise FileError(f"{self.path} is neither .safetensors nor one of {', '.join(PICKLED)}")
        try:
            torch: Any = import_module("torch")
        except ImportError:
            raise ImportError(
                f"reading {self.path} needs PyTorch (pip install torch), which reads numbers without running code; "
                "saved as .safetensors it needs none"
            ) from None
        try:
            _refuse_compressed(self.path)
            with torch.serialization.safe_globals(_arrays_of_numpy()), warnings.catch_warnings():
                warnings.simplefilter("ignore")          # about pickles that torch.save did not write
                whole = torch.load(self.path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            what = next((line for line in str(error).splitlines() if "GLOBAL" in line or "Unsupported" in line), "")
            why = "would run code" if "GLOBAL" in what else "is a pickle that torch.save did not write"
            raise FileError(f"{self.path} {why}, and is not read: {what.strip()}") from None
        except (FileError, MemoryError):
            raise
        except Exception as error:                       # for a damaged file torch raises exceptions of many types
            what = str(error).partition(".")[0] or "it ends too soon"         # torch adds its internals
            raise FileError(f"{self.path} is truncated, damaged or no state dict: {what}") from None
        outer = whole if isinstance(whole, dict) else {}
        if inner := next((key for key in NESTS if isinstance(outer.get(key), dict)), None):
            about = outer.get("hyper_parameters")
            self.about, whole = about if isinstance(about, dict) else {}, outer[inner]
        if not isinstance(whole, dict) or not all(isinstance(x, torch.Tensor) for x in whole.values()) or not whole:
            raise FileError(f"{self.path} holds a {type(whole).__name__}, expected a state dict: names and tensors")
        return {str(name): self._array(str(name), x, torch) for name, x in whole.items()}

    def _array(self, name: str, x: Any, torch: Any) -> np.ndarray:
        """A tensor in float32. Raises FileError for one that is not an array of floats, before memory is taken."""
        kind = str(x.dtype).removeprefix("torch.")
        if kind not in FLOATS:
            raise FileError(f"{self.path}: {name} is of {kind}, expected one of {', '.join(FLOATS)}")
        if x.layout != torch.strided or x.is_nested or x.is_meta:
            form = "no numbers" if x.is_meta else f"the layout {'nested' if x.is_nested else x.layout}"
            raise FileError(f"{self.path}: {name} has {form}, expected a dense tensor")
        stored = x.untyped_storage().nbytes() // x.element_size()
        if x.numel() > stored:       # a tensor made by `expand` has many entries, and stores one
            raise FileError(f"{self.path}: {name} is {tuple(x.shape)}, and the file holds {stored:,} numbers of it")
        return x.detach().to(torch.float32).resolve_neg().numpy()


def _refuse_compressed(path: Path) -> None:
    """Raise FileError for a zip archive that would take more memory than its file: torch.save compresses nothing."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if packed := [info.filename for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]:
                raise FileError(f"{path} has {packed[0]} compressed, which torch.save does not do; save it anew")


def _arrays_of_numpy() -> list[Any]:
    """The functions that a pickled array calls; they only make arrays. RecTools pickles item ids."""
    from numpy._core import multiarray

    reconstruct: Any = multiarray._reconstruct
    kinds = [type(np.dtype(name)) for name in ("int64", "int32", "float64", "float32", "bool", "U1", "O")]
    return [reconstruct, (reconstruct, "numpy.core.multiarray._reconstruct"), np.ndarray, np.dtype, *kinds]
