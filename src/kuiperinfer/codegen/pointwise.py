"""1×1 convolutions of few filters of what is no image in memory: a matrix product for each row of pixels, without reorders.

Blocks of channels would be mostly empty. As in YOLOv8, whose last convolution weighs 16 planes to one.
"""

from __future__ import annotations

from ..graph import RuntimeOperator
from ..layers.convolution import Conv
from ..passes.fused import Fused
from .homes import row_major
from .linear import Factor, Formula, Term, add_product, fused_formula
from .lowering import Lowering, as_float32


def is_product_of_rows(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Whether a convolution is a sum of a few planes that lie one after the other."""
    layer = operator.layer.base if isinstance(operator.layer, Fused) else operator.layer
    source, weight = operator.input_operands_seq[0], operator.attributes.get("weight")
    if not isinstance(layer, Conv) or layer.ndim != 2 or weight is None or lowering.is_image.get(source, False):
        return False
    spec = lowering.spec(source)
    plain = layer.groups == 1 and weight.shape[2:] == (1, 1) and layer.stride == (1, 1)
    unpadded = layer.pads((1, 1)) == ((0, 0), (0, 0))
    return plain and unpadded and spec.ndim == 4 and bool(spec.size) and 2 * weight.shape[0] <= lowering.target.lanes


def lower_product_of_rows(lowering: Lowering, operator: RuntimeOperator) -> bool:
    """Filters times channels, for each row of pixels; for whole pictures where all operands have these in one piece."""
    source, output = operator.input_operands_seq[0], operator.output_operands[0]
    weight = as_float32(operator.attributes["weight"].data)
    filters, channels = weight.shape[:2]
    formula = Formula()
    if "bias" in operator.attributes:
        bias = lowering.constant(as_float32(operator.attributes["bias"].data))
        formula = Formula("add(@0,@1)", (Term(bias, (0, 1, 0, 0)),))
    found = fused_formula(lowering, operator, formula)
    if found is None:
        return False
    place = lowering.strided(source)
    batch, _, height, width = lowering.spec(output).shape
    if place.strides[3] != 1 and width > 1:
        place = type(place)(lowering.rows(source), row_major(lowering.spec(source).shape))
    sample, plane, row, _ = place.strides
    out = lowering.new_rows(output)
    walks = [(sample, plane, row, 1), row_major((batch, filters, height, width)), *(t.strides for t in found.terms)]
    if all(walk[2] == walk[3] * width for walk in walks):
        height, width = 1, height * width
    orders = [(walk[0], walk[2] if height > 1 else 0, walk[1], walk[3]) for walk in walks]
    left = Factor(lowering.constant(weight.reshape(filters, channels)), (0, 0, channels, 1))
    right, target = Factor(place.ref, orders[0]), Factor(out, orders[1])
    terms = tuple(Term(term.ref, order) for term, order in zip(found.terms, orders[2:], strict=True))
    add_product(
        lowering, (batch, height, filters, width), channels, left, right, target, None, Formula(found.text, terms)
    )
    return True
