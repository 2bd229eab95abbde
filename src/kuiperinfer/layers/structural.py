"""What holds a graph together: constants, expressions, lists and dicts of values, sizes."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..dtypes import Array, Scalar, TensorSpec, bf16, f32, narrow, widen
from ..errors import InputError, ModelFileError, ShapeError
from ..expression import Expression as Tree
from ..expression import evaluate, infer, parse
from ..records import dataclass
from .annotation import AnnotatedLayer
from .base import Ints, Layer, Spec, Text, Value, known_array, known_int, normalize_dim, register
from .checks import expect_dimensions


@register("pnnx.Attribute")
@dataclass(frozen=True, kw_only=True)
class Attribute(Layer):
    """A constant of the file: its one weight. () -> (*)"""

    widens: ClassVar[bool] = False

    def infer(self, **weights: TensorSpec | None) -> TensorSpec:
        if len(weights) != 1:
            raise ModelFileError(f"expected one weight, found {len(weights)}")
        ((name, weight),) = weights.items()
        if weight is None or weight.dtype is None:
            raise ModelFileError(f"the weight '{name}' has no data, or no dtype")
        return weight

    def forward(self, **weights: Array) -> Array:
        return next(iter(weights.values()))


@register("prim::Constant")
@dataclass(frozen=True, kw_only=True)
class Constant(Layer):
    """A number, a word, None, or a list of numbers."""

    value: Any = None

    def infer(self) -> Spec:
        return list(self.value) if isinstance(self.value, tuple) else self.value

    def forward(self) -> Value:
        return self.infer()


@register("pnnx.Expression")
@dataclass(frozen=True, kw_only=True)
class Expression(AnnotatedLayer):
    """A formula over its inputs, in the language of `kuiperinfer.expression`: a tensor, a number, a word, or a list.

    The converter drops casts to bfloat16 and back, because it looks at shapes and dtypes of a float32 copy of the model;
    only constants keep their bfloat16. A formula of such a constant and float32 tensors, annotated float32, is therefore
    taken as one that the model calculates in bfloat16.
    """

    widens: ClassVar[bool] = False

    expr: Text

    def __post_init__(self) -> None:
        _ = self.tree  # a text that cannot be read is an error of the file, not of the run

    @cached_property
    def tree(self) -> Tree:
        """The formula."""
        return parse(self.expr, operand_count=self.input_count)

    @cached_property
    def in_bfloat16(self) -> bool:
        """Whether the file lost casts to bfloat16 and back around this formula."""
        dtypes = {annotation.dtype for annotation in self.annotated_inputs}
        return dtypes == {bf16, f32} and {output.dtype for output in self.annotated_outputs} == {f32}

    def infer(self, *inputs: Spec) -> Spec:
        if not self.in_bfloat16:
            return infer(self.tree, inputs)
        result = infer(self.tree, [i.like(dtype=bf16) if isinstance(i, TensorSpec) else i for i in inputs])
        return result.like(dtype=f32) if isinstance(result, TensorSpec) else result

    def forward(self, *inputs: Value) -> Value:
        if not self.in_bfloat16:
            return evaluate(self.tree, inputs)
        result = evaluate(self.tree, [narrow(i, bf16) if isinstance(i, np.ndarray) else i for i in inputs])
        return widen(result) if isinstance(result, np.ndarray) else result


@register("pnnx.SliceIndexes")
@dataclass(frozen=True, kw_only=True)
class SliceIndexes(Layer):
    """A list of integers such as `(@0,1,2147483647)`, where `@i` is input i: starts, ends, steps or selects of a slice."""

    indexes: Any = ()

    def __post_init__(self) -> None:
        count = self.input_count
        for is_input, number in self._parts():
            if is_input and (number < 0 or (count is not None and number >= count)):
                raise ModelFileError(f"indexes={self.indexes}: there is no input @{number} among {count}")

    def infer(self, *inputs: Spec) -> list[int]:
        return self.forward(*inputs)

    def forward(self, *inputs: Value) -> list[int]:
        return [
            known_int(inputs[number], f"input {number}") if is_input else number for is_input, number in self._parts()
        ]

    def _parts(self) -> list[tuple[bool, int]]:
        """The numbers in order, and whether each is that of an input."""
        try:
            items = [str(item) for item in self.indexes]
            return [(item.startswith("@"), int(item.removeprefix("@"))) for item in items]
        except (TypeError, ValueError):
            raise ModelFileError(f"indexes: expected integers and inputs such as @0, found {self.indexes}") from None


# ------------------------------------------------------------------------------------------- lists and dicts


@register("prim::TupleConstruct", "prim::ListConstruct")
@dataclass(frozen=True, kw_only=True)
class Collect(Layer):
    """Its inputs as one list."""

    widens: ClassVar[bool] = False

    def infer(self, *items: Spec) -> list[Spec]:
        return list(items)

    def forward(self, *items: Value) -> list[Value]:
        return list(items)


@register("prim::TupleUnpack", "prim::ListUnpack")
@dataclass(frozen=True, kw_only=True)
class Unpack(Layer):
    """The items of a list, one an output. A single value is taken for a list of one: see `joining`."""

    widens: ClassVar[bool] = False

    def infer(self, items: Spec) -> tuple[Spec, ...]:
        unpacked = tuple(items) if isinstance(items, list) else (items,)
        if len(unpacked) != self.output_count:
            raise ShapeError(f"the list has {len(unpacked)} items, but the model unpacks {self.output_count}")
        return unpacked

    def forward(self, items: Value) -> tuple[Value, ...]:
        return self.infer(items)


@register("prim::DictConstruct")
@dataclass(frozen=True, kw_only=True)
class DictConstruct(Layer):
    """A dict of inputs that alternate: key, value, key, value, ..."""

    widens: ClassVar[bool] = False

    def infer(self, *items: Spec) -> dict[str, Spec]:
        if len(items) % 2:
            raise ModelFileError(f"expected keys and values in turn, found {len(items)} inputs")
        for key in items[::2]:
            if not isinstance(key, (str, bool, int, float)):
                raise ModelFileError(f"expected a word or a number as a key, found {key}")
        return dict(zip(items[::2], items[1::2], strict=True))

    def forward(self, *items: Value) -> dict[str, Value]:
        return dict(zip(items[::2], items[1::2], strict=True))


@register("aten::__getitem__")
@dataclass(frozen=True, kw_only=True)
class GetItem(Layer):
    """One item of a list, or of a dict by key."""

    widens: ClassVar[bool] = False

    def infer(self, container: Spec, key: Spec) -> Spec:
        if not isinstance(container, (list, dict)):
            raise InputError(f"expected a list or a dict, found {container}")
        try:
            return container[key if isinstance(container, dict) else known_int(key, "index")]
        except (IndexError, KeyError):
            raise InputError(f"there is no item {key!r} among {len(container)}") from None

    def forward(self, container: Value, key: Value) -> Value:
        return self.infer(container, key)


# ------------------------------------------------------------------------------------------- sizes and numbers


@register("Tensor.size", "aten::size")
@dataclass(frozen=True, kw_only=True)
class Size(Layer):
    """The size of one dimension as a number, or without `dim` the shape as a list. torch.Tensor.size"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec, dim: Spec = None) -> int | list[int]:
        return self._size(input.shape, dim)

    def forward(self, input: Array, dim: Value = None) -> int | list[int]:
        return self._size(input.shape, dim)

    def _size(self, shape: Ints, dim: Any) -> int | list[int]:
        if dim is None:
            return list(shape)
        expect_dimensions(shape, 1)
        return shape[normalize_dim(known_int(dim, "dim"), len(shape))]


