"""A model compiled for one set of input shapes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..codegen.lowering import KernelStep
from ..codegen.target import Target
from ..dtypes import Array, TensorSpec
from ..graph import RuntimeGraph
from .plan import Plan, make_plan
from .session import Session
from .team import team


class CompiledModel:
    """Machine code and memory plan for one model and one set of input shapes. Immutable; may be called from many threads."""

    def __init__(
        self, graph: RuntimeGraph, inputs: dict[str, TensorSpec], target: Target, threads: int, *, exact: bool
    ) -> None:
        self.plan: Plan = make_plan(graph, inputs, target, exact=exact)
        self.threads = threads
        self._idle: list[Session] = []
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[Array], on_step: Callable[[int, float], None] | None = None) -> list[Array]:
        """The flattened outputs for inputs in file order, of exactly the shapes and dtypes that this was compiled for."""
        arrays = [np.require(array, requirements=("C", "A")) for array in inputs]
        with self._lock:
            session = self._idle.pop() if self._idle else None
        if session is None:
            session = Session(self.plan, self.threads)
        try:
            return session.run(arrays, team(), on_step)
        finally:
            with self._lock:
                self._idle.append(session)

    def step_seconds(self, inputs: Sequence[Array], repeat: int = 10) -> list[float]:
        """The least time of each step over `repeat` runs."""
        best = [float("inf")] * len(self.plan.steps)

        def timed(index: int, action: Callable[[], None]) -> None:
            start = time.perf_counter()
            action()
            best[index] = min(best[index], time.perf_counter() - start)

        for _ in range(repeat):
            self.run(inputs, timed)
        return best

    @property
    def fallbacks(self) -> list[Any]:
        """The operators that run their NumPy `forward`."""
        return [step.operator for step in self.plan.steps if not isinstance(step, KernelStep)]

    def __repr__(self) -> str:
        return f"<CompiledModel: {len(self.plan.steps)} steps, {len(self.fallbacks)} by the reference>"
