"""The vocabulary of the course, and the numbers of its tests and homework.

Where the originals deviate from PyTorch, the value is PyTorch's, and a comment says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from kuiperinfer import Tensor
from kuiperinfer import tensor as kt
from kuiperinfer.errors import InputError, ShapeError
from kuiperinfer.tensor import course


def numbered(*shape: int, start: int = 0) -> Tensor:
    count = int(np.prod(shape))
    return kt.arange(start, start + count, dtype="f32").reshape(shape)


# ------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("sizes", "raw", "shapes"),
    [
        ((3,), [3], [1, 1, 3]),
        # Upstream makes [3] of it; PyTorch and the course keep the row.
        ((1, 3), [1, 3], [1, 1, 3]),
        ((2, 3), [2, 3], [1, 2, 3]),
        ((1, 1, 3), [3], [1, 1, 3]),
        ((1, 2, 3), [2, 3], [1, 2, 3]),
        ((2, 1, 3), [2, 1, 3], [2, 1, 3]),
    ],
)
def test_shapes_of_new_tensors(sizes: tuple[int, ...], raw: list[int], shapes: list[int]) -> None:
    for x in (course.tensor_create(*sizes), course.tensor_create(list(sizes))):
        assert x.raw_shapes() == raw and x.shapes() == shapes
        assert (x.channels(), x.rows(), x.cols()) == tuple(shapes)
        assert x.plane_size() == shapes[1] * shapes[2] and x.numel() == int(np.prod(shapes))
        assert not x.empty()


def test_shapes_stay_as_they_were_given() -> None:
    assert kt.zeros(1, 1, 3).raw_shapes() == [1, 1, 3]
    assert kt.zeros(3).reshape(1, 1, 3).raw_shapes() == [1, 1, 3]
    assert kt.zeros(0, 3).empty()
    with pytest.raises(ShapeError, match="at most 3 dimensions, found shape"):
        kt.zeros(1, 2, 3, 4).rows()
    for sizes in ((), (1, 2, 3, 4)):
        with pytest.raises(ShapeError, match="expected 1 to 3 dimensions"):
            course.tensor_create(sizes)


def test_elements_by_channel_row_and_column() -> None:
    x = numbered(2, 3, 4)
    assert x.at(1, 2, 3) == 23 and numbered(3, 4).at(0, 2, 1) == 9 and numbered(4).at(0, 0, 3) == 3
    with pytest.raises(InputError, match="index 2 is out of range for dimension 0"):
        x.at(2, 0, 0)
    with pytest.raises(InputError, match="index 1 is out of range for dimension 0"):
        numbered(3, 4).at(1, 0, 0)


# ------------------------------------------------------------------------------------------- fill and values


def test_fill_by_columns() -> None:
    x = kt.zeros(2, 3, 4)
    assert x.fill(list(range(1, 25)), row_major=False) is x
    assert x[0].tolist() == [[1, 4, 7, 10], [2, 5, 8, 11], [3, 6, 9, 12]]
    assert x.values(row_major=False) == list(range(1, 25))
    x.fill(range(24))
    assert x.values() == list(range(24)) and x[1, 2].tolist() == [20, 21, 22, 23]
    assert x.fill(2.5).tolist() == kt.full((2, 3, 4), 2.5).tolist()
    with pytest.raises(ShapeError, match=r"expected 24 numbers for shape \(2, 3, 4\), found 3"):
        x.fill([1, 2, 3])


def test_values_by_columns() -> None:
    assert kt.tensor([[0, 1], [2, 3]]).values(row_major=False) == [0, 2, 1, 3]
    assert kt.tensor([[0, 1], [2, 3]]).values() == [0, 1, 2, 3]
    assert kt.tensor([1, 2]).values(row_major=False) == [1, 2]


# ------------------------------------------------------------------------------------------- flatten and reshape


def test_homework_flatten() -> None:
    assert numbered(2, 3, 4).flatten().raw_shapes() == [24]
    assert numbered(12, 24).flatten(row_major=False).raw_shapes() == [288]


def test_flatten_by_rows_and_by_columns() -> None:
    x = kt.zeros(3, 3, 3).fill(range(27))
    assert x.flatten(row_major=False).tolist()[:9] == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    # The course reads columns where nothing else is said; PyTorch reads rows.
    assert x.flatten().tolist() == list(range(27))


@pytest.mark.parametrize(("start", "end"), [(0, -1), (0, 1), (1, 2), (1, 1), (-2, -1)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 0, 4)])
def test_flatten_is_that_of_torch(shape: tuple[int, ...], start: int, end: int) -> None:
    theirs = torch.arange(int(np.prod(shape))).reshape(shape)
    assert numbered(*shape).flatten(start, end).tolist() == theirs.flatten(start, end).tolist()
    assert kt.tensor(5).flatten().shape == (1,)
    with pytest.raises(ShapeError, match="flatten: dimension 1 comes after dimension 0"):
        numbered(*shape).flatten(1, 0)


def test_reshape_by_rows() -> None:
    x = numbered(3, 4, 5).reshape(4, 3, 5)
    assert [x.at(channel, 0, 0) for channel in range(4)] == [0, 15, 30, 45]


def test_reshape_by_columns() -> None:
    x = numbered(2, 3, 4, start=1)
    assert x.reshape(4, 6, row_major=False).tolist() == [
        [1, 6, 11, 13, 18, 23],
        [5, 10, 4, 17, 22, 16],
        [9, 3, 8, 21, 15, 20],
        [2, 7, 12, 14, 19, 24],
    ]
    assert x.reshape([4, 3, 2], row_major=False)[0].tolist() == [[1, 2], [5, 6], [9, 10]]
    assert x.reshape(24, row_major=False).tolist() == x.values(row_major=False)
    assert x.reshape(4, -1, row_major=False).shape == (4, 6)


# ------------------------------------------------------------------------------------------- padding


def test_homework_padding_of_different_widths() -> None:
    x = kt.ones(3, 4, 5)
    padded = x.padding([1, 2, 3, 4], 0)
    assert padded.shapes() == [3, 7, 12] and x.shapes() == [3, 4, 5]
    assert padded.tolist() == torch.nn.functional.pad(torch.ones(3, 4, 5), (3, 4, 1, 2)).tolist()
    assert padded[:, 1:5, 3:8].tolist() == x.tolist() and padded.sum().item() == 60


def test_homework_padding_with_a_number() -> None:
    padded = course.tensor_padding(kt.ones(3, 4, 5), [2, 2, 2, 2], 3.14)
    assert padded.shapes() == [3, 8, 9]
    inside = np.zeros((8, 9), bool)
    inside[2:6, 2:7] = True
    expected = np.where(inside, np.float32(1), np.float32(3.14))
    assert all((channel.numpy() == expected).all() for channel in padded)


def test_padding_of_matrices_and_what_cannot_be() -> None:
    assert kt.ones(1, 2, dtype="i64").padding([0, 1, 1, 0], 7).tolist() == [[7, 1, 1], [7, 7, 7]]
    with pytest.raises(InputError, match="expected up, down, left and right"):
        kt.ones(2, 2).padding([1, 2])
    with pytest.raises(InputError, match="expected up, down, left and right of at least 0"):
        kt.ones(2, 2).padding([1, 2, -1, 0])
    with pytest.raises(ShapeError, match="expected rows and columns"):
        kt.ones(2).padding([1, 1, 1, 1])


# ------------------------------------------------------------------------------------------- elements


def test_transform() -> None:
    x = numbered(2, 3)
    assert x.transform(lambda value: value * value if value > 1 else -1) is x
    assert x.tolist() == [[-1, -1, 4], [9, 16, 25]]
    assert kt.zeros(0).transform(abs).tolist() == []


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    numbered(2, 1, 2).show()
    kt.tensor([1, 2]).show()
    assert capsys.readouterr().out == (
        "channel 0:\ntensor([[0., 1.]])\nchannel 1:\ntensor([[2., 3.]])\nchannel 0:\ntensor([[1, 2]])\n"
    )


def test_is_same() -> None:
    x = numbered(2, 3)
    assert x.is_same(x.clone()) and course.tensor_is_same(x, course.tensor_clone(x))
    assert not x.is_same(x + 1e-4) and x.is_same(x + 1e-4, threshold=1e-3)
    assert not x.is_same(x.reshape(3, 2)) and not x.is_same(x * float("nan"))
    assert kt.tensor([1, 2]).is_same(kt.tensor([1.0, 2.0]))
    with pytest.raises(InputError, match="is_same: expected a tensor, found list"):
        x.is_same([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "left", "right", "expected"),
    [
        (course.tensor_element_add, 1, 2, 3),
        (course.tensor_element_multiply, 3, 2, 6),
        (course.tensor_element_add, 3, 2, 5),
    ],
)
def test_adding_and_multiplying_broadcast(
    function: Callable[..., Tensor], left: int, right: int, expected: int
) -> None:
    plane, column = kt.full((3, 4, 5), float(left)), kt.full((3, 1, 1), float(right))
    for a, b in ((plane, column), (column, plane)):
        assert function(a, b).tolist() == kt.full((3, 4, 5), float(expected)).tolist()
        output = kt.zeros(3, 4, 5)
        assert function(a, b, output) is output
        assert output.tolist() == kt.full((3, 4, 5), float(expected)).tolist()
    with pytest.raises(ShapeError, match="cannot be broadcast together"):
        function(plane, kt.ones(2, 1, 1))
    with pytest.raises(ShapeError, match=r"the result has shape \(3, 4, 5\), and the output \(3, 4\)"):
        function(plane, column, kt.zeros(3, 4))


def test_broadcasting_shows_the_common_shape() -> None:
    plane, column = numbered(2, 3, 4), numbered(2, 1, 1)
    for one, other in (course.tensor_broadcast(plane, column), course.tensor_broadcast(column, plane)[::-1]):
        assert one.shape == other.shape == (2, 3, 4)
        assert other[1].tolist() == [[1] * 4] * 3 and other.shares_memory_with(column)
    # The course refuses (1, 1, 1) for several channels; PyTorch repeats it.
    assert course.tensor_broadcast(plane, kt.zeros(1, 1, 1))[1].shape == (2, 3, 4)


def test_homework_sine() -> None:
    x = kt.rand(2, 3, generator=kt.Generator(1))
    np.testing.assert_allclose(course.tensor_element_sin(x).numpy(), np.sin(x.numpy()), atol=1e-6)
    assert (kt.tensor(3.0) * course.tensor_element_sin(kt.tensor(2.0))).item() == pytest.approx(2.72789, abs=1e-3)


# ------------------------------------------------------------------------------------------- the first lesson

ONE_TO_NINE = numbered(3, 3, start=1).tolist()


@pytest.mark.parametrize(
    ("name", "calculate", "expected"),
    [
        ("add", lambda a, b: a + b, [[2, 4, 6], [8, 10, 12], [14, 16, 18]]),
        ("sub", lambda a, b: a - b, [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
        ("mul", lambda a, b: a * b, [[1, 4, 9], [16, 25, 36], [49, 64, 81]]),
        ("matmul", lambda a, b: a @ b, [[30, 36, 42], [66, 81, 96], [102, 126, 150]]),
    ],
)
def test_homework_warm_ups(name: str, calculate: Callable[[Any, Any], Any], expected: list[list[int]]) -> None:
    assert calculate(kt.tensor(ONE_TO_NINE), kt.tensor(ONE_TO_NINE)).tolist() == expected


def test_homework_axby() -> None:
    weight, bias = kt.tensor(ONE_TO_NINE), kt.tensor([[1.0] * 3, [2.0] * 3, [3.0] * 3])
    assert (weight @ kt.tensor(ONE_TO_NINE) + bias).tolist() == [[31, 37, 43], [68, 83, 98], [105, 129, 153]]


def test_homework_axpy_and_exponential() -> None:
    x = kt.rand(224, 224, generator=kt.Generator(2))
    np.testing.assert_allclose((-x).exp().numpy(), np.exp(-x.numpy().astype(np.float64)), atol=1e-5)
    y = kt.rand(224, 224, generator=kt.Generator(3))
    expected = 3 * x.numpy().astype(np.float64) + y.numpy()
    np.testing.assert_allclose((3 * x + y).numpy(), expected, atol=1e-5)
    np.testing.assert_allclose((3 * x + 4).numpy(), 3 * x.numpy().astype(np.float64) + 4, atol=1e-5)
