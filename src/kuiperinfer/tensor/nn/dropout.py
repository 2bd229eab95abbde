"""Dropout."""

from __future__ import annotations

from ...errors import InputError
from .. import functional as F
from ..casting import is_real
from ..tensor import Tensor
from .module import Module


class Dropout(Module):
    """Each element becomes zero with probability p, the others are divided by 1 - p; at inference nothing. (*) -> (*)"""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not is_real(p) or not 0 <= p <= 1:
            raise InputError(f"Dropout: p={p!r}; expected a probability between 0 and 1")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, training=self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
