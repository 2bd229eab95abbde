"""Operators and methods of tensors that calculate."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..dtypes import Scalar, broadcast_shapes, widen
from ..errors import DTypeError, InputError
from . import autograd
from .casting import as_dtype, is_number
from .operand import OPERAND_TYPES, as_operand
from .operation import Elementwise, apply, elementwise
from .operations import joining, ordering, product, reduction

if TYPE_CHECKING:
    from .tensor import Tensor


def elementwise_call(function: str, *operands: Any) -> Any:
    """A function of the tables of `expression`, applied to tensors and numbers, of which one at least is a tensor."""
    return apply(elementwise(function, len(operands)), *operands)


def _binary(function: str, swap: bool = False) -> Any:
    made: list[Elementwise] = []

    def method(self: Tensor, other: Any) -> Any:
        if type(other) not in OPERAND_TYPES:
            other = as_operand(other)
            if other is None:
                return NotImplemented
        if not made:
            made.append(elementwise(function, 2))
        return apply(made[0], other, self) if swap else apply(made[0], self, other)

    return method


def _named(function: str) -> Any:
    """The method beside an operator: what is no operand is an error, and no other class is asked."""

    def method(self: Tensor, other: Any) -> Any:
        return elementwise_call(function, self, other)

    method.__name__ = function
    return method


def _scaled(function: str) -> Any:
    """As `_named`, with a number `alpha` that the second operand is multiplied by first."""

    def method(self: Tensor, other: Any, *, alpha: Scalar = 1) -> Any:
        return elementwise_call(function, self, _times(other, alpha))

    method.__name__ = function
    return method


def _times(operand: Any, alpha: Scalar) -> Any:
    if alpha == 1:
        return operand
    return operand * alpha if is_number(operand) else elementwise_call("mul", operand, alpha)


def _written(function: str) -> Any:
    """The method beside an operator that writes in place."""
    write = _in_place(function)

    def method(self: Tensor, other: Any, *, alpha: Scalar = 1) -> Any:
        result = write(self, _times(other, alpha))
        if result is NotImplemented:
            raise DTypeError(f"'{function}_' takes tensors and numbers, found {other!r}")
        return result

    method.__name__ = f"{function}_"
    return method


def _in_place(function: str) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        operand = as_operand(other)
        if operand is None:
            return NotImplemented
        old = self.clone() if _reads_later(function, self, operand) else self
        return _replace(self, power(old, operand) if function == "pow" else elementwise_call(function, old, operand))

    return method


def _reads_later(function: str, first: Tensor, second: Any) -> bool:
    """Whether a gradient will need the elements that `first` has before it is overwritten by the result."""
    rules = elementwise(function, 2).rules
    return any(0 in rule.used and autograd.wanted(one) for rule, one in zip(rules, (first, second), strict=False))


def _replace(tensor: Tensor, value: Tensor) -> Tensor:
    """Takes the values of a result of its own."""
    if value.dtype.kind not in _FITTING[tensor.dtype.kind]:
        raise DTypeError(
            f"a result of dtype {value.dtype} cannot be written into a tensor of dtype {tensor.dtype}; "
            "convert the tensor with to() first"
        )
    return tensor.copy_(value)


_FITTING = {
    "bool": ("bool",),
    "int": ("bool", "int"),
    "float": ("bool", "int", "float"),
    "complex": ("bool", "int", "float", "complex"),
}


def power(base: Any, exponent: Any) -> Any:
    """base ** exponent; an exponent that is a number is part of the code, since few are in use and most have short cuts."""
    if isinstance(exponent, (bool, int, float)):
        return apply(elementwise("pow", 1, (exponent,)), base)
    return elementwise_call("pow", base, exponent)


def _root(sums: Any, p: float) -> Any:
    """The p-th root of sums of powers; where one is zero its gradient is zero, as that of PyTorch's norms."""
    if not autograd.wanted(sums):
        return sums.sqrt() if p == 2 else sums ** (1 / p)
    is_zero = sums == 0
    others = joining.where(is_zero, 1.0, sums)
    return joining.where(is_zero, 0.0, others.sqrt() if p == 2 else others ** (1 / p))


