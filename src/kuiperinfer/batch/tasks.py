"""What is done with each row: the network's own outputs (`RawTask`), or the answer of a job of `vision` (`PictureTask`).

A task is picklable and reaches every worker. It knows nothing of files, parts and processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..dtypes import Array, TensorSpec, f32, from_bits
from ..dtypes import bf16 as bfloat16
from ..errors import InputError, ShapeError
from ..graph import leaves
from .cells import column, column_type, in_shape
from .predictor import Predictor
from .sources import Row, no_column


class Task(ABC):
    """Rows in, records of columns out, in three steps: `prepare` a row, `infer` several, `finish` each of them."""

    columns: tuple[str, ...]  # of tables, those that `prepare` needs
    schema: Any  # of the records
    records_at_once = 1  # that are turned into Arrow: more is quicker, where they are small

    @abstractmethod
    def prepare(self, row: Row) -> Any:
        """What `infer` and `finish` need of a row. Raises `KuiperError` where the row cannot be used."""

    @abstractmethod
    def infer(self, prepared: Sequence[Any]) -> list[Any]:
        """Runs the network; one output for each of what `prepare` returned."""

    @abstractmethod
    def finish(self, prepared: Any, output: Any) -> dict[str, Any]:
        """The columns' values for one row."""

    def arrays(self, records: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The columns of `schema` as Arrow arrays."""
        return [pa.array([record[field.name] for record in records], field.type) for field in self.schema]

    def annotate(self, prepared: Any, record: Mapping[str, Any]) -> Array:
        """The picture with its answer drawn on it, (H, W, 3) uint8."""
        raise InputError("annotated pictures need one of the jobs for pictures, not raw")


def picture_of(row: Row, name: str) -> Any:
    """What `vision.read_picture` reads for a row: a path, bytes, or an array.

    In a table, column `name` has encoded bytes, a path (relative to the table's own), an (H, W, 3) uint8 tensor, or, as
    data sets of Hugging Face have it, a struct of `bytes` and `path`. Raises what the row was read with.
    """
    value: Any = row.value
    if isinstance(value, dict):
        if name not in value:
            raise no_column(name, value)
        value = value[name]
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, Exception):
        raise value
    if isinstance(value, str):
        return Path(row.source).parent / value
    if not isinstance(value, (Path, bytes, np.ndarray)):
        raise InputError(f"expected a picture as bytes, path or array, found {type(value).__name__}")
    return value


class RawTask(Task):
    """The outputs of a model for each row, a column each; rows are its inputs, or pictures where there is a `preprocess`.

    Raises `ShapeError` where the model does not give one row of output for one of input.
    """

    def __init__(
        self, predictor: Predictor, preprocess: Callable[[Array], Array] | None = None, picture_column: str = "image"
    ) -> None:
        self.predictor = predictor
        self.preprocess = preprocess
        model = predictor.model
        self.inputs = model.inputs
        self.columns = (picture_column,) if preprocess else tuple(info.name for info in self.inputs)
        self.schema = pa.schema([(name, column_type(shape, dtype)) for name, shape, dtype in self._output_rows()])

    def _output_rows(self) -> Iterator[tuple[str, Any, np.dtype[Any]]]:
        """Name, shape (None dimensions are free) and dtype of a row of each output."""
        model, batch = self.predictor.model, self.predictor.batch
        shapes = [info.shape[1:] if info.shape else None for info in self.inputs]
        if self.preprocess is not None:
            shapes = [self.preprocess(np.zeros((1, 1, 3), np.uint8)).shape[1:]]
        known: list[TensorSpec | None] = [None] * len(model.outputs)
        if all(shape is not None and None not in shape for shape in shapes):
            asked = [
                TensorSpec((batch, *(dim for dim in shape or () if dim is not None)), info.dtype or f32)
                for info, shape in zip(self.inputs, shapes, strict=True)
            ]
            try:
                specs = model.infer(*asked)
            except ShapeError as error:
                raise error.at(f"{batch} rows at a time") from error
            operands = [operand for end in model.graph.output_operators for operand in end.input_operands_seq]
            found = [leaf for operand in operands for leaf in leaves(specs[operand.name])]
            if len(found) == len(known):
                known = [leaf if isinstance(leaf, TensorSpec) else None for leaf in found]
        for info, spec in zip(model.outputs, known, strict=True):
            if spec is not None and spec.shape[:1] != (batch,):
                raise ShapeError(f"output '{info.name}': expected {batch} rows for {batch} rows, found {spec}")
            dtype = (spec.dtype if spec else None) or info.dtype or f32
            shape = spec.shape[1:] if spec else info.shape[1:] if info.shape else None
            yield info.name, shape, dtype.compute if dtype.storage.names else dtype.storage

    def prepare(self, row: Row) -> dict[str, Array]:
        """Input name -> array (1, …)."""
        if self.preprocess is not None:
            from ..vision import read_picture

            return {self.inputs[0].name: self.preprocess(read_picture(picture_of(row, self.columns[0])))}
        value = row.value
        if isinstance(value, Exception):
            raise value
        if isinstance(value, np.ndarray):
            if len(self.inputs) != 1:
                raise InputError(
                    f"the model has {len(self.inputs)} inputs, and an array is one: rows in Parquet have names"
                )
            value = {self.inputs[0].name: value}
        if not isinstance(value, dict):
            raise InputError("expected arrays, found a picture")
        return {info.name: self._input(value, info) for info in self.inputs}

    def _input(self, values: Mapping[str, Any], info: Any) -> Array:
        if info.name not in values:
            raise no_column(info.name, values)
        value = values[info.name]
        if not isinstance(value, np.ndarray):
            raise InputError(f"column '{info.name}': expected numbers, found {type(value).__name__}")
        if info.dtype is bfloat16 and value.dtype == np.uint16:
            value = from_bits(value, bfloat16)
        try:
            return in_shape(value, info.shape[1:] if info.shape else value.shape)[None]
        except InputError as error:
            raise error.at(f"column '{info.name}'") from error

    def infer(self, prepared: Sequence[dict[str, Array]]) -> list[Any]:
        """Output name -> array, for each."""
        if len({tuple(array.shape for array in row.values()) for row in prepared}) > 1:
            return [output for row in prepared for output in self.infer([row])]
        columns = {info.name: np.concatenate([row[info.name] for row in prepared]) for info in self.inputs}
        outputs = self.predictor(columns)
        return [{name: array[index] for name, array in outputs.items()} for index in range(len(prepared))]

    def finish(self, prepared: Any, output: Any) -> dict[str, Any]:
        """The outputs themselves."""
        return dict(output)

    def arrays(self, records: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The columns of `schema` as Arrow arrays."""
        return [column([np.asarray(record[field.name]) for record in records], field.type) for field in self.schema]
