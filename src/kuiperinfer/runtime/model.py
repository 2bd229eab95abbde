"""The public door: `load` a model, call it."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from .. import pnnx
from ..dtypes import Array, DType, TensorSpec, dtype_of, f32
from ..errors import InputError, KuiperError, did_you_mean
from ..graph import RuntimeGraph, RuntimeOperand, leaves, run_reference
from ..graph.execution import UNKNOWN, as_array
from ..layers.base import Spec
from .inputs import ValueInfo, as_input

ModelSource: TypeAlias = "str | os.PathLike[str] | BinaryIO | io.TextIOBase | bytes"


def load(param: ModelSource, bin: ModelSource | None = None) -> Model:
    """Loads a PNNX model: paths, open files, or bytes. The `.bin` beside a `.param` path is found by name.

    Raises `ModelFileError` for files that are not as the format allows, and `UnsupportedOperatorError` with all operator
    types that this package does not know.
    """
    return Model(RuntimeGraph.from_pnnx(pnnx.read(param, bin)))


class Model:
    """A model, ready to run. Immutable: one model may be called from many threads at once::

    model = kuiperinfer.load("net.pnnx.param")
    y = model(x)                      # an array, or a tuple of arrays where the model has several outputs
    model.run({"pnnx_input_0": x})    # {"pnnx_output_0": y}
    """

    def __init__(self, graph: RuntimeGraph) -> None:
        graph.build()
        self.graph = graph
        self.inputs: tuple[ValueInfo, ...] = tuple(
            ValueInfo(operator.name, operator.output_operands[0].shape, operator.output_operands[0].dtype)
            for operator in graph.input_operators
        )
        self.outputs: tuple[ValueInfo, ...] = _describe_outputs(graph)

    def __call__(self, *arguments: Any, **named: Any) -> Array | tuple[Array, ...]:
        """Runs the model on its inputs, in file order or by name. Any array-like is taken, and left as it is.

        Returns a fresh array, or a tuple of them in the order of `outputs`: nested results are flattened depth first.
        """
        if len(arguments) > len(self.inputs):
            raise InputError(
                f"the model takes {len(self.inputs)} inputs, {len(arguments)} were given: {self._signature()}"
            )
        given: dict[str, Any] = {info.name: value for info, value in zip(self.inputs, arguments, strict=False)}
        for name, value in named.items():
            if name in given:
                raise InputError(f"input '{name}' is given twice, by position and by name")
            given[name] = value
        results = self._run(given)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Runs the model on named inputs and returns its outputs by name (see `inputs` and `outputs`)."""
        results = self._run(inputs)
        names = [info.name for info in self.outputs]
        if len(names) != len(results):  # a list whose length only the run could tell
            names = [f"out{index}" for index in range(len(results))]
        return dict(zip(names, results, strict=True))

    def _run(self, given: Mapping[str, Any]) -> list[Array]:
        arrays = self._convert_inputs(given)
        values = run_reference(self.graph.topo_operators, arrays)
        outputs = [
            as_array(leaf)
            for operator in self.graph.output_operators
            for operand in operator.input_operands_seq
            for leaf in leaves(values[operand])
        ]
        return [_fresh(array) for array in outputs]

    def _convert_inputs(self, given: Mapping[str, Any]) -> dict[str, Array]:
        names = [info.name for info in self.inputs]
        for name in given:
            if name not in names:
                raise InputError(
                    f"there is no input '{name}'; the inputs are {self._signature()}{did_you_mean(name, names)}"
                )
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(f"input {', '.join(map(repr, missing))} is missing; the inputs are {self._signature()}")
        return {info.name: as_input(given[info.name], info) for info in self.inputs}

    def infer(self, *shapes: Sequence[int] | TensorSpec) -> dict[str, Spec]:
        """The spec of every operand by name, for input shapes in file order (left out: as annotated in the file).

        Raises `ShapeError`, naming operator and constant, where the model cannot take these shapes.
        """
        if len(shapes) > len(self.inputs):
            raise InputError(f"the model takes {len(self.inputs)} inputs, {len(shapes)} shapes were given")
        given = {
            info.name: shape if isinstance(shape, TensorSpec) else TensorSpec(tuple(shape), info.dtype or f32)
            for info, shape in zip(self.inputs, shapes, strict=False)
        }
        return {operand.name: spec for operand, spec in self.graph.infer(given).items()}

    def _signature(self) -> str:
        return ", ".join(map(str, self.inputs)) or "none"

    def __repr__(self) -> str:
        outputs = ", ".join(map(str, self.outputs)) or "none"
        return f"<kuiperinfer.Model ({self._signature()}) -> ({outputs})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self.graph,)


def _fresh(array: Array) -> Array:
    """An array that shares memory with nothing: outputs may be views of inputs, of weights or of one another."""
    return np.array(array, copy=True, order="C")


# ------------------------------------------------------------------------------------------- what the outputs are


def _describe_outputs(graph: RuntimeGraph) -> tuple[ValueInfo, ...]:
    """The flattened outputs: inferred where the file's input shapes are complete, else as annotated."""
    try:
        specs: Mapping[RuntimeOperand, Spec] = graph.infer()
    except KuiperError:
        specs = {}
    found: list[ValueInfo] = []
    for operator in graph.output_operators:
        infos = [info for operand in operator.input_operands_seq for info in _describe(operand, specs)]
        single = len(infos) == 1
        for index, (shape, dtype) in enumerate(infos):
            found.append(ValueInfo(operator.name if single else f"{operator.name}.{index}", shape, dtype))
    return tuple(found)


Description: TypeAlias = tuple["tuple[int | None, ...] | None", "DType | None"]


def _describe(operand: RuntimeOperand, specs: Mapping[RuntimeOperand, Spec]) -> list[Description]:
    spec = specs.get(operand, UNKNOWN)
    if not _hides_unknown(spec):
        return [_describe_leaf(leaf) for leaf in leaves(spec)]
    if operand.producer.type in ("prim::TupleConstruct", "prim::ListConstruct"):
        return [found for part in operand.producer.input_operands_seq for found in _describe(part, specs)]
    if operand.producer.type == "prim::DictConstruct":
        return [found for part in operand.producer.input_operands_seq[1::2] for found in _describe(part, specs)]
    return [(operand.shape, operand.dtype)]


def _hides_unknown(spec: Spec) -> bool:
    return any(leaf is UNKNOWN for leaf in leaves(spec))


def _describe_leaf(leaf: Spec) -> Description:
    if isinstance(leaf, TensorSpec):
        return leaf.shape, leaf.dtype
    return (), dtype_of(np.asarray(leaf))


__all__ = ["Model", "ModelSource", "ValueInfo", "load"]
