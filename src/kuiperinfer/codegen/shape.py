"""How reshapes, permutations and expansions are lowered: as views, which cost nothing until a kernel wants rows."""

from __future__ import annotations

from ..dtypes import TensorSpec
from ..graph import RuntimeOperand, RuntimeOperator
from ..layers import shape
from .homes import Home
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


@lowers(
    shape.Flatten,
    shape.Reshape,
    shape.ReshapeAs,
    shape.Squeeze,
    shape.Unflatten,
    shape.Unsqueeze,
    layout=_stays_image,
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
