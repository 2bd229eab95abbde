"""exp and what is made of it.

All start from x = n ln 2 + r with a small r: then exp(x) = 2**n (1 + q), q = exp(r) - 1 being a polynomial in r. Where
1 has to be subtracted again, 2**n q + (2**n - 1) keeps what would cancel, for every n.
"""

from __future__ import annotations

from .coefficients import EXP_DOUBLE, EXP_NARROW, EXP_WIDE, LOG_ERFC
from .lanes import F32, F64, Lanes, fma, polynomial

_LN2 = 0.6931471805599453
# ln 2 as a sum; the first term has so few bits that n times it is exact
_LN2_PARTS = {F32: (0.693145751953125, 1.4286068203094172e-06), F64: (0.6931471803691238, 1.9082149292705877e-10)}


def _reduce(x: Lanes, unit: float = 1, *, less: int = 0, two_parts: bool = True) -> tuple[Lanes, Lanes]:
    """r and 2**(n - less) of x = n unit ln 2 + r. With `two_parts`, r is exact for large n too."""
    form = x.format
    shift = form.magic + form.bias - less
    shifted = fma(x, 1 / (unit * _LN2), shift)
    n = shifted - shift
    high, low = _LN2_PARTS[x.element] if two_parts else (_LN2, 0.0)
    r = fma(n, -unit * high, x)
    if two_parts:
        r = fma(n, -unit * low, r)
    return r, (shifted.bits << form.mantissa).floats


def exp(x: Lanes) -> Lanes:
    """n is even here, so that twice the factor 2**(n/2) reaches subnormal results and infinity with a single rounding."""
    r, power = _reduce(x.at_least(-105.0).at_most(89.0), 2)
    return polynomial(r, (1.0, 1.0, *EXP_WIDE)) * power * power


def sigmoid(x: Lanes) -> Lanes:
    """With exp(-x) = p s**2, s a power of two, 1 / (1 + exp(-x)) = u / (u + p s) for u = 1 / s, which never overflows."""
    r, power = _reduce(x.at_least(-105.0).at_most(105.0), -2)
    inverse = (x.same(1.0).bits * 2 - power.bits).floats
    alternating = [c if i % 2 == 0 else -c for i, c in enumerate((1.0, 1.0, *EXP_WIDE))]
    return inverse / fma(polynomial(r, alternating), power, inverse)


def expm1(x: Lanes) -> Lanes:
    """Half of the result is calculated first: 2**128 is no float."""
    r, half_power = _reduce(x.at_least(-18.0).at_most(89.0), less=1)
    half = fma(half_power, fma(r * r, polynomial(r, EXP_NARROW), r), half_power - 0.5)
    return (half + half).copysign(x)


def tanh(x: Lanes) -> Lanes:
    """E / (E + 2) for E = exp(2x) - 1, halved throughout."""
    r, power = _reduce(x.at_least(-9.1).at_most(9.1), 0.5, two_parts=False)
    doubled = [c * 2 ** (i + 1) for i, c in enumerate(EXP_NARROW)]
    half = fma(power, fma(r * r, polynomial(r, doubled), r), fma(power, 0.5, -0.5))
    return (half / (half + 1.0)).copysign(x)


def erf(x: Lanes) -> Lanes:
    """1 - exp(z) for z = log(erfc(|x|)), which is smooth enough for one polynomial."""
    size = abs(x).at_most(4.0)
    r, power = _reduce(fma(size, polynomial(size, LOG_ERFC), -size), two_parts=False)
    return fma(power, fma(r * r, polynomial(r, EXP_NARROW), r), power - 1.0).copysign(x)


# ------------------------------------------------------------------------------------------- in double precision


def exp_double(x: Lanes) -> Lanes:
    """exp(x) of doubles, far enough to over- and underflow in single precision."""
    r, power = _reduce(x.at_least(-200.0).at_most(200.0))
    return polynomial(r, (1.0, 1.0, *EXP_DOUBLE)) * power


def sinh(x: Lanes) -> Lanes:
    """(E + E / (E + 1)) / 2 for E = exp(|x|) - 1."""
    r, power = _reduce(abs(x).double().at_most(200.0))
    e = fma(power, fma(r * r, polynomial(r, EXP_DOUBLE), r), power - 1.0)
    return (0.5 * (e + e / (e + 1.0))).single().copysign(x)


def cosh(x: Lanes) -> Lanes:
    """(exp(x) + exp(-x)) / 2"""
    e = exp_double(abs(x).double())
    return (0.5 * (e + 1.0 / e)).single()
