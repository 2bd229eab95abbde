"""Views: other ways to look at the same memory. Pure geometry: shape, strides and offset in, the same out.

`VIEWS` has every kind of view by name. A function of it takes a geometry and the arguments of the view; strides and offset
count elements. What PyTorch does as a view is one here, with the same strides; `flip`, and steps below zero, are views too.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import InputError, ShapeError
from ..memory.shape import Shape


class Geometry(NamedTuple):
    """How elements lie in memory: the element of index i is number `offset + sum(i * strides)` of the storage."""

    shape: Shape
    strides: tuple[int, ...]
    offset: int


def contiguous_geometry(shape: Shape, offset: int = 0) -> Geometry:
    """Elements one after another, the last dimension running fastest."""
    return Geometry(shape, shape.row_major_strides(), offset)


def is_contiguous(geometry: Geometry) -> bool:
    """Whether the elements lie one after another in row-major order; dimensions of size 1 may have any stride."""
    step = 1
    for size, stride in zip(reversed(geometry.shape), reversed(geometry.strides), strict=True):
        if size != 1 and stride != step:
            return 0 in geometry.shape
        step *= size
    return True


def overlaps_itself(geometry: Geometry) -> bool:
    """Whether one element of memory is shown several times, as after `expand`."""
    return 0 in geometry.strides and any(
        size > 1 and stride == 0 for size, stride in zip(geometry.shape, geometry.strides, strict=True)
    )


def _integer(value: Any, what: str) -> int:
    if type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{what} is an integer, found {value!r}") from None


def _replace(values: tuple[int, ...], dim: int, *new: int) -> tuple[int, ...]:
    return (*values[:dim], *new, *values[dim + 1 :])


def _different_dimensions(shape: Shape, dims: Sequence[int], operation: str) -> list[int]:
    named = [shape.dimension(dim) for dim in dims]
    if len(set(named)) != len(named):
        raise ShapeError(f"{operation}: a dimension appears more than once in {tuple(dims)}")
    return named


# ------------------------------------------------------------------------------------------- one dimension


def select(geometry: Geometry, dim: int, index: int) -> Geometry:
    """One position along a dimension, which disappears. (…, D, …) -> (…, …)"""
    shape, strides, offset = geometry
    if not shape:
        raise ShapeError("a tensor without dimensions has nothing to select from; use item()")
    dim = shape.dimension(dim)
    size = shape[dim]
    index = _integer(index, "select: an index")
    if not -size <= index < size:
        raise InputError(f"index {index} is out of range for dimension {dim} of size {size} in shape {shape}")
    return Geometry(
        Shape(_replace(shape, dim)),
        _replace(strides, dim),
        offset + (index + size if index < 0 else index) * strides[dim],
    )


def slice_(
    geometry: Geometry, dim: int = 0, start: int | None = None, stop: int | None = None, step: int | None = 1
) -> Geometry:
    """The positions `start:stop:step` of a dimension, as Python slices; the step may be negative."""
    shape, strides, offset = geometry
    if not shape:
        raise ShapeError("a tensor without dimensions cannot be sliced")
    dim = shape.dimension(dim)
    if step == 0:
        raise InputError("the step of a slice cannot be zero")
    try:
        first, last, by = slice(start, stop, step).indices(shape[dim])
    except TypeError:
        raise InputError(f"a slice is made of integers, found {start!r}, {stop!r} and {step!r}") from None
    count = len(range(first, last, by))
    if by > 0 or count:  # nothing, walked backwards, begins before the first element
        offset += first * strides[dim]
    return Geometry(Shape(_replace(shape, dim, count)), _replace(strides, dim, strides[dim] * by), offset)


def narrow(geometry: Geometry, dim: int, start: int, length: int) -> Geometry:
    """`length` positions of a dimension from `start` on."""
    dim = geometry.shape.dimension(dim)
    size = geometry.shape[dim]
    first = start + size if start < 0 else start
    if length < 0 or not 0 <= first <= first + length <= size:
        raise InputError(
            f"narrow: {length} positions from {start} on do not lie in dimension {dim} of size {size}; "
            f"expected 0 <= start and start + length <= {size}"
        )
    return slice_(geometry, dim, first, first + length)


def unsqueeze(geometry: Geometry, dim: int) -> Geometry:
    """A new dimension of size 1 before dimension `dim`."""
    shape, strides, offset = geometry
    dim = shape.dimension(dim, extra=1)
    stride = shape[dim] * strides[dim] if dim < len(shape) else 1
    return Geometry(Shape((*shape[:dim], 1, *shape[dim:])), (*strides[:dim], stride, *strides[dim:]), offset)


def squeeze(geometry: Geometry, dim: int | Sequence[int] | None = None) -> Geometry:
    """Without the dimensions of size 1: all of them, or those of `dim` that have this size."""
    shape, strides, offset = geometry
    if dim is None:
        named = set(range(len(shape)))
    else:
        named = set(_different_dimensions(shape, dim if isinstance(dim, (tuple, list)) else (dim,), "squeeze"))
    kept = [i for i, size in enumerate(shape) if size != 1 or i not in named]
    return Geometry(Shape(shape[i] for i in kept), tuple(strides[i] for i in kept), offset)


# ------------------------------------------------------------------------------------------- order


def transpose(geometry: Geometry, dim0: int, dim1: int) -> Geometry:
    """Two dimensions change places."""
    shape, strides, offset = geometry
    first, second = shape.dimension(dim0), shape.dimension(dim1)
    order = list(range(len(shape)))
    if order:
        order[first], order[second] = order[second], order[first]
    return Geometry(Shape(shape[i] for i in order), tuple(strides[i] for i in order), offset)


def permute(geometry: Geometry, dims: Sequence[int]) -> Geometry:
    """The dimensions in another order: dimension i of the result is dimension `dims[i]`."""
    shape, strides, offset = geometry
    order = [shape.dimension(dim) for dim in dims]
    if sorted(order) != list(range(len(shape))):
        raise ShapeError(
            f"permute: {tuple(dims)} does not name every dimension of shape {shape} once; "
            f"expected a reordering of {tuple(range(len(shape)))}"
        )
    return Geometry(Shape(shape[i] for i in order), tuple(strides[i] for i in order), offset)


def flip(geometry: Geometry, dims: Sequence[int]) -> Geometry:
    """Dimensions walked backwards."""
    named = _different_dimensions(geometry.shape, dims, "flip")
    for dim in named if geometry.shape else ():
        geometry = slice_(geometry, dim, None, None, -1)
    return geometry


def diagonal(geometry: Geometry, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Geometry:
    """The elements whose index in `dim2` is `offset` more than in `dim1`, as a new last dimension."""
    shape, strides, start = geometry
    first, second = shape.dimension(dim1), shape.dimension(dim2)
    offset = _integer(offset, "diagonal: an offset")
    if first == second:
        raise ShapeError(f"diagonal: dim1 and dim2 are both {first}; expected two dimensions")
    count = min(shape[first], shape[second] - offset) if offset >= 0 else min(shape[first] + offset, shape[second])
    count = max(count, 0)
    if count:
        start += offset * strides[second] if offset >= 0 else -offset * strides[first]
    kept = [i for i in range(len(shape)) if i not in (first, second)]
    return Geometry(
        Shape((*(shape[i] for i in kept), count)),
        (*(strides[i] for i in kept), strides[first] + strides[second]),
        start,
    )


def unfold(geometry: Geometry, dim: int, size: int, step: int) -> Geometry:
    """All windows of `size` positions along a dimension, `step` apart; the window is a new last dimension."""
    shape, strides, offset = geometry
    if not shape:
        raise ShapeError("unfold: a tensor without dimensions has no windows")
    dim = shape.dimension(dim)
    size, step = _integer(size, "unfold: a size"), _integer(step, "unfold: a step")
    if not 0 <= size <= shape[dim] or step < 1:
        raise InputError(
            f"unfold: windows of {size} positions, {step} apart, do not fit dimension {dim} of size {shape[dim]}; "
            f"expected a size of at most {shape[dim]} and a step of at least 1"
        )
    count = (shape[dim] - size) // step + 1
    return Geometry(
        Shape((*_replace(shape, dim, count), size)),
        (*_replace(strides, dim, strides[dim] * step), strides[dim]),
        offset,
    )


# ------------------------------------------------------------------------------------------- other shapes


def expand(geometry: Geometry, sizes: Sequence[int]) -> Geometry:
    """Dimensions of size 1, and new ones at the left, repeated without being copied; -1 leaves a size as it is."""
    shape, strides, offset = geometry
    new = len(sizes) - len(shape)
    if new < 0:
        raise ShapeError(f"expand: {tuple(sizes)} has fewer dimensions than shape {shape}; expected at least as many")
    result_shape = [0] * len(sizes)
    result_strides = [0] * len(sizes)
    for i in reversed(range(len(sizes))):
        size, target = (shape[i - new] if i >= new else 1), sizes[i]
        if target == -1 and i >= new:
            target = size
        if target < 0 or size not in (1, target):
            raise ShapeError(
                f"expand: shape {shape} cannot become {tuple(sizes)}: dimension {i} has size {size}, and {sizes[i]} was asked "
                "for; only dimensions of size 1 can be repeated"
            )
        following = result_shape[i + 1] * result_strides[i + 1] if i + 1 < len(sizes) else 0
        result_strides[i] = 0 if size != target else strides[i - new] if i >= new else following
        result_shape[i] = target
    return Geometry(Shape(result_shape), tuple(result_strides), offset)


def resolve_sizes(shape: Shape, sizes: Sequence[int], operation: str = "view") -> Shape:
    """The asked sizes with -1 replaced by what is left over; `ShapeError` where the number of elements would change."""
    try:
        wanted = list(map(operator.index, sizes))
    except TypeError:
        raise ShapeError(f"{operation}: expected sizes as integers, found {tuple(sizes)}") from None
    if math.prod(wanted) == shape.dsize and (not wanted or min(wanted) >= 0):
        return Shape(wanted)
    unknown = [i for i, size in enumerate(wanted) if size == -1]
    known = Shape(size for size in wanted if size != -1)
    if len(unknown) > 1:
        raise ShapeError(f"{operation}: only one size can be -1, found {tuple(sizes)}")
    if any(size < 0 for size in known):
        raise ShapeError(f"{operation}: expected sizes of at least 0 (or one -1), found {tuple(sizes)}")
    if unknown:
        if not known.dsize:
            raise ShapeError(f"{operation}: -1 in {tuple(sizes)} can be anything, because another size is 0")
        wanted[unknown[0]] = shape.dsize // known.dsize
    result = Shape(wanted)
    if result.dsize != shape.dsize:
        raise ShapeError(
            f"{operation}: shape {shape} has {shape.dsize} elements, and {tuple(sizes)} "
            f"{'needs a multiple of ' + str(known.dsize) if unknown else 'needs ' + str(known.dsize)}"
        )
    return result


def view(geometry: Geometry, sizes: Sequence[int]) -> Geometry:
    """The same elements in another shape; `ShapeError` where no strides can express it."""
    shape, _, offset = geometry
    target = resolve_sizes(shape, sizes)
    strides = view_strides(geometry, target)
    if strides is None:
        raise ShapeError(
            f"view: shape {shape} with strides {geometry.strides} cannot be seen as {target} without a copy, because the "
            "elements of dimensions to be joined do not lie evenly apart in memory; use reshape(), which copies them"
        )
    return Geometry(target, strides, offset)


def view_strides(geometry: Geometry, target: Shape) -> tuple[int, ...] | None:
    """The strides that show the elements in a shape of equally many elements, or None where there are none."""
    shape, strides, _ = geometry
    if 0 in shape:
        return strides if shape == target else target.row_major_strides()
    if strides == shape.row_major_strides():
        return target.row_major_strides()
    runs = _even_runs(shape, strides) or [(1, 1)]
    result: list[int] = []
    sizes = list(target)
    for count, step in runs:  # from the last dimension to the first
        covered = 1
        while sizes and (covered < count or sizes[-1] == 1):
            result.append(covered * step)
            covered *= sizes.pop()
        if covered != count:
            return None
    return tuple(reversed(result))


def _even_runs(shape: Shape, strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Neighbouring dimensions joined wherever their elements lie evenly apart: (elements, stride), last dimension first."""
    runs: list[tuple[int, int]] = []
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if runs and (size == 1 or stride == runs[-1][0] * runs[-1][1]):
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, stride))
    return runs


VIEWS: dict[str, Callable[..., Geometry]] = {
    "select": select,
    "slice": slice_,
    "narrow": narrow,
    "unsqueeze": unsqueeze,
    "squeeze": squeeze,
    "transpose": transpose,
    "permute": permute,
    "flip": flip,
    "diagonal": diagonal,
    "unfold": unfold,
    "expand": expand,
    "view": view,
}


def apply(name: str, geometry: Geometry, arguments: tuple[Any, ...]) -> Geometry:
    """The view of that name."""
    return VIEWS[name](geometry, *arguments)
