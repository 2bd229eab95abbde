"""Division with a rest."""

from __future__ import annotations

import math

from llvmlite import ir

from ..builder import Index, Vector
from .lanes import Lanes

# A quotient cut to 28 bits, times a divisor of 24, is exact in double precision. Rest and divisor have 24 bits, hence their
# quotient is too far from the next number of 28 bits to be rounded up to it.
_QUOTIENT_BITS = 28
_CUT = ~(2 ** (52 - _QUOTIENT_BITS + 1) - 1)
_STEPS = 11  # of 27 bits at least: the quotient of the largest and the smallest float has 277


def _step(rest: Lanes, divisor: Lanes) -> Lanes:
    """What a quotient of 28 bits leaves over; all are positive."""
    quotient = rest / divisor
    whole = (quotient < 2.0**_QUOTIENT_BITS).choose(quotient.trunc(), (quotient.bits & _CUT).floats)
    return rest - whole * divisor


def fmod(x: Lanes, y: Lanes) -> Lanes:
    """x - y trunc(x / y), exactly; the sign of x."""
    code, builder = x.code, x.code.builder
    size, divisor = abs(x).double(), abs(y).double()
    rest = _step(size, divisor)
    before = builder.block
    with code.when((rest >= divisor).any()):  # false for NaN, so never after a division by 0 or of infinity

        def body(_: Index, carried: list[Vector]) -> list[Vector]:
            left = Lanes(code, carried[0])
            return [(left >= divisor).choose(_step(left, divisor), left).value]

        (long_rest,) = code.loop(0, _STEPS - 1, 1, body, [rest.value])  # type: ignore[arg-type]
        inside = builder.block
    phi: ir.PhiInstr = builder.phi(rest.value.type)
    phi.add_incoming(rest.value, before)
    phi.add_incoming(long_rest, inside)
    result = Lanes(code, phi).single()
    return (abs(y).equals(math.inf) & (abs(x) < math.inf)).choose(x, result.copysign(x))


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """x - y floor(x / y); the sign of y, but a zero has that of x."""
    rest = fmod(x, y)
    return _is_off(rest, y).choose(rest + y, rest)


def _is_off(rest: Lanes, y: Lanes) -> Lanes:
    return (rest < 0.0) & (y > 0.0) | (rest > 0.0) & (y < 0.0)


def floor_divide(x: Lanes, y: Lanes) -> Lanes:
    """floor(x / y) as Python has it: the quotient less its rest, rounded."""
    rest = fmod(x, y)
    quotient = (x - rest) / y
    quotient = _is_off(rest, y).choose(quotient - 1.0, quotient)
    below = quotient.floor()
    nearest = (quotient - below > 0.5).choose(below + 1.0, below)
    result = quotient.equals(0.0).choose(quotient.same(0.0).copysign(x / y), nearest)
    return y.equals(0.0).choose(x / y, result)
