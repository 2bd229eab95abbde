"""Dropout in all forms: at inference its input, untouched."""

from __future__ import annotations

from ..dtypes import Array, TensorSpec
from ..errors import InputError
from ..records import dataclass
from .base import Layer, register

_NAMES = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")
_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "dropoutnd", "alpha_dropout", "feature_alpha_dropout")


@register(*(f"nn.{name}" for name in _NAMES), *(f"F.{name}" for name in _FUNCTIONS))
@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """The input as it is. (*) -> (*), any dtype. torch.nn.Dropout

    `training=True` is an `InputError`: PyTorch would draw random zeros whatever mode the model is in.
    """

    training: bool = False

    widens = False
    ignored = frozenset({"p", "inplace"})

    def __post_init__(self) -> None:
        if self.training:
            raise InputError("training=True: random zeros are not supported; convert the model in eval mode")

    def infer(self, input: TensorSpec) -> TensorSpec:
        return input

    def forward(self, input: Array) -> Array:
        return input
