"""Padding: more elements at the ends of the last dimensions; negative amounts take elements away."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..dtypes import Array, DType, Scalar, TensorSpec, narrow, widen
from ..errors import DTypeError, ShapeError, did_you_mean
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, known_array, known_ints, register
from .checks import expect_kind, set_field

Pads: TypeAlias = tuple[tuple[int, int], ...]
"""How much comes before and after, one pair a dimension."""

# Where the element at position i of the padded dimension comes from, i = 0 being the first of `size` original elements.
_SOURCE_POSITIONS: dict[str, Callable[[Array, int], Array]] = {
    "reflect": lambda i, size: (size - 1) - np.abs((size - 1) - np.abs(i)),
    "replicate": lambda i, size: np.clip(i, 0, size - 1),
    "circular": lambda i, size: i % size,
}


def expect_mode(mode: str, constant: str = "constant") -> None:
    """`ShapeError` for a word that is no padding mode; `constant` is what the caller calls padding with one value."""
    known = (constant, *_SOURCE_POSITIONS)
    if mode not in known:
        raise ShapeError(f"padding mode '{mode}' is unknown; known are {', '.join(known)}{did_you_mean(mode, known)}")


def pads_of(amounts: Sequence[int], ndim: int) -> Pads:
    """PyTorch's list of amounts, which starts at the last dimension, as one pair for each of `ndim` dimensions."""
    if len(amounts) % 2 or len(amounts) > 2 * ndim:
        raise ShapeError(
            f"pad: expected two numbers for each padded dimension, at most {2 * ndim} for {ndim} dimensions, "
            f"found {tuple(amounts)}"
        )
    pairs = tuple(zip(amounts[::2], amounts[1::2], strict=True))[::-1]
    return ((0, 0),) * (ndim - len(pairs)) + pairs


def padded_shape(shape: Ints, pads: Pads, mode: str) -> Ints:
    """The shape after padding; `ShapeError` where the mode cannot take as many elements from the input."""
    for axis, (dim, (before, after)) in enumerate(zip(shape, pads, strict=True)):
        kept = dim + min(before, 0) + min(after, 0)
        left = kept if mode in ("constant", "circular") else dim + before + after
        available = {"reflect": dim - 1, "circular": kept}.get(mode, math.inf)
        if left < 0 or max(before, after) > max(available, 0):
            raise ShapeError(f"cannot pad dimension {axis} of shape {shape} by {before} and {after} in mode '{mode}'")
    return tuple(dim + before + after for dim, (before, after) in zip(shape, pads, strict=True))


def pad_array(array: Array, pads: Pads, mode: str, value: Scalar = 0) -> Array:
    """The padded array; the array itself where there is nothing to do."""
    if not any(before or after for before, after in pads):
        return array
    if mode == "constant":
        return _pad_constant(array, pads, value)
    for axis, (before, after) in enumerate(pads):
        if before or after:
            array = array.take(source_positions(array.shape[axis], before, after, mode), axis)
    return array


def unpad_gradient(gradient: Array, pads: Pads, mode: str, shape: Ints) -> Array:
    """The gradient of an array of this shape, given that of the padded array."""
    if mode == "constant":
        return _pad_constant(gradient, tuple((-before, -after) for before, after in pads), 0)
    for axis, (before, after) in enumerate(pads):
        if before or after:
            sources = source_positions(shape[axis], before, after, mode)
            result = np.zeros((*gradient.shape[:axis], shape[axis], *gradient.shape[axis + 1 :]), gradient.dtype)
            np.add.at(np.moveaxis(result, axis, 0), sources, np.moveaxis(gradient, axis, 0))
            gradient = result
    return gradient


def source_positions(size: int, before: int, after: int, mode: str) -> Array:
    """For each element of a padded dimension, the element of the original one that it is; in modes other than "constant"."""
    if mode != "circular":
        return _SOURCE_POSITIONS[mode](np.arange(-before, size + after), size)
    first, size = max(-before, 0), size - max(-before, 0) - max(-after, 0)  # goes around what is left after cropping
    return first + _SOURCE_POSITIONS[mode](np.arange(-max(before, 0), size + max(after, 0)), size)


def _crop(array: Array, axis: int, before: int, after: int) -> Array:
    kept = slice(max(-before, 0), array.shape[axis] - max(-after, 0))
    return array[(slice(None),) * axis + (kept,)]


def _pad_constant(array: Array, pads: Pads, value: Scalar) -> Array:
    result = np.full(padded_shape(array.shape, pads, "constant"), value, array.dtype)
    inner = []
    for axis, (before, after) in enumerate(pads):
        array = _crop(array, axis, before, after)
        inner.append(slice(max(before, 0), max(before, 0) + array.shape[axis]))
    result[tuple(inner)] = array
    return result


def _expect_fillable(value: Scalar, dtype: DType) -> None:
    """`DTypeError` where a number is out of the dtype's range; fractions are cut for integers, as in PyTorch."""
    if dtype.kind == "int":
        limits = np.iinfo(dtype.storage)
        fits = math.isfinite(value) and limits.min <= int(value) <= limits.max  # type: ignore[arg-type]
    else:
        stored = widen(narrow(np.asarray(value, np.complex128 if isinstance(value, complex) else np.float64), dtype))
        fits = bool(np.isfinite(stored) or not np.isfinite(value))
    if not fits:
        raise DTypeError(f"value: {value} cannot be stored as {dtype}")


