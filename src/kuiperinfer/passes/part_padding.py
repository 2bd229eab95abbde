"""Convolutions whose padding is not zeros: the padding becomes an operator of its own."""

from __future__ import annotations

from dataclasses import replace

from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.binding import Binding, FromAttribute, FromInput
from ..layers.convolution import Conv
from ..layers.padding import Pad, padded_shape
from .rewriting import Specs, set_inputs, tensor


def part_padding(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Puts a padding in the same mode before the convolution, which then has none."""
    kept: list[RuntimeOperator] = []
    for operator in operators:
        layer = operator.layer
        if isinstance(layer, Conv) and layer.mode != "constant" and operator.binding is not None:
            source, weight = operator.input_operands_seq[0], operator.attributes.get("weight")
            spec = tensor(specs, source)
            known = operator.binding.named.get("weight") == FromAttribute("weight")
            if spec is not None and known and weight is not None and operator.binding.named["input"] == FromInput(0):
                kept.append(_padding(operator, layer, weight.shape[2:], source, specs))
        kept.append(operator)
    return kept


def _padding(
    operator: RuntimeOperator, layer: Conv, kernel: tuple[int, ...], source: RuntimeOperand, specs: Specs
) -> RuntimeOperator:
    spec = tensor(specs, source)
    assert spec is not None and operator.binding is not None
    pads = layer.pads(kernel)
    padded = RuntimeOperand(f"{operator.name}.padded", operator)
    made = RuntimeOperator(padded.name, "F.pad", output_operands=[padded])
    amounts = tuple(amount for pair in reversed(pads) for amount in pair)
    made.binding = Binding(Pad(type_name="F.pad", pad=amounts, mode=layer.mode), (), {"input": FromInput(0)})
    set_inputs(made, [source])
    padded.producer = made
    every = ((0, 0),) * (spec.ndim - len(pads)) + pads
    specs[padded] = spec.like(padded_shape(spec.shape, every, layer.mode))
    set_inputs(operator, [padded, *operator.input_operands_seq[1:]])
    plain = replace(layer, padding=(0,) * layer.ndim, padding_mode="zeros")
    operator.binding = Binding(plain, operator.binding.arguments, operator.binding.named)
    return made
