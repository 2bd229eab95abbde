"""Recurrent layers: the same cell applied step by step along a sequence.

A layer has `num_layers` stages, each with one or two directions; the second reads the sequence backwards. Weights carry the
names of PyTorch: ``weight_ih_l0``, ``bias_hh_l1_reverse`` and so on. Results are the sequence of all hidden states and the
final states of all stages and directions; the model takes any of these, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, cast

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import InputError, ModelFileError, ShapeError
from ..expression.activations import sigmoid
from ..records import dataclass
from .annotation import AnnotatedLayer, Shape
from .base import Ints, expect_rank, register
from .checks import expect_kind, factor_dtype


@dataclass(frozen=True, kw_only=True)
class Recurrent(AnnotatedLayer):
    """Base of the family, with L steps of N sequences in D directions and S = D * num_layers rows of states.

    input (L, N, I), or (N, L, I) with `batch_first`, or (L, I); initial states (S, N, H) or (S, H), zeros where missing
    -> output (L, N, D * H), laid out as the input, and final states, laid out as the initial ones. The dtypes of input, states
    and weights may differ in precision.
    """

    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    bidirectional: bool = False

    # dropout stands between the stages, in training; the other is a note of unoptimised files, which the annotations replace
    ignored = frozenset({"dropout", "pnnx_rnn_output_swapped"})

    gates: ClassVar[int] = 1
    states: ClassVar[tuple[str, ...]] = ("h",)

    def __post_init__(self) -> None:
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}: expected at least 1")

    def infer(self, input: TensorSpec, h0: TensorSpec | None = None, **weights: TensorSpec) -> tuple[TensorSpec, ...]:
        return self._infer(input, [h0], weights)

    def forward(self, input: Array, h0: Array | None = None, **weights: Array) -> tuple[Array, ...]:
        return self._forward(input, [h0], weights)

    def cell(self, given: Array, recurrent: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        """The next states, from what the input and the hidden state add to the gates. (N, gates * H), two of them -> (N, H)"""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------------- shapes

    @property
    def directions(self) -> int:
        """2 where the sequence is read backwards too."""
        return 2 if self.bidirectional else 1

    @property
    def state_sizes(self) -> Ints:
        """The last dimension of every state; the hidden state, which is the output, comes first."""
        return (self.hidden_size,) * len(self.states)

    def weight_shapes(self) -> dict[str, Ints]:
        """The shape of every weight, by name."""
        rows, output_size = self.gates * self.hidden_size, self.state_sizes[0]
        shapes: dict[str, Ints] = {}
        for stage, _, ending in self._stages():
            shapes[f"weight_ih{ending}"] = (rows, self.directions * output_size if stage else self.input_size)
            shapes[f"weight_hh{ending}"] = (rows, output_size)
            if self.bias:
                shapes[f"bias_ih{ending}"] = shapes[f"bias_hh{ending}"] = (rows,)
        return shapes

    def _stages(self) -> Iterator[tuple[int, int, str]]:
        """Every stage and direction, with the ending of its weights' names."""
        for stage in range(self.num_layers):
            for direction in range(self.directions):
                yield stage, direction, f"_l{stage}" + ("_reverse" if direction else "")

    def _result_shapes(self, input: Shape) -> dict[str, Shape]:
        """The shapes of all results for an input of this shape, in which dimensions may be unknown."""
        batch: Shape = ()
        if len(input) == 3:
            batch = (input[0 if self.batch_first else 1],)
        shapes: dict[str, Shape] = {"output": (*input[:-1], self.directions * self.state_sizes[0])}
        for name, size in zip(self.states, self.state_sizes, strict=True):
            shapes[name] = (self.directions * self.num_layers, *batch, size)
        return shapes

    def _results(self) -> tuple[str, ...]:
        annotated = self.annotated_input(0).shape
        if annotated is None or len(annotated) not in (2, 3):
            return self.choose_results(dict.fromkeys(("output", *self.states)))
        return self.choose_results(self._result_shapes(annotated))

    # ---------------------------------------------------------------------------------------- infer and forward

    def _infer(
        self, input: TensorSpec, initial: Sequence[TensorSpec | None], weights: Mapping[str, TensorSpec]
    ) -> tuple[TensorSpec, ...]:
        expect_rank(input, 2, 3)
        expect_kind(input, "float")
        if input.shape[-1] != self.input_size:
            raise ShapeError(f"input: expected input_size={self.input_size} as last dimension, found {input.shape}")
        if input.shape[1 if self.batch_first and input.ndim == 3 else 0] == 0:
            raise ShapeError(f"input: expected a sequence of at least one step, found shape {input.shape}")
        shapes = self._result_shapes(input.shape)
        given = [(name, state) for name, state in zip(self.states, initial, strict=True) if state is not None]
        for name, state in given:
            expect_kind(state, "float", what=f"{name}0")
            if state.shape != shapes[name]:
                raise ShapeError(f"{name}0: expected shape {shapes[name]}, found {state.shape} beside input {input}")
        self._check_weights(weights)
        dtype = factor_dtype(input, *weights.values(), *(state for _, state in given))
        return tuple(TensorSpec(cast(Ints, shapes[name]), dtype) for name in self._results())

    def _check_weights(self, weights: Mapping[str, TensorSpec]) -> None:
        if self.num_layers > len(weights):  # before a list of names as long as a hostile file demands is made
            raise ModelFileError(f"num_layers={self.num_layers}, but there are only {len(weights)} weights")
        expected = self.weight_shapes()
        for name in {**expected, **weights}:
            if name not in weights:
                raise ModelFileError(f"weight '{name}' is missing")
            if name not in expected:
                raise ModelFileError(f"weight '{name}' is unknown to this operator with these parameters")
            if weights[name].shape != expected[name]:
                raise ShapeError(f"weight '{name}': expected shape {expected[name]}, found {weights[name].shape}")

    def _forward(
        self, input: Array, initial: Sequence[Array | None], weights: Mapping[str, Array]
    ) -> tuple[Array, ...]:
        batched = input.ndim == 3
        swapped = batched and self.batch_first
        sequence = input.swapaxes(0, 1) if swapped else input if batched else input[:, np.newaxis]
        batch = sequence.shape[1]
        rows = [
            np.zeros((self.directions * self.num_layers, batch, size), input.dtype)
            if state is None
            else state.reshape(-1, batch, size)
            for state, size in zip(initial, self.state_sizes, strict=True)
        ]
        last: list[tuple[Array, ...]] = []
        outputs: list[Array] = []
        for stage, direction, ending in self._stages():
            if direction == 0 and stage > 0:
                sequence, outputs = np.concatenate(outputs, axis=-1), []
            states = tuple(row[len(last)] for row in rows)
            output, states = self._run(sequence[::-1] if direction else sequence, states, weights, ending)
            outputs.append(output[::-1] if direction else output)
            last.append(states)
        output = np.concatenate(outputs, axis=-1)
        results = {"output": output.swapaxes(0, 1) if swapped else output}
        for name, row in zip(self.states, zip(*last, strict=True), strict=True):
            results[name] = np.stack(row)
        if not batched:
            results = {name: result[:, 0] for name, result in results.items()}
        return tuple(results[name] for name in self._results())

    def _run(
        self, sequence: Array, states: tuple[Array, ...], weights: Mapping[str, Array], ending: str
    ) -> tuple[Array, tuple[Array, ...]]:
        """One direction of one stage. (L, N, I), states (N, H) -> (L, N, H), states after the last step"""
        given = _linear(sequence, weights, f"weight_ih{ending}", f"bias_ih{ending}")
        output = np.empty((*sequence.shape[:2], self.state_sizes[0]), given.dtype)
        for step, step_given in enumerate(given):
            recurrent = _linear(states[0], weights, f"weight_hh{ending}", f"bias_hh{ending}")
            hidden, *others = self.cell(step_given, recurrent, states)
            if f"weight_hr{ending}" in weights:
                hidden = _linear(hidden, weights, f"weight_hr{ending}")
            states = (hidden, *others)
            output[step] = hidden
        return output, states


