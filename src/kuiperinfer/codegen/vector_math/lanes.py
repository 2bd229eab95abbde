"""Vectors with Python's operators, so that formulas of vector functions read as formulas.

A `Lanes` is an LLVM vector of floats (single or double), integers or bools; numbers beside it stand for a constant in every
lane. Comparisons are false for NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from llvmlite import ir

from ...records import dataclass
from ..builder import F32, I1, I32, I64, Code, splat_constant

F64 = ir.DoubleType()


@dataclass(frozen=True)
class Format:
    """What the bits of a float mean: `mantissa` bits, exponents biased by `bias`."""

    integer: ir.IntType
    mantissa: int
    bias: int

    @property
    def magic(self) -> float:
        """Added to a number of smaller size, rounds it to an integer, which then stands in the lowest bits."""
        return 1.5 * 2.0**self.mantissa


_FORMATS = {F32: Format(I32, 23, 127), F64: Format(I64, 52, 1023)}
_PAIRED_INTEGER = {F32: I32, F64: I64}
_PAIRED_FLOAT = {I32: F32, I64: F64}


@dataclass(frozen=True, eq=False)
class Lanes:
    """A vector value within the code under construction."""

    code: Code
    value: ir.Value

    # ---------------------------------------------------------------------------------------- types and constants

    @property
    def element(self) -> ir.Type:
        """The LLVM type of an element."""
        return self.value.type.element

    @property
    def format(self) -> Format:
        """The format of the floats."""
        return _FORMATS[self.element]

    def same(self, number: Operand) -> Lanes:
        """A number in every lane of a vector of this type; vectors stay."""
        if isinstance(number, Lanes):
            return number
        element = self.element
        number = int(number) if element not in _FORMATS else float(np.float32(number) if element == F32 else number)
        return Lanes(self.code, splat_constant(element, self.value.type.count, number))

    # ---------------------------------------------------------------------------------------- arithmetic

    def _binary(self, floats: str, integers: str, other: Operand, swap: bool = False) -> Lanes:
        a, b = self, self.same(other)
        if swap:
            a, b = b, a
        operation = getattr(self.code.builder, floats if self.element in _FORMATS else integers)
        return Lanes(self.code, operation(a.value, b.value))

    def __add__(self, other: Operand) -> Lanes:
        return self._binary("fadd", "add", other)

    def __radd__(self, other: float) -> Lanes:
        return self._binary("fadd", "add", other, swap=True)

    def __sub__(self, other: Operand) -> Lanes:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: float) -> Lanes:
        return self._binary("fsub", "sub", other, swap=True)

    def __mul__(self, other: Operand) -> Lanes:
        return self._binary("fmul", "mul", other)

    def __rmul__(self, other: float) -> Lanes:
        return self._binary("fmul", "mul", other, swap=True)

    def __truediv__(self, other: Operand) -> Lanes:
        return self._binary("fdiv", "fdiv", other)

    def __rtruediv__(self, other: float) -> Lanes:
        return self._binary("fdiv", "fdiv", other, swap=True)

    def __neg__(self) -> Lanes:
        return Lanes(self.code, self.code.builder.fneg(self.value))

    def __abs__(self) -> Lanes:
        return self._call("fabs")

    def _call(self, intrinsic: str, *others: Lanes) -> Lanes:
        arguments = [self.value, *(other.value for other in others)]
        return Lanes(self.code, self.code.call(self.code.overloaded(intrinsic, self.value.type), *arguments))

    def sqrt(self) -> Lanes:
        """The square root, rounded correctly."""
        return self._call("sqrt")

    def floor(self) -> Lanes:
        """The next integer below."""
        return self._call("floor")

    def ceil(self) -> Lanes:
        """The next integer above."""
        return self._call("ceil")

    def trunc(self) -> Lanes:
        """The next integer towards zero."""
        return self._call("trunc")

    def rint(self) -> Lanes:
        """The nearest integer, the even one of two."""
        return self._call("roundeven")

    def copysign(self, sign: Lanes) -> Lanes:
        """The absolute value with the sign of `sign`."""
        return self._call("copysign", sign)

    def at_least(self, low: float) -> Lanes:
        """max(x, low); NaN stays."""
        return Lanes(self.code, self.code.clamp_low(self.value, self.same(low).value))

    def at_most(self, high: float) -> Lanes:
        """min(x, high); NaN stays."""
        return Lanes(self.code, self.code.clamp_high(self.value, self.same(high).value))

    # ---------------------------------------------------------------------------------------- bits and formats

    @property
    def bits(self) -> Lanes:
        """The bits of floats as integers of the same size."""
        kind = ir.VectorType(_PAIRED_INTEGER[self.element], self.value.type.count)
        return Lanes(self.code, self.code.builder.bitcast(self.value, kind))

    @property
    def floats(self) -> Lanes:
        """The floats that have these integers as their bits."""
        kind = ir.VectorType(_PAIRED_FLOAT[self.element], self.value.type.count)
        return Lanes(self.code, self.code.builder.bitcast(self.value, kind))

    def __lshift__(self, count: int) -> Lanes:
        return self._binary("shl", "shl", count)

    def __rshift__(self, count: int) -> Lanes:
        return self._binary("lshr", "lshr", count)

    def __and__(self, other: Operand) -> Lanes:
        return self._binary("and_", "and_", other)

    def __or__(self, other: Operand) -> Lanes:
        return self._binary("or_", "or_", other)

    def __xor__(self, other: Operand) -> Lanes:
        return self._binary("xor", "xor", other)

    def __invert__(self) -> Lanes:
        return self._binary("xor", "xor", -1)

    def double(self) -> Lanes:
        """In double precision."""
        return self._cast("fpext", F64)

    def single(self) -> Lanes:
        """Rounded to single precision."""
        return self._cast("fptrunc", F32)

    def to_float(self, element: ir.Type) -> Lanes:
        """Signed integers as floats; 32-bit ones alone have an instruction on every processor."""
        return self._cast("sitofp", element)

    def to_integer(self, element: ir.Type) -> Lanes:
        """Integers of fewer bits: the lowest ones."""
        return self._cast("trunc", element)

    def _cast(self, operation: str, element: ir.Type) -> Lanes:
        kind = ir.VectorType(element, self.value.type.count)
        return Lanes(self.code, getattr(self.code.builder, operation)(self.value, kind))

    # ---------------------------------------------------------------------------------------- comparisons

    def _compare(self, operator: str, other: Operand) -> Lanes:
        builder, right = self.code.builder, self.same(other).value
        if self.element in _FORMATS:
            return Lanes(self.code, builder.fcmp_ordered(operator, self.value, right))
        return Lanes(self.code, builder.icmp_signed(operator, self.value, right))

    def __lt__(self, other: Operand) -> Lanes:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> Lanes:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> Lanes:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> Lanes:
        return self._compare(">=", other)

    def equals(self, other: Operand) -> Lanes:
        """x == y"""
        return self._compare("==", other)

    def differs(self, other: Operand) -> Lanes:
        """x != y; true for NaN"""
        return Lanes(self.code, self.code.builder.fcmp_unordered("!=", self.value, self.same(other).value))

    def is_negative(self) -> Lanes:
        """Whether the sign bit is set: -0 and NaN have one too."""
        return self.bits < 0

    def choose(self, yes: Operand, no: Operand) -> Lanes:
        """Bools: `yes` where true, `no` elsewhere. One of the two has to be a vector."""
        like = yes if isinstance(yes, Lanes) else cast(Lanes, no)
        return Lanes(self.code, self.code.builder.select(self.value, like.same(yes).value, like.same(no).value))

    def any(self) -> ir.Value:
        """Bools: whether one of them is true, as an i1."""
        packed = self.code.builder.bitcast(self.value, ir.IntType(self.value.type.count))
        return self.code.builder.icmp_unsigned("!=", packed, ir.Constant(packed.type, 0))


Operand: TypeAlias = "Lanes | float"


def fma(a: Operand, b: Operand, c: Operand) -> Lanes:
    """a * b + c, rounded once where the target can, else twice."""
    like = next(x for x in (a, b, c) if isinstance(x, Lanes))
    return Lanes(like.code, like.code.fma(like.same(a).value, like.same(b).value, like.same(c).value))


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """c0 + c1 x + c2 x^2 + …, by Horner's rule."""
    result = x.same(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        result = fma(result, x, coefficient)
    return result


def float_as_bits(number: float, element: ir.Type) -> int:
    """The bits of a number in a format, as an integer."""
    code = {F32: "<fI", F64: "<dQ"}[element]
    return cast(int, struct.unpack("<" + code[2], struct.pack(code[:2], number))[0])


def constant_table(code: Code, name: str, numbers: Sequence[float]) -> Any:
    """A pointer to doubles in read-only memory; one table a module, by name."""
    found = code.module.globals.get(name)
    if found is None:
        kind = ir.ArrayType(F64, len(numbers))
        found = ir.GlobalVariable(code.module, kind, name)
        found.linkage, found.global_constant = "internal", True
        found.initializer = ir.Constant(kind, [ir.Constant(F64, number) for number in numbers])
    return found


def gather(pointer: Any, indices: Lanes) -> Lanes:
    """The doubles of a table at 32-bit indices."""
    code, count = indices.code, indices.value.type.count
    element = ir.VectorType(F64, count)
    result = ir.Constant(element, ir.Undefined)
    for lane in range(count):
        place = ir.Constant(I32, lane)
        index = code.builder.sext(code.builder.extract_element(indices.value, place), I64)
        number = code.builder.load(code.at(pointer, index, F64), typ=F64, align=8)
        result = code.builder.insert_element(result, number, place)
    return Lanes(code, result)


__all__ = [
    "F32",
    "F64",
    "I1",
    "I32",
    "I64",
    "Format",
    "Lanes",
    "Operand",
    "constant_table",
    "fma",
    "gather",
    "polynomial",
]
