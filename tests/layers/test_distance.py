"""Norms, distances and similarities against PyTorch."""

import math

import pytest
import torch
import torch.nn.functional as F

from kuiperinfer.errors import DTypeError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
)
ORDERS = (0, 0.5, 1, 2, 2.0, 3.5, -1.0, math.inf, -math.inf)


@pytest.mark.parametrize("p", ORDERS)
def test_normalize(p):
    for shape in [(2, 3, 4), (5, 1), (3,), (), (0, 3), (3, 0)]:
        for dim in (0, 1, -1):
            params = {"p": p, "dim": dim, "eps": 1e-12}
            check_like_torch(Case("F.normalize", lambda x, d=dim: F.normalize(x, p, d), [random(*shape)], params))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_normalize_dtypes(dtype):
    x = random(4, 6, dtype=dtype)
    check_like_torch(Case("F.normalize", F.normalize, [x], names=["input"]))
    check_like_torch(Case("F.normalize", lambda x: F.normalize(x, 1, 0, 5.0), [x], {"p": 1, "dim": 0, "eps": 5.0}))


def test_normalize_special_values():
    x = torch.tensor([[math.nan, 1, 2], [math.inf, 1, 2], [0, 0, 0], [1e-40, -1e-40, 0], [1e15, -1e15, 3]])
    check(Case("F.normalize", F.normalize, [x]))
    check(Case("F.normalize", lambda x: F.normalize(x, dim=(0, 1)), [random(3, 4)], {"dim": (0, 1)}))


@pytest.mark.parametrize("p", ORDERS)
def test_pairwise_distance(p):
    for first, second in [
        ((4, 3), (4, 3)),
        ((2, 4, 3), (3,)),
        ((3,), (4, 1)),
        ((), ()),
        ((4, 0), (4, 0)),
        ((2,), (3,)),
    ]:
        for keepdim in (False, True):
            params = {"p": p, "eps": 1e-3, "keepdim": keepdim}

            def in_torch(x, y, k=keepdim):
                return F.pairwise_distance(x, y, p, 1e-3, k)

            inputs = [random(*first), random(*second, seed=5)]
            check_like_torch(Case("F.pairwise_distance", in_torch, inputs, params, names=["x1", "x2"]))


@pytest.mark.parametrize("other", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pairwise_distance_dtypes(dtype, other):
    inputs = [random(4, 6, dtype=dtype), random(4, 6, dtype=other, seed=5)]
    check_like_torch(Case("F.pairwise_distance", F.pairwise_distance, inputs, names=["x1", "x2"]))


def test_cosine_similarity():
    for first, second in [
        ((4, 3), (4, 3)),
        ((2, 4, 3), (4, 1)),
        ((3, 0), (3, 0)),
        ((2, 3), (3, 3)),
        ((3,), (3,)),
        ((), ()),
    ]:
        for dim in (0, 1, -1):
            for eps in (1e-8, 3.0):

                def in_torch(x, y, d=dim, e=eps):
                    return F.cosine_similarity(x, y, d, e)

                inputs = [random(*first), random(*second, seed=5)]
                params = {"dim": dim, "eps": eps}
                check_like_torch(Case("F.cosine_similarity", in_torch, inputs, params, names=["x1", "x2"]))
    check(Case("nn.CosineSimilarity", F.cosine_similarity, [torch.zeros(2, 2), random(2, 2)]))
    # The converter leaves the function as it is, with all arguments in order.
    case = Case("aten::cosine_similarity", F.cosine_similarity, [random(2, 3, 4), random(2, 3, 4, seed=1), 2, 1e-8])
    check(case)


@pytest.mark.parametrize("other", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cosine_similarity_dtypes(dtype, other):
    inputs = [random(4, 6, dtype=dtype), random(4, 6, dtype=other, seed=5)]
    tolerance = 1e-2 if dtype is not other else None  # PyTorch rounds each length to its own dtype
    case = Case("F.cosine_similarity", F.cosine_similarity, inputs, names=["x1", "x2"], tolerance=tolerance)
    check_like_torch(case)


def test_refused():
    with pytest.raises(ShapeError, match="the inf norm of no elements"):
        run(Case("F.normalize", None, [random(2, 0)], {"p": math.inf}))
    with pytest.raises(ShapeError, match="twice"):
        run(Case("F.normalize", None, [random(2, 3)], {"dim": (1, -1)}))
    with pytest.raises(ShapeError, match="broadcast"):
        run(Case("F.pairwise_distance", None, [random(2, 3), random(2, 4)]))
    with pytest.raises(DTypeError, match="x1"):
        run(Case("F.pairwise_distance", None, [random(3) > 0, random(3)]))
