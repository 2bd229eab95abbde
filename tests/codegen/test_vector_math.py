"""Vector functions against float64, at bit patterns from all over float32, on every target."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from kuiperinfer.codegen.builder import Code
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.spec import KernelSpec
from kuiperinfer.codegen.target import target_named
from kuiperinfer.codegen.vector_math import VECTOR_FUNCTIONS, VectorFunction, emit_function
from kuiperinfer.dtypes import Array
from kuiperinfer.expression import ALL_FUNCTIONS
from tests.codegen.native import LEVELS, TARGETS, compile_specs, module_of

MEASURED = [row for row in VECTOR_FUNCTIONS.values() if row.ulps is not None]
EXACT = {"fmod", "remainder", "floor_divide"}  # whose reference is float32: a quotient of 277 bits fits no float64

SPECIAL = [
    0.0,
    1.0,
    0.5,
    2.0,
    3.0,
    np.pi,
    104.0,
    88.72,
    89.4,
    1e-20,
    2.0**20,
    2.0**24,
    1e-45,
    1.1754942e-38,
    3.4028235e38,
]
# float32 numbers that come next to multiples of pi / 2
NEAR_QUADRANTS = [
    16367173.0 * 2.0**72,
    12989049.0 * 2.0**66,
    10390077.0 * 2.0**-19,
    8249036.0 * 2.0**-18,
    1.5707964,
    3.1415927,
]


@dataclass(frozen=True)
class Apply(KernelSpec):
    """A function of the table applied to `count` floats: operands, then the output."""

    name: str
    count: int

    @property
    def tasks(self) -> int:
        return 1

    def emit(self, code: Code) -> None:
        *operands, out = code.pointers(ALL_FUNCTIONS[self.name].arity + 1)

        def body(index: object, _: Sequence[object]) -> Sequence[object]:
            value = emit_function(code, self.name, *(code.load(code.at(operand, index)) for operand in operands))
            code.store(value, code.at(out, index))
            return ()

        code.loop(0, self.count, code.target.lanes, body)


@functools.cache
def numbers() -> tuple[Array, Array]:
    """Floats for the first and second argument; the first alone covers all exponents, signs and kinds."""
    special = np.array([*SPECIAL, *NEAR_QUADRANTS, np.inf, np.nan], np.float32)
    special = np.concatenate([special, -special])
    pairs = np.array(list(itertools.product(special, special)), np.float32)
    generator = np.random.default_rng(0)
    patterns = np.arange(0, 2**32, 4093, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = generator.uniform(-12, 12, 300_000).astype(np.float32)
    x = np.concatenate([patterns, near, pairs[:, 0]])
    y = np.concatenate([generator.permutation(patterns), generator.permutation(near).round(1), pairs[:, 1]])
    padding = -len(x) % 16
    return np.pad(x, (0, padding)), np.pad(y, (0, padding))


@functools.cache
def reference(name: str) -> Array:
    function = ALL_FUNCTIONS[name]
    assert function.numpy is not None
    arguments = numbers()[: function.arity]
    with np.errstate(all="ignore"):
        if name not in EXACT:
            arguments = tuple(argument.astype(np.float64) for argument in arguments)
        return np.asarray(function.numpy(*arguments)).astype(np.float64)


@functools.cache
def kernels(target: str) -> dict[str, Callable[..., None]]:
    specs = [Apply(row.name, len(numbers()[0])) for row in MEASURED if row.name != "where"]
    return {spec.name: run for spec, run in zip(specs, compile_specs(specs, target), strict=True)}


def errors_in_ulps(result: Array, exact: Array) -> Array:
    """|result - exact| in units in the last place of `exact` as a float32; infinite where NaN or a zero's sign is wrong.

    Infinity counts as 2**128, the number that would follow the largest one.
    """
    with np.errstate(invalid="ignore"):
        wide = result.astype(np.float64)
    wide = np.where(np.isinf(wide), np.copysign(2.0**128, wide), wide)
    limited = np.where(np.abs(exact) > 2.0**128, np.copysign(2.0**128, exact), exact)
    exponents = np.clip(np.frexp(np.where(np.isnan(limited), 0, limited))[1], -125, 128)
    with np.errstate(invalid="ignore"):
        errors = np.abs(wide - limited) / np.ldexp(1.0, exponents - 24)
    both_nan = np.isnan(result) & np.isnan(exact)
    wrong_sign = (exact == 0) & (np.signbit(result) != np.signbit(exact))
    return np.where(both_nan, 0, np.where(np.isnan(errors) | wrong_sign, np.inf, errors))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("row", [row for row in MEASURED if row.name != "where"], ids=lambda row: row.name)
def test_error_bound(row: VectorFunction, target: str) -> None:
    assert row.ulps is not None
    arguments = numbers()[: ALL_FUNCTIONS[row.name].arity]
    result = np.empty_like(arguments[0])
    kernels(target)[row.name](*arguments, result)
    errors = errors_in_ulps(result, reference(row.name))
    if row.name in ("max", "maximum", "min", "minimum"):  # of zeros, either may be taken
        errors[(arguments[0] == 0) & (arguments[1] == 0)] = 0
    worst = int(np.argmax(errors))
    found = [float(argument[worst]) for argument in arguments]
    assert errors[worst] <= row.ulps, f"{row.name}{found} = {result[worst]}, not {reference(row.name)[worst]}"


def test_every_function_of_the_language_is_known() -> None:
    integers_alone = {"size", "int", "and", "or", "xor", "lshift", "rshift"}
    casts = {name for name in ALL_FUNCTIONS if name.startswith("torch.")} - {"torch.float", "torch.float32"}
    assert set(VECTOR_FUNCTIONS) == set(ALL_FUNCTIONS) - integers_alone - casts


@functools.cache
def assembly(target: str) -> str:
    specs = [Apply(name, 1 << 20) for name in VECTOR_FUNCTIONS]
    return assembly_of(module_of(specs, target_named(target)), target_named(target))


@pytest.mark.parametrize("target", [*LEVELS, "aarch64"])
def test_nothing_is_called(target: str) -> None:
    assert re.findall(r"^\s+(?:call\w*|blr?)\s.*$", assembly(target), re.MULTILINE) == []


def test_aarch64_is_vector_code() -> None:
    assert re.search(r"fmla\s+v\d+\.4s", assembly("aarch64"))
    assert re.search(r"fdiv\s+v\d+\.4s", assembly("aarch64"))


@pytest.mark.parametrize(
    ("name", "most"), [("exp", 25), ("sigmoid", 26), ("tanh", 27), ("erf", 34), ("relu", 6), ("maximum", 8)]
)
def test_instructions_of_a_loop(name: str, most: int) -> None:
    text = assembly_of(module_of([Apply(name, 1 << 20)], target_named("x86-64-v4")), target_named("x86-64-v4"))
    loop = re.search(r"^(\.LBB0_\d+):((?:\n(?!\.LBB).*)*?\n\tj\w+\t\1)$", text, re.MULTILINE)
    assert loop is not None
    instructions = re.findall(r"^\t[a-z]\w*", loop[2], re.MULTILINE)
    assert "zmm" in loop[2] and len(instructions) <= most, "\n".join(instructions)
