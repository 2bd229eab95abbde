"""Functions of bits against PyTorch: every pair of dtypes, numbers, shifts beyond the bits."""

from __future__ import annotations

import pytest
import torch

from kuiperinfer.errors import DTypeError

from .harness import Case, check, check_like_torch, run
from .test_comparison import NUMBERS, TENSORS

BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("left", TENSORS)
def test_pairs(name: str, left: str) -> None:
    for right in TENSORS.values():
        inputs = [TENSORS[left], right]
        check_like_torch(Case(f"torch.{name}", getattr(torch, name), inputs, names=["input", "other"]))


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("left", TENSORS)
def test_numbers(name: str, left: str) -> None:
    for number in NUMBERS:
        call = lambda x, n=number: getattr(torch, name)(x, n)  # noqa: E731
        check_like_torch(Case(f"torch.{name}", call, [TENSORS[left]], {"other": number}))


@pytest.mark.parametrize("label", TENSORS)
def test_not(label: str) -> None:
    check_like_torch(Case("torch.bitwise_not", torch.bitwise_not, [TENSORS[label]]))


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


def test_refuses_floats() -> None:
    with pytest.raises(DTypeError, match="'and' does not take f32"):
        run(Case("torch.bitwise_and", torch.bitwise_and, [torch.zeros(3)], {"other": 1}))
