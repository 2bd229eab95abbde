"""Multiply-adds of the operators that do many: convolutions, matrix products, attention, recurrent networks.

What works element by element (activations, normalisation, pooling) counts as none, as in the papers that quote such numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from ..dtypes import TensorSpec
from ..layers.base import Spec
from .parts import RuntimeOperand, RuntimeOperator

Specs: TypeAlias = Mapping[RuntimeOperand, Spec]
Tensors: TypeAlias = Sequence[TensorSpec]
Rule: TypeAlias = Callable[[RuntimeOperator, Tensors, Tensors], int]


def multiply_adds(operator: RuntimeOperator, specs: Specs) -> int:
    """Multiply-adds of one operator, given the specs of its operands; 0 where its type has none or a shape is unknown."""
    rule = _RULES.get(operator.type)
    inputs = _tensors(specs.get(operand) for operand in operator.input_operands_seq)
    outputs = _tensors(specs.get(operand) for operand in operator.output_operands)
    if rule is None or inputs is None or outputs is None or not inputs or not outputs:
        return 0
    return rule(operator, inputs, outputs)


def total_multiply_adds(operators: Iterable[RuntimeOperator], specs: Specs) -> int:
    """Multiply-adds of all operators together."""
    return sum(multiply_adds(operator, specs) for operator in operators)


def _tensors(specs: Iterable[Spec]) -> list[TensorSpec] | None:
    found = list(specs)
    return found if all(isinstance(spec, TensorSpec) for spec in found) else None


def _weight_shape(operator: RuntimeOperator, inputs: Tensors) -> Sequence[int]:
    return operator.attributes["weight"].shape if "weight" in operator.attributes else inputs[1].shape


def _conv(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
    """Every output element is one product with a filter of weight.shape[1:]."""
    return outputs[0].size * math.prod(_weight_shape(operator, inputs)[1:])


def _conv_transpose(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
    """Every input element is spread over a filter of weight.shape[1:]."""
    return inputs[0].size * math.prod(_weight_shape(operator, inputs)[1:])


def _linear(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
    return outputs[0].size * inputs[0].shape[-1]


def _product_of(left: int) -> Rule:
    """The matrix product whose left factor is input number `left`."""

    def rule(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
        return outputs[0].size * inputs[left].shape[-1] if left < len(inputs) and inputs[left].shape else 0

    return rule


def _einsum(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
    """The product of the sizes of all letters, for two factors; an equation with an ellipsis counts as none."""
    equation = str(operator.params["equation"].value) if "equation" in operator.params else ""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if "..." in equation or len(terms) != len(inputs) or len(inputs) < 2:
        return 0
    sizes: dict[str, int] = {}
    for term, spec in zip(terms, inputs, strict=True):
        for letter, size in zip(term, spec.shape, strict=False):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return math.prod(sizes.values()) * (len(inputs) - 1)


def _attention(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
    """(..., L, E), (..., S, E), (..., S, V): L × S × (E + V) a head."""
    if len(inputs) < 3:
        return 0
    query, key, value = inputs[:3]
    heads = math.prod(query.shape[:-2])
    return heads * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _multihead_attention(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
    """Projections of query, key, value and result, and the attention between; inputs may be given once for all three."""
    query, key = inputs[0], inputs[1] if len(inputs) > 1 else inputs[0]
    value = inputs[2] if len(inputs) > 2 else key
    embed = outputs[0].shape[-1]
    batch_first = "batch_first" in operator.params and operator.params["batch_first"].value is True
    length_axis = 1 if batch_first and query.ndim == 3 else 0
    targets, sources = query.shape[length_axis], key.shape[length_axis]
    batch = query.size // (query.shape[-1] * targets) if query.size else 0
    projections = embed * (targets * (query.shape[-1] + embed) + sources * (key.shape[-1] + value.shape[-1]))
    return batch * (projections + 2 * targets * sources * embed)


def _recurrent(operator: RuntimeOperator, inputs: Tensors, outputs: Tensors) -> int:
    """Every time step of every sample meets every weight once."""
    weights = sum(math.prod(a.shape) for name, a in operator.attributes.items() if name.startswith("weight"))
    return math.prod(inputs[0].shape[:-1]) * weights


_RULES: dict[str, Rule] = {
    **{f"nn.Conv{n}d": _conv for n in (1, 2, 3)},
    **{f"F.conv{n}d": _conv for n in (1, 2, 3)},
    **{f"nn.ConvTranspose{n}d": _conv_transpose for n in (1, 2, 3)},
    **{f"F.conv_transpose{n}d": _conv_transpose for n in (1, 2, 3)},
    "torchvision.ops.DeformConv2d": _conv,
    "nn.Linear": _linear,
    "F.linear": _linear,
    "torch.mm": _product_of(0),
    "torch.bmm": _product_of(0),
    "torch.matmul": _product_of(0),
    "torch.addmm": _product_of(1),
    "torch.baddbmm": _product_of(1),
    "torch.einsum": _einsum,
    "F.scaled_dot_product_attention": _attention,
    "nn.MultiheadAttention": _multihead_attention,
    "nn.RNN": _recurrent,
    "nn.LSTM": _recurrent,
    "nn.GRU": _recurrent,
}
