"""Steps as a PNNX graph, named and numbered as the converter does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import pnnx
from ...dtypes import Array
from .steps import EXPRESSION, Step, Value


def build_graph(inputs: Sequence[Value], steps: Sequence[Step], result: Any) -> pnnx.Graph:
    """The graph of a run: `inputs` are its inputs, `result` is a value or a tuple of results."""
    return _Builder().build(inputs, steps, result)


class _Builder:
    def __init__(self) -> None:
        self.graph = pnnx.Graph()
        self.operands: dict[int, pnnx.Operand] = {}
        self.names: set[str] = set()
        self.counts: Counter[str] = Counter()

    def build(self, inputs: Sequence[Value], steps: Sequence[Step], result: Any) -> pnnx.Graph:
        """Operators in the order of the run; constants stand before the step that needs them first."""
        self.names = {step.name for step in steps if step.name}  # modules come first: generated names give way
        for value in inputs:
            self.add(self.numbered("pnnx_input"), "pnnx.Input", [], [value])
        taken: set[str] = set()
        for step in steps:
            if step.name and step.name not in taken:
                name = step.name
                taken.add(name)
            else:
                name = self.unique(step.name) if step.name else self.numbered(_prefix(step.type))
            self.add_step(name, step)
        operand = self.result(result)
        self.connect(pnnx.Operator("pnnx.Output", self.numbered("pnnx_output")), [operand])
        return self.graph

    def add_step(self, name: str, step: Step) -> None:
        params = dict(step.params)
        if step.tree is not None:
            params["expr"] = str(step.tree)
        operator = self.add(name, step.type, step.inputs, step.outputs)
        operator.params = {key: pnnx.parameter(value) for key, value in params.items()}
        operator.attributes = {key: _attribute(weight) for key, weight in step.weights.items()}
        operator.input_names = list(step.input_names)

    def add(self, name: str, type: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> pnnx.Operator:
        """One more operator, after the constants among its inputs."""
        sources = [self.operand(value) for value in inputs]
        operator = pnnx.Operator(type, name)
        self.connect(operator, sources)
        for value in outputs:
            self.operands[id(value)] = self.new_operand(operator, value)
        return operator

    def connect(self, operator: pnnx.Operator, inputs: Sequence[pnnx.Operand]) -> None:
        operator.inputs = list(inputs)
        for operand in inputs:
            operand.consumers.append(operator)
        self.graph.operators.append(operator)

    def new_operand(self, producer: pnnx.Operator, value: Value | None) -> pnnx.Operand:
        """Operands are numbered; one without dimensions is not annotated, as in the converter's files."""
        operand = pnnx.Operand(str(len(self.graph.operands)), producer)
        if value is not None and value.shape:
            operand.shape, operand.dtype = value.shape, value.dtype
        producer.outputs.append(operand)
        self.graph.operands[operand.name] = operand
        return operand

    def operand(self, value: Value) -> pnnx.Operand:
        if id(value) not in self.operands:
            assert value.constant is not None, "a value that nothing made"
            name = self.unique(value.name) if value.name else self.numbered("pnnx_fold")
            operator = self.add(name, "pnnx.Attribute", [], [value])
            operator.attributes = {"data": _attribute(value.constant)}
        return self.operands[id(value)]

    def result(self, result: Any) -> pnnx.Operand:
        if isinstance(result, Value):
            return self.operand(result)
        items = [self.result(item) for item in result]
        operator = pnnx.Operator("prim::TupleConstruct", self.numbered("pnnx"))
        self.connect(operator, items)
        return self.new_operand(operator, None)

    # --------------------------------------------------------------------------------------- names

    def numbered(self, prefix: str) -> str:
        while True:
            name = f"{prefix}_{self.counts[prefix]}"
            self.counts[prefix] += 1
            if name not in self.names:
                self.names.add(name)
                return name

    def unique(self, name: str) -> str:
        if name in self.names:
            return self.numbered(name)
        self.names.add(name)
        return name


def _prefix(type: str) -> str:
    if type == EXPRESSION:
        return "pnnx_expr"
    return type.removeprefix("nn.").lower() if type.startswith("nn.") else type


def _attribute(array: Array) -> pnnx.Attribute:
    return pnnx.Attribute.of(np.asarray(array))
