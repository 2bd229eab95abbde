"""Batch normalisation with known statistics: part of the layer before it, or one expression of constants."""

from __future__ import annotations

import numpy as np

from ..dtypes import Array, TensorSpec, dtype_of, f32, widen
from ..graph import RuntimeAttribute, RuntimeOperand, RuntimeOperator
from ..layers.binding import Binding, Constant, FromAttribute, FromInput
from ..layers.convolution import Conv, ConvTranspose
from ..layers.linear import Linear
from ..layers.normalization import BatchNorm, InstanceNorm
from ..records import dataclass
from .elementwise import set_map
from .fold_constants import constant_operator
from .rewriting import Specs, set_inputs, single_use, take_over_output, tensor


@dataclass(frozen=True)
class Statistics:
    """(x - mean) * scale + bias for each channel; in float64."""

    mean: Array
    scale: Array
    bias: Array


@np.errstate(all="ignore")
def fold_batch_norm(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Goes into the weights of a convolution or a fully connected layer whose result nothing else uses."""
    folded: set[RuntimeOperator] = set()
    for operator in operators:
        statistics = _statistics(operator, specs)
        if statistics is None:
            continue
        producer = operator.input_operands_seq[0].producer
        if single_use(operator.input_operands_seq[0]) and _fold(producer, statistics, specs):
            take_over_output(producer, operator)
            folded.add(operator)
    return [operator for operator in operators if operator not in folded]


@np.errstate(all="ignore")
def unify_batch_norm(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Becomes an expression, so that it merges with others, where it was not folded."""
    kept: list[RuntimeOperator] = []
    for operator in operators:
        statistics = _statistics(operator, specs)
        if statistics is not None:
            source = operator.input_operands_seq[0]
            found = tensor(specs, source)
            assert found is not None
            before = _channel_dim(operator, found)
            shape = (*[1] * before, -1, *[1] * (found.ndim - 1 - before))
            inputs = [source]
            for name in ("mean", "scale", "bias"):
                operand = RuntimeOperand(f"{operator.name}.{name}", operator)
                data = getattr(statistics, name).astype(np.float32).reshape(shape)
                kept.append(constant_operator(operand, data, specs))
                inputs.append(operand)
            set_inputs(operator, inputs)
            set_map(operator, "add(mul(sub(@0,@1),@2),@3)")
        kept.append(operator)
    return kept


def _channel_dim(operator: RuntimeOperator, input: TensorSpec) -> int:
    """Instance normalisation alone takes inputs without a batch."""
    layer = operator.layer
    return 0 if isinstance(layer, InstanceNorm) and layer.is_unbatched(input) else 1


def _statistics(operator: RuntimeOperator, specs: Specs) -> Statistics | None:
    """What a batch normalisation of float32 does, where its numbers are known; None for all other operators."""
    layer = operator.layer
    if isinstance(layer, BatchNorm):
        known = not layer.training
    else:
        known = isinstance(layer, InstanceNorm) and not layer.use_input_stats
    if not known or not operator.input_operands_seq:
        return None
    assert operator.binding is not None
    named = operator.binding.named
    source = tensor(specs, operator.input_operands_seq[0])
    if source is None or source.dtype is not f32 or named.get("input") != FromInput(0):
        return None
    mean, variance, weight, bias = (
        _constant(operator, name) for name in ("running_mean", "running_var", "weight", "bias")
    )
    if (
        mean is None
        or variance is None
        or any(name in named and value is None for name, value in (("weight", weight), ("bias", bias)))
    ):
        return None
    assert isinstance(layer, (BatchNorm, InstanceNorm))
    scale = 1 / np.sqrt(variance + layer.eps)
    return Statistics(mean, scale if weight is None else scale * weight, np.zeros_like(mean) if bias is None else bias)


def _constant(operator: RuntimeOperator, name: str) -> Array | None:
    """An argument that is a constant, in float64."""
    assert operator.binding is not None
    source = operator.binding.named.get(name)
    data: Array | None = None
    if isinstance(source, FromAttribute):
        data = operator.attributes[source.name].data
    elif isinstance(source, FromInput):
        producer = operator.input_operands_seq[source.index].producer
        if producer.type == "pnnx.Attribute":
            data = next(iter(producer.attributes.values())).data
    return None if data is None else widen(data).astype(np.float64)


def _fold(producer: RuntimeOperator, statistics: Statistics, specs: Specs) -> bool:
    """Gives a layer with one filter a channel weights that normalise; False where it has none, or shares its bias."""
    layer = producer.layer
    if not isinstance(layer, (Conv, ConvTranspose, Linear)) or producer.binding is None:
        return False
    named = producer.binding.named
    output = tensor(specs, producer.output_operands[0])
    ndim = 2 if isinstance(layer, Linear) else layer.ndim + 2
    if output is None or output.ndim != ndim or output.dtype is not f32:
        return False
    if named.get("weight") != FromAttribute("weight"):
        return False
    if named.get("bias", Constant(None)) not in (Constant(None), FromAttribute("bias")):
        return False
    weight, bias = _constant(producer, "weight"), _constant(producer, "bias")
    if weight is None or weight.ndim < 2 or weight.dtype.kind != "f":
        return False
    if isinstance(layer, ConvTranspose):  # (I, O / groups, *kernel)
        grouped = weight.reshape(layer.groups, -1, *weight.shape[1:])
        scale = statistics.scale.reshape(layer.groups, 1, -1, *[1] * (weight.ndim - 2))
        scaled = (grouped * scale).reshape(weight.shape)
    else:
        scaled = weight * statistics.scale.reshape(-1, *[1] * (weight.ndim - 1))
    moved = ((0 if bias is None else bias) - statistics.mean) * statistics.scale + statistics.bias
    new = {"weight": scaled.astype(np.float32), "bias": moved.astype(np.float32)}
    if not all(np.isfinite(data).all() for data in new.values()):
        return False
    attributes = {name: RuntimeAttribute(data, data.shape, dtype_of(data)) for name, data in new.items()}
    producer.attributes = {**producer.attributes, **attributes}
    sources = {**named, "bias": FromAttribute("bias")}
    producer.binding = Binding(layer, producer.binding.arguments, sources)
    return True
