"""Memory that a model needs: its weights, and the values that are alive at the same time during a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..dtypes import TensorSpec
from ..layers.base import Spec
from ..records import dataclass
from .execution import leaves
from .parts import RuntimeOperand, RuntimeOperator

# These collect values without copying them: what they hold lives as long as the collection.
_COLLECTIONS = ("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct", "pnnx.Output")


@dataclass(frozen=True)
class MemoryNeed:
    """`peak` is the largest sum of bytes alive at once, and is reached at `operator`; `complete` is False where a shape hangs
    on data, so that it could not be counted."""

    peak: int
    operator: str
    complete: bool


def weight_count(operators: Iterable[RuntimeOperator]) -> int:
    """Numbers in all weights together."""
    return sum(math.prod(a.shape) for operator in operators for a in operator.attributes.values() if a.dtype)


def weight_bytes(operators: Iterable[RuntimeOperator]) -> int:
    """Bytes of all weights together, as they are stored."""
    weights = [a for operator in operators for a in operator.attributes.values()]
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in weights if a.dtype)


def memory_need(order: Sequence[RuntimeOperator], specs: Mapping[RuntimeOperand, Spec]) -> MemoryNeed:
    """The peak of a run in the given order, inputs and outputs included, if every value has memory of its own until its
    last use. Weights are not counted."""
    last_use = _last_uses(order)
    alive, peak, operator_at_peak = 0, 0, ""
    ends: dict[int, int] = {}  # step -> bytes that are let go after it
    complete = True
    for step, operator in enumerate(order):
        for operand in operator.output_operands:
            complete &= all(
                isinstance(leaf, (TensorSpec, bool, int, float, complex)) for leaf in leaves(specs.get(operand))
            )
            size = 0 if operator.type in _COLLECTIONS else _bytes(specs.get(operand))
            alive += size
            end = last_use.get(operand, step)
            ends[end] = ends.get(end, 0) + size
        if alive > peak:
            peak, operator_at_peak = alive, operator.name
        alive -= ends.pop(step, 0)
    return MemoryNeed(peak, operator_at_peak, complete)


def _last_uses(order: Sequence[RuntimeOperator]) -> dict[RuntimeOperand, int]:
    """The step after which each operand is no longer needed; outputs of the model are needed to the end."""
    last_use: dict[RuntimeOperand, int] = {}
    for step, operator in reversed(list(enumerate(order))):
        until = step
        if operator.type == "pnnx.Output":
            until = len(order)
        elif operator.type in _COLLECTIONS:
            until = max([step, *(last_use.get(operand, step) for operand in operator.output_operands)])
        for operand in operator.input_operands_seq:
            last_use[operand] = max(last_use.get(operand, until), until)
    return last_use


def _bytes(spec: Spec) -> int:
    return sum(leaf.nbytes for leaf in leaves(spec) if isinstance(leaf, TensorSpec))
