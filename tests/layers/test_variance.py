"""Variance and standard deviation against PyTorch, in every form of the correction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer.errors import DTypeError, ModelFileError

from .harness import Case, assert_equal, check, check_like_torch, random, run
from .test_reduction import INF, INPUTS, NAN

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom")  # PyTorch warns of what is compared here

DIMS: list[Any] = [None, (), (0,), (-1,), (0, 1), (2,), (0, 0)]
WITH_MEAN = ["std_mean", "var_mean"]


@pytest.mark.parametrize("name", ["std", "var", *WITH_MEAN])
@pytest.mark.parametrize("label", INPUTS)
def test_varies_like_torch(name: str, label: str) -> None:
    if name in WITH_MEAN and label == "nan":
        pytest.skip("PyTorch's running mean makes NaN of an infinity")
    function = getattr(torch, name)
    for dim in DIMS:
        for keepdim in (False, True):
            for correction in (0, 1, 2, 7, 0.5, None):
                params = {"dim": dim, "keepdim": keepdim, "correction": correction}
                call = lambda x, d=dim, k=keepdim, c=correction: function(x, d, correction=c, keepdim=k)  # noqa: E731
                outputs = 2 if name in WITH_MEAN else 1
                check_like_torch(Case(f"torch.{name}", call, [INPUTS[label]], params, outputs=outputs))


@pytest.mark.parametrize("name", ["std", "var"])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("dim", [None, (1,), (0, 2)])
def test_unbiased(name: str, unbiased: bool, dim: Any) -> None:
    call = lambda x: getattr(torch, name)(x, dim, unbiased=unbiased, keepdim=False)  # noqa: E731
    params = {"dim": dim, "keepdim": False, "unbiased": unbiased}
    check(Case(f"torch.{name}", call, [random(3, 4, 5)], params))


def test_the_converter_writes_a_correction_as_unbiased() -> None:
    x = random(3, 4, 5)
    for correction in (0, 1, 2):
        params = {"dim": (1,), "keepdim": False, "unbiased": correction}
        check(Case("torch.var", lambda x, c=correction: torch.var(x, 1, correction=c), [x], params))


@pytest.mark.parametrize("name", ["std", "var", *WITH_MEAN])
def test_left_over_forms(name: str) -> None:
    function, x, outputs = getattr(torch, name), random(3, 4, 5), 2 if name in WITH_MEAN else 1

    def case(call: Any, *inputs: Any) -> Case:
        return Case(f"aten::{name}", call, [x, *inputs], outputs=outputs)

    for unbiased in (False, True):
        check(case(lambda x, u: function(x, unbiased=u), unbiased))
        check(case(lambda x, d, u, k: function(x, d, unbiased=u, keepdim=k), [0, 2], unbiased, True))
    for correction in (0, 1, 2, None):
        check(case(lambda x, d, c, k: function(x, d, correction=c, keepdim=k), [1], correction, False))


def test_a_large_mean_does_not_drown_the_variance() -> None:
    x = random(4, 1000) + 10_000.0
    params = {"dim": (1,), "keepdim": False}
    check(Case("torch.var", lambda x: torch.var(x.double(), 1).float(), [x], params, tolerance=1e-6))


def test_infinities_and_nan() -> None:
    x = torch.tensor([[1.0, INF, 2.0], [NAN, 1.0, 2.0], [5.0, 5.0, 5.0]])
    deviation, mean = run(Case("torch.std_mean", torch.std_mean, [x], {"dim": (1,)}, outputs=2))
    assert_equal(deviation, np.array([NAN, NAN, 0.0], np.float32))
    assert_equal(mean, np.array([INF, NAN, 5.0], np.float32))


def test_refuses() -> None:
    with pytest.raises(DTypeError, match="a variance needs floats"):
        run(Case("torch.var", torch.var, [torch.zeros(3, dtype=torch.int32)]))
    with pytest.raises(ModelFileError, match="either 'unbiased' or 'correction'"):
        run(Case("torch.std", torch.std, [torch.zeros(3)], {"unbiased": True, "correction": 0}))
    with pytest.raises(ModelFileError, match="'unbiased': expected True or False or a number"):
        run(Case("torch.std", torch.std, [torch.zeros(3)], {"unbiased": "yes"}))
