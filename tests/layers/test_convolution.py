"""Convolutions against PyTorch, and against numbers worked out by hand."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kuiperinfer.errors import DTypeError, KuiperError, ModelFileError, ResourceLimitError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

FUNCTIONS = {n: getattr(F, f"conv{n}d") for n in (1, 2, 3)}
TRANSPOSED = {n: getattr(F, f"conv_transpose{n}d") for n in (1, 2, 3)}
# Sums of products grow with the number of terms, and so does the rounding error.
TOLERANCE = 1e-5


def whole(*shape, seed=0):
    """Small whole numbers as float32: sums of their products are exact, so that results have to be equal."""
    return random(*shape, seed=seed).round()


def functional(x, weight, bias=None, **params):
    n = x.ndim - 2 if x.ndim == weight.ndim else x.ndim - 1
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return Case(f"F.conv{n}d", lambda *a: FUNCTIONS[n](*a, **params), inputs, params, tolerance=TOLERANCE)


def transposed(x, weight, bias=None, **params):
    n = weight.ndim - 2
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return Case(f"F.conv_transpose{n}d", lambda *a: TRANSPOSED[n](*a, **params), inputs, params, tolerance=TOLERANCE)


def module_case(module, x):
    n = type(module).__name__
    params = {
        name: getattr(module, name)
        for name in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")
    }
    params |= {"bias": module.bias is not None}
    params |= {"output_padding": module.output_padding} if "Transpose" in n else {"padding_mode": module.padding_mode}
    weights = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    return Case(f"nn.{n}", module, [x], params, weights, tolerance=TOLERANCE)


# ------------------------------------------------------------------------------------------- known numbers


def test_grouped_kernels_on_counting_channels():
    channel = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    x = np.stack([channel, channel])[None]
    kernel = np.array([[1, 2, 3], [3, 2, 1], [1, 2, 3]], np.float32)
    (grouped,) = run(Case("F.conv2d", None, [x, np.stack([kernel, kernel])[:, None]], {"groups": 2}))
    assert grouped.tolist() == [[[[110, 128], [182, 200]]] * 2]
    stacked = np.broadcast_to(kernel, (2, 2, 3, 3))
    (whole_depth,) = run(Case("F.conv2d", None, [x, stacked], {"groups": 1}))
    assert whole_depth.tolist() == [[[[220, 256], [364, 400]]] * 2]


def test_transposed_kernel_laid_over_a_unit_matrix():
    x = np.eye(2, dtype=np.float32)[None, None]
    kernel = np.array([[1, 2], [3, 4]], np.float32)[None, None]
    (laid,) = run(Case("F.conv_transpose2d", None, [x, kernel], {"dilation": (2, 2)}))
    assert laid[0, 0].tolist() == [[1, 0, 2, 0], [0, 1, 0, 2], [3, 0, 4, 0], [0, 3, 0, 4]]


@pytest.mark.parametrize(
    ("size", "params", "expected"),
    [
        ((13, 31), {"kernel": (3, 5), "stride": 4, "padding": 7, "output_padding": 3}, (40, 114)),
        ((13, 13), {"kernel": (3, 3), "stride": 4, "padding": 7, "output_padding": 3}, (40, 40)),
        ((5, 7), {"kernel": (3, 3), "stride": 5, "padding": 1, "output_padding": 4, "dilation": 5}, (33, 43)),
        ((2, 3), {"kernel": (3, 3), "stride": 2, "padding": 3, "output_padding": 11, "dilation": 13}, (34, 36)),
        ((1, 1), {"kernel": (1, 1), "stride": 5, "padding": 2, "output_padding": 4}, (1, 1)),
    ],
)
def test_size_of_a_transposed_convolution(size, params, expected):
    kernel = params.pop("kernel")
    params = {name: (value,) * 2 for name, value in params.items()}
    case = transposed(whole(2, 3, *size), whole(3, 2, *kernel), whole(2), **params)
    check(case)
    assert run(case)[0].shape[2:] == expected


# ------------------------------------------------------------------------------------------- grids


@pytest.mark.parametrize("kernel", [(3, 3), (1, 1), (3, 5), (5, 5), (13, 13)], ids=str)
@pytest.mark.parametrize("stride", [(1, 1), (1, 3), (2, 2), (5, 5), (7, 7), (19, 19)], ids=str)
def test_kernels_and_strides(kernel, stride):
    check(functional(random(2, 3, 31, 28), random(4, 3, *kernel), random(4), stride=stride))


@pytest.mark.parametrize("dilation", [1, 3, 5])
def test_dilation(dilation):
    check(functional(random(1, 2, 36, 36), random(3, 2, 7, 7), dilation=dilation))
    check(functional(random(1, 2, 25, 25), random(3, 2, 3, 3), stride=2, padding=1, dilation=dilation))


@pytest.mark.parametrize(
    ("channels", "filters", "groups"), [(8, 12, 4), (9, 27, 9), (18, 9, 9), (6, 6, 6), (6, 18, 6), (4, 2, 2), (5, 7, 1)]
)
def test_groups(channels, filters, groups):
    for stride, dilation in ((1, 1), (2, 2), (1, 3)):
        weight = random(filters, channels // groups, 3, 3)
        params = {"groups": groups, "stride": stride, "dilation": dilation, "padding": 1}
        check(functional(random(2, channels, 9, 11), weight, random(filters), **params))
        weight = random(channels, filters // groups, 3, 3)
        check(transposed(random(2, channels, 5, 4), weight, random(filters), **params))


@pytest.mark.parametrize("channels", [1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33])
@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 17])
def test_sizes_around_vector_widths(channels, size):
    check(functional(random(1, channels, size, size), random(channels, channels, 3, 3), random(channels), padding=1))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning")
@pytest.mark.parametrize("padding", [(1, 2), (2, 0), "same", "valid"], ids=str)
def test_padding_modes(mode, padding):
    for kernel, dilation in (((3, 3), 1), ((2, 4), 1), ((4, 2), (1, 2))):
        module = nn.Conv2d(2, 3, kernel, padding=padding, padding_mode=mode, dilation=dilation)
        for x in (random(2, 2, 7, 9), random(2, 7, 9)):
            check(module_case(module, x))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    ("kernel", "padding", "written"),
    [
        ((4,), "same", ()),
        ((3, 2), "same", (0, 1, 1, 1)),
        ((2, 3), "same", (1, 1, 0, 1)),
        ((3, 3, 3), (1, 2, 0), (0, 0, 2, 2, 1, 1)),
        ((4, 2, 4), "same", (1, 2, 0, 1, 1, 2)),
    ],
)
def test_paddings_as_the_converter_writes_them(kernel, padding, written, mode):
    n = len(kernel)
    module = getattr(nn, f"Conv{n}d")(2, 3, kernel, padding=padding, padding_mode=mode)
    case = module_case(module, random(1, 2, *(7, 8, 9)[:n]))
    case.params["padding"] = written
    check(case)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_modules(ndim, bias):
    kernel, stride, padding, dilation = ((2, 3, 4), (2, 1, 3), (1, 2, 0), (1, 2, 1))
    sizes = tuple(values[:ndim] for values in (kernel, stride, padding, dilation))
    for shape in ((2, 4, 9, 8, 7), (1, 4, 7, 9, 8), (0, 4, 7, 7, 7)):
        for x in (random(*shape[: ndim + 2]), random(*shape[1 : ndim + 2])):
            check(module_case(getattr(nn, f"Conv{ndim}d")(4, 6, *sizes, groups=2, bias=bias), x))
            module = getattr(nn, f"ConvTranspose{ndim}d")(
                4,
                6,
                sizes[0],
                sizes[1],
                sizes[2],
                output_padding=(0, 1, 2)[:ndim],
                groups=2,
                bias=bias,
                dilation=sizes[3],
            )
            check(module_case(module, x))


def test_output_size_of_a_transposed_module():
    module = nn.ConvTranspose2d(2, 3, 3, stride=3, padding=1)
    case = module_case(module, random(1, 2, 4, 4))
    wanted = Case(
        case.type,
        module,
        [*case.inputs, [12, 11]],
        case.params,
        case.weights,
        [None, "output_size"],
    )
    check(wanted)
    for size in ([13, 11], [9, 11], [12]):
        with pytest.raises(ShapeError, match="output_padding"):
            run(Case(case.type, None, [*case.inputs, size], case.params, case.weights, [None, "output_size"]))


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.complex64, torch.complex128],
    ids=str,
)
def test_dtypes(dtype):
    for groups in (1, 2, 4):
        x, weight = random(2, 4, 6, 5, dtype=dtype), random(8, 4 // groups, 3, 3, dtype=dtype)
        check(functional(x, weight, random(8, dtype=dtype), groups=groups, padding=1))
        check(transposed(x, random(4, 2, 3, 3, dtype=dtype), random(2 * groups, dtype=dtype), groups=groups, stride=2))


def test_small_integers_wrap_around():
    x, weight = random(1, 3, 6, 6, dtype=torch.int8, high=100), random(2, 3, 3, 3, dtype=torch.int8, high=100)
    check(functional(x, weight))


def test_weights_in_half_precision_calculate_in_single():
    x, weight, bias = random(1, 3, 5, 5), random(2, 3, 3, 3, dtype=torch.float16), random(2, dtype=torch.float16)
    case = Case(
        "nn.Conv2d", lambda x: F.conv2d(x, weight.float(), bias.float()), [x], {}, {"weight": weight, "bias": bias}
    )
    check(case)


def test_not_finite_numbers():
    x = random(1, 2, 6, 6)
    x[0, 0, 2, 3], x[0, 1, 4, 4] = float("nan"), float("inf")
    weight = random(3, 2, 3, 3).abs() + 0.1
    check(functional(x, weight, padding=1))


def test_strided_inputs():
    base = random(3, 8, 9, 2).numpy()
    for x in (
        base.transpose(3, 0, 2, 1),
        base[:, ::-1, ::2].transpose(0, 3, 1, 2),
        np.broadcast_to(base[:1, :1], base.shape),
    ):
        weight = np.asfortranarray(random(4, x.shape[1], 2, 2).numpy())
        check(functional(x, weight))


SIZES = st.integers(1, 9)


@st.composite
def random_cases(draw):
    """Any parameters, valid or not, and whole numbers, whose sums are exact."""
    ndim = draw(st.integers(1, 3))
    is_transposed = draw(st.booleans())

    def numbers(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(ndim))

    groups, in_group, out_group = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    params = {"stride": numbers(1, 3), "dilation": numbers(1, 3), "padding": numbers(0, 3), "groups": groups}
    batch = draw(st.sampled_from([(), (1,), (2,)]))
    x = whole(*batch, in_group * groups + draw(st.sampled_from([0] * 9 + [1])), *(draw(SIZES) for _ in range(ndim)))
    bias = whole(out_group * groups) if draw(st.booleans()) else None
    if is_transposed:
        params["output_padding"] = numbers(0, 2)
        return transposed(x, whole(in_group * groups, out_group, *numbers(1, 4)), bias, **params)
    if draw(st.integers(0, 4)) == 0:
        params["padding"] = draw(st.sampled_from(["same", "valid"]))
    return functional(x, whole(out_group * groups, in_group, *numbers(1, 4)), bias, **params)


@given(random_cases())
def test_random_parameters(case):
    if "transpose" in case.type:
        size = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1 + o
            for n, s, p, d, k, o in zip(
                case.inputs[0].shape[2 - case.inputs[1].ndim :],
                *(case.params[name] for name in ("stride", "padding", "dilation")),
                case.inputs[1].shape[2:],
                case.params["output_padding"],
                strict=True,
            )
        ]
        if 0 in size:  # which of PyTorch's implementations is chosen decides whether an empty image is an error
            return
    check_like_torch(case)


# ------------------------------------------------------------------------------------------- refusals

GOOD = {"input": (1, 4, 8, 8), "weight": (6, 2, 3, 3), "bias": (6,)}


@pytest.mark.parametrize(
    ("params", "shapes", "message"),
    [
        ({"groups": 0}, {}, "groups"),
        ({"groups": -2}, {}, "groups"),
        ({"groups": 4}, {}, "groups"),
        ({"groups": 1}, {}, "channels"),
        ({"stride": (0, 1)}, {}, "stride"),
        ({"stride": (1, 1, 1)}, {}, "stride"),
        ({"dilation": 0}, {}, "dilation"),
        ({"padding": (-1, 0)}, {}, "padding"),
        ({"padding": (1, 1, 1)}, {}, "expected 1, 2 or 4 numbers"),
        ({"padding": "sane"}, {}, "did you mean 'same'"),
        ({"padding": "same", "stride": 2}, {}, "stride of 1"),
        ({"dilation": 4}, {}, "kernel of 3"),
        ({}, {"input": (1, 4, 2, 8)}, "kernel of 3"),
        ({}, {"input": (1, 4, 0, 8)}, "only the batch"),
        ({}, {"input": (4, 8)}, "expected 3 or 4 dimensions"),
        ({}, {"input": (1, 1, 4, 8, 8)}, "expected 3 or 4 dimensions"),
        ({}, {"weight": (6, 2, 3)}, "weight"),
        ({}, {"weight": (6, 0, 3, 3)}, "only the batch"),
        ({}, {"bias": (1,)}, "bias"),
        ({}, {"bias": (6, 1)}, "bias"),
    ],
)
def test_refusals(params, shapes, message):
    arrays = [random(*(GOOD | shapes)[name]) for name in GOOD]
    with pytest.raises(ShapeError, match=message):
        run(Case("F.conv2d", None, arrays, {"groups": 2} | params))


def test_paddings_beyond_all_memory():
    x, weight = random(1, 1, 10, 10), random(1, 1, 2, 2)
    for name in ("F.conv2d", "F.conv_transpose2d"):
        with pytest.raises(ResourceLimitError, match="max_memory"):
            run(Case(name, None, [x, weight], {"dilation": (2**30,) * 2, "padding": (2**29,) * 2}))


def test_refused_parameters_of_modules():
    x, weights = random(1, 4, 8, 8), {"weight": random(6, 4, 3, 3)}
    for params, message in (
        ({"in_channels": 3}, "in_channels"),
        ({"out_channels": 5}, "out_channels"),
        ({"kernel_size": (3, 2)}, "kernel_size"),
        ({"padding_mode": "reflekt"}, "did you mean 'reflect'"),
        ({"padding_mode": "reflect", "padding": 8}, "mode 'reflect'"),
    ):
        with pytest.raises(ShapeError, match=message):
            run(Case("nn.Conv2d", None, [x], params, weights))
    for params in ({"bias": True}, {"stride": (1.5, 1)}, {"transposed": False}):
        with pytest.raises(ModelFileError):
            run(Case("nn.Conv2d", None, [x], params, weights))
    with pytest.raises(ModelFileError, match="'weight' is missing"):
        run(Case("nn.Conv2d", None, [x]))
    with pytest.raises(ShapeError, match="only 'zeros'"):
        run(Case("nn.ConvTranspose2d", None, [x], {"padding_mode": "reflect"}, {"weight": random(4, 6, 3, 3)}))


@pytest.mark.parametrize(
    "dtypes", [("int64", "float32"), ("bool", "bool"), ("complex64", "float32"), ("int32", "int64")]
)
def test_refused_dtypes(dtypes):
    x, weight = (random(1, 2, 4, 4, dtype=getattr(torch, dtype)) for dtype in dtypes)
    with pytest.raises(DTypeError):
        run(functional(x, weight[:1]))


@pytest.mark.parametrize("operand", [[1, 2], None, "word"], ids=str)
def test_something_else_than_a_tensor(operand):
    with pytest.raises(KuiperError, match="input"):
        run(Case("F.conv2d", None, [operand, random(1, 1, 1, 1)]))


def test_left_over_forms():
    x, weight, bias = random(1, 4, 7, 6), random(6, 2, 3, 3), random(6)
    check(Case("aten::conv2d", F.conv2d, [x, weight, bias, [1, 2], [1, 0], [2, 1], 2], tolerance=TOLERANCE))
    check(Case("aten::conv2d", F.conv2d, [x, weight, None, [1, 1], "same", [1, 1], 2], tolerance=TOLERANCE))
    arguments = [x, random(4, 3, 3, 3), bias, [2, 1], [1, 0], [1, 0], 2, [1, 1]]
    check(Case("aten::conv_transpose2d", F.conv_transpose2d, arguments, tolerance=TOLERANCE))
