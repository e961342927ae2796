"""Parameters in safetensors files: a JSON header with names, formats and shapes, then the numbers, and no code."""

import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...extras import optional
from ...files import FileError, json_of, read_json

ONE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
FORMATS = ("F64", "F32", "F16", "BF16")
# what DataParallel, torch.compile, RecTools' Lightning module and modules that hold one model put before every name
WRAPPERS = ("module.", "_orig_mod.", "torch_model.", "model.")


class Stored(NamedTuple):
    """A parameter in a file, where it may have a longer name."""

    path: Path
    name: str
    shape: tuple[int, ...]
    format: str


class Weights:
    """The parameters in a folder, in model.safetensors or the files of its index. Only headers are read at first.

    Raises FileError for a folder without them, even if it has pickles, which may run code; and for files that are
    missing, damaged or do not agree with the index.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        index = self._index()
        self.files = sorted({folder / name for name in index.values()}) or [folder / ONE]
        self.parameters: dict[str, Stored] = {}
        for path in self.files:
            for name, stored in header(path).items():
                if name in self.parameters:
                    raise FileError(f"{name} is in both {self.parameters[name].path} and {path}")
                self.parameters[name] = stored
        for name, file in index.items():
            if name not in self.parameters or self.parameters[name].path.name != file:
                raise FileError(f"{folder / INDEX} says that {name} is in {file}, and it is not")
        self.parameters = without_wrappers(self.parameters)

    def read(self, name: str) -> np.ndarray:
        """The parameter in float32, by `as_float32`."""
        stored = self.parameters[name]
        if stored.format == "BF16":
            _package("ml_dtypes")        # which adds this format to NumPy's
        with opened(stored.path) as file:
            return as_float32(file.get_tensor(stored.name), stored.path, name)

    def fingerprint(self) -> str:
        """A digest of all files."""
        digest = hashlib.sha256()
        for path in self.files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:16]

    def _index(self) -> dict[str, str]:
        """The file of each parameter, by the index; {} for a single file."""
        if (self.folder / ONE).exists():
            return {}
        path = self.folder / INDEX
        if not path.exists():
            raise FileError(_nothing(self.folder))
        table = read_json(path)
        names = table.get("weight_map") if isinstance(table, dict) else None
        if not isinstance(names, dict) or not names:
            raise FileError(f"{path} has no weight_map: which parameter is in which file")
        for name in names.values():
            if not isinstance(name, str) or name in ("", ".", "..") or Path(name).name != name:
                raise FileError(f"{path} names the file {name!r}, expected one in the same folder")
        return names


def without_wrappers(parameters: dict[str, Any]) -> dict[str, Any]:
    """The same parameters, without the prefixes that wrappers put before every name."""
    while prefix := next((p for p in WRAPPERS if parameters and all(name.startswith(p) for name in parameters)), ""):
        parameters = {name.removeprefix(prefix): parameter for name, parameter in parameters.items()}
    return parameters


def as_float32(x: np.ndarray, path: Path, name: str) -> np.ndarray:
    """A parameter in float32. Raises FileError for numbers that are not finite in float32."""
    with np.errstate(over="ignore"):
        x = x.astype(np.float32, copy=False)
    if not np.all(np.isfinite(x)):
        raise FileError(f"{path}: {name} has numbers that are not finite in float32")
    return x


def _nothing(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is no folder, expected one with {ONE} and config.json"
    if pickles := sorted(path.name for pattern in PICKLES for path in folder.glob(pattern)):
        return (
            f"{folder} has no {ONE}, and {pickles[0]} is not read: reading a pickle runs whatever code is in it; "
            "if you trust it, save it as safetensors, which holds numbers only"
        )
    return f"{folder} has no {ONE} and no {INDEX}"


def refuse_format(stored: Stored, name: str) -> None:
    """Raise FileError for numbers that are not of floating point."""
    if stored.format not in FORMATS:
        raise FileError(f"{stored.path}: {name} is of {stored.format}, expected one of {', '.join(FORMATS)}")


def header(path: Path) -> dict[str, Stored]:
    """Every parameter of a file, without its numbers.

    The package checks the header, but finds a name in time linear in the number of names. So all are read here at once.
    """
    with opened(path), path.open("rb") as file:
        table = json_of(file.read(int.from_bytes(file.read(8), "little")), path)
    table.pop("__metadata__", None)
    return {name: Stored(path, name, tuple(about["shape"]), about["dtype"]) for name, about in table.items()}


def read_whole(path: Path) -> dict[str, np.ndarray]:
    """Every parameter of a file. Raises FileError for numbers that are not of floating point."""
    for name, stored in header(path).items():
        refuse_format(stored, name)
        if stored.format == "BF16":
            _package("ml_dtypes")
    return import_module("safetensors.numpy").load_file(path)


def opened(path: Path) -> Any:
    package = _package("safetensors")
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        return package.safe_open(path, framework="np")
    except package.SafetensorError as error:
        raise FileError(f"{path} is truncated, damaged or no safetensors file: {error}") from None


def _package(name: str) -> Any:
    return optional(name, f"reading these weights needs the package {name}", "export")
