"""Creation: tensors of one value, ranges, and random numbers.

Random numbers come from one generator of this module, which `manual_seed` sets; they are not those of PyTorch.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..dtypes import (
    Array,
    DType,
    Scalar,
    TensorSpec,
    broadcast_shapes,
    cast,
    dtype_of,
    f32,
    i64,
    largest_finite,
    narrow,
    scalar_dtype,
    to_real,
    widen,
)
from ..errors import DTypeError, InputError, ShapeError
from ..records import dataclass
from .base import DataDependent, Ints, Layer, Spec, Value, expect_rank, known_array, known_ints, register
from .shape import describe_shape

# Parameters that say where and how PyTorch would store a new tensor.
_STORAGE = frozenset({"device", "layout", "memory_format", "pin_memory", "requires_grad"})


def known_size(size: Spec) -> Ints:
    """The shape of a new tensor; `ShapeError` for negative sizes."""
    shape = known_ints(size, "size")
    if any(dim < 0 for dim in shape):
        raise ShapeError(f"{describe_shape('size', size)}; expected sizes of at least 0")
    return shape


# ------------------------------------------------------------------------------------------- one value


def known_scalar(value: Spec, what: str) -> Scalar:
    """The number that a Python number or a 0-d tensor is; `DataDependent` where it is not known yet."""
    if isinstance(value, TensorSpec):
        expect_rank(value, 0, what=what)
        value = known_array(value)
    if isinstance(value, np.ndarray):
        value = widen(value).item()
    if not isinstance(value, (bool, int, float, complex)):
        raise DTypeError(f"{what}: expected a number, found {value!r}")
    return value


def element(value: Scalar, dtype: DType) -> Array:
    """A number as a 0-d array of `dtype`: floats are cut to integers, and negative numbers wrap in u8, as in PyTorch.

    `DTypeError` where the number is out of range.
    """
    if not _fits(value, dtype):
        raise DTypeError(f"the number {value} is out of the range of {dtype}")
    if dtype.kind == "int" and isinstance(value, (int, float, complex)):
        wrapped = int(value.real) & (2 ** (8 * dtype.itemsize) - 1)
        return np.asarray(wrapped, f"u{dtype.itemsize}").view(dtype.storage)
    return narrow(np.asarray(value), dtype)


def _fits(value: Scalar, dtype: DType) -> bool:
    if dtype.kind == "bool":
        return True
    if isinstance(value, complex):
        if dtype.kind == "complex":
            return _fits(value.real, to_real(dtype)) and _fits(value.imag, to_real(dtype))
        return value.imag == 0 and _fits(value.real, dtype)
    if dtype.kind == "int":
        info = np.iinfo(dtype.storage)
        low = -info.max if info.min == 0 and isinstance(value, int) else info.min
        return bool(low <= value <= (info.max if isinstance(value, int) else float(info.max)))
    with np.errstate(over="ignore"):
        single = float(np.float32(value))  # files have the smallest f32 as -3.40282347e38, which is a little less
    return not (math.isfinite(value) and min(abs(value), abs(single)) > largest_finite(to_real(dtype)))


def expect_in_range(value: Spec, dtype: DType, what: str = "fill_value") -> None:
    """`DTypeError` for what is no number, and for a number that is known and out of the range of `dtype`."""
    with contextlib.suppress(DataDependent):
        element(known_scalar(value, what), dtype)


def _filled(shape: Ints, value: Value, dtype: DType) -> Array:
    return np.broadcast_to(element(known_scalar(value, "fill_value"), dtype), shape)


@register("torch.zeros", "torch.empty", "aten::zeros", "aten::empty", constant=0)
@register("torch.ones", "aten::ones", constant=1)
@dataclass(frozen=True, kw_only=True)
class Filled(Layer):
    """A tensor of zeros (so is an uninitialised one) or of ones. () -> size. torch.zeros, torch.ones, torch.empty"""

    schemas: ClassVar[dict[int, str]] = {
        5: "size dtype layout device pin_memory",
        6: "size dtype layout device pin_memory memory_format",
    }

    ignored: ClassVar[frozenset[str]] = _STORAGE

    constant: int
    dtype: DType | None = None

    def infer(self, size: Spec) -> TensorSpec:
        return TensorSpec(known_size(size), self.dtype or f32)

    def forward(self, size: Value) -> Array:
        return _filled(known_size(size), self.constant, self.dtype or f32)


@register("torch.zeros_like", "torch.empty_like", "aten::zeros_like", "aten::empty_like", "aten::zero", constant=0)
@register("torch.ones_like", "aten::ones_like", constant=1)
@dataclass(frozen=True, kw_only=True)
class FilledLike(Layer):
    """A tensor of zeros or of ones, of the input's shape and dtype. (*) -> (*). torch.zeros_like"""

    widens: ClassVar[bool] = False
    of_shape_alone: ClassVar[frozenset[str]] = frozenset({"input"})
    schemas: ClassVar[dict[int, str]] = {6: "input dtype layout device pin_memory memory_format"}
    ignored: ClassVar[frozenset[str]] = _STORAGE

    constant: int
    dtype: DType | None = None

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like(dtype=self.dtype)

    def forward(self, input: Array) -> Array:
        return _filled(input.shape, self.constant, self.dtype or dtype_of(input))


