"""A compiled model held against the reference, operand by operand.

Passes fuse operators, so the compiled model does not have every operand of the graph: those that exist in both are compared,
each at the moment at which it is complete, because its memory is used again later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..codegen.kernels.winograd import WinogradSpec
from ..codegen.lowering import KernelStep
from ..dtypes import Array
from ..errors import CompileError
from ..graph import RuntimeOperand, leaves, run_reference
from ..graph.execution import as_array
from ..layers.creation import manual_seed
from ..records import dataclass
from .comparison import Comparison, compare
from .inspection import Inspector, completed_by, main_kernels
from .plan import Plan
from .session import Session
from .team import team

if TYPE_CHECKING:
    from .compiled import CompiledModel

# Relative to the operand's largest magnitude; of operands within a model, to which the errors of all before have added up.
TOLERANCE, WINOGRAD_TOLERANCE = 1e-4, 1e-3

# What is given, and collections: what they hold has been compared, and need not be there any more.
_UNCOMPARED = ("pnnx.Input", "pnnx.Attribute", "prim::TupleConstruct", "prim::ListConstruct", "prim::DictConstruct")


@dataclass(frozen=True)
class OperandResult:
    """One operand of both: what makes it, by which kernel (``reference`` for none, ``view`` where there is no step), and how
    far they are apart."""

    operand: str
    operator: str
    kernel: str
    comparison: Comparison

    def __str__(self) -> str:
        problem = f": {self.comparison.problem}" if self.comparison.problem else ""
        return f"operand '{self.operand}' of {self.operator}, kernel {self.kernel}{problem}"


def uses_winograd(plan: Plan) -> bool:
    """Whether a plan has a kernel whose rounding is coarser than that of plain sums."""
    return any(isinstance(step, KernelStep) and isinstance(step.spec, WinogradSpec) for step in plan.steps)


def tolerance_of(plan: Plan) -> float:
    """How far floats of a compiled model may be from the reference's, relative to the largest magnitude."""
    return WINOGRAD_TOLERANCE if uses_winograd(plan) else TOLERANCE


def run_beside_reference(
    compiled: CompiledModel,
    arrays: Sequence[Array],
    on_result: Callable[[OperandResult], None],
    tolerance: float | None = None,
) -> list[Array]:
    """Runs the compiled model on inputs in file order, and tells `on_result` of each operand that the reference has too.

    Operands come in the order in which they are complete. `tolerance` is that for floats, by default
    `tolerance_of` the plan. Returns the outputs of the compiled model. Both draw the same random
    numbers, for which the seed is set anew.
    """
    plan, graph = compiled.plan, compiled.model.graph
    if tolerance is None:
        tolerance = tolerance_of(plan)
    manual_seed(0)
    inputs = {operator.name: array for operator, array in zip(graph.input_operators, arrays, strict=True)}
    reference = {
        operand.name: value for operand, value in run_reference(graph.topo_operators, inputs, keep=True).items()
    }
    manual_seed(0)
    session, completed, kernels = Session(plan, compiled.threads), completed_by(plan), main_kernels(plan)
    inspector = Inspector(session)

    def compare_operand(operand: RuntimeOperand, after: int) -> None:
        if operand.name not in reference or operand.producer.type in _UNCOMPARED:
            return
        found, expected = leaves(inspector.value(operand, after)), leaves(reference[operand.name])
        if len(found) != len(expected):
            return  # nothing of it was ever in memory
        kernel = kernels.get(operand.producer, "view")
        for one, other in zip(found, expected, strict=True):
            comparison = compare(as_array(one), as_array(other), tolerance)
            on_result(OperandResult(operand.name, operand.producer.place, kernel, comparison))

    def on_step(index: int, action: Callable[[], None]) -> None:
        if index == 0:
            for operand in completed.get(-1, ()):
                compare_operand(operand, -1)
        action()
        for operand in completed.get(index, ()):
            compare_operand(operand, index)

    return session.run(arrays, team(), on_step)


def run_compared(compiled: CompiledModel, arrays: Sequence[Array]) -> list[Array]:
    """The outputs of a run during which every operand is compared; `CompileError` at the first that differs."""

    def stop(result: OperandResult) -> None:
        if not result.comparison.ok:
            raise CompileError(
                f"the compiled model differs from the reference at {result}; settings.engine='reference' avoids it, "
                f"and settings.passes_off tells whether a pass is to blame: please report this model"
            )

    return run_beside_reference(compiled, arrays, stop)


def run_both(compiled: CompiledModel, arrays: Sequence[Array], tolerance: float | None = None) -> list[OperandResult]:
    """All operands that exist in both, compared on the same inputs; see `run_beside_reference`."""
    results: list[OperandResult] = []
    run_beside_reference(compiled, arrays, results.append, tolerance)
    return results
