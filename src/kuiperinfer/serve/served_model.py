"""A loaded model as the server sees it: what it takes, and by which compiled code a request is run.

Requests are run together only if that changes no answer. Whether it does, and which way is the quickest, is measured when a
model is loaded: rows run together are compared with the same rows run alone.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..dtypes import Array, DType, TensorSpec, f32, narrow
from ..errors import CompileError, KuiperError
from ..runtime import Model, ValueInfo
from ..settings import settings
from .datatypes import datatype_name
from .options import Options
from .refusals import bad_request
from .rows import Apart, Together, quickest, same_rows
from .scheduler import Lane, Outputs, Run

log = logging.getLogger(__name__)

Shapes = tuple[tuple[int, ...], ...]


class ServedModel:
    """One version of a model. Made in a thread, since it compiles and runs the model (`warm_up`)."""

    def __init__(self, name: str, version: str, model: Model, options: Options, pool: ThreadPoolExecutor) -> None:
        self.name = name
        self.version = version
        self.model = model
        self._options = options
        self._pool = pool
        for info in (*model.inputs, *model.outputs):
            if info.dtype is not None:
                datatype_name(info.dtype)
        self.rows_are_free = False  # whether the first dimension may be any, and its rows do not look at each other
        self.rows_are_exact = False  # whether rows are the same bit for bit in a batch as alone
        self.how = "one request at a time"  # or how several requests are run together
        self.job: Any = None  # what it does with pictures, if it does and the extra for pictures is there
        self._row_lane: Lane | None = None
        self._row_shapes: Shapes = ()
        self._lanes: OrderedDict[Shapes, Lane] = OrderedDict()

    @property
    def joins(self) -> bool:
        """Whether requests are run together."""
        return self._row_lane is not None

    @property
    def _joins_any(self) -> bool:
        """Whether requests of several rows are too: these are the model's own batch, whose last bits may be others."""
        return self.joins and (self.rows_are_exact or not self._options.exact)

    def warm_up(self) -> None:
        """Compiles and runs the model for the shapes in its file, and finds out whether and how rows are run together."""
        singles = _declared_shapes(self.model.inputs)
        if singles is None:
            return  # known only with the first request
        try:
            single = self._compile(singles)
        except KuiperError as error:
            if not any(info.shape and None in info.shape for info in self.model.inputs):
                raise
            log.info("%s is not warmed up, for it does not take invented shapes: %s", self.name, error)
            return
        self._lanes[singles] = Lane(single)
        try:
            single(_random_inputs(self.model.inputs, singles))
        except KuiperError as error:
            log.info("%s is not warmed up, for it does not take invented input: %s", self.name, error)
            return
        if self._options.max_batch > 1 and singles and all(shape and shape[0] == 1 for shape in singles):
            self._row_shapes = tuple(shape[1:] for shape in singles)
            try:
                self._try_rows(single)
            except (KuiperError, MemoryError) as error:
                log.info("%s does not take several rows: %s", self.name, error or "not enough memory")

    def _try_rows(self, single: Run) -> None:
        most = self._options.max_batch
        inputs = _random_inputs(self.model.inputs, [(most, *shape) for shape in self._row_shapes])
        alone = [single([array[row : row + 1] for array in inputs]) for row in range(most)]

        def is_same(run: Run, rows: int, *, exact: bool) -> bool:
            return same_rows(run([array[:rows] for array in inputs]), alone[:rows], exact=exact)

        runs = {rows: self._compile_rows(rows) for rows in (2, most)}
        if not all(is_same(run, rows, exact=False) for rows, run in runs.items()):
            log.info("rows of %s look at each other", self.name)
            return
        self.rows_are_free = True
        self.rows_are_exact = all(is_same(run, rows, exact=True) for rows, run in runs.items())
        threads = self._options.threads
        narrow = self._compile_rows(1, threads=1)
        apart = Apart(single, narrow, threads, self._pool)
        may_join = self.rows_are_exact or not self._options.exact
        if may_join and quickest([apart, runs[most]], inputs) is not apart:
            between = {1 << power for power in range(2, most.bit_length())}
            runs |= {rows: self._compile_rows(rows) for rows in between - {*runs}}
            self._row_lane = Lane(Together({1: single, **runs}), most, self._options.max_delay)
            self.how = f"batches of up to {most} rows"
        elif threads > 1:
            self._row_lane = Lane(apart, alone=narrow)
            self.how = f"up to {threads} rows at a time, a thread for each"

    def _compile_rows(self, rows: int, threads: int | None = None) -> Run:
        return self._compile(tuple((rows, *shape) for shape in self._row_shapes), threads)

    # ------------------------------------------------------------------------------------------- requests

    def check_shapes(self, inputs: Sequence[tuple[ValueInfo, Sequence[int]]]) -> None:
        """Raises `Refusal` where a shape is not one that the model declares."""
        for info, shape in inputs:
            expected = self._declared(info)
            if expected is not None and (
                len(expected) != len(shape)
                or any(want not in (-1, found) for want, found in zip(expected, shape, strict=True))
            ):
                raise bad_request(f"input '{info.name}': expected shape {expected}, -1 for any, found {list(shape)}")
        if self.rows_are_free and not self._may_join([shape for _, shape in inputs]):  # this number has code of its own
            most = self._options.max_batch
            found = max((shape[0] for info, shape in inputs if info.shape and info.shape[0] is not None), default=0)
            if found > most:
                raise bad_request(f"this model takes at most {most} rows in one request, found {found}")

    def _may_join(self, shapes: Sequence[Sequence[int]]) -> bool:
        """Whether these rows may run with those of other requests: not where the inputs have different numbers, or none."""
        counts = {shape[0] for shape in shapes if shape}
        return counts == {1} or (self._joins_any and len(counts) == 1 and counts != {0})

    def lane(self, shapes: Shapes) -> Lane | None:
        """The lane of requests with these input shapes; None where there is none yet (see `open_lane`)."""
        fits = tuple(shape[1:] for shape in shapes) == self._row_shapes
        if self._row_lane is not None and fits and self._may_join(shapes):
            return self._row_lane
        lane = self._lanes.get(shapes)
        if lane is not None:
            self._lanes.move_to_end(shapes)
        return lane

    def compile_lane(self, shapes: Shapes) -> Lane:
        """A lane for input shapes that are new, for which the model is compiled. To be called in a thread."""
        return Lane(self._compile(shapes))

    def keep_lane(self, shapes: Shapes, lane: Lane) -> None:
        """Keeps a lane, and forgets the one that has been without requests for longest if there are too many."""
        self._lanes[shapes] = lane
        while len(self._lanes) > max(1, settings.max_plans):
            self._lanes.popitem(last=False)

    def _compile(self, shapes: Shapes, threads: int | None = None) -> Run:
        if settings.engine == "compiled":
            specs = [
                TensorSpec(shape, info.dtype or f32) for info, shape in zip(self.model.inputs, shapes, strict=True)
            ]
            try:
                return self.model.compile(*specs, threads=threads or self._options.threads).run
            except CompileError as error:
                log.warning("%s runs on the reference, slowly: %s", self.name, error)
        return self._run_reference

    def _run_reference(self, inputs: Sequence[Array]) -> Outputs:
        with settings(engine="reference"):
            found = self.model(*inputs)
        return list(found) if isinstance(found, tuple) else [found]

    # ------------------------------------------------------------------------------------------- metadata

    def _declared(self, info: ValueInfo) -> list[int] | None:
        if info.shape is None:
            return None
        shape = [-1 if dim is None else dim for dim in info.shape]
        return [-1, *shape[1:]] if self.rows_are_free else shape

    def output_names(self, count: int) -> list[str]:
        """The names of `count` outputs: the model's, or numbers where only a run can tell how many there are."""
        names = [info.name for info in self.model.outputs]
        return names if len(names) == count else [f"out{index}" for index in range(count)]

    def metadata(self, versions: Sequence[str]) -> dict[str, Any]:
        """The protocol's model metadata."""

        def describe(info: ValueInfo) -> dict[str, Any]:
            datatype = datatype_name(info.dtype or f32)
            return {"name": info.name, "datatype": datatype, "shape": self._declared(info) or [-1]}

        return {
            "name": self.name,
            "versions": list(versions),
            "platform": "kuiperinfer_pnnx",
            "inputs": [describe(info) for info in self.model.inputs],
            "outputs": [describe(info) for info in self.model.outputs],
        }


def _declared_shapes(infos: Sequence[ValueInfo]) -> Shapes | None:
    """The input shapes in the file, with 1 for a first dimension that is free; None where another one is."""
    shapes = []
    for info in infos:
        if info.shape is None:
            return None
        shape = tuple(1 if dim is None and axis == 0 else dim for axis, dim in enumerate(info.shape))
        shapes.append(tuple(dim for dim in shape if dim is not None))
        if len(shapes[-1]) != len(shape):
            return None
    return tuple(shapes)


def _random_inputs(infos: Sequence[ValueInfo], shapes: Sequence[Sequence[int]]) -> list[Array]:
    """Normally distributed numbers; zeros and ones for integers, which are mostly indices, and for bools.

    No two inputs are the same: what a model does with their difference would not be seen.
    """
    generator = np.random.default_rng(0)
    arrays = []
    for info, shape in zip(infos, shapes, strict=True):
        dtype: DType = info.dtype or f32
        numbers = generator.standard_normal(shape) if dtype.kind == "float" else generator.integers(0, 2, shape)
        arrays.append(narrow(np.asarray(numbers).astype(dtype.compute), dtype))
    return arrays
