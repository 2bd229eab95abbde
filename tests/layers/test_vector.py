"""Norms, distances and cross products against PyTorch and, for singular values, against NumPy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, check_like_torch, random, run
from .test_reduction import INPUTS

INF = math.inf
ORDERS = [2, 1, 0, 3, 1.5, -1, -2.5, INF, -INF, "fro"]
DIMS: list[Any] = [None, (0,), (-1,), (0, 1), (2,), (0, 0)]


@pytest.mark.parametrize("label", INPUTS)
@pytest.mark.parametrize("p", ORDERS)
def test_norm(label: str, p: Any) -> None:
    for dim in DIMS:
        for keepdim in (False, True):
            params = {"p": p, "dim": dim, "keepdim": keepdim}
            check_like_torch(
                Case("torch.norm", lambda x, d=dim, k=keepdim: torch.norm(x, p, d, k), [INPUTS[label]], params)
            )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.complex64, torch.complex128, torch.int32])
@pytest.mark.parametrize("label", ["3d", "c64", "i64", "f16"])
def test_norm_in_another_dtype(label: str, dtype: torch.dtype) -> None:
    params = {"p": 2, "dim": (1,), "keepdim": False, "dtype": str(dtype)}
    check_like_torch(Case("torch.norm", lambda x: torch.norm(x, 2, 1, dtype=dtype), [INPUTS[label]], params))


def nuclear(x: torch.Tensor, dim: tuple[int, int], keepdim: bool) -> torch.Tensor:
    return torch.from_numpy(np.asarray(np.linalg.norm(x.double().numpy(), "nuc", dim, keepdim))).to(x.dtype)


@pytest.mark.parametrize("keepdim", [False, True])
def test_nuclear_norm(keepdim: bool) -> None:
    for x, dim in [(random(3, 4), (0, 1)), (random(2, 3, 4), (0, 2)), (random(2, 3, 4), (-1, 1))]:
        params = {"p": "nuc", "dim": dim, "keepdim": keepdim}
        check(Case("torch.norm", lambda x, d=dim: nuclear(x, d, keepdim), [x], params))
    check(Case("torch.norm", lambda x: nuclear(x, (0, 1), False), [random(3, 4)], {"p": "nuc"}))


@pytest.mark.parametrize("ord", ["fro", INF, -INF, 1, -1])
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 4), (0, 3), (3, 0), (2, 0, 3), (5,), ()])
def test_matrix_norm(ord: Any, shape: tuple[int, ...]) -> None:
    for dim in ([-2, -1], [1, 0], [0, 2], [0]):
        for keepdim in (False, True):
            call = lambda x, *_, d=dim, k=keepdim: torch.linalg.matrix_norm(x, ord, d, k)  # noqa: E731
            check_like_torch(Case("aten::linalg_matrix_norm", call, [random(*shape), ord, dim, keepdim, None]))


@pytest.mark.parametrize("ord", [2, -2, "nuc"])
def test_norms_by_singular_values(ord: Any) -> None:
    x = random(3, 5, 4, dtype=torch.complex64)
    expected = np.linalg.norm(x.numpy(), ord, (0, 2), keepdims=True)
    check(Case("aten::linalg_matrix_norm", lambda *_: torch.from_numpy(expected), [x, ord, [0, 2], True, None]))
    assert run(Case("aten::linalg_matrix_norm", torch.norm, [torch.zeros(0, 3), 2, [0, 1], False, None]))[0] == 0.0
    with pytest.raises(ShapeError, match="of no elements is undefined"):
        run(Case("aten::linalg_matrix_norm", torch.norm, [torch.zeros(0, 3), -2, [0, 1], False, None]))


@pytest.mark.parametrize("ord", [None, "fro", INF, 1, 3, 0])
@pytest.mark.parametrize("label", ["3d", "0d", "c64", "strided", "no rows", "i64"])
@pytest.mark.parametrize("dim", [None, [0], [1], [0, 1], [0, 1, 2]])
def test_linalg_norm(ord: Any, label: str, dim: Any) -> None:
    def call(x: Any, *_: Any) -> Any:
        return torch.linalg.norm(x, ord, dim)

    check_like_torch(Case("aten::linalg_norm", call, [INPUTS[label], ord, dim, False, None]))
    check_like_torch(Case("aten::linalg_norm", call, [INPUTS[label].flatten(), ord, dim, False, None]))


@pytest.mark.parametrize("p", [2, 1, 0, INF, -INF, 2.5])
def test_dist(p: float) -> None:
    x, y = random(3, 4), random(4, seed=1)
    for pair in [
        (x, x + 1),
        (x, y),
        (x, y.double()),
        (x, (y * 3).long()),
        (x[:0], y),
        (x.long(), y.long()),
        (x.half(), y.half()),
    ]:
        check_like_torch(Case("aten::dist", torch.dist, [*pair, p]))


@pytest.mark.parametrize("dim", [None, 0, 1, -1, 2])
def test_cross(dim: int | None) -> None:
    def call(a: Any, b: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.cross(a, b, dim)

    def call_linalg(a: Any, b: Any, *_: Any) -> Any:
        return torch.linalg.cross(a, b, dim=-1 if dim is None else dim)

    for a, b in [
        (random(3, 3), random(3, 3, seed=1)),
        (random(5, 3), random(5, 3, seed=1)),
        (random(3, 4, 3, dtype=torch.int64), random(3, 4, 3, dtype=torch.int64, seed=1)),
        (random(1, 3, dtype=torch.complex64), random(4, 3, dtype=torch.complex64)),
        (random(2, 3), random(3)),
        (random(2, 4), random(2, 4)),
        (random(2, 3), random(2, 3, dtype=torch.float64)),
        (random(2, 3, dtype=torch.bool), random(2, 3, dtype=torch.bool)),
        (random(0, 3), random(0, 3)),
        (torch.tensor(1.0), torch.tensor(2.0)),
    ]:
        check_like_torch(Case("torch.cross", call, [a, b], {"dim": dim}))
        check_like_torch(Case("aten::linalg_cross", call_linalg, [a, b, -1 if dim is None else dim]))


@pytest.mark.parametrize(
    ("type_name", "params", "input", "error", "message"),
    [
        ("torch.norm", {"p": "word"}, torch.zeros(3), ModelFileError, "a number, fro or nuc, found word"),
        ("torch.norm", {"p": "nuc"}, torch.zeros(3), ShapeError, "two dimensions, found dim=None"),
        ("torch.norm", {}, torch.zeros(3, dtype=torch.int64), DTypeError, "a norm needs floats"),
        ("torch.norm", {"p": INF}, torch.zeros(0), ShapeError, "of no elements"),
        ("torch.linalg.matrix_norm", {"ord": 3}, torch.zeros(3, 3), ModelFileError, "expected one of fro, nuc, inf"),
        ("torch.linalg.norm", {"ord": 1}, torch.zeros(3, 3, 3), ShapeError, "1 or 2 dimensions, found 3"),
    ],
)
def test_refuses(type_name: str, params: Any, input: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.norm, [input], params))
