"""`kuiper cache`: the machine code that is kept on disk."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import click

from .models import json_option


@click.group("cache")
def command() -> None:
    """Look at the cache of machine code, or empty it."""


@command.command("info")
@json_option
def info(as_json: bool) -> None:
    """Show where the cache is, and what is in it."""
    from rich.text import Text

    from ..codegen.cache import cache_problem, cache_root, cached_files
    from .console import bytes_text, console, print_json, printable, table

    files = list(cached_files())
    root = cache_root()
    problem = cache_problem(root)
    kinds: Counter[str] = Counter()
    size = 0
    for file in files:
        with contextlib.suppress(OSError):  # another process may be clearing it
            size += file.stat().st_size
            kinds[file.name.rpartition("_")[0].removesuffix("Spec")] += 1
    ordered = dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
    if as_json:
        print_json({"directory": str(root), "problem": problem, "files": len(files), "bytes": size, "kernels": ordered})
        return
    out = console()
    out.print(Text(printable(str(root)), style="bold"))
    if problem:
        out.print(Text(f"not used: {printable(problem)}", style="yellow"))
    out.print(Text(f"{len(files)} object files, {bytes_text(size)}", style="dim"))
    rows: Any = table("", "", right=[1])
    for kind, count in ordered.items():
        rows.add_row("  " + printable(kind), str(count))
    if ordered:
        out.print(rows)


@command.command("clear")
def clear() -> None:
    """Remove all machine code from the cache; it is made anew when it is needed."""
    from ..codegen.cache import clear_cache

    count = clear_cache()
    click.echo(f"removed {count} object file{'' if count == 1 else 's'}")
