"""Left-over arithmetic: `aten::` operators that the converter did not make part of an expression.

All arguments of PyTorch's schema are inputs, and what comes out is a formula of them. The left-over operators that are no
arithmetic are registered in their families, under their `aten::` names too.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..errors import ModelFileError
from ..expression import Expression, evaluate, infer, parse
from .base import Layer, Spec, Value, register

_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round rsqrt sign "
    "sin sinh sqrt square tan tanh trunc"
)
_BINARY = "atan2 floor_divide fmod logaddexp mul pow remainder"
_OPERATORS = "and or xor lshift rshift"

# The formula of each operator by the number of its inputs. A scale of `add` and `sub` is the third.
FORMULAS: dict[str, Mapping[int, str]] = {
    **{f"aten::{name}": {1: f"{name}(@0)"} for name in _UNARY.split()},
    **{f"aten::{name}": {2: f"{name}(@0,@1)"} for name in _BINARY.split()},
    **{f"aten::__{name}__": {2: f"{name}(@0,@1)"} for name in _OPERATORS.split()},
    "aten::floordiv": {2: "floor_divide(@0,@1)"},
    "aten::add": {2: "add(@0,@1)", 3: "add(@0,mul(@1,@2))"},
    "aten::sub": {2: "sub(@0,@1)", 3: "sub(@0,mul(@1,@2))"},
    "aten::rsub": {2: "sub(@1,@0)", 3: "sub(@1,mul(@0,@2))"},
}


@functools.cache
def _parsed(formula: str) -> Expression:
    return parse(formula)


@register(*FORMULAS)
@dataclass(frozen=True, kw_only=True)
class Arithmetic(Layer):
    """A formula over tensors and numbers: see `FORMULAS`."""

    widens: ClassVar[bool] = False

    def infer(self, *inputs: Spec) -> Spec:
        return infer(self._formula(inputs), inputs)

    def forward(self, *inputs: Value) -> Value:
        return evaluate(self._formula(inputs), inputs)

    def _formula(self, inputs: tuple[Value, ...]) -> Expression:
        formulas = FORMULAS[self.type_name]
        found = len(inputs)
        if found == 3 and type(inputs[2]) is int and inputs[2] == 1:
            found = 2  # True times 1 would be no bool any more
        if found not in formulas:
            expected = " or ".join(map(str, formulas))
            raise ModelFileError(f"{self.type_name} takes {expected} inputs, found {found}")
        return _parsed(formulas[found])