@register("Tensor.new_zeros", "Tensor.new_empty", "aten::new_zeros", "aten::new_empty", constant=0)
@register("Tensor.new_ones", "aten::new_ones", constant=1)
@dataclass(frozen=True, kw_only=True)
class NewFilled(Layer):
    """A tensor of zeros or of ones, of the input's dtype. (*) -> size. torch.Tensor.new_zeros"""

    widens: ClassVar[bool] = False
    of_shape_alone: ClassVar[frozenset[str]] = frozenset({"input"})
    schemas: ClassVar[dict[int, str]] = {6: "input size dtype layout device pin_memory"}
    ignored: ClassVar[frozenset[str]] = _STORAGE

    constant: int
    dtype: DType | None = None

    def infer(self, input: TensorSpec, size: Spec) -> TensorSpec:
        return input.like(known_size(size), self.dtype)

    def forward(self, input: Array, size: Value) -> Array:
        return _filled(known_size(size), self.constant, self.dtype or dtype_of(input))


@register("torch.full", "aten::full")
@dataclass(frozen=True, kw_only=True)
class Full(Layer):
    """A tensor of one value, whose dtype it has: bool, i64, f32 or c64. () -> size. torch.full"""

    schemas: ClassVar[dict[int, str]] = {6: "size fill_value dtype layout device pin_memory"}

    ignored: ClassVar[frozenset[str]] = _STORAGE

    dtype: DType | None = None

    def infer(self, size: Spec, fill_value: Spec) -> TensorSpec:
        dtype = self._dtype(fill_value)
        expect_in_range(fill_value, dtype)
        return TensorSpec(known_size(size), dtype)

    def forward(self, size: Value, fill_value: Value) -> Array:
        return _filled(known_size(size), fill_value, self._dtype(fill_value))

    def _dtype(self, fill_value: Any) -> DType:
        if self.dtype is not None:
            return self.dtype
        if isinstance(fill_value, TensorSpec):  # a 0-d tensor counts as the Python number that it holds
            return scalar_dtype({"bool": False, "int": 0, "float": 0.0, "complex": 0j}[fill_value.dtype.kind])
        return scalar_dtype(known_scalar(fill_value, "fill_value"))


@register("torch.full_like", "aten::full_like")
@dataclass(frozen=True, kw_only=True)
class FullLike(Layer):
    """A tensor of one value, of the input's shape and dtype. (*) -> (*). torch.full_like"""

    widens: ClassVar[bool] = False
    of_shape_alone: ClassVar[frozenset[str]] = frozenset({"input"})
    schemas: ClassVar[dict[int, str]] = {7: "input fill_value dtype layout device pin_memory memory_format"}
    ignored: ClassVar[frozenset[str]] = _STORAGE

    dtype: DType | None = None

    def infer(self, input: TensorSpec, fill_value: Spec) -> TensorSpec:
        expect_in_range(fill_value, self.dtype or input.dtype)
        return input.like(dtype=self.dtype)

    def forward(self, input: Array, fill_value: Value) -> Array:
        return _filled(input.shape, fill_value, self.dtype or dtype_of(input))


@register("Tensor.new_full", "aten::new_full")
@dataclass(frozen=True, kw_only=True)
class NewFull(Layer):
    """A tensor of one value, of the input's dtype. (*) -> size. torch.Tensor.new_full"""

    widens: ClassVar[bool] = False
    of_shape_alone: ClassVar[frozenset[str]] = frozenset({"input"})
    schemas: ClassVar[dict[int, str]] = {7: "input size fill_value dtype layout device pin_memory"}
    ignored: ClassVar[frozenset[str]] = _STORAGE

    dtype: DType | None = None

    def infer(self, input: TensorSpec, size: Spec, fill_value: Spec) -> TensorSpec:
        expect_in_range(fill_value, self.dtype or input.dtype)
        return input.like(known_size(size), self.dtype)

    def forward(self, input: Array, size: Value, fill_value: Value) -> Array:
        return _filled(known_size(size), fill_value, self.dtype or dtype_of(input))


