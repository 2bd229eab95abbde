"""Arithmetic that is put off: when it is evaluated, in how many loops, and that putting off never shows."""

from __future__ import annotations

import itertools
import os
import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kuiperinfer import memory
from kuiperinfer import tensor as kt
from kuiperinfer.dtypes import ALL, DType, f16, f32, f64, i64
from kuiperinfer.errors import DTypeError, InputError, ShapeError
from kuiperinfer.tensor import fused as fused_module
from kuiperinfer.tensor import lazy
from kuiperinfer.tensor.lazy import update


def is_pending(tensor: kt.Tensor) -> bool:
    return tensor._pending is not None and tensor._pending.storage is None


class Count:
    """How many loops were run, and blocks of memory taken, within a block."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loops = 0
        call = fused_module.FusedLoop.__call__

        def counting(loop: Any, operands: Any, outputs: Any) -> None:
            self.loops += 1
            call(loop, operands, outputs)

        monkeypatch.setattr(fused_module.FusedLoop, "__call__", counting)

    def __enter__(self) -> Count:
        self.loops, self._before = 0, memory.statistics().allocations
        return self

    def __exit__(self, *exception: object) -> None:
        self.allocations = memory.statistics().allocations - self._before


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Count:
    return Count(monkeypatch)


# ------------------------------------------------------------------------------------------- one loop, one result


@pytest.mark.parametrize("size", [10, 4_000_000])
def test_eight_operations_allocate_exactly_one_result(count: Count, size: int) -> None:
    a, b, c = (kt.rand(size, generator=np.random.default_rng(seed)) for seed in range(3))
    for _ in range(2):  # code that is loaded for the first time takes memory too
        with count:
            y = ((a * b + c) * 2.0 - a).sigmoid() * b + c.tanh() / 3.0
            assert is_pending(y)
            y.storage  # noqa: B018
    assert (count.loops, count.allocations) == (1, 1)
    A, B, C = (tensor.array.astype(np.float64) for tensor in (a, b, c))
    expected = 1 / (1 + np.exp(-((A * B + C) * 2 - A))) * B + np.tanh(C) / 3
    np.testing.assert_allclose(y.array, expected, rtol=1e-5)


def test_assignment_and_in_place_operators_take_no_memory(count: Count) -> None:
    a, b = kt.ones(50_000), kt.full((50_000,), 2.0)
    with count:
        a[...] = a * 3 + b
        a += b * 0.5
        a *= 2
        a[10:20] = b[10:20] - 1
    assert (count.loops, count.allocations) == (4, 0)
    assert a[0].item() == 12 and a[15].item() == 1


def test_several_targets_in_one_loop(count: Count) -> None:
    m, v, p, g = (kt.full((40_000,), value) for value in (1.0, 2.0, 3.0, 4.0))
    with count:
        mean = 0.5 * m + 0.5 * g
        square = 0.5 * v + 0.5 * g * g
        update((m, mean), (v, square), (p, p - 0.1 * mean / square.sqrt()))
    assert (count.loops, count.allocations) == (1, 0)
    assert m[0].item() == 2.5 and v[0].item() == 9 and p[0].item() == pytest.approx(3 - 0.1 * 2.5 / 3)
    assert mean[7].item() == 2.5  # asked for afterwards, it is what was calculated


def test_targets_take_the_old_elements() -> None:
    a, b = kt.arange(5.0), kt.arange(5.0) * 10
    update((a, b + 0), (b, a + 0))
    assert a.tolist() == [0, 10, 20, 30, 40] and b.tolist() == [0, 1, 2, 3, 4]


def test_what_was_written_may_change_later() -> None:
    a = kt.ones(3)
    kept = a * 5
    a[...] = kept
    a += 1
    assert kept.tolist() == [5, 5, 5] and a.tolist() == [6, 6, 6]


def test_a_value_used_again_is_calculated_a_few_times_at_most(count: Count) -> None:
    x = kt.rand(100)
    shared = x.exp()
    with count:
        for number in range(10):
            (shared + number).storage  # noqa: B018
    assert not is_pending(shared)
    assert count.loops == 11  # one for each sum, and one for what they share


def test_operands_of_another_shape_have_a_loop_of_their_own(count: Count) -> None:
    row = kt.rand(1, 300)
    with count:
        (row.exp() + kt.zeros(200, 300)).storage  # noqa: B018
    assert count.loops == 2


# ------------------------------------------------------------------------------------------- when


def test_shape_and_dtype_are_known_and_errors_come_at_once() -> None:
    a = kt.ones(3, 1) + kt.ones(4)
    assert is_pending(a) and a.shape == (3, 4) and a.dtype is f32 and a.strides == (4, 1) and a.numel() == 12
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        kt.ones(3) + kt.ones(4)
    with pytest.raises(DTypeError, match="sub"):
        kt.tensor([True]) - kt.tensor([True])
    with pytest.raises(TypeError):
        kt.ones(3) + "text"
    assert is_pending(a)


def test_what_is_put_off_reads_the_elements_of_its_time() -> None:
    a, b = kt.arange(4.0), kt.ones(4)
    c = a + b
    d = c * 2  # reads c, which does not exist either
    a += 10
    b[1] = 5
    a[2:] = 0
    assert c.tolist() == [1, 2, 3, 4] and d.tolist() == [2, 4, 6, 8]
    assert a.tolist() == [10, 11, 0, 0]


def test_writing_into_a_value_that_others_wait_for() -> None:
    a = kt.ones(3)
    b = a * 2
    c = b + 1
    b += 5
    assert c.tolist() == [3, 3, 3] and b.tolist() == [7, 7, 7]


def test_a_kept_part_of_what_is_written_stays_what_it_was() -> None:
    a = kt.ones(4)
    part = a * 2
    a[...] = part + 1
    assert part.tolist() == [2, 2, 2, 2] and a.tolist() == [3, 3, 3, 3]
    b = kt.ones(4)
    part = b * 2
    other = part * 10
    b[...] = part + 1
    assert other.tolist() == [20, 20, 20, 20] and part.tolist() == [2, 2, 2, 2]


def test_overlapping_views() -> None:
    a = kt.arange(6.0)
    a[...] = a.flip(0) + a
    assert a.tolist() == [5, 5, 5, 5, 5, 5]
    a = kt.arange(6.0)
    a[1:] = a[:-1] * 1
    assert a.tolist() == [0, 0, 1, 2, 3, 4]
    a = kt.arange(6.0)
    a[1:] += a[:-1]
    assert a.tolist() == [0, 1, 3, 5, 7, 9]
    a = kt.arange(4.0).view(2, 2)
    a += a.T
    assert a.tolist() == [[0, 3], [3, 6]]
    a = kt.arange(4.0)
    a[:] = a[3]
    assert a.tolist() == [3, 3, 3, 3]


def test_memory_that_numpy_may_write_is_read_at_once() -> None:
    array = np.zeros(3, np.float32)
    shared = kt.from_numpy(array)
    later = shared + 1
    array[:] = 9
    assert later.tolist() == [1, 1, 1] and (shared + 1).tolist() == [10, 10, 10]


def test_views_of_what_is_put_off() -> None:
    a = kt.arange(6.0).view(2, 3) * 2
    view = a.T
    assert not is_pending(a) and view.shares_memory_with(a)
    view[0] = -1
    assert a.tolist() == [[-1, 2, 4], [-1, 8, 10]]


def test_threads_that_ask_for_the_same_values() -> None:
    x = kt.rand(20_000)
    for _ in range(20):
        shared = x * 2 + 1
        results: list[Any] = [None] * 4
        barrier = threading.Barrier(4)

        def work(number: int, shared: Any = shared, results: Any = results, barrier: Any = barrier) -> None:
            barrier.wait()
            results[number] = (shared * float(number + 1)).array + shared.array

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, result in enumerate(results):
            np.testing.assert_allclose(result, (x.array * 2 + 1) * (number + 2), rtol=1e-6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_fork_can_go_on() -> None:
    x = kt.ones(20_000)
    later = x + 1
    child = os.fork()
    if not child:
        os._exit(0 if later[5].item() == 2 and (x * 3)[7].item() == 3 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert later[5].item() == 2


@pytest.mark.parametrize("size", [4, 20_000])
def test_ten_thousand_additions(size: int) -> None:
    total, one = kt.zeros(size), kt.ones(size)
    for _ in range(10_000):
        total = total + one
    assert total._pending.calls <= lazy._MOST_CALLS
    assert total[0].item() == 10_000 and total[size - 1].item() == 10_000


def test_a_number_that_doubles_its_uses() -> None:
    x = kt.ones(2, dtype=f64)
    for _ in range(60):
        x = x + x
    assert x[0].item() == 2.0**60


def test_expanded_tensors_cannot_be_written() -> None:
    with pytest.raises(InputError, match="several times"):
        kt.zeros(1, 3).expand(2, 3).add_(1)
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        kt.zeros(1, 3).add_(kt.ones(2, 3))
    with pytest.raises(DTypeError, match="cannot be written into"):
        kt.zeros(3, dtype=i64).add_(0.5)


def test_other_operands() -> None:
    a = kt.arange(3.0)
    assert (np.ones(3, np.float32) + a).tolist() == [1, 2, 3]
    assert (a * np.float64(2)).dtype is f32  # a NumPy number is a number
    assert (a + np.arange(3.0)).dtype is f64
    assert (2**a).tolist() == [1, 2, 4] and (1 - a).tolist() == [1, 0, -1] and (6 / (a + 1)).tolist() == [6, 3, 2]
    assert (7 // (a + 1)).tolist() == [7, 3, 2] and (7 % (a + 2)).tolist() == [1, 1, 3]
    assert a != None  # noqa: E711
    assert kt.where(a > 1, np.float32(5), a).tolist() == [0, 1, 5] and a.clamp(max=np.float64(1)).tolist() == [0, 1, 1]
    with pytest.raises(DTypeError, match="'where' takes tensors and numbers, found 'x'"):
        kt.where(a > 1, "x", a)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="by zero"):
        (kt.arange(3) // 0).tolist()


# ------------------------------------------------------------------------------------------- against torch

_TORCH = {d: getattr(torch, d.torch_names[0]) for d in ALL if d.name != "c32"}


def as_torch(tensor: kt.Tensor) -> torch.Tensor:
    return torch.tensor(tensor.tolist(), dtype=_TORCH[tensor.dtype])


def operand(dtype: DType, shape: tuple[int, ...]) -> kt.Tensor:
    return kt.tensor(np.arange(1, 1 + int(np.prod(shape))).reshape(shape) % 5).to(dtype)


@pytest.mark.parametrize("name", ["add", "mul", "true_divide", "maximum", "eq"])
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((3,), ()), ((), (2,)), ((), ())])
def test_promotion_of_every_pair_of_dtypes(name: str, shapes: tuple[Any, Any]) -> None:
    ours = {"add": "__add__", "mul": "__mul__", "true_divide": "__truediv__", "maximum": "maximum", "eq": "__eq__"}[
        name
    ]
    for first, second in itertools.product(_TORCH, repeat=2):
        if f16 in (first, second) and "complex" in (first.kind, second.kind):
            continue  # torch has hardly anything of complex numbers in half precision
        a, b = operand(first, shapes[0]), operand(second, shapes[1])
        try:
            expected = getattr(torch, name)(as_torch(a), as_torch(b))
        except RuntimeError:
            with pytest.raises((DTypeError, InputError)):
                getattr(a, ours)(b)
            continue
        result = getattr(a, ours)(b)
        assert _TORCH[result.dtype] is expected.dtype, (first, second)
        assert result.tolist() == expected.tolist(), (first, second)


@pytest.mark.parametrize("number", [True, 2, 2.5])
@pytest.mark.parametrize("dtype", _TORCH, ids=str)
def test_promotion_beside_numbers(dtype: DType, number: Any) -> None:
    a = operand(dtype, (4,))
    functions: list[Any] = [lambda x: x + number, lambda x: number * x, lambda x: x / number]
    for function in functions if dtype.kind == "bool" and number is True else [*functions, lambda x: x**number]:
        expected = function(as_torch(a))
        result = function(a)
        assert _TORCH[result.dtype] is expected.dtype
        np.testing.assert_allclose(np.array(result.tolist()), np.array(expected.tolist()), rtol=1e-6)


_SHAPES = [(), (1,), (3,), (1, 1), (2, 1), (1, 3), (2, 3), (4, 1, 1), (4, 2, 1), (4, 1, 3), (1, 2, 3), (4, 2, 3)]


@pytest.mark.parametrize("first", _SHAPES)
def test_broadcasting_of_every_pair_of_shapes(first: tuple[int, ...]) -> None:
    for second in _SHAPES:
        a, b = kt.rand(*first), kt.rand(*second)
        result = a * b - b
        expected = torch.from_numpy(a.array.copy()) * torch.from_numpy(b.array.copy()) - torch.from_numpy(
            b.array.copy()
        )
        assert result.shape == tuple(expected.shape)
        np.testing.assert_allclose(result.array, expected.numpy(), rtol=1e-6, atol=1e-7)


@given(st.data())
def test_programs_of_reads_and_writes(data: st.DataObject) -> None:
    """Random programs of arithmetic, views and in-place writes leave every tensor as torch leaves it."""
    ours: list[Any] = [kt.tensor(np.arange(6, dtype=np.float64).reshape(2, 3) + i) for i in range(2)]
    theirs: list[Any] = [torch.from_numpy(tensor.array.copy()) for tensor in ours]
    for _ in range(data.draw(st.integers(1, 12), "steps")):
        i, j = (data.draw(st.integers(0, len(ours) - 1)) for _ in range(2))
        action = data.draw(st.sampled_from(["add", "scale", "view", "flip", "+=", "*=", "assign", "part", "read"]))
        for tensors in (ours, theirs):
            a, b = tensors[i], tensors[j]
            if action == "add":
                tensors.append(a - b if a.shape == b.shape else a - 1)
            elif action == "scale":
                tensors.append(a * 0.5 + 1)
            elif action == "view":
                tensors.append(a[:, 1:] if a.shape[1] > 1 else a)
            elif action == "flip":
                tensors.append(a.flip(0))
            elif action == "+=":
                a += b * 1 if a.shape == b.shape else 1
            elif action == "*=":
                a *= 0.5
            elif action == "assign":
                a[...] = (a + b if a.shape == b.shape else a) * 0.5
            elif action == "part":
                a[:1] = a[1:] * 2
            else:
                a.tolist()
            if tensors is ours:
                continue
            if action == "flip":
                tensors[-1] = tensors[-1].clone()  # torch's flip copies
        if action == "flip":
            ours[-1] = ours[-1].clone()
        keep = [k for k in range(len(ours)) if ours[k].shape[1] and ours[k].shape[0]]
        ours, theirs = [ours[k] for k in keep], [theirs[k] for k in keep]
        if any(o.shape != tuple(t.shape) for o, t in zip(ours, theirs, strict=True)):
            raise AssertionError("shapes differ")
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.array, other.numpy(), rtol=1e-12)
