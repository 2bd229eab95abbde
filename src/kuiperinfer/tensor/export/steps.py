"""What a traced run consists of, and how it gets simpler: steps that nothing needs go, arithmetic becomes one expression."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...dtypes import Array, DType
from ...expression import Expression, Literal, Operand, substitute

EXPRESSION = "pnnx.Expression"

# Readers recurse over expressions, and people read them: what is longer becomes several.
_MAX_DEPTH = 32
_MAX_OPERANDS = 32

_KINDS = ("bool", "int", "float")  # a tensor takes the dtype of a number only of a later kind


@dataclass(eq=False)
class Value:
    """A tensor of the run. `shape` has None where a second run had another size; `constant` is the array of one that no step
    makes and no input brings, and `name` where that was found."""

    shape: tuple[int | None, ...]
    dtype: DType
    constant: Array | None = None
    name: str = ""


@dataclass(eq=False)
class Step:
    """An operator to be: `params` as the format has them, `weights` by name, `name` the dotted name of a module if it is one.

    A step of arithmetic has the type `EXPRESSION` and a tree over its inputs, in which each of them stands once.
    """

    type: str
    inputs: list[Value]
    outputs: list[Value]
    params: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    input_names: Sequence[str | None] = ()
    name: str = ""
    tree: Expression | None = None


def values_in(result: Any) -> Iterator[Value]:
    """The values of a result: a value, or a tuple of results."""
    if isinstance(result, tuple):
        for item in result:
            yield from values_in(item)
    else:
        yield result


def simplify(steps: Iterable[Step], result: Any) -> list[Step]:
    """The steps that the result needs, with as few expressions as there can be without calculating anything twice."""
    return _fuse_expressions(_needed(list(steps), result), result)


def _needed(steps: list[Step], result: Any) -> list[Step]:
    needed = {id(value) for value in values_in(result)}
    kept = []
    for step in reversed(steps):
        if any(id(output) in needed for output in step.outputs):
            kept.append(step)
            needed |= {id(value) for value in step.inputs}
    return kept[::-1]


def _fuse_expressions(steps: list[Step], result: Any) -> list[Step]:
    uses = Counter(id(value) for step in steps for value in step.inputs)
    uses.update(id(value) for value in values_in(result))
    makers = {id(step.outputs[0]): step for step in steps if step.tree is not None}
    merged: set[int] = set()
    for step in steps:
        if step.tree is None:
            continue
        inputs: list[Value] = []
        replacements: list[Expression] = []
        for value in step.inputs:
            maker = makers.get(id(value))
            if maker is not None and uses[id(value)] == 1 and _small(maker, step):
                assert maker.tree is not None
                merged.add(id(maker))
                replacements.append(substitute(maker.tree, [_operand(inputs, inner) for inner in maker.inputs]))
            else:
                replacements.append(_literal(value, step) or _operand(inputs, value))
        step.tree = substitute(step.tree, replacements)
        step.inputs = inputs
    return [step for step in steps if id(step) not in merged]


def _small(maker: Step, step: Step) -> bool:
    assert maker.tree is not None and step.tree is not None
    depth = maker.tree.depth + step.tree.depth
    return depth <= _MAX_DEPTH and len(maker.inputs) + len(step.inputs) <= _MAX_OPERANDS


def _operand(inputs: list[Value], value: Value) -> Operand:
    for index, known in enumerate(inputs):
        if known is value:
            return Operand(index)
    inputs.append(value)
    return Operand(len(inputs) - 1)


def _literal(value: Value, step: Step) -> Literal | None:
    """A constant without dimensions as a number, where it promotes like one: beside a tensor that has dimensions."""
    if value.constant is None or value.shape or value.dtype.kind not in _KINDS:
        return None
    number = value.constant.item()
    kind = _KINDS.index(value.dtype.kind)
    beside_tensors = any(other.shape and other.dtype.kind in _KINDS[kind:] for other in step.inputs)
    return Literal(number) if beside_tensors and math.isfinite(number) else None
