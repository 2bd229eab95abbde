"""A session: the memory of one run of a plan. Runs that go on at the same time have a session each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..codegen.lowering import Home, KernelStep, Place, Ref, ReferenceStep
from ..dtypes import Array, TensorSpec
from ..graph import RuntimeOperand
from ..graph.execution import as_array, run_operator
from ..layers.base import map_value
from .arenas import Arenas
from .plan import Plan
from .team import Team

_NO_ARENA: Array = np.empty(0, np.uint8)


class Session:
    """The argument tables of all steps, the table of steps that native code walks, and for each run an arena."""

    def __init__(self, plan: Plan, threads: int, arenas: Arenas | None = None) -> None:
        self.plan = plan
        self.threads = threads
        self.arena = _NO_ARENA
        self._arenas = arenas or Arenas()
        self._base = 0  # the address of the arena that the tables are for
        self._outputs: list[Array | None] = []
        self._objects: dict[RuntimeOperand, Any] = {}
        self._build_tables()

    def _build_tables(self) -> None:
        """Argument pointers that never change are filled in; those of inputs, outputs and arena are noted to be patched."""
        kernel_steps = [step for step in self.plan.steps if isinstance(step, KernelStep)]
        self.arguments = np.zeros(max(1, sum(len(step.refs) for step in kernel_steps)), np.int64)
        self.table = np.zeros((len(self.plan.steps), 3), np.int64)
        self._patches: list[tuple[int, Place, int, int]] = []
        in_arena: list[int] = []
        self.segments: list[tuple[int, int]] = []  # runs of native steps, [first, last)
        place, base = 0, self.arguments.ctypes.data
        for index, step in enumerate(self.plan.steps):
            if not isinstance(step, KernelStep):
                continue
            address = self.plan.library.addresses[self.plan.names[index]]
            self.table[index] = (address, step.spec.tasks, base + 8 * place)
            for ref in step.refs:
                if ref.buffer.place in (Place.INPUT, Place.OUTPUT):
                    self._patches.append((place, ref.buffer.place, ref.buffer.number, ref.offset))
                elif ref.buffer.place is Place.ARENA:
                    self.arguments[place] = self.plan.offsets[ref.buffer] + ref.offset
                    in_arena.append(place)
                else:
                    assert ref.buffer.data is not None
                    self.arguments[place] = int(ref.buffer.data.ctypes.data) + ref.offset
                place += 1
            if self.segments and self.segments[-1][1] == index:
                self.segments[-1] = (self.segments[-1][0], index + 1)
            else:
                self.segments.append((index, index + 1))
        self._in_arena = np.array(in_arena, np.intp)

    def _lie_in(self, arena: Array) -> None:
        """Makes the tables those for an arena, which often is the one of the last run."""
        base = int(arena.ctypes.data)
        if base != self._base:
            self.arguments[self._in_arena] += base - self._base
            self._base = base
        self.arena = arena

    def run(self, inputs: Sequence[Array], team: Team, on_step: Any = None) -> list[Array]:
        """The model's outputs for inputs in file order: contiguous arrays of the plan's shapes and dtypes."""
        arena = self._arenas.take(self.plan.memory.nbytes)
        try:
            self._lie_in(arena)
            self._inputs = inputs
            self._outputs = self._fresh_outputs()
            for place, kind, number, offset in self._patches:
                array = inputs[number] if kind is Place.INPUT else self._outputs[number]
                assert array is not None
                self.arguments[place] = array.ctypes.data + offset
            if on_step is not None:
                self._run_one_by_one(team, on_step)
            else:
                self._run_segments(team)
            return self._collect()
        finally:
            self._inputs, self._outputs, self.arena = (), [], _NO_ARENA
            self._objects.clear()
            self._arenas.give_back(arena)

    def _run_segments(self, team: Team) -> None:
        index, segments = 0, iter([*self.segments, (len(self.plan.steps), len(self.plan.steps))])
        for first, last in segments:
            for number in range(index, first):
                self._run_reference(self.plan.steps[number])
            if first < last:
                team.run(self.table, first, last, self.plan.scratch_floats, self.threads)
            index = last

    def _run_one_by_one(self, team: Team, on_step: Any) -> None:
        for index, step in enumerate(self.plan.steps):
            on_step(index, lambda step=step, index=index: self._run_step(index, step, team))

    def _run_step(self, index: int, step: Any, team: Team) -> None:
        if isinstance(step, KernelStep):
            team.run(self.table, index, index + 1, self.plan.scratch_floats, self.threads)
        else:
            self._run_reference(step)

    def _run_reference(self, step: Any) -> None:
        assert isinstance(step, ReferenceStep)
        results = run_operator(step.operator, self.value)
        for operand, result in zip(step.outputs, results, strict=True):
            home = self.plan.lowering.homes[operand]
            if home.is_object:
                self._objects[operand] = map_value(_own, result)
            else:
                assert home.rows is not None
                self.memory_at(home.rows, self.plan.spec(operand))[...] = result

    def value(self, operand: RuntimeOperand) -> Any:
        """What an operand holds at this moment of the run: a view of the arena, a Python value, or a list of these."""
        home: Home = self.plan.lowering.homes[operand]
        if home.is_object:
            return self._objects[operand]
        if home.parts is not None:
            return [self.value(part) for part in home.parts]
        spec = self.plan.spec(operand)
        if not isinstance(spec, TensorSpec):
            return home.value
        assert home.rows is not None
        return self.memory_at(home.rows, spec)

    def memory_at(self, ref: Ref, spec: TensorSpec) -> Array:
        """An array that looks at the memory behind an address."""
        buffer, start = ref.buffer, ref.offset
        if buffer.place is Place.ARENA:
            memory, start = self.arena, self.plan.offsets[buffer] + ref.offset
        elif buffer.place is Place.CONSTANT:
            assert buffer.data is not None
            memory = buffer.data
        else:
            held = self._inputs[buffer.number] if buffer.place is Place.INPUT else self._outputs[buffer.number]
            assert held is not None
            memory = held
        memory = memory.reshape(-1).view(np.uint8)
        return memory[start : start + spec.nbytes].view(spec.dtype.storage).reshape(spec.shape)

    def _fresh_outputs(self) -> list[Array | None]:
        made: list[Array | None] = []
        for leaf in self.plan.outputs:
            spec = self.plan.spec(leaf)
            made.append(np.empty(spec.shape, spec.dtype.storage) if isinstance(spec, TensorSpec) else None)
        return made

    def _collect(self) -> list[Array]:
        collected: list[Array] = []
        for number, leaf in enumerate(self.plan.outputs):
            home = self.plan.lowering.homes[leaf]
            output = self._outputs[number]
            if output is not None and home.rows is not None:
                rows = home.rows.buffer
                if rows.place is not Place.OUTPUT or rows.number != number or home.rows.offset:
                    np.copyto(output, self.memory_at(home.rows, self.plan.spec(leaf)))
                collected.append(output)
            else:
                map_value(lambda value: collected.append(np.array(as_array(value))), self.value(leaf))
        return collected


def _own(leaf: Any) -> Any:
    """A leaf that does not look at the arena, which later steps write."""
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf
