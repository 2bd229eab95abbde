"""Interpolation and sums with a product or a quotient, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError

from .harness import Case, check, check_like_torch, random, run
from .test_comparison import TENSORS


@pytest.mark.parametrize("label", TENSORS)
@pytest.mark.parametrize("weight", [0, 0.3, 0.5, 0.75, 1, 2.5, -1.5])
def test_lerp_by_a_number(label: str, weight: float) -> None:
    check_like_torch(Case("aten::lerp", torch.lerp, [TENSORS[label], TENSORS[label].flip(0), weight]))


def test_lerp_by_tensors() -> None:
    for weight in TENSORS.values():
        for end in (TENSORS["row"], TENSORS["f64"], TENSORS["0d f32"]):
            check_like_torch(Case("torch.lerp", torch.lerp, [TENSORS["f32"], end, weight]))
    x = random(2, 3, dtype=torch.complex64)
    check(Case("torch.lerp", torch.lerp, [x, x + 1, 0.3 + 0.2j]))
    check(Case("torch.lerp", torch.lerp, [x, x * 2, random(3, dtype=torch.complex64)]))
    check_like_torch(Case("torch.lerp", torch.lerp, [TENSORS["f32"], TENSORS["row"], 1j]))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("first", TENSORS)
def test_products_and_quotients(name: str, first: str) -> None:
    function = getattr(torch, name)
    for second in ("f32", "f16", "i64", "u8", "bool", "c64", "row", "0d f64"):
        for third in ("f32", "column", "i64", "c64"):
            inputs = [TENSORS[first], TENSORS[second], TENSORS[third]]
            if name == "addcdiv" and third == "i64":
                inputs[2] = inputs[2] * 2 + 1  # never zero
            check_like_torch(Case(f"torch.{name}", function, inputs))
            for value in (2, -0.5):
                call = lambda a, b, c, v: function(a, b, c, value=v)  # noqa: E731
                check_like_torch(Case(f"aten::{name}", call, [*inputs, value]))


def test_refuses() -> None:
    x, mask = torch.zeros(3), torch.zeros(3, dtype=torch.bool)
    refused: list[tuple[str, Any, str]] = [
        ("torch.lerp", [x, x.double(), 0.5], "tensors of one dtype, found f32 and f64"),
        ("torch.lerp", [x.long(), x.long(), 0.5], "lerp needs floats"),
        ("torch.addcmul", [mask, mask, mask], "expected numbers, found bool"),
        ("torch.addcdiv", [x, x.long(), x.long()], "a quotient with floats"),
    ]
    for type_name, inputs, message in refused:
        with pytest.raises(DTypeError, match=message):
            run(Case(type_name, torch.lerp, inputs))
