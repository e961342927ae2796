"""Helpers that the adapters share: the folders of checkouts, replacements for imports, shapes, and autograd.

WILD_REPOS names the folder of the checkouts, OWNER__NAME each; `python benchmarks/wild.py --repos DIR` sets it.
"""

import contextlib
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

VARIABLE = "WILD_REPOS"


def checkout(repository: str) -> Path:
    """The folder of "OWNER/NAME". Raises LookupError if `VARIABLE` is not set or there is no such folder."""
    if VARIABLE not in os.environ:
        raise LookupError(f"set {VARIABLE} to the folder that holds the checkout of {repository}")
    folder = Path(os.environ[VARIABLE]) / repository.replace("/", "__")
    if not folder.is_dir():
        raise LookupError(f"there is no {folder}")
    return folder


def importable(folder: Path) -> None:
    """Put this folder first in the search path of `import`, before installed packages."""
    sys.path.insert(0, str(folder))


def stand_in(name: str, **names: Any) -> None:
    """Replace the module `name` by one with only `names`, where the code that is checked does not use the import."""
    module = ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module


def bare_package(name: str, folder: Path) -> None:
    """Let the modules of a package be imported without running its __init__."""
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def one_batch(x: np.ndarray, axes: int = 2) -> np.ndarray:
    """(..., the last `axes`) -> (B, the last `axes`), for layers documented with one batch axis."""
    lead, rest = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
    return x.reshape(math.prod(lead), *rest)


@contextlib.contextmanager
def drawn(keep: np.ndarray | None) -> Iterator[None]:
    """Replace np.random's draws of a dropout mask by `keep`. None replaces nothing: then nothing should be drawn."""

    def uniform(*shape: int, size: Any = None) -> np.ndarray:
        """2, above every rate, where an entry is kept; -1, below every rate, elsewhere."""
        return np.broadcast_to(np.where(keep, 2.0, -1.0), shape if size is None else size)

    def binomial(n: int, p: float, size: Any) -> np.ndarray:
        return np.broadcast_to(np.where(keep, 1, 0), size)

    if keep is None:
        yield
        return
    drawing = {"rand": uniform, "random": uniform, "uniform": uniform, "binomial": binomial}
    with mock.patch.multiple(np.random, **drawing):
        yield


def tensor(x: Any) -> Any:
    """An array as a torch tensor, in shared memory if torch allows it. Other values are returned unchanged."""
    import torch

    torch.set_num_threads(1)
    if not isinstance(x, np.ndarray):
        return x
    plain = x.flags.writeable and all(step >= 0 for step in x.strides)
    return torch.from_numpy(x if plain else x.copy())


def array(x: Any) -> Any:
    """A tensor, or a tuple of tensors, as arrays."""
    if isinstance(x, tuple):
        return tuple(array(part) for part in x)
    return x.detach().numpy() if hasattr(x, "detach") else x


def with_autograd(f: Callable[..., Any], constant: tuple[str, ...] = ()) -> SimpleNamespace:
    """A namespace of two functions of arrays, from `f` of tensors: `f` itself, and its backward by torch's autograd.

    The backward returns a gradient for each floating-point argument that was given, except those named in `constant`.
    """
    import torch

    signature = inspect.signature(f)

    def forward(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        with torch.no_grad():
            return array(f(**{name: tensor(x) for name, x in given.items()}))

    def backward(dy: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = {name: tensor(x) for name, x in signature.bind(*args, **kwargs).arguments.items()}
        leaves = {name: x.detach().clone() for name, x in given.items() if name not in constant and _floating(x)}
        for leaf in leaves.values():
            leaf.requires_grad_()
        y = f(**given | leaves)
        y = y[0] if isinstance(y, tuple) else y
        dy = torch.tensor(np.array(dy), dtype=y.dtype)  # a copy: autograd may return the upstream gradient itself
        return array(torch.autograd.grad(y, tuple(leaves.values()), dy))

    upstream = inspect.Parameter("dy", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    forward.__signature__ = signature
    backward.__signature__ = signature.replace(parameters=[upstream, *signature.parameters.values()])
    return SimpleNamespace(**{f.__name__: forward, f"{f.__name__}_backward": backward})


def stepped(make: Callable[[Any], Any], vector: Any, gradient: Any, moments: Any, step: int) -> None:
    """Take one step of the torch optimiser `make(parameters)`, in place: `vector` and `moments` are changed."""
    import torch

    parameter = torch.nn.Parameter(torch.tensor(vector))
    parameter.grad = torch.tensor(gradient)
    optimizer = make([parameter])
    m, v = (torch.tensor(x) for x in moments)
    optimizer.state[parameter] = {"step": step - 1, "exp_avg": m, "exp_avg_sq": v}
    optimizer.step()
    state = optimizer.state[parameter]
    for theirs, ours in zip((parameter, state["exp_avg"], state["exp_avg_sq"]), (vector, *moments), strict=True):
        ours[...] = array(theirs)


def optimisers(theirs: Any) -> tuple[type, type]:
    """Adapters (Adam, AdamW) of a torch optimiser. Adam leaves out the weight decay, whose default must be 0."""

    class Adam:
        def adam(self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8):  # type: ignore[no-untyped-def]
            stepped(partial(theirs, lr=lr, betas=(beta1, beta2), eps=eps), vector, gradient, moments, step)

    class AdamW:
        def adamw(  # type: ignore[no-untyped-def]
            self, vector, gradient, moments, step, *, lr=1e-3, beta1=0.9, beta2=0.98, eps=1e-8, weight_decay=0.01
        ):
            make = partial(theirs, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay)
            stepped(make, vector, gradient, moments, step)

    return Adam, AdamW


def _floating(x: Any) -> bool:
    return hasattr(x, "is_floating_point") and x.is_floating_point()


class Gpt:
    """An adapter of kind `causal_model`: `self.model(ids, targets)` returns logits at every position, and the loss."""

    vocabulary, maxlen = 8, 40

    def forward(self, ids):
        return array(self.called(ids, ids)[0])

    def fit(self, ids):
        import torch

        optimizer = torch.optim.Adam(self.model.parameters(), 3e-3)
        for _ in range(150):
            optimizer.zero_grad()
            self.called(ids[:, :-1], ids[:, 1:])[1].backward()
            optimizer.step()

    def log_probs(self, ids):
        return array(self.called(ids, ids)[0].log_softmax(dim=-1))

    def called(self, ids, targets):
        """Inputs and targets as separate tensors, as a data loader makes them."""
        import torch

        return self.model(torch.tensor(ids), torch.tensor(targets))
