"""Random chains of reshapes, permutations, slices, joins, padding and convolutions, against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codegen.native import TARGETS
from tests.codegen.running import check_graph, random

OPEN = 2147483647


class Chain:
    """Operators that are drawn one after the other, and the shapes of what they make."""

    def __init__(self, data: Any, shapes: list[tuple[int, ...]]) -> None:
        self.data = data
        self.lines: list[tuple[Any, ...]] = []
        self.shapes = {f"x{i}": shape for i, shape in enumerate(shapes)}

    def draw(self, strategy: Any) -> Any:
        return self.data.draw(strategy)

    def add(self, kind: str, inputs: str, shape: Any, params: Any = None, weights: Any = None) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append((kind, name, inputs, name, params or {}, weights or {}))
        self.shapes[name] = tuple(shape)
        return name

    def step(self) -> None:
        """One more operator of a tensor that is there."""
        source = self.draw(st.sampled_from(sorted(self.shapes)))
        shape = self.shapes[source]
        options = [self.reshape, self.permute, self.slice, self.select, self.concatenate, self.pad, self.flip, self.map]
        options += [self.softmax, self.linear, self.stack, self.repeat]
        if len(shape) > 2:
            options += [self.convolve, self.convolve]
        if len(shape) == 4:
            options += [self.pool, self.split, self.resize, self.transposed, self.prelu]
        self.draw(st.sampled_from(options))(source, shape)

    def reshape(self, source: str, shape: tuple[int, ...]) -> None:
        factors = [size for size in shape if size > 1] or [1]
        cut = self.draw(st.integers(1, len(factors)))
        target = [*factors[:cut], int(np.prod(factors[cut:]))] if cut < len(factors) else factors
        target = [1] * self.draw(st.integers(0, 4 - len(target))) + target if len(target) < 4 else target
        self.add("Tensor.reshape", source, target, {"shape": tuple(target)})

    def permute(self, source: str, shape: tuple[int, ...]) -> None:
        order = tuple(self.draw(st.permutations(range(len(shape)))))
        self.add("Tensor.permute", source, [shape[dim] for dim in order], {"dims": order})

    def slice(self, source: str, shape: tuple[int, ...]) -> None:
        dim = self.draw(st.integers(0, len(shape) - 1))
        start = self.draw(st.integers(0, shape[dim] - 1))
        step = self.draw(st.integers(1, 3))
        end = self.draw(st.sampled_from([OPEN, start + 1, shape[dim]]))
        count = len(range(shape[dim])[start:end:step])
        params = {"dim": dim, "start": start, "end": end, "step": step}
        self.add("Tensor.slice", source, [*shape[:dim], count, *shape[dim + 1 :]], params)

    def select(self, source: str, shape: tuple[int, ...]) -> None:
        if len(shape) > 1:
            dim = self.draw(st.integers(0, len(shape) - 1))
            index = self.draw(st.integers(-shape[dim], shape[dim] - 1))
            self.add("Tensor.select", source, [*shape[:dim], *shape[dim + 1 :]], {"dim": dim, "index": index})

    def concatenate(self, source: str, shape: tuple[int, ...]) -> None:
        dim = self.draw(st.integers(0, len(shape) - 1))

        def fits(other: tuple[int, ...]) -> bool:
            return len(other) == len(shape) and all(
                a == b for i, (a, b) in enumerate(zip(other, shape, strict=True)) if i != dim
            )

        fitting = sorted(name for name, other in self.shapes.items() if fits(other))
        names = self.draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=3))
        total = sum(self.shapes[name][dim] for name in names)
        if total <= 64:
            self.add("torch.cat", " ".join(names), [*shape[:dim], total, *shape[dim + 1 :]], {"dim": dim})

    def split(self, source: str, shape: tuple[int, ...]) -> None:
        if shape[1] < 2:
            return
        first = self.draw(st.integers(1, shape[1] - 1))
        if self.draw(st.booleans()) and shape[1] > 16:
            first = 16
        names = [f"t{len(self.lines)}a", f"t{len(self.lines)}b"]
        sizes = (first, shape[1] - first)
        params = {"split_size_or_sections": sizes, "dim": 1}
        self.lines.append(("torch.split", names[0], source, " ".join(names), params, {}))
        for name, size in zip(names, sizes, strict=True):
            self.shapes[name] = (shape[0], size, *shape[2:])

    def pad(self, source: str, shape: tuple[int, ...]) -> None:
        before, after = self.draw(st.integers(-1, 2)), self.draw(st.integers(0, 2))
        above = self.draw(st.integers(0, 1)) if len(shape) > 1 else 0
        if shape[-1] + before + after < 1:
            return
        amounts = (before, after, above, 0)[: 2 * min(len(shape), 2)]
        target = (
            [*shape[:-2], shape[-2] + above, shape[-1] + before + after]
            if len(shape) > 1
            else [shape[-1] + before + after]
        )
        value = self.draw(st.sampled_from([0.0, 1.5]))
        self.add("F.pad", source, target, {"pad": amounts, "mode": "constant", "value": value})

    def flip(self, source: str, shape: tuple[int, ...]) -> None:
        dims = tuple(self.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
        self.add("torch.flip", source, shape, {"dims": dims})

    def map(self, source: str, shape: tuple[int, ...]) -> None:
        same = sorted(name for name, other in self.shapes.items() if other == shape)
        other = self.draw(st.sampled_from(same))
        self.add("pnnx.Expression", f"{source} {other}", shape, {"expr": "add(mul(@0,0.5),mul(@1,0.25))"})

    def convolve(self, source: str, shape: tuple[int, ...]) -> None:
        filters, size = self.draw(st.sampled_from([1, 5, 16, 32, 40])), self.draw(st.sampled_from([1, 3]))
        ndim = len(shape) - 2
        weight = random(filters, shape[1], *[size] * ndim) / np.float32(size * shape[1] ** 0.5)
        params = {"bias": False, "padding": (size // 2,) * ndim, "groups": 1}
        self.add(f"nn.Conv{ndim}d", source, (shape[0], filters, *shape[2:]), params, {"weight": weight})

    def transposed(self, source: str, shape: tuple[int, ...]) -> None:
        if max(shape[2:]) > 24:
            return
        filters, size = self.draw(st.sampled_from([3, 16])), self.draw(st.sampled_from([2, 3]))
        weight = random(shape[1], filters, size, size) / np.float32(size * shape[1] ** 0.5)
        target = (shape[0], filters, *(2 * (n - 1) + size for n in shape[2:]))
        self.add(
            "nn.ConvTranspose2d", source, target, {"bias": False, "stride": (2, 2), "groups": 1}, {"weight": weight}
        )

    def resize(self, source: str, shape: tuple[int, ...]) -> None:
        target = (self.draw(st.integers(1, 9)), self.draw(st.integers(1, 9)))
        params = {"size": target, "mode": self.draw(st.sampled_from(["nearest", "bilinear", "area"]))}
        self.add("F.interpolate", source, (*shape[:2], *target), params)

    def prelu(self, source: str, shape: tuple[int, ...]) -> None:
        self.add("nn.PReLU", source, shape, {}, {"weight": random(shape[1])})

    def softmax(self, source: str, shape: tuple[int, ...]) -> None:
        self.add("F.softmax", source, shape, {"dim": self.draw(st.integers(0, len(shape) - 1))})

    def linear(self, source: str, shape: tuple[int, ...]) -> None:
        features = self.draw(st.sampled_from([1, 7, 16, 20]))
        weight = random(features, shape[-1]) / np.float32(shape[-1] ** 0.5)
        self.add("nn.Linear", source, (*shape[:-1], features), {"bias": False}, {"weight": weight})

    def stack(self, source: str, shape: tuple[int, ...]) -> None:
        same = sorted(name for name, other in self.shapes.items() if other == shape)
        if len(shape) < 4:
            names = self.draw(st.lists(st.sampled_from(same), min_size=1, max_size=3))
            dim = self.draw(st.integers(0, len(shape)))
            self.add("torch.stack", " ".join(names), [*shape[:dim], len(names), *shape[dim:]], {"dim": dim})

    def repeat(self, source: str, shape: tuple[int, ...]) -> None:
        if np.prod(shape) < 2000:
            sizes = tuple(self.draw(st.integers(1, 2)) for _ in shape)
            self.add("Tensor.repeat", source, [a * b for a, b in zip(shape, sizes, strict=True)], {"sizes": sizes})

    def pool(self, source: str, shape: tuple[int, ...]) -> None:
        params = {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)}
        self.add("nn.MaxPool2d", source, shape, params)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_chains(data: Any) -> None:
    shapes = data.draw(st.sampled_from([[(2, 16, 4, 5)], [(1, 32, 3, 4), (1, 16, 3, 4)], [(3, 4, 5)], [(1, 3, 6, 20)]]))
    chain = Chain(data, shapes)
    for _ in range(data.draw(st.integers(2, 8))):
        chain.step()
    outputs = data.draw(st.lists(st.sampled_from(sorted(chain.shapes)), min_size=1, max_size=3, unique=True))
    inputs = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    target = data.draw(st.sampled_from(TARGETS))
    threads = data.draw(st.sampled_from([1, 2]))
    check_graph(inputs, chain.lines, outputs, targets=[target], threads=threads, compiled=False)
