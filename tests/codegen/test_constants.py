"""Packed weights are shared by the plans of a model, and by nobody else."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import kuiperinfer
from kuiperinfer.codegen.constants import Constants
from kuiperinfer.codegen.homes import Place
from kuiperinfer.dtypes import Array
from tests.small_models import CONVOLUTION, weights_of, write_model


def constants_of(compiled: kuiperinfer.runtime.compiled.CompiledModel) -> list[Array]:
    refs = [ref for step in compiled.plan.steps for ref in step.refs]
    return [ref.buffer.data for ref in refs if ref.buffer.place is Place.CONSTANT and ref.buffer.data is not None]


def test_plans_for_other_shapes_share_packed_weights(tmp_path: Path) -> None:
    model = kuiperinfer.load(write_model(tmp_path, CONVOLUTION, weights_of(CONVOLUTION)))
    first, second = (constants_of(model.compile((1, 3, size, size))) for size in (16, 24))
    assert len(first) == len(second) > 0
    assert all(one is other for one, other in zip(first, second, strict=True))
    x = np.random.default_rng(0).standard_normal((1, 3, 24, 24)).astype(np.float32)
    with kuiperinfer.settings(engine="reference"):
        expected = model(x)
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-5)


def test_another_model_has_weights_of_its_own(tmp_path: Path) -> None:
    path = write_model(tmp_path, CONVOLUTION, weights_of(CONVOLUTION))
    first, second = (constants_of(kuiperinfer.load(path).compile((1, 3, 16, 16))) for _ in range(2))
    assert not any(np.shares_memory(one, other) for one in first for other in second)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int16, np.int64, np.float64, np.complex64, np.complex128])
def test_equal_bits_are_kept_once(dtype: type) -> None:
    constants = Constants()

    def pack(value: complex, number: int = 1, size: int = 9, name: str = "conv") -> Array:
        return constants.pack(name, number, (size,), dtype, lambda array: array.fill(dtype(value)))

    one = pack(1)
    assert pack(1) is one
    others = [pack(2), pack(1, number=2), pack(1, size=8), pack(1, name="fc")]
    assert not any(np.shares_memory(one, other) for other in others)
    assert (one == dtype(1)).all()


def filled(constants: Constants, name: str, value: float) -> Array:
    return constants.pack(name, 1, (4,), np.float32, lambda array: array.fill(value))


def test_nan_is_equal_to_itself_and_minus_zero_is_not_zero() -> None:
    constants = Constants()
    nan, zero = filled(constants, "a", np.nan), filled(constants, "b", 0.0)
    assert filled(constants, "a", np.nan) is nan and filled(constants, "b", 0.0) is zero
    minus = filled(constants, "b", -0.0)
    assert minus is not zero and np.signbit(minus).all() and not np.signbit(zero).any()


def test_constants_live_as_long_as_a_plan_that_reads_them() -> None:
    constants = Constants()
    first = filled(constants, "a", 1.0)
    address = first.ctypes.data
    second = filled(constants, "b", 2.0)
    assert second.ctypes.data != address
    del first
    gc.collect()
    assert [id(array) for array in constants._kept.values()] == [id(second)]
    assert filled(constants, "c", 3.0).ctypes.data == address
