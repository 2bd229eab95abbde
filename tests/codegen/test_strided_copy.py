"""Copies between strided memory, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuiperinfer.codegen.kernels.strided_copy import plan_copy
from kuiperinfer.codegen.objects import assembly_of
from kuiperinfer.codegen.target import target_named
from tests.codegen.native import TARGETS, compile_specs

DTYPES = {1: np.uint8, 2: np.int16, 4: np.float32, 8: np.int64, 16: np.complex128}


def elements_of(array):
    return [stride // array.itemsize for stride in array.strides]


def check(source, target, *, targets=TARGETS, way=None):
    """Copies `source`, a view of other memory, to `target`, another one, and looks whether anything else was touched."""
    itemsize = source.itemsize
    for name in targets:
        spec = plan_copy(source.shape, elements_of(source), elements_of(target), itemsize, target_named(name).lanes)
        if way is not None:
            assert spec.way == way
        owner = target
        while owner.base is not None:
            owner = owner.base
        owner[...] = 77
        expected = owner.copy()
        offset = target.ctypes.data - owner.ctypes.data
        np.ndarray(target.shape, target.dtype, expected, offset, target.strides)[...] = source
        (copy,) = compile_specs([spec], name)
        copy(source, target)
        np.testing.assert_array_equal(owner.view(np.uint8), expected.view(np.uint8))


def numbers(*shape, itemsize=4):
    count = int(np.prod(shape))
    return np.random.default_rng(count).permutation(count).astype(DTYPES[itemsize]).reshape(shape)


@pytest.mark.parametrize("itemsize", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130, 257, 40000])
def test_runs(itemsize, length):
    source = numbers(3, length + 2, itemsize=itemsize)[:, 1:-1]
    check(
        source, np.empty((3, length + 3), DTYPES[itemsize])[:, 2:-1], targets=TARGETS[-1:] if length > 99 else TARGETS
    )


@pytest.mark.parametrize("itemsize", [1, 4, 8])
@pytest.mark.parametrize("length", [1, 3, 8, 16, 17, 50, 300])
def test_reversed_and_repeated(itemsize, length):
    source = numbers(4, length, itemsize=itemsize)
    target = np.empty((4, length), DTYPES[itemsize])
    check(source[::-1, ::-1], target)
    check(np.broadcast_to(source[:, :1], (4, length)), target)
    check(np.broadcast_to(source[:1], (4, length)), target)


@pytest.mark.parametrize("rows", [8, 9, 16, 17, 31, 40])
@pytest.mark.parametrize("columns", [8, 12, 16, 33, 65])
def test_transposed_in_squares(rows, columns):
    source = numbers(2, rows, columns).swapaxes(1, 2)
    check(source, np.empty((2, columns, rows), np.float32), way="squares")


@pytest.mark.parametrize("shape", [(3, 20000), (20000, 3), (20, 1000), (33, 17000), (17000, 33)], ids=str)
@pytest.mark.parametrize("itemsize", [4, 8])
def test_large_transposes(shape, itemsize):
    source = numbers(*shape, itemsize=itemsize).T
    check(source, np.empty(shape[::-1], DTYPES[itemsize]), targets=TARGETS[-1:])


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("length", [64, 65, 100])
def test_interleaved(itemsize, count, length):
    source = numbers(2, count, length, itemsize=itemsize)
    check(source.swapaxes(1, 2), np.empty((2, length, count), DTYPES[itemsize]), way="interleave")
    source = numbers(2, length, count, itemsize=itemsize)
    check(source.swapaxes(1, 2), np.empty((2, count, length), DTYPES[itemsize]), way="deinterleave")


@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("length", [16, 17, 40, 70])
def test_every_few(step, length):
    source = numbers(3, length * step)
    for start in range(step):
        check(source[:, start::step], np.empty((3, length), np.float32))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_anything(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5)))
    itemsize = data.draw(st.sampled_from(sorted(DTYPES)))
    order = data.draw(st.permutations(range(len(shape))))
    big = numbers(*(2 * size + 1 for size in shape), itemsize=itemsize)
    slices = [
        data.draw(st.sampled_from([slice(0, size), slice(1, 2 * size, 2), slice(size - 1, None, -1)])) for size in shape
    ]
    source = big[tuple(slices)]
    source = source[tuple(slice(0, size) for size in shape)].transpose(order)
    if data.draw(st.booleans()):
        source = np.broadcast_to(source[..., None, :], (*source.shape[:-1], 3, source.shape[-1]))
    room = [size + data.draw(st.integers(0, 2)) for size in source.shape]
    target = np.empty(room, source.dtype)[tuple(slice(0, size) for size in source.shape)]
    check(source, target, targets=[data.draw(st.sampled_from(TARGETS))])


def test_aarch64_uses_vectors():
    target = target_named("aarch64")
    spec = plan_copy((64, 64), (1, 64), (64, 1), 4, target.lanes)
    assembly = assembly_of(spec.module("kernel", target), target)
    assert "zip1" in assembly or "trn1" in assembly
