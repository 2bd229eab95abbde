"""What gradients have to know about views, copies and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .tensor import Tensor


def record_view(base: Tensor, view: Tensor, name: str, arguments: tuple[Any, ...]) -> None:
    """`view` looks at the memory of `base`: `views.apply(name, geometry of base, arguments)`."""


def record_copy(source: Tensor, copy: Tensor, name: str, arguments: tuple[Any, ...]) -> None:
    """`copy` was made from `source` by the method `name`: "clone", "to" (dtype) or "gather" (index)."""


def record_write(target: Tensor, name: str, source: Tensor | None) -> None:
    """`target` is about to take the values of `source`, broadcast and converted."""
