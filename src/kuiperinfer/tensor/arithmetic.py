"""Operators and methods of tensors that calculate."""

from __future__ import annotations


class Arithmetic:
    """The calculating half of `Tensor`."""

    __slots__ = ()
