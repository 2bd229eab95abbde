"""What all jobs have in common: a picture is prepared, a network runs on several of them, and its outputs are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ..dtypes import Array, TensorSpec
from ..errors import InputError, KuiperError
from ..graph import leaves
from ..runtime import Model
from .pictures import PictureSource, named_errors, read_picture
from .preprocess import Preprocess

Result = TypeVar("Result")


class Job(ABC, Generic[Result]):
    """Pictures in, results out, in three parts that may run in three threads.

    Call it with a picture, give several to `many`, or to `vision.stream`, which reads them while the network runs.
    """

    @abstractmethod
    def prepare(self, picture: Array) -> Any:
        """What the network needs of a picture, (H, W, 3) uint8. May be called from many threads at once."""

    @abstractmethod
    def infer(self, prepared: Sequence[Any], batch: int = 1) -> list[Any]:
        """Runs the network: one output for each of what `prepare` returned, up to `batch` of them in one inference."""

    @abstractmethod
    def finish(self, output: Any, picture: Array) -> Result:
        """The result for a picture, from what `infer` returned for it."""

    def possible_batch(self, wanted: int) -> int:
        """How many pictures go into one inference where `wanted` would be welcome."""
        return 1 if wanted >= 1 else _refuse_batch(wanted)

    def __call__(self, picture: PictureSource) -> Result:
        """The result for one picture: a path, bytes, a binary file, or an array (H, W, 3) uint8 in RGB."""
        return self.many([picture])[0]

    def many(self, pictures: Sequence[PictureSource], batch: int = 1) -> list[Result]:
        """The results for several pictures, `batch` of them in one inference where the model allows that."""
        read = [read_picture(picture) for picture in pictures]
        prepared = []
        for source, picture in zip(pictures, read, strict=True):
            with named_errors(source):
                prepared.append(self.prepare(picture))
        size = self.possible_batch(min(batch, max(len(read), 1)))
        return [self.finish(output, picture) for output, picture in zip(self.infer(prepared, size), read, strict=True)]


class NetworkJob(Job[Result]):
    """A job of one network that takes one picture as (1, C, H, W), as a `Preprocess` makes it."""

    model: Any
    preprocess: Preprocess

    def possible_batch(self, wanted: int) -> int:
        """See `Job`."""
        size = self.preprocess
        return possible_batch(self.model, (1, len(size.mean), size.height, size.width), wanted)

    def prepare(self, picture: Array) -> Array:
        """(H, W, 3) uint8 -> (1, C, height, width) float32."""
        return self.preprocess(picture)

    def infer(self, prepared: Sequence[Array], batch: int = 1) -> list[Any]:
        """See `Job`: the outputs of the network for each picture, (1, …)."""
        return run_in_batches(self.model, prepared, batch)


def _refuse_batch(batch: int) -> int:
    raise InputError(f"batch: expected at least 1 picture, found {batch}")


def the_input_shape(model: Any) -> tuple[int | None, ...] | None:
    """The shape of the only input of a model. Raises `InputError` where it has several."""
    if len(model.inputs) != 1:
        raise InputError(
            f"a network for pictures has one input, this model has {len(model.inputs)}: {', '.join(map(str, model.inputs))}"
        )
    shape: tuple[int | None, ...] | None = model.inputs[0].shape
    return shape


def output_shapes(model: Model, shape: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    """The shapes of a model's outputs for an input of the given shape; None where they hang on what is in the input.

    Raises `ShapeError` where the model cannot take that shape.
    """
    specs = model.infer(tuple(shape))
    found = [
        leaf
        for operator in model.graph.output_operators
        for operand in operator.input_operands_seq
        for leaf in leaves(specs[operand.name])
    ]
    return tuple(leaf.shape for leaf in found) if all(isinstance(leaf, TensorSpec) for leaf in found) else None


def possible_batch(model: Any, shape: Sequence[int], wanted: int) -> int:
    """`wanted` where a model takes that many samples of `shape` (1, C, H, W) at once, else 1, or the number it insists on.

    A model takes a batch if all its outputs then have that first dimension. Functions that are no `Model` take one sample.
    """
    if wanted < 1:
        _refuse_batch(wanted)
    if not isinstance(model, Model):
        return 1
    declared = (the_input_shape(model) or (None,))[0]
    if wanted == 1 and declared in (None, 1):
        return 1
    for batch in (wanted, 1):
        try:
            shapes = output_shapes(model, (batch, *shape[1:]))
        except KuiperError:
            continue
        if batch == 1 or (shapes is not None and all(found[:1] == (batch,) for found in shapes)):
            return batch
    return declared or 1


def run_in_batches(model: Any, inputs: Sequence[Array], batch: int) -> list[tuple[Array, ...]]:
    """Runs a model on samples (1, …), `batch` at once, and returns the outputs of each, (1, …) too.

    The last batch is filled up with zeros: another shape would have to be compiled for.
    """
    found: list[tuple[Array, ...]] = []
    for start in range(0, len(inputs), batch):
        part = inputs[start : start + batch]
        if batch == 1:
            found.append(_as_tuple(model(part[0])))
            continue
        joined = np.zeros((batch, *part[0].shape[1:]), part[0].dtype)
        np.concatenate(part, out=joined[: len(part)])
        outputs = _as_tuple(model(joined))
        found.extend(tuple(output[i : i + 1] for output in outputs) for i in range(len(part)))
    return found


def _as_tuple(outputs: Any) -> tuple[Array, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def in_groups(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The items, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
