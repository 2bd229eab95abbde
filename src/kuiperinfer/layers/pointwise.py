"""Functions of every element under PyTorch's names: those of the expression language, and a few that it does not have.

The converter makes expressions of most of them, but leaves some over (`aten::`), and models that were made by other means
have them as operators.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import polynomial

from ..dtypes import Array, DType, TensorSpec, bool_, result_type, scalar_dtype, to_float
from ..errors import DTypeError, InputError
from ..expression import FUNCTIONS, Expression, evaluate, infer, parse
from ..records import dataclass
from .activation import as_floating, calculate
from .base import Layer, Spec, Value, register, spec_of
from .checks import expect_kind

# ------------------------------------------------------------------------------------------- functions of expressions

_OTHER_NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "bitwise_and": "and",
    "bitwise_left_shift": "lshift",
    "bitwise_or": "or",
    "bitwise_right_shift": "rshift",
    "bitwise_xor": "xor",
    "fix": "trunc",
    "multiply": "mul",
    "negative": "neg",
    "true_divide": "div",
}
_SIGNS = ("and", "or", "xor", "lshift", "rshift")  # what PyTorch calls otherwise than the language of expressions


def _types(functions: Mapping[str, str]) -> dict[str, str]:
    """Functions by operator type: PyTorch's names, and those of operators that the converter leaves over."""
    return {f"{prefix}{name}": function for name, function in functions.items() for prefix in ("torch.", "aten::")}


def _functions(arity: int, *left_out: str) -> dict[str, str]:
    """Operator types, and the functions of so many arguments that they are; not the casts, named after dtypes."""
    names = {name: name for name in FUNCTIONS if not name.startswith("torch.")} | _OTHER_NAMES
    rows = {name: FUNCTIONS[function] for name, function in names.items() if name not in left_out}
    return _types({name: row.name for name, row in rows.items() if row.numpy is not None and row.arity == arity})


UNARY = _functions(1)
# The rest of two arguments is below, takes more arguments, or chooses between elements.
BINARY = _functions(2, *"add sub div pow max maximum min minimum".split(), *_SIGNS)
BINARY |= {f"aten::__{name}__": name for name in _SIGNS} | {"aten::floordiv": "floor_divide"}


@functools.cache
def _parsed(formula: str) -> Expression:
    return parse(formula)


@register(*UNARY)
@dataclass(frozen=True, kw_only=True)
class Unary(Layer):
    """The function that the type names. (*) -> (*), as in an expression"""

    widens = False

    def infer(self, input: Spec) -> Spec:
        return infer(_parsed(f"{UNARY[self.type_name]}(@0)"), [input])

    def forward(self, input: Value) -> Value:
        return evaluate(_parsed(f"{UNARY[self.type_name]}(@0)"), [input])


@register(*BINARY)
@dataclass(frozen=True, kw_only=True)
class Binary(Layer):
    """The function that the type names, of tensors or numbers. (*), (*) -> (*), as in an expression"""

    widens = False

    def infer(self, input: Spec, other: Spec) -> Spec:
        return infer(_parsed(f"{BINARY[self.type_name]}(@0,@1)"), [input, other])

    def forward(self, input: Value, other: Value) -> Value:
        return evaluate(_parsed(f"{BINARY[self.type_name]}(@0,@1)"), [input, other])


@register("torch.pow", "aten::pow")
@dataclass(frozen=True, kw_only=True)
class Power(Layer):
    """input to the power of exponent, tensors or numbers. (*), (*) -> (*). torch.pow"""

    widens = False

    def infer(self, input: Spec, exponent: Spec) -> Spec:
        return infer(_parsed("pow(@0,@1)"), [input, exponent])

    def forward(self, input: Value, exponent: Value) -> Value:
        return evaluate(_parsed("pow(@0,@1)"), [input, exponent])


SUMS = _types(
    {
        "add": "add(@0,mul(@1,@2))",
        "sub": "sub(@0,mul(@1,@2))",
        "subtract": "sub(@0,mul(@1,@2))",
        "rsub": "sub(@1,mul(@0,@2))",
    }
)


@register(*SUMS)
@dataclass(frozen=True, kw_only=True)
class ScaledSum(Layer):
    """input ± alpha * other, for rsub other - alpha * input, of tensors or numbers. (*), (*) -> (*). torch.add, torch.sub"""

    widens = False

    def infer(self, input: Spec, other: Spec, alpha: Spec = 1) -> Spec:
        tree, alpha = self._formula(input, other, alpha)
        return infer(tree, [input, other, alpha])

    def forward(self, input: Value, other: Value, alpha: Value = 1) -> Value:
        tree, alpha = self._formula(spec_of(input), spec_of(other), alpha)
        return evaluate(tree, [input, other, alpha])

    def _formula(self, input: Spec, other: Spec, alpha: Any) -> tuple[Expression, Any]:
        """The formula, and alpha such that it does not change the result's dtype."""
        formula = SUMS[self.type_name]
        if type(alpha) is int and alpha == 1:
            return _parsed(formula.replace("mul(@1,@2)", "@1").replace("mul(@0,@2)", "@0")), alpha
        dtype = result_type(input, other)
        if isinstance(alpha, (bool, int, float, complex)) and scalar_dtype(alpha).kind not in _ALPHAS[dtype.kind]:
            raise DTypeError(f"alpha={alpha}: expected {' or '.join(_ALPHAS[dtype.kind])} beside {dtype}")
        return _parsed(formula), bool(alpha) if dtype is bool_ else alpha


