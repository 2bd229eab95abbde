"""log and what is made of it: powers, inverse hyperbolic functions.

All start from u = 2**k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2): then log(u) = k ln 2 + log(1 + f). For log(1 + x)
the part of x that is lost in u = 1 + x is added to f.
"""

from __future__ import annotations

import math

from .coefficients import ATANH_DOUBLE, LOG
from .exponential import exp_double
from .lanes import Lanes, float_as_bits, fma, polynomial

# ln 2 as a sum; the first term has so few bits that k times it is exact
_LN2, _LN2_HIGH, _LN2_LOW = 0.6931471805599453, 0.693145751953125, 1.4286068203094172e-06
_SMALLEST_NORMAL = 2.0**-126


def _split(u: Lanes, lost: Lanes | None = None, exponent_shift: Lanes | float = 0.0) -> tuple[Lanes, Lanes]:
    """k - exponent_shift and f of u + lost = 2**k (1 + f), for normal u > 0."""
    form, one, root = u.format, float_as_bits(1.0, u.element), float_as_bits(math.sqrt(0.5), u.element)
    shifted = u.bits + (one - root)
    exponent = shifted >> form.mantissa
    f = ((shifted & (2**form.mantissa - 1)) + root).floats - 1.0
    if lost is not None:
        inverse = 2 * one - (exponent << form.mantissa)  # of 2**k; negative for u >= 2**127, where nothing is lost
        f = fma(lost, (inverse > 0).choose(inverse, 0).floats, f)
    base = 2.0**form.mantissa
    k = (exponent | float_as_bits(base, u.element)).floats - (exponent_shift + (base + form.bias))
    return k, f


def _log(k: Lanes, f: Lanes) -> Lanes:
    square = f * f
    rest = fma(k, _LN2_LOW, square * fma(f, polynomial(f, LOG), -0.5))
    return fma(k, _LN2_HIGH, f + rest)


def _log_double(k: Lanes, f: Lanes) -> Lanes:
    """log(1 + f) = 2 atanh(f / (2 + f))"""
    s = f / (f + 2.0)
    t = s * s
    return fma(k, _LN2, 2.0 * fma(s * t, polynomial(t, ATANH_DOUBLE), s))


def _with_ends(x: Lanes, result: Lanes, pole: float) -> Lanes:
    """-inf at the pole, NaN below it and for NaN, inf for inf."""
    at_or_below = x.equals(pole).choose(result.same(-math.inf), math.nan)
    return x.equals(math.inf).choose(x, (x > pole).choose(result, at_or_below))


def log(x: Lanes) -> Lanes:
    """Subnormal numbers are scaled up first."""
    tiny = x < _SMALLEST_NORMAL
    k, f = _split(tiny.choose(x * 2.0**23, x), exponent_shift=tiny.choose(x.same(23.0), 0.0))
    return _with_ends(x, _log(k, f), 0.0)


def log1p(x: Lanes) -> Lanes:
    """log(1 + x)"""
    u = x + 1.0
    k, f = _split(u, x - (u - 1.0))
    return _with_ends(x, _log(k, f).copysign(x), -1.0)


def log1p_of_fraction(x: Lanes) -> Lanes:
    """log(1 + x) for 0 <= x <= 1; any number for NaN."""
    u = x + 1.0
    return _log(*_split(u, x - (u - 1.0)))


# ------------------------------------------------------------------------------------------- in double precision


def log_double(x: Lanes) -> Lanes:
    """log(x) of doubles that single precision can hold."""
    return _with_ends(x, _log_double(*_split(x)), 0.0)


def log1p_double(x: Lanes) -> Lanes:
    """log(1 + x) of doubles x > -1."""
    u = x + 1.0
    return _with_ends(x, _log_double(*_split(u, x - (u - 1.0))), -1.0)


def log10(x: Lanes) -> Lanes:
    """log(x) / log(10); powers of ten have exact results."""
    return (log_double(x.double()) * (1 / math.log(10))).single()


def asinh(x: Lanes) -> Lanes:
    """log(a + sqrt(a**2 + 1)) for a = |x|, arranged for small a."""
    a = abs(x).double()
    square = a * a
    result = log1p_double(a + square / ((square + 1.0).sqrt() + 1.0)).single().copysign(x)
    return abs(x).equals(math.inf).choose(x, result)


def acosh(x: Lanes) -> Lanes:
    """log(x + sqrt(x**2 - 1)), arranged for x near 1."""
    t = x.double() - 1.0
    return (x < 1.0).choose(x.same(math.nan), log1p_double(t + (t * (t + 2.0)).sqrt()).single())


def atanh(x: Lanes) -> Lanes:
    """log((1 + x) / (1 - x)) / 2"""
    a = abs(x).double()
    return (0.5 * log1p_double(2.0 * a / (1.0 - a))).single().copysign(x)


def logaddexp(x: Lanes, y: Lanes) -> Lanes:
    """log(exp(x) + exp(y)) = max + log(1 + exp(-|x - y|))"""
    a, b = x.double(), y.double()
    distance = a.equals(b).choose(a.same(0.0), abs(a - b))
    larger = Lanes(a.code, a.code.maximum(a.value, b.value))
    return (larger + log1p_double(exp_double(-distance))).single()


def power(x: Lanes, y: Lanes) -> Lanes:
    """exp(y log|x|), and C's rules: 1 for y = 0 and for x = 1; of x < 0 integers alone are powers, odd ones negative."""
    size, exponent = abs(x).double(), y.double()
    result = exp_double(exponent * log_double(size)).single()
    result = abs(x).equals(1.0).choose(y.differs(y).choose(y, 1.0), result)
    is_integer, half = y.equals(y.trunc()), y * 0.5
    is_odd = is_integer & half.differs(half.trunc())
    negative = x.is_negative()
    result = (negative & is_odd).choose(-result, result)
    undefined = (x < 0.0) & (x > -math.inf) & ~is_integer
    result = undefined.choose(x.same(math.nan), result)
    return (y.equals(0.0) | x.equals(1.0)).choose(x.same(1.0), result)
