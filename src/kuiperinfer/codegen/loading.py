"""Object files brought to executable memory without LLVM, as a process does that finds all of its kernels in the cache.

To import LLVM takes a process more time and memory than all the rest of loading. A kernel's object file is little: code,
constants, and the distances from the one to the other, which are filled in here. What is more than that is for LLVM's own
linker: `link` says so by returning None.

Definition: System V ABI, "Object Files"; its AMD64 supplement, section "Relocation".
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Iterator, Sequence

from ..errors import CompileError
from ..memory import align
from ..records import dataclass

_HEADER = struct.Struct("<16s2HL3QL6H")
# name, type, flags, address, offset, size, link, info, alignment, size of an entry
_SECTION = struct.Struct("<2L4Q2L2Q")
_SYMBOL = struct.Struct("<LBBHQQ")  # name, kind, visibility, section, value, size
_RELOCATION = struct.Struct("<QQq")  # where, symbol and type, addend

_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # types of sections
_WRITE, _IN_MEMORY = 1, 2  # flags of sections
_FUNCTION, _UNDEFINED = 2, 0  # a symbol's type, and what it has in place of a section

_TO_ADDRESS, _TO_DISTANCE, _TO_CALL = 1, 2, 4  # types of relocations: R_X86_64_64, _PC32, _PLT32
_JUMP = b"\xff\x25\0\0\0\0"  # to the address that stands behind it


class _Unusual(Exception):
    """Something that a kernel's object file does not have."""


@dataclass(frozen=True)
class _Object:
    """An object file: its sections, and where those that are needed lie from the begin of the memory."""

    data: bytes
    sections: list[tuple[int, ...]]
    places: dict[int, int]

    def content(self, section: int) -> memoryview:
        _, _, _, _, offset, size, *_ = self.sections[section]
        return memoryview(self.data)[offset : offset + size]


class Code:
    """Executable memory and the addresses of all functions in it. It lives as long as this object."""

    def __init__(self, memory: mmap.mmap, address: int, addresses: dict[str, int]) -> None:
        self._memory = memory
        self.addresses = addresses
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(len(memory)), 5):  # read, execute
            raise CompileError("the system allows no memory that can be executed")


def link(objects: Sequence[bytes]) -> Code | None:
    """The functions of object files in memory; None where the files, or this machine, need LLVM's linker."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return None
    try:
        return _link(objects)
    except (_Unusual, struct.error):
        return None


def _link(objects: Sequence[bytes]) -> Code:
    files, end = [], 0
    for data in objects:
        file, end = _place(data, end)
        files.append(file)
    outside = {name for file in files for _, name, section, _ in _symbols(file) if section == _UNDEFINED and name}
    stubs = {name: align(end) + 16 * number for number, name in enumerate(sorted(outside))}
    memory = mmap.mmap(-1, align(end) + 16 * len(stubs) + 1, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for name, place in stubs.items():
        memory[place : place + 14] = _JUMP + struct.pack("<Q", _address_of(name))
    addresses: dict[str, int] = {}
    for file in files:
        for section, place in file.places.items():
            if file.sections[section][1] != _NO_BITS:
                content = file.content(section)
                memory[place : place + len(content)] = bytes(content)
        values: list[int | None] = []
        for kind, name, section, value in _symbols(file):
            start = stubs.get(name) if section == _UNDEFINED else file.places.get(section)
            values.append(None if start is None else base + start + value)
            if kind == _FUNCTION and section != _UNDEFINED and values[-1] is not None:
                addresses[name] = values[-1]
        _relocate(file, memory, base, values)
    return Code(memory, base, addresses)


def _place(data: bytes, end: int) -> tuple[_Object, int]:
    """The sections of a file, put behind what is there already."""
    identity, kind, machine, _, _, _, start, _, _, _, _, size, count, _ = _HEADER.unpack_from(data)
    if identity[:6] != b"\x7fELF\x02\x01" or (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise _Unusual
    sections = [_SECTION.unpack_from(data, start + number * size) for number in range(count)]
    places: dict[int, int] = {}
    for number, (_, _, flags, _, _, length, _, _, alignment, _) in enumerate(sections):
        if flags & _IN_MEMORY and not _is_for_unwinding(data, sections, number):
            if flags & _WRITE:
                raise _Unusual
            places[number] = align(end, max(alignment, 1))
            end = places[number] + length
    return _Object(data, sections, places), end


def _is_for_unwinding(data: bytes, sections: list[tuple[int, ...]], number: int) -> bool:
    names = sections[struct.unpack_from("<H", data, _HEADER.size - 2)[0]][4]
    return data.startswith(b".eh_frame\0", names + sections[number][0])


def _symbols(file: _Object) -> Iterator[tuple[int, str, int, int]]:
    """Type, name, section and value of all symbols."""
    for number, (_, kind, *_, link, _, _, _) in enumerate(file.sections):
        if kind == _SYMBOLS:
            names = bytes(file.content(link))
            for name, info, _, section, value, _ in _SYMBOL.iter_unpack(file.content(number)):
                yield info & 15, names[name : names.index(0, name)].decode(), section, value


def _relocate(file: _Object, memory: mmap.mmap, base: int, values: list[int | None]) -> None:
    """Writes addresses, and distances from where they stand, into code and constants."""
    for number, section in enumerate(file.sections):
        target = section[7]
        if section[1] != _RELOCATIONS or target not in file.places:
            continue
        for offset, information, addend in _RELOCATION.iter_unpack(file.content(number)):
            place, value = file.places[target] + offset, values[information >> 32]
            kind = information & 0xFFFFFFFF
            if value is None or kind not in (_TO_ADDRESS, _TO_DISTANCE, _TO_CALL):
                raise _Unusual
            if kind == _TO_ADDRESS:
                struct.pack_into("<Q", memory, place, value + addend)
            else:
                struct.pack_into("<i", memory, place, value + addend - base - place)


def _address_of(name: str) -> int:
    """A function of the C library."""
    try:
        return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise _Unusual from None
