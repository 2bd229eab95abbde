"""Operators whose inputs are all known before the first run become constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import Array, TensorSpec, dtype_of
from ..graph import UNKNOWN, RuntimeAttribute, RuntimeOperand, RuntimeOperator, infer_shapes
from ..graph.execution import run_operator
from ..layers.binding import FromInput, bind
from .rewriting import Specs, set_inputs

_MOST_BYTES = 64 << 20  # a constant larger than this is calculated in each run, in memory that others can use too


def fold_constants(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Runs what hangs on weights, parameters and shapes alone, once; a constant may tell the shapes of more."""
    while True:
        folded = _fold(operators, specs)
        if folded == operators:
            return operators
        operators = folded
        inputs = {
            operator.name: specs[operator.output_operands[0]] for operator in operators if operator.type == "pnnx.Input"
        }
        specs.update(infer_shapes(operators, inputs))


def _fold(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    values: dict[RuntimeOperand, Any] = {}
    kept: list[RuntimeOperator] = []
    for operator in operators:
        if operator.type == "pnnx.Attribute":
            values[operator.output_operands[0]] = next(iter(operator.attributes.values())).data
        elif operator.layer is not None and not operator.layer.is_random and _is_small(operator, specs):
            found = _values_of(operator, specs, values)
            if found is not None:
                values.update(zip(operator.output_operands, found, strict=True))
                if all(isinstance(value, np.ndarray) for value in found):
                    kept += _constants(operator, found, specs)
                    continue
        kept.append(operator)
    return kept


def _is_small(operator: RuntimeOperator, specs: Specs) -> bool:
    found = [specs[operand] for operand in operator.output_operands]
    return all(not isinstance(spec, TensorSpec) or spec.nbytes <= _MOST_BYTES for spec in found)


def _values_of(operator: RuntimeOperator, specs: Specs, values: dict[RuntimeOperand, Any]) -> tuple[Any, ...] | None:
    """The outputs' values; None where they are not known beforehand."""
    outputs = [specs[operand] for operand in operator.output_operands]
    if any(spec is UNKNOWN for spec in outputs):
        return None  # until the constants before it have told its shape
    if outputs and all(isinstance(spec, TensorSpec) and spec.value is not None for spec in outputs):
        return tuple(spec.value for spec in outputs)
    known = dict(values)
    for index, operand in enumerate(operator.input_operands_seq):
        if operand in known:
            continue
        spec = specs[operand]
        if _is_plain(spec):
            known[operand] = spec
        elif isinstance(spec, TensorSpec) and _counts_shape_alone(operator, index):
            known[operand] = np.broadcast_to(np.zeros((), spec.dtype.storage), spec.shape)
        else:
            return None
    if all(_is_plain(spec) for spec in outputs):
        return None  # no tensor: the shapes tell it already
    return run_operator(operator, known.__getitem__)


def _counts_shape_alone(operator: RuntimeOperator, index: int) -> bool:
    """Whether an input's elements are of no matter."""
    assert operator.binding is not None and operator.layer is not None
    named = operator.binding.named
    return any(named.get(name) == FromInput(index) for name in operator.layer.of_shape_alone)


def _is_plain(spec: Any) -> bool:
    """Whether a spec is a value itself: numbers, words, and lists of these."""
    if isinstance(spec, (list, dict)):
        return all(_is_plain(item) for item in (spec.values() if isinstance(spec, dict) else spec))
    return spec is not UNKNOWN and not isinstance(spec, TensorSpec)


def _constants(operator: RuntimeOperator, values: tuple[Array, ...], specs: Specs) -> list[RuntimeOperator]:
    """An operator for each output of one that is not needed any more."""
    made = []
    set_inputs(operator, [])
    for operand, value in zip(operator.output_operands, values, strict=True):
        made.append(constant_operator(operand, value, specs))
    operator.output_operands = []
    return made


def constant_operator(operand: RuntimeOperand, value: Array, specs: Specs) -> RuntimeOperator:
    """The operator that makes an operand from now on: a constant."""
    attribute = RuntimeAttribute(np.asarray(value, order="C"), value.shape, dtype_of(value))
    operator = RuntimeOperator(operand.name, "pnnx.Attribute", attributes={"data": attribute})
    operator.binding = bind("pnnx.Attribute", attributes=["data"])
    operator.output_operands = [operand]
    operand.producer = operator
    specs[operand] = TensorSpec(attribute.shape, dtype_of(value), attribute.data)
    return operator
