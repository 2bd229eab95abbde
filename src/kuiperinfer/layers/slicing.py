"""Slicing: parts of a tensor by start, end and step, or by one index; and tensors with such a part replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..dtypes import Array, TensorSpec, broadcast_shapes, cast, dtype_of
from ..errors import InputError, ModelFileError, ShapeError
from ..records import dataclass
from .annotation import AnnotatedLayer
from .base import Ints, Layer, Spec, Value, known_int, known_ints, normalize_dim, register
from .checks import expect_dimensions

# What is left of one dimension: the indices of a slice, or the one index that was selected.
Section: TypeAlias = "range | int"

_NOTHING_SELECTED = 2147483647


def sections_shape(sections: Sequence[Section]) -> Ints:
    """The shape of what the sections leave."""
    return tuple(len(section) for section in sections if isinstance(section, range))


def sections_index(sections: Sequence[Section]) -> tuple[Any, ...]:
    """The sections as an index of NumPy, which gives a view."""
    return (*(slice(s.start, s.stop, s.step) if isinstance(s, range) else s for s in sections), ...)


def sliced(section: Section, start: int | None, end: int | None, step: int, dim: int) -> range:
    """A dimension's indices from start to end, clamped as Python does, so that the largest int32 stands for the end."""
    assert isinstance(section, range)
    if step < 1:
        raise ShapeError(f"step: expected at least 1, found {step} for dimension {dim}")
    return section[slice(start, end, step)]


def selected(section: Section, index: int, dim: int) -> int:
    """One index of a dimension; negative ones count from the end."""
    assert isinstance(section, range)
    try:
        return section[index]
    except IndexError:
        raise InputError(f"index {index} is out of range for dimension {dim} of size {len(section)}") from None


def _find_sections(shape: Ints, form: Mapping[str, Any]) -> list[Section]:
    """The sections of PNNX's two forms: dim/start/end/step/select, or dims/starts/ends/steps/selects.

    `dims` count in the input, whatever is selected. A dimension that stands there twice is sliced twice, but once it is
    selected from, it means the one after it, as older converters have it.
    """
    expect_dimensions(shape, 1)
    given = {name: value for name, value in form.items() if value is not None}
    if "dims" in given:
        columns = {name: known_ints(given[name], name) for name in _FUSED if name in given}
        count = len(columns["dims"])
        if len(columns.get("selects", ())) == count - 1:  # the converter forgets that of a slice after dynamic selects
            columns["selects"] = (*columns.get("selects", ()), _NOTHING_SELECTED)
        if any(len(column) != count for column in columns.values()):
            raise ShapeError(f"{', '.join(columns)} differ in length: {list(columns.values())}")
        rows = list(zip(*(columns.get(name, (None,) * count) for name in _FUSED), strict=True))
    else:
        rows = [tuple(known_int(given[name], name) if name in given else None for name in _SINGLE)]
    sections: list[Section] = [range(size) for size in shape]
    for dim, start, end, step, select in rows:
        axis = normalize_dim(dim or 0, len(shape))
        while not isinstance(sections[axis], range):
            axis = normalize_dim(axis + 1, len(shape))
        if select is None or select == _NOTHING_SELECTED:
            sections[axis] = sliced(sections[axis], start, end, 1 if step is None else step, axis)
        else:
            sections[axis] = selected(sections[axis], select, axis)
    return sections


_SINGLE = ("dim", "start", "end", "step", "select")
_FUSED = ("dims", "starts", "ends", "steps", "selects")


# ------------------------------------------------------------------------------------------- parts


