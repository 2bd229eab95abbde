"""A thin loop and vector builder over llvmlite: what kernels are written with.

Index arithmetic folds Python ints, so that kernel code reads the same for sizes known when code is made and for loop
variables. Loops carry their accumulators as SSA values (`carried`), because no pass runs that would lift them out of memory.

    code = Code("axpy", target)
    x, y = code.pointers(2)
    def body(index, carried):
        code.store(code.fma(a, code.load(code.at(x, index)), code.load(code.at(y, index))), code.at(y, index))
        return ()
    code.loop(0, 1024, target.lanes, body)
    code.finish()
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, cast

import numpy as np
from llvmlite import ir

from .target import Target

Index: TypeAlias = "int | ir.Value"
Vector: TypeAlias = ir.Value
Body: TypeAlias = Callable[[Index, Sequence[Vector]], Sequence[Vector]]

I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
F32 = ir.FloatType()
PTR = ir.PointerType()


def float_bits(value: float) -> ir.Constant:
    """A float32 constant; infinities and NaN too."""
    return ir.Constant(F32, float(np.float32(value)))


class Code:
    """One function `void name(ptr arguments, i64 task, ptr scratch)` under construction.

    `arguments` is a table of pointers, an entry an operand; `task` says which share of the work is meant; `scratch` is
    memory of the calling thread's own.
    """

    def __init__(self, name: str, target: Target, module: ir.Module | None = None) -> None:
        self.target = target
        self.module = module if module is not None else ir.Module(name)
        if module is None:
            self.module.triple = target.triple
        self.function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [PTR, I64, PTR]), name)
        for argument in (self.function.args[0], self.function.args[2]):
            argument.add_attribute("noundef")
        self.arguments, self.task, self.scratch = self.function.args
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.vector_type = ir.VectorType(F32, target.lanes)

    def finish(self) -> ir.Module:
        """Ends the function; the module holds it."""
        self.builder.ret_void()
        return self.module

    # ---------------------------------------------------------------------------------------- index arithmetic

    def index(self, value: Index) -> ir.Value:
        """An index as an i64 value."""
        return _index_constant(value) if isinstance(value, int) else value

    def add(self, a: Index, b: Index) -> Index:
        """a + b"""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 and isinstance(a, int):
            return b
        if b == 0 and isinstance(b, int):
            return a
        return cast(Index, self.builder.add(self.index(a), self.index(b), flags=("nsw",)))

    def sub(self, a: Index, b: Index) -> Index:
        """a - b"""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        if isinstance(b, int):
            return self.add(a, -b)
        return cast(Index, self.builder.sub(self.index(a), self.index(b), flags=("nsw",)))

    def mul(self, a: Index, b: Index) -> Index:
        """a * b"""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int) and one in (0, 1):
                return 0 if one == 0 else other
        return cast(Index, self.builder.mul(self.index(a), self.index(b), flags=("nsw",)))

    def div(self, a: Index, b: int) -> Index:
        """a // b for a >= 0"""
        if isinstance(a, int):
            return a // b
        return a if b == 1 else cast(Index, self.builder.udiv(a, self.index(b)))

    def mod(self, a: Index, b: int) -> Index:
        """a % b for a >= 0"""
        if isinstance(a, int):
            return a % b
        return 0 if b == 1 else cast(Index, self.builder.urem(a, self.index(b)))

    def divmod(self, a: Index, b: int) -> tuple[Index, Index]:
        """(a // b, a % b) for a >= 0"""
        return self.div(a, b), self.mod(a, b)

    def min(self, a: Index, b: Index) -> Index:
        """The smaller of two indices."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        a, b = self.index(a), self.index(b)
        return cast(Index, self.builder.select(self.builder.icmp_signed("<", a, b), a, b))

    def max(self, a: Index, b: Index) -> Index:
        """The larger of two indices."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        a, b = self.index(a), self.index(b)
        return cast(Index, self.builder.select(self.builder.icmp_signed(">", a, b), a, b))

    # ---------------------------------------------------------------------------------------- memory

    def pointers(self, count: int) -> list[ir.Value]:
        """The first `count` operands."""
        return [
            self.builder.load(
                self.builder.gep(self.arguments, [ir.Constant(I64, i)], source_etype=PTR), typ=PTR, align=8
            )
            for i in range(count)
        ]

    def at(self, pointer: ir.Value, offset: Index, element: ir.Type = F32) -> ir.Value:
        """The pointer `offset` elements further (float32 unless told otherwise)."""
        if isinstance(offset, int) and offset == 0:
            return pointer
        return self.builder.gep(pointer, [self.index(offset)], source_etype=element)

    def load(self, pointer: ir.Value, lanes: int | None = None, align: int = 4) -> Vector:
        """`lanes` consecutive floats (a whole vector unless told otherwise)."""
        kind = self.vector_type if lanes is None else ir.VectorType(F32, lanes)
        return self.builder.load(pointer, typ=kind, align=align)

    def load_float(self, pointer: ir.Value) -> ir.Value:
        """One float."""
        return self.builder.load(pointer, typ=F32, align=4)

    def store(self, value: ir.Value, pointer: ir.Value, align: int = 4) -> None:
        """Stores a vector or a float."""
        self.builder.store(value, pointer, align=align)

    def stream(self, value: Vector, pointer: ir.Value) -> None:
        """Stores a whole vector at an address that is a multiple of its size, past the caches."""
        element = value.type.element
        size = element.width // 8 if isinstance(element, ir.IntType) else 4
        store = self.builder.store(value, pointer, align=value.type.count * size)
        store.set_metadata("nontemporal", self.module.add_metadata([ir.Constant(I32, 1)]))

    def load_first(self, pointer: ir.Value, count: Index, fill: float = 0.0, element: ir.Type = F32) -> Vector:
        """The first `count` elements of a vector (of floats unless told otherwise), the other lanes `fill`.

        Memory beyond is not touched.
        """
        lanes, mask = self.target.lanes, self.mask(count)
        kind = ir.VectorType(element, lanes)
        filling = self.splat(fill) if element == F32 else ir.Constant(kind, [ir.Constant(element, int(fill))] * lanes)
        signature = ir.FunctionType(kind, [PTR, I32, mask.type, kind])
        name = f"llvm.masked.load.v{lanes}{_short(element)}.p0"
        return self.builder.call(self._intrinsic(name, signature), [pointer, _alignment(element), mask, filling])

    def store_first(self, value: Vector, pointer: ir.Value, count: Index) -> None:
        """Stores the first `count` lanes."""
        mask = self.mask(count)
        name = f"llvm.masked.store.v{self.target.lanes}{_short(value.type.element)}.p0"
        signature = ir.FunctionType(ir.VoidType(), [value.type, PTR, I32, mask.type])
        self.builder.call(self._intrinsic(name, signature), [value, pointer, _alignment(value.type.element), mask])

    def prefetch(self, pointer: ir.Value, *, soon: bool = True) -> None:
        """Asks for the cache line of an address, which need not be one that may be read; into the first cache where `soon`."""
        kind = ir.FunctionType(ir.VoidType(), [PTR, I32, I32, I32])
        read, keep, data = (ir.Constant(I32, number) for number in (0, 3 if soon else 1, 1))
        self.builder.call(self._intrinsic("llvm.prefetch.p0", kind), [pointer, read, keep, data])

    def mask(self, count: Index) -> ir.Value:
        """A vector of bools, true in the first `count` lanes."""
        lanes = self.target.lanes
        if isinstance(count, int):
            return ir.Constant(ir.VectorType(I1, lanes), [ir.Constant(I1, int(i < count)) for i in range(lanes)])
        wide = ir.VectorType(I32, lanes)
        steps = ir.Constant(wide, [ir.Constant(I32, i) for i in range(lanes)])
        return self.builder.icmp_signed("<", steps, self.broadcast(self.builder.trunc(count, I32)))

    # ---------------------------------------------------------------------------------------- vectors

    def splat(self, value: float) -> Vector:
        """A constant in every lane."""
        return splat_constant(F32, self.target.lanes, float(np.float32(value)))

    def broadcast(self, scalar: ir.Value) -> Vector:
        """A scalar in every lane."""
        undefined, zero, zeros = _for_broadcast(scalar.type, self.target.lanes)
        return self.builder.shuffle_vector(self.builder.insert_element(undefined, scalar, zero), undefined, zeros)

    def load_splat(self, pointer: ir.Value) -> Vector:
        """One float of memory in every lane."""
        return self.broadcast(self.load_float(pointer))

    def fma(self, a: Vector, b: Vector, c: Vector) -> Vector:
        """a * b + c, rounded once where the target can, else twice."""
        if not self.target.fma:
            return self.builder.fadd(self.builder.fmul(a, b), c)
        return self.call(self.overloaded("fma", a.type), a, b, c)

    @staticmethod
    def overloaded(intrinsic: str, kind: ir.Type) -> str:
        """The full name of an LLVM intrinsic for floats, doubles or vectors of these."""
        if isinstance(kind, ir.VectorType):
            return f"llvm.{intrinsic}.v{kind.count}{_short(kind.element)}"
        return f"llvm.{intrinsic}.{_short(kind)}"

    def call(self, intrinsic: str, *arguments: ir.Value) -> ir.Value:
        """An intrinsic whose result has the type of its first argument."""
        function = self.module.globals.get(intrinsic)
        if function is None:
            kind = ir.FunctionType(arguments[0].type, [argument.type for argument in arguments])
            function = ir.Function(self.module, kind, intrinsic)
        return self.builder.call(function, arguments)

    def maximum(self, a: Vector, b: Vector) -> Vector:
        """The larger; NaN if either is NaN, as PyTorch has it. One instruction where one of them is a known number."""
        for constant, other in ((a, b), (b, a)):
            if _is_number(constant):
                return self.clamp_low(other, constant)
        b_or_nan = self.builder.fcmp_unordered("ule", a, b)  # a <= b, or one is NaN
        larger = self.builder.select(b_or_nan, b, a)
        return self.builder.select(self.builder.fcmp_unordered("uno", a, a), a, larger)

    def minimum(self, a: Vector, b: Vector) -> Vector:
        """The smaller; NaN if either is NaN."""
        for constant, other in ((a, b), (b, a)):
            if _is_number(constant):
                return self.clamp_high(other, constant)
        b_or_nan = self.builder.fcmp_unordered("uge", a, b)
        smaller = self.builder.select(b_or_nan, b, a)
        return self.builder.select(self.builder.fcmp_unordered("uno", a, a), a, smaller)

    def clamp_low(self, x: Vector, low: Vector) -> Vector:
        """max(x, low) for a `low` that is no NaN: one instruction, NaN of x kept."""
        return self.builder.select(self.builder.fcmp_ordered("<", x, low), low, x)

    def clamp_high(self, x: Vector, high: Vector) -> Vector:
        """min(x, high) for a `high` that is no NaN."""
        return self.builder.select(self.builder.fcmp_ordered(">", x, high), high, x)

    def transpose(self, rows: Sequence[Vector]) -> list[Vector]:
        """The transpose of a square of lanes × lanes floats held in vectors."""
        lanes, current = self.target.lanes, list(rows)
        assert len(rows) == lanes
        distance = 1
        while distance < lanes:  # exchange off-diagonal squares of growing size
            following = list(current)
            for low in range(lanes):
                if low & distance:
                    continue
                high = low | distance
                for row, other, shift in ((low, high, 0), (high, low, distance)):
                    indices = []
                    for lane in range(lanes):
                        own = bool(lane & distance) == bool(shift)
                        indices.append(lane if own else lanes + (lane ^ distance))
                    mask = ir.Constant(ir.VectorType(I32, lanes), [ir.Constant(I32, i) for i in indices])
                    following[row] = self.builder.shuffle_vector(current[row], current[other], mask)
            current, distance = following, distance * 2
        return current

    def _intrinsic(self, name: str, kind: ir.FunctionType) -> ir.Function:
        found = self.module.globals.get(name)
        return found if found is not None else ir.Function(self.module, kind, name)

    # ---------------------------------------------------------------------------------------- control flow

    def loop(
        self,
        start: Index,
        stop: Index,
        step: int,
        body: Body,
        carried: Sequence[Vector] = (),
        *,
        at_least_once: bool = False,
    ) -> Sequence[Vector]:
        """`for index in range(start, stop, step)`; `body(index, carried)` returns the next carried values.

        Returns the last carried values. A loop of known length 0 makes no code, one of length 1 makes no jump.
        `at_least_once` promises that a loop of unknown length runs, which saves a test.
        """
        if isinstance(start, int) and isinstance(stop, int):
            if start >= stop:
                return carried
            if start + step >= stop:
                return body(start, carried)
            at_least_once = True
        entry = self.builder.block
        head = self.function.append_basic_block("loop")
        done = self.function.append_basic_block("done")
        first, last = self.index(start), self.index(stop)
        if at_least_once:
            self.builder.branch(head)
        else:
            self.builder.cbranch(self.builder.icmp_signed("<", first, last), head, done)
        self.builder.position_at_end(head)
        index = self.builder.phi(I64, "index")
        index.add_incoming(first, entry)
        values = []
        for value in carried:
            phi = self.builder.phi(value.type)
            phi.add_incoming(value, entry)
            values.append(phi)
        results = body(index, values)
        following = self.builder.add(index, ir.Constant(I64, step), flags=("nsw",))
        tail = self.builder.block
        self.builder.cbranch(self.builder.icmp_signed("<", following, last), head, done)
        index.add_incoming(following, tail)
        for phi, result in zip(values, results, strict=True):
            phi.add_incoming(result, tail)
        self.builder.position_at_end(done)
        if at_least_once:
            return results
        outs = []
        for value, result in zip(carried, results, strict=True):
            out = self.builder.phi(value.type)
            out.add_incoming(value, entry)
            out.add_incoming(result, tail)
            outs.append(out)
        return outs

    @contextlib.contextmanager
    def within(self, function: ir.Function) -> Iterator[None]:
        """Code that goes into another function of the module, from its first block on."""
        before = self.function, self.builder
        self.function, self.builder = function, ir.IRBuilder(function.append_basic_block("entry"))
        yield
        self.function, self.builder = before

    @contextlib.contextmanager
    def when(self, condition: ir.Value) -> Iterator[None]:
        """Code that runs only where `condition` (an i1) holds."""
        inside = self.function.append_basic_block("when")
        after = self.function.append_basic_block("after")
        self.builder.cbranch(condition, inside, after)
        self.builder.position_at_end(inside)
        yield
        self.builder.branch(after)
        self.builder.position_at_end(after)

    def less(self, a: Index, b: Index) -> ir.Value:
        """a < b as an i1."""
        return self.builder.icmp_signed("<", self.index(a), self.index(b))


