"""sin, cos, tan, and the way back.

An angle is reduced to a quadrant and r, |r| <= pi / 4, in double precision: by a subtraction of multiples of pi / 2 as long as
there are few, else from the digits of 2 / pi that matter for the number's exponent (Payne and Hanek), which are in a table.
"""

from __future__ import annotations

import math
from fractions import Fraction

from llvmlite import ir

from .coefficients import ATAN_DOUBLE, COS, SIN
from .lanes import F64, I32, Lanes, constant_table, fma, gather, polynomial

# pi / 2 as a sum; the first term has so few bits that 2**20 times it is exact
_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267341256, 6.077100506506192e-11
_MANY = 2.0**20
_FIRST_EXPONENT = 147  # of the table, as it is biased in a float: that of 2**20
_EXPONENTS = 255 - _FIRST_EXPONENT
_PI = Fraction(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651328230664709"
)


def _table() -> list[float]:
    """For every exponent e, 2**e 2 / pi modulo 4 in three parts: two of 28 bits, and the rest."""
    parts = []
    for exponent in range(_FIRST_EXPONENT - 150, 255 - 150):
        rest = 2 / _PI * Fraction(2) ** exponent % 4
        for bits in (26, 54):
            part = Fraction(round(rest * 2**bits), 2**bits)
            parts.append(float(part))
            rest -= part
        parts.append(float(rest))
    return parts


def _reduce(x: Lanes) -> tuple[Lanes, Lanes]:
    """r in single precision, and the quadrant in the two lowest bits of an integer."""
    magic = 1.5 * 2.0**52
    wide = x.double()
    shifted = fma(wide, 2 / math.pi, magic)
    n = shifted - magic
    r = fma(n, -_HALF_PI_LOW, fma(n, -_HALF_PI_HIGH, wide)).single()
    quadrant = shifted.bits.to_integer(I32)

    builder = x.code.builder
    is_large = (abs(x) >= _MANY) & (abs(x) < math.inf)
    before = builder.block
    with x.code.when(is_large.any()):
        large_r, large_quadrant = _reduce_large(x)
        large_r, large_quadrant = is_large.choose(large_r, r), is_large.choose(large_quadrant, quadrant)
        inside = builder.block
    return _join(before, inside, r, large_r), _join(before, inside, quadrant, large_quadrant)


def _join(before: ir.Block, inside: ir.Block, skipped: Lanes, done: Lanes) -> Lanes:
    phi = done.code.builder.phi(done.value.type)
    phi.add_incoming(skipped.value, before)
    phi.add_incoming(done.value, inside)
    return Lanes(done.code, phi)


def _reduce_large(x: Lanes) -> tuple[Lanes, Lanes]:
    """The same for |x| >= 2**20: the mantissa times the table's entry for the exponent."""
    table = constant_table(x.code, "two_over_pi", _table())
    mantissa = ((x.bits & 0x007FFFFF) | 0x00800000).to_float(F64)
    mantissa = x.is_negative().choose(-mantissa, mantissa)
    index = ((x.bits >> 23) & 0xFF) - _FIRST_EXPONENT
    inside = (index >= 0) & (index < _EXPONENTS)
    index = inside.choose(index, 0) * 3
    high, middle, low = (gather(table, index + part) * mantissa for part in range(3))  # the first two are exact
    magic = 1.5 * 2.0**52
    shifted = (high + middle) + magic
    fraction = ((high - (shifted - magic)) + middle) + low
    return (fraction * (math.pi / 2)).single(), shifted.bits.to_integer(I32)


def _sine_and_cosine(r: Lanes) -> tuple[Lanes, Lanes]:
    t = r * r
    sine = fma(r * t, polynomial(t, SIN), r).copysign(r)
    return sine, fma(t * t, polynomial(t, COS), fma(t, -0.5, 1.0))


def _turned(sine: Lanes, cosine: Lanes, quadrant: Lanes) -> Lanes:
    is_odd = (quadrant & 1).equals(1)
    value = is_odd.choose(cosine, sine)
    return (value.bits ^ ((quadrant & 2) << 30)).floats


def sin(x: Lanes) -> Lanes:
    """sin(x)"""
    r, quadrant = _reduce(x)
    return _turned(*_sine_and_cosine(r), quadrant)


def cos(x: Lanes) -> Lanes:
    """cos(x) is the sine a quadrant further."""
    r, quadrant = _reduce(x)
    return _turned(*_sine_and_cosine(r), quadrant + 1)


def tan(x: Lanes) -> Lanes:
    """sin(x) / cos(x)"""
    r, quadrant = _reduce(x)
    sine, cosine = _sine_and_cosine(r)
    is_odd = (quadrant & 1).equals(1)
    return is_odd.choose(-cosine, sine) / is_odd.choose(sine, cosine)


# ------------------------------------------------------------------------------------------- in double precision


def _angle(y: Lanes, x: Lanes) -> Lanes:
    """The angle of the point (x, y), by the smaller coordinate over the larger."""
    size_x, size_y = abs(x), abs(y)
    is_steep = size_y > size_x
    small, large = is_steep.choose(size_x, size_y), is_steep.choose(size_y, size_x)
    diagonal = large.equals(0.0).choose(large.same(0.0), 1.0)
    s = small.equals(large).choose(diagonal, small / large)
    t = s * s
    angle = fma(s * t, polynomial(t, ATAN_DOUBLE), s)
    angle = is_steep.choose(math.pi / 2 - angle, angle)
    return x.is_negative().choose(math.pi - angle, angle).copysign(y)


def atan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle of the point (x, y)."""
    return _angle(y.double(), x.double()).single()


def atan(x: Lanes) -> Lanes:
    """The angle of the point (1, x)."""
    y = x.double()
    return _angle(y, y.same(1.0)).single()


def asin(x: Lanes) -> Lanes:
    """The angle whose sine is x."""
    y = x.double()
    return _angle(y, (1.0 - y * y).sqrt()).single()


def acos(x: Lanes) -> Lanes:
    """The angle whose cosine is x."""
    y = x.double()
    return _angle((1.0 - y * y).sqrt(), y).single()
