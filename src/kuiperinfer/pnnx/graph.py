"""The PNNX graph as it stands in the file: operators, operands, parameters, attributes. Knows nothing of computing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import Array, DType, dtype_of
from ..memory import aligned_empty, lock

ParameterValue: TypeAlias = (
    None
    | bool
    | int
    | float
    | complex
    | str
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[str, ...]
    | tuple[complex, ...]
)


@dataclass(frozen=True)
class Parameter:
    """One `key=value` of an operator: the value, and the `text` that the file has for it.

    Lists are tuples; `()` and `[]` are the empty tuple. Which Python type a text becomes is settled in `values.py`.
    """

    value: ParameterValue
    text: str


@dataclass(frozen=True)
class Attribute:
    """A weight: dtype (None for `null`), shape and data.

    `data` has the dtype's storage dtype and the given shape, is C-contiguous, aligned to 64 bytes and read-only;
    None where the file has the dtype `null`, or where a model was read without its weights.
    """

    dtype: DType | None
    shape: tuple[int, ...]
    data: Array | None = field(default=None, compare=False, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the weight in the archive; 0 where the dtype is unknown."""
        return 0 if self.dtype is None else math.prod(self.shape) * self.dtype.itemsize

    @staticmethod
    def of(array: Array) -> Attribute:
        """The weight of an array, which is copied. Raises `DTypeError` for a dtype that the format does not have."""
        dtype = dtype_of(array)
        if array.dtype.name == "bfloat16":
            array = np.ascontiguousarray(array).view(dtype.storage).reshape(array.shape)
        data = aligned_empty(array.shape, dtype.storage)
        data[...] = array
        return Attribute(dtype, array.shape, lock(data))

    def __deepcopy__(self, memo: dict[int, Any]) -> Attribute:
        return self  # nothing in it can change

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_attribute, (self.dtype, self.shape, self.data)


def _restore_attribute(dtype: DType | None, shape: tuple[int, ...], data: Array | None) -> Attribute:
    return Attribute(dtype, shape) if data is None else Attribute.of(data)


@dataclass(eq=False)
class Operand:
    """A value that flows along the graph: one producer, any number of consumers (an operator that uses it twice is
    there twice).

    `shape` is the annotation of the file, with None for a dimension written `?`; shape None means that nothing is
    annotated (unknown, or a 0-d tensor, or no tensor at all). `dtype` is None where unknown or `null`.
    """

    name: str
    producer: Operator | None = None
    consumers: list[Operator] = field(default_factory=list)
    shape: tuple[int | None, ...] | None = None
    dtype: DType | None = None

    def __repr__(self) -> str:
        return f"Operand({self.name!r})"


@dataclass(eq=False)
class Operator:
    """One line of the file. `input_names[i]` is the Python argument name of input i (`$key=`), None where it has none.

    `line` is the line number in the file, counted from 1; 0 for an operator that was made in memory.
    """

    type: str
    name: str
    inputs: list[Operand] = field(default_factory=list)
    outputs: list[Operand] = field(default_factory=list)
    input_names: list[str | None] = field(default_factory=list)
    params: dict[str, Parameter] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    line: int = 0

    def __repr__(self) -> str:
        return f"Operator({self.type!r}, {self.name!r})"


@dataclass(eq=False)
class Graph:
    """A model: operators in file order, and operands by name in the order in which they are produced."""

    operators: list[Operator] = field(default_factory=list)
    operands: dict[str, Operand] = field(default_factory=dict)
    file: str | None = None

    def operators_of_type(self, *types: str) -> Sequence[Operator]:
        """All operators of the given types, in file order."""
        return [operator for operator in self.operators if operator.type in types]

    def __reduce__(self) -> tuple[Any, ...]:
        return _assemble, _flatten(self)


# ------------------------------------------------------------------------------------------- pickling and copying
#
# Operators and operands refer to each other: pickled as they are, a chain of some hundred operators would exceed Python's
# recursion limit. So a graph is pickled, and copied, as tables in which they are numbers.


def _flatten(graph: Graph) -> tuple[Any, ...]:
    operators, operands = list(graph.operators), list(graph.operands.values())
    operator_number = {id(operator): number for number, operator in enumerate(operators)}
    operand_number = {id(operand): number for number, operand in enumerate(operands)}
    operator_rows, operand_rows = [], []

    def number_of(operand: Operand) -> int:
        if id(operand) not in operand_number:  # one that an operator refers to, but that is not in the graph's table
            operand_number[id(operand)] = len(operands)
            operands.append(operand)
        return operand_number[id(operand)]

    for operator in operators:
        wiring = [[number_of(operand) for operand in side] for side in (operator.inputs, operator.outputs)]
        rest = (operator.input_names, operator.params, operator.attributes, operator.line)
        operator_rows.append((operator.type, operator.name, *wiring, *rest))
    for operand in operands:
        producer = None if operand.producer is None else operator_number.get(id(operand.producer))
        consumers = [operator_number[id(operator)] for operator in operand.consumers if id(operator) in operator_number]
        operand_rows.append((operand.name, producer, consumers, operand.shape, operand.dtype))
    return operator_rows, operand_rows, list(graph.operands), graph.file


def _assemble(operator_rows: Any, operand_rows: Any, names: list[str], file: str | None) -> Graph:
    operands = [Operand(name, shape=shape, dtype=dtype) for name, _, _, shape, dtype in operand_rows]
    operators = [
        Operator(
            type_,
            name,
            [operands[i] for i in inputs],
            [operands[i] for i in outputs],
            list(input_names),
            dict(params),
            dict(attributes),
            line,
        )
        for type_, name, inputs, outputs, input_names, params, attributes, line in operator_rows
    ]
    for operand, (_, producer, consumers, _, _) in zip(operands, operand_rows, strict=True):
        operand.producer = None if producer is None else operators[producer]
        operand.consumers = [operators[i] for i in consumers]
    return Graph(operators, dict(zip(names, operands, strict=False)), file)