@register("Tensor.slice", "aten::slice")
@dataclass(frozen=True, kw_only=True)
class Slice(Layer):
    """A part of the tensor: of one dimension, or in the fused form of several. (A, B, C) -> (A', B', C). torch.Tensor[...]

    A `select` other than the largest int32 is an index, and takes the dimension away.
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {5: "input dim start end step"}

    def infer(self, input: TensorSpec, **form: Spec) -> TensorSpec:
        return input.like(sections_shape(_find_sections(input.shape, form)))

    def forward(
        self,
        input: Array,
        dim: Value = None,
        start: Value = None,
        end: Value = None,
        step: Value = None,
        select: Value = None,
        dims: Value = None,
        starts: Value = None,
        ends: Value = None,
        steps: Value = None,
        selects: Value = None,
    ) -> Array:
        single = zip(_SINGLE, (dim, start, end, step, select), strict=True)
        fused = zip(_FUSED, (dims, starts, ends, steps, selects), strict=True)
        return input[sections_index(_find_sections(input.shape, {**dict(single), **dict(fused)}))]


@register("Tensor.select", "aten::select")
@dataclass(frozen=True, kw_only=True)
class Select(Layer):
    """The slice number `index` of a dimension, without that dimension. (A, B) -> (A). torch.select"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input dim index"}

    dim: int

    def infer(self, input: TensorSpec, index: Spec) -> TensorSpec:
        return input.like(sections_shape(_select_sections(input.shape, self.dim, index)))

    def forward(self, input: Array, index: Value) -> Array:
        return input[sections_index(_select_sections(input.shape, self.dim, index))]


def _select_sections(shape: Ints, dim: int, index: Any) -> list[Section]:
    expect_dimensions(shape, 1)
    sections: list[Section] = [range(size) for size in shape]
    axis = normalize_dim(dim, len(shape))
    sections[axis] = selected(sections[axis], known_int(index, "index"), axis)
    return sections


@register("torch.narrow", "aten::narrow")
@dataclass(frozen=True, kw_only=True)
class Narrow(Layer):
    """The indices from `start`, `length` of them, of a dimension. (A, B) -> (A, length). torch.narrow"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {4: "input dim start length"}

    dim: int

    def infer(self, input: TensorSpec, start: Spec, length: Spec) -> TensorSpec:
        return input.like(sections_shape(self._sections(input.shape, start, length)))

    def forward(self, input: Array, start: Value, length: Value) -> Array:
        return input[sections_index(self._sections(input.shape, start, length))]

    def _sections(self, shape: Ints, start: Any, length: Any) -> list[Section]:
        expect_dimensions(shape, 1)
        if getattr(start, "ndim", 0):
            raise ShapeError(f"start: expected a number or a 0-d tensor, found shape {start.shape}")
        axis = normalize_dim(self.dim, len(shape))
        first, count, size = known_int(start, "start"), known_int(length, "length"), shape[axis]
        begin = first + size if first < 0 else first
        if count < 0 or begin < 0 or begin + count > size:
            raise ShapeError(f"start={first} and length={count} reach beyond dimension {axis} of size {size}")
        return [range(begin, begin + count) if dim == axis else range(n) for dim, n in enumerate(shape)]


# ------------------------------------------------------------------------------------------- parts replaced


def _check_source(src: TensorSpec, part: Ints) -> None:
    if broadcast_shapes(src.shape, part) != part:
        raise ShapeError(f"src of shape {src.shape} does not fit the part of shape {part}")


def _replaced(input: Array, sections: Sequence[Section], src: Array) -> Array:
    """A copy of the input with the part that the sections leave replaced by `src`, in the input's dtype."""
    result = np.array(input)
    result[sections_index(sections)] = cast(src, dtype_of(input))
    return result


