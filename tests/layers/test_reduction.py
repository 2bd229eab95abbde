"""Reductions against PyTorch: dtypes, dimensions, nothing to reduce, NaN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, check_like_torch, random, run

NAN, INF = float("nan"), float("inf")

INPUTS = {
    "3d": random(2, 3, 4),
    "0d": torch.tensor(1.5),
    "1": random(1, 1),
    "no rows": torch.zeros(0, 3),
    "no columns": torch.zeros(3, 0),
    "nan": torch.tensor([[1.0, NAN, 3.0], [INF, 2.0, -INF], [INF, INF, 1.0]]),
    "strided": random(4, 6).t()[::2],
    "f64": random(2, 3, dtype=torch.float64),
    "f16": random(2, 3, dtype=torch.float16),
    "bf16": random(2, 3, dtype=torch.bfloat16),
    "bool": torch.tensor([[True, False, True], [False, False, False]]),
    "u8": torch.tensor([[200, 100, 7], [0, 1, 255]], dtype=torch.uint8),
    "i8": random(2, 3, dtype=torch.int8),
    "i16": random(2, 3, dtype=torch.int16),
    "i32": random(2, 3, dtype=torch.int32),
    "i64": random(2, 3, dtype=torch.int64),
    "c64": random(2, 3, dtype=torch.complex64),
    "c128": random(2, 3, dtype=torch.complex128),
}
DIMS: list[Any] = [None, (), (0,), (1,), (-1,), (0, 1), (-1, 0), (0, -2), (2,), (0, 0)]
BY_LIST = ["sum", "mean", "nansum", "nanmean", "amax", "amin", "all", "any", "logsumexp"]


def forms_by_list(name: str, input: torch.Tensor) -> Iterator[Case]:
    """One reduction in all forms of `dim` and `keepdim`."""
    function = getattr(torch, name)
    if name in ("amax", "amin"):
        yield Case(f"torch.{name}", function, [input], {"dim": None, "keepdim": False})
    elif name != "logsumexp":
        yield Case(f"torch.{name}", function, [input])
    for dim in DIMS[1:]:
        if name == "logsumexp" and dim == ():
            continue
        for keepdim in (False, True):
            params = {"dim": dim, "keepdim": keepdim}
            yield Case(f"torch.{name}", lambda x, d=dim, k=keepdim: function(x, d, keepdim=k), [input], params)


@pytest.mark.parametrize("name", BY_LIST)
@pytest.mark.parametrize("label", INPUTS)
def test_reduces_like_torch(name: str, label: str) -> None:
    for case in forms_by_list(name, INPUTS[label]):
        check_like_torch(case)


DTYPED = [
    Case(
        f"torch.{name}",
        lambda x, f=name, d=dtype: getattr(torch, f)(x, dtype=d),
        [INPUTS[label]],
        {"dtype": str(dtype)},
    )
    for name in ("sum", "mean", "prod", "nansum")
    for label in ("3d", "i64", "u8", "bool", "c64", "f16")
    for dtype in (torch.float64, torch.float32, torch.int8, torch.int32, torch.bool, torch.complex64, torch.float16)
    if not (label == "c64" and not dtype.is_complex)  # PyTorch warns of the lost imaginary part
    if not (label == "u8" and dtype is torch.float16 and name == "prod")  # it multiplies in f16, which overflows
]


@pytest.mark.parametrize("case", DTYPED, ids=str)
def test_converts_to_dtype_first(case: Case) -> None:
    check_like_torch(case)


@pytest.mark.parametrize("label", INPUTS)
@pytest.mark.parametrize("dim", [None, 0, 1, -1, 2])
@pytest.mark.parametrize("keepdim", [False, True])
def test_prod(label: str, dim: int | None, keepdim: bool) -> None:
    if dim is None:
        check_like_torch(Case("torch.prod", torch.prod, [INPUTS[label]]))
    else:
        params = {"dim": dim, "keepdim": keepdim}
        check_like_torch(Case("torch.prod", lambda x: torch.prod(x, dim, keepdim), [INPUTS[label]], params))


def test_prod_of_several_dimensions_one_after_the_other() -> None:
    x = random(2, 3, 4, 5)
    check(Case("torch.prod", lambda x: x.prod(-1).prod(1).prod(0), [x], {"dim": (0, -1, 1), "keepdim": False}))


@pytest.mark.parametrize("label", INPUTS)
@pytest.mark.parametrize("dim", [None, (), 0, 1, (0, 1), 2])
def test_count_nonzero(label: str, dim: Any) -> None:
    case = Case("torch.count_nonzero", lambda x: torch.count_nonzero(x, dim), [INPUTS[label]], {"dim": dim})
    check_like_torch(case)


def test_left_over_forms() -> None:
    x = random(3, 4, 5)
    for name in ("all", "any"):
        check(Case(f"aten::{name}", getattr(torch, name), [x]))
        check(Case(f"aten::{name}", getattr(torch, name), [x, 1, True]))
    check(Case("aten::count_nonzero", lambda x, _: torch.count_nonzero(x), [x, None]))
    check(Case("aten::count_nonzero", torch.count_nonzero, [x, [0, 2]]))
    check(Case("aten::nansum", lambda x, d, k, _: torch.nansum(x, d, k), [x, None, False, None]))
    check(Case("aten::nanmean", lambda x, d, k, _: torch.nanmean(x, d, k), [x, [1], True, None]))
    check(Case("aten::prod", lambda x, _: torch.prod(x), [x, None]))


def test_long_sums_keep_their_digits() -> None:
    x = (random(1 << 18).abs() + 1000.0).contiguous()
    exact = x.double().sum()
    assert abs(float(run(Case("torch.sum", torch.sum, [x]))[0]) - float(exact)) <= 1e-7 * float(exact)
    columns = x.reshape(-1, 2)
    check(Case("torch.mean", lambda x: x.double().mean(0).float(), [columns], {"dim": (0,), "keepdim": False}))


def test_logsumexp_without_overflow() -> None:
    x = torch.tensor([[1000.0, 1000.0], [-1000.0, -1001.0], [-INF, -INF], [INF, 0.0], [NAN, INF]])
    check(Case("torch.logsumexp", lambda x: torch.logsumexp(x, 1), [x], {"dim": (1,)}))


@pytest.mark.parametrize(
    ("type_name", "params", "input", "error", "message"),
    [
        ("torch.mean", {}, torch.zeros(2, dtype=torch.int64), DTypeError, "needs floats or complex numbers, found i64"),
        ("torch.amax", {"dim": (0,)}, torch.zeros(0, 2), ShapeError, "of no elements is undefined"),
        ("torch.amax", {"dim": (0,)}, torch.zeros(2, dtype=torch.complex64), DTypeError, "complex numbers"),
        ("torch.sum", {"dim": (3,)}, torch.zeros(2, 2), ShapeError, "dimension 3 is out of range"),
        ("torch.sum", {"dim": (0, -2)}, torch.zeros(2, 2), ShapeError, "the same dimension twice"),
        ("torch.sum", {"dim": "x"}, torch.zeros(2, 2), ModelFileError, "expected a list"),
        ("torch.sum", {"dims": (1,)}, torch.zeros(2, 2), ModelFileError, "did you mean 'dim'"),
        ("torch.logsumexp", {"dim": ()}, torch.zeros(2, 2), ModelFileError, "at least one dimension"),
        ("torch.logsumexp", {}, torch.zeros(2, 2), ModelFileError, "at least one dimension"),
    ],
)
def test_refuses(type_name: str, params: dict[str, Any], input: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.sum, [input], params))
