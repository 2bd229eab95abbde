"""Copies between memory with any strides: what permuting, slicing, expanding, joining and padding of rows come down to.

Elements are moved as integers of their size, so that one kernel serves all dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir

from ...records import dataclass
from ..builder import I32, Code, Index, Vector
from ..spec import KernelSpec
from .permutation import interleave, permute

TASK_ELEMENTS = 1 << 14  # elements that a task moves, at least, where there are as many
_UNROLL = 4
_FEW = 4  # elements that are interleaved at most
Dim: TypeAlias = tuple[int, int, int]  # size, strides of source and target


@dataclass(frozen=True)
class StridedCopySpec(KernelSpec):
    """Element (i, j, …) of `sizes` goes from ``i * source[0] + …`` to ``i * target[0] + …``, in elements of `itemsize` bytes.

    Arguments: source, target, which do not overlap. Made by `plan_copy`, which orders and joins the dimensions. Dimension
    `split` is cut into runs of `run` indices, a task each. `way` says how the last
    one or two dimensions are moved:

    * ``rows``: along the last, in vectors where it is contiguous in both;
    * ``squares``: transposed in registers; the source is contiguous along the second last, the target along the last;
    * ``interleave``: the few elements of the last dimension lie far apart in the source and together in the target;
    * ``deinterleave``: those of the second last dimension lie together in the source and far apart in the target.
    """

    sizes: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]
    itemsize: int
    split: int
    run: int
    way: str = "rows"

    @property
    def chunks(self) -> int:
        """Runs of the dimension that is cut."""
        return -(-self.sizes[self.split] // self.run)

    @property
    def divided(self) -> int:
        """How many dimensions come before those that a task moves; the last two stay together where both are moved at once."""
        return self.split if self.way == "rows" else min(self.split, len(self.sizes) - 2)

    @property
    def tasks(self) -> int:
        return math.prod(self.sizes[: self.divided]) * self.chunks

    @property
    def traffic(self) -> int:
        read = math.prod(size for size, stride in zip(self.sizes, self.source, strict=True) if stride)
        return self.itemsize * (read + math.prod(self.sizes))

    def emit(self, code: Code) -> None:
        places: Sequence[Vector] = code.pointers(2)
        rest, chunk = code.divmod(code.task, self.chunks)
        for dim in range(self.divided - 1, -1, -1):
            rest, index = code.divmod(rest, self.sizes[dim])
            places = self._moved(code, places, dim, index)
        first = code.mul(chunk, self.run)
        self._emit_dimension(code, places, self.divided, first)

    def _moved(self, code: Code, places: Sequence[Vector], dim: int, index: Index) -> tuple[Vector, Vector]:
        """Source and target at an index of a dimension."""
        source, target = places
        kind = self._element()
        return (
            code.at(source, code.mul(index, self.source[dim]), kind),
            code.at(target, code.mul(index, self.target[dim]), kind),
        )

    def _element(self) -> ir.Type:
        return ir.IntType(8 * self.itemsize)

    def _bounds(self, code: Code, dim: int, first: Index) -> tuple[Index, Index]:
        """The indices of a dimension that a task moves."""
        size = self.sizes[dim]
        if dim == self.split and self.run < size:
            return first, code.min(code.add(first, self.run), size)
        return 0, size

    def _emit_dimension(self, code: Code, places: Sequence[Vector], dim: int, first: Index) -> None:
        if self.way != "rows" and dim == len(self.sizes) - 2:
            {
                "squares": self._emit_squares,
                "interleave": self._emit_interleaved,
                "deinterleave": self._emit_deinterleaved,
            }[self.way](code, places, first)
            return
        if dim == len(self.sizes) - 1:
            self._emit_last(code, places, *self._bounds(code, dim, first))
            return

        def body(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            self._emit_dimension(code, self._moved(code, places, dim, index), dim + 1, first)
            return ()

        code.loop(*self._bounds(code, dim, first), 1, body, at_least_once=True)

    # ---------------------------------------------------------------------------------------- the last dimension

    def _emit_last(self, code: Code, places: Sequence[Vector], first: Index, last: Index) -> None:
        """All elements of the last dimension from `first` to `last`."""
        lanes = code.target.vector_bytes // self.itemsize
        move = {1: _copy, 0: _fill, -1: _reverse}.get(self.source[-1])
        if self.target[-1] != 1 or move is None:
            self._emit_elements(code, places, first, last)
            return
        size = self.sizes[-1]

        def part(index: Index, count: int) -> None:
            """`count` elements from `index` on, in one register."""
            move(code, *self._moved(code, places, len(self.sizes) - 1, index), self._element(), count)

        def vectors(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            for start in range(0, turn, lanes):
                part(code.add(index, start), lanes)
            return ()

        turn = lanes * _UNROLL
        whole = size // turn * turn
        if whole:
            code.loop(first, code.min(last, whole), turn, vectors)

        def rest() -> None:
            for start in range(whole, size - lanes + 1, lanes):
                part(start, lanes)
            if size % lanes and size > lanes:
                part(size - lanes, lanes)  # moves some elements twice
            elif size < lanes:
                start = 0
                for count in (lanes >> shift for shift in range(1, lanes.bit_length())):
                    if size & count:
                        part(start, count)
                        start += count

        if whole == size:
            return
        if isinstance(last, int):
            rest()
        else:
            with code.when(code.less(size - 1, last)):
                rest()

    def _emit_elements(self, code: Code, places: Sequence[Vector], first: Index, last: Index) -> None:
        """One element after the other."""
        dim, kind, size = len(self.sizes) - 1, self._element(), self.sizes[-1]
        turn = size if size <= 2 * _UNROLL else _UNROLL

        def element(index: Index) -> None:
            source, target = self._moved(code, places, dim, index)
            code.builder.store(code.builder.load(source, typ=kind, align=self.itemsize), target, align=self.itemsize)

        def elements(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            for step in range(turn):
                element(code.add(index, step))
            return ()

        whole = size // turn * turn
        code.loop(first, code.min(last, whole), turn, elements)
        if whole == size:
            return
        if isinstance(last, int):
            for index in range(whole, size):
                element(index)
        else:
            with code.when(code.less(size - 1, last)):
                for index in range(whole, size):
                    element(index)

    # ---------------------------------------------------------------------------------------- squares

    def _emit_squares(self, code: Code, places: Sequence[Vector], first: Index) -> None:
        """The last two dimensions in squares of lanes × lanes, transposed in registers. The last square of a dimension overlaps
        the one before it; of a dimension that is smaller than a square only a part is loaded or stored."""
        lanes = code.target.lanes
        down, across = len(self.sizes) - 2, len(self.sizes) - 1
        rows, columns = (min(lanes, size) for size in self.sizes[-2:])

        def square(index: Index, y: Index) -> None:
            corner = self._moved(code, places, down, code.min(y, self.sizes[down] - rows))
            source, target = self._moved(code, corner, across, code.min(index, self.sizes[across] - columns))
            vectors = []
            for column in range(lanes):
                place = code.at(source, column * self.source[across])
                if column >= columns:
                    vectors.append(code.splat(0.0))
                else:
                    vectors.append(code.load(place) if rows == lanes else code.load_first(place, rows))
            for row, vector in enumerate(code.transpose(vectors)[:rows]):
                place = code.at(target, row * self.target[down])
                if columns == lanes:
                    code.store(vector, place)
                else:
                    code.store_first(vector, place, columns)

        def band(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            def body(y: Index, _: Sequence[Vector]) -> Sequence[Vector]:
                square(index, y)
                return ()

            # the source's lines are read to their ends one after the other, which the hardware foresees; writes can wait
            code.loop(*self._bounds(code, down, first), lanes, body, at_least_once=True)
            return ()

        code.loop(*self._bounds(code, across, first), lanes, band, at_least_once=True)

    # ---------------------------------------------------------------------------------------- a few elements in turn

    def _emit_interleaved(self, code: Code, places: Sequence[Vector], first: Index) -> None:
        """The last dimension becomes the fastest: a vector of each of its elements, taken in turn."""
        down, count = len(self.sizes) - 2, self.sizes[-1]
        kind, lanes = self._element(), code.target.vector_bytes // self.itemsize

        def group(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            source, target = self._moved(code, places, down, code.min(index, self.sizes[down] - lanes))
            vectors = [self._load(code, code.at(source, i * self.source[-1], kind), lanes) for i in range(count)]
            for number, vector in enumerate(interleave(code, vectors)):
                code.builder.store(vector, code.at(target, number * lanes, kind), align=self.itemsize)
            return ()

        code.loop(*self._bounds(code, down, first), lanes, group, at_least_once=True)

    def _emit_deinterleaved(self, code: Code, places: Sequence[Vector], first: Index) -> None:
        """The second last dimension was the fastest: every r-th element for each of its indices; r is the source's stride."""
        across, count, step = len(self.sizes) - 1, self.sizes[-2], self.source[-1]
        kind, lanes = self._element(), code.target.vector_bytes // self.itemsize
        # of the elements behind the last one that is wanted nothing is read
        excess = step - count

        def group(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            source, target = self._moved(code, places, across, code.min(index, self.sizes[across] - lanes))
            starts = [number * lanes for number in range(step - 1)] + [(step - 1) * lanes - excess]
            vectors = [self._load(code, code.at(source, start, kind), lanes) for start in starts]
            for number in range(count):
                chosen = [divmod(lane * step + number, lanes) for lane in range(lanes)]
                chosen = [(v, lane + excess) if v == step - 1 else (v, lane) for v, lane in chosen]
                place = code.at(target, number * self.target[-2], kind)
                code.builder.store(permute(code, vectors, chosen), place, align=self.itemsize)
            return ()

        code.loop(*self._bounds(code, across, first), lanes, group, at_least_once=True)

    def _load(self, code: Code, place: Vector, lanes: int) -> Vector:
        return code.builder.load(place, typ=_vector(self._element(), lanes), align=self.itemsize)


def _vector(element: ir.Type, count: int) -> ir.Type:
    return element if count == 1 else ir.VectorType(element, count)


def _copy(code: Code, source: Vector, target: Vector, element: ir.Type, count: int) -> None:
    align = element.width // 8
    vector = code.builder.load(source, typ=_vector(element, count), align=align)
    code.builder.store(vector, target, align=align)


def _fill(code: Code, source: Vector, target: Vector, element: ir.Type, count: int) -> None:
    align = element.width // 8
    value = code.builder.load(source, typ=element, align=align)
    code.builder.store(value if count == 1 else _shuffled(code, value, element, [0] * count), target, align=align)


def _reverse(code: Code, source: Vector, target: Vector, element: ir.Type, count: int) -> None:
    align = element.width // 8
    start = code.at(source, 1 - count, element)
    vector = code.builder.load(start, typ=_vector(element, count), align=align)
    code.builder.store(
        vector if count == 1 else _shuffled(code, vector, element, range(count - 1, -1, -1)), target, align=align
    )


def _shuffled(code: Code, value: Vector, element: ir.Type, lanes: Sequence[int]) -> Vector:
    """The given lanes of a vector, or of a scalar put into one."""
    if not isinstance(value.type, ir.VectorType):
        kind = ir.VectorType(element, len(lanes))
        value = code.builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    mask = ir.Constant(ir.VectorType(I32, len(lanes)), [ir.Constant(I32, lane) for lane in lanes])
    return code.builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


# ------------------------------------------------------------------------------------------- planning


def plan_copy(
    sizes: Sequence[int], source: Sequence[int], target: Sequence[int], itemsize: int, lanes: int
) -> StridedCopySpec:
    """The spec of a copy with strides in elements; no size is 0. Target strides are positive where a size is above 1.

    Elements of 16 bytes are moved as two of 8.
    """
    dims = [dim for dim in zip(sizes, source, target, strict=True) if dim[0] > 1]
    if itemsize == 16:
        dims, itemsize = [(size, 2 * s, 2 * t) for size, s, t in dims] + [(2, 1, 1)], 8
    dims = _joined(sorted(dims, key=lambda dim: -dim[2])) or [(1, 1, 1)]
    way, dims = _choose_way(dims, itemsize, lanes)
    counts = [dim[0] for dim in dims]
    split = next(dim for dim in range(len(dims)) if math.prod(counts[dim + 1 :]) <= TASK_ELEMENTS)
    # whole squares, and whole turns of the loop over the last dimension
    grain = lanes * _UNROLL * (4 // itemsize or 1) if split >= len(dims) - 2 else 1
    run = -(-TASK_ELEMENTS // math.prod(counts[split + 1 :]) // grain) * grain
    return StridedCopySpec(
        tuple(counts),
        tuple(dim[1] for dim in dims),
        tuple(dim[2] for dim in dims),
        itemsize,
        split,
        min(run, counts[split]),
        way,
    )


def _choose_way(dims: list[Dim], itemsize: int, lanes: int) -> tuple[str, list[Dim]]:
    """How the last dimensions are moved, and the dimensions in the order that this way wants."""
    size, source, target = dims[-1]
    vector = lanes * 4 // itemsize
    if target != 1 or source in (1, 0, -1):
        return "rows", dims
    if len(dims) > 1 and size <= _FEW and dims[-2][1:] == (1, size) and dims[-2][0] >= vector:
        return "interleave", dims
    if 1 < source <= _FEW and size >= vector:
        along = next((dim for dim in dims[:-1] if dim[1] == 1 and dim[0] <= source), (1, 1, 1))
        return "deinterleave", [*(dim for dim in dims[:-1] if dim is not along), along, dims[-1]]
    if itemsize == 4 and size >= lanes // 2:
        along = next((dim for dim in dims[:-1] if dim[1] == 1 and dim[0] >= lanes // 2), (0, 0, 0))
        if along[0]:
            return "squares", [*(dim for dim in dims[:-1] if dim is not along), along, dims[-1]]
    return "rows", dims


def _joined(dims: list[Dim]) -> list[Dim]:
    """Neighbouring dimensions that are one in both source and target, put together."""
    joined: list[Dim] = []
    for size, source, target in dims:
        if joined:
            outer, outer_source, outer_target = joined[-1]
            if outer_source == source * size and outer_target == target * size:
                joined[-1] = (outer * size, source, target)
                continue
        joined.append((size, source, target))
    return joined