def _unary(function: str, text: str) -> Any:
    def method(self: Tensor) -> Any:
        return elementwise_call(function, self)

    method.__name__ = function
    method.__doc__ = text
    return method


class Arithmetic:
    """The calculating half of `Tensor`. Results are put off until they are needed; see `lazy`."""

    __slots__ = ()
    __array_priority__ = 1000  # NumPy arrays leave operators to us; its functions see a tensor as an array

    __add__, __radd__, __iadd__ = _binary("add"), _binary("add", swap=True), _in_place("add")
    __sub__, __rsub__, __isub__ = _binary("sub"), _binary("sub", swap=True), _in_place("sub")
    __mul__, __rmul__, __imul__ = _binary("mul"), _binary("mul", swap=True), _in_place("mul")
    __truediv__, __rtruediv__, __itruediv__ = _binary("div"), _binary("div", swap=True), _in_place("div")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _binary("floor_divide", swap=True)
    __ifloordiv__ = _in_place("floor_divide")
    __mod__, __rmod__, __imod__ = _binary("remainder"), _binary("remainder", swap=True), _in_place("remainder")
    __and__, __rand__, __iand__ = _binary("and"), _binary("and", swap=True), _in_place("and")
    __or__, __ror__, __ior__ = _binary("or"), _binary("or", swap=True), _in_place("or")
    __xor__, __rxor__, __ixor__ = _binary("xor"), _binary("xor", swap=True), _in_place("xor")
    __lshift__, __rlshift__ = _binary("lshift"), _binary("lshift", swap=True)
    __rshift__, __rrshift__ = _binary("rshift"), _binary("rshift", swap=True)
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__, __ne__ = _binary("eq"), _binary("ne")
    __rpow__, __ipow__ = _binary("pow", swap=True), _in_place("pow")

    def __pow__(self, exponent: Any) -> Any:
        operand = as_operand(exponent)
        return NotImplemented if operand is None else power(self, operand)

    def __neg__(self) -> Any:
        return elementwise_call("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return elementwise_call("abs", self)

    def __invert__(self) -> Any:
        tensor = cast("Tensor", self)
        return elementwise_call("xor", self, True if tensor.dtype.kind == "bool" else -1)

    def __matmul__(self, other: Any) -> Any:
        return (
            product.matmul(cast("Tensor", self), cast("Tensor", other))
            if isinstance(other, Arithmetic)
            else NotImplemented
        )

    # --------------------------------------------------------------------------------------- functions of every element

    neg = _unary("neg", "-x")
    abs = _unary("abs", "|x|")
    sign = _unary("sign", "-1, 0 or 1; 0 for NaN")
    square = _unary("square", "x * x")
    ceil = _unary("ceil", "The next integer above.")
    floor = _unary("floor", "The next integer below.")
    round = _unary("round", "The nearest integer, the even one of two.")
    trunc = _unary("trunc", "The next integer towards zero.")
    reciprocal = _unary("reciprocal", "1 / x")
    sqrt = _unary("sqrt", "The square root.")
    rsqrt = _unary("rsqrt", "1 / sqrt(x)")
    exp = _unary("exp", "e to the power x")
    expm1 = _unary("expm1", "exp(x) - 1, without loss near 0")
    log = _unary("log", "The natural logarithm.")
    log10 = _unary("log10", "The logarithm to base 10.")
    log1p = _unary("log1p", "log(1 + x), without loss near 0")
    sin = _unary("sin", "The sine of radians.")
    cos = _unary("cos", "The cosine of radians.")
    tan = _unary("tan", "The tangent of radians.")
    asin = _unary("asin", "The inverse of sin.")
    acos = _unary("acos", "The inverse of cos.")
    atan = _unary("atan", "The inverse of tan.")
    sinh = _unary("sinh", "The hyperbolic sine.")
    cosh = _unary("cosh", "The hyperbolic cosine.")
    tanh = _unary("tanh", "The hyperbolic tangent.")
    asinh = _unary("asinh", "The inverse of sinh.")
    acosh = _unary("acosh", "The inverse of cosh.")
    atanh = _unary("atanh", "The inverse of tanh.")
    erf = _unary("erf", "The error function.")
    relu = _unary("relu", "max(x, 0)")
    sigmoid = _unary("sigmoid", "1 / (1 + exp(-x))")

    # --------------------------------------------------------------------------------------- functions of two

    add, sub, mul, div = _scaled("add"), _scaled("sub"), _named("mul"), _named("div")
    eq, ne, lt, le, gt, ge = (_named(name) for name in ("eq", "ne", "lt", "le", "gt", "ge"))
    maximum, minimum, atan2, fmod = (_named(name) for name in ("maximum", "minimum", "atan2", "fmod"))
    remainder, floor_divide, logaddexp = (_named(name) for name in ("remainder", "floor_divide", "logaddexp"))
    add_, sub_, mul_, div_ = _written("add"), _written("sub"), _written("mul"), _written("div")

    def pow(self, exponent: Any) -> Any:
        """x ** exponent"""
        return power(self, exponent)

    def clamp(self, min: Scalar | None = None, max: Scalar | None = None) -> Any:
        """The nearest number between `min` and `max`, either of which may be left out; NaN stays."""
        if min is None and max is None:
            raise InputError("clamp: expected min, max or both")
        tensor = cast("Tensor", self)
        if tensor.dtype.kind == "float":
            return elementwise_call("clamp", self, -math.inf if min is None else min, math.inf if max is None else max)
        at_least = self if min is None else elementwise_call("maximum", self, min)
        return at_least if max is None else elementwise_call("minimum", at_least, max)

    def where(self, condition: Any, other: Any) -> Any:
        """The tensor's elements where `condition` is true, those of `other` elsewhere."""
        return joining.where(condition, cast("Tensor", self), other)

    def masked_fill(self, mask: Tensor, value: Scalar) -> Any:
        """The tensor with a number where the mask is true."""
        return joining.masked_fill(cast("Tensor", self), mask, value)

    def gather(self, dim: int, index: Tensor) -> Any:
        """The elements that `index` names along a dimension."""
        return joining.gather(cast("Tensor", self), dim, index)

    def index_select(self, dim: int, index: Tensor) -> Any:
        """The positions along a dimension that `index` names."""
        return joining.index_select(cast("Tensor", self), dim, index)

    def lerp(self, end: Any, weight: Any) -> Any:
        """x + weight * (end - x)"""
        return self + elementwise_call("mul", weight, elementwise_call("sub", end, self))

    # --------------------------------------------------------------------------------------- reductions and products

    def sum(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        """The sum, of all or along dimensions; integers and bools give an i64."""
        return reduction.sum_(cast("Tensor", self), dim, keepdim, None if dtype is None else as_dtype(dtype))

    def mean(self, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        """The arithmetic mean, of all or along dimensions."""
        return reduction.mean(cast("Tensor", self), dim, keepdim, None if dtype is None else as_dtype(dtype))

    def var(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Any:
        """The variance: squares divided by the count less `correction`, which is 1, or 0 where `unbiased` is False."""
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if unbiased is not None and correction is not None:
            raise InputError(f"expected unbiased or correction, found both: {unbiased} and {correction}")
        divisor_less = correction if correction is not None else 0 if unbiased is False else 1
        return reduction.variance(cast("Tensor", self), dim, keepdim, divisor_less)

    def std(
        self, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None
    ) -> Any:
        """The standard deviation: the root of `var`."""
        return _root(self.var(dim, unbiased, keepdim, correction=correction), 2)

    def prod(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The product of all elements, or along a dimension."""
        return apply(reduction.PROD, self, dim=None if dim is None else (dim,), keepdim=keepdim)

    def amax(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The largest element; its gradient is shared among equals."""
        return apply(reduction.AMAX, self, dim=reduction.dims(dim), keepdim=keepdim)

    def amin(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest element; its gradient is shared among equals."""
        return apply(reduction.AMIN, self, dim=reduction.dims(dim), keepdim=keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The largest element; along a dimension the pair (values, indices)."""
        return reduction.extreme(True, cast("Tensor", self), dim, keepdim)

    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The smallest element; along a dimension the pair (values, indices)."""
        return reduction.extreme(False, cast("Tensor", self), dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Where the largest element stands: the first of equals."""
        return apply(reduction.ARGMAX, self, dim=dim, keepdim=keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Where the smallest element stands: the first of equals."""
        return apply(reduction.ARGMIN, self, dim=dim, keepdim=keepdim)

    def logsumexp(self, dim: Any, keepdim: bool = False) -> Any:
        """log(sum(exp(x))), without overflow."""
        return apply(reduction.LOGSUMEXP, self, dim=reduction.dims(dim), keepdim=keepdim)

    def all(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Whether no element is zero."""
        return apply(reduction.ALL, self, dim=reduction.dims(dim), keepdim=keepdim)

    def norm(self, p: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
        """The p-norm: (sum |x| ** p) ** (1 / p), for infinity the largest magnitude."""
        if not isinstance(p, (int, float)):
            raise InputError(f"norm: expected a number, found p={p!r}")
        if math.isinf(p):
            return self.abs().amax(dim, keepdim) if p > 0 else self.abs().amin(dim, keepdim)
        if p == 0:
            return (self != 0).sum(dim, keepdim).to(cast("Tensor", self).dtype)
        return _root((self.square() if p == 2 else self.abs() ** p).sum(dim, keepdim), p)

    def softmax(self, dim: int, dtype: Any = None) -> Any:
        """exp(x) / sum(exp(x)) along `dim`."""
        from .functional import softmax

        return softmax(cast("Tensor", self), dim, dtype)

    def log_softmax(self, dim: int, dtype: Any = None) -> Any:
        """log(softmax(x)) along `dim`."""
        from .functional import log_softmax

        return log_softmax(cast("Tensor", self), dim, dtype)

    def isnan(self) -> Any:
        """Whether each element is NaN."""
        return apply(reduction.IS_NAN, self)

    def isinf(self) -> Any:
        """Whether each element is infinite."""
        return apply(reduction.IS_INF, self)

    def isfinite(self) -> Any:
        """Whether each element is neither NaN nor infinite."""
        return apply(reduction.IS_FINITE, self)

    def allclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether all elements differ by at most atol + rtol * |other|; with `equal_nan` NaN equals NaN."""
        if not isinstance(other, Arithmetic):
            raise DTypeError(f"allclose: expected a tensor, found {other!r}")
        first, second = (widen(cast("Tensor", one).array) for one in (self, other))
        broadcast_shapes(first.shape, second.shape)
        return bool(np.allclose(first, second, rtol, atol, equal_nan))

    def cumsum(self, dim: int, dtype: Any = None) -> Any:
        """The sums of the elements up to each one along a dimension."""
        return apply(ordering.CUMSUM, self, dim=dim, dtype=None if dtype is None else as_dtype(dtype))

    def sort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
        """The elements in order along a dimension, and where they stood: (values, indices). Equals keep their order."""
        return ordering.sort(cast("Tensor", self), dim, descending)

    def argsort(self, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
        """The indices that put the elements in order along a dimension."""
        return apply(ordering.ARGSORT, self, dim=dim, descending=descending)

    def topk(self, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        """The `k` largest or smallest elements along a dimension, in order, and where they stand: (values, indices)."""
        return ordering.topk(cast("Tensor", self), k, dim, largest)

    def any(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Whether an element is not zero."""
        return apply(reduction.ANY, self, dim=reduction.dims(dim), keepdim=keepdim)

    def matmul(self, other: Tensor) -> Any:
        """Products of the last two dimensions, the others broadcast."""
        return product.matmul(cast("Tensor", self), other)

    # --------------------------------------------------------------------------------------- gradients

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was not calculated from one that requires a gradient."""
        return cast("Tensor", self).grad_fn is None

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Sets `requires_grad`; returns the tensor."""
        tensor = cast("Tensor", self)
        tensor.requires_grad = requires_grad
        return tensor

    def backward(self, gradient: Any = None, retain_graph: bool = False, inputs: Any = None) -> None:
        """Adds the gradient of this tensor to the `grad` of all leaves that it was calculated from."""
        autograd.backward(cast("Tensor", self), gradient, retain_graph, inputs)

    def retain_grad(self) -> None:
        """Lets `backward` keep the gradient of this tensor in `grad`, though it is no leaf."""
        autograd.retain_grad(cast("Tensor", self))
