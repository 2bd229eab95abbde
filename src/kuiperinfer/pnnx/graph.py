"""The PNNX graph as it stands in the file: operators, operands, parameters, attributes. Knows nothing of computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..dtypes import Array, DType

ParameterValue: TypeAlias = (
    None | bool | int | float | complex | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | tuple[complex, ...]
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
