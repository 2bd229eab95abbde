"""Expressions over strided arrays, each evaluated in one loop: the engine under lazy arithmetic and in-place updates.

    loop = fused(parse("add(mul(@0,@1),@2)"))
    loop([x, y, 0.5], [out])        out[...] = x * y + 0.5, broadcast; out may be x or y itself

Large float32 loops are compiled, without temporaries, by code that is generic over sizes, strides and numbers, so that one
kernel serves all shapes. Everything else is NumPy: where there is little to do (`COMPILED_FROM`) its functions are faster, and
other dtypes are evaluated block by block, so that temporaries stay in the cache.
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..codegen.cache import load_kernels
from ..codegen.expressions import is_vectorizable
from ..codegen.kernels.any_shape_map import ANY, BROADCAST, DENSE, NUMBER, AnyShapeMapSpec, MapPart
from ..codegen.kernels.map import ELEMENTS, coalesce
from ..codegen.objects import KERNEL_TYPE
from ..codegen.spec import kernel_name
from ..codegen.target import Target, current_target, runs_here
from ..dtypes import Array, DType, Scalar, TensorSpec, dtype_of, f32, narrow, result_type, scalar_dtype, widen
from ..errors import ShapeError
from ..expression import ALL_FUNCTIONS, Call, Expression, Literal, Operand, evaluate, infer, substitute
from ..expression.tree import distinct_nodes
from ..memory import ALIGNMENT
from ..runtime.team import default_threads, team
from ..settings import settings

# Elements times functions from which a compiled loop is faster than NumPy's functions. Measured by bench/tensor.py: a sum is
# even at 16,000 to 30,000 elements, three cheap functions at 2,000, a sigmoid with a product and a sum at 500.
COMPILED_FROM = 1 << 14
_STREAMED_FROM = 8 << 20  # bytes of a result that leave no room for others in the caches
_THREADED_FROM = 1 << 17  # elements that are worth waking other threads for
_BLOCK = 1 << 14  # elements of a block that NumPy evaluates at once
_TASKS_A_THREAD = 4
_MOST_WAYS = 4096  # forms of operands that a loop remembers

Value: TypeAlias = "Array | Scalar"
Kind: TypeAlias = (
    "tuple[DType, bool] | type"  # of an array: dtype, and whether it has dimensions; of a number: its type
)


def kind_of(operand: Value) -> Kind:
    """What the dtype of a result hangs on."""
    return (dtype_of(operand), operand.ndim > 0) if isinstance(operand, np.ndarray) else type(operand)


def _spec(kind: Kind) -> Any:
    """A spec that stands for all operands of a kind; for numbers, a number."""
    return TensorSpec((1,) if kind[1] else (), kind[0]) if isinstance(kind, tuple) else kind(1)


class FusedLoop:
    """Expressions of common operands, evaluated side by side. Made by `fused`, which keeps one for equal trees."""

    def __init__(self, trees: tuple[Expression, ...]) -> None:
        self.trees = trees
        self.calls = sum(isinstance(node, Call) for tree in trees for node in distinct_nodes(tree))
        self._texts = tuple(map(str, trees))
        self._dtypes: dict[tuple[Kind, ...], tuple[DType, ...]] = {}
        self._ways: dict[Any, _Way] = {}
        self._kernels: dict[Any, _Kernel] = {}

    def dtypes(self, kinds: tuple[Kind, ...]) -> tuple[DType, ...]:
        """The dtypes of the results; raises what `expression.infer` raises for operands that do not go together."""
        found = self._dtypes.get(kinds)
        if found is None:
            specs = [_spec(kind) for kind in kinds]
            found = self._dtypes[kinds] = tuple(infer(tree, specs).dtype for tree in self.trees)
        return found

    def __call__(self, operands: Sequence[Value], outputs: Sequence[Array]) -> None:
        """Writes the value of each tree into its output, cast to that dtype; all outputs have one shape.

        An output may overlap operands in any way: where it is not the very same elements in the same order, the values are
        calculated elsewhere first. `ShapeError` for operands that do not broadcast to the outputs.
        """
        now = settings.current()
        streams = outputs[0].nbytes >= _STREAMED_FROM and _can_stream(operands, outputs)
        key = (now.engine, now.target, now.threads, streams, *map(_form, operands), *map(_form, outputs))
        way = self._ways.get(key)
        if way is None:
            if len(self._ways) >= _MOST_WAYS:
                self._ways.clear()
            way = self._ways[key] = self._find_way(operands, outputs, streams)
        way(operands, outputs)

    def _find_way(self, operands: Sequence[Value], outputs: Sequence[Array], streams: bool) -> _Way:
        """How operands and outputs of these dtypes, shapes and strides are gone through."""
        shape = outputs[0].shape
        views = [_broadcast(operand, shape) if isinstance(operand, np.ndarray) else operand for operand in operands]
        kinds = tuple(map(kind_of, operands))
        if not outputs[0].size:
            return _do_nothing
        if outputs[0].size * max(self.calls, 1) >= COMPILED_FROM and self._is_compilable(kinds, outputs):
            return self._compiled(views, outputs, streams)
        steps = _plan_steps(self.trees, kinds)
        values = steps or (lambda given: [evaluate(tree, given) for tree in self.trees])
        if outputs[0].size > _BLOCK:
            return _Blockwise(values, shape)
        return _InPlace(steps) if steps is not None and steps.ends_in_ufunc(outputs) else _AtOnce(values)

    def _is_compilable(self, kinds: tuple[Kind, ...], outputs: Sequence[Array]) -> bool:
        specs = [_spec(kind) for kind in kinds]
        if settings.engine != "compiled" or not runs_here(current_target()):
            return False
        if any(
            isinstance(spec, complex) or (isinstance(spec, TensorSpec) and spec.dtype not in ELEMENTS) for spec in specs
        ):
            return False
        if any(dtype_of(output) is not dtype for output, dtype in zip(outputs, self.dtypes(kinds), strict=True)):
            return False
        numbers = {i: Literal(spec) for i, spec in enumerate(specs) if not isinstance(spec, TensorSpec)}
        return all(is_vectorizable(substitute(tree, numbers), specs) for tree in self.trees)

    def _compiled(self, views: Sequence[Value], outputs: Sequence[Array], streams: bool) -> _Compiled:
        everything = [*(view for view in views if isinstance(view, np.ndarray)), *outputs]
        shape, strides = _walk(everything)
        outer, rows = len(shape) - 1, math.prod(shape[:-1])
        parts = iter([MapPart(dtype_of(a), _step(a, own[-1])) for a, own in zip(everything, strides, strict=True)])
        operands = tuple(next(parts) if isinstance(view, np.ndarray) else MapPart(f32, NUMBER) for view in views)
        spec = AnyShapeMapSpec(self._texts, operands, tuple(parts), outer, streams and not outer)
        target = current_target()
        kernel = self._kernels.get((spec, target))
        if kernel is None:
            kernel = self._kernels[spec, target] = _Kernel(spec, target)
        threads = default_threads() if outputs[0].size >= _THREADED_FROM else 1
        run, shares, height = _tasks(shape[-1], rows, threads)
        words = [shape[-1], run, shares, rows, height, *shape[1:-1]]
        steps = [part.step for part in spec.parts if part.step != NUMBER]
        for step, own in zip(steps, strides, strict=True):
            words.extend(own if step == ANY else own[:-1])
        return _Compiled(kernel, words, shares * -(-rows // height), threads, views, outputs)


@functools.lru_cache(maxsize=2048)
def fused(*trees: Expression) -> FusedLoop:
    """The loop that evaluates these expressions together."""
    return FusedLoop(trees)


# ------------------------------------------------------------------------------------------- how arrays are walked through


def _form(operand: Any) -> Any:
    """What the way hangs on: an array's dtype, shape and strides; a number's type."""
    if isinstance(operand, np.ndarray):
        return operand.dtype, operand.shape, operand.strides
    return type(operand)


def _can_stream(operands: Sequence[Value], outputs: Sequence[Array]) -> bool:
    """Whether results may go past the caches: they begin at a cache line, and are not what is read too."""
    return all(output.ctypes.data % ALIGNMENT == 0 for output in outputs) and not any(
        np.may_share_memory(operand, output)
        for operand in operands
        if isinstance(operand, np.ndarray)
        for output in outputs
    )


def _broadcast(array: Array, shape: tuple[int, ...]) -> Array:
    if array.shape == shape:
        return array
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ShapeError(
            f"an operand of shape {array.shape} cannot be broadcast to the result's shape {shape}"
        ) from None


def _walk(arrays: Sequence[Array]) -> tuple[tuple[int, ...], Sequence[tuple[int, ...]]]:
    """Sizes and strides, in bytes, of as few dimensions as the arrays need, in the order of the last one's memory."""
    return coalesce(arrays[-1].shape, [array.strides for array in arrays])