@register("Tensor.slice_copy")
@dataclass(frozen=True, kw_only=True)
class SliceCopy(Layer):
    """The input with a part of it, as `Tensor.slice` takes it, replaced by `src`, broadcast. (*), (part) -> (*).

    torch.Tensor[...] = src, which changes the input; here it stays.
    """

    widens: ClassVar[bool] = False
    operand_aliases: ClassVar[dict[str, str]] = {"self": "input"}

    def infer(self, input: TensorSpec, src: TensorSpec, **form: Spec) -> TensorSpec:
        _check_source(src, sections_shape(_find_sections(input.shape, form)))
        return input.like()

    def forward(
        self,
        input: Array,
        src: Array,
        dim: Value = None,
        start: Value = None,
        end: Value = None,
        step: Value = None,
        select: Value = None,
        dims: Value = None,
        starts: Value = None,
        ends: Value = None,
        steps: Value = None,
        selects: Value = None,
    ) -> Array:
        single = zip(_SINGLE, (dim, start, end, step, select), strict=True)
        fused = zip(_FUSED, (dims, starts, ends, steps, selects), strict=True)
        return _replaced(input, _find_sections(input.shape, {**dict(single), **dict(fused)}), src)


@register("Tensor.copy", "aten::copy")
@dataclass(frozen=True, kw_only=True)
class Copy(AnnotatedLayer):
    """`src` broadcast to the input's shape, in the input's dtype. (*), (*) -> (*). torch.Tensor.copy_

    Where the input is a part of another tensor, the converter means all of that other tensor, and makes it a
    `Tensor.slice_copy` at its highest level of optimisation only. Such an operator is refused, since it cannot be told what
    the other tensor is.
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {3: "input src non_blocking"}
    operand_aliases: ClassVar[dict[str, str]] = {"self": "input"}
    ignored: ClassVar[frozenset[str]] = frozenset({"non_blocking"})

    def __post_init__(self) -> None:
        part = self.annotated_input(0).shape
        whole = self.annotated_outputs[0].shape if self.annotated_outputs else None
        if None not in (part, whole) and part != whole:
            raise ModelFileError(
                f"writes a part of shape {part} into a tensor of shape {whole}; convert the model with optlevel=2"
            )

    def infer(self, input: TensorSpec, src: TensorSpec) -> TensorSpec:
        _check_source(src, input.shape)
        return input.like()

    def forward(self, input: Array, src: Array) -> Array:
        return np.broadcast_to(cast(src, dtype_of(input)), input.shape)


@register("torch.slice_scatter", "aten::slice_scatter")
@dataclass(frozen=True, kw_only=True)
class SliceScatter(Layer):
    """The input with a slice of one dimension replaced by `src`, which has the slice's shape. (*), (part) -> (*).

    torch.slice_scatter
    """

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {6: "input src dim start end step"}

    dim: int = 0

    def infer(
        self, input: TensorSpec, src: TensorSpec, start: Spec = None, end: Spec = None, step: Spec = 1
    ) -> TensorSpec:
        part = sections_shape(self._sections(input.shape, start, end, step))
        if src.shape != part:
            raise ShapeError(f"src has shape {src.shape}, but the slice has {part}")
        return input.like()

    def forward(self, input: Array, src: Array, start: Value = None, end: Value = None, step: Value = 1) -> Array:
        return _replaced(input, self._sections(input.shape, start, end, step), src)

    def _sections(self, shape: Ints, start: Any, end: Any, step: Any) -> list[Section]:
        return _find_sections(shape, {"dim": self.dim, "start": start, "end": end, "step": step})


@register("torch.select_scatter", "aten::select_scatter")
@dataclass(frozen=True, kw_only=True)
class SelectScatter(Layer):
    """The input with one slice of a dimension replaced by `src`. (A, B), (A) -> (A, B). torch.select_scatter"""

    widens: ClassVar[bool] = False
    schemas: ClassVar[dict[int, str]] = {4: "input src dim index"}

    dim: int

    def infer(self, input: TensorSpec, src: TensorSpec, index: Spec) -> TensorSpec:
        part = sections_shape(_select_sections(input.shape, self.dim, index))
        if src.shape != part:
            raise ShapeError(f"src has shape {src.shape}, but the slice has {part}")
        return input.like()

    def forward(self, input: Array, src: Array, index: Value) -> Array:
        return _replaced(input, _select_sections(input.shape, self.dim, index), src)