@register("F.pad", "aten::pad", "aten::constant_pad_nd")
@register("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d", mode="reflect")
@register("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d", mode="replicate")
@dataclass(frozen=True, kw_only=True)
class Pad(Layer):
    """Pads the last `len(pad) / 2` dimensions with a value, or with elements of the input in other modes.

    (*, L) -> (*, L + before + after). Modes other than "constant" take an input of one or two dimensions more than are
    padded, and pay no heed to `value`. torch.nn.functional.pad
    """

    schemas: ClassVar[Mapping[int, str]] = {2: "input pad", 3: "input pad value", 4: "input pad mode value"}

    pad: Ints | None = None
    mode: str = "constant"
    value: bool | float | None = None

    def __post_init__(self) -> None:
        expect_mode(self.mode)

    def amounts(self, pad: Value = None) -> Ints:
        """PyTorch's list of amounts: the parameter, or the input in its place."""
        amounts = self.pad if pad is None else known_ints(pad, "pad")
        if amounts is None:
            raise ShapeError("pad: neither a parameter nor an input")
        return amounts

    def fill(self, value: Any = None) -> Scalar:
        """What "constant" padding consists of."""
        given = self.value if value is None else value
        if isinstance(given, (np.ndarray, TensorSpec)):
            given = widen(known_array(given)).reshape(-1)[0].item()
        return 0 if given is None else given

    def infer(self, input: TensorSpec, pad: Spec = None, value: Spec = None) -> TensorSpec:
        expect_kind(input, "bool", "int", "float", "complex")
        amounts = self.amounts(pad)
        if self.mode != "constant":
            self._expect_elements(input, len(amounts) // 2)
        pads = pads_of(amounts, input.ndim)
        padded = input.like(padded_shape(input.shape, pads, self.mode))
        if self.mode in ("reflect", "replicate") and not any(padded.shape[-(len(amounts) // 2) :]):
            raise ShapeError(f"pad: {amounts} leaves nothing of shape {input.shape}")
        if self.mode == "constant" and any(max(pair) > 0 for pair in pads):
            _expect_fillable(self.fill(value), input.dtype)
        return padded

    def _expect_elements(self, input: TensorSpec, padded: int) -> None:
        """What PyTorch asks of an input whose last `padded` dimensions are to be filled from its own elements."""
        expect_kind(input, "int", "float", "complex", *(("bool",) if self.mode == "circular" else ()))
        if not 1 <= padded <= 3 or input.ndim - padded not in (1, 2):
            raise ShapeError(f"pad: cannot pad {padded} dimensions of shape {input.shape} in mode '{self.mode}'")
        if self.mode != "circular" and 0 in input.shape[-padded - 1 :]:
            raise ShapeError(f"input: only the batch may be empty in mode '{self.mode}', found shape {input.shape}")

    def forward(self, input: Array, pad: Value = None, value: Value = None) -> Array:
        fill = self.fill(value) if self.mode == "constant" else 0
        return pad_array(input, pads_of(self.amounts(pad), input.ndim), self.mode, fill)

    def derivative(
        self,
        gradient: Array,
        output: Array,
        needs: Sequence[bool],
        input: Array,
        pad: Value = None,
        value: Value = None,
    ) -> Gradients:
        return [unpad_gradient(gradient, pads_of(self.amounts(pad), input.ndim), self.mode, input.shape), None, None]


@register("nn.ZeroPad1d", "nn.ConstantPad1d", ndim=1)
@register("nn.ZeroPad2d", "nn.ConstantPad2d", ndim=2)
@register("nn.ZeroPad3d", "nn.ConstantPad3d", ndim=3)
@register("nn.ReflectionPad1d", ndim=1, mode="reflect")
@register("nn.ReflectionPad2d", ndim=2, mode="reflect")
@register("nn.ReflectionPad3d", ndim=3, mode="reflect")
@register("nn.ReplicationPad1d", ndim=1, mode="replicate")
@register("nn.ReplicationPad2d", ndim=2, mode="replicate")
@register("nn.ReplicationPad3d", ndim=3, mode="replicate")
@register("nn.CircularPad1d", ndim=1, mode="circular")
@register("nn.CircularPad2d", ndim=2, mode="circular")
@register("nn.CircularPad3d", ndim=3, mode="circular")
@dataclass(frozen=True, kw_only=True)
class PadModule(Pad):
    """`F.pad` of the last `ndim` dimensions; one number stands for all sides.

    (N, C, L) or (C, L) -> (N, C, L'), and so on for 2 and 3 dimensions. torch.nn.ConstantPad1d and its like
    """

    ndim: int
    padding: Ints

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.padding) not in (1, 2 * self.ndim):
            raise ShapeError(f"padding: expected 1 or {2 * self.ndim} numbers, found {self.padding}")
        sides = self.padding * (2 * self.ndim) if len(self.padding) == 1 else self.padding
        set_field(self, "padding", sides)
        set_field(self, "pad", sides)
