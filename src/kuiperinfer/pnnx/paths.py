"""Where the files of a model are: `x.pnnx.param` by its path, by `x`, or by its folder, and `x.pnnx.bin` beside it."""

from __future__ import annotations

import os

from ..errors import InputError, ModelFileError, did_you_mean

PARAM_SUFFIX, BIN_SUFFIX = ".param", ".bin"
_ENDING = f".pnnx{PARAM_SUFFIX}"


def param_path(path: str | os.PathLike[str]) -> str:
    """The file that the path of a model means: the file itself, `x.pnnx.param` for `x`, or the only such file in a folder.

    Raises `ModelFileError` where there is nothing under this name, and `InputError` for a folder that has not exactly one
    model, and for an archive of weights.
    """
    given = os.fsdecode(path)
    if os.path.isdir(given):
        found = sorted(name for name in os.listdir(given) if name.endswith(_ENDING))
        if len(found) != 1:
            seen = f"{len(found)}: {', '.join(found)}" if found else "none"
            raise InputError(f"{given}: expected one {_ENDING} file in this folder, found {seen}")
        return os.path.join(given, found[0])
    if not os.path.lexists(given):
        if os.path.isfile(given + _ENDING):
            return given + _ENDING
        folder, name = os.path.split(given)
        beside = [known for known in _names(folder or ".") if known.endswith(_ENDING)]
        raise ModelFileError(f"no such file or folder{did_you_mean(name, beside)}", file=given)
    text = given.removesuffix(BIN_SUFFIX) + PARAM_SUFFIX
    if given.endswith(BIN_SUFFIX) and os.path.isfile(text):
        raise InputError(f"{given}: these are a model's weights; give {text}")
    return given


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def bin_path(param_path: str) -> str | None:
    """`x.pnnx.bin` for `x.pnnx.param`; None for a path that does not end in `.param`."""
    return param_path.removesuffix(PARAM_SUFFIX) + BIN_SUFFIX if param_path.endswith(PARAM_SUFFIX) else None
