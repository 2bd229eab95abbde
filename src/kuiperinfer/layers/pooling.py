"""Pooling: the largest element, the average or the norm of every window."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, TensorSpec, i64, result_type, to_float
from ..errors import DTypeError, ShapeError
from ..records import dataclass
from .base import Gradients, Ints, Layer, Spec, Value, expect_rank, known_ints, register
from .checks import expect_affordable, expect_kind, per_dimension, set_field
from .padding import pad_array
from .windows import Index


@dataclass(frozen=True)
class Windows:
    """How `count` windows lie along one dimension of `size` elements, which is padded by `padding` at both ends."""

    size: int
    kernel: int
    stride: int
    dilation: int
    padding: int
    count: int

    @property
    def overhang(self) -> int:
        """How far the last window reaches beyond the end of the input; negative where elements are left over."""
        return (self.count - 1) * self.stride + self.dilation * (self.kernel - 1) + 1 - self.padding - self.size

    @property
    def reaching(self) -> range:
        """The positions within the kernel that lie in the input for some window, at least one; others see only padding."""
        first = -(((self.count - 1) * self.stride - self.padding) // self.dilation)
        start = max(0, min(first, self.kernel - 1))
        end = (self.padding + self.size - 1) // self.dilation + 1
        return range(start, max(start + 1, min(end, self.kernel)))

    def positions(self) -> Array:
        """The position of each element of each window, some before or behind the input: (count, kernel)."""
        starts = np.arange(self.count) * self.stride - self.padding
        return starts[:, None] + np.arange(self.kernel) * self.dilation

    def element_counts(self, with_padding: bool) -> Array:
        """How many elements each window has, with or without those in the padding; those beyond it never count."""
        starts = np.arange(self.count) * self.stride - self.padding
        ends = np.minimum(starts + self.kernel, self.size + self.padding)
        return ends - starts if with_padding else np.minimum(ends, self.size) - np.maximum(starts, 0)


def lay_windows(size: int, kernel: int, stride: int, dilation: int, padding: int, ceil_mode: bool) -> Windows:
    """Windows along one dimension; with `ceil_mode` one more where elements are left over, if it starts before the end
    padding. `ShapeError` where not a single window fits, or where one could lie in the padding alone."""
    if 2 * padding > kernel:
        raise ShapeError(f"padding: expected at most half of the kernel size {kernel}, found {padding}")
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    if count < 1:
        raise ShapeError(
            f"a kernel of {kernel} with dilation {dilation} does not fit into {size} + 2 * {padding} elements"
        )
    return Windows(size, kernel, stride, dilation, padding, count)


@dataclass(frozen=True, kw_only=True)
class _Pool(Layer):
    """What all fixed windows have in common. The kernel and the stride may also be inputs."""

    ndim: int
    kernel_size: Ints | None = None
    stride: Ints | None = None
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        if self.kernel_size is not None:
            set_field(self, "kernel_size", per_dimension(self.kernel_size, self.ndim, "kernel_size", at_least=1))
        if self.stride is not None:
            stride = per_dimension(self.stride, self.ndim, "stride", at_least=1) if self.stride else self.kernel_size
            set_field(self, "stride", stride)

    def windows(
        self, shape: Ints, kernel_size: Value, stride: Value, padding: Ints | None = None, dilation: Ints | None = None
    ) -> tuple[Windows, ...]:
        """The windows along each of the last `ndim` dimensions."""
        given = self.kernel_size if kernel_size is None else known_ints(kernel_size, "kernel_size")
        if given is None:
            raise ShapeError("kernel_size: neither a parameter nor an input")
        kernel = per_dimension(given, self.ndim, "kernel_size", at_least=1)
        steps = self.stride if stride is None else known_ints(stride, "stride")
        steps = per_dimension(steps, self.ndim, "stride", at_least=1) if steps else kernel
        ones, zeros = (1,) * self.ndim, (0,) * self.ndim
        sizes = shape[-self.ndim :]
        layout = zip(sizes, kernel, steps, dilation or ones, padding or zeros, strict=True)
        return tuple(lay_windows(*numbers, self.ceil_mode) for numbers in layout)

    def _pooled(self, input: TensorSpec, windows: tuple[Windows, ...]) -> TensorSpec:
        padded = tuple(axis.padding + axis.size + max(axis.overhang, 0) for axis in windows)
        expect_affordable((*input.shape[: -self.ndim], *padded), input.dtype, "the padded input")
        return input.like((*input.shape[: -self.ndim], *(axis.count for axis in windows)))

    def _expect_input(self, input: TensorSpec, *kinds: str) -> None:
        expect_kind(input, *kinds)
        expect_rank(input, self.ndim + 1, self.ndim + 2)
        if 0 in input.shape[-self.ndim - 1 :]:
            raise ShapeError(f"input: only the batch may be empty, found shape {input.shape}")


def _elements(array: Array, axis: int, windows: Windows) -> Iterator[Array]:
    """For each position within the kernel that matters, that element of every window; the array is padded already."""
    for position in windows.reaching:
        yield array[(slice(None),) * axis + (_every(position, windows),)]


def _every(position: int, windows: Windows) -> slice:
    """Where in a padded dimension the element at a position within the kernel lies, for every window."""
    start = position * windows.dilation
    return slice(start, start + (windows.count - 1) * windows.stride + 1, windows.stride)


def _reduce(array: Array, windows: tuple[Windows, ...], fill: Any, combine: Callable[[Array, Array], Array]) -> Array:
    """Combines the elements of each window, one dimension after the other; outside of the input stands `fill`."""
    first = array.ndim - len(windows)
    array = pad_array(array, ((0, 0),) * first + tuple((w.padding, w.overhang) for w in windows), "constant", fill)
    for axis, along in enumerate(windows, start=first):
        array = functools.reduce(combine, _elements(array, axis, along))
    return array


def lowest(dtype: np.dtype[Any]) -> Any:
    """The number that is larger than no other: -inf, or an integer type's smallest."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def max_with_indices(array: Array, positions: tuple[Array, ...]) -> tuple[Array, Array]:
    """The largest element of each window, and where it stands in the flattened last dimensions.

    `positions` has, for each of these dimensions, the positions that belong to each window: (count, kernel); those
    outside of the input do not count. The first of equal elements is taken, but of several NaN the last, and where
    nothing is larger than -inf the first within the input: torch.nn.functional.max_pool2d
    """
    first = array.ndim - len(positions)
    places: Array | None = None
    factor = 1
    for axis in reversed(range(first, array.ndim)):
        size = array.shape[axis]
        along = positions[axis - first]
        aligned = along.reshape(*along.shape, *(1,) * (array.ndim - axis - 1))
        inside = (aligned >= 0) & (aligned < size)
        elements = np.where(inside, array.take(along, axis, mode="clip"), lowest(array.dtype))
        earliest = (aligned >= 0).argmax(1, keepdims=True)
        chosen = np.maximum(_last_nan_or_first_max(elements, axis + 1), earliest)
        own = np.take_along_axis(np.broadcast_to(aligned, elements.shape), chosen, axis + 1) * factor
        if places is not None:
            own = own + np.take_along_axis(places.take(along, axis, mode="clip"), chosen, axis + 1)
        places = own.squeeze(axis + 1)
        factor *= size
        array = np.take_along_axis(elements, chosen, axis + 1).squeeze(axis + 1)
    assert places is not None
    return array, places