# The kinds of alpha that PyTorch takes, by the kind of the operands' common dtype.
_ALPHAS = {
    "bool": ("bool", "int"),
    "int": ("int",),
    "float": ("int", "float"),
    "complex": ("int", "float", "complex"),
}


@register("torch.div", "torch.divide", "aten::div", "aten::divide")
@dataclass(frozen=True, kw_only=True)
class Quotient(Layer):
    """input / other, rounded down with `floor`, towards zero with `trunc`. (*), (*) -> (*). torch.div"""

    rounding_mode: str | None = None

    schemas: ClassVar[Mapping[int, str]] = {3: "input other rounding_mode"}
    widens = False

    def __post_init__(self) -> None:
        if self.rounding_mode not in (None, "floor", "trunc"):
            raise InputError(f"rounding_mode={self.rounding_mode}: expected None, floor or trunc")

    def infer(self, input: Spec, other: Spec) -> Spec:
        return infer(self._formula(input, other), [input, other])

    def forward(self, input: Value, other: Value) -> Value:
        return evaluate(self._formula(spec_of(input), spec_of(other)), [input, other])

    def _formula(self, input: Spec, other: Spec) -> Expression:
        if self.rounding_mode is None:
            return _parsed("div(@0,@1)")
        if self.rounding_mode == "floor":
            return _parsed("floor_divide(@0,@1)")
        whole = result_type(input, other).kind in ("bool", "int")
        return _parsed("floor_divide(add(@0,neg(fmod(@0,@1))),@1)" if whole else "trunc(div(@0,@1))")


# ------------------------------------------------------------------------------------------- functions of their own


def _frac(x: Array) -> Array:
    return x - np.trunc(x)


def _sgn(x: Array) -> Array:
    """x / |x|, and 0 for zero and NaN of real numbers."""
    return np.sign(x) if x.dtype.kind == "c" else calculate("sign", x)


def _signbit(x: Array) -> Array:
    return np.signbit(x) if x.dtype.kind == "f" else x < 0


# B_2k / (2k (2k - 1)), of Stirling's series: the first eight terms are exact to the last bit from 8 on.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def lgamma(x: Array) -> Array:
    """log|gamma(x)| of a float array, in its dtype, with an absolute error of a few ulp of log|gamma(x + 8)|."""
    wide = x.astype(np.float64)
    size = np.where(wide < 0.5, 1 - wide, wide)  # gamma(x) gamma(1 - x) = pi / sin(pi x)
    product = np.ones_like(size)
    for shift in range(8):
        product *= np.where(size < 8, size + shift, 1)
    shifted = np.where(size < 8, size + 8, size)
    series = polynomial.polyval(1 / np.square(shifted), _STIRLING) / shifted
    result = (shifted - 0.5) * np.log(shifted) - shifted + 0.5 * math.log(2 * math.pi) + series - np.log(product)
    result = np.where((size == 1) | (size == 2), 0.0, result)
    sine = np.abs(np.sin(np.pi * (wide - np.rint(wide))))
    result = np.where(wide < 0.5, np.log(np.pi / sine) - result, result)
    return np.where(np.isinf(wide), np.inf, result).astype(x.dtype)


def _same(dtype: DType) -> DType:
    return dtype


@dataclass(frozen=True)
class Function:
    """What an operator does to an array, the kinds of dtypes that it takes, and the dtype that it gives."""

    numpy: Callable[[Array], Array]
    kinds: tuple[str, ...]
    result: Callable[[DType], DType] = _same


_REAL = ("bool", "int", "float")
OWN = {
    "torch.lgamma": Function(lgamma, _REAL, to_float),
    "torch.positive": Function(np.positive, ("int", "float", "complex")),
    "torch.exp2": Function(np.exp2, (*_REAL, "c64", "c128"), to_float),
    "torch.log2": Function(np.log2, (*_REAL, "c64", "c128"), to_float),
    "torch.frac": Function(_frac, ("float",)),
    "torch.bitwise_not": Function(np.invert, ("bool", "int")),
    "torch.sgn": Function(_sgn, (*_REAL, "c64", "c128")),
    "torch.signbit": Function(_signbit, _REAL, lambda _: bool_),
    "torch.sinc": Function(np.sinc, (*_REAL, "c64", "c128"), to_float),
    "torch.deg2rad": Function(np.deg2rad, _REAL, to_float),
    "torch.rad2deg": Function(np.rad2deg, _REAL, to_float),
}


@register(*OWN, *(name.replace("torch.", "aten::") for name in OWN))
@dataclass(frozen=True, kw_only=True)
class Own(Layer):
    """The function that the type names; see `OWN`. (*) -> (*)"""

    def infer(self, input: TensorSpec) -> TensorSpec:
        function = self._function()
        expect_kind(input, *function.kinds)
        return input.like(dtype=function.result(input.dtype))

    def forward(self, input: Array) -> Array:
        function = self._function()
        return function.numpy(as_floating(input) if function.result is to_float else input)

    def _function(self) -> Function:
        return OWN[self.type_name.replace("aten::", "torch.")]
