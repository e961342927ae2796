"""`python -m tinyattn` is the command `tinyattn`."""

import sys

from .cli import main

sys.exit(main())
