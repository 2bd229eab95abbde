"""`dataclass` for files with many of them.

`dataclasses` writes and compiles six functions for each class, which for all layers and kernels of one small model takes longer
than to run it. Text, comparison and hash need no code of their own: what is here takes them from the fields. All else is as
there, and is done there.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, eq=True, repr=True, frozen=False, **options):
        """`dataclasses.dataclass`, made in half of the time."""

        def decorate(cls):
            own = {"__repr__": _text} if repr else {}
            if eq:
                own |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
                if "__eq__" in cls.__dict__ and cls.__dict__.get("__hash__", 0) is None:
                    del cls.__hash__  # which Python sets to None where there is a comparison alone
            for name, function in own.items():
                if name not in cls.__dict__:
                    setattr(cls, name, function)
            return dataclasses.dataclass(cls, eq=False, repr=False, frozen=frozen, **options)

        return decorate if cls is None else decorate(cls)


_Choice: TypeAlias = Callable[["dataclasses.Field[Any]"], bool]
_NAMES: dict[tuple[type, _Choice], tuple[str, ...]] = {}


def _names(cls: type, wanted: _Choice) -> tuple[str, ...]:
    found = _NAMES.get((cls, wanted))
    if found is None:
        found = _NAMES[cls, wanted] = tuple(field.name for field in dataclasses.fields(cls) if wanted(field))
    return found


def _is_shown(field: dataclasses.Field[Any]) -> bool:
    return field.repr


def _is_compared(field: dataclasses.Field[Any]) -> bool:
    return field.compare


def _is_hashed(field: dataclasses.Field[Any]) -> bool:
    return field.compare if field.hash is None else field.hash


@reprlib.recursive_repr()
def _text(self: Any) -> str:
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in _names(type(self), _is_shown))
    return f"{type(self).__qualname__}({values})"


def _equal(self: Any, other: object) -> bool:
    if type(other) is not type(self):
        return NotImplemented
    names = _names(type(self), _is_compared)
    return tuple(getattr(self, name) for name in names) == tuple(getattr(other, name) for name in names)


def _hash(self: Any) -> int:
    return hash(tuple(getattr(self, name) for name in _names(type(self), _is_hashed)))
