"""Operations that are layers: what they mean is the layer's `forward`, their gradients are its `derivative`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import Array, DType, widen
from ...errors import InputError, KuiperError, ModelFileError
from ...layers import base
from ...layers.binding import convert, signature_of
from ..operation import ArrayOperation, Context


@functools.lru_cache(maxsize=4096)
def make_layer(type_name: str, parameters: tuple[tuple[str, Any], ...]) -> base.Layer:
    """The layer of an operator type, with these parameters; `InputError` for one of a type that it does not take."""
    registration = base.registered()[type_name]
    types = signature_of(registration.layer).field_types
    for name, value in parameters:
        if name in types and not isinstance(value, DType):
            try:
                convert(value, types[name], name)
            except ModelFileError as error:
                raise InputError(error.message) from None
    return registration.layer(type_name=type_name, **{**registration.preset, **dict(parameters)})


def apply_layer(type_name: str, arrays: Sequence[Any], **parameters: Any) -> tuple[base.Layer, tuple[Any, ...]]:
    """A layer applied to arrays in storage dtype, None for those that are missing at the end: the layer and its outputs."""
    given = list(arrays)
    while given and given[-1] is None:
        given.pop()
    try:
        layer = make_layer(type_name, tuple(parameters.items()))
        return layer, base.apply(layer, given, {})
    except KuiperError as error:
        raise error.at(type_name) from error.__cause__


class LayerOperation(ArrayOperation):
    """An operator type of the registry as an operation; it has gradients where its layer has a `derivative`."""

    def __init__(self, type_name: str, **preset: Any) -> None:
        self._type_name = type_name
        self._preset = preset
        differentiable = base.registered()[type_name].layer.is_differentiable()
        super().__init__(
            type_name.replace("::", ".").partition(".")[2],
            self._calculate,
            self._differentiate if differentiable else None,
        )

    def _calculate(self, context: Context, *arrays: Any, **parameters: Any) -> Any:
        layer, outputs = apply_layer(self._type_name, arrays, **self._preset, **parameters)
        context.saved = layer, outputs[0]
        return outputs[0] if len(outputs) == 1 else outputs

    def _differentiate(self, context: Context, gradient: Array) -> Sequence[Array | None]:
        layer, output = context.saved
        arrays = [widen(one) if isinstance(one, np.ndarray) else one for one in context.arrays]
        with np.errstate(all="ignore"):
            parts: Sequence[Array | None] = layer.derivative(widen(gradient), widen(output), context.needs, *arrays)
        return parts
