"""A converted model held against the network that it was made of: kinds of outputs, and their values."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from ..dtypes import Array, TensorSpec, dtype_of
from ..errors import CompileError, ConversionError
from ..graph import leaves
from ..runtime import Model
from ..runtime.against_reference import TOLERANCE, tolerance_of
from ..runtime.comparison import TOLERANCES, Comparison, compare
from ..settings import settings


@dataclass(frozen=True)
class Verified:
    """The outputs for one set of input shapes, compared one by one with those of `engine`."""

    engine: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[Comparison, ...]

    @property
    def ok(self) -> bool:
        """Whether all outputs agree."""
        return all(comparison.ok for comparison in self.outputs)

    def __str__(self) -> str:
        shapes = ", ".join(map(str, self.inputs))
        wrong = [f"output {index}: {one.problem}" for index, one in enumerate(self.outputs) if not one.ok]
        return f"{self.engine} on {shapes}: {'; '.join(wrong) if wrong else 'agrees'}"


def output_specs(model: Model, inputs: Sequence[TensorSpec]) -> list[object]:
    """What is known of the flattened outputs for the given inputs: a `TensorSpec`, or another object where that is unknown."""
    named = {info.name: spec for info, spec in zip(model.inputs, inputs, strict=True)}
    specs = model.graph.infer(named)
    return [
        leaf
        for operator in model.graph.output_operators
        for operand in operator.input_operands_seq
        for leaf in leaves(specs[operand])
    ]


def check_outputs(model: Model, inputs: Sequence[TensorSpec], expected: Sequence[Array], what: str) -> None:
    """`ConversionError` where number, shapes or dtypes of the outputs are not those that the network gave."""
    if len(model.inputs) != len(inputs):
        raise ConversionError(f"{what}: {len(inputs)} inputs became {len(model.inputs)}")
    found = output_specs(model, inputs)
    if len(found) != len(expected):
        raise ConversionError(f"{what}: the network gives {len(expected)} outputs, the converted model {len(found)}")
    for index, (spec, array) in enumerate(zip(found, expected, strict=True)):
        wanted = TensorSpec(array.shape, dtype_of(array))
        if isinstance(spec, TensorSpec) and spec != wanted:
            raise ConversionError(
                f"{what}: output {index} of the network is {wanted}, that of the converted model {spec}; the converter has "
                f"lost something, on inputs {', '.join(map(str, inputs))}, or calculates in another dtype"
            )


def verify(model: Model, inputs: Sequence[Array], expected: Sequence[Array], engine: str) -> Verified:
    """Runs the model, by the engine of the settings, and compares all outputs with the expected ones.

    The tolerance for floats is that of `kuiper compare`: 1e-4 of the output's largest magnitude, 1e-3 with Winograd's
    algorithm, and never less than what the outputs' own dtype can hold.
    """
    specs = tuple(TensorSpec(array.shape, dtype_of(array)) for array in inputs)
    tolerance = TOLERANCE
    if settings.engine == "compiled":
        with contextlib.suppress(CompileError):  # the model says so itself when it is called
            tolerance = tolerance_of(model.compile(*specs).plan)
    results = model(*inputs)
    found = list(results) if isinstance(results, tuple) else [results]
    if len(found) != len(expected):
        raise ConversionError(f"{engine} gives {len(expected)} outputs, the converted model {len(found)}")
    outputs = tuple(
        compare(one, other, max(tolerance, TOLERANCES.get(dtype_of(other), 0.0)))
        for one, other in zip(found, expected, strict=True)
    )
    return Verified(engine, specs, outputs)
