"""A model as a callable that engines for large data ship to their workers: dict of arrays in, dict of arrays out."""

from __future__ import annotations

import inspect
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..dtypes import Array, widen
from ..errors import InputError, ShapeError, did_you_mean
from ..runtime import Model, load
from ..settings import settings

Columns: TypeAlias = Mapping[str, Any]

# What the results hang on. These settings travel with a predictor; all others are the worker's own.
RESULT_SETTINGS = ("engine", "precision", "target", "passes_off")

DEFAULT_BATCH = 32  # rows at a time where the model leaves their number free

_MOST_LOADED = 4
_loaded: OrderedDict[str, Model] = OrderedDict()
_loading = threading.Lock()


class Predictor:
    """Runs a model on the rows of columns::

    Predictor("net.pnnx.param")({"pnnx_input_0": rows})    # {"pnnx_output_0": …}

    Picklable, and loaded at the first call: once a process, however often the predictor arrives in it. A model given by its
    path is read by each worker; a `Model` travels along, weights and all. The settings that results hang on (`engine`,
    `precision`, `target`, `passes_off`) are those of the moment when the predictor was made.

    `preprocess` turns the columns into the model's inputs. `threads` are those of one call: engines start a worker a core,
    and then 1 is right. `batch` rows are calculated at a time: by default as many as the file says, or 32 where it leaves the
    number free. A shorter rest is filled up, so that the model is compiled once, and a row's answer does not hang on how the
    rows came in calls. The columns named in `keep` are passed through.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Model,
        preprocess: Callable[[Columns], Columns] | None = None,
        *,
        threads: int = 1,
        batch: int | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        for name, value in (("threads", threads), ("batch", batch)):
            if value is not None and value < 1:
                raise InputError(f"{name}: expected at least 1, found {value}")
        self._source = model if isinstance(model, Model) else os.path.abspath(model)
        self._key = uuid.uuid4().hex
        self._settings = {name: getattr(settings, name) for name in RESULT_SETTINGS}
        self._batch = batch
        self.preprocess = preprocess
        self.threads = threads
        self.keep = tuple(keep)

    @property
    def model(self) -> Model:
        """The model, loaded when it is first asked for in this process."""
        if isinstance(self._source, Model):
            return self._source
        with _loading:
            found = _loaded.get(self._key)
            if found is None:
                found = _loaded[self._key] = load(self._source)
            _loaded.move_to_end(self._key)
            while len(_loaded) > _MOST_LOADED:
                _loaded.popitem(last=False)
            return found

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self._key, self.__dict__)

    @property
    def batch(self) -> int:
        """How many rows are calculated at a time."""
        if self._batch is not None:
            return self._batch
        declared = {info.shape[0] for info in self.model.inputs if info.shape}
        numbers = [number for number in declared if number is not None]
        return numbers[0] if numbers else DEFAULT_BATCH

    def __call__(self, columns: Columns) -> dict[str, Array]:
        """N rows of the columns -> N rows of every output, by name, and of the columns to keep.

        Columns have the names of the model's inputs; a sole column for a sole input may have any. What NumPy has no dtype
        for is widened: bf16 to float32, c32 to complex64. Raises `InputError` for wrong columns, and what the model raises.
        """
        kept = {name: self._kept(columns, name) for name in self.keep}
        arrays = self._inputs(self.preprocess(columns) if self.preprocess else columns)
        outputs = self._outputs(arrays)
        if clash := [name for name in kept if name in outputs]:
            raise InputError(f"column '{clash[0]}' cannot be kept: an output has this name")
        return {**kept, **outputs}

    def for_spark(self, *columns: str) -> SparkFactory:
        """What `pyspark.ml.functions.predict_batch_udf` takes as its first argument.

        `columns` name the UDF's arguments for `preprocess`; without them they are the model's inputs in file order.
        """
        return SparkFactory(self, columns)

    def _kept(self, columns: Columns, name: str) -> Array:
        if name not in columns:
            raise InputError(
                f"there is no column '{name}' to keep, only {_listed(columns)}{did_you_mean(name, columns)}"
            )
        return np.asarray(columns[name])

    def _inputs(self, columns: Columns) -> list[Array]:
        model = self.model
        names = [info.name for info in model.inputs]
        if len(names) == 1 and names[0] not in columns:
            rest = [name for name in columns if name not in self.keep]
            if self.preprocess and not rest:  # what it made may have the name of what it was made of
                rest = list(columns)
            if len(rest) != 1:
                raise InputError(
                    f"expected a column '{names[0]}', or one column beside those to keep, found {_listed(columns)}"
                )
            given = {names[0]: columns[rest[0]]}
        else:
            if missing := [name for name in names if name not in columns]:
                raise InputError(
                    f"there is no column '{missing[0]}' for the input of this name, only {_listed(columns)}"
                    f"{did_you_mean(missing[0], columns)}"
                )
            given = {name: columns[name] for name in names}
        arrays = model.convert((), {name: _stacked(name, column) for name, column in given.items()})
        for name, array in zip(names, arrays, strict=True):
            if array.ndim == 0 or len(array) != len(arrays[0]):
                shapes = ", ".join(f"{n} {a.shape}" for n, a in zip(names, arrays, strict=True))
                raise ShapeError(f"input '{name}': expected as many rows in every column, found {shapes}")
        return arrays

    def _outputs(self, arrays: Sequence[Array]) -> dict[str, Array]:
        if not arrays:
            raise InputError("the model has no inputs, so there are no rows to run it on")
        batch, names = self.batch, [info.name for info in self.model.outputs]
        if len(arrays[0]) == 0:
            return {info.name: _no_rows(info.shape, info.dtype) for info in self.model.outputs}
        pieces = [self._run(arrays, first, batch) for first in range(0, len(arrays[0]), batch)]
        return {
            name: column[0] if len(column) == 1 else np.concatenate(column)
            for name, column in zip(names, zip(*pieces, strict=True), strict=True)
        }

    def _run(self, arrays: Sequence[Array], first: int, batch: int) -> list[Array]:
        rows = min(batch, len(arrays[0]) - first)
        inputs = [_filled_up(array[first : first + rows], batch) for array in arrays]
        try:
            with settings(threads=self.threads, **self._settings):
                results = self.model(*inputs)
        except ShapeError as error:
            raise error.at(f"{batch} rows at a time") from error
        results = results if isinstance(results, tuple) else (results,)
        for info, result in zip(self.model.outputs, results, strict=True):
            if result.ndim == 0 or len(result) != batch:
                raise ShapeError(f"output '{info.name}': expected {batch} rows for {batch} rows, found {result.shape}")
        return [_plain(result[:rows]) for result in results]

    def __repr__(self) -> str:
        what = repr(self._source) if isinstance(self._source, Model) else f"'{self._source}'"
        return f"<kuiperinfer.batch.Predictor {what}, threads={self.threads}>"


@dataclass(frozen=True)
class SparkFactory:
    """Made by `Predictor.for_spark`; called once in each of Spark's Python workers."""

    predictor: Predictor
    columns: tuple[str, ...]

    def __call__(self) -> Callable[..., Array | dict[str, Array]]:
        """A function of arrays that gives an array of one or two dimensions, or a dict of these: what Spark expects."""
        predictor = self.predictor
        names = self.columns or tuple(info.name for info in predictor.model.inputs)

        def predict(*arrays: Array) -> Array | dict[str, Array]:
            outputs = {
                name: _flat_rows(array) for name, array in predictor(dict(zip(names, arrays, strict=True))).items()
            }
            return next(iter(outputs.values())) if len(outputs) == 1 else outputs

        # Spark counts the parameters to find out how many columns there are.
        kind = inspect.Parameter.POSITIONAL_ONLY
        parameters = [inspect.Parameter(f"column_{number}", kind) for number in range(len(names))]
        predict.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return predict