@register("aten::numel")
@dataclass(frozen=True, kw_only=True)
class Numel(Layer):
    """How many elements a tensor has. torch.numel"""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec) -> int:
        return input.size

    def forward(self, input: Array) -> int:
        return input.size


@register("aten::len")
@dataclass(frozen=True, kw_only=True)
class Length(Layer):
    """The number of items of a list, or the size of a tensor's first dimension."""

    widens: ClassVar[bool] = False

    def infer(self, container: Spec) -> int:
        if isinstance(container, (list, dict)):
            return len(container)
        if not isinstance(container, TensorSpec) or not container.shape:
            raise InputError(f"expected a list or a tensor with dimensions, found {container}")
        return container.shape[0]

    def forward(self, container: Value) -> int:
        return len(container)


@register("Tensor.item", "aten::item", "aten::ScalarImplicit")
@dataclass(frozen=True, kw_only=True)
class Item(Layer):
    """The number that a tensor of one element holds; a number stays. torch.Tensor.item"""

    widens: ClassVar[bool] = False

    def infer(self, input: Spec) -> Scalar:
        return self.forward(known_array(input) if isinstance(input, TensorSpec) else input)

    def forward(self, input: Value) -> Scalar:
        if isinstance(input, np.ndarray):
            if input.size != 1:
                raise ShapeError(f"expected a tensor of one element, found shape {input.shape}")
            input = widen(input).item()
        if not isinstance(input, (bool, int, float, complex)):
            raise InputError(f"expected a tensor or a number, found {input!r}")
        return input


@register("aten::Int", "aten::IntImplicit", kind=int)
@register("aten::Float", "aten::FloatImplicit", kind=float)
@register("aten::Bool", kind=bool)
@dataclass(frozen=True, kw_only=True)
class Number(Item):
    """The number that a tensor of one element holds, as an integer (cut towards zero), a float, or a truth value."""

    kind: Any

    def forward(self, input: Value) -> Scalar:
        number = super().forward(input)
        try:
            converted: Scalar = self.kind(number)
        except (OverflowError, ValueError, TypeError):
            raise InputError(f"{number} cannot be converted to {self.kind.__name__}") from None
        return converted


@register("prim::NumToTensor")
@dataclass(frozen=True, kw_only=True)
class NumToTensor(Layer):
    """A number as a 0-d tensor: bool, i64, f32 or c64."""

    widens: ClassVar[bool] = False

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input

    def forward(self, input: Array) -> Array:
        return input
