"""The parts of a run-time graph, under the names of the course: operators, operands, parameters, attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from .. import pnnx
from ..dtypes import Array, DType, widen
from ..errors import DTypeError, InputError
from ..layers.base import Layer, Value
from ..layers.binding import Binding
from ..records import dataclass


@dataclass
class RuntimeParameter:
    """One parameter of an operator: `value`, as Python has it; the subclass tells its kind.

    `text` is the spelling of the file, None for a parameter made in memory.
    """

    value: Any = None
    text: str | None = None

    kind: ClassVar[str] = "null"

    @staticmethod
    def of(parameter: pnnx.Parameter) -> RuntimeParameter:
        """The run-time parameter of a parameter of the file."""
        value = parameter.value
        if isinstance(value, tuple):
            element = type(value[-1]) if value else int
            made = _ARRAY_KINDS.get(element, RuntimeParameterStringArray)
        else:
            made = _SCALAR_KINDS.get(type(value), RuntimeParameter)
        return made(value, parameter.text)


class RuntimeParameterBool(RuntimeParameter):
    """True or False."""

    kind = "bool"


class RuntimeParameterInt(RuntimeParameter):
    """An integer."""

    kind = "int"


class RuntimeParameterFloat(RuntimeParameter):
    """A floating-point number."""

    kind = "float"


class RuntimeParameterComplex(RuntimeParameter):
    """A complex number."""

    kind = "complex"


class RuntimeParameterString(RuntimeParameter):
    """A word."""

    kind = "string"


class RuntimeParameterIntArray(RuntimeParameter):
    """A tuple of integers."""

    kind = "int array"


class RuntimeParameterFloatArray(RuntimeParameter):
    """A tuple of floating-point numbers."""

    kind = "float array"


class RuntimeParameterComplexArray(RuntimeParameter):
    """A tuple of complex numbers."""

    kind = "complex array"


class RuntimeParameterStringArray(RuntimeParameter):
    """A tuple of words."""

    kind = "string array"


_SCALAR_KINDS: dict[type, type[RuntimeParameter]] = {
    bool: RuntimeParameterBool,
    int: RuntimeParameterInt,
    float: RuntimeParameterFloat,
    complex: RuntimeParameterComplex,
    str: RuntimeParameterString,
}
_ARRAY_KINDS: dict[type, type[RuntimeParameter]] = {
    int: RuntimeParameterIntArray,
    float: RuntimeParameterFloatArray,
    complex: RuntimeParameterComplexArray,
    str: RuntimeParameterStringArray,
}


@dataclass
class RuntimeAttribute:
    """A weight: `data` (in storage dtype, read-only), its `shape` and `dtype`."""

    data: Array | None
    shape: tuple[int, ...]
    dtype: DType | None

    def get(self, clear: bool = False) -> Array:
        """The weight flat, as NumPy calculates with it (f16 and bf16 widened to float32).

        With `clear` the operator gives its copy up: the next `get` is an `InputError`.
        """
        if self.data is None:
            raise InputError("this weight has no data: it was cleared, or the model was read without its weights")
        if self.dtype is None:
            raise DTypeError("this weight has no dtype")
        flat = widen(self.data).reshape(-1)
        if clear:
            self.data = None
        return flat


@dataclass(eq=False)
class RuntimeOperand:
    """A value that flows: one producer, any number of consumers (twice for an operator that uses it twice).

    `shape` and `dtype` are the annotation of the file (None where unknown; None as a dimension where the file has `?`).
    `value` is what the last `RuntimeGraph.forward` gave.
    """

    name: str
    producer: RuntimeOperator
    consumers: list[RuntimeOperator] = field(default_factory=list)
    shape: tuple[int | None, ...] | None = None
    dtype: DType | None = None
    value: Value = None

    @property
    def shapes(self) -> tuple[int | None, ...]:
        """The annotated shape, batch included; () where nothing is annotated."""
        return self.shape or ()

    @property
    def type(self) -> DType | None:
        """The annotated dtype."""
        return self.dtype

    @property
    def size(self) -> int:
        """Product of the annotated dimensions; `InputError` where one is unknown."""
        total = 1
        for dim in self.shapes:
            if dim is None:
                raise InputError(f"operand '{self.name}' has unknown dimensions: {self.shapes}")
            total *= dim
        return total

    @property
    def datas(self) -> list[Array]:
        """The samples of the last run's value: one array for each index of the first dimension."""
        return list(self.value) if isinstance(self.value, np.ndarray) and self.value.ndim else []

    def __repr__(self) -> str:
        return f"RuntimeOperand({self.name!r})"


@dataclass(eq=False)
class RuntimeOperator:
    """An operator of the graph; `layer` and `binding` are there once the graph is built.

    `line` is its line in the model file. `start_time` and `end_time` are its place in the execution order and that of
    its last consumer; `has_forward` tells whether the last run got past it.
    """

    name: str
    type: str
    input_operands_seq: list[RuntimeOperand] = field(default_factory=list)
    output_operands: list[RuntimeOperand] = field(default_factory=list)
    input_names: list[str | None] = field(default_factory=list)
    params: dict[str, RuntimeParameter] = field(default_factory=dict)
    attributes: dict[str, RuntimeAttribute] = field(default_factory=dict)
    line: int = 0
    binding: Binding | None = None
    has_forward: bool = False
    start_time: int = -1
    end_time: int = -1

    @property
    def layer(self) -> Layer | None:
        """What the operator means; None before `build` and for `pnnx.Input` and `pnnx.Output`."""
        return self.binding.layer if self.binding else None

    @property
    def attribute(self) -> dict[str, RuntimeAttribute]:
        """The weights, under the course's name."""
        return self.attributes

    @property
    def input_operands(self) -> dict[str, RuntimeOperand]:
        """Inputs by the name of the operator that makes them (of several from one, the last)."""
        return {operand.producer.name: operand for operand in self.input_operands_seq}

    @property
    def output_operators(self) -> dict[str, RuntimeOperator]:
        """The operators that use an output of this one, by name, each once, in file order."""
        return {consumer.name: consumer for operand in self.output_operands for consumer in operand.consumers}

    @property
    def output_names(self) -> Sequence[str]:
        """The names of `output_operators`."""
        return list(self.output_operators)

    @property
    def place(self) -> str:
        """How messages name this operator."""
        return f"operator '{self.name}' ({self.type})"

    def __repr__(self) -> str:
        return f"RuntimeOperator({self.type!r}, {self.name!r})"
