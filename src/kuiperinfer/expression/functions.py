"""The functions of the expression language: one row a function.

A row says how many arguments a function takes, which NumPy function it is, which dtypes it takes and gives, and its
derivative. The NumPy function gets all arguments in the compute dtype of one common dtype: what PyTorch promotes the
arguments to, sent through `common`. Its result has the dtype `result` of that. Python numbers among themselves follow
Python (`number`), or NumPy in double precision where Python has no such function.

A derivative is one expression an argument: the gradient that this argument gets, made of the arguments `x`, `y` and `z`, the
result `out` and the result's gradient `grad`. "0" is a gradient that is zero everywhere; None marks a function without one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ..dtypes import ALL, Array, DType, Scalar, TensorSpec, i64, to_float, to_real
from ..errors import DTypeError, InputError
from ..records import dataclass
from .erf import erf

Argument: TypeAlias = "TensorSpec | Scalar"

_ANY = ("bool", "int", "float", "complex")
_REAL = ("bool", "int", "float")
_NO_BOOL = ("int", "float", "complex")
_ORDERED = ("int", "float")


def _same(dtype: DType) -> DType:
    return dtype


def _accept(arguments: Sequence[Argument], common: DType) -> None:
    pass


@dataclass(frozen=True)
class Function:
    """One function; see the module's docstring.

    `numpy` is None for the two functions that do not calculate: `size` looks at a shape, `int` at a value. `kinds` are the
    kinds that the common dtype may have; `check` refuses what else PyTorch refuses. `float_parameters`: beside an f16 or
    bf16 tensor, a later argument without dimensions stays in float32, where other functions round it first.
    `tensors`: PyTorch takes tensors alone, so a number stands for a 0-d tensor. The last `optional` arguments may be absent.
    """

    name: str
    arity: int
    numpy: Callable[..., Array] | None
    derivative: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = _ANY
    common: Callable[[DType], DType] = _same
    result: Callable[[DType], DType] = _same
    number: Callable[..., Scalar] | None = None
    check: Callable[[Sequence[Argument], DType], None] = _accept
    float_parameters: bool = False
    tensors: bool = False
    optional: int = 0

    def arity_error(self, found: int) -> str | None:
        """What to tell someone who gives `found` arguments; None where that is right."""
        if self.arity - self.optional <= found <= self.arity:
            return None
        takes = f"{self.arity - self.optional} or {self.arity}" if self.optional else str(self.arity)
        return f"'{self.name}' takes {takes} argument{'' if takes == '1' else 's'}, found {found or 'none'}"


# ------------------------------------------------------------------------------------------- what NumPy lacks or does otherwise


def _rounding(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: x if x.dtype.kind in "iu" else function(x)


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


def _sign(x: Array) -> Array:
    """0 for NaN, as in PyTorch."""
    return x if x.dtype == np.bool_ else np.asarray(np.greater(x, 0).astype(x.dtype) - np.less(x, 0).astype(x.dtype))


def _identity(x: Array) -> Array:
    return x


def _refuse_zero(y: Array) -> None:
    if y.dtype.kind in "iu" and not np.all(y):
        raise InputError("division of integers by zero")


def _floor_divide(x: Array, y: Array) -> Array:
    _refuse_zero(y)
    return np.asarray(np.floor_divide(x, y))


def _fmod(x: Array, y: Array) -> Array:
    _refuse_zero(y)
    return np.asarray(np.fmod(x, y))


def _remainder(x: Array, y: Array) -> Array:
    """The sign of the divisor, but a zero keeps the dividend's: PyTorch's `remainder`, not NumPy's."""
    rest = _fmod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _pow(x: Array, y: Array) -> Array:
    """Powers of integers wrap around; negative ones are cut to integers, and 0 to a negative power is 0."""
    if x.dtype.kind not in "iu":
        return np.asarray(np.power(x, y))
    negative = y < 0
    odd = (y & 1).astype(bool)
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0)).astype(x.dtype)
    return np.where(negative, inverse, np.power(x, np.where(negative, 0, y)))


def _logaddexp(x: Array, y: Array) -> Array:
    if x.dtype.kind != "c":
        return np.asarray(np.logaddexp(x, y))
    swap = x.real < y.real
    larger, smaller = np.where(swap, y, x), np.where(swap, x, y)
    return np.asarray(larger + np.log1p(np.exp(smaller - larger)))


