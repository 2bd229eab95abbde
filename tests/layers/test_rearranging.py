"""Repeating, reversing, shifting and diagonals against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from .harness import ALL_DTYPES, Case, check, check_like_torch, random
from .test_shape import INPUTS

OPERATORS: list[tuple[str, dict[str, Any], Callable[..., Any]]] = [
    *(
        ("Tensor.repeat", {"sizes": s}, lambda x, s=s: x.repeat(s))
        for s in [(), (2,), (0,), (2, 3), (1, 0, 2), (2, 1, 3), (-1, 2, 2), (2, 1, 1, 3)]
    ),
    *(("torch.tile", {"dims": d}, lambda x, d=d: x.tile(d)) for d in [(), (2,), (2, 3), (0, 1), (2, 1, 1, 2), (-1,)]),
    *(("torch.flip", {"dims": d}, lambda x, d=d: x.flip(d)) for d in [(), (0,), (-1,), (0, 1), (0, 0), (1, -2), (5,)]),
    *(
        ("torch.roll", {"shifts": s, "dims": d}, lambda x, s=s, d=d: x.roll(s, d if d is not None else ()))
        for s, d in [((1,), None), ((-2,), (0,)), ((1, 2), (0, 1)), ((1, 2), (0, 0)), ((1,), (0, 1)), ((1, 2), None),
                     ((7,), (-1,)), ((1,), (5,)), ((), None)]
    ),
    *(("torch.diag", {"diagonal": k}, lambda x, k=k: torch.diag(x, k)) for k in [0, 1, -2, 5, -6]),
    *(("torch.tril", {"diagonal": k}, lambda x, k=k: torch.tril(x, k)) for k in [0, 1, -1, 9, -9]),
    *(("torch.triu", {"diagonal": k}, lambda x, k=k: torch.triu(x, k)) for k in [0, 1, -1, 9, -9]),
    *(
        ("aten::diagonal", {"offset": k, "dim1": a, "dim2": b}, lambda x, k=k, a=a, b=b: x.diagonal(k, a, b))
        for k, a, b in [(0, 0, 1), (1, 0, 1), (-9, 0, 1), (0, 1, 0), (0, 0, 0), (1, -1, -2), (0, 0, 2), (0, 0, 3)]
    ),
    *(
        ("torch.repeat_interleave", {"repeats": r, "dim": d}, lambda x, r=r, d=d: x.repeat_interleave(r, d))
        for r, d in [(2, None), (3, 0), (2, -1), (0, 0), (-1, 0), (2, 5)]
    ),
]  # fmt: skip


@pytest.mark.parametrize("label", INPUTS)
def test_like_torch(label: str) -> None:
    for kind, params, function in OPERATORS:
        check_like_torch(Case(kind, function, [INPUTS[label]], params))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    x = random(3, 4, dtype=dtype)
    for kind, params, function in [
        ("Tensor.repeat", {"sizes": (2, 1, 3)}, lambda x: x.repeat(2, 1, 3)),
        ("torch.flip", {"dims": (1,)}, lambda x: x.flip(1)),
        ("torch.roll", {"shifts": (1, -1), "dims": (0, 1)}, lambda x: x.roll((1, -1), (0, 1))),
        ("torch.diag", {"diagonal": 1}, lambda x: x.diag(1)),
        ("torch.tril", {}, torch.tril),
        ("torch.repeat_interleave", {"repeats": 2, "dim": 1}, lambda x: x.repeat_interleave(2, 1)),
    ]:
        check(Case(kind, function, [x], params))
    check(Case("torch.diag", lambda x: x.diag(-1), [x[0]], {"diagonal": -1}))


@pytest.mark.parametrize("dim", [0, 1, -1, None])
def test_repeats_as_a_tensor(dim: int | None) -> None:
    x = random(3, 4)
    for repeats in [
        torch.tensor([1, 2, 0]),
        torch.tensor([1, 0, 3, 1], dtype=torch.int32),
        torch.tensor([2]),
        torch.tensor(2),
        torch.arange(12),
        torch.tensor([1, -2, 0]),
        torch.tensor([1.0, 2, 0]),
        torch.tensor([[1, 2, 0]]),
        torch.tensor([1, 2, 0], dtype=torch.int16),
    ]:
        check_like_torch(
            Case("torch.repeat_interleave", lambda x, r: x.repeat_interleave(r, dim), [x, repeats], {"dim": dim},
                 names=["input", "repeats"])
        )  # fmt: skip


def test_output_size_has_to_fit() -> None:
    x, repeats = random(3, 4), torch.tensor([1, 2, 0])
    for size in [3, 4]:
        check_like_torch(
            Case("torch.repeat_interleave", lambda x, r, n=size: x.repeat_interleave(r, 0, output_size=n), [x, repeats],
                 {"dim": 0, "output_size": size})
        )  # fmt: skip


def test_counts_as_operands() -> None:
    x = random(2, 3)
    check(Case("Tensor.repeat", lambda x, s: x.repeat(s), [x, [2, 1, 2]], names=["input", "sizes"]))
    check(Case("torch.tile", lambda x, d: x.tile(d), [x, [2]], names=["input", "dims"]))
    check(Case("torch.roll", lambda x, s: x.roll(s, 0), [x, [3]], {"dims": (0,)}, names=["input", "shifts"]))
