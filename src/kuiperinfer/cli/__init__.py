"""The command line `kuiper`. Nothing is imported before it is needed, so that it starts quickly."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .extras import missing_modules


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `kuiper` with the given arguments (those of the process by default) and returns its exit code.

    0 all is well, 1 an error or a check that failed, 2 a mistake in the arguments, or operators that are not supported.
    """
    if missing := missing_modules("cli"):
        needs = " and ".join(missing)
        print(f"kuiper needs {needs}, which is not installed: pip install 'kuiperinfer[cli]'", file=sys.stderr)
        return 1
    from .commands import run

    return run(arguments)
