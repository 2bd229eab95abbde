"""KuiperInfer runs PyTorch models, converted to PNNX, on a CPU.

model = kuiperinfer.load("resnet18.pnnx.param")    # the .bin beside it is found
y = model(x)                                       # arrays in, fresh arrays out
"""

import importlib
from typing import TYPE_CHECKING, Any

from .errors import (
    CompileError,
    ConversionError,
    DTypeError,
    ExpressionError,
    GradientError,
    InputError,
    KuiperError,
    ModelFileError,
    ResourceLimitError,
    ShapeError,
    UnsupportedOperatorError,
)
from .settings import settings
from .version import __version__

if TYPE_CHECKING:
    from . import dtypes, memory, pnnx, tensor
    from .convert import from_onnx, from_torch
    from .dtypes import DType, TensorSpec
    from .graph import (
        LayerRegisterer,
        RuntimeAttribute,
        RuntimeGraph,
        RuntimeOperand,
        RuntimeOperator,
        RuntimeParameter,
    )
    from .layers import Layer, register, unregister
    from .runtime import Model, ValueInfo, load
    from .tensor import Tensor, data, init, nn, optim
    from .tensor.export import export

__all__ = [
    "load",
    "from_torch",
    "from_onnx",
    "Model",
    "ValueInfo",
    "settings",
    "Layer",
    "register",
    "unregister",
    "DType",
    "TensorSpec",
    "Tensor",
    "nn",
    "optim",
    "init",
    "data",
    "export",
    "dtypes",
    "memory",
    "pnnx",
    "tensor",
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
    "GradientError",
    "CompileError",
    "ConversionError",
    "ResourceLimitError",
    "__version__",
]

# Room -> public names in it. They are imported when they are first asked for, so that `kuiper --help`, whose code lives in
# this package too, needs neither NumPy nor the layers of all operators.
_ROOMS: dict[str, tuple[str, ...]] = {
    "dtypes": ("DType", "TensorSpec"),
    "memory": (),
    "pnnx": (),
    "expression": (),
    "layers": ("Layer", "register", "unregister"),
    "graph": (
        "LayerRegisterer",
        "RuntimeAttribute",
        "RuntimeGraph",
        "RuntimeOperand",
        "RuntimeOperator",
        "RuntimeParameter",
    ),
    "runtime": ("Model", "ValueInfo", "load"),
    "convert": ("from_onnx", "from_torch"),
    "tensor": ("Tensor",),
    "tensor.export": ("export",),
    "vision": (),
    "batch": (),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}
# Modules within a room that stand beside the rooms: `from kuiperinfer import nn, optim`.
_MODULES = {name: f"tensor.{name}" for name in ("nn", "optim", "init", "data")}


def __getattr__(name: str) -> Any:
    if name in _ROOMS or name in _MODULES:
        return importlib.import_module(f".{_MODULES.get(name, name)}", __name__)
    if name not in _ROOM_OF:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(importlib.import_module(f".{_ROOM_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
