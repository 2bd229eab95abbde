"""`records.dataclass` does what `dataclasses.dataclass` does."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from kuiperinfer import records

OPTIONS = [
    {},
    {"frozen": True},
    {"frozen": True, "kw_only": True},
    {"eq": False},
    {"frozen": True, "eq": False},
    {"repr": False},
]


def classes(decorator: Callable[..., Any]) -> dict[str, Any]:
    """Classes of all kinds, made by either decorator."""
    made: dict[str, Any] = {}
    for number, options in enumerate(OPTIONS):

        class Plain:
            a: int
            b: Any = 2
            hidden: int = dataclasses.field(default=3, repr=False)
            ignored: int = dataclasses.field(default=4, compare=False)
            unhashed: Any = dataclasses.field(default=5, hash=False)

        Plain.__annotations__ = dict.fromkeys(("a", "b", "hidden", "ignored", "unhashed"), "Any")
        Plain.__qualname__ = f"Plain{number}"
        made[f"plain{number}"] = decorator(**options)(Plain)

    @decorator(frozen=True)
    class Base:
        a: int

    @decorator(frozen=True)
    class Heir(Base):
        b: int = 0

    @decorator(frozen=True)
    class OwnHash:
        a: int

        def __hash__(self) -> int:
            return 7

    @decorator(frozen=True)
    class OwnComparison:  # noqa: PLW1641  (what becomes of its hash is the question)
        a: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.a % 10 == other.a % 10

    @decorator(frozen=True)
    class Counted:
        kind: ClassVar[str] = "counted"
        a: int
        many: list[int] = dataclasses.field(default_factory=list)
        sum: int = dataclasses.field(init=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.a + len(self.many))

    @decorator
    class Bare:
        a: int

        def __repr__(self) -> str:
            return "bare"

    for cls in (Base, Heir, OwnHash, OwnComparison, Counted, Bare):
        cls.__qualname__ = cls.__name__
        made[cls.__name__] = cls
    return made


OURS, THEIRS = classes(records.dataclass), classes(dataclasses.dataclass)


TOLD = records.dataclass(type("Told", (), {"__annotations__": {"a": "int"}, "__qualname__": "Told"}))


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, or the kind of its error."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", OURS)
def test_it_is_as_dataclasses_has_it(name: str) -> None:
    seen = []
    for cls in (OURS[name], THEIRS[name]):
        one, same, other = cls(a=1), cls(a=1), cls(a=11)
        texts = [repr(value) for value in (one, other)] if cls.__repr__ is not object.__repr__ else None
        compared = [one == same, one != same, one == other, one == 1, one.__eq__(1)]
        hashes = [outcome(hash, value) == outcome(hash, one) for value in (one, same, other)]
        hashes.append(outcome(hash, one) is TypeError)
        frozen = outcome(setattr, one, "a", 2)
        deleted = outcome(delattr, one, "a")
        changed = dataclasses.replace(other, a=1) == same
        wrong = [outcome(cls), outcome(lambda cls=cls: cls(a=1, unknown=2)), outcome(cls, 1, 2, 3, 4, 5, 6, 7)]
        fields = [(field.name, field.init, field.kw_only, field.default) for field in dataclasses.fields(cls)]
        more = [cls.__match_args__, vars(same), str(inspect.signature(cls)), copy.deepcopy(other) == other]
        seen.append((texts, compared, hashes, frozen, deleted, changed, wrong, fields, more))
    assert seen[0] == seen[1]


def test_dataclasses_may_inherit_from_it() -> None:
    @dataclasses.dataclass(frozen=True)
    class Heir(OURS["Base"]):  # type: ignore[misc]
        b: int = 2

    assert (Heir(1).b, Heir(1, b=3)) == (2, Heir(1, 3))
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.dataclass(type("Thawed", (OURS["Base"],), {}))


def test_wrong_arguments_are_told_as_ever() -> None:
    for _ in range(2):  # by the function that makes itself, and by the one that it made
        with pytest.raises(TypeError, match=r"Told.__init__\(\) got an unexpected keyword argument 'b'"):
            TOLD(a=1, b=2)


def test_fields_that_do_not_count_do_not_count() -> None:
    cls = OURS["plain1"]
    assert cls(a=1, ignored=9) == cls(a=1) and hash(cls(a=1, ignored=9)) == hash(cls(a=1))
    assert cls(a=1, unhashed=9) != cls(a=1) and hash(cls(a=1, unhashed=9)) == hash(cls(a=1))
    assert "hidden" not in repr(cls(a=1)) and "ignored=4" in repr(cls(a=1))


def test_what_holds_itself_is_shown() -> None:
    value = OURS["plain0"](a=1)
    value.b = value
    assert repr(value) == "Plain0(a=1, b=..., ignored=4, unhashed=5)"


def test_an_heir_is_not_equal_to_its_base() -> None:
    assert OURS["Heir"](a=1) != OURS["Base"](a=1)
    assert OURS["Heir"](a=1, b=2) != OURS["Heir"](a=1)
    assert np.unique([hash(OURS["Heir"](a=a, b=b)) for a in range(2) for b in range(2)]).size == 4
