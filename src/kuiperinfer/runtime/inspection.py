"""What operands hold while a session runs: which of them are complete after which step, and their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..codegen.lowering import Buffer, Image, KernelStep, Place
from ..dtypes import Array, TensorSpec, f32
from ..graph import RuntimeOperand, RuntimeOperator
from .plan import Plan
from .plan_text import kernel_of
from .session import Session


def completed_by(plan: Plan) -> dict[int, list[RuntimeOperand]]:
    """For each step the operands that are complete after it, for step -1 those that need none.

    An operator without a step of its own makes views: they are complete when what they look at is.
    """
    place = {operator: number for number, operator in enumerate(plan.lowering.operators)}
    last_step: dict[RuntimeOperator, int] = {}
    furthest = -1
    for index, step in enumerate(plan.steps):
        # steps follow the operators; those that bring outputs to their places, at the end, start again
        if place[step.operator] >= furthest:
            furthest = place[step.operator]
            last_step[step.operator] = index
    found: dict[int, list[RuntimeOperand]] = {}
    for operator in plan.lowering.operators:
        needed = [last_step[operand.producer] for operand in operator.input_operands_seq]
        end = last_step.setdefault(operator, max(needed, default=-1))
        found.setdefault(end, []).extend(operator.output_operands)
    return found


def main_kernels(plan: Plan) -> dict[RuntimeOperator, str]:
    """The kernel of each operator that has steps, of several the one that calculates most; ``reference`` where it has none."""
    most: dict[RuntimeOperator, tuple[int, str]] = {}
    for step in plan.steps:
        flops = step.spec.flops if isinstance(step, KernelStep) else 0
        if step.operator not in most or flops >= most[step.operator][0]:
            most[step.operator] = (flops, kernel_of(step) or "reference")
    return {operator: kernel for operator, (_, kernel) in most.items()}


class Inspector:
    """Reads operands of a session between two steps of its run."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._first_write: dict[Buffer, int] = {}
        for index, step in enumerate(session.plan.steps):
            written = [step.refs[step.writes]] if isinstance(step, KernelStep) else step.refs
            for ref in written:
                self._first_write.setdefault(ref.buffer, index)

    def value(self, operand: RuntimeOperand, after: int) -> Any:
        """The value of an operand that is complete, after step `after`; None where it lies nowhere."""
        plan = self.session.plan
        home, spec = plan.lowering.homes.get(operand), plan.spec(operand)
        if home is None:
            return None
        if home.parts is not None:
            return [self.value(part, after) for part in home.parts]
        if home.is_object or not isinstance(spec, TensorSpec):
            return self.session.value(operand)
        if home.image is not None and self._is_written(home.image.ref.buffer, after):
            return self._pixels(home.image).reshape(spec.shape)
        if home.rows is not None and self._is_written(home.rows.buffer, after):
            return self.session.value(operand)
        if home.view is not None:
            base = self.value(home.view.base, after)
            if base is None:
                return None
            elements = np.ascontiguousarray(base).reshape(-1)[home.view.offset :]
            return as_strided(elements, spec.shape, [stride * elements.itemsize for stride in home.view.strides])
        return None

    def _is_written(self, buffer: Buffer, after: int) -> bool:
        """Whether a buffer holds its value yet: another layout of it may be made later, for a consumer that wants it."""
        return buffer.place in (Place.INPUT, Place.CONSTANT) or self._first_write.get(buffer, after + 1) <= after

    def _pixels(self, image: Image) -> Array:
        """A copy of an image in row-major order, (N, C, H, W)."""
        layout = image.layout
        rest = TensorSpec(((image.ref.buffer.nbytes - image.ref.offset) // 4,), f32)
        floats = self.session.memory_at(image.ref, rest)[layout.origin :]
        shape = (layout.batch, layout.blocks, layout.height, layout.width, layout.block)
        strides = (layout.image, layout.block_stride, layout.row, layout.pixel, layout.channel)
        pixels = as_strided(floats, shape, [4 * stride for stride in strides]).transpose(0, 1, 4, 2, 3)
        joined: Array = pixels.reshape(layout.batch, layout.blocks * layout.block, layout.height, layout.width)
        return joined[:, : layout.channels].copy()
