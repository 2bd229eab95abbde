"""Convolutions and pooling of signals, and of single samples, become those of batches of images, which kernels are made for.

A signal (N, C, L) is an image (N, C, 1, L), a sample (C, H, W) a batch of one. The reshapes around an operator cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ..dtypes import f32
from ..graph import RuntimeAttribute, RuntimeOperand, RuntimeOperator
from ..layers.adaptive_pooling import AdaptiveAvgPool, AdaptiveMaxPool
from ..layers.base import Layer
from ..layers.binding import Binding, Constant, FromAttribute, FromInput, Source
from ..layers.convolution import Conv, ConvTranspose
from ..layers.pooling import AvgPool, MaxPool
from ..layers.shape import Reshape
from .fused import Fused
from .rewriting import Specs, set_inputs, tensor

_LAYERS: tuple[type[Layer], ...] = (Conv, ConvTranspose, MaxPool, AvgPool, AdaptiveAvgPool, AdaptiveMaxPool)

# What parameters of one dimension are for the dimension of height 1.
_OF_HEIGHT: Mapping[str, int] = {
    "kernel_size": 1, "stride": 1, "dilation": 1, "padding": 0, "output_padding": 0, "output_size": 1,
}  # fmt: skip


def view_as_images(operators: list[RuntimeOperator], specs: Specs) -> list[RuntimeOperator]:
    """Puts reshapes before and after operators of signals and of samples without a batch."""
    kept: list[RuntimeOperator] = []
    for operator in operators:
        layer = operator.layer.base if isinstance(operator.layer, Fused) else operator.layer
        if isinstance(layer, _LAYERS) and _can_be_image(operator, layer, specs):
            kept += _as_image(operator, layer, specs)
        else:
            kept.append(operator)
    return kept


def _can_be_image(operator: RuntimeOperator, layer: Any, specs: Specs) -> bool:
    """Whether an operator of one or two dimensions has another form than kernels take, and tensors for inputs and output."""
    assert operator.binding is not None
    found = [tensor(specs, operand) for operand in (*operator.input_operands_seq, *operator.output_operands)]
    if layer.ndim > 2 or len(operator.output_operands) != 1 or operator.binding.arguments:
        return False
    if not all(spec is not None and spec.dtype is f32 and spec.size for spec in found):
        return False
    batched = found[0].ndim == layer.ndim + 2  # type: ignore[union-attr]
    if layer.ndim == 2 and batched:
        return False
    for name, source in operator.binding.named.items():
        if name == "input" or name.startswith("extra"):
            known = isinstance(source, FromInput)
        else:  # what an operator calculates stays as it is
            known = source == FromAttribute(name) or source == Constant(None)
        if not known:
            return False
    same = {spec.shape for spec in found[1:] if spec is not None}
    return batched or len(same) == 1  # without a batch, channels count elsewhere


def _as_image(operator: RuntimeOperator, layer: Any, specs: Specs) -> list[RuntimeOperator]:
    """The operator between reshapes."""
    spec = tensor(specs, operator.input_operands_seq[0])
    assert spec is not None and operator.binding is not None
    before: list[RuntimeOperator] = []
    images: list[RuntimeOperand] = []
    for number, operand in enumerate(operator.input_operands_seq):
        source = tensor(specs, operand)
        assert source is not None
        image = RuntimeOperand(f"{operator.name}.image{number}", operator)
        before.append(_reshape(operand, image, _image_shape(source.shape, layer.ndim), specs))
        images.append(image)
    set_inputs(operator, images)
    output = operator.output_operands[0]
    found = tensor(specs, output)
    assert found is not None
    result = RuntimeOperand(f"{operator.name}.image", operator)
    specs[result] = found.like(_image_shape(found.shape, layer.ndim))
    operator.output_operands = [result]
    after = _reshape(result, output, found.shape, specs)
    if layer.ndim == 1:
        _raise_to_images(operator, layer)
    return [*before, operator, after]


def _image_shape(shape: Sequence[int], ndim: int) -> tuple[int, ...]:
    batch = () if len(shape) == ndim + 2 else (1,)
    height = (1,) if ndim == 1 else ()
    return (*batch, *shape[:-ndim], *height, *shape[-ndim:])


def _reshape(source: RuntimeOperand, target: RuntimeOperand, shape: Sequence[int], specs: Specs) -> RuntimeOperator:
    """An operator that gives `source` another shape, as `target`."""
    found = tensor(specs, source)
    assert found is not None
    operator = RuntimeOperator(target.name, "Tensor.reshape")
    named: dict[str, Source] = {"input": FromInput(0), "shape": Constant(tuple(shape))}
    operator.binding = Binding(Reshape(type_name="Tensor.reshape"), (), named)
    set_inputs(operator, [source])
    operator.output_operands = [target]
    target.producer = operator
    specs[target] = found.like(shape)
    return operator


def _raise_to_images(operator: RuntimeOperator, layer: Any) -> None:
    """Gives a layer of signals the parameters and weights of one of images."""
    assert operator.binding is not None
    changes: dict[str, Any] = {"ndim": 2}
    for field in fields(layer):
        value = getattr(layer, field.name)
        if field.name in _OF_HEIGHT and isinstance(value, tuple):
            changes[field.name] = (_OF_HEIGHT[field.name], *value)
    raised = replace(layer, **changes)
    fused = operator.layer
    binding = operator.binding
    operator.binding = Binding(
        replace(fused, base=raised) if isinstance(fused, Fused) else raised, binding.arguments, binding.named
    )
    weight = operator.attributes.get("weight")
    if weight is not None and weight.data is not None:
        shape = (*weight.shape[:2], 1, weight.shape[2])
        image = RuntimeAttribute(weight.data.reshape(shape), shape, weight.dtype)
        operator.attributes = {**operator.attributes, "weight": image}
