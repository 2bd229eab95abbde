"""How element-wise expressions are lowered: one fused loop, over blocked images or over strided operands."""

from __future__ import annotations

from ..dtypes import TensorSpec
from ..graph import RuntimeOperator
from ..passes.fused import Map
from .expressions import is_vectorizable
from .kernels.image_map import plan_image_map
from .kernels.map import MapOperand, plan_map
from .lowering import Lowering, lowers


def _is_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether an expression is one of images: all have four dimensions, and one lies blocked already."""
    specs = [lowering.specs[operand] for operand in operator.input_operands_seq]
    blocked = any(lowering.is_image.get(operand, False) for operand in operator.input_operands_seq)
    return blocked and all(isinstance(spec, TensorSpec) and spec.ndim == 4 and 0 not in spec.shape for spec in specs)


@lowers(Map, layout=_is_image)
def lower_map(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """A map of float32 operands, broadcast as they need to be."""
    layer, output = operator.layer, operator.output_operands[0]
    assert isinstance(layer, Map)
    operands = list(operator.input_operands_seq)
    specs = [lowering.spec(operand) for operand in operands]
    if not is_vectorizable(layer.tree, specs):
        return False
    if _is_image(lowering, operator):
        images = [lowering.image(operand) for operand in operands]
        out = lowering.new_image(output)
        spec = plan_image_map(layer.text, [image.layout for image in images], out.layout)
        lowering.add(spec, *(image.ref for image in images), out.ref)
        return True
    shape = lowering.spec(output).shape
    placed = [lowering.strided(operand) for operand in operands]
    strides = [_broadcast(one.strides, found.shape, len(shape)) for one, found in zip(placed, specs, strict=True)]
    target = lowering.new_rows(output)
    rows = lowering.strided(output)
    plan = plan_map(layer.text, shape, [MapOperand(steps) for steps in strides], MapOperand(rows.strides))
    lowering.add(plan, *(one.ref for one in placed), target)
    return True


def _broadcast(strides: tuple[int, ...], shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Strides of `rank` dimensions, 0 where the operand is broadcast."""
    own = tuple(0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True))
    return (0,) * (rank - len(own)) + own
