"""Pictures on the command line: files, folders and patterns in, results saved beside one another."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError

if TYPE_CHECKING:
    from ..dtypes import Array


def picture_files(arguments: Sequence[str]) -> list[str]:
    """The files that PICTURE arguments mean, each once, in order.

    A folder means all pictures in it and in its folders, by their names' endings; a pattern (``*``, ``?``, ``[a-z]``, ``**``)
    means the files that match. Whatever else there is, or is not, is taken as it stands: reading it will tell. Raises
    `InputError` where a folder or a pattern means nothing.
    """
    found: dict[str, None] = {}
    for argument in arguments:
        if os.path.isdir(argument):
            files = list(_in_folder(argument))
        elif not os.path.lexists(argument) and glob.has_magic(argument):
            files = sorted(path for path in glob.glob(argument, recursive=True) if not os.path.isdir(path))
        else:
            files = [argument]
        if not files:
            what = "no pictures in this folder" if os.path.isdir(argument) else "no file matches this pattern"
            raise InputError(f"{argument}: {what}")
        found.update(dict.fromkeys(files))
    return list(found)


def _in_folder(folder: str) -> Iterator[str]:
    endings = _endings()
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in endings and not name.startswith("."):
                yield os.path.join(place, name)


def _endings() -> frozenset[str]:
    """The endings of the names of pictures that can be read."""
    from PIL import Image

    from ..vision.pictures import FORMATS

    known = Image.registered_extensions()
    return frozenset(ending for ending, kind in known.items() if kind in FORMATS)


class Folder:
    """A folder where pictures are saved, each under a name of its own. Made where it is not there yet."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{path}: cannot be made a folder ({error.strerror or error})") from error
        self.path = path
        self._taken: set[str] = set()

    def place(self, source: str, addition: str, ending: str | None = None) -> Path:
        """Where the result for `source` goes: its name and `addition`, numbered where pictures of several folders share a name.

        JPEG stays JPEG, all else becomes PNG, unless `ending` says which.
        """
        stem, own = os.path.splitext(os.path.basename(source))
        ending = ending or (".jpg" if own.lower() in (".jpg", ".jpeg") else ".png")
        name, number = f"{stem}{addition}{ending}", 1
        while name.lower() in self._taken:
            number += 1
            name = f"{stem}-{number}{addition}{ending}"
        self._taken.add(name.lower())
        return self.path / name


def save_picture(path: Path, picture: Array) -> None:
    """Writes (H, W, 3) uint8, or (H, W) uint8 or uint16, in the format of the path's ending; `InputError` where that fails."""
    from PIL import Image

    options: dict[str, Any] = {"quality": 92} if path.suffix == ".jpg" else {"compress_level": 4}
    try:
        Image.fromarray(picture).save(path, **options)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({error})") from error