def _last_nan_or_first_max(array: Array, axis: int) -> Array:
    chosen = array.argmax(axis, keepdims=True)
    if array.dtype.kind != "f":
        return chosen
    is_nan = np.isnan(array)
    last_nan = array.shape[axis] - 1 - np.flip(is_nan, axis).argmax(axis, keepdims=True)
    return np.where(is_nan.any(axis, keepdims=True), last_nan, chosen)


def scatter_planes(gradient: Array, places: Array, shape: Ints, ndim: int) -> Array:
    """Each number added to its place, as `max_with_indices` names it, in its plane of `ndim` dimensions; the shape is given."""
    size = math.prod(shape[-ndim:])
    planes = math.prod(shape[:-ndim])
    flat = (places.reshape(planes, -1) + np.arange(planes)[:, None] * size).reshape(-1)
    sums = np.bincount(flat, gradient.reshape(-1), minlength=planes * size)
    return sums.astype(gradient.dtype).reshape(shape)


def _give_to_first(gradient: Array, array: Array, largest: Array, windows: tuple[Windows, ...]) -> Array:
    """The gradient of `array`: each number to the first element of its window that is equal to the largest."""
    first = array.ndim - len(windows)
    pads = ((0, 0),) * first + tuple((w.padding, max(w.overhang, 0)) for w in windows)
    padded = pad_array(array, pads, "constant", np.nan)
    result = np.zeros(padded.shape, gradient.dtype)
    waiting = np.ones(largest.shape, np.bool_)
    for positions in itertools.product(*(w.reaching for w in windows)):
        index: Index = (..., *map(_every, positions, windows))
        taken = waiting & (padded[index] == largest)
        result[index] += np.where(taken, gradient, 0)
        waiting &= ~taken
    inner: Index = (..., *(slice(w.padding, w.padding + w.size) for w in windows))
    return result[inner]


