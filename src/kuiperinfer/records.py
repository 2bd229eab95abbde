"""`dataclass` for files with many of them.

`dataclasses` writes and compiles up to eight functions for each class, which for all layers and kernels of one small model
takes longer than to run it. Here text, comparison, hash and the refusal of assignments need no code of their own, but look at
the fields, and `__init__` is compiled when it is first called. All else is as there.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, repr=True, eq=True, frozen=False, kw_only=False):
        """`dataclasses.dataclass`, made in a fraction of the time."""

        def decorate(cls):
            own = {**_fields_of(cls, frozen, kw_only), "__init__": _first_init(cls, frozen)}
            if repr:
                own["__repr__"] = _text
            if eq:
                own |= {"__eq__": _equal, "__hash__": _hash if frozen else None}
                if "__eq__" in cls.__dict__ and cls.__dict__.get("__hash__", 0) is None:
                    del cls.__hash__  # which Python sets to None where there is a comparison alone
            if frozen:
                own |= {"__setattr__": _refuse_assignment, "__delattr__": _refuse_deletion}
            for name, value in own.items():
                if name not in cls.__dict__:
                    setattr(cls, name, value)
            return cls

        return decorate if cls is None else decorate(cls)


_DOCUMENTED = {"__doc__": "a twin"}  # else `dataclasses` would write the signature there


def _fields_of(cls: type, frozen: bool, kw_only: bool) -> dict[str, Any]:
    """What makes a class one with fields. `dataclasses` makes its own ones, for a twin without functions."""
    own = [
        (name, kind, *([cls.__dict__[name]] if name in cls.__dict__ else []))
        for name, kind in get_annotations(cls).items()
        if not str(kind).startswith(("ClassVar", "typing.ClassVar"))
    ]
    twin: Any = dataclasses.make_dataclass(
        cls.__name__, own, namespace=_DOCUMENTED, init=False, repr=False, eq=False, kw_only=kw_only
    )
    twin.__dataclass_params__.frozen = frozen
    for name, _, *default in own:
        if default and isinstance(default[0], dataclasses.Field):
            delattr(cls, name)
            if name in twin.__dict__:
                setattr(cls, name, twin.__dict__[name])
    fields: dict[str, dataclasses.Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= base.__dict__.get("__dataclass_fields__", {})
    fields |= twin.__dataclass_fields__
    return {
        "__dataclass_fields__": fields,
        "__dataclass_params__": twin.__dataclass_params__,
        "__match_args__": tuple(field.name for field in fields.values() if field.init and not field.kw_only),
    }


def _first_init(cls: type, frozen: bool) -> Callable[..., None]:
    """An `__init__` that when it is called puts in its place the one that `dataclasses` compiles for the same fields."""

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        fields = [(field.name, field.type, field) for field in dataclasses.fields(cls)]
        own = _DOCUMENTED | ({"__post_init__": None} if hasattr(cls, "__post_init__") else {})
        twin = dataclasses.make_dataclass(cls.__name__, fields, namespace=own, repr=False, eq=False, frozen=frozen)
        init: Any = twin.__dict__["__init__"]
        init.__qualname__ = __init__.__qualname__
        setattr(cls, "__init__", init)  # noqa: B010  (mypy knows it as a method)
        init(self, *arguments, **named)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _refuse_assignment(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


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
