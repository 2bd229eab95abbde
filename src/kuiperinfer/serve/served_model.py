"""A loaded model as the server sees it: what it takes, and by which compiled code a request is run.

Rows of a batch are joined only if that changes no answer. Whether it does is measured when a model is loaded: rows run together
are compared with the same rows run alone.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import Array, DType, TensorSpec, f32, narrow
from ..errors import CompileError, KuiperError
from ..runtime import Model, ValueInfo
from ..runtime.comparison import compare
from ..settings import settings
from .datatypes import datatype_name
from .options import Options
from .refusals import bad_request
from .scheduler import Lane, Outputs, Run

log = logging.getLogger(__name__)

Shapes = tuple[tuple[int, ...], ...]


class ServedModel:
    """One version of a model. Made in a thread, since it compiles and runs the model (`warm_up`)."""

    def __init__(self, name: str, version: str, model: Model, options: Options) -> None:
        self.name = name
        self.version = version
        self.model = model
        self._options = options
        for info in (*model.inputs, *model.outputs):
            if info.dtype is not None:
                datatype_name(info.dtype)
        self.rows_are_free = False  # whether the first dimension may be any, and its rows do not look at each other
        self.joins = False  # whether requests are run together
        self.job: Any = None  # what it does with pictures, if it does and the extra for pictures is there
        self._row_lane: Lane | None = None
        self._row_shapes: Shapes | None = None
        self._lanes: OrderedDict[Shapes, Lane] = OrderedDict()

    def warm_up(self) -> None:
        """Compiles and runs the model for the shapes in its file, and for batches of them where these give the same answers."""
        singles = _declared_shapes(self.model.inputs)
        if singles is None:
            return  # known only with the first request
        single = self._compile(singles)
        self._lanes[singles] = Lane(single)
        rows = [_random_input(info, shape) for info, shape in zip(self.model.inputs, singles, strict=True)]
        single(rows)
        if singles and all(shape and shape[0] == 1 for shape in singles):
            self._try_batches(single, singles)

    def _try_batches(self, single: Run, singles: Shapes) -> None:
        """Finds out whether rows may be run together, and compiles for 2, 4, 8… of them."""
        most = max(2, self._options.max_batch)
        sizes = [1 << power for power in range(1, most.bit_length()) if 1 << power <= most]
        shapes = tuple(shape[1:] for shape in singles)
        inputs = [
            _random_input(info, (sizes[-1], *shape)) for info, shape in zip(self.model.inputs, shapes, strict=True)
        ]
        alone = [single([array[row : row + 1] for array in inputs]) for row in range(sizes[-1])]
        runs = {1: single}
        for size in sizes:
            try:
                run = self._compile(tuple((size, *shape) for shape in shapes))
                together = run([array[:size] for array in inputs])
            except KuiperError as error:
                log.info("%s takes one row at a time: %s", self.name, error)
                return
            if not _same_rows(together, alone[:size], exact=False):
                log.info("%s takes one row at a time: rows of a batch of %d depend on each other", self.name, size)
                return
            self.rows_are_free = True
            if self._options.max_batch == 1:
                return
            if self._options.exact and not _same_rows(together, alone[:size], exact=True):
                log.info(
                    "%s is not batched: rows of a batch of %d differ in their last bits from single ones",
                    self.name,
                    size,
                )
                return
            runs[size] = run
        self.joins = True
        self._row_shapes = shapes
        self._row_lane = Lane(_in_shares(runs), self._options.max_batch, self._options.max_delay)

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
        first = {shape[0] if shape else None for _, shape in inputs}
        if self.rows_are_free and (len(first) > 1 or first == {0}):
            raise bad_request("the first dimension of all inputs must be the same, and at least 1")

    def lane(self, shapes: Shapes) -> Lane | None:
        """The lane of requests with these input shapes; None where there is none yet (see `open_lane`)."""
        if self._row_lane is not None and tuple(shape[1:] for shape in shapes) == self._row_shapes:
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

    def _compile(self, shapes: Shapes) -> Run:
        if settings.engine == "compiled":
            specs = [
                TensorSpec(shape, info.dtype or f32) for info, shape in zip(self.model.inputs, shapes, strict=True)
            ]
            try:
                return self.model.compile(*specs, threads=self._options.threads).run
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


def _random_input(info: ValueInfo, shape: Sequence[int]) -> Array:
    """Normally distributed numbers; zeros and ones for integers, which are mostly indices, and for bools."""
    dtype: DType = info.dtype or f32
    generator = np.random.default_rng(0)
    numbers = generator.standard_normal(shape) if dtype.kind == "float" else generator.integers(0, 2, shape)
    return narrow(np.asarray(numbers).astype(dtype.compute), dtype)


def _same_rows(together: Outputs, alone: Sequence[Outputs], *, exact: bool) -> bool:
    """Whether the outputs of a batch are those of its rows, one below the other: bit for bit, or as near as floats can be."""
    for output, parts in zip(together, zip(*alone, strict=True), strict=True):
        if any(part.ndim == 0 or part.shape[0] != 1 for part in parts) or output.shape[:1] != (len(parts),):
            return False
        if len({part.shape for part in parts}) > 1 or output.shape[1:] != parts[0].shape[1:]:
            return False
        expected = np.concatenate(parts)
        if exact and output.tobytes() != expected.tobytes():
            return False
        if not exact and not compare(output, expected).ok:
            return False
    return bool(together)


def _in_shares(runs: dict[int, Run]) -> Run:
    """A run of any number of rows, in shares of the sizes that there is code for, the largest first."""
    sizes = sorted(runs, reverse=True)

    def run(inputs: Sequence[Array]) -> Outputs:
        rows, start, shares = inputs[0].shape[0], 0, []
        while start < rows:
            size = next(size for size in sizes if size <= rows - start)
            shares.append(runs[size]([array[start : start + size] for array in inputs]))
            start += size
        return shares[0] if len(shares) == 1 else [np.concatenate(parts) for parts in zip(*shares, strict=True)]

    return run
