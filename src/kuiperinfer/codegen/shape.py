"""How reshapes, permutations and expansions are lowered: as views, which cost nothing until a kernel wants rows."""

from __future__ import annotations

from ..dtypes import TensorSpec
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers import shape
from .homes import Home
from .layout import NO_HALO, Halo
from .lowering import Lowering, lowers
from .views import alias_views, data_operand


def _stays_image(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether (N, C, 1, L) becomes (N, C, L) or the other way round, which is one and the same as an image."""
    source, output = data_operand(operator), operator.output_operands[0]
    if not lowering.is_image.get(source, False):
        return False
    return _as_image(lowering, source) == _as_image(lowering, output)


def _as_image(lowering: Lowering, operand: RuntimeOperand) -> tuple[int, ...]:
    spec = lowering.specs[operand]
    return lowering.image_shape(operand) if isinstance(spec, TensorSpec) and spec.ndim in (3, 4) else ()


def _halo(lowering: Lowering, operator: RuntimeOperator, index: int) -> Halo:
    """What is wanted around the output, where it differs from the input in dimensions of size 1 alone."""
    output, source = operator.output_operands[0], data_operand(operator)
    sizes = [
        [size for size in spec.shape if size != 1] if isinstance(spec, TensorSpec) else None
        for spec in (lowering.specs[source], lowering.specs[output])
    ]
    return lowering.halos.get(output, NO_HALO) if sizes[0] == sizes[1] and sizes[0] is not None else NO_HALO


@lowers(
    shape.Flatten,
    shape.Reshape,
    shape.ReshapeAs,
    shape.Squeeze,
    shape.Unflatten,
    shape.Unsqueeze,
    layout=_stays_image,
    halo=_halo,
    any_dtype=True,
)
def lower_reshape(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """The same elements in the same order."""
    home = lowering.homes[data_operand(operator)]
    output = operator.output_operands[0]
    if home.image is not None and _stays_image(lowering, operator):
        lowering.alias(output, Home(rows=home.rows, image=home.image))
        return True
    return alias_views(lowering, operator)


@lowers(
    shape.Permute,
    shape.Transpose,
    shape.MatrixTranspose,
    shape.MoveDim,
    shape.Expand,
    shape.ExpandAs,
    shape.AsStrided,
    layout=lambda lowering, operator: False,
    any_dtype=True,
)
def lower_view(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """The same elements in another order, or several times."""
    return alias_views(lowering, operator)
