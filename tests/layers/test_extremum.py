"""Extremes and their indices against PyTorch: NaN, equal elements, every dtype, 0-d and nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ShapeError

from .harness import Case, check, check_like_torch, run
from .test_reduction import INF, INPUTS, NAN

EQUAL = torch.tensor([[2.0, 5.0, 5.0, 2.0], [NAN, INF, NAN, 1.0], [-0.0, 0.0, -0.0, 0.0]])
DIMS: list[int | None] = [None, 0, 1, -1, 2]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("label", INPUTS)
def test_max_and_min(name: str, label: str) -> None:
    function = getattr(torch, name)
    check_like_torch(Case(f"torch.{name}", function, [INPUTS[label]]))
    for dim in DIMS[1:]:
        for keepdim in (False, True):
            params = {"dim": dim, "keepdim": keepdim}
            call = lambda x, d=dim, k=keepdim: function(x, d, k)  # noqa: E731
            check_like_torch(Case(f"torch.{name}", call, [INPUTS[label]], params, outputs=2))
            values = lambda x, d=dim, k=keepdim: function(x, d, k)[0]  # noqa: E731
            check_like_torch(Case(f"torch.{name}", values, [INPUTS[label]], params))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("label", INPUTS)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_indices(name: str, label: str, dim: int | None, keepdim: bool) -> None:
    params = {"dim": dim, "keepdim": keepdim}
    check_like_torch(Case(f"torch.{name}", lambda x: getattr(torch, name)(x, dim, keepdim), [INPUTS[label]], params))


@pytest.mark.parametrize("label", INPUTS)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [False, True])
def test_aminmax(label: str, dim: int | None, keepdim: bool) -> None:
    def call(x: Any, *_: Any) -> Any:
        return torch.aminmax(x, dim=dim, keepdim=keepdim)

    check_like_torch(Case("aten::aminmax", call, [INPUTS[label], dim, keepdim], outputs=2))


def test_the_first_of_equal_elements_wins() -> None:
    for name in ("max", "min"):
        check(Case(f"torch.{name}", lambda x, n=name: getattr(torch, n)(x, 1), [EQUAL], {"dim": 1}, outputs=2))
        check(Case(f"torch.arg{name}", lambda x, n=name: getattr(torch, f"arg{n}")(x, 1), [EQUAL], {"dim": 1}))
        check(Case(f"torch.arg{name}", getattr(torch, f"arg{name}"), [EQUAL]))


@pytest.mark.parametrize(
    ("type_name", "params", "outputs", "input", "error", "message"),
    [
        ("torch.argmax", {}, 1, torch.tensor([True]), DTypeError, "expected numbers, found bool"),
        ("torch.argmax", {}, 1, torch.zeros(0), ShapeError, "of no elements is undefined"),
        ("torch.max", {}, 2, torch.zeros(3), ModelFileError, "no parameter 'dim'"),
        ("torch.max", {"dim": 1}, 2, torch.zeros(3), ShapeError, "dimension 1 is out of range"),
        ("torch.min", {"dim": 0}, 1, torch.zeros(3, dtype=torch.complex64), DTypeError, "complex numbers"),
    ],
)
def test_refuses(type_name: str, params: Any, outputs: int, input: Any, error: type[KuiperError], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Case(type_name, torch.max, [input], params, outputs=outputs))
