"""Oracles: the ops as plain loops over float64 numbers, slow and simple. Each file with oracles is imported here."""

from typing import TYPE_CHECKING

from .attention import *  # noqa: F403
from .basics import *  # noqa: F403
from .blocks import *  # noqa: F403
from .convolution import *  # noqa: F403
from .losses import *  # noqa: F403
from .optimisers import *  # noqa: F403
from .positions import *  # noqa: F403
from .recurrence import *  # noqa: F403
from .refinements import *  # noqa: F403

if not TYPE_CHECKING:  # type checkers read the imports

    def __getattr__(name):
        here = f"{__name__.replace('.', '/')}/__init__.py"
        raise AttributeError(f"no oracle is called {name}: is it in a file that {here} imports?")
