"""`RuntimeGraph`: a PNNX graph with layers attached, ordered, ready to infer shapes and to run."""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import pnnx
from ..dtypes import Array, TensorSpec
from ..errors import InputError, KuiperError, ModelFileError, ShapeError, UnsupportedOperatorError, did_you_mean
from ..layers.annotation import Annotation
from ..layers.base import Spec, Value, apply, load_plugins, registered
from ..layers.binding import bind
from ..settings import debug_print, settings
from .execution import as_array, infer_shapes, leaves, run_reference
from .order import execution_order
from .parts import RuntimeAttribute, RuntimeOperand, RuntimeOperator, RuntimeParameter
from .text import graph_text


class GraphState(enum.IntEnum):
    """How far a graph is: `init` reads the file, `build` attaches layers and orders the operators."""

    NEED_INIT = -2
    NEED_BUILD = -1
    COMPLETE = 0


class RuntimeGraph:
    """A model's graph::

        graph = RuntimeGraph("net.pnnx.param", "net.pnnx.bin")
        graph.build()                                  # init() first, where that is still to do
        graph.set_inputs("pnnx_input_0", x)
        graph.forward()
        y = graph.get_outputs("pnnx_output_0")

    `operators` are in file order, `topo_operators` in execution order, `operands` by name. `infer` gives the shape and
    dtype of every operand for any input shapes. The graph keeps its last values, so `set_inputs`/`forward`/`get_outputs`
    serve one thread at a time; `kuiperinfer.Model` runs the same graph from many.
    """

    def __init__(self, param_path: str | os.PathLike[str] = "", bin_path: str | os.PathLike[str] = "") -> None:
        self.param_path = os.fspath(param_path)
        self.bin_path = os.fspath(bin_path)
        self.state = GraphState.NEED_INIT
        self.operators: list[RuntimeOperator] = []
        self.operands: dict[str, RuntimeOperand] = {}
        self.topo_operators: list[RuntimeOperator] = []
        self.source: pnnx.Graph | None = None
        self._inputs: dict[str, Value] = {}

    @classmethod
    def from_pnnx(cls, graph: pnnx.Graph) -> RuntimeGraph:
        """A built graph from one that was read or made before."""
        made = cls(graph.file or "")
        made._take(graph)
        made.build()
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        if self.state is GraphState.COMPLETE:
            return RuntimeGraph.from_pnnx, (self.source,)
        return RuntimeGraph, (self.param_path, self.bin_path)

    # ---------------------------------------------------------------------------------------- init and build

    def init(self) -> bool:
        """Reads the model files; the state becomes NEED_BUILD. Raises `ModelFileError`."""
        if not self.param_path:
            raise ModelFileError("no model file: the path of the .pnnx.param file is empty")
        self._take(pnnx.read(self.param_path, self.bin_path or None))
        return True

    def _take(self, graph: pnnx.Graph) -> None:
        self.source = graph
        self.operators, self.operands = _convert(graph)
        self.topo_operators = []
        self.state = GraphState.NEED_BUILD

    def build(self) -> None:
        """Attaches a layer to every operator and finds the execution order; the state becomes COMPLETE.

        Raises `UnsupportedOperatorError` with all types that nobody registered, and `ModelFileError` for parameters,
        weights or inputs that do not fit their operator, and for a cycle.
        """
        if self.state is GraphState.COMPLETE:
            return
        if self.state is GraphState.NEED_INIT:
            self.init()
        _check_supported(self.operators)
        for operator in self.operators:
            attach_layer(operator, self.source.file if self.source else None)
        self.topo_operators = execution_order(self.operators)
        for time, operator in enumerate(self.topo_operators):
            operator.start_time = operator.end_time = time
            for operand in operator.input_operands_seq:
                operand.producer.end_time = time
        self.state = GraphState.COMPLETE
        debug_print(1, f"{self.param_path or 'graph'}: {len(self.operators)} operators, {len(self.operands)} operands")

    def _need_complete(self, what: str) -> None:
        if self.state is not GraphState.COMPLETE:
            raise KuiperError(f"{what}: the graph is not built (state {self.state.name}); call build() first")

    # ---------------------------------------------------------------------------------------- inputs and outputs

    @property
    def input_operators(self) -> list[RuntimeOperator]:
        """The `pnnx.Input` operators, in file order: the model's arguments."""
        return [operator for operator in self.operators if operator.type == "pnnx.Input"]

    @property
    def output_operators(self) -> list[RuntimeOperator]:
        """The `pnnx.Output` operators, in file order: the model's results."""
        return [operator for operator in self.operators if operator.type == "pnnx.Output"]

    def is_input_op(self, name: str) -> bool:
        """Whether an operator of that name is an input of the model."""
        return any(operator.name == name for operator in self.input_operators)

    def is_output_op(self, name: str) -> bool:
        """Whether an operator of that name is an output of the model."""
        return any(operator.name == name for operator in self.output_operators)

    def set_inputs(self, name: str, inputs: Array | Sequence[Array]) -> None:
        """Sets an input: an array with its batch dimension, or a list of samples, which are stacked."""
        self._need_complete("set_inputs")
        known = [operator.name for operator in self.input_operators]
        if name not in known:
            raise _unknown("input", name, known)
        if isinstance(inputs, np.ndarray):
            self._inputs[name] = inputs
            return
        if len({np.shape(sample) for sample in inputs}) > 1:
            raise ShapeError(f"input '{name}': the samples differ in shape: {[np.shape(sample) for sample in inputs]}")
        self._inputs[name] = np.stack([np.asarray(sample) for sample in inputs])

    def forward(self, debug: bool = False) -> None:
        """Runs the graph by the reference on the inputs set before; every operand keeps its value. `debug` prints times."""
        self._need_complete("forward")
        missing = [operator.name for operator in self.input_operators if operator.name not in self._inputs]
        if missing:
            raise InputError(f"no value was set for input {', '.join(missing)}; call set_inputs first")
        for operator in self.operators:
            operator.has_forward = False

        def on_step(operator: RuntimeOperator, seconds: float) -> None:
            operator.has_forward = True
            if debug or settings.debug >= 2:
                print(f"{operator.type:28} {operator.name:28} {seconds * 1e3:9.3f} ms")

        for operand, value in run_reference(self.topo_operators, self._inputs, keep=True, on_step=on_step).items():
            operand.value = value

    def get_outputs(self, name: str) -> list[Array]:
        """The arrays of an output operator after `forward`, nested results flattened depth first; copies."""
        self._need_complete("get_outputs")
        known = [operator.name for operator in self.output_operators]
        for operator in self.output_operators:
            if operator.name == name:
                if not operator.has_forward:
                    raise KuiperError("get_outputs: there are no results yet; call forward() first")
                return [
                    as_array(leaf).copy() for operand in operator.input_operands_seq for leaf in leaves(operand.value)
                ]
        raise _unknown("output", name, known)

    # ---------------------------------------------------------------------------------------- shapes and text

    def infer(self, inputs: Mapping[str, TensorSpec] | None = None) -> dict[RuntimeOperand, Spec]:
        """Shape and dtype of every operand, for the given specs of the inputs; inputs left out are as annotated.

        Raises `ShapeError` with the operator's name where the model cannot take these shapes, `InputError` for an unknown
        input name and for an input whose annotated shape is not complete.
        """
        self._need_complete("infer")
        return infer_shapes(self.topo_operators, self.complete_inputs(inputs or {}))

    def complete_inputs(self, inputs: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
        """The specs of all inputs, in file order: those given by name, the others as annotated. Errors as in `infer`."""
        known = [operator.name for operator in self.input_operators]
        for name in inputs:
            if name not in known:
                raise _unknown("input", name, known)
        return {
            operator.name: inputs.get(operator.name) or _annotated(operator.output_operands[0], operator.name)
            for operator in self.input_operators
        }

    def __str__(self) -> str:
        return graph_text(self.operators)

    def __repr__(self) -> str:
        return f"<RuntimeGraph {self.param_path!r}: {len(self.operators)} operators, {self.state.name}>"


def _unknown(what: str, name: str, known: Sequence[str]) -> InputError:
    return InputError(f"there is no {what} '{name}'; the {what}s are {', '.join(known)}{did_you_mean(name, known)}")


def _annotated(operand: RuntimeOperand, name: str) -> TensorSpec:
    if operand.shape is None or operand.dtype is None or None in operand.shape:
        shown = "nothing" if operand.shape is None else operand.shape
        raise InputError(f"input '{name}' has no complete shape in the file ({shown} is annotated): give its shape")
    return TensorSpec(tuple(dim for dim in operand.shape if dim is not None), operand.dtype)


def _convert(graph: pnnx.Graph) -> tuple[list[RuntimeOperator], dict[str, RuntimeOperand]]:
    """The operators and operands of a file's graph as run-time ones."""
    operators: list[RuntimeOperator] = []
    operands: dict[str, RuntimeOperand] = {}
    for operator in graph.operators:
        made = RuntimeOperator(operator.name, operator.type, line=operator.line, input_names=list(operator.input_names))
        made.params = {name: RuntimeParameter.of(parameter) for name, parameter in operator.params.items()}
        made.attributes = {
            name: RuntimeAttribute(attribute.data, attribute.shape, attribute.dtype)
            for name, attribute in operator.attributes.items()
        }
        for output in operator.outputs:
            operands[output.name] = RuntimeOperand(output.name, made, shape=output.shape, dtype=output.dtype)
            made.output_operands.append(operands[output.name])
        operators.append(made)
    for operator, made in zip(graph.operators, operators, strict=True):
        for operand in operator.inputs:
            made.input_operands_seq.append(operands[operand.name])
            operands[operand.name].consumers.append(made)
    return _merge_unpacking(operators), operands


# Layers whose several results an unoptimised file has as one tuple, taken apart by a `prim::TupleUnpack`.
_TUPLE_LAYERS = ("nn.RNN", "nn.LSTM", "nn.GRU", "nn.MultiheadAttention")


def _merge_unpacking(operators: list[RuntimeOperator]) -> list[RuntimeOperator]:
    """Gives the layers of `_TUPLE_LAYERS` the outputs of the operator that only takes their tuple apart."""
    merged: set[int] = set()
    for operator in operators:
        if operator.type not in _TUPLE_LAYERS or len(operator.output_operands) != 1:
            continue
        consumers = operator.output_operands[0].consumers
        if len(consumers) == 1 and consumers[0].type == "prim::TupleUnpack":
            (unpack,) = consumers
            operator.output_operands = unpack.output_operands
            for operand in operator.output_operands:
                operand.producer = operator
            merged.add(id(unpack))
    return [operator for operator in operators if id(operator) not in merged]


def _check_supported(operators: Sequence[RuntimeOperator]) -> None:
    """`UnsupportedOperatorError` with all operator types that nobody registered, plugins included."""
    unsupported = _unsupported(operators)
    if unsupported:
        load_plugins()
        unsupported = _unsupported(operators)
    if not unsupported:
        return
    lines = [
        f"  {kind} ({len(names)}×: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}){_hint(kind)}"
        for kind, names in unsupported.items()
    ]
    kinds = "operator type is" if len(lines) == 1 else "operator types are"
    advice = "register a layer for it with @kuiperinfer.register, or convert the model without it"
    raise UnsupportedOperatorError(
        f"{len(lines)} {kinds} not supported:\n" + "\n".join(lines) + f"\n{advice}", unsupported
    )


def _unsupported(operators: Sequence[RuntimeOperator]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for operator in operators:
        if operator.type not in registered() and operator.type not in ("pnnx.Input", "pnnx.Output"):
            found.setdefault(operator.type, []).append(operator.name)
    return found


def _hint(kind: str) -> str:
    if "quantize" in kind:
        return "; quantised models are not supported yet"
    return did_you_mean(kind, registered())


def _constants(operator: RuntimeOperator) -> dict[int, Value]:
    """The values of those inputs that an operator without inputs and weights makes, such as `pnnx.Expression expr=1`."""
    found: dict[int, Value] = {}
    for index, operand in enumerate(operator.input_operands_seq):
        maker = operand.producer
        if maker.type in ("pnnx.Expression", "prim::Constant") and not maker.input_operands_seq and maker.binding:
            found[index] = apply(maker.binding.layer, [], {})[0]
    return found


def attach_layer(operator: RuntimeOperator, file: str | None = None) -> None:
    """Binds an operator to its layer and its arguments; errors name the operator and, where known, file and line."""
    if operator.type in ("pnnx.Input", "pnnx.Output"):
        return
    try:
        operator.binding = bind(
            operator.type,
            input_names=operator.input_names or [None] * len(operator.input_operands_seq),
            params=operator.params,
            attributes=list(operator.attributes),
            output_count=len(operator.output_operands),
            annotated_inputs=[Annotation(operand.shape, operand.dtype) for operand in operator.input_operands_seq],
            annotated_outputs=[Annotation(operand.shape, operand.dtype) for operand in operator.output_operands],
            constants=_constants(operator),
        )
    except KuiperError as error:
        place = f"{file}:{operator.line}: {operator.place}" if file and operator.line else operator.place
        raise error.at(place) from error
