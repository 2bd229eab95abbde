"""`python -m kuiperinfer` is the command `kuiper`."""

import sys

from .cli import main

sys.exit(main())