def _left_shift(x: Array, count: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return np.where((count < 0) | (count >= bits), 0, np.left_shift(x, np.clip(count, 0, bits - 1))).astype(x.dtype)


def _right_shift(x: Array, count: Array) -> Array:
    """A count out of range leaves the sign alone."""
    bits = 8 * x.dtype.itemsize
    outside = (count < 0) | (count >= bits)
    shifted = np.right_shift(x, np.where(outside, bits - 1, count))
    return np.asarray(np.where(outside, 0, shifted).astype(x.dtype) if x.dtype.kind == "u" else shifted)


# ------------------------------------------------------------------------------------------- Python numbers


def _number_sign(x: Scalar) -> Scalar:
    if isinstance(x, complex):
        raise TypeError
    return type(x)((x > 0) - (x < 0))


def _number_fmod(x: float, y: float) -> float:
    return (abs(x) % abs(y)) * (-1 if x < 0 else 1)


def _number_pow(x: Scalar, y: Scalar) -> Scalar:
    if not (isinstance(x, int) and isinstance(y, int)):
        dtype = np.complex128 if isinstance(x, complex) or isinstance(y, complex) else np.float64
        with np.errstate(all="ignore"):
            inexact: Scalar = np.power(np.asarray(x, dtype), np.asarray(y, dtype)).item()
        return inexact
    if abs(x) > 1 and y >= 64:
        raise OverflowError
    exact: Scalar = x**y
    return exact


def _number_shift(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def shift(x: int, count: int) -> int:
        if count >= 64:
            raise OverflowError
        return function(x, count)

    return shift


# ------------------------------------------------------------------------------------------- what PyTorch refuses besides


def _refuse_bool(arguments: Sequence[Argument], common: DType) -> None:
    for argument in arguments:
        if isinstance(argument, bool) or (isinstance(argument, TensorSpec) and argument.dtype.kind == "bool"):
            raise DTypeError("'sub' does not take bool; use xor, or convert to a number first")


def _refuse_power(arguments: Sequence[Argument], common: DType) -> None:
    exponent = arguments[1]
    if common.kind == "int" and isinstance(exponent, int) and not 0 <= exponent <= np.iinfo(common.storage).max:
        raise InputError(f"'pow': {common.name} cannot be raised to the power {exponent}; convert to float first")


# ------------------------------------------------------------------------------------------- the table


def _real_function(name: str, numpy: Callable[..., Array], derivative: str) -> Function:
    """Of one argument, with values in between: integers become f32."""
    return Function(name, 1, numpy, (derivative,), common=to_float)


def _round(name: str, numpy: Callable[..., Array], number: Callable[..., Scalar]) -> Function:
    """To whole numbers, which have no slope; a Python float becomes an int."""
    return Function(name, 1, _rounding(numpy), ("0",), _ORDERED, number=number)


def _larger_or_smaller(name: str, numpy: Callable[..., Array], x: str, y: str) -> Function:
    """Gradients go to the one that was taken, half to each of two equals; to both where one is NaN."""
    share = "where(lt({0},{1}),0,where(eq({0},{1}),div(grad,2),grad))"
    return Function(name, 2, numpy, (share.format(x, y), share.format(y, x)), _REAL, tensors=True)


def _bitwise(name: str, numpy: Callable[..., Array], number: Callable[..., Scalar]) -> Function:
    return Function(name, 2, numpy, None, ("bool", "int"), number=number)


def _cast(name: str, dtype: DType) -> Function:
    kinds: dict[str, Callable[..., Scalar]] = {"bool": bool, "int": int, "float": float, "complex": complex}
    derivative = ("grad",) if dtype.kind in ("float", "complex") else None
    return Function(name, 1, _identity, derivative, common=lambda _: dtype, number=kinds[dtype.kind])


# 1 at the origin, where PyTorch's gradient is 0.
_SQUARED_RADIUS = "add(add(square(x),square(y)),sub(1,sign(add(square(x),square(y)))))"

_ROWS = (
    Function("size", 2, None, optional=1),
    Function("int", 1, None, number=int),
    Function("abs", 1, np.abs, ("mul(grad,sign(x))",), _NO_BOOL, result=to_real, number=abs),
    Function("neg", 1, np.negative, ("neg(grad)",), _NO_BOOL, number=operator.neg),
    Function("sign", 1, _sign, ("0",), _REAL, number=_number_sign),
    Function(
        "square",
        1,
        np.square,
        ("mul(grad,mul(2,x))",),
        common=lambda dtype: i64 if dtype.kind == "bool" else dtype,
        number=lambda x: x * x,
    ),
    _round("ceil", np.ceil, math.ceil),
    _round("floor", np.floor, math.floor),
    _round("round", np.rint, round),
    _round("trunc", np.trunc, math.trunc),
    Function("reciprocal", 1, np.reciprocal, ("neg(mul(grad,square(out)))",), common=to_float, number=lambda x: 1 / x),
    _real_function("sqrt", np.sqrt, "div(grad,mul(2,out))"),
    _real_function("rsqrt", _rsqrt, "mul(-0.5,mul(grad,mul(out,square(out))))"),
    _real_function("exp", np.exp, "mul(grad,out)"),
    _real_function("expm1", np.expm1, "mul(grad,add(out,1))"),
    _real_function("log", np.log, "div(grad,x)"),
    _real_function("log10", np.log10, "div(grad,mul(x,2.302585092994046))"),
    _real_function("log1p", np.log1p, "div(grad,add(x,1))"),
    _real_function("sin", np.sin, "mul(grad,cos(x))"),
    _real_function("cos", np.cos, "neg(mul(grad,sin(x)))"),
    _real_function("tan", np.tan, "mul(grad,add(square(out),1))"),
    _real_function("asin", np.arcsin, "mul(grad,rsqrt(sub(1,square(x))))"),
    _real_function("acos", np.arccos, "neg(mul(grad,rsqrt(sub(1,square(x)))))"),
    _real_function("atan", np.arctan, "div(grad,add(square(x),1))"),
    _real_function("sinh", np.sinh, "mul(grad,cosh(x))"),
    _real_function("cosh", np.cosh, "mul(grad,sinh(x))"),
    _real_function("tanh", np.tanh, "mul(grad,sub(1,square(out)))"),
    _real_function("asinh", np.arcsinh, "mul(grad,rsqrt(add(square(x),1)))"),
    _real_function("acosh", np.arccosh, "mul(grad,rsqrt(sub(square(x),1)))"),
    _real_function("atanh", np.arctanh, "div(grad,sub(1,square(x)))"),
    Function("erf", 1, erf, ("mul(grad,mul(1.1283791670955126,exp(neg(square(x)))))",), _REAL, to_float),
    Function("add", 2, np.add, ("grad", "grad"), number=operator.add),
    Function("sub", 2, np.subtract, ("grad", "neg(grad)"), number=operator.sub, check=_refuse_bool),
    Function("mul", 2, np.multiply, ("mul(grad,y)", "mul(grad,x)"), number=operator.mul, float_parameters=True),
    Function(
        "div",
        2,
        np.divide,
        ("div(grad,y)", "neg(mul(grad,div(div(x,y),y)))"),
        common=to_float,
        number=operator.truediv,
        float_parameters=True,
    ),
    Function("floor_divide", 2, _floor_divide, ("0", "0"), _ORDERED, number=operator.floordiv, float_parameters=True),
    Function("remainder", 2, _remainder, ("grad", "neg(mul(grad,floor_divide(x,y)))"), _ORDERED, number=operator.mod),
    Function("fmod", 2, _fmod, ("grad", "neg(mul(grad,trunc(div(x,y))))"), _ORDERED, number=_number_fmod),
    # The sign keeps 0 to the power of 0 from becoming infinity times zero, the choice keeps 0 * log(0) from becoming NaN.
    Function(
        "pow",
        2,
        _pow,
        ("mul(grad,mul(y,pow(x,sub(y,abs(sign(y))))))", "where(and(eq(x,0),ge(y,0)),0,mul(grad,mul(out,log(x))))"),
        _NO_BOOL,
        number=_number_pow,
        check=_refuse_power,
    ),
    Function(
        "atan2",
        2,
        np.arctan2,
        (f"mul(grad,div(y,{_SQUARED_RADIUS}))", f"neg(mul(grad,div(x,{_SQUARED_RADIUS})))"),
        _REAL,
        to_float,
        tensors=True,
    ),
    Function(
        "logaddexp",
        2,
        _logaddexp,
        ("div(grad,add(1,exp(sub(y,x))))", "div(grad,add(1,exp(sub(x,y))))"),
        ("float", "complex"),
        tensors=True,
    ),
    _larger_or_smaller("max", np.maximum, "x", "y"),
    _larger_or_smaller("maximum", np.maximum, "x", "y"),
    _larger_or_smaller("min", np.minimum, "y", "x"),
    _larger_or_smaller("minimum", np.minimum, "y", "x"),
    _bitwise("and", np.bitwise_and, operator.and_),
    _bitwise("or", np.bitwise_or, operator.or_),
    _bitwise("xor", np.bitwise_xor, operator.xor),
    Function("lshift", 2, _left_shift, None, ("int",), number=_number_shift(operator.lshift)),
    Function("rshift", 2, _right_shift, None, ("int",), number=operator.rshift),
    *(_cast(f"torch.{name}", dtype) for dtype in ALL for name in dtype.torch_names),
)

FUNCTIONS: dict[str, Function] = {row.name: row for row in _ROWS}