def _step(array: Array, stride: int) -> str:
    return BROADCAST if stride == 0 else DENSE if stride == array.itemsize else ANY


def _tasks(elements: int, rows: int, threads: int) -> tuple[int, int, int]:
    """Elements of a row that a task takes, how many tasks share a row, and how many rows a task takes."""
    if threads == 1:
        return elements, 1, rows
    wanted = threads * _TASKS_A_THREAD
    if rows >= wanted:
        return elements, 1, -(-rows // wanted)
    run = max(-(-elements * rows // wanted), 1024) + 63 & ~63
    return run, -(-elements // run), 1


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[Any, ...]]:
    """Indices that cut an array into blocks of at most `_BLOCK` elements; its dimensions stay as many as they are."""
    split, inner = len(shape), 1
    while inner * shape[split - 1] <= _BLOCK:
        split -= 1
        inner *= shape[split]
    run = max(1, _BLOCK // inner)
    for outer in itertools.product(*map(range, shape[: split - 1])):
        for start in range(0, shape[split - 1], run):
            yield (*(slice(i, i + 1) for i in outer), slice(start, start + run))


def _reach(array: Array) -> tuple[int, int]:
    """The bytes that an array's elements lie in, counted from its address."""
    low = high = 0
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


class _Hazards:
    """Tells whether writing the outputs could change elements of operands that are still to be read.

    Reading and writing the same elements in the same order is none.
    """

    def __init__(self, views: Sequence[Value], outputs: Sequence[Array]) -> None:
        self._pairs = [
            (n, len(views) + m, *_reach(view), *_reach(output), view.strides == output.strides)
            for m, output in enumerate(outputs)
            for n, view in enumerate(views)
            if isinstance(view, np.ndarray)
        ]

    def __call__(self, addresses: Sequence[Any]) -> bool:
        for operand, output, low, high, out_low, out_high, same in self._pairs:
            read, written = addresses[operand], addresses[output]
            if read + low < written + out_high and written + out_low < read + high and not (same and read == written):
                return True
        return False


def _elsewhere(way: _Way, operands: Sequence[Value], outputs: Sequence[Array]) -> None:
    fresh = [_with_strides_of(output) for output in outputs]
    way(operands, fresh)
    for output, values in zip(outputs, fresh, strict=True):
        output[...] = values


def _with_strides_of(array: Array) -> Array:
    """Memory of its own in the form of an array: a way counts on the strides that it was made for."""
    low, high = _reach(array)
    return np.ndarray(array.shape, array.dtype, np.empty(high - low, np.uint8), -low, array.strides)


# ------------------------------------------------------------------------------------------- ways to evaluate


_Way: TypeAlias = "Callable[[Sequence[Value], Sequence[Array]], None]"


def _do_nothing(operands: Sequence[Value], outputs: Sequence[Array]) -> None:
    """For no elements."""


class _AtOnce:
    """NumPy's functions, applied to the whole arrays before anything is written."""

    def __init__(self, values: Callable[[Sequence[Value]], list[Any]]) -> None:
        self._values = values

    def __call__(self, operands: Sequence[Value], outputs: Sequence[Array]) -> None:
        values = self._values(operands)
        if len(values) > 1:
            values = [np.copy(v) if any(v is operand for operand in operands) else v for v in values]
        for output, value in zip(outputs, values, strict=True):
            _assign(output, value)


class _InPlace:
    """NumPy's functions, of which the last one writes into the output by itself."""

    def __init__(self, steps: _Steps) -> None:
        self._steps = steps

    def __call__(self, operands: Sequence[Value], outputs: Sequence[Array]) -> None:
        self._steps(operands, outputs[0])


class _Blockwise:
    """NumPy's functions, block by block, so that temporaries are small."""

    def __init__(self, values: Callable[[Sequence[Value]], list[Any]], shape: tuple[int, ...]) -> None:
        self._values, self._shape = values, shape

    def __call__(self, operands: Sequence[Value], outputs: Sequence[Array]) -> None:
        views = [_broadcast(o, outputs[0].shape) if isinstance(o, np.ndarray) and o.ndim else o for o in operands]
        arrays = [*(view if isinstance(view, np.ndarray) else np.asarray(view) for view in views), *outputs]
        if _Hazards(views, outputs)([array.ctypes.data for array in arrays]):
            _elsewhere(self, operands, outputs)
            return
        for index in _blocks(self._shape):
            # A 0-d operand stays one: it counts less in the promotion of dtypes.
            block = [view[index] if isinstance(view, np.ndarray) and view.ndim else view for view in views]
            for output, value in zip(outputs, self._values(block), strict=True):
                _assign(output[index], value)


class _Compiled:
    """A compiled loop over all elements."""

    def __init__(
        self,
        kernel: _Kernel,
        words: Sequence[int],
        tasks: int,
        threads: int,
        views: Sequence[Value],
        outputs: Sequence[Array],
    ) -> None:
        self._kernel, self._words, self._tasks, self._threads = kernel, tuple(words), tasks, threads
        self._hazards = _Hazards(views, outputs)

    def __call__(self, operands: Sequence[Value], outputs: Sequence[Array]) -> None:
        places = [
            operand.ctypes.data if isinstance(operand, np.ndarray) else _single(operand)
            for operand in (*operands, *outputs)
        ]
        if self._hazards(places):
            _elsewhere(self, operands, outputs)
        else:
            self._kernel.run((*places, *self._words), self._tasks, self._threads)


def _assign(output: Array, value: Any) -> None:
    if not isinstance(value, np.ndarray):
        value = narrow(np.asarray(value), dtype_of(output))
    output[...] = value if value.dtype == output.dtype else narrow(widen(value), dtype_of(output))


# ------------------------------------------------------------------------------------------- compiled kernels


def _single(number: Scalar) -> float:
    """A number as float32 holds it."""
    assert not isinstance(number, complex)
    with np.errstate(over="ignore"):
        return float(np.float32(number))


class _Kernel:
    """Machine code of a spec, and the form of its table of arguments."""

    def __init__(self, spec: AnyShapeMapSpec, target: Target) -> None:
        name = kernel_name(spec, target)
        self._library = load_kernels({name: spec}, target)
        self._address = self._library.addresses[name]
        self._function = KERNEL_TYPE(self._address)
        parts = spec.parts
        strides = sum((spec.outer + (part.step == ANY)) for part in parts if part.step != NUMBER)
        places = "".join("f4x" if part.step == NUMBER else "q" for part in parts)
        self._pack = struct.Struct(f"={places}{5 + max(spec.outer - 1, 0) + strides}q").pack

    def run(self, words: Sequence[float], tasks: int, threads: int) -> None:
        arguments = self._pack(*words)
        if tasks == 1:
            self._function(arguments, 0, None)
            return
        held = np.frombuffer(arguments, np.int64)
        table = np.array([self._address, tasks, held.ctypes.data], np.int64)
        team().run(table, 0, 1, 0, threads)


# ------------------------------------------------------------------------------------------- NumPy's functions, planned


class _Step(NamedTuple):
    """A call: NumPy's function, its arguments by slot with the dtypes to convert them to, and the result's dtype."""

    function: Callable[..., Array]
    arguments: tuple[tuple[int, np.dtype[Any]], ...]
    dtype: np.dtype[Any]


class _Steps:
    """The calls of NumPy's functions that some trees come to, with everything found out that hangs on dtypes alone."""

    def __init__(self, literals: Sequence[Any], steps: Sequence[_Step], results: Sequence[int]) -> None:
        self._literals, self._steps, self._results = literals, steps, results

    def ends_in_ufunc(self, outputs: Sequence[Array]) -> bool:
        """Whether the last call gives the only result, and can write it into the output."""
        if (
            len(outputs) > 1
            or not self._steps
            or max(s for step in self._steps for s, _ in step.arguments) >= self._results[0]
        ):
            return False
        return isinstance(self._steps[-1].function, np.ufunc) and self._steps[-1].dtype == outputs[0].dtype

    def __call__(self, operands: Sequence[Value], output: Array | None = None) -> list[Any]:
        slots: list[Any] = [*operands, *self._literals]
        last = len(slots) + len(self._steps) - 1
        with np.errstate(all="ignore"):
            for function, arguments, dtype in self._steps:
                given = [_as(slots[slot], wanted) for slot, wanted in arguments]
                if output is not None and len(slots) == last:
                    function(*given, out=output)
                    return [output]
                value = np.asarray(function(*given))
                slots.append(value if value.dtype == dtype else narrow(value, dtype_of(dtype)))
        return [slots[slot] for slot in self._results]


def _as(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype == dtype else narrow(value, dtype_of(dtype))
    return dtype.type(value) if dtype.kind in "fc" else narrow(np.asarray(value), dtype_of(dtype))


def _plan_steps(trees: Sequence[Expression], kinds: Sequence[Kind]) -> _Steps | None:
    """The plan for operands of these kinds; None where half precision asks for `evaluate`, which rounds after every call."""
    slots: dict[Expression, int] = {}
    specs: list[Any] = [_spec(kind) for kind in kinds]
    literals: list[Any] = []
    nodes = list(dict.fromkeys(node for tree in trees for node in distinct_nodes(tree)))
    for node in nodes:
        if isinstance(node, Operand):
            slots[node] = node.index
        elif isinstance(node, Literal):
            slots[node] = len(specs)
            literals.append(node.value)
            specs.append(node.value)
    steps = []
    for node in nodes:
        if not isinstance(node, Call):
            continue
        given = [slots[argument] for argument in node.arguments]
        found = [specs[slot] for slot in given]
        function = ALL_FUNCTIONS[node.function]
        placed = Call(node.function, tuple(map(Operand, range(len(given)))))
        result = infer(placed, found)
        if not isinstance(result, TensorSpec) or function.numpy is None:
            return None
        taken = [
            TensorSpec((), scalar_dtype(s)) if function.tensors and not isinstance(s, TensorSpec) else s for s in found
        ]
        common = function.common(result_type(*taken))
        if common.storage != common.compute or any(
            s.dtype.storage != s.dtype.compute for s in (*taken, result) if isinstance(s, TensorSpec)
        ):
            return None
        slots[node] = len(specs)
        specs.append(result.like())
        steps.append(_Step(function.numpy, tuple((slot, common.storage) for slot in given), result.dtype.storage))
    return _Steps(literals, steps, [slots[tree] for tree in trees])


__all__ = ["COMPILED_FROM", "FusedLoop", "Kind", "Value", "fused", "kind_of"]
