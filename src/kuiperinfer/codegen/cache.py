"""Object code on disk: made once for a spec and a target, taken by every process of the same user after that.

The directory is the user's own (mode 0700); one that others can write to is not read. Files are written under a temporary
name and renamed, so processes that start together do not disturb each other, and carry a digest of name and content: a file
that is cut, foreign or corrupted is made anew. A disk that is full or read-only costs time, not answers. The files that were
read longest ago are removed once there are more than `_MOST_FILES`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import InputError
from ..settings import debug_print, settings
from .compiling import compile_kernels
from .objects import Library, assembly_of
from .spec import KernelSpec
from .target import Target

_MAGIC = b"kuiperinfer object 1\n"
_TEMPORARY = ".new-"
_MOST_FILES = 4096  # about 30 MB


def cache_directory() -> Path | None:
    """The directory of the cache, made if need be; None where there is none that is safe to use, or where it is turned off."""
    if not settings.cache:
        return None
    try:
        root = cache_root()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, InputError):
        return None
    return root if cache_problem(root) is None else None


def cache_root() -> Path:
    """Where the cache is, or would be. `InputError` for a user without a home."""
    if settings.cache_dir:
        return Path(settings.cache_dir)
    try:
        home = Path.home()
    except RuntimeError:
        raise InputError("there is no home directory for the cache: set KUIPER_CACHE_DIR") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "kuiperinfer"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "kuiperinfer"


def cache_problem(root: Path) -> str | None:
    """Why the cache in this directory is not used; None where it is."""
    if not settings.cache:
        return "turned off by settings.cache"
    try:
        status = root.stat()
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return "it belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others can write to it: set KUIPER_CACHE_DIR to a directory of your own"
    return None


def load_kernels(
    specs: Mapping[str, KernelSpec], target: Target, also: Mapping[str, KernelSpec] | None = None
) -> Library:
    """The kernels of the given names, linked: from the cache where it has them, else compiled and put there.

    What `also` names is put into the cache at the same time, and not linked: it will be asked for next.
    """
    directory = cache_directory()
    objects: dict[str, bytes] = {}
    missing: dict[str, KernelSpec] = {}
    for name, spec in specs.items():
        _print_code(name, spec, target)
        code = _read(directory, name)
        if code is None:
            missing[name] = spec
        else:
            objects[name] = code
    if missing and directory is not None:
        missing |= {name: spec for name, spec in (also or {}).items() if not (directory / f"{name}.o").exists()}
    for name, code in compile_kernels(missing, target):
        objects[name] = code
        _write(directory, name, code)
    if missing:
        _prune(directory)
    functions = [function for name, spec in specs.items() for function in spec.functions(name)]
    return Library([objects[name] for name in specs], functions, target)


def _print_code(name: str, spec: KernelSpec, target: Target) -> None:
    """What `settings.debug` asks to see of a kernel, whether it is cached or not."""
    if settings.debug >= 5:
        module = str(spec.module(name, target))
        debug_print(5, f"; {spec}\n{module}")
        if settings.debug >= 6:
            debug_print(6, f"# {name}\n{assembly_of(module, target)}")


def _read(directory: Path | None, name: str) -> bytes | None:
    if directory is None:
        return None
    path = directory / f"{name}.o"
    try:
        content = path.read_bytes()
    except OSError:
        return None
    header = len(_MAGIC) + 32
    code = content[header:]
    if content[:header] != _MAGIC + _digest(name, code):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # what is used is not what is removed first
    return code


def _digest(name: str, code: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + code).digest()


def _write(directory: Path | None, name: str, code: bytes) -> None:
    if directory is None:
        return
    with contextlib.suppress(OSError):
        temporary = directory / f"{_TEMPORARY}{os.urandom(8).hex()}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MAGIC + _digest(name, code) + code)
            os.replace(temporary, directory / f"{name}.o")
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _prune(directory: Path | None) -> None:
    """Removes the files that were used longest ago, a quarter of the most that may be, where there are more."""
    if directory is None:
        return
    with contextlib.suppress(OSError):
        paths = list(directory.glob("*.o"))
        if len(paths) <= _MOST_FILES:
            return
        paths.sort(key=lambda path: path.stat().st_mtime)
        for path in paths[: len(paths) - _MOST_FILES * 3 // 4]:
            path.unlink(missing_ok=True)


def cached_files() -> Iterator[Path]:
    """The object files of the cache."""
    directory = cache_directory()
    if directory is not None:
        yield from sorted(directory.glob("*.o"))


def clear_cache() -> int:
    """Removes all object files, and what interrupted processes left behind; returns how many object files there were."""
    count = 0
    for path in cached_files():
        with contextlib.suppress(OSError):
            path.unlink()
            count += 1
    directory = cache_directory()
    for path in directory.glob(f"{_TEMPORARY}*") if directory is not None else ():
        with contextlib.suppress(OSError):
            path.unlink()
    return count
