"""Running sums, products and extremes against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, check_like_torch, random, run
from .test_reduction import INF, INPUTS, NAN

DIMS = [0, 1, -1, 2]


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("label", INPUTS)
@pytest.mark.parametrize("dim", DIMS)
def test_sums_and_products(name: str, label: str, dim: int) -> None:
    check_like_torch(Case(f"torch.{name}", lambda x: getattr(torch, name)(x, dim), [INPUTS[label]], {"dim": dim}))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.int8, torch.int32, torch.bool, torch.complex64])
@pytest.mark.parametrize("label", ["3d", "i64", "bool"])
def test_converts_to_dtype_first(name: str, label: str, dtype: torch.dtype) -> None:
    params = {"dim": 1, "dtype": str(dtype)}
    check_like_torch(Case(f"torch.{name}", lambda x: getattr(torch, name)(x, 1, dtype=dtype), [INPUTS[label]], params))


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("label", INPUTS)
@pytest.mark.parametrize("dim", DIMS)
def test_running_extremes(name: str, label: str, dim: int) -> None:
    if dim == 2 and not INPUTS[label].numel():
        return  # PyTorch does not look at the dimension here
    call = lambda x, *_: getattr(torch, name)(x, dim)  # noqa: E731
    check_like_torch(Case(f"aten::{name}", call, [INPUTS[label], dim], outputs=2))


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extremes_of_equal_elements_and_nan(name: str) -> None:
    x = torch.tensor([[1.0, 1.0, 0.0, 2.0, 2.0], [1.0, NAN, 3.0, NAN, INF]])
    check(Case(f"torch.{name}", lambda x: getattr(torch, name)(x, 1), [x], {"dim": 1}, outputs=2))


@pytest.mark.parametrize("label", [label for label in INPUTS if label not in ("c64", "c128")])
@pytest.mark.parametrize("dim", DIMS)
def test_logcumsumexp(label: str, dim: int) -> None:
    call = lambda x, *_: torch.logcumsumexp(x, dim)  # noqa: E731
    check_like_torch(Case("aten::logcumsumexp", call, [INPUTS[label], dim]))


def test_long_sums_keep_their_digits() -> None:
    x = random(1 << 16).abs() + 100.0
    check(Case("torch.cumsum", lambda x: x.double().cumsum(0).float(), [x], {"dim": 0}, tolerance=1e-7))


@pytest.mark.parametrize(
    ("type_name", "params", "input", "error", "message"),
    [
        ("torch.cumsum", {"dim": 2}, torch.zeros(3), ShapeError, "dimension 2 is out of range"),
        ("torch.cumsum", {}, torch.zeros(3), ModelFileError, "'dim' is missing"),
        ("torch.cumprod", {"dim": 0, "dtype": "torch.bool"}, torch.zeros(3), DTypeError, "found bool"),
        ("torch.logcumsumexp", {"dim": 0}, torch.zeros(3, dtype=torch.complex64), DTypeError, "complex numbers"),
    ],
)
def test_refuses(type_name: str, params: Any, input: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.cumsum, [input], params))
