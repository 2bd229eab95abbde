"""What the file says of a layer's operands, for the few layers that have to ask.

The converter leaves some things out that can be read only from the annotated shapes and dtypes: which results of a
recurrent or attention layer its outputs are (it keeps the used ones alone, in order of use), and the `dtype` of a softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
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

    def choose_results(self, shapes: Mapping[str, Shape | None]) -> tuple[str, ...]:
        """Which results the outputs are, given the results' names and shapes as the annotated inputs would give them.

        The choice whose shapes are nearest to the annotated outputs, of several the first in the order of `shapes`.
        """
        annotated = self.annotated_outputs or (Annotation(),) * self.output_count
        choices = list(permutations(shapes, self.output_count))

        def distance(choice: tuple[str, ...]) -> int:
            return sum(_distance(shapes[name], output.shape) for name, output in zip(choice, annotated, strict=True))

        return min(choices, key=distance, default=tuple(shapes))


def _distance(shape: Shape | None, annotated: Shape | None) -> int:
    """How much two shapes disagree: a known dimension beside an unknown one counts little, but it counts."""
    if shape is None or annotated is None:
        return 0
    if len(shape) != len(annotated):
        return 1000
    pairs = [pair for pair in zip(shape, annotated, strict=True) if pair[0] != pair[1]]
    return sum(1 if None in pair else 1000 for pair in pairs)
