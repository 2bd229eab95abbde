"""The layers that passes make: a layer with an element-wise expression of its result."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from .. import expression
from ..dtypes import Array, TensorSpec
from ..expression import Expression as Tree
from ..expression import evaluate, infer
from ..layers.base import Layer
from ..records import dataclass


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Tree:
    """A tree of an expression that passes made: all functions of the table, not PNNX's alone."""
    return expression.parse(text, internal=True)


@dataclass(frozen=True, kw_only=True)
class Map(Layer):
    """An element-wise expression `text` of its inputs: what activations and arithmetic become."""

    widens: ClassVar[bool] = False

    text: str

    @property
    def tree(self) -> Tree:
        """The expression."""
        return parse(self.text)

    def infer(self, *inputs: Any) -> Any:
        return infer(self.tree, inputs)

    def forward(self, *inputs: Any) -> Any:
        return evaluate(self.tree, inputs)


@dataclass(frozen=True, kw_only=True)
class Fused(Layer):
    """`base`, then the expression `text` of its result (`@0`) and of further operands (`@1`…, given as `extra1`…)."""

    base: Layer
    text: str

    def _split(self, named: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        extras = sorted((name for name in named if name.startswith("extra")), key=lambda name: int(name[5:]))
        return {name: value for name, value in named.items() if name not in extras}, [named[name] for name in extras]

    def infer(self, *arguments: Any, **named: Any) -> TensorSpec:
        base_named, extras = self._split(named)
        result = self.base.infer(*arguments, **base_named)
        return infer(parse(self.text), [result, *extras])

    def forward(self, *arguments: Any, **named: Any) -> Array:
        base_named, extras = self._split(named)
        result = self.base.forward(*arguments, **base_named)
        return evaluate(parse(self.text), [result, *extras])
