"""Vector functions against float64, at bit patterns from all over float32, on every target."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from kuiperinfer.codegen.vector_math import VECTOR_FUNCTIONS, VectorFunction
from kuiperinfer.dtypes import Array
from kuiperinfer.expression import ALL_FUNCTIONS
from tests.codegen import every_float
from tests.codegen.native import LEVELS, TARGETS, compile_specs, module_of
from tests.codegen.ulps import Apply, errors_in_ulps, exact_values

# within half a unit: rounded correctly
EXACT = {row.name for row in VECTOR_FUNCTIONS.values() if row.ulps == 0.5}
MEASURED = [row for row in VECTOR_FUNCTIONS.values() if row.ulps is not None]

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
    return exact_values(name, numbers()[: ALL_FUNCTIONS[name].arity])


@functools.cache
def kernels(target: str) -> dict[str, Callable[..., None]]:
    specs = [Apply(row.name, len(numbers()[0])) for row in MEASURED if row.name != "where"]
    return {spec.name: run for spec, run in zip(specs, compile_specs(specs, target), strict=True)}


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


# ------------------------------------------------------------------------------------------- the run over all floats


@pytest.mark.parametrize(
    ("result", "exact", "error"),
    [
        (1.0, 1.0, 0.5),  # correctly rounded
        (1.0 + 2.0**-22, 1.0, 2.0),
        (1.0, 1.0 + 1.75 * 2.0**-23, 1.75),
        (3 * 2.0**-149, 2.0**-149, 2.0),
        (np.inf, 2.0**128 * (1 - 2.0**-24), 1.0),
        (-0.0, 0.0, np.inf),
        (0.0, -(2.0**-160), np.inf),
        (np.nan, np.nan, 0.5),
        (-np.nan, np.nan, 0.5),
        (1.0, np.nan, np.inf),
        (np.nan, 1.0, np.inf),
        (-np.inf, np.inf, np.inf),
    ],
)
def test_the_worst_result_is_seen(result: float, exact: float, error: float) -> None:
    worst = every_float.Worst()
    arguments = np.array([5, 6, 7], np.float32)
    worst.see([arguments], np.array([1, result, 2], np.float32), np.array([1, exact, 2], np.float64))
    assert worst.error == error or (np.isinf(error) and worst.error > 2**23)
    assert worst.arguments == ([6.0] if error > 0.5 else [])
    worst.see([arguments], arguments, arguments.astype(np.float64))
    assert worst.error == error or np.isinf(error)


def test_every_number_is_every_number() -> None:
    chunks = [x.view(np.uint32) for (x,) in every_float.every_number(2**13 - 1)]
    taken = np.concatenate(chunks).astype(np.int64)
    assert set(np.unique(np.diff(taken)[: 2**32 // (2**13 - 1)])) == {2**13 - 1}
    assert taken[0] == 0 and taken.max() > 2**32 - 2**13


def test_bounds_are_held_against_what_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sample = ["--step", "65521", "--pairs", "100000", "--targets", TARGETS[-1], "--json", str(tmp_path / "ulps.json")]
    assert every_float.main(["--only", "exp*,pow", *sample]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[0] for row in rows] == ["| exp", "| expm1", "| pow"]
    assert 0.5 <= float(rows[0][2]) <= float(rows[0][1])
    assert set(json.loads((tmp_path / "ulps.json").read_text("utf-8"))) == {"exp", "expm1", "pow"}
    monkeypatch.setitem(VECTOR_FUNCTIONS, "exp", VectorFunction("exp", VECTOR_FUNCTIONS["exp"].emit, 0.6))
    assert every_float.main(["--only", "exp", *sample]) == 1
    with pytest.raises(SystemExit):
        every_float.main(["--only", "nothing"])


def test_the_page_has_these_bounds_and_what_was_measured() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "accuracy.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    bounds = {row[0].strip("`"): float(row[1]) for row in rows}
    assert bounds == {
        name: VECTOR_FUNCTIONS[name].ulps for name in every_float.UNARY + every_float.BINARY if name not in EXACT
    }
    for name, bound, fused, _, apart, *_ in rows:
        assert max(float(fused), float(apart)) <= float(bound), name
