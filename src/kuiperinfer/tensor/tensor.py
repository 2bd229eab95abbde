"""The tensor: elements of one dtype in a storage, seen through a shape, strides and an offset."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, SupportsIndex

import numpy as np

from ..dtypes import Array, DType, broadcast_shapes, cast, dtype_of, widen
from ..errors import DTypeError, InputError, ShapeError
from ..memory.shape import Shape
from ..memory.storage import Storage
from . import autograd, history, indexing, lazy, views
from .arithmetic import Arithmetic
from .casting import CastMethods, DTypeLike, as_dtype, is_number
from .course import CourseMethods
from .view_methods import ViewMethods
from .views import Geometry


class Tensor(Arithmetic, ViewMethods, CastMethods, CourseMethods):
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
        "_view_of",
        "grad",
        "grad_fn",
    )

    def __init__(self, data: Any, dtype: DTypeLike | None = None, *, requires_grad: bool = False) -> None:
        """A copy of a number, of nested lists of numbers, of an array or of another tensor.

        Python's floats become f32 and its integers i64, as in PyTorch, where no `dtype` says otherwise.
        """
        from .creation import array_of

        array = array_of(data, None if dtype is None else as_dtype(dtype))
        made = Tensor.empty_contiguous(Shape(array.shape), dtype_of(array))
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
        self._view_of: Any = None  # see history.record_view
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
        """A tensor in row-major order whose storage `pending.realize(tensor)` will set, when it is first asked for."""
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
        """How many elements of the storage lie between neighbours along each dimension."""
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
    def nbytes(self) -> int:
        """Bytes of the elements, as many as there would be without sharing."""
        return self._shape.dsize * self._dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    @property
    def requires_grad(self) -> bool:
        """Whether `backward()` has to find the gradient of this tensor."""
        return autograd.wants_gradient(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and self._dtype.kind != "float":
            raise DTypeError(f"only floats have gradients; found a tensor of {self._dtype}")
        self._requires_grad = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Sets `requires_grad`; returns the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def data(self) -> Tensor:
        """The same memory without a history, as `detach()`; assigning a tensor puts its elements in the place of these."""
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor) or self.grad_fn is not None:
            found = type(value).__name__ if not isinstance(value, Tensor) else "one with a history"
            raise InputError(f"data: expected a tensor that is assigned to one without a history, found {found}")
        if self._requires_grad and value._dtype.kind != "float":
            raise DTypeError(f"only floats have gradients; found a tensor of {value._dtype}")
        readers = self.storage.block.readers
        if readers is not None:
            readers.evaluate()  # what was put off reads the old elements
        self._storage, self._dtype = value.storage, value._dtype
        self._shape, self._strides, self._offset = value._geometry()
        self._pending = self._array = None

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

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self.storage.address + self._offset * self._dtype.itemsize

    def is_contiguous(self) -> bool:
        """Whether the elements lie one after another in row-major order."""
        return views.is_contiguous(self._geometry())

    def is_floating_point(self) -> bool:
        """Whether the elements are floats."""
        return self._dtype.kind == "float"

    def shares_memory_with(self, other: Tensor) -> bool:
        """Whether both look at the same storage, so that writing one may change the other."""
        return self.storage.shares_with(other.storage)

    # --------------------------------------------------------------------------------------- elements

    @property
    def array(self) -> Array:
        """The elements as a NumPy array of the dtype's storage, without a copy: for reading, within this package."""
        if self._array is None:
            storage, itemsize = self.storage, self._dtype.itemsize
            if 0 in self._shape:  # where nothing lies it may lie outside of the memory
                self._array = np.ndarray(self._shape, self._dtype.storage, storage.block.data[:0])
                return self._array
            self._array = np.ndarray(
                self._shape,
                self._dtype.storage,
                storage.block.data,
                storage.offset + self._offset * itemsize,
                [stride * itemsize for stride in self._strides],
            )
        return self._array

    def writable_array(self) -> Array:
        """The elements, for writing: every in-place change goes through here.

        What was put off and still has to read the old elements is evaluated first, and the storage's version goes up.
        """
        self._expect_writable()
        self.storage.begin_write()
        return self.array

    def _expect_writable(self) -> None:
        if not self.storage.block.data.flags.writeable:
            raise InputError("this tensor looks at memory that is read-only; use clone() to have a copy to write to")
        if views.overlaps_itself(self._geometry()):
            raise InputError(
                f"a tensor of shape {self._shape} and strides {self._strides} shows one element of memory several times, so "
                "it cannot be written in place; use clone() to have a copy to write to"
            )

    def numpy(self) -> Array:
        """The elements as a NumPy array over the same memory: who writes one writes the other.

        bf16 and c32 come in the package's own storage dtypes, since NumPy has none.
        """
        if self.requires_grad:
            raise InputError("a tensor that requires gradients cannot become an array; use tensor.detach().numpy()")
        block = self.storage.block
        block.exposed = True
        if block.readers is not None:
            block.readers.evaluate()
        return self.array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        if copy is False and wanted != array.dtype:
            raise ValueError(f"a tensor of {self._dtype} can only become an array of {wanted} by being copied")
        return array.astype(wanted, copy=bool(copy)) if wanted == array.dtype else readable(array).astype(wanted)

    def __dlpack__(self, **options: Any) -> Any:
        from .interchange import dlpack_capsule

        return dlpack_capsule(self, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # a CPU, the only one

    def item(self) -> Any:
        """The only element as a Python number; `InputError` where there are more or none."""
        if self._shape.dsize != 1:
            raise InputError(f"only a tensor of one element is a number; found shape {self._shape}")
        return readable(self.array).item()

    def tolist(self) -> Any:
        """The elements as Python numbers in nested lists."""
        return readable(self.array).tolist()

    # --------------------------------------------------------------------------------------- views and indices

    def _view(self, name: str, *arguments: Any) -> Tensor:
        """Every view is made here."""
        view = Tensor.over(self.storage, self._dtype, views.apply(name, self._geometry(), arguments))
        history.record_view(self, view, name, arguments)
        return view

    def __getitem__(self, key: Any) -> Tensor:
        if type(key) is int:  # as often as not
            return self._view("select", 0, key)
        items = key if isinstance(key, tuple) else (key,)
        if indexing.is_basic(items):
            return self._view("index", items)
        basic, gathering = indexing.divide(items, len(self._shape))
        view = self._view("index", basic)
        values = indexing.gathered(view.array, gathering)
        result = Tensor.empty_contiguous(Shape(values.shape), self._dtype)
        result.array[...] = values
        indices = [item if isinstance(item, Tensor) else None for item in items if not indexing.is_basic((item,))]
        history.record_copy(view, result, "gather", gathering, indices)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        items = key if isinstance(key, tuple) else (key,)
        if indexing.is_basic(items):
            view = self._view("index", items)
            view.copy_(value if is_number(value) else self._values(value, view.ndim))
            return
        basic, gathering = indexing.divide(items, len(self._shape))
        view = self._view("index", basic)
        target = indexing.shape_of_gathered(view._shape, gathering)
        source = self._values(value, len(target))
        values = cast(source.array, self._dtype)
        _expect_fitting(values.shape, target)
        view._expect_writable()
        history.record_write(view, "scatter", source, gathering)
        view.writable_array()[gathering] = values

    def _values(self, value: Any, ndim: int) -> Tensor:
        """What is to be written into an index of so many dimensions; others before these have to have size 1, and go."""
        source = value if isinstance(value, Tensor) else Tensor(value, self._dtype)
        extra = source.ndim - ndim
        return source.squeeze(tuple(range(extra))) if extra > 0 and set(source._shape[:extra]) == {1} else source

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("a tensor without dimensions has no length")
        return self._shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._shape:
            raise TypeError("a tensor without dimensions cannot be walked through")
        return iter(self.unbind(0))

    # --------------------------------------------------------------------------------------- copies and writing

    def clone(self) -> Tensor:
        """A copy in row-major order."""
        result = Tensor.empty_contiguous(self._shape, self._dtype)
        result.array[...] = self.array
        history.record_copy(self, result, "clone", ())
        return result

    def contiguous(self) -> Tensor:
        """The tensor itself where its elements lie in row-major order, otherwise a copy in which they do."""
        return self if self.is_contiguous() else self.clone()

    def to(self, dtype: DTypeLike) -> Tensor:
        """The values in another dtype, converted as PyTorch does; the tensor itself where it has that already."""
        target = as_dtype(dtype)
        if target is self._dtype:
            return self
        result = Tensor.empty_contiguous(self._shape, target)
        result.array[...] = cast(self.array, target)
        history.record_copy(self, result, "to", (target,))
        return result

    def copy_(self, source: Any) -> Tensor:
        """Takes the values of a tensor, an array or a number, broadcast to the shape and converted to the dtype."""
        if is_number(source):
            return self.fill_(source)
        if not isinstance(source, Tensor):
            source = Tensor(source, self._dtype)
        if source._storage is self._storage is not None and source._geometry() == self._geometry():
            return self  # what `x[0] += 1` ends with
        _expect_fitting(source._shape, self._shape)
        self._expect_writable()
        history.record_write(self, "copy_", source)
        lazy.write(self, source)
        return self

    def fill_(self, value: Any) -> Tensor:
        """Sets every element to a number."""
        from .creation import constant

        number = constant(value, self._dtype)
        self._expect_writable()
        history.record_write(self, "copy_", number)
        self.writable_array()[...] = number.array
        return self

    def zero_(self) -> Tensor:
        """Sets every element to zero."""
        return self.fill_(0)

    def detach(self) -> Tensor:
        """The same memory without a history: no gradient passes."""
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
        if self._dtype.kind != "int" or self._shape.dsize != 1:
            raise TypeError(
                f"only one integer can be an index, found a tensor of {self._dtype} and shape {self._shape}"
            )
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        from .printing import tensor_text

        return tensor_text(self)

    def __copy__(self) -> Tensor:
        result = type(self).__new__(type(self))
        result._become(self.storage, self._dtype, self._geometry())
        result._requires_grad = self._requires_grad
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        restore, arguments = self.__reduce__()
        result: Tensor = restore(*arguments)
        memo[id(self)] = result
        if self.grad is not None:
            result.grad = copy.deepcopy(self.grad, memo)
        return result

    def __reduce__(self) -> Any:
        if self.requires_grad and self.grad_fn is not None:
            raise InputError("only a tensor without a history can be copied deeply or pickled; use tensor.detach()")
        return _restore, (type(self), np.array(self.array), self._requires_grad)


def readable(array: Array) -> Array:
    """A stored array in a dtype that NumPy can read numbers from."""
    return array if array.dtype.names is None else widen(array)


def _expect_fitting(values: tuple[int, ...], target: tuple[int, ...]) -> None:
    try:
        fits = broadcast_shapes(values, target) == target
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(f"values of shape {tuple(values)} cannot be broadcast to shape {tuple(target)}")


def _restore(kind: type[Tensor], array: Array, requires_grad: bool) -> Tensor:
    tensor = Tensor(array)
    result = kind.__new__(kind)
    result._become(tensor.storage, tensor.dtype, tensor._geometry())
    result.requires_grad = requires_grad
    return result
