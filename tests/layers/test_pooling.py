"""Pooling over fixed windows, and back again, against PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer.errors import DTypeError, InputError, ModelFileError, ResourceLimitError, ShapeError
from tests.layers.harness import Case, check, check_like_torch, random, run

INF, NAN = float("inf"), float("nan")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def pool(kind, x, *, module=False, ndim=None, **params):
    """A case of max, avg or lp pooling; the number of dimensions follows from the kernel."""
    n = ndim or len(params["kernel_size"])
    function = getattr(F, f"{kind}_pool{n}d")
    name = {"max": "Max", "avg": "Avg", "lp": "LP"}[kind]
    outputs = 2 if params.get("return_indices") else 1
    kwargs = dict(params)
    if n == 1 and kind == "lp":
        kwargs["kernel_size"] = kwargs["kernel_size"][0]
    type_name = f"nn.{name}Pool{n}d" if module else f"F.{kind}_pool{n}d"
    return Case(type_name, lambda x: function(x, **kwargs), [x], params, outputs=outputs)


def with_odd_numbers(x):
    """Some NaN and infinities in a tensor."""
    flat = x.flatten()
    for place, value in enumerate((NAN, INF, -INF, NAN, -INF, -INF)):
        flat[(place * 13 + 5) % len(flat)] = value
    return x


# ------------------------------------------------------------------------------------------- known numbers


def test_largest_of_four():
    x = np.array([[1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6], [4, 5, 6, 7]], np.float32)[None, None]
    (y,) = run(pool("max", x, kernel_size=(2, 2), stride=(2, 2)))
    assert y.tolist() == [[[[3, 5], [5, 7]]]]


def test_padding_is_never_the_largest():
    x = np.full((1, 1, 3, 3), -7, np.float32)
    (y,) = run(pool("max", x, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)))
    assert (y == -7).all()
    (y,) = run(pool("max", np.full((1, 1, 2, 2), -7, np.int64), kernel_size=(2, 2), padding=(1, 1)))
    assert (y == -7).all()


# ------------------------------------------------------------------------------------------- grids


@pytest.mark.parametrize("kernel", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2, 3, 5, 7, None])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_kernels_and_strides(kind, kernel, stride):
    for padding in (0, 1, kernel // 2):
        for ceil_mode in (False, True):
            params = {"padding": (padding,) * 2, "ceil_mode": ceil_mode}
            params["stride"] = None if stride is None else (stride,) * 2
            check(pool(kind, random(2, 3, 16, 19), kernel_size=(kernel, kernel), **params))


@pytest.mark.parametrize("kind", ["max", "avg", "lp"])
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("module", [False, True])
def test_dimensions(kind, ndim, module):
    further = {"norm_type": 2.0} if kind == "lp" else {"padding": (1, 0, 1)[:ndim]}
    for shape in ((2, 3, 9, 8, 7), (3, 9, 8, 7), (0, 3, 9, 8, 7), (1, 1, 4, 4, 4)):
        x = random(*shape[: len(shape) - 3 + ndim])
        for ceil_mode in (False, True):
            params = {"kernel_size": (3, 2, 4)[:ndim], "stride": (2, 3, 1)[:ndim], "ceil_mode": ceil_mode, **further}
            check(pool(kind, x, module=module, **params))


def test_one_more_window_only_if_it_starts_inside():
    for size in range(1, 12):
        for kernel, stride, padding in ((2, 3, 1), (3, 2, 0), (3, 2, 1), (2, 2, 1), (1, 4, 0), (5, 3, 2)):
            for kind in ("max", "avg"):
                params = {"kernel_size": (kernel,), "stride": (stride,), "padding": (padding,), "ceil_mode": True}
                check_like_torch(pool(kind, random(1, 2, size), **params))


@pytest.mark.parametrize("divisor", [None, 1, 18, -2, 0])
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_divisors(divisor, count_include_pad):
    for ceil_mode in (False, True):
        params = {"count_include_pad": count_include_pad, "divisor_override": divisor, "ceil_mode": ceil_mode}
        check_like_torch(pool("avg", random(2, 3, 8, 9), kernel_size=(5, 4), stride=(2, 3), padding=(2, 1), **params))
        check_like_torch(pool("avg", random(3, 8, 9, 7), kernel_size=(5, 4, 3), padding=(2, 2, 0), **params))


@pytest.mark.parametrize("norm_type", [1, 2, 2.0, 1.2, 0.5, 0.1, 3, -1, INF, -INF, 0], ids=str)
def test_norms(norm_type):
    for x in (random(2, 3, 9, low=0.1), random(2, 3, 9)):
        case = pool("lp", x, kernel_size=(3,), stride=(2,), norm_type=norm_type)
        case.torch = lambda x: F.lp_pool1d(x, float(norm_type), 3, 2)
        case.tolerance = 1e-5
        if norm_type == 0:
            with pytest.raises(ShapeError, match="norm_type"):
                run(case)
        else:
            check(case)
    if norm_type != 0:
        case = pool("lp", random(2, 3, 9, 8, low=0.1), kernel_size=(3, 2), norm_type=norm_type, ceil_mode=True)
        case.tolerance = 1e-5
        check(case)


@pytest.mark.parametrize(
    "dtype", [*FLOATS, torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64], ids=str
)
def test_dtypes(dtype):
    x = random(2, 3, 6, 7, dtype=dtype)
    check_like_torch(pool("max", x, kernel_size=(3, 2)))
    check_like_torch(pool("avg", x, kernel_size=(3, 2)))
    check_like_torch(pool("avg", x, kernel_size=(3, 2), divisor_override=-4))
    for norm_type in (1, 2.0):
        check_like_torch(pool("lp", x.abs() if dtype is not torch.bool else x, kernel_size=(3, 2), norm_type=norm_type))


# ------------------------------------------------------------------------------------------- indices and odd numbers


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64], ids=str)
def test_indices(ndim, dtype):
    for shape in ((2, 3, 7, 8, 9), (3, 7, 8, 9), (0, 2, 7, 7, 7)):
        x = random(*shape[: len(shape) - 3 + ndim], dtype=dtype).round()  # rounded, so that there are ties
        for dilation in (1, 2):
            for ceil_mode in (False, True):
                params = {"kernel_size": (2, 3, 2)[:ndim], "stride": (2, 1, 3)[:ndim], "padding": (1,) * ndim}
                params |= {"dilation": (dilation,) * ndim, "ceil_mode": ceil_mode, "return_indices": True}
                check(pool("max", x, **params))


@pytest.mark.parametrize("return_indices", [False, True])
def test_nan_and_infinities(return_indices):
    for ndim in (1, 2, 3):
        x = (
            with_odd_numbers(random(2, 2, 6, 7, 5))[..., 0]
            if ndim == 2
            else with_odd_numbers(random(2, 2, *(7, 6, 5)[:ndim]))
        )
        check(pool("max", x, kernel_size=(3,) * ndim, stride=(1,) * ndim, return_indices=return_indices))
        check(
            pool(
                "max",
                torch.full_like(x, -INF),
                kernel_size=(2,) * ndim,
                padding=(1,) * ndim,
                return_indices=return_indices,
            )
        )
    check(pool("avg", with_odd_numbers(random(2, 2, 6, 7)), kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)))


def test_values_and_indices_as_one_list():
    params = {"kernel_size": (2, 2), "return_indices": True}
    case = Case("F.max_pool2d", lambda x: list(F.max_pool2d(x, **params)), [random(1, 2, 4, 4)], params)
    check(case)


def test_kernel_and_stride_as_operands():
    x = random(2, 3, 5, 7)
    for kind in ("max", "avg"):
        function = getattr(F, f"{kind}_pool2d")
        check(Case(f"F.{kind}_pool2d", function, [x, [5, 7]], names=["input", "kernel_size"]))
        check(Case(f"F.{kind}_pool2d", function, [x, [2, 3], [1, 2]], names=["input", "kernel_size", "stride"]))
        sizes = [np.asarray(5), np.asarray(7)]  # as they come out of the graph
        (y,) = run(Case(f"F.{kind}_pool2d", None, [x, sizes], names=["input", "kernel_size"]))
        assert y.shape == (2, 3, 1, 1)


# ------------------------------------------------------------------------------------------- any parameters


@st.composite
def random_cases(draw):
    ndim = draw(st.integers(1, 3))

    def numbers(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(ndim))

    kind = draw(st.sampled_from(["max", "avg"]))
    params = {"kernel_size": numbers(1, 5), "stride": draw(st.sampled_from([None, numbers(1, 3)]))}
    params |= {"padding": numbers(0, 2), "ceil_mode": draw(st.booleans())}
    if kind == "max":
        params |= {"dilation": numbers(1, 2), "return_indices": draw(st.booleans())}
    else:
        params["count_include_pad"] = draw(st.booleans())
    batch = draw(st.sampled_from([(), (1,), (2,)]))
    sizes = numbers(2, 9)  # not smaller than the dilation, which would step over the whole input
    return pool(kind, random(*batch, draw(st.integers(1, 3)), *sizes).round(), **params)


@given(random_cases())
def test_random_parameters(case):
    check_like_torch(case)


# ------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernel_size": (0, 2)}, "kernel_size"),
        ({"kernel_size": (2, 2, 2)}, "kernel_size"),
        ({"kernel_size": (9, 2)}, "kernel of 9"),
        ({"stride": (0, 1)}, "stride"),
        ({"padding": (-1, 0)}, "padding"),
        ({"padding": (2, 0)}, "half of the kernel"),
        ({"dilation": (0, 1)}, "dilation"),
        ({"dilation": (8, 1)}, "dilation 8"),
    ],
)
def test_refused_parameters(params, message):
    with pytest.raises(ShapeError, match=message):
        run(Case("nn.MaxPool2d", None, [random(1, 2, 6, 6)], {"kernel_size": (2, 2)} | params))


@pytest.mark.parametrize("shape", [(6,), (6, 6), (1, 1, 2, 6, 6), (2, 0, 6, 6), (2, 2, 0, 6)], ids=str)
def test_refused_shapes(shape):
    for kind in ("max", "avg"):
        check_like_torch(pool(kind, random(*shape), kernel_size=(2, 2)))


def test_windows_that_step_over_the_input():
    check(pool("max", random(1, 2, 2, 4), kernel_size=(2, 2), padding=(1, 0), dilation=(3, 1)))


def test_kernels_far_larger_than_the_input():
    for kind in ("max", "avg"):
        check(pool(kind, random(1, 2, 10), kernel_size=(2_000_000,), padding=(1_000_000,)))
        check(pool(kind, random(1, 2, 5, 4), kernel_size=(30, 41), stride=(1, 2), padding=(15, 20)))
    for params in (
        {"kernel_size": (2**31 - 1,) * 2, "padding": (2**30 - 1,) * 2},
        {"kernel_size": (2, 2), "dilation": (2**40,)},
    ):
        with pytest.raises((ResourceLimitError, ShapeError)):
            run(Case("F.max_pool2d", None, [random(1, 1, 10, 10)], params))


def test_refusals():
    with pytest.raises(ModelFileError, match="divisor_override"):
        run(Case("nn.AvgPool2d", None, [random(1, 1, 4, 4)], {"kernel_size": (2, 2), "divisor_override": 1.5}))
    with pytest.raises(ShapeError, match="kernel_size: neither"):
        run(Case("F.max_pool2d", None, [random(1, 1, 4, 4)]))
    with pytest.raises(DTypeError, match="norm_type is 2"):
        run(pool("lp", random(1, 1, 4, 4, dtype=torch.int32), kernel_size=(2, 2), norm_type=2))
    with pytest.raises(ShapeError, match="gives 1 outputs"):
        run(Case("nn.MaxPool2d", None, [random(1, 1, 4, 4)], {"kernel_size": (2, 2)}, outputs=2))


# ------------------------------------------------------------------------------------------- unpooling


def unpool(x, indices, **params):
    n = len(params["kernel_size"])
    function = getattr(F, f"max_unpool{n}d")
    return Case(f"nn.MaxUnpool{n}d", lambda x, i: function(x, i, **params), [x, indices], params)


@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unpooling(ndim, dtype):
    sizes = {"kernel_size": (2, 3, 2)[:ndim], "stride": (2, 3, 2)[:ndim]}
    for batch in ((2, 3), (3,), (0, 3)):
        x = random(*batch, *(6, 9, 4)[:ndim], dtype=dtype)
        pooled, indices = getattr(F, f"max_pool{ndim}d")(x, **sizes, return_indices=True)
        check(unpool(pooled, indices, **sizes))
        check(unpool(pooled, indices, kernel_size=sizes["kernel_size"], padding=(0,) * ndim))
        for more in (0, 1, 2, -1):
            size = tuple(dim + more for dim in (6, 9, 4)[:ndim])
            if more >= 0 or not indices.numel():
                check_like_torch(unpool(pooled, indices, **sizes, output_size=size))
                check_like_torch(unpool(pooled, indices, **sizes, output_size=(1, 1, *size)))


def test_unpooling_to_the_size_of_an_operand():
    pooled, indices = F.max_pool1d(random(1, 2, 7), 2, return_indices=True)
    case = Case("nn.MaxUnpool1d", lambda x, i, size: F.max_unpool1d(x, i, 2, output_size=size), [pooled, indices, [7]])
    case.params, case.names = {"kernel_size": (2,)}, [None, None, "output_size"]
    check(case)


@pytest.mark.parametrize("index", [-1, 16, 2**40])
def test_unpooling_refuses_positions_outside(index):
    indices = torch.tensor([[[[0, 3], [5, index]]]])
    with pytest.raises(InputError, match=f"indices: {index} is out of range"):
        run(unpool(random(1, 1, 2, 2), indices, kernel_size=(2, 2)))


def test_unpooling_refuses_other_shapes_and_dtypes():
    x, indices = random(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, dtype=torch.int64)
    for arrays in ([x, indices[0]], [x[0, 0], indices[0, 0]], [x[:, :0], indices[:, :0]]):
        with pytest.raises(ShapeError):
            run(unpool(*arrays, kernel_size=(2, 2)))
    for arrays in ([x, indices.int()], [indices, indices]):
        with pytest.raises(DTypeError):
            run(unpool(*arrays, kernel_size=(2, 2)))
    with pytest.raises(ShapeError, match="stride"):
        run(unpool(x, indices, kernel_size=(2, 2), stride=(0, 1)))


# ------------------------------------------------------------------------------------------- what the converter leaves


def test_left_over_forms():
    x = random(2, 3, 6, 8)
    check(Case("aten::avg_pool2d", F.avg_pool2d, [x, [6, 8], None, [0, 0], False, True, None]))
    check(Case("aten::avg_pool2d", F.avg_pool2d, [x, [3, 2], [1, 2], [1, 0], True, False, 5]))
    check(Case("aten::avg_pool1d", F.avg_pool1d, [x[0], [3], [2], [1], True, False]))
    check(Case("aten::max_pool2d", F.max_pool2d, [x, [3, 2], [], [1, 0], [1, 2], True]))
    both = Case("aten::max_pool2d_with_indices", torch.ops.aten.max_pool2d_with_indices, [x, [2, 2], [2, 1]])
    both.inputs, both.outputs = [*both.inputs, [0, 0], [1, 1], False], 2
    check(both)


def test_left_over_unpooling():
    pooled, indices = F.max_pool2d(random(1, 2, 6, 9), 2, return_indices=True)
    check(Case("aten::max_unpool2d", torch.ops.aten.max_unpool2d, [pooled, indices, [6, 9]]))
    pooled, indices = F.max_pool3d(random(1, 2, 4, 6, 9), 2, return_indices=True)
    sizes = [[4, 6, 9], [2, 2, 2], [0, 0, 0]]
    check(Case("aten::max_unpool3d", torch.ops.aten.max_unpool3d, [pooled, indices, *sizes]))
    with pytest.raises(ShapeError, match="either output_size or kernel_size"):
        run(Case("nn.MaxUnpool3d", None, [pooled, indices]))
