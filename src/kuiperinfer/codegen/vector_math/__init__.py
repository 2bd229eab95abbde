"""Functions of float32 vectors: polynomials, without calls, for any number of lanes.

`VECTOR_FUNCTIONS` has one row a function: how it is written, and the largest error in units in the last place that it has
over all of float32, subnormal results, infinities and NaN included, with fused multiply-adds and without. Signs of zeros are
those of C.

y = emit_function(code, "tanh", x)
"""

from __future__ import annotations

from collections.abc import Callable

from ...records import dataclass
from ..builder import Code, Vector
from . import activation, division, exponential, logarithm, trigonometry
from .lanes import Lanes


@dataclass(frozen=True)
class VectorFunction:
    """`ulps` is the error that is never exceeded, 0.5 for a correctly rounded result; None for what is made of others."""

    name: str
    emit: Callable[..., Lanes]
    ulps: float | None = 0.5


def _comparison(name: str, compare: Callable[[Lanes, Lanes], Lanes]) -> VectorFunction:
    return VectorFunction(name, lambda x, y: activation.truth(compare(x, y), x))


_ROWS = (
    VectorFunction("add", lambda x, y: x + y),
    VectorFunction("sub", lambda x, y: x - y),
    VectorFunction("mul", lambda x, y: x * y),
    VectorFunction("div", lambda x, y: x / y),
    VectorFunction("neg", lambda x: -x),
    VectorFunction("abs", abs),
    VectorFunction("sign", activation.sign),
    VectorFunction("square", lambda x: x * x),
    VectorFunction("reciprocal", lambda x: 1.0 / x),
    VectorFunction("max", activation.maximum),
    VectorFunction("maximum", activation.maximum),
    VectorFunction("min", activation.minimum),
    VectorFunction("minimum", activation.minimum),
    VectorFunction("floor", Lanes.floor),
    VectorFunction("ceil", Lanes.ceil),
    VectorFunction("trunc", Lanes.trunc),
    VectorFunction("round", Lanes.rint),
    VectorFunction("fmod", division.fmod),
    VectorFunction("remainder", division.remainder),
    VectorFunction("floor_divide", division.floor_divide),
    VectorFunction("sqrt", Lanes.sqrt),
    VectorFunction("rsqrt", lambda x: 1.0 / x.sqrt(), 1.5),
    VectorFunction("exp", exponential.exp, 3.0),
    VectorFunction("expm1", exponential.expm1, 2.0),
    VectorFunction("sigmoid", exponential.sigmoid, 4.0),
    VectorFunction("tanh", exponential.tanh, 3.0),
    VectorFunction("erf", exponential.erf, 2.5),
    VectorFunction("sinh", exponential.sinh, 0.6),
    VectorFunction("cosh", exponential.cosh, 0.6),
    VectorFunction("log", logarithm.log, 1.0),
    VectorFunction("log1p", logarithm.log1p, 2.0),
    VectorFunction("log10", logarithm.log10, 0.6),
    VectorFunction("asinh", logarithm.asinh, 0.6),
    VectorFunction("acosh", logarithm.acosh, 0.6),
    VectorFunction("atanh", logarithm.atanh, 0.6),
    VectorFunction("pow", logarithm.power, 0.6),
    VectorFunction("logaddexp", logarithm.logaddexp, 0.6),
    VectorFunction("sin", trigonometry.sin, 2.0),
    VectorFunction("cos", trigonometry.cos, 2.0),
    VectorFunction("tan", trigonometry.tan, 4.5),
    VectorFunction("asin", trigonometry.asin, 0.6),
    VectorFunction("acos", trigonometry.acos, 0.6),
    VectorFunction("atan", trigonometry.atan, 0.6),
    VectorFunction("atan2", trigonometry.atan2, 0.6),
    VectorFunction("torch.float", lambda x: x),
    VectorFunction("torch.float32", lambda x: x),
    _comparison("eq", Lanes.equals),
    _comparison("ne", Lanes.differs),
    _comparison("lt", Lanes.__lt__),
    _comparison("le", Lanes.__le__),
    _comparison("gt", Lanes.__gt__),
    _comparison("ge", Lanes.__ge__),
    VectorFunction("where", activation.where),
    *(
        VectorFunction(function.__name__, function, None)
        for function in (
            activation.relu,
            activation.relu6,
            activation.clamp,
            activation.threshold,
            activation.leaky_relu,
            activation.elu,
            activation.celu,
            activation.selu,
            activation.silu,
            activation.softplus,
            activation.logsigmoid,
            activation.mish,
            activation.gelu,
            activation.gelu_tanh,
            activation.softsign,
            activation.softshrink,
            activation.hardshrink,
            activation.tanhshrink,
            activation.hardsigmoid,
            activation.hardswish,
        )
    ),
)

VECTOR_FUNCTIONS: dict[str, VectorFunction] = {row.name: row for row in _ROWS}


def emit_function(code: Code, name: str, *arguments: Vector) -> Vector:
    """The value of a function of `VECTOR_FUNCTIONS`; all arguments are float32 vectors of equal length."""
    return VECTOR_FUNCTIONS[name].emit(*(Lanes(code, argument) for argument in arguments)).value


__all__ = ["VECTOR_FUNCTIONS", "Lanes", "VectorFunction", "emit_function"]
