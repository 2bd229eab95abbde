"""Where the bytes of a model come from: a file by its path, an open file, or memory.

Files are read with plain reads, straight into the memory that keeps the bytes. A mapping would be no faster, and a file that
somebody truncates while it is mapped kills the process; here it is an error like any other.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import threading
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

from ..errors import InputError, ModelFileError, ResourceLimitError

Readable: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes] | IO[str] | io.TextIOBase"

_CHUNK = 1 << 20


class Source:
    """Bytes that can be read at any place. `name` is what error messages call it, `path` its path where it has one."""

    name: str
    path: str | None = None
    size: int

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fills `target` from `offset` on; `ModelFileError` where the bytes end before that."""
        raise NotImplementedError

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on; `ModelFileError` where there are fewer."""
        content = bytearray(count)
        self.read_into(offset, memoryview(content))
        return bytes(content)

    def _ends_early(self, at: int) -> ModelFileError:
        return ModelFileError(
            f"ends at byte {at:,}, expected {self.size:,}: was it changed while being read?", file=self.name
        )


class MemorySource(Source):
    """Bytes in memory."""

    def __init__(self, content: bytes | bytearray | memoryview, name: str) -> None:
        self.name = name
        self._content = memoryview(content).cast("B")
        self.size = len(self._content)

    def read_into(self, offset: int, target: memoryview) -> None:
        if offset + len(target) > self.size:
            raise self._ends_early(self.size)
        target[:] = self._content[offset : offset + len(target)]


class FileSource(Source):
    """A regular file, read without a buffer of its own."""

    def __init__(self, path: str) -> None:
        self.name = self.path = path
        self._lock = threading.Lock()
        try:
            self._file = io.FileIO(path, "r", opener=_open_without_waiting)
        except (OSError, ValueError) as error:
            raise ModelFileError(f"cannot be opened: {_reason(error)}", file=path) from error
        status = os.fstat(self._file.fileno())
        self.size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise ModelFileError("is not a regular file; expected a model file", file=path)

    def read_into(self, offset: int, target: memoryview) -> None:
        done = 0
        try:
            while done < len(target):
                count = self._read_some(offset + done, target[done:])
                if not count:
                    raise self._ends_early(offset + done)
                done += count
        except OSError as error:
            raise ModelFileError(
                f"cannot be read at byte {offset + done:,}: {_reason(error)}", file=self.name
            ) from error

    def _read_some(self, offset: int, target: memoryview) -> int:
        """As many bytes as the system gives at once. Several threads may read."""
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [target], offset)
        with self._lock:
            self._file.seek(offset)
            return self._file.readinto(target)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _open_without_waiting(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextlib.contextmanager
def open_source(given: Readable, what: str, *, limit: int, setting: str) -> Iterator[Source]:
    """The source of a path, an open file (text or binary) or bytes; `what` names it where it has no name of its own.

    More than `limit` bytes are a `ResourceLimitError` that names the `setting`.
    """
    source: Source
    if isinstance(given, (str, os.PathLike)):
        source = FileSource(os.fsdecode(given))
    elif isinstance(given, (bytes, bytearray, memoryview)):
        source = MemorySource(given, f"<{what}>")
    elif hasattr(given, "read"):
        name = getattr(given, "name", None)
        name = name if isinstance(name, str) and name else f"<{what}>"
        source = MemorySource(_drain(given, name, limit), name)
    else:
        raise InputError(f"{what}: expected a path, an open file or bytes, found {type(given).__name__}")
    with contextlib.closing(source) if isinstance(source, FileSource) else contextlib.nullcontext():
        if source.size > limit:
            raise ResourceLimitError(
                f"{source.name}: has more than {limit:,} bytes, the limit that settings.{setting} sets"
            )
        yield source


def _drain(stream: IO[Any] | io.TextIOBase, name: str, limit: int) -> bytes:
    """What a stream still has to give, up to one byte above the limit."""
    content = bytearray()
    try:
        while len(content) <= limit:
            chunk = stream.read(min(_CHUNK, limit + 1 - len(content)))
            if not chunk:
                break
            content += chunk.encode() if isinstance(chunk, str) else chunk
    except UnicodeError as error:
        raise ModelFileError(f"is not UTF-8 text: {error}", file=name) from error
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot be read: {_reason(error)}", file=name) from error
    return bytes(content)