def pair_outputs(layer: Layer, values: Any, indices: Any) -> Any:
    """Values and indices as two outputs, or as the one output that is a list of both."""
    return (values, indices) if layer.output_count == 2 else [values, indices]


@register("nn.MaxPool1d", "F.max_pool1d", "aten::max_pool1d", ndim=1)
@register("nn.MaxPool2d", "F.max_pool2d", "aten::max_pool2d", ndim=2)
@register("nn.MaxPool3d", "F.max_pool3d", "aten::max_pool3d", ndim=3)
@register("aten::max_pool1d_with_indices", ndim=1, return_indices=True)
@register("aten::max_pool2d_with_indices", ndim=2, return_indices=True)
@register("aten::max_pool3d_with_indices", ndim=3, return_indices=True)
@dataclass(frozen=True, kw_only=True)
class MaxPool(_Pool):
    """The largest element of each window; NaN counts as the largest, and padding never does.

    (N, C, *size) or (C, *size) -> (N, C, *size'), and with `return_indices` also int64 positions in the flattened input
    plane. size' = floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1. torch.nn.MaxPool2d
    """

    schemas: ClassVar[Mapping[int, str]] = {6: "input kernel_size stride padding dilation ceil_mode"}

    padding: Ints = (0,)
    dilation: Ints = (1,)
    return_indices: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "padding", per_dimension(self.padding, self.ndim, "padding", at_least=0))
        set_field(self, "dilation", per_dimension(self.dilation, self.ndim, "dilation", at_least=1))

    def infer(self, input: TensorSpec, kernel_size: Spec = None, stride: Spec = None) -> Any:
        self._expect_input(input, "int", "float")
        pooled = self._pooled(input, self.windows(input.shape, kernel_size, stride, self.padding, self.dilation))
        return pair_outputs(self, pooled, pooled.like(dtype=i64)) if self.return_indices else pooled

    def forward(self, input: Array, kernel_size: Value = None, stride: Value = None) -> Any:
        windows = self.windows(input.shape, kernel_size, stride, self.padding, self.dilation)
        if self.return_indices:
            return pair_outputs(self, *max_with_indices(input, tuple(axis.positions() for axis in windows)))
        return _reduce(input, windows, lowest(input.dtype), np.maximum)

    def derivative(
        self,
        gradient: Array,
        output: Array,
        needs: Sequence[bool],
        input: Array,
        kernel_size: Value = None,
        stride: Value = None,
    ) -> Gradients:
        windows = self.windows(input.shape, kernel_size, stride, self.padding, self.dilation)
        if np.isnan(output).any():
            _, places = max_with_indices(input, tuple(axis.positions() for axis in windows))
            return [scatter_planes(gradient, places, input.shape, self.ndim), None, None]
        return [_give_to_first(gradient, input, output, windows), None, None]


def _expect_room(windows: tuple[Windows, ...]) -> None:
    """PyTorch takes no average in three dimensions where the kernel is larger than the input without its padding."""
    if len(windows) == 3 and any(axis.size < axis.kernel for axis in windows):
        kernel, size = tuple(axis.kernel for axis in windows), tuple(axis.size for axis in windows)
        raise ShapeError(f"the kernel {kernel} is larger than the input's size {size}")


def _divisors(windows: tuple[Windows, ...], with_padding: bool, divisor: int | None) -> Any:
    """What the sum of each window is divided by."""
    if divisor is not None:
        return divisor
    return functools.reduce(np.multiply, np.ix_(*(axis.element_counts(with_padding) for axis in windows)))


def _spread(gradient: Array, windows: tuple[Windows, ...]) -> Array:
    """Each number added to all elements of its window, the transpose of a sum by `_reduce`."""
    first = gradient.ndim - len(windows)
    for axis, along in reversed(list(enumerate(windows, start=first))):
        length = along.padding + along.size + max(along.overhang, 0)
        result = np.zeros((*gradient.shape[:axis], length, *gradient.shape[axis + 1 :]), gradient.dtype)
        for elements in _elements(result, axis, along):
            elements += gradient
        gradient = result[(slice(None),) * axis + (slice(along.padding, along.padding + along.size),)]
    return gradient


