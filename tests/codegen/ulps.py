"""How vector functions are measured: one applied to many numbers, against float64, in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kuiperinfer.codegen.builder import Code
from kuiperinfer.codegen.spec import KernelSpec
from kuiperinfer.codegen.vector_math import emit_function
from kuiperinfer.dtypes import Array
from kuiperinfer.expression import ALL_FUNCTIONS

IN_SINGLE = {"fmod", "remainder", "floor_divide"}  # whose quotients, of 277 bits, fit no float64


@dataclass(frozen=True)
class Apply(KernelSpec):
    """A function of the table applied to `count` floats: operands, then the output."""

    name: str
    count: int

    @property
    def tasks(self) -> int:
        return 1

    def emit(self, code: Code) -> None:
        *operands, out = code.pointers(ALL_FUNCTIONS[self.name].arity + 1)

        def body(index: object, _: Sequence[object]) -> Sequence[object]:
            value = emit_function(code, self.name, *(code.load(code.at(operand, index)) for operand in operands))
            code.store(value, code.at(out, index))
            return ()

        code.loop(0, self.count, code.target.lanes, body)


def exact_values(name: str, arguments: Sequence[Array]) -> Array:
    """A function of float32 arguments, in float64."""
    if name == "erf":  # which NumPy has not, and this package writes itself
        return np.fromiter(map(math.erf, arguments[0].tolist()), np.float64, len(arguments[0]))
    function = ALL_FUNCTIONS[name].numpy
    assert function is not None
    with np.errstate(all="ignore"):
        wide = arguments if name in IN_SINGLE else [argument.astype(np.float64) for argument in arguments]
        return np.asarray(function(*wide), np.float64)


def errors_in_ulps(result: Array, exact: Array) -> Array:
    """|result - exact| in units in the last place of `exact` as a float32; infinite where NaN or a zero's sign is wrong.

    Infinity counts as 2**128, the number that would follow the largest one.
    """
    with np.errstate(invalid="ignore"):
        wide = result.astype(np.float64)
    wide = np.where(np.isinf(wide), np.copysign(2.0**128, wide), wide)
    limited = np.where(np.abs(exact) > 2.0**128, np.copysign(2.0**128, exact), exact)
    exponents = np.clip(np.frexp(np.where(np.isnan(limited), 0, limited))[1], -125, 128)
    with np.errstate(invalid="ignore"):
        errors = np.abs(wide - limited) / np.ldexp(1.0, exponents - 24)
    both_nan = np.isnan(result) & np.isnan(exact)
    wrong_sign = ((exact == 0) | (result == 0)) & (np.signbit(result) != np.signbit(exact))
    return np.where(both_nan, 0, np.where(np.isnan(errors) | wrong_sign, np.inf, errors))
