"""Matrix products against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kuiperinfer.errors import DTypeError, ModelFileError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.complex64)
TOLERANCE = 1e-5
NAN = float("nan")


def matmul(a, b):
    return Case("torch.matmul", torch.matmul, [a, b], names=["input", "other"], tolerance=TOLERANCE)


# ------------------------------------------------------------------------------------------- linear


@pytest.mark.parametrize(
    ("features", "rows", "fill", "expected"),
    [
        ((32, 64), [1] * 32, 1, 32),
        ((32, 64), [1] * 32, 2, 64),
        ((8, 12), range(1, 9), 1, 36),
        ((64, 128), range(1, 65), 1, 2080),
    ],
)
def test_known_numbers(features, rows, fill, expected):
    weight = np.tile(np.asarray(rows, np.float32), (features[1], 1))
    x = np.full((2, features[0]), fill, np.float32)
    (y,) = run(Case("nn.Linear", None, [x], {"bias": False}, {"weight": weight}))
    assert y.shape == (2, features[1])
    assert (y == expected).all()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (7, 5), (2, 3, 5), (2, 0, 5), (2, 3, 4, 5)], ids=str)
def test_linear_module(shape, bias):
    module = nn.Linear(5, 9, bias=bias)
    params = {"in_features": 5, "out_features": 9, "bias": bias}
    check(Case("nn.Linear", module, [random(*shape)], params, {k: v.detach() for k, v in module.state_dict().items()}))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_linear_dtypes(dtype):
    arrays = [random(3, 2, 5, dtype=dtype), random(4, 5, dtype=dtype), random(4, dtype=dtype)]
    check(Case("F.linear", F.linear, arrays, names=["input", "weight", "bias"], tolerance=None))
    check(Case("F.linear", F.linear, arrays[:2], {"bias": None}))


@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 4), (4,)],
        [(4,), (4,)],
        [(4,), (4,), ()],
        [(3, 4), (4,), (3,)],
        [(3, 4), (2, 4), (3, 2)],
        [(3, 4), (2, 4), (1,)],
        [(3, 4), (2, 4), ()],
        [(3, 4), (2, 4), (3,)],
        [(3, 4), (2, 4), (1, 3, 2)],
        [(3, 0), (2, 0), (2,)],
        [(3, 4), (0, 4), (0,)],
        [(), (2, 4)],
        [(3, 4), (2, 3)],
        [(3, 4), (2, 2, 4)],
    ],
    ids=str,
)
def test_linear_shapes(shapes):
    check_like_torch(Case("F.linear", F.linear, [random(*shape) for shape in shapes]))


def test_half_weights_calculate_in_single_precision():
    x, weight = random(3, 5), random(4, 5, dtype=torch.float16)
    check(Case("nn.Linear", lambda x: F.linear(x, weight.float()), [x], {"bias": False}, {"weight": weight}))


def test_linear_refuses_what_does_not_fit():
    weights = {"weight": random(4, 5), "bias": random(4)}
    for params in ({"in_features": 4}, {"out_features": 5}):
        with pytest.raises(ShapeError, match="do not go with a weight"):
            run(Case("nn.Linear", None, [random(3, 5)], params, weights))
    for given_params, given_weights in (
        ({"bias": False}, weights),
        ({"bias": True}, {"weight": random(4, 5)}),
        ({}, {}),
    ):
        with pytest.raises(ModelFileError):
            run(Case("nn.Linear", None, [random(3, 5)], given_params, given_weights))


# ------------------------------------------------------------------------------------------- products


def test_known_products():
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(20, dtype=np.float32).reshape(4, 5)
    assert run(matmul(a, b))[0].tolist() == [
        [70, 76, 82, 88, 94],
        [190, 212, 234, 256, 278],
        [310, 348, 386, 424, 462],
    ]
    assert run(matmul(a, np.arange(4, dtype=np.float32)))[0].tolist() == [14, 38, 62]
    nine = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    assert run(matmul(nine, nine))[0].tolist() == [[30, 36, 42], [66, 81, 96], [102, 126, 150]]


MATMUL_SHAPES = [
    (),
    (4,),
    (3, 4),
    (4, 3),
    (1, 4),
    (2, 3, 4),
    (1, 3, 4),
    (2, 4, 3),
    (5, 1, 3, 4),
    (2, 4, 1),
    (0, 3, 4),
    (4, 0),
]


@pytest.mark.parametrize("right", MATMUL_SHAPES, ids=str)
@pytest.mark.parametrize("left", MATMUL_SHAPES, ids=str)
def test_ranks_of_matmul(left, right):
    check_like_torch(matmul(random(*left), random(*right)))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_dtypes_of_products(dtype):
    a, b = random(2, 3, 5, dtype=dtype), random(2, 5, 4, dtype=dtype)
    check(Case("torch.matmul", torch.matmul, [a, b[0]]))
    check(Case("torch.bmm", torch.bmm, [a, b], names=["input", "mat2"]))
    check(Case("torch.mm", torch.mm, [a[0], b[0]], names=["input", "mat2"]))
    check(Case("torch.mv", torch.mv, [a[0], b[0, :, 0]], names=["input", "vec"]))


@pytest.mark.parametrize("size", [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 300])
def test_sizes_around_vector_widths(size):
    check(matmul(random(size, size + 1), random(size + 1, size - 1)))
    check(matmul(random(3, size, 5), random(5, size)))


def test_strided_operands():
    a, b = random(6, 8, 10).numpy(), random(10, 12).numpy()
    check(matmul(a[::2, ::-1], b[:, ::3]))
    check(matmul(a.transpose(1, 0, 2), np.asfortranarray(b)))
    check(matmul(np.broadcast_to(a[:1], a.shape), b))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", [(2, 3), (3,)]),
        ("mm", [(2, 3), (4, 2)]),
        ("mm", [(1, 2, 3), (3, 2)]),
        ("mm", [(2, 0), (0, 3)]),
        ("bmm", [(1, 2, 3), (4, 3, 2)]),
        ("bmm", [(2, 3), (3, 2)]),
        ("bmm", [(0, 2, 3), (0, 3, 2)]),
        ("bmm", [(2, 2, 0), (2, 0, 2)]),
        ("mv", [(2, 3), (3, 1)]),
        ("mv", [(2, 3), (2,)]),
        ("mv", [(2, 0), (0,)]),
    ],
    ids=str,
)
def test_ranks_of_strict_products(name, shapes):
    check_like_torch(Case(f"torch.{name}", getattr(torch, name), [random(*shape) for shape in shapes]))


@pytest.mark.parametrize(
    "dtypes", [("bool", "bool"), ("float32", "int64"), ("int32", "int64"), ("complex64", "float32")]
)
def test_refused_dtypes(dtypes):
    a, b = (random(3, 3, dtype=getattr(torch, dtype)) for dtype in dtypes)
    with pytest.raises(DTypeError):
        run(matmul(a, b))


# ------------------------------------------------------------------------------------------- products that are added


def added(name, shapes, dtype=torch.float32, **params):
    names = {"addmm": ["input", "mat1", "mat2"], "baddbmm": ["input", "batch1", "batch2"]}[name]
    arrays = [random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    function = getattr(torch, name)
    return Case(f"torch.{name}", lambda *a: function(*a, **params), arrays, params, names=names, tolerance=TOLERANCE)


FACTORS = [
    {},
    {"alpha": 1, "beta": 1},
    {"alpha": 0.7, "beta": 1.4},
    {"alpha": 2},
    {"beta": 0},
    {"alpha": -0.5, "beta": 0.0},
]


@pytest.mark.parametrize("factors", FACTORS, ids=str)
def test_factors(factors):
    check(added("addmm", [(2, 4), (2, 3), (3, 4)], **factors))
    check(added("baddbmm", [(5, 2, 4), (5, 2, 3), (5, 3, 4)], **factors))
    for dtype in (torch.float64, torch.float16, torch.int64, torch.complex64):
        case = added("addmm", [(2, 4), (2, 3), (3, 4)], dtype, **factors)
        case.tolerance = None
        check(case)


@pytest.mark.parametrize(
    "shape", [(), (4,), (1, 4), (2, 1), (2, 4), (2,), (1, 2, 4), (5, 2, 4), (5, 1, 1), (1, 5, 2, 4)], ids=str
)
def test_what_is_added_expands(shape):
    check_like_torch(added("addmm", [shape, (2, 3), (3, 4)], beta=0.5))
    check_like_torch(added("baddbmm", [shape, (5, 2, 3), (5, 3, 4)], beta=0.5))


def test_beta_zero_pays_no_heed_to_nan():
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    (y,) = run(Case("torch.addmm", None, [np.full(4, NAN, np.float32), a, b], {"beta": 0}))
    assert (y == 3).all()
    (y,) = run(Case("torch.baddbmm", None, [np.full(4, np.inf, np.float32), a[None], b[None]], {"beta": 0.0}))
    assert (y == 3).all()


@pytest.mark.parametrize(
    "shapes", [[(2, 4), (2, 0), (0, 4)], [(2, 4), (2, 3), (4, 4)], [(2, 4), (2, 3), (1, 3, 4)]], ids=str
)
def test_shapes_of_added_products(shapes):
    check_like_torch(added("addmm", shapes, beta=2))
    check_like_torch(added("baddbmm", [(5, *shape) for shape in shapes], beta=2))


# ------------------------------------------------------------------------------------------- any shapes


@given(st.data())
def test_random_shapes_of_matmul(data):
    size = st.integers(0, 5)
    inner = data.draw(size)
    batch = data.draw(st.lists(size, max_size=3))
    shapes = []
    for matrix in ((data.draw(size), inner), (inner, data.draw(size))):
        own = [dim if data.draw(st.booleans()) else 1 for dim in batch[data.draw(st.integers(0, len(batch))) :]]
        shapes.append((*own, *matrix) if own or data.draw(st.booleans()) else (inner,))
    check_like_torch(matmul(*(random(*shape).round() for shape in shapes)))
