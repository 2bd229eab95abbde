"""Tensors that are learnt."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor


class Parameter(Tensor):
    """A tensor that becomes part of the module to which it is assigned. Shares memory with the tensor it is made of."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        source = data if isinstance(data, Tensor) else Tensor(data)
        self._become(source.storage, source.dtype, source._geometry())
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
