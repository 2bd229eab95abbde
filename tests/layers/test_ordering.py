"""Sorting and picking by rank against PyTorch: NaN, equal elements, every dtype, 0-d and nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, check_like_torch, random, run

NAN, INF = float("nan"), float("inf")
DISTINCT = torch.randperm(2 * 5 * 7, generator=torch.Generator().manual_seed(1)).reshape(2, 5, 7)

INPUTS = {
    "f32": DISTINCT.float(),
    "f64": DISTINCT.double() / 3,
    "f16": DISTINCT.half(),
    "bf16": DISTINCT.bfloat16(),
    "i8": DISTINCT.to(torch.int8),
    "u8": DISTINCT.to(torch.uint8),
    "i64": DISTINCT,
    "bool": torch.tensor([[True, False]]),
    "c64": random(2, 3, dtype=torch.complex64),
    "0d": torch.tensor(1.5),
    "no rows": torch.zeros(0, 3),
    "no columns": torch.zeros(3, 0),
    "one nan": torch.tensor([[3.0, NAN, 1.0, INF], [-INF, 2.0, 0.5, 1.0]]),
    "strided": DISTINCT.float().transpose(0, 2)[::2],
}
WITH_EQUAL = torch.tensor([[2, 1, 2, 1, 0], [0, 0, 0, 0, 0], [5, 4, 4, 5, 5]])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [-1, 0, 1, 2])
@pytest.mark.parametrize("label", INPUTS)
def test_sort(label: str, dim: int, descending: bool) -> None:
    def call(x: Any, *_: Any) -> Any:
        return torch.sort(x, dim, descending)

    input = INPUTS[label]
    params = {"dim": dim, "descending": descending}
    check_like_torch(Case("torch.sort", call, [input], params, outputs=2))
    check_like_torch(Case("aten::sort", call, [input, dim, descending], outputs=2))
    check_like_torch(Case("aten::sort", call, [input, True, dim, descending], outputs=2))
    check_like_torch(Case("aten::argsort", lambda x, *_: torch.argsort(x, dim, descending), [input, dim, descending]))
    check_like_torch(
        Case("aten::argsort", lambda x, *_: torch.argsort(x, dim, descending), [input, True, dim, descending])
    )


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "input", [WITH_EQUAL, WITH_EQUAL.float(), WITH_EQUAL > 0, torch.tensor([NAN, 1.0, NAN, INF, 1.0])]
)
def test_equal_elements_keep_their_order(input: torch.Tensor, descending: bool) -> None:
    params = {"descending": descending}
    check(Case("torch.sort", lambda x: torch.sort(x, descending=descending, stable=True), [input], params, outputs=2))


# ------------------------------------------------------------------------------------------- topk


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("label", INPUTS)
def test_topk(label: str, largest: bool, ordered: bool) -> None:
    input = INPUTS[label]
    for dim in (-1, 0, 1):
        for k in (0, 1, 2, 5, -1):
            params = {"dim": dim, "largest": largest, "sorted": ordered}
            call = lambda x, k, d=dim: torch.topk(x, k, d, largest, ordered)  # noqa: E731
            check_like_torch(Case("torch.topk", call, [input, k], params, names=["input", "k"], outputs=2))


def test_topk_with_k_in_the_file_or_in_a_tensor() -> None:
    x = INPUTS["f32"]
    check(Case("torch.topk", lambda x: torch.topk(x, 3), [x], {"k": 3}, outputs=2))
    check(Case("torch.topk", lambda x, k: torch.topk(x, int(k)), [x, torch.tensor(3)], names=["input", "k"], outputs=2))


def test_the_first_of_equal_elements_comes_first() -> None:
    values, indices = run(Case("torch.topk", torch.topk, [WITH_EQUAL], {"k": 3}, outputs=2))
    assert values.tolist() == [[2, 2, 1], [0, 0, 0], [5, 5, 5]]
    assert indices.tolist() == [[0, 2, 1], [0, 1, 2], [0, 3, 4]]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 90), st.data(), st.booleans())
def test_unsorted_order_is_that_of_pytorch(size: int, data: Any, largest: bool) -> None:
    numbers = data.draw(
        st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.5, -1.0, 7.0, NAN, INF]), min_size=size, max_size=size)
    )
    k = data.draw(st.integers(1, size))
    params = {"k": k, "largest": largest, "sorted": False}
    call = lambda x: torch.topk(x, k, largest=largest, sorted=False)  # noqa: E731
    check(Case("torch.topk", call, [torch.tensor(numbers)], params, outputs=2))


def test_unsorted_rows() -> None:
    check(
        Case(
            "torch.topk",
            lambda x: torch.topk(x, 300, 0, sorted=False),
            [random(1000, 3)],
            {"k": 300, "dim": 0, "sorted": False},
            outputs=2,
        )
    )
    check(
        Case(
            "torch.topk",
            lambda x: torch.topk(x, 3, sorted=False),
            [random(4, 192)],
            {"k": 3, "sorted": False},
            outputs=2,
        )
    )


# ------------------------------------------------------------------------------------------- by rank


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [-1, 0, 1, 2])
@pytest.mark.parametrize("label", INPUTS)
def test_median_and_kthvalue(label: str, dim: int, keepdim: bool) -> None:
    input = INPUTS[label]
    check_like_torch(
        Case("aten::median", lambda x, *_: torch.median(x, dim, keepdim), [input, dim, keepdim], outputs=2)
    )
    for k in (1, 2, 4, 0):
        call = lambda x, *_, k=k: torch.kthvalue(x, k, dim, keepdim)  # noqa: E731
        check_like_torch(Case("aten::kthvalue", call, [input, k, dim, keepdim], outputs=2))


@pytest.mark.parametrize("label", INPUTS)
def test_median_of_all(label: str) -> None:
    check_like_torch(Case("aten::median", torch.median, [INPUTS[label]]))


def test_median_of_no_integers() -> None:
    check(Case("torch.median", torch.median, [torch.zeros(0, dtype=torch.int64)]))


def test_median_says_where_the_first_nan_is() -> None:
    x = torch.tensor([[1.0, 2.0, NAN, NAN], [4.0, 3.0, 2.0, 1.0]])
    check(Case("torch.median", lambda x: torch.median(x, 1), [x], {"dim": 1}, outputs=2))


@pytest.mark.parametrize(
    ("type_name", "params", "outputs", "error", "message"),
    [
        ("torch.topk", {"k": 8}, 2, ShapeError, "expected 0 to 3, the size of dimension -1, found 8"),
        ("torch.topk", {"k": 1.5}, 2, DTypeError, "k: expected an integer, found 1.5"),
        ("torch.topk", {}, 2, ModelFileError, "'k' is missing"),
        ("torch.sort", {"dim": 5}, 2, ShapeError, "dimension 5 is out of range"),
        ("torch.sort", {}, 1, ShapeError, "gives 2 outputs, but the model has 1"),
        ("torch.median", {"dim": 1}, 1, ModelFileError, "does not go with 1 outputs"),
    ],
)
def test_refuses(type_name: str, params: Any, outputs: int, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.sort, [np.zeros((2, 3), np.float32)], params, outputs=outputs))