def _linear(x: Array, weights: Mapping[str, Array], weight: str, bias: str = "") -> Array:
    product = x @ weights[weight].T
    return product + weights[bias] if bias in weights else product


@register("nn.RNN")
@dataclass(frozen=True, kw_only=True)
class RNN(Recurrent):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu of it. torch.nn.RNN"""

    nonlinearity: str = "tanh"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nonlinearity not in ("tanh", "relu"):
            raise InputError(f"nonlinearity={self.nonlinearity}: expected tanh or relu")

    def cell(self, given: Array, recurrent: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        total = given + recurrent
        return (np.tanh(total) if self.nonlinearity == "tanh" else np.maximum(total, total.dtype.type(0)),)


@register("nn.GRU")
@dataclass(frozen=True, kw_only=True)
class GRU(Recurrent):
    """h' = (1 - z) * n + z * h, with r, z = sigmoid(…) and n = tanh(W_in x + b_in + r * (W_hn h + b_hn)). torch.nn.GRU"""

    gates = 3

    def cell(self, given: Array, recurrent: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        split = 2 * self.hidden_size
        reset, update = np.split(sigmoid(given[:, :split] + recurrent[:, :split]), 2, axis=1)
        new = np.tanh(given[:, split:] + reset * recurrent[:, split:])
        return ((1 - update) * new + update * states[0],)


@register("nn.LSTM")
@dataclass(frozen=True, kw_only=True)
class LSTM(Recurrent):
    """c' = f * c + i * g and h' = o * tanh(c'), with the gates i, f, o = sigmoid(…) and g = tanh(…). torch.nn.LSTM

    With a `proj_size` the hidden state is W_hr h', of that size. An operator with h0 alone means c0 = h0: the converter writes
    an operand that serves as both only once.
    """

    proj_size: int = 0

    gates = 4
    states = ("h", "c")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.proj_size < self.hidden_size:
            raise InputError(f"proj_size={self.proj_size}: expected 0 or more, and less than {self.hidden_size}")

    @property
    def state_sizes(self) -> Ints:
        """The hidden state is projected, the cell state is not."""
        return self.proj_size or self.hidden_size, self.hidden_size

    def weight_shapes(self) -> dict[str, Ints]:
        """Those of every recurrent layer, and the projections."""
        shapes = super().weight_shapes()
        if self.proj_size:
            shapes.update({f"weight_hr{ending}": (self.proj_size, self.hidden_size) for *_, ending in self._stages()})
        return shapes

    def infer(
        self, input: TensorSpec, h0: TensorSpec | None = None, c0: TensorSpec | None = None, **weights: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        return self._infer(input, [h0, h0 if c0 is None else c0], weights)

    def forward(
        self, input: Array, h0: Array | None = None, c0: Array | None = None, **weights: Array
    ) -> tuple[Array, ...]:
        return self._forward(input, [h0, h0 if c0 is None else c0], weights)

    def cell(self, given: Array, recurrent: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
        input_gate, forget, new, output = np.split(given + recurrent, 4, axis=1)
        memory = sigmoid(forget) * states[1] + sigmoid(input_gate) * np.tanh(new)
        return sigmoid(output) * np.tanh(memory), memory
