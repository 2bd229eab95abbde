"""Joining and parting against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kuiperinfer.errors import KuiperError

from .harness import ALL_DTYPES, Case, check, check_like_torch, random, run

EMPTY = torch.zeros(0)
X = random(3, 4)

LISTS: dict[str, list[Any]] = {
    "two": [X, random(3, 4, seed=1)],
    "one": [X],
    "rows differ": [X, random(2, 4)],
    "columns differ": [X, random(3, 1), random(3, 7)],
    "ranks differ": [X, X[0]],
    "0d": [torch.tensor(1.0), torch.tensor(2.0)],
    "0d and 2d": [X, torch.tensor(1.0)],
    "empty last": [X, EMPTY],
    "empty first": [EMPTY, X],
    "empty alone": [EMPTY, EMPTY],
    "no rows": [torch.zeros(0, 4), X],
    "zero both": [torch.zeros(0, 0), X],
    "int and float": [X, X.int()],
    "bool and u8": [X > 0, (X * 9).to(torch.uint8)],
    "u8 and i8": [X.to(torch.uint8), X.to(torch.int8)],
    "f16 and bf16": [X.half(), X.bfloat16()],
    "i64 and f16": [X.long(), X.half()],
    "empty f64": [X, EMPTY.double()],
    "complex": [X, torch.complex(X, X)],
    "strided": [random(6, 4)[::2], random(4, 3).t()],
    "numbers": [3, 4],
    "number and float": [3, torch.tensor(1.5)],
}


def as_tensors(items: list[Any]) -> list[torch.Tensor]:
    return [item if isinstance(item, torch.Tensor) else torch.tensor(item) for item in items]


@pytest.mark.parametrize("dim", [0, 1, -1, -2, 2, -3])
@pytest.mark.parametrize("label", LISTS)
def test_cat_and_stack(label: str, dim: int) -> None:
    items = LISTS[label]
    check_like_torch(Case("torch.cat", lambda *t: torch.cat(as_tensors(list(t)), dim), items, {"dim": dim}))
    check_like_torch(Case("torch.stack", lambda *t: torch.stack(as_tensors(list(t)), dim), items, {"dim": dim}))
    # The same as one operand that is a list.
    check_like_torch(
        Case("torch.cat", lambda t: torch.cat(as_tensors(t), dim), [items], {"dim": dim}, names=["tensors"])
    )
    check_like_torch(Case("torch.stack", lambda t: torch.stack(as_tensors(t), dim), [items], {"dim": dim}))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_every_dtype(dtype: torch.dtype) -> None:
    x = random(3, 4, dtype=dtype)
    check(Case("torch.cat", lambda a, b: torch.cat([a, b], 1), [x, x], {"dim": 1}))
    check(Case("torch.stack", lambda a, b: torch.stack([a, b], 1), [x, x], {"dim": 1}))
    check(Case("torch.chunk", lambda x: x.chunk(2, 1), [x], {"chunks": 2, "dim": 1}, outputs=2))
    check(Case("torch.unbind", lambda x: x.unbind(0), [x], outputs=3))


def test_nothing_to_join() -> None:
    for kind in ("torch.cat", "torch.stack"):
        with pytest.raises(KuiperError, match="at least one tensor"):
            run(Case(kind, torch.cat, [[]]))


# ------------------------------------------------------------------------------------------- one to several

PARTED = {"3x4": X, "no rows": torch.zeros(0, 4), "0d": torch.tensor(1.0), "strided": random(4, 6).t()[::2]}


def check_parts(kind: str, function: Any, x: torch.Tensor, params: dict[str, Any]) -> None:
    """With as many outputs as there are parts; what PyTorch refuses is refused."""
    try:
        parts = function(x)
    except (RuntimeError, IndexError):
        with pytest.raises(KuiperError):
            run(Case(kind, function, [x], params))
        return
    if len(parts) > 1:
        check(Case(kind, function, [x], params, outputs=len(parts)))
        check(Case(kind, lambda x: list(function(x)), [x], params))  # one output: the list
    elif parts:
        check(Case(kind, lambda x: function(x)[0], [x], params))


@pytest.mark.parametrize("dim", [0, 1, -1, 2])
@pytest.mark.parametrize("label", PARTED)
def test_parting(label: str, dim: int) -> None:
    x = PARTED[label]
    for size in [1, 2, 3, 4, 5, 0, -1, (1, 2), (4,), (0, 3), (2, 2, 0), (4, -1), ()]:
        split = list(size) if isinstance(size, tuple) else size
        check_parts(
            "torch.split", lambda x, s=split: torch.split(x, s, dim), x, {"split_size_or_sections": size, "dim": dim}
        )
    for chunks in [1, 2, 3, 5, 0]:
        check_parts("torch.chunk", lambda x, n=chunks: torch.chunk(x, n, dim), x, {"chunks": chunks, "dim": dim})
    for sections in [1, 2, 3, 5, 0]:
        check_parts(
            "torch.tensor_split",
            lambda x, n=sections: torch.tensor_split(x, n, dim),
            x,
            {"sections": sections, "dim": dim},
        )
    for indices in [(), (1,), (1, 3), (3, 1), (-1,), (-9, 9), (2, 2)]:
        check_parts(
            "torch.tensor_split",
            lambda x, i=indices: torch.tensor_split(x, i, dim),
            x,
            {"indices": indices, "dim": dim},
        )
    check_parts("torch.unbind", lambda x: torch.unbind(x, dim), x, {"dim": dim})


def test_parts_by_operands() -> None:
    check(Case("torch.split", lambda x, s: x.split(s, 1), [X, [1, 3]], {"dim": 1}, names=["tensor", "split_size_or_sections"],
               outputs=2))  # fmt: skip
    check(Case("torch.chunk", lambda x, n: x.chunk(2), [X, 2], names=["input", "chunks"], outputs=2))
    for either in [torch.tensor([1, 2]), torch.tensor(3)]:
        check(Case("torch.tensor_split", torch.tensor_split, [X, either], names=["input", "tensor_indices_or_sections"],
                   outputs=3))  # fmt: skip


def test_number_of_outputs_has_to_fit() -> None:
    with pytest.raises(KuiperError, match="gives 2 outputs, but the model has 3"):
        run(Case("torch.chunk", torch.chunk, [X], {"chunks": 2}, outputs=3))
    with pytest.raises(KuiperError, match="either indices or sections"):
        run(Case("torch.tensor_split", torch.tensor_split, [X]))


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing: str) -> None:
    for vectors in [
        [random(3), random(2)],
        [random(3), random(2), random(4)],
        [random(3)],
        [torch.tensor(1.0), random(2)],
        [random(2), torch.zeros(0)],
        [X, random(2)],
        [random(3), random(2).int()],
    ]:
        check_like_torch(
            Case("aten::meshgrid", lambda t, i: list(torch.meshgrid(t, indexing=indexing)), [vectors, indexing])
        )
