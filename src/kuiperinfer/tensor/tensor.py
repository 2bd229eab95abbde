"""The tensor: elements of one dtype in a storage, seen through a shape, strides and an offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex

import numpy as np

from ..dtypes import Array, DType, cast
from ..errors import InputError, ShapeError
from ..memory.shape import Shape
from ..memory.storage import Storage
from . import autograd, indexing, views
from .arithmetic import Arithmetic
from .casting import DTypeLike, as_dtype
from .views import Geometry


class Tensor(Arithmetic):
    """Elements of one dtype in a storage that other tensors may share.

    `strides` and `offset` count elements, as PyTorch's do. A tensor may be the result of arithmetic that is not evaluated
    yet: shape and dtype are known, and its storage comes into being when somebody asks for it.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_dtype",
        "_offset",
        "_pending",
        "_requires_grad",
        "_shape",
        "_storage",
        "_strides",
        "grad",
        "grad_fn",
    )

    def __init__(self, data: Any, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> None:
        """A copy of numbers, nested lists, arrays or another tensor."""
        from .creation import array_of

        array = array_of(data, None if dtype is None else as_dtype(dtype))
        made = Tensor.empty_contiguous(Shape(array.shape), as_dtype(array.dtype))
        made.array[...] = array
        self._become(made._storage, made._dtype, made._geometry())
        self.requires_grad = requires_grad

    def _become(self, storage: Storage | None, dtype: DType, geometry: Geometry) -> None:
        self._storage = storage
        self._dtype = dtype
        self._shape, self._strides, self._offset = geometry
        self._pending: Any = None
        self._array: Array | None = None
        self._requires_grad = False
        self.grad: Tensor | None = None
        self.grad_fn: Any = None

    @staticmethod
    def over(storage: Storage, dtype: DType, geometry: Geometry) -> Tensor:
        """A tensor that looks at a storage."""
        tensor = Tensor.__new__(Tensor)
        tensor._become(storage, dtype, geometry)
        return tensor

    @staticmethod
    def empty_contiguous(shape: Shape, dtype: DType) -> Tensor:
        """A new, uninitialised tensor in row-major order."""
        return Tensor.over(Storage(shape.dsize * dtype.itemsize), dtype, views.contiguous_geometry(shape))

    @staticmethod
    def not_evaluated(pending: Any, shape: Shape, dtype: DType) -> Tensor:
        """A tensor whose storage `pending.realize(tensor)` will set, when it is first asked for."""
        tensor = Tensor.__new__(Tensor)
        tensor._become(None, dtype, views.contiguous_geometry(shape))
        tensor._pending = pending
        return tensor

    # --------------------------------------------------------------------------------------- what it is

    @property
    def storage(self) -> Storage:
        """The memory; arithmetic that was put off is evaluated now."""
        if self._pending is not None:
            self._pending.realize(self)
        assert self._storage is not None
        return self._storage

    @property
    def shape(self) -> Shape:
        """The sizes of the dimensions."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """How many elements lie between neighbours along each dimension."""
        return self._strides

    @property
    def offset(self) -> int:
        """The number of the first element within the storage."""
        return self._offset

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def requires_grad(self) -> bool:
        """Whether `backward()` has to find the gradient of this tensor."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and self._dtype.kind not in ("float", "complex"):
            raise InputError(
                f"only tensors of floating point or complex dtype can require gradients, found {self._dtype}"
            )
        self._requires_grad = value

    def _geometry(self) -> Geometry:
        return Geometry(self._shape, self._strides, self._offset)

    def stride(self, dim: SupportsIndex | None = None) -> Any:
        """The strides, or that of one dimension."""
        return self._strides if dim is None else self._strides[self._shape.dimension(dim)]

    def size(self, dim: SupportsIndex | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self._shape if dim is None else self._shape[self._shape.dimension(dim)]

    def storage_offset(self) -> int:
        """`offset`, under PyTorch's name."""
        return self._offset

    def numel(self) -> int:
        """Number of elements."""
        return self._shape.dsize

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.storage.address + self._offset * self._dtype.itemsize

    def is_contiguous(self) -> bool:
        """Whether the elements lie one after another in row-major order."""
        return views.is_contiguous(self._geometry())

    # --------------------------------------------------------------------------------------- elements

    @property
    def array(self) -> Array:
        """The elements as a NumPy array of the dtype's storage, without a copy: for reading."""
        if self._array is None:
            storage, itemsize = self.storage, self._dtype.itemsize
            self._array = np.ndarray(
                self._shape,
                self._dtype.storage,
                storage.block.data,
                storage.offset + self._offset * itemsize,
                tuple(stride * itemsize for stride in self._strides),
            )
        return self._array

    def writable_array(self) -> Array:
        """The elements, for writing: every in-place change goes through here.

        What was put off and still has to read the old elements is evaluated first, and the storage's version goes up.
        """
        storage = self.storage
        readers = storage.block.readers
        if readers is not None:
            readers.evaluate()
        storage.increment_version()
        return self.array

    def numpy(self) -> Array:
        """The elements as a NumPy array over the same memory: who writes one writes the other."""
        if self._requires_grad:
            raise InputError("a tensor that requires gradients cannot become an array; use tensor.detach().numpy()")
        self.storage.block.exposed = True
        return self.array

    def item(self) -> Any:
        """The only element as a Python number; `InputError` where there are more or none."""
        if self._shape.dsize != 1:
            raise InputError(f"only a tensor of one element is a number; found shape {self._shape}")
        from .interchange import python_values

        return python_values(self.array.reshape(()))

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists."""
        from .interchange import python_values

        return python_values(self.array)

    # --------------------------------------------------------------------------------------- views

    def _view(self, name: str, *arguments: Any) -> Tensor:
        """Every view is made here."""
        view = Tensor.over(self.storage, self._dtype, views.apply(name, self._geometry(), arguments))
        autograd.record_view(self, view, name, arguments)
        return view

    def __getitem__(self, key: Any) -> Tensor:
        items = key if isinstance(key, tuple) else (key,)
        if not all(indexing.is_basic(item) for item in items):
            return self._gather(items)
        return self._view("index", items)

    def __setitem__(self, key: Any, value: Any) -> None:
        items = key if isinstance(key, tuple) else (key,)
        if not all(indexing.is_basic(item) for item in items):
            self._scatter(items, value)
        else:
            self._view("index", items).copy_(value)

    def _gather(self, items: tuple[Any, ...]) -> Tensor:
        values = self.array[indexing.as_numpy_index(items)]
        result = Tensor.empty_contiguous(Shape(values.shape), self._dtype)
        result.array[...] = values
        autograd.record_copy(self, result, "gather", items)
        return result

    def _scatter(self, items: tuple[Any, ...], value: Any) -> None:
        source = value if isinstance(value, Tensor) else Tensor(value, self._dtype)
        autograd.record_write(self, "scatter", source)
        self.writable_array()[indexing.as_numpy_index(items)] = cast(source.array, self._dtype)

    def __len__(self) -> int:
        if not self._shape:
            raise InputError("a tensor without dimensions has no length")
        return self._shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._shape:
            raise InputError("a tensor without dimensions cannot be walked through")
        return (self.select(0, index) for index in range(self._shape[0]))

    def select(self, dim: int, index: int) -> Tensor:
        """One position along a dimension, which disappears."""
        return self._view("select", dim, index)

    def slice(self, dim: int = 0, start: int | None = None, stop: int | None = None, step: int | None = 1) -> Tensor:
        """The positions `start:stop:step` of a dimension."""
        return self._view("slice", dim, start, stop, step)

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """`length` positions of a dimension from `start` on."""
        return self._view("narrow", dim, start, length)

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions change places."""
        return self._view("transpose", dim0, dim1)

    def permute(self, *dims: Any) -> Tensor:
        """The dimensions in another order."""
        return self._view("permute", _sizes(dims))

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without dimensions of size 1."""
        return self._view("squeeze", dim)

    def unsqueeze(self, dim: int) -> Tensor:
        """A new dimension of size 1 before `dim`."""
        return self._view("unsqueeze", dim)

    def expand(self, *sizes: Any) -> Tensor:
        """Dimensions of size 1, and new ones at the left, repeated without being copied."""
        return self._view("expand", _sizes(sizes))

    def flip(self, *dims: Any) -> Tensor:
        """Dimensions walked backwards; a view."""
        return self._view("flip", _sizes(dims))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
        """The elements on a diagonal, as a new last dimension."""
        return self._view("diagonal", offset, dim1, dim2)

    def unfold(self, dim: int, size: int, step: int) -> Tensor:
        """All windows along a dimension."""
        return self._view("unfold", dim, size, step)

    def view(self, *sizes: Any) -> Tensor:
        """The same memory in another shape; `ShapeError` where strides cannot express it."""
        return self._view("view", _sizes(sizes))

    def reshape(self, *sizes: Any) -> Tensor:
        """The elements in another shape: a view where strides can express it, otherwise a copy."""
        target = views.resolve_sizes(self._shape, _sizes(sizes), "reshape")
        if views.view_strides(self._geometry(), target) is None:
            return self.clone().view(target)
        return self._view("view", target)

    def contiguous(self) -> Tensor:
        """The tensor itself where its elements lie in row-major order, otherwise a copy in which they do."""
        return self if self.is_contiguous() else self.clone()

    # --------------------------------------------------------------------------------------- copies and writing

    def clone(self) -> Tensor:
        """A copy in row-major order."""
        copy = Tensor.empty_contiguous(self._shape, self._dtype)
        copy.array[...] = self.array
        autograd.record_copy(self, copy, "clone", ())
        return copy

    def to(self, dtype: DTypeLike) -> Tensor:
        """The values in another dtype; the tensor itself where it has that already."""
        target = as_dtype(dtype)
        if target is self._dtype:
            return self
        result = Tensor.empty_contiguous(self._shape, target)
        result.array[...] = cast(self.array, target)
        autograd.record_copy(self, result, "to", (target,))
        return result

    def copy_(self, source: Any) -> Tensor:
        """Takes the values of a tensor, an array or a number, broadcast and converted."""
        if not isinstance(source, Tensor):
            source = Tensor(source, self._dtype)
        values = cast(source.array, self._dtype)
        try:
            values = np.broadcast_to(values, self._shape)
        except ValueError:
            raise ShapeError(f"values of shape {source.shape} cannot be broadcast to shape {self._shape}") from None
        autograd.record_write(self, "copy_", source)
        self.writable_array()[...] = values
        return self

    def fill_(self, value: Any) -> Tensor:
        """Sets every element to a number."""
        return self.copy_(value)

    def zero_(self) -> Tensor:
        """Sets every element to zero."""
        return self.copy_(0)

    def detach(self) -> Tensor:
        """The same memory, without a history."""
        return Tensor.over(self.storage, self._dtype, self._geometry())

    # --------------------------------------------------------------------------------------- Python

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        value = self.item()
        if not isinstance(value, int):
            raise TypeError(f"only a tensor of integers can be an index, found {self._dtype}")
        return int(value)

    def __repr__(self) -> str:
        from .printing import tensor_text

        return tensor_text(self)


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        return tuple(sizes[0])
    return sizes
