"""What a machine can do at most: kernels that do nothing but fused multiply-adds, and nothing but copying.

Their rates are what all others are held against.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...records import dataclass
from ..builder import Code, Index, Vector
from ..spec import KernelSpec

_UNROLL = 4


@dataclass(frozen=True)
class MultiplyAddPeakSpec(KernelSpec):
    """Multiply-adds on registers alone. Argument: one vector. A task is `turns` turns of a loop.

    There are more chains of them than are needed to hide their latency (4 cycles, 2 to 4 units).
    """

    shares: int
    turns: int
    chains: int
    lanes: int

    @property
    def tasks(self) -> int:
        return self.shares

    @property
    def flops(self) -> int:
        return 2 * self.shares * self.turns * _UNROLL * self.chains * self.lanes

    def emit(self, code: Code) -> None:
        (memory,) = code.pointers(1)
        start = code.load(memory)
        factor, summand = code.splat(0.5), code.splat(1.0)  # tends to 2: neither grows nor becomes subnormal

        def turn(_: Index, values: Sequence[Vector]) -> Sequence[Vector]:
            for _step in range(_UNROLL):
                values = [code.fma(value, factor, summand) for value in values]
            return values

        values = list(code.loop(0, self.turns, 1, turn, [start] * self.chains))
        total = values[0]
        for value in values[1:]:
            total = code.builder.fadd(total, value)
        code.store(total, code.at(memory, 0))


@dataclass(frozen=True)
class CopyPeakSpec(KernelSpec):
    """A copy of `floats` floats. Arguments: source, destination. A task is `run` of them, a multiple of four vectors."""

    floats: int
    run: int

    @property
    def tasks(self) -> int:
        return self.floats // self.run

    @property
    def traffic(self) -> int:
        return 8 * self.floats

    def emit(self, code: Code) -> None:
        source, target = code.pointers(2)
        lanes, start = code.target.lanes, code.mul(code.task, self.run)
        source, target = code.at(source, start), code.at(target, start)

        def vectors(index: Index, _: Sequence[Vector]) -> Sequence[Vector]:
            values = [code.load(code.at(source, code.add(index, i * lanes))) for i in range(_UNROLL)]
            for i, value in enumerate(values):
                code.store(value, code.at(target, code.add(index, i * lanes)))
            return ()

        code.loop(0, self.run, _UNROLL * lanes, vectors)
