"""The printed form of a plan: the steps, and the buffers of the arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..codegen.lowering import Buffer, Home, KernelStep, Place, Ref, Step
from ..passes.memory_plan import Lifetime
from ..records import dataclass

if TYPE_CHECKING:
    from .plan import Plan


def kernel_of(step: Step) -> str:
    """The kind of kernel that a step runs; empty for a step that runs the reference."""
    return type(step.spec).__name__.removesuffix("Spec") if isinstance(step, KernelStep) else ""


def title_of(step: Step) -> str:
    """The names of the operators whose work a step does."""
    earlier = step.earlier if isinstance(step, KernelStep) else None
    return step.operator.name if earlier is None else f"{earlier.name} + {step.operator.name}"


@dataclass(frozen=True)
class PlacedBuffer:
    """A buffer of the arena: what lies in it (operands, or the operator that needs it for itself), when, and where."""

    contents: tuple[str, ...]
    lifetime: Lifetime
    offset: int

    @property
    def name(self) -> str:
        """What lies in it, in one word or a few."""
        return ", ".join(self.contents)


def placed_buffers(plan: Plan) -> list[PlacedBuffer]:
    """The buffers of a plan's arena, in the order in which they come to life."""
    contents: dict[Buffer, list[str]] = {}
    for operand, home in plan.lowering.homes.items():
        for buffer in _buffers(home):
            contents.setdefault(buffer, []).append(f"operand {operand.name}")
    first_user = {ref.buffer: step.operator for step in reversed(plan.steps) for ref in step.refs}
    return [
        PlacedBuffer(
            tuple(contents.get(buffer, [f"scratch of {first_user[buffer].name}"])), lifetime, plan.offsets[buffer]
        )
        for buffer, lifetime in plan.lifetimes.items()
    ]


def _buffers(home: Home) -> list[Buffer]:
    refs = [home.rows, home.image.ref if home.image else None]
    return list(dict.fromkeys(ref.buffer for ref in refs if ref is not None))


def constant_bytes(plan: Plan) -> int:
    """Bytes of the constants that steps read: weights, packed as kernels want them."""
    buffers = {ref.buffer for step in plan.steps for ref in step.refs if ref.buffer.place is Place.CONSTANT}
    return sum(buffer.nbytes for buffer in buffers)


def plan_text(plan: Plan) -> str:
    """A line a step: number, kernel, operator, number of tasks, and where its operands lie, the written one behind an arrow."""
    inputs = ", ".join(map(str, plan.input_specs))
    memory = plan.memory
    head = (
        f"plan for ({inputs}) on {plan.target.name}: {len(plan.steps)} steps, {len(set(plan.names) - {''})} kernels, "
    )
    head += f"arena {memory.nbytes:,} bytes (at least {memory.lower_bound:,} are alive at once)"
    kernels = [kernel_of(step) or "reference" for step in plan.steps]
    width = max(map(len, kernels), default=0)
    lines = [
        f"{index:4} {kernel:{width}} {step.operator.type} {title_of(step)} {_places(plan, step)}"
        for index, (kernel, step) in enumerate(zip(kernels, plan.steps, strict=True))
    ]
    return "\n".join([head, *lines])


def _places(plan: Plan, step: Step) -> str:
    if not isinstance(step, KernelStep):
        return " ".join(_place(plan, ref) for ref in step.refs)
    read: Sequence[Ref] = [ref for index, ref in enumerate(step.refs) if index != step.writes]
    listed = " ".join(_place(plan, ref) for ref in read)
    return f"tasks={step.spec.tasks} ({listed}) -> {_place(plan, step.refs[step.writes])}"


def _place(plan: Plan, ref: Ref) -> str:
    place = ref.buffer.place
    if place is Place.CONSTANT:
        return f"constant[{ref.buffer.nbytes:,}]"
    if place is Place.ARENA:
        return f"arena+{plan.offsets[ref.buffer] + ref.offset:,}"
    return f"{place.value}{ref.buffer.number}" + (f"+{ref.offset:,}" if ref.offset else "")
