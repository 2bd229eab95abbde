"""Where values lie: buffers, addresses, and the homes of operands."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

from ..dtypes import Array
from ..graph import RuntimeOperand
from ..records import dataclass
from .layout import ImageLayout


class Place(enum.Enum):
    """What kind of memory a buffer is."""

    ARENA = "arena"
    CONSTANT = "constant"
    INPUT = "input"
    OUTPUT = "output"


@dataclass(eq=False)
class Buffer:
    """A stretch of memory; `data` is there for constants, `number` for the model's inputs and outputs."""

    place: Place
    nbytes: int
    data: Array | None = None
    number: int = -1


@dataclass(frozen=True)
class Ref:
    """An address: a buffer and an offset in bytes."""

    buffer: Buffer
    offset: int = 0

    def further(self, nbytes: int) -> Ref:
        """The address so many bytes further."""
        return Ref(self.buffer, self.offset + nbytes) if nbytes else self


@dataclass(frozen=True)
class Image:
    """An operand in an image layout; the layout's origin counts from `ref`."""

    ref: Ref
    layout: ImageLayout


@dataclass(frozen=True)
class View:
    """Elements of another operand: element (i, j, …) is its number ``offset + i * strides[0] + j * strides[1] + …`` in
    row-major order. Strides may be 0 or negative."""

    base: RuntimeOperand
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Strided:
    """Elements in memory: element (i, j, …) lies ``i * strides[0] + j * strides[1] + …`` elements behind `ref`."""

    ref: Ref
    strides: tuple[int, ...]


@dataclass
class Home:
    """Where an operand lies: as rows, as an image, or as a view of another operand, which no step has copied so far.

    `parts` is set for a list, `value` for what is known when code is made.
    """

    rows: Ref | None = None
    image: Image | None = None
    view: View | None = None
    parts: list[Any] | None = None
    value: Any = None
    is_object: bool = False  # known only to the session, as a Python object


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of contiguous elements in row-major order."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * shape[dim + 1]
    return tuple(strides)


def is_row_major(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements follow one another in row-major order, without gaps; dimensions of size 1 do not count."""
    wanted = row_major(shape)
    return 0 in shape or all(
        size == 1 or stride == want for size, stride, want in zip(shape, strides, wanted, strict=True)
    )


def project(
    image: Sequence[int], shape: Sequence[int], view: View, target: Sequence[int]
) -> tuple[int, int, int, int] | None:
    """The strides that the dimensions of an image (N, C, H, W) have in memory where a view of all of it, of `shape`, has the
    strides `target`; None where there are no such, or the view leaves elements out or repeats them."""
    dims = sorted((stride, size, to) for size, stride, to in zip(shape, view.strides, target, strict=True) if size > 1)
    if view.offset or math.prod(shape) != math.prod(image):
        return None
    strides: list[int] = []
    for size, step in zip(reversed(image), reversed(row_major(image)), strict=True):
        found, expected = 0, step
        while expected < step * size:
            if not dims or dims[0][0] != expected:
                return None
            stride, count, to = dims.pop(0)
            inside = step * size // stride  # how much of it belongs to this dimension of the image
            if count > inside:
                if count % inside:
                    return None
                dims.insert(0, (stride * inside, count // inside, to * inside))
                count = inside
            if expected == step:
                found = to
            elif to != found * (expected // step):
                return None
            expected *= count
        if expected != step * size:
            return None
        strides.append(found)
    batch, channels, height, width = reversed(strides)
    return batch, channels, height, width


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], rank: int) -> tuple[int, ...]:
    """Strides in the dimensions of a shape of `rank` to which elements are broadcast: 0 where one serves several."""
    own = tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
    return (0,) * (rank - len(own)) + own
