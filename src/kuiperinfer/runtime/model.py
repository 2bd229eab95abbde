"""The public door: `load` a model, call it."""

from __future__ import annotations

import io
import os
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from .. import pnnx
from ..codegen.constants import Constants
from ..codegen.target import current_target, runs_here
from ..dtypes import Array, DType, TensorSpec, dtype_of, f32
from ..errors import CompileError, InputError, KuiperError, did_you_mean
from ..graph import RuntimeGraph, RuntimeOperand, leaves, run_reference
from ..graph.execution import UNKNOWN, as_array
from ..layers.base import Spec
from ..locks import Lock
from ..settings import settings
from .arenas import Arenas
from .compiled import CompiledModel
from .inputs import ValueInfo, as_input
from .plan import make_plan
from .team import default_threads

ModelSource: TypeAlias = "str | os.PathLike[str] | BinaryIO | io.TextIOBase | bytes"


def load(param: ModelSource, bin: ModelSource | None = None) -> Model:
    """Loads a PNNX model: paths, open files, or bytes. The `.bin` beside a `.param` path is found by name.

    The path may be that of the `.pnnx.param` file, the same without this ending, or a folder with one model.
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
        self._plans: OrderedDict[Any, CompiledModel] = OrderedDict()
        self._constants = Constants()
        self._arenas = Arenas()
        self._lock, self._compiling = Lock(), Lock()

    def __call__(self, *arguments: Any, **named: Any) -> Array | tuple[Array, ...]:
        """Runs the model on its inputs, in file order or by name. Any array-like is taken, and left as it is.

        The first call with an input shape compiles the model for it (`settings.engine`). Returns a fresh array, or a tuple of
        them in the order of `outputs`: nested results are flattened depth first.
        """
        results = self._run(self.convert(arguments, named))
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Runs the model on named inputs and returns its outputs by name (see `inputs` and `outputs`)."""
        results = self._run(self.convert((), inputs))
        names = [info.name for info in self.outputs]
        if len(names) != len(results):  # a list whose length only the run could tell
            names = [f"out{index}" for index in range(len(results))]
        return dict(zip(names, results, strict=True))

    def compile(
        self, *shapes: Sequence[int] | TensorSpec, threads: int | None = None, precision: str | None = None
    ) -> CompiledModel:
        """Machine code for the given input shapes, in file order (left out: as annotated in the file).

        `threads` and `precision` stand for the settings of these names. Compiled models are kept: the same request gives the
        same object, and a call of the model with these shapes uses it. Raises `ShapeError` where the model cannot take the
        shapes, `InputError` where this machine cannot run the target's code, and `CompileError` where code cannot be made.
        """
        with settings(**_given(threads=threads, precision=precision)):
            return self._compiled(tuple(self._input_specs(shapes).values()))

    def _compiled(self, specs: tuple[TensorSpec, ...]) -> CompiledModel:
        now = settings.current()
        threads, exact = now.threads or default_threads(), now.precision == "exact"
        key = (specs, now.target, threads, exact, now.passes_off)
        found = self._find(key)
        if found is None:
            with self._compiling:  # one at a time, while others go on to run what is there
                found = self._find(key) or self._keep(key, self._compile(specs, threads, exact))
        return found

    def _find(self, key: Any) -> CompiledModel | None:
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
            return found

    def _compile(self, specs: tuple[TensorSpec, ...], threads: int, exact: bool) -> CompiledModel:
        target = current_target()
        if not runs_here(target):
            raise InputError(f"this machine cannot run code for the target '{target.name}' (settings.target)")
        inputs = {info.name: spec for info, spec in zip(self.inputs, specs, strict=True)}
        plan = make_plan(self.graph, inputs, target, exact=exact, constants=self._constants)
        return CompiledModel(self, plan, threads, self._arenas)

    def _keep(self, key: Any, compiled: CompiledModel) -> CompiledModel:
        """Keeps a compiled model, and lets go of those that were used longest ago where there are too many."""
        with self._lock:
            self._plans[key] = compiled
            while len(self._plans) > max(1, settings.max_plans):
                self._plans.popitem(last=False)
                self._arenas.trim(max(one.plan.memory.nbytes for one in self._plans.values()))
        return compiled

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        if settings.engine == "compiled":
            try:
                compiled = self._compiled(tuple(TensorSpec(array.shape, dtype_of(array)) for array in arrays))
            except CompileError as error:
                warnings.warn(f"{error}; the reference runs instead, slowly", RuntimeWarning, stacklevel=3)
            else:
                return compiled.run(arrays)
        named = {info.name: array for info, array in zip(self.inputs, arrays, strict=True)}
        values = run_reference(self.graph.topo_operators, named)
        outputs = [
            as_array(leaf)
            for operator in self.graph.output_operators
            for operand in operator.input_operands_seq
            for leaf in leaves(values[operand])
        ]
        return [_fresh(array) for array in outputs]

    def convert(self, arguments: Sequence[Any], named: Mapping[str, Any] | None = None) -> list[Array]:
        """The inputs as arrays of the declared dtypes, in file order; see `as_input`. Raises `InputError` for wrong names."""
        if len(arguments) > len(self.inputs):
            raise InputError(
                f"the model takes {len(self.inputs)} inputs, {len(arguments)} were given: {self._signature()}"
            )
        given: dict[str, Any] = {info.name: value for info, value in zip(self.inputs, arguments, strict=False)}
        names = [info.name for info in self.inputs]
        for name, value in (named or {}).items():
            if name not in names:
                raise InputError(
                    f"there is no input '{name}'; the inputs are {self._signature()}{did_you_mean(name, names)}"
                )
            if name in given:
                raise InputError(f"input '{name}' is given twice, by position and by name")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing:
            raise InputError(f"input {', '.join(map(repr, missing))} is missing; the inputs are {self._signature()}")
        return [as_input(given[info.name], info) for info in self.inputs]

    def _input_specs(self, shapes: Sequence[Sequence[int] | TensorSpec]) -> dict[str, TensorSpec]:
        """The spec of every input: the given shapes, and beyond them what the file has."""
        if len(shapes) > len(self.inputs):
            raise InputError(f"the model takes {len(self.inputs)} inputs, {len(shapes)} shapes were given")
        given = {
            info.name: shape if isinstance(shape, TensorSpec) else TensorSpec(tuple(shape), info.dtype or f32)
            for info, shape in zip(self.inputs, shapes, strict=False)
        }
        return self.graph.complete_inputs(given)

    def infer(self, *shapes: Sequence[int] | TensorSpec) -> dict[str, Spec]:
        """The spec of every operand by name, for input shapes in file order (left out: as annotated in the file).

        Raises `ShapeError`, naming operator and constant, where the model cannot take these shapes.
        """
        return {operand.name: spec for operand, spec in self.graph.infer(self._input_specs(shapes)).items()}

    def _signature(self) -> str:
        return ", ".join(map(str, self.inputs)) or "none"

    def __repr__(self) -> str:
        outputs = ", ".join(map(str, self.outputs)) or "none"
        return f"<kuiperinfer.Model ({self._signature()}) -> ({outputs})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Model, (self.graph,)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


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
