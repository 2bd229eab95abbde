"""KuiperInfer runs PyTorch models, converted to PNNX, on a CPU.

model = kuiperinfer.load("resnet18.pnnx.param")    # the .bin beside it is found
y = model(x)                                       # arrays in, fresh arrays out
"""

from . import dtypes, pnnx
from .dtypes import DType, TensorSpec
from .errors import (
    CompileError,
    DTypeError,
    ExpressionError,
    InputError,
    KuiperError,
    ModelFileError,
    ResourceLimitError,
    ShapeError,
    UnsupportedOperatorError,
)
from .graph import LayerRegisterer, RuntimeAttribute, RuntimeGraph, RuntimeOperand, RuntimeOperator, RuntimeParameter
from .layers import Layer, register, unregister
from .runtime import Model, ValueInfo, load
from .settings import settings
from .version import __version__

__all__ = [
    "load",
    "Model",
    "ValueInfo",
    "settings",
    "Layer",
    "register",
    "unregister",
    "DType",
    "TensorSpec",
    "dtypes",
    "pnnx",
    "RuntimeGraph",
    "RuntimeOperator",
    "RuntimeOperand",
    "RuntimeParameter",
    "RuntimeAttribute",
    "LayerRegisterer",
    "KuiperError",
    "ModelFileError",
    "ExpressionError",
    "UnsupportedOperatorError",
    "ShapeError",
    "DTypeError",
    "InputError",
    "CompileError",
    "ResourceLimitError",
    "__version__",
]
