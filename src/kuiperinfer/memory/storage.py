"""Storage: memory that several tensors look at, and that knows when it was written."""

from __future__ import annotations

from typing import Any

from ..dtypes import Array
from ..errors import ResourceLimitError
from .allocator import allocator


class Block:
    """The bytes that all storages over them share, and their version: how often they were written in place.

    `exposed` says that others hold the memory as well (NumPy, torch), who write it unseen. `readers` belongs to whoever
    puts off reading the bytes, and has to be asked before they change.
    """

    __slots__ = ("__weakref__", "_address", "data", "exposed", "readers", "version")

    def __init__(self, data: Array, exposed: bool = False) -> None:
        self.data = data
        self.version = 0
        self.exposed = exposed
        self.readers: Any = None
        self._address: int | None = None

    @property
    def address(self) -> int:
        """Where the first byte is in memory."""
        if self._address is None:
            self._address = int(self.data.ctypes.data)
        return self._address


class Storage:
    """A block and a byte offset in it. `Storage(nbytes)` is new, uninitialised memory, aligned to a cache line."""

    __slots__ = ("block", "offset")

    def __init__(self, nbytes: int) -> None:
        self.block = Block(allocator.allocate(nbytes))
        self.offset = 0

    @staticmethod
    def over(data: Array, *, exposed: bool = True) -> Storage:
        """The memory of a one-dimensional array of bytes, which somebody else may hold too."""
        storage = Storage.__new__(Storage)
        storage.block = Block(data, exposed)
        storage.offset = 0
        return storage

    def at(self, offset: int) -> Storage:
        """A storage over the same block that begins `offset` bytes after this one."""
        storage = Storage.__new__(Storage)
        storage.block = self.block
        storage.offset = self.offset + offset
        if not 0 <= storage.offset <= self.block.data.nbytes:
            raise ResourceLimitError(
                f"byte {storage.offset} lies outside of a block of {self.block.data.nbytes} bytes; expected an offset in it"
            )
        return storage

    @property
    def nbytes(self) -> int:
        """Bytes from the offset to the end of the block."""
        return self.block.data.nbytes - self.offset

    @property
    def version(self) -> int:
        """How often the block was written in place, by whichever storage."""
        return self.block.version

    def begin_write(self) -> None:
        """Has to be called before bytes change: who still has to read the old ones does, and the version goes up."""
        if self.block.readers is not None:
            self.block.readers.evaluate()
        self.block.version += 1

    def shares_with(self, other: Storage) -> bool:
        """Whether both look at the same block."""
        return self.block is other.block

    @property
    def address(self) -> int:
        """Where the storage begins in memory."""
        return self.block.address + self.offset

    def __repr__(self) -> str:
        return f"Storage(nbytes={self.nbytes}, offset={self.offset}, version={self.version})"
