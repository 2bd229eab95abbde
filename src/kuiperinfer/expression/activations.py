"""Functions that are no part of the converter's language: activations, for expressions that this package makes itself.

Rows like those of `functions.py`; `parse` knows them with `internal=True` only. Arguments after the first are parameters,
numbers as a rule, and most have no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..dtypes import Array
from .comparisons import COMPARISONS
from .erf import erf
from .functions import FUNCTIONS, Function

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_ROOT_HALF, _ROOT_2_BY_PI, _CUBIC = math.sqrt(0.5), math.sqrt(2 / math.pi), 0.044715


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow for real x of either sign."""
    if x.dtype.kind == "c":
        return np.asarray(1 / (1 + np.exp(-x)))
    decay = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, decay) / (1 + decay))


def _threshold(x: Array, threshold: Array, value: Array) -> Array:
    return np.where(x <= threshold, value, x)


def _elu(x: Array, alpha: Array) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


def _selu(x: Array) -> Array:
    return np.where(x > 0, SELU_SCALE * x, SELU_SCALE * SELU_ALPHA * np.expm1(x))


def _softplus(x: Array, beta: Array, threshold: Array) -> Array:
    return np.where(beta * x > threshold, x, np.log1p(np.exp(beta * x)) / beta)


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(_ROOT_2_BY_PI * (x + _CUBIC * x * x * x))))


_POSITIVE = "sign(relu(x))"  # 1 or 0
_BELOW_ZERO = "minimum(x,0)"
_GELU_TANH = f"tanh(mul({_ROOT_2_BY_PI},add(x,mul({_CUBIC},mul(x,square(x))))))"


def _choose(where: str, then: str, otherwise: str) -> str:
    """`then` where the text `where` is 1, `otherwise` where it is 0; both have to be finite."""
    return f"mul(grad,add(mul({where},{then}),mul(sub(1,{where}),{otherwise})))"


def _row(name: str, arity: int, numpy: Callable[..., Array], *derivative: str, integers: bool = False) -> Function:
    kinds = ("int", "float") if integers else ("float",)
    return Function(name, arity, numpy, derivative, kinds, float_parameters=True)


_ROWS = (
    _row("relu", 1, lambda x: np.maximum(x, 0), "where(le(out,0),0,grad)", integers=True),
    _row("relu6", 1, lambda x: np.clip(x, 0, 6), "where(or(le(out,0),ge(out,6)),0,grad)", integers=True),
    _row(
        "clamp",
        3,
        lambda x, low, high: np.minimum(np.maximum(x, low), high),
        "where(and(le(y,x),le(x,z)),grad,0)",
        "mul(grad,sign(relu(sub(y,x))))",
        "mul(grad,sign(relu(sub(x,z))))",
        integers=True,
    ),
    _row("threshold", 3, _threshold, "mul(grad,sign(relu(sub(x,y))))", integers=True),
    _row(
        "leaky_relu",
        2,
        lambda x, slope: np.where(x > 0, x, slope * x),
        _choose(_POSITIVE, "1", "y"),
        f"mul(grad,{_BELOW_ZERO})",
    ),
    _row("elu", 2, _elu, "where(le(x,0),mul(grad,mul(y,exp(x))),grad)", f"mul(grad,expm1({_BELOW_ZERO}))"),
    _row(
        "celu",
        2,
        lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x / alpha)),
        _choose(_POSITIVE, "1", f"exp(div({_BELOW_ZERO},y))"),
    ),
    _row(
        "selu",
        1,
        _selu,
        f"mul(grad,where(le(out,0),add(out,{SELU_ALPHA * SELU_SCALE}),{SELU_SCALE}))",
    ),
    _row("sigmoid", 1, sigmoid, "mul(grad,mul(out,sub(1,out)))"),
    _row(
        "logsigmoid",
        1,
        lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
        "mul(grad,sigmoid(neg(x)))",
    ),
    _row(
        "silu",
        1,
        lambda x: x * sigmoid(x),
        "mul(grad,mul(sigmoid(x),add(1,mul(x,sub(1,sigmoid(x))))))",
    ),
    _row(
        "mish",
        1,
        lambda x: x * np.tanh(np.logaddexp(x, 0)),
        "mul(grad,add(tanh(softplus(x,1,20)),mul(mul(x,sigmoid(x)),sub(1,square(tanh(softplus(x,1,20)))))))",
    ),
    _row(
        "gelu",
        1,
        lambda x: 0.5 * x * (1 + erf(x * _ROOT_HALF)),
        f"mul(grad,add(mul(0.5,add(1,erf(mul(x,{_ROOT_HALF})))),mul({0.5 * _ROOT_2_BY_PI},mul(x,exp(mul(-0.5,square(x)))))))",
    ),
    _row(
        "gelu_tanh",
        1,
        _gelu_tanh,
        f"mul(mul(0.5,grad),add(add(1,{_GELU_TANH}),mul(mul(x,sub(1,square({_GELU_TANH}))),"
        f"mul({_ROOT_2_BY_PI},add(1,mul({3 * _CUBIC},square(x)))))))",
    ),
    _row("softplus", 3, _softplus, _choose("sign(relu(sub(mul(x,y),z)))", "1", "sigmoid(mul(x,y))")),
    _row("softsign", 1, lambda x: x / (1 + np.abs(x)), "div(grad,square(add(1,abs(x))))"),
    _row(
        "softshrink",
        2,
        lambda x, bound: np.sign(x) * np.maximum(np.abs(x) - bound, 0),
        "mul(grad,abs(sign(out)))",
    ),
    _row(
        "hardshrink",
        2,
        lambda x, bound: np.where((x >= -bound) & (x <= bound), 0, x),
        "mul(grad,abs(sign(out)))",
    ),
    _row("tanhshrink", 1, lambda x: x - np.tanh(x), "mul(grad,square(tanh(x)))"),
    _row(
        "hardsigmoid",
        1,
        lambda x: np.clip(x + 3, 0, 6) / 6,
        "div(mul(grad,mul(sign(out),sign(sub(1,out)))),6)",
    ),
    _row(
        "hardswish",
        1,
        lambda x: x * np.clip(x + 3, 0, 6) / 6,
        "where(le(x,-3),0,where(lt(x,3),mul(grad,add(div(x,3),0.5)),grad))",
    ),
)

ACTIVATIONS: dict[str, Function] = {row.name: row for row in _ROWS}
ALL_FUNCTIONS: dict[str, Function] = FUNCTIONS | ACTIVATIONS | COMPARISONS
