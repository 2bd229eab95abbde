"""Casting: the same values in another element type, and the two parts of complex numbers. Copies, too, stand here."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..dtypes import Array, DType, TensorSpec, bf16, broadcast_shapes, cast, to_complex, to_real
from ..errors import DTypeError, InputError, ShapeError, did_you_mean
from ..records import dataclass
from .base import Layer, Spec, Value, register

# Memory formats in the order of PyTorch's numbers, with the rank that they need, if any. Values do not depend on them.
_MEMORY_FORMATS = {
    "torch.contiguous_format": None,
    "torch.preserve_format": None,
    "torch.channels_last": 4,
    "torch.channels_last_3d": 5,
}


def check_memory_format(name: str | int | None, ndim: int) -> None:
    """Errors for an unknown memory format, and for one that a tensor of `ndim` dimensions cannot have.

    A number is PyTorch's number of the format, which left-over `aten::` operators have.
    """
    if name is None:
        return
    if isinstance(name, int) and 0 <= name < len(_MEMORY_FORMATS):
        name = list(_MEMORY_FORMATS)[name]
    if not isinstance(name, str) or name not in _MEMORY_FORMATS:
        raise InputError(f"unknown memory_format '{name}'{did_you_mean(str(name), _MEMORY_FORMATS)}")
    rank = _MEMORY_FORMATS[name]
    if rank not in (None, ndim):
        raise ShapeError(f"memory_format={name} needs {rank} dimensions, found {ndim}")


@register("torch.clone", "Tensor.clone", "aten::clone")
@register("Tensor.contiguous", "aten::contiguous", "Tensor.detach", "aten::detach", "Tensor.alias", "aten::alias")
@register("nn.Identity")
@dataclass(frozen=True, kw_only=True)
class Identity(Layer):
    """The input itself: no operator changes its arguments, so none needs a copy. (*) -> (*). torch.clone"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {2: "input memory_format"}

    memory_format: int | str | None = None

    def infer(self, input: TensorSpec) -> TensorSpec:
        check_memory_format(self.memory_format, input.ndim)
        return input.like()

    def forward(self, input: Array) -> Array:
        return input


@register("Tensor.to")
@dataclass(frozen=True, kw_only=True)
class To(Layer):
    """The values in another dtype, converted as x86 does: floats are cut to integers, NaN becomes the least one.

    (*) -> (*). torch.Tensor.to
    """

    widens: ClassVar[bool] = False
    ignored: ClassVar[frozenset[str]] = frozenset({"copy", "device", "layout", "non_blocking", "pin_memory"})

    dtype: DType | None = None
    memory_format: int | str | None = None

    def infer(self, input: TensorSpec) -> TensorSpec:
        check_memory_format(self.memory_format, input.ndim)
        return input.like(dtype=self.dtype)

    def forward(self, input: Array) -> Array:
        return input if self.dtype is None else cast(input, self.dtype)


@register("Tensor.type_as", "aten::type_as", "aten::to")
@dataclass(frozen=True, kw_only=True)
class TypeAs(Layer):
    """The values in the dtype of `other`. (*) -> (*). torch.Tensor.type_as

    The converter leaves `aten::to` over only where it takes its dtype from another tensor.
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {5: "input other non_blocking copy memory_format"}
    ignored: ClassVar[frozenset[str]] = frozenset({"copy", "memory_format", "non_blocking"})

    def infer(self, input: TensorSpec, other: Spec) -> TensorSpec:
        if not isinstance(other, TensorSpec):
            raise DTypeError(f"other: expected a tensor, found {other!r}")
        return input.like(dtype=other.dtype)

    def forward(self, input: Array, other: Value) -> Array:
        return cast(input, TensorSpec.of(other).dtype)


# ------------------------------------------------------------------------------------------- complex numbers


@register("torch.real", "aten::real")
@dataclass(frozen=True, kw_only=True)
class Real(Layer):
    """The real parts; a tensor that is not complex stays. (*) -> (*). torch.real"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input.like(dtype=to_real(input.dtype))

    def forward(self, input: Array) -> Array:
        return input.real


@register("torch.imag", "aten::imag")
@dataclass(frozen=True, kw_only=True)
class Imag(Layer):
    """The imaginary parts of a complex tensor. (*) -> (*). torch.imag"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_complex(input)
        return input.like(dtype=to_real(input.dtype))

    def forward(self, input: Array) -> Array:
        return input.imag


@register("torch.complex", "aten::complex")
@dataclass(frozen=True, kw_only=True)
class Complex(Layer):
    """real + imag j, of two tensors of one dtype, broadcast. (*), (*) -> (*). torch.complex"""

    def infer(self, real: TensorSpec, imag: TensorSpec) -> TensorSpec:
        _expect_parts(real)
        if imag.dtype is not real.dtype:
            raise DTypeError(f"expected real and imag of one dtype, found {real} and {imag}")
        return TensorSpec(broadcast_shapes(real.shape, imag.shape), to_complex(real.dtype))

    def forward(self, real: Array, imag: Array) -> Array:
        result = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.result_type(real, np.complex64))
        result.real, result.imag = real, imag
        return result


@register("torch.view_as_real", "aten::view_as_real")
@dataclass(frozen=True, kw_only=True)
class ViewAsReal(Layer):
    """Complex numbers as pairs. (*) -> (*, 2). torch.view_as_real"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_complex(input)
        return TensorSpec((*input.shape, 2), to_real(input.dtype))

    def forward(self, input: Array) -> Array:
        return np.stack([input.real, input.imag], axis=-1)


@register("torch.view_as_complex", "aten::view_as_complex")
@dataclass(frozen=True, kw_only=True)
class ViewAsComplex(Layer):
    """Pairs as complex numbers. (*, 2) -> (*). torch.view_as_complex"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        _expect_parts(input)
        if input.shape[-1:] != (2,):
            raise ShapeError(f"expected a last dimension of size 2, found shape {input.shape}")
        return TensorSpec(input.shape[:-1], to_complex(input.dtype))

    def forward(self, input: Array) -> Array:
        result = np.empty(input.shape[:-1], np.result_type(input, np.complex64))
        result.real, result.imag = input[..., 0], input[..., 1]
        return result


def _expect_complex(spec: TensorSpec) -> None:
    if spec.dtype.kind != "complex":
        raise DTypeError(f"expected a complex tensor, found {spec}")


def _expect_parts(spec: TensorSpec) -> None:
    if spec.dtype.kind != "float" or spec.dtype is bf16:
        raise DTypeError(f"expected a tensor of f16, f32 or f64, found {spec}")
