"""A model compiled for one set of input shapes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.lowering import KernelStep, Step
from ..dtypes import Array, TensorSpec
from ..errors import InputError, ShapeError
from ..graph import RuntimeOperator
from ..locks import Lock
from ..records import dataclass
from ..settings import debug_print, settings
from .arenas import Arenas
from .plan import Plan
from .plan_text import kernel_of, title_of
from .session import Session
from .team import team

if TYPE_CHECKING:
    from .model import Model

_MOST_IDLE_SESSIONS = 4


@dataclass(frozen=True)
class StepTime:
    """One step of a plan and the least time that it took: `kernel` is empty where the step runs the reference.

    `title` names all operators whose work it does, `operator` is the last of them. `flops` and `traffic` (bytes) are what the
    step has to do at least, 0 where that is not known.
    """

    operator: RuntimeOperator
    title: str
    kernel: str
    seconds: float
    flops: int
    traffic: int


@dataclass(frozen=True)
class Span:
    """When a step began, in seconds from the begin of its run, and the seconds that it took."""

    start: float
    seconds: float


class CompiledModel:
    """Machine code and a memory plan for one model and one set of input shapes; call it like the model.

    Immutable: it may be called from many threads at once, each call with memory of its own. Made by `Model.compile`.
    """

    def __init__(self, model: Model, plan: Plan, threads: int, arenas: Arenas) -> None:
        self.model = model
        self.plan = plan
        self.threads = threads
        self._arenas = arenas
        self._idle: list[Session] = []
        self._lock = Lock()

    def __call__(self, *arguments: Any) -> Array | tuple[Array, ...]:
        """Runs on inputs of the shapes that this was compiled for; as `Model.__call__` otherwise."""
        results = self.run(self._checked(self.model.convert(arguments)))
        return results[0] if len(results) == 1 else tuple(results)

    def _checked(self, arrays: Sequence[Array]) -> Sequence[Array]:
        for info, array, spec in zip(self.model.inputs, arrays, self.plan.input_specs, strict=True):
            if TensorSpec.of(array) != spec:
                raise ShapeError(
                    f"input '{info.name}': compiled for {spec}, found {TensorSpec.of(array)}; call the model itself, "
                    f"or compile it for this shape"
                )
        return arrays

    def run(
        self, inputs: Sequence[Array], on_step: Callable[[int, Callable[[], None]], None] | None = None
    ) -> list[Array]:
        """The flattened outputs for inputs in file order, of exactly the shapes and dtypes that this was compiled for.

        With `settings.compare`, the reference runs beside it: `CompileError` at the first operand that differs.
        """
        if on_step is None and settings.compare:
            from .against_reference import run_compared

            return run_compared(self, inputs)
        if on_step is None and settings.debug >= 2:
            on_step = self._print_step
        arrays = [np.require(array, requirements=("C", "A")) for array in inputs]
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is None:
            session = Session(self.plan, self.threads, self._arenas)
        try:
            return session.run(arrays, team(), on_step)
        finally:
            with self._lock:
                if len(self._idle) < _MOST_IDLE_SESSIONS:
                    self._idle.append(session)

    def profile(self, *arguments: Any, repeat: int = 20) -> list[StepTime]:
        """The least time of each step over `repeat` runs; without arguments on random input."""
        runs = self.time_steps(*arguments, repeat=repeat)
        return self.describe_steps([min(span.seconds for span in spans) for spans in zip(*runs, strict=True)])

    def describe_steps(self, seconds: Sequence[float]) -> list[StepTime]:
        """The steps, with the given times."""
        return [_step_time(step, time) for step, time in zip(self.plan.steps, seconds, strict=True)]

    def time_steps(self, *arguments: Any, repeat: int = 20) -> list[list[Span]]:
        """When each step began in each of `repeat` runs, and how long it took; without arguments on random input."""
        arrays = self._checked(self.model.convert(arguments)) if arguments else self._random_inputs()
        if repeat < 1:
            raise InputError(f"repeat: expected at least 1, found {repeat}")
        runs: list[list[Span]] = []
        for _ in range(repeat):
            spans: list[Span] = []
            begin = time.perf_counter()

            def timed(index: int, action: Callable[[], None], spans: list[Span] = spans, begin: float = begin) -> None:
                start = time.perf_counter()
                action()
                spans.append(Span(start - begin, time.perf_counter() - start))

            self.run(arrays, timed)
            runs.append(spans)
        return runs

    def _print_step(self, index: int, action: Callable[[], None]) -> None:
        step, start = self.plan.steps[index], time.perf_counter()
        action()
        took = f"{(time.perf_counter() - start) * 1e3:9.3f} ms"
        debug_print(2, f"{kernel_of(step) or 'reference':20} {title_of(step):28} {took}")

    def _random_inputs(self) -> list[Array]:
        generator = np.random.default_rng(0)
        return [
            generator.standard_normal(spec.shape).astype(spec.dtype.storage)
            if spec.dtype.kind == "float"
            else np.zeros(spec.shape, spec.dtype.storage)
            for spec in self.plan.input_specs
        ]

    @property
    def fallbacks(self) -> list[RuntimeOperator]:
        """The operators that run their NumPy `forward`."""
        return [step.operator for step in self.plan.steps if not isinstance(step, KernelStep)]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what another process makes of this, is compiled there: for the same shapes, threads and precision."""
        precision = "exact" if self.plan.lowering.exact else "fast"
        return _compile_again, (self.model, self.plan.input_specs, self.threads, precision)

    def __repr__(self) -> str:
        shapes = ", ".join(map(str, self.plan.input_specs))
        return f"<kuiperinfer.CompiledModel ({shapes}), {len(self.plan.steps)} steps, threads={self.threads}>"


def _compile_again(model: Model, specs: tuple[TensorSpec, ...], threads: int, precision: str) -> CompiledModel:
    return model.compile(*specs, threads=threads, precision=precision)


def _step_time(step: Step, seconds: float) -> StepTime:
    spec = step.spec if isinstance(step, KernelStep) else None
    flops, traffic = (spec.flops, spec.traffic) if spec else (0, 0)
    return StepTime(step.operator, title_of(step), kernel_of(step), seconds, flops, traffic)
