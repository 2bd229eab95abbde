"""What the file says of a layer's operands, for the few layers that have to ask.

The converter leaves some things out that can be read only from the annotated shapes and dtypes: which results of a
recurrent or attention layer its outputs are (it keeps the used ones alone, in order of use), and the parameter `dtype` of
reductions and their kin.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import TypeAlias

from ..dtypes import DType, to_complex
from ..errors import DTypeError
from ..records import dataclass
from .base import Layer
from .checks import set_field

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


@dataclass(frozen=True, kw_only=True)
class DTypeLayer(AnnotatedLayer):
    """Base of layers with a parameter `dtype`, which the converter drops.

    A dtype that is not given becomes the one that explains the annotations, where without one the annotated input would
    give another output than annotated. Annotations that no dtype explains are left alone: they are hints.
    """

    dtype: DType | None = None

    def __post_init__(self) -> None:
        if self.dtype is None and self.annotated_outputs:
            set_field(
                self, "dtype", self._dropped_dtype(self.annotated_input(0).dtype, self.annotated_outputs[0].dtype)
            )

    def result_dtype(self, input: DType, dtype: DType | None) -> DType:
        """The output's dtype for that of the input and the parameter `dtype`; `DTypeError` where PyTorch refuses them."""
        raise NotImplementedError

    def _dropped_dtype(self, before: DType | None, after: DType | None) -> DType | None:
        if before is None or after is None:
            return None
        candidates = (None, after, to_complex(after))  # what is real may be the norm of complex numbers
        return next((dtype for dtype in candidates if self._explains(dtype, before, after)), None)

    def _explains(self, dtype: DType | None, before: DType, after: DType) -> bool:
        try:
            return self.result_dtype(before, dtype) is after
        except DTypeError:
            return False


def _distance(shape: Shape | None, annotated: Shape | None) -> int:
    """How much two shapes disagree: a known dimension beside an unknown one counts little, but it counts."""
    if shape is None or annotated is None:
        return 0
    if len(shape) != len(annotated):
        return 1000
    pairs = [pair for pair in zip(shape, annotated, strict=True) if pair[0] != pair[1]]
    return sum(1 if None in pair else 1000 for pair in pairs)