@register("Tensor.fill", "aten::fill")
@dataclass(frozen=True, kw_only=True)
class Fill(Layer):
    """A tensor of one value, of the input's shape and dtype; the value may be a 0-d tensor of any dtype. (*) -> (*).

    torch.Tensor.fill_, which changes the input; here it stays.
    """

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, value: Spec) -> TensorSpec:
        if isinstance(value, TensorSpec):
            expect_rank(value, 0, what="value")
        else:
            expect_in_range(value, input.dtype, "value")
        return input.like()

    def forward(self, input: Array, value: Value) -> Array:
        if not isinstance(value, np.ndarray):
            return _filled(input.shape, value, dtype_of(input))
        return np.broadcast_to(cast(value, dtype_of(input)), input.shape)


# ------------------------------------------------------------------------------------------- ranges


@register("torch.arange", "aten::arange")
@dataclass(frozen=True, kw_only=True)
class ARange(Layer):
    """start, start + step, ... up to but without end. () -> (ceil((end - start) / step)). torch.arange

    Without `dtype` integers give i64, and f32 comes out as soon as one of the three is a float.
    """

    schemas: ClassVar[dict[int, str]] = {
        5: "end dtype layout device pin_memory",
        6: "start end dtype layout device pin_memory",
        7: "start end step dtype layout device pin_memory",
    }

    ignored: ClassVar[frozenset[str]] = _STORAGE

    dtype: DType | None = None

    def infer(self, end: Spec, start: Spec = 0, step: Spec = 1) -> TensorSpec:
        count, _, _, dtype = self._range(end, start, step)
        return TensorSpec((count,), dtype)

    def forward(self, end: Value, start: Value = 0, step: Value = 1) -> Array:
        count, first, stride, dtype = self._range(end, start, step)
        exact = np.int64 if dtype.kind == "int" else np.float64
        return np.arange(count).astype(exact) * exact(stride) + exact(first)

    def _range(self, end: Spec, start: Spec, step: Spec) -> tuple[int, float, float, DType]:
        """How many numbers, the first, the step, and the dtype."""
        first, last, stride = (known_scalar(*given) for given in ((start, "start"), (end, "end"), (step, "step")))
        if isinstance(first, complex) or isinstance(last, complex) or isinstance(stride, complex):
            raise DTypeError("start, end and step: expected real numbers, found a complex one")
        dtype = self.dtype or (f32 if any(isinstance(value, float) for value in (first, last, stride)) else i64)
        if dtype.kind not in ("int", "float"):
            raise DTypeError(f"dtype: expected integers or floats, found {dtype}")
        found = f"start={first}, end={last}, step={stride}"
        if not all(map(math.isfinite, (first, last, stride))):
            raise InputError(f"expected finite numbers, found {found}")
        if dtype is i64:  # where PyTorch cuts first and counts exactly; for other dtypes it counts in float64
            first, last, stride = int(first), int(last), int(stride)
        if not stride:
            raise InputError(f"step: expected a number other than 0, found {found}")
        if (last - first) * stride < 0:
            raise InputError(f"end lies on the other side of start than step points to: {found}")
        count = int(-((first - last) // stride)) if dtype is i64 else math.ceil((last - first) / stride)
        if dtype.kind == "int":
            first, stride = int(first), int(stride)
        return count, first, stride, dtype


# ------------------------------------------------------------------------------------------- random numbers

_generators: list[np.random.Generator] = []  # the only one, once it is needed: NumPy's take long to import
_lock = threading.Lock()


def manual_seed(seed: int) -> None:
    """Sets the seed of all random operators: the same seed gives the same numbers, in the order in which they are drawn."""
    with _lock:
        _generators[:] = [np.random.default_rng(seed)]


def _standard_normal(shape: Ints, dtype: DType) -> Array:
    """Numbers of mean 0 and variance 1; the parts of complex ones have variance 1/2."""
    return _draw(lambda generator: generator.standard_normal, shape, dtype, math.sqrt(0.5))


def _uniform(shape: Ints, dtype: DType) -> Array:
    """Numbers from [0, 1)."""
    return _draw(lambda generator: generator.random, shape, dtype, 1.0)


def _draw(method: Callable[[np.random.Generator], Any], shape: Ints, dtype: DType, scale_of_parts: float) -> Array:
    with _lock:
        if not _generators:
            _generators.append(np.random.default_rng(0))
        draw = method(_generators[0])
        if dtype.kind != "complex":
            return np.asarray(draw(shape))
        parts = draw((2, *shape)) * scale_of_parts
    return np.asarray(parts[0] + 1j * parts[1])


def _expect_inexact(dtype: DType) -> None:
    if dtype.kind not in ("float", "complex"):
        raise DTypeError(f"random numbers are floats or complex numbers, found {dtype}")


@register("torch.randn", "aten::randn", uniform=False)
@register("torch.rand", "aten::rand", uniform=True)
@dataclass(frozen=True, kw_only=True)
class Random(Layer):
    """Random numbers of a normal distribution (`randn`), or even ones from [0, 1) (`rand`). () -> size. torch.randn"""

    schemas: ClassVar[dict[int, str]] = {5: "size dtype layout device pin_memory"}

    is_random: ClassVar[bool] = True
    ignored: ClassVar[frozenset[str]] = _STORAGE | {"generator"}

    uniform: bool
    dtype: DType | None = None

    def infer(self, size: Spec) -> TensorSpec:
        _expect_inexact(self.dtype or f32)
        return TensorSpec(known_size(size), self.dtype or f32)

    def forward(self, size: Value) -> Array:
        return (_uniform if self.uniform else _standard_normal)(known_size(size), self.dtype or f32)


@register("torch.randn_like", "aten::randn_like", uniform=False)
@register("torch.rand_like", "aten::rand_like", uniform=True)
@dataclass(frozen=True, kw_only=True)
class RandomLike(Layer):
    """Random numbers of the input's shape and dtype. (*) -> (*). torch.randn_like"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {6: "input dtype layout device pin_memory memory_format"}
    is_random: ClassVar[bool] = True
    ignored: ClassVar[frozenset[str]] = _STORAGE | {"generator"}

    uniform: bool
    dtype: DType | None = None

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_inexact(self.dtype or input.dtype)
        return input.like(dtype=self.dtype)

    def forward(self, input: Array) -> Array:
        return (_uniform if self.uniform else _standard_normal)(input.shape, self.dtype or dtype_of(input))


@register("torch.normal", "aten::normal")
@dataclass(frozen=True, kw_only=True)
class Normal(Layer):
    """Random numbers of a normal distribution: of the input's shape and dtype, of a given `size`, or of the common shape of
    the tensors `mean` and `std`. torch.Tensor.normal_, torch.normal"""

    schemas: ClassVar[dict[int, str]] = {
        3: "mean std generator",
        4: "input mean std generator",
        8: "mean std size generator dtype layout device pin_memory",
    }
    is_random: ClassVar[bool] = True
    ignored: ClassVar[frozenset[str]] = _STORAGE | {"generator"}

    dtype: DType | None = None

    def infer(
        self, input: TensorSpec | None = None, mean: Spec = 0.0, std: Spec = 1.0, size: Spec = None
    ) -> TensorSpec:
        tensors = [spec for spec in (mean, std) if isinstance(spec, TensorSpec)]
        if input is not None:
            spec = input.like()
        elif size is not None:
            spec = TensorSpec(known_size(size), self.dtype or f32)
        elif tensors:
            spec = tensors[0].like(broadcast_shapes(*(tensor.shape for tensor in tensors)))
        else:
            raise InputError("expected an input, a size, or a tensor as mean or std")
        _expect_inexact(spec.dtype)
        if broadcast_shapes(spec.shape, *(tensor.shape for tensor in tensors)) != spec.shape:
            raise ShapeError(f"mean {mean} and std {std} do not fit the shape {spec.shape}")
        deviation = std.value if isinstance(std, TensorSpec) else np.asarray(std)
        if deviation is not None and (widen(deviation) < 0).any():
            raise InputError("std: expected numbers of at least 0")
        return spec

    def forward(self, input: Array | None = None, mean: Value = 0.0, std: Value = 1.0, size: Value = None) -> Array:
        spec = self.infer(*(TensorSpec.of(v) if isinstance(v, np.ndarray) else v for v in (input, mean, std, size)))
        return _standard_normal(spec.shape, spec.dtype) * std + mean
