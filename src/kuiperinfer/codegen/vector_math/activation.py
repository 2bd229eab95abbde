"""Activations, as `kuiperinfer.expression.activations` defines them, and comparisons, whose results are 0 or 1."""

from __future__ import annotations

import math

from llvmlite import ir

from ...expression.activations import SELU_ALPHA, SELU_SCALE
from .exponential import erf, exp, expm1, sigmoid, tanh
from .lanes import Lanes, fma
from .logarithm import log1p_of_fraction


def _constant(x: Lanes) -> float | None:
    """The number that stands in all lanes, if it is known."""
    value = x.value
    if not isinstance(value, ir.Constant) or not isinstance(value.constant, list):
        return None
    numbers = {lane.constant for lane in value.constant}
    number = numbers.pop()
    return number if not numbers and isinstance(number, float) else None


def maximum(x: Lanes, y: Lanes) -> Lanes:
    """The larger; NaN if one is NaN."""
    return Lanes(x.code, x.code.maximum(x.value, y.value))


def minimum(x: Lanes, y: Lanes) -> Lanes:
    """The smaller; NaN if one is NaN."""
    return Lanes(x.code, x.code.minimum(x.value, y.value))


def sign(x: Lanes) -> Lanes:
    """0 for NaN."""
    return (x > 0.0).choose(x.same(1.0), (x < 0.0).choose(x.same(-1.0), 0.0))


# ------------------------------------------------------------------------------------------- comparisons


def truth(condition: Lanes, like: Lanes) -> Lanes:
    """Bools as 0 and 1."""
    return condition.choose(like.same(1.0), 0.0)


def where(condition: Lanes, x: Lanes, y: Lanes) -> Lanes:
    """x where the condition is not 0, else y."""
    return condition.differs(0.0).choose(x, y)


# ------------------------------------------------------------------------------------------- rectifiers


def relu(x: Lanes) -> Lanes:
    """max(x, 0)"""
    return x.at_least(0.0)


def relu6(x: Lanes) -> Lanes:
    """min(max(x, 0), 6)"""
    return x.at_least(0.0).at_most(6.0)


def clamp(x: Lanes, low: Lanes, high: Lanes) -> Lanes:
    """min(max(x, low), high)"""
    return minimum(maximum(x, low), high)


def threshold(x: Lanes, bound: Lanes, value: Lanes) -> Lanes:
    """x, but `value` where x <= bound."""
    return (x <= bound).choose(value, x)


def leaky_relu(x: Lanes, slope: Lanes) -> Lanes:
    """x where x > 0, else slope x; for a slope between 0 and 1 that is the larger of the two."""
    number = _constant(slope)
    scaled = slope * x
    if number is not None and 0 < number <= 1:
        return (x < scaled).choose(scaled, x)
    return (x > 0.0).choose(x, scaled)


def elu(x: Lanes, alpha: Lanes) -> Lanes:
    """x where x > 0, else alpha (exp(x) - 1)"""
    return (x > 0.0).choose(x, alpha * expm1(x))


def celu(x: Lanes, alpha: Lanes) -> Lanes:
    """x where x > 0, else alpha (exp(x / alpha) - 1)"""
    return (x > 0.0).choose(x, alpha * expm1(x / alpha))


def selu(x: Lanes) -> Lanes:
    """scale x where x > 0, else scale alpha (exp(x) - 1)"""
    return (x > 0.0).choose(SELU_SCALE * x, (SELU_SCALE * SELU_ALPHA) * expm1(x))


# ------------------------------------------------------------------------------------------- soft and hard shapes


def silu(x: Lanes) -> Lanes:
    """x sigmoid(x)"""
    return x * sigmoid(x)


def _softplus(x: Lanes) -> Lanes:
    """log(1 + exp(x)), by the exponential of -|x|."""
    return x.at_least(0.0) + log1p_of_fraction(exp(-abs(x)))


def softplus(x: Lanes, beta: Lanes, threshold: Lanes) -> Lanes:
    """log(1 + exp(beta x)) / beta, and x itself where beta x > threshold."""
    scaled = beta * x
    return (scaled > threshold).choose(x, _softplus(scaled) / beta)


def logsigmoid(x: Lanes) -> Lanes:
    """log(1 / (1 + exp(-x)))"""
    return x.at_most(0.0) - log1p_of_fraction(exp(-abs(x)))


def mish(x: Lanes) -> Lanes:
    """x tanh(log(1 + e)) for e = exp(x), which is x n / (n + 2) for n = e (e + 2)."""
    e = exp(x.at_most(20.0))
    n = fma(e, e, e + e)
    return x * (n / (n + 2.0))


def gelu(x: Lanes) -> Lanes:
    """x (1 + erf(x / sqrt(2))) / 2"""
    half = 0.5 * x
    return half * (1.0 + erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Lanes) -> Lanes:
    """x (1 + tanh(z)) / 2 for z = sqrt(2 / pi) (x + 0.044715 x**3); (1 + tanh(z)) / 2 is sigmoid(2 z)."""
    double = 2 * math.sqrt(2 / math.pi)
    return x * sigmoid(x * fma(x * x, 0.044715 * double, double))


def softsign(x: Lanes) -> Lanes:
    """x / (1 + |x|)"""
    return x / (1.0 + abs(x))


def softshrink(x: Lanes, bound: Lanes) -> Lanes:
    """x moved by `bound` towards 0, not beyond."""
    return x - clamp(x, -bound, bound)


def hardshrink(x: Lanes, bound: Lanes) -> Lanes:
    """0 where -bound <= x <= bound, else x."""
    return (abs(x) <= bound).choose(0.0, x)


def tanhshrink(x: Lanes) -> Lanes:
    """x - tanh(x)"""
    return x - tanh(x)


def hardsigmoid(x: Lanes) -> Lanes:
    """min(max(x + 3, 0), 6) / 6"""
    return relu6(x + 3.0) * (1 / 6)


def hardswish(x: Lanes) -> Lanes:
    """x min(max(x + 3, 0), 6) / 6"""
    return x * relu6(x + 3.0) * (1 / 6)
