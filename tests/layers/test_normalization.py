"""Normalisations against PyTorch."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kuiperinfer.errors import DTypeError, InputError, ModelFileError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
NOT_FLOATS = (torch.bool, torch.uint8, torch.int64, torch.complex64)


def positive(*shape, dtype=torch.float32, seed=9):
    return random(*shape, dtype=dtype, seed=seed, low=0.1, high=3.0)


def trained(module, seed=0):
    """The module in eval mode, its weights and statistics random."""
    with torch.no_grad():
        for i, (name, tensor) in enumerate(module.state_dict().items()):
            if tensor.is_floating_point():
                make = positive if name == "running_var" else random
                tensor.copy_(make(*tensor.shape, seed=seed + i))
    return module.eval()


def weights_of(module):
    return {name: t for name, t in module.state_dict().items() if name != "num_batches_tracked"}


def module_case(module, x, **params):
    return Case(f"nn.{type(module).__name__}", module, [x], params, weights_of(module))


# ------------------------------------------------------------------------------------------- batch


BATCH_SHAPES = {
    1: [(2, 5), (3, 5, 7), (1, 5, 1), (0, 5, 3), (2, 5, 0)],
    2: [(2, 5, 3, 4), (1, 5, 1, 1)],
    3: [(2, 5, 3, 4, 2)],
}


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_batch_norm(ndim, tracked, affine):
    make = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[ndim - 1]
    for eps in (1e-5, 0.1):
        module = trained(make(5, eps=eps, affine=affine, track_running_stats=tracked))
        params = {"num_features": 5, "eps": eps, "affine": affine, "track_running_stats": tracked, "momentum": 0.1}
        for shape in BATCH_SHAPES[ndim]:
            check_like_torch(module_case(module, random(*shape), **params))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm_dtypes(dtype):
    for weight_dtype in {dtype, torch.float32 if dtype.itemsize == 2 else dtype}:
        module = trained(nn.BatchNorm2d(6)).to(weight_dtype)
        check(module_case(module, random(2, 6, 3, 3, dtype=dtype), num_features=6, affine=True))


@pytest.mark.parametrize("present", range(16))
def test_batch_norm_with_operands(present):
    x = random(3, 4, 5)
    given = {
        name: (positive if name == "running_var" else random)(4, seed=i)
        for i, name in enumerate(("running_mean", "running_var", "weight", "bias"))
        if present >> i & 1
    }
    absent = {name: None for name in ("running_mean", "running_var", "weight", "bias") if name not in given}

    def in_torch(x, *operands):
        named = dict(zip(given, operands, strict=True))
        statistics = [named.pop(name, None) for name in ("running_mean", "running_var")]
        training = statistics == [None, None]
        return F.batch_norm(x, *statistics, **named, training=training, eps=1e-3)

    case = Case("F.batch_norm", in_torch, [x, *given.values()], {"eps": 1e-3, **absent}, names=["input", *given])
    check_like_torch(case)


def test_batch_norm_of_the_batch():
    x, mean, var = random(3, 4, 2), random(4), positive(4)
    case = Case(
        "F.batch_norm", lambda x, m, v: F.batch_norm(x, m, v, training=True), [x, mean, var], {"training": True}
    )
    check(case)


# ------------------------------------------------------------------------------------------- instance and group


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_instance_norm(ndim, tracked, affine):
    make = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[ndim - 1]
    module = trained(make(5, eps=1e-3, affine=affine, track_running_stats=tracked))
    params = {"num_features": 5, "eps": 1e-3, "affine": affine, "track_running_stats": tracked}
    size = (3, 4, 2)[:ndim]
    for shape in [(2, 5, *size), (5, *size), (1, 5, *[1] * ndim), size]:
        check_like_torch(module_case(module, random(*shape), **params))
    if not affine and not tracked:
        other = random(2, 3, *size)  # PyTorch warns of other channels, and goes on
        check(Case(f"nn.{make.__name__}", lambda x: F.instance_norm(x, eps=1e-3), [other], params))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_instance_norm_dtypes(dtype):
    module = trained(nn.InstanceNorm2d(6, affine=True)).to(dtype)
    check(module_case(module, random(2, 6, 5, 3, dtype=dtype), num_features=6, affine=True))


@pytest.mark.parametrize("present", range(16))
@pytest.mark.parametrize("use_input_stats", [True, False, None])
def test_instance_norm_with_operands(present, use_input_stats):
    x = random(2, 4, 5)
    names = ("running_mean", "running_var", "weight", "bias")
    given = {
        name: (positive if name == "running_var" else random)(4, seed=i)
        for i, name in enumerate(names)
        if present >> i & 1
    }
    if not use_input_stats and use_input_stats is not None and present & 3 == 0:
        return  # without statistics PyTorch has nothing to use; a module then takes those of the input
    absent = {name: None for name in names if name not in given}
    params = {} if use_input_stats is None else {"use_input_stats": use_input_stats}

    def in_torch(x, *operands):
        return F.instance_norm(x, **dict(zip(given, operands, strict=True)), eps=1e-3, **params)

    if present & 3 in (1, 2):
        with pytest.raises(InputError, match="both or neither"):
            run(Case("F.instance_norm", None, [x, *given.values()], params, names=["input", *given]))
        return
    check(
        Case(
            "F.instance_norm",
            in_torch,
            [x, *given.values()],
            {"eps": 1e-3, **absent, **params},
            names=["input", *given],
        )
    )


def test_instance_norm_with_all_arguments_as_inputs():
    """As the converter leaves it where running statistics are used."""
    x, mean, variance = random(2, 4, 5), random(4), positive(4)

    def in_torch(x, weight, bias, mean, variance, use_input_stats, momentum, eps, cudnn_enabled):
        return F.instance_norm(x, mean, variance, use_input_stats=use_input_stats, eps=eps)

    inputs = [x, None, None, mean, variance, False, 0.1, 1e-3, True]
    check(Case("aten::instance_norm", in_torch, inputs))


def test_instance_norm_of_few_values():
    for shape in [(3, 4), (3, 4, 1), (0, 4, 3), (2, 4, 0), (5,), (2, 3, 4, 5, 6)]:
        check_like_torch(Case("F.instance_norm", F.instance_norm, [random(*shape)]))


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(groups, affine):
    module = trained(nn.GroupNorm(groups, 6, eps=1e-3, affine=affine))
    params = {"num_groups": groups, "num_channels": 6, "eps": 1e-3, "affine": affine}
    for shape in [(2, 6), (1, 6), (2, 6, 1), (3, 6, 5), (2, 6, 3, 4), (0, 6, 2), (2, 6, 0), (1, 6, 2, 3, 2), (6,)]:
        check_like_torch(module_case(module, random(*shape), **params))


def test_group_norm_with_operands():
    x, weight, bias = random(2, 6, 5), random(6), random(6, seed=1)
    params = {"num_groups": 3, "eps": 1e-4}

    def in_torch(x, w=None, b=None):
        return F.group_norm(x, 3, w, b, 1e-4)

    names = ["input", "weight", "bias"]
    check(Case("F.group_norm", in_torch, [x], {**params, "weight": None, "bias": None}, names=names[:1]))
    check(Case("F.group_norm", in_torch, [x, weight], {**params, "bias": None}, names=names[:2]))
    check(Case("F.group_norm", in_torch, [x, weight, bias], params, names=names))
    case = Case("F.group_norm", lambda x, b: in_torch(x, None, b), [x, bias], {**params, "weight": None})
    check(Case(case.type, case.torch, case.inputs, case.params, names=["input", "bias"]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_group_norm_dtypes(dtype):
    for weight_dtype in {dtype, torch.float32 if dtype.itemsize == 2 else dtype}:
        module = trained(nn.GroupNorm(2, 6)).to(weight_dtype)
        check(module_case(module, random(2, 6, 5, dtype=dtype), num_groups=2, num_channels=6, affine=True))


# ------------------------------------------------------------------------------------------- layer and RMS


@pytest.mark.parametrize("size", [(7,), (1,), (3, 7), (2, 3, 7)])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(size, affine):
    module = trained(nn.LayerNorm(size, eps=1e-3, elementwise_affine=affine))
    params = {"normalized_shape": size, "eps": 1e-3, "elementwise_affine": affine}
    for shape in [(2, 3, 7), (7,), (0, 2, 3, 7), (4, 2, 3, 7), (3, 1), (5,), ()]:
        check_like_torch(module_case(module, random(*shape), **params))


def test_layer_norm_without_bias():
    module = trained(nn.LayerNorm(5, bias=False))
    check(module_case(module, random(3, 5), normalized_shape=5, elementwise_affine=True, bias=False))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layer_norm_dtypes(dtype):
    for weight_dtype in {dtype, torch.float32 if dtype.itemsize == 2 else dtype}:
        module = trained(nn.LayerNorm(17)).to(weight_dtype)
        check(module_case(module, random(3, 17, dtype=dtype), normalized_shape=(17,), elementwise_affine=True))


def test_layer_norm_with_operands():
    x, weight, bias = random(2, 6, 5), random(6, 5), random(6, 5, seed=1)
    params = {"normalized_shape": (6, 5), "eps": 1e-4}

    def in_torch(x, w=None, b=None):
        return F.layer_norm(x, (6, 5), w, b, 1e-4)

    names = ["input", "weight", "bias"]
    check(Case("F.layer_norm", in_torch, [x], {**params, "weight": None, "bias": None}, names=names[:1]))
    check(Case("F.layer_norm", in_torch, [x, weight], {**params, "bias": None}, names=names[:2]))
    check(Case("F.layer_norm", in_torch, [x, weight, bias], params, names=names))
    check(Case("F.layer_norm", lambda x: F.layer_norm(x, (0,)), [random(2, 0)], {"normalized_shape": (0,)}))


def test_layer_norm_keeps_small_deviations():
    """The variance is small beside the square of the mean: one pass in float32 would lose it."""
    x = 1000 + random(4, 4096) * 1e-2
    check(Case("nn.LayerNorm", lambda x: F.layer_norm(x.double(), (4096,)).float(), [x], {"normalized_shape": 4096}))
    check(Case("nn.LayerNorm", lambda x: F.layer_norm(x, (3,)), [torch.full((2, 3), 0.1)], {"normalized_shape": 3}))


@pytest.mark.parametrize("eps", [None, 0.01])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
def test_rms_norm(dtype, eps):
    for scale in (1.0, 1e-3):
        x, weight = random(2, 3, 6, 5, dtype=dtype) * scale, random(6, 5, dtype=dtype)
        params = {"normalized_shape": (6, 5), "eps": eps}
        check(
            Case(
                "F.rms_norm", lambda x, w: F.rms_norm(x, (6, 5), w, eps), [x, weight], params, names=["input", "weight"]
            )
        )
        check(Case("F.rms_norm", lambda x: F.rms_norm(x, (6, 5), None, eps), [x], {**params, "weight": None}))
        check(Case("F.rms_norm", lambda x: F.rms_norm(x, (5,), None, eps), [x], {**params, "normalized_shape": (5,)}))


def test_rms_norm_module():
    module = trained(nn.RMSNorm((3, 4)))
    check(module_case(module, random(2, 3, 4), normalized_shape=(3, 4), elementwise_affine=True, eps=None))
    module = nn.RMSNorm(4, eps=0.5, elementwise_affine=False)
    for shape in [(2, 4), (0, 4), (4,), (4, 3), ()]:
        check_like_torch(module_case(module, random(*shape), normalized_shape=4, elementwise_affine=False, eps=0.5))


# ------------------------------------------------------------------------------------------- across channels


def test_local_response_norm_wider_than_the_channels():
    [result] = run(Case("nn.LocalResponseNorm", None, [torch.ones(1, 3, 2)], {"size": 10**12, "beta": 1.0}))
    assert abs(result - 1).max() < 1e-6


@pytest.mark.parametrize("size", range(1, 8))
def test_local_response_norm(size):
    params = {"size": size, "alpha": 0.3, "beta": 0.6, "k": 0.9}
    for shape in [(2, 5, 3), (2, 5, 3, 4), (1, 1, 2, 3, 2), (2, 3, 4, 1, 2, 2), (0, 3, 2), (2, 0, 4), (2, 3)]:
        case = Case("F.local_response_norm", lambda x: F.local_response_norm(x, **params), [random(*shape)], params)
        check_like_torch(case)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_local_response_norm_dtypes(dtype):
    check(Case("nn.LocalResponseNorm", nn.LocalResponseNorm(2), [random(2, 5, 3, dtype=dtype)], {"size": 2}))


# ------------------------------------------------------------------------------------------- values and refusals


NORMS = {
    "F.layer_norm": ({"normalized_shape": (4,)}, lambda x: F.layer_norm(x, (4,))),
    "F.rms_norm": ({"normalized_shape": (4,)}, lambda x: F.rms_norm(x, (4,))),
    "F.group_norm": ({"num_groups": 1}, lambda x: F.group_norm(x, 1)),
    "F.instance_norm": ({}, F.instance_norm),
    "F.batch_norm": ({}, lambda x: F.batch_norm(x, None, None, training=True)),
    "F.local_response_norm": ({"size": 2}, lambda x: F.local_response_norm(x, 2)),
}
ROWS = {
    "nan": [math.nan, 1.0, 2.0, 3.0],
    "inf": [math.inf, 1.0, 2.0, 3.0],
    "large": [1e15, -1e15, 2e15, 0.0],
    "subnormal": [1e-40, -1e-40, 0.0, -0.0],
    "constant": [7.3] * 4,
}


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", NORMS)
def test_special_values(name, row):
    params, in_torch = NORMS[name]
    x = torch.tensor([[ROWS[row], [1.0, 2.0, 3.0, 5.0]]])
    check(Case(name, in_torch, [x], params, tolerance=1e-5))
    check(Case(name, in_torch, [x.double()], params, tolerance=1e-12))


@pytest.mark.parametrize("name", NORMS)
def test_other_dtypes_are_refused(name):
    params, _ = NORMS[name]
    for dtype in NOT_FLOATS:
        if name == "F.rms_norm" and dtype.is_complex:
            continue
        with pytest.raises(DTypeError):
            run(Case(name, None, [random(1, 2, 4, dtype=dtype)], params))


X = random(2, 4, 3)
REFUSED = [
    ("nn.BatchNorm1d", [X], {"num_features": 5}, {}, ShapeError, "num_features=5"),
    ("nn.BatchNorm1d", [random(4)], {}, {}, ShapeError, "2 or 3 dimensions"),
    ("nn.BatchNorm2d", [X], {}, {}, ShapeError, "4 dimensions"),
    ("nn.BatchNorm1d", [X], {"affine": True}, {}, ModelFileError, "missing"),
    ("nn.BatchNorm1d", [X], {"affine": True}, {"weight": random(3), "bias": random(4)}, ShapeError, "weight"),
    ("nn.BatchNorm1d", [X], {"eps": -1.0}, {}, InputError, "eps"),
    ("nn.BatchNorm1d", [X], {}, {"running_mean": random(4)}, InputError, "both or neither"),
    ("nn.BatchNorm1d", [X], {}, {"weight": random(4, dtype=torch.float64)}, DTypeError, "f32"),
    ("nn.BatchNorm1d", [X], {"epsilon": 1.0}, {}, ModelFileError, "did you mean 'eps'"),
    ("F.batch_norm", [random(1, 4, 1)], {}, {}, ShapeError, "more than one value"),
    ("F.batch_norm", [random(4)], {}, {}, ShapeError, "2 dimensions"),
    ("nn.InstanceNorm2d", [random(4, 3)], {}, {}, ShapeError, "3 or 4 dimensions"),
    ("nn.InstanceNorm1d", [X], {"num_features": 3}, {"weight": random(4)}, ShapeError, "num_features=3"),
    ("nn.GroupNorm", [X], {"num_groups": 3}, {}, ShapeError, "num_groups=3"),
    ("nn.GroupNorm", [X], {"num_groups": 0}, {}, InputError, "num_groups=0"),
    ("nn.GroupNorm", [X], {"num_groups": 2, "num_channels": 6}, {}, ShapeError, "num_channels=6"),
    ("nn.GroupNorm", [X], {}, {}, ModelFileError, "num_groups"),
    ("nn.LayerNorm", [X], {"normalized_shape": (4,)}, {}, ShapeError, "normalized_shape"),
    ("nn.LayerNorm", [X], {"normalized_shape": ()}, {}, ShapeError, "at least one"),
    ("nn.LayerNorm", [X], {"normalized_shape": (3,)}, {"weight": random(4)}, ShapeError, "weight"),
    ("nn.RMSNorm", [X], {"normalized_shape": (3,)}, {"weight": random(4)}, ShapeError, "weight"),
    ("nn.RMSNorm", [X], {"normalized_shape": (3,)}, {"bias": random(3)}, ModelFileError, "bias"),
    ("nn.LocalResponseNorm", [random(2, 3)], {"size": 2}, {}, ShapeError, "3 dimensions"),
    ("nn.LocalResponseNorm", [X], {"size": 0}, {}, InputError, "size=0"),
]


@pytest.mark.parametrize(("type", "inputs", "params", "weights", "error", "words"), REFUSED)
def test_refused(type, inputs, params, weights, error, words):
    with pytest.raises(error, match=words):
        run(Case(type, None, inputs, params, weights))


def test_half_weights_beside_float32():
    module = trained(nn.LayerNorm(6)).half()
    weights = weights_of(module)
    case = Case(
        "nn.LayerNorm",
        lambda x: F.layer_norm(x, (6,), module.weight.float(), module.bias.float()),
        [random(2, 6)],
        {"normalized_shape": 6},
        weights,
    )
    check(case)
