"""An expression that alone uses the result of a convolution, a matrix product or a pooling becomes part of that operator."""

from __future__ import annotations

from .. import expression
from ..dtypes import broadcast_shapes, f32
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers.base import Layer
from ..layers.binding import Binding, FromInput, Source
from ..layers.convolution import Conv, ConvTranspose
from ..layers.linear import AddMM, BaddBMM, Linear, Matmul, MatrixProduct, MatrixVectorProduct
from .fused import Fused, Map
from .rewriting import Specs, set_inputs, single_use, take_over_output, tensor

# Layers whose kernels take an epilogue.
PRODUCTS: tuple[type[Layer], ...] = (Linear, Matmul, MatrixProduct, MatrixVectorProduct, AddMM, BaddBMM)
PRODUCERS: tuple[type[Layer], ...] = (Conv, ConvTranspose, *PRODUCTS)


def fuse_epilogue(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Fuses where the expression's other operands have the result's shape, or one value a channel, and are there in time."""
    place = {operator: index for index, operator in enumerate(operators)}
    fused: set[RuntimeOperator] = set()
    for operator in operators:
        if not isinstance(operator.layer, Map):
            continue
        producer = _producer(operator, specs, place)
        if producer is not None:
            _fuse(operator, producer)
            fused.add(operator)
    kept = [operator for operator in operators if operator not in fused]
    return sorted(kept, key=lambda operator: operator.type != "pnnx.Attribute")  # producers may take constants in


def _producer(operator: RuntimeOperator, specs: Specs, place: dict[RuntimeOperator, int]) -> RuntimeOperator | None:
    """The last of the operators that could take the expression in."""
    inputs = list(dict.fromkeys(operator.input_operands_seq))
    output = tensor(specs, operator.output_operands[0])
    if output is None or output.dtype is not f32:
        return None
    candidates = [
        operand.producer
        for operand in inputs
        if isinstance(operand.producer.layer, PRODUCERS)
        and single_use_by(operand, operator)
        and tensor(specs, operand) == output
        and all(_fits(other, operand, specs, place) for other in inputs if other is not operand)
    ]
    return max(candidates, key=place.__getitem__, default=None)


def single_use_by(operand: RuntimeOperand, operator: RuntimeOperator) -> bool:
    """Whether `operator` alone uses an operand, once or more."""
    return single_use(operand) or set(operand.consumers) == {operator}


def _fits(other: RuntimeOperand, result: RuntimeOperand, specs: Specs, place: dict[RuntimeOperator, int]) -> bool:
    """Whether an operand is there before the result's operator runs, and lies as an epilogue can read it."""
    found, wanted = tensor(specs, other), tensor(specs, result)
    assert wanted is not None
    if found is None or found.dtype is not f32 or found.ndim > wanted.ndim:
        return False
    if isinstance(result.producer.layer, PRODUCTS):
        fits = broadcast_shapes(found.shape, wanted.shape) == wanted.shape
    else:
        a_channel = (wanted.shape[1], *[1] * (wanted.ndim - 2)) if wanted.ndim > 2 else ()
        fits = found.shape == wanted.shape or found.shape in ((1, *a_channel), (wanted.shape[0], *a_channel))
    return fits and _is_there(other.producer, result.producer, place)


def _is_there(operator: RuntimeOperator, before: RuntimeOperator, place: dict[RuntimeOperator, int]) -> bool:
    """Whether an operator runs before another one; a constant always does."""
    return operator.type == "pnnx.Attribute" or place[operator] < place[before]


def _fuse(operator: RuntimeOperator, producer: RuntimeOperator) -> None:
    assert isinstance(operator.layer, Map) and producer.binding is not None
    tree = operator.layer.tree
    result = producer.output_operands[0]
    extras = [operand for operand in dict.fromkeys(operator.input_operands_seq) if operand is not result]
    number = {operand: expression.Operand(index + 1) for index, operand in enumerate(extras)} | {
        result: expression.Operand(0)
    }
    tree = expression.substitute(tree, [number[operand] for operand in operator.input_operands_seq])
    own = len(producer.input_operands_seq)
    named: dict[str, Source] = dict(producer.binding.named)
    named |= {f"extra{index + 1}": FromInput(own + index) for index in range(len(extras))}
    layer = Fused(type_name=producer.type, base=producer.binding.layer, text=str(tree))
    producer.binding = Binding(layer, producer.binding.arguments, named)
    set_inputs(producer, [*producer.input_operands_seq, *extras])
    take_over_output(producer, operator)
