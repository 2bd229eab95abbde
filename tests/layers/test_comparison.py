"""Comparisons, kinds of numbers and truth against PyTorch: every pair of dtypes, numbers, broadcasting, NaN."""

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
LOGICAL = ["logical_and", "logical_or", "logical_xor"]


@pytest.mark.parametrize("name", COMPARISONS + LOGICAL)
@pytest.mark.parametrize("left", TENSORS)
def test_pairs(name: str, left: str) -> None:
    for right in TENSORS.values():
        inputs = [TENSORS[left], right]
        check_like_torch(Case(f"torch.{name}", getattr(torch, name), inputs, names=["input", "other"]))


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("left", TENSORS)
def test_numbers(name: str, left: str) -> None:
    for number in NUMBERS:
        call = lambda x, n=number: getattr(torch, name)(x, n)  # noqa: E731
        check_like_torch(Case(f"torch.{name}", call, [TENSORS[left]], {"other": number}))


@pytest.mark.parametrize("name", COMPARISONS + LOGICAL)
def test_nan_and_infinities(name: str) -> None:
    pairs = torch.tensor(list(itertools.product(ODD.tolist(), repeat=2)))
    check(Case(f"torch.{name}", getattr(torch, name), [pairs[:, 0], pairs[:, 1]]))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not"])
@pytest.mark.parametrize("label", [*TENSORS, "odd"])
def test_one_operand(name: str, label: str) -> None:
    input = ODD if label == "odd" else TENSORS[label]
    check_like_torch(Case(f"torch.{name}", getattr(torch, name), [input]))


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
        ("torch.lt", [torch.zeros(3)], {"other": 1j}, DTypeError, r"bool or int or float, found \(3\)c64"),
    ],
)
def test_refuses(type_name: str, inputs: Any, params: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.eq, inputs, params))