def _average(array: Array, windows: tuple[Windows, ...], with_padding: bool, divisor: int | None) -> Array:
    """The sum of each window over the number of its elements, or over `divisor`; integers are cut towards zero."""
    exact = array.dtype.kind == "i"
    total = _reduce(array if exact else array.astype(np.float64), windows, 0, np.add)
    divisors = _divisors(windows, with_padding, divisor)
    if exact:
        return np.abs(total) // np.abs(divisors) * np.sign(total) * np.sign(divisors)
    return (total / divisors).astype(array.dtype)


@register("nn.AvgPool1d", "F.avg_pool1d", "aten::avg_pool1d", ndim=1)
@register("nn.AvgPool2d", "F.avg_pool2d", "aten::avg_pool2d", ndim=2)
@register("nn.AvgPool3d", "F.avg_pool3d", "aten::avg_pool3d", ndim=3)
@dataclass(frozen=True, kw_only=True)
class AvgPool(_Pool):
    """The average of each window.

    (N, C, *size) or (C, *size) -> (N, C, *size') with size' = floor((size + 2 * padding - kernel) / stride) + 1. Padding
    counts as zeros, or not at all without `count_include_pad`; `divisor_override` replaces the number of elements.
    torch.nn.AvgPool2d
    """

    schemas: ClassVar[Mapping[int, str]] = {
        6: "input kernel_size stride padding ceil_mode count_include_pad",
        7: "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
    }

    padding: Ints = (0,)
    count_include_pad: bool = True
    divisor_override: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "padding", per_dimension(self.padding, self.ndim, "padding", at_least=0))
        if self.divisor_override == 0:
            raise ShapeError("divisor_override: expected another number than 0")

    def infer(self, input: TensorSpec, kernel_size: Spec = None, stride: Spec = None) -> TensorSpec:
        self._expect_input(input, "i64", "float")
        windows = self.windows(input.shape, kernel_size, stride, self.padding)
        _expect_room(windows)
        return self._pooled(input, windows)

    def forward(self, input: Array, kernel_size: Value = None, stride: Value = None) -> Array:
        windows = self.windows(input.shape, kernel_size, stride, self.padding)
        return _average(input, windows, self.count_include_pad, self.divisor_override)

    def derivative(
        self,
        gradient: Array,
        output: Array,
        needs: Sequence[bool],
        input: Array,
        kernel_size: Value = None,
        stride: Value = None,
    ) -> Gradients:
        windows = self.windows(input.shape, kernel_size, stride, self.padding)
        shares = gradient / _divisors(windows, self.count_include_pad, self.divisor_override)
        return [_spread(shares.astype(gradient.dtype), windows), None, None]


@register("nn.LPPool1d", "F.lp_pool1d", ndim=1)
@register("nn.LPPool2d", "F.lp_pool2d", ndim=2)
@register("nn.LPPool3d", "F.lp_pool3d", ndim=3)
@dataclass(frozen=True, kw_only=True)
class LPPool(_Pool):
    """The norm of each window: (sum of x ** norm_type) ** (1 / norm_type), the largest magnitude for infinity and the
    smallest for -infinity; signs are left to the powers. (N, C, *size) or (C, *size) -> (N, C, *size'). torch.nn.LPPool2d
    """

    norm_type: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.norm_type, bool) or not isinstance(self.norm_type, (int, float)) or self.norm_type == 0:
            raise ShapeError(f"norm_type: expected a number other than 0, found {self.norm_type!r}")

    def infer(self, input: TensorSpec, kernel_size: Spec = None, stride: Spec = None) -> TensorSpec:
        self._expect_input(input, "float", *(() if math.isinf(self.norm_type) else ("bool", "int")))
        powers = result_type(input, self.norm_type)
        if powers.kind != "float" and powers is not i64:
            raise DTypeError(
                f"input: the average of {powers} is not defined, found {input}; norm_type is {self.norm_type}"
            )
        windows = self.windows(input.shape, kernel_size, stride)
        _expect_room(windows)
        return self._pooled(input, windows).like(dtype=to_float(powers))

    def forward(self, input: Array, kernel_size: Value = None, stride: Value = None) -> Array:
        windows = self.windows(input.shape, kernel_size, stride)
        if math.isinf(self.norm_type):
            sign = input.dtype.type(math.copysign(1, self.norm_type))
            return sign * _reduce(sign * np.abs(input), windows, lowest(input.dtype), np.maximum)
        powers = input.astype(result_type(TensorSpec.of(input), self.norm_type).compute) ** self.norm_type
        average = _average(powers, windows, with_padding=True, divisor=None)
        total = np.sign(average) * np.maximum(np.abs(average), 0) * math.prod(axis.kernel for axis in windows)
        return total.astype(to_float(TensorSpec.of(total).dtype).compute) ** (1.0 / self.norm_type)
