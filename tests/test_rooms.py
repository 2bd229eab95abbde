"""A room imports only rooms above it: the folder list is the way data takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "kuiperinfer"

# From top to bottom; rooms in one row may import each other.
ROOMS = (
    ("version",),
    ("errors",),
    ("locks", "records"),
    ("settings",),
    ("dtypes",),
    ("memory",),
    ("pnnx",),
    ("expression",),
    ("graph", "layers"),
    ("passes",),
    ("codegen",),
    ("runtime",),
    ("convert",),
    ("tensor",),
    ("vision",),
    ("cli", "serve", "batch"),
)
LEVEL = {room: level for level, row in enumerate(ROOMS) for room in row}
DOOR = ("__init__", "__main__")  # the package's front door and `python -m`: these import whatever they show


def room_of(file: Path, package: Path = PACKAGE) -> str:
    """The room that a file of the package belongs to: its folder in the package, or its own name beside the folders."""
    first = file.relative_to(package).parts[0]
    return first.removesuffix(".py")


def imported_modules(tree: ast.AST, module: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and absolute dotted path of everything that a module imports, relative imports and nested ones included.

    `module` is the dotted path of the package in which the file stands. `from a import b` counts as `a.b`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = module[: len(module) - node.level + 1] if node.level else ()
            path = (*base, *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                yield node.lineno, (*path, alias.name)


def misplaced_imports(file: Path, package: Path = PACKAGE) -> list[str]:
    """What a file imports from rooms that are not above its own, and from the door."""
    own = room_of(file, package)
    module = (package.name, *file.relative_to(package).parts[:-1])
    found = []
    for line, path in imported_modules(ast.parse(file.read_text("utf-8")), module):
        if path[0] != package.name:
            continue
        other = path[1] if len(path) > 1 else "__init__"
        place = f"{file.relative_to(package)}:{line}"
        if other not in LEVEL:
            found.append(f"{place}: imports {'.'.join(path)}, which is no room (rooms do not use the front door)")
        elif other != own and LEVEL[other] > LEVEL[own]:
            found.append(f"{place}: {own} imports {other}, which stands below it")
    return found


def files_of(package: Path) -> list[Path]:
    return [file for file in sorted(package.rglob("*.py")) if room_of(file, package) not in DOOR]


def test_every_file_belongs_to_a_room() -> None:
    assert {room_of(file) for file in files_of(PACKAGE)} <= set(LEVEL)


@pytest.mark.parametrize("file", files_of(PACKAGE), ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_above_it(file: Path) -> None:
    assert misplaced_imports(file) == []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("from ..graph import x", "pnnx imports graph"),
        ("from .. import vision", "pnnx imports vision"),
        ("import kuiperinfer.cli.commands", "pnnx imports cli"),
        ("def f():\n    from ..runtime.model import load", "pnnx imports runtime"),
        ("from .. import load", "no room"),
        ("import kuiperinfer", "no room"),
        ("from kuiperinfer import layers", "pnnx imports layers"),
        ("from ..errors import KuiperError\nfrom .graph import Graph\nfrom . import graph\nimport numpy.graph", None),
    ],
)
def test_the_check_itself(tmp_path: Path, source: str, complaint: str | None) -> None:
    file = tmp_path / "kuiperinfer" / "pnnx" / "reader.py"
    file.parent.mkdir(parents=True)
    file.write_text(source)
    found = misplaced_imports(file, tmp_path / "kuiperinfer")
    assert len(found) == (0 if complaint is None else 1)
    assert complaint is None or complaint in found[0]
