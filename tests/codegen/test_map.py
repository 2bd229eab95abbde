"""Maps over strided operands, against NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from kuiperinfer.codegen.kernels.map import MapOperand, MapSpec, coalesce, plan_map, row_major
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from kuiperinfer.dtypes import Array, DType, bool_, dtype_of, f32, i8, i16, i32, i64, u8
from kuiperinfer.expression import evaluate, parse
from tests.codegen.native import LEVELS, TARGETS, compile_specs, module_of

GUARD = 64  # elements around the output that nobody may write


@dataclass(frozen=True)
class Case:
    """A map of `text` to an output of `shape`; operands are dense arrays of these shapes, seen through index expressions."""

    text: str
    shape: tuple[int, ...]
    operands: tuple[tuple[int, ...], ...]
    views: tuple[str, ...] = ()
    output: str = "whole"
    dtypes: tuple[DType, ...] = ()
    result: DType = f32

    def arrays(self) -> list[Array]:
        generator = np.random.default_rng(1)
        made = []
        for number, shape in enumerate(self.operands):
            dtype = self.dtypes[number] if self.dtypes else f32
            array = np.asarray(generator.normal(0, 3, shape))
            array = (
                array > 0
                if dtype is bool_
                else np.abs(array) * 50
                if dtype is u8
                else array * (1 if dtype is f32 else 30)
            )
            made.append(np.asarray(array, dtype.storage))
        return made


VIEWS: dict[str, Callable[[Array], Array]] = {
    "whole": lambda a: a,
    "transposed": lambda a: a.T,
    "every other": lambda a: a[..., ::2],
    "backwards": lambda a: a[::-1, ::-1],
    "inner": lambda a: a[1:-1, 2:-1],
    "diagonal": lambda a: np.lib.stride_tricks.as_strided(a, (a.shape[0],), (a.strides[0] + a.strides[1],)),
}
SIZES = sorted({0, 1, 2, *(size for v in (4, 8, 16) for size in (v - 1, v, v + 1, 2 * v + 3)), 63, 64, 65, 1000})
SUM = "add(mul(@0,@1),1.5)"
CASES = [
    *[Case(SUM, (size,), ((size,), (size,))) for size in SIZES],
    *[Case("exp(@0)", (size,), ((size,),)) for size in (3, 17, 33)],
    Case("neg(@0)", (), ((),)),
    Case(SUM, (5, 7, 33), ((5, 7, 33), (7, 1))),
    Case(SUM, (5, 7, 33), ((33,), (5, 1, 1))),
    Case(SUM, (2, 3, 4, 5), ((2, 3, 4, 5), (1, 3, 1, 5))),
    Case(SUM, (2, 3, 4, 5), ((1, 1, 1, 1), (3, 1, 1))),
    Case("add(@0,add(@1,@2))", (3, 1, 40), ((3, 1, 1), (40,), ())),
    Case("add(@0,@1)", (0, 4), ((0, 4), (4,))),
    Case(SUM, (40_000,), ((40_000,), (1,))),
    Case(SUM, (3, 20_001), ((3, 20_001), (3, 1))),
    Case(SUM, (70, 500), ((70, 500), (500,))),
    Case(SUM, (2, 2, 17_000), ((2, 1, 17_000), (2, 17_000))),
    Case("sub(@0,@1)", (9, 21), ((21, 9), (9, 21)), ("transposed", "whole")),
    Case("sub(@0,@1)", (9, 21), ((9, 42), (9, 21)), ("every other", "backwards")),
    Case("sub(@0,@1)", (7, 18), ((9, 21), (1, 18)), ("inner", "whole")),
    Case("sub(@0,@1)", (9, 21), ((9, 21), (21,)), (), "transposed"),
    Case("sub(@0,@1)", (9, 21), ((9, 21), (9, 1)), (), "every other"),
    Case("sub(@0,@1)", (9, 21), ((9, 21), (9, 21)), (), "inner"),
    Case("mul(@0,@1)", (19,), ((19, 19), (19,)), ("diagonal", "whole")),
    *[
        Case("mul(@0,@1)", (3, size), ((3, size), (3, size)), (), "whole", (dtype, f32))
        for dtype in (bool_, u8, i8, i16, i32, i64)
        for size in (16, 37)
    ],
    Case("add(@0,@1)", (3, 20), ((3, 1), (20,)), (), "whole", (i64, f32)),
    *[Case("gt(@0,@1)", (3, size), ((3, size), (size,)), (), "whole", (), bool_) for size in (1, 16, 37)],
    Case("where(@0,@1,@2)", (5, 19), ((5, 19), (19,), (5, 1)), (), "whole", (bool_, f32, f32)),
    Case("le(@0,0.5)", (9, 21), ((9, 21),), (), "transposed", (), bool_),
]


def operand_of(view: Array, base: Array) -> MapOperand:
    """How a map sees an array that is a view of `base`."""
    offset = view.ctypes.data - base.ctypes.data
    return MapOperand(
        tuple(stride // view.itemsize for stride in view.strides), dtype_of(view), offset // view.itemsize
    )


def output_of(case: Case) -> tuple[Array, Array]:
    """Memory for the output and more around it, filled with a pattern, and the view of it that is to be written."""
    shapes = {
        "whole": case.shape,
        "transposed": case.shape[::-1],
        "every other": (*case.shape[:-1], 2 * case.shape[-1]) if case.shape else (),
        "inner": tuple(size + extra for size, extra in zip(case.shape, (2, 3), strict=False)),
    }
    shape = shapes[case.output]
    memory = np.full(int(np.prod(shape)) + 2 * GUARD, 77, case.result.storage)
    return memory, VIEWS[case.output](memory[GUARD:-GUARD].reshape(shape))


def views_of(case: Case, arrays: Sequence[Array]) -> list[Array]:
    names = case.views or ("whole",) * len(arrays)
    views = [VIEWS[name](array) for name, array in zip(names, arrays, strict=True)]
    return [np.broadcast_to(view, case.shape) for view in views]


def spec_of(case: Case) -> MapSpec:
    arrays, (memory, out) = case.arrays(), output_of(case)
    seen = [operand_of(view, array) for view, array in zip(views_of(case, arrays), arrays, strict=True)]
    seen = [
        MapOperand(tuple(0 if n == 1 else s for s, n in zip(o.strides, case.shape, strict=True)), o.dtype, o.origin)
        for o in seen
    ]
    return plan_map(case.text, case.shape, seen, operand_of(out, memory))


@functools.cache
def kernels(target: str) -> list[Callable[..., None]]:
    return compile_specs([spec_of(case) for case in CASES], target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: str(CASES[number]).removeprefix("Case"))
def test_map(number: int, target: str) -> None:
    case = CASES[number]
    arrays, (memory, out) = case.arrays(), output_of(case)
    untouched, written = memory.copy(), np.zeros(memory.shape, bool)
    offset = (out.ctypes.data - memory.ctypes.data) // memory.itemsize
    strides = tuple(stride // memory.itemsize for stride in out.strides)
    np.lib.stride_tricks.as_strided(written[offset:], out.shape, strides)[...] = True
    kernels(target)[number](*arrays, memory)
    expected = evaluate(parse(case.text, internal=True), views_of(case, arrays))
    if case.text.startswith("exp"):
        np.testing.assert_allclose(out, expected, rtol=1e-6)
    else:
        np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(memory[~written], untouched[~written])


def test_output_in_place_of_an_operand() -> None:
    spec = plan_map("add(mul(@0,@0),@1)", (1003,), [row_major((1003,))] * 2, row_major((1003,)))
    (run,) = compile_specs([spec], TARGETS[-1])
    x, y = np.arange(1003, dtype=np.float32), np.ones(1003, np.float32)
    expected = x * x + y
    run(x, y, x)
    np.testing.assert_array_equal(x, expected)


# ------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((2, 3, 4), [(12, 4, 1)], ((24,), [(1,)])),
        ((2, 3, 4), [(4, 0, 1), (12, 4, 1)], ((2, 3, 4), [(4, 0, 1), (12, 4, 1)])),
        ((2, 3, 4), [(0, 0, 0), (12, 4, 1)], ((24,), [(0,), (1,)])),
        ((2, 3, 4), [(3, 1, 0), (12, 4, 1)], ((6, 4), [(1, 0), (4, 1)])),
        ((2, 1, 4), [(4, 9, 1)], ((8,), [(1,)])),
        ((4, 3), [(1, 4)], ((12,), [(1,)])),
        ((4, 3), [(3, 1), (1, 4)], ((3, 4), [(1, 3), (4, 1)])),
        ((1, 1), [(5, 5)], ((1,), [(1,)])),
        ((), [()], ((1,), [(1,)])),
    ],
)
def test_coalesce(
    shape: tuple[int, ...], strides: list[tuple[int, ...]], expected: tuple[tuple[int, ...], list[tuple[int, ...]]]
) -> None:
    assert coalesce(shape, strides) == expected


def test_row_major() -> None:
    assert row_major((2, 3)).strides == (3, 1)
    assert row_major((3, 1), (4, 3, 5), i64) == MapOperand((0, 1, 0), i64)
    assert row_major((), (2, 2)).strides == (0, 0)


@pytest.mark.parametrize(
    ("shape", "tasks"), [((1000,), 1), ((1 << 20,), 64), ((3, 20_001), 6), ((100, 1000), 6), ((0, 3), 0)]
)
def test_tasks(shape: tuple[int, ...], tasks: int) -> None:
    first = row_major((shape[0], *(1 for _ in shape[1:])), shape)
    assert plan_map("neg(@0)", shape, [first], row_major(shape)).tasks == tasks


def test_what_a_map_costs() -> None:
    spec = plan_map("add(mul(@0,@0),@1)", (4, 10), [row_major((4, 10)), row_major((10,), (4, 10))], row_major((4, 10)))
    assert (spec.flops, spec.traffic) == (80, 4 * (40 + 10 + 40))


@pytest.mark.parametrize("target", [*LEVELS, "aarch64"])
def test_no_calls(target: str) -> None:
    assembly = assembly_of(module_of([spec_of(case) for case in CASES], target_named(target)), target_named(target))
    assert not any(line.split()[:1] in (["call"], ["callq"], ["bl"], ["blr"]) for line in assembly.splitlines())
