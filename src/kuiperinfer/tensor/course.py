"""The vocabulary of the course: tensors of channels, rows and columns, and what its lessons do with them.

Meanings are PyTorch's wherever the course's tensor deviates from it: shapes stay what they were given as, memory is
row-major (`row_major=False` reads it as the course's columns), and any shapes that can be broadcast are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import f32, widen
from ..errors import InputError, ShapeError
from ..memory.shape import Shape
from .casting import DTypeLike, is_number

if TYPE_CHECKING:
    from .tensor import Tensor


def _tensor(methods: Any) -> Tensor:
    """The tensor that has the methods."""
    tensor: Tensor = methods
    return tensor


class CourseMethods:
    """What the course's tensor can do: `shapes()` is always (channels, rows, columns)."""

    __slots__ = ()

    _shape: Shape

    def shapes(self) -> list[int]:
        """[channels, rows, columns], with 1 for those that the shape does not have."""
        if len(self._shape) > 3:
            raise ShapeError(f"channels, rows and columns are at most 3 dimensions, found shape {self._shape}")
        return [1] * (3 - len(self._shape)) + list(self._shape)

    def raw_shapes(self) -> list[int]:
        """The shape as it is."""
        return list(self._shape)

    def channels(self) -> int:
        """Number of matrices."""
        return self.shapes()[0]

    def rows(self) -> int:
        """Number of rows of each matrix."""
        return self.shapes()[1]

    def cols(self) -> int:
        """Number of columns of each matrix."""
        return self.shapes()[2]

    def plane_size(self) -> int:
        """Number of elements of one matrix."""
        return self.rows() * self.cols()

    def empty(self) -> bool:
        """Whether there are no elements."""
        return self._shape.dsize == 0

    def at(self, channel: int, row: int, col: int) -> Any:
        """One element as a number."""
        missing = (None,) * (len(self.shapes()) - len(self._shape))
        return _tensor(self)[missing][channel, row, col].item()

    def fill(self, values: Any, row_major: bool = True) -> Tensor:
        """Sets all elements to a number, or to as many numbers as there are elements: row by row of one channel after the
        other, or column by column. In place; returns the tensor."""
        from .tensor import Tensor

        if is_number(values):
            return _tensor(self).copy_(values)
        source = Tensor(values)
        if source.numel() != self._shape.dsize:
            raise ShapeError(
                f"fill: expected {self._shape.dsize} numbers for shape {self._shape}, found {source.numel()}"
            )
        return _tensor(self).copy_(source.reshape(self._shape, row_major=row_major))

    def values(self, row_major: bool = True) -> list[Any]:
        """All elements as numbers: row by row of one channel after the other, or column by column."""
        numbers: list[Any] = _tensor(self).flatten(row_major=row_major).tolist()
        return numbers

    def padding(self, pads: Sequence[int], value: float = 0.0) -> Tensor:
        """Rows and columns of a number put around every matrix. (…, H, W) -> (…, up + H + down, left + W + right)

        `pads` are up, down, left and right. The tensor itself stays as it is.
        """
        from .creation import full

        if len(pads) != 4 or any(pad < 0 for pad in pads):
            raise InputError(f"padding: expected up, down, left and right of at least 0, found {list(pads)}")
        if len(self._shape) < 2:
            raise ShapeError(f"padding: expected rows and columns, found shape {self._shape}")
        up, down, left, right = pads
        *channels, rows, cols = self._shape
        padded = full((*channels, up + rows + down, left + cols + right), value, _tensor(self).dtype)
        padded[..., up : up + rows, left : left + cols] = _tensor(self)
        return padded

    def transform(self, function: Callable[[Any], Any]) -> Tensor:
        """Replaces every element by a function of it, which is given a number at a time. In place; returns the tensor."""
        from .tensor import Tensor

        numbers = [function(number) for number in self.values()]
        return _tensor(self).copy_(Tensor(numbers).reshape(self._shape))

    def show(self) -> None:
        """Prints the matrix of each channel."""
        for channel, matrix in enumerate(_tensor(self).reshape(self.shapes())):
            print(f"channel {channel}:\n{matrix}")

    def is_same(self, other: Tensor, threshold: float = 1e-5) -> bool:
        """Whether the shapes are equal, and no two elements differ by `threshold` or more."""
        from .tensor import Tensor

        if not isinstance(other, Tensor):
            raise InputError(f"is_same: expected a tensor, found {type(other).__name__}")
        if self._shape != other.shape:
            return False
        mine, others = (np.asarray(widen(tensor.array), np.complex128) for tensor in (_tensor(self), other))
        return bool((abs(mine - others) < threshold).all())


# ------------------------------------------------------------------------------------------- functions


def tensor_create(*shape: Any, dtype: DTypeLike = f32) -> Tensor:
    """A tensor of zeros, of 1 to 3 dimensions: (channels, rows, columns), (rows, columns) or (n).

    As in the course, three dimensions of which the first are 1 become fewer: (1, 2, 3) -> (2, 3), (1, 1, 3) -> (3).
    """
    from .creation import size_of, zeros

    sizes = size_of(shape)
    if not 1 <= len(sizes) <= 3:
        raise ShapeError(f"tensor_create: expected 1 to 3 dimensions, found {sizes}")
    if len(sizes) == 3 and sizes[0] == 1:
        sizes = Shape(sizes[2:] if sizes[1] == 1 else sizes[1:])
    return zeros(sizes, dtype=dtype)


def tensor_clone(tensor: Tensor) -> Tensor:
    """A copy."""
    return tensor.clone()


def tensor_is_same(a: Tensor, b: Tensor, threshold: float = 1e-5) -> bool:
    """Whether the shapes are equal, and no two elements differ by `threshold` or more."""
    return a.is_same(b, threshold)


def tensor_padding(tensor: Tensor, pads: Sequence[int], value: float = 0.0) -> Tensor:
    """A copy with rows and columns of a number around every matrix; `pads` are up, down, left and right."""
    return tensor.padding(pads, value)


def tensor_broadcast(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both expanded to their common shape, such as (C, H, W) and (C, 1, 1); `ShapeError` where there is none."""
    from .view_methods import broadcast_tensors

    first, second = broadcast_tensors(a, b)
    return first, second


def tensor_element_add(a: Tensor, b: Tensor, output: Tensor | None = None) -> Tensor:
    """The sum, element by element, broadcast; written to `output` where that is given."""
    return _into(a + b, output)


def tensor_element_multiply(a: Tensor, b: Tensor, output: Tensor | None = None) -> Tensor:
    """The product, element by element, broadcast; written to `output` where that is given."""
    return _into(a * b, output)


def tensor_element_sin(tensor: Tensor) -> Tensor:
    """The sine of every element."""
    return tensor.sin()


def _into(result: Tensor, output: Tensor | None) -> Tensor:
    if output is None:
        return result
    if output.shape != result.shape:
        raise ShapeError(f"the result has shape {result.shape}, and the output {output.shape}; expected the same")
    return output.copy_(result)


def load_data(path: str | os.PathLike[str], split: str = ",", dtype: DTypeLike = f32) -> Tensor:
    """A table of numbers read as the course's `CSVDataLoader` does: `load_csv` with `lenient=True`."""
    from .csv import load_csv

    return load_csv(path, split, dtype, lenient=True)
