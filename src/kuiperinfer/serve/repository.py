"""Which models lie in a folder: NAME.pnnx.param, NAME/*.pnnx.param, or NAME/VERSION/*.pnnx.param with VERSION a number."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InputError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_NAME_WORDS = "a name has letters, digits, '.', '_' and '-', and begins with one of the first two or '_'"
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_SUFFIX = ".pnnx.param"

Versions = dict[str, Path]


@dataclass
class Found:
    """Model name -> version -> file, and why other entries that look like models are left out."""

    models: dict[str, Versions] = field(default_factory=dict)
    left_out: dict[Path, str] = field(default_factory=dict)

    def add(self, name: str, version: str, file: Path) -> None:
        """Adds a version, unless it is there already."""
        there = self.models.setdefault(name, {}).setdefault(version, file)
        if there != file:
            self.left_out[file] = f"version {version} of '{name}' is {there} already; take one of them away"


def model_name(path: Path) -> str:
    """The name under which a model file is served: its own, without the endings."""
    name = path.name.removesuffix(_SUFFIX)
    if not NAME.fullmatch(name):
        raise InputError(f"{path}: '{name}' is no name for a model; {_NAME_WORDS}")
    return name


def find_models(repository: Path) -> Found:
    """All models of a repository. Hidden entries, and files that are no ``.pnnx.param``, are passed over."""
    found = Found()
    try:
        entries = _visible(repository)
    except OSError as error:
        raise InputError(f"{repository}: cannot be read as a folder of models ({error.strerror or error})") from error
    for entry in entries:
        try:
            _look_at(entry, found)
        except OSError as error:
            found.left_out[entry] = error.strerror or str(error)
    return found


def _look_at(entry: Path, found: Found) -> None:
    is_folder = entry.is_dir()
    name = entry.name if is_folder else entry.name.removesuffix(_SUFFIX)
    if not is_folder and name == entry.name:
        return
    if not NAME.fullmatch(name):
        found.left_out[entry] = f"it is to be renamed: {_NAME_WORDS}"
    elif is_folder:
        _look_into(entry, found)
    else:
        found.add(name, "1", entry)


def _look_into(folder: Path, found: Found) -> None:
    files, versions = _models_in(folder), 0
    for inner in _visible(folder):
        if inner.is_dir():
            is_version = _VERSION.fullmatch(inner.name) is not None
            versions += is_version
            inner_files = _models_in(inner)
            if is_version and len(inner_files) == 1:
                found.add(folder.name, inner.name, inner_files[0])
            elif is_version:
                found.left_out[inner] = _not_one(inner_files)
            elif inner_files:
                found.left_out[inner] = "a version's folder is to be called by a whole number, the first one 1"
    if len(files) == 1:
        found.add(folder.name, "1", files[0])
    elif files or not versions:
        found.left_out[folder] = _not_one(files)


def _not_one(files: list[Path]) -> str:
    names = ", ".join(file.name for file in files) or "none"
    return f"expected one file *{_SUFFIX} in the folder, found {names}"


def _models_in(folder: Path) -> list[Path]:
    return [file for file in _visible(folder) if file.name.endswith(_SUFFIX)]


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