def splat_constant(element: ir.Type, lanes: int, number: float) -> ir.Constant:
    """A vector with a number in every lane. Made once: LLVM's text of it is long."""
    return _splat_constant(element, lanes, number, math.copysign(1.0, number))


@functools.lru_cache(maxsize=4096)
def _index_constant(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


@functools.cache
def _for_broadcast(element: ir.Type, lanes: int) -> tuple[ir.Constant, ir.Constant, ir.Constant]:
    """An undefined vector, 0, and a vector of zeros."""
    zeros = ir.Constant(ir.VectorType(I32, lanes), None)
    return ir.Constant(ir.VectorType(element, lanes), ir.Undefined), ir.Constant(I32, 0), zeros


@functools.lru_cache(maxsize=4096)
def _splat_constant(element: ir.Type, lanes: int, number: float, sign: float) -> ir.Constant:
    return ir.Constant(ir.VectorType(element, lanes), [ir.Constant(element, number)] * lanes)


def _short(element: ir.Type) -> str:
    """How the names of LLVM's intrinsics spell a type."""
    if isinstance(element, ir.IntType):
        return f"i{element.width}"
    return "f64" if element == ir.DoubleType() else "f32"


def _alignment(element: ir.Type) -> ir.Constant:
    return ir.Constant(I32, element.width // 8 if isinstance(element, ir.IntType) else 4)


def _is_number(value: ir.Value) -> bool:
    """Whether a vector is constant and without NaN."""
    if not isinstance(value, ir.Constant) or not isinstance(value.constant, list):
        return False
    return all(lane.constant == lane.constant for lane in value.constant)
