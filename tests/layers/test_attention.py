"""Scaled dot-product attention against PyTorch."""

import math

import pytest
import torch
import torch.nn.functional as F

from kuiperinfer.errors import DTypeError, ModelFileError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

NAMES = ["query", "key", "value", "attn_mask"]
TYPE = "F.scaled_dot_product_attention"
attention = F.scaled_dot_product_attention


def case(shapes, mask=None, dtype=torch.float32, **params):
    inputs = [random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    absent = {"attn_mask": None}
    if mask is not None:
        inputs.append(mask)
        absent = {}

    def in_torch(query, key, value, attn_mask=None):
        return attention(query, key, value, attn_mask, **params)

    return Case(TYPE, in_torch, inputs, {"dropout_p": 0.0, **absent, **params}, names=NAMES[: len(inputs)])


def lower(rows, columns):
    return torch.ones(rows, columns, dtype=torch.bool).tril()


SHAPES = [
    ((4, 3), (6, 3), (6, 5)),
    ((2, 4, 3), (2, 6, 3), (2, 6, 5)),
    ((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 5)),
    ((2, 3, 17, 33), (2, 3, 15, 33), (2, 3, 15, 31)),
    ((2, 1, 3, 5, 4), (2, 1, 3, 7, 4), (2, 1, 3, 7, 4)),
    ((2, 2, 4, 3), (1, 2, 6, 3), (1, 1, 6, 3)),
    ((4, 3), (5, 6, 3), (5, 6, 3)),
    ((1, 2, 0, 3), (1, 2, 4, 3), (1, 2, 4, 7)),
    ((1, 2, 5, 3), (1, 2, 0, 3), (1, 2, 0, 7)),
    ((0, 2, 5, 3), (0, 2, 4, 3), (0, 2, 4, 7)),
    ((1, 2, 5, 0), (1, 2, 4, 0), (1, 2, 4, 7)),
    ((3,), (3,), (3,)),
    ((1, 2, 4, 3), (1, 2, 4, 5), (1, 2, 4, 5)),
    ((1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 5, 5)),
    ((2, 2, 4, 3), (3, 2, 4, 3), (3, 2, 4, 3)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes(shapes):
    check_like_torch(case(shapes))
    check_like_torch(case(shapes, is_causal=True))
    check_like_torch(case(shapes, scale=0.3))


MASK_SHAPES = [
    (4, 6),
    (1, 6),
    (4, 1),
    (2, 4, 6),
    (1, 1, 4, 6),
    (3, 2, 4, 6),
    (3, 1, 1, 6),
    (5, 6),
    (6,),
    (),
    (2, 3, 2, 4, 6),
]


@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64], ids=str)
def test_masks(shape, dtype):
    check_like_torch(case([(3, 2, 4, 5), (3, 2, 6, 5), (3, 2, 6, 5)], random(*shape, dtype=dtype)))


def test_causal_and_a_mask():
    check(case([(1, 2, 4, 3)] * 3, random(4, 4), is_causal=True))


@pytest.mark.parametrize("shapes", [((1, 4, 5, 3), (1, 2, 6, 3), (1, 2, 6, 7)), ((4, 5, 3), (2, 6, 3), (4, 6, 7))])
def test_shared_heads(shapes):
    check(case(shapes, enable_gqa=True))
    check(case(shapes, lower(5, 6), enable_gqa=True, scale=1.5))


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 3, 5, 3), (1, 2, 6, 3), (1, 2, 6, 7)),
        ((5, 3), (6, 3), (6, 7)),
        ((1, 2, 5, 3), (1, 4, 6, 3), (1, 4, 6, 7)),
    ],
)
def test_heads_that_cannot_be_shared(shapes):
    check_like_torch(case(shapes, enable_gqa=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_dtypes(dtype):
    shapes = ((2, 3, 7, 16), (2, 3, 9, 16), (2, 3, 9, 16))
    check_like_torch(case(shapes, dtype=dtype))
    check_like_torch(case(shapes, lower(7, 9), dtype=dtype))
    if dtype.is_floating_point:
        check(case(shapes, random(7, 9, dtype=dtype), dtype=dtype))


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_queries_without_keys_get_zeros(rank):
    mask = lower(4, 4)
    mask[2] = False
    shape = (*(1, 2, 3)[: rank - 2], 4, 5)
    check(case([shape] * 3, mask))
    check(case([shape] * 3, torch.where(mask, 0.0, -math.inf)))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e15, 1e-40])
@pytest.mark.parametrize("operand", [0, 1, 2, 3])
def test_special_values(value, operand):
    tested = case([(1, 2, 4, 3)] * 3, random(4, 4), scale=0.5)
    tested.inputs[operand] = tested.inputs[operand].clone()
    tested.inputs[operand].view(-1)[1] = value
    check(tested)


X = random(1, 2, 4, 3)


@pytest.mark.parametrize(
    ("inputs", "params", "error", "words"),
    [
        ([X, X, X, torch.zeros(4, 4, dtype=torch.int64)], {}, DTypeError, "attn_mask"),
        ([X, X, X, torch.zeros(3, 4)], {}, ShapeError, "broadcast"),
        ([X, X, X, torch.zeros(5, 2, 4, 4)], {}, ShapeError, "attn_mask"),
        ([X, X, random(1, 2, 5, 3)], {}, ShapeError, "key and value"),
        ([X, random(1, 2, 4, 5), X], {}, ShapeError, "query and key"),
        ([X, X], {}, ModelFileError, "value"),
        ([X, X, X], {"dropout": 0.1}, ModelFileError, "dropout"),
    ],
)
def test_refused(inputs, params, error, words):
    with pytest.raises(error, match=words):
        run(Case(TYPE, None, inputs, params, names=NAMES[: len(inputs)]))
