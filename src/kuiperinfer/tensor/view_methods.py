"""The methods of a tensor that give views of it. All of them end in `_view`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ..dtypes import broadcast_shapes
from ..errors import InputError, ShapeError
from ..memory.shape import Shape
from . import views
from .views import Geometry

if TYPE_CHECKING:
    from .tensor import Tensor


def sizes_of(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes or dimensions that were given one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return tuple(sizes[0])
    return sizes


class ViewMethods:
    """Views share the memory, and changes of it; nothing is copied, except where `reshape` and `flatten` say so."""

    __slots__ = ()

    _shape: Shape

    def _view(self, name: str, *arguments: Any) -> Tensor:
        raise NotImplementedError

    def _geometry(self) -> Geometry:
        raise NotImplementedError

    def clone(self) -> Tensor:
        raise NotImplementedError

    # --------------------------------------------------------------------------------------- positions

    def select(self, dim: int, index: int) -> Tensor:
        """One position along a dimension, which disappears. (…, D, …) -> (…, …)"""
        return self._view("select", dim, index)

    def slice(self, dim: int = 0, start: int | None = None, stop: int | None = None, step: int | None = 1) -> Tensor:
        """The positions `start:stop:step` of a dimension, as Python slices; the step may be negative."""
        return self._view("slice", dim, start, stop, step)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """`length` positions of a dimension from `start` on."""
        return self._view("narrow", dim, start, length)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """All positions along a dimension, each as a tensor without it."""
        return tuple(self.select(dim, index) for index in range(self._size(dim, "unbind")))

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces of `split_size` positions along a dimension (the last may be smaller), or of the sizes in a list."""
        size = self._size(dim, "split")
        lengths: list[Any]
        if isinstance(split_size, int):
            if split_size < 1:
                raise InputError(f"split: expected pieces of at least 1 position, found {split_size}")
            lengths = [min(split_size, size - start) for start in range(0, size, split_size)] or [0]
        else:
            lengths = list(split_size) if isinstance(split_size, (tuple, list)) else [split_size]
            if not all(isinstance(length, int) for length in lengths):
                raise InputError(f"split: expected a size or a list of sizes, found {split_size!r}")
            if sum(lengths) != size or any(length < 0 for length in lengths):
                raise ShapeError(f"split: pieces of {lengths} positions do not add up to the {size} of dimension {dim}")
        starts = [sum(lengths[:piece]) for piece in range(len(lengths))]
        return tuple(self.narrow(dim, start, length) for start, length in zip(starts, lengths, strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` pieces of equal size along a dimension; the last may be smaller."""
        if not isinstance(chunks, int) or chunks < 1:
            raise InputError(f"chunk: expected at least 1 chunk, found {chunks!r}")
        size = self._size(dim, "chunk")
        return self.split(-(-size // chunks), dim) if size else self.split([0] * chunks, dim)

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The elements whose index in `dim2` is `offset` more than in `dim1`, as a new last dimension."""
        return self._view("diagonal", offset, dim1, dim2)

    def unfold(self, dim: int, size: int, step: int) -> Tensor:
        """All windows of `size` positions along a dimension, `step` apart; the window is a new last dimension."""
        return self._view("unfold", dim, size, step)

    def flip(self, *dims: Any) -> Tensor:
        """Dimensions walked backwards. A view here, where PyTorch copies."""
        return self._view("flip", sizes_of(dims))

    def _size(self, dim: int, operation: str) -> int:
        if not self._shape:
            raise ShapeError(f"{operation}: expected a tensor with dimensions")
        return self._shape[self._shape.dimension(dim)]

    # --------------------------------------------------------------------------------------- order

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions change places."""
        return self._view("transpose", dim0, dim1)

    swapaxes = swapdims = transpose

    def permute(self, *dims: Any) -> Tensor:
        """The dimensions in another order: dimension i of the result is dimension `dims[i]`."""
        return self._view("permute", sizes_of(dims))

    def movedim(self, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
        """The dimensions of `source` come to the places of `destination`; the others keep their order."""
        froms, tos = ([dims] if isinstance(dims, int) else list(dims) for dims in (source, destination))
        froms, tos = ([self._shape.dimension(dim) for dim in dims] for dims in (froms, tos))
        if len(froms) != len(tos) or len(set(froms)) != len(froms) or len(set(tos)) != len(tos):
            raise ShapeError(f"movedim: {source} cannot move to {destination}; expected as many different dimensions")
        order = [dim for dim in range(len(self._shape)) if dim not in froms]
        for to, dim in sorted(zip(tos, froms, strict=True)):
            order.insert(to, dim)
        return self.permute(order[: len(self._shape)])

    moveaxis = movedim

    def t(self) -> Tensor:
        """A matrix with rows and columns exchanged. (H, W) -> (W, H); fewer dimensions stay."""
        if len(self._shape) > 2:
            raise ShapeError(f"t: expected at most 2 dimensions, found shape {self._shape}; use mT or transpose()")
        return self.transpose(0, -1)

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order. (A, B, …, Z) -> (Z, …, B, A)"""
        return self.permute(tuple(range(len(self._shape)))[::-1])

    @property
    def mT(self) -> Tensor:
        """Matrices with rows and columns exchanged. (…, H, W) -> (…, W, H)"""
        if len(self._shape) < 2:
            raise ShapeError(f"mT: expected at least 2 dimensions, found shape {self._shape}")
        return self.transpose(-2, -1)

    # --------------------------------------------------------------------------------------- other shapes

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without the dimensions of size 1: all of them, or those of `dim` that have this size."""
        return self._view("squeeze", dim)

    def unsqueeze(self, dim: int) -> Tensor:
        """A new dimension of size 1 before dimension `dim`."""
        return self._view("unsqueeze", dim)

    def expand(self, *sizes: Any) -> Tensor:
        """Dimensions of size 1, and new ones at the left, repeated without being copied; -1 leaves a size as it is."""
        return self._view("expand", sizes_of(sizes))

    def expand_as(self, other: Tensor) -> Tensor:
        """Expanded to the shape of another tensor."""
        return self.expand(_shape_of(other, "expand_as"))

    def broadcast_to(self, *sizes: Any) -> Tensor:
        """Expanded to a shape."""
        return self.expand(*sizes)

    def repeat(self, *sizes: Any) -> Tensor:
        """The whole tensor so many times along each dimension, of which there may be more in front. (A, B) -> (m A, n B)"""
        from .operations.joining import repeat

        return cast("Tensor", repeat(cast("Tensor", self), sizes_of(sizes)))

    def view(self, *sizes: Any) -> Tensor:
        """The same memory in another shape, one of whose sizes may be -1; `ShapeError` where strides cannot express it."""
        return self._view("view", sizes_of(sizes))

    def view_as(self, other: Tensor) -> Tensor:
        """The same memory in the shape of another tensor."""
        return self.view(_shape_of(other, "view_as"))

    def reshape(self, *sizes: Any, row_major: bool = True) -> Tensor:
        """The elements in another shape: a view where strides can express it, otherwise a copy.

        `row_major=False` reads and fills the matrices of the last two dimensions column by column, as the course does.
        """
        if not row_major:
            wanted = sizes_of(sizes)
            return _by_columns(_by_columns(self).reshape(*wanted[:-2], *wanted[:-3:-1]))
        target = views.resolve_sizes(self._shape, sizes_of(sizes), "reshape")
        if views.view_strides(self._geometry(), target) is None:
            return self.clone().view(target)
        return self._view("view", target)

    def reshape_as(self, other: Tensor) -> Tensor:
        """The elements in the shape of another tensor."""
        return self.reshape(_shape_of(other, "reshape_as"))

    def flatten(self, start_dim: int = 0, end_dim: int = -1, *, row_major: bool = True) -> Tensor:
        """The dimensions from `start_dim` to `end_dim` as one. (A, B, …, Z) -> (A · B · … · Z)

        `row_major=False` reads the matrices of the last two dimensions column by column, as the course does.
        """
        first, last = self._shape.dimension(start_dim), self._shape.dimension(end_dim)
        if first > last:
            raise ShapeError(f"flatten: dimension {start_dim} comes after dimension {end_dim} in shape {self._shape}")
        if not row_major:
            return _by_columns(self).flatten(start_dim, end_dim)
        from .functional import flatten

        return cast("Tensor", flatten(cast("Tensor", self), start_dim, end_dim))

    def ravel(self) -> Tensor:
        """All elements in one dimension."""
        return self.flatten()

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Tensor:
        """One dimension seen as several."""
        dim = self._shape.dimension(dim)
        inner = views.resolve_sizes(Shape((self._size(dim, "unflatten"),)), sizes, "unflatten")
        return self.view(*self._shape[:dim], *inner, *self._shape[dim + 1 :])


def _shape_of(other: Any, operation: str) -> Shape:
    shape = getattr(other, "shape", None)
    if not isinstance(shape, tuple):
        raise InputError(f"{operation}: expected a tensor, found {other!r}")
    return Shape(shape)


def _by_columns(tensor: Any) -> Tensor:
    """Matrices with rows and columns exchanged; a vector stays."""
    result: Tensor = tensor.mT if tensor.ndim >= 2 else tensor
    return result


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape."""
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)
