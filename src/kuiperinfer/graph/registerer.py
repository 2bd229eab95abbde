"""`LayerRegisterer`, the course's door to the one registry of layers."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from ..layers.base import Layer, register, registered
from .parts import RuntimeOperator
from .runtime_graph import attach_layer


class LayerRegisterer:
    """Static access to the registry that `kuiperinfer.register` fills."""

    @staticmethod
    def register_creator(layer: type[Layer] | None, *types: str) -> None:
        """Makes a layer class known under operator types; `InputError` for none, for an empty type and for a taken one."""
        if layer is None:
            raise InputError("register_creator: a layer class is needed, found None")
        register(*types)(layer)

    @staticmethod
    def create_layer(operator: RuntimeOperator) -> Layer:
        """The layer of an operator; `UnsupportedOperatorError` where nobody registered its type."""
        attach_layer(operator)
        assert operator.layer is not None
        return operator.layer

    @staticmethod
    def layer_types() -> Sequence[str]:
        """All registered operator types, sorted."""
        return sorted(registered())
