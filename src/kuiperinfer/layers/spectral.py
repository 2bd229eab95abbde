"""Discrete Fourier transforms, along one dimension or several; calculated in double precision.

`n` and `s` are the lengths to which the input is cut, or filled up with zeros, before it is transformed; `norm` says where the
factor 1/n goes: `forward`, `backward` (the default), or in equal parts to both (`ortho`). f16, bf16 and c32 are refused, as
PyTorch refuses them on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from ..dtypes import Array, DType, Scalar, TensorSpec, f32, f64, to_complex, to_float, to_real
from ..errors import DTypeError, ModelFileError, ShapeError
from ..records import dataclass
from .base import Ints, Layer, known_int, known_ints, normalize_dim, register
from .checks import expect_dimensions
from .reduction import to_double

# The transform along the last dimension; and what is done along the others, before it or after it.
_LAST: dict[str, Callable[..., Array]] = {
    "fft": np.fft.fft,
    "ifft": np.fft.ifft,
    "rfft": np.fft.rfft,
    "irfft": np.fft.irfft,
    "hfft": np.fft.hfft,
    "ihfft": np.fft.ihfft,
}
_OTHERS = {"fft": "fft", "ifft": "ifft", "rfft": "fft", "irfft": "ifft", "hfft": "fft", "ihfft": "ifft"}
_TAKES_REAL = ("rfft", "ihfft")
_GIVES_REAL = ("irfft", "hfft")

NORMS = ("backward", "ortho", "forward")


def expect_norm(norm: str | None) -> None:
    """`ModelFileError` for an unknown mode of normalization."""
    if norm not in (None, *NORMS):
        raise ModelFileError(f"parameter 'norm': expected one of {', '.join(NORMS)}, found {norm}")


def transformable(dtype: DType) -> DType:
    """The float or complex dtype in which PyTorch transforms elements of a dtype; `DTypeError` for half precision."""
    dtype = to_float(dtype)
    if to_real(dtype) not in (f32, f64):
        raise DTypeError(f"Fourier transforms need single or double precision, found {dtype}")
    return dtype


def _infer(transform: str, input: TensorSpec, axes: Sequence[int], lengths: Sequence[int]) -> TensorSpec:
    """The spec of a transform along axes, the last of which is the one that is halved or doubled."""
    dtype = transformable(input.dtype)
    if transform in _TAKES_REAL and dtype.kind == "complex":
        raise DTypeError(f"{transform} needs real numbers, found {dtype}")
    if any(length < 1 for length in lengths):
        raise ShapeError(f"expected transforms of at least 1 point, found {tuple(lengths)} for shape {input.shape}")
    shape = list(input.shape)
    for axis, length in zip(axes, lengths, strict=True):
        shape[axis] = length
    if transform in _TAKES_REAL:
        shape[axes[-1]] = lengths[-1] // 2 + 1
    return TensorSpec(tuple(shape), to_real(dtype) if transform in _GIVES_REAL else to_complex(dtype))


def _forward(transform: str, input: Array, axes: Sequence[int], lengths: Sequence[int], norm: str | None) -> Array:
    array = to_double(input)
    if not axes:
        return array
    last = _LAST[transform]
    if transform in _TAKES_REAL:  # first, while the numbers are real
        array = last(array, lengths[-1], axes[-1], norm)
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        array = _LAST[_OTHERS[transform]](array, length, axis, norm)
    return array if transform in _TAKES_REAL else last(array, lengths[-1], axes[-1], norm)


def _natural_length(transform: str, size: int) -> int:
    """How many points a transform along its last dimension has by default."""
    return 2 * (size - 1) if transform in _GIVES_REAL else size


@register("torch.fft.fft", "aten::fft_fft", transform="fft")
@register("torch.fft.ifft", "aten::fft_ifft", transform="ifft")
@register("torch.fft.rfft", "aten::fft_rfft", transform="rfft")
@register("torch.fft.irfft", "aten::fft_irfft", transform="irfft")
@register("torch.fft.hfft", "aten::fft_hfft", transform="hfft")
@register("torch.fft.ihfft", "aten::fft_ihfft", transform="ihfft")
@dataclass(frozen=True, kw_only=True)
class FourierTransform(Layer):
    """A Fourier transform along one dimension. (..., N, ...) -> (..., n, ...), half of it for rfft and ihfft. torch.fft"""

    schemas: ClassVar[Mapping[int, str]] = {4: "input n dim norm"}

    transform: str
    dim: int = -1
    norm: str | None = None

    def __post_init__(self) -> None:
        expect_norm(self.norm)

    def _points(self, shape: Ints, n: TensorSpec | Array | Scalar | None) -> tuple[Ints, Ints]:
        expect_dimensions(shape, 1)
        axis = normalize_dim(self.dim, len(shape))
        length = _natural_length(self.transform, shape[axis]) if n is None else known_int(n, "n")
        return (axis,), (length,)

    def infer(self, input: TensorSpec, n: TensorSpec | Scalar | None = None) -> TensorSpec:
        return _infer(self.transform, input, *self._points(input.shape, n))

    def forward(self, input: Array, n: Array | Scalar | None = None) -> Array:
        return _forward(self.transform, input, *self._points(input.shape, n), self.norm)


@register("torch.fft.fft2", "aten::fft_fft2", transform="fft", dim=(-2, -1))
@register("torch.fft.ifft2", "aten::fft_ifft2", transform="ifft", dim=(-2, -1))
@register("torch.fft.rfft2", "aten::fft_rfft2", transform="rfft", dim=(-2, -1))
@register("torch.fft.irfft2", "aten::fft_irfft2", transform="irfft", dim=(-2, -1))
@register("torch.fft.hfft2", "aten::fft_hfft2", transform="hfft", dim=(-2, -1))
@register("torch.fft.ihfft2", "aten::fft_ihfft2", transform="ihfft", dim=(-2, -1))
@register("torch.fft.fftn", "aten::fft_fftn", transform="fft")
@register("torch.fft.ifftn", "aten::fft_ifftn", transform="ifft")
@register("torch.fft.rfftn", "aten::fft_rfftn", transform="rfft")
@register("torch.fft.irfftn", "aten::fft_irfftn", transform="irfft")
@register("torch.fft.hfftn", "aten::fft_hfftn", transform="hfft")
@register("torch.fft.ihfftn", "aten::fft_ihfftn", transform="ihfft")
@dataclass(frozen=True, kw_only=True)
class FourierTransformND(Layer):
    """A Fourier transform along several dimensions, the last of which rfft and ihfft halve. torch.fft

    Without `dim` the last ones, as many as `s` has lengths, or all. A length of -1 leaves the dimension as it is.
    """

    schemas: ClassVar[Mapping[int, str]] = {4: "input s dim norm"}

    transform: str
    dim: Ints | None = None
    norm: str | None = None

    def __post_init__(self) -> None:
        expect_norm(self.norm)

    def _points(self, shape: Ints, s: object) -> tuple[Ints, Ints]:
        wanted = None if s is None else known_ints(s, "s")
        if self.dim is not None:
            axes = tuple(normalize_dim(dim, len(shape)) for dim in self.dim)
        else:
            count = len(shape) if wanted is None else len(wanted)
            if count > len(shape):
                raise ShapeError(f"s={wanted} has {count} lengths, but the shape is {shape}")
            axes = tuple(range(len(shape) - count, len(shape)))
        if len(set(axes)) < len(axes) or any(axis >= len(shape) for axis in axes):
            raise ShapeError(f"dim={self.dim}: expected different dimensions of shape {shape}")
        if not axes and self.transform not in ("fft", "ifft"):
            raise ShapeError(f"{self.transform} needs at least one dimension, found none")
        lengths = [shape[axis] for axis in axes]
        if axes:
            lengths[-1] = _natural_length(self.transform, lengths[-1])
        if wanted is not None:
            if len(wanted) != len(axes):
                raise ShapeError(f"s={wanted} and dim={self.dim}: expected as many lengths as dimensions")
            lengths = [natural if length == -1 else length for length, natural in zip(wanted, lengths, strict=True)]
        return axes, tuple(lengths)

    def infer(self, input: TensorSpec, s: object = None) -> TensorSpec:
        return _infer(self.transform, input, *self._points(input.shape, s))

    def forward(self, input: Array, s: object = None) -> Array:
        return _forward(self.transform, input, *self._points(input.shape, s), self.norm)


@register("torch.fft.fftshift", "aten::fft_fftshift")
@dataclass(frozen=True, kw_only=True)
class FourierShift(Layer):
    """Moves the zero frequency to the middle, along all dimensions or those of `dim`. (*) -> (*). torch.fft.fftshift"""

    schemas: ClassVar[Mapping[int, str]] = {2: "input dim"}

    dim: Ints | None = None

    def _axes(self, ndim: int) -> Ints:
        return tuple(range(ndim)) if self.dim is None else tuple(normalize_dim(dim, ndim) for dim in self.dim)

    def infer(self, input: TensorSpec) -> TensorSpec:
        self._axes(input.ndim)
        return input.like()

    def forward(self, input: Array) -> Array:
        return np.fft.fftshift(input, self._axes(input.ndim))


@register("torch.fft.ifftshift", "aten::fft_ifftshift")
@dataclass(frozen=True, kw_only=True)
class InverseFourierShift(FourierShift):
    """Undoes `fftshift`. torch.fft.ifftshift"""

    def forward(self, input: Array) -> Array:
        return np.fft.ifftshift(input, self._axes(input.ndim))
