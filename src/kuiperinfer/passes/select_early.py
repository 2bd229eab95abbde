"""Where one index of a dimension is all that is taken from a result, nothing else of it is calculated.

A transformer that classifies looks at one token alone: in its last block, all but attention's keys and values is needed for
that token only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from ..dtypes import TensorSpec
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.base import Layer, normalize_dim
from ..layers.binding import Binding, Constant, FromInput
from ..layers.linear import Linear
from ..layers.multihead_attention import MultiheadAttention
from ..layers.normalization import LayerNorm, RMSNorm
from ..layers.slicing import Narrow, Select
from ..records import dataclass
from .fused import Map
from .rewriting import Specs, set_inputs, tensor

# The inputs of which an operator needs one index of a dimension for one index of its output; None where it is not so simple.
Rule = Callable[[RuntimeOperator, TensorSpec, int, Specs], "Sequence[int] | None"]


@dataclass
class Reach:
    """The operators that have to calculate one index alone, and where operators take one index of an operand."""

    operators: list[RuntimeOperator] = field(default_factory=list)
    uses: dict[RuntimeOperand, list[tuple[RuntimeOperator, int]]] = field(default_factory=dict)


def select_early(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """A selection moves before what calculates each index by itself, if that is a matrix product or more."""
    for operator in list(operators):
        found = _selection(operator, specs)
        if found is not None:
            operators = _move(operators, operator, *found, specs)
    return operators


def _selection(operator: RuntimeOperator, specs: Specs) -> tuple[int, int] | None:
    """(dimension, index), counted from the front, of a selection whose index is known."""
    if not isinstance(operator.layer, Select) or operator.binding is None:
        return None
    index, source = operator.binding.named.get("index"), tensor(specs, operator.input_operands_seq[0])
    if source is None or not isinstance(index, Constant) or not isinstance(index.value, int):
        return None
    dim = normalize_dim(operator.layer.dim, source.ndim)
    return (dim, index.value % source.shape[dim]) if source.shape[dim] > 1 else None


def _move(
    operators: list[RuntimeOperator], select: RuntimeOperator, dim: int, index: int, specs: Specs
) -> list[RuntimeOperator]:
    reach = _reach(operators, select, dim, specs)
    if not any(isinstance(operator.layer, (Linear, MultiheadAttention)) for operator in reach.operators):
        return operators
    parts: dict[RuntimeOperand, RuntimeOperator] = {}
    for operand, uses in reach.uses.items():
        if operand.producer in reach.operators:
            specs[operand] = _one_of(specs[operand], dim)
        else:
            parts[operand] = _part(operand, uses, dim, index, specs)
    assert select.binding is not None
    sources = {**select.binding.named, "index": Constant(0)}
    select.binding = Binding(select.binding.layer, select.binding.arguments, sources)
    result: list[RuntimeOperator] = []
    for operator in operators:
        result.append(operator)
        result += [parts[operand] for operand in operator.output_operands if operand in parts]
    return result


def _reach(operators: Sequence[RuntimeOperator], select: RuntimeOperator, dim: int, specs: Specs) -> Reach:
    reach = Reach(uses={select.input_operands_seq[0]: [(select, 0)]})
    for operator in reversed(operators[: operators.index(select)]):
        if len(operator.output_operands) != 1:
            continue
        (output,) = operator.output_operands
        if len(reach.uses.get(output, ())) < max(1, len(output.consumers)):
            continue
        places = _places(operator, dim, specs)
        if places is not None:
            reach.operators.append(operator)
            if isinstance(operator.layer, MultiheadAttention):
                _separate_query(operator)
            for place in places:
                reach.uses.setdefault(operator.input_operands_seq[place], []).append((operator, place))
    return reach


def _part(
    operand: RuntimeOperand, uses: Sequence[tuple[RuntimeOperator, int]], dim: int, index: int, specs: Specs
) -> RuntimeOperator:
    """An operator for one index of an operand, which takes the operand's place in some uses."""
    layer = Narrow(type_name="torch.narrow", dim=dim)
    operator = RuntimeOperator(f"{operand.producer.name}.part", "torch.narrow")
    operator.binding = Binding(layer, (), {"input": FromInput(0), "start": Constant(index), "length": Constant(1)})
    part = RuntimeOperand(f"{operand.name}.part", operator)
    operator.output_operands = [part]
    specs[part] = _one_of(specs[operand], dim)
    for consumer, place in uses:
        inputs = list(consumer.input_operands_seq)
        inputs[place] = part
        set_inputs(consumer, inputs)
    set_inputs(operator, [operand])
    return operator


def _one_of(spec: TensorSpec, dim: int) -> TensorSpec:
    return spec.like((*spec.shape[:dim], 1, *spec.shape[dim + 1 :]))


# ------------------------------------------------------------------------------------------- rules


def _places(operator: RuntimeOperator, dim: int, specs: Specs) -> Sequence[int] | None:
    output = tensor(specs, operator.output_operands[0])
    rule = next((rule for kind, rule in _RULES.items() if isinstance(operator.layer, kind)), None)
    return None if output is None or rule is None else rule(operator, output, dim, specs)


def _of_map(operator: RuntimeOperator, output: TensorSpec, dim: int, specs: Specs) -> Sequence[int] | None:
    """All inputs but those that are broadcast along the dimension."""
    found = [tensor(specs, operand) for operand in operator.input_operands_seq]
    moving = []
    for place, spec in enumerate(found):
        if spec is None:
            return None
        own = dim - (output.ndim - spec.ndim)
        if own >= 0 and spec.shape[own] != 1:
            moving.append((place, own))
    return [place for place, _ in moving] if all(own == dim for _, own in moving) else None


def _of_rows(operator: RuntimeOperator, output: TensorSpec, dim: int, specs: Specs) -> Sequence[int] | None:
    """The only input, unless the dimension is among the last ones, which belong together."""
    layer = operator.layer
    together = len(layer.normalized_shape) if isinstance(layer, (LayerNorm, RMSNorm)) else 1
    return [0] if len(operator.input_operands_seq) == 1 and dim < output.ndim - together else None


def _of_attention(operator: RuntimeOperator, output: TensorSpec, dim: int, specs: Specs) -> Sequence[int] | None:
    """The query of what attends to itself, without masks, where the result alone is asked for."""
    layer, binding = operator.layer, operator.binding
    assert isinstance(layer, MultiheadAttention) and binding is not None
    named = [source for source in binding.named.values() if isinstance(source, FromInput)]
    if named or binding.arguments != (FromInput(0),) or layer.choose_outputs(("query",)) != ("output",):
        return None
    return [0] if output.ndim == 3 and dim == (1 if layer.batch_first else 0) else None


def _separate_query(operator: RuntimeOperator) -> None:
    """Gives attention its query and its key, of which all is needed, as two inputs."""
    layer, binding = operator.layer, operator.binding
    assert isinstance(layer, MultiheadAttention) and binding is not None
    plain = replace(layer, annotated_inputs=(), annotated_outputs=())
    operator.binding = Binding(plain, (FromInput(0), FromInput(1)), binding.named)
    set_inputs(operator, operator.input_operands_seq * 2)


_RULES: Mapping[type[Layer], Rule] = {
    Map: _of_map,
    Linear: _of_rows,
    LayerNorm: _of_rows,
    RMSNorm: _of_rows,
    MultiheadAttention: _of_attention,
}
