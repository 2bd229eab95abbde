"""Comparisons, truth, bits, bounds and choice against PyTorch: every pair of dtypes, numbers, broadcasting, NaN."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ShapeError

from .harness import Case, check, check_like_torch, random, run

NAN, INF = float("nan"), float("inf")
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, NAN, INF, -INF, 2.5])

TENSORS = {
    "f32": random(2, 3),
    "f64": random(2, 3, dtype=torch.float64),
    "f16": random(2, 3, dtype=torch.float16),
    "bf16": random(2, 3, dtype=torch.bfloat16),
    "bool": random(2, 3, dtype=torch.bool),
    "u8": torch.tensor([[0, 1, 2], [3, 255, 128]], dtype=torch.uint8),
    "i8": torch.tensor([[0, 1, -2], [3, 127, -128]], dtype=torch.int8),
    "i16": random(2, 3, dtype=torch.int16),
    "i32": random(2, 3, dtype=torch.int32),
    "i64": random(2, 3, dtype=torch.int64),
    "c64": random(2, 3, dtype=torch.complex64),
    "0d f32": torch.tensor(1.0),
    "0d f64": torch.tensor(0.1, dtype=torch.float64),
    "0d i64": torch.tensor(2),
    "row": random(3, seed=1),
    "column": random(2, 1, seed=2),
    "nothing": torch.zeros(0, 3),
}
NUMBERS = [True, 0, 2, -1, 300, 0.1, 2.5, INF, -INF, NAN, 1 + 2j]

COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
OF_TENSORS = ["logical_and", "logical_or", "logical_xor", "maximum", "minimum", "fmax", "fmin"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]


@pytest.mark.parametrize("name", COMPARISONS + OF_TENSORS + BITS)
@pytest.mark.parametrize("left", TENSORS)
def test_pairs(name: str, left: str) -> None:
    for right in TENSORS.values():
        inputs = [TENSORS[left], right]
        check_like_torch(Case(f"torch.{name}", getattr(torch, name), inputs, names=["input", "other"]))


@pytest.mark.parametrize("name", COMPARISONS + BITS)
@pytest.mark.parametrize("left", TENSORS)
def test_numbers(name: str, left: str) -> None:
    for number in NUMBERS:
        call = lambda x, n=number: getattr(torch, name)(x, n)  # noqa: E731
        check_like_torch(Case(f"torch.{name}", call, [TENSORS[left]], {"other": number}))


@pytest.mark.parametrize("name", [*COMPARISONS, *OF_TENSORS])
def test_nan_and_infinities(name: str) -> None:
    pairs = torch.tensor(list(itertools.product(ODD.tolist(), repeat=2)))
    check(Case(f"torch.{name}", getattr(torch, name), [pairs[:, 0], pairs[:, 1]]))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not", "bitwise_not"])
@pytest.mark.parametrize("label", [*TENSORS, "odd"])
def test_one_operand(name: str, label: str) -> None:
    input = ODD if label == "odd" else TENSORS[label]
    check_like_torch(Case(f"torch.{name}", getattr(torch, name), [input]))


def test_a_number_as_the_first_operand() -> None:
    check(
        Case(
            "torch.bitwise_right_shift",
            lambda x: torch.bitwise_right_shift(5, x),
            [TENSORS["i64"]],
            {"input": 5},
            names=["other"],
        )
    )


@pytest.mark.parametrize("bits", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_shifts_beyond_the_bits(bits: torch.dtype) -> None:
    numbers = torch.tensor([1, 5, 127] if bits is torch.uint8 else [1, -1, 127, -128, 100]).to(bits)
    shifts = torch.tensor([[0], [1], [6], [7], [8], [31], [63], [64], [100]]).to(bits)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        check(Case(f"torch.{name}", getattr(torch, name), [numbers, shifts]))
        if bits is not torch.uint8:
            check(Case(f"torch.{name}", getattr(torch, name), [numbers, -shifts]))


# ------------------------------------------------------------------------------------------- bounds

BOUNDS: list[tuple[Any, Any]] = [
    (None, 2), (0, None), (-1, 1), (0.5, None), (None, 0.5), (1, -1), (-INF, INF), (NAN, 1.0), (0.0, NAN), (None, INF),
    (True, 2), (None, None), (-200, None), (0, 300),
]  # fmt: skip


@pytest.mark.parametrize("label", [*TENSORS, "odd"])
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_clamp_to_numbers(label: str, low: Any, high: Any) -> None:
    input = ODD if label == "odd" else TENSORS[label]
    params = {"min": low, "max": high}
    check_like_torch(Case("torch.clamp", lambda x: torch.clamp(x, low, high), [input], params))


@pytest.mark.parametrize("label", TENSORS)
def test_clamp_to_tensors(label: str) -> None:
    for bound in TENSORS.values():
        inputs = [TENSORS[label], bound]
        check_like_torch(
            Case("torch.clamp", lambda x, b: torch.clamp(x, min=b), inputs, {"max": None}, names=["input", "min"])
        )
        check_like_torch(
            Case("torch.clamp", lambda x, b: torch.clamp(x, max=b), inputs, {"min": None}, names=["input", "max"])
        )
        check_like_torch(Case("torch.clamp", torch.clamp, [*inputs, TENSORS["0d f32"]], names=["input", "min", "max"]))


def test_clamp_to_nan_among_bounds() -> None:
    check(Case("torch.clamp", torch.clamp, [random(8), ODD, ODD.flip(0)]))


@pytest.mark.parametrize("name", ["clamp_min", "clamp_max"])
@pytest.mark.parametrize("prefix", ["torch.", "aten::"])
def test_one_bound(name: str, prefix: str) -> None:
    function = getattr(torch, name)
    for bound in (0.5, 1, TENSORS["row"], TENSORS["0d i64"]):
        for input in TENSORS.values():
            names = ["input", name[-3:]] if prefix == "torch." else None
            check_like_torch(Case(prefix + name, function, [input, bound], names=names))


# ------------------------------------------------------------------------------------------- choice


@pytest.mark.parametrize("left", TENSORS)
def test_where(left: str) -> None:
    condition = TENSORS["bool"]
    for right in TENSORS.values():
        check_like_torch(Case("torch.where", torch.where, [condition, TENSORS[left], right]))
    for number in NUMBERS[: -1 if left == "f16" else None]:  # NumPy has no c32 to compare
        call = lambda c, x, n=number: torch.where(c, x, n)  # noqa: E731
        check_like_torch(
            Case("torch.where", call, [condition, TENSORS[left]], {"other": number}, names=["condition", "input"])
        )
        call = lambda c, x, n=number: torch.where(c, n, x)  # noqa: E731
        check_like_torch(
            Case("torch.where", call, [condition, TENSORS[left]], {"input": number}, names=["condition", "other"])
        )


def test_where_of_two_numbers() -> None:
    for one, other in itertools.product([True, 1, 2.5, -INF, NAN, 1j], repeat=2):
        call = lambda c, a=one, b=other: torch.where(c, a, b)  # noqa: E731
        check(Case("torch.where", call, [TENSORS["bool"]], {"input": one, "other": other}, names=["condition"]))


def test_where_broadcasts_its_condition() -> None:
    condition = torch.tensor([[True], [False]])
    check(Case("torch.where", torch.where, [condition, TENSORS["row"], TENSORS["0d i64"]]))
    check(Case("torch.where", torch.where, [torch.tensor(True), TENSORS["row"], TENSORS["column"]]))
    check_like_torch(Case("torch.where", torch.where, [TENSORS["u8"] < 0, TENSORS["row"], TENSORS["nothing"]]))
    check_like_torch(Case("torch.where", torch.where, [TENSORS["f32"], TENSORS["row"], TENSORS["row"]]))


def test_none_stands_for_false() -> None:
    params = {"input": None, "other": 1.5}
    check(Case("torch.where", lambda c: torch.where(c, False, 1.5), [TENSORS["bool"]], params, names=["condition"]))


@pytest.mark.parametrize("label", TENSORS)
def test_indices_of_what_is_not_zero(label: str) -> None:
    check(Case("aten::nonzero", torch.nonzero, [TENSORS[label]]))
    check(Case("aten::where", lambda x: list(torch.where(x)), [TENSORS[label]]))


# ------------------------------------------------------------------------------------------- closeness and refusals


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize(("rtol", "atol"), [(1e-5, 1e-8), (0.1, 0.0), (0.0, 0.5)])
def test_isclose(rtol: float, atol: float, equal_nan: bool) -> None:
    def call(x: Any, y: Any, *more: Any) -> Any:
        return torch.isclose(x, y, rtol, atol, equal_nan)

    for x, y in [(ODD, ODD), (ODD, ODD + 1e-7), (ODD, ODD * 1.05), (TENSORS["f64"], TENSORS["f64"] + 0.4)]:
        params = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
        check(Case("torch.isclose", call, [x, y], params))
        check(Case("aten::isclose", call, [x, y, rtol, atol, equal_nan]))
    check_like_torch(Case("torch.isclose", call, [TENSORS["f32"], TENSORS["f64"]]))


@pytest.mark.parametrize(
    ("type_name", "inputs", "params", "error", "message"),
    [
        ("torch.eq", [torch.zeros(3), torch.zeros(4)], {}, ShapeError, r"\(3,\) and \(4,\) cannot be broadcast"),
        ("torch.eq", [torch.zeros(3)], {"other": "word"}, DTypeError, "expected a tensor or a number, found 'word'"),
        ("torch.lt", [torch.zeros(3)], {"other": 1j}, DTypeError, "bool or int or float, found c64"),
        ("torch.bitwise_and", [torch.zeros(3)], {"other": 1}, DTypeError, "bool or int, found f32"),
        ("torch.clamp", [torch.zeros(3)], {}, ShapeError, "'min' or 'max', found neither"),
        ("torch.clamp", [TENSORS["u8"]], {"max": 300}, DTypeError, "300 does not fit into u8"),
        ("torch.where", [torch.zeros(3), torch.zeros(3), torch.zeros(3)], {}, DTypeError, "expected bool, found f32"),
    ],
)
def test_refuses(type_name: str, inputs: Any, params: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.eq, inputs, params))
