"""A plan: everything about one model at one set of input shapes that does not change from run to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..codegen.cache import load_kernels
from ..codegen.constants import Constants
from ..codegen.depth_first import fuse_depth_first
from ..codegen.lowering import Buffer, KernelStep, Lowering, Place, Ref, Step
from ..codegen.objects import Library
from ..codegen.spec import kernel_name
from ..codegen.target import Target, target_named
from ..dtypes import TensorSpec
from ..errors import CompileError, KuiperError
from ..graph import RuntimeGraph, RuntimeOperand
from ..layers.base import is_imported
from ..passes import is_off, optimise
from ..passes.memory_plan import Lifetime, MemoryPlan, plan_memory
from ..records import dataclass
from ..settings import debug_print, settings
from .plan_text import plan_text
from .team import native_spec


@dataclass(eq=False)
class Plan:
    """Steps in order, the arena's layout, and the machine code that they call.

    `names[i]` is the kernel of step i, empty for a step that runs the reference. `outputs` are the operands (or, where known
    beforehand, the values) that the model returns, flattened.
    """

    target: Target
    steps: list[Step]
    names: list[str]
    library: Library
    memory: MemoryPlan
    lifetimes: dict[Buffer, Lifetime]
    offsets: dict[Buffer, int]
    scratch_floats: int
    lowering: Lowering
    input_specs: tuple[TensorSpec, ...]

    @property
    def outputs(self) -> list[Any]:
        """The operands, or known values, that the model returns."""
        return self.lowering.outputs

    def spec(self, operand: RuntimeOperand) -> Any:
        """What is known of an operand."""
        return self.lowering.specs[operand]

    def __str__(self) -> str:
        return plan_text(self)


def make_plan(
    graph: RuntimeGraph,
    inputs: Mapping[str, TensorSpec],
    target: Target,
    *,
    exact: bool,
    constants: Constants | None = None,
) -> Plan:
    """Passes, lowering, memory plan and machine code for a graph at given input shapes.

    Plans with the same `constants` share packed weights. Raises `ShapeError` where the model cannot take these shapes and
    `CompileError` where code cannot be made.
    """
    try:
        return _make_plan(graph, inputs, target, exact, constants or Constants())
    except KuiperError:
        raise
    except Exception as error:
        raise CompileError(
            f"the compiler failed in an unforeseen way ({type(error).__name__}: {error}); please report this model"
        ) from error


def _make_plan(
    graph: RuntimeGraph, inputs: Mapping[str, TensorSpec], target: Target, exact: bool, constants: Constants
) -> Plan:
    operators, specs = optimise(graph, inputs)
    lowering = Lowering(operators, specs, target, exact=exact, slice_planner=_plan_slices, constants=constants)
    lowering.run()
    if not is_off("fuse_depth_first"):
        lowering.steps = fuse_depth_first(lowering.steps, target)
    lifetimes = _arena_lifetimes(lowering.steps)
    memory = plan_memory(list(lifetimes.values()))
    offsets = dict(zip(lifetimes, memory.offsets, strict=True))
    names = [kernel_name(step.spec, target) if isinstance(step, KernelStep) else "" for step in lowering.steps]
    kernels = {
        name: step.spec for name, step in zip(names, lowering.steps, strict=True) if isinstance(step, KernelStep)
    }
    scratch = max((spec.scratch_floats for spec in kernels.values()), default=0)
    specs_in_order = tuple(inputs[operator.name] for operator in graph.input_operators)
    library = load_kernels(kernels, target, also=native_spec() if target == target_named("host") else None)
    plan = Plan(target, lowering.steps, names, library, memory, lifetimes, offsets, scratch, lowering, specs_in_order)
    if settings.debug >= 4:
        debug_print(4, str(plan))
    return plan


def _plan_slices(lowering: Lowering) -> dict[RuntimeOperand, tuple[RuntimeOperand, int]]:
    if not is_imported("joining"):
        return {}  # the model joins nothing
    from ..codegen.joining import plan_slices

    return plan_slices(lowering)


def _arena_lifetimes(steps: Sequence[Step]) -> dict[Buffer, Lifetime]:
    """The buffers of the arena, in order: each lives from the first step that names it to the last."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for index, step in enumerate(steps):
        for ref in step.refs:
            if ref.buffer.place is Place.ARENA:
                first.setdefault(ref.buffer, index)
                last[ref.buffer] = index
    return {buffer: Lifetime(buffer.nbytes, first[buffer], last[buffer]) for buffer in first}


__all__ = ["Plan", "Ref", "make_plan"]