def _arrived(key: str, state: dict[str, Any]) -> Predictor:
    """A predictor from its pickled form."""
    predictor = Predictor.__new__(Predictor)
    predictor.__dict__.update(state)
    if isinstance(predictor._source, Model):  # the same model arrives with every task: its compiled forms are kept
        with _loading:
            predictor._source = _loaded.setdefault(key, predictor._source)
            _loaded.move_to_end(key)
            while len(_loaded) > _MOST_LOADED:
                _loaded.popitem(last=False)
    return predictor


def _stacked(name: str, column: Any) -> Any:
    """A column of arrays (engines have object arrays of them) as one array."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column
    if isinstance(column, (list, tuple, np.ndarray)) and len(column) and isinstance(column[0], np.ndarray):
        shapes = sorted({np.shape(row) for row in column})
        if len(shapes) > 1:
            raise ShapeError(f"input '{name}': expected rows of one shape, found {', '.join(map(str, shapes))}")
        return np.stack(list(column))
    return column


def _filled_up(array: Array, rows: int) -> Array:
    """The array with its last row repeated until there are as many as asked for."""
    missing = rows - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array


def _no_rows(shape: Sequence[int | None] | None, dtype: Any) -> Array:
    trailing = tuple(dim or 0 for dim in shape[1:]) if shape else ()
    return _plain(np.empty((0, *trailing), dtype.storage if dtype else np.float32))


def _plain(array: Array) -> Array:
    return widen(array) if array.dtype.names else array


def _flat_rows(array: Array) -> Array:
    return array if array.ndim <= 2 else array.reshape(len(array), -1)


def _listed(columns: Columns) -> str:
    return ", ".join(map(repr, columns)) or "none"
