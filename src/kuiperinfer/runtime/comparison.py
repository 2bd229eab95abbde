"""How far a calculated array is from the expected one, and whether that is near enough.

The error of a float output is its largest difference divided by the expected output's largest finite magnitude. Integers and
bools are equal or wrong. NaN equals NaN, and an infinity equals an infinity of the same sign.
"""

from __future__ import annotations

import numpy as np

from .. import dtypes
from ..dtypes import Array, DType
from ..records import dataclass

# Relative to the output's largest magnitude; a dtype without a row is compared exactly.
TOLERANCES: dict[DType, float] = {
    dtypes.f32: 1e-5,
    dtypes.c64: 1e-5,
    dtypes.f64: 1e-10,
    dtypes.c128: 1e-10,
    dtypes.f16: 1e-3,
    dtypes.c32: 1e-3,
    dtypes.bf16: 1e-2,
}


@dataclass(frozen=True)
class Comparison:
    """The `error` that was found, the `tolerance` it was held against, and the `problem` in one line if it is too large.

    `error` is None where the values were not compared, because shapes or dtypes differ or because values are random.
    """

    error: float | None
    tolerance: float
    problem: str | None = None

    @property
    def ok(self) -> bool:
        """Whether found and expected agree."""
        return self.problem is None


def compare(found: Array, expected: Array, tolerance: float | None = None, *, values: bool = True) -> Comparison:
    """Compares shape, dtype and, unless `values` is False, all elements.

    `tolerance` replaces the default of the dtype (`TOLERANCES`) for floats; integers and bools stay exact.
    """
    dtype = dtypes.dtype_of(expected)
    allowed = TOLERANCES.get(dtype, 0.0)
    if tolerance is not None and dtype in TOLERANCES:
        allowed = tolerance
    if found.shape != expected.shape:
        return Comparison(None, allowed, f"found shape {found.shape}, expected {expected.shape}")
    if dtypes.dtype_of(found) is not dtype:
        return Comparison(None, allowed, f"found dtype {dtypes.dtype_of(found)}, expected {dtype}")
    if not values:
        return Comparison(None, allowed)
    if dtype not in TOLERANCES:
        return _compare_exactly(found, expected)
    return _compare_floats(dtypes.widen(found), dtypes.widen(expected), allowed)


def _compare_exactly(found: Array, expected: Array) -> Comparison:
    wrong = np.asarray(found != expected)
    if not wrong.any():
        return Comparison(0.0, 0.0)
    difference = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    error = float(difference.max()) / max(float(np.abs(expected.astype(np.float64)).max()), 1.0)
    where = _first(wrong)
    many = f"{int(wrong.sum())} of {wrong.size} elements differ"
    return Comparison(error, 0.0, f"{many}, first at {where}: found {found[where]}, expected {expected[where]}")


def _compare_floats(found: Array, expected: Array, allowed: float) -> Comparison:
    found_parts, expected_parts = _parts(found), _parts(expected)
    nan = np.isnan(expected_parts)
    infinite = np.isinf(expected_parts)
    wrong = (np.isnan(found_parts) != nan) | (np.isinf(found_parts) != infinite)
    wrong |= infinite & (found_parts != expected_parts)
    if wrong.any():
        where = _first(wrong.any(axis=-1))
        return Comparison(float("inf"), allowed, f"at {where}: found {found[where]}, expected {expected[where]}")
    with np.errstate(all="ignore"):
        finite = np.where(nan | infinite, 0.0, expected_parts)
        magnitude = np.linalg.norm(finite, axis=-1)
        difference = np.linalg.norm(np.where(nan | infinite, 0.0, found_parts) - finite, axis=-1)
    scale = float(magnitude.max(initial=0.0))
    largest = float(difference.max(initial=0.0))
    if largest == 0.0:
        return Comparison(0.0, allowed)
    error = largest / scale if scale else float("inf")
    if error <= allowed:
        return Comparison(error, allowed)
    where = tuple(int(index) for index in np.unravel_index(difference.argmax(), difference.shape))
    seen = f"at {where}: found {found[where]:.9g}, expected {expected[where]:.9g}"
    return Comparison(error, allowed, f"error {error:.1e} exceeds {allowed:.0e}, {seen}")


def _parts(array: Array) -> Array:
    """Real and imaginary parts in a new last dimension, in float64: (*) -> (*, 1 or 2)."""
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    return np.stack(parts, axis=-1).astype(np.float64)


def _first(wrong: Array) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(wrong)[0])
