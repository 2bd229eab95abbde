"""What the file says of a layer's operands, for the few layers that have to ask.

The converter leaves some things out that can be read only from the annotated shapes and dtypes: which results of a
recurrent or attention layer its outputs are (it keeps the used ones alone, in order of use), and the `dtype` of a softmax.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

from ..dtypes import DType
from .base import Layer

Shape: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True)
class Annotation:
    """An operand's annotation: `shape` with None for unknown dimensions; None where the file says nothing."""

    shape: Shape | None = None
    dtype: DType | None = None


@dataclass(frozen=True, kw_only=True)
class AnnotatedLayer(Layer):
    """Base of layers that know what the file says of their operands, in the order of the file."""

    annotated_inputs: tuple[Annotation, ...] = ()
    annotated_outputs: tuple[Annotation, ...] = ()

    def annotated_input(self, index: int) -> Annotation:
        """The annotation of one input; an empty one where there is none."""
        return self.annotated_inputs[index] if index < len(self.annotated_inputs) else Annotation()

    def choose_results(self, shapes: Mapping[str, Shape]) -> tuple[str, ...]:
        """Which results the outputs are, given the results' names and shapes as the annotated inputs would give them.

        The first choice, in the order of `shapes`, that agrees with the annotated outputs; the first at all where none does.
        """
        choices = list(permutations(shapes, self.output_count))
        annotated = self.annotated_outputs or (Annotation(),) * self.output_count
        for choice in choices:
            if all(_agree(shapes[name], output.shape) for name, output in zip(choice, annotated, strict=True)):
                return choice
        return choices[0] if choices else ()


def _agree(shape: Sequence[int | None], annotated: Sequence[int | None] | None) -> bool:
    if annotated is None:
        return True
    return len(shape) == len(annotated) and all(
        None in (one, other) or one == other for one, other in zip(shape, annotated, strict=True)
    )
