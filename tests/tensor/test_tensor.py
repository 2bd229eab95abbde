"""The tensor itself: elements, writing and versions, copies, and what Python asks of it."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kuiperinfer
from kuiperinfer import Tensor, dtypes, memory
from kuiperinfer import tensor as kt
from kuiperinfer.errors import DTypeError, InputError, ShapeError


def test_what_a_tensor_knows_of_itself() -> None:
    x = kt.arange(24, dtype="f64").view(2, 3, 4)[:, 1:]
    assert (x.shape, x.strides, x.offset, x.dtype) == ((2, 2, 4), (12, 4, 1), 4, dtypes.f64)
    assert x.size() == x.shape and x.size(-1) == 4 and x.stride() == x.strides and x.stride(1) == 4
    assert (x.ndim, x.dim(), x.numel(), x.nbytes, len(x), x.storage_offset()) == (3, 3, 16, 128, 2, 4)
    assert x.data_ptr() == x.storage.address + 32
    assert x.is_floating_point() and not x.long().is_floating_point()
    assert x.shape.dsize == 16 and x.shape.subsize(1) == 8
    with pytest.raises(ShapeError, match="no dimension 3"):
        x.size(3)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_items_are_numbers_of_python(dtype: dtypes.DType) -> None:
    value = kt.tensor([1], dtype=dtype).item()
    assert value == 1
    assert type(value) is {"bool": bool, "int": int, "float": float, "complex": complex}[dtype.kind]
    assert kt.tensor([[1]], dtype=dtype).tolist() == [[1]]


def test_only_one_element_is_a_number() -> None:
    assert (float(kt.tensor([2.5])), int(kt.tensor(7.9)), complex(kt.tensor(1j))) == (2.5, 7, 1j)
    assert bool(kt.tensor(3)) and not kt.tensor([[0.0]])
    assert [10, 20, 30][kt.tensor(1)] == 20
    for x in (kt.zeros(2), kt.zeros(0)):
        with pytest.raises(InputError, match="only a tensor of one element is a number; found shape"):
            x.item()
        with pytest.raises(InputError, match="only a tensor of one element"):
            bool(x)
    with pytest.raises(TypeError, match="only one integer can be an index, found a tensor of f32"):
        [1, 2][kt.tensor(1.0)]


def test_tensors_can_be_walked_through() -> None:
    x = kt.arange(6).view(3, 2)
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    first, *_ = x
    first.fill_(9)
    assert x[0].tolist() == [9, 9]
    for walk in (len, iter):
        with pytest.raises(TypeError, match="without dimensions"):
            walk(kt.tensor(1))


def test_tensors_are_hashed_by_identity() -> None:
    x, y = kt.zeros(2), kt.zeros(2)
    assert {x: 1, y: 2}[x] == 1


# ------------------------------------------------------------------------------------------- writing


def test_writing_raises_the_version_that_all_views_share_and_reading_does_not() -> None:
    x = kt.zeros(2, 3)
    view = x.T[1:]
    assert x[0, 0].item() == 0 and x.tolist() and x.numpy() is not None and x.sum().item() == 0
    assert x.storage.version == 0
    view.fill_(1)
    assert x.storage.version == view.storage.version == 1
    x[0] = 2
    x.zero_()
    x.copy_(kt.ones(3))
    assert x.storage.version == 4
    assert x.clone().storage.version == x.reshape(6).storage.version - 4 == 0


@pytest.mark.parametrize(
    "source",
    [2, 2.9, True, [1, 2, 3], np.array([[1.5], [2.5]]), kt.tensor([1, 0, 1], dtype="bool"), kt.full((2, 1), 7.5)],
)
@pytest.mark.parametrize("dtype", ["f32", "i64", "bf16", "c64", "bool"])
def test_copying_broadcasts_and_converts(dtype: str, source: Any) -> None:
    ours = kt.zeros(2, 3, dtype=dtype)
    theirs = torch.zeros(2, 3, dtype=getattr(torch, ours.dtype.torch_names[0]))
    given = torch.tensor(source.tolist()) if isinstance(source, Tensor) else torch.as_tensor(source)
    assert ours.copy_(source) is ours
    assert ours.tolist() == theirs.copy_(given).tolist()


def test_copying_between_overlapping_views_reads_the_old_elements() -> None:
    x = kt.arange(6)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x.copy_(x.flip(0))
    assert x.tolist() == [4, 3, 2, 1, 0, 0]


def test_what_cannot_be_written() -> None:
    with pytest.raises(InputError, match=r"shape \(2, 3\) (with|and) strides \(0, 1\) shows .* several times"):
        kt.zeros(3).expand(2, 3).fill_(1)
    assert kt.zeros(1, 3).expand(1, 3).fill_(1).tolist() == [[1, 1, 1]]
    with pytest.raises(ShapeError, match=r"values of shape \(2,\) cannot be broadcast to shape \(2, 3\)"):
        kt.zeros(2, 3).copy_(kt.zeros(2))
    with pytest.raises(ShapeError, match=r"values of shape \(2, 3\) cannot be broadcast to shape \(3,\)"):
        kt.zeros(3).copy_(kt.zeros(2, 3))
    with pytest.raises(DTypeError, match="the number 256 is out of the range of u8"):
        kt.zeros(3, dtype="u8").fill_(256)


def test_a_refused_write_leaves_no_trace() -> None:
    source = kt.ones(3, requires_grad=True)
    target = kt.zeros(3).expand(2, 3)
    for write in (lambda: target.copy_(source), lambda: target.__setitem__([0], source)):
        with pytest.raises(InputError, match="several times"):
            write()
    assert not target.requires_grad and target.grad_fn is None and target.storage.version == 0


def test_arithmetic_that_was_put_off_reads_what_was_there() -> None:
    a, b = kt.ones(3), kt.full((3,), 2.0)
    total = a + b
    tail = a[1:] * b[1:]
    a += 10
    b[0] = 100
    assert (total.tolist(), tail.tolist()) == ([3, 3, 3], [2, 2])
    assert (a.tolist(), b.tolist()) == ([11, 11, 11], [100, 2, 2])


def test_a_gradient_that_two_need_is_not_overwritten_for_one() -> None:
    def gradients(library: Any, start: Any) -> Any:
        a = library.tensor(start, requires_grad=True)
        x, y = a * 1, a * 2
        y[:, :2] = x[:, 1:] + 0  # what is overwritten gets no gradient
        y += x + 1  # whose gradient is that of y, too
        (x * y).sum().backward()
        return a.grad.tolist()

    start = [[0.5, 1.0, -1.5], [2.0, 0.25, 4.0]]
    assert gradients(kt, start) == gradients(torch, start)


# ------------------------------------------------------------------------------------------- copies


def test_clone_contiguous_and_detach() -> None:
    x = kt.arange(6, dtype="f32").view(2, 3)
    columns = x.T
    assert x.contiguous() is x and not columns.is_contiguous()
    dense = columns.contiguous()
    assert dense.tolist() == columns.tolist() and dense.strides == (2, 1) and not dense.shares_memory_with(x)
    assert not x.clone().shares_memory_with(x)
    w = kt.zeros(2, requires_grad=True)
    detached = w.detach()
    detached[0] = 3
    assert w.tolist() == [3, 0] and not detached.requires_grad and w.requires_grad


def test_tensors_are_pickled_and_copied() -> None:
    for dtype in dtypes.ALL:
        x = kt.tensor([[0, 1], [1, 0]], dtype=dtype).T
        for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
            assert again.dtype is dtype and again.tolist() == x.tolist() and not again.shares_memory_with(x)
    w = kt.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(w)).requires_grad and copy.deepcopy(w).requires_grad
    shallow = copy.copy(w)
    assert shallow.shares_memory_with(w) and shallow.requires_grad
    with pytest.raises(InputError, match=r"without a history can be copied deeply or pickled; use tensor.detach\(\)"):
        pickle.dumps(w * 2)


def test_gradients_are_wanted_of_floats_only() -> None:
    assert kt.zeros(2).requires_grad_().requires_grad
    assert not kt.zeros(2, requires_grad=True).requires_grad_(False).requires_grad
    with pytest.raises(DTypeError, match="only floats have gradients; found a tensor of i64"):
        kt.zeros(2, dtype="i64").requires_grad_()


# ------------------------------------------------------------------------------------------- memory


def test_a_program_leaves_nothing_behind() -> None:
    with memory.no_leaks():
        x = kt.randn(10, 10, requires_grad=True)
        y = (x.T.reshape(4, 25) * 2 + 1).sum()
        y.backward()
        x.grad = None
        del x, y


def test_after_everything_all_is_clear() -> None:
    program = (
        "from kuiperinfer import memory, nn, optim\n"
        "from kuiperinfer import tensor as kt\n"
        "net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))\n"
        "optimizer = optim.Adam(net.parameters())\n"
        "for _ in range(2):\n"
        "    loss = nn.CrossEntropyLoss()(net(kt.rand(5, 4)), kt.randint(2, size=(5,)))\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "assert not memory.all_clear()\n"
        "del net, optimizer, loss\n"
        "print(memory.all_clear(), memory.statistics().allocations > 10)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(kuiperinfer.__path__[0]).parent)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "True True"


def test_freed_memory_is_used_again() -> None:
    place = kt.zeros(12345).data_ptr()
    assert kt.zeros(12345).data_ptr() == place
