"""The largest error of each vector function over all of float32.

    python -m tests.codegen.every_float [--only 'sin,cos'] [--targets x86-64-v2,x86-64-v4] [--step 1] [--pairs 200000000]

Functions of one argument are held against float64 at all 2**32 numbers (or at each `--step`-th), those of two at pairs, random
ones and such as are known to be hard. The tests take samples of these; this takes the better part of an hour. The exit code is
1 where an error is larger than the bound that `VECTOR_FUNCTIONS` states.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from kuiperinfer.codegen.vector_math import VECTOR_FUNCTIONS
from kuiperinfer.dtypes import Array
from kuiperinfer.expression import ALL_FUNCTIONS
from tests.codegen.native import TARGETS, compile_specs
from tests.codegen.ulps import Apply, errors_in_ulps, exact_values

CHUNK = 1 << 16  # numbers at a time: what they need stays in the cache
UNARY = [
    row.name
    for row in VECTOR_FUNCTIONS.values()
    if row.ulps is not None and ALL_FUNCTIONS[row.name].arity == 1 and not row.name.startswith("torch.")
]
# f(-x) = ±f(x): for those float64 is asked once for both.
MIRRORED = dict.fromkeys(["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf"], -1) | {
    "cos": 1,
    "cosh": 1,
}
BINARY = ["pow", "atan2", "logaddexp", "fmod", "remainder", "floor_divide"]


@dataclass
class Worst:
    """The largest error so far, and where it was found; results that are rounded correctly count as 0.5."""

    error: float = 0.5
    arguments: list[float] = field(default_factory=list)

    def see(self, arguments: Sequence[Array], result: Array, exact: Array) -> None:
        """Looks at the results of a chunk: closely at those alone that may be worse, told by the distance of their bits."""
        with np.errstate(over="ignore"):
            rounded = exact.astype(np.float32)
        distance = np.abs(result.view(np.int32) - rounded.view(np.int32)).view(np.uint32)
        suspicious = distance > np.uint32(math.floor(min(self.error, 1e9) - 0.5))
        suspicious &= ~(np.isnan(result) & np.isnan(rounded))
        suspects = np.flatnonzero(suspicious)
        if not suspects.size:
            return
        errors = errors_in_ulps(result[suspects], exact[suspects])
        place = int(np.argmax(errors))
        if errors[place] > self.error:
            self.error = float(errors[place])
            self.arguments = [float(argument[suspects[place]]) for argument in arguments]


# ------------------------------------------------------------------------------------------- arguments


def every_number(step: int, bits: int = 32) -> Iterator[tuple[Array]]:
    """All floats, in the order of their bits, or each `step`-th of them; with 31 `bits`, those without a sign."""
    patterns = np.arange(0, CHUNK * step, step, dtype=np.uint64)
    for start in range(0, 2**bits, CHUNK * step):
        yield (((patterns + start) & (2**bits - 1)).astype(np.uint32).view(np.float32),)


def pairs(count: int) -> Iterator[tuple[Array, Array]]:
    """`count` pairs at least: kinds of pairs in turns."""
    generator = np.random.default_rng(0)
    for number in range(-(-count // CHUNK)):
        x, y = _KINDS[number % len(_KINDS)](generator)
        yield x.astype(np.float32), y.astype(np.float32)


def _patterns(generator: np.random.Generator) -> Array:
    return generator.integers(0, 2**32, CHUNK, np.uint32).view(np.float32)


def _anything(generator: np.random.Generator) -> tuple[Array, Array]:
    return _patterns(generator), _patterns(generator)


def _powers_in_range(generator: np.random.Generator) -> tuple[Array, Array]:
    """x**y from where it underflows to where it overflows."""
    x = np.exp2(generator.uniform(-149, 128, CHUNK))
    return x, generator.uniform(-152, 130, CHUNK) / np.log2(x)


def _near_one(generator: np.random.Generator) -> tuple[Array, Array]:
    x = 1 + generator.integers(-4096, 4096, CHUNK) * 2.0**-24
    with np.errstate(divide="ignore"):
        return x, generator.uniform(-152, 130, CHUNK) / np.log2(x)


def _integers(generator: np.random.Generator) -> tuple[Array, Array]:
    """Of either sign, and halves."""
    return generator.integers(-400, 400, CHUNK) / 4, generator.integers(-100, 100, CHUNK) / 2


def _neighbours(generator: np.random.Generator) -> tuple[Array, Array]:
    """Numbers one after the other, with one second argument for all."""
    start = generator.integers(0, 2**32 - CHUNK)
    second = generator.choice(_patterns(generator)) if generator.integers(2) else generator.uniform(-40, 40)
    return (np.arange(CHUNK) + start).astype(np.uint32).view(np.float32), np.full(CHUNK, second)


def _moderate(generator: np.random.Generator) -> tuple[Array, Array]:
    return generator.uniform(-100, 100, CHUNK), generator.uniform(-100, 100, CHUNK)


def _special(generator: np.random.Generator) -> tuple[Array, Array]:
    """Zeros, infinities, NaN, the largest and the smallest numbers, beside anything."""
    info = np.finfo(np.float32)
    special = np.array(
        [0, 1, 2, 3, 0.5, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 2**24, 2**24 - 1]
    )
    chosen = generator.choice(np.concatenate([special, -special]), (2, CHUNK)).astype(np.float32)
    chosen[1, ::2] = _patterns(generator)[::2]
    return (chosen[0], chosen[1]) if generator.integers(2) else (chosen[1], chosen[0])


_KINDS: tuple[Callable[[np.random.Generator], tuple[Array, Array]], ...] = (
    _anything,
    _powers_in_range,
    _near_one,
    _integers,
    _neighbours,
    _moderate,
    _special,
)


# ------------------------------------------------------------------------------------------- the run


def measure(name: str, targets: Sequence[str], step: int, count: int) -> dict[str, Worst]:
    """The largest error of a function on each target."""
    kernels = [compile_specs([Apply(name, CHUNK)], target)[0] for target in targets]
    found = {target: Worst() for target in targets}
    result = np.empty(CHUNK, np.float32)
    mirrored = MIRRORED.get(name)
    chunks: Iterator[tuple[Array, ...]]
    chunks = pairs(count) if name in BINARY else every_number(step, 31 if mirrored else 32)
    for arguments in chunks:
        exact = exact_values(name, arguments)
        for kernel, worst in zip(kernels, found.values(), strict=True):
            kernel(*arguments, result)
            worst.see(arguments, result, exact)
            if mirrored:
                opposite = [-argument for argument in arguments]
                kernel(*opposite, result)
                worst.see(opposite, result, mirrored * exact)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints a table, and returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="*", help="names or patterns with commas between them (default: all)")
    parser.add_argument("--targets", default=",".join({TARGETS[0]: 0, TARGETS[-1]: 0}), help="default: %(default)s")
    parser.add_argument("--step", type=int, default=1, help="take each step-th number alone")
    parser.add_argument("--pairs", type=int, default=200_000_000, help="pairs for functions of two arguments")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    options = parser.parse_args(arguments)
    patterns, targets = options.only.split(","), options.targets.split(",")
    names = [name for name in UNARY + BINARY if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not names:
        parser.error(f"no function is called {options.only}")
    if unknown := [target for target in targets if target not in TARGETS]:
        parser.error(f"cannot run {', '.join(unknown)} here, only {', '.join(TARGETS)}")

    print(f"| function | bound | {' | '.join(f'{target} | at' for target in targets)} |")
    print(f"|---|--:|{'--:|---|' * len(targets)}")
    results, passed = {}, True
    for name in names:
        bound, start = VECTOR_FUNCTIONS[name].ulps, time.perf_counter()
        assert bound is not None
        found = measure(name, targets, options.step, options.pairs)
        cells = [f"{worst.error:.3f} | {', '.join(f'{x:.9g}' for x in worst.arguments)}" for worst in found.values()]
        print(f"| {name} | {bound} | {' | '.join(cells)} |", flush=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        passed &= all(worst.error <= bound for worst in found.values())
        results[name] = {target: [worst.error, *worst.arguments] for target, worst in found.items()}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
