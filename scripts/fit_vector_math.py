"""Fits the polynomials of `kuiperinfer.codegen.vector_math`, and prints them as that package's `coefficients.py` has them.

Each is the polynomial of least largest error (Remez exchange) under a weight that turns its error into the relative error of
the function it serves, of its own coefficients rounded to the precision in which it is evaluated. Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 50
Real = Any
Function = Callable[[Real], Real]


@dataclass(frozen=True)
class Fit:
    """`function` is approximated on [low, high]; an error of it counts `weight` times."""

    name: str
    meaning: str
    function: Function
    weight: Function
    low: Real
    high: Real
    degree: int
    dtype: type = np.float32


def remez(fit: Fit) -> tuple[list[Real], Real]:
    """Coefficients, lowest first, and the largest weighted error."""
    count = fit.degree + 2
    middle, radius = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    points = [middle - radius * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]
    for _ in range(20):
        matrix, right = mp.matrix(count, count), mp.matrix(count, 1)
        for row, x in enumerate(points):
            for power in range(fit.degree + 1):
                matrix[row, power] = x**power
            matrix[row, fit.degree + 1] = (-1) ** row / max(fit.weight(x), mp.mpf(10) ** -30)
            right[row] = fit.function(x)
        *coefficients, level = mp.lu_solve(matrix, right)

        def error(x: Real, coefficients: list[Real] = coefficients) -> Real:
            return fit.weight(x) * (fit.function(x) - mp.polyval(coefficients[::-1], x))

        peaks = _peaks(error, fit.low, fit.high)
        while len(peaks) > count:
            peaks.pop(0 if abs(error(peaks[0])) < abs(error(peaks[-1])) else -1)
        largest = max(abs(error(x)) for x in peaks)
        if len(peaks) < count or largest <= abs(level) * mp.mpf("1.0001"):
            break
        points = peaks
    return coefficients, largest


def _peaks(error: Function, low: Real, high: Real, steps: int = 500) -> list[Real]:
    """Where the error is largest between two changes of its sign."""
    grid = [low + (high - low) * (1 - mp.cos(mp.pi * i / steps)) / 2 for i in range(steps + 1)]
    values = [error(x) for x in grid]
    runs = [[0]]
    for i in range(1, len(grid)):
        if values[i] * values[runs[-1][-1]] < 0:
            runs.append([])
        runs[-1].append(i)
    found = []
    for run in runs:
        best = max(run, key=lambda i: abs(values[i]))
        left, right = grid[max(best - 1, 0)], grid[min(best + 1, steps)]
        for _ in range(20 if 0 < best < steps else 0):
            third = (right - left) / 3
            if abs(error(left + third)) > abs(error(right - third)):
                right -= third
            else:
                left += third
        found.append((left + right) / 2 if 0 < best < steps else grid[best])
    return found


def rounded(fit: Fit) -> tuple[list[float], Real]:
    """Coefficients rounded to `fit.dtype`, lowest first, and the largest weighted error of the polynomial that they make."""
    exact, _ = remez(fit)
    coefficients = [float(fit.dtype(mp.nstr(c, 30))) for c in exact]
    grid = [fit.low + (fit.high - fit.low) * i / 2000 for i in range(2001)]
    worst = max(fit.weight(x) * abs(fit.function(x) - mp.polyval(coefficients[::-1], x)) for x in grid)
    return coefficients, worst


def _away_from_zero(function: Function) -> Function:
    """Functions that are 0 / 0 at 0 are taken beside it."""
    return lambda x: function(x if abs(x) > mp.mpf(10) ** -15 else mp.mpf(10) ** -15)


LN2, QUARTER = mp.log(2), (mp.pi / 4) ** 2
_exp_rest = _away_from_zero(lambda x: (mp.expm1(x) - x) / x**2)
_exp_weight = _away_from_zero(lambda x: x**2 / abs(mp.expm1(x)))
_log_rest = _away_from_zero(lambda x: (mp.log1p(x) - x + x**2 / 2) / x**3)
_log_weight = _away_from_zero(lambda x: abs(x**3 / mp.log1p(x)))
_atanh_rest = _away_from_zero(lambda t: (mp.atanh(mp.sqrt(t)) / mp.sqrt(t) - 1) / t)
_sin_rest = _away_from_zero(lambda t: (mp.sin(mp.sqrt(t)) / mp.sqrt(t) - 1) / t)
_cos_rest = _away_from_zero(lambda t: (mp.cos(mp.sqrt(t)) - 1 + t / 2) / t**2)
_atan_rest = _away_from_zero(lambda t: (mp.atan(mp.sqrt(t)) / mp.sqrt(t) - 1) / t)
_log_erfc_rest = _away_from_zero(lambda x: mp.log(mp.erfc(x)) / x + 1)
_log_erfc_weight = _away_from_zero(lambda x: x * mp.erfc(x) / mp.erf(x))

FITS = [
    Fit("EXP_WIDE", "(exp(r) - 1 - r) / r**2 for |r| <= ln 2", _exp_rest, _exp_weight, -LN2, LN2, 6),
    Fit("EXP_NARROW", "the same for |r| <= ln(2) / 2", _exp_rest, _exp_weight, -LN2 / 2, LN2 / 2, 4),
    Fit("EXP_DOUBLE", "the same", _exp_rest, _exp_weight, -LN2 / 2, LN2 / 2, 7, np.float64),
    Fit(
        "LOG",
        "(log(1 + f) - f + f**2 / 2) / f**3 for sqrt(1 / 2) <= 1 + f <= sqrt(2)",
        _log_rest,
        _log_weight,
        mp.sqrt(0.5) - 1,
        mp.sqrt(2) - 1,
        7,
    ),
    Fit(
        "ATANH_DOUBLE",
        "(atanh(s) / s - 1) / t for t = s**2, |s| <= 3 - sqrt(8)",
        _atanh_rest,
        lambda t: t,
        mp.mpf(0),
        (3 - mp.sqrt(8)) ** 2,
        4,
        np.float64,
    ),
    Fit(
        "LOG_ERFC",
        "log(erfc(x)) / x + 1 for 0 <= x <= 4, weighted for erf(x)",
        _log_erfc_rest,
        _log_erfc_weight,
        mp.mpf(0),
        mp.mpf(4),
        8,
    ),
    Fit("SIN", "(sin(r) / r - 1) / t for t = r**2, |r| <= pi / 4", _sin_rest, lambda t: t, mp.mpf(0), QUARTER, 2),
    Fit("COS", "(cos(r) - 1 + t / 2) / t**2 for the same t", _cos_rest, lambda t: t**2, mp.mpf(0), QUARTER, 2),
    Fit(
        "ATAN_DOUBLE",
        "(atan(s) / s - 1) / t for t = s**2, |s| <= 1",
        _atan_rest,
        lambda t: t,
        mp.mpf(0),
        mp.mpf(1),
        9,
        np.float64,
    ),
]

HEADER = (
    '"""Coefficients of the polynomials, lowest first. '
    'Written by `scripts/fit_vector_math.py`, which says how they are found."""'
)


if __name__ == "__main__":
    print(HEADER)
    for fit in FITS:
        coefficients, worst = rounded(fit)
        print(f"\n# {fit.meaning}: error of the whole function 2**{float(mp.log(worst, 2)):.1f}")
        print(f"{fit.name} = (\n" + "".join(f"    {c!r},\n" for c in coefficients) + ")")
